"""Accounts averaged over the number of affected voters: against enumeration of draws and answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.enumeration import adaptive_bits_delta, vote_pairs
from support.refusals import refused
from support.rounded import hardly_above

from darrm_opt.accounting import mixture
from darrm_opt.accounting.bits.recursion import BitTotal, compose_bits
from darrm_opt.accounting.bits.region import BitRegion, outer_region
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.accounting.mixture import (
    AffectedDistribution,
    BaggedMajority,
    CountGroup,
    MixtureTotal,
    count_groups,
    mixture_total,
)
from darrm_opt.accounting.release_profile import ReleaseProfile
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.bagging import Bags
from darrm_opt.design.privacy_profile import ProfileSearch
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.mechanisms.vote_noise import LaplaceNoise, noise_function
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import up

OPEN = Problem(3, Privacy(math.inf), Privacy(1.0))
GAMMA = NoiseFunction.from_upper_half(np.array([0.5, 0.3]), 3)  # not monotone
EPSILONS = (0.0, 0.3, 0.8, 1.5, 2.5)


def answers(gamma: NoiseFunction) -> list[Fraction]:
    """Return Pr[1 | v ones], exactly."""
    return [(1 + Fraction(float(g))) / 2 for g in gamma.signed]


@cache
def worst_delta(affected: int, queries: int, epsilon: float) -> Fraction:
    """Return the worst hockey-stick divergence of adaptive queries on fixed votes by `GAMMA`."""
    return adaptive_bits_delta([vote_pairs(GAMMA, affected)] * queries, epsilon)


def draws(bags: Bags, K: int) -> list[tuple[tuple[int, ...], ...]]:
    """Return all equally likely draws of K subsamples."""
    records = range(bags.n)
    if bags.replacement:
        one = list(product(records, repeat=bags.subsample_size))
    else:
        one = list(combinations(records, bags.subsample_size))
    together = list(product(one, repeat=K))
    if bags.sampling == "disjoint":
        together = [draw for draw in together if len({i for part in draw for i in part}) == K * bags.subsample_size]
    return together


SMALL_DRAWS = [Bags(3, 1), Bags(3, 2), Bags(4, 2, False), Bags(4, 1, False, "disjoint")]


@for_each("bags", SMALL_DRAWS)
def test_the_law_is_that_of_all_draws(bags: Bags) -> None:
    together = draws(bags, 3)
    counts = [sum(0 in part for part in draw) for draw in together]
    law = bags.affected_distribution(3)
    for r, chance in enumerate(law.chances):
        exact = Fraction(counts.count(r), len(together))
        assert exact <= Fraction(chance) <= exact + Fraction(1, 10**14)


@for_each("queries", [1, 2, 3])
@for_each("bags", SMALL_DRAWS)
def test_the_account_is_the_exact_average_over_all_draws(bags: Bags, queries: int) -> None:
    """An adversary who knows the draw attains exactly the average of the worst cases of all draws."""
    total = mixture_total(GAMMA, OPEN, queries, bags.affected_distribution(3), points=8001)
    together = draws(bags, 3)
    counts = [sum(0 in part for part in draw) for draw in together]
    for epsilon in EPSILONS:
        exact = sum(
            Fraction(counts.count(r), len(counts)) * worst_delta(r, queries, epsilon) for r in set(counts) - {0}
        )
        found = total.delta(epsilon)
        assert found >= exact * (1 - Fraction(1, 10**12))
        assert found <= float(exact) + 2e-6


@for_each(
    ("problem", "queries"),
    [
        (OPEN, 1),
        (OPEN, 5),
        (Problem(4, Privacy(0.5, 1e-3), Privacy(1.0)), 4),
        (Problem(5, Privacy(0.4), Privacy(1.0)), 3),
    ],
)
def test_a_certain_count_has_the_account_of_that_many_affected_voters(problem: Problem, queries: int) -> None:
    gamma = noise_function(problem.K, LaplaceNoise(3.0))
    for count in (1, problem.K - 1, problem.K):
        affected = Problem(problem.K, problem.voter, problem.target, count)
        expected = exact_epsilon(gamma, affected, queries, 0.01, points=4001, fresh=True)
        law = AffectedDistribution.exactly(count, problem.K)
        total = mixture_total(gamma, problem, queries, law, fresh=True, total_delta=0.01, points=4001)
        found = total.epsilon(0.01)
        assert found == pytest.approx(expected, rel=2e-3)


def test_a_record_that_affects_no_voter_has_no_loss() -> None:
    assert BaggedMajority(GAMMA, OPEN, AffectedDistribution.exactly(0, 3)).epsilon(50, 0.0) == 0.0
    rare = AffectedDistribution.binomial(3, 1e-9)
    certain = NoiseFunction.from_upper_half(np.ones(2), 3)
    assert BaggedMajority(certain, OPEN, rare).epsilon(1000, 1e-8) == 0.0  # the privacy of bagging suffices
    with pytest.raises(DeltaTooSmall, match="over draws and answers"):
        BaggedMajority(certain, OPEN, rare).epsilon(1000, 1e-10)


@for_each("queries", [2, 30, 400])
@for_each("voters", [Privacy(math.inf), Privacy(0.4), Privacy(0.3, 1e-4)])
def test_the_estimate_is_close_to_the_proved_total(voters: Privacy, queries: int) -> None:
    problem, law = Problem(7, voters, Privacy(1.0)), AffectedDistribution.binomial(7, 0.2)
    gamma = noise_function(7, LaplaceNoise(40.0))
    proved = BaggedMajority(gamma, problem, law, fresh=True).epsilon(queries, 1e-3)
    about = BaggedMajority(gamma, problem, law).estimate(queries, 1e-3)
    assert about is not None
    assert 0.85 * proved < about < 1.15 * proved


def test_the_estimate_of_extremes() -> None:
    certain = NoiseFunction.from_upper_half(np.ones(2), 3)
    assert BaggedMajority(certain, OPEN, AffectedDistribution.binomial(3, 0.2)).estimate(10, 1e-3) == math.inf
    assert BaggedMajority(certain, OPEN, AffectedDistribution.binomial(3, 1e-9)).estimate(1000, 1e-8) == 0.0
    assert BaggedMajority(certain, OPEN, AffectedDistribution.exactly(0, 3)).estimate(10, 0.0) == 0.0
    assert BaggedMajority(GAMMA, OPEN, AffectedDistribution.binomial(3, 0.1)).estimate(1, 0.99) == 0.0
    assert (
        BaggedMajority(NoiseFunction(np.zeros(4)), OPEN, AffectedDistribution.exactly(3, 3)).estimate(10, 0.01) == 0.0
    )


@given(st.integers(1, 60), st.fractions(0, 1, max_denominator=10**6), st.integers(1, 12), st.floats(0, 0.1))
def test_groups_cover_all_counts(K: int, chance: Fraction, most: int, spared: float) -> None:
    law = AffectedDistribution.binomial(K, chance)
    exact = [math.comb(K, r) * chance**r * (1 - chance) ** (K - r) for r in range(K + 1)]
    for told, true in zip(law.chances, exact, strict=True):
        assert Fraction(told) >= true
        assert told <= float(true) * (1 + 1e-12) + 1e-300
    parts, beyond = law.parts(spared, most)
    assert len(parts) <= most
    assert beyond <= spared
    shapes: list[Callable[[int], Fraction]] = [
        lambda r: Fraction(int(r > 0)),
        lambda r: Fraction(r, K),
        lambda r: Fraction(r, K) ** 4,
        lambda r: Fraction(int(2 * r > K)),
    ]
    for D in shapes:
        together = sum((Fraction(part.chance) * D(part.count) for part in parts), Fraction(beyond))
        assert together >= sum(true * D(r) for r, true in enumerate(exact))


@for_each("affected", [1, 2, 5])
@for_each("upper", [[0.1, 0.3, 0.9], [0.9, 0.2, 1.0], [0.0, 0.0, 0.0]])
def test_the_profile_of_fixed_votes_is_that_of_the_search(upper: list[float], affected: int) -> None:
    gamma = NoiseFunction.from_upper_half(np.array(upper), 5)
    direct = BitPairs.of_gamma(gamma, affected)
    search = ProfileSearch(gamma, Problem(5, Privacy(math.inf), Privacy(1.0), affected))
    for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0):
        slope = Fraction(math.exp(epsilon))
        exact = max(p - slope * q for p, q in vote_pairs(gamma, affected))
        assert max(exact, Fraction(0)) <= Fraction(direct.delta(epsilon)) * (1 + Fraction(1, 10**15))
        assert direct.delta(epsilon) <= max(float(exact), 0.0) * (1 + 1e-13) + 1e-14
        assert direct.delta(epsilon) == pytest.approx(search.at(epsilon)[0], abs=1e-9)
    assert direct.delta(direct.max_loss) <= direct.delta(direct.max_loss + 5) + 1e-15
    if 0 < max(upper) < 1:
        slopes = np.exp(np.linspace(0.0, direct.max_loss, 200))
        searched = outer_region(slopes, [search.at(math.log(slope))[0] for slope in slopes])
        few = compose_bits([(direct.region, 6)], points=2001).epsilon(0.05)
        assert few <= compose_bits([(searched, 6)], points=2001).epsilon(0.05) <= few * (1 + 2e-2)


def test_private_voters_trained_once_count_as_not_private() -> None:
    gamma, law = noise_function(5, LaplaceNoise(9.0)), AffectedDistribution.binomial(5, 0.3)
    voters, taken = Problem(5, Privacy(0.3), Privacy(1.0)), Problem(5, Privacy(math.inf), Privacy(1.0))
    for queries in (1, 6):
        once = BaggedMajority(gamma, voters, law).epsilon(queries, 1e-3)
        counted = voters if queries == 1 else taken
        assert once == BaggedMajority(gamma, counted, law, fresh=True).epsilon(queries, 1e-3)
    assert once > BaggedMajority(gamma, voters, law, fresh=True).epsilon(6, 1e-3)


# ------------------------------------------------------------------------------------------- part by part

PRIVATE = Problem(3, Privacy(0.3), Privacy(1.0))
SMOOTH = NoiseFunction.from_upper_half(np.array([0.1, 0.3]), 3)
LAW = AffectedDistribution.binomial(3, 0.4)


def counts_of(groups: list[CountGroup]) -> list[int]:
    return [group.count for group in groups]


def test_laws_of_one_voter_and_of_tiny_probabilities_are_accepted() -> None:
    assert AffectedDistribution((0.5, 0.5)).K == 1
    for voters in (0, 2.0):
        with pytest.raises(InvalidInput, match=f"K = {voters} .* a whole number of voters, at least 1"):
            AffectedDistribution.exactly(0, voters)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=f"K = {voters} .* a whole number of voters, at least 1"):
            AffectedDistribution.binomial(voters, 0.5)  # type: ignore[arg-type]
    tiny = AffectedDistribution.binomial(3, Fraction(1, 10**20))
    assert tiny.chances[0] == 1.0  # rounded up, and still a probability


def test_the_largest_counts_are_omitted_up_to_the_allowance() -> None:
    law = AffectedDistribution((0.5, 0.25, 0.125, 0.0625, 0.0625))
    assert counts_of(law.parts(up(0.0625, 1))[0]) == [1, 2, 3]
    assert counts_of(law.parts(math.nextafter(up(0.0625, 1), 0.0))[0]) == [1, 2, 3, 4]
    assert AffectedDistribution((1 - 2.0**-10, 2.0**-10)).parts(0.01) == ([], up(2.0**-10, 1))


def test_the_smallest_counts_are_merged_if_groups_are_limited() -> None:
    rare = AffectedDistribution((0.9, 0.005, 0.004, 0.05, 0.05))
    assert counts_of(rare.parts(0.0, 4)[0]) == [1, 2, 3, 4]
    assert counts_of(rare.parts(0.0, 3)[0]) == [2, 3, 4]
    law = AffectedDistribution((0.9, 0.001, 0.002, 0.003, 0.03, 0.02, 0.02, 0.02, 0.02))
    assert counts_of(law.parts(0.0, 2)[0]) == [4, 8]
    assert law.parts(0.0, 2)[0][0].chance == pytest.approx(0.036, rel=1e-12)


def test_the_probability_of_a_group_is_at_most_1() -> None:
    assert AffectedDistribution((0.0, 0.75, 0.75)).parts(0.0, 1)[0] == [CountGroup(2, 1.0)]


def test_an_average_has_an_epsilon_at_every_delta_above_its_floor() -> None:
    average = MixtureTotal((CountGroup(1, 0.5),), (lambda epsilon: math.exp(-epsilon),), 0.01, 2.0)
    assert average.epsilon(average.delta(2.0)) == pytest.approx(2.0, rel=1e-9)
    for wrong in (1.0, "0.5"):
        with refused("delta"):
            average.epsilon(wrong)  # type: ignore[arg-type]


def test_by_default_voters_are_trained_once() -> None:
    epsilons = [
        mixture_total(SMOOTH, PRIVATE, 4, LAW, fresh=fresh, points=101).epsilon(0.05) for fresh in (False, True)
    ]
    assert epsilons[0] > epsilons[1]
    assert mixture_total(SMOOTH, PRIVATE, 4, LAW, points=101).epsilon(0.05) == epsilons[0]
    assert BaggedMajority(SMOOTH, PRIVATE, LAW).epsilon(4, 0.05) > BaggedMajority(SMOOTH, PRIVATE, LAW, True).epsilon(
        4, 0.05
    )


def test_one_release_needs_no_grid() -> None:
    """Its average equals that of the exact profiles to the last few bits."""
    total = mixture_total(SMOOTH, OPEN, 1, LAW, points=3)
    for epsilon in np.linspace(0.0, 0.6, 25).tolist():
        exact = sum(chance * BitPairs.of_gamma(SMOOTH, r).delta(epsilon) for r, chance in enumerate(LAW.chances) if r)
        assert total.delta(epsilon) == pytest.approx(exact, rel=1e-13, abs=1e-14)
    assert mixture_total(SMOOTH, OPEN, 1, AffectedDistribution.exactly(0, 3)).max_loss == 0.0


def test_the_limit_of_updates_determines_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    made: list[BitTotal] = []

    def composed(parts: list[tuple[BitRegion, int]], *, points: int) -> BitTotal:
        asked.append((parts[0][1], points))
        made.append(compose_bits([(parts[0][0], 2)], points=31))
        return made[-1]

    monkeypatch.setattr(mixture, "compose_bits", composed)
    for queries, points in ((2, 2001), (1500, 1111), (10**5, 501)):
        asked.clear()
        made.clear()
        total = mixture_total(SMOOTH, OPEN, queries, LAW)
        assert asked == [(queries, points)] * 3  # 5e6 updates, for this many releases of each of three counts
        assert total.max_loss == max(up((each.values.size - 1) * each.step, 4) for each in made)


def test_the_allowance_of_regions_is_divided_by_the_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[float, float]] = []

    def coarser(profile: ReleaseProfile, share: float, spare: float = 0.0) -> BitRegion:
        given.append((share, spare))
        return profile.outer

    monkeypatch.setattr(ReleaseProfile, "coarser", coarser)
    for queries, share in ((10, 2e-4), (3000, 2e-2)):
        given.clear()
        one = AffectedDistribution.exactly(1, 3)
        mixture_total(SMOOTH, PRIVATE, queries, one, fresh=True, total_delta=0.01, points=5)
        assert given == [pytest.approx((share, 4e-5 / queries))]


def test_groups_are_fewer_for_private_voters_and_many_releases(move: Callable[..., None]) -> None:
    move(mixture, MAX_GROUPS=7, MAX_PRIVATE_GROUPS=5, MIN_GROUPS=2, MAX_STEPS=12)
    move(AffectedDistribution, parts=lambda *of: ([], of[2]))
    found = [[mixture.count_groups(voters, n, LAW, 0.0)[1] for n in (1, 4, 99)] for voters in (OPEN, PRIVATE)]
    assert found == [[7, 3, 2], [5, 3, 2]]
    assert LAW.mean == pytest.approx(1.2, rel=1e-12)


def test_voters_that_are_not_private_use_the_pairs_of_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their region is exact if it has few vertices, else it has fewer lines."""
    votes = BitPairs.of_gamma(SMOOTH, OPEN.affected)
    delta, _ = mixture._profile_at_count(SMOOTH, OPEN, 1, 9, (0.0, 0.0))
    assert delta(0.1) == votes.delta(0.1)
    asked: list[Any] = []
    total = SimpleNamespace(delta=None, values=np.zeros(3), step=0.5)

    def compose(parts: Any, **_: object) -> Any:
        asked.append(parts)
        return total

    few: Any = SimpleNamespace(coarser=lambda *_: "fewer lines")
    monkeypatch.setattr(mixture, "compose_bits", compose)
    monkeypatch.setattr(mixture, "release_profile", lambda *_, **__: few)
    for most in (3, 2):
        monkeypatch.setattr(mixture, "MAX_EXACT_VOTERS", most)
        mixture._profile_at_count(SMOOTH, OPEN, 4, 9, (0.0, 0.0))
    (((region, _),), ((fewer, _),)) = asked
    assert region.moves.tolist() == votes.region.moves.tolist()
    assert fewer == "fewer lines"


