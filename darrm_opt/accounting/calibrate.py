"""Calibration: the largest parameter, number of releases, or ε of each, whose cost fits a budget.

One search for every cost. A sequence of Q releases that is private as a whole stays private if it stops early, for
whatever reason, so one number decides: up to it every release is allowed, and none beyond.
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
"""Evaluations of a cost in one search; bisection alone would need fewer for every precision in use."""

MAX_CHORD_COST = 2.0
"""A chord is drawn only to a cost within this multiple of the budget."""

MIN_CHORD = 0.01
"""Share of an interval that a chord's point is from its ends at least."""

FREE_GROWTH = 1.1
"""Least growth of a value that fits, where nothing is known of the guess."""

SMOOTH_PROGRESS = 0.1
"""A step that leaves at most this share of the distance from the budget is followed by one through three points."""

NEAR_STEPS, NEAR = 8, 1e-3
"""Most evaluations of an estimate, three are usual; and the last step, as a share: its error is far smaller."""

MIN_POWER, MAX_POWER = 0.5, 4.0
"""Powers of the parameter that a cost may follow; about 1 is usual."""

MIN_SHARE = 2.0**-40
"""A parameter below this share of its largest value counts as 0: nothing fits."""


QUOTA_PRECISION = 0.01
"""A number of releases is found to this share of itself, from below, and exactly by accounts that take no time."""

ROOT_STEPS = 8
"""Numbers of releases that are tried by the square root; then each halves the interval of their logarithms."""


@dataclass(frozen=True)
class Quota:
    """A proved number of releases.

    Attributes:
        queries: releases that fit.
        account: what proves it: an account, or "models" (the models together: then the only limit is the largest number
            of releases that is looked for); "none" where none fits.
    """

    queries: int
    account: str


