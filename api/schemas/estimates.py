"""What an answer would cost."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, FiniteFloat

from api.examples import ESTIMATE_EXAMPLE
from api.schemas.design import ProblemAnswer
from api.schemas.fields import Answer


class EstimateAnswer(Answer):
    """What a request would cost; nothing was solved."""

    model_config = ConfigDict(json_schema_extra={"examples": [ESTIMATE_EXAMPLE]})

    id: str = Field(description="Content key that the γ has or would have.")
    problem: ProblemAnswer
    objective: str = Field(description="What would be maximised.")
    shape: str = Field(description="free or monotone.")
    constraints: int = Field(description="Size of the permutation-reduced constraint set [rows].")
    method: Literal["cuts", "enumerate"] = Field(description="How it would be solved.")
    seconds: FiniteFloat = Field(description="Expected time of the solve on one processor [s]; 0 if it is kept.", ge=0)
    kept: bool = Field(description="Whether the answer is kept already.")
    allowed: bool = Field(description="Whether this server would solve it, within its bounds.")
    basis: str = Field(description="What the expectation rests on.")
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")
