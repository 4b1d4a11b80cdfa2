"""Comparison of mechanisms for a majority: the planner's ranking as a table, with two errors for each mechanism.

Every mechanism for a vote between two answers that depends only on the number of ones, is symmetric and is never worse
than a coin *is* a noise function, γ(l) = 2·Pr[1 | l ones] − 1 for l > K/2 (Lemma 3.3 of the paper), Gaussian and
Laplace noise included. What remains to compare, at one total, is how often each is wrong. The rows are those of
`darrm_opt.planning.plan`.

For models trained on subsamples (`Bags`) the number of voters that one record affects is random, and every row is
accounted for by the average over its law (`accounting.mixture`); "laplace" is then DPBag by that account. DPBag's own
account is computed from the private votes and is not an (ε, δ) guarantee, so it is not in the table. Comparisons that
would take much longer than a minute are rejected before any work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accuracy import disagreement, tv_error
from darrm_opt.bagging import Bags
from darrm_opt.baselines import subsampling
from darrm_opt.design.objective import AnyObjective, Objective
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.candidates import check_draw
from darrm_opt.planning.option import Option
from darrm_opt.planning.plain_majority import private_model_count
from darrm_opt.planning.question import Question, drawn_voter
from darrm_opt.planning.ranking import ranked_options
from darrm_opt.priors import Prior
from darrm_opt.problem import Privacy, Problem

NOT_COMPARED = {
    "dpbag_data_dependent": "DPBag's own per-record loss depends on the private votes and is not an (epsilon, delta) "
    "guarantee; the row laplace uses the distribution of the affected voters instead, which does not depend on the data"
}
"""Mechanisms excluded from the table, and why."""


Measure = Literal["tv_error", "disagreement"]  # an error of a release


@dataclass(frozen=True)
class ComparisonRow:
    """One mechanism, at its best within the budget.

    Attributes:
        name: of the mechanism.
        parameter: name of its parameter.
        value: value of the parameter.
        noise: its γ; None if even its noisiest setting does not fit.
        epsilon: its total ε at the total δ [nats]; None likewise.
        utility: share of the noiseless utility kept, by the objective.
        disagreement: Pr[release ≠ majority of the votes] under the prior [probability].
        tv_error: |Pr[release = 1] − Pr[majority = 1]| averaged over the prior [probability]; None without a closed
            form.
    """

    name: str
    parameter: str
    value: float | None = None
    noise: NoiseFunction | None = None
    epsilon: float | None = None
    utility: float | None = None
    disagreement: float | None = None
    tv_error: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Every mechanism on equal terms, the most useful first.

    Attributes:
        problem: the voters; its target is not used.
        queries: Q.
        total: (ε, δ) of all releases together.
        objective: what γ_opt maximises and utility measures.
        prior: distribution of votes, for the two errors.
        rows: one for each mechanism, by utility; those that do not fit last.
        not_compared: excluded mechanisms, and why.
        measure: the relevant error: that of the objective, or disagreement under a separate prior.
        bags: how the voters' subsamples are drawn; None if a record always reaches ``problem.affected`` voters.
        fresh: whether the voters were taken to be fresh.
        without_noise: a sentence on what needs no noise within the total; empty if nothing does.
    """

    problem: Problem
    queries: int
    total: Privacy
    objective: str
    prior: Prior
    rows: tuple[ComparisonRow, ...]
    not_compared: dict[str, str]
    measure: Measure = "disagreement"
    bags: Bags | None = None
    fresh: bool = False
    without_noise: str = ""


