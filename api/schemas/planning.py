"""Many problems at once, answers that are not there yet, and what an answer would cost."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat

from api.examples import ESTIMATE_EXAMPLE, PENDING_EXAMPLE, REQUEST_EXAMPLES
from api.problem_details import ProblemDetails
from api.schemas.design import GammaAnswer, ProblemAnswer
from api.schemas.fields import Answer, Asked


class PendingAnswer(Answer):
    """The answer is not there yet: a job works on it."""

    model_config = ConfigDict(json_schema_extra={"examples": [PENDING_EXAMPLE]})

    id: str = Field(description="Id of the job, and content key of the γ to come.")
    state: str = Field(description="queued or running.")
    location: str = Field(description="Where to ask for the job.")
    retry_after: int = Field(description="When to ask again [s].", ge=0)
    nearest: GammaAnswer | None = Field(
        description="The best kept γ whose guarantee implies the one that was asked, to be used meanwhile; null if none."
    )


class BatchRequest(Asked):
    """Many problems in one request. Each is read by itself, so that one that is not valid spoils no other."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"problems": REQUEST_EXAMPLES}]})

    problems: Annotated[
        list[Any],
        Field(
            description="Problems, each as in POST /v1/gamma; the server bounds how many.",
            json_schema_extra={
                "items": {
                    "anyOf": [
                        {"$ref": "#/components/schemas/DesignRequest"},
                        {"description": "Anything else is answered, in its place, by what is wrong with it."},
                    ]
                }
            },
        ),
    ]


class BatchItem(Answer):
    """One answer of a batch: exactly one of answer, pending and problem is not null."""

    status: Literal[200, 202, 404, 409, 422, 429, 500, 503] = Field(
        description="The HTTP status that this problem would have had by itself."
    )
    answer: GammaAnswer | None = Field(description="The certified γ (status 200).")
    pending: PendingAnswer | None = Field(description="The job that works on it (status 202).")
    problem: ProblemDetails | None = Field(description="What went wrong (any other status).")


class BatchAnswer(Answer):
    """Answers in the order asked."""

    results: list[BatchItem] = Field(description="One for each problem, in the same order.")


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


class HealthAnswer(Answer):
    """The process is up."""

    status: Literal["ok"]
    version: str = Field(description="Version of darrm-opt.")
