"""Routes of jobs: submit, list, read, cancel, follow by server-sent events; and webhooks, which report their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Union

from fastapi import Depends, Header, HTTPException, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from api.access.clients import CURRENT_PREFIX, current_client
from api.errors.problem_details import ShuttingDown
from api.observability import access_log
from api.responses import RETRY_AFTER, error_responses, json_response, pending_response
from api.routes.requests import Service, create_router, from_query
from api.schemas.jobs import (
    JobAnswer,
    JobId,
    JobsAnswer,
    ListRequest,
    PendingAnswer,
    WebhookAnswer,
    WebhookId,
    WebhookRequest,
    WebhooksAnswer,
    job_answer,
    webhook_answer,
)
from api.schemas.questions import DesignRequest, GammaAnswer, json_type
from api.service.design_service import RETRY_SECONDS, DesignService, Pending
from api.service.jobs import JobUpdate, read_task
from api.tasks.answers import answer_model
from darrm_opt.questions.design import Design
from darrm_opt.questions.registry import QUESTIONS
from solver_cache.database.jobs import DAMAGED_ROW, Job

if TYPE_CHECKING:
    from api.service.webhooks import Webhooks

router = create_router("jobs", "/v1/jobs")

Params = Annotated[ListRequest, Depends(from_query(ListRequest))]

_LOCATION = {"Location": {"description": "Path of the job.", "schema": {"type": "string"}}}


JobResult = Union[GammaAnswer, *(json_type(kind.answers) for kind in QUESTIONS.values())]  # type: ignore[valid-type]  # from the registry
"""The answer that a job may have, by its kind."""

EVENT_STREAM = "text/event-stream"

HEARTBEAT_SECONDS = 10.0  # longest pause between two lines of a stream [s]
RETRY_MILLISECONDS = 2000  # time after which a client that lost the stream should reconnect [ms]

MIN_EVENT_SECONDS = 0.1
"""Shortest time between two events of a running job [s]: fast for the eye, slow enough for any page."""


@router.post(
    "",
    status_code=202,
    summary="Submit a design, without waiting for it",
    responses={
        200: {"model": JobAnswer, "description": "The job is done.", "headers": _LOCATION},
        202: {"description": "The job is queued or running.", "headers": {**_LOCATION, **RETRY_AFTER}},
        **error_responses(404, 422),
    },
)
async def submit_job(params: DesignRequest, service: Service, response: Response) -> JobAnswer:  # type: ignore[valid-type]
    """Queue the solve, or return the job that is queued, running or done: the same problem has the same job."""
    job = await service.submit(Design(**vars(params)))
    answer = job_answer(job)
    response.headers["Location"] = answer.location
    if job.state == "done":
        response.status_code = 200
    else:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return answer


@router.get(
    "",
    summary="Jobs, the newest first",
    openapi_extra={"parameters": [ListRequest]},
    responses=error_responses(422),
)
async def list_jobs(params: Params, service: Service) -> JobsAnswer:
    """List jobs of any state or of one, page by page."""
    jobs = await service.list_jobs(params.state, params.limit, params.after)
    next_id = jobs[-1].id if len(jobs) == params.limit else None
    return JobsAnswer(jobs=[job_answer(job) for job in jobs], next=next_id)


@router.get("/{id}", summary="The state of a job", responses=error_responses(404, 422))
async def get_job(id: JobId, service: Service) -> JobAnswer:
    """Read a job."""
    return job_answer(_known(await service.get_job(id), id))


@router.delete("/{id}", summary="Cancel a job", responses=error_responses(404, 422))
async def cancel_job(id: JobId, service: Service) -> JobAnswer:
    """Stop the work, wherever it runs. If other clients with keys submitted it too, it continues for them alone.

    A finished job is unchanged.
    """
    return job_answer(_known(await service.cancel(id), id))


@router.get(
    "/{id}/result",
    summary="The result of a job",
    response_model=JobResult,
    responses={
        202: {
            "model": PendingAnswer,
            "description": "The job is not done.",
            "headers": {**_LOCATION, **RETRY_AFTER},
        },
        **error_responses(404, 409, 422),
    },
)
async def get_job_result(id: JobId, service: Service) -> Response:
    """Read the result of a job: a γ, whose status tells whether a time limit was reached, or another answer."""
    job = _known(await service.get_job(id), id)
    if job.state in {"failed", "cancelled"}:
        reason = f"The job failed: {job.reason}" if job.state == "failed" else "The job was cancelled."
        raise HTTPException(409, f"{reason} Submit it again to have it tried again.")
    result = await service.load_result(job) if job.state == "done" else None
    answer = None if result is None else _answer(job, result)
    if answer is not None:
        return json_response(answer)
    queued = await service.resubmit(job) if job.state == "done" else job
    if queued is None:
        raise HTTPException(409, f"The job failed: {DAMAGED_ROW}")
    return pending_response(Pending(queued))


def _answer(job: Job, result: dict[str, Any]) -> BaseModel | None:
    """Return the answer that a job's result makes; None if its row is damaged."""
    task = read_task(job)
    try:
        return None if task is None else answer_model(task, result)
    except (LookupError, TypeError, ValueError):
        return None


