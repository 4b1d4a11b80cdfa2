"""The desk, on real solver processes and real stores: one solve a problem, and what becomes of it when things go wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from support import solver_tasks as tasks

from api import work
from api.access import Client, let_in
from api.desk import Desk, Pending
from api.intake import Intake
from api.refusals import Busy, JobCancelled, NotKept, ShuttingDown, TooManyJobs
from api.runner import MOST_ATTEMPTS
from api.schemas import CurveRequest, DesignRequest
from api.settings import Settings
from api.shares import Shares
from api.stopping import Stopping
from darrm_opt import verify
from darrm_opt.errors import BackendUnavailable, InvalidInput, SolveFailed
from darrm_opt.record import problem_from_record
from solver_cache import open_store
from solver_cache.key import canonical_json
from solver_cache.memory_jobs import MemoryJobs

ASKED = DesignRequest(K=11, m=3, epsilon=0.0892, Delta=1e-4)
OTHER = DesignRequest(K=7, m=2, epsilon=0.1)


def settings(url: str = "memory", **more: Any) -> Settings:
    return Settings(**{"cache_url": url, "solvers": 1, "patience": 30.0, "lease": 1.0, **more})


@asynccontextmanager
async def desk(chosen: Settings) -> AsyncIterator[Desk]:
    opened = Desk(open_store(chosen.cache_url), chosen)
    try:
        await opened.start(Stopping())
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


async def until(true: Callable[[], bool], seconds: float = 300) -> float:
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds
        await asyncio.sleep(0.01)
    return time.monotonic() - began


def solves(*desks: Desk) -> int:
    return sum(one.pools["solvers"].tasks for one in desks)


async def answered(asking: Any) -> dict[str, Any]:
    answer = await asking
    assert isinstance(answer, dict)
    return answer


def at_work(opened: Desk) -> bool:
    solvers = opened.pools["solvers"]
    return bool(solvers.busy and solvers.tasks and solvers.alive)  # busy alone: a process may have yet to start


async def running(opened: Desk, key: str) -> None:
    """Wait until a job is at work in a process."""
    end = time.monotonic() + 300
    while (job := await opened.job(key)) is None or job.state != "running" or not at_work(opened):
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


# ------------------------------------------------------------------------------------------------ single flight


def test_two_hundred_who_ask_at_once_cause_one_solve() -> None:
    async def test() -> None:
        async with desk(settings()) as opened:
            answers = await asyncio.gather(*(answered(opened.gamma(ASKED)) for _ in range(200)))
            assert solves(opened) == 1
            assert {answer["cached"] for answer in answers} == {False}
            assert len({json.dumps(answer["gamma"]) for answer in answers}) == 1
            assert verify(problem_from_record(answers[0]["problem"]), answers[0]["gamma"]).margin >= 0
            assert (await answered(opened.gamma(ASKED)))["cached"]
            assert solves(opened) == 1

    run(test)


def test_two_desks_over_one_store_share_each_solve(url: str) -> None:
    async def test() -> None:
        async with desk(settings(url)) as one, desk(settings(url)) as two:
            for asked in (ASKED, OTHER):
                before = solves(one, two)
                answers = await asyncio.gather(*(answered(each.gamma(asked)) for each in (one, two) for _ in range(50)))
                assert solves(one, two) == before + 1
                assert len({json.dumps(answer["gamma"]) for answer in answers}) == 1

    run(test)


def test_a_problem_is_the_same_however_it_is_written_and_solved() -> None:
    async def test() -> None:
        async with desk(settings()) as opened:
            spellings = [
                DesignRequest(K=5, m=3, epsilon=0.1),
                DesignRequest(K=5, m=3, epsilon=0.1, method="cuts"),
                DesignRequest(K=5, epsilon=0.1, target_epsilon=0.3, affected=5, backend="cvxpy"),
            ]
            jobs = [await opened.submit(asked) for asked in spellings]
            assert len({job.id for job in jobs}) == 1
            await answered(opened.gamma(spellings[0]))
            assert solves(opened) == 1

    run(test)


# ------------------------------------------------------------------------------------------- waiting and watching


def test_who_does_not_wait_is_told_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "gamma", tasks.slow_gamma)

    async def test() -> None:
        async with desk(settings()) as opened:
            pending = await opened.gamma(ASKED, patience=0.05)
            assert isinstance(pending, Pending)
            assert pending.job.id == ASKED.request().key
            assert pending.job.state in {"queued", "running"}
            assert (await answered(opened.gamma(ASKED)))["status"] == "optimal"
            job = await opened.job(pending.job.id)
            assert job is not None
            assert (job.state, job.attempts) == ("done", 1)
            assert (await opened.result(job) or {})["cached"]
            assert isinstance(await opened.gamma(CurveRequest(**OTHER.model_dump()), 0.0), Pending)

    run(test)


def test_a_job_is_followed_from_wherever(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(work, "gamma", tasks.slow_gamma)

    async def test() -> None:
        async with desk(settings(url)) as one, desk(settings(url, solve="off")) as two:
            job = await one.submit(ASKED)
            seen = await asyncio.gather(*(_states(each, job) for each in (one, one, two)))
            assert [states[-1] for states in seen] == ["done"] * 3
            assert all("running" in states for states in seen)
            assert await _states(two, await two.job(job.id)) == ["done"]

    async def _states(each: Desk, job: Any) -> list[str]:
        return [news.job.state async for news in each.follow(job)]

    run(test)


def test_one_who_goes_away_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "gamma", tasks.slow_gamma)

    async def test() -> None:
        async with desk(settings()) as opened:
            asking = [asyncio.create_task(opened.gamma(ASKED)) for _ in range(10)]
            await running(opened, ASKED.request().key)
            for task in asking[:9]:
                task.cancel()
            assert (await answered(asking[9]))["status"] == "optimal"
            assert solves(opened) == 1
            assert not opened._board._topics

    run(test)


# ----------------------------------------------------------------------------------------------------- cancelling


@pytest.mark.parametrize("elsewhere", [False, True])
def test_cancelling_stops_the_work(monkeypatch: pytest.MonkeyPatch, url: str, elsewhere: bool) -> None:
    monkeypatch.setattr(work, "gamma", tasks.endless_gamma)

    async def test() -> None:
        async with desk(settings(url)) as opened, desk(settings(url, solve="off")) as other:
            asking = asyncio.create_task(opened.gamma(ASKED))
            await running(opened, ASKED.request().key)
            job = await (other if elsewhere else opened).cancel(ASKED.request().key)
            assert job is not None
            assert job.state == "cancelled"
            await until(lambda: opened.pools["solvers"].busy == 0, 10)  # two seconds, where the machine is not busy
            with pytest.raises(JobCancelled, match="was cancelled; ask again"):
                await asking
            monkeypatch.undo()
            assert (await answered(opened.gamma(ASKED)))["status"] == "optimal"
            assert await opened.cancel("no such job") is None
            job = await opened.cancel(ASKED.request().key)
            assert job is not None
            assert job.state == "done"

    run(test)


def test_a_queued_job_is_cancelled_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "gamma", tasks.endless_gamma)

    async def test() -> None:
        async with desk(settings()) as opened:
            first = await opened.submit(ASKED)
            await running(opened, first.id)
            waiting = asyncio.create_task(opened.gamma(OTHER))
            await asyncio.sleep(0.2)
            job = await opened.job(OTHER.request().key)
            assert job is not None
            assert job.state == "queued"
            await opened.cancel(OTHER.request().key)
            with pytest.raises(JobCancelled):
                await waiting
            assert solves(opened) == 1

    run(test)


# ------------------------------------------------------------------------------------------------------- failing


def test_a_killed_process_is_replaced_and_the_solve_begun_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "gamma", tasks.slow_gamma)

    async def test() -> None:
        async with desk(settings()) as opened:
            asking = asyncio.create_task(opened.gamma(ASKED))
            await running(opened, ASKED.request().key)
            os.kill(opened._solvers.processes[0], signal.SIGKILL)
            assert (await answered(asking))["status"] == "optimal"
            assert (solves(opened), opened.pools["solvers"].crashed) == (2, 1)

    run(test)


def test_a_solve_that_kills_its_process_twice_has_failed(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(work, "gamma", tasks.deadly_gamma)

    async def test() -> None:
        async with desk(settings(url)) as opened:
            with pytest.raises(SolveFailed, match=r"^The solver process was killed by signal 9\.$"):
                await opened.gamma(ASKED)
            assert solves(opened) == 2
            job = await opened.job(ASKED.request().key)
            assert job is not None
            assert (job.state, job.reason) == ("failed", "The solver process was killed by signal 9.")
            monkeypatch.undo()
            assert (await answered(opened.gamma(ASKED)))["status"] == "optimal"  # asked again, it is tried again

    run(test)


def test_what_the_solver_refuses_is_refused_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with desk(settings(most_voters=35)) as opened:
            with pytest.raises(InvalidInput, match="at most 35 voters on this server"):
                await opened.gamma(DesignRequest(K=36, m=3, epsilon=0.1))
            large = DesignRequest(K=35, m=3, epsilon=0.1, Delta=1e-4, method="enumerate")
            with pytest.raises(InvalidInput, match="a constraint set of at most 2,000,000 vectors"):
                await opened.gamma(large)
            monkeypatch.setattr(work, "gamma", tasks.without_solver)
            with pytest.raises(BackendUnavailable, match="needs the package highspy"):
                await opened.gamma(ASKED)
            job = await opened.job(ASKED.request().key)
            assert job is not None
            assert "needs the package highspy" in job.reason

    run(test)


def test_one_who_asked_for_another_solver_does_not_share_its_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "gamma", tasks.highs_alone)

    async def test() -> None:
        async with desk(settings()) as opened:
            absent = asyncio.create_task(opened.gamma(ASKED.model_copy(update={"backend": "gurobi"})))
            await running(opened, ASKED.request().key)
            assert (await answered(opened.gamma(ASKED)))["status"] == "optimal"
            with pytest.raises(BackendUnavailable):
                await absent

    run(test)


def test_a_full_queue_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "gamma", tasks.endless_gamma)

    async def test() -> None:
        async with desk(settings(queue_length=2)) as opened:
            await opened.submit(ASKED)
            await running(opened, ASKED.request().key)
            several = [DesignRequest(K=K, m=2, epsilon=0.1) for K in (5, 7, 9)]
            await opened.submit(several[0])
            await opened.submit(several[1])
            with pytest.raises(Busy, match="2 jobs wait to be solved already"):
                await opened.submit(several[2])
            assert (await opened.submit(several[0])).state == "queued"  # what is there is no more work

    run(test)


def test_new_problems_are_charged_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "gamma", tasks.endless_gamma)
    problems = [DesignRequest(K=K, m=2, epsilon=0.1) for K in (5, 7, 9)]

    async def test() -> None:
        async with desk(settings(job_rate=0.001, job_burst=2)) as opened:
            let_in(Client("key one", local=False))
            for asked in (*problems[:2], *problems[:2]):  # what is there is no more work
                await opened.submit(asked)
            with pytest.raises(TooManyJobs, match=r"0\.001 new problems a second .*, 2 at once") as refusal:
                await opened.gamma(problems[2], 0)
            assert 900 < refusal.value.seconds <= 1000
            let_in(Client("key two", local=False))
            assert (await opened.submit(problems[2])).state == "queued"

    run(test)


def test_one_client_has_half_of_the_places() -> None:
    shares = Shares(4)
    flood, other = Client("flood", local=True), Client("other", local=False)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(shares.one(flood))
        with pytest.raises(TooManyJobs, match="2 requests of one client may wait"), shares.one(flood):
            pass
        for _ in range(2):
            held.enter_context(shares.one(other))
        with pytest.raises(Busy, match="4 requests wait for a solver process already"), shares.one(other):
            pass
        with shares.one(None):
            pass
    with shares.one(flood), shares.one(flood):
        pass
    assert not shares._taken


@pytest.mark.parametrize(("local", "charged"), [(True, False), (False, True)])
def test_programs_of_this_machine_are_not_charged_unless_told_so(local: bool, charged: bool) -> None:
    intake = Intake(MemoryJobs(), Settings(cache_url="memory", job_burst=1))
    client = Client("address", local=local)
    assert intake.submit("a", "{}", False, client).state == "queued"
    with pytest.raises(TooManyJobs) if charged else nullcontext():
        intake.submit("b", "{}", False, client)
    assert intake.submit("c", "{}", False, None).state == "queued"


def test_a_job_that_takes_its_server_down_is_given_up(url: str) -> None:
    async def test() -> None:
        store = open_store(url)
        request = ASKED.request()
        store.jobs.submit(request.key, "gamma", canonical_json(work.gamma_argument(request, "auto", "highs")))
        for number in range(MOST_ATTEMPTS):
            assert store.jobs.claim(f"killed {number}", 1e-3) is not None
            await asyncio.sleep(0.01)  # its lease runs out, and nobody comes back
        store.close()
        async with desk(settings(url)) as opened:
            await until(lambda: store_state(url, request.key) == "failed")
            job = await opened.job(request.key)
            assert job is not None
            assert job.reason == f"It was begun {MOST_ATTEMPTS} times, and each time the server died."
            assert solves(opened) == 0

    run(test)


def store_state(url: str, key: str) -> str:
    store = open_store(url)
    try:
        job = store.jobs.get(key)
    finally:
        store.close()
    return "" if job is None else job.state


def test_without_solving_only_what_is_kept_is_given(url: str) -> None:
    async def test() -> None:
        async with desk(settings(url)) as opened:
            await answered(opened.gamma(ASKED))
        async with desk(settings(url, solve="off")) as opened:
            assert (await answered(opened.gamma(ASKED)))["cached"]
            for asking in (opened.gamma, opened.submit):
                with pytest.raises(NotKept, match="solving is off"):
                    await asking(OTHER)
            assert solves(opened) == 0

    run(test)


# ------------------------------------------------------------------------------------------------ the time limit


def test_an_answer_cut_short_is_the_result_of_its_job_alone(url: str) -> None:
    async def test() -> None:
        async with desk(settings(url, time_limit=1e-9)) as opened:
            for _ in range(2):
                answer = await answered(opened.gamma(ASKED))
                assert (answer["status"], answer["cached"]) == ("time limit", False)
                assert answer["gap"] > 0
                assert verify(problem_from_record(answer["problem"]), answer["gamma"]).margin >= 0
            assert solves(opened) == 1
            assert opened.store.get(answer["id"]) is None
            job = await opened.job(answer["id"])
            assert job is not None
            assert (await opened.result(job) or {})["gap"] == answer["gap"]
        async with desk(settings(url)) as opened:  # given more time, it is solved again
            assert (await answered(opened.gamma(ASKED)))["status"] == "optimal"
            assert opened.store.get(ASKED.request().key) is not None

    run(test)


TAMPERED: list[Callable[[dict[str, Any]], Any]] = [
    lambda told: told["record"]["gamma"].__setitem__(slice(None), [1.0] * 12),  # not private
    lambda told: told["record"].__setitem__("utility", 0.999),
    lambda told: told["record"]["problem"].__setitem__("epsilon", 0.05),
    lambda told: told.__delitem__("record"),
    lambda told: told.__setitem__("kept", True),
    lambda told: told.__setitem__("time_limit", "long"),
]


@pytest.mark.parametrize("tamper", TAMPERED)
def test_the_result_of_a_job_is_proved_when_it_is_read(
    url: str, tmp_path: Path, tamper: Callable[[dict[str, Any]], Any]
) -> None:
    async def test() -> None:
        async with desk(settings(url, time_limit=1e-9)) as opened:
            await answered(opened.gamma(ASKED))
        with sqlite3.connect(tmp_path / "store.sqlite") as database:
            [(text,)] = database.execute("SELECT result FROM darrm_jobs")
            told = json.loads(text)
            tamper(told)
            database.execute("UPDATE darrm_jobs SET result = ?", (json.dumps(told),))
        database.close()
        async with desk(settings(url, time_limit=1e-9)) as opened:
            job = await opened.job(ASKED.request().key)
            assert job is not None
            assert await opened.result(job) is None
            answer = await answered(opened.gamma(ASKED))
            assert solves(opened) == 1  # solved again
            assert verify(problem_from_record(answer["problem"]), answer["gamma"]).margin >= 0

    run(test)


# ------------------------------------------------------------------------------------------------ end and restart


def test_an_orderly_end_puts_the_work_back_and_the_next_start_takes_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(work, "gamma", tasks.endless_gamma)

    async def test() -> None:
        async with desk(settings(url)) as opened:
            asking = asyncio.create_task(opened.gamma(ASKED))
            await running(opened, ASKED.request().key)
            pids = opened._solvers.processes
        with pytest.raises(ShuttingDown, match="ask again when it is back"):
            await asking
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        async with desk(settings(url, solve="off")) as opened:
            job = await opened.job(ASKED.request().key)
            assert job is not None
            assert (job.state, job.owner, job.attempts) == ("queued", "", 0)
        monkeypatch.undo()
        async with desk(settings(url)) as opened:
            news = [news async for news in opened.follow(job)]
            assert (news[-1].job.state, news[-1].job.attempts) == ("done", 1)

    run(test)


def test_a_store_that_is_off_keeps_results_for_those_who_come_back() -> None:
    async def test() -> None:
        async with desk(settings("off")) as opened:
            answer = await answered(opened.gamma(ASKED))
            job = await opened.job(answer["id"])
            assert job is not None
            assert (await opened.result(job) or {})["gamma"] == answer["gamma"]

    run(test)
