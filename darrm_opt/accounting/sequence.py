"""The exact optimal composition of mechanisms with different parameters.

With P = Π(1−δ_i) and the loss of randomised response added up over classes of equal ε,

    D(E) = 1 − P (1 − Σ_{x > E} mass(x)·(1 − e^(E−x))),    x = Σ_c (n_c − 2 j_c) ε_c,

is attained by a composition of (ε_i, δ_i)-DP mechanisms whose parameters were fixed beforehand, adaptive otherwise, and
exceeded by none. It does not depend on their order. The number of terms is the product of the class sizes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np

from darrm_opt.accounting.leak import leaks_floor
from darrm_opt.accounting.optimal import composed, joined, least_epsilon, non_negative
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.response import NEGLIGIBLE, Losses, response_losses
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, float_above, up

MOST_TERMS = 4_000_000
"""Most terms of the exact sum, about 100 MB at work; beyond it `TooMuchWork`, and a PLD is the way."""

Events = Mapping[Privacy, int] | Iterable[Privacy]
"""What was run: a list of privacy parameters, or ``{parameters: count}``."""


def optimal_sequence(events: Events, total_delta: float) -> Privacy:
    """Return the least total ε at a total δ, over every adaptive composition of the given mechanisms.

    Args:
        events: (ε, δ) of each mechanism, fixed beforehand; ε finite. A list, or ``{Privacy: count}``.
        total_delta: allowed in total [probability], in [0, 1).

    Returns:
        Total privacy: ε and the given total δ.

    Guarantees:
        Sound as the doubles returned; the same for every order; equal parts give `optimal`.

    Raises:
        InvalidInput: a number is outside its range.
        BelowLeakFloor: total_delta < 1 − Π(1−δ_i), where no finite ε exists.
        TooMuchWork: more than `MOST_TERMS` terms.

    Source: Murtagh, Vadhan 2016, Theorem 1.5; Kairouz, Oh, Viswanath 2015, Theorem 3.5.

    >>> optimal_sequence([Privacy(0.5), Privacy(1.0)], 0.0).epsilon
    1.5
    """
    counts = counted(events)
    total_delta, _ = above_floor(counts, total_delta)
    return Privacy(least_epsilon(lambda total: _delta(counts, total), total_delta, total_loss(counts)), total_delta)


def optimal_sequence_delta(events: Events, total_epsilon: float) -> float:
    """Return the least total δ at a total ε, over every adaptive composition of the given mechanisms.

    Args:
        events: (ε, δ) of each mechanism, fixed beforehand; ε finite. A list, or ``{Privacy: count}``.
        total_epsilon: E [nats], ≥ 0 or ``inf``.

    Returns:
        D(E) [probability], rounded up.

    Raises:
        InvalidInput: a number is outside its range.
        TooMuchWork: more than `MOST_TERMS` terms.

    Source: as `optimal_sequence`.
    """
    return _delta(counted(events), non_negative(total_epsilon, "total_epsilon", "a number of nats, at least 0"))


def counted(events: Events) -> Counter[Privacy]:
    """Return ``{Privacy: count}`` with positive counts, checked."""
    counts: Counter[Privacy] = Counter()
    for event, count in Counter(events).items():
        if not isinstance(event, Privacy):
            raise InvalidInput("events", event, "Privacy(epsilon, delta) of each mechanism")
        if composed(event.epsilon, event.delta, count)[2] > 0:
            counts[event] = count
    return counts


def total_loss(counts: Mapping[Privacy, int]) -> float:
    """Return Σ ε_i, the ε of basic composition, rounded up to the nearest double."""
    exact = sum((count * Fraction(event.epsilon) for event, count in counts.items()), Fraction(0))
    return float_above(exact)


def sequence_losses(counts: Mapping[Privacy, int]) -> Losses:
    """Return the loss of the randomised responses of all mechanisms together.

    Raises:
        TooMuchWork: more than `MOST_TERMS` terms.
    """
    by_epsilon: Counter[float] = Counter()
    for event, count in counts.items():
        if event.epsilon > 0:
            by_epsilon[event.epsilon] += count
    return _losses(tuple(sorted(by_epsilon.items())))


@lru_cache(maxsize=8)
def _losses(classes: tuple[tuple[float, int], ...]) -> Losses:
    total = Losses(np.zeros(1), np.ones(1), 0.0, 0.0)
    for epsilon, count in classes:
        part = response_losses(epsilon, count)
        terms = total.losses.size * part.losses.size
        if terms > MOST_TERMS:
            raise TooMuchWork(
                f"the exact composition of {len(classes)} classes of mechanisms has more than {MOST_TERMS} terms. "
                "Use pld_sequence(), which rounds every epsilon up to a common grid, or general()."
            )
        losses = np.add.outer(total.losses, part.losses).ravel()
        masses = np.multiply.outer(total.masses, part.masses).ravel() * (1 + ULP)
        # Each sum of two losses rounds once; a product that underflows is worth less than NEGLIGIBLE.
        error = total.loss_error + part.loss_error + ULP * float(np.max(np.abs(losses), initial=0.0))
        missing = up(total.missing + part.missing, 1) + terms * NEGLIGIBLE
        total = Losses(losses, masses, missing, error) if len(classes) > 1 else part
    return total


def above_floor(counts: Mapping[Privacy, int], total_delta: float) -> tuple[float, float]:
    """Return the checked total δ and the leak floor that it is not below.

    Raises:
        BelowLeakFloor: total_delta < 1 − Π(1−δ_i).
    """
    total_delta, floor = Privacy(0.0, total_delta).delta, floor_of(counts)
    if total_delta < floor:
        raise BelowLeakFloor(total_delta, floor, "each mechanism may leak with its own delta")
    return total_delta, floor


def floor_of(counts: Mapping[Privacy, int]) -> float:
    """Return 1 − Π(1−δ_i), rounded up."""
    return leaks_floor((event.delta, count) for event, count in counts.items())


def _delta(counts: Mapping[Privacy, int], total_epsilon: float) -> float:
    floor = floor_of(counts)
    if total_epsilon >= total_loss(counts):
        return floor
    kept = math.fsum(count * math.log1p(-event.delta) for event, count in counts.items())
    return joined(floor, kept, sequence_losses(counts).delta(total_epsilon))
