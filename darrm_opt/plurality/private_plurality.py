"""`PrivatePlurality`: K votes among C classes in, one private class or ⊥ out.

Voters are not private: given the data their votes are fixed, so totals over many releases need nothing of the voters'
randomness. What a release costs is charged before it leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from darrm_opt.accounting import PrivacyBudget
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.table import RuleMechanism
from darrm_opt.plurality.release_log import Labels, PluralityLog
from darrm_opt.randomness import RandomSource, SystemRandomness
from darrm_opt.tables.problem import ABSTENTION
from darrm_opt.tables.solver import PluralitySolution
from darrm_opt.tables.votes import VoteTable, count_votes


class PrivatePlurality:
    """Release the plurality of K votes among C classes.

    Args:
        mechanism: a `PluralitySolution`, a `RuleMechanism`, or a `NoisyMaximum`.
        budget: what is charged before a class leaves. A `PluralityLog` (a file; resumable by release ids), for a rule
            also a `PrivacyBudget` (in memory; each release is an event of the problem's target), or None: the caller
            keeps the account. A mechanism with a cap needs a log, which counts its labels.
        source: source of chance; None for the operating system, which privacy requires.

    Guarantees:
        Each output has exactly the probability that the mechanism states. It leaves only after it is charged; a refusal
        charges and releases nothing. The time that a draw takes is not covered.

    Raises:
        NotPrivate: a rule is not private for its problem.
        InvalidInput: no mechanism, or a budget of another one.

    >>> from darrm_opt import Privacy
    >>> from darrm_opt.plurality import PluralityProblem, solve_plurality
    >>> release = PrivatePlurality(solve_plurality(PluralityProblem(5, 3, Privacy(2.0, 1e-5))))
    >>> release.release([0, 2, 2, 2, 2]) in (0, 1, 2)
    True
    """

    def __init__(
        self,
        mechanism: PluralitySolution | VoteMechanism,
        budget: Any = None,
        *,
        source: RandomSource | None = None,
    ) -> None:
        if isinstance(mechanism, PluralitySolution):
            mechanism = RuleMechanism(mechanism.problem, mechanism.rule)
        if not isinstance(mechanism, VoteMechanism):
            raise InvalidInput("mechanism", mechanism, "a PluralitySolution, a RuleMechanism or a NoisyMaximum")
        if isinstance(budget, PluralityLog):
            budget.check_is_for(mechanism, "budget")
        elif isinstance(budget, PrivacyBudget):
            if not isinstance(mechanism, RuleMechanism):
                raise InvalidInput("budget", "a PrivacyBudget", "a PluralityLog or None for a noisy maximum")
        elif budget is not None:
            raise InvalidInput("budget", budget, "a PluralityLog, a PrivacyBudget, or None")
        elif mechanism.cap is not None:
            raise InvalidInput("budget", budget, "a PluralityLog, which counts the labels up to the cap")
        self._mechanism = mechanism
        self._budget = budget
        self._source = SystemRandomness() if source is None else source

    @property
    def mechanism(self) -> VoteMechanism:
        """What releases."""
        return self._mechanism

    def release(self, votes: Any, release_id: str | None = None) -> int | None:
        """Return one private class, or None for ⊥.

        Args:
            votes: K votes, each a class 0..C−1.
            release_id: as in `release_many`.

        Raises:
            DarrmError: what `release_many` raises, for the same reasons.
        """
        row = np.asarray(votes)
        if row.shape != (self._mechanism.K,):
            raise InvalidInput("votes", row.shape, f"shape ({self._mechanism.K},), one vote of each voter")
        label = int(self.release_many(row[None, :], release_id)[0])
        return None if label == ABSTENTION else label

    def release_many(self, votes: Any, release_id: str | None = None) -> Labels:
        """Return a private class for each row of votes, `ABSTENTION` (−1) for ⊥. The same votes again cost again.

        Args:
            votes: class of each voter, 0..C−1, shape (N, K).
            release_id: with a `PluralityLog`: a name for this release. Under the same name the same classes are
                returned, for nothing, whatever the votes are then: that is how a job goes on after a crash.

        Returns:
            Classes, shape (N,), int16; written and charged before they are returned.

        Raises:
            InvalidInput: another shape, or something that is not a class; messages never show votes.
            BudgetExceeded: the budget does not allow N more (`BudgetSpent` for a `PluralityLog`).
            ReleaseIdTaken: the name was used for another number of releases.
        """
        counts = count_votes(votes, self._mechanism.K, self._mechanism.classes)
        if isinstance(self._budget, PluralityLog):
            return self._budget.charge_and_release_labels(
                len(counts), lambda before: self._draw(counts, before), release_id
            )
        if release_id is not None:
            raise InvalidInput("release_id", release_id, "None", "Only a PluralityLog knows releases by name.")
        if isinstance(self._budget, PrivacyBudget) and isinstance(self._mechanism, RuleMechanism):
            self._budget.charge(self._mechanism.problem.target, len(counts))
        return self._draw(counts)

    def _draw(self, counts: VoteTable, before: int = 0) -> Labels:
        """Return an answer for each row of counts, where ``before`` classes were released already."""
        cap, labels = self._mechanism.cap, np.full(len(counts), ABSTENTION, dtype=np.int16)
        label_count = before
        for place, row in enumerate(counts.tolist()):
            if cap is not None and label_count >= cap:
                break  # the answers say that the cap is reached: from here on nothing depends on the votes
            labels[place] = self._mechanism.draw(tuple(row), self._source)
            label_count += int(labels[place] != ABSTENTION)
        return labels
