"""What a problem looks like when it is told (RFC 9457)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from api.request_id import current

MEDIA_TYPE = "application/problem+json"


class FieldProblem(BaseModel):
    """What is wrong with one field of a request."""

    field: str = Field(description="Name of the field, as in the request.", examples=["epsilon"])
    detail: str = Field(description="What is wrong with it, and what is accepted.")


class ProblemDetails(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:darrm-opt:problem:invalid-input",
                    "title": "A field of the request is not valid.",
                    "status": 422,
                    "detail": "K = 0 is not valid: expected a whole number of voters, at least 1.",
                    "field": "K",
                    "errors": [
                        {
                            "field": "K",
                            "detail": "K = 0 is not valid: expected a whole number of voters, at least 1.",
                        }
                    ],
                }
            ]
        }
    )

    type: str = Field(description="Kind of problem; 'about:blank' where the status says it all.")
    title: str = Field(description="The kind of problem in words, the same each time.")
    status: int = Field(description="HTTP status.", ge=400, le=599)
    detail: str = Field(description="What happened this time, and what to do about it.")
    field: str | None = Field(default=None, description="The field of the request that is at fault, if one is.")
    errors: list[FieldProblem] | None = Field(default=None, description="Every field at fault, the first one first.")
    worst_corners: dict[str, int] | None = Field(
        default=None, description="Where a γ is not private: voters at each corner [voters], the counterexample."
    )
    excess: float | None = Field(
        default=None, description="How far a γ is from private there, as extra δ at the target ε [probability]."
    )
    estimated_seconds: float | None = Field(
        default=None, description="What the request would have cost: expected solving time [s]."
    )
    request_id: str | None = Field(
        default_factory=current, description="Id of the request, by which the server's log tells of it."
    )
