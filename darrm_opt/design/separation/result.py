"""Separation result: the outcome of a worst-case search, the collector of its finds, and the error bounds of rounding.

For Δ > 0 the searches, also those in C, take means over the binomial numbers of voters near 0 and 1 that answer against
their end (`darrm_opt.design.separation.binomials`), cut where at most `TAIL` of their mass remains. `search_error`
bounds the effect of that and of rounding on φ, and is charged to every bound of a search.
"""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from darrm_opt.design.constraint import Counts, PrivacyConstraint
from darrm_opt.design.kernel.library import DONE, OUT_OF_TIME
from darrm_opt.noise import Array, Integers
from darrm_opt.rounding import UNIT_ROUNDOFF

Indices = Integers

Settle = Literal["always", "until a cut", "never", "one kind"]
"""When a search continues completely with what its sieves leave open. "one kind": never; and if many voters are off
their ends it examines, without sieves, only multisets in which one kind of such voters affects p and one kind p′."""

MAX_TABLE_ENTRIES = 2_000_000
"""Maximum number of doubles in one table of a complete search (16 MB): more rows are searched in parts."""

MAX_PASSED_ENTRIES = 1_500_000_000
"""Maximum number of entries of a row's blossoms in a pass, some 0.5 s: all of them up to K = 2,078."""

TAIL = 2.0**-60  # mass at which a binomial is cut; charged in `evaluation_error`

MAX_EVALUATED_MEAN = 64.0
"""Largest M·Δ at which a mean over the binomials is worth its terms; beyond, only complete search or the row bound."""


@dataclass(frozen=True, eq=False, repr=False)
class WorstCase:
    """Outcome of a worst-case search."""

    bound: float  # proven upper bound on φ over the whole constraint set, rounding included
    value: float  # largest φ found, as computed; attained at ``counts`` up to rounding
    counts: Counts  # the multiset where it was found, shape (corners,)
    cuts: Counts  # multisets above the requested level, worst first
    # how the constraint set was covered: "complete" (only rounding lies between value and bound), "first-order" (also a
    # Taylor remainder), "monotone" (complete for γ that do not decrease away from K/2) or "ball"
    method: str
    error: float = 0.0  # the part of ``bound`` charged for rounding


class KernelResult(NamedTuple):
    """Result of a search by the kernel: the worst multiset, a bound on those left out, and cuts, the worst first."""

    value: float
    counts: Counts
    left_out: float
    values: Array
    cuts: Counts


class TimeLimitReached(Exception):
    """A search stopped at its deadline: nothing is proved."""


