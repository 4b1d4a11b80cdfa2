"""Gurobi through gurobipy, optional. Its bundled licence covers 2000 rows, enough for the cutting-plane method."""

from __future__ import annotations

import gurobipy
import numpy as np

from darrm_opt.design.backends import Outcome, WarmStart, row_scale
from darrm_opt.design.solution import Status
from darrm_opt.errors import BackendUnavailable
from darrm_opt.noise import Array, Integers

MIN_TOLERANCE = 1e-9  # feasibility and optimality tolerance; the smallest that Gurobi accepts

_TOO_LARGE_FOR_LICENCE = 10010
_STATUS = {
    gurobipy.GRB.OPTIMAL: Status.OPTIMAL,
    gurobipy.GRB.TIME_LIMIT: Status.TIME_LIMIT,
    gurobipy.GRB.ITERATION_LIMIT: Status.ITERATION_LIMIT,
    gurobipy.GRB.INFEASIBLE: Status.INFEASIBLE,
    gurobipy.GRB.INF_OR_UNBD: Status.INFEASIBLE,
    gurobipy.GRB.UNBOUNDED: Status.UNBOUNDED,
    gurobipy.GRB.INTERRUPTED: Status.INTERRUPTED,
}


class Gurobi:
    """A growing program in Gurobi (see `Backend`)."""

    def __init__(self, entries: int, tolerance: float) -> None:
        self._tolerance = max(tolerance, MIN_TOLERANCE)
        try:
            self._environment = gurobipy.Env(params={"OutputFlag": 0})
        except gurobipy.GurobiError as err:
            raise BackendUnavailable(
                f"Gurobi does not start: {err}. Check its licence, or use backend = 'highs'."
            ) from err
        self._scale = row_scale(entries)
        self._model = gurobipy.Model(env=self._environment)
        self._model.setParam("Threads", 1)
        self._model.setParam("Method", 1)  # dual simplex: warm after added rows, and ends at a vertex
        self._model.setParam("FeasibilityTol", self._tolerance)
        self._model.setParam("OptimalityTol", self._tolerance)
        self._model.setParam("NumericFocus", 2)
        self._gamma = self._model.addMVar(entries, lb=0.0, ub=1.0)
        self._constraints: list[gurobipy.Constr] = []

    def add(self, rows: Array, limits: Array) -> None:
        constraints = self._model.addConstr((rows * self._scale) @ self._gamma <= limits * self._scale)
        self._constraints += constraints.tolist()

    def drop(self, rows: Integers) -> None:
        places = set(rows.tolist())
        self._model.remove([self._constraints[place] for place in places])
        self._constraints = [constraint for place, constraint in enumerate(self._constraints) if place not in places]

    def continued(self, rows: Array, limits: Array, start: WarmStart) -> Gurobi:
        program = Gurobi(start.columns.size, self._tolerance)
        program.add(rows, limits)
        self.close()
        return program

    def solve(self, weights: Array, seconds: float | None = None) -> Outcome:
        model = self._model
        model.setParam("TimeLimit", gurobipy.GRB.INFINITY if seconds is None else max(seconds, 0.0))
        model.setObjective((weights * self._scale) @ self._gamma, gurobipy.GRB.MAXIMIZE)
        try:
            model.optimize()
        except gurobipy.GurobiError as err:
            if err.errno == _TOO_LARGE_FOR_LICENCE:
                raise BackendUnavailable(
                    f"Gurobi's licence here does not cover {len(self._constraints)} rows by {weights.size} variables "
                    "(the one bundled with gurobipy, the extra 'gurobi', stops at 2000 each): use method = 'cuts', "
                    "backend = 'highs', or a full licence."
                ) from err
            raise
        status = _STATUS.get(model.Status, Status.NUMERICAL)
        if model.SolCount == 0 or status is not Status.OPTIMAL:
            return Outcome(status, np.zeros(weights.size), np.zeros(len(self._constraints)), int(model.IterCount))
        multipliers = np.array(model.getAttr("Pi", self._constraints), dtype=np.float64)
        return Outcome(status, np.asarray(self._gamma.X), multipliers, int(model.IterCount))

    def close(self) -> None:
        self._model.dispose()
        self._environment.dispose()
