"""Randomness: sources of uniform bits, and exact draws from them: noise, shuffles and coins.

A source gives uniform words and whole numbers, from the operating system or, for tests, from a seed. The samplers use
whole numbers only: each outcome has exactly the probability in its docstring, so there is no floating-point attack
(Mironov 2012) to account for. Timing is not covered: the duration of a draw of noise depends on the noise, so an
observer who can time single draws learns something about it.

*Coins.* A double p in [0, 1] is a dyadic rational, so a uniform string of bits read as a binary fraction U is below p
with probability exactly p. Strings are read word by word, and only as far as needed: with w bits a word,

    p = h₁·2^−w + h₂·2^−2w + …,     U < p  ⟺  (u₁, u₂, …) < (h₁, h₂, …) in dictionary order,

so a second word matters only if u₁ = h₁ and p has more digits, which for 63 bits happens once in 2⁶³ tosses. The last
bit of the first word is spare: it is the fair coin. The number of words that a toss reads depends on the words and the
table of probabilities alone and reveals nothing about the votes: a row reads on if its word meets *any* probability of
the table, not only its own.

Source of the noise samplers: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy" (2020),
Algorithms 1 to 3.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput

MIN_SEED_BYTES = 16  # minimum length of a seed that does not repeat by chance


class RandomSource(ABC):
    """A source of uniform, independent bits.

    Guarantees:
        Given uniform, independent bytes, every method has exactly the distribution in its docstring.
    """

    @abstractmethod
    def octets(self, count: int) -> bytes:
        """Return ``count`` independent uniform bytes."""

    def words(self, count: int, bits: int) -> NDArray[np.uint64]:
        """Return ``count`` independent whole numbers, each uniform in 0..2^bits − 1, 1 ≤ ``bits`` ≤ 64."""
        return np.frombuffer(self.octets(8 * count), dtype="<u8").astype(np.uint64, copy=False) >> np.uint64(64 - bits)

    def below(self, n: int) -> int:
        """Return a whole number in 0..n−1, each with probability exactly 1/n, n ≥ 1."""
        bits = n.bit_length()
        count = (bits + 7) // 8
        while True:  # rejection: a remainder modulo n would favour the small numbers
            number = int.from_bytes(self.octets(count), "little") >> (8 * count - bits)
            if number < n:
                return number

    def chance(self, numerator: Fraction | int, denominator: int = 1) -> bool:
        """Return True with probability exactly ``numerator``/``denominator``, in [0, 1]."""
        above, beneath = numerator.numerator, numerator.denominator * denominator
        common = math.gcd(above, beneath)
        return self.below(beneath // common) < above // common


class SystemRandomness(RandomSource):
    """The operating system's cryptographic randomness: required for privacy, and the default."""

    def octets(self, count: int) -> bytes:
        """Return ``count`` independent uniform bytes."""
        return os.urandom(count)


