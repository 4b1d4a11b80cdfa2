"""Jobs: work that can be waited for, watched and cancelled."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat

from api.examples import JOB_EXAMPLE, PENDING_EXAMPLE
from api.schemas.design import GammaAnswer, ProblemAnswer
from api.schemas.fields import Answer, Asked, described
from darrm_opt.record import problem_from_record, problem_record
from solver_cache.jobs import LISTED, Job

MAX_LISTED = 1000
"""Most jobs on one page."""

JobState = Literal["queued", "running", "done", "failed", "cancelled"]

JobId = Annotated[
    str,
    Field(
        description="Id of the job, which is the id of its γ: 64 hexadecimal digits.",
        pattern="^[0-9a-f]{64}$",
        examples=[JOB_EXAMPLE["id"]],
    ),
]


class ListRequest(Asked):
    """Which jobs to list."""

    state: Annotated[JobState | None, Field(description="Only jobs in this state.")] = None
    limit: Annotated[
        int, described("Most jobs on the page [jobs].", minimum=1, maximum=MAX_LISTED), Field(ge=1, le=MAX_LISTED)
    ] = LISTED
    after: Annotated[
        str | None, Field(description="Continue behind this job: the `next` of the page before.", max_length=64)
    ] = None


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


class ProgressAnswer(Answer):
    """How far a solve is."""

    round: int = Field(description="Rounds done.")
    rows: int = Field(description="Rows in the program.")
    utility: FiniteFloat = Field(description="Best utility whose privacy can be proved so far.")
    upper_bound: FiniteFloat = Field(description="Proven bound on the best possible utility.")
    gap: FiniteFloat = Field(description="upper_bound − utility, at least 0.", ge=0)
    violation: FiniteFloat = Field(description="How far the program's present answer breaks the constraint.")
    seconds: FiniteFloat = Field(description="Time since the start [s].", ge=0)


class JobAnswer(Answer):
    """A job as it stands."""

    model_config = ConfigDict(json_schema_extra={"examples": [JOB_EXAMPLE]})

    id: str = Field(description="Id of the job, and content key of its γ.")
    kind: str = Field(description="What it does: gamma designs one γ.")
    state: JobState = Field(description="queued, running, done, failed or cancelled.")
    problem: ProblemAnswer
    objective: str = Field(description="What is maximised.")
    shape: str = Field(description="free or monotone.")
    attempts: int = Field(description="How often it was begun since it was submitted.", ge=0)
    progress: ProgressAnswer | None = Field(description="How far it is; null before anything is known.")
    reason: str = Field(description="Why it failed, in words; else empty.")
    created: str = Field(description="When it was submitted, the last time (UTC, ISO 8601).")
    updated: str = Field(description="When it last changed (UTC, ISO 8601).")
    location: str = Field(description="Where this job is.")
    result: str = Field(description="Where its result is, or will be.")
    events: str = Field(description="Where its progress is told as it happens (server-sent events).")


class JobsAnswer(Answer):
    """Jobs, the newest first."""

    jobs: list[JobAnswer] = Field(description="One page of them.")
    next: str | None = Field(description="Give this as `after` for the next page; null if there is none.")


def job_answer(job: Job) -> JobAnswer:
    """Return a job as what leaves."""
    asked = json.loads(job.request)
    here = f"/v1/jobs/{job.id}"
    return JobAnswer(
        id=job.id,
        kind=job.kind,
        state=job.state,
        problem=ProblemAnswer(**problem_record(problem_from_record(asked["problem"]))),
        objective=asked["objective"],
        shape=asked["shape"],
        attempts=job.attempts,
        progress=_progress(job.progress),
        reason=job.reason,
        created=_when(job.created),
        updated=_when(job.updated),
        location=here,
        result=f"{here}/result",
        events=f"{here}/events",
    )


def _progress(text: str) -> ProgressAnswer | None:
    told: Any = json.loads(text) if text else None
    return None if told is None else ProgressAnswer(**told)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
