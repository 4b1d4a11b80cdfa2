"""Backends: linear-programming solvers, one file each, and their registry; no other file imports a solver.

A backend holds one growing program in a box [0, 1]^n: rows are added, weights are set at each solve.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import NamedTuple, Protocol

from darrm_opt.design.solution import Status
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.noise import Array, Integers


class Outcome(NamedTuple):
    """Answer of a backend to a linear program; no guarantee rests on it."""

    status: Status
    upper_half: Array  # γ(⌊K/2⌋+1..K) as the solver has it, shape (entries,)
    multipliers: Array  # one a row in order of addition, ≥ 0 up to the solver's tolerance, shape (rows,)
    iterations: int  # simplex (or other) iterations of this solve


class BackendEntry(NamedTuple):
    """One solver in the registry."""

    class_name: str  # the class that implements `Backend`, in the module of the backend's name
    package: str  # the package that it imports
    requirement: str  # what to give ``pip install`` if that is missing
    description: str  # one sentence for the reader who chooses


BACKENDS: dict[str, BackendEntry] = {
    "highs": BackendEntry("Highs", "highspy", "highspy", "HiGHS: the default, free, and warm between rounds."),
    "gurobi": BackendEntry(
        "Gurobi", "gurobipy", "'darrm-opt[gurobi]'", "Gurobi: warm too; more than 2000 rows need a licence of your own."
    ),
    "cvxpy": BackendEntry(
        "Cvxpy", "cvxpy", "'darrm-opt[cvxpy]'", "CVXPY: any solver that it finds; every round starts cold."
    ),
}
"""The backends by name: the one list of the product."""

MAX_SCALED_COLUMNS = 200
"""Largest number of variables for which a program is solved to more than a solver's own tolerance."""


def row_scale(columns: int) -> float:
    """Return what rows, limits and weights are multiplied by before a solver sees them."""
    # A solver's tolerances are absolute (HiGHS takes 1e-10 at least, Gurobi 1e-9): a factor of 1024 makes them 1e-13
    # and 1e-12 on our scale, and a power of two changes no digit. Large programs are too nearly parallel for that.
    return 2.0**10 if columns <= MAX_SCALED_COLUMNS else 1.0


class WarmStart(NamedTuple):
    """Where a program starts that continues another one with other variables and rows."""

    columns: Integers  # for each variable, the one that it continues, or −1
    rows: Integers  # for each row, the one that it continues, or −1
    values: Array  # of the variables, about; a new one starts at the nearer end of [0, 1]


class Backend(Protocol):
    """One linear program that grows: maximise weights·γ, 0 ≤ γ ≤ 1, rows·γ ≤ limits."""

    def __init__(self, entries: int, tolerance: float) -> None: ...

    def add(self, rows: Array, limits: Array) -> None:
        """Add rows·γ ≤ limits; the state of earlier solves is kept, so that the next starts warm."""

    def drop(self, rows: Integers) -> None:
        """Remove rows, given by their places in the present order, which the others keep."""

    def continued(self, rows: Array, limits: Array, start: WarmStart) -> Backend:
        """Return a program with other variables and rows, warm where the solver can be; this one is closed."""

    def solve(self, weights: Array, seconds: float | None = None) -> Outcome:
        """Maximise weights·γ within ``seconds`` of time (None: no limit)."""

    def close(self) -> None:
        """Give back what the solver holds, at the latest when the program is forgotten: nothing is solved any more."""


MIN_TOLERANCE = 1e-10
"""Primal and dual feasibility by default; the least HiGHS accepts."""


def open_backend(name: str, entries: int, tolerance: float = MIN_TOLERANCE) -> Backend:
    """Return an empty program on the named solver, of a feasibility within the tolerance (or the solver's least)."""
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
    """Return a module; one that is loaded is not looked for."""
    return sys.modules.get(name) or importlib.import_module(name)
