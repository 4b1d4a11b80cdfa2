"""Design and estimate of one noise function, as requests and answers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, FiniteFloat

from api.schemas.fields import AnswerModel, ProfileAnswer, TargetsAnswer
from api.schemas.questions import model_of_answer, model_of_question
from darrm_opt.questions import design as _design
from darrm_opt.questions.design import Design


class ProblemAnswer(AnswerModel):
    """The problem as it was understood: every number canonical."""

    K: int = Field(description="Number of voters [voters].")
    m: FiniteFloat | None = Field(description="Privacy allowance; null for epsilon = 0 and 'inf'.")
    epsilon: FiniteFloat | Literal["inf"] = Field(description="ε of one voter [nats].")
    Delta: FiniteFloat = Field(description="Δ of one voter [probability].")
    profile: ProfileAnswer = None
    target_epsilon: FiniteFloat = Field(description="ε of the release [nats].")
    delta: FiniteFloat = Field(description="δ of the release [probability].")
    targets: TargetsAnswer = None
    affected: int = Field(description="How many voters one record can influence [voters].")


DesignRequest = model_of_question(Design)

GammaAnswer = model_of_answer(_design.GammaAnswer)

EstimateAnswer = model_of_answer(_design.EstimateAnswer)
