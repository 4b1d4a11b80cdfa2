"""Audits: known faults are found, true claims are proved or not refuted, and bounds have their stated confidence."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.refusals import refused

from darrm_opt import Privacy
from darrm_opt.accounting.sampling import Neighbours
from darrm_opt.audit import Audit, Claim, audit, read_table
from darrm_opt.audit.black_box import _at_least, _at_most, shown_epsilon
from darrm_opt.audit.exact import compositions
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem, VoterGroup
from darrm_opt.release.log import mechanism_of
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.votes import Labels, VoteTable


def of(name: str, K: int, classes: int, value: float, **more: Any) -> VoteMechanism:
    return mechanism_class(name).of(K, classes, value, **more)


def noisy_vote(scale: float, seed: int = 1) -> Callable[[tuple[int, ...]], int]:
    """Return report-noisy-max, independent of the product."""
    source = random.Random(seed)

    def vote(counts: tuple[int, ...]) -> int:
        noisy = [count + source.expovariate(1 / scale) - source.expovariate(1 / scale) for count in counts]
        return noisy.index(max(noisy))

    return vote


# ------------------------------------------------------------------------------------- known faults


def zcdp(rho: float, delta: float) -> Privacy:
    return Privacy(rho + 2 * math.sqrt(rho * math.log(1 / delta)), delta)


def test_permute_and_flip_charged_like_the_exponential_mechanism_is_refuted() -> None:
    """ρ = ε²/8 for one release at ε = 1 holds for a mechanism of bounded range only."""
    claim = Claim(zcdp(100 / 8, 1e-5), 7, 3, releases=100)
    assert audit(of("permute_and_flip", 7, 3, 0.5), claim).verdict == "refuted"
    assert audit(of("exponential", 7, 3, 0.5), claim).verdict == "proved"


@pytest.mark.parametrize("classes", [2, 3])
def test_laplace_noise_with_the_inverse_scale_is_refuted(classes: int) -> None:
    claim = Claim(Privacy(2 * 0.05), 11, classes)
    assert audit(of("laplace", 11, classes, 0.05), claim, samples=20_000).verdict == "refuted"
    assert audit(of("laplace", 11, classes, 1 / 0.05), claim).verdict == "proved"
    assert audit(noisy_vote(0.05), claim, samples=20_000).verdict == "refuted"


def test_teachers_that_share_the_data_are_refuted() -> None:
    """One record changes the votes of all of them; the charge is for one vote."""
    vote = noisy_vote(4.0)

    def shared(data: tuple[int, ...]) -> int:
        label = int(2 * sum(data) > len(data))  # the label that each of nine teachers learns
        return vote((9 * (1 - label), 9 * label))

    def disjoint(data: tuple[int, ...]) -> int:
        return vote((len(data) - sum(data), sum(data)))  # one record per teacher

    claim = Claim(Privacy(2 / 4.0), 9, 2)
    pairs = [((0, 0, 0, 0, 1, 1, 1, 1, 1), (0, 0, 0, 0, 0, 1, 1, 1, 1))]
    assert audit(shared, claim, pairs=pairs, samples=20_000).verdict == "refuted"
    assert audit(disjoint, claim, pairs=pairs, samples=20_000).verdict == "not refuted"
    # The same in counts: a charge for one vote is false if nine votes move.
    assert (
        audit(of("permute_and_flip", 9, 2, 0.25, affected=9), Claim(Privacy(0.5), 9, 2, affected=9)).verdict
        == "refuted"
    )


def test_an_uncharged_check_is_refuted() -> None:
    labels = of("gnmax", 25, 3, 5.0)
    charged = Privacy(labels.epsilon(100, 1e-5), 1e-5)
    checked = of("gnmax", 25, 3, 5.0, threshold=15.0, check_sigma=3.0)
    found = audit(checked, Claim(charged, 25, 3, releases=100))
    assert (found.verdict, found.exact) == ("refuted", True)
    assert audit(labels, Claim(charged, 25, 3, releases=100)).verdict == "proved"


def test_a_threshold_without_noise_is_refuted() -> None:
    vote = noisy_vote(20.0)

    def checked(counts: tuple[int, ...]) -> int | None:
        return vote(counts) if max(counts) >= 7 else None

    found = audit(checked, Claim(Privacy(2 / 20.0), 11, 3), samples=50_000)
    assert found.verdict == "refuted"
    assert found.counterexample is not None
    assert {max(found.counterexample.before), max(found.counterexample.after)} == {6, 7}


def test_a_removed_vote_costs_less_than_a_changed_one() -> None:
    claim = Privacy(0.5)
    flip = of("exponential", 9, 3, 0.5)
    assert audit(flip, Claim(claim, 9, 3, neighbours="add-remove")).verdict == "proved"
    assert audit(flip, Claim(claim, 9, 3)).verdict == "refuted"


# --------------------------------------------------------------------------- a mechanism of a package


class Linear(NoiseFunctionMechanism):
    """γ that grows with the margin; it may draw with another slope than it states."""

    name, parameter, limits = "linear", "slope", (0.0, 1000.0)

    def __init__(self, K: int, classes: int, slope: float, *, affected: int = 1, drawn: float = 1.0) -> None:
        assert classes == 2
        super().__init__(_linear(K, slope), affected=affected)
        self.slope, self._drawn = slope, NoiseFunctionMechanism(_linear(K, drawn * slope))

    def draw_many(self, counts: VoteTable, source: Any) -> Labels:
        return self._drawn.draw_many(counts, source)


def _linear(K: int, slope: float) -> NoiseFunction:
    return NoiseFunction([min(1.0, slope * abs(2 * ones - K) / K) for ones in range(K + 1)], K)


def test_mechanisms_of_packages_are_audited_by_their_draws() -> None:
    true = Linear(11, 2, 0.5)
    claim = Claim(Privacy(true.epsilon(1, 0.0)), 11, 2)
    found = audit(true, claim, samples=20_000)
    assert (found.verdict, found.epsilon) == ("not refuted", None)  # its own statements prove nothing
    lie = audit(Linear(11, 2, 0.5, drawn=2.0), claim, samples=20_000)
    assert (lie.verdict, lie.epsilon, lie.account) == ("refuted", None, "")
    stated = audit(true, Claim(Privacy(claim.privacy.epsilon / 2), 11, 2))
    assert (stated.exact, stated.epsilon) == (True, None)  # by its stated probabilities


@for_each("neighbours", ["replace-one", "add-remove"])
@for_each("voter", [0.5, math.inf])
def test_counts_per_group_are_not_mistaken_for_counts_per_class(voter: float, neighbours: Neighbours) -> None:
    groups = [VoterGroup(2, Privacy(voter)), VoterGroup(1, Privacy(0.1))]
    solution = solve_table(Problem(groups=groups, target=Privacy(0.8, 1e-4), affected=1))
    found = audit(mechanism_of(solution), Claim(Privacy(0.1), 3, 2, neighbours=neighbours))
    assert (found.verdict, found.counterexample) == ("not refuted", None)


# ------------------------------------------------------------------------------------------- tables


def least_delta(table: dict[tuple[int, ...], list[Fraction]], claim: Claim, slope: Fraction) -> Fraction:
    """Return the largest excess of an event over e^ε, by enumeration of all events of all transcripts."""
    worst = Fraction(-1)
    for before, after in product(table, repeat=2):
        moved = [b - a for a, b in zip(before, after, strict=True)]
        if sum(moved) or not 0 < sum(map(abs, moved)) // 2 <= claim.affected:
            continue
        laws = [
            [math.prod(each) for each in product(table[counts], repeat=claim.releases)] for counts in (before, after)
        ]
        for size in range(1, len(laws[0]) + 1):
            for event in combinations(range(len(laws[0])), size):
                p, q = (sum((law[place] for place in event), Fraction()) for law in laws)
                worst = max(worst, p - slope * q)
    return worst


@given(
    st.lists(st.integers(1, 8), min_size=9, max_size=9),
    st.sampled_from([(1, 1, 3), (2, 1, 2), (1, 2, 2)]),
    st.fractions(Fraction(1), Fraction(4), max_denominator=8),
    st.fractions(0, Fraction(1, 4), max_denominator=64),
)
def test_a_table_is_proved_only_if_no_event_refutes_it(
    weights: list[int], shape: tuple[int, int, int], slope: Fraction, delta: Fraction
) -> None:
    releases, affected, classes = shape
    rows = compositions(2, classes)
    numbers = np.resize(weights, (len(rows), classes)).tolist()
    table = {counts: [Fraction(each, sum(row)) for each in row] for counts, row in zip(rows, numbers, strict=True)}
    claim = Claim(Privacy(math.log(slope), float(delta)), 2, classes, releases=releases, affected=affected)
    exact = math.exp(claim.privacy.epsilon)
    worst = float(least_delta(table, claim, Fraction(exact))) - float(delta)
    verdict = audit(table, claim).verdict
    if abs(worst) > 1e-9 or (worst == 0 and slope == 1):
        assert verdict != ("proved" if worst > 0 else "refuted")
    if releases == 1 and abs(worst) > 1e-9:
        assert verdict == ("refuted" if worst > 0 else "proved")


HEAD = "votes_0,votes_1,chance_0,chance_1,chance_none\n"


def test_a_table_is_read_as_fractions() -> None:
    table = read_table(f"{HEAD}1,0,0.6,0.1,0.3\n0,1,1/10,6/10,3/10\n")
    assert table[0, 1] == [Fraction(1, 10), Fraction(3, 5), Fraction(3, 10)]
    assert audit(table, Claim(Privacy(math.nextafter(math.log(6), 2)), 1, 2)).verdict == "proved"
    found = audit(table, Claim(Privacy(1.7), 1, 2))
    assert found.counterexample is not None
    chances = found.counterexample.chance_before, found.counterexample.chance_after
    assert (found.verdict, chances) == ("refuted", (0.6, 0.1))
    with refused("table", "(0, 2)"):
        audit(table, Claim(Privacy(1.7), 2, 2))
    for row in ("1,0,0.5,0.4,0.2", "1,0,x,0.4,0.6", "1,0,1.5,-0.5,0", "0,1,0.5,0.5,0\n0,1,0.5,0.5,0"):
        with refused("table"):
            read_table(f"{HEAD}{row}\n")
    with refused("table", "'a,b'"):
        read_table("a,b\n1,2\n")


# ---------------------------------------------------------------------------------------- black boxes


@for_each(("hits", "trials"), [(0, 20), (3, 20), (20, 20), (97, 100)])
def test_bounds_of_a_probability_are_those_of_clopper_and_pearson(hits: int, trials: int) -> None:
    """Against sums of binomial probabilities in fractions."""
    wrong = Fraction(1, 100)
    low, high = (Fraction(float(bound(np.array(hits), trials, 0.01))) for bound in (_at_least, _at_most))

    def tail(chance: Fraction, numbers: range) -> Fraction:
        return sum((math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in numbers), Fraction())

    assert (hits == 0 and low == 0) or Fraction(99, 100) * wrong < tail(low, range(hits, trials + 1)) <= wrong
    assert (hits == trials and high == 1) or Fraction(99, 100) * wrong < tail(high, range(hits + 1)) <= wrong


def test_a_true_claim_is_refuted_no_more_often_than_stated() -> None:
    vote = noisy_vote(2.0, seed=5)
    found = [audit(vote, Claim(Privacy(0.5), 3, 2), samples=1000, confidence=0.8) for _ in range(40)]
    loss = math.log(laplace_wins(1) / laplace_wins(-1))
    wrong = sum(one.sampled.epsilon > loss for one in found if one.sampled is not None)
    assert wrong <= 14  # of 40 at most 8 are expected; more than 14 have probability 0.5 % at the stated rate


def laplace_wins(lead: int, scale: float = 2.0) -> float:
    """Return Pr[the count ahead by ``lead`` wins] with Laplace noise on both, in closed form."""
    behind = (1 + abs(lead) / (2 * scale)) * math.exp(-abs(lead) / scale) / 2
    return 1 - behind if lead >= 0 else behind


def test_a_detectable_epsilon_is_detected_with_the_stated_power() -> None:
    rng = np.random.default_rng(3)

    def two(chances: tuple[float, float]) -> Callable[[tuple[int, ...]], bool]:
        return lambda counts: bool(rng.random() < chances[counts[0]])

    claim = Claim(Privacy(0.5), 1, 2)
    found = audit(two((0.1, 0.14)), claim, samples=4000)
    assert found.sampled is not None
    assert found.sampled.detectable is not None
    likely = 0.1 * math.exp(found.sampled.detectable)
    refuted = [audit(two((0.1, likely)), claim, samples=4000).verdict == "refuted" for _ in range(30)]
    assert sum(refuted) >= 24


def test_several_releases_refute_what_one_does_not() -> None:
    vote = noisy_vote(1.0)
    single = audit(vote, Claim(Privacy(10.0), 7, 3), samples=50_000)
    many = audit(vote, Claim(Privacy(10.0, 1e-5), 7, 3, releases=20), samples=50_000)
    assert single.verdict == "not refuted"
    assert many.verdict == "refuted"
    assert many.counterexample is not None
    assert many.counterexample.least > 1


@given(st.floats(0.01, 0.9), st.floats(1.0, 5.0), st.integers(1, 6), st.sampled_from([0.0, 1e-3]))
def test_the_epsilon_by_bounds_of_two_probabilities_never_exceeds_the_exact_one(
    q: float, ratio: float, releases: int, delta: float
) -> None:
    """Return ε of bits with probabilities p and q, by enumeration of transcripts."""
    p = min(0.99, q * ratio)
    claim = Claim(Privacy(1.0, delta), 1, 2, releases=releases)
    epsilon, _, on_data, on_neighbour = shown_epsilon(p, q, claim)
    assert on_data <= math.exp(epsilon) * on_neighbour * (1 + 1e-9) + delta
    exact = sum(
        max(
            0.0,
            math.comb(releases, k)
            * (p**k * (1 - p) ** (releases - k) - math.exp(epsilon - 1e-9) * q**k * (1 - q) ** (releases - k)),
        )
        for k in range(releases + 1)
    )
    assert epsilon == 0 or exact > delta


def test_too_many_vote_counts_are_explored_in_part() -> None:
    vote = noisy_vote(1.0)
    found = audit(vote, Claim(Privacy(0.2), 60, 4), samples=20_000)
    assert found.verdict == "refuted"
    assert audit(of("gnmax", 300, 5, 2.0), Claim(Privacy(0.01, 1e-6), 300, 5), samples=40_000).verdict == "refuted"


@for_each(
    ("argument", "call"),
    [
        ("epsilon", lambda: Claim(Privacy(math.inf), 3, 2)),
        ("neighbours", lambda: Claim(Privacy(1.0), 3, 2, neighbours="some")),  # type: ignore[arg-type]
        ("releases", lambda: Claim(Privacy(1.0), 3, 2, releases=0)),
        ("claim", lambda: audit(of("laplace", 3, 2, 1.0), Claim(Privacy(1.0), 4, 2))),
        ("samples", lambda: audit(noisy_vote(1.0), Claim(Privacy(1.0), 4, 2), samples=10)),
        ("confidence", lambda: audit(noisy_vote(1.0), Claim(Privacy(1.0), 4, 2), confidence=1.0)),
        ("pairs", lambda: audit(noisy_vote(1.0), Claim(Privacy(1.0), 4, 2), pairs=[])),
        (
            "neighbours",  # a γ is valid only for its number of voters
            lambda: audit(NoiseFunctionMechanism(_linear(3, 0.5)), Claim(Privacy(1.0), 3, 2, neighbours="add-remove")),
        ),
    ],
)
def test_invalid_arguments_are_refused(argument: str, call: Callable[[], Audit]) -> None:
    with refused(argument):
        call()
