"""Composition: the total privacy of many releases, as a request and an answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat

from api.errors.accepted import ACCEPTED
from api.errors.problem_details import FieldError
from api.schemas.design import DesignRequest, ProblemAnswer, nats, objective_of
from api.schemas.fields import (
    EXAMPLES,
    Affected,
    Allowance,
    AnswerModel,
    Backend,
    Fresh,
    ObjectiveText,
    OptionalGamma,
    ReleaseDelta,
    RequestModel,
    Shape,
    TargetEpsilon,
    VoterDelta,
    VoterEpsilon,
    Voters,
    described,
)
from darrm_opt.answers import DRAW
from darrm_opt.design.objective import Objective
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import FRESH, MAX_TARGET_EPSILON, Privacy
from darrm_opt.record import DesignSpec

MAX_QUERIES = 10**9
"""Most releases of one account, as in the core."""

Queries = Annotated[int, described("Number of releases Q [releases].", minimum=1, maximum=MAX_QUERIES)]


class BudgetFields(RequestModel):
    """Releases, and the privacy of all of them together."""

    queries: Queries = 1
    total_epsilon: Annotated[
        FiniteFloat, described("ε of all releases together [nats].", exclusiveMinimum=0, maximum=500)
    ]
    total_delta: Annotated[
        FiniteFloat, described("δ of all releases together [probability].", minimum=0, exclusiveMaximum=1)
    ] = 0.0

    def total(self) -> Privacy:
        """Return the privacy of all releases; refuse a number of them, or of the total, that is out of its range."""
        check_queries(self.queries)
        if not 0 < self.total_epsilon <= MAX_TARGET_EPSILON:
            raise InvalidInput("total_epsilon", self.total_epsilon, ACCEPTED["total_epsilon"])
        probability(self.total_delta, "total_delta")
        return Privacy(self.total_epsilon, self.total_delta)


class TotalRequest(BudgetFields):
    """Base of requests about the mechanisms within a total: voters, releases, and the privacy of all together."""

    K: Voters
    epsilon: VoterEpsilon
    Delta: VoterDelta = 0.0
    affected: Affected = None
    fresh: Fresh = False
    n: Annotated[
        int | None,
        described(
            "Records in the dataset, where each voter is a model trained on a subsample of them [records].", minimum=2
        ),
    ] = None
    subsample_size: Annotated[int | None, described("Records drawn for one model, with n [records].", minimum=1)] = None
    replacement: Annotated[bool, Field(description="Whether a record can be drawn twice within a subsample.")] = True

    def draw(self) -> dict[str, Any]:
        """Return how the voters' subsamples are drawn; `sampling` is a field of every such request."""
        return {name: getattr(self, name) for name in DRAW}

    def voters_spec(self, objective: str = "rectangular") -> DesignSpec:
        """Return a design for these voters, at some target of no account."""
        return DesignRequest(
            K=self.K,
            epsilon=self.epsilon,
            Delta=self.Delta,
            affected=self.affected,
            target_epsilon=1.0,
            objective=objective,
        ).spec()


def prior_of(text: str, K: int | None = None) -> Objective:
    """Return the objective of a text whose prior says how votes fall; with K, one that is valid for so many voters."""
    objective = objective_of(text, "prior")
    if not isinstance(objective, Objective):
        raise InvalidInput("prior", text, ACCEPTED["prior"])
    try:
        if K is not None:
            objective.check_voters(K)
    except InvalidInput as err:
        raise FieldError("prior", err) from err
    return objective


