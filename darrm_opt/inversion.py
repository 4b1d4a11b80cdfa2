"""Exact inversion: samples of a discrete law in bulk, and coins with probabilities e^(−x), whose digits are irrational.

A uniform U in [0, 1) is read as a binary fraction, a word at a time, and compared with thresholds t₀ ≤ t₁ ≤ … (the
cumulative probabilities of a law, or the probability of a coin). A threshold need not be known: integers
L ≤ t·2^b ≤ H + 1, computed in whole numbers by rounding down and up, are enough. If the first b bits of U, read as a
whole number u, are below L, then U < t; if they are above H, then U ≥ t. Otherwise U is undecided: another word is
read, and the thresholds are enclosed to as many more bits. So every outcome has exactly its probability, whatever the
initial precision: a coarse one only reads on more often. With words of 63 bits one in some 2⁵⁰ samples reads on, so
that all others cost one word and one look-up.

Proof. Let A_b be the event that U is decided after b bits. On A_b the outcome is that of comparing U itself with the
thresholds, by the two implications above, and U is uniform, so Pr[outcome k and A_b] = Pr[t_(k−1) ≤ U < t_k and A_b].
The enclosures shrink to points, so Pr[A_b] → 1 (U meets none of the countably many thresholds), and the limit is
t_k − t_(k−1).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.randomness import RandomSource

Numbers = NDArray[np.int64]

Enclosures = tuple[list[int], list[int]]
"""L and H of each threshold t at b bits: L ≤ t·2^b ≤ H + 1, both in 0..2^b − 1 and non-decreasing."""

WIDTH = 63  # bits of a word that are compared; the 64th is the sign

MAX_SCALE = 20_000.0
"""Largest σ or scale [votes] with a table of thresholds, which has some ten to forty entries per vote of it."""

GUARD = 96
"""Extra bits of the computed enclosures: rounding widens some 2⁻³⁰ of them, which costs a word and no correctness."""


class InvertedLaw:
    """Whole numbers 0, 1, … drawn by inversion of their law.

    Guarantees: Each x has exactly its probability, given uniform independent words. Almost all samples read one word;
    some 2⁻⁵⁰ of them read more.
    """

    def __init__(self, enclose: Callable[[int], Enclosures], width: int = WIDTH) -> None:
        self._enclose, self._width = enclose, width
        lows, highs = enclose(width)
        self._lows, self._highs = np.array(lows, dtype=np.uint64), np.array(highs, dtype=np.uint64)

    def draw(self, count: int, source: RandomSource) -> Numbers:
        """Return ``count`` independent samples, shape (count,)."""
        return self._inverted(source.words(count, self._width), source)

    def _inverted(self, words: NDArray[np.uint64], source: RandomSource) -> Numbers:
        """Return the outcome of each U, given its first word."""
        places = np.searchsorted(self._highs, words)  # thresholds that are surely at or below U
        undecided = np.flatnonzero(self._lows.take(places, mode="clip") <= words)
        numbers = places.astype(np.int64)
        for row in undecided.tolist():
            numbers[row] = self._decided(int(words[row]), source)
        return numbers

    def _decided(self, word: int, source: RandomSource) -> int:
        """Return the outcome of a U that its first word does not decide."""
        bits = self._width
        while True:
            word = (word << self._width) | int(source.words(1, self._width)[0])
            bits += self._width
            lows, highs = self._enclose(bits)
            place = bisect_left(highs, word)
            if place < len(lows) and lows[place] > word:
                return place


class SymmetricLaw(InvertedLaw):
    """Whole numbers x with probability exactly proportional to w(|x|), drawn by inversion of the law of |x|."""

    def draw(self, count: int, source: RandomSource) -> Numbers:
        """Return ``count`` independent samples, shape (count,)."""
        words = source.words(count, self._width + 1)
        is_negative = (words & np.uint64(1)).astype(bool)
        magnitudes = self._inverted(words >> np.uint64(1), source)
        return np.where(is_negative, -magnitudes, magnitudes)


class ExponentialCoins:
    """Coins that fall on 1 with probability exactly e^(−rate·d), tossed many at once."""

    def __init__(self, rate: Fraction, most: int, width: int = WIDTH) -> None:
        self._rate, self._most, self._width = rate, most, width
        lows, highs = self._enclosures(width)
        self._lows, self._highs = np.array(lows, dtype=np.uint64), np.array(highs, dtype=np.uint64)

    def halvings(self, lags: NDArray[np.integer[Any]]) -> Numbers:
        """Return, for each lag d, how often 1 can be halved without falling below e^(−rate·d), up to a word's bits."""
        halvings = np.array([self._width - int(high).bit_length() for high in self._highs], dtype=np.int64)
        return halvings.take(lags, mode="clip")

    def toss(
        self, lags: NDArray[np.integer[Any]], source: RandomSource, halvings: Numbers | int = 0
    ) -> NDArray[np.bool_]:
        """Return the outcome of the coin of each lag d, shape (N,).

        With k ``halvings``, at most those of `halvings`, its probability is 2^k·e^(−rate·d): that of a U whose first k
        bits are 0.
        """
        words = source.words(lags.size, self._width) >> np.asarray(halvings, dtype=np.uint64)
        outcomes = (words < self._lows.take(lags, mode="clip")) | (lags == 0)
        undecided = ~outcomes & (words <= self._highs.take(lags, mode="clip"))
        for row in np.flatnonzero(undecided).tolist():
            outcomes[row] = self._decided(int(words[row]), int(lags[row]), source)
        return np.asarray(outcomes)

    def _decided(self, word: int, lag: int, source: RandomSource) -> bool:
        bits = self._width
        while True:
            word = (word << self._width) | int(source.words(1, self._width)[0])
            bits += self._width
            low, high = exponential_bounds(self._rate * lag, bits)
            if word < low or word >= high:
                return word < low

    def _enclosures(self, bits: int) -> Enclosures:
        precision, top = bits + GUARD, (1 << bits) - 1
        low, high = exponential_bounds(self._rate, precision)
        lower = upper = 1 << precision
        lows, highs = [top], [top]
        for _ in range(self._most):
            lower, upper = (lower * low) >> precision, -((-upper * high) >> precision)
            lows.append(min(lower >> GUARD, top))
            highs.append(min(upper >> GUARD, top))
            if highs[-1] == 0:  # and so are all further ones
                break
        return lows, highs


