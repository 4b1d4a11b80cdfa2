"""Design and estimate of one noise function, as requests and answers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, FiniteFloat

from api.errors.problem_details import WorkLimitExceeded
from api.schemas.fields import AnswerModel, ProfileAnswer, TargetsAnswer
from api.schemas.questions import model_of_answer, model_of_question
from api.tasks.design import DesignTask
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.scenarios import ScenarioObjective
from darrm_opt.questions import design as _design
from darrm_opt.questions.design import Design

MAX_SCENARIO_VOTERS = 100_000
"""Most scenarios times voters of an objective over scenarios.

Drawing them, before anything is queued, takes at most a tenth of a second.
"""


def check_scenarios(objective: AnyObjective, K: int) -> None:
    """Refuse an objective over more scenarios than are drawn for one request."""
    if isinstance(objective, ScenarioObjective):
        parameters = dict(objective.parameters)
        count = int(parameters.get("points", parameters.get("scenarios", 0)))
        if count * K > MAX_SCENARIO_VOTERS:
            accepted = f"at most {MAX_SCENARIO_VOTERS // K} scenarios or points for {K} voters"
            raise WorkLimitExceeded(f"objective = '{objective}' is not valid: expected {accepted}.", field="objective")


def design_task(asked: Design) -> DesignTask:
    """Return the task of a design."""
    check_scenarios(as_objective(asked.objective), asked.K)
    return DesignTask(asked.spec(), asked.method, asked.backend, asked.time_limit, asked.gap)


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
