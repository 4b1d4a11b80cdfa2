"""Mean and worst true error over scenarios: against the error function and other optima."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from support.cases import for_each
from support.refusals import refused

from darrm_opt import Problem, certify, solve, verify
from darrm_opt.accuracy import tv_error
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.objective import as_objective
from darrm_opt.design.scenarios import ScenarioObjective, expected_error, minimax, over_scenarios, parse_scenarios
from darrm_opt.noise import Array, NoiseFunction

PROBLEMS = [
    Problem.from_allowance(7, 2, 0.3),
    Problem.from_allowance(8, 3, 0.2, 1e-3),
    Problem.from_allowance(9, 2, 0.5, 1e-2, None, 3),
]


def errors(noise: NoiseFunction, scenarios: Array) -> Array:
    """Return the true tv error in each scenario."""
    return np.array([tv_error(noise, p) for p in scenarios])


def best_by_hand(problem: Problem, scenarios: Array, *, worst: bool) -> float:
    """Return the least mean (or worst) error over all private γ, by the full program in SciPy.

    The tv error in a scenario, |gap of the vote − its kept part|, is linear in γ up to its sign: two rows each.
    """
    constraint, K = PrivacyConstraint.of(problem), problem.K
    rows = np.concatenate([constraint.rows(counts) for counts in ConstraintGenerator(problem).blocks()])
    n, S = constraint.entries, len(scenarios)
    zero = errors(NoiseFunction(np.zeros(K + 1)), scenarios)  # |a₀|
    units = np.array(
        [errors(NoiseFunction.from_upper_half(1e-3 * unit, K), scenarios) for unit in np.eye(n)]
    )  # |a₀ − 1e-3·a_l|
    # for small γ the sign of the gap is that of a₀, so slopes follow from differences
    slopes = (units - zero).T * 1e3
    columns = 1 if worst else S
    pick = np.ones((S, 1)) if worst else np.eye(S)
    above = np.concatenate([np.hstack([slopes, -pick]), np.hstack([-slopes, -pick])])
    limits = np.concatenate([-zero, zero])
    A = np.concatenate([np.pad(rows, ((0, 0), (0, columns))), above])
    b = np.concatenate([np.full(len(rows), constraint.limit), limits])
    cost = np.concatenate([np.zeros(n), np.full(columns, 1.0 / columns)])
    found = linprog(cost, A_ub=A, b_ub=b, bounds=[(0, 1)] * n + [(0, None)] * columns)
    return float(found.fun or 0.0)


@for_each("worst", [False, True])
@for_each("problem", PROBLEMS)
def test_the_optimum_is_that_of_the_full_program(problem: Problem, *, worst: bool) -> None:
    scenarios = np.random.default_rng(4).random((12, problem.K))
    solution = solve(problem, over_scenarios(scenarios, worst=worst))
    verify(problem, solution.gamma)
    reached = errors(solution.noise, scenarios)
    value = reached.max() if worst else reached.mean()
    assert value == pytest.approx(best_by_hand(problem, scenarios, worst=worst), abs=1e-7)
    before = errors(NoiseFunction(np.zeros(problem.K + 1)), scenarios)
    saved = 1 - value / (before.max() if worst else before.mean())
    assert solution.utility == pytest.approx(saved, abs=1e-9)
    assert solution.gap < 1e-8


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_no_private_gamma_has_a_smaller_mean_or_worst_error(problem: Problem) -> None:
    scenarios = np.random.default_rng(9).random((30, problem.K))
    mean, worst = (solve(problem, over_scenarios(scenarios, worst=flag)).noise for flag in (False, True))
    others = [solve(problem, objective).noise for objective in ("rectangular", "shared(1,1)", "uniform")]
    for other in (*others, mean, worst, certify(problem, NoiseFunction(np.full(problem.K + 1, 0.3)))[0]):
        assert errors(mean, scenarios).mean() <= errors(other, scenarios).mean() + 1e-8
        assert errors(worst, scenarios).max() <= errors(other, scenarios).max() + 1e-8


def test_masses_are_weights_and_scenarios_of_mass_0_are_ignored() -> None:
    problem, p = PROBLEMS[0], np.array([0.1, 0.55, 0.8, 0.95])
    one = solve(problem, over_scenarios(p, [1, 0, 2, 1]))
    same = solve(problem, over_scenarios(p[[0, 2, 2, 3]]))
    assert one.gamma == pytest.approx(same.gamma, abs=1e-6)
    assert one.utility == pytest.approx(same.utility, abs=1e-9)


def test_a_shared_scenario_has_equal_voters() -> None:
    problem, p = PROBLEMS[1], np.array([0.2, 0.6, 0.9])
    shared = solve(problem, over_scenarios(p))
    spelled = solve(problem, over_scenarios(np.repeat(p[:, np.newaxis], problem.K, axis=1)))
    assert np.array_equal(shared.gamma, spelled.gamma)


def test_minimax_is_the_worst_over_its_grid() -> None:
    problem = PROBLEMS[0]
    grid = np.linspace(0.5, 1, 21)
    named, given = solve(problem, minimax(points=21)), solve(problem, over_scenarios(grid, worst=True))
    assert np.array_equal(named.gamma, given.gamma)
    finer = [
        solve(problem, minimax(points=points)).utility for points in (11, 21, 41)
    ]  # each grid contains the previous one
    assert all(coarse >= fine - 1e-9 for coarse, fine in itertools.pairwise(finer))


def test_draws_depend_on_the_seed_only() -> None:
    problem = PROBLEMS[0]
    one, again, other = (solve(problem, expected_error(scenarios=20, seed=seed)) for seed in (3, 3, 4))
    assert np.array_equal(one.gamma, again.gamma)
    assert one.utility == again.utility != other.utility


def test_a_stricter_target_never_has_a_smaller_error() -> None:
    utilities = [
        solve(Problem.from_allowance(9, m, 0.3, 1e-3), expected_error(scenarios=25)).utility for m in (1, 2, 4, 9)
    ]
    assert all(more >= less - 1e-9 for less, more in itertools.pairwise(utilities))


@for_each(
    "objective",
    [expected_error(), expected_error(0.5, 0.9, 17, 5), minimax(), minimax(0.6, 0.99, 7), expected_error(seed=2**53)],
)
def test_the_text_form_round_trips(objective: ScenarioObjective) -> None:
    assert parse_scenarios(str(objective)) == objective
    assert as_objective(str(objective)) == objective


def test_given_scenarios_have_a_canonical_name() -> None:
    p = np.array([0.1, 0.9])
    assert over_scenarios(p) == over_scenarios(p.tolist())
    assert over_scenarios(p) != over_scenarios(p, [1, 2])
    assert over_scenarios(p) != over_scenarios(p, worst=True)
    assert str(over_scenarios(p)).startswith("expected_error over scenarios ")


@for_each(
    ("text", "argument"),
    [
        ("minimax(points=1)", "points"),
        ("minimax(points=2.5)", "points"),
        ("minimax(lower=0.9, upper=0.4)", "upper"),
        ("minimax(lower=2)", "lower"),
        ("expected_error(scenarios=10001)", "scenarios"),
        ("expected_error(seed=-1)", "seed"),
        ("expected_error(speed=1)", "objective"),
        ("minimax(points=many)", "objective"),
        ("minimax(0.5)", "objective"),
    ],
)
def test_invalid_scenario_objectives_are_refused(text: str, argument: str) -> None:
    with refused(argument):
        as_objective(text)


@for_each(
    ("scenarios", "masses", "worst", "argument"),
    [
        ([], None, False, "scenarios"),
        ([0.2, 1.2], None, False, "scenarios"),
        ([0.2, float("nan")], None, False, "scenarios"),
        ([[[0.5]]], None, False, "scenarios"),
        ([0.2, 0.4], [1.0], False, "masses"),
        ([0.2, 0.4], [0.0, 0.0], False, "masses"),
        ([0.2, 0.4], [1.0, -1.0], False, "masses"),
        ([0.2, 0.4], [1.0, 1.0], True, "masses"),
    ],
)
def test_invalid_scenarios_are_refused(
    scenarios: list[Any], masses: list[float] | None, argument: str, *, worst: bool
) -> None:
    with refused(argument):
        over_scenarios(scenarios, masses, worst=worst)


def test_scenarios_for_other_voters_are_refused() -> None:
    with refused("scenarios", "'4 voters'"):
        solve(PROBLEMS[0], over_scenarios(np.full((1, 4), 0.5)))
    with refused("scenarios"):
        solve(PROBLEMS[0], over_scenarios([0.5]))
