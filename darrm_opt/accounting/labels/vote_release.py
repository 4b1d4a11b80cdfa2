"""Labels and checks of a noisy vote, among any number of classes: what is proved of one of them.

A *label* is argmax over the classes of count + N(0, σ²). A *check* is one bit, "largest count + N(0, σ₁²) ≥ T", for any
T. Counts come from voters that are not private. Labels and checks may follow each other in any order that depends on
what was released before, and thresholds T may too: an abstention is a check that failed. Proofs: docs/proofs.md, "What
labels cost".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

from darrm_opt.accounting.guarantee import ReleaseGuarantee
from darrm_opt.accounting.labels.discrete_gaussian_argmax import (
    lattice_bit_divergence,
    lattice_counts,
    lattice_label_divergence,
    narrow_lattice_counts,
)
from darrm_opt.accounting.labels.gaussian_argmax import label_divergence
from darrm_opt.accounting.labels.noisy_bit import bit_divergence
from darrm_opt.accounting.labels.power_divergence import PowerDivergence, gaussian_counts
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.rounding import down, up

MIN_DISCRETE_SIGMA = 1.0  # smallest σ [votes] of discrete noise whose labels have a bound below that of noisy counts
MIN_SIGMA, MAX_SIGMA = 1e-50, 1e150  # smallest and largest σ [votes]: beyond them, its powers underflow or overflow

Kind = Literal["label", "check"]

Noise = Literal["gaussian", "discrete"]


@dataclass(frozen=True)
class VoteRelease:
    """A label or a check of a noisy vote.

    Args:
        kind: "label" or "check".
        sigma: standard deviation of the Gaussian noise on each count, or on the largest one, `MIN_SIGMA` to `MAX_SIGMA`
            [votes].
        noise: "gaussian": N(0, σ²), as published; "discrete": the discrete Gaussian of parameter σ on the integers, as
            drawn by `darrm_opt.mechanisms.vote_noise`, ties broken at random or in a fixed order.

    Raises:
        InvalidInput: a value is out of range.
    """

    kind: Kind
    sigma: float
    noise: Noise = "gaussian"

    def __post_init__(self) -> None:
        if self.kind not in ("label", "check"):
            raise InvalidInput("kind", self.kind, "'label' or 'check'")
        if self.noise not in ("gaussian", "discrete"):
            raise InvalidInput("noise", self.noise, "'gaussian' or 'discrete'")
        accepted = f"a standard deviation, a number of votes from {MIN_SIGMA:g} to {MAX_SIGMA:g}"
        object.__setattr__(self, "sigma", real_number(self.sigma, "sigma", accepted, least=MIN_SIGMA, most=MAX_SIGMA))

    def shift(self, affected: int = 1) -> float:
        """Return μ of the noisy counts, rounded up: r votes move two counts by r each, the largest one by at most r."""
        return up((math.sqrt(2) if self.kind == "label" else 1.0) * affected / self.sigma, 4)

    def divergence(self, classes: int | None = None, affected: int = 1) -> PowerDivergence:
        """Return a bound on the power divergence.

        Args:
            classes: as for `guarantee`.
            affected: as for `guarantee`.
        """
        if self.noise == "discrete":
            if self.sigma < MIN_DISCRETE_SIGMA:
                return narrow_lattice_counts(self.shift(affected))
            if self.kind == "check":
                return lattice_bit_divergence(self.sigma, affected, (0.0,))
            if classes == 2:  # the difference of two counts: even or odd, in steps of two
                return lattice_bit_divergence(self.sigma / math.sqrt(2), affected, (0.0, 0.5))
            return lattice_label_divergence(self.sigma) if affected == 1 else lattice_counts(self.shift(affected))
        if self.kind == "check" or classes == 2:
            return bit_divergence(self.shift(affected))
        return label_divergence(self.sigma) if affected == 1 else gaussian_counts(self.shift(affected))

    def guarantee(self, classes: int | None = None, affected: int = 1, weight: float = 1.0) -> ReleaseGuarantee:
        """Return what is proved of one release, for `darrm_opt.accounting.total.total_of`.

        Args:
            classes: number of classes ≥ 2; None if unknown, which costs at most 1 % more than two.
            affected: votes r ≥ 1 that one record can move from their classes to others. For r > 1 and more than two
                classes a label is charged as its noisy counts.
            weight: weight of each of these votes, > 0 [votes], for voters with different weights, whose records have
                different ε. The noise must then be continuous.

        Guarantees:
            For any counts and thresholds, voters that are not private, and neighbours of which one record moves at
            most r votes.

        Raises:
            InvalidInput: a value is out of range.

        >>> from darrm_opt.accounting.total import total_of
        >>> check, label = (VoteRelease(*of).guarantee() for of in (("check", 150), ("label", 40)))
        >>> {name: round(epsilon, 2) for name, epsilon in total_of([(check, 640), (label, 286)], 1e-5).epsilons.items()}
        {'renyi': 2.15, 'gaussian': 2.01}
        """
        if classes is not None:
            whole_number(classes, "classes", "a number of classes, at least 2", least=2)
        affected = whole_number(affected, "affected", "a number of votes, at least 1")
        weight = real_number(weight, "weight", "a number of votes above 0", above=0, below=math.inf)
        release = self
        if weight != 1.0:  # in units of the moved votes, the noise is σ/w and the other counts are real numbers
            if self.noise == "discrete":
                raise InvalidInput("weight", weight, "1 for discrete noise")
            release = VoteRelease(self.kind, down(self.sigma / weight, 2))
        return ReleaseGuarantee(divergence=partial(release.divergence, classes, affected))
