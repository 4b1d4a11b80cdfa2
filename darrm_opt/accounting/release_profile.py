"""One release of a γ: its exact privacy profile, and the proof that it is private for a target.

The privacy profile δ(ε) = max (p − c·q)₊, c = e^ε, is convex and piecewise linear in c: each piece is a vertex (p, q)
of the region of `bits.region`, each kink an edge of it. A few searches find all of it: search at two slopes, then where
the two lines found cross. If nothing lies above the crossing, both are pieces and the crossing is a kink; otherwise
there is a new piece, with a crossing on either side. That takes about two searches per vertex. The lines bound the
region from outside, the pairs found span one inside it, and between neighbouring lines the two differ by a triangle:
the next search goes where that triangle matters most, until none exceeds a tolerance. A designed γ has few vertices;
one with smooth noise has about K.

The result is proved: each δ is an upper bound (`ProfileSearch`), and between the slopes searched the outer region is
used, not the pairs found. Voters that are not private need no search: all pairs are known (`law_pairs`).

`NoisyMajority` is a γ with its voters; `Release` adds the proof that it is private for its target.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from darrm_opt.accounting.bits.region import BitRegion, inner_region, outer_region
from darrm_opt.accounting.composition.optimal import epsilon_at_delta
from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.accounting.guarantee import ReleaseGuarantee, Releases
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.law_pairs import LEAK, BitPairs, LawPairs
from darrm_opt.accounting.pld import Pld, pld_from_profile
from darrm_opt.design.certificate import Certificate, verify
from darrm_opt.design.privacy_profile import MIN_IMPROVEMENT, ProfileSearch
from darrm_opt.design.solution import Solution
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, ArrayLike, NoiseFunction
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy, Problem
from darrm_opt.rounding import ULP, check_arithmetic, up

MAX_LINES = 240  # maximum number of slopes searched; beyond it the region is sound but may exceed the tolerance

TOLERANCE = 3e-4
"""Largest excess of the outer region over the inner one, as a share of p − q at its vertices: the total ε of many
releases exceeds that of the inner region by a smaller share."""

MAX_JOINT_ROUNDS = 8
"""Maximum number of rounds of a joint search, repeated if a pair was found that is worse than those known."""

FLAT_SHARE = 1e-5  # the profile counts as flat below this share of its flat end or of its last vertex

MAX_EPSILON = 30.0
"""Largest ε at which the profile is searched while it still decreases [nats]; beyond, a search finds only rounding."""

FLAT_TOLERANCE = 1e-13
"""Bound on the decrease of the profile beyond `ReleaseProfile.max_loss`, in addition to the share `FLAT_SHARE`
[probability]."""

CELLS = 2000  # number of cells of a PLD up to the target ε, if its length allows

TIP_MARGIN, MAX_TIP_STEPS = 1e-6, 8
"""Smallest relative distance beyond the largest loss of a line that should have a δ of 0, and number of attempts."""

MAX_DEFAULT_CELLS = 1 << 21
"""Number of cells of a composed PLD from which fewer `CELLS` are used: about a second of work."""


@dataclass(frozen=True, eq=False)
class ReleaseProfile:
    """The pairs that one release can show, bounded by lines p ≤ δ + c·q that hold for all neighbouring datasets.

    Attributes:
        epsilons: ln c of the lines [nats], increasing, shape (lines,).
        deltas: δ of the lines, proven [probability], shape (lines,).
        pairs: a pair (Pr[1|D], Pr[1|D′]) on or next to each line, as computed, shape (lines, 2).
        outer: the region inside all lines: contains every pair.
        inner: the region that the pairs span: the optimistic end of a bracket, not a guarantee.
        search: makes the search for further lines, for private voters; None if all pairs are known.
    """

    epsilons: Array
    deltas: Array
    pairs: Array
    outer: BitRegion
    inner: BitRegion
    search: Callable[[], ProfileSearch] | None = None

    def __call__(self, epsilons: ArrayLike) -> Array:
        """Return δ, never below the exact one, at each ε [nats] of either sign, any shape."""
        grid = np.asarray(epsilons, dtype=np.float64)
        p, q = self._vertices
        c = np.exp(np.minimum(grid, MAX_TARGET_EPSILON))[..., np.newaxis]
        # p and c·q are accurate to an ulp or two each, and if δ > 0 neither is above 1.
        deltas = np.max(p - c * q, axis=-1) + 8 * ULP
        return np.asarray(np.clip(deltas, 0.0, 1.0))

    def delta(self, epsilon: float) -> float:
        """Return a δ that holds at ``epsilon`` [nats], of either sign."""
        return float(self(np.array(epsilon)))

    def epsilon(self, delta: float) -> float:
        """Return an ε [nats] at which the release is (ε, δ)-DP for this ``delta`` [probability] in [0, 1).

        Raises:
            DeltaTooSmall: no finite ε is proved at this δ.
        """
        return epsilon_at_delta(self.delta, delta, self.max_loss, LEAK)

    @cached_property
    def _vertices(self) -> tuple[Array, Array]:
        """(p, q) of the outer region's vertices, for both answers."""
        p, p_rest, q, q_rest = self.outer.moves.T
        return np.concatenate((p, p_rest)), np.concatenate((q, q_rest))

    @cached_property
    def max_loss(self) -> float:
        """An ε beyond which the profile is flat up to `FLAT_TOLERANCE` [nats]: the largest finite loss of a vertex."""
        p, q = self._vertices
        # a vertex matters up to where it falls below the flat end, the pair with q = 0.
        flat = float(np.max(p[q == 0.0], initial=0.0))
        is_relevant = p > flat * (1 + FLAT_SHARE) + FLAT_TOLERANCE
        losses = np.log((p[is_relevant] - flat) / q[is_relevant])
        return up(max(0.0, float(np.max(losses, initial=0.0))), 16)

    is_bit = True

    @property
    def region(self) -> BitRegion:
        """The region that contains every pair."""
        return self.outer

    @cached_property
    def _vertices_laws(self) -> LawPairs:
        return _vertex_laws(self.outer)

    @property
    def finite(self) -> bool:
        """Whether each answer is possible on both sides of a vertex or on neither."""
        return self._vertices_laws.finite

    @property
    def affinity(self) -> float:
        """The smallest Σ √(P·Q) of a vertex, for estimates."""
        return self._vertices_laws.affinity

    @cached_property
    def lean(self) -> BitRegion:
        """The region without the tiny pairs of large losses that its lines leave next to (0, 0)."""
        p, q = np.concatenate([self.pairs, 1 - self.pairs[:, ::-1]]).T
        possible = (q > 0) & (p > q)
        if self.search is None or not possible.any():
            return self.outer
        # The profile's last line may be far beyond the largest loss: it meets the previous one in a pair of the size of
        # a rounding, whose loss would be charged as the shift of every release. So another line is proved beyond the
        # largest loss found, until there is no such pair.
        search, loss = self.search(), math.log(float(np.max(p[possible] / q[possible])))
        margin = TIP_MARGIN
        for _ in range(MAX_TIP_STEPS):
            epsilon = min(loss * (1 + margin), MAX_EPSILON)
            delta, P, Q = search.at(epsilon)
            if not delta:
                break
            if P > Q > 0 and math.log(P / Q) > epsilon:
                loss = math.log(P / Q)
            else:  # of the size of a rounding
                margin *= 10
        return outer_region([*_slopes(self.epsilons), *_slopes(np.array([epsilon]))], [*self.deltas, delta])

    @cached_property
    def largest_loss(self) -> float:
        """A bound on ln p/q over the region [nats], rounded up: the maximum is at a vertex."""
        p, p_rest, q, q_rest = self.lean.moves.T
        above, below = np.concatenate([p, p_rest]), np.concatenate([q, q_rest])
        possible = above > 0
        if np.any(below[possible] <= 0):
            return math.inf
        return up(float(np.log(above[possible] / below[possible]).max()), 16)

    @cached_property
    def divergence(self) -> PowerDivergence | None:
        """Bound on the power divergences, which are convex in a pair: those of the vertices of the region."""
        return _vertex_laws(self.lean).divergence

    @property
    def lines(self) -> list[Privacy]:
        """Its lines as (ε, δ), rounded up."""
        return [
            Privacy(float(epsilon), min(float(delta) * (1 + 1e-12), 1 - 1e-9))
            for epsilon, delta in zip(self.epsilons, self.deltas, strict=True)
        ]

    def coarser(self, share: float, spare: float = 0.0) -> BitRegion:
        """Return the region inside fewer lines: larger than ``outer``, so also sound, and with fewer vertices.

        Args:
            share: relative increase of δ allowed at the slope of an omitted line.
            spare: absolute increase allowed there in any case [probability].
        """
        lines = [(math.exp(float(ln)), float(delta)) for ln, delta in zip(self.epsilons, self.deltas, strict=True)]
        indices = list(range(len(lines)))
        while len(indices) > 2:
            rises = [
                _relative_rise(lines[indices[i - 1]], lines[indices[i]], lines[indices[i + 1]], share, spare)
                for i in range(1, len(indices) - 1)
            ]
            least = int(np.argmin(rises))
            if rises[least] > 1:
                break
            del indices[least + 1]
        return outer_region(_slopes(self.epsilons[indices]), self.deltas[indices])

    def pld(self, discretisation: float | None = None, *, count: int = 1) -> Pld:
        """Return the privacy loss distribution of ``count`` releases.

        Args:
            discretisation: h [nats], > 0; by default the largest finite loss over `CELLS`, coarser for very many
                releases.
            count: number of releases, ≥ 1, each chosen freely after the earlier answers.

        Guarantees:
            Its δ, guard included, is sound for every discretisation.

        Raises:
            InvalidInput: a value is out of range.
            TooMuchWork: the distribution would be too long.
        """
        step = self.discretisation(count) if discretisation is None else discretisation
        return pld_from_profile(self, discretisation=step, max_loss=self.max_loss).repeated(count)

    def discretisation(self, count: int) -> float:
        """Return h for ``count`` releases [nats]: a divisor of the largest finite loss, where most mass may be."""
        if self.max_loss < FLAT_TOLERANCE:  # 0, rounded up
            return 1.0
        affordable = MAX_DEFAULT_CELLS // (40 * math.isqrt(max(1, count)))
        return self.max_loss / max(1, min(CELLS, affordable))


