"""CVXPY: any linear-programming solver that it finds, for users who already have one.

Simplex solvers come first: they end at a vertex, so the canonical answer is reproducible to 1e-6. An interior-point
solver (Clarabel) alone also gives a certified γ, but entries of negligible weight are less precise.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from typing import Any

import numpy as np

from darrm_opt.design.backends import ColdProgram, Outcome, row_scale
from darrm_opt.design.backends.highs import new_highs
from darrm_opt.design.solution import Status
from darrm_opt.errors import BackendUnavailable
from darrm_opt.noise import Array

cvxpy: Any = importlib.import_module("cvxpy")  # this module has the same name

_HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "small_matrix_value": 1e-12}
ATTEMPTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("HIGHS", {**_HIGHS, "presolve": "off"}),
    ("HIGHS", {}),  # at the tight tolerances the simplex method occasionally loses its accuracy
    ("SCIPY", {}),
    ("CLARABEL", {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}),
)
"""Solvers in order of preference, with their options; after these, all others that CVXPY finds."""

_STATUS = {
    "optimal": Status.OPTIMAL,
    "optimal_inaccurate": Status.NUMERICAL,
    "user_limit": Status.TIME_LIMIT,
    "infeasible": Status.INFEASIBLE,
    "infeasible_inaccurate": Status.INFEASIBLE,
    "unbounded": Status.UNBOUNDED,
    "unbounded_inaccurate": Status.UNBOUNDED,
}

_TIMED = ("HIGHS", "CLARABEL")


class Cvxpy(ColdProgram):
    """A growing program in CVXPY (see `Backend`); CVXPY cannot warm-start added rows, so each solve is cold."""

    def __init__(self, entries: int, tolerance: float) -> None:
        super().__init__(entries, tolerance)  # not read: each attempt has its own tolerance
        self._scale = row_scale(entries)
        solvers = cvxpy.installed_solvers()
        attempts = [(name, options) for name, options in ATTEMPTS if name in solvers]
        preferred = {name for name, _ in ATTEMPTS}
        self._attempts = attempts + [(name, {}) for name in solvers if name not in preferred]
        if not self._attempts:
            raise BackendUnavailable("backend = 'cvxpy': CVXPY finds no solver; install one, or use backend = 'highs'.")
        new_highs({})  # the first HiGHS object of a process prints, and it must not be CVXPY's

    def solve(self, weights: Array, seconds: float | None = None) -> Outcome:
        gamma = cvxpy.Variable(weights.size, bounds=[0.0, 1.0])
        privacy = [(self._rows * self._scale) @ gamma <= self._limits * self._scale] if self._limits.size else []
        problem = cvxpy.Problem(cvxpy.Maximize((weights * self._scale) @ gamma), privacy)
        for solver, options in self._attempts:
            limit = {} if seconds is None or solver not in _TIMED else {"time_limit": max(seconds, 1e-3)}
            with warnings.catch_warnings(), contextlib.suppress(cvxpy.SolverError):  # no answer: try the next solver
                warnings.simplefilter("ignore", UserWarning)  # "may be inaccurate": the status reports it
                problem.solve(solver=solver, **options, **limit)
                break
        else:
            return Outcome(Status.NUMERICAL, np.zeros(weights.size), np.zeros(self._limits.size), 0)
        status = _STATUS.get(problem.status, Status.NUMERICAL)
        if gamma.value is None:
            return Outcome(status, np.zeros(weights.size), np.zeros(self._limits.size), 0)
        multipliers = np.asarray(privacy[0].dual_value) if privacy else np.empty(0)
        return Outcome(status, np.asarray(gamma.value), multipliers, int(problem.solver_stats.num_iters or 0))
