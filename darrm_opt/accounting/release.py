"""What many releases of a γ cost together, by every sound account there is, and the least of them.

    simple    the sums of mε and δ
    general   the closed form, all of the total δ that the releases' own δ leave as slack
    optimal   the exact optimum over all (mε, δ)-DP mechanisms
    pld       their privacy loss distribution: the same, plus a guard for rounding
    profile   the privacy loss distribution of the exact profile of this very γ
    bits      the exact adaptive recursion on all that a bit of this γ can show

Each rests on less than the next: (mε, δ) is one point of the profile, and the profile is one bound on a pair (P, Q) while
the recursion knows that a release is one bit. So each is sound, whatever the least of them is, it is sound too. `bits`
and `profile` hold while the whole transcript of a query is its bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from darrm_opt.accounting.bits import MOST_WORK, POINTS, compose_bits_any_order
from darrm_opt.accounting.closed import closed_best_slack
from darrm_opt.accounting.leak import float_above
from darrm_opt.accounting.loss_distribution import Pld
from darrm_opt.accounting.optimal import optimal
from darrm_opt.accounting.pld import pld, pld_from_profile, pld_sequence
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.release_profile import ReleaseProfile, release_profile
from darrm_opt.accounting.sequence import optimal_sequence, total_loss
from darrm_opt.design.certificate import verify
from darrm_opt.design.solution import Solution
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Privacy, Problem, real_number, whole_number

METHODS = ("simple", "general", "optimal", "pld", "profile", "bits")
"""The accounts, in the order in which they learn more of the release."""

BITS_WORK = MOST_WORK / 10
"""Updates that `bits` may take, some seconds; the grid is coarser where more would be needed."""

LEAST_POINTS = 1001
"""Coarsest grid of `bits`: below it the recursion is refused."""

MOST_RELEASES = 10**9
"""Most releases in one account."""

Released = Solution | tuple[ArrayLike | NoiseFunction, Problem]
"""A certified γ, or a γ and the problem for which `verify` proves it."""


@dataclass(frozen=True)
class Release:
    """One γ and the problem for which it is private.

    Args:
        noise: γ.
        problem: K voters, their privacy, and the release's (mε, δ).
    """

    noise: NoiseFunction
    problem: Problem

    @classmethod
    def of(cls, released: Released | Release) -> Release:
        """Return the release of a solution, or of a γ once it is proved private for its problem.

        Raises:
            InvalidInput: neither a solution nor (gamma, problem).
            NotPrivate: the γ is not private for that problem.
        """
        if isinstance(released, Release):
            return released
        if isinstance(released, Solution):
            return cls(released.noise, released.problem)
        given: Any = released
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Problem)):
            raise InvalidInput("release", given, "a Solution, or a pair (gamma, problem)")
        gamma, problem = given
        noise = NoiseFunction(gamma, problem.K)
        verify(problem, noise)
        return cls(noise, problem)

    @property
    def privacy(self) -> Privacy:
        """(mε, δ) of one release, as it was proved."""
        return self.problem.target

    @cached_property
    def profile(self) -> ReleaseProfile:
        """The release's privacy at every ε."""
        return _profile(self.noise, self.problem)


@dataclass(frozen=True)
class ReleaseTotal:
    """The cost of many releases by each account.

    Attributes:
        delta: total δ at which they were asked [probability].
        totals: (ε, δ) by method; ``simple`` has a δ of its own.
        refused: why a method gave none, by method.
    """

    delta: float
    totals: dict[str, Privacy]
    refused: dict[str, BelowLeakFloor | TooMuchWork | BackendUnavailable]

    @property
    def method(self) -> str:
        """The account with the least ε among those within the total δ.

        Raises:
            BelowLeakFloor: none is; the error of the account that needs the least δ.
        """
        within = {name: total.epsilon for name, total in self.totals.items() if total.delta <= self.delta}
        if not within:
            floors = [err for err in self.refused.values() if isinstance(err, BelowLeakFloor)]
            raise min(floors, key=lambda err: err.floor) if floors else next(iter(self.refused.values()))
        return min(within, key=within.__getitem__)

    @property
    def best(self) -> Privacy:
        """The least total ε that is proved, and its δ; raises as `method`."""
        return self.totals[self.method]


def best(released: Released | Release, queries: int, total_delta: float) -> ReleaseTotal:
    """Return what ``queries`` releases of a γ cost, each chosen freely in view of the earlier answers.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        queries: Q ≥ 0 releases, fixed beforehand.
        total_delta: allowed in total [probability], in [0, 1).

    Returns:
        The total ε by each method, and the least of them as ``.best``.

    Guarantees:
        Sound: every ε returned holds at its δ, as the doubles they are.

    Raises:
        InvalidInput: a number is outside its range.
        NotPrivate: a bare γ is not private for its problem.

    Source: design notes, "How private is it really, over Q releases".

    >>> from darrm_opt import Problem, solve
    >>> solution = solve(Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4))
    >>> total = best(solution, 20, 0.00608)
    >>> total.method, round(total.best.epsilon, 2), round(total.totals["optimal"].epsilon, 2)
    ('bits', 2.26, 4.27)
    """
    return best_sequence([(released, queries)], total_delta)


