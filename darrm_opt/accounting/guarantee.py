"""Release guarantee: what is proved of one release, as one value that every account takes what it can use of.

A γ (`release_profile.NoisyMajority`), mechanisms, tables, plain votes and samples (`mechanisms`) state it; nothing here
composes anything. Its numbers are bounds: what is not known is None, and what cannot be computed is the bound for any
votes (`bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from darrm_opt.accounting.bits.region import BitRegion
from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.law_pairs import AnyVotes, LawPairs
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP


class Laws(Protocol):
    """What one release shows on neighbours: all pairs of laws (`LawPairs`), or lines around them (`ReleaseProfile`)."""

    @property
    def is_bit(self) -> bool:
        """Whether one of two answers is released."""
        ...

    @property
    def region(self) -> BitRegion:
        """A polygon that holds all pairs of a bit."""
        ...

    @property
    def finite(self) -> bool:
        """Whether each answer is possible on both sides of a pair or on neither."""
        ...

    @property
    def affinity(self) -> float:
        """The least Σ √(P·Q) of a pair, for estimates."""
        ...

    @property
    def max_loss(self) -> float:
        """An ε from which on δ does not fall any more [nats]."""
        ...

    @property
    def largest_loss(self) -> float:
        """A bound on the loss of every answer [nats], ∞ where one of two neighbours alone can give it."""
        ...

    @property
    def divergence(self) -> PowerDivergence | None:
        """A bound on the power divergences of all pairs, None where there is none."""
        ...

    def epsilon(self, delta: float) -> float:
        """Return ε of one release at δ."""
        ...

    def __call__(self, epsilons: Array) -> Array:
        """Return δ of one release at any ε's."""
        ...


Models = tuple[int, tuple[tuple[Privacy, int], ...]]
"""Models that were trained once: how many voters there are, and those that one record reaches, of each privacy."""


@dataclass(frozen=True, eq=False)
class ReleaseGuarantee:
    """What is proved of one release, whatever is released with it."""

    # an (ε, δ), or None; as a function where it takes a search, which may raise `DeltaTooSmall`
    privacy: Privacy | Callable[[], Privacy] | None = None
    # all pairs of laws that neighbours can show, or None where they are not known; called when it is asked for
    laws: Callable[[], Laws] | None = None
    # a bound on the power divergences, or None where it follows from ``laws`` or is not known; likewise
    divergence: Callable[[], PowerDivergence | None] | None = None
    # about that bound, where it takes long: no proof
    estimate: Callable[[], PowerDivergence | None] | None = None
    # pairs of a bit that are likely the worst, where a proof of all takes long: no proof either
    likely: Callable[[], BitRegion] | None = None
    # pairs of laws of any votes, for a privacy loss distribution, or None where ``laws`` or ``privacy`` serve; likewise
    any_votes: Callable[[], AnyVotes] | None = None
    # a bound on the loss, or None where it follows from ``laws`` or is not known; likewise
    loss: Callable[[], float | None] | None = None
    # the models of which all releases are post-processing, or None where voters are fresh or not private
    models: Models | None = None

    @cached_property
    def shown(self) -> Laws:
        """What one release shows, where ``laws`` are known."""
        assert self.laws is not None  # noqa: S101 - for the type checker: asked for where they are known
        return self.laws()

    def event(self) -> Privacy | None:
        """Return an (ε, δ) of one release: the one that is proved, or the largest loss of all pairs of laws if less.

        At δ = 0 that loss is exact for any number of releases, where the recursion on bits has a grid.
        """
        privacy = self.privacy() if callable(self.privacy) else self.privacy
        if privacy is not None and privacy.delta:
            return privacy
        loss = self.largest_loss()
        return Privacy(loss) if loss < (math.inf if privacy is None else privacy.epsilon) else privacy

    def largest_loss(self) -> float:
        """Return a bound on the loss of one release [nats], ∞ where none is known."""
        if self.laws is not None:
            return self.shown.largest_loss
        loss = None if self.loss is None else self.loss()
        return math.inf if loss is None else float(upper_bound(loss))

    def bound(self) -> PowerDivergence | None:
        """Return the bound on the power divergences, from whatever is known."""
        if self.divergence is not None:
            return self.divergence()
        return None if self.laws is None else self.shown.divergence


Releases = Sequence[tuple[ReleaseGuarantee, int]]
"""Releases of several kinds: what is proved of one of them, and how many there are at most, in any order."""


def estimated_shift(parts: Releases) -> float | None:
    """Return μ [standard deviations] of about what releases cost together, no proof: one Gaussian mechanism.

    That of the same Hellinger distances; None where no bound on the divergences is known.
    """
    variance = 0.0
    for bounds, count in parts:
        laws = None if bounds.laws is None else bounds.shown
        if laws is not None and laws.finite:  # next to no time, where a bound may take a second
            affinity = laws.affinity
        else:
            bound = bounds.bound()
            if bound is None:
                return None
            # H at ½ is 4·(1 − affinity); a bound on it may be above 4, where the affinity is as good as 0.
            affinity = 1 - min(float(bound.at(np.array([0.5]))[0]), 3.9) / 4
        variance += count * (math.inf if affinity <= 0 else -8 * math.log(affinity))
    return math.sqrt(variance)


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
        object.__setattr__(self, "missing", float(upper_bound(self.missing, 1.0)))  # NaN: all of it may be

    def pairs(self, rate: float) -> list[LawPairs]:
        """Return the sampled pairs: of each direction on its own for add-remove, else of both together."""
        error = self.error + 4 * ULP  # of a mixture: two products and a sum of positive numbers
        on = np.minimum((1 - rate) * self.off + rate * self.on, 1.0)
        if self.other is None:
            return [LawPairs(self.off, on, error=error), LawPairs(on, self.off, error=error)]
        other = np.minimum((1 - rate) * self.off + rate * self.other, 1.0)
        return [LawPairs(on, other, error=error)]
