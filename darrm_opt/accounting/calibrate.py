"""Calibration: the largest parameter, number of releases, or ε of each, whose cost fits a budget.

There is one search for every cost. A sequence of Q releases that is private as a whole stays private if it stops early,
so one number of releases is enough: up to it every release is allowed, and none beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from darrm_opt.accounting.composition.optimal import checked_mechanisms, least_possible_delta, optimal_delta
from darrm_opt.arguments import whole_number
from darrm_opt.decimals import floor_delta, floor_point
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import down
from darrm_opt.search import LEAST, largest_count_between, largest_fitting

T = TypeVar("T")

MAX_STEPS = 60
"""Maximum number of evaluations of a cost in one search; bisection alone would need fewer for every precision used."""

MAX_CHORD_COST = 2.0  # a chord is drawn only to a cost within this multiple of the budget
MIN_CHORD = 0.01  # minimum distance of a chord's point from the ends of its interval, as a share of it
FREE_GROWTH = 1.1  # minimum growth of a value that fits if the error of the guess is unknown

SMOOTH_PROGRESS = 0.1
"""After a step that leaves at most this share of the distance from the budget, the next one uses three points."""

NEAR_STEPS, NEAR = 8, 1e-3
"""Maximum number of evaluations of an estimate (three are usual), and the relative size of the last step."""

MIN_POWER, MAX_POWER = 0.5, 4.0  # accepted powers of the parameter that a cost follows; about 1 is usual
MIN_SHARE = 2.0**-40  # share of the largest value below which a parameter counts as 0: nothing fits


QUOTA_PRECISION = 0.01  # relative precision, from below, of a number of releases; exact by fast accounts
ROOT_STEPS = 8  # number of steps that assume a square root; later ones bisect the interval of logarithms


@dataclass(frozen=True)
class Quota:
    """A proved number of releases.

    Attributes:
        queries: releases that fit.
        account: the account that proves it, or "models" (the models together: the only limit is then the largest number
            searched); "none" if no release fits.
    """

    queries: int
    account: str


def largest_quota(
    spent: Callable[[int], tuple[float, str]], budget: float, most: int, *, guess: int = 1, exact: Collection[str] = ()
) -> Quota:
    """Return the number of releases that fit, at most ``most``; up to `QUOTA_PRECISION` more may fit.

    ``spent``: the ε of a number of releases together [nats], and the account that proves it. ``exact``: fast accounts,
    for which the number is found exactly.

    Guarantees: The number returned was itself evaluated and fits.
    """
    lower, upper, account, steps = 0, most + 1, "none", 0
    while upper - lower > max(1.0, QUOTA_PRECISION * lower):
        steps += 1
        epsilon, name = spent(guess)
        within = epsilon <= budget
        if within:
            lower, account = guess, name
        else:
            upper = guess
        # ε grows about as the square root; aim a little beyond, so that the next step closes in from the other side.
        ratio = min(budget / epsilon, 1e4) if epsilon else 1e4
        aim = guess * ratio**2 * (1 + QUOTA_PRECISION / 2 if within else 1 - QUOTA_PRECISION / 2)
        if steps >= ROOT_STEPS:  # if ε grows differently, as at δ = 0, such steps are too short
            aim = math.sqrt(max(lower, 1) * upper)
        guess = min(max(math.floor(aim), lower + 1), upper - 1)
    if account in exact and upper - lower > 1:
        lower = largest_count_between(lambda count: spent(count)[0] <= budget, lower, upper)
    return Quota(lower, account)


class Calibration(NamedTuple, Generic[T]):
    """A calibrated parameter."""

    value: float  # of the parameter
    cost: float  # of the result, within the budget
    result: T  # the result at this value


def never_stop() -> bool:
    """Return False: a search that nothing stops."""
    return False


def calibrate(
    make: Callable[[float], tuple[T, float]],
    budget: float,
    most: float,
    *,
    guess: float,
    precision: float,
    guess_error: float | None = None,
    estimate: Callable[[float], float | None] | None = None,
    finer: float = 1.0,
    stop: Callable[[], bool] = never_stop,
) -> Calibration[T] | None:
    """Return the largest value found whose cost fits; None if no value above `MIN_SHARE` fits.

    The cost should grow with the value; otherwise the result fits but may not be the largest. The search ends when the
    cost is within ``precision`` of the budget, or the value within it of one that does not fit.

    ``guess_error``: relative error of the guess: steps from it are at least this share, and no larger than the costs
    suggest. None: unknown; steps are long until the result is between two values. ``estimate``: a smooth approximation
    of the cost of a value: the search starts where it meets the budget (`near_value`), from ``guess`` if nowhere, and
    its precision is then refined by the factor ``finer``.

    Guarantees: The value returned was itself evaluated and fits.
    Source: regula falsi between a value that fits and one that does not, with bisection if it is slow.

    >>> calibration = calibrate(lambda x: (str(x), x * x), 9.0, 10.0, guess=1.0, precision=1e-9)
    >>> round(calibration.value, 6), calibration.cost <= 9.0
    (3.0, True)
    """
    lower: Calibration[T] | None = None
    upper: tuple[float, float] | None = None
    third: tuple[float, float] | None = None  # a former end of the interval
    power = None
    if estimate is not None and (near := near_value(estimate, budget, most, guess=guess)) is not None:
        guess, power = near
        precision /= finer
    value, aim, nearest = min(guess, most), budget * (1 - precision / 2), math.inf
    for count in range(MAX_STEPS):
        result, cost = make(value)
        # Only a value that was evaluated and fits is ever returned, so the cost need not be monotone.
        if cost <= budget:
            third = third if lower is None else (lower.value, lower.cost)
            lower = Calibration(value, cost, result)
            if value >= most or cost >= budget * (1 - precision):
                break
        else:
            third = upper or third
            upper = (value, cost)
        if stop():
            break
        if lower is None and value < MIN_SHARE * most:
            break
        if lower is None or upper is None:
            value = min(most, value * _growth(budget if power is None else aim, cost, guess_error, power))
        elif upper[0] - lower.value <= precision * upper[0]:
            break
        else:
            ends = [(lower.value, lower.cost), upper]
            last, nearest = nearest, min(abs(cost / aim - 1) for _, cost in ends)
            if third is not None and nearest <= SMOOTH_PROGRESS * last < math.inf:
                value = _interpolated(ends, third, aim)
            else:
                # a chord may creep along a convex cost: every third step halves the interval instead.
                value = _next_value(lower, upper, aim, halve=count % 3 == 2)
    return lower


def _growth(budget: float, cost: float, guess_error: float | None, power: float | None) -> float:
    """Return the factor for a value while all fit, or none does, from the ratio of budget and cost."""
    if power is not None and 0 < cost < math.inf:
        return max(0.01, min(4.0, _root_of_ratio(budget, cost, power)))
    growth = FREE_GROWTH if guess_error is None else 1 + guess_error
    if cost <= budget:
        margin = 1.05 if guess_error is None else 1.0
        return min(4.0, max(growth, margin * budget / cost)) if cost > 0 else 4.0
    # With a margin, and never 0 for an infinite cost.
    return max(0.01, min(0.5, 0.9 * budget / cost) if guess_error is None else budget / cost / growth)


def _root_of_ratio(budget: float, cost: float, power: float) -> float:
    """Return (budget/cost)^(1/power), for a cost above 0, where neither overflows."""
    return math.exp(min((math.log(budget) - math.log(cost)) / power, 700.0)) if budget else 0.0


def near_value(
    cost: Callable[[float], float | None], budget: float, most: float, *, guess: float
) -> tuple[float, float] | None:
    """Return an estimate of the value whose cost is the budget, and the power of it that costs follow there.

    For a smooth cost, such as an estimate; None if it is not smooth, is unknown, or the value would exceed ``most``.
    """
    before: tuple[float, float] | None = None
    value, power = guess, 1.0
    for _ in range(NEAR_STEPS):
        spent = cost(value)
        if spent is None or not 0 < spent < math.inf:
            return None
        if before is not None:
            # Newton's step in logarithms, where costs are nearly powers; the first one assumes the power 1.
            power = (math.log(spent) - math.log(before[1])) / math.log(value / before[0])
            # an estimate that jumps, or hardly moves, is useless for the cost: the search continues without it.
            if not MIN_POWER < power < MAX_POWER:
                return None
        before = value, spent
        value *= _root_of_ratio(budget, spent, power)
        if not MIN_SHARE * most <= value < most or value == before[0]:
            return None
        if power != 1.0 and abs(value / before[0] - 1) <= NEAR:
            return value, power
    return None


def _next_value(lower: Calibration[T], upper: tuple[float, float], aim: float, *, halve: bool) -> float:
    """Return the point where the chord meets ``aim``, kept away from the ends; or the midpoint."""
    low, high = lower.value, upper[0]
    share = 0.5  # also if the cost jumps, where a chord would hardly leave ``lower``
    if not halve and lower.cost < upper[1] <= MAX_CHORD_COST * aim:
        share = min(1 - MIN_CHORD, max(MIN_CHORD, (aim - lower.cost) / (upper[1] - lower.cost)))
    return low + share * (high - low)


def _interpolated(ends: list[tuple[float, float]], third: tuple[float, float], aim: float) -> float:
    """Return an estimate of where the cost is ``aim``, between the ends, from three points (value, cost)."""
    points = sorted([*ends, third])
    (low, _), (high, _) = ends
    costs = [0.0, *(cost for _, cost in points), math.inf]
    if not all(left < right for left, right in pairwise(costs)):
        return (low + high) / 2
    places, heights = ([math.log(number) for number in column] for column in zip(*points, strict=True))
    # Lagrange's formula for the logarithm of the value as a function of that of the cost.
    at = math.log(aim)
    place = math.exp(
        sum(
            places[i] * math.prod((at - other) / (heights[i] - other) for j, other in enumerate(heights) if j != i)
            for i in range(3)
        )
    )
    return place if low < place < high else (low + high) / 2


def epsilon_each(budget: Privacy, delta: float, k: int) -> float:
    """Return the largest ε that each of k mechanisms may have so that all of them fit in ``budget``.

    Args:
        budget: total (ε, δ), ε finite and > 0.
        delta: failure probability of one mechanism [probability], in [0, 1).
        k: number of mechanisms, ≥ 1.

    Returns:
        ε of one mechanism [nats], rounded down.

    Guarantees:
        `optimal_delta` of the result, k times, at the total ε is within the total δ.

    Raises:
        InvalidInput: a value is out of range.
        DeltaTooSmall: k mechanisms with this δ exceed the total δ for every ε.

    Source: bisection on the exact optimum, which grows with ε.
    """
    total, delta, k = checked_mechanisms(budget.epsilon, delta, k)
    if k == 0:
        raise InvalidInput("k", k, "at least one mechanism")
    if total == 0:
        raise InvalidInput("budget", budget, "a total epsilon above 0")
    floor = least_possible_delta(delta, k)
    if budget.delta < floor:
        raise DeltaTooSmall(budget.delta, floor, f"each of {k} mechanisms may leak with probability {delta!r}")

    def fits(epsilon: float) -> bool:
        return optimal_delta(epsilon, delta, k, total) <= budget.delta

    # Basic composition always fits, and so does about 2δ/k for every ε; from 0 doubling would not progress.
    low, high = down(total / k, 2), max(2 * total / k, budget.delta / k, LEAST)
    while high < math.inf and fits(high):
        low, high = high, 2 * high
    return low if high == math.inf else largest_fitting(fits, low, high)


def release_target(total: Privacy, queries: int) -> Privacy:
    """Return an (ε, δ) of each release with which ``queries`` of them are within a total, by optimal composition.

    Args:
        total: (ε, δ) of all releases.
        queries: Q ≥ 1.

    Returns:
        The total for one release; otherwise half of δ is for the releases, half for their composition. Both numbers are
        on the grid of a `Problem`, rounded down, so that the problem does not change them.

    Raises:
        InvalidInput: a value is out of range.

    >>> target = release_target(Privacy(2.0, 1e-5), 50)
    >>> 0.04 < target.epsilon < 0.1, 50 * target.delta <= 1e-5
    (True, True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries == 1:
        return total
    delta = floor_delta(total.delta / (2 * queries))
    return Privacy(floor_point(epsilon_each(total, delta, queries)), delta)
