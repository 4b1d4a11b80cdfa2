"""Errors of the mechanism, named for what the caller can do about them."""

from __future__ import annotations

from darrm_opt.accounting.errors import BudgetExceeded, BudgetUnreadable
from darrm_opt.errors import DarrmError
from darrm_opt.problem import Privacy


class BudgetSpent(BudgetExceeded):
    """More releases were asked than the budget has left; nothing was charged and nothing released.

    Attributes:
        budget: the budget, in words.
        limit: releases that it allows in all.
        spent: releases charged so far.
        asked: releases asked now.
    """

    def __init__(self, budget: str, limit: int, spent: int, asked: int) -> None:
        self.budget = budget
        self.limit = limit
        self.spent = spent
        self.asked = asked
        super().__init__(
            f"{asked} releases were asked and {limit - spent} are left: the budget, {budget}, allows {limit} in all "
            f"and {spent} are spent. Nothing was charged and nothing was released."
        )


class ReleaseLogDamaged(BudgetUnreadable):
    """The file of a release log is not what was written there: to go on from it could overspend, so it is refused.

    Attributes:
        fault: what is wrong, in words.
        advice: what to do, also where nobody has the file as it was.
    """

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.advice = (
            "Restore the file as it was, with every line that it had. If nobody can, treat its whole budget as spent, "
            "as nobody knows how much of it was: a new release log has a budget of its own, and the two add up."
        )
        super().__init__(f"{fault}. Nothing is released. {self.advice}")


class ReleaseIdTaken(DarrmError):
    """A release id was used before, for another number of releases: ids name one release, and resume only that."""


class BatchWithheld(DarrmError):
    """The noisy test of a batch of votes did not pass: no label of it was released, and none ever will be.

    Attributes:
        total: (ε, δ) of the test and the labels together, which is charged.
        test: (ε, δ) that holds where nothing but this failure is released of these votes.
    """

    def __init__(self, total: Privacy, test: Privacy) -> None:
        self.total = total
        self.test = test
        super().__init__(
            f"The votes did not pass the test that (epsilon, delta) = ({total.epsilon:g}, {total.delta:g}) was stated "
            "for: no label was released, and the test cannot be drawn again. The total is spent; where nothing else is "
            f"released of these votes, they have cost epsilon = {test.epsilon:.4g} at delta = {test.delta:.4g}. "
            "Another total, or labels without a test at what they cost for any votes, need a release log of their own, "
            "and what both cost adds up."
        )


class SampleUsed(DarrmError):
    """A sample was to serve more than its one query, or its one text of T labels; nothing was released.

    Attributes:
        fault: what is wrong, in words.
    """

    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__(
            f"The sample cannot be used: {fault}. Draw another one. Nothing was charged and nothing was released."
        )
