"""The inverse question, which m or which ε reaches a utility, as request and answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, FiniteFloat

from api.schemas.curves import TradeoffPoint
from api.schemas.design import DesignRequest, nats
from api.schemas.fields import (
    EXAMPLES,
    Affected,
    Allowance,
    AnswerModel,
    Backend,
    ObjectiveText,
    ReleaseDelta,
    RequestModel,
    Shape,
    VoterDelta,
    Voters,
    described,
)
from darrm_opt.design.inverse import DIGITS, MAX_DIGITS, MIN_DIGITS, Parameter, problem_at
from darrm_opt.record import DesignSpec


class LeastRequest(RequestModel):
    """The inverse question: the least m, target ε or voter's ε whose certified γ reaches a utility or an agreement.

    Give `epsilon` and search for `m` or, where m has no meaning, for `target_epsilon`; or give `m` and search for
    `epsilon`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"K": 5, "epsilon": 0.1, "Delta": 1e-5, "utility": 0.95},
                {"K": 11, "m": 3, "parameter": "epsilon", "utility": 0.95},
                {
                    "K": 11,
                    "epsilon": "inf",
                    "affected": 1,
                    "delta": 1e-5,
                    "parameter": "target_epsilon",
                    "agreement": 0.9,
                },
            ]
        }
    )

    K: Voters
    parameter: Annotated[Parameter, Field(description="What is searched for.")] = "m"
    utility: Annotated[
        FiniteFloat | None,
        described("Wanted share of the noiseless utility; or give agreement.", exclusiveMinimum=0, maximum=1),
    ] = None
    agreement: Annotated[
        FiniteFloat | None,
        described(
            "Wanted chance that the released bit is the majority that was voted, under the objective's prior "
            "[probability]; the objective is then taken with that measure.",
            exclusiveMinimum=0.5,
            maximum=1,
        ),
    ] = None
    m: Allowance = None
    epsilon: Annotated[
        FiniteFloat | Literal["inf"] | None,
        described(
            "ε of one voter [nats]; 'inf': the voter is not private. Left out where it is searched for.", minimum=0
        ),
    ] = None
    Delta: VoterDelta = 0.0
    delta: ReleaseDelta = None
    affected: Affected = None
    objective: ObjectiveText = "rectangular"
    shape: Shape = "free"
    digits: Annotated[int, described("Significant digits of the number.", minimum=MIN_DIGITS, maximum=MAX_DIGITS)] = (
        DIGITS
    )
    backend: Backend = "highs"

    def spec(self) -> DesignSpec:
        """Return one of the designs that the search makes: what it is expected to cost tells what they all will."""
        epsilon = None if self.epsilon is None else nats(self.epsilon)
        problem = problem_at(self.parameter, 1.0, self.K, self.m, epsilon, self.Delta, self.delta, self.affected)
        return DesignRequest(
            K=self.K,
            epsilon="inf" if problem.voter.epsilon == float("inf") else problem.voter.epsilon,
            Delta=self.Delta,
            delta=self.delta,
            affected=self.affected,
            target_epsilon=problem.target.epsilon,
            objective=self.objective,
            shape=self.shape,
        ).spec()


class NeighbourAnswer(AnswerModel):
    """The number next below, which does not reach what was wanted."""

    value: FiniteFloat = Field(description="The number.")
    reached: FiniteFloat = Field(description="Utility or agreement of its γ_opt.")
    bound: FiniteFloat = Field(description="Proven bound on that of any γ that is private there.")
    design: TradeoffPoint = Field(description="Its certified γ.")


class LeastAnswer(AnswerModel):
    """The least m, target ε or voter's ε whose certified γ reaches what was wanted."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["LEAST_EXAMPLE"]]})

    parameter: Parameter = Field(description="What was searched for.")
    value: FiniteFloat = Field(description="The least number found; ε in nats.")
    measure: Literal["utility", "agreement"] = Field(description="What must be reached.")
    wanted: FiniteFloat = Field(description="How much of it was wanted.")
    reached: FiniteFloat = Field(description="How much the γ has.")
    is_least: bool = Field(
        description="Whether it is proved that no smaller number of so many digits would do; never for epsilon, for "
        "which the utility need not grow, nor where the smallest that is tried reaches it, unless that is 0."
    )
    objective: str = Field(description="What was maximised.")
    shape: str = Field(description="free or monotone.")
    design: TradeoffPoint = Field(description="The certified γ at exactly that number.")
    below: NeighbourAnswer | None = Field(
        description="The number next below, and what it reaches; null if the smallest that is tried reaches it."
    )
