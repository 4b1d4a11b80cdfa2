"""Exact coins: each falls on 1 with exactly the probability that is stored; tossed all at once for many releases.

A double p in [0, 1] is a dyadic rational, so a uniform string of bits read as a binary fraction U is below p with
probability exactly p. Strings are read word by word, and only as far as needed: with w bits a word,

    p = h₁·2^−w + h₂·2^−2w + …,     U < p  ⟺  (u₁, u₂, …) < (h₁, h₂, …) in dictionary order,

so a second word matters only where u₁ = h₁ and something is left of p, which for 63 bits happens once in 2⁶³ tosses.
The last bit of the first word is spare: it is the fair coin.

How many words a toss reads is decided by the words and by the table of probabilities, both of which tell nothing of the
votes: a row reads on where its word meets *any* probability of the table, not only its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.randomness.source import RandomSource

Bits = NDArray[np.uint8]
Index = NDArray[np.intp]

WIDTH = 63
"""Bits of a word that are compared; the 64th is the fair coin."""


class ExactCoins:
    """A table of coins, tossed by their number.

    Args:
        probabilities: of each coin to fall on 1, doubles in [0, 1], shape (n,).
        width: bits compared per word, 1..63; small ones let a test try every string of bits.

    Guarantees:
        A coin falls on 1 with probability exactly the double that is stored, also if subnormal or 1 − 2^−53, and
        independently of all other tosses and of the fair bit beside it, given uniform independent words.
        The number of words drawn does not depend on which coins are tossed.

    Raises:
        InvalidInput: not a flat array of probabilities, or another width.

    >>> from darrm_opt.randomness.source import SystemRandomness
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
            # Scaling by a power of 2, and taking the whole part and the rest of a double, are exact.
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
            coins: number of the coin to toss, shape (N,).
            source: where chance comes from.

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
            if not rows.size:  # says something of the words and the table, nothing of the votes
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
