"""Backends: linear-programming solvers, one file each, and their registry; no other file imports a solver.

A backend holds one linear program in a box [0, 1]^n that grows row by row; weights are set at each solve.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import NamedTuple, Protocol, Self

import numpy as np

from darrm_opt.design.solution import Status
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.noise import Array, Integers


class Outcome(NamedTuple):
    """Answer of a backend to a linear program, without any guarantee."""

    status: Status
    upper_half: Array  # γ(⌊K/2⌋+1..K), shape (entries,)
    multipliers: Array  # one per row in order of addition, ≥ 0 up to the solver's tolerance, shape (rows,)
    iterations: int  # simplex (or other) iterations of this solve


class BackendEntry(NamedTuple):
    """One solver of the registry."""

    class_name: str  # the class that implements `Backend`, in the module of the backend's name
    package: str  # the imported package
    requirement: str  # argument of ``pip install`` if the package is missing
    description: str  # one sentence that helps to choose


BACKENDS: dict[str, BackendEntry] = {
    "highs": BackendEntry("Highs", "highspy", "highspy", "HiGHS: the default, free, warm starts between rounds."),
    "gurobi": BackendEntry(
        "Gurobi", "gurobipy", "'darrm-opt[gurobi]'", "Gurobi: warm starts; more than 2000 rows need a full licence."
    ),
    "cvxpy": BackendEntry(
        "Cvxpy", "cvxpy", "'darrm-opt[cvxpy]'", "CVXPY: any solver that it finds; cold starts in every round."
    ),
}

MAX_SCALED_COLUMNS = 200  # largest number of variables of a program that is solved beyond a solver's own tolerance


def row_scale(columns: int) -> float:
    """Return the factor by which rows, limits and weights are multiplied for the solver."""
    # Solvers have absolute tolerances (at least 1e-10 in HiGHS, 1e-9 in Gurobi): a factor of 1024 makes them 1e-13 and
    # 1e-12 on our scale, and a power of two is exact. Rows of large programs are too nearly parallel for that.
    return 2.0**10 if columns <= MAX_SCALED_COLUMNS else 1.0


class WarmStart(NamedTuple):
    """Starting point of a program that continues another one with other variables and rows."""

    columns: Integers  # for each variable, the variable that it continues, or −1
    rows: Integers  # for each row, the row that it continues, or −1
    values: Array  # approximate values of the variables; a new one starts at the nearer end of [0, 1]


class Backend(Protocol):
    """A growing linear program: maximise weights·γ, 0 ≤ γ ≤ 1, rows·γ ≤ limits."""

    def __init__(self, entries: int, tolerance: float) -> None: ...

    def add(self, rows: Array, limits: Array) -> None:
        """Add rows·γ ≤ limits, keeping the state of earlier solves for a warm start."""

    def drop(self, rows: Integers) -> None:
        """Remove rows, given by their present indices; the other rows keep their order."""

    def continued(self, rows: Array, limits: Array, start: WarmStart) -> Backend:
        """Return a program with other variables and rows, warm if the solver allows it; this one is closed."""

    def solve(self, weights: Array, seconds: float | None = None) -> Outcome:
        """Maximise weights·γ within ``seconds`` (None: no limit)."""

    def close(self) -> None:
        """Release the solver's resources, at the latest on garbage collection; no further solve is allowed."""


class ColdProgram:
    """Rows of a program whose every solve is cold: the part of a `Backend` besides ``solve``."""

    def __init__(self, entries: int, tolerance: float) -> None:
        self._entries, self._tolerance = entries, tolerance
        self._rows, self._limits = np.empty((0, entries)), np.empty(0)

    def add(self, rows: Array, limits: Array) -> None:
        self._rows, self._limits = np.concatenate([self._rows, rows]), np.concatenate([self._limits, limits])

    def drop(self, rows: Integers) -> None:
        self._rows, self._limits = np.delete(self._rows, rows, axis=0), np.delete(self._limits, rows)

    def continued(self, rows: Array, limits: Array, start: WarmStart) -> Self:
        program = type(self)(start.columns.size, self._tolerance)
        program.add(rows, limits)
        self.close()
        return program

    def close(self) -> None:
        self._rows, self._limits = np.empty((0, self._entries)), np.empty(0)


MIN_TOLERANCE = 1e-10  # default primal and dual feasibility tolerance; the smallest that HiGHS accepts


def open_backend(name: str, entries: int, tolerance: float = MIN_TOLERANCE) -> Backend:
    """Return an empty program on the named solver; ``tolerance`` is raised to the solver's minimum."""
    if name not in BACKENDS:
        raise InvalidInput("backend", name, "one of " + ", ".join(BACKENDS))
    entry = BACKENDS[name]
    try:
        _module(entry.package)
    except ImportError as err:
        alternative = "" if name == "highs" else ", or use backend = 'highs'"
        raise BackendUnavailable(
            f"backend = {name!r} needs the package {entry.package}, which is not installed: "
            f"pip install {entry.requirement}{alternative}."
        ) from err
    backend: Backend = getattr(_module(f"{__name__}.{name}"), entry.class_name)(entries, tolerance)
    return backend


def _module(name: str) -> ModuleType:
    """Return a module without a search if it is loaded."""
    return sys.modules.get(name) or importlib.import_module(name)
