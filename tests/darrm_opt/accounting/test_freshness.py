"""Voters trained once: totals against all transcripts of a few releases, in fractions.

The oracle is a lower bound that is attained. Each voter is a model with one secret bit, drawn once with chance p on the dataset and
p′ on its neighbour, and (p, p′) is (ε, 0)-DP; so the model is, whatever it computes from its bit. All releases use the votes of the same models.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.enumeration import whole
from support.exact import distribution

from darrm_opt import NotPrivate, Privacy, Problem, Solution, solve, verify
from darrm_opt.accounting import Release, compose_models, privacy_map, total_privacy, total_privacy_of_sequence
from darrm_opt.accounting.accounts import models_account
from darrm_opt.accounting.composition.optimal import optimal_composition, optimal_composition_of_sequence, optimal_delta
from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning import best_target, design_sequence
from darrm_opt.planning.compare import compare
from darrm_opt.release import most_releases

KNOWN = {  # K, ε, m: total, labels once allowed, their true total ε, their true δ at the total ε
    (5, 0.3, 0.2): (Privacy(0.72, 1e-6), 12, 0.975, 2.9e-4),
    (11, 0.5, 0.3): (Privacy(2.5, 1e-6), 19, 4.015, None),
}


@cache
def solved(K: int, epsilon: float, m: float, affected: int | None = None) -> Solution:
    found: Solution = solve(Problem.from_allowance(K=K, epsilon=epsilon, m=m, affected=affected))
    return found


def chances(noise: NoiseFunction) -> list[Fraction]:
    """Return Pr[bit = 1 | l ones]."""
    return [(1 + Fraction(float(g))) / 2 for g in noise.signed]


def secret(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return (p, p′) with p + p′ = 1 and p/p′ at most e^ε, to within rounding."""
    p = Fraction(1 / (1 + math.exp(-epsilon))) - Fraction(1, 2**50)
    return p, 1 - p


Outcome = tuple[int, Fraction, Fraction]
"""Voters that always vote 1, and Pr[number of ones among the released bits] on the dataset and on its neighbour."""


def repeated(noise: NoiseFunction, epsilon: float, queries: int, affected: int) -> list[Outcome]:
    """Return the laws of releases of the same votes: ``affected`` voters vote their secret bit, the others 1 or 0."""
    K, one = noise.values.size - 1, chances(noise)
    p, q = secret(epsilon)
    here, there = distribution([p] * affected), distribution([q] * affected)
    outcomes = []
    for fixed in range(K - affected + 1):
        for j in range(queries + 1):
            ways = math.comb(queries, j)
            shown = [ways * one[fixed + l] ** j * (1 - one[fixed + l]) ** (queries - j) for l in range(affected + 1)]
            outcomes.append((fixed, dot(here, shown), dot(there, shown)))
    return outcomes


def dot(masses: Iterable[Fraction], values: Iterable[Fraction]) -> Fraction:
    return sum(times(masses, values), Fraction(0))


