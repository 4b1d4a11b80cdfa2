"""Privacy profile of one release: the smallest δ at every ε.

With P = Pr[1 | D] and Q = Pr[1 | D′] over all admissible pairs of datasets,

    δ(ε) = max (P − c·Q, 0) = max over corners of ½·(H(p) + c·H(1−p′) − (c − 1)),   c = e^ε:

the worst-case search of the design at another c. Negative ε need no search: exchanging D and D′ in the answer 0 gives
δ(−ε) = 1 − e^(−ε) + e^(−ε)·δ(ε).

A maximiser (P, Q) at one ε is a line P − c·Q below δ at every other ε. So each search starts from the maximisers of the
others and from likely pairs, and skips what stays below the known lines (`ProfileSearch`). That makes most searches
cheap, and all of them share the blossom's layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.kernel.library import kernel
from darrm_opt.design.polar_form import stored_layers
from darrm_opt.design.profile_vertices import ProfileVertices
from darrm_opt.design.schedule import binding_family
from darrm_opt.design.separation.arcs import search_jointly
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, ArrayLike, NoiseFunction
from darrm_opt.problem import MAX_TARGET_EPSILON, Problem

MIN_IMPROVEMENT = 2.0**-42
"""Amount by which a pair of datasets must beat the known ones to justify a search (2e-13); below it, bounds suffice."""


@dataclass(frozen=True)
class PrivacyProfile:
    """δ of one release on a grid of ε.

    Attributes:
        epsilons: ε′ [nats], shape (many,).
        deltas: proven upper bound on δ(ε′) [probability], shape (many,).
        attained: δ attained by some pair of datasets, as computed (no proof): ``deltas`` minus it is the looseness.
        pairs: (Pr[1|D], Pr[1|D′]) of that pair, shape (many, 2).
    """

    epsilons: Array
    deltas: Array
    attained: Array
    pairs: Array


def privacy_profile(
    gamma: ArrayLike | NoiseFunction, problem: Problem, epsilons: Sequence[float] | Array
) -> PrivacyProfile:
    """Return the privacy profile of one release with ``gamma``: the smallest δ at each ε.

    Args:
        gamma: γ(0..K), shape (K+1,), symmetric, in [0, 1].
        problem: its voters (K, voter, affected) are used; its target is not.
        epsilons: ε of the profile's points [nats], any sign, |ε| ≤ 500, shape (many,).

    Returns:
        The profile, in the given order.

    Guarantees:
        ``deltas`` is never below the true δ: the release is (ε′, δ)-DP at every point returned, rounding included
        (also at the double nearest e^ε′), for every problem that rounds to ``problem``.

    Raises:
        InvalidInput: an invalid γ, or an ε that is not a number or too large.

    Source: design of the worst case (Lemma 3.4 of the paper at another c); the profile is ours.

    >>> from darrm_opt import Problem, solve
    >>> problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
    >>> profile = privacy_profile(solve(problem).gamma, problem, [0.0, 0.3])
    >>> bool(profile.deltas[0] > 0.05), bool(profile.deltas[1] < 1e-12)
    (True, True)
    """
    noise = NoiseFunction(gamma, problem.K)
    grid = np.asarray(epsilons, dtype=np.float64)
    outside = np.flatnonzero(~(np.abs(grid) <= MAX_TARGET_EPSILON))
    if grid.ndim != 1 or outside.size:
        value = grid.tolist() if grid.ndim != 1 else float(grid[outside[0]])
        raise InvalidInput("epsilons", value, f"a flat list of numbers of nats within ±{MAX_TARGET_EPSILON:g}")
    search = ProfileSearch(noise, problem)
    by_epsilon = {float(epsilon): search.at(float(epsilon)) for epsilon in _ends_first(np.unique(np.abs(grid)))}
    points = [_point_at(float(epsilon), *by_epsilon[float(abs(epsilon))]) for epsilon in grid]
    deltas, attained, P_all, Q_all = np.array(points).reshape(-1, 4).T
    return PrivacyProfile(grid, deltas, attained, np.stack([P_all, Q_all], axis=1))


class ProfileSearch:
    """Profile of one γ, queried at one ε after another, where the next may depend on the last answer."""

    def __init__(self, noise: NoiseFunction, problem: Problem) -> None:
        self._noise, self._base = noise, PrivacyConstraint.of(problem.each_target[0])
        corners = self._base.corners
        # the compiled search recomputes a layer faster than memory can be read
        layers = stored_layers if kernel() is None else None
        self._layers = layers and layers(noise.signed, corners.x, corners.y, self._base.affected)
        family_pairs = self._base.pair(noise.signed, binding_family(self._base))
        self._pairs = np.concatenate([np.zeros((1, 2)), np.stack(family_pairs, axis=1)])  # the first is equal datasets

    def at(self, epsilon: float) -> tuple[float, float, float]:
        """Return (δ, P, Q) at ``epsilon`` ≥ 0 [nats].

        δ is proved: no pair of neighbours has a larger P − c·Q, rounding included. (P, Q) is the best known pair, or
        (0, 0) of equal datasets if no pair found attains a δ above 0.
        """
        q, gap = math.exp(-epsilon), -math.expm1(-epsilon)
        best_known = float((q * self._pairs[:, 0] - self._pairs[:, 1]).max())  # q·δ
        above = 2 * best_known + gap + MIN_IMPROVEMENT  # the φ at which δ exceeds that
        worst = worst_case(self._noise, self._base._replace(q=q, limit=1.0), above=above, stored=self._layers)
        pair = [float(side[0]) for side in self._base.pair(self._noise.signed, worst.counts[np.newaxis])]
        self._pairs = np.concatenate([self._pairs, [pair]])
        best = self._pairs[(q * self._pairs[:, 0] - self._pairs[:, 1]).argmax()]
        bound = (worst.bound - gap * (1 - 2.0**-50)) / (2 * q) * (1 + 2.0**-50)  # 1 − q rounded down
        return min(1.0, max(0.0, bound)), float(best[0]), max(0.0, float(best[1]))

    @property
    def jointly(self) -> bool:
        """Whether `at_each` is available: for voters with a privacy profile, with the kernel."""
        return isinstance(self._base.corners, ProfileVertices) and kernel() is not None

    def known(self, epsilon: float) -> tuple[float, float, float]:
        """Return (δ, P, Q) at ``epsilon`` ≥ 0 [nats] from the best known pair: no proof, no search."""
        c = math.exp(epsilon)
        P, Q = self._pairs[(self._pairs[:, 0] - c * self._pairs[:, 1]).argmax()].tolist()
        return max(0.0, P - c * Q), P, Q

    def at_each(self, epsilons: Sequence[float]) -> dict[float, tuple[float, float, float]]:
        """Return the results of `at` at several ε ≥ 0 [nats], by searches that share most of their work."""
        grid = np.array(sorted(epsilons))
        q, gap = np.exp(-grid), -np.expm1(-grid)
        best_known = (np.outer(q, self._pairs[:, 0]) - self._pairs[:, 1]).max(axis=1)
        above = 2 * best_known + gap + MIN_IMPROVEMENT
        bounds, counts = search_jointly(self._noise, self._base, q, above)
        # pairs no better than known would differ only by rounding
        if (better := counts[counts.any(axis=1)]).size:
            pairs = np.stack(self._base.pair(self._noise.signed, better), axis=1)
            self._pairs = np.concatenate([self._pairs, pairs])
        deltas = (bounds - gap * (1 - 2.0**-50)) / (2 * q) * (1 + 2.0**-50)
        points = {}
        for epsilon, delta in zip(grid.tolist(), deltas.tolist(), strict=True):
            _, P, Q = self.known(epsilon)
            points[epsilon] = min(1.0, max(0.0, delta)), P, max(0.0, Q)
        return points


def _ends_first(values: Array) -> Array:
    """Return sorted values in an order that halves the gaps, so that each new one lies between two known ones."""
    order, gaps = [0, values.size - 1], [(0, values.size - 1)]
    for low, high in gaps:  # grows during iteration
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return np.asarray(values[np.array(order[: values.size], dtype=np.int64)])


def _point_at(epsilon: float, delta: float, P: float, Q: float) -> tuple[float, ...]:
    """Return (δ, δ attained, P, Q) at ε of either sign from (δ, P, Q) at |ε|."""
    attained = max(0.0, P - math.exp(abs(epsilon)) * Q)
    if epsilon >= 0:
        return delta, attained, P, Q
    c, gap = math.exp(epsilon), -math.expm1(epsilon)
    return min(1.0, (gap + c * delta) * (1 + 2.0**-50)), gap + c * attained, 1.0 - Q, 1.0 - P