def largest_quota(
    spent: Callable[[int], tuple[float, str]], budget: float, most: int, *, guess: int = 1, exact: Collection[str] = ()
) -> Quota:
    """Return how many releases fit, up to ``most``: up to `QUOTA_PRECISION` more may.

    ``spent``: the ε of a number of releases together [nats], and the account that proves it. ``exact``: accounts by
    which the number is found exactly, as they take next to no time.

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
        # ε grows about with the square root; aim a little beyond, so that the next one closes in from the other side.
        ratio = min(budget / epsilon, 1e4) if epsilon else 1e4
        aim = guess * ratio**2 * (1 + QUOTA_PRECISION / 2 if within else 1 - QUOTA_PRECISION / 2)
        if steps >= ROOT_STEPS:  # where ε grows otherwise, such as δ = 0, those steps hardly leave an end
            aim = math.sqrt(max(lower, 1) * upper)
        guess = min(max(math.floor(aim), lower + 1), upper - 1)
    if account in exact and upper - lower > 1:
        lower = largest_count_between(lambda count: spent(count)[0] <= budget, lower, upper)
    return Quota(lower, account)


class Calibration(NamedTuple, Generic[T]):
    """A calibrated parameter."""

    value: float  # of the parameter
    cost: float  # of the result, within the budget
    result: T  # what the parameter gives


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
    power: float | None = None,
    stop: Callable[[], bool] = never_stop,
) -> Calibration[T] | None:
    """Return the largest value found whose cost fits; None if none above `MIN_SHARE` does.

    The cost grows with the value (where it does not, the answer fits and may not be the largest). The search ends where
    the cost is within ``precision`` of the budget, or the value within it of one that does not fit.

    ``guess_error``: share by which the guess may be off: steps from it are no larger than the costs say, and no smaller
    than this share. None: nothing is known of the guess, and steps are long until the result is between two values.
    ``power``: the cost is about proportional to this power of the value, near the guess: steps are as it says.

    Guarantees: The value returned was itself evaluated and fits.
    Source: regula falsi between a value that fits and one that does not, by bisection where that is slow.

    >>> calibration = calibrate(lambda x: (str(x), x * x), 9.0, 10.0, guess=1.0, precision=1e-9)
    >>> round(calibration.value, 6), calibration.cost <= 9.0
    (3.0, True)
    """
    lower: Calibration[T] | None = None
    upper: tuple[float, float] | None = None
    third: tuple[float, float] | None = None  # an end of the interval whose place another value took
    value, aim, nearest = min(guess, most), budget * (1 - precision / 2), math.inf
    for count in range(MAX_STEPS):
        result, cost = make(value)
        # Only a value that was evaluated and fits is ever returned, so nothing rests on the cost being monotone.
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
                # A chord may creep along a convex cost: every third step halves the interval instead.
                value = _next_value(lower, upper, aim, halve=count % 3 == 2)
    return lower


def _growth(budget: float, cost: float, guess_error: float | None, power: float | None) -> float:
    """Return by how much to change a value while all fit, or none does, by the ratio of budget and cost."""
    if power is not None and 0 < cost < math.inf:
        return max(0.01, min(4.0, math.pow(budget / cost, 1 / power)))
    growth = FREE_GROWTH if guess_error is None else 1 + guess_error
    if cost <= budget:
        margin = 1.05 if guess_error is None else 1.0
        return min(4.0, max(growth, margin * budget / cost)) if cost > 0 else 4.0
    # With a margin, and not to 0 where the cost is infinite.
    return max(0.01, min(0.5, 0.9 * budget / cost) if guess_error is None else budget / cost / growth)


def near_value(
    cost: Callable[[float], float | None], budget: float, most: float, *, guess: float
) -> tuple[float, float] | None:
    """Return about the value whose cost is the budget, and the power of it that costs follow there.

    For a smooth cost, such as an estimate; None where it is not, where no cost is known, or beyond ``most``.
    """
    before: tuple[float, float] | None = None
    value, power = guess, 1.0
    for _ in range(NEAR_STEPS):
        spent = cost(value)
        if spent is None or not 0 < spent < math.inf:
            return None
        if before is not None:
            # Newton's step in logarithms, where costs are nearly powers: the first one assumes the power 1.
            power = math.log(spent / before[1]) / math.log(value / before[0])
            # An estimate that jumps, or hardly moves, says nothing of the cost: the search does without.
            if not MIN_POWER < power < MAX_POWER:
                return None
        before = value, spent
        value *= (budget / spent) ** (1 / power)
        if not MIN_SHARE * most <= value < most or value == before[0]:
            return None
        if power != 1.0 and abs(value / before[0] - 1) <= NEAR:
            return value, power
    return None


def _next_value(lower: Calibration[T], upper: tuple[float, float], aim: float, *, halve: bool) -> float:
    """Return where the chord meets ``aim``, kept away from the ends; or the midpoint."""
    low, high = lower.value, upper[0]
    share = 0.5  # also where the cost jumps: a chord would hardly leave ``low``
    if not halve and lower.cost < upper[1] <= MAX_CHORD_COST * aim:
        share = min(1 - MIN_CHORD, max(MIN_CHORD, (aim - lower.cost) / (upper[1] - lower.cost)))
    return low + share * (high - low)


def _interpolated(ends: list[tuple[float, float]], third: tuple[float, float], aim: float) -> float:
    """Return about where the cost is ``aim``, by (value, cost) at both ends and at a third value; between the ends."""
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
        InvalidInput: a number is outside its range.
        DeltaTooSmall: k mechanisms with this δ exceed the total δ whatever their ε.

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

    # Basic composition always fits, and so do about 2δ/k, whatever ε is; from 0 no doubling would lead away.
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
        The total for one release; else half of δ goes to the releases, half to their composition. Both numbers are
        on the grid of a `Problem`, rounded down: the problem keeps them, and no release is lost to its rounding.

    Raises:
        InvalidInput: a number is outside its range.

    >>> target = release_target(Privacy(2.0, 1e-5), 50)
    >>> 0.04 < target.epsilon < 0.1, 50 * target.delta <= 1e-5
    (True, True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries == 1:
        return total
    delta = floor_delta(total.delta / (2 * queries))
    return Privacy(floor_point(epsilon_each(total, delta, queries)), delta)