def times(masses: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    return [mass * value for mass, value in zip(masses, values, strict=True)]


def true_delta(pairs: list[Outcome], epsilon: float) -> float:
    """Return the largest hockey-stick divergence at ε over both directions and the other votes, rounded down."""
    c = Fraction(math.nextafter(math.exp(epsilon), math.inf))
    found = Fraction(0)
    for _, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
        members = list(group)
        forth = sum((max(a - c * b, Fraction(0)) for _, a, b in members), Fraction(0))
        back = sum((max(b - c * a, Fraction(0)) for _, a, b in members), Fraction(0))
        found = max(found, forth, back)
    return math.nextafter(float(found), 0.0)


def true_epsilon(pairs: list[Outcome], delta: float) -> float:
    """Return the total ε at a total δ, from below."""
    low, high = 0.0, 64.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if true_delta(pairs, middle) > delta else (low, middle)
    return low


@pytest.mark.parametrize("voters", KNOWN)
def test_the_enumeration_finds_known_values(voters: tuple[int, float, float]) -> None:
    total, labels, epsilon, delta = KNOWN[voters]
    pairs = repeated(solved(*voters).noise, voters[1], labels, voters[0])
    assert true_epsilon(pairs, total.delta) == pytest.approx(epsilon, rel=2e-3)
    if delta is not None:
        assert true_delta(pairs, total.epsilon) == pytest.approx(delta, rel=0.02)


@pytest.mark.parametrize("voters", KNOWN)
def test_no_total_is_below_the_exact_one_of_voters_trained_once(voters: tuple[int, float, float]) -> None:
    total, labels, epsilon, _ = KNOWN[voters]
    solution = solved(*voters)
    K, each, problem = voters[0], voters[1], solution.problem
    pairs = repeated(solution.noise, each, labels, K)
    truth = true_epsilon(pairs, total.delta)
    found = total_privacy(solution, labels, total.delta)
    assert truth > 0.97 * epsilon
    for account in found.totals.values():
        assert true_delta(pairs, account.epsilon) <= account.delta
    assert truth <= found.best.epsilon <= K * each
    assert exact_epsilon(solution.noise, problem, labels, total.delta) >= truth
    assert total_privacy_of_sequence([(solution, 5), (solution, labels - 5)], total.delta).best.epsilon >= truth
    assert privacy_map(solution, queries=labels)(1)(total.epsilon) >= true_delta(pairs, total.epsilon)
    assert most_releases(solution, total).queries == 1  # a single release is not composed
    assert most_releases(solution, total, fresh=True).queries >= 12  # as many as were once allowed
    # The account of fresh voters is lower, and false here.
    assert total_privacy(solution, labels, total.delta, fresh=True).best.epsilon < truth


@for_each(("K", "epsilon", "m", "affected"), [(3, 1.0, 1.0, 3), (4, 0.5, 0.3, 2), (5, 2.0, 1.5, 1), (3, 0.2, 0.5, 2)])
@for_each("queries", [2, 5, 20])
def test_totals_hold_for_a_few_voters_of_any_kind(
    K: int, epsilon: float, m: float, affected: int, queries: int
) -> None:
    solution = solved(K, epsilon, m, affected)
    pairs = repeated(solution.noise, epsilon, queries, affected)
    for delta in (1e-6, 1e-3, 0.1):
        total = total_privacy(solution, queries, delta)
        for account in total.totals.values():
            assert true_delta(pairs, account.epsilon) <= account.delta
        assert total.best.epsilon <= compose_models({solution.problem.voter: affected}, delta).epsilon


def test_adaptive_queries_of_the_same_models_stay_within_the_total() -> None:
    # All pairs of queries, the second chosen after the first answer: each of three models answers its bit,
    # the opposite, 0, or 1.
    solution = solved(3, 1.0, 1.0)
    one, (p, q) = chances(solution.noise), secret(1.0)
    models = list(itertools.product((0, 1), repeat=3))
    questions = itertools.product(
        ((0, 1), (1, 0), (0, 0), (1, 1)), repeat=3
    )  # each model's answers at bit 0 and at bit 1
    bits = {
        tuple(one[sum(said[b] for said, b in zip(ask, state, strict=True))] for state in models) for ask in questions
    }

    laws = [
        [math.prod((chance if b else 1 - chance for b in state), start=Fraction(1)) for state in models]
        for chance in (p, q)
    ]
    (unit, asked), (scale, (at_p, at_q)) = whole([*bits]), whole(laws)

    for total_delta in (1e-4, 1e-2):
        claimed = total_privacy(solution, 2, total_delta).best.epsilon
        c = Fraction(math.nextafter(math.exp(claimed), math.inf))

        def shown(a: list[int], b: list[int], left: int, c: Fraction = c) -> int:
            if not left:
                return max(c.denominator * sum(a) - c.numerator * sum(b), 0)
            found = 0
            for ones in asked:
                answers = (ones, [unit - chance for chance in ones])
                found = max(found, sum(shown(times(a, bit), times(b, bit), left - 1) for bit in answers))
            return found

        assert Fraction(shown(at_p, at_q, 2), c.denominator * scale * unit**2) <= total_delta


def test_freshness_changes_nothing_for_one_release_or_non_private_voters() -> None:
    solution, teachers = solved(5, 0.3, 0.2), solve(Problem(5, Privacy(math.inf), Privacy(0.5, 1e-3), 1))
    assert total_privacy(solution, 1, 1e-6).totals == total_privacy(solution, 1, 1e-6, fresh=True).totals
    assert total_privacy(teachers, 7, 0.01).totals == total_privacy(teachers, 7, 0.01, fresh=True).totals
    assert total_privacy(teachers, 7, 0.01).totals.keys() - {"losses"} == total_privacy(solution, 1, 0.01).totals.keys()
    assert most_releases(teachers, Privacy(3.0, 0.02)) == most_releases(teachers, Privacy(3.0, 0.02), fresh=True)


def test_composed_models_account_for_any_number_of_releases() -> None:
    solution = solved(5, 0.3, 0.2)
    for queries in (2, 1000, 10**9):
        assert total_privacy(solution, queries, 0.0).best == Privacy(1.5, 0.0)
    quota = most_releases(solution, Privacy(1.5))
    assert (quota.queries, quota.account) == (10**9, "models")
    release = Release.of(solution)
    assert CertifiedNoiseFunction(release).fits(Privacy(1.5), quota.queries)
    assert not CertifiedNoiseFunction(release).fits(Privacy(1.49), quota.queries)
    assert not CertifiedNoiseFunction(release, fresh=True).fits(Privacy(1.5), quota.queries)


def test_compose_models_with_a_Delta() -> None:
    voters = Problem.from_allowance(K=5, epsilon=0.3, Delta=1e-4, m=1, affected=2)
    solution = solve(voters)
    for delta in (3e-4, 1e-2):
        total = total_privacy(solution, 50, delta).best
        assert total.delta == delta
        assert optimal_delta(0.3, 1e-4, 2, total.epsilon) <= delta
    everything = total_privacy(
        solution, 50, 1e-4
    )  # two models may leak 2e-4, and γ for them shows nearly all if they do
    assert everything.method == "bits"
    assert everything.best.epsilon > 500


def test_releases_for_different_voters_compose_different_models() -> None:
    three, five = solved(3, 1.0, 1.0), solved(5, 0.3, 0.2)
    total = total_privacy_of_sequence([(three, 4), (five, 6)], 0.0)
    assert total.best == Privacy(4.5, 0.0)  # 3·1 + 5·0.3
    assert total.method == "models"


def test_designs_for_voters_trained_once() -> None:
    total, voter = Privacy(2.0, 1e-3), Privacy(1.0)
    found = best_target(5, voter, 10, total, 3)  # 3·1 > 2: the models count as not private
    assert found.solution.problem.voter.epsilon == math.inf
    assert found.total.epsilon <= 2.0
    assert found.solution.gamma.tolist() == best_target(5, Privacy(math.inf), 10, total, 3).solution.gamma.tolist()
    free = best_target(5, voter, 10, total, 2)  # 2·1 ≤ 2: post-processing
    assert free.account == "models"
    assert free.solution.utility > 1 - 1e-9
    voters = Problem(5, voter, total, 3)
    made = design_sequence(voters, 10, total)
    assert exact_epsilon(made.noise, voters, 10, total.delta) <= 2.0
    assert made.utility >= found.solution.utility * 0.95
    plain = design_sequence(Problem(5, voter, total, 2), 10, total)
    assert plain.utility == 1.0
    assert plain.total.epsilon <= 2.0


def test_compare_uses_freshness() -> None:
    voters, total = Problem(5, Privacy(1.0), Privacy(1.0), 3), Privacy(2.0, 1e-3)
    once, fresh = compare(voters, 4, total), compare(voters, 4, total, fresh=True)
    assert (once.fresh, fresh.fresh) == (False, True)
    taken = compare(Problem(5, Privacy(math.inf), Privacy(1.0), 3), 4, total)
    utilities, others = ({row.name: row.utility or 0.0 for row in found.rows} for found in (once, taken))
    assert utilities.pop("fewer_voters") > others.pop("fewer_voters") == 0.0  # private voters may be few
    assert utilities == pytest.approx(others, rel=1e-3)
    rows = {row.name: row for row in compare(Problem(5, Privacy(1.0), Privacy(1.0), 2), 4, total).rows}
    assert rows["majority"].utility == 1.0
    assert rows["majority"].epsilon is not None
    assert rows["majority"].epsilon <= 2.0


@pytest.mark.parametrize("fresh", [1, 0.0, "yes"])
def test_fresh_must_be_a_boolean(fresh: object) -> None:
    text = r"^fresh = .* is not valid: expected True \(fresh randomness in every answer\) or False \(trained once\)"
    for ask in (
        lambda: total_privacy(solved(5, 0.3, 0.2), 2, 0.0, fresh=fresh),  # type: ignore[arg-type]
        lambda: most_releases(solved(5, 0.3, 0.2), Privacy(1.0), fresh=fresh),  # type: ignore[arg-type]
        lambda: effective_voters(Problem(3, Privacy(1.0), Privacy(1.0)), 1, fresh=fresh),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput, match=text):
            ask()


def test_a_release_is_verified_when_it_is_made() -> None:
    problem = Problem.from_allowance(K=5, epsilon=0.3, m=1)
    with pytest.raises(NotPrivate):
        Release(NoiseFunction(np.ones(6)), problem)
    solution = solve(problem)
    release = Release(solution.noise, problem)
    assert release == Release.of(solution)
    assert release.certificate == verify(problem, release.noise)
    assert release.privacy == problem.target


def test_models_cost_the_least_of_their_accounts() -> None:
    one = Privacy(0.5, 1e-6)
    assert compose_models({one: 1}, 1e-5) == compose_models({one: 1}, 1e-6) == one  # a single model costs its ε
    assert compose_models({one: 1}, 0.9e-6).epsilon == compose_models({one: 3}, 2e-6).epsilon == math.inf
    assert compose_models({Privacy(0.1): 3}, 0.0) == Privacy(0.3, 0.0)  # sums of the decimals as written
    assert compose_models({Privacy(0.1): 2, Privacy(0.2): 1}, 0.0) == Privacy(0.4, 0.0)
    many, kinds = {Privacy(0.1): 100}, {Privacy(0.1): 50, Privacy(0.2): 20}
    assert compose_models(many, 1e-3).epsilon == optimal_composition(0.1, 0.0, 100, 1e-3).epsilon < 10
    assert compose_models(kinds, 1e-3).epsilon == optimal_composition_of_sequence(kinds, 1e-3).epsilon < 9
    assert compose_models({Privacy(math.inf): 1, Privacy(0.1): 1}, 0.5) == Privacy(math.inf, 0.5)


def test_models_account_for_several_releases_of_private_voters_trained_once_only() -> None:
    voters, target = Privacy(0.1), Privacy(1.0)
    private, others = Problem(3, voters, target), Problem(3, Privacy(math.inf), target)
    assert models_account(private, 2, 0.0, fresh=False) == Privacy(0.3, 0.0)
    for problem, queries, fresh in ((private, 1, False), (private, 2, True), (others, 2, False)):
        assert models_account(problem, queries, 0.0, fresh=fresh) == Privacy(math.inf, 0.0)
