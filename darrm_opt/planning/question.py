"""Question to the planner: voters, queries, a total, the law of votes, and the account that holds for the voters.

The decisive point is what one release reveals about the next. Voters with fresh, independent randomness in every answer
stay independent given the data and earlier releases, so releases of a γ for their (ε, Δ) compose. Models trained once
answer with the same randomness every time: an earlier bit carries information about a model, and so about all its later
answers, and releases of such a γ do *not* compose. Two accounts hold for those: that of the models themselves, after
which everything is post-processing; and that of models taken as not private, some of which a record changes.

Between two classes a mechanism that never abstains is a γ, judged by an objective with a prior. Votes among more
classes, or with a price of wrong answers, are judged by their law (`VoteLaw`): vote counts with their masses; if these
are too many to list, a fixed sample of the prior. Between two classes both kinds of prior are accepted, as each is one
of the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from darrm_opt.accounting.calibrate import never_stop
from darrm_opt.accounting.freshness import check_fresh, effective_voters
from darrm_opt.accounting.mixture import AffectedDistribution
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.arguments import field_number, real_number
from darrm_opt.bagging import Bags
from darrm_opt.design.objective import AnyObjective, Objective, as_objective, histogram
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.mechanisms.base import VoteMechanism
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.optional_packages import needed_by
from darrm_opt.planning.best_target import check_total
from darrm_opt.priors import Prior
from darrm_opt.problem import NOT_PRIVATE, Privacy, Problem
from darrm_opt.tables.objective import PluralityObjective
from darrm_opt.tables.priors import PastVotes, PluralityPrior, Ties, is_class_prior, parse_prior, sample_counts
from darrm_opt.tables.problem import Histograms, has_table, histograms
from darrm_opt.tables.table import Table

MAX_EXACT_QUERIES = 500  # maximum number of queries for accounts whose time grows with it

SAMPLES, MIN_SAMPLES, SAMPLED_NUMBERS = 2000, 100, 100_000
"""Largest and smallest number of vote counts drawn from a prior that cannot be listed, and of votes in all of them."""

MIN_SECONDS = 1e-3  # time of a solve after its time limit [s]: its answer is private, but may be below the optimum

_PRIOR = "the text of an objective that has a prior, such as rectangular, shared(2,5) or histogram(9,1,0,2)"


AnyPrior: TypeAlias = "AnyObjective | Prior | PluralityObjective | PluralityPrior | str"
"""Distribution of votes: an objective with a prior, a prior of γ or of votes among classes, or the text of either."""

DEFAULT_PRIORS = "rectangular", "dirichlet(1)"  # default distribution of votes: between two classes, and among more


@dataclass(frozen=True)
class TwoClassVotes:
    """A symmetric prior of votes between two classes, as a `PluralityPrior`."""

    prior: Prior  # distribution of the number of K voters that choose one class

    def masses(self, cells: Histograms) -> Array:
        """Return the probability of each partition, shape (partitions,)."""
        folded = self.prior.folded(cells.K)
        ahead = {cells.K // 2 + 1 + place: mass for place, mass in enumerate(folded)}
        tie = max(0.0, 1.0 - float(folded.sum()))
        return np.array([ahead.get(partition[0], tie) for partition in cells.partitions])

    def __str__(self) -> str:
        return str(self.prior)


class VoteLaw:
    """Vote counts with their masses: all that can occur, and those that are judged (ties may be excluded)."""

    def __init__(self, objective: PluralityObjective, problem: Problem) -> None:
        # Counts are decreasing, shape (N, C); ``samples``: number of counts drawn from a prior with too many to list;
        # None for the whole law, or past votes.
        self.objective, self.samples = objective, None
        K, classes = problem.K, problem.classes
        prior = objective.prior
        if isinstance(prior, PastVotes):
            prior.check_shape(K, classes)
            self.counts = np.array([partition for partition, _ in prior.counts], dtype=np.intp)
            masses = np.array([times for _, times in prior.counts], dtype=np.float64)
        elif has_table(K, classes):
            cells = histograms(K, classes, 1, abstention=False)
            self.counts, masses = np.array(cells.partitions, dtype=np.intp), prior.masses(cells)
        else:
            self.samples = min(SAMPLES, max(MIN_SAMPLES, SAMPLED_NUMBERS // classes))
            self.counts, masses = sample_counts(prior, K, classes, self.samples), np.ones(self.samples)
        self.masses = masses / masses.sum()  # probability of each, shape (N,)
        # The same without ties, if they are excluded, shape (N,).
        self.judged = objective.judged(self.masses, self.counts[:, 0] > self.counts[:, 1])

    def utility(self, shares: tuple[float, float]) -> float:
        """Return right − price·wrong."""
        return shares[0] - self.objective.price * (shares[1] - shares[0])

    def leader_shares(self, mechanism: VoteMechanism) -> tuple[float, float]:
        """Return the shares of right answers and of answers of a mechanism that always answers."""
        return float(self.judged @ mechanism.leader_chances(self.counts)), 1.0

    def table_shares(self, table: Table) -> tuple[float, float]:
        """Return the shares of right answers and of answers of a table."""
        chances = table.nearest[table.cells.find(self.counts)]
        several = (self.counts == self.counts[:, :1]).sum(axis=1)
        right = float(self.judged @ (chances[:, 0] * several))
        return right, 1.0 - float(self.judged @ chances[:, -1]) if table.cells.abstention else 1.0

    def checked_shares(self, leads: Array, passes: Array, queries: int, cap: int) -> tuple[float, float]:
        """Return the shares of right answers and of answers if labels are checked and at most ``cap`` released."""
        chance = float(self.masses @ passes)
        released = _released_labels(queries, min(chance, 1.0), cap) / (queries * chance) if chance > 0 else 0.0
        return released * float(self.judged @ (leads * passes)), released * float(self.judged @ passes)


def _released_labels(queries: int, chance: float, cap: int) -> float:
    """Return E[min(N, cap)], N ~ Binomial(queries, chance)."""
    with needed_by("A vote among several classes"):
        from scipy.special import bdtr, bdtrc

    if cap >= queries:
        return queries * chance
    # Σ_{j ≤ cap} j·Pr[N = j] = Q·p·Pr[Binomial(Q − 1, p) ≤ cap − 1]
    return float(queries * chance * bdtr(cap - 1, queries - 1, chance) + cap * bdtrc(cap, queries, chance))


@dataclass(frozen=True)
class Question:
    """The voters, the queries, the total budget, and the requirements on answers.

    Attributes:
        K: voters.
        classes: C ≥ 2.
        voter: (ε, Δ) of one voter: of one answer if fresh, of its training if trained once.
        queries: Q.
        total: (ε, δ) of all answers together.
        affected: votes that one record can influence.
        objective: what a γ between two classes maximises; None for more classes.
        votes: distribution of votes between two classes; None for more classes.
        law: the law of votes if it is what judges: for more classes, a prior of classes, or a price; else None.
        fresh: whether every answer has fresh randomness.
        least_accuracy: answers that are right less often are useless.
        bags: how the voters' subsamples are drawn; None if a record affects exactly ``affected`` voters.
        sampling: how records are drawn anew for every query; None: no sampling.
        stop: returns True when the time is up; searches then return their best result so far.
    """

    K: int
    classes: int
    voter: Privacy
    queries: int
    total: Privacy
    affected: int
    objective: AnyObjective | None
    votes: Prior | None
    law: VoteLaw | None
    fresh: bool
    least_accuracy: float
    bags: Bags | None = None
    sampling: Sampling | None = None
    stop: Callable[[], bool] = field(default=never_stop, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        K: int,
        voter: Privacy | None,
        queries: int,
        total: Privacy,
        affected: int | None,
        prior: AnyPrior | None = None,
        *,
        classes: int = 2,
        objective: AnyObjective | str | None = None,
        ties: Ties = "excluded",
        price: float = 0.0,
        fresh: bool = False,
        least_accuracy: float | None = None,
        bags: Bags | None = None,
        sampling: Sampling | None = None,
        stop: Callable[[], bool] = never_stop,
    ) -> Question:
        """Return the validated question.

        Args:
            K: as for `plan`, like `voter`, `queries`, `total`, `classes`, `ties`, `price`, `fresh`, `least_accuracy`,
                `bags` and `sampling`.
            affected: None for all or, with a ``sampling`` whose voters share its records, for 1.
            prior: None: the objective's own, or one of `DEFAULT_PRIORS`.
            objective: what γ maximises between two classes; None: agreement with the majority under the prior.
            stop: called between the steps of each search.

        Raises:
            InvalidInput: naming the argument.
        """
        if not isinstance(sampling, Sampling | None):
            raise InvalidInput("sampling", sampling, "a Sampling or None")
        if not isinstance(bags, Bags | None):
            raise InvalidInput("bags", bags, "a Bags or None")
        if sampling is not None and bags is not None:
            advice = "Voters that share a fresh sample are not trained on subsamples."
            raise InvalidInput("bags", bags, Rule("cannot be combined with a sampling"), advice)
        if sampling is not None and voter is not None and voter.epsilon < math.inf:
            # From here on they are fresh voters with amplified privacy.
            voter, sampling = drawn_voter(voter, sampling, K, classes, affected, fresh), None
        queries = field_number(queries, "queries")
        check_total(total)
        affected = 1 if affected is None and sampling is not None else affected
        problem = Problem(K, Privacy(math.inf) if voter is None else voter, total, affected)
        # This validates the number of classes.
        shape = Problem(problem.K, NOT_PRIVATE, total, problem.affected, classes=classes)
        fresh = check_fresh(fresh)
        accepted = f"a probability in [{1 / classes:g}, 1)"
        least = 1 / classes + USEFUL * (1 - 1 / classes)
        if least_accuracy is not None:
            advice, guess = f"A guess has accuracy {1 / classes:g}.", 1 / classes
            least = real_number(least_accuracy, "least_accuracy", accepted, least=guess, below=1, advice=advice)
        judged = _judgement(shape, prior, objective, ties, price, always=sampling is not None)
        if bags is not None:
            bags.check_voters(problem)
            if classes > 2:
                advice = "The draw has no account there."
                raise InvalidInput("bags", bags, Rule("cannot be combined with three or more classes"), advice)
        # The smaller of the requested value and its canonical rounding: no plan spends more than requested.
        budget = Privacy(min(total.epsilon, problem.target.epsilon), min(total.delta, problem.target.delta))
        asked = (problem.K, shape.classes, problem.voter, queries, budget, problem.affected)
        return cls(*asked, *judged, fresh, least, bags, sampling, stop)

    @property
    def gamma_objective(self) -> AnyObjective:
        """The objective of a γ.

        Raises:
            InvalidInput: there are more than two classes.
        """
        if self.objective is None:
            raise InvalidInput("classes", self.classes, "2", "A gamma is for two classes.")
        return self.objective

    @property
    def vote_law(self) -> VoteLaw:
        """The law of votes, if it judges.

        Raises:
            InvalidInput: an objective of γ judges.
        """
        if self.law is None:
            raise InvalidInput("prior", self.prior_text, "a prior of classes, or a price")
        return self.law

    @property
    def price(self) -> float:
        """Cost of a wrong answer in right ones; 0 if nothing abstains."""
        return 0.0 if self.law is None else self.law.objective.price

    @property
    def prior_text(self) -> str:
        """The prior as text; past votes only by name."""
        prior = None if self.law is None else self.law.objective.prior
        if prior is None or isinstance(prior, TwoClassVotes):
            return str(self.objective).removesuffix(" agreement")
        return type(prior).__name__ if isinstance(prior, PastVotes) else str(prior)

    @property
    def quick(self) -> bool:
        """Whether only accounts whose time does not depend on the number of queries are used."""
        return self.queries > MAX_EXACT_QUERIES

    @property
    def problem(self) -> Problem:
        """The voters and the total, as a problem of tables."""
        return Problem(self.K, NOT_PRIVATE, self.total, self.affected, classes=self.classes)

    @property
    def affected_distribution(self) -> AffectedDistribution | None:
        """Distribution of the number of voters that one record affects, if it is random."""
        return None if self.bags is None else self.bags.affected_distribution(self.K)

    @property
    def private(self) -> bool:
        """Whether the voters are private."""
        return self.voter.epsilon < math.inf

    @property
    def voters(self) -> Problem:
        """The voters as given; the target is the total."""
        return Problem(self.K, self.voter, self.total, self.affected)

    @property
    def released(self) -> Problem:
        """The voters as in `effective_voters`, so that all releases compose; the target is the total.

        Among three or more classes they are taken as not private.
        """
        if self.classes > 2:
            return Problem(self.K, Privacy(math.inf), self.total, self.affected)
        return effective_voters(self.voters, self.queries, fresh=self.fresh)

    def accuracy(self, noise: NoiseFunction) -> float:
        """Return Pr[release = majority of the votes] under the prior; a tie counts as right."""
        from darrm_opt.accuracy import disagreement

        assert self.votes is not None  # noqa: S101 - for the type checker: a γ is for two classes
        return 1.0 - disagreement(noise, self.votes)

    def utility(self, right: float, wrong: float, noise: NoiseFunction | None) -> float:
        """Return the value that ranks options: right − price·wrong if the law of votes judges, else γ's objective.

        Args:
            right: share of right answers.
            wrong: share of wrong answers.
            noise: γ between two classes.
        """
        if self.law is not None or self.objective is None or noise is None:
            return right - self.price * wrong
        return self.objective.linear_goal(self.K).utility(noise.upper_half)

    def composing(self) -> str:
        """Return the reason why releases compose, as text."""
        if self.sampling is not None:
            return f"Every query has a fresh and secret sample: {self.sampling.words}, {self.sampling.neighbours}."
        affected = f"one record affects at most {self.affected} of the {self.K} voters"
        if self.bags is not None:
            mean = self.bags.affected_distribution(self.K).mean
            affected = f"one record affects a random number of the {self.K} voters, {mean:.3g} on average"
        if not self.private:
            return f"The voters are not private: {affected}, and every release uses fresh randomness."
        if self.classes > 2:
            return f"Votes are taken as not private: {affected}, and every release uses fresh randomness."
        if self.queries == 1:
            return "With a single release, the voters' own privacy holds."
        if self.fresh:
            return "Every answer has fresh randomness, so the voters' own privacy holds in every release."
        return (
            "Models trained once answer with the same randomness every time, so earlier releases carry information "
            "about later answers and the models' own privacy does not compose over releases. They are taken as not "
            f"private: {affected}, and every release uses fresh randomness."
        )


def end_of(time_limit: float | None) -> float:
    """Return the end of a time limit by the monotonic clock [s]; inf without a limit."""
    if time_limit is None:
        return math.inf
    return time.monotonic() + float(field_number(time_limit, "time_limit"))


def remaining(end: float) -> float | None:
    """Return the time until ``end`` [s]; None without a limit."""
    return None if end == math.inf else max(end - time.monotonic(), MIN_SECONDS)


def stop_at(end: float) -> Callable[[], bool]:
    """Return a function that returns whether the time is up."""
    return never_stop if end == math.inf else lambda: time.monotonic() >= end


def drawn_voter(voter: Privacy, sampling: Sampling, K: int, classes: int, affected: int | None, fresh: Any) -> Privacy:
    """Return the privacy of one answer of a private voter that draws its own records for it, as `Sampling.voter`.

    Raises:
        InvalidInput: voters that are not fresh, are not all affected, have more than two classes, or share a sample.
    """
    if not check_fresh(fresh):
        raise InvalidInput("fresh", fresh, "True if each private voter draws its own records for every query")
    if affected not in (None, K):
        raise InvalidInput("affected", affected, f"all {K} voters, as a record can reach each of them")
    if classes != 2:
        raise InvalidInput("classes", classes, "2 if private voters draw their own records")
    return sampling.voter(voter)


USEFUL = 0.2  # default least accuracy, as a share of the way from a guess to certainty: 0.6 between two classes


def _judgement(
    shape: Problem, prior: Any, objective: AnyObjective | str | None, ties: Ties, price: float, *, always: bool
) -> tuple[AnyObjective | None, Prior | None, VoteLaw | None]:
    """Return what γ maximises, the distribution of votes between two classes, and the law of votes if it judges."""
    two = shape.classes == 2
    if prior is None and objective is None:
        prior = DEFAULT_PRIORS[0 if two else 1]
    if not two or isinstance(prior, PluralityObjective | PluralityPrior) or is_class_prior(prior):
        if isinstance(prior, str):
            prior = parse_prior(prior)
        law = VoteLaw(prior if isinstance(prior, PluralityObjective) else PluralityObjective(prior, ties, price), shape)
        if not two:
            return None, None, law
        masses = np.zeros(shape.K + 1)  # both classes alike
        for place in (0, 1):
            np.add.at(masses, law.counts[:, place], law.judged / 2)
        gamma_objective = histogram(masses)
        return gamma_objective, gamma_objective.prior, law
    goal_of_gamma, votes = _binary(prior, objective)
    goal_of_gamma.check_voters(shape.K)
    goal = PluralityObjective(TwoClassVotes(votes), ties, price)
    return goal_of_gamma, votes, VoteLaw(goal, shape) if price or always else None


def _binary(prior: Any, objective: AnyObjective | str | None) -> tuple[AnyObjective, Prior]:
    """Return the objective and the distribution of votes, each derived from the other by default."""
    goal = None if objective is None else as_objective(objective)
    if prior is None:
        if not isinstance(goal, Objective):
            raise InvalidInput("prior", None, "a distribution of votes", f"The objective {goal} has no prior.")
        return goal, goal.prior
    if isinstance(prior, Prior):
        if goal is None:
            raise InvalidInput("objective", None, "the objective, with an unnamed prior")
        return goal, prior
    named = as_objective(prior)
    if not isinstance(named, Objective):
        raise InvalidInput("prior", prior, _PRIOR)
    return goal or Objective(named.name, named.parameters, "agreement"), named.prior
