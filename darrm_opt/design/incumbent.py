"""Incumbent: the best γ that a solve has found so far, and what the search for its worst case found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from darrm_opt.design.separation.result import WorstCase
from darrm_opt.noise import Array, NoiseFunction

MIN_DIVISOR = 1e-300
"""Keeps a division from failing where both sides are 0."""


@dataclass(frozen=True, eq=False, repr=False)
class Incumbent:
    """A γ that was searched, with the outcome of that search.

    Attributes:
        searched: γ as it was searched, before any scaling.
        worst: what the search found for it.
        limit: right-hand side of the privacy constraint.
        complete: whether the search covered every multiset; else it may have missed worse ones.
    """

    searched: NoiseFunction
    worst: WorstCase
    limit: float
    complete: bool

    @cached_property
    def noise(self) -> NoiseFunction:
        """γ scaled until the search finds no violation, by linearity of the constraint; the proof comes at the end."""
        return NoiseFunction(self.searched.values * (self.limit / max(self.worst.value, self.limit, MIN_DIVISOR)))

    def with_rows(self, rows: Array) -> Incumbent:
        """Return the incumbent held to rows of the program, shape (rows, entries), that its own search may have missed.

        It then meets every row, as the program's answer does, and so does whatever lies between the two.
        """
        if self.complete:
            return self
        upper_half = self.searched.values[self.searched.K // 2 + 1 :]
        value = float((rows @ upper_half).max(initial=self.worst.value))
        return replace(self, worst=replace(self.worst, value=value, bound=max(self.worst.bound, value)))


@lru_cache(maxsize=32)
def no_release(K: int) -> NoiseFunction:
    """Return γ = 0, which is private whatever is asked: what stands in for an incumbent before there is one."""
    return NoiseFunction(np.zeros(K + 1))
