"""What is asked of the planner, and which account of the voters it permits.

What one release tells of the next decides everything. Voters with fresh, independent randomness in every answer stay
independent given the data whatever was released before, so releases of a γ for their (ε, Δ) compose. Models that are
trained once answer with the same randomness every time: an earlier bit says something of a model, and through it of all
its later answers, so releases of such a γ do *not* compose. For those, two accounts hold: that of the models themselves,
after which everything is post-processing; and that of models as they are, not private, of which a record changes some.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from darrm_opt.accounting.allowance import checked_total
from darrm_opt.accounting.freshness import checked_fresh, counted_voters
from darrm_opt.accounting.reach import Reach
from darrm_opt.accounting.turning import never
from darrm_opt.design.objective import Objective, as_objective
from darrm_opt.ensembles.bagging import Sampling
from darrm_opt.ensembles.bags import Bags, checked_bags
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.priors import Prior
from darrm_opt.problem import Privacy, Problem, real_number, whole_number

MOST_QUERIES = 10**9
"""Most queries of one plan, as in every account."""

_PRIOR = "the text of an objective that has a prior, such as rectangular, shared(2,5) or histogram(9,1,0,2)"


@dataclass(frozen=True)
class Situation:
    """Who votes, how often they are asked, and what all of it may cost.

    Attributes:
        K: voters.
        voter: (ε, Δ) of one voter: of one answer where they are fresh, of its training where they are trained once.
        queries: Q.
        total: (ε, δ) of all answers together.
        affected: voters that one record can influence.
        objective: how votes fall, and that it is agreement with the majority voted that counts.
        fresh: whether every answer has fresh randomness.
        least_accuracy: below this an answer is of no use.
        bags: how the voters' subsamples are drawn; None where a record reaches ``affected`` voters for certain.
        stop: whether the time is up; searches then return what they have.
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
    stop: Callable[[], bool] = field(default=never, compare=False, repr=False)

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
        stop: Callable[[], bool] = never,
    ) -> Situation:
        """Return the situation, every number checked.

        Args:
            K: number of voters, ≥ 1.
            voter: privacy of one voter; None where none is proved.
            queries: Q ≥ 1.
            total: (ε, δ) of all answers together.
            affected: how many voters one record can influence; None for all.
            prior: how votes fall.
            fresh: whether every voter draws fresh randomness for every answer.
            least_accuracy: below this an answer is of no use [probability], in [0.5, 1).
            n: records, where each voter is a model trained on a random subsample of its own; None for no draw.
            subsample_size: records drawn for one model, with ``n``.
            replacement: whether a record can be drawn twice within a subsample.
            sampling: without replacement, subsamples ``independent`` or ``disjoint``.
            stop: asked between the steps of each search.

        Raises:
            InvalidInput: naming the argument.
        """
        queries = whole_number(queries, "queries", f"a whole number of queries from 1 to {MOST_QUERIES}")
        if queries > MOST_QUERIES:
            raise InvalidInput("queries", queries, f"a whole number of queries from 1 to {MOST_QUERIES}")
        checked_total(total)
        problem = Problem(K, Privacy(math.inf) if voter is None else voter, total, affected)
        fresh = checked_fresh(fresh)
        accepted = "a probability in [0.5, 1)"
        least = real_number(least_accuracy, "least_accuracy", accepted)
        if not 0.5 <= least < 1:
            raise InvalidInput("least_accuracy", least_accuracy, accepted, "A fair coin has 0.5.")
        chosen = as_objective(prior)
        if not isinstance(chosen, Objective):
            raise InvalidInput("prior", prior, _PRIOR)
        objective = Objective(chosen.name, chosen.parameters, "agreement")
        objective.weights(problem.K)  # a histogram that is not one of K voters is refused here
        bags = checked_bags(problem, n, subsample_size, sampling, replacement=replacement)
        if bags is not None:
            bags.reach(problem.K)  # K disjoint subsamples of more than n records are refused here
        return cls(
            problem.K, problem.voter, queries, problem.target, problem.affected, objective, fresh, least, bags, stop
        )

    @property
    def prior(self) -> Prior:
        """How votes fall."""
        return self.objective.prior

    @property
    def reach(self) -> Reach | None:
        """How many voters one record reaches, where a draw decides it."""
        return None if self.bags is None else self.bags.reach(self.K)

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
        """The voters as one release of a γ may take them so that all releases compose; the target is the total."""
        return counted_voters(self.voters, self.queries, fresh=self.fresh)

    def accuracy(self, noise: NoiseFunction) -> float:
        """Return Pr[release = majority that was voted] under the prior; a tie counts as right."""
        from darrm_opt.error import disagreement

        return 1.0 - disagreement(noise, self.prior)

    def composing(self) -> str:
        """Return why releases compose, in words."""
        reach = f"one record reaches at most {self.affected} of the {self.K} voters"
        if self.bags is not None:
            reach = f"chance decides how many of the {self.K} voters one record reaches, {self.bags.reach(self.K).mean:.3g} on average"
        if not self.private:
            return f"Voters that are not private are taken as they are: {reach}, and every release tosses coins of its own."
        if self.queries == 1:
            return "One release, so nothing was released before it: the voters' own privacy counts."
        if self.fresh:
            return "Every answer has fresh randomness, so the voters' own privacy counts in every release."
        return (
            "Models trained once answer with the same randomness every time, so earlier releases say something of later "
            f"answers and the models' own privacy does not compose over releases. They are taken as they are: {reach}, "
            "and every release tosses coins of its own."
        )
