"""GNMax's noisy counts, any number of classes, composed by their privacy loss distribution.

A record moves r votes from one class to another. With discrete Gaussian noise z on the two counts the privacy loss is
L = (r² + r·w)/σ², w = z₁ − z₂: a lattice of spacing r/σ². A PLD on that lattice loses nothing to discretisation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.vote_noise import GaussianNoise
from darrm_opt.noise import Array
from darrm_opt.problem import whole_number

TAIL_ERROR = 2.0**-38
"""Relative error of a tail probability, 4e-12: an exponential errs by its exponent, at most 400, in ulps, and deciding
which w has a loss above ε errs by a few ulps of ε and r²/σ²."""

REACH = 14.0
"""Losses are kept up to this many standard deviations of w; what lies beyond, below 1e-43, counts as infinite."""

MAX_SIGMA = 10_000.0
"""Beyond this σ [votes] tables of w grow long; RDP is within a percent there."""


def gnmax_pld_epsilon(sigma: float, delta: float, *, queries: int = 1, affected: int = 1, n_classes: int = 2) -> float:
    """Return ε at δ of Q releases of noisy counts, by PLD.

    Args:
        sigma: σ [votes], in (0, 10000].
        delta: δ of all together [probability], in (0, 1).
        queries: Q ≥ 0 releases, adaptive or not.
        affected: votes r that one record can move, ≥ 1; above 1 only for two classes.
        n_classes: ≥ 2.

    Guarantees:
        Sound for the discrete noise that is drawn, rounding included.

    Raises:
        InvalidInput: an argument out of range.
        BackendUnavailable: dp_accounting (the extra ``accounting``) is not installed.
        DeltaTooSmall: δ is below what rounding can be proved to.
        TooMuchWork: too many releases at this σ.

    Source: ours, on Doroshenko et al. 2022.

    >>> round(gnmax_pld_epsilon(21.46, 3e-4), 3)
    0.148
    """
    from darrm_opt.accounting.pld.composition import pld_from_profile

    Q = whole_number(queries, "queries", "a number of releases, at least 0", least=0)
    r = whole_number(affected, "affected", "a number of votes, at least 1")
    C = whole_number(n_classes, "n_classes", "a number of classes, at least 2", least=2)
    noise = GaussianNoise.of_sigma(sigma)
    if noise.sigma > MAX_SIGMA:
        raise InvalidInput("sigma", sigma, f"at most {MAX_SIGMA:g} votes", "Use the account by RDP.")
    if r > 1 and C > 2:
        raise InvalidInput("affected", r, "1 vote with more than two classes", "Use the account by RDP.")
    if Q == 0:
        return 0.0
    profile = CountsProfile(noise, r)
    return (
        pld_from_profile(profile, discretisation=profile.spacing, max_loss=profile.max_loss).repeated(Q).epsilon(delta)
    )


class CountsProfile:
    """The privacy profile ε ↦ δ(ε) of one release of noisy counts, for every real ε; never below the exact one.

    Args:
        noise: the discrete Gaussian on each count.
        affected: votes r ≥ 1 that one record can move between two classes; the worst of 1..r is taken.
    """

    def __init__(self, noise: GaussianNoise, affected: int) -> None:
        self.variance = float(noise.variance)
        self.affected = affected
        half = noise.difference_masses()  # Pr[w], w = 0, 1, …
        tails = np.concatenate([half[::-1], half[1:]])[::-1].cumsum()[::-1]  # from the far end: small tails keep digits
        self._first = -(half.size - 1)
        self._tails = np.append(tails, 0.0)

    @property
    def spacing(self) -> float:
        """Distance of neighbouring losses where r votes move [nats]."""
        return self.affected / self.variance

    @property
    def max_loss(self) -> float:
        """A loss that is exceeded with negligible probability [nats]."""
        r = self.affected
        return (r * r + r * math.ceil(REACH * math.sqrt(2 * self.variance))) / self.variance

    def __call__(self, epsilons: Array) -> Array:
        """Return δ at each ε [nats]."""
        return np.asarray(np.max([self._delta(epsilons, r) for r in range(1, self.affected + 1)], axis=0))

    def _delta(self, epsilons: Array, r: int) -> Array:
        """Return Pr[L > ε] − e^ε·Pr′[L > ε]; under the neighbour w is larger by 2r, so both are tails of w."""
        w = np.floor((epsilons * self.variance - r * r) / r).astype(np.int64) + 1  # the least w with L > ε
        on_data, on_neighbour = self._tail(w), self._tail(w + 2 * r)
        with np.errstate(over="ignore", invalid="ignore"):  # inf·0 where the tail is empty
            neighbour_term = np.where(on_neighbour > 0, np.exp(epsilons) * on_neighbour * (1 - TAIL_ERROR), 0.0)
        return np.clip(on_data * (1 + TAIL_ERROR) - neighbour_term, 0.0, 1.0)

    def _tail(self, w: NDArray[np.int64]) -> Array:
        """Return Pr[difference of two samples ≥ w]."""
        return np.asarray(self._tails[np.clip(w - self._first, 0, self._tails.size - 1)], dtype=np.float64)