class SeededRandomnessForTestsOnly(RandomSource):
    """A repeatable source; the seed undoes the noise, so never use it for a real release.

    Args:
        seed: a whole number; the same seed gives the same bytes.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable by design

    def octets(self, count: int) -> bytes:
        """Return ``count`` bytes that the seed decides."""
        return self._random.randbytes(count)


class PublicRandomness(RandomSource):
    """Bits determined by a seed, equal in every process: for public choices, never for noise.

    Args:
        seed: at least 16 bytes, fresh from the operating system for each use, such as ``secrets.token_bytes(32)``.

    Guarantees:
        The k-th call of `octets` returns SHAKE-256 of the seed and k: as uniform as that hash.
    """

    def __init__(self, seed: Any) -> None:
        if not isinstance(seed, bytes) or len(seed) < MIN_SEED_BYTES:
            raise InvalidInput("seed", "a seed", f"at least {MIN_SEED_BYTES} bytes", "Use secrets.token_bytes(32).")
        self._seed, self._calls = seed, 0

    def octets(self, count: int) -> bytes:
        """Return ``count`` bytes determined by the seed and the number of earlier calls."""
        self._calls += 1
        return hashlib.shake_256(self._seed + self._calls.to_bytes(8, "big")).digest(count)


_T = TypeVar("_T")


def exponential_chance(above: int, beneath: int, source: RandomSource) -> bool:
    """Return True with probability exactly e^(−above/beneath), of a fraction ≥ 0 (Algorithm 1)."""
    while above > beneath:
        if not exponential_chance(1, 1, source):
            return False
        above -= beneath
    # The first failure of probabilities x/1, x/2, x/3, … is at an odd place with probability
    # 1 − x + x²/2! − … = e^−x.
    place = 1
    while source.chance(above, beneath * place):
        place += 1
    return place % 2 == 1


def discrete_laplace(scale: Fraction, source: RandomSource) -> int:
    """Return a whole number x with probability exactly proportional to e^(−|x|/scale), scale > 0 (Algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        remainder = source.below(t)
        if not exponential_chance(remainder, t, source):
            continue
        quotient = 0
        while exponential_chance(1, 1, source):
            quotient += 1
        # remainder + t·quotient is geometric with ratio e^(−1/t); in steps of s the ratio is e^(−s/t).
        magnitude = (remainder + t * quotient) // s
        negative = source.chance(1, 2)
        if magnitude or not negative:  # zero has one sign only
            return -magnitude if negative else magnitude


def discrete_gaussian(variance: Fraction, source: RandomSource) -> int:
    """Return a whole number x with probability exactly proportional to e^(−x²/(2·variance)) (Algorithm 3)."""
    p, q = variance.numerator, variance.denominator
    t = math.isqrt(p // q) + 1
    while True:
        candidate = discrete_laplace(Fraction(t), source)
        # (|x| − variance/t)²/(2·variance), of variance = p/q
        if exponential_chance((abs(candidate) * q * t - p) ** 2, 2 * p * q * t * t, source):
            return candidate


def shuffled(items: Sequence[_T], source: RandomSource) -> list[_T]:
    """Return the items in a uniformly random order."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = source.below(last + 1)
        order[last], order[other] = order[other], order[last]
    return order


Bits = NDArray[np.uint8]
Index = NDArray[np.intp]

WIDTH = 63  # bits of a word that are compared; the 64th is the fair coin


def below_each(limits: NDArray[np.integer], source: RandomSource) -> NDArray[np.int64]:
    """Return a whole number for each limit n, 1 ≤ n < 2⁶³, exactly uniform in 0..n−1."""
    numbers = np.zeros(len(limits), dtype=np.int64)
    rows = np.flatnonzero(limits > 1)
    while rows.size:
        n = limits[rows].astype(np.uint64)
        words = source.words(rows.size, 63)
        # Rejection: numbers beyond the last whole multiple of n would favour the small remainders.
        is_even = words < np.uint64(2**63) // n * n
        numbers[rows] = (words % n).astype(np.int64)  # rejected ones are drawn again
        rows = rows[~is_even]
    return numbers


class ExactCoins:
    """A table of biased coins, tossed by number.

    Args:
        probabilities: that each coin falls on 1, doubles in [0, 1], shape (n,).
        width: bits compared per word, 1..63; a small width lets a test try every string of bits.

    Guarantees:
        A coin falls on 1 with probability exactly the stored double, also if subnormal or 1 − 2^−53, and independently
        of all other tosses and of the fair bit beside it, given uniform independent words. The number of words drawn
        does not depend on which coins are tossed.

    Raises:
        InvalidInput: not a flat array of probabilities, or another width.

    >>> coins = ExactCoins([0.0, 1.0])
    >>> coins.toss(np.array([0, 1, 1]), SystemRandomness())[0].tolist()
    [0, 1, 1]
    """

    def __init__(self, probabilities: Any, width: int = WIDTH) -> None:
        table = np.array(probabilities, dtype=np.float64)
        if table.ndim != 1 or not table.size or not bool(np.all((table >= 0) & (table <= 1))):
            raise InvalidInput("probabilities", probabilities, "a flat array of probabilities in [0, 1]")
        if not 1 <= width <= WIDTH:
            raise InvalidInput("width", width, f"a number of bits in 1..{WIDTH}")
        self._width = width
        self._heads: list[NDArray[np.uint64]] = []
        self._open: list[NDArray[np.uint64]] = []
        rest = table
        while True:
            # Scaling by a power of 2 and splitting a double into whole part and remainder are exact.
            scaled = np.ldexp(rest, width)
            whole = np.floor(scaled)
            rest = scaled - whole
            heads = whole.astype(np.uint64)  # at most 2^63, reached by p = 1 alone
            self._heads.append(heads)
            self._open.append(np.unique(heads[rest > 0]))
            if not self._open[-1].size:
                break

    @property
    def digits(self) -> tuple[NDArray[np.uint64], ...]:
        """h₁, h₂, … of each coin: p = Σ h_d·2^(−width·d); shape (n,) each."""
        return tuple(self._heads)

    def toss(self, coins: Index, source: RandomSource) -> tuple[Bits, Bits]:
        """Toss coin ``coins[i]`` and a fair coin, for each i.

        Args:
            coins: number of each coin to toss, shape (N,).
            source: source of the words.

        Returns:
            The coins and the fair coins, each 0 or 1, shape (N,).
        """
        words = source.words(coins.size, self._width + 1)
        fair = (words & np.uint64(1)).astype(np.uint8)
        words >>= np.uint64(1)
        heads = self._heads[0].take(coins)
        outcomes = words < heads
        rows = _meeting(words, self._open[0])
        tied = words[rows] == heads[rows]
        for digit, unfinished in zip(self._heads[1:], self._open[1:], strict=True):
            if not rows.size:  # depends on the words and the table, not on the votes
                break
            words = source.words(rows.size, self._width)
            heads = digit.take(coins[rows])
            outcomes[rows] |= tied & (words < heads)
            tied &= words == heads
            open_rows = _meeting(words, unfinished)
            rows, tied = rows[open_rows], tied[open_rows]
        return outcomes.view(np.uint8), fair


def _meeting(words: NDArray[np.uint64], unfinished: NDArray[np.uint64]) -> Index:
    """Return where a word equals a digit after which some coin of the table goes on."""
    if not unfinished.size:
        return np.empty(0, dtype=np.intp)
    nearest = unfinished.take(np.searchsorted(unfinished, words), mode="clip")
    return np.flatnonzero(nearest == words)
