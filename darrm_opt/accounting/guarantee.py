"""Release guarantee: what is proved of one release, as one value that every account takes what it can use of.

Mechanisms, tables, γ, plain votes and samples state it (`mechanisms`); nothing here composes anything. Its numbers are
bounds: what is not known is None, and what cannot be computed is the bound for any votes (`bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from darrm_opt.accounting.bounds import is_within
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.law_pairs import AnyVotes, LawPairs
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP


@dataclass(frozen=True, eq=False)
class ReleaseGuarantee:
    """What is proved of one release, whatever is released beside it."""

    privacy: Privacy | None = None  # an (ε, δ), or None
    # all pairs of laws that neighbours can show, or None where they are not known; called when it is asked for
    laws: Callable[[], LawPairs] | None = None
    # a bound on the power divergences, or None where it follows from ``laws`` or is not known; likewise
    divergence: Callable[[], PowerDivergence | None] | None = None
    # about that bound, where it takes long: no proof
    estimate: Callable[[], PowerDivergence | None] | None = None
    # pairs of laws of any votes, for a privacy loss distribution, or None where ``laws`` or ``privacy`` serve; likewise
    any_votes: Callable[[], AnyVotes] | None = None
    # a bound on the loss, or None where it follows from ``laws`` or is not known; likewise
    loss: Callable[[], float | None] | None = None

    def event(self) -> Privacy | None:
        """Return an (ε, δ) of one release: the one that is proved, or the largest loss of all pairs of laws if less.

        At δ = 0 that loss is exact for any number of releases, where the recursion on bits has a grid.
        """
        if self.laws is None and self.loss is not None:
            loss = self.loss()
            return self.privacy if loss is None or not is_within(loss, math.inf) else Privacy(loss)
        if self.laws is None or (self.privacy is not None and self.privacy.delta):
            return self.privacy
        laws = self.laws()
        losses = [] if self.privacy is None else [self.privacy.epsilon]
        losses += [laws.max_loss] if laws.finite else []
        return Privacy(min(losses)) if losses else None

    def bound(self) -> PowerDivergence | None:
        """Return the bound on the power divergences, from whatever is known."""
        if self.divergence is not None:
            return self.divergence()
        return None if self.laws is None else self.laws().divergence


Releases = Sequence[tuple[ReleaseGuarantee, int]]
"""Releases of several kinds: what is proved of one of them, and how many there are at most, in any order."""


@dataclass(frozen=True, eq=False)
class LawTriples:
    """Triples (A, B, B′) of laws of one answer: a record not in the sample, and in it in either of two values."""

    off: Array  # A, shape (triples, answers)
    on: Array  # B, likewise
    other: Array | None = None  # B′, likewise, or None for add-remove
    error: float = 0.0  # relative error of each probability
    missing: float = 0.0  # chance of noise that is cut off, at most: the laws are those given that none is
    is_tight: bool = True  # whether they are those of what leaves, and not of noisy counts that it is drawn from

    def __post_init__(self) -> None:
        for name in ("off", "on", "other"):
            laws = getattr(self, name)
            if laws is not None:
                object.__setattr__(self, name, np.minimum(laws, 1.0))  # sums of probabilities, rounded

    def pairs(self, rate: float) -> list[LawPairs]:
        """Return the sampled pairs: of each direction on its own for add-remove, else of both together."""
        error = self.error + 4 * ULP  # of a mixture: two products and a sum of positive numbers
        on = np.minimum((1 - rate) * self.off + rate * self.on, 1.0)
        if self.other is None:
            return [LawPairs(self.off, on, error=error), LawPairs(on, self.off, error=error)]
        other = np.minimum((1 - rate) * self.off + rate * self.other, 1.0)
        return [LawPairs(on, other, error=error)]


class Accountable(Protocol):
    """What can be accounted for: a mechanism."""

    K: int
    affected: int

    def bounds(self, releases: int) -> Releases:
        """Return what is proved of so many releases."""
        ...

    def at_sensitivity(self, votes: int) -> ReleaseGuarantee | None:
        """Return what is proved of one release where a record moves so many votes; None where nothing is."""
        ...

    def listed(self) -> LawPairs | None:
        """Return all pairs of laws of one release, in both orders, where they are few; None otherwise."""
        ...

    def sampled_laws(self, sampling: Sampling, cut: float = ...) -> Sequence[LawTriples] | None:
        """Return the laws of one answer without a record and with it, in one of two values; None if not known.

        ``cut``: chance of noise that may be cut off: the laws are then those given that none is.
        """
        ...