@router.post(
    "/{id}/stop",
    summary="Stop a job and keep what it has",
    responses={
        202: {
            "model": JobAnswer,
            "description": "It has no certified γ yet, or is still queued, and continues. Try later, or cancel it.",
            "headers": {**_LOCATION, **RETRY_AFTER},
        },
        **error_responses(404, 422),
    },
)
async def stop_job(id: JobId, service: Service, response: Response) -> JobAnswer:
    """Stop the solve; its best certified γ so far is the result of the job from now on. A finished job is unchanged."""
    job = _known(await service.stop(id), id)
    answer = job_answer(job)
    if not job.over:
        response.status_code = 202
        response.headers["Location"], response.headers["Retry-After"] = answer.location, str(RETRY_SECONDS)
    return answer


@router.get(
    "/{id}/events",
    summary="The progress of a job",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events, each the whole job: queued, running (after every round), and in the "
            "end done, failed or cancelled. The stream ends with the job.",
            "content": {EVENT_STREAM: {}},
        },
        **error_responses(404, 422),
    },
)
async def get_job_events(
    id: JobId,
    service: Service,
    last_event_id: Annotated[
        str | None, Header(description="Sent by a client that comes back; the first event is the present state anyway.")
    ] = None,
) -> StreamingResponse:
    """Follow a job."""
    del last_event_id
    job = service.followed(id) or _known(await service.get_job(id), id)
    stream = _within_quota(service, event_stream(service.events.subscribe(job)))
    await anext(stream)  # refused here, before anything is sent
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type=EVENT_STREAM, headers=headers)


async def _within_quota(service: DesignService, stream: AsyncIterator[str]) -> AsyncGenerator[str]:
    """Yield "", then a stream, which counts as one of the client's."""
    with service.streams.reserve(current_client()):
        yield ""
        async for text in stream:
            yield text


def _known(job: Job | None, id: str) -> Job:
    if job is None:
        raise HTTPException(404, f"There is no job {id}.")
    return job


async def event_stream(
    updates: AsyncGenerator[JobUpdate], *, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncIterator[str]:
    """Yield the text of a stream of one job's states, until it is finished or the server stops.

    Every event is the whole state, so a client that connects late, or again with a Last-Event-ID, misses nothing that
    matters: the first event is always the present state. Comment lines keep proxies from closing the stream. Nothing is
    buffered for a slow client: it gets the latest state when it is ready.
    """
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    event_id, last_text = 0, None
    next_update: asyncio.Future[JobUpdate] = asyncio.ensure_future(anext(updates))
    try:
        while True:
            # The update is awaited, not the generator: a heartbeat in between must not cancel it.
            if not (await asyncio.wait({next_update}, timeout=heartbeat))[0]:
                yield ": still here\n\n"
                continue
            try:
                update = next_update.result()
            except StopAsyncIteration:
                return
            if isinstance(update.error, ShuttingDown):
                return  # it goes on after the restart: the client comes back for it
            text = _event_text(update.job, CURRENT_PREFIX.get())
            # Progress is rounded: two states may read the same.
            if text != last_text:
                event_id, last_text = event_id + 1, text
                yield f"event: {update.job.state}\nid: {event_id}\ndata: {text}\n\n"
            if not update.job.over:
                await asyncio.sleep(MIN_EVENT_SECONDS)
            next_update = asyncio.ensure_future(anext(updates))
    finally:
        next_update.cancel()
        await asyncio.wait({next_update})
        await updates.aclose()


@lru_cache(maxsize=64)  # one text of each state, however many follow the job
def _event_text(job: Job, prefix: str) -> str:
    """Return a state of a job as JSON, with links below a prefix, which is the current one."""
    del prefix
    return job_answer(job).model_dump_json()


@router.post(
    "/{id}/webhooks", status_code=201, summary="Add a webhook for the end of a job", responses=error_responses(404, 422)
)
async def add_webhook(params: WebhookRequest, id: JobId, service: Service) -> WebhookAnswer:
    """Send a signed POST (Standard Webhooks) when the job ends, or at once if it has ended.

    If it fails, it is tried again for two days. It is delivered at least once: a receiver that sees one `webhook-id`
    twice ignores the second. Asking again for the same address while it is pending returns the same webhook.
    """
    webhooks = _webhooks(service)
    _known(await service.get_job(id), id)
    return webhook_answer(*await webhooks.add(id, params.url))


@router.get("/{id}/webhooks", summary="Webhooks of a job", responses=error_responses(404, 422))
async def list_webhooks(id: JobId, service: Service) -> WebhooksAnswer:
    """List the client's webhooks of a job, and their states."""
    webhooks = _webhooks(service)
    _known(await service.get_job(id), id)
    return WebhooksAnswer(webhooks=[webhook_answer(webhook) for webhook in await webhooks.list(id)])


@router.delete(
    "/{id}/webhooks/{webhook}", status_code=204, summary="Remove a webhook", responses=error_responses(404, 422)
)
async def remove_webhook(id: JobId, webhook: WebhookId, service: Service) -> Response:
    """Remove a webhook; it is not delivered any more."""
    access_log.mention_job(id)
    if not await _webhooks(service).remove(webhook, id):
        raise HTTPException(404, f"This job has no webhook {webhook}.")
    return Response(status_code=204)


def _webhooks(service: DesignService) -> Webhooks:
    if service.webhooks is None:
        raise HTTPException(404, "There are no webhooks on this server: its operator sets DARRM_WEBHOOK_SECRET.")
    return service.webhooks