def mixed(shares: list[tuple[int, float, float]], beyond: float = 0.01) -> MixtureTotal:
    parts = tuple(CountGroup(count, chance) for count, chance, _ in shares)
    curves = tuple((lambda epsilon, delta=delta: delta * math.exp(-epsilon)) for _, _, delta in shares)
    return MixtureTotal(parts, curves, beyond, 2.0)


def test_an_average_is_the_sum_of_its_parts_rounded_up() -> None:
    average = mixed([(1, 0.5, 0.1), (3, 0.25, 0.6)])
    for epsilon in (0.0, 1.0):
        exact = Fraction(0.01) + sum(
            Fraction(chance) * Fraction(delta * math.exp(-epsilon)) for chance, delta in ((0.5, 0.1), (0.25, 0.6))
        )
        assert hardly_above(average.delta(epsilon), exact, 1e-15)
    heaviest = average.heaviest(1.0)
    assert heaviest is not None
    assert heaviest.count == 3
    some = mixed([(1, 0.5, 0.0), (3, 0.25, 0.6)]).heaviest(0.0)
    assert some is not None
    assert some.count == 3  # not a part of weight 0
    assert mixed([(1, 0.5, 0.0)]).heaviest(0.0) is None
    assert mixed([]).heaviest(0.0) is None
    assert mixed([], 0.0).delta(0.0) == 0.0
    assert mixed([(1, 1.0, 1.0), (2, 1.0, 1.0)]).delta(0.0) == 1.0
    assert average.epsilon(0.3) == 0.0
    assert average.epsilon(0.11) == pytest.approx(math.log(0.2 / 0.1), rel=1e-9)
    with pytest.raises(DeltaTooSmall, match=r"the probability of an infinite loss, over draws and answers"):
        average.epsilon(0.0)


