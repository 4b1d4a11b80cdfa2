"""Audit log, as requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, FiniteFloat

from api.schemas.fields import EXAMPLES, AnswerModel, RequestModel, described

MAX_ENTRIES = 1000
"""Most entries of one answer."""


class AuditRequest(RequestModel):
    """How much of the audit log to read."""

    limit: Annotated[
        int, described("Most entries [entries].", minimum=1, maximum=MAX_ENTRIES), Field(ge=1, le=MAX_ENTRIES)
    ] = 100


class AuditEntryAnswer(AnswerModel):
    """One request, as the audit log has it."""

    time: str = Field(description="When the answer was complete (UTC, ISO 8601).")
    request_id: str = Field(description="Id of the request, as in X-Request-ID and in the log.")
    client: str = Field(description="'key ID' or 'address A.B.C.D'.")
    key: str = Field(description="Name of the key; empty without one.")
    role: str = Field(description="Role of the key; empty where no client was made out.")
    address: str = Field(description="Where the request came from.")
    method: str = Field(description="Method of HTTP.")
    path: str = Field(description="Path, without the query.")
    questions: list[str] = Field(description="Content keys of what was asked.")
    jobs: list[str] = Field(description="Ids of the jobs that were queued, read or changed.")
    status: int = Field(description="Status of the answer; 499 where the client left before.")
    seconds: FiniteFloat = Field(description="Time to answer [s].", ge=0)


class AuditAnswer(AnswerModel):
    """The last entries of the audit log."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["AUDIT_EXAMPLE"]]})

    entries: list[AuditEntryAnswer] = Field(description="The newest first.")