def release_profile(
    gamma: ArrayLike | NoiseFunction, problem: Problem, *, tolerance: float = TOLERANCE
) -> ReleaseProfile:
    """Return the privacy of one release with ``gamma`` at every ε.

    Args:
        gamma: γ(0..K), shape (K+1,), symmetric, in [0, 1].
        problem: its voters (K, voter, affected); its target is only the starting point of the search.
        tolerance: largest excess of the outer region over the inner one, as a share of p − q at its vertices.

    Guarantees:
        Sound at every ε, rounding included. Outer and inner region agree to the tolerance, or to rounding, unless that
        takes more than `MAX_LINES` lines; for voters that are not private and K up to that, to rounding.

    Raises:
        InvalidInput: ``gamma`` is not a noise function of K voters.

    Source: `design.privacy_profile`; the search for all its pieces is the "sandwich" of supporting lines.

    >>> from darrm_opt import Problem, solve
    >>> problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
    >>> profile = release_profile(solve(problem).gamma, problem)
    >>> profile.delta(0.3) < 1e-12, round(profile.delta(0.0), 3)
    (True, 0.111)
    """
    check_arithmetic()
    noise = NoiseFunction(gamma, problem.K)
    votes = BitPairs.of_gamma(noise, problem.affected) if problem.voter.epsilon == math.inf else None
    search = votes or ProfileSearch(noise, problem)
    further = None if votes is not None else partial(ProfileSearch, noise, problem)
    start = min(problem.target.epsilon, MAX_EPSILON)
    if isinstance(search, ProfileSearch) and search.jointly:
        points = _joint_search(search, start, tolerance)
    else:
        points = _search_profile(search.at, start, tolerance)
    epsilons = np.array(sorted(points))
    deltas, p, q = np.array([points[float(epsilon)] for epsilon in epsilons]).T
    pairs = np.clip(np.stack([p, q], axis=1), 0.0, 1.0)
    if votes is not None and problem.K <= MAX_LINES:
        return ReleaseProfile(epsilons, deltas, pairs, votes.region, votes.inner)
    outer, inner = outer_region(_slopes(epsilons), deltas), inner_region(pairs)
    return ReleaseProfile(epsilons, deltas, pairs, outer, inner, further)


