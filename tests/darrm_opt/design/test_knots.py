"""Programs reduced to knots: the arithmetic, bounds for the full problem, and answers as good as without knots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from campaigns.knots import examine
from support.cases import for_each

from darrm_opt import Problem, solve, verify
from darrm_opt.design import master_program
from darrm_opt.design.backends import BACKENDS
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.goal import CanonicalGoal
from darrm_opt.design.master_program import Knots, MasterProgram
from darrm_opt.design.objective import as_objective
from darrm_opt.design.solution import Status
from darrm_opt.design.solver import Shape

SHAPES = pytest.mark.parametrize("monotone", [False, True])


def some_knots(rng: np.random.Generator, entries: int, *, monotone: bool) -> Knots:
    inner = rng.choice(entries, size=entries // 3, replace=False)
    return Knots(np.union1d(inner, [0, entries - 1]), entries, monotone)


@SHAPES
@pytest.mark.parametrize("entries", [2, 3, 17, 100])
def test_rows_and_values_are_reduced_by_the_same_matrix(entries: int, monotone: bool) -> None:
    rng = np.random.default_rng(entries)
    knots = some_knots(rng, entries, monotone=monotone)
    matrix = np.stack([knots.expand(unit) for unit in np.eye(knots.size)], axis=1)
    rows = rng.standard_normal((5, entries))
    assert knots.reduce(rows) == pytest.approx(rows @ matrix, abs=1e-12)
    assert knots.reduce(rows[0]) == pytest.approx(rows[0] @ matrix, abs=1e-12)
    assert matrix.min() >= 0
    assert matrix.sum(axis=1).max() <= 1 + 1e-12 or monotone  # increments: each at most that of its segment
    assert (knots.expand(np.ones(knots.size)) <= 1 + 1e-12).all()


@SHAPES
def test_if_every_coordinate_is_a_knot_nothing_changes(monotone: bool) -> None:
    rng = np.random.default_rng(0)
    knots = Knots(np.arange(20), 20, monotone)
    rows, values = rng.standard_normal((4, 20)), rng.random(20)
    assert knots.reduce(rows) == pytest.approx(rows, abs=1e-15)
    assert knots.expand(values) == pytest.approx(values, abs=1e-15)
    assert knots.refine(rng.standard_normal(20), values, 0.0) is None


def test_new_knots_are_at_the_largest_losses() -> None:
    knots = Knots(np.array([0, 50, 99]), 100, monotone=False)
    costs, z = np.zeros(100), np.full(100, 0.5)
    costs[[20, 70]] = [1.0, -2.0]
    refined = knots.refine(costs, z, 0.1)
    assert refined is not None
    assert {20, 70} <= set(refined.places.tolist()) <= {0, 19, 20, 21, 50, 69, 70, 71, 99}
    assert knots.refine(costs, z, 1.5) is None  # an equal loss
    at_bounds = np.where(costs > 0, 1.0, 0.0)
    assert knots.refine(costs, at_bounds, 0.0) is None  # complementary slackness holds everywhere


@pytest.mark.parametrize("shape", ["free", "monotone"])
def test_the_bound_holds_for_the_full_program(monkeypatch: pytest.MonkeyPatch, shape: Shape) -> None:
    """With few, more and all knots: never below the optimum without knots, and finally equal to it."""
    problem = Problem.from_allowance(K=41, m=3, epsilon=0.2)
    constraint = PrivacyConstraint.of(problem)
    goal = CanonicalGoal(as_objective("rectangular").linear_goal(41), constraint.entries)
    rows = np.concatenate(list(ConstraintGenerator(problem).blocks()))[::7]
    whole = MasterProgram(constraint, goal.goal, shape, "highs")
    whole.add(rows)
    best = goal.weights @ whole.maximise(goal.weights, None)[1].values[21:]
    few = Knots(np.array([0, 7, 20]), 21, shape == "monotone")
    monkeypatch.setattr(Knots, "initial", lambda *_, **__: few)
    coarse = MasterProgram(constraint, goal.goal, shape, "highs", by_knots=True)
    coarse.add(rows)
    values = []
    while True:
        status, answer = coarse.maximise(goal.weights, None)
        assert status is Status.OPTIMAL
        values.append(float(goal.weights @ answer.values[21:]))
        assert coarse.bound(goal.weights) >= best - 1e-12
        assert values[-1] <= best + 1e-9
        if not coarse.refine(goal.weights, 1e-9):
            break
        assert coarse.bound(goal.weights) >= best - 1e-12  # the multipliers are still those of the same rows
        coarse.add(coarse.new_multisets(rows))
    assert len(values) > 1
    assert coarse.bound(goal.weights) == pytest.approx(best, abs=1e-7)
    assert values[-1] == pytest.approx(best, abs=1e-7)


@pytest.mark.parametrize("backend", [*BACKENDS])
def test_rows_far_from_binding_are_dropped_and_restored(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setattr(master_program, "MIN_DROP_K", 1)
    problem = Problem.from_allowance(K=21, m=3, epsilon=0.2)
    constraint = PrivacyConstraint.of(problem)
    goal = CanonicalGoal(as_objective("rectangular").linear_goal(21), constraint.entries)
    rows = np.concatenate(list(ConstraintGenerator(problem).blocks()))[::5]
    program = MasterProgram(constraint, goal.goal, "free", backend, by_knots=True)
    program.add(rows)
    _, before = program.maximise(goal.weights, None)
    bound = program.bound(goal.weights)
    assert not len(program.new_multisets(rows))
    program.drop_slack_rows()
    gone = program.new_multisets(rows)
    assert 0 < len(gone) < len(rows)
    _, after = program.maximise(goal.weights, None)
    assert goal.value(after) == pytest.approx(goal.value(before), abs=1e-8)
    assert program.bound(goal.weights) == pytest.approx(bound, abs=1e-8)
    assert (program.add(gone) == constraint.rows(gone)).all()
    assert not len(program.new_multisets(rows))
    assert program.rows == len(rows)  # the same rows as before
    _, again = program.maximise(goal.weights, None)
    assert goal.value(again) == pytest.approx(goal.value(before), abs=1e-8)
    assert program.bound(goal.weights) == pytest.approx(bound, abs=1e-8)


@pytest.mark.parametrize("shape", ["free", "monotone"])
@pytest.mark.parametrize("Delta", [0.0, 1e-4])
def test_answers_by_knots_are_as_good_and_as_private(
    monkeypatch: pytest.MonkeyPatch, Delta: float, shape: Shape
) -> None:
    """The stages of many voters, for a problem also solved to optimality without knots."""
    problem = Problem.from_allowance(K=119, m=3, epsilon=0.1, Delta=Delta)
    exact = solve(problem, shape=shape)
    for module in ("solver", "schedule"):
        monkeypatch.setattr(f"darrm_opt.design.{module}.LARGE_K", 100)
    initial, made = Knots.initial, list[Knots]()

    def seen(*args: Any, **options: Any) -> Knots:
        made.append(initial(*args, **options))
        return made[-1]

    monkeypatch.setattr(Knots, "initial", seen)
    staged = solve(problem, shape=shape, tolerance=1e-6)
    assert made
    assert all(knots.size < knots.entries for knots in made)
    assert staged.status is Status.OPTIMAL
    assert staged.gap <= 1e-6
    assert exact.utility - 1e-6 <= staged.utility <= exact.upper_bound
    assert staged.upper_bound >= exact.utility
    assert verify(problem, staged.gamma).margin >= 0


@for_each("seed", [0, 1, 2, 4, 5, 6])
def test_knots_lose_no_utility(seed: int) -> None:
    """Random problems of 60 to 400 voters, with knots and with all coordinates, verified by every search."""
    assert examine(seed).faults == ()
