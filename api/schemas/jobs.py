"""Jobs, batches and webhooks, as requests and answers."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from api.access.clients import CURRENT_PREFIX
from api.errors.problem_details import ProblemDetails
from api.schemas.fields import EXAMPLES, AnswerModel, PageRequest, RequestModel, about
from api.schemas.questions import GammaAnswer, ProblemAnswer, model_of_answer
from darrm_opt.errors import DarrmError
from darrm_opt.questions import design
from darrm_opt.record import problem_from_record, problem_record
from solver_cache.database.jobs import Job, damaged_job
from solver_cache.database.webhooks import Webhook, WebhookState
from solver_cache.model import State

GAMMA = "gamma"  # the kind of job that designs one γ

JobId = Annotated[
    str,
    Field(
        description="Id of the job; where it designs a γ, the id of that γ: 64 hexadecimal digits.",
        pattern="^[0-9a-f]{64}$",
        examples=[EXAMPLES["JobAnswer"][0]["id"]],
    ),
]

JobKind = Annotated[
    str, Field(description="What it does: gamma designs one γ; else the path whose answer it is, such as compare.")
]


class ListRequest(PageRequest):
    """Which jobs to list."""

    state: Annotated[State | None, about("state")] = None


class PendingAnswer(AnswerModel):
    """A pending answer: a job works on it."""

    id: str = Field(description="Id of the job; where it designs a γ, also the content key of that γ.")
    kind: JobKind
    state: str = Field(description="queued or running.")
    location: str = Field(description="Path of the job.")
    retry_after: int = Field(description="Time until the next request [s].", ge=0)
    nearest: GammaAnswer | None = Field(  # type: ignore[valid-type]  # a model that is made
        description="The best stored γ whose guarantee implies the one that was requested, "
        "for use until then; null if there is none."
    )


ProgressAnswer, StepsAnswer = map(model_of_answer, (design.ProgressAnswer, design.StepsAnswer))


class JobAnswer(AnswerModel):
    """State of a job."""

    id: str = Field(description="Id of the job; where it designs a γ, also the content key of that γ.")
    kind: JobKind
    state: State = Field(description="queued, running, done, failed or cancelled.")
    problem: ProblemAnswer | None = Field(  # type: ignore[valid-type]
        description="The problem whose γ is designed; null for other kinds."
    )
    objective: str | None = Field(description="Its objective; null for other kinds.")
    shape: str | None = Field(description="free or monotone; null for other kinds.")
    question: dict[str, Any] | None = Field(
        description="The question, without fields that have their default; null if a γ is designed."
    )
    attempts: int = Field(description="Attempts since it was submitted.", ge=0)
    progress: ProgressAnswer | StepsAnswer | None = Field(  # type: ignore[valid-type]
        description="Its progress; null before anything is known."
    )
    estimated_seconds: FiniteFloat = Field(description="Expected time [s].", ge=0)
    reason: str = Field(description="Why it failed, in words; else empty.")
    created: str = Field(description="Time of its last submission (UTC, ISO 8601).")
    updated: str = Field(description="Time of its last change (UTC, ISO 8601).")
    location: str = Field(description="Path of the job.")
    result: str = Field(description="Path of its result.")
    events: str = Field(description="Path of its progress, as server-sent events.")


class JobsAnswer(AnswerModel):
    """Jobs, the newest first."""

    jobs: list[JobAnswer] = Field(description="One page of them.")
    next: str | None = Field(description="Give this as `after` for the next page; null if there is none.")


def job_location(id: str) -> str:
    """Return the path of a job, below the prefix by which the client reaches the service."""
    return f"{CURRENT_PREFIX.get()}/v1/jobs/{id}"


def job_answer(job: Job) -> JobAnswer:
    """Return the answer that describes a job; one whose row is damaged is described as failed."""
    location = job_location(job.id)
    try:
        question_fields = _question(job)
    # A row may hold anything; the job is reported as damaged, and lists continue.
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, DarrmError):
        job = damaged_job(job)
        question_fields = {"problem": None, "objective": None, "shape": None, "question": None}
    return JobAnswer(
        **{name: getattr(job, name) for name in ("id", "kind", "state", "reason")},
        **question_fields,
        # The schema's ranges hold for damaged numbers too.
        attempts=max(0, job.attempts),
        progress=_progress_answer(job.progress),
        estimated_seconds=job.seconds if math.isfinite(job.seconds) and job.seconds > 0 else 0.0,
        created=utc_text(job.created),
        updated=utc_text(job.updated),
        location=location,
        result=f"{location}/result",
        events=f"{location}/events",
    )


def _question(job: Job) -> dict[str, Any]:
    """Return what a job is about; raises what damaged text makes parsers raise."""
    request = json.loads(job.request)
    if job.kind != GAMMA:
        return {"problem": None, "objective": None, "shape": None, "question": dict(request["question"])}
    problem = ProblemAnswer(**problem_record(problem_from_record(request["problem"])))
    objective, shape = request["objective"], request["shape"]
    if not isinstance(objective, str) or not isinstance(shape, str):
        raise TypeError(shape)
    return {"problem": problem, "objective": objective, "shape": shape, "question": None}


def _progress_answer(text: str) -> BaseModel | None:
    """Return the progress that a job has reported; None if that is nothing, or damaged."""
    try:
        content: Any = json.loads(text) if text else None
        if content is None:
            return None
        if "done" in content:
            return StepsAnswer(**content)
        incumbent = content.get("incumbent")
        if incumbent is not None:
            fields = {name: incumbent[name] for name in ("gamma", "utility", "upper_bound", "gap")}
            content = {**content, "incumbent": {**fields, "margin": incumbent["certificate"]["margin"]}}
        return ProgressAnswer(**content)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def utc_text(seconds: float) -> str:
    """Return a time [s since 1970-01-01 UTC] as text (ISO 8601)."""
    try:
        time = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):  # of a damaged row
        time = datetime.fromtimestamp(0, UTC)
    return time.isoformat(timespec="milliseconds")


class BatchRequest(RequestModel):
    """Many problems in one request. Each is validated by itself, so that an invalid one does not affect the others."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"problems": EXAMPLES["DesignRequest"]}]})

    problems: Annotated[
        list[Any],
        about("problems"),
        Field(
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


class BatchItem(AnswerModel):
    """One answer of a batch: exactly one of answer, pending and problem is not null."""

    status: Literal[200, 202, 404, 409, 422, 429, 500, 503] = Field(
        description="The HTTP status that this problem would have had by itself."
    )
    answer: GammaAnswer | None = Field(  # type: ignore[valid-type]
        description="The certified γ (status 200)."
    )
    pending: PendingAnswer | None = Field(description="The job that works on it (status 202).")
    problem: ProblemDetails | None = Field(description="What went wrong (any other status).")


class BatchAnswer(AnswerModel):
    """Answers in the order asked."""

    results: list[BatchItem] = Field(description="One for each problem, in the same order.")


WebhookId = Annotated[
    str,
    Field(
        description="Id of the webhook.", pattern="^msg_[0-9a-f]{32}$", examples=[EXAMPLES["WebhookAnswer"][0]["id"]]
    ),
]


class WebhookRequest(RequestModel):
    """Destination of a webhook."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"url": EXAMPLES["WebhookAnswer"][0]["url"]}]})

    url: Annotated[str, about("url")]


class WebhookAnswer(AnswerModel):
    """A webhook of a job."""

    id: str = Field(description="Id of the webhook, and header webhook-id of every attempt.")
    job: str = Field(description="Id of the job.")
    url: str = Field(description="Destination of the event.")
    state: WebhookState = Field(
        description="pending (the job goes on, or delivery is tried again), delivered, or failed (given up)."
    )
    attempts: int = Field(description="Attempts so far.", ge=0)
    reason: str = Field(description="What was wrong with the last attempt, in words; else empty.")
    created: str = Field(description="Time of its creation (UTC, ISO 8601).")
    updated: str = Field(description="Time of its last change (UTC, ISO 8601).")
    secret: str | None = Field(
        description="Secret for verifying signatures (Standard Webhooks), "
        "the same for every webhook of one key; null in lists."
    )


class WebhooksAnswer(AnswerModel):
    """Webhooks of a job."""

    webhooks: list[WebhookAnswer] = Field(description="All of them, the oldest first.")


def webhook_answer(webhook: Webhook, secret: str | None = None) -> WebhookAnswer:
    """Return the answer that describes a webhook."""
    same = {name: getattr(webhook, name) for name in ("id", "job", "url", "state", "attempts", "reason")}
    created, updated = utc_text(webhook.created), utc_text(webhook.updated)
    return WebhookAnswer(**same, created=created, updated=updated, secret=secret)
