"""Random sources: uniform words and whole numbers, from the operating system or, for tests, from a seed."""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


class RandomSource(ABC):
    """A source of uniform, independent bits.

    Guarantees:
        Given uniform, independent bytes, every method has exactly the law that its docstring states.
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

    def chance(self, probability: Fraction) -> bool:
        """Return True with probability exactly ``probability``, in [0, 1]."""
        return self.below(probability.denominator) < probability.numerator


class SystemRandomness(RandomSource):
    """The operating system's cryptographic randomness: what privacy requires, and the default everywhere."""

    def octets(self, count: int) -> bytes:
        """Return ``count`` independent uniform bytes."""
        return os.urandom(count)


class SeededRandomnessForTestsOnly(RandomSource):
    """A repeatable source. Anyone who knows the seed can undo the noise: never for a real release.

    Args:
        seed: a whole number; the same seed gives the same bytes.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose, and its name says so

    def octets(self, count: int) -> bytes:
        """Return ``count`` bytes that the seed decides."""
        return self._random.randbytes(count)
