"""`PrivateMajority`: K votes in, one private bit out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting import BudgetExceeded, PrivacyBudget, Release
from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.accounting.release_profile import Released
from darrm_opt.accounting.total import MAX_RELEASES
from darrm_opt.design.certificate import Certificate
from darrm_opt.design.report import guarantee
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanism.release_log import ReleaseLog
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem
from darrm_opt.randomness import Bits, ExactCoins, RandomSource, SystemRandomness
from darrm_opt.tables.votes import SIGNED, vote_table

BLOCK = 1 << 15
"""Rows taken at once: what they need stays in the processor's cache."""


class PrivateMajority:
    """Release majorities of K votes through a proved γ (Algorithm 1 of the paper).

    Args:
        solution: a `Solution`, or a pair (gamma, problem). Its privacy is proved here, again, from the doubles in it.
        budget: what is charged before a bit leaves. A `ReleaseLog` (a file; resumable by release ids), a
            `PrivacyBudget` (in memory), or None: the caller keeps the account.
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer;
            False where the voters were trained once, and (ε, Δ) is the privacy of the whole voter
            (`accounting.freshness.FRESH`). It decides what a `PrivacyBudget` is charged: each release, an event of the
            problem's target, where voters are fresh or not private; else the models that one record reaches, once,
            before the first release through this object, which is then for the votes of these models alone. A
            `ReleaseLog` has a word of its own, and must not be asked for more than that.
        source: where chance comes from; None for the operating system, which privacy requires.

    Guarantees:
        With l ones among the votes the bit is 1 with probability exactly (1 + g(l))/2, g(l) = sign(l − K/2)·γ(l), for
        the doubles in γ. One bit is thus (mε, δ)-DP, for voters and neighbours as the problem says.
        Bits leave only after they are charged; a refusal charges and releases nothing.
        How much randomness is read, and which steps are taken, does not depend on the votes.

        Not covered, so do not let others observe it: reading the votes and refusing malformed ones; the time of single
        machine instructions, caches (a table of K+1 words is looked up at the number of ones) and what NumPy does
        inside; copies of votes and of unreleased chance that stay in memory, in a swap file or in a core dump. Voters
        must answer independently of each other, given the data, and nothing but the bit may leave.

    Raises:
        NotPrivate: γ is not private for the problem, or cannot be proved to be.
        InvalidInput: no solution, a release log of another γ or problem, or one for voters that were trained once with
            ``fresh=True``.

    Source: Algorithm 1 and Lemma 3.4 of the paper.

    >>> from darrm_opt import solve
    >>> release = PrivateMajority(solve(Problem.from_allowance(K=3, m=2, epsilon=0.5)))
    >>> release.release([1, 1, 1]) in (0, 1)
    True
    """

    def __init__(
        self,
        solution: Released | Release,
        budget: ReleaseLog | PrivacyBudget | None = None,
        *,
        fresh: bool = False,
        source: RandomSource | None = None,
    ) -> None:
        release = self._release = Release.of(solution)
        noise = release.noise
        charged_once = effective_voters(release.problem, MAX_RELEASES, fresh=fresh) is not release.problem
        self._charged_once, self._charged = charged_once, False
        if isinstance(budget, ReleaseLog):
            budget.check_is_for(self._release, "budget")
            if fresh and not budget.fresh:
                raise InvalidInput(
                    "fresh", fresh, "False", f"The release log {budget.path} is for voters trained once."
                )
        elif budget is not None and not isinstance(budget, PrivacyBudget):
            raise InvalidInput("budget", budget, "a ReleaseLog, a PrivacyBudget, or None")
        self._budget = budget
        self._source = SystemRandomness() if source is None else source
        K = release.problem.K
        l = np.arange(K + 1)
        chance = noise.values.copy()
        chance[2 * l == K] = 0.0  # a tie is a fair coin whatever γ(K/2) is
        self._coins = ExactCoins(chance)
        self._majority = (2 * l > K).astype(np.uint8)

    def __repr__(self) -> str:
        problem = self.problem
        budget = "None" if self._budget is None else repr(self._budget)
        return (
            f"PrivateMajority(K={problem.K}, each release {guarantee(problem.target)}, "
            f"affected={int(problem.affected)}, budget={budget})"
        )

    @property
    def problem(self) -> Problem:
        """What is proved of one release."""
        return self._release.problem

    @property
    def noise(self) -> NoiseFunction:
        """γ."""
        return self._release.noise

    @property
    def certificate(self) -> Certificate:
        """Why it is private, as proved here."""
        return self._release.certificate

    def release(self, votes: Any, release_id: str | None = None) -> int:
        """Return one private bit.

        Args:
            votes: K votes, each 0 or 1.
            release_id: as in `release_many`.

        Returns:
            0 or 1; written and charged before it is returned.

        Raises:
            DarrmError: what `release_many` raises, for the same reasons.
        """
        row = np.asarray(votes)
        if row.shape != (self.problem.K,):
            raise InvalidInput("votes", row.shape, f"shape ({self.problem.K},), one vote of each voter")
        return int(self.release_many(row[None, :], release_id)[0])

    def release_many(self, votes: Any, release_id: str | None = None) -> Bits:
        """Return a private bit for each row of votes. The same votes again cost again.

        Args:
            votes: shape (N, K), each 0 or 1 (whole numbers, truth values, or floats equal to them).
            release_id: with a `ReleaseLog`: a name for this release. Under the same name the same bits are
                returned, for nothing, whatever the votes are then: that is how a job goes on after a crash.

        Returns:
            Bits, shape (N,), uint8; written and charged before they are returned.

        Raises:
            InvalidInput: another shape, or something that is neither 0 nor 1; messages never show votes.
            BudgetExceeded: the budget does not allow N more (`BudgetSpent` for a `ReleaseLog`).
            ReleaseIdTaken: the name was used for another number of releases.
        """
        table = checked_votes(votes, self.problem.K)
        if isinstance(self._budget, ReleaseLog):
            return self._budget.charge_and_release(len(table), lambda: self._draw(table), release_id)
        if release_id is not None:
            raise InvalidInput("release_id", release_id, "None", "Only a ReleaseLog knows releases by name.")
        if self._budget is not None:
            self._charge(self._budget, len(table))
        return self._draw(table)

    def _charge(self, budget: PrivacyBudget, count: int) -> None:
        if not self._charged_once:
            budget.charge(self.problem.target, count)
        elif count and not self._charged:  # two threads at once charge twice, which errs on the private side
            try:
                budget.charge(self.problem.voter, self.problem.affected)
            except BudgetExceeded as err:
                raise BudgetExceeded(
                    f"{err} These are the models that one record reaches, charged once for all releases, as fresh=True "
                    "was not said. Voters that are taken as not private (epsilon = inf) are charged release by release."
                ) from err
            self._charged = True

    def _draw(self, votes: NDArray[np.uint8]) -> Bits:
        bits = np.empty(len(votes), dtype=np.uint8)
        for start in range(0, len(votes), BLOCK):
            ones = count_ones(votes[start : start + BLOCK])
            keep, fair = self._coins.toss(ones, self._source)
            # Algorithm 1 without a branch: the majority where keep = 1, else the fair coin.
            bits[start : start + BLOCK] = fair ^ (keep & (fair ^ self._majority.take(ones)))
        return bits


def count_ones(votes: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the number of ones in each row of votes that were checked."""
    ones = np.zeros(len(votes), dtype=np.int32)
    for voter in range(votes.shape[1]):  # a column at a time: NumPy's sums along a short last axis are ten times slower
        ones += votes[:, voter]
    return ones.astype(np.intp)


def checked_votes(votes: Any, K: int) -> NDArray[np.uint8]:
    """Return votes as zeros and ones of shape (N, K), or refuse them without showing them.

    Raises:
        InvalidInput: another shape, or something that is neither 0 nor 1.
    """
    table = vote_table(votes, K)
    if table.dtype == np.bool_:  # a buffer may hold other bytes than 0 and 1: each of them is one vote, no more
        return np.not_equal(table.view(np.uint8), 0).astype(np.uint8)
    # Every element is looked at, whatever the others are.
    if table.dtype.kind in "iuf" and not np.count_nonzero((table != 0) & (table != 1)):
        return table.astype(np.uint8, copy=False)
    raise InvalidInput(
        "votes", f"{table.dtype}, not all 0 or 1", "votes that are 0 or 1", f"They are not shown here. {SIGNED}"
    )