class Collector:
    """Collector of a search: the worst multiset, the best cuts, and a bound on multisets left out."""

    def __init__(self, above: float = np.inf, most: int = 0, deadline: float = np.inf) -> None:
        self.above, self.most, self._deadline = above, most, deadline
        self.value = -np.inf
        self.left_out = -np.inf
        self.counts: Counts | None = None
        self._values: list[Array] = []
        self._counts: list[Counts] = []

    @property
    def floor(self) -> float:
        """Values at or below it change nothing."""
        return min(self.above, self.value)

    @property
    def cut(self) -> bool:
        """Whether a multiset above the requested level was found and kept."""
        return bool(self._values)

    @property
    def level(self) -> float:
        """Level at or below which multisets may be left out; without cuts, the worst value found if that is higher."""
        return self.above if self.most else max(self.above, self.value)

    @property
    def is_complete(self) -> bool:
        """Whether no multiset left out may lie above both the requested level and the worst find."""
        return self.left_out <= max(self.value, self.above)

    def offer(self, values: Array, counts: Counts) -> None:
        """Record φ at multisets: shapes (many,) and (many, corners)."""
        if values.size == 0:
            return
        worst = int(np.argmax(values))
        if values[worst] > self.value:
            self.value, self.counts = float(values[worst]), counts[worst].copy()
        indices = np.flatnonzero(values > self.above)
        if indices.size and self.most:
            indices = indices[np.argsort(-values[indices], kind="stable")[: self.most]]
            self._values.append(values[indices])
            self._counts.append(counts[indices])

    def take(self, result: KernelResult, *, complete: bool = True) -> None:
        """Record the kernel's result; ``complete``: whether it bounds all other multisets."""
        if result.value > self.value:
            self.value, self.counts = result.value, result.counts
        if complete:
            self.leave_out(result.left_out)
        if result.values.size:
            self._values.append(result.values)
            self._counts.append(result.cuts)

    @property
    def remaining(self) -> float:
        """Time until the deadline [s], infinite without one; the kernel has its own clock."""
        return self._deadline - time.perf_counter()

    def check(self, outcome: int) -> None:
        """Raise an error if the kernel stopped early."""
        if outcome == OUT_OF_TIME:
            raise TimeLimitReached
        if outcome != DONE:
            raise MemoryError

    def tick(self) -> None:
        """Raise `TimeLimitReached` after the deadline; searches call this every few milliseconds."""
        if time.perf_counter() > self._deadline:
            raise TimeLimitReached

    def leave_out(self, bound: float) -> None:
        """Record that multisets with φ ≤ ``bound`` were not examined one by one."""
        self.left_out = max(self.left_out, bound)

    def result(self, error: float, method: str) -> WorstCase:
        """Return the outcome; ``error`` bounds the rounding of every recorded value and bound."""
        if self.counts is None:
            raise AssertionError("a search saw no multiset at all")
        cuts = np.empty((0, self.counts.size), dtype=np.int64)
        if self._values:
            values, counts = np.concatenate(self._values), np.concatenate(self._counts)
            worst_first = counts[np.lexsort((*counts.T[::-1], -values))]
            distinct = [*dict.fromkeys(map(bytes, worst_first))][: self.most]
            cuts = np.frombuffer(b"".join(distinct), dtype=np.int64).reshape(-1, self.counts.size).copy()
        return WorstCase(max(self.value, self.left_out) + error, self.value, self.counts, cuts, method, error)


MAX_DIRECT_MEAN = 500.0  # up to this mean no mean^k/k! overflows (e^500 < 1e218); beyond it logarithms are needed


@functools.lru_cache(maxsize=4096)
def terms_of(mean: float) -> int:
    """Return T such that a binomial with at most this mean exceeds T with probability at most `TAIL`."""
    # Pr[Bin(a, Δ) > T] ≤ C(a, T+1)·Δ^(T+1) ≤ mean^(T+1)/(T+1)!, which falls with T once T + 1 > mean.
    if mean > MAX_DIRECT_MEAN:

        def log_of(k: int) -> float:  # an upper bound on ln(mean^k/k!)
            power, factorial = k * math.log(mean), math.lgamma(k + 1)
            return power - factorial + 8 * UNIT_ROUNDOFF * (power + factorial)

        import bisect

        candidates = range(math.ceil(mean) + 1, 4 * math.ceil(mean))  # at 4·mean it is below (e/4)^(4·mean)
        return candidates[0] + bisect.bisect_right(candidates, -math.log(TAIL), key=lambda k: -log_of(k + 1))
    terms, bound = 1, mean**2 / 2
    while bound > TAIL:
        terms += 1
        bound *= mean / (terms + 1)
    return terms


def evaluation_error(mean: float) -> float:
    """Return a bound on |computed − exact| of such a mean, relative to max|A|, for aΔ and a′Δ up to ``mean``."""
    # The first mass carries (6 + 4·mean)u: log1p, product and exp for Δ ≤ ½, as then −ln(1−Δ) ≤ 1.39·Δ; beyond, it is
    # that of all a < T trials, a power of Δ, which is exact, as 1−Δ is. Each further one adds 6u, so a product of two
    # at most (14 + 8·mean + 12T)u relative; (T+1)² products are added in at most 4T + 4 sequential steps (in any
    # order); all weights sum to at most 1, and two tails are cut. The same holds for `bound_by_extremes` and
    # `bound_by_distance`, which have no more terms.
    terms = terms_of(mean)
    return (20 + 8 * mean + 20 * terms) * UNIT_ROUNDOFF + 2 * TAIL


def search_error(constraint: PrivacyConstraint, largest: float) -> float:
    """Return a bound on the rounding of every φ that the search computes or bounds, for γ ≤ ``largest``."""
    mean = min(constraint.affected * constraint.corners.Delta, MAX_EVALUATED_MEAN)
    return constraint.error(largest) + (1.0 + constraint.q) * evaluation_error(mean) * largest
