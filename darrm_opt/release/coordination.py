"""Coordinated votes: voters draw from their own distributions with shared randomness, so that similar voters agree.

A language model gives probabilities of next words, not a vote. Voters that draw independently among m plausible words
share no favourite, and noise decides; voters that draw *with the same public bits* agree as far as their distributions
do, and each vote still has exactly its voter's distribution. The privacy is that of any votes (docs/proofs.md,
"Coordinated votes").

*The race.* Each of the C classes has one exponential time E_j = −ln(1 − U_j), shared by all; voter i votes for the
class with the least E_j/p_ij, which is class j with probability p_ij/Σp_i. Two voters agree with probability
Σ_j 1/Σ_l max(p_l/p_j, q_l/q_j), at least (1 − d)/(1 + d) where d is the total variation distance of their
distributions.

*Exactness.* U_j is read as a string of bits, a word at a time. The first word encloses each E_j/p_ij in doubles;
overlapping enclosures are compared in exact fractions, with as many further words as needed. Further words are read for
all classes at once, so votes drawn one by one, in other processes, equal those drawn together.

Source: the draws are those of a coordinated ensemble (Cohen, Cohen-Wang, Sarvari, Zheng and Zhu, "Hot PATE", 2023).
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, check_unmasked
from darrm_opt.randomness import RandomSource, SystemRandomness

WORD = 64

MAX_BITS = 1024  # bits after which two times that are still equal show that the bits are not random

SLACK = 2.0**-48
"""Relative error of an enclosure: a logarithm, two conversions, a scale and a quotient have 2^−50 in total."""


def coordinated_votes(probabilities: Any, source: RandomSource | None = None) -> NDArray[np.int64]:
    """Return a vote of each voter, drawn from its own distribution with randomness that all voters share.

    Args:
        probabilities: each voter's distribution of the next label, shape (K, C), rows of finite weights ≥ 0 with at
            least one above 0; they need not sum to 1.
        source: shared bits, fresh for every label and independent of the data; they may be public. None: the operating
            system's. Voters in several processes each use a `PublicRandomness` with the same seed.

    Returns:
        Classes, shape (K,), each 0..C−1.

    Guarantees:
        Given uniform independent bits, voter i votes for class j with probability exactly p_ij/Σp_i, of the doubles in
        ``probabilities``. Its vote depends only on its own row and the source: a row drawn alone, from the same bits,
        gets the same vote. For releases of voters that are not private (ε = ∞ for a voter): given the bits, votes are
        not independent draws, so an (ε, Δ) of single answers does not apply to them.

    Raises:
        InvalidInput: another shape, a weight that is negative or not finite, a row without weight, or a source whose
            bits repeat.

    >>> from darrm_opt.randomness import PublicRandomness
    >>> alike = coordinated_votes([[0.25, 0.25, 0.5]] * 3, PublicRandomness(b"a seed of 16 bytes or more"))
    >>> len(set(alike.tolist()))
    1
    """
    return _race(_checked(probabilities), SystemRandomness() if source is None else source, WORD)


def _checked(probabilities: Any) -> Array:
    accepted = "finite weights at least 0 of shape (K, C), with one above 0 in each row"
    check_unmasked(probabilities, "probabilities")
    try:
        table = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("probabilities", "a value that is not shown here", accepted) from None
    if table.ndim != 2 or not table.size:
        raise InvalidInput("probabilities", table.shape, accepted)
    # Naming the voter's row would reveal something of private data.
    if not (np.isfinite(table).all() and (table >= 0).all() and (table.max(axis=1) > 0).all()):
        raise InvalidInput("probabilities", "values that are not shown here", accepted, "Logits need a softmax first.")
    return table


def _race(table: Array, source: RandomSource, bits: int) -> NDArray[np.int64]:
    times = _Times(table.shape[1], source, bits)
    return np.array([_winner(row, times) for row in table], dtype=np.int64)


class _Times:
    """Times of all classes, known to as many words as needed so far."""

    def __init__(self, classes: int, source: RandomSource, bits: int) -> None:
        self._classes, self._source, self.bits = classes, source, bits
        self._words = [source.words(classes, bits)]
        self.low, self.high = self._enclosures()

    def _enclosures(self) -> tuple[Array, Array]:
        """Return bounds of each time in doubles: −ln(1 − U), U in [w, w + 1)/2^bits."""
        first = self._words[0]
        w, v = first.astype(np.float64), (np.uint64(2**self.bits - 1) - first).astype(np.float64)
        scale = 2.0**-self.bits
        # From the nearer end: 1 − U is as exact as U only where it is small.
        with np.errstate(divide="ignore"):
            near_zero = -np.log1p(-np.minimum(w, v) * scale), -np.log1p(-(np.minimum(w, v) + 1) * scale)
            near_one = -np.log((v + 1) * scale), -np.log(v * scale)
        below = w < v
        low = np.where(below, near_zero[0], near_one[0]) * (1 - SLACK)
        return low, np.where(below, near_zero[1], near_one[1]) * (1 + SLACK)

    def enclosed(self, label: int, words: int) -> tuple[Fraction, Fraction | None]:
        """Return bounds of the time of a class from its first words; None if there is no upper bound yet."""
        while len(self._words) < words:
            self._words.append(self._source.words(self._classes, self.bits))
        number = 0
        for block in self._words[:words]:
            number = number << self.bits | int(block[label])
        whole = 1 << self.bits * words
        digits = len(str(whole)) + 30
        context = Context(prec=digits)
        # Logarithms of `decimal` are correctly rounded: each errs by less than 10^(6 − digits), as ln(whole) < 10^5.
        error = Fraction(2, 10 ** (digits - 6))
        top = Fraction(context.ln(Decimal(whole)))
        low = top - Fraction(context.ln(Decimal(whole - number))) - error
        if number + 1 == whole:
            return low, None
        return max(low, Fraction(0)), top - Fraction(context.ln(Decimal(whole - number - 1))) + error


def _winner(row: Array, times: _Times) -> int:
    """Return the class with the least E_j/p_j."""
    scaled = row / row.max()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low, high = times.low / scaled, times.high / scaled
    least = np.nanmin(np.where(scaled > 0, high, np.inf))
    # a weight that scales to 0 may still win if its time is 0 as far as it is known.
    labels = np.flatnonzero((row > 0) & ((low <= least) | (times.low == 0)))
    if labels.size == 1:
        return int(labels[0])
    weights = {int(label): Fraction(row[label]) for label in labels}
    for words in range(1, MAX_BITS // times.bits + 1):
        bounds = {label: times.enclosed(label, words) for label in weights}
        upper = {label: high / weights[label] for label, (_, high) in bounds.items() if high is not None}
        if not upper:
            continue
        first = min(upper, key=lambda label: upper[label])
        if all(bounds[label][0] / weights[label] >= upper[first] for label in weights if label != first):
            return first
    raise InvalidInput("source", "bits that repeat", "independent uniform bits")
