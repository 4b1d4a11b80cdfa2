"""Total privacy of releases of a γ: known numbers, soundness, order of the accounts, and errors."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from campaigns.transcripts import shown_pairs
from support.cases import for_each
from support.exact import Voters, mean, multisets, precise, signed
from support.paths import ROOT

from darrm_opt import NotPrivate, Privacy, Problem, Solution, solve
from darrm_opt.accounting.accounts import SEARCHED
from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.release_profile import NoisyMajority, Release, ReleaseProfile, release_profile
from darrm_opt.accounting.total import ReleaseTotal, total_delta_of, total_of, total_privacy, total_privacy_of_sequence
from darrm_opt.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.noise import Array, NoiseFunction

SLACK = 1e-4
GRID_ERROR = 5e-5  # relative difference in ε between two grids of the recursion


@cache
def at(m: int, queries: int) -> ReleaseTotal:
    """Return the total of releases at the total δ of the table."""
    return total_privacy(SOLUTIONS[m], queries, total_delta_of(SOLUTIONS[m].problem.target, queries, SLACK), fresh=True)


def mnist(m: float) -> Solution:
    found: Solution = solve(Problem.from_allowance(K=11, m=m, epsilon=0.0892, Delta=1e-4))
    return found


SOLUTIONS = {m: mnist(m) for m in (1, 3, 5, 7)}

TABLE = {
    # m: for Q = 20, 50, 100 the total ε by optimal composition, the PLD of the profile and the recursion
    1: [(1.237, 1.237, 1.054), (2.157, 2.157, 1.702), (3.285, 3.285, 2.414)],
    3: [(4.268, 2.563, 2.258), (7.946, 4.230, 3.626), (12.597, 6.285, 5.314)],
    5: [(7.916, 2.983, 2.535), (15.054, 4.914, 4.122), (24.732, 7.394, 6.117)],
    7: [(11.730, 3.596, 2.697), (23.379, 6.048, 4.344), (39.303, 9.170, 6.399)],
}


PAGE = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
COLUMNS = ("general", "optimal", "profile", "bits")
MEASURED = {
    (int(m), int(queries)): [float(number) for number in numbers.split("|")]
    for m, queries, numbers in re.findall(r"^\| (\d) \| (\d+) \| ([\d. |]+) \|$", PAGE, re.MULTILINE)
}
"""The table of the documentation: ε by the accounts of `COLUMNS`, and the lower bound of the last."""


@for_each("m", TABLE)
def test_the_tables_of_the_documentation_are_reproduced(m: int) -> None:
    assert len(MEASURED) == 12
    for queries, expected in zip((20, 50, 100), TABLE[m], strict=True):
        total = at(m, queries)
        found = [total.totals[name].epsilon for name in ("optimal", "profile", "bits")]
        assert found == pytest.approx(expected, rel=0.01)
        *printed, inner = MEASURED[m, queries]
        assert [total.totals[name].epsilon for name in COLUMNS] == pytest.approx(printed, abs=1e-3)
        assert abs(inner - printed[-1]) < 1e-3
        assert total.method == "bits"
        assert not total.refused


@for_each("m", TABLE)
@for_each("queries", [1, 7, 50])
def test_finer_accounts_have_smaller_totals(m: int, queries: int) -> None:
    total = at(m, queries).totals
    assert total["bits"].epsilon <= total["profile"].epsilon * (1 + GRID_ERROR)
    assert total["profile"].epsilon <= total["pld"].epsilon * (1 + 1e-4)
    assert total["optimal"].epsilon <= total["pld"].epsilon
    assert total["optimal"].epsilon <= total["general"].epsilon <= total["simple"].epsilon * (1 + 1e-15)


def shown(solution: Solution) -> Array:
    """Return (Pr[1|D], Pr[1|D′]) at every corner multiset, from the exact distributions: shape (multisets, 2)."""
    problem = solution.problem
    corners = list(Voters.of(problem).corners().values())
    with precise():
        g = signed(solution.gamma, Decimal)
        pairs = []
        for counts in multisets(problem.K, len(corners), problem.affected):
            voters = [corner for corner, count in zip(corners, counts, strict=True) for _ in range(count)]
            pairs.append([float((1 + mean(g, [voter[side] for voter in voters])) / 2) for side in (0, 1)])
    return np.array(pairs)


@pytest.mark.parametrize(
    "problem",
    [
        Problem.from_allowance(K=3, m=1.5, epsilon=0.4, Delta=0.02),
        Problem.from_allowance(K=5, m=2, epsilon=0.7),
        Problem.from_allowance(K=4, m=2, epsilon=0.3, Delta=1e-3, affected=2),
    ],
    ids=str,
)
def test_two_releases_cost_at_least_as_much_as_any_strategy(problem: Problem) -> None:
    """By enumeration of all pairs of neighbours for the first bit and, after each answer, for the second."""
    solution = solve(problem)
    pairs = np.unique(np.round(shown(solution), 14), axis=0)
    pairs = np.concatenate([pairs, pairs[:, ::-1]])
    profile = release_profile(solution.gamma, problem)
    for epsilon in (0.0, 0.2, 0.5, 1.0):
        c = math.exp(epsilon)

        def second(a: Array, b: Array) -> Array:
            """Return the largest hockey-stick divergence of one more bit, weighted a against b."""
            p, q = pairs.T
            both = np.maximum(np.multiply.outer(a, p) - np.multiply.outer(b, q), 0)
            both += np.maximum(np.multiply.outer(a, 1 - p) - np.multiply.outer(b, 1 - q), 0)
            return np.asarray(both.max(axis=1))

        one = float(np.max(pairs[:, 0] - c * pairs[:, 1], initial=0.0))
        assert one - 1e-13 <= profile.delta(epsilon) <= one + 1e-9 + 1e-4 * one
        two = float(np.max(second(pairs[:, 0], c * pairs[:, 1]) + second(1 - pairs[:, 0], c * (1 - pairs[:, 1]))))
        assert two - 1e-12 <= compose_bits([(profile.outer, 2)]).delta(epsilon) <= two + 1e-8 + 1e-3 * two
        assert profile.pld(count=2).delta(epsilon) >= two - 1e-12


def test_equal_parts_are_merged_and_their_order_is_irrelevant() -> None:
    one, other = SOLUTIONS[1], SOLUTIONS[3]
    whole = total_privacy(one, 8, 0.01, fresh=True)
    assert total_privacy_of_sequence([(one, 5), (one, 3)], 0.01, fresh=True).totals == whole.totals
    assert total_privacy_of_sequence([(one, 8), (other, 0)], 0.01, fresh=True).totals == whole.totals
    mixed = total_privacy_of_sequence([(one, 2), (other, 3)], 0.01, fresh=True)
    assert total_privacy_of_sequence([(other, 3), (one, 2)], 0.01, fresh=True).totals == mixed.totals
    dearest, fewer = total_privacy(other, 5, 0.01, fresh=True), total_privacy(one, 2, 0.01, fresh=True).totals
    for method in mixed.totals:
        assert mixed.totals[method].epsilon <= dearest.totals[method].epsilon * (1 + GRID_ERROR)
        assert mixed.totals[method].epsilon >= fewer[method].epsilon


@for_each(("K", "m", "voter"), [(3, 3, 0.5), (5, 5, 0.5), (5, 2, 0.5), (7, 6, 0.2)])
def test_largest_losses_add_up_at_delta_zero(K: int, m: int, voter: float) -> None:
    """For a γ more private than its target: against the pairs of all placements of the voters, in fractions."""
    solution = solve(Problem.from_allowance(K=K, m=m, epsilon=voter))
    pairs = shown_pairs(solution.noise, solution.problem)
    loss = max(math.log(a / b) for p, q in pairs for a, b in ((p, q), (1 - p, 1 - q), (q, p)) if min(a, b) > 0)
    for queries in (1, 10, 1000):
        total = total_privacy(solution, queries, 0.0, fresh=True)
        assert (
            queries * loss * (1 - 1e-12) <= total.best.epsilon <= min(queries * loss, queries * m * voter) * (1 + 2e-6)
        )
        assert total.best.delta == 0
        searched = total_of(
            [(NoisyMajority(solution.noise, solution.problem).guarantee, queries)], 0.0, effort=SEARCHED
        )
        assert searched.epsilon == pytest.approx(total.best.epsilon, rel=1e-12)


def test_a_gamma_with_an_infinite_loss_has_no_total_at_delta_zero() -> None:
    voters = Problem(3, Privacy(math.inf), Privacy(1.0, 0.5), 1)
    sure, unsure = (NoiseFunction(np.array([edge, 0.2, 0.2, edge])) for edge in (1.0, 0.5))
    with pytest.raises(DeltaTooSmall):
        _ = total_of([(NoisyMajority(sure, voters).guarantee, 2)], 0.0).best
    total = total_of([(NoisyMajority(unsure, voters).guarantee, 2)], 0.0)
    # Pr[bit = 1] is ¼ and ⅖ with 0 and 1 ones, and ⅖ and ⅗ with 1 and 2
    assert total.epsilon == pytest.approx(2 * math.log(0.4 / 0.25), rel=1e-9)
    assert total.epsilon >= 2 * math.log(0.4 / 0.25)


def test_a_delta_below_every_floor_is_refused() -> None:
    finite = total_privacy(SOLUTIONS[3], 3 * 10**5, 0.999, fresh=True)
    assert (
        {"renyi", "gaussian", "losses"} <= finite.totals.keys() <= {"renyi", "gaussian", "losses", "points"}
    )  # (mε, δ) leaks with its δ, the pairs of a bit do not
    sure = NoiseFunction(np.array([1.0, 0.2, 0.2, 1.0]))
    total = total_privacy((sure, Problem(3, Privacy(math.inf), Privacy(1.0, 0.5), 1)), 3 * 10**5, 0.999)
    assert total.totals == {}
    assert isinstance(finite.refused["bits"], TooMuchWork)
    assert "gaussian" not in total.refused  # power divergences of a pair with an infinite loss are unbounded
    with pytest.raises(DeltaTooSmall, match=r"no finite epsilon exists at delta = 0\.999"):
        _ = total.best


def test_a_release_that_leaks_less_than_its_delta_has_a_lower_floor() -> None:
    total = total_privacy(
        SOLUTIONS[5], 100, 0.01, fresh=True
    )  # 100 releases with δ = 5e-4 may leak 0.049; this γ leaks 7e-6 per release
    assert isinstance(total.refused["optimal"], DeltaTooSmall)
    assert total.method == "bits"


@for_each(("epsilon", "Delta"), [(1e-9, 0.0), (50.0, 0.0), (5.0, 1e-6), (math.inf, 0.0), (0.0, 0.01)])
def test_extremes(epsilon: float, Delta: float) -> None:
    known = epsilon in (0.0, math.inf)
    problem = Problem.from_allowance(
        K=5, m=None if known else 1, epsilon=epsilon, Delta=Delta, target_epsilon=0.5 if known else None, delta=1e-3
    )
    total = total_privacy(solve(problem), 10, 0.05, fresh=True)
    assert 0 <= total.best.epsilon <= total.totals["simple"].epsilon


def test_a_bare_gamma_is_verified_first() -> None:
    solution = SOLUTIONS[1]
    assert (
        total_privacy((solution.gamma, solution.problem), 5, 0.01, fresh=True).totals
        == total_privacy(solution, 5, 0.01, fresh=True).totals
    )
    with pytest.raises(NotPrivate):
        total_privacy((np.ones(12), solution.problem), 5, 0.01, fresh=True)


@for_each("m", TABLE)
def test_the_profile_is_one_function(m: int) -> None:
    profile: ReleaseProfile = Release.of(SOLUTIONS[m]).profile
    grid = np.linspace(-2, 20, 500)
    deltas = profile(grid)
    assert np.all(np.diff(deltas) <= 1e-15)
    assert np.allclose(deltas[grid < 0], 1 - np.exp(grid[grid < 0]) * (1 - profile(-grid[grid < 0])), atol=1e-12)
    assert profile.delta(SOLUTIONS[m].problem.target.epsilon) <= SOLUTIONS[m].problem.target.delta + 1e-11
    for delta in (1e-3, 0.01):
        assert profile.delta(profile.epsilon(delta)) <= delta
    with pytest.raises(DeltaTooSmall, match="one release may leak"):
        profile.epsilon(1e-9)


def test_many_releases_are_also_accounted_by_divergences() -> None:
    """If the recursion on bits takes too long, power divergences of the same pairs may be the least account."""
    solution = solve(Problem(11, Privacy(math.inf), Privacy(0.05, 1e-6), 1))
    total = total_privacy(solution, 10**6, 1e-3)
    mechanism = NoiseFunctionMechanism(solution.noise).cost(10**6, 1e-3)
    assert isinstance(total.refused["bits"], TooMuchWork)
    for name in ("renyi", "gaussian"):
        assert total.totals[name].epsilon == pytest.approx(mechanism.epsilons[name], rel=1e-6)
    assert total.best.epsilon <= min(mechanism.epsilons["renyi"], mechanism.epsilons["gaussian"]) * (1 + 1e-6)
    assert {"renyi", "gaussian"}.isdisjoint(total_privacy(solution, 20, 1e-3).totals)
    assert {"renyi", "gaussian"}.isdisjoint(total_privacy(solution, 10**6, 0.0).totals)


def test_many_kinds_of_many_releases_have_a_total_by_fast_accounts() -> None:
    """Sixty kinds of ten million releases for private voters once took minutes."""
    parts = []
    for kind in range(60):
        epsilon = 1e-3 * (1 + 0.01 * kind)
        problem = Problem(11, Privacy(epsilon), Privacy(2 * epsilon, 1e-9), 1)
        parts.append(((NoiseFunction.from_upper_half(np.linspace(epsilon / 24, epsilon / 4, 6), 11), problem), 10**7))
    total = total_privacy_of_sequence(parts, 1e-6, fresh=True)
    assert {"pld", "bits"} <= {name for name, error in total.refused.items() if isinstance(error, TooMuchWork)}
    assert total.method == "gaussian"
    few = total_privacy_of_sequence(parts[:6], 1e-6, fresh=True)
    assert few.epsilon < total.epsilon < 10 * few.epsilon
