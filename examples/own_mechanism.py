"""A mechanism of your own, in one file: total, calibration, release, audit.

The vote of a random voter is released with probability `share`, else a uniform class. With n of K votes a class is
released with probability share·n/K + (1 − share)/C. A record that moves `affected` votes to a class without votes
raises its probability from (1 − share)/C by share·affected/K, so the privacy loss is at most

    ln(1 + share·affected·C / (K·(1 − share))).

The author is responsible for that proof: accounts compose the claims `bounds` and `class_chances`, and an audit may
refute them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt import Privacy, PrivateVote
from darrm_opt.accounting.guarantee import ReleaseGuarantee
from darrm_opt.audit import Claim, audit
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.base import checked_counts, checked_parameter, checked_shape
from darrm_opt.randomness import RandomSource
from darrm_opt.rounding import float_above, log_above

Array = NDArray[np.float64]


class RandomVoter(VoteMechanism):
    """The vote of a random voter with probability ``share``, else a class drawn uniformly."""

    name, kind, parameter, limits = "random_voter", "random voter", "share", (0.0, 0.999)
    meaning = "Probability that the vote of a random voter is released"
    advice = "Release the vote of a random voter"

    def __init__(self, K: int, classes: int, share: float, *, affected: int = 1) -> None:
        self.K, self.classes, self.affected = checked_shape(K, classes, affected)
        self.share = checked_parameter(share, "share", self.limits, "a probability above 0, at most 0.999")

    @property
    def description(self) -> str:
        """A few words."""
        return f"the vote of a random voter with probability {self.share:g}"

    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Draw the class that is released, by exact coins."""
        counts = tuple(checked_counts(counts, self.classes, self.K))  # of fewer votes, none may be the one drawn
        if source.chance(Fraction(self.share)):
            return int(np.searchsorted(np.cumsum(counts), source.below(self.K), side="right"))
        return int(source.below(self.classes))

    def bounds(self, releases: int) -> Sequence[tuple[ReleaseGuarantee, int]]:
        """Return what is proved of one release: ε, rounded up."""
        share = Fraction(self.share)
        ratio = 1 + share * self.affected * self.classes / (self.K * (1 - share))
        return [(ReleaseGuarantee(Privacy(float_above(log_above(ratio)))), releases)]

    def class_chances(self, counts: NDArray[Any]) -> Array:
        """Return the law of `draw` at decreasing counts, shape (N, C): a claim, used by totals of sampled records."""
        return np.asarray(self.share * counts / self.K + (1 - self.share) / self.classes)

    def leader_chances(self, counts: NDArray[Any]) -> Array:
        """Return Pr[a class with most votes is released], for comparisons."""
        leaders = np.count_nonzero(counts == counts[:, :1], axis=1)
        return np.asarray(leaders * self.class_chances(counts)[:, 0])


def main() -> None:
    """Calibrate it to a total, compare it, release a class, and audit a true and a false claim."""
    voters, classes, queries, total = 25, 3, 20, Privacy(2.0, 1e-5)
    mechanism = RandomVoter.calibrated(voters, classes, total, queries)
    one = mechanism.epsilon(1, 0.0)
    print(f"share = {mechanism.share:.3f}: one release is {one:.3f}-DP")
    cost = mechanism.cost(queries, total.delta)
    print(f"{queries} releases: epsilon = {cost.epsilon:.3f}, by the account {cost.account!r}")
    print(f"at most {mechanism.most_releases(total).queries} releases fit")

    counts = np.array([[20, 4, 1]])
    flip = mechanism_class("permute_and_flip").calibrated(voters, classes, total, queries)
    for each in (mechanism, flip):
        print(f"{each.name:17s} right with probability {each.leader_chances(counts)[0]:.3f}")

    votes = [0] * 20 + [1] * 4 + [2]
    print(f"released: class {PrivateVote(mechanism).release(votes)}")

    for epsilon in (one, 0.9 * one):
        found = audit(mechanism, Claim(Privacy(epsilon), voters, classes))
        print(f"the claim {epsilon:.3f}-DP: {found.verdict}")


if __name__ == "__main__":
    main()
