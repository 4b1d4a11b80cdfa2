"""A certificate for a γ that is posted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from api.examples import VERIFY_EXAMPLE, VERIFY_REQUEST_EXAMPLE
from api.schemas.design import CertificateAnswer, ProblemAnswer, ProblemRequest
from api.schemas.fields import Answer, PostedGamma


class VerifyRequest(ProblemRequest):
    """A γ, and the problem for which it should be private."""

    model_config = ConfigDict(json_schema_extra={"examples": [VERIFY_REQUEST_EXAMPLE]})

    gamma: PostedGamma
    arithmetic: Annotated[
        Literal["float", "ball"],
        Field(description="Doubles with a proven error bound, or ball arithmetic: slower, and independent."),
    ] = "float"


class VerifyAnswer(Answer):
    """The γ is private for the problem, exactly as posted."""

    model_config = ConfigDict(json_schema_extra={"examples": [VERIFY_EXAMPLE]})

    private: Literal[True]
    problem: ProblemAnswer
    certificate: CertificateAnswer
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")
