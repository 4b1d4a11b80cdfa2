"""The latest state of each job: no subscriber misses its end or that of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.waiting import in_loop

from api.errors.problem_details import ShuttingDown
from api.service.jobs import LONG_SECONDS, STORE_FAILED, JobEvents, JobWorker
from solver_cache import CacheError, open_store
from solver_cache.database.jobs import Job


def running_job() -> tuple[Job, JobEvents]:
    """Return a job under way, and the events of its store."""
    jobs = open_store("memory").jobs
    jobs.submit("a", "gamma", "{}")
    job = jobs.take("me", lease_seconds=30)
    assert job is not None
    return job, JobEvents(jobs, directly)


async def directly(call: Callable[..., Any], *arguments: Any) -> Any:
    return call(*arguments)


@in_loop
async def test_a_slow_subscriber_receives_the_shutdown() -> None:
    job, events = running_job()
    events.local[job.id] = job
    slow = events.subscribe(job)
    assert (await anext(slow)).job.state == "running"
    events.close(ShuttingDown("The server is shutting down."))
    events.publish(replace(job, progress='{"round":2}'))
    async for news in slow:
        last = news
    assert isinstance(last.error, ShuttingDown)
    late = [news async for news in events.subscribe(job)]
    assert isinstance(late[-1].error, ShuttingDown)


@in_loop
async def test_a_followed_job_is_known_without_reading_the_store() -> None:
    job, events = running_job()
    assert events.followed("a") is None
    events.local[job.id] = job
    follower = events.subscribe(job)
    await anext(follower)
    latest = replace(job, progress='{"round":2}')
    events.publish(latest)
    assert events.followed("a") == latest
    events.publish(replace(job, state="done"))
    assert events.followed("a") is None  # its row has more, and it may have been submitted again
    await follower.aclose()


@in_loop
async def test_a_job_finishes_once_a_failing_store_is_back() -> None:
    jobs = open_store("memory").jobs
    queued = jobs.submit("a", "gamma", "{}")
    events, begun = JobEvents(jobs, directly), list[int]()

    async def handle(job: Job, _: Any) -> tuple[str, Any]:
        begun.append(job.attempts)
        if job.attempts == 1:
            raise CacheError("postgresql://secret/place", "gone, nowhere to be found", "")
        return '{"answer":1}', {"answer": 1}

    worker = JobWorker(jobs, events, directly, {"gamma": handle}, size=1, lease=1e-3)
    worker.start()
    *_, last = [update async for update in events.subscribe(queued)]
    assert (last.job.state, last.job.reason) == ("failed", STORE_FAILED)  # without the location
    assert isinstance(last.error, CacheError)  # a waiting request gets 503
    stored = jobs.get("a")
    assert stored is not None
    assert stored.state in {"running", "done"}
    if not stored.over:
        *_, last = [update async for update in events.subscribe(stored)]
    await worker.close()
    assert begun == [1, 2]
    done = jobs.get("a")
    assert done is not None
    assert (done.state, done.result) == ("done", '{"answer":1}')


@pytest.mark.parametrize(("shared", "long_jobs"), [(True, 1), (False, 2)])
@in_loop
async def test_a_shared_worker_reserves_a_slot_for_short_jobs(*, shared: bool, long_jobs: int) -> None:
    jobs = open_store("memory").jobs
    for number in range(3):
        jobs.submit(f"long {number}", "gamma", "{}", client="one", seconds=LONG_SECONDS + 1)
    begun: asyncio.Queue[str] = asyncio.Queue()

    async def handle(job: Job, _: Any) -> tuple[str, Any]:
        begun.put_nowait(job.id)
        if job.seconds > LONG_SECONDS:
            await asyncio.Event().wait()  # until the worker closes
        return "{}", None

    events = JobEvents(jobs, directly)
    worker = JobWorker(jobs, events, directly, {"gamma": handle}, size=2, lease=30, shared=shared)
    worker.start()
    taken = {await begun.get() for _ in range(long_jobs)}
    assert len(taken) == long_jobs == jobs.counts()["running"]
    jobs.submit("short", "gamma", "{}", client="two", seconds=3)
    worker.wake()
    if shared:
        assert await begun.get() == "short"
    await worker.close()
    assert jobs.counts()["running"] == 0
    assert begun.empty()
