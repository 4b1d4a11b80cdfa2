"""Accounts of many releases: composition, as a request and an answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, FiniteFloat

from api.schemas.design import ProblemAnswer
from api.schemas.fields import (
    Affected,
    Allowance,
    AnswerModel,
    Backend,
    Fresh,
    ObjectiveText,
    OptionalGamma,
    OptionalVoterEpsilon,
    ReleaseDelta,
    RequestModel,
    Shape,
    StatedProfile,
    TargetEpsilon,
    VoterDelta,
    about,
)
from api.schemas.questions import model_of_answer
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS
from darrm_opt.problem import FRESH, MAX_TARGET_EPSILON
from darrm_opt.questions.design import nats
from darrm_opt.questions.voters import EachAnswer

Queries = Annotated[int, about("queries")]


class ComposeRequest(RequestModel):
    """What Q releases cost together.

    Without `K`: `epsilon` and `delta` are those of one release. With `K` (and `m` or `target_epsilon`) they belong to a
    problem as everywhere, `epsilon` to one voter; then γ_opt is designed, or `gamma` is given, and the accounts that
    know the very γ are asked too.
    """

    K: Annotated[int | None, about("K")] = None
    m: Allowance = None
    epsilon: OptionalVoterEpsilon = None
    Delta: VoterDelta = 0.0
    profile: StatedProfile = None
    delta: ReleaseDelta = None
    affected: Affected = None
    target_epsilon: TargetEpsilon = None
    objective: ObjectiveText = "rectangular"
    shape: Shape = "free"
    backend: Backend = "highs"
    gamma: OptionalGamma = None
    queries: Queries = 1
    fresh: Fresh = False
    slack: Annotated[FiniteFloat, about("slack")] = 1e-4
    total_delta: Annotated[FiniteFloat | None, about("total_delta", otherwise="by default 1 − (1−δ)^Q (1−slack)")] = (
        None
    )

    def each(self) -> tuple[float, float]:
        """Return (ε, δ) of one release, where no problem is given."""
        for name in ("m", "affected", "target_epsilon", "gamma", "fresh", "Delta", "profile"):
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise InvalidInput(name, value, f"no {name} without K", "epsilon and delta are those of one release.")
        if not nats(self.epsilon) <= MAX_TARGET_EPSILON:
            raise InvalidInput("epsilon", self.epsilon, FIELDS["epsilon"].of(most=MAX_TARGET_EPSILON, says="").accepted)
        return nats(self.epsilon), 0.0 if self.delta is None else self.delta


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


class ComposeAnswer(AnswerModel):
    """The total by every sound account."""

    each: model_of_answer(EachAnswer)  # type: ignore[valid-type]  # a model that is made
    queries: int = Field(description="Number of releases [releases].")
    fresh: bool = Field(description=f"Whether the voters were taken to be fresh; false where there are none. {FRESH}")
    problem: ProblemAnswer | None = Field(description="The problem; null where only (ε, δ) of one release was given.")
    gamma: list[FiniteFloat] | None = Field(description="The γ that is released [probability]; null likewise.")
    accounts: dict[str, AccountAnswer] = Field(
        description="By name: simple, general, optimal and pld; with a γ also profile, bits (or, for more "
        "releases, renyi and gaussian) and best, the least of all; for voters that were trained once also models."
    )