def compare(
    problem: Problem,
    queries: int,
    total: Privacy,
    *,
    objective: str | AnyObjective = "rectangular",
    prior: Prior | None = None,
    bags: Bags | None = None,
    fresh: bool = False,
    sampling: Sampling | None = None,
    progress: Callable[[Option], None] | None = None,
) -> Comparison:
    """Return the utility of each mechanism for a majority, all within one total budget.

    Args:
        problem: voters (K, voter, affected); its target is not used.
        queries: as for `plan`, like `total`, `fresh` and `bags`.
        objective: what γ_opt maximises and the rows are ordered by. For your own votes, a `histogram` of them.
        prior: distribution of votes, for the errors; None: the objective's own.
        sampling: how each voter, private and fresh, draws its own records for every query: the voters compared are then
            the amplified ones, point by point for a profile. None: all records.
        progress: called with each option of the ranking as soon as it is known.

    Guarantees:
        Every row's γ, released ``queries`` times, is within ``total``, by the account of its option in `plan`. Up to
        `sequence_design.MAX_QUERIES` queries at a total δ above 0, no row but a plain majority has a larger utility
        than "optimal_sequence", except for rounding.

    Raises:
        InvalidInput: a value is out of range.
        TooMuchWork: the accounts of a draw would take much longer than a minute or two.

    >>> from darrm_opt import Privacy, Problem
    >>> table = compare(Problem.from_allowance(K=5, m=1, epsilon=0.3), 5, Privacy(1.0, 1e-3), fresh=True)
    >>> {row.name for row in table.rows[:2]} == {"optimal", "optimal_sequence"}  # equally useful here
    True
    >>> all(row.epsilon <= 1.0 for row in table.rows if row.epsilon is not None)
    True
    """
    problem = amplified(problem, sampling, fresh=fresh)
    question = Question.of(
        problem.K,
        problem.voter,
        queries,
        total,
        None if bags is not None and problem.affected == problem.K else problem.affected,
        prior,
        objective=objective,
        fresh=fresh,
        bags=bags,
    )
    # Before any work.
    check_draw(question.released, question.queries, question.total, question.affected_distribution)
    # Complete: the table shows mechanisms with noise even if the plain majority fits.
    options = ranked_options(question, progress=progress, complete=True)
    goal, votes = question.gamma_objective, question.votes
    assert votes is not None  # noqa: S101 - for the type checker: two classes
    return Comparison(
        problem=problem,
        queries=question.queries,
        total=total,
        objective=str(goal),
        prior=votes,
        rows=tuple(_row(option, question.K, votes) for option in options),
        not_compared=dict(NOT_COMPARED),
        measure=measure_of(goal, prior),
        bags=question.bags,
        fresh=fresh,
        without_noise=_without_noise(question, options, votes),
    )


def amplified(problem: Problem, sampling: Sampling | None, *, fresh: bool) -> Problem:
    """Return the problem with the voters' amplified privacy; the problem itself without a sampling.

    Raises:
        InvalidInput: the voters are not private, not fresh, not all affected, or share a sample.
    """
    if sampling is None:
        return problem
    if problem.is_public:
        advice = "Use a plan for voters that share a sample."
        raise InvalidInput("records", sampling.records, Rule("needs private voters"), advice)
    voter = drawn_voter(problem.voter, sampling, problem.K, problem.classes, problem.affected, fresh)
    return replace(problem, voter=voter)


def measure_of(goal: AnyObjective, prior: object) -> Measure:
    """Return the error that a comparison shows; ``prior`` is None if the votes are the objective's own."""
    # Under another prior than the objective's, utility and TV error would weight different votes.
    own_tv = prior is None and isinstance(goal, Objective) and goal.measure == "tv"
    return "tv_error" if own_tv else "disagreement"


def _row(option: Option, K: int, votes: Prior) -> ComparisonRow:
    parameter, value = next(iter(option.parameters.items()), ("", None))
    if option.spent is None:
        return ComparisonRow(option.name, parameter)
    noise = option.noise
    if noise is None:  # a plain majority, of all voters or of a few
        noise = NoiseFunction(np.ones(K + 1), K) if option.plain else subsampling(K, option.voters)
    errors = disagreement(noise, votes), _tv_error(noise, votes)
    return ComparisonRow(option.name, parameter, value, noise, option.spent.epsilon, option.utility, *errors)


def _without_noise(question: Question, options: tuple[Option, ...], votes: Prior) -> str:
    """Return a sentence on what needs no noise within the total; empty if nothing does."""
    if options[0].plain and options[0].fits:
        return "The plain majority is within this total: no noise is needed."
    count = 0 if question.fresh else private_model_count(question.voters, question.total)
    if count == 0:
        return ""
    agreement = 1.0 - disagreement(subsampling(question.K, count), votes)
    some = f"the plain majority of any {count}" if count > 1 else "any one"
    return (
        f"Without noise: {some} of the {question.K} models, chosen without looking at "
        "the data, is within this total for any number of queries, and is the majority of all with probability "
        f"{agreement:.4f} (fewer_voters)."
    )


def _tv_error(noise: NoiseFunction, votes: Prior) -> float | None:
    try:
        return tv_error(noise, votes)
    except InvalidInput:
        return None
