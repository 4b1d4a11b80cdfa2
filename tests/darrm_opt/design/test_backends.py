"""One contract for all LP solvers: the same answer, valid multipliers, and clear errors if one cannot be used."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.forks import forked

from darrm_opt import BackendUnavailable, InvalidInput, Privacy, Problem, SolveFailed, solve
from darrm_opt.design.backends import BACKENDS, highs, open_backend
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.master_program import dual_bound
from darrm_opt.design.objective import rectangular
from darrm_opt.design.solution import Status
from darrm_opt.noise import Array

EVERY = pytest.mark.parametrize("backend", [*BACKENDS])

SAMPLE = [
    Problem.from_allowance(K=3, m=1, epsilon=0.1),
    Problem.from_allowance(K=11, m=3, epsilon=0.1),
    Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4),
    Problem.from_allowance(K=11, m=5, epsilon=0.0852, Delta=1e-4),
    Problem.from_allowance(K=10, m=1.5, epsilon=0.3, Delta=1e-4, delta=2e-4),
    Problem.from_allowance(K=15, m=7, epsilon=1.0, Delta=1e-3, affected=9),
    Problem.from_allowance(K=21, m=1, epsilon=0.7),
    Problem.from_allowance(K=31, m=7, epsilon=0.05),
    Problem(11, Privacy(math.inf), Privacy(0.2676, 3e-4), 1),
    Problem(8, Privacy(math.inf), Privacy(0.5, 1e-5), 8),
    Problem(9, Privacy(0.0, 0.01), Privacy(0.1, 0.02)),
    Problem(7, Privacy(2.0, 0.3), Privacy(3.0, 0.1)),
    Problem(1, Privacy(0.5, 0.01), Privacy(0.2, 0.0)),
]


def whole(problem: Problem) -> tuple[Array, Array]:
    constraint = PrivacyConstraint.of(problem)
    rows = np.concatenate([constraint.rows(block) for block in ConstraintGenerator(problem).blocks()])
    return rows, np.full(len(rows), constraint.limit)


@for_each("problem", SAMPLE)
@for_each("backend", [name for name in BACKENDS if name != "highs"])
def test_all_backends_give_the_canonical_answer(problem: Problem, backend: str) -> None:
    usual, other = solve(problem), solve(problem, backend=backend)
    assert other.status is usual.status is Status.OPTIMAL
    assert other.backend == backend
    assert np.abs(other.gamma - usual.gamma).max() <= 1e-6
    assert other.utility == pytest.approx(usual.utility, abs=1e-8)
    assert other.upper_bound == pytest.approx(usual.upper_bound, abs=1e-8)
    assert other.certificate.margin >= 0


@EVERY
@pytest.mark.parametrize("shape", ["free", "monotone"])
@pytest.mark.parametrize("objective", ["uniform", "shared(2,5) agreement", "rectangular(lower=0.7)"])
def test_all_backends_agree_for_every_shape_and_objective(backend: str, shape: Any, objective: str) -> None:
    problem = Problem.from_allowance(K=9, m=2, epsilon=0.3, Delta=1e-3)
    usual, other = solve(problem, objective, shape), solve(problem, objective, shape, backend=backend)
    assert np.abs(other.gamma - usual.gamma).max() <= 1e-6
    assert other.utility == pytest.approx(usual.utility, abs=1e-8)


@EVERY
def test_a_program_that_grows_keeps_its_multipliers_in_order(backend: str) -> None:
    problem = Problem.from_allowance(K=7, m=2, epsilon=0.3)
    rows, limits = whole(problem)
    weights = rectangular().weights(7)
    opened = open_backend(backend, weights.size)
    last = math.inf
    for end in (0, 10, 11, 60, len(limits)):
        start = {0: 0, 10: 0, 11: 10, 60: 11, len(limits): 60}[end]
        if end > start:
            opened.add(rows[start:end], limits[start:end])
        outcome = opened.solve(weights)
        assert outcome.status is Status.OPTIMAL
        assert outcome.upper_half.shape == weights.shape
        assert outcome.multipliers.shape == (end,)
        assert outcome.multipliers.min(initial=0) >= -1e-9
        assert outcome.iterations >= 0
        value = float(weights @ outcome.upper_half)
        assert value <= last + 1e-9
        last = value
        # with the right signs and order of the multipliers their bound is the value
        assert dual_bound(weights, rows[:end], limits[:end], outcome.multipliers, 7) == pytest.approx(value, abs=1e-8)
        if end:
            assert (rows[:end] @ outcome.upper_half - limits[:end]).max() <= 1e-9


@EVERY
def test_weights_may_change_between_solves(backend: str) -> None:
    problem = Problem.from_allowance(K=7, m=0.5, epsilon=0.3)
    rows, limits = whole(problem)
    opened = open_backend(backend, 4)
    opened.add(rows, limits)
    seen = set()
    for weights in (np.eye(4)[0], np.eye(4)[3], np.full(4, 0.25), np.eye(4)[0]):
        fresh = open_backend(backend, 4)
        fresh.add(rows, limits)
        value = float(opened.solve(weights).upper_half @ weights)
        assert value == pytest.approx(fresh.solve(weights).upper_half @ weights, abs=1e-9)
        seen.add(round(value, 6))
    assert len(seen) == 3
    assert 0 < min(seen) < max(seen) < 1


@EVERY
def test_a_time_limit_of_almost_0_gives_a_status(backend: str) -> None:
    problem = Problem.from_allowance(K=9, m=3, epsilon=0.3, Delta=0.01)
    rows, limits = whole(problem)
    if backend == "gurobi":
        rows, limits = rows[:1900], limits[:1900]
    opened = open_backend(backend, 5)
    opened.add(rows, limits)
    outcome = opened.solve(rectangular().weights(9), 1e-9)
    assert outcome.status in {Status.TIME_LIMIT, Status.OPTIMAL}
    assert outcome.multipliers.shape == limits.shape
    assert opened.solve(rectangular().weights(9)).status is Status.OPTIMAL  # the next solve has no limit


@EVERY
def test_entries_below_the_threshold_of_a_solver_are_harmless(backend: str) -> None:
    """HiGHS drops small entries: its answer is still certified, and the bound still holds."""
    problem = Problem(9, Privacy(0.01, 1e-12), Privacy(0.01, 1e-12))
    solution = solve(problem, backend=backend)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.margin >= 0
    assert solution.gap < 1e-6


HIGHS_1_16 = """
import highspy, os
enable, announced = highspy.Highs.enableCallbacks, []

