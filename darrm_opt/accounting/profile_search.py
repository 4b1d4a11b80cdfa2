"""One γ's privacy profile asked at one ε after another: every search starts from what the earlier ones found.

`design.profile` answers a list of ε at once. Here the next ε depends on the last answer, so the blossom's layers and the pairs
found are kept in between, beside some that are likely: a pair (p, q) is a line p − c·q under the profile at every c, and what stays below the known lines
is left out by a search. That makes most searches cheap (K = 101: hundredths of a second).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from darrm_opt.design.blossom import stored_layers
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.profile import WORTH
from darrm_opt.design.stages import binding_family
from darrm_opt.design.worst_case import worst_case
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem


class ProfileSearch:
    """The profile of one γ, wherever it is asked.

    Args:
        noise: γ, for the problem's K.
        problem: its voters count (K, voter, affected); its target does not.
    """

    def __init__(self, noise: NoiseFunction, problem: Problem) -> None:
        self._noise, self._base = noise, PrivacyConstraint.of(problem)
        corners = self._base.corners
        self._layers = stored_layers(noise.signed, corners.x, corners.y, self._base.affected)
        likely = self._base.pair(noise.signed, binding_family(self._base))
        self._pairs = np.concatenate([np.zeros((1, 2)), np.stack(likely, axis=1)])  # the first is equal datasets

    def at(self, epsilon: float) -> tuple[float, float, float]:
        """Return (δ, p, q) at ``epsilon`` ≥ 0 [nats].

        δ is proved: the largest p − c·q over all neighbours is not above it, rounding included. (p, q) is the best pair
        known: (0, 0), that of equal datasets, where no pair found attains a δ above 0.

        Source: `design.profile`, at one ε.
        """
        q, less = math.exp(-epsilon), -math.expm1(-epsilon)
        known = float((q * self._pairs[:, 0] - self._pairs[:, 1]).max())  # q·δ
        above = 2 * known + less + WORTH  # the level of φ where δ grows beyond that
        worst = worst_case(self._noise, replace(self._base, q=q, limit=1.0), above=above, stored=self._layers)
        found = [float(side[0]) for side in self._base.pair(self._noise.signed, worst.counts[np.newaxis])]
        self._pairs = np.concatenate([self._pairs, [found]])
        best = self._pairs[(q * self._pairs[:, 0] - self._pairs[:, 1]).argmax()]
        bound = (worst.bound - less) / (2 * q) * (1 + 2.0**-50)
        return min(1.0, max(0.0, bound)), float(best[0]), max(0.0, float(best[1]))