@lru_cache(maxsize=32)
def gaussian_law(variance: Fraction) -> SymmetricLaw:
    """Return the discrete Gaussian: x with probability exactly proportional to e^(−x²/(2·variance))."""
    return SymmetricLaw(lambda bits: _enclosures(bits, 1 / (2 * variance), square=True))


@lru_cache(maxsize=32)
def laplace_law(scale: Fraction) -> SymmetricLaw:
    """Return the discrete Laplace law: x with probability exactly proportional to e^(−|x|/scale)."""
    return SymmetricLaw(lambda bits: _enclosures(bits, 1 / scale, square=False))


@lru_cache(maxsize=32)
def binomial_law(trials: int, chance: Fraction, width: int = WIDTH) -> InvertedLaw:
    """Return the law of the number of heads among ``trials`` coins, for means of up to some tens."""
    return InvertedLaw(lambda bits: _binomial_enclosures(bits, trials, chance), width)


def _binomial_enclosures(bits: int, trials: int, chance: Fraction) -> Enclosures:
    """Enclose the cumulative probabilities of Binomial(trials, chance), chance < 1, to ``bits`` bits."""
    precision, top = bits + GUARD, (1 << bits) - 1
    heads, tails = chance.numerator, chance.denominator - chance.numerator
    low = high = 1 << precision  # Pr[no heads], by squaring
    for bit in f"{trials:b}":
        low, high = (low * low) >> precision, -((-high * high) >> precision)
        if bit == "1":
            low, high = low * tails // chance.denominator, -(-high * tails // chance.denominator)
    sum_low, sum_high = low, high
    lows, highs = [], []
    for k in range(trials + 1):
        lows.append(min(sum_low >> GUARD, top))
        highs.append(min(sum_high >> GUARD, top))
        if k == trials or ((1 << precision) - sum_low) >> GUARD == 0:
            break
        more, less = (trials - k) * heads, (k + 1) * tails
        low, high = low * more // less, -(-high * more // less)
        sum_low, sum_high = sum_low + low, sum_high + high
    if len(lows) == trials + 1:
        lows[-1] = top  # no more heads than coins, and U < 1
    highs[-1] = top
    return lows, highs


def _enclosures(bits: int, rate: Fraction, *, square: bool) -> Enclosures:
    """Enclose the cumulative probabilities of |x|, where x has weight e^(−rate·x²), or e^(−rate·|x|)."""
    precision, one = bits + GUARD, 1 << (bits + GUARD)
    step_low, step_high = exponential_bounds(2 * rate if square else Fraction(0), precision)
    ratio_low, ratio_high = exponential_bounds(rate, precision)  # w(x + 1)/w(x), which each step multiplies by `step`
    low = high = one
    sums_low, sums_high = [one], [one]
    while True:
        low, high = (low * ratio_low) >> precision, -((-high * ratio_high) >> precision)
        if square:
            ratio_low, ratio_high = (ratio_low * step_low) >> precision, -((-ratio_high * step_high) >> precision)
        sums_low.append(sums_low[-1] + 2 * low)
        sums_high.append(sums_high[-1] + 2 * high)
        # The remaining terms sum to less than a geometric series with the present ratio.
        tail = 2 * high * ratio_high // (one - ratio_high) + 1
        if tail >> (precision - bits) == 0:
            break
    total_low, total_high, top = sums_low[-1], sums_high[-1] + tail, (1 << bits) - 1
    lows = [min((one_sum << bits) // total_high, top) for one_sum in sums_low]
    highs = [min((one_sum << bits) // total_low, top) for one_sum in sums_high]
    highs[-1] = top  # larger outcomes stay undecided: more bits list more of them
    return lows, highs


def exponential_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Return integers close to 2^bits·e^(−exponent), exponent ≥ 0: one not above it, one not below."""
    # e^−x is e^−(x/2^s), x/2^s ≤ 1, squared s times; its partial sums 1 − x + x²/2! − … alternate around it.
    if exponent == 0:
        return 1 << bits, 1 << bits
    halvings = max(0, exponent.numerator.bit_length() - exponent.denominator.bit_length() + 1)
    precision = bits + 2 * halvings + 16
    small, unit = exponent / (1 << halvings), 1 << precision
    low_term = high_term = low = high = unit
    place = 0
    while high_term > 1 or place % 2 == 0:  # ends after an odd term, which is subtracted
        place += 1
        low_term = low_term * small.numerator // (small.denominator * place)
        high_term = -(-high_term * small.numerator // (small.denominator * place))
        low, high = (low - high_term, high - low_term) if place % 2 else (low + low_term, high + high_term)
    low, high = low - 1, high + high_term  # the remainder is between 0 and the next term, which is smaller
    for _ in range(halvings):
        low, high = (max(low, 0) ** 2) >> precision, -((-high * high) >> precision)
    shift = precision - bits
    return max(low, 0) >> shift, min(-((-high) >> shift), 1 << bits)