def best_sequence(parts: Iterable[tuple[Released | Release, int]], total_delta: float) -> ReleaseTotal:
    """Return what releases of several γ cost together, in whatever order they are made.

    Args:
        parts: (release, how many) for each γ; how many of each is fixed beforehand, their order may be chosen on the way.
        total_delta: allowed in total [probability], in [0, 1).

    Returns:
        As `best`, which it equals where all γ are equal.

    Raises:
        As `best`.
    """
    total_delta = probability(total_delta, "total_delta")
    counts: Counter[Release] = Counter()
    for released, count in parts:
        release = Release.of(released)
        if whole_number(count, "queries", "a whole number of releases, at least 0", least=0) > MOST_RELEASES:
            raise InvalidInput("queries", count, f"at most {MOST_RELEASES} releases")
        if count:
            counts[release] += count
    if not counts:
        return ReleaseTotal(total_delta, dict.fromkeys(METHODS, Privacy(0.0, 0.0)), {})
    totals: dict[str, Privacy] = {}
    refused: dict[str, BelowLeakFloor | TooMuchWork | BackendUnavailable] = {}
    for name, account in _ACCOUNTS.items():
        try:
            totals[name] = account(counts, total_delta)
        except (BelowLeakFloor, TooMuchWork, BackendUnavailable) as err:
            refused[name] = err
    return ReleaseTotal(total_delta, totals, refused)


def exact_epsilon(
    gamma: ArrayLike | NoiseFunction, problem: Problem, queries: int, total_delta: float, *, points: int = POINTS
) -> float:
    """Return the total ε of releases of any γ, private for its problem's target or not, by the exact recursion on its bits.

    Args:
        gamma: γ(0..K), shape (K+1,), symmetric, in [0, 1].
        problem: its voters count (K, voter, affected); its target does not.
        queries: Q ≥ 0, fixed beforehand.
        total_delta: allowed in total [probability], in [0, 1).
        points: grid points of the recursion, as in `compose_bits`.

    Guarantees:
        Sound.

    Raises:
        InvalidInput: a number is outside its range.
        BelowLeakFloor: no finite ε is proved at this δ.
        TooMuchWork: too many releases for this account.
    """
    total_delta = probability(total_delta, "total_delta")
    queries = whole_number(queries, "queries", "a whole number of releases, at least 0", least=0)
    if queries == 0:
        return 0.0
    counts = Counter({Release(NoiseFunction(gamma, problem.K), problem): queries})
    return _bits(counts, total_delta, points).epsilon


def total_delta_of(privacy: Privacy, queries: int, slack: float) -> float:
    """Return 1 − (1−δ)^Q (1−s): the total δ that the closed form has with slack s, rounded up.

    Args:
        privacy: (mε, δ) of one release.
        queries: Q ≥ 0.
        slack: s [probability], in [0, 1).

    Raises:
        InvalidInput: a number is outside its range, or the total rounds to 1.
    """
    from darrm_opt.accounting.closed import closed_delta

    queries = whole_number(queries, "queries", "a whole number of releases, at least 0", least=0)
    slack = probability(slack, "slack")
    total = closed_delta({privacy: queries} if queries else {}, slack)
    if total >= 1:
        raise InvalidInput("queries", queries, "fewer releases", "The total delta rounds to 1.")
    return total


def probability(value: float, argument: str) -> float:
    """Return ``value`` in [0, 1) as a float, or raise `InvalidInput` naming the argument."""
    number = real_number(value, argument, "a probability in [0, 1)")
    if not 0 <= number < 1:
        raise InvalidInput(argument, value, "a probability in [0, 1)")
    return number


def _simple(counts: Counter[Release], total_delta: float) -> Privacy:
    events = _events(counts)
    delta = float_above(sum((count * Fraction(event.delta) for event, count in events.items()), Fraction(0)))
    if delta >= 1:
        raise BelowLeakFloor(total_delta, 1.0, "the deltas of the releases add up to 1 or more")
    return Privacy(total_loss(events), delta)


def _optimal(counts: Counter[Release], total_delta: float) -> Privacy:
    events = _events(counts)
    if len(events) == 1:
        ((event, count),) = events.items()
        return optimal(event.epsilon, event.delta, count, total_delta)
    return optimal_sequence(events, total_delta)


def _pld(counts: Counter[Release], total_delta: float) -> Privacy:
    events = _events(counts)
    if len(events) == 1:
        ((event, count),) = events.items()
        return pld(event.epsilon, event.delta, count, total_delta).privacy
    return pld_sequence(events, total_delta).privacy


def _by_profile(counts: Counter[Release], total_delta: float) -> Privacy:
    total = composed_profile(counts)
    return Privacy(total.epsilon(total_delta), total_delta)


def composed_profile(counts: Counter[Release]) -> Pld:
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


def _bits(counts: Counter[Release], total_delta: float, most_points: int = POINTS) -> Privacy:
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


_ACCOUNTS: dict[str, Callable[[Counter[Release], float], Privacy]] = {
    "simple": _simple,
    "general": lambda counts, total_delta: closed_best_slack(_events(counts), total_delta),
    "optimal": _optimal,
    "pld": _pld,
    "profile": _by_profile,
    "bits": _bits,
}


def _events(counts: Counter[Release]) -> Counter[Privacy]:
    events: Counter[Privacy] = Counter()
    for release, count in counts.items():
        events[release.privacy] += count
    return events


def _in_order(item: tuple[Release, int]) -> tuple[float, float, bytes]:
    release = item[0]
    return release.privacy.epsilon, release.privacy.delta, release.noise.values.tobytes()


@lru_cache(maxsize=64)
def _profile(noise: NoiseFunction, problem: Problem) -> ReleaseProfile:
    return release_profile(noise, problem)