_ProfilePoint = tuple[float, float, float]
"""(δ, P, Q) at one ε: no pair has a larger P − c·Q than δ, and (P, Q) nearly attains it."""

_ProfilePoints = dict[float, _ProfilePoint]


def _search_profile(point_at: Callable[[float], _ProfilePoint], start: float, tolerance: float) -> _ProfilePoints:
    """Return the profile at as many ε as the tolerance needs, refining the widest gap between the two regions first."""
    points = {epsilon: point_at(epsilon) for epsilon in sorted({0.0, start})}
    # First to its end: then each new line narrows a gap between known ends.
    while (epsilon := _next_epsilon(points)) is not None:
        points[epsilon] = point_at(epsilon)
    gaps = [gap for low, high in pairwise(sorted(points)) if (gap := _gap(points, low, high, tolerance)) is not None]
    heapq.heapify(gaps)
    while gaps and len(points) < MAX_LINES:
        _, low, epsilon, high = heapq.heappop(gaps)
        points[epsilon] = point_at(epsilon)
        for interval in ((low, epsilon), (epsilon, high)):
            if (gap := _gap(points, *interval, tolerance)) is not None:
                heapq.heappush(gaps, gap)
    return points


def _joint_search(search: ProfileSearch, start: float, tolerance: float) -> _ProfilePoints:
    """Return the profile, proved jointly at the ε of a search that assumes that no pair is worse than those known."""
    proved: _ProfilePoints = {}
    for _ in range(MAX_JOINT_ROUNDS):
        wanted = _search_profile(search.known, start, tolerance)
        if not (missing := wanted.keys() - proved.keys()):
            return {epsilon: proved[epsilon] for epsilon in wanted}
        proved |= search.at_each(sorted(missing))
    return proved