class ComposeRequest(RequestModel):
    """What Q releases cost together.

    Without `K`: `epsilon` and `delta` are those of one release. With `K` (and `m` or `target_epsilon`) they belong to a
    problem as everywhere, `epsilon` to one voter; then γ_opt is designed, or `gamma` is given, and the accounts that
    know the very γ are asked too.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"epsilon": 0.3, "delta": 1e-5, "queries": 100, "slack": 1e-4},
                {"K": 11, "m": 3, "epsilon": 0.0892, "Delta": 1e-4, "queries": 20, "slack": 1e-4, "fresh": True},
            ]
        }
    )

    K: Annotated[int | None, described("Number of voters [voters].", minimum=1)] = None
    m: Allowance = None
    epsilon: VoterEpsilon
    Delta: VoterDelta = 0.0
    delta: ReleaseDelta = None
    affected: Affected = None
    target_epsilon: TargetEpsilon = None
    objective: ObjectiveText = "rectangular"
    shape: Shape = "free"
    backend: Backend = "highs"
    gamma: OptionalGamma = None
    queries: Queries = 1
    fresh: Fresh = False
    slack: Annotated[FiniteFloat, described("δ′ of the closed form [probability].", minimum=0, exclusiveMaximum=1)] = (
        1e-4
    )
    total_delta: Annotated[
        FiniteFloat | None,
        described(
            "δ of all releases together [probability]; by default 1 − (1−δ)^Q (1−slack).", minimum=0, exclusiveMaximum=1
        ),
    ] = None

    def check(self) -> None:
        """Refuse numbers of the account that are out of range."""
        check_queries(self.queries)
        probability(self.slack, "slack")
        if self.total_delta is not None:
            probability(self.total_delta, "total_delta")

    def each(self) -> tuple[float, float]:
        """Return (ε, δ) of one release, where no problem is given."""
        for name in ("m", "affected", "target_epsilon", "gamma", "fresh"):
            if (value := getattr(self, name) or None) is not None:
                raise InvalidInput(name, value, f"no {name} without K", "epsilon and delta are those of one release.")
        if self.Delta != 0:
            raise InvalidInput("Delta", self.Delta, "no Delta without K", "epsilon and delta are those of one release.")
        if not 0 <= nats(self.epsilon) <= MAX_TARGET_EPSILON:
            accepted = f"a number of nats from 0 to {MAX_TARGET_EPSILON:g}"
            raise InvalidInput("epsilon", self.epsilon, accepted)
        return nats(self.epsilon), probability(0.0 if self.delta is None else self.delta, "delta")

    def design(self) -> DesignRequest:
        """Return the problem as a design, where K is given."""
        names = set(DesignRequest.model_fields) & set(type(self).model_fields)
        return DesignRequest(**{name: getattr(self, name) for name in names})


def check_queries(queries: int) -> None:
    """Refuse a number of releases that is none."""
    if not 1 <= queries <= MAX_QUERIES:
        raise InvalidInput("queries", queries, f"a whole number of releases from 1 to {MAX_QUERIES}")


def probability(value: float, field: str) -> float:
    """Return ``value`` if it is in [0, 1)."""
    if not 0 <= value < 1:
        raise InvalidInput(field, value, ACCEPTED[field])
    return value


class AccountAnswer(AnswerModel):
    """The total by one account, or why there is none."""

    epsilon: FiniteFloat | None = Field(description="Total ε [nats]; null where the account refuses.")
    delta: FiniteFloat | None = Field(description="At this total δ [probability]; null where the account refuses.")
    epsilon_at_least: FiniteFloat | None = Field(
        default=None,
        description="With bits: an ε that some adversary attains at the total δ [nats]; no account can be below it.",
    )
    refused: str | None = Field(default=None, description="Why the account gives no number.")
    method: str | None = Field(default=None, description="Which account is the best.")


class EachAnswer(AnswerModel):
    """Privacy of one release."""

    epsilon: FiniteFloat = Field(description="ε of one release [nats].")
    delta: FiniteFloat = Field(description="δ of one release [probability].")


class SuggestionAnswer(AnswerModel):
    """A change of the request that makes an option useful; proved."""

    change: Literal["queries", "total"] = Field(description="What to change.")
    queries: int | None = Field(description="How many would fit [releases]; null: without limit.")
    total: EachAnswer = Field(description="Within which total.")
    accuracy: FiniteFloat = Field(description="At least this [probability].")
    words: str = Field(description="The same in words.")


class ComposeAnswer(AnswerModel):
    """The total by every sound account."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["COMPOSE_EXAMPLE"]]})

    each: EachAnswer
    queries: int = Field(description="Number of releases [releases].")
    fresh: bool = Field(description=f"Whether the voters were taken to be fresh; false where there are none. {FRESH}")
    problem: ProblemAnswer | None = Field(description="The problem; null where only (ε, δ) of one release was given.")
    gamma: list[FiniteFloat] | None = Field(description="The γ that is released [probability]; null likewise.")
    accounts: dict[str, AccountAnswer] = Field(
        description="By name: simple, general, optimal and pld; with a γ also profile, bits and best, the least of "
        "all; for voters that were trained once also models."
    )
