"""Plan request: the question to the planner, and which account of the voters holds for it.

The decisive point is what one release reveals about the next. Voters with fresh, independent randomness in every answer
stay independent given the data whatever was released before, so releases of a γ for their (ε, Δ) compose. Models that
are trained once answer with the same randomness every time: an earlier bit carries information about a model, and
through it about all its later answers, so releases of such a γ do *not* compose. Two accounts hold for those: that of
the models themselves, after which everything is post-processing; and that of models taken as not private, of which a
record changes some.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from darrm_opt.accounting.calibrate import never_stop
from darrm_opt.accounting.freshness import check_fresh, effective_voters
from darrm_opt.accounting.mixture import AffectedDistribution
from darrm_opt.bagging.bags import Bags, checked_bags
from darrm_opt.bagging.guarantee import Sampling
from darrm_opt.budgeting.best_target import check_total
from darrm_opt.design.objective import Objective, as_objective
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.priors import Prior
from darrm_opt.problem import Privacy, Problem, real_number, whole_number

MAX_QUERIES = 10**9
"""Most queries of one plan, as in every account."""

MAX_EXACT_QUERIES = 500
"""Most queries for which the accounts whose time grows with their number are used."""

_PRIOR = "the text of an objective that has a prior, such as rectangular, shared(2,5) or histogram(9,1,0,2)"


@dataclass(frozen=True)
class PlanRequest:
    """The voters, the number of queries, and the total budget.

    Attributes:
        K: voters.
        voter: (ε, Δ) of one voter: of one answer if they are fresh, of its training if they are trained once.
        queries: Q.
        total: (ε, δ) of all answers together.
        affected: voters that one record can influence.
        objective: the prior of the votes, with agreement with the majority as the measure.
        fresh: whether every answer has fresh randomness.
        least_accuracy: below this an answer is useless.
        bags: how the voters' subsamples are drawn; None if a record affects exactly ``affected`` voters.
        stop: returns True when the time is up; searches then return their best result so far.
    """

    K: int
    voter: Privacy
    queries: int
    total: Privacy
    affected: int
    objective: Objective
    fresh: bool
    least_accuracy: float
    bags: Bags | None = None
    stop: Callable[[], bool] = field(default=never_stop, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        K: int,
        voter: Privacy | None,
        queries: int,
        total: Privacy,
        affected: int | None,
        prior: Objective | str,
        *,
        fresh: bool,
        least_accuracy: float,
        n: int | None = None,
        subsample_size: int | None = None,
        replacement: bool = True,
        sampling: Sampling = "independent",
        stop: Callable[[], bool] = never_stop,
    ) -> PlanRequest:
        """Return the request after checking every number.

        Args:
            K: number of voters, ≥ 1.
            voter: privacy of one voter; None where none is proved.
            queries: Q ≥ 1.
            total: (ε, δ) of all answers together.
            affected: how many voters one record can influence; None for all.
            prior: how votes fall.
            fresh: whether every voter draws fresh randomness for every answer.
            least_accuracy: below this an answer is useless [probability], in [0.5, 1).
            n: records, where each voter is a model trained on a random subsample of its own; None for no draw.
            subsample_size: records drawn for one model, with ``n``.
            replacement: whether a record can be drawn twice within a subsample.
            sampling: without replacement, subsamples ``independent`` or ``disjoint``.
            stop: called between the steps of each search.

        Raises:
            InvalidInput: naming the argument.
        """
        queries = whole_number(queries, "queries", f"a whole number of queries from 1 to {MAX_QUERIES}")
        if queries > MAX_QUERIES:
            raise InvalidInput("queries", queries, f"a whole number of queries from 1 to {MAX_QUERIES}")
        check_total(total)
        problem = Problem(K, Privacy(math.inf) if voter is None else voter, total, affected)
        fresh = check_fresh(fresh)
        accepted = "a probability in [0.5, 1)"
        least = real_number(least_accuracy, "least_accuracy", accepted)
        if not 0.5 <= least < 1:
            raise InvalidInput("least_accuracy", least_accuracy, accepted, "A fair coin has 0.5.")
        goal = as_objective(prior)
        if not isinstance(goal, Objective):
            raise InvalidInput("prior", prior, _PRIOR)
        objective = Objective(goal.name, goal.parameters, "agreement")
        objective.weights(problem.K)  # a histogram that is not one of K voters is refused here
        bags = checked_bags(problem, n, subsample_size, sampling, replacement=replacement)
        if bags is not None:
            bags.affected_distribution(problem.K)  # K disjoint subsamples of more than n records are refused here
        # the lesser of what was asked and of what it rounds to: no plan spends more than was asked
        budget = Privacy(min(total.epsilon, problem.target.epsilon), min(total.delta, problem.target.delta))
        return cls(problem.K, problem.voter, queries, budget, problem.affected, objective, fresh, least, bags, stop)

    @property
    def prior(self) -> Prior:
        """How votes fall."""
        return self.objective.prior

    @property
    def prior_text(self) -> str:
        """The prior as it is written."""
        return str(self.objective).removesuffix(" agreement")

    @property
    def affected_distribution(self) -> AffectedDistribution | None:
        """Distribution of the number of voters that one record affects, if a draw decides it."""
        return None if self.bags is None else self.bags.affected_distribution(self.K)

    @property
    def quick(self) -> bool:
        """Whether only accounts are used that take as long for any number of queries."""
        return self.queries > MAX_EXACT_QUERIES

    @property
    def private(self) -> bool:
        """Whether the voters are private at all."""
        return self.voter.epsilon < math.inf

    @property
    def voters(self) -> Problem:
        """The voters as they were given; the target is the total."""
        return Problem(self.K, self.voter, self.total, self.affected)

    @property
    def released(self) -> Problem:
        """The voters as in `effective_voters`, so that all releases compose; the target is the total."""
        return effective_voters(self.voters, self.queries, fresh=self.fresh)

    def accuracy(self, noise: NoiseFunction) -> float:
        """Return Pr[release = majority that was voted] under the prior; a tie counts as right."""
        from darrm_opt.accuracy import disagreement

        return 1.0 - disagreement(noise, self.prior)

    def composing(self) -> str:
        """Return the reason why releases compose, as text."""
        affected = f"one record affects at most {self.affected} of the {self.K} voters"
        if self.bags is not None:
            mean = self.bags.affected_distribution(self.K).mean
            affected = f"chance decides how many of the {self.K} voters one record affects, {mean:.3g} on average"
        if not self.private:
            return f"The voters are not private: {affected}, and every release uses fresh randomness of its own."
        if self.queries == 1:
            return "There is only one release, so nothing was released before it: the voters' own privacy holds."
        if self.fresh:
            return "Every answer has fresh randomness, so the voters' own privacy holds in every release."
        return (
            "Models trained once answer with the same randomness every time, so earlier releases carry information "
            "about later answers and the models' own privacy does not compose over releases. They are taken as not "
            f"private: {affected}, and every release uses fresh randomness of its own."
        )
