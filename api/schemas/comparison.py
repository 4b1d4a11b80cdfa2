"""Comparison of release mechanisms within one budget, as a request and an answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, FiniteFloat

from api.errors.accepted import ACCEPTED
from api.schemas.accounts import EachAnswer, TotalRequest, prior_of
from api.schemas.design import objective_of
from api.schemas.fields import (
    EXAMPLES,
    AnswerModel,
    ObjectiveText,
    described,
)
from darrm_opt.design.objective import Objective
from darrm_opt.design_spec import DesignSpec
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import calibrated_names
from darrm_opt.problem import FRESH


class CompareRequest(TotalRequest):
    """Mechanisms that release a majority: same voters, same total privacy, same number of queries."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"K": 5, "epsilon": 0.3, "queries": 5, "total_epsilon": 1.0, "total_delta": 1e-3, "fresh": True}
            ]
        }
    )

    total_delta: Annotated[
        FiniteFloat,
        described(
            "δ of all releases together [probability]; above 0, as Gaussian noise, and rounding, leak a little.",
            minimum=0,
            exclusiveMaximum=1,
        ),
    ]
    objective: ObjectiveText = "rectangular"
    prior: Annotated[
        str | None,
        Field(
            max_length=20_000,
            description="How votes fall, for the accuracy: the text of an objective with a prior, such as "
            "histogram(9,1,0,2) for measured votes; by default the objective's own.",
            examples=["shared(2,5)"],
        ),
    ] = None

    def check(self) -> None:
        """Refuse numbers of the budget, a prior, or a draw, that are out of range.

        Raises:
            InvalidInput: naming the field.
            FieldError: the prior is not valid.
        """
        self.check_total()
        if self.prior is not None:
            prior_of(self.prior)
        if self.prior is None and not isinstance(objective_of(self.objective), Objective):
            raise InvalidInput("prior", None, ACCEPTED["prior"], f"{self.objective} has no prior of its own.")

    def spec(self) -> DesignSpec:
        """Return a design for these voters, at some target of no account.

        Raises:
            InvalidInput: a number is out of its range.
            FieldError: an objective is not valid for this K.
        """
        spec = self.voters_spec(self.objective)
        if self.prior is not None:
            self.check_prior(self.prior)
        from darrm_opt.bagging.guarantee import checked_bags

        bags = checked_bags(spec.problem, **self.draw())
        if bags is not None:
            bags.affected_distribution(self.K)
        return spec


class VotersAnswer(AnswerModel):
    """The voters, as they were understood."""

    K: int = Field(description="Number of voters [voters].")
    epsilon: FiniteFloat | Literal["inf"] = Field(description="ε of one voter [nats].")
    Delta: FiniteFloat = Field(description="Δ of one voter [probability].")
    affected: int = Field(description="How many voters one record can influence [voters].")


class MechanismAnswer(AnswerModel):
    """One mechanism, calibrated to the budget."""

    name: str = Field(
        description="The mechanism: optimal_sequence (one γ for all releases), "
        "optimal (γ_opt of one target), fewer_voters, majority, or one with a parameter: "
        f"{', '.join(calibrated_names())}."
    )
    parameter: str = Field(description="Name of its parameter.")
    value: FiniteFloat | int | None = Field(description="Value of the parameter; null where nothing fits the budget.")
    gamma: list[FiniteFloat] | None = Field(description="The γ of the mechanism [probability]; null likewise.")
    epsilon: FiniteFloat | None = Field(description="Total ε that it spends at the total δ [nats]; null likewise.")
    utility: FiniteFloat | None = Field(
        default=None, description="Share of the noiseless utility kept, by the objective; null likewise."
    )
    disagreement: FiniteFloat | None = Field(
        description="Pr[release ≠ majority that was voted] over the prior [probability]; null likewise."
    )
    tv_error: FiniteFloat | None = Field(
        description="|Pr[release = 1] − Pr[majority = 1]| over the prior [probability]; "
        "null where it has no closed form."
    )


class DrawAnswer(AnswerModel):
    """How the voters' subsamples are drawn, and whom one record reaches."""

    n: int = Field(description="Records in the dataset [records].")
    subsample_size: int = Field(description="Records drawn for one model [records].")
    replacement: bool = Field(description="Whether a record can be drawn twice within a subsample.")
    sampling: str = Field(description="independent or disjoint.")
    chance: FiniteFloat = Field(description="That one record is in one subsample [probability].")
    reached: FiniteFloat = Field(description="Voters that one record reaches on average [voters].")


class CompareAnswer(AnswerModel):
    """Every mechanism within one budget, the most useful first."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["COMPARE_EXAMPLE"]]})

    voters: VotersAnswer
    fresh: bool = Field(description=f"Whether the voters were taken to be fresh. {FRESH}")
    queries: int = Field(description="Number of releases [releases].")
    total: EachAnswer = Field(description="(ε, δ) of all releases together.")
    objective: str = Field(description="What γ_opt maximises.")
    draw: DrawAnswer | None = Field(
        default=None, description="The draw; null where a record reaches the affected voters for certain."
    )
    rows: list[MechanismAnswer] = Field(
        description="One for each mechanism, the most useful first; those that do not fit last."
    )
    without_noise: str = Field(
        default="",
        description="What needs no noise within the total, in words, as the plan says it; empty if nothing does.",
    )
    not_compared: dict[str, str] = Field(description="What has no place in the table, and why.")
