"""Coins: exact probabilities by all strings of bits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.cases import for_each
from support.refusals import refused

from darrm_opt.errors import InvalidInput
from darrm_opt.release import ExactCoins, RandomSource, SeededRandomnessForTestsOnly, SystemRandomness

SMALLEST = 5e-324
LARGEST = 1 - 2.0**-53
SPECIAL = (0.0, 1.0, 0.5, SMALLEST, 2.0**-1022, 3 * 2.0**-1074, LARGEST, 0.1, 1 / 3, 2.0**-60 * 1.1, 1e-300)

doubles = st.one_of(st.sampled_from(SPECIAL), st.floats(0, 1), st.integers(0, 2**9).map(lambda n: n / 2**9))


class TapeEndedError(Exception):
    """More words are needed; has the number of bits of the next one."""


class WordsOnly(RandomSource):
    """A source of words only."""

    def octets(self, count: int) -> bytes:
        raise AssertionError(f"{count} bytes were asked for, not words")


class Tape(WordsOnly):
    """A source of given words."""

    def __init__(self, words: tuple[int, ...]) -> None:
        self._left = list(words)

    def words(self, count: int, bits: int) -> NDArray[np.uint64]:
        if not self._left:
            raise TapeEndedError(bits)
        assert count == 1
        return np.array([self._left.pop(0)], dtype=np.uint64)


class Recorded(WordsOnly):
    """A source that records the numbers and widths of requested words."""

    def __init__(self, source: RandomSource) -> None:
        self._source = source
        self.asked: list[tuple[int, int]] = []

    def words(self, count: int, bits: int) -> NDArray[np.uint64]:
        self.asked.append((count, bits))
        return self._source.words(count, bits)


def outcomes(coins: ExactCoins, coin: int) -> Iterator[tuple[int, int, Fraction]]:
    """Yield the coin, the fair coin and the probability of every string of words."""
    unfinished: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while unfinished:
        words, chance = unfinished.pop()
        try:
            fell, fair = coins.toss(np.array([coin]), Tape(words))
        except TapeEndedError as end:
            bits = end.args[0]
            unfinished += [((*words, word), chance / 2**bits) for word in range(2**bits)]
            continue
        yield int(fell[0]), int(fair[0]), chance


def probabilities(coins: ExactCoins, coin: int) -> dict[tuple[int, int], Fraction]:
    found: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for fell, fair, chance in outcomes(coins, coin):
        found[fell, fair] += chance
    return found


@for_each(
    ("p", "width"),
    [
        *product((0.0, 1.0, 0.5, 1 / 512, 5 / 8, 511 / 512, 100 / 512), (1, 3, 7)),
        *((p, 6) for p in (LARGEST, 0.1, 1 / 3)),  # exact to the last of 53 bits
    ],
)
def test_over_all_strings_of_bits_the_probability_is_exact(p: float, width: int) -> None:
    found = probabilities(ExactCoins([p, 0.3125], width), 0)
    assert sum(found.values()) == 1
    for fair in (0, 1):
        assert found[1, fair] == Fraction(p) / 2
        assert found[0, fair] == (1 - Fraction(p)) / 2


@for_each("width", [20, 63])
@for_each("p", SPECIAL)
def test_a_coin_is_1_if_the_string_is_below_the_double(p: float, width: int) -> None:
    # Strings that equal p for d words and then differ by one, for all d: the critical ones.
    coins = ExactCoins([p, SMALLEST], width)  # the second row makes every row read as far as possible
    digits = [int(digit[0]) for digit in coins.digits]
    for d, digit in enumerate(digits):
        for word in {max(digit - 1, 0), digit, min(digit + 1, 2**width - 1)} - {2**width}:
            words = (*digits[:d], word, *[0] * (len(digits) - d - 1))
            if words[0] == 2**width:
                continue  # p = 1: all words are below its digit
            below = sum(Fraction(w, 2 ** (width * (i + 1))) for i, w in enumerate(words)) < Fraction(p)
            fell, _ = coins.toss(np.array([0]), Tape((2 * words[0], *words[1:])))
            assert fell.tolist() == [below]


@given(st.lists(doubles, min_size=1, max_size=6), st.integers(1, 63))
def test_the_digits_represent_the_double(table: list[float], width: int) -> None:
    coins = ExactCoins(table, width)
    for coin, p in enumerate(table):
        parts = [Fraction(int(digit[coin]), 2 ** (width * (d + 1))) for d, digit in enumerate(coins.digits)]
        assert sum(parts, Fraction(0)) == Fraction(p)
        assert all(int(digit[coin]) < 2**width for digit in coins.digits[1:])
    assert len(coins.digits) <= math.ceil(1074 / width)


@given(st.lists(doubles, min_size=2, max_size=4), st.integers(0, 2**32), st.integers(1, 4))
def test_the_words_read_do_not_depend_on_the_chosen_coins(table: list[float], seed: int, width: int) -> None:
    coins = ExactCoins(table, width)
    read = []
    for coin in range(len(table)):
        source = Recorded(SeededRandomnessForTestsOnly(seed))
        coins.toss(np.full(200, coin), source)
        read.append(source.asked)
    assert all(asked == read[0] for asked in read)


def test_a_toss_of_common_doubles_reads_one_word() -> None:
    source = Recorded(SystemRandomness())
    ExactCoins([0.0, 1.0, 0.1, LARGEST]).toss(np.arange(4), source)
    assert source.asked == [(4, 64)]


def test_coins_equal_to_their_digit_read_another_word() -> None:
    # 63 bits: only the digit itself reads another word, which the rest of the double decides.
    p = 2.0**-20 * (1 + 2.0**-52)
    coins = ExactCoins([p])
    first, second = (int(digit[0]) for digit in coins.digits)
    assert coins.toss(np.array([0]), Tape((2 * first, second - 1)))[0].tolist() == [1]
    assert coins.toss(np.array([0]), Tape((2 * first, second)))[0].tolist() == [0]
    assert coins.toss(np.array([0]), Tape((2 * first - 2,)))[0].tolist() == [1]
    assert coins.toss(np.array([0]), Tape((2 * first + 2,)))[0].tolist() == [0]


@for_each("table", [[], [[0.5]], [math.nan], [-0.1], [1.1], [0.5, 1.1], [-0.1, 0.5], [0.5, math.nan]])
def test_invalid_tables_of_probabilities_are_refused(table: list[float]) -> None:
    with refused("probabilities"):
        ExactCoins(table)


@pytest.mark.parametrize("width", [0, 64])
def test_another_width_is_refused(width: int) -> None:
    text = rf"^width = {width} is not valid: expected a number of bits in 1\.\.63"
    with pytest.raises(InvalidInput, match=text):
        ExactCoins([0.5], width)
