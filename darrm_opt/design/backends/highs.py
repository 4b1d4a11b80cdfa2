"""HiGHS through highspy: the default. Rows are added to the live model, so the dual simplex starts warm.

Released HiGHS objects are emptied and reused in this process: creating one and setting its options takes longer than
solving a small program. Only `new_highs` creates objects, so that none of them prints.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import deque

import highspy
import numpy as np

from darrm_opt.design.backends import Outcome, WarmStart, row_scale
from darrm_opt.design.solution import Status
from darrm_opt.errors import SolveFailed
from darrm_opt.noise import Array, Integers

Option = bool | int | float | str

OPTIONS: dict[str, Option] = {
    "output_flag": False,
    "threads": 1,  # must be equal for all objects of a process
    "presolve": "off",  # it would discard the warm start
}

LOOSE_TOLERANCE = 1e-7  # HiGHS's default primal and dual feasibility tolerance

MIN_ENTRY = 1e-9
"""HiGHS drops smaller matrix entries (1e-12 on our scale) with a warning; kept, they make its dual ratio test fail on
one problem in thirty. No guarantee depends on the rows that a solver saw."""

DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4  # values of HiGHS's option simplex_strategy

ATTEMPTS = (
    (DUAL_SIMPLEX, False, False),
    (DUAL_SIMPLEX, True, False),  # from the current basis
    (DUAL_SIMPLEX, False, True),  # a warm basis can be bad: start afresh
    (PRIMAL_SIMPLEX, False, True),
    (DUAL_SIMPLEX, True, True),
)
"""(strategy, with the loose tolerance, afresh and scaled by HiGHS): tried in turn after numerical trouble or too many
iterations, which only the last attempt may take. A looser tolerance costs utility in the repair, never privacy."""

MAX_ITERATIONS_PER_ROW = 20
"""Simplex iterations per row and variable in one attempt: with thousands of voters, rows are so nearly parallel that
doubles may not reach the tolerance and the simplex method cycles for ever."""

_STATUS = {
    highspy.HighsModelStatus.kOptimal: Status.OPTIMAL,
    highspy.HighsModelStatus.kTimeLimit: Status.TIME_LIMIT,
    highspy.HighsModelStatus.kIterationLimit: Status.ITERATION_LIMIT,
    highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
    highspy.HighsModelStatus.kUnboundedOrInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kInterrupt: Status.INTERRUPTED,
}


PROGRAM_OPTIONS: dict[str, Option] = {
    "small_matrix_value": MIN_ENTRY,
}

NO_LIMIT = 2**31 - 1  # value of HiGHS's option simplex_iteration_limit

UNSCALED, SCALED = 0, 2
"""Values of HiGHS's option simplex_scale_strategy: rows are of order one already, and scaling costs large programs
their accuracy."""

CHOSEN_BY_HIGHS, DEVEX = -1, 1  # values of HiGHS's option simplex_dual_edge_weight_strategy

MIN_DEVEX_COLUMNS = 100
"""From this many variables on, and once rows were dropped because of their number, the dual simplex uses Devex pricing:
rows are dense, and steepest edge costs more than it saves."""

MAX_IDLE = 4
"""Maximum number of idle HiGHS objects: a solve uses two at a time, for the best monotone γ and for its own program."""

_idle: deque[highspy.Highs] = deque(maxlen=MAX_IDLE)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # objects of another process must not be used


def _acquire() -> highspy.Highs:
    """Return a HiGHS object without a program, with its options set: an idle or a new one."""
    with contextlib.suppress(IndexError):  # none is idle
        return _idle.pop()
    return new_highs(PROGRAM_OPTIONS)


def _release(solver: highspy.Highs) -> None:
    """Empty a HiGHS object and keep it for the next program."""
    if solver.clearModel() == highspy.HighsStatus.kOk:
        _idle.append(solver)


class _SilentHighs(highspy.Highs):
    """HiGHS that does not write to the console, from its construction on.

    Since 1.16 the first object of a process writes a banner to stdout when its constructor calls this method, before
    any option can be set from outside. With the console off the banner counts as written, and no later object, such as
    CVXPY's, writes it.
    """

    def enableCallbacks(self) -> None:
        check_status(self.setOptionValue("log_to_console", False), "option log_to_console")  # noqa: FBT003 — by position
        highspy.Highs.enableCallbacks(self)


def new_highs(options: dict[str, Option]) -> highspy.Highs:
    """Return a new HiGHS object without a program, with `OPTIONS` and ``options`` set.

    Guarantees: HiGHS 1.10 to 1.16 write nothing to stdout, neither here nor later.
    """
    solver: highspy.Highs = _SilentHighs()  # type: ignore[no-untyped-call]
    for name, value in (OPTIONS | options).items():
        check_status(solver.setOptionValue(name, value), f"option {name}")
    return solver


def check_status(status: highspy.HighsStatus, call: str) -> None:
    """Raise SolveFailed if HiGHS rejected a call."""
    if status == highspy.HighsStatus.kError:
        raise SolveFailed(f"HiGHS rejected {call}; please report this with the problem's parameters.")


def limit_time(solver: highspy.Highs, seconds: float | None) -> None:
    """Set the time of the next solve; None: no limit."""
    # HiGHS counts its time limit over all runs of an object
    limit = highspy.kHighsInf if seconds is None else solver.getRunTime() + max(seconds, 0.0)
    check_status(solver.setOptionValue("time_limit", limit), "option time_limit")


def attempt(solver: highspy.Highs, strategy: int, tolerance: float, *, afresh: bool) -> Status:
    """Return the status of a run with a simplex strategy and a feasibility tolerance."""
    for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        check_status(solver.setOptionValue(name, tolerance), f"option {name}")
    check_status(solver.setOptionValue("simplex_strategy", strategy), "option simplex_strategy")
    if afresh:
        solver.clearSolver()
    failed = solver.run() == highspy.HighsStatus.kError
    return Status.NUMERICAL if failed else _STATUS.get(solver.getModelStatus(), Status.NUMERICAL)


class Highs:
    """A growing program in HiGHS (see `Backend`)."""

    def __init__(self, entries: int, tolerance: float) -> None:
        self._entries, self._scale, self._tolerance = entries, row_scale(entries), tolerance
        self._columns = np.arange(entries, dtype=np.int32)
        self._highs = _acquire()
        self.close = weakref.finalize(self, _release, self._highs)
        self.close.atexit = False
        pricing = DEVEX if entries >= MIN_DEVEX_COLUMNS else CHOSEN_BY_HIGHS
        check_status(self._highs.setOptionValue("simplex_dual_edge_weight_strategy", pricing), "option of the pricing")
        check_status(self._highs.addVars(entries, np.zeros(entries), np.ones(entries)), "addVars")
        check_status(self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize), "changeObjectiveSense")

    def add(self, rows: Array, limits: Array) -> None:
        status = self._highs.addRows(
            len(rows),
            np.full(len(rows), -highspy.kHighsInf),
            limits * self._scale,
            rows.size,
            np.arange(0, rows.size, self._entries, dtype=np.int32),
            np.full(rows.shape, self._columns),
            rows * self._scale,
        )
        check_status(status, "addRows")

    def drop(self, rows: Integers) -> None:
        check_status(self._highs.setOptionValue("simplex_dual_edge_weight_strategy", DEVEX), "option of the pricing")
        # the basis remains valid if the removed rows were slack
        check_status(self._highs.deleteRows(rows.size, rows.astype(np.int32)), "deleteRows")

    def continued(self, rows: Array, limits: Array, start: WarmStart) -> Highs:
        old_basis = self._highs.getBasis()
        self.close()
        program = Highs(start.columns.size, self._tolerance)
        program.add(rows, limits)
        if old_basis.valid:
            columns, slacks = old_basis.col_status, old_basis.row_status
            lower, upper = highspy.HighsBasisStatus.kLower, highspy.HighsBasisStatus.kUpper
            basis = highspy.HighsBasis()
            basis.col_status = [
                columns[place] if place >= 0 else (upper if value > 0.5 else lower)
                for place, value in zip(start.columns.tolist(), start.values.tolist(), strict=True)
            ]
            basis.row_status = [
                slacks[place] if place >= 0 else highspy.HighsBasisStatus.kBasic for place in start.rows.tolist()
            ]
            basis.valid = True
            program._highs.setBasis(basis)  # if HiGHS rejects it, the start is cold
        return program

    def solve(self, weights: Array, seconds: float | None = None) -> Outcome:
        highs = self._highs
        check_status(highs.changeColsCost(self._entries, self._columns, weights * self._scale), "changeColsCost")
        limit_time(highs, seconds)
        status = self._run()
        solution = highs.getSolution()
        rows = highs.getNumRow()
        upper_half = np.asarray(solution.col_value, dtype=np.float64)
        multipliers = np.asarray(solution.row_dual, dtype=np.float64)
        if upper_half.size != self._entries:
            upper_half = np.zeros(self._entries)
        if multipliers.size != rows:
            multipliers = np.zeros(rows)
        _, iterations = highs.getInfoValue("simplex_iteration_count")
        return Outcome(status, upper_half, multipliers, max(0, int(iterations)))

    def _run(self) -> Status:
        """Run; if the simplex method loses its accuracy, try the settings that are likelier to keep it."""
        status = Status.NUMERICAL
        most = MAX_ITERATIONS_PER_ROW * (self._entries + self._highs.getNumRow())
        for place, (strategy, loose, afresh) in enumerate(ATTEMPTS, 1):
            tolerance = max(LOOSE_TOLERANCE, self._tolerance) if loose else self._tolerance
            limit = NO_LIMIT if place == len(ATTEMPTS) else most
            check_status(self._highs.setOptionValue("simplex_iteration_limit", limit), "option of the iterations")
            scaling = SCALED if afresh else UNSCALED
            check_status(self._highs.setOptionValue("simplex_scale_strategy", scaling), "option of the scaling")
            status = attempt(self._highs, strategy, tolerance, afresh=afresh)
            if status not in {Status.NUMERICAL, Status.ITERATION_LIMIT}:
                break
        return status
