"""Voters with a privacy profile: several points (ε, δ) that hold at once, for one voter.

A voter answers 1 with probability p on a dataset and p′ on its neighbour. A voter that is (ε_i, δ_i)-DP for each i has
its pair (p′, p) in the polygon F = ∩ F(ε_i, δ_i), where F(ε, δ) = {p ≤ e^ε p′ + δ, p′ ≤ e^ε p + δ,
1−p ≤ e^ε(1−p′) + δ, 1−p′ ≤ e^ε(1−p) + δ} ∩ [0,1]². F contains the mechanism's true region whichever points are left
out, so a proof for F is a proof for the voter.

The upper boundary of F runs from (0, 0) to (1, 1) and is concave. Its edges, in order, are a pair of laws (P, Q) with
finitely many outcomes in the order of their likelihood ratio: outcome j has the probabilities
(p_{j+1} − p_j, p′_{j+1} − p′_j) of the j-th edge. Every pair of laws of the voter is a post-processing of (P, Q) and of
(Q, P) (Blackwell 1953; Kairouz, Oh, Viswanath 2015 for one point).

F is symmetric about the line p + p′ = 1, where the lines p = e^{ε_i} p′ + δ_i and their mirror images meet. One half of
the boundary is therefore the lower envelope of these lines and of p = 1 − p′.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from darrm_opt.arguments import real_number
from darrm_opt.decimals import EPSILON_NOISE, MAX_DELTA, UP, delta_noise, delta_step, grid_delta, grid_point, number_in
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import EXPONENT_BITS, exp_bounds

if TYPE_CHECKING:
    from fractions import Fraction

MAX_POINTS = 15
"""Maximum number of points that bound a profile's region. Each adds four vertices; more than ten changed no observed
utility by 0.005."""

MAX_SLOPE_EPSILON = 1000.0
"""Largest ε whose e^ε is computed: for a larger one p′ is below all doubles, and e^ε takes minutes."""

MAX_STATED_POINTS = 10_000
"""Maximum number of stated points, as in a file; only those that bound the region count for `MAX_POINTS`."""

MIN_BINDING = 8
"""Distance by which a point must bound the region to be kept, in units of the lines' rounding error, so that the
strictest and the loosest reading of a problem have the same vertices."""

_POINTS = "points (epsilon, delta), each with epsilon ≥ 0 [nats] and delta in [0, 1]"


@dataclass(frozen=True, init=False)
class PrivacyProfile(Privacy):
    """Several points (ε, δ) of one voter's privacy, which all hold in both directions.

    As a `Privacy` it is its last point: ``epsilon`` and ``delta`` are the largest ε and the least δ.

    Args:
        points: pairs (ε, δ), ε ≥ 0 [nats], δ in [0, 1] [probability]; a `Privacy` is one pair.

    Guarantees:
        Frozen; equal and equally hashed when the points that bound the region agree up to floating-point noise.
        ``points`` increase in ε and lie on the decimal grid, each moved to the weaker guarantee; points that do not
        bound the region are dropped.

    Raises:
        InvalidInput: no points, a number outside its range, more than `MAX_STATED_POINTS` points, or more than
            `MAX_POINTS` that bound the region.

    Source: ours; docs, "Privacy profiles".

    >>> PrivacyProfile([(0.1, 1e-5), (0, 0.013)]).points
    ((0.0, 0.013), (0.1, 1e-05))
    """

    points: tuple[tuple[float, float], ...] = ()

    def __init__(self, points: Iterable[Sequence[float]] | Privacy) -> None:
        _set_points(self, _canonical(points))

    def with_points(self, points: Iterable[tuple[float, float]]) -> PrivacyProfile:
        """Return the profile of these points, taken as they are (off the grid)."""
        copy: PrivacyProfile = object.__new__(PrivacyProfile)
        _set_points(copy, tuple(points))
        return copy

    def half_chain(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """Return the vertices (p′, p) of the upper boundary with p + p′ ≤ 1, exact, from p′ = 0 on.

        e^ε is rounded up, by less than 2^−80, so that the region contains F.
        """
        return _half_chain(self.points)

    def chain(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """Return the vertices (p′, p) of the upper boundary from (0, 0) to (1, 1), exact and symmetric."""
        from fractions import Fraction

        half = [(Fraction(0), Fraction(0)), *self.half_chain()]
        if half[0] == half[1]:
            half = half[1:]
        mirrored = [(1 - p, 1 - p_prime) for p_prime, p in reversed(half)]
        return (*half, *(mirrored[1:] if mirrored[0] == half[-1] else mirrored))

    def outcomes(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """Return the voter's pair of laws (P, Q): (P_j, Q_j) of each outcome, exact, by decreasing P_j/Q_j.

        Guarantees:
            Each law sums to 1; reversing and exchanging the pair gives itself. Every pair of laws that satisfies the
            points is a post-processing of it.
        """
        return tuple((b[1] - a[1], b[0] - a[0]) for a, b in pairwise(self.chain()))


def profile_of(voter: Privacy) -> PrivacyProfile:
    """Return a voter's privacy as a profile."""
    return voter if isinstance(voter, PrivacyProfile) else PrivacyProfile(voter)


def parse_points(text: str) -> list[list[float]]:
    """Return the pairs (ε, δ) in a text with ε:δ for each, separated by commas.

    >>> parse_points("0:0.013,0.1:1e-5")
    [[0, 0.013], [0.1, 1e-05]]
    """
    accepted = "points such as 0:0.013,0.1:1e-5, each an epsilon and a delta"
    points = [[number_in(part.strip()) for part in point.split(":")] for point in text.split(",")]
    numbers = [[number for number in point if number is not None] for point in points]
    if {len(point) for point in points} | {len(point) for point in numbers} != {2}:
        raise InvalidInput("profile", text, accepted)
    return numbers


