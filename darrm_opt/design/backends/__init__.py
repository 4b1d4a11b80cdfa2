"""Linear-programming solvers, one file each; the only files that import a solver.

A backend holds one growing program in a box [0, 1]^n: rows are added, weights are set at each solve.
"""

from __future__ import annotations

import importlib
from typing import Protocol

from darrm_opt.design.program import Outcome
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.noise import Array

BACKENDS = {"highs": "Highs", "gurobi": "Gurobi", "cvxpy": "Cvxpy"}
"""Backend names and the class in the module of that name."""

_PACKAGES = {
    "highs": ("highspy", "highspy"),
    "gurobi": ("gurobipy", "'darrm-opt[gurobi]'"),
    "cvxpy": ("cvxpy", "cvxpy"),
}
"""The package that each needs, and what to install for it."""

SHARP_COLUMNS = 200
"""Largest number of variables for which a program is solved to more than a solver's own tolerance."""


def row_scale(columns: int) -> float:
    """Return what rows, limits and weights are multiplied by before a solver sees them.

    A solver's tolerances are absolute (HiGHS takes 1e-10 at least, Gurobi 1e-9): a factor of 1024 makes them 1e-13 and
    1e-12 on our scale, and a power of two changes no digit. Large programs are too nearly parallel for that.
    """
    return 2.0**10 if columns <= SHARP_COLUMNS else 1.0


class Backend(Protocol):
    """One linear program that grows: maximise weights·γ, 0 ≤ γ ≤ 1, rows·γ ≤ limits."""

    def __init__(self, entries: int) -> None: ...

    def add(self, rows: Array, limits: Array) -> None:
        """Add rows·γ ≤ limits; what was learnt from earlier solves is kept."""

    def solve(self, weights: Array, seconds: float | None = None) -> Outcome:
        """Maximise weights·γ within ``seconds`` of time (None: no limit)."""


def open_backend(name: str, entries: int) -> Backend:
    """Return an empty program on the named solver.

    Raises:
        InvalidInput: unknown name.
        BackendUnavailable: the solver is not installed, or has no licence.
    """
    if name not in BACKENDS:
        raise InvalidInput("backend", name, "one of " + ", ".join(BACKENDS))
    package, install = _PACKAGES[name]
    try:
        importlib.import_module(package)
    except ImportError as err:
        other = "" if name == "highs" else ", or use backend = 'highs'"
        raise BackendUnavailable(
            f"backend = {name!r} needs the package {package}, which is not installed: pip install {install}{other}."
        ) from err
    module = importlib.import_module(f"{__name__}.{name}")
    backend: Backend = getattr(module, BACKENDS[name])(entries)
    return backend
