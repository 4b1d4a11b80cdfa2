"""Design and estimate of one noise function, as requests and answers."""

from __future__ import annotations

from api.schemas.questions import model_of_answer, model_of_question
from darrm_opt.questions import design as _design
from darrm_opt.questions.design import Design

ProblemAnswer = model_of_answer(_design.ProblemAnswer)

DesignRequest = model_of_question(Design)

GammaAnswer = model_of_answer(_design.GammaAnswer)

EstimateAnswer = model_of_answer(_design.EstimateAnswer)