def _gap(points: _ProfilePoints, low: float, high: float, tolerance: float) -> tuple[float, float, float, float] | None:
    """Return (−gap, low, ε, high) if the two regions differ too much between neighbouring lines, else None."""
    # ε is where the tangents at the two pairs cross: the inner region ends there, the outer one has the vertex in which
    # the two lines meet, higher by the gap. The gap is relative to the allowed one.
    (delta, p, q), (delta_high, p_high, q_high) = points[low], points[high]
    if not (p > p_high and q > q_high):
        return None
    c = (p - p_high) / (q - q_high)
    c_low, c_high = math.exp(low), math.exp(high)
    if not c_low < c < c_high or (epsilon := math.log(c)) in points:
        return None
    # δ of the outer region is linear in c between lines.
    outer_delta = delta + (delta_high - delta) * (c - c_low) / (c_high - c_low)
    vertex_q = (delta - delta_high) / (c_high - c_low)
    vertex_p = delta + c_low * vertex_q
    # At least twice the tolerance of `design.privacy_profile` at that slope.
    gap = (outer_delta - (p - c * q)) / max(tolerance * (vertex_p - vertex_q), 16 * MIN_IMPROVEMENT * c)
    return (-gap, low, epsilon, high) if gap > 1 else None


_Line = tuple[float, float]  # (slope, δ)


def _relative_rise(previous: _Line, line: _Line, following: _Line, share: float, spare: float) -> float:
    """Return the increase of δ at the slope of ``line`` given only its neighbours, relative to the allowed one."""
    (low, low_delta), (slope, delta), (high, high_delta) = previous, line, following
    chord = low_delta + (high_delta - low_delta) * (slope - low) / (high - low)  # the profile is convex in the slope
    tolerance = max(share * delta, spare)
    return (chord - delta) / tolerance if tolerance > 0 else math.inf


def _vertex_laws(region: BitRegion) -> LawPairs:
    """Return the laws (p, 1−p) and (q, 1−q) at the vertices of a region."""
    moves = region.moves.clip(0.0, 1.0)
    return LawPairs(moves[:, :2], moves[:, 2:])


def _slopes(epsilons: Array) -> list[float]:
    """Return e^ε rounded up: a bound at ε is one at every larger slope."""
    return [up(math.exp(float(epsilon)), 2) for epsilon in epsilons]


