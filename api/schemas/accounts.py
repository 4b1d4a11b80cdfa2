"""Accounts of many releases: composition, the cost of a mechanism and its calibration, as requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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
    Voters,
    about,
)
from darrm_opt.answers import DRAW
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS
from darrm_opt.privacy_curves import profile_in_total, remote_curve
from darrm_opt.problem import FRESH, MAX_TARGET_EPSILON, Privacy
from darrm_opt.questions.design import Design, nats
from darrm_opt.record import DesignSpec

Queries = Annotated[int, about("queries")]

TotalEpsilon = Annotated[FiniteFloat, about("total_epsilon")]

TotalDelta = Annotated[FiniteFloat, about("total_delta")]


class BudgetFields(RequestModel):
    """Releases, and the privacy of all of them together."""

    queries: Queries = 1
    total_epsilon: TotalEpsilon
    total_delta: TotalDelta = 0.0

    def total(self) -> Privacy:
        """Return the privacy of all releases."""
        return Privacy(self.total_epsilon, self.total_delta)


class TotalRequest(BudgetFields):
    """Base of requests about the mechanisms within a total: voters, releases, and the privacy of all together."""

    K: Voters
    epsilon: OptionalVoterEpsilon = None
    Delta: VoterDelta = 0.0
    profile: StatedProfile = None
    affected: Affected = None
    fresh: Fresh = False
    n: Annotated[int | None, about("n")] = None
    subsample_size: Annotated[int | None, about("subsample_size")] = None
    replacement: Annotated[bool, about("replacement")] = True

    def draw(self) -> dict[str, Any]:
        """Return how the voters' subsamples are drawn; `sampling` is a field of every such request."""
        return {name: getattr(self, name) for name in DRAW}

    def voters_spec(self, objective: str = "rectangular") -> DesignSpec:
        """Return a design for these voters, at some target of no account."""
        given: dict[str, Any] = {}
        if self.profile is not None:
            share = self.K, self.queries, self.total_delta, self.affected
            voter = profile_in_total(remote_curve(self.profile), *share, fresh=self.fresh)
            given = {"profile": [list(point) for point in voter.points], "delta": self.total_delta or None}
        return Design.of(vars(self) | {"target_epsilon": 1.0, "objective": objective, **given}).spec()


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

    each: EachAnswer
    queries: int = Field(description="Number of releases [releases].")
    fresh: bool = Field(description=f"Whether the voters were taken to be fresh; false where there are none. {FRESH}")
    problem: ProblemAnswer | None = Field(description="The problem; null where only (ε, δ) of one release was given.")
    gamma: list[FiniteFloat] | None = Field(description="The γ that is released [probability]; null likewise.")
    accounts: dict[str, AccountAnswer] = Field(
        description="By name: simple, general, optimal and pld; with a γ also profile, bits (or, for more "
        "releases, renyi and gaussian) and best, the least of all; for voters that were trained once also models."
    )
