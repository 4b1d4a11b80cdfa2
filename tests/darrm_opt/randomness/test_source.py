"""Random sources: the law of words and integers, by all strings of bytes and by frequencies."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from fractions import Fraction

import numpy as np
from scipy import stats
from support.cases import for_each

from darrm_opt.randomness import RandomSource, SeededRandomnessForTestsOnly, SystemRandomness


class TapeEndedError(Exception):
    """More bytes are needed."""


class Tape(RandomSource):
    """A source of given bytes."""

    def __init__(self, tape: bytes) -> None:
        self._left = tape

    def octets(self, count: int) -> bytes:
        if len(self._left) < count:
            raise TapeEndedError
        taken, self._left = self._left[:count], self._left[count:]
        return taken


@for_each("n", [1, 2, 3, 7, 100, 128, 255, 256, 257, 1000, 2**15 + 1])
def test_over_all_strings_of_bytes_numbers_are_uniform(n: int) -> None:
    """A first draw of one or two bytes gives each number below n equally often, or is rejected."""
    width = (n.bit_length() + 7) // 8
    drawn: Counter[int] = Counter()
    for first in range(256**width):
        try:
            drawn[Tape(first.to_bytes(width, "big")).below(n)] += 1
        except TapeEndedError:
            drawn[-1] += 1
    rejected = drawn.pop(-1, 0)
    assert sorted(drawn) == list(range(n))
    assert len(set(drawn.values())) == 1
    assert rejected + sum(drawn.values()) == 256**width
    assert rejected <= 256**width // 2


def test_a_rejected_draw_is_drawn_again() -> None:
    assert Tape(bytes([0xFF, 0b0100_0000])).below(3) == 1


@for_each("chance", [Fraction(0), Fraction(1), Fraction(3, 8), Fraction(2, 3)])
def test_a_probability_is_exact(chance: Fraction) -> None:
    counts: Counter[bool] = Counter()
    for first in range(256):
        with suppress(TapeEndedError):  # rejected
            counts[Tape(bytes([first])).chance(chance)] += 1
    assert Fraction(counts[True], counts.total()) == chance


@for_each("bits", [1, 8, 63, 64])
def test_words_are_the_leading_bits_of_the_bytes(bits: int) -> None:
    tape = bytes(range(1, 17))
    expected = [int.from_bytes(tape[first : first + 8], "little") >> (64 - bits) for first in (0, 8)]
    assert Tape(tape).words(2, bits).tolist() == expected


def test_system_bits_differ_and_seeded_ones_repeat() -> None:
    assert [SeededRandomnessForTestsOnly(5).below(10**6) for _ in range(2)] == [
        SeededRandomnessForTestsOnly(5).below(10**6)
    ] * 2
    draws = {SystemRandomness().below(10**30) for _ in range(20)}
    assert len(draws) == 20
    assert all(0 <= draw < 10**30 for draw in draws)
    assert set(SystemRandomness().words(1000, 3).tolist()) == {*range(8)}
    assert SystemRandomness().words(0, 64).size == 0


def test_system_words_are_uniform_in_every_bit_and_byte() -> None:
    # The rate of false alarms is below 1e-9: 64 + 64·63/2 + 8 tests, each at 1e-9 over their number.
    n = 1 << 16
    words = SystemRandomness().words(n, 64)
    bits = np.unpackbits(words.view(np.uint8).reshape(n, 8), axis=1).astype(np.float32)
    tests = 64 + 64 * 63 // 2 + 8
    level = 1e-9 / tests
    far = float(stats.binom.isf(level / 2, n, 0.5)) - n / 2
    assert (np.abs(bits.sum(axis=0) - n / 2) <= far).all()
    agree = bits.T @ bits + (1 - bits).T @ (1 - bits)  # pairs of bits: equal half of the time
    assert (np.abs(agree[np.triu_indices(64, 1)] - n / 2) <= far).all()
    # Power: a bit that is 1 with probability 0.525 is detected with probability above 0.999.
    assert stats.binom.sf(n / 2 + far, n, 0.525) > 0.999
    for place in range(8):
        counts = np.bincount(words.view(np.uint8).reshape(n, 8)[:, place], minlength=256)
        assert stats.chisquare(counts).pvalue > level


def test_seeded_words_are_those_of_the_generator_within_their_width() -> None:
    whole = SeededRandomnessForTestsOnly(5).words(1000, 64)
    generator = random.Random(5)
    assert whole.tolist() == [generator.getrandbits(64) for _ in range(1000)]
    assert np.array_equal(SeededRandomnessForTestsOnly(5).words(1000, 3), whole >> np.uint64(61))
