"""A job's progress as server-sent events.

    event: queued | running | done | failed | cancelled
    id:    a number that grows
    data:  the job as GET /v1/jobs/{id} would show it

Every event is the whole state, so one who comes late, or again with a Last-Event-ID, misses nothing that matters: the
first event is always how the job stands now. The stream ends with the job. A line of comment now and then keeps
proxies from closing it. Nothing is kept for a client that reads slowly: it gets what is latest when it is ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from api.board import News
from api.refusals import ShuttingDown
from api.schemas.jobs import job_answer

MEDIA_TYPE = "text/event-stream"

HEARTBEAT = 10.0
"""Longest silence [s]."""

RETRY = 2000
"""When a client that lost the stream should come back [ms]."""

BETWEEN = 0.1
"""Least time between two events of a job under way [s]: faster than eyes, and slow enough for any page."""


async def events(news: AsyncGenerator[News], *, heartbeat: float = HEARTBEAT) -> AsyncIterator[str]:
    """Yield the text of a stream: all that becomes known of one job, until it is over or the server stops."""
    yield f"retry: {RETRY}\n\n"
    number, last = 0, None
    coming: asyncio.Future[News] = asyncio.ensure_future(anext(news))
    try:
        while True:
            if not (await asyncio.wait({coming}, timeout=heartbeat))[0]:
                yield ": still here\n\n"
                continue
            try:
                latest = coming.result()
            except StopAsyncIteration:
                return
            if isinstance(latest.error, ShuttingDown):
                return  # it goes on after the restart: the client comes back for it
            text = job_answer(latest.job).model_dump_json()
            if text != last:
                number, last = number + 1, text
                yield f"event: {latest.job.state}\nid: {number}\ndata: {text}\n\n"
            if not latest.job.over:
                await asyncio.sleep(BETWEEN)
            coming = asyncio.ensure_future(anext(news))
    finally:
        coming.cancel()
        await asyncio.wait({coming})
        await news.aclose()
