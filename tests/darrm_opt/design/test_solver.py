"""solve: known answers, relations between answers, hostile inputs, limits and refusals."""

from __future__ import annotations

import dataclasses
import math
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.exact import Voters, precise
from support.refusals import refused, refuses
from support.strategies import random_case

from darrm_opt import Privacy, Problem, Progress, Solution, certify, solve, verify
from darrm_opt.baselines import double_subsampling, randomized_response, subsampling
from darrm_opt.design.objective import AnyObjective, Objective, rectangular, shared, uniform
from darrm_opt.design.solution import Status
from darrm_opt.noise import NoiseFunction

SLACK = 2e-8  # tolerance for two utilities that theory orders: their gaps are far smaller


def utility(problem: Problem, noise: NoiseFunction, objective: AnyObjective | None = None) -> float:
    """Return the share of the noiseless utility that a γ keeps, by the weights of the objective if it has any."""
    upper = noise.values[problem.K // 2 + 1 :]
    objective = objective or rectangular()
    return (
        float(objective.weights(problem.K) @ upper)
        if isinstance(objective, Objective)
        else objective.linear_goal(problem.K).utility(upper)
    )


def sound(solution: Solution) -> Solution:
    """Check the guarantees of a solution, in exact arithmetic at its worst multiset."""
    problem = solution.problem
    assert solution.certificate.margin >= 0
    assert verify(problem, solution.gamma).margin >= 0
    assert Voters.of(problem.strictest).excess(solution.gamma, solution.certificate.worst_corners) <= 0
    assert solution.gap == max(0.0, solution.upper_bound - solution.utility)
    assert solution.utility == utility(problem, solution.noise, solution.objective)
    assert solution.utility <= solution.upper_bound + 1e-15
    assert 0 <= solution.utility <= 1 + 1e-12
    assert not solution.gamma.flags.writeable
    assert solution.gamma.shape == (problem.K + 1,)
    return solution


def solved(problem: Problem, *arguments: Any, **options: Any) -> Solution:
    """Return a sound answer, optimal up to a tiny gap."""
    solution = sound(solve(problem, *arguments, **options))
    assert solution.status is Status.OPTIMAL
    assert solution.gap <= SLACK
    return solution


# ---------------------------------------------------------------------------------------------- known answers


@for_each(("K", "m"), [(1, 1), (2, 1.5), (3, 2), (4, 2.5), (11, 6), (11, 7.5), (11, 20), (12, 6.5), (35, 18)])
@for_each("epsilon", [0.01, 0.3, 1.0])
def test_half_of_the_voters_epsilon_allow_the_plain_majority(K: int, m: float, epsilon: float) -> None:
    """m ≥ (K+1)/2, Δ = δ = 0: the majority of K independent ε-DP voters is ((K+1)/2)ε-DP."""
    gamma = solved(Problem.from_allowance(K=K, m=m, epsilon=epsilon)).gamma
    assert np.abs(np.delete(gamma, K // 2 if K % 2 == 0 else []) - 1).max() <= 1e-9


@for_each(
    ("K", "epsilon", "Delta", "m"), [(5, 0.1, 0.0, 1), (11, 0.5, 1e-5, 1), (12, 1.0, 0.1, 2), (31, 0.1, 1e-3, 1.5)]
)
def test_if_one_private_voter_is_affected_the_majority_needs_no_noise(
    K: int, epsilon: float, Delta: float, m: float
) -> None:
    """r = 1, mε ≥ ε, δ ≥ Δ: parallel composition, so γ = 1."""
    gamma = solved(Problem.from_allowance(K=K, m=m, epsilon=epsilon, Delta=Delta, affected=1)).gamma
    assert np.abs(np.delete(gamma, K // 2 if K % 2 == 0 else []) - 1).max() <= 1e-9


@for_each("K", [1, 2, 5, 10, 11])
@for_each(("target", "delta"), [(0.1, 0.0), (0.3, 1e-5), (2.0, 0.1), (0.0, 0.2), (20.0, 0.0)])
def test_for_voters_that_are_not_private_the_optimum_is_randomised_response(
    K: int, target: float, delta: float
) -> None:
    """ε = inf, affected = K: a record may change all votes, so γ is constant."""
    solution = solved(Problem(K, Privacy(math.inf), Privacy(target, delta)))
    constant = (math.exp(target) - 1 + 2 * delta) / (math.exp(target) + 1)
    gamma = np.delete(solution.gamma, K // 2 if K % 2 == 0 else [])
    assert np.abs(gamma - constant).max() <= 1e-9
    assert gamma.max() <= constant


@for_each("K", [2, 3, 6, 9, 15])
@for_each("epsilon", [0.01, 0.1, 0.4])
def test_with_the_epsilon_of_one_voter_the_optimum_is_a_random_voter(K: int, epsilon: float) -> None:
    """m = 1, Δ = δ = 0 and ε up to about 0.4: γ_opt = γ_Sub(1) = |2l/K − 1|."""
    solution = solved(Problem.from_allowance(K=K, m=1, epsilon=epsilon))
    known = subsampling(K, 1)
    assert np.abs(solution.gamma - known.values).max() <= 1e-8
    assert solution.gamma[0] == pytest.approx(1, abs=1e-8)


@for_each(("K", "epsilon", "more"), [(9, 1.0, 1e-3), (15, 1.0, 4e-3), (21, 0.7, 2e-6), (31, 0.5, 3e-4)])
def test_for_larger_epsilon_the_optimum_exceeds_a_random_voter(K: int, epsilon: float, more: float) -> None:
    problem = Problem.from_allowance(K=K, m=1, epsilon=epsilon)
    known = subsampling(K, 1)
    assert certify(problem, known)[0].values.max() > 1 - 1e-9  # private, but not optimal
    assert solved(problem).utility > utility(problem, known) + more


def test_an_optimum_may_be_not_monotone() -> None:
    gamma = solved(Problem.from_allowance(K=11, m=3, epsilon=0.1)).gamma
    assert gamma[6:] == pytest.approx([0.94, 0.54, 1, 1, 0.98, 1], abs=0.005)
    assert np.array_equal(gamma, gamma[::-1])


def test_one_voter_is_randomised_response_of_one_bit() -> None:
    """K = 1: an ε-DP bit made ε′-DP; the constraint at (x, y) by hand."""
    epsilon, target = 1.0, 0.25
    x = math.exp(epsilon) / (1 + math.exp(epsilon))
    c = math.exp(target)
    by_hand = (c - 1) / ((2 * x - 1) * (1 + c))  # H(p) − c·H(p′) = γ(2x−1)(1+c) ≤ c − 1
    assert solved(Problem(1, Privacy(epsilon), Privacy(target))).gamma == pytest.approx([by_hand, by_hand], rel=1e-9)


# ------------------------------------------------------------------------------------------------ relatives


EASIER: list[list[Problem]] = [  # each problem is at most as strict as the previous one
    *(
        [Problem.from_allowance(K, m, 0.3, Delta, delta=2 * Delta) for m in (0.2, 0.7, 1, 1.5, 2, 3.3, 5, 6, 9)]
        for K in (8, 11)
        for Delta in (0.0, 1e-3)
    ),
    *([Problem.from_allowance(9, m, 0.1, 1e-3, delta=d) for d in (0.0, 1e-6, 1e-3, 5e-3, 0.05, 0.4)] for m in (1, 3)),
    [Problem(9, Privacy(0.1, D), Privacy(0.3, 1e-2)) for D in (0.3, 0.1, 0.01, 1e-3, 1e-5, 1e-9, 0.0)],
    [Problem(9, Privacy(e, 1e-4), Privacy(0.3, 1e-3)) for e in (4.0, 1.0, 0.3, 0.1, 0.01, 0.0)],
    [Problem(9, Privacy(e), Privacy(0.3)) for e in (math.inf, 9.0, 2.0, 0.5, 0.05)],
    *(
        [Problem(10, voter, Privacy(0.4, 0.01), r) for r in range(10, 0, -1)]
        for voter in (Privacy(0.1), Privacy(0.5, 1e-3), Privacy(math.inf), Privacy(0.0, 0.05))
    ),
]


@for_each("problems", EASIER)
def test_a_weaker_requirement_never_lowers_the_utility(problems: list[Problem]) -> None:
    """A larger allowance or δ, more private voters at the same target, a record that reaches fewer voters."""
    utilities = [solved(problem).utility for problem in problems]
    assert np.all(np.diff(utilities) >= -SLACK)
    assert utilities[0] < utilities[-1] or utilities[0] > 1 - SLACK


@for_each("objective", ["rectangular", "uniform(lower=0.6)", "shared(1,1)"])
@for_each(("K", "m"), [(7, 1), (7, 3), (11, 2), (12, 3), (12, 5)])
def test_no_baseline_is_better_at_the_same_privacy(K: int, m: int, objective: str) -> None:
    problem = Problem.from_allowance(K=K, m=m, epsilon=0.3)
    best = solved(problem, objective)
    baselines = [subsampling(K, m), double_subsampling(K, m)]
    baselines.append(randomized_response(K, problem.target, Privacy(K * 0.3)))
    for noise in baselines:
        private, _ = certify(problem, noise)
        assert private.values.max() >= noise.values.max() * (1 - 1e-9)  # it was private unchanged
        assert utility(problem, noise, best.objective) <= best.upper_bound + SLACK
        assert utility(problem, noise, best.objective) <= best.utility + SLACK


@for_each("seed", range(16))
def test_the_monotone_shape_is_never_better_than_the_free_one(seed: int) -> None:
    problem = random_case(np.random.default_rng((seed, 41)), (3, 6, 9, 11), largest_Delta=0.05).problem
    free, monotone = sound(solve(problem)), sound(solve(problem, shape="monotone"))
    assert monotone.shape == "monotone"
    assert monotone.noise.is_monotone
    assert monotone.certificate.method == "monotone"
    assert monotone.utility <= free.upper_bound + 1e-12
    assert monotone.upper_bound <= free.upper_bound + max(SLACK, free.gap, monotone.gap)


@pytest.mark.parametrize(("K", "m", "Delta"), [(11, 3, 0.0), (9, 2, 1e-3), (10, 3, 1e-5)])
def test_the_monotone_optimum_is_that_of_the_full_set(K: int, m: float, Delta: float) -> None:
    problem = Problem.from_allowance(K, m, 0.1, Delta)
    few, all_rows = solve(problem, shape="monotone"), solve(problem, shape="monotone", method="enumerate")
    assert max(sound(few).gap, sound(all_rows).gap) <= 1e-7
    assert few.utility == pytest.approx(all_rows.utility, abs=max(SLACK, few.gap, all_rows.gap))
    assert np.abs(few.gamma - all_rows.gamma).max() <= 1e-6


@pytest.mark.parametrize(
    "problem", [Problem.from_allowance(11, 3, 0.1), Problem.from_allowance(8, 2, 0.5, 1e-3)], ids=str
)
def test_no_other_optimum_is_better_for_an_objective(problem: Problem) -> None:
    objectives = [rectangular(), uniform(0.8), shared(1, 1), shared(2, 5), rectangular(lower=0.9), shared(9, 1, "tv")]
    best = [solved(problem, objective) for objective in objectives]
    for objective, own in zip(objectives, best, strict=True):
        for other in best:
            assert utility(problem, other.noise, objective) <= own.utility + SLACK


@for_each("seed", range(14))
def test_both_methods_give_the_same_answer(seed: int) -> None:
    problem = random_case(np.random.default_rng((seed, 42)), (1, 2, 3, 4, 6, 7, 8, 9), largest_Delta=0.1).problem
    cuts, everything = sound(solve(problem, method="cuts")), sound(solve(problem, method="enumerate"))
    assert cuts.utility == pytest.approx(everything.utility, abs=max(SLACK, cuts.gap, everything.gap))
    if max(cuts.gap, everything.gap) < 1e-8:
        assert np.abs(cuts.gamma - everything.gamma).max() <= 1e-6
    assert (cuts.method, everything.method) == ("cuts", "enumerate")
    assert cuts.statistics.rows <= everything.statistics.rows + 300


def test_solving_twice_gives_the_same_bits() -> None:
    problem = Problem.from_allowance(11, 3, 0.0892, 1e-4)
    first, second = solve(problem), solve(problem)
    assert first == dataclasses.replace(second, statistics=first.statistics)
    assert np.array_equal(first.gamma, second.gamma)
    assert first.statistics == second.statistics  # except for the seconds
    assert (hash(first), hash(first.certificate)) == (hash(second), hash(second.certificate))


def test_the_bound_holds_for_all_private_gammas() -> None:
    rng = np.random.default_rng(43)
    for seed in range(12):
        problem = random_case(np.random.default_rng((seed, 43)), (3, 5, 8)).problem
        bound = solve(problem).upper_bound
        for _ in range(20):
            noise = NoiseFunction.from_upper_half(rng.random((problem.K + 1) // 2), problem.K)
            assert utility(problem, certify(problem, noise)[0]) <= bound


# ---------------------------------------------------------------------------------------------- hostile inputs

HOSTILE = [
    Problem(K, Privacy(epsilon, Delta), Privacy(target, delta), affected)
    for K, affected in [(1, 1), (3, 3), (14, 6)]
    for epsilon, Delta in [
        (1e-4, 0.0),
        (1e-4, 1e-12),
        (1e-4, 0.3),
        (4.0, 1e-12),
        (4.0, 0.3),
        (0.0, 1e-3),
        (math.inf, 0.0),
        (700.0, 0.1),
    ]
    for target, delta in [(0.0, 0.0), (0.0, 1e-3), (1e-4, 0.0), (20.0, 0.0), (20.0, 0.3), (500.0, 0.0)]
]


@for_each("problem", HOSTILE)
def test_hostile_inputs_have_sound_answers(problem: Problem) -> None:
    solution = sound(solve(problem))
    hidden = problem.target == Privacy(0.0, 0.0) and 0 < problem.voter.delta < 1e-9  # see the next test
    assert solution.status is Status.OPTIMAL or (hidden and solution.status is Status.ROUNDING_LIMIT)
    assert solution.gap <= (1 if solution.status is Status.ROUNDING_LIMIT else 1e-6)


@for_each("Delta", [1e-12, 1e-9])
@for_each("K", [1, 7, 20])
def test_if_rounding_hides_the_optimum_the_gap_shows_it(K: int, Delta: float) -> None:
    """At ε = 0 and target (0, 0) the rows have size Δ, with few digits left after rounding."""
    solution = sound(solve(Problem(K, Privacy(0.0, Delta), Privacy(0.0, 0.0))))
    assert solution.utility == 0.0  # only γ = 0 is private
    assert solution.gap == solution.upper_bound <= 1
    assert (solution.status is Status.OPTIMAL) == (solution.gap <= 1e-6)
    assert solution.status.is_final


@for_each(("epsilon", "target"), [(1e-12, 1e-12), (1e-12, 3e-12), (1e-10, 2e-10), (1e-8, 2e-8)])
def test_an_answer_is_called_optimal_only_if_its_gap_is_small(epsilon: float, target: float) -> None:
    """Rows of size ε have few digits after rounding; scaling them for the solver loses no more."""
    solution = sound(solve(Problem(11, Privacy(epsilon), Privacy(target))))
    assert solution.status is Status.ROUNDING_LIMIT
    assert 1e-6 < solution.gap < 0.2  # without scaling 0.70 at the least ε
    assert "rounding hides" in solution.status.advice


@for_each("target", [1e-8, 1e-5, 0.01, 0.25])
@for_each("grown", [0.0, 4e-14, 3.9e-12])
def test_the_bound_holds_for_the_numbers_as_given(target: float, grown: float) -> None:
    """Of the numbers rounded to ``target`` the largest has the best answer, known in closed form."""
    asked = target * (1 + grown)
    with precise():
        c = Decimal(asked).exp()
        for K in (1, 6):  # voters that are not private: a constant
            for delta in (0.0, 3e-3 + 4e-14):
                constant = (c - 1 + 2 * Decimal(delta)) / (c + 1)
                solution = sound(solve(Problem(K, Privacy(math.inf), Privacy(asked, delta))))
                assert solution.problem.target.epsilon == target
                assert constant <= Decimal(solution.upper_bound) <= constant * (1 + Decimal("1e-9")) + Decimal("1e-11")
        growth = Decimal(1.0 - 2e-13).exp()  # one voter, more private than ε = 1 by less than the grid
        by_hand = (c - 1) / ((2 * growth / (1 + growth) - 1) * (1 + c))
        solution = sound(solve(Problem(1, Privacy(1.0 - 2e-13), Privacy(asked))))
        assert by_hand <= Decimal(solution.upper_bound) <= by_hand * (1 + Decimal("1e-9")) + Decimal("1e-11")


@pytest.mark.parametrize("delta", [1e-3, 0.2])
def test_at_target_epsilon_0_gamma_is_delta(delta: float) -> None:
    """Target ε = 0: total variation at most δ between the two datasets."""
    solution = solved(Problem(5, Privacy(math.inf), Privacy(0.0, delta)))
    assert np.abs(solution.gamma - delta).max() <= 1e-12


# ------------------------------------------------------------------------------------------------ many voters


LARGE: list[Any] = [
    (Problem.from_allowance(401, 10, 0.1), "shared(1,1)"),
    (Problem.from_allowance(400, 10, 0.1, 1e-6), "shared(1,1)"),
    (Problem.from_allowance(401, 20, 0.1, 1e-6, affected=40), "rectangular"),
    (Problem.from_allowance(400, 3, 0.1, 0.01, affected=12), "rectangular"),
    (Problem(401, Privacy(math.inf), Privacy(1.0, 1e-5), 2), "shared(1,1)"),
    (Problem.from_allowance(401, 201, 0.01), "rectangular"),
]


@for_each(("problem", "objective"), LARGE)
def test_many_voters_are_solved_in_stages(problem: Problem, objective: str) -> None:
    seen: list[Progress] = []
    solution = sound(solve(problem, objective, tolerance=1e-6, progress=seen.append))
    assert solution.status is Status.OPTIMAL
    assert solution.gap <= 1e-6
    assert np.all(np.diff([progress.upper_bound for progress in seen]) <= 0)


def test_rows_violated_within_the_tolerance_do_not_end_a_search() -> None:
    """A solver violates its rows by its tolerance: a search that finds only those is not complete."""
    assert sound(solve(Problem.from_allowance(301, 3, 0.1, 1e-5), tolerance=1e-8)).gap < 1e-7


def test_if_no_free_gamma_can_be_proved_the_answer_is_monotone() -> None:
    """With sixty voters away from the ends, searches of other γ prove very little; their cuts still bound the loss."""
    problem = Problem.from_allowance(131, 3, 0.1, 0.49)
    free, monotone = sound(solve(problem)), sound(solve(problem, shape="monotone"))
    assert (free.certificate.method, free.status) == ("monotone", Status.OPTIMAL)
    assert free.utility == pytest.approx(monotone.utility, abs=1e-12)
    assert free.gap < 1e-6
    assert free.upper_bound >= monotone.upper_bound - 1e-9


def test_a_few_voters_away_from_the_ends_are_solved_completely() -> None:
    """Above one on average the first order proves little, but the range of blossoms suffices."""
    solution = sound(solve(Problem.from_allowance(121, 5, 0.1, 0.02)))
    assert (solution.certificate.method, solution.status) == ("complete", Status.OPTIMAL)
    assert solution.gap <= 1e-6


def test_violations_missed_near_the_faces_do_not_stall_the_solve() -> None:
    """Here the incumbent violates rows found for another γ, and a search between it and the answer finds no others."""
    solution = sound(solve(Problem.from_allowance(131, 1.5, 0.1, 0.01), "shared(1,1)"))
    assert solution.status is Status.OPTIMAL
    assert solution.gap <= 1e-6


def test_a_looser_tolerance_takes_no_more_rounds() -> None:
    problem = LARGE[0][0]
    loose, tight = (sound(solve(problem, "shared(1,1)", tolerance=tolerance)) for tolerance in (1e-3, 1e-6))
    assert loose.statistics.rounds < tight.statistics.rounds
    assert tight.gap <= 1e-6
    assert loose.gap <= 1e-3
    assert loose.utility <= tight.upper_bound


def test_a_time_limit_in_a_coarse_stage_leaves_a_certified_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coarse search proves nothing: the proof follows at the end, also after a time limit."""
    seen: list[Progress] = []
    clock = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + 3600 * (len(seen) // 3))
    solution = sound(solve(LARGE[1][0], "shared(1,1)", time_limit=1800.0, progress=seen.append))
    assert solution.status is Status.TIME_LIMIT
    assert len(seen) == 3
    assert 0 < solution.utility < solution.upper_bound


# ----------------------------------------------------------------------------------- time, progress, refusals


def test_a_time_limit_midway_keeps_the_incumbent(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first round the clock advances by an hour: its answer is scaled until it is private."""
    problem = Problem.from_allowance(K=15, m=4, epsilon=1.0, Delta=0.02)
    full = solved(problem)
    assert full.statistics.rounds > 1
    seen: list[Progress] = []
    clock = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + 3600 * len(seen))
    solution = sound(solve(problem, time_limit=1800.0, progress=seen.append))
    assert solution.status is Status.TIME_LIMIT
    assert len(seen) == 1
    assert 0 < solution.utility < full.utility
    assert solution.utility >= seen[0].utility - 1e-9  # or that of the best monotone γ, if better
    assert solution.upper_bound >= full.utility
    assert solution.gap < 0.5


@pytest.mark.parametrize("shape", ["free", "monotone"])
def test_progress_is_reported_and_bounds_never_rise(shape: Any) -> None:
    problem = Problem.from_allowance(K=15, m=4, epsilon=1.0, Delta=0.02)
    seen: list[Progress] = []
    solution = solved(problem, shape=shape, progress=seen.append)
    assert [progress.round for progress in seen] == [*range(1, solution.statistics.rounds + 1)]
    assert len(seen) >= (2 if shape == "free" else 1)
    assert np.all(np.diff([progress.upper_bound for progress in seen]) <= 0)
    assert np.all(np.diff([progress.utility for progress in seen]) >= -1e-12)
    assert np.all(np.diff([progress.rows for progress in seen]) >= 0)
    assert np.all(np.diff([progress.seconds for progress in seen]) > 0)
    assert all(progress.utility <= progress.upper_bound + SLACK for progress in seen)
    assert seen[-1].violation <= 1e-11
    assert seen[-1].utility == pytest.approx(solution.utility, abs=1e-9)


def test_invalid_arguments_are_refused() -> None:
    refuses(
        solve,
        {"problem": Problem.from_allowance(11, 3, 0.1)},
        problem=[3],
        objective=["best"],
        shape=["round", ["free"]],
        method=["guess", {}],
        backend=["abacus", ["highs"]],
        time_limit=[0, -1.0, math.nan],
        tolerance=[0.0, 1, math.nan],
    )
    with refused("method", "'enumerate'") as error:
        solve(Problem.from_allowance(35, 3, 0.1, 1e-5), method="enumerate")
    assert error.value.advice == "This one has 26,978,328; method = 'cuts' gives the same answer."


def test_a_histogram_must_have_the_number_of_voters() -> None:
    with refused("counts"):
        solve(Problem.from_allowance(3, 1, 0.1), "histogram(1,2,3)")


def test_a_warning_depends_on_the_solution() -> None:
    swapped = solve(Problem.from_allowance(5, 1, 0.1, Delta=0.5, delta=1e-6))
    assert swapped.warnings == swapped.problem.warnings(swapped.gamma) != ()
    useful = solve(Problem.from_allowance(11, 3, 0.0892, Delta=1e-4, delta=1e-6))
    assert useful.utility > 0.9
    assert useful.warnings == ()
    assert solve(Problem.from_allowance(5, 1, 0.1)).warnings == ()


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_the_least_positive_Delta_has_a_sound_answer(epsilon: float) -> None:
    problem = Problem(4, Privacy(epsilon, 5e-324), Privacy(0.1))
    solution = solve(problem)
    assert verify(problem, solution.noise).margin >= 0
    assert solution.status is Status.OPTIMAL