def _set_points(profile: PrivacyProfile, points: tuple[tuple[float, float], ...]) -> None:
    object.__setattr__(profile, "points", points)
    object.__setattr__(profile, "epsilon", points[-1][0])
    object.__setattr__(profile, "delta", points[-1][1])


def _canonical(points: Any) -> tuple[tuple[float, float], ...]:
    """Return the points that bound the region, on the grid, by increasing ε."""
    least: dict[float, float] = {}
    for epsilon, delta in _stated(points):
        least[epsilon] = min(delta, least.get(epsilon, 1.0))
    if not any(delta < 1 and epsilon < math.inf for epsilon, delta in least.items()):
        return ((math.inf, 0.0),)  # not private
    stated = sorted((e, d) for e, d in least.items() if d < 1 and e < math.inf)
    kept = _envelope([point for point in stated if point[0] <= MAX_SLOPE_EPSILON] or stated[:1])
    if len(kept) > MAX_POINTS:
        advice = "State fewer points: any subset is a valid, weaker guarantee."
        raise InvalidInput("points", len(kept), f"at most {MAX_POINTS} points that bound the region", advice)
    return kept


def _stated(points: Any) -> Iterable[tuple[float, float]]:
    """Yield the stated points, moved to the grid."""
    if isinstance(points, Privacy):
        points = points.points
    if isinstance(points, str) or not isinstance(points, Iterable):
        raise InvalidInput("points", points, _POINTS)
    count = 0
    for point in points:
        count += 1
        if count > MAX_STATED_POINTS:
            raise InvalidInput("points", f"more than {MAX_STATED_POINTS}", f"at most {MAX_STATED_POINTS} points")
        try:
            epsilon, delta = (point.epsilon, point.delta) if isinstance(point, Privacy) else point
        except (TypeError, ValueError) as err:
            raise InvalidInput("points", point, _POINTS) from err
        epsilon = real_number(epsilon, "epsilon", "a number of nats, at least 0 (inf: not private)", least=0) + 0.0
        delta = real_number(delta, "delta", "a probability in [0, 1]", least=0, most=1) + 0.0
        if delta == 1 or epsilon == math.inf:
            yield epsilon, delta  # no constraint
            continue
        epsilon, delta = grid_point(epsilon, UP), min(grid_delta(delta, UP), MAX_DELTA)
        if epsilon == 0 and delta == 0:
            advice = "A voter with epsilon = 0 and delta = 0 does not depend on the data: release the plain majority."
            raise InvalidInput("points", point, "delta above 0 at epsilon = 0", advice)
        yield epsilon, delta
    if not count:
        raise InvalidInput("points", (), "at least one point (epsilon, delta)")


def _slope(epsilon: float) -> Fraction:
    """Return e^ε as a fraction, above it by less than 2^−80; ε is capped at `MAX_SLOPE_EPSILON`."""
    from fractions import Fraction

    return Fraction(exp_bounds(min(epsilon, MAX_SLOPE_EPSILON))[1], 1 << EXPONENT_BITS)


def _envelope(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the points whose lines bound the region by more than rounding may move them."""
    from fractions import Fraction

    # from the steepest line, at p′ = 0, to the last one, p = 1 − p′
    kept: list[tuple[float, float, Fraction, Fraction]] = []
    for epsilon, delta in reversed(points):
        line = (epsilon, delta, _slope(epsilon), Fraction(delta))
        while kept and not _bounds(kept, line):
            kept.pop()
        kept.append(line)
    antidiagonal = (0.0, 0.0, Fraction(-1), Fraction(1))
    while len(kept) > 1 and not _bounds(kept, antidiagonal):
        kept.pop()
    return tuple((epsilon, delta) for epsilon, delta, _, _ in reversed(kept))


def _bounds(kept: list[Any], line: Any) -> bool:
    """Return whether the last line bounds the envelope between its predecessor and a flatter line."""
    _, _, slope, height = line
    epsilon, delta, last_slope, last_height = kept[-1]
    if len(kept) == 1:  # its predecessor is p′ = 0, where the lower line bounds
        return bool(last_height < height)
    _, _, first_slope, first_height = kept[-2]
    p_prime = (height - first_height) / (first_slope - slope)
    p = first_height + first_slope * p_prime
    noise = p * (4 * (epsilon + 1) * 1e-12) + 4 * (delta_noise(delta) + delta_step(delta)) + 4 * EPSILON_NOISE
    return bool(last_height + last_slope * p_prime < p - MIN_BINDING * type(p)(noise))


@lru_cache(maxsize=256)
def _half_chain(points: tuple[tuple[float, float], ...]) -> tuple[tuple[Fraction, Fraction], ...]:
    from fractions import Fraction

    # without its steepest lines the region is larger
    kept = [point for point in reversed(points) if point[0] <= MAX_SLOPE_EPSILON]
    lines = [(_slope(epsilon), Fraction(delta)) for epsilon, delta in kept]
    if not lines:  # not private
        return ((Fraction(0), Fraction(1)),)
    chain = [(Fraction(0), lines[0][1])]
    for (slope, height), (next_slope, next_height) in zip(
        lines, [*lines[1:], (Fraction(-1), Fraction(1))], strict=True
    ):
        p_prime = (next_height - height) / (slope - next_slope)
        chain.append((p_prime, height + slope * p_prime))
    return tuple(chain[:-1] if lines[-1][0] == 1 else chain)  # a line of slope 1 is its own mirror image
