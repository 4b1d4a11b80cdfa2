"""Turning a knob as far as a budget allows: the largest value of a parameter whose cost still fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST_STEPS = 60
"""Evaluations of a cost in one search; bisection alone would need fewer for every precision in use."""

LEAST_SHARE = 2.0**-40
"""A knob below this share of where it may stand at most counts as not to be turned at all."""


class Turned(NamedTuple, Generic[T]):
    """Where a knob stands.

    Attributes:
        value: of the parameter.
        cost: there, within the budget.
        made: what the parameter makes there.
    """

    value: float
    cost: float
    made: T


def never() -> bool:
    """Return False: a search that is not stopped."""
    return False


def turned_up(
    make: Callable[[float], tuple[T, float]],
    budget: float,
    most: float,
    *,
    guess: float,
    precision: float,
    stop: Callable[[], bool] = never,
) -> Turned[T] | None:
    """Return the largest value found whose cost fits, None where hardly any does.

    Args:
        make: from a value > 0 to what it makes and what that costs, which may be ``inf``; the cost grows with the value
            (where it does not, the answer fits and may not be the largest).
        budget: what the cost must not exceed, > 0.
        most: largest value that has a meaning.
        guess: where to begin, in (0, most].
        precision: the search ends where the cost is within this share of the budget, or the value within it of one that
            does not fit.
        stop: asked after each evaluation; where it is true, what fits so far is the answer.

    Guarantees:
        The value returned was itself evaluated and fits.

    Source: regula falsi between a value that fits and one that does not, by bisection where that is slow.

    >>> found = turned_up(lambda x: (str(x), x * x), 9.0, 10.0, guess=1.0, precision=1e-9)
    >>> round(found.value, 6), found.cost <= 9.0
    (3.0, True)
    """
    fits: Turned[T] | None = None
    over: tuple[float, float] | None = None
    value = min(guess, most)
    for count in range(MOST_STEPS):
        made, cost = make(value)
        if cost <= budget:
            fits = Turned(value, cost, made)
            if value >= most or cost >= budget * (1 - precision):
                break
        else:
            over = (value, cost)
        if stop():
            break
        if fits is None:
            if value < LEAST_SHARE * most:
                break
            value *= min(0.5, max(0.01, 0.9 * budget / cost))
        elif over is None:
            value = min(most, value * min(4.0, max(1.1, 1.05 * budget / cost)) if cost > 0 else 4 * value)
        elif over[0] - fits.value <= precision * over[0]:
            break
        else:
            value = _between(fits, over, budget * (1 - precision / 2), halve=count % 3 == 2)
    return fits


def _between(fits: Turned[T], over: tuple[float, float], aim: float, *, halve: bool) -> float:
    """Return where the chord meets ``aim``, kept off the ends; or the middle."""
    low, high = fits.value, over[0]
    share = 0.5
    if not halve and over[1] < math.inf and over[1] > fits.cost:
        share = min(0.95, max(0.05, (aim - fits.cost) / (over[1] - fits.cost)))
    return low + share * (high - low)
