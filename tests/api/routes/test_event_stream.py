"""The text of an event stream, as read by EventSource in a browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from api.errors.problem_details import ShuttingDown
from api.routes.jobs import event_stream
from api.service.design_service import design_task
from api.service.jobs import JobUpdate
from darrm_opt.questions.design import Design
from darrm_opt.record import canonical_json
from solver_cache.database.jobs import Job
from solver_cache.model import State

ASKED = Design(K=5, m=2, epsilon=0.5)


def job(state: State, round_: int = 0) -> Job:
    told = {
        "round": round_,
        "rows": 7,
        "utility": 0.5,
        "upper_bound": 0.75,
        "gap": 0.25,
        "violation": 0,
        "seconds": 1.5,
    }
    text = design_task(ASKED).text
    progress = canonical_json(told) if round_ else ""
    return Job(ASKED.spec().key, "gamma", text, state, 1, "", 0.0, progress, "", "", 0.0, 0.0)


def streamed(*news: JobUpdate | float, heartbeat: float = 30) -> list[str]:
    """Return the text sent for events with pauses [s] between them."""
    closed: list[bool] = []

    async def coming() -> AsyncGenerator[JobUpdate]:
        try:
            for each in news:
                if isinstance(each, JobUpdate):
                    yield each
                else:
                    await asyncio.sleep(each)
        finally:
            closed.append(True)

    async def read() -> list[str]:
        return [text async for text in event_stream(coming(), heartbeat=heartbeat)]

    told = asyncio.run(read())
    assert closed == [True]
    return told


def test_each_event_is_the_whole_job() -> None:
    first, *told = streamed(
        JobUpdate(job("queued")), JobUpdate(job("running", 1)), JobUpdate(job("running", 2)), JobUpdate(job("done", 2))
    )
    assert first == "retry: 2000\n\n"
    parsed: list[dict[str, Any]] = []
    for number, text in enumerate(told, start=1):
        event, id_, data, *rest = text.split("\n")
        assert (id_, rest) == (f"id: {number}", ["", ""])
        parsed.append(json.loads(data.removeprefix("data: ")))
        assert event == f"event: {parsed[-1]['state']}"
    assert [each["state"] for each in parsed] == ["queued", "running", "running", "done"]
    assert [each["progress"] and each["progress"]["round"] for each in parsed] == [None, 1, 2, 2]
    assert parsed[1]["progress"]["gap"] == 0.25


def test_unchanged_states_are_not_reported() -> None:
    assert len(streamed(JobUpdate(job("running", 1)), JobUpdate(job("running", 1)), JobUpdate(job("done", 1)))) == 3


def test_heartbeats_are_sent() -> None:
    told = streamed(JobUpdate(job("queued")), 0.3, JobUpdate(job("cancelled")), heartbeat=0.05)
    assert ": still here\n\n" in told[2:-1]
    assert told[-1].startswith("event: cancelled\n")


def test_the_stream_ends_with_the_server() -> None:
    told = streamed(
        JobUpdate(job("running", 1)), JobUpdate(job("failed"), error=ShuttingDown("The server is shutting down."))
    )
    assert len(told) == 2
    assert "failed" not in told[-1]
