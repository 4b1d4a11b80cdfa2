"""All that one release of a γ can show a neighbour, for every ε at once.

The privacy profile δ(ε) = max (p − c·q)₊, c = e^ε, is convex and piecewise linear in c: each piece is a vertex (p, q) of
the region of `bit_region`, each kink an edge of it. So a few searches know all of it: ask at two slopes, then where the
two lines found cross. If nothing lies above the crossing, both are pieces and the crossing is a kink; if something
does, it is a new piece, with a crossing on either side. About two searches a vertex, and a γ has few.

What is returned is proved: each δ asked for is an upper bound (`ProfileSearch`), and between them the region that
these bounds leave is used, not the pairs that were found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from darrm_opt.accounting.bit_region import BitRegion, inner_region, outer_region
from darrm_opt.accounting.loss_distribution import Pld
from darrm_opt.accounting.optimal import epsilon_above_floor
from darrm_opt.design.profile import WORTH, ProfileSearch
from darrm_opt.noise import Array, ArrayLike, NoiseFunction
from darrm_opt.problem import LARGEST_TARGET_EPSILON, Problem
from darrm_opt.rounding import ULP, up

MOST_LINES = 80
"""Most slopes asked: beyond, the region stays a little larger than the exact one, and sound."""

CLOSE = 1e-5
"""A crossing counts as a kink where the profile is above it by less than this share of itself: in the total ε of many
releases that is worth about as little. Or by less than twice what `design.profile` leaves open at that slope."""

FURTHEST = 30.0
"""Largest ε at which the profile is asked while it still falls [nats]: at e^ε beyond, rounding is all that a search
could find."""

SLIVER = 1e-13
"""What still falls beyond `ReleaseProfile.reach` is less than this (or a share of `CLOSE`) [probability]."""

CELLS = 2000
"""Cells of a PLD up to the target ε, where its length allows."""

LONG_PLD = 1 << 21
"""Cells of a composed PLD beyond which fewer `CELLS` are taken [cells]: about a second of work."""


@dataclass(frozen=True, eq=False)
class ReleaseProfile:
    """What one release can show, as lines p ≤ δ + c·q that no pair of neighbouring datasets passes.

    Attributes:
        epsilons: ln c of the lines [nats], increasing, shape (lines,).
        deltas: δ of the lines, proven [probability], shape (lines,).
        pairs: a pair (Pr[1|D], Pr[1|D′]) on or next to each line, as computed, shape (lines, 2).
        outer: the region inside all lines: contains every pair.
        inner: the region that the pairs span: the optimistic end of a bracket, no guarantee.
    """

    epsilons: Array
    deltas: Array
    pairs: Array
    outer: BitRegion
    inner: BitRegion

    def __call__(self, epsilons: ArrayLike) -> Array:
        """Return δ, never below the exact one, at each ε [nats] of either sign, any shape."""
        asked = np.asarray(epsilons, dtype=np.float64)
        p, p_rest, q, q_rest = self.outer.moves.T
        above, below = np.concatenate((p, p_rest)), np.concatenate((q, q_rest))
        c = np.exp(np.minimum(asked, LARGEST_TARGET_EPSILON))[..., np.newaxis]
        # p and c·q are within an ulp or two each, and where δ > 0 neither is above 1.
        deltas = np.max(above - c * below, axis=-1) + 8 * ULP
        return np.asarray(np.clip(deltas, 0.0, 1.0))

    def delta(self, epsilon: float) -> float:
        """Return a δ that holds at ``epsilon`` [nats], of either sign."""
        return float(self(np.array(epsilon)))

    def epsilon(self, delta: float) -> float:
        """Return an ε [nats] at which the release is (ε, δ)-DP for this ``delta`` [probability] in [0, 1).

        Raises:
            BelowLeakFloor: no finite ε is proved at this δ.
        """
        return epsilon_above_floor(self.delta, delta, self.reach, "that much one release may leak, rounding included")

    @cached_property
    def reach(self) -> float:
        """An ε from where on the profile is flat but for `SLIVER` [nats]: the largest finite loss of a vertex."""
        p, p_rest, q, q_rest = self.outer.moves.T
        above, below = np.concatenate((p, p_rest)), np.concatenate((q, q_rest))
        # A vertex matters up to where it falls below the flat end, the pair with q = 0.
        flat = float(np.max(above[below == 0.0], initial=0.0))
        matters = (below > 0) & (above > flat * (1 + CLOSE) + SLIVER)
        losses = np.log((above[matters] - flat) / below[matters])
        return up(max(0.0, float(np.max(losses, initial=0.0))), 16)

    def coarser(self, share: float, spare: float = 0.0) -> BitRegion:
        """Return the region inside fewer lines: larger than ``outer``, so as sound, and with fewer vertices.

        Args:
            share: of itself by which δ may rise at the slope of a line that is left out.
            spare: by which it may rise there in any case [probability].
        """
        lines = [(math.exp(float(ln)), float(delta)) for ln, delta in zip(self.epsilons, self.deltas, strict=True)]
        kept = list(range(len(lines)))
        while len(kept) > 2:
            lost = [
                _lost(lines[kept[i - 1]], lines[kept[i]], lines[kept[i + 1]], share, spare)
                for i in range(1, len(kept) - 1)
            ]
            least = int(np.argmin(lost))
            if lost[least] > 1:
                break
            del kept[least + 1]
        return outer_region(_slopes(self.epsilons[kept]), self.deltas[kept])

    def pld(self, discretisation: float | None = None, *, count: int = 1) -> Pld:
        """Return the privacy loss distribution of ``count`` releases.

        Args:
            discretisation: h [nats], > 0; by default the largest finite loss over `CELLS`, coarser for very many releases.
            count: number of releases, ≥ 1, each chosen freely in view of the earlier answers.

        Guarantees:
            Its δ, guard included, is sound for every discretisation.

        Raises:
            InvalidInput: a number is outside its range.
            TooMuchWork: the distribution would be too long.
            BackendUnavailable: dp_accounting (the extra ``accounting``) is not installed.
        """
        from darrm_opt.accounting.pld import pld_from_profile

        step = self.discretisation(count) if discretisation is None else discretisation
        return pld_from_profile(self, discretisation=step, reach=self.reach).repeated(count)

    def discretisation(self, count: int) -> float:
        """Return h for ``count`` releases [nats]: it divides the largest finite loss, where most of the mass may sit."""
        if self.reach < SLIVER:  # 0, rounded up
            return 1.0
        affordable = LONG_PLD // (40 * math.isqrt(max(1, count)))
        return self.reach / max(1, min(CELLS, affordable))


def release_profile(gamma: ArrayLike | NoiseFunction, problem: Problem) -> ReleaseProfile:
    """Return how private one release with ``gamma`` is at every ε.

    Args:
        gamma: γ(0..K), shape (K+1,), symmetric, in [0, 1].
        problem: its voters count (K, voter, affected); its target only says where to look first.

    Guarantees:
        Sound at every ε, rounding included; above the exact profile by a share of `CLOSE` or by rounding, unless it has
        more pieces and kinks than are asked for (`MOST_LINES`).

    Raises:
        InvalidInput: a γ that is none.

    Source: the profile is ours (see `design.profile`); the search for all its pieces is the "sandwich" of supporting lines.

    >>> from darrm_opt import Problem, solve
    >>> problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
    >>> profile = release_profile(solve(problem).gamma, problem)
    >>> profile.delta(0.3) < 1e-12, round(profile.delta(0.0), 3)
    (True, 0.111)
    """
    noise = NoiseFunction(gamma, problem.K)
    search = ProfileSearch(noise, problem)
    known = {epsilon: search.at(epsilon) for epsilon in sorted({0.0, min(problem.target.epsilon, FURTHEST)})}
    while (end := _further(known)) is not None:
        known[end] = search.at(end)
    settled: set[tuple[float, float]] = set()
    while len(known) < MOST_LINES and (crossings := _crossings(known, settled)):
        for epsilon in sorted(crossings)[: MOST_LINES - len(known)]:
            low, high = crossings[epsilon]
            known[epsilon] = search.at(epsilon)
            if _is_kink(known, epsilon, low, high):
                settled |= {(low, epsilon), (epsilon, high)}
    epsilons = np.array(sorted(known))
    deltas, p, q = np.array([known[float(epsilon)] for epsilon in epsilons]).T
    pairs = np.clip(np.stack([p, q], axis=1), 0.0, 1.0)
    return ReleaseProfile(epsilons, deltas, pairs, outer_region(_slopes(epsilons), deltas), inner_region(pairs))


_Line = tuple[float, float]
"""(slope, δ)."""


def _lost(before: _Line, line: _Line, after: _Line, share: float, spare: float) -> float:
    """Return by how much δ rises at the slope of ``line`` where only its neighbours are known, over what it may."""
    (low, low_delta), (slope, delta), (high, high_delta) = before, line, after
    between = low_delta + (high_delta - low_delta) * (slope - low) / (high - low)  # the profile is convex in the slope
    allowed = max(share * delta, spare)
    return (between - delta) / allowed if allowed > 0 else math.inf


def _slopes(epsilons: Array) -> list[float]:
    """Return e^ε rounded up: a bound at ε is one at every larger slope."""
    return [up(math.exp(float(epsilon)), 2) for epsilon in epsilons]


_Known = Mapping[float, tuple[float, float, float]]


def _further(known: _Known) -> float | None:
    """Return where the line of the last pair reaches 0 if the profile may still fall there, else None."""
    last = max(known)
    _, p, q = known[last]
    c = math.exp(last)
    if last >= FURTHEST or c * q <= CLOSE * p or p - c * q <= 16 * WORTH * c:
        return None  # flat from here on, or lost in rounding
    return min(max(math.log(p / q), last + 0.25) + CLOSE, FURTHEST)


def _crossings(known: _Known, settled: set[tuple[float, float]]) -> dict[float, tuple[float, float]]:
    """Return where neighbouring lines cross, each with the two between which it lies."""
    found = {}
    for low, high in pairwise(sorted(known)):
        if (low, high) in settled:
            continue
        _, p_low, q_low = known[low]
        _, p_high, q_high = known[high]
        if p_low > p_high and q_low > q_high:
            epsilon = math.log((p_low - p_high) / (q_low - q_high))
            if low < epsilon < high and epsilon not in known:
                found[epsilon] = (low, high)
                continue
        settled.add((low, high))
    return found


def _is_kink(known: _Known, epsilon: float, low: float, high: float) -> bool:
    """Whether nothing lies above the crossing of the lines found at ``low`` and ``high``."""
    delta, _, _ = known[epsilon]
    c = math.exp(epsilon)
    there = max(known[end][1] - c * known[end][2] for end in (low, high))
    return delta - there <= max(CLOSE * max(there, 0.0), 16 * WORTH * c)
