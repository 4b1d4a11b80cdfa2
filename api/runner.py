"""Doing jobs: take one, do it, hold the claim meanwhile, say what came of it.

Each process that serves has one runner; they share the jobs of one store by claims with leases. What a killed process
was doing is taken over when its lease runs out; what an orderly one was doing goes back into the queue at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from api.board import Board, News, Threaded
from api.pool import PoolClosed
from darrm_opt.errors import DarrmError
from solver_cache.errors import CacheError
from solver_cache.jobs import Job, Jobs
from solver_cache.key import canonical_json

_LOG = logging.getLogger("api.jobs")

RENEW = 0.5
"""How often a claim is renewed, which is also how soon a cancelled job is noticed elsewhere [s]."""

IDLE = 1.0
"""How often the queue is looked at when nothing hints at a job in it [s]."""

MAX_ATTEMPTS = 5
"""A job that was taken so often and never ended takes its server down with it, and is given up. Not to be confused with a
solver process that crashes: that is noticed, and its task begun once more and no more (`api.pool`). Here nobody was left to
notice, which on a machine that is restarted again and again is seldom the job's fault."""

SAVING = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses before each attempt to write down how a job ended [s]. After the last one its lease runs out."""

Progress = Callable[[Any], None]
Doer = Callable[[Job, Progress], Awaitable[tuple[str, Any]]]
"""``await doer(job, progress)``: do a job; return its result as JSON text, and what to hand to those who wait here."""


class Runner:
    """Does the jobs of a store, some at a time.

    Args:
        jobs: where they are kept.
        board: where their state is posted.
        apart: how a blocking call is made.
        doers: by kind of job; other kinds are left alone.
        size: how many at a time.
        lease: how long a claim is held unless renewed [s].
    """

    def __init__(
        self, jobs: Jobs, board: Board, apart: Threaded, doers: Mapping[str, Doer], *, size: int, lease: float
    ) -> None:
        self._jobs, self._board, self._apart, self._doers = jobs, board, apart, doers
        self._size, self._lease = size, lease
        self._name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._claims = count(1)
        self._doing: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._poked = asyncio.Event()
        self._closing = False
        self._taking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin with what is queued or was left by a process that died."""
        self._taking = asyncio.create_task(self._take())

    def poke(self) -> None:
        """Say that there may be something to do."""
        self._poked.set()

    def stop(self, id: str) -> None:  # noqa: A002
        """Stop doing a job, if it is done here: it was cancelled."""
        stopped = self._doing.get(id)
        if stopped is not None:
            stopped.set()

    async def close(self) -> None:
        """Stop, and put what was being done back into the queue."""
        self._closing = True
        if self._taking is not None:
            self._poked.set()
            await asyncio.wait({self._taking})
        for stopped in self._doing.values():
            stopped.set()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _take(self) -> None:
        while not self._closing:
            self._poked.clear()
            job = await self._claimed() if len(self._doing) < self._size else None
            if job is not None:
                stopped = self._doing[job.id] = asyncio.Event()
                self._board.here.add(job.id)
                task = asyncio.create_task(self._do(job, stopped))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self._poked.wait(), IDLE)

    async def _claimed(self) -> Job | None:
        owner = f"{self._name}:{next(self._claims)}"  # never the same twice: an old claim must not pass for a new one
        for kind in self._doers:
            try:
                job: Job | None = await self._apart(self._jobs.claim, owner, self._lease, None, kind)
            except CacheError as err:
                _LOG.warning("cannot take a job: %s", err)
                return None
            if job is not None:
                return job
        return None

    async def _do(self, job: Job, stopped: asyncio.Event) -> None:
        try:
            self._board.post(job)
            if job.attempts > MAX_ATTEMPTS:
                await self._failed(job, f"It was begun {job.attempts - 1} times, and each time the server died.", None)
            else:
                await self._done(job, stopped)
        except Exception:  # noqa: BLE001 — a bug must not end the runner
            _LOG.exception("job %s: its end could not be written down", job.id)
        finally:
            del self._doing[job.id]
            self._board.here.discard(job.id)
            self._poked.set()

    async def _done(self, job: Job, stopped: asyncio.Event) -> None:
        latest = job.progress

        def progress(content: Any) -> None:
            nonlocal latest
            latest = canonical_json(content)
            self._board.post(replace(job, progress=latest))

        work = asyncio.ensure_future(self._doers[job.kind](job, progress))
        halt = asyncio.create_task(stopped.wait())
        held = True
        while held and not (await asyncio.wait({work, halt}, timeout=RENEW, return_when="FIRST_COMPLETED"))[0]:
            held = await self._renewed(job, latest)
        halt.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
            await self._given_up(job)
            return
        try:
            result, answer = work.result()
        except PoolClosed:
            await self._given_up(job)
        except DarrmError as err:
            await self._failed(job, str(err), err)
        except Exception as err:  # noqa: BLE001 — nor may one in a task, which fails its job
            _LOG.exception("job %s failed", job.id)
            await self._failed(job, "Something unforeseen went wrong; the server's log has the details.", err)
        else:
            ended = replace(job, state="done", progress=latest, result=result)
            await self._ended(News(ended, answer), self._jobs.finish, result)

    async def _renewed(self, job: Job, latest: str) -> bool:
        try:
            return bool(await self._apart(self._jobs.renew, job.id, job.owner, self._lease, latest))
        except CacheError as err:
            _LOG.warning("job %s: its claim cannot be renewed: %s", job.id, err)
            return True

    async def _failed(self, job: Job, reason: str, err: Exception | None) -> None:
        _LOG.warning("job %s failed: %s", job.id, reason)
        await self._ended(News(replace(job, state="failed", reason=reason), error=err), self._jobs.fail, reason)

    async def _given_up(self, job: Job) -> None:
        """Leave a job: back into the queue at the end of this process, else it is another's or nobody's by now."""
        try:
            if self._closing:
                await self._apart(self._jobs.release, job.id, job.owner)
                return
            stands = await self._apart(self._jobs.get, job.id)
        except CacheError as err:
            _LOG.warning("job %s: %s", job.id, err)
            return
        if stands is not None:
            self._board.post(stands)

    async def _ended(self, news: News, write: Callable[[str, str, str], bool], text: str) -> None:
        """Write down how a job ended and tell whoever waits, who need not wait for a place that cannot be written."""
        job = news.job
        for attempt, pause in enumerate(SAVING):
            await asyncio.sleep(0 if self._closing else pause)
            written = None
            try:
                written = await self._apart(write, job.id, job.owner, text)
            except CacheError as err:
                _LOG.warning("job %s: how it ended cannot be written down: %s", job.id, err)
            if written is False:
                _LOG.info("job %s was cancelled or taken over before it ended", job.id)
                await self._given_up(job)
                return
            if attempt == 0:
                self._board.post(news.job, news.answer, news.error)
            if written:
                return
