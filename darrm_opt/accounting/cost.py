"""Cost: the total ε of many releases of a mechanism, by the least of all accounts that apply.

A mechanism states what is proved of one release (`ReleaseBounds`); every account takes what it can use:

    simple    sums of ε and δ, as written
    optimal   the optimal composition of (ε, δ)-DP releases
    laws      one release: the exact δ of all pairs of laws
    bits      the exact adaptive recursion on the pairs that a released bit can show
    renyi     sums of Rényi divergences, of labels and not of counts
    gaussian  the Gaussian comparison: no more than one Gaussian mechanism, and a negligible δ

Each account is a theorem about the same releases, so the least ε is a proof too. `most_releases` goes the other way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol

from darrm_opt.accounting.bits.recursion import compose_bits_any_order
from darrm_opt.accounting.bits.region import BitRegion
from darrm_opt.accounting.cheapest import evaluate
from darrm_opt.accounting.composition.optimal import optimal_composition, optimal_composition_of_sequence
from darrm_opt.accounting.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.accounting.labels.composition import compared_epsilon, renyi_epsilon
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.law_pairs import BitPairs, LawPairs
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.rounding import as_written, decimal_above
from darrm_opt.search import largest_count_between

POINTS = 8001
"""Grid points of the recursion on bits: sound for any number; finer would change the fourth digit of ε."""

MIN_POINTS = 1001
"""Coarsest grid of the recursion: below it, it is refused."""

MAX_UPDATES = 4e8
"""Updates that the recursion may take, about a second."""

MAX_RELEASES = 10**7
"""Most releases that a total is found to allow."""

PRECISION = 0.01
"""The number of releases that fit is found to this share of itself, from below, and exactly by accounts in `CHEAP`."""

CHEAP = ("simple", "optimal")
"""Accounts that take next to no time."""


@dataclass(frozen=True, eq=False)
class ReleaseBounds:
    """What is proved of one release, whatever is released beside it.

    Attributes:
        privacy: an (ε, δ), or None.
        laws: all pairs of laws that neighbours can show, or None where they are not known; called when it is asked for.
        divergence: a bound on the power divergences, or None where it follows from ``laws`` or is not known; likewise.
    """

    privacy: Privacy | None = None
    laws: Callable[[], LawPairs] | None = None
    divergence: Callable[[], PowerDivergence | None] | None = None

    def event(self) -> Privacy | None:
        """Return an (ε, δ) of one release: the one that is proved, or the largest loss of all pairs of laws."""
        if self.privacy is not None or self.laws is None:
            return self.privacy
        laws = self.laws()
        return Privacy(laws.max_loss) if laws.finite else None

    def bound(self) -> PowerDivergence | None:
        """Return the bound on the power divergences, from whatever is known."""
        if self.divergence is not None:
            return self.divergence()
        return None if self.laws is None else self.laws().divergence


Parts = Sequence[tuple[ReleaseBounds, int]]
"""Releases of several kinds: what is proved of one of them, and how many there are at most, in any order."""


class Accountable(Protocol):
    """What can be accounted for: a mechanism."""

    def bounds(self, releases: int) -> Parts:
        """Return what is proved of so many releases."""
        ...


@dataclass(frozen=True)
class Cost:
    """Total privacy of releases.

    Attributes:
        epsilon: the least ε that is proved at ``delta``, rounded up [nats]; inf where nothing is.
        delta: δ of all together [probability].
        account: the account that proves it; "none" where nothing is.
        epsilons: ε by each account that was asked.
    """

    epsilon: float
    delta: float
    account: str
    epsilons: dict[str, float]


def cost(mechanism: Accountable, releases: int, delta: float) -> Cost:
    """Return what so many releases of a mechanism cost together.

    Returns:
        The least ε of all accounts that apply, and its account.

    Guarantees:
        Sound for every adaptive sequence of up to so many releases, for voters that are not private; ε is rounded up.

    Source: each account has its own (docs/accounting.md).
    """
    releases = whole_number(releases, "releases", "a whole number of releases, at least 0", least=0)
    delta = Privacy(0.0, real_number(delta, "delta", "a probability in [0, 1)")).delta
    return cost_of_parts(mechanism.bounds(releases), delta)


def cost_of_parts(parts: Parts, delta: float) -> Cost:
    """Return what releases of several kinds cost together, in any adaptive order; as `cost`."""
    runs = [(bounds, count) for bounds, count in parts if count]
    if not runs:
        return Cost(0.0, delta, "nothing is released", {})
    # An account of the whole needs its kind of bound for every part: with one missing it says nothing of the others.
    first: dict[str, Callable[[], Privacy]] = {}
    privacies = [(privacy, count) for bounds, count in runs if (privacy := bounds.event()) is not None]
    if len(privacies) == len(runs):
        first |= {"simple": partial(_simple, privacies, delta), "optimal": partial(_optimal, privacies, delta)}
    all_laws = [(bounds.laws(), count) for bounds, count in runs if bounds.laws is not None]
    if len(all_laws) == len(runs):
        if sum(count for _, count in runs) == 1:
            first["laws"] = lambda: Privacy(all_laws[0][0].epsilon(delta), delta)
        elif all(isinstance(laws, BitPairs) for laws, _ in all_laws):
            first["bits"] = partial(_bits, all_laws, delta)
    totals, _ = evaluate(first)
    # The recursion is exact but for its grid: where it is there, no account of the same pairs is below it.
    if delta > 0 and not {"bits", "laws"} & totals.keys():
        bounded = [(bounds.bound(), count) for bounds, count in runs]
        known = [(bound, count) for bound, count in bounded if bound is not None]
        if len(known) == len(runs):
            more, _ = evaluate(
                {
                    "renyi": lambda: Privacy(renyi_epsilon(known, delta).epsilon, delta),
                    "gaussian": lambda: Privacy(compared_epsilon(known, delta).epsilon, delta),
                }
            )
            totals |= more
    epsilons = {name: total.epsilon for name, total in totals.items()}
    epsilon, account = min(((value, name) for name, value in epsilons.items()), default=(math.inf, "none"))
    return Cost(epsilon, delta, account if epsilon < math.inf else "none", epsilons)


@dataclass(frozen=True)
class Quota:
    """A proved number of releases.

    Attributes:
        queries: releases that fit.
        account: what proves it: an account of the module, or "models" (the models together: then the only limit is
            `accounting.total.MAX_RELEASES`).
    """

    queries: int
    account: str


def most_releases(mechanism: Accountable, total: Privacy) -> Quota:
    """Return how many releases of a mechanism fit in a total (ε, δ), up to `PRECISION` from below.

    Args:
        mechanism: what releases.
        total: (ε, δ) of all together, ε finite.

    Returns:
        At most `MAX_RELEASES`; 0 if not even one release fits.
    """
    lower, upper, guess, account = 0, MAX_RELEASES + 1, 1, "none"
    while upper - lower > max(1.0, PRECISION * lower):
        spent = cost(mechanism, guess, total.delta)
        within = spent.epsilon <= total.epsilon
        if within:
            lower, account = guess, spent.account
        else:
            upper = guess
        # ε grows about with the square root; aim a little beyond, so that the next one closes in from the other side.
        ratio = min(total.epsilon / spent.epsilon, 1e4) if spent.epsilon else 1e4
        aim = guess * ratio**2 * (1 + PRECISION / 2 if within else 1 - PRECISION / 2)
        guess = min(max(math.floor(aim), lower + 1), upper - 1)
    if account in CHEAP and upper - lower > 1:
        lower = largest_count_between(lambda count: fits(mechanism, count, total), lower, upper)
    return Quota(lower, account)


def fits(mechanism: Accountable, releases: int, total: Privacy) -> bool:
    """Return whether so many releases of a mechanism are proved to fit in a total (ε, δ)."""
    return cost(mechanism, releases, total.delta).epsilon <= total.epsilon


def bits_epsilon(parts: Sequence[tuple[BitRegion, int]], delta: float, points: int = POINTS) -> float:
    """Return ε [nats] of single-bit releases in any order by the exact recursion, on at most so many grid points."""
    vertices = sum(region.moves.shape[0] for region, _ in parts)
    states = parts[0][1] if len(parts) == 1 else math.prod(count + 1 for _, count in parts)
    affordable = min(points, int(MAX_UPDATES / (states * vertices)))
    if affordable < MIN_POINTS:
        raise TooMuchWork(f"{states * vertices:.3g} steps of the exact recursion on bits take too long.")
    return compose_bits_any_order(parts, points=affordable).epsilon(delta)


def _simple(privacies: Sequence[tuple[Privacy, int]], delta: float) -> Privacy:
    """Return the sums of ε and δ, of the numbers as written."""
    total_delta = sum((count * as_written(privacy.delta) for privacy, count in privacies), Fraction(0))
    if total_delta > as_written(delta):
        raise DeltaTooSmall(delta, float(total_delta), "the deltas of the releases add up")
    epsilon = sum((count * as_written(privacy.epsilon) for privacy, count in privacies), Fraction(0))
    return Privacy(decimal_above(epsilon), delta)


def _optimal(privacies: Sequence[tuple[Privacy, int]], delta: float) -> Privacy:
    if len(privacies) == 1:
        ((privacy, count),) = privacies
        return optimal_composition(privacy.epsilon, privacy.delta, count, delta)
    counts: dict[Privacy, int] = {}
    for privacy, count in privacies:
        counts[privacy] = counts.get(privacy, 0) + count
    return optimal_composition_of_sequence(counts, delta)


def _bits(all_laws: Sequence[tuple[LawPairs, int]], delta: float) -> Privacy:
    return Privacy(
        bits_epsilon([(laws.region, count) for laws, count in all_laws if isinstance(laws, BitPairs)], delta), delta
    )
