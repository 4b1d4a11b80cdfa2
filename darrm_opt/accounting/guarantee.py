"""Release guarantee: everything proved of one release, as one value; each account uses the part it needs.

Stated by a γ (`release_profile.NoisyMajority`) and by mechanisms, tables, plain votes and samples (`mechanisms`). Its
numbers are bounds: unknown ones are None, and one that cannot be computed is replaced by the bound for any votes
(`bounds`).
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
    """Output of one release on neighbours: all pairs of laws (`LawPairs`), or lines around them (`ReleaseProfile`)."""

    @property
    def is_bit(self) -> bool:
        """Whether the answer is one of two."""
        ...

    @property
    def region(self) -> BitRegion:
        """A polygon that contains all pairs of a bit."""
        ...

    @property
    def finite(self) -> bool:
        """Whether each answer is possible on both sides of a pair or on neither."""
        ...

    @property
    def affinity(self) -> float:
        """The smallest Σ √(P·Q) of a pair, for estimates."""
        ...

    @property
    def max_loss(self) -> float:
        """An ε from which δ is constant [nats]."""
        ...

    @property
    def largest_loss(self) -> float:
        """A bound on the loss of every answer [nats], ∞ if one is possible on only one of two neighbours."""
        ...

    @property
    def divergence(self) -> PowerDivergence | None:
        """A bound on the power divergences of all pairs; None if there is none."""
        ...

    def epsilon(self, delta: float) -> float:
        """Return ε of one release at δ."""
        ...

    def __call__(self, epsilons: Array) -> Array:
        """Return δ of one release at any ε."""
        ...


class BaggedReleases(Protocol):
    """Releases of voters of whom a record affects a random number (`mixture.BaggedMajority`)."""

    def epsilon(self, queries: int, delta: float) -> float:
        """Return ε of all releases together at δ; may raise `DeltaTooSmall`."""
        ...

    def estimate(self, queries: int, delta: float) -> float | None:
        """Return an estimate of it."""
        ...


Models = tuple[int, tuple[tuple[Privacy, int], ...]]
"""Models trained once: the number of voters, and the numbers of each privacy that one record reaches."""


@dataclass(frozen=True, eq=False)
class ReleaseGuarantee:
    """What is proved of one release, in any context."""

    # An (ε, δ), or None; a function if it requires a search, which may raise `DeltaTooSmall`.
    privacy: Privacy | Callable[[], Privacy] | None = None
    # All pairs of laws of neighbours; None if unknown. This and the next ones are computed on demand.
    laws: Callable[[], Laws] | None = None
    # A bound on the power divergences; None if it follows from ``laws`` or is unknown.
    divergence: Callable[[], PowerDivergence | None] | None = None
    # An approximation of a slow ``divergence``: not a proof.
    estimate: Callable[[], PowerDivergence | None] | None = None
    # Probably the worst pairs of a bit, if a proof of all is slow: not a proof.
    likely: Callable[[], BitRegion] | None = None
    # Pairs of laws for any votes, for a privacy loss distribution; None if ``laws`` or ``privacy`` are used.
    any_votes: Callable[[], AnyVotes] | None = None
    # A bound on the loss; None if it follows from ``laws`` or is unknown.
    loss: Callable[[], float | None] | None = None
    # The models of which all releases are post-processing; None if voters are fresh or not private.
    models: Models | None = None
    # One draw for all releases, which decides the number of affected voters; nothing else is stated then.
    bagged: BaggedReleases | None = None

    @cached_property
    def shown(self) -> Laws:
        """Output of one release on neighbours; requires ``laws``."""
        assert self.laws is not None  # noqa: S101 - for the type checker: asked for where they are known
        return self.laws()

    def event(self) -> Privacy | None:
        """Return an (ε, δ) of one release: the proved one, or the largest loss of all pairs of laws if smaller.

        At δ = 0 that loss is exact for any number of releases, without the grid of the recursion on bits.
        """
        privacy = self.privacy() if callable(self.privacy) else self.privacy
        if privacy is not None and privacy.epsilon == math.inf:
            privacy = None  # which proves nothing
        if privacy is not None and privacy.delta:
            return privacy
        loss = self.largest_loss()
        return Privacy(loss) if loss < (math.inf if privacy is None else privacy.epsilon) else privacy

    def largest_loss(self) -> float:
        """Return a bound on the loss of one release [nats], ∞ if none is known."""
        if self.laws is not None:
            return self.shown.largest_loss
        loss = None if self.loss is None else self.loss()
        return math.inf if loss is None else float(upper_bound(loss))

    def bound(self) -> PowerDivergence | None:
        """Return the bound on the power divergences, from any known source."""
        if self.divergence is not None:
            return self.divergence()
        return None if self.laws is None else self.shown.divergence


Releases = Sequence[tuple[ReleaseGuarantee, int]]
"""Releases of several kinds: the guarantee of each, and its maximum number, in any order."""


def estimated_shift(parts: Releases) -> float | None:
    """Return an estimate of μ [standard deviations] of one Gaussian mechanism with the cost of the releases.

    It has the same Hellinger distances; None if no bound on the divergences is known.
    """
    variance = 0.0
    for bounds, count in parts:
        laws = None if bounds.laws is None else bounds.shown
        if laws is not None and laws.finite:  # fast, while a bound may take a second
            affinity = laws.affinity
        else:
            bound = bounds.bound()
            if bound is None:
                return None
            # H at ½ is 4·(1 − affinity); a bound on it may exceed 4, where the affinity is essentially 0.
            affinity = 1 - min(float(bound.at(np.array([0.5]))[0]), 3.9) / 4
        variance += count * (math.inf if affinity <= 0 else -8 * math.log(affinity))
    return math.sqrt(variance)


@dataclass(frozen=True, eq=False)
class LawTriples:
    """Triples (A, B, B′) of laws of one answer: without a record, and with it in each of two values."""

    off: Array  # A, shape (triples, answers)
    on: Array  # B, likewise
    other: Array | None = None  # B′, likewise, or None for add-remove
    error: float = 0.0  # relative error of each probability
    missing: float = 0.0  # bound on the probability of cut-off noise: the laws are conditional on the rest
    is_tight: bool = True  # whether they are those of the output, not of noisy counts behind it

    def __post_init__(self) -> None:
        for name in ("off", "on", "other"):
            laws = getattr(self, name)
            if laws is not None:
                object.__setattr__(self, name, np.minimum(laws, 1.0))  # sums of probabilities, rounded
        object.__setattr__(self, "missing", float(upper_bound(self.missing, 1.0)))  # NaN: possibly all of it

    def pairs(self, rate: float) -> list[LawPairs]:
        """Return the sampled pairs: of each direction separately for add-remove, else of both together."""
        error = self.error + 4 * ULP  # of a mixture: two products and a sum of positive numbers
        on = np.minimum((1 - rate) * self.off + rate * self.on, 1.0)
        if self.other is None:
            return [LawPairs(self.off, on, error=error), LawPairs(on, self.off, error=error)]
        other = np.minimum((1 - rate) * self.off + rate * self.other, 1.0)
        return [LawPairs(on, other, error=error)]
