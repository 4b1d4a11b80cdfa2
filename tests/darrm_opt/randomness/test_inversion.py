"""Exact inversion: all strings of bits against exact bounds of the law, and frequencies of many draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from support.cases import for_each

from darrm_opt.inversion import (
    ExponentialCoins,
    SymmetricLaw,
    _enclosures,
    binomial_law,
    exponential_bounds,
    gaussian_law,
    laplace_law,
)
from darrm_opt.mechanisms import VoteMechanism, mechanism_class, selection
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.mechanisms.selection import SelectionMechanism
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource, SeededRandomnessForTestsOnly, SystemRandomness, below_each
from darrm_opt.tables.problem import ABSTENTION

mpmath = pytest.importorskip("mpmath")

RATES = [Fraction(1, 8), Fraction(1, 2), Fraction(7, 3), Fraction(1, 162)]


class Unread(Exception):
    """More words were requested than given."""


class Given(RandomSource):
    """A source of given words, one at a time."""

    def __init__(self, words: tuple[int, ...]) -> None:
        self._words: Iterator[int] = iter(words)

    def octets(self, count: int) -> bytes:
        raise AssertionError(count)

    def words(self, count: int, bits: int) -> NDArray[np.uint64]:
        assert count == 1
        word = next(self._words, None)
        if word is None:
            raise Unread
        return np.array([word << 1 if bits == WIDTH + 1 else word], dtype=np.uint64)


WIDTH, MOST_WORDS = 6, 2
TINY = Fraction(1, 10**40)


def exponential(exponent: Fraction) -> Fraction:
    """Return e^−exponent to 60 digits."""
    with mpmath.workdps(60):
        return Fraction(str(mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator)))


def decided(draw: Callable[[RandomSource], int], words: tuple[int, ...] = ()) -> Counter[int]:
    """Return the number of strings of `MOST_WORDS` words with each outcome, without those that need more."""
    outcomes: Counter[int] = Counter()
    try:
        outcomes[draw(Given(words))] += (1 << WIDTH) ** (MOST_WORDS - len(words))
    except Unread:
        for word in range(1 << WIDTH if len(words) < MOST_WORDS else 0):
            outcomes += decided(draw, (*words, word))
    return outcomes


def check_law(outcomes: Counter[int], law: Callable[[int], Fraction], places: int, least_decided: float) -> None:
    """Check decided strings against a law: no outcome has more, and with the open ones none has less."""
    strings = (1 << WIDTH) ** MOST_WORDS
    undecided = strings - outcomes.total()
    assert undecided <= (1 - least_decided) * strings
    for x in range(places):
        assert outcomes[x] <= (law(x) + TINY) * strings
        assert outcomes[x] + undecided >= (law(x) - TINY) * strings
    assert all(x < places or law(x) > 0 for x in outcomes)


@for_each("rate", RATES)
@for_each("square", [True, False])
def test_over_all_strings_of_bits_the_law_is_exact(rate: Fraction, square: bool) -> None:
    law = SymmetricLaw(cache(lambda bits: _enclosures(bits, rate, square=square)), WIDTH)
    weights = [exponential(rate * (x * x if square else x)) for x in range(60 if square else 100 * math.ceil(1 / rate))]
    total = 2 * sum(weights) - 1

    def chance(x: int) -> Fraction:
        return (2 if x else 1) * weights[x] / total

    check_law(decided(lambda source: abs(int(law.draw(1, source)[0]))), chance, 30, 0.97 if rate > 0.1 else 0.8)


@for_each(("trials", "chance"), [(1, Fraction(1, 3)), (7, Fraction(2, 5)), (40, Fraction(1, 50)), (3, Fraction(0.7))])
def test_over_all_strings_of_bits_numbers_of_heads_are_exact(trials: int, chance: Fraction) -> None:
    law = binomial_law(trials, chance, WIDTH)

    def exact(k: int) -> Fraction:
        return math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)

    check_law(decided(lambda source: int(law.draw(1, source)[0])), exact, trials + 1, 0.97)


@for_each("rate", RATES)
def test_over_all_strings_of_bits_a_coin_is_exact(rate: Fraction) -> None:
    coins = ExponentialCoins(rate, 12, WIDTH)
    for lag in (0, 1, 2, 5, 12):
        success = exponential(rate * lag)
        seen = decided(lambda source, lag=lag: int(coins.toss(np.array([lag]), source)[0]))  # type: ignore[misc]
        check_law(seen, lambda fell, success=success: success if fell else 1 - success, 2, 0.999)  # type: ignore[misc]


@for_each("rate", RATES)
def test_over_all_strings_of_bits_a_coin_of_a_doubled_probability_is_exact(rate: Fraction) -> None:
    coins = ExponentialCoins(rate, 12, WIDTH)
    for lag in (0, 1, 2, 5, 12):
        most = int(coins.halvings(np.array(lag)))
        assert most == WIDTH or exponential(rate * lag) * 2**most > Fraction(1, 3)
        for halvings in {most, min(most, 2)}:
            success = exponential(rate * lag) * 2**halvings
            assert success <= 1 + TINY
            one, known = np.array([lag]), np.array([halvings])
            seen = decided(lambda source, one=one, known=known: int(coins.toss(one, source, known)[0]))  # type: ignore[misc]
            check_law(seen, lambda fell, success=success: success if fell else 1 - success, 2, 0.4)  # type: ignore[misc]


@for_each("exponent", [Fraction(0), Fraction(1, 10**9), Fraction(1, 3), Fraction(7, 2), Fraction(30)])
@for_each("bits", [3, 64, 120])
def test_bounds_of_an_exponential_hold_and_are_tight(exponent: Fraction, bits: int) -> None:
    low, high = exponential_bounds(exponent, bits)
    assert low / Fraction(2**bits) <= exponential(exponent) + TINY
    assert high / Fraction(2**bits) >= exponential(exponent) - TINY
    assert high - low <= 2


def test_thresholds_enclose_those_of_more_bits() -> None:
    for bits in (5, 20, 63):
        (lows, highs), (finer_lows, finer_highs) = (
            _enclosures(b, Fraction(1, 8), square=True) for b in (bits, 2 * bits)
        )
        assert lows == sorted(lows)
        assert highs == sorted(highs)
        for low, high, finer_low, finer_high in zip(lows, highs[:-1], finer_lows, finer_highs, strict=False):
            assert low << bits <= finer_high + 1
            assert finer_low <= (high + 1) << bits


def test_integers_below_a_limit_are_uniform() -> None:
    class Words(SeededRandomnessForTestsOnly):
        asked = 0

        def words(self, count: int, bits: int) -> NDArray[np.uint64]:
            self.asked += 1
            words = super().words(count, bits)
            if self.asked == 1:
                words[0] = 2**63 - 1  # above the last multiple of 3: drawn again
            return words

    source = Words(1)
    numbers = below_each(np.array([3, 1, 7] * 7000), source)
    assert source.asked == 2
    for place, limit in enumerate((3, 1, 7)):
        seen = np.bincount(numbers[place::3], minlength=limit)
        assert len(seen) == limit
        assert limit == 1 or stats.chisquare(seen).pvalue > 1e-9


COUNTS = (5, 4, 2, 0)
MECHANISMS: list[VoteMechanism] = [
    NoisyMaximum(11, 4, 2.0),
    NoisyMaximum(11, 4, 2.0, threshold=6.0, check_sigma=1.5),
    mechanism_class("laplace").of(11, 4, 1.5),
    mechanism_class("permute_and_flip").of(11, 4, 0.4),
    mechanism_class("exponential").of(11, 4, 0.4),
]


@pytest.mark.parametrize(
    ("mechanism", "tried"),
    [*((one, 1024) for one in MECHANISMS), *((one, 1) for one in MECHANISMS if isinstance(one, SelectionMechanism))],
    ids=lambda value: value.description[:30] if isinstance(value, VoteMechanism) else value,
)
def test_draws_have_the_law_of_their_mechanism(
    mechanism: VoteMechanism, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "MAX_TRIED", tried)
    many = 100_000
    drawn = mechanism.draw_many(np.array([COUNTS] * many), SeededRandomnessForTestsOnly(2))
    assert drawn.shape == (many,)
    assert drawn.dtype == np.int16
    law = mechanism.class_chances(np.array([COUNTS]))
    assert law is not None
    seen = [np.count_nonzero(drawn == label) for label in (*range(4), ABSTENTION)][: law.size]
    assert stats.chisquare(seen, many * law[0] / law.sum()).pvalue > 1e-6


@pytest.mark.parametrize("tried", [1024, 1], ids=["few classes", "many"])
def test_ties_are_broken_uniformly(tried: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MAX_TRIED", tried)
    counts = np.array([(3, 3, 3, 2)] * 90_000)
    for mechanism in (*MECHANISMS, PlainVote(11, 4, Privacy(1.0))):
        seen = np.bincount(mechanism.draw_many(counts, SystemRandomness()) + 1, minlength=5)[1:4]
        assert stats.chisquare(seen).pvalue > 1e-9


def test_among_many_classes_the_leader_has_its_probability_at_few_draws() -> None:
    class Counted(SeededRandomnessForTestsOnly):
        calls = 0

        def octets(self, count: int) -> bytes:
            self.calls += 1
            return super().octets(count)

    classes, rows, source = 3000, 300, Counted(4)
    counts = np.zeros((rows, classes), dtype=np.int64)
    counts[:, 7], counts[:, 2000] = 30, 29
    for name, rate in (("exponential", 0.3), ("permute_and_flip", 0.3), ("exponential", 9.0)):
        mechanism = mechanism_class(name).of(59, classes, rate)
        labels = mechanism.draw_many(counts, source)
        chance = mechanism.leader_chances(-np.sort(-counts[:1], axis=1))[0]
        assert abs((labels == 7).sum() - rows * chance) < 6 * math.sqrt(rows * chance * (1 - chance)) + 1
    assert source.calls < 100  # rather than some for every class


def test_noise_too_wide_for_a_table_is_drawn_one_by_one() -> None:
    wide = NoisyMaximum(11, 4, 1e7)
    labels = wide.draw_many(np.array([COUNTS] * 300), SystemRandomness())
    assert stats.chisquare(np.bincount(labels, minlength=4)).pvalue > 1e-9


def test_wide_noise_has_its_standard_deviation() -> None:
    for law, scale in ((gaussian_law(Fraction(900)), 30.0), (laplace_law(Fraction(20)), 20 * math.sqrt(2))):
        sample = law.draw(200_000, SystemRandomness())
        assert abs(sample.std() / scale - 1) < 0.03
        assert abs(sample.mean()) < 6 * scale / math.sqrt(200_000)