def announce(self):
    if self.getOptionValue("output_flag")[1] and not announced:
        announced.append(True)
        if self.getOptionValue("log_to_console")[1]:
            os.write(1, b"Running HiGHS")
    enable(self)

highspy.Highs.enableCallbacks = announce
"""
"""Any version of HiGHS with the banner of 1.16, printed by the first constructor of a process."""

SOLVES = [
    *(f"solve(Problem.from_allowance(K=11, m=3, epsilon=0.1), backend={name!r})" for name in BACKENDS),
    "solve_table(Problem(5, Privacy(float('inf')), Privacy(1.0), 1, classes=3))",
]


def test_no_solver_writes_to_stdout() -> None:
    script = (
        f"{HIGHS_1_16}\nfrom darrm_opt import Privacy, Problem, solve\n"
        f"from darrm_opt.tables.solver import solve_table\n" + "\n".join(SOLVES)
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert run.stdout == b""


def test_the_error_of_gurobi_beyond_its_licence_names_the_extra_and_the_licence() -> None:
    problem = Problem.from_allowance(K=11, m=3, epsilon=0.1, Delta=1e-5)
    with pytest.raises(
        BackendUnavailable,
        match=(
            r"^Gurobi's licence here does not cover 31\d\d\d rows by 6 variables \(the one bundled with gurobipy, the extra "
            r"'gurobi', stops at 2000 each\): use method = 'cuts', backend = 'highs', or a full licence\.$"
        ),
    ):
        solve(problem, method="enumerate", backend="gurobi")
    assert solve(problem, backend="gurobi").statistics.rows < 2000


@for_each("name", ["glpk", "", None, "HIGHS"])
def test_an_unknown_backend_is_refused(name: Any) -> None:
    said = "is missing" if name is None else f"= {name!r} is not valid"
    text = rf"^backend {said}: expected one of highs, gurobi, "
    with pytest.raises(InvalidInput, match=text):
        solve(SAMPLE[0], backend=name)
    with pytest.raises(InvalidInput, match=text):
        open_backend(name, 3)


MISSING = {
    "gurobi": (
        "gurobipy",
        (
            "backend = 'gurobi' needs the package gurobipy, which is not installed: pip install 'darrm-opt[gurobi]', "
            "or use backend = 'highs'."
        ),
    ),
    "cvxpy": (
        "cvxpy",
        "backend = 'cvxpy' needs the package cvxpy, which is not installed: pip install 'darrm-opt[cvxpy]', or use backend = 'highs'.",
    ),
}


@pytest.mark.parametrize("backend", [*MISSING])
def test_the_error_of_a_missing_backend_names_the_package(backend: str) -> None:
    package, text = MISSING[backend]
    script = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from darrm_opt import BackendUnavailable, Problem, solve\n"
        "problem = Problem.from_allowance(K=3, m=1, epsilon=0.1)\n"
        "assert solve(problem).gamma.size == 4\n"
        "try:\n"
        f"    solve(problem, backend={backend!r})\n"
        "except BackendUnavailable as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == text


def test_an_error_inside_a_backend_is_not_reported_as_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AttributeError("a bug")

    monkeypatch.setattr(highs.Highs, "solve", broken)
    with pytest.raises(AttributeError, match="a bug"):
        solve(SAMPLE[0])


def test_an_error_of_highs_is_reported_with_advice() -> None:
    opened = open_backend("highs", 2)
    with pytest.raises(
        SolveFailed, match=r"^HiGHS rejected addRows; please report this with the problem's parameters\.$"
    ):
        opened.add(np.array([[1e20, 1.0]]), np.array([1.0]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_process_does_not_use_the_solver_of_its_parent() -> None:
    open_backend("highs", 3).close()
    assert highs._idle
    assert forked(lambda: str(len(highs._idle))) == "0"
    assert forked(lambda: solve(Problem.from_allowance(K=3, m=1, epsilon=0.1)).status.value) == "optimal"
