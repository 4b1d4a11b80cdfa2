"""What an operator is told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.schemas.fields import Answer


class HealthAnswer(Answer):
    """The process is up."""

    status: Literal["ok"]
    version: str = Field(description="Version of darrm-opt.")


class ReadyAnswer(Answer):
    """Answers can be given."""

    status: Literal["ready"]
    checks: dict[str, str] = Field(
        description="What was looked at: database, solver; 'ok', 'busy' (all solver processes are at work) or 'off'."
    )
