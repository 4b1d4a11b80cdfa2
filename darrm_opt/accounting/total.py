"""What many releases of a γ cost together, by every sound account there is (`accounts`), and the least of them.

Each account is a proof by itself: whatever the least of them is, it is sound too. They are asked for the voters as they count
(`freshness`): where voters were trained once, as not private, and beside them there is the account of the models together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from darrm_opt.accounting.accounts import ACCOUNTS, attained, bits_total
from darrm_opt.accounting.bits import POINTS
from darrm_opt.accounting.closed import closed_delta
from darrm_opt.accounting.freshness import checked_fresh, counted_voters, models_together, models_total
from darrm_opt.accounting.leak import leaks_floor
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.release import NoisyMajority, Release, Released
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Privacy, Problem, real_number, whole_number

METHODS = tuple(ACCOUNTS)
"""The accounts of releases, in the order in which they learn more of them; "models" beside them is that of the models together,
which there is only for voters that were trained once."""

MOST_RELEASES = 10**9
"""Most releases in one account."""


@dataclass(frozen=True)
class ReleaseTotal:
    """The cost of many releases by each account.

    Attributes:
        delta: total δ at which they were asked [probability].
        totals: (ε, δ) by method; ``simple`` has a δ of its own.
        refused: why a method gave none, by method.
        epsilon_at_least: what some adversary attains at ``delta`` [nats], up to the rounding of the pairs found: no sound
            account can be below it. ``inf`` where an infinite loss is likelier than ``delta``; None where the releases are too many
            to tell, or where private voters were trained once (what they attain together is not known).
    """

    delta: float
    totals: dict[str, Privacy]
    refused: dict[str, BelowLeakFloor | TooMuchWork | BackendUnavailable]
    epsilon_at_least: float | None = None

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


def best(released: Released | Release, queries: int, total_delta: float, *, fresh: bool = False) -> ReleaseTotal:
    """Return what ``queries`` releases of a γ cost, each chosen freely in view of the earlier answers.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        queries: Q ≥ 0 releases, fixed beforehand.
        total_delta: allowed in total [probability], in [0, 1).
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer; False
            where the voters were trained once, and (ε, Δ) is the privacy of the whole voter (`freshness.FRESH`). For one
            release, and for voters that are not private, both are the same.

    Returns:
        The total ε by each method, and the least of them as ``.best``.

    Guarantees:
        Sound: every ε returned holds at its δ, as the doubles they are.

    Raises:
        InvalidInput: a number is outside its range.
        NotPrivate: a bare γ is not private for its problem.

    Source: each account has its own; the least of several theorems about the same releases is one (docs/accounting.md).

    >>> from darrm_opt import Problem, solve
    >>> solution = solve(Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4))
    >>> total = best(solution, 20, 0.00608, fresh=True)
    >>> total.method, round(total.best.epsilon, 2), round(total.totals["optimal"].epsilon, 2)
    ('bits', 2.26, 4.27)
    >>> 0.999 * total.best.epsilon < total.epsilon_at_least <= total.best.epsilon
    True
    >>> best(solution, 20, 0.00608).method  # models that were trained once
    'models'
    """
    return best_sequence([(released, queries)], total_delta, fresh=fresh)


def best_sequence(
    parts: Iterable[tuple[Released | Release, int]], total_delta: float, *, fresh: bool = False
) -> ReleaseTotal:
    """Return what releases of several γ cost together, in whatever order they are made.

    Args:
        parts: (release, how many) for each γ; how many of each is fixed beforehand, their order may be chosen on the way.
        total_delta: allowed in total [probability], in [0, 1).
        fresh: as in `best`. Releases for equal voters (K, their privacy, ``affected``) are taken to be of the same models, others
            to be of other models.

    Returns:
        As `best`, which it equals where all γ are equal.

    Raises:
        DarrmError: what `best` raises, for the same reasons.
    """
    total_delta, fresh = probability(total_delta, "total_delta"), checked_fresh(fresh)
    counts: Counter[Release] = Counter()
    for released, count in parts:
        release = Release.of(released)
        if whole_number(count, "queries", "a whole number of releases, at least 0", least=0) > MOST_RELEASES:
            raise InvalidInput("queries", count, f"at most {MOST_RELEASES} releases")
        if count:
            counts[release] += count
    if not counts:
        return ReleaseTotal(total_delta, dict.fromkeys(METHODS, Privacy(0.0, 0.0)), {}, 0.0)
    queries = sum(counts.values())
    shown: Counter[NoisyMajority] = Counter()
    for release, count in counts.items():
        shown[release.counted(queries, fresh=fresh)] += count
    accounts: dict[str, Callable[[], Privacy]] = {
        name: partial(account, shown, total_delta) for name, account in ACCOUNTS.items()
    }
    voters = {(release.problem.K, release.problem.voter, release.problem.affected) for release in counts}
    if shown != counts and all(voter.epsilon < math.inf for _, voter, _ in voters):
        accounts["models"] = partial(_models, voters, total_delta)
    totals: dict[str, Privacy] = {}
    refused: dict[str, BelowLeakFloor | TooMuchWork | BackendUnavailable] = {}
    for name, ask in accounts.items():
        try:
            totals[name] = ask()
        except (BelowLeakFloor, TooMuchWork, BackendUnavailable) as err:
            refused[name] = err
    at_least = attained(shown, total_delta) if shown == counts else None
    return ReleaseTotal(total_delta, totals, refused, at_least)


def _models(voters: Iterable[tuple[int, Privacy, int]], total_delta: float) -> Privacy:
    """Return what all models together cost; raises `BelowLeakFloor` where nothing finite is proved."""
    models: Counter[Privacy] = Counter()
    for _, voter, affected in voters:
        models[voter] += affected
    total = models_together(models, total_delta)
    if total.epsilon == math.inf:
        floor = leaks_floor((model.delta, count) for model, count in models.items())
        raise BelowLeakFloor(total_delta, floor, "each model that a record reaches may leak with its own Delta")
    return total


def exact_epsilon(
    gamma: ArrayLike | NoiseFunction,
    problem: Problem,
    queries: int,
    total_delta: float,
    *,
    fresh: bool = False,
    points: int = POINTS,
) -> float:
    """Return the total ε of releases of any γ, private for its problem's target or not, by the exact recursion on its bits.

    Where voters were trained once, the models together may cost less, and then that is the total.

    Args:
        gamma: γ(0..K), shape (K+1,), symmetric, in [0, 1].
        problem: its voters count (K, voter, affected); its target does not.
        queries: Q ≥ 0, fixed beforehand.
        total_delta: allowed in total [probability], in [0, 1).
        fresh: as in `best`.
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
    counted = counted_voters(problem, queries, fresh=fresh)
    if queries == 0:
        return 0.0
    models = models_total(problem, queries, total_delta, fresh=fresh).epsilon
    try:
        shown = Counter({NoisyMajority(NoiseFunction(gamma, problem.K), counted): queries})
        return min(models, bits_total(shown, total_delta, points).epsilon)
    except (BelowLeakFloor, TooMuchWork):
        if models == math.inf:
            raise
        return models


def total_delta_of(privacy: Privacy, queries: int, slack: float) -> float:
    """Return 1 − (1−δ)^Q (1−s): the total δ that the closed form has with slack s, rounded up.

    Args:
        privacy: (mε, δ) of one release.
        queries: Q ≥ 0.
        slack: s [probability], in [0, 1).

    Raises:
        InvalidInput: a number is outside its range, or the total rounds to 1.
    """
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