def test_groups_are_all_counts_or_those_of_the_largest_loss() -> None:
    law = AffectedDistribution((0.5, 0.25, 0.125, 0.0625, 0.0625))
    assert law.K == 4
    assert law.mean == pytest.approx(0.25 + 0.25 + 3 * 0.0625 + 4 * 0.0625)
    all_of_them = [CountGroup(1, 0.25), CountGroup(2, 0.125), CountGroup(3, 0.0625), CountGroup(4, 0.0625)]
    assert law.parts(0.0) == (all_of_them, 0.0)
    assert counts_of(law.parts(0.2)[0]) == [1, 2]
    assert law.parts(0.0, 2)[0] == [CountGroup(1, 0.25), CountGroup(4, 0.25)]
    assert AffectedDistribution.exactly(0, 3).parts(0.0) == ([], 0.0)
    rare = AffectedDistribution((0.9, 0.005, 0.004, 0.05, 0.05))
    assert counts_of(rare.parts(0.0, 2)[0]) == [3, 4]  # small counts cost almost nothing
    assert rare.parts(0.0, 2)[0][0].chance == pytest.approx(0.059)


def test_invalid_laws_of_affected_voters_are_refused() -> None:
    assert AffectedDistribution.exactly(2, 3).chances == (0.0, 0.0, 1.0, 0.0)
    assert AffectedDistribution.binomial(3, 0).chances == (1.0, 0.0, 0.0, 0.0)
    assert AffectedDistribution.binomial(3, 1).chances == (0.0, 0.0, 0.0, 1.0)
    exact = [math.comb(30, r) * Fraction(1, 7) ** r * Fraction(6, 7) ** (30 - r) for r in range(31)]
    for found, share in zip(AffectedDistribution.binomial(30, Fraction(1, 7)).chances, exact, strict=True):
        assert share <= Fraction(found) <= share * (1 + Fraction(1, 10**15))
    for bad in ((1.0,), (0.5, 0.4), (1.5, 0.0), (-0.1, 1.1)):
        with refused("chances"):
            AffectedDistribution(bad)
    for count, K in ((4, 3), (-1, 3)):
        with refused("count"):
            AffectedDistribution.exactly(count, K)
    for chance in (-0.1, 1.1):
        with refused("chance"):
            AffectedDistribution.binomial(3, chance)


def test_few_counts_are_computed_if_each_takes_long() -> None:
    law, voters = AffectedDistribution.binomial(60, 0.4), Problem(60, Privacy(math.inf), Privacy(1.0))
    private = Problem(60, Privacy(0.3), Privacy(1.0))
    assert len(count_groups(voters, 1, law, 0.0)[0]) == mixture.MAX_GROUPS == 24
    assert len(count_groups(private, 1, law, 0.0)[0]) == mixture.MAX_PRIVATE_GROUPS == 8
    assert len(count_groups(voters, 300, law, 0.0)[0]) == 10  # 3000 steps
    assert len(count_groups(voters, 5000, law, 0.0)[0]) == mixture.MIN_GROUPS == 6
    assert count_groups(voters, 1, law, 0.1)[1] <= 4e-4
    with refused("distribution", "60"):
        mixture_total(np.zeros(6), Problem(5, Privacy(0.3), Privacy(1.0)), 2, law)
    with refused("queries"):
        mixture_total(np.zeros(61), voters, 0, law)
