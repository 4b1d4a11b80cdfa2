"""The accounts of many releases: each a sound total (ε, δ) of releases counted by γ, or a refusal.

    simple    the sums of mε and δ
    general   the closed form, all of the total δ that the releases' own δ leave as slack
    optimal   the exact optimum over all (mε, δ)-DP mechanisms
    pld       their privacy loss distribution: the same, plus a guard for rounding
    profile   the privacy loss distribution of the exact profile of this very γ
    bits      the exact adaptive recursion on all that a bit of this γ can show

Each rests on less than the next: (mε, δ) is one point of the profile, and the profile is one bound on a pair (P, Q) while
the recursion knows that a release is one bit. `bits` and `profile` hold while the whole transcript of a query is its bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

from darrm_opt.accounting.bit_attack import POINTS as ATTACK_POINTS
from darrm_opt.accounting.bit_attack import attained_epsilon
from darrm_opt.accounting.bits import MOST_WORK, POINTS, compose_bits_any_order
from darrm_opt.accounting.closed import closed_best_slack
from darrm_opt.accounting.loss_distribution import Pld
from darrm_opt.accounting.optimal import optimal
from darrm_opt.accounting.pld import pld, pld_from_profile, pld_sequence
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.release import NoisyMajority
from darrm_opt.accounting.sequence import optimal_sequence, total_loss
from darrm_opt.problem import Privacy
from darrm_opt.rounding import float_above

BITS_WORK = MOST_WORK / 10
"""Updates that `bits` may take, some seconds; the grid is coarser where more would be needed."""

LEAST_POINTS = 1001
"""Coarsest grid of `bits`: below it the recursion is refused."""

ATTACK_WORK = BITS_WORK / 10
"""Updates that the lower bound may take, each some ten times as long; beyond, none is given."""

Counts = Counter[NoisyMajority]
"""How many releases of each γ, with the voters as each of them counts (`freshness`)."""


def simple_total(counts: Counts, total_delta: float) -> Privacy:
    """Return the sums of mε and δ; the δ is their own, whatever ``total_delta`` is."""
    events = _events(counts)
    delta = float_above(sum((count * Fraction(event.delta) for event, count in events.items()), Fraction(0)))
    if delta >= 1:
        raise BelowLeakFloor(total_delta, 1.0, "the deltas of the releases add up to 1 or more")
    return Privacy(total_loss(events), delta)


def general_total(counts: Counts, total_delta: float) -> Privacy:
    """Return the closed form with the best slack."""
    return closed_best_slack(_events(counts), total_delta)


def optimal_total(counts: Counts, total_delta: float) -> Privacy:
    """Return the exact optimum over all mechanisms with the releases' (mε, δ)."""
    events = _events(counts)
    if len(events) == 1:
        ((event, count),) = events.items()
        return optimal(event.epsilon, event.delta, count, total_delta)
    return optimal_sequence(events, total_delta)


def pld_total(counts: Counts, total_delta: float) -> Privacy:
    """Return the same by privacy loss distributions."""
    events = _events(counts)
    if len(events) == 1:
        ((event, count),) = events.items()
        return pld(event.epsilon, event.delta, count, total_delta).privacy
    return pld_sequence(events, total_delta).privacy


def profile_total(counts: Counts, total_delta: float) -> Privacy:
    """Return the total by the privacy loss distribution of the exact profiles."""
    floor = max(release.profile.delta(release.profile.reach) for release in counts)
    if floor > total_delta:  # all of them leak no less; where one leaks nearly all, no distribution is left to compose
        raise BelowLeakFloor(total_delta, floor, "that much one release may leak, rounding included")
    return Privacy(composed_profile(counts).epsilon(total_delta), total_delta)


def composed_profile(counts: Counts) -> Pld:
    """Return the PLD of the exact profiles of releases, on one grid."""
    together = sum(counts.values())
    longest = max(counts, key=lambda release: release.profile.reach)
    step = longest.profile.discretisation(together)
    parts = [
        pld_from_profile(release.profile, discretisation=step, reach=release.profile.reach).repeated(count)
        for release, count in sorted(counts.items(), key=_in_order)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total.then(part)
    return total


def bits_total(counts: Counts, total_delta: float, most_points: int = POINTS) -> Privacy:
    """Return the total by the exact adaptive recursion, on at most ``most_points`` grid points."""
    if sum(counts.values()) == 1:  # no grid needed
        return Privacy(next(iter(counts)).profile.epsilon(total_delta), total_delta)
    parts = [(release.profile.outer, count) for release, count in sorted(counts.items(), key=_in_order)]
    if len(parts) == 1:
        updates = parts[0][0].moves.shape[0] * parts[0][1]
    else:
        states = 1
        for _, count in parts:
            states *= count + 1
        updates = states * sum(region.moves.shape[0] for region, _ in parts)
    points = min(most_points, int(BITS_WORK / updates))
    if points < LEAST_POINTS:
        raise TooMuchWork(
            f"{updates:.3g} steps of the exact adaptive composition, each on {LEAST_POINTS} points or more, take too long. "
            "The account by profile, or optimal, knows longer sequences."
        )
    return Privacy(compose_bits_any_order(parts, points=points).epsilon(total_delta), total_delta)


def attained(counts: Counts, total_delta: float) -> float | None:
    """Return an ε that some adversary attains with releases in some order, below every account; None for too many of them."""
    parts = [(release.profile.inner, count) for release, count in sorted(counts.items(), key=_in_order)]
    if sum(region.moves.shape[0] * count for region, count in parts) * ATTACK_POINTS > ATTACK_WORK:
        return None
    return attained_epsilon(parts, total_delta)


ACCOUNTS: dict[str, Callable[[Counts, float], Privacy]] = {
    "simple": simple_total,
    "general": general_total,
    "optimal": optimal_total,
    "pld": pld_total,
    "profile": profile_total,
    "bits": bits_total,
}
"""By name, in the order in which they learn more of the release."""


def _events(counts: Counts) -> Counter[Privacy]:
    events: Counter[Privacy] = Counter()
    for release, count in counts.items():
        events[release.privacy] += count
    return events


def _in_order(item: tuple[NoisyMajority, int]) -> tuple[float, float, bytes]:
    target = item[0].problem.target
    return target.epsilon, target.delta, item[0].noise.values.tobytes()