def _next_epsilon(points: _ProfilePoints) -> float | None:
    """Return where the line of the last pair reaches 0 if the profile may still decrease there, else None."""
    last = max(points)
    _, p, q = points[last]
    c = math.exp(last)
    if last >= MAX_EPSILON or c * q <= FLAT_SHARE * p or p - c * q <= 16 * MIN_IMPROVEMENT * c:
        return None  # flat from here on, or lost in rounding
    # At least a quarter further, so that the profile ends after a few lines, however slowly it decreases.
    return min(max(math.log(p / q), last + 0.25) + FLAT_SHARE, MAX_EPSILON)


Released = Solution | tuple[ArrayLike | NoiseFunction, Problem]
"""A certified γ, or a γ and a problem for which `verify` proves it."""


@dataclass(frozen=True)
class NoisyMajority:
    """The majority of K votes, released through a γ: what determines the pairs of one bit."""

    noise: NoiseFunction
    problem: Problem

    @property
    def privacy(self) -> Privacy:
        """(ε, δ) of one release: the ε that its profile proves at the target's δ."""
        delta = self.problem.target.delta
        return Privacy(self.profile.epsilon(delta), delta)

    @property
    def guarantee(self) -> ReleaseGuarantee:
        """Guarantee of one release, for every account (`total`)."""
        # At δ = 0 the largest loss is used instead of the profile, whose δ are rounded up.
        searched = (lambda: self.privacy) if self.problem.target.delta else None
        return ReleaseGuarantee(self.privacy if isinstance(self, Release) else searched, lambda: self.profile)

    @cached_property
    def profile(self) -> ReleaseProfile:
        """The release's privacy at every ε."""
        return _profile(self.noise, self.problem)

    def effective(self, queries: int, *, fresh: bool) -> NoisyMajority:
        """Return the release with the voters of `effective_voters`: itself, or with voters taken as not private.

        Args:
            queries: Q ≥ 0 releases in all.
            fresh: whether the voters are fresh (`freshness.FRESH`).
        """
        voters = effective_voters(self.problem, queries, fresh=fresh)
        return self if voters is self.problem else NoisyMajority(self.noise, voters)

    def guarantees(self, releases: int, *, fresh: bool, queries: int | None = None) -> Releases:
        """Return the guarantees of a number of releases.

        Args:
            releases: number of releases.
            fresh: whether the voters are fresh (`freshness.FRESH`).
            queries: releases of these voters in all; None: only these.
        """
        majority = self.effective(releases if queries is None else queries, fresh=fresh)
        if majority is self:
            return [(self.guarantee, releases)]
        K, voter, affected = self.problem.K, self.problem.voter, self.problem.affected
        return [(replace(majority.guarantee, models=(K, ((voter, affected),))), releases)]


@dataclass(frozen=True)
class Release(NoisyMajority):
    """A γ that is proved private for its problem; otherwise construction fails.

    Args:
        noise: γ.
        problem: K voters, their privacy, and the release's (mε, δ).

    Raises:
        NotPrivate: γ is not private for the problem, or cannot be proved to be.
    """

    def __post_init__(self) -> None:
        prove_private(self.noise, self.problem)

    @classmethod
    def of(cls, released: Released | Release) -> Release:
        """Return the release of a solution, or of a γ, once it is proved private for its problem.

        Raises:
            InvalidInput: neither a solution nor (gamma, problem).
            NotPrivate: the γ is not private for that problem.
        """
        if isinstance(released, Release):
            return released
        if isinstance(released, Solution):
            return cls(released.noise, released.problem)
        value: Any = released
        if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Problem)):
            raise InvalidInput("release", value, "a Solution, or a pair (gamma, problem)")
        gamma, problem = value
        return cls(NoiseFunction(gamma, problem.K), problem)

    @property
    def certificate(self) -> Certificate:
        """The certificate proved on construction."""
        return prove_private(self.noise, self.problem)

    @property
    def privacy(self) -> Privacy:
        """(mε, δ) of one release, as proved."""
        return self.problem.target


@lru_cache(maxsize=64)
def prove_private(noise: NoiseFunction, problem: Problem) -> Certificate:
    """Return the certificate of a γ: `verify`, cached by γ and problem because it takes seconds for many voters."""
    return verify(problem, noise)


@lru_cache(maxsize=64)
def _profile(noise: NoiseFunction, problem: Problem) -> ReleaseProfile:
    return release_profile(noise, problem)
