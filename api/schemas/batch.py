"""Many problems in one request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from api.examples import REQUEST_EXAMPLES
from api.problem_details import ProblemDetails
from api.schemas.design import GammaAnswer
from api.schemas.fields import Answer, Asked
from api.schemas.jobs import PendingAnswer


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
