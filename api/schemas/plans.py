"""Planning: which release mechanism to use, as a request and an answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat

from api.errors.accepted import ACCEPTED
from api.errors.exceptions import FieldError
from api.schemas.accounts import EachAnswer, Queries, check_queries, probability
from api.schemas.comparison import DrawAnswer, VotersAnswer
from api.schemas.design import DesignRequest, ProblemAnswer, objective_of
from api.schemas.fields import (
    EXAMPLES,
    Affected,
    AnswerModel,
    Fresh,
    RequestModel,
    VoterDelta,
    VoterEpsilon,
    Voters,
    described,
)
from darrm_opt.design.objective import Objective
from darrm_opt.design_spec import DesignSpec
from darrm_opt.errors import InvalidInput
from darrm_opt.planning.options import MECHANISMS
from darrm_opt.problem import FRESH, MAX_TARGET_EPSILON


class PlanRequest(RequestModel):
    """Voters, queries and a budget: what should be released?"""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"K": 11, "epsilon": 0.5, "affected": 1, "queries": 1000, "total_epsilon": 1.0},
                {"K": 3, "epsilon": "inf", "affected": 1, "queries": 2, "total_epsilon": 2.0, "total_delta": 1e-5},
            ]
        }
    )

    K: Voters
    epsilon: VoterEpsilon
    Delta: VoterDelta = 0.0
    affected: Affected = None
    queries: Queries = 1
    total_epsilon: Annotated[
        FiniteFloat, described("ε of all answers together [nats].", exclusiveMinimum=0, maximum=500)
    ]
    total_delta: Annotated[
        FiniteFloat, described("δ of all answers together [probability].", minimum=0, exclusiveMaximum=1)
    ] = 0.0
    prior: Annotated[
        str,
        Field(
            max_length=20_000,
            description="How votes fall: the text of an objective with a prior, such as shared(2,5), or "
            "histogram(9,1,0,2) for votes that were counted.",
            examples=["shared(2,5)"],
        ),
    ] = "rectangular"
    fresh: Fresh = False
    least_accuracy: Annotated[
        FiniteFloat, described("Below this an answer is of no use [probability].", minimum=0.5, exclusiveMaximum=1)
    ] = 0.6

    n: Annotated[
        int | None,
        described("Records, where each voter is a model trained on a random subsample of them [records].", minimum=2),
    ] = None
    subsample_size: Annotated[int | None, described("Records drawn for one model, with `n` [records].", minimum=1)] = (
        None
    )
    replacement: Annotated[
        bool, Field(description="With `n`: whether a record can be drawn twice within a subsample.")
    ] = True
    sampling: Annotated[
        Literal["independent", "disjoint"],
        Field(description="With `n`, without replacement: how the subsamples are drawn."),
    ] = "independent"
    time_limit: Annotated[
        FiniteFloat | None,
        described(
            "About how long to search [s]: then the plan is what was found, all of it proved.", exclusiveMinimum=0
        ),
    ] = None

    def draw(self) -> dict[str, Any]:
        """Return how subsamples are drawn, as keyword arguments of `darrm_opt.planning.plan`."""
        return {name: getattr(self, name) for name in ("n", "subsample_size", "replacement", "sampling")}

    def spec(self) -> DesignSpec:
        """Return a design for these voters, with the total as its target.

        Raises:
            InvalidInput: a number is out of its range.
            FieldError: the prior is not valid for this K.
        """
        check_queries(self.queries)
        if not 0 < self.total_epsilon <= MAX_TARGET_EPSILON:
            raise InvalidInput("total_epsilon", self.total_epsilon, ACCEPTED["total_epsilon"])
        probability(self.total_delta, "total_delta")
        if not 0.5 <= self.least_accuracy < 1:
            raise InvalidInput("least_accuracy", self.least_accuracy, ACCEPTED["least_accuracy"])
        if self.time_limit is not None and not self.time_limit > 0:
            raise InvalidInput("time_limit", self.time_limit, ACCEPTED["time_limit"])
        chosen = objective_of(self.prior, "prior")
        if not isinstance(chosen, Objective):
            raise InvalidInput("prior", self.prior, ACCEPTED["prior"])
        try:
            chosen.linear_goal(self.K)
        except InvalidInput as err:
            raise FieldError("prior", err) from err
        return DesignRequest(
            K=self.K, epsilon=self.epsilon, Delta=self.Delta, affected=self.affected, target_epsilon=1.0
        ).spec()


class OptionAnswer(AnswerModel):
    """One mechanism, calibrated to the total."""

    mechanism: str = Field(
        description=f"The mechanism, one of {', '.join(MECHANISMS)}; optimal: γ_opt of one target; optimal_sequence: one γ for "
        "all queries at once."
    )
    fits: bool = Field(description="Whether any amount of it is within the total.")
    accuracy: FiniteFloat | None = Field(
        description="Pr[release = majority that was voted] over the prior [probability]; null where it does not fit."
    )
    queries: int | None = Field(description="Answers allowed [releases]; null: without limit, or it does not fit.")
    spent: EachAnswer | None = Field(description="(ε, δ) of all of them together, proved; null where it does not fit.")
    account: str = Field(
        description="What proves that: post-processing, votes, bits, profile, optimal or simple; none where it does not fit."
    )
    voters: int = Field(description="Whose majority is released [voters].")
    problem: ProblemAnswer | None = Field(
        description="The voters and the target of one release for which γ is proved; null where no γ is needed."
    )
    gamma: list[FiniteFloat] | None = Field(description="γ(0..K) [probability]; null likewise.")
    why: str = Field(description="In words.")


class SuggestionAnswer(AnswerModel):
    """A change of the request that makes an option useful; proved."""

    change: Literal["queries", "total"] = Field(description="What to change.")
    queries: int | None = Field(description="How many would fit [releases]; null: without limit.")
    total: EachAnswer = Field(description="Within which total.")
    accuracy: FiniteFloat = Field(description="At least this [probability].")
    words: str = Field(description="The same in words.")


class PlanAnswer(AnswerModel):
    """Plan: what to do, and every mechanism compared."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["PLAN_EXAMPLE"]]})

    voters: VotersAnswer
    fresh: bool = Field(description=f"Whether the voters were taken to be fresh. {FRESH}")
    draw: DrawAnswer | None = Field(
        default=None, description="How the voters' subsamples are drawn; null where nothing was said of it."
    )
    queries: int = Field(description="Answers wanted [releases].")
    total: EachAnswer = Field(description="(ε, δ) of all answers together.")
    prior: str = Field(description="How votes fall.")
    least_accuracy: FiniteFloat = Field(description="Below this an answer is of no use [probability].")
    verdict: Literal["plain majority", "noisy majority", "none"] = Field(
        description="plain majority: this mechanism is not needed; none: no option is of use."
    )
    advice: str = Field(description="What to do and why, in words.")
    options: list[OptionAnswer] = Field(
        description="One for each mechanism, the most accurate first; those that do not fit last."
    )
    suggestions: list[SuggestionAnswer] = Field(description="If no option is useful: changes that make one useful.")
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")
