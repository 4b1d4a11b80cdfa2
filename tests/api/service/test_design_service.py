"""The service on real solver processes and stores: one solve per problem, and failures."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import solver_tasks as tasks
from support.waiting import in_loop, until_in_loop

from api.access.client_shares import ClientQuota
from api.access.clients import CURRENT_CLIENT, Client, current_client
from api.errors.problem_details import JobCancelled, NotCached, Overloaded, ShuttingDown, TooManyJobs
from api.service import jobs as service_jobs
from api.service.design_service import DesignService, Pending, design_task
from api.service.jobs import MAX_ATTEMPTS, JobAdmission
from api.service.upkeep import Upkeep
from api.settings import Settings
from api.tasks import design
from darrm_opt import verify
from darrm_opt.errors import BackendUnavailable, InvalidInput, SolveFailed
from darrm_opt.questions.design import Design
from darrm_opt.record import problem_from_record
from solver_cache import open_store
from solver_cache.database.jobs import Job

ASKED = Design(K=11, m=3, epsilon=0.0892, Delta=1e-4)
OTHER = Design(K=7, m=2, epsilon=0.1)


def settings(url: str = "memory", **more: Any) -> Settings:
    """Return settings with which a busy machine loses no lease, and is waited for."""
    usual: dict[str, Any] = {"cache_url": url, "solvers": 1, "lease_seconds": 60.0, "short_seconds": 0.0}
    return Settings(**usual | more).model_copy(update={"wait_seconds": 300.0})


@asynccontextmanager
async def service(chosen: Settings) -> AsyncIterator[DesignService]:
    async with DesignService.open(open_store(chosen.cache_url), chosen, asyncio.Event()) as opened:
        yield opened


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


def solves(*services: DesignService) -> int:
    return sum(one.pools["solvers"].tasks for one in services)


async def job_of(opened: DesignService, key: str = "") -> Job:
    """Return an existing job, by default that of `ASKED`."""
    job = await opened.get_job(key or ASKED.spec().key)
    assert job is not None
    return job


async def answered(asking: Any) -> dict[str, Any]:
    answer = await asking
    assert isinstance(answer, dict)
    return answer


def at_work(opened: DesignService) -> bool:
    solvers = opened.pools["solvers"]
    return bool(solvers.busy and solvers.tasks and solvers.alive)  # busy only: a process may not have started yet


async def running(opened: DesignService, key: str) -> None:
    """Wait until a process works on a job."""
    end = time.monotonic() + 300
    while (job := await opened.get_job(key)) is None or job.state != "running" or not at_work(opened):
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


@in_loop
async def test_processes_can_be_started_with_the_service_and_those_of_jobs_have_a_low_priority() -> None:
    async with service(settings(prestart=True)) as opened:
        assert {name: state.alive for name, state in opened.pools.items()} == dict.fromkeys(opened.pools, 1)
        assert await opened.compute(tasks.has_module, "scipy.special")
        here = os.nice(0)
        assert await opened.compute(tasks.niceness, None) == min(here + 5, 19)
        assert await opened.solvers.run(tasks.niceness, None) == min(here + 15, 19)


@in_loop
async def test_failed_background_work_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Upkeep) -> int:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Upkeep, "do_round", fail)
    async with service(settings(solve="off")) as opened:
        await until_in_loop(lambda: "work in the background ended" in caplog.text)
        assert await opened.get_job("a") is None
    assert "ZeroDivisionError: a bug" in caplog.text


# ------------------------------------------------------------------------------------------------ single flight


@in_loop
async def test_two_hundred_concurrent_requests_cause_one_solve() -> None:
    async with service(settings()) as opened:
        answers = await asyncio.gather(*(answered(opened.design(ASKED)) for _ in range(200)))
        assert solves(opened) == 1
        assert {answer["cached"] for answer in answers} == {False}
        assert len({json.dumps(answer["gamma"]) for answer in answers}) == 1
        assert verify(problem_from_record(answers[0]["problem"]), answers[0]["gamma"]).margin >= 0
        assert (await answered(opened.design(ASKED)))["cached"]
        assert solves(opened) == 1


@in_loop
async def test_two_services_over_one_store_share_each_solve(url: str) -> None:
    async with service(settings(url)) as one, service(settings(url)) as two:
        for asked in (ASKED, OTHER):
            before = solves(one, two)
            answers = await asyncio.gather(*(answered(each.design(asked)) for each in (one, two) for _ in range(50)))
            assert solves(one, two) == before + 1
            assert len({json.dumps(answer["gamma"]) for answer in answers}) == 1


@in_loop
async def test_equivalent_requests_share_a_job() -> None:
    async with service(settings()) as opened:
        spellings = [
            Design(K=5, m=3, epsilon=0.1),
            Design(K=5, m=3, epsilon=0.1, method="cuts"),
            Design(K=5, epsilon=0.1, target_epsilon=0.3, affected=5, backend="cvxpy"),
        ]
        jobs = [await opened.submit(asked) for asked in spellings]
        assert len({job.id for job in jobs}) == 1
        await answered(opened.design(spellings[0]))
        assert solves(opened) == 1


# ------------------------------------------------------------------------------------------- waiting and watching


@in_loop
async def test_a_client_that_does_not_wait_gets_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.slow_gamma)
    async with service(settings()) as opened:
        pending = await opened.design(ASKED, wait_seconds=0.05)
        assert isinstance(pending, Pending)
        assert pending.job.id == ASKED.spec().key
        assert pending.job.state in {"queued", "running"}
        assert (await answered(opened.design(ASKED)))["status"] == "optimal"
        job = await job_of(opened, pending.job.id)
        assert (job.state, job.attempts) == ("done", 1)
        assert (await opened.load_result(job) or {})["cached"]
        assert isinstance(await opened.design(OTHER, 0.0), Pending)


@in_loop
async def test_a_job_can_be_followed_from_any_process(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.slow_gamma)

    async def _states(each: DesignService, job: Any) -> list[str]:
        return [news.job.state async for news in each.events.subscribe(job)]

    async with service(settings(url)) as one, service(settings(url, solve="off")) as two:
        job = await one.submit(ASKED)
        seen = await asyncio.gather(*(_states(each, job) for each in (one, one, two)))
        assert [states[-1] for states in seen] == ["done"] * 3
        assert all("running" in states for states in seen)
        assert await _states(two, await two.get_job(job.id)) == ["done"]


@in_loop
async def test_a_disconnected_client_does_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.slow_gamma)
    async with service(settings()) as opened:
        asking = [asyncio.create_task(opened.design(ASKED)) for _ in range(10)]
        await running(opened, ASKED.spec().key)
        for task in asking[:9]:
            task.cancel()
        assert (await answered(asking[9]))["status"] == "optimal"
        assert solves(opened) == 1
        assert not opened.events._topics


# ----------------------------------------------------------------------------------------------------- cancelling


@pytest.mark.parametrize("elsewhere", [False, True])
@in_loop
async def test_cancelling_stops_the_work(monkeypatch: pytest.MonkeyPatch, url: str, elsewhere: bool) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.endless_gamma)
    async with service(settings(url)) as opened, service(settings(url, solve="off")) as other:
        asking = asyncio.create_task(opened.design(ASKED))
        await running(opened, ASKED.spec().key)
        job = await (other if elsewhere else opened).cancel(ASKED.spec().key)
        assert job is not None
        assert job.state == "cancelled"
        await until_in_loop(lambda: opened.pools["solvers"].busy == 0)
        with pytest.raises(JobCancelled, match="was cancelled; repeat the request"):
            await asking
        monkeypatch.undo()
        assert (await answered(opened.design(ASKED)))["status"] == "optimal"
        assert await opened.cancel("no such job") is None
        job = await opened.cancel(ASKED.spec().key)
        assert job is not None
        assert job.state == "done"


@in_loop
async def test_a_job_can_be_stopped_before_its_answer_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.gamma_with_incumbent)
    monkeypatch.setattr(service_jobs, "RENEW_SECONDS", 600)
    async with service(settings()) as opened:
        async for update in opened.events.subscribe(await opened.submit(ASKED)):
            if design.read_incumbent(update.job.progress) is not None:
                break
        stored = await opened.get_job(ASKED.spec().key)
        assert stored is not None
        assert design.read_incumbent(stored.progress) is None
        stopped = await opened.stop(ASKED.spec().key)
        assert stopped is not None
        assert stopped.state == "done"


@in_loop
async def test_a_queued_job_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.endless_gamma)
    async with service(settings()) as opened:
        first = await opened.submit(ASKED)
        await running(opened, first.id)
        waiting = asyncio.create_task(opened.design(OTHER))
        while (job := await opened.get_job(OTHER.spec().key)) is None:  # noqa: ASYNC110 — there is no event for it
            await asyncio.sleep(0.01)
        assert job.state == "queued"
        await opened.cancel(OTHER.spec().key)
        with pytest.raises(JobCancelled):
            await waiting
        assert solves(opened) == 1


# ------------------------------------------------------------------------------------------------------- failing


@in_loop
async def test_a_killed_process_is_replaced_and_the_solve_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.slow_gamma)
    async with service(settings()) as opened:
        asking = asyncio.create_task(opened.design(ASKED))
        await running(opened, ASKED.spec().key)
        os.kill(opened.solvers.processes[0], signal.SIGKILL)
        assert (await answered(asking))["status"] == "optimal"
        assert (solves(opened), opened.pools["solvers"].crashed) == (2, 1)


@in_loop
async def test_a_solve_that_kills_its_process_twice_has_failed(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.deadly_gamma)
    async with service(settings(url)) as opened:
        with pytest.raises(SolveFailed, match=r"^The solver process was killed by SIGKILL\.$"):
            await opened.design(ASKED)
        assert solves(opened) == 2
        job = await job_of(opened)
        assert (job.state, job.reason) == ("failed", "The solver process was killed by SIGKILL.")
        monkeypatch.undo()
        assert (await answered(opened.design(ASKED)))["status"] == "optimal"  # a new request tries again


@in_loop
async def test_solver_errors_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service(settings(max_voters=35)) as opened:
        with pytest.raises(InvalidInput, match="at most 35 voters on this server"):
            await opened.design(Design(K=36, m=3, epsilon=0.1))
        large = Design(K=35, m=3, epsilon=0.1, Delta=1e-4, method="enumerate")
        with pytest.raises(InvalidInput, match="a constraint set of at most 2,000,000 vectors"):
            await opened.design(large)
        monkeypatch.setattr(design, "design_gamma", tasks.without_solver)
        with pytest.raises(BackendUnavailable, match="needs the package highspy"):
            await opened.design(ASKED)
        job = await job_of(opened)
        assert "needs the package highspy" in job.reason


@in_loop
async def test_a_missing_solver_does_not_affect_other_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.highs_alone)
    async with service(settings()) as opened:
        absent = asyncio.create_task(opened.design(replace(ASKED, backend="gurobi")))
        await running(opened, ASKED.spec().key)
        assert (await answered(opened.design(ASKED)))["status"] == "optimal"
        with pytest.raises(BackendUnavailable):
            await absent


@in_loop
async def test_a_full_queue_refuses_new_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.endless_gamma)
    async with service(settings(max_queued_jobs=2)) as opened:
        await opened.submit(ASKED)
        await running(opened, ASKED.spec().key)
        several = [Design(K=K, m=2, epsilon=0.1) for K in (5, 7, 9)]
        await opened.submit(several[0])
        await opened.submit(several[1])
        with pytest.raises(Overloaded, match=r"full \(2 jobs\)"):
            await opened.submit(several[2])
        assert (await opened.submit(several[0])).state == "queued"  # an existing job is not new work


@in_loop
async def test_new_problems_are_charged_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.endless_gamma)
    problems = [Design(K=K, m=2, epsilon=0.1) for K in (5, 7, 9)]
    async with service(settings(job_rate=0.001, job_burst=2)) as opened:
        CURRENT_CLIENT.set(Client("key one", local=False))
        for asked in (*problems[:2], *problems[:2]):  # an existing job is not new work
            await opened.submit(asked)
        with pytest.raises(TooManyJobs, match=r"0\.001 new problems per second, and 2 in a burst") as refusal:
            await opened.design(problems[2], 0)
        assert 900 < refusal.value.seconds <= 1000
        CURRENT_CLIENT.set(Client("key two", local=False))
        assert (await opened.submit(problems[2])).state == "queued"


@in_loop
async def test_by_default_event_streams_take_a_quarter_of_the_connections() -> None:
    for size, share in ((None, 2), (6, 3)):
        async with service(settings(max_connections=16, max_streams=size)) as opened:
            with ExitStack() as held:
                for name in ("key one", "key two"):
                    CURRENT_CLIENT.set(Client(name, local=False))
                    for _ in range(share):
                        held.enter_context(opened.streams.reserve(current_client()))
                CURRENT_CLIENT.set(Client("key three", local=False))
                with pytest.raises(Overloaded), opened.streams.reserve(current_client()):
                    pass


def test_one_client_can_use_half_of_the_slots() -> None:
    shares = ClientQuota(4)
    flood, other = Client("flood", local=True), Client("other", local=False)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(shares.reserve(flood))
        with pytest.raises(TooManyJobs, match="One client can have 2 computations"), shares.reserve(flood):
            pass
        for _ in range(2):
            held.enter_context(shares.reserve(other))
        with pytest.raises(Overloaded, match="maximum of 4 computations"), shares.reserve(other):
            pass
        with shares.reserve(None):
            pass
    with shares.reserve(flood), shares.reserve(flood):
        pass
    assert not shares._counts


@pytest.mark.parametrize(("local", "charged"), [(True, False), (False, True)])
def test_local_programs_are_not_charged_by_default(local: bool, charged: bool) -> None:
    intake = JobAdmission(open_store("memory").jobs, Settings(cache_url="memory", job_burst=1))
    client = Client("address", local=local)
    assert intake.submit(design_task(ASKED), client).state == "queued"
    with pytest.raises(TooManyJobs) if charged else nullcontext():
        intake.submit(design_task(OTHER), client)
    assert intake.submit(design_task(Design(K=5, m=2, epsilon=0.1)), None).state == "queued"


@in_loop
async def test_a_job_that_kills_its_server_repeatedly_fails(url: str) -> None:
    store = open_store(url)
    request = ASKED.spec()
    store.jobs.submit(request.key, "gamma", design_task(ASKED).text)
    for number in range(MAX_ATTEMPTS):
        assert store.jobs.take(f"killed {number}", 1e-3) is not None
        await asyncio.sleep(0.01)  # its lease expires, and no server continues it
    store.close()
    async with service(settings(url)) as opened:
        await until_in_loop(lambda: store_state(url, request.key) == "failed")
        job = await job_of(opened, request.key)
        assert job.reason.startswith(f"It was started {MAX_ATTEMPTS} times and never finished: ")
        assert solves(opened) == 0


def store_state(url: str, key: str) -> str:
    store = open_store(url)
    try:
        job = store.jobs.get(key)
    finally:
        store.close()
    return "" if job is None else job.state


@in_loop
async def test_with_solving_off_only_stored_answers_are_returned(url: str) -> None:
    async with service(settings(url)) as opened:
        await answered(opened.design(ASKED))
    async with service(settings(url, solve="off")) as opened:
        assert (await answered(opened.design(ASKED)))["cached"]
        for asking in (opened.design, opened.submit):
            with pytest.raises(NotCached, match="solving is off"):
                await asking(OTHER)
        assert solves(opened) == 0


# ------------------------------------------------------------------------------------------------ the time limit


@pytest.mark.parametrize("short_seconds", [0.0, 1.0])  # with 1 s it would be designed on a queue
@in_loop
async def test_an_answer_at_a_time_limit_stays_with_its_job(url: str, short_seconds: float) -> None:
    async with service(settings(url, time_limit=1e-9, short_seconds=short_seconds)) as opened:
        jobs = []
        for _ in range(2):
            answer = await answered(opened.design(ASKED))
            assert (answer["status"], answer["cached"]) == ("time limit", False)
            assert answer["gap"] > 0
            assert verify(problem_from_record(answer["problem"]), answer["gamma"]).margin >= 0
            jobs.append(await opened.get_job(answer["id"]))
        job, again = jobs
        assert job is not None
        assert job == again  # solved once, by any free worker
        assert opened.store.get(answer["id"]) is None
        assert (await opened.load_result(job) or {})["gap"] == answer["gap"]
    async with service(settings(url)) as opened:  # given more time, it is solved again
        assert (await answered(opened.design(ASKED)))["status"] == "optimal"
        assert opened.store.get(ASKED.spec().key) is not None


TAMPERED: list[Callable[[dict[str, Any]], Any]] = [
    lambda told: told["record"]["gamma"].__setitem__(slice(None), [1.0] * 12),  # not private
    lambda told: told["record"].__setitem__("utility", 0.999),
    lambda told: told["record"]["problem"].__setitem__("epsilon", 0.05),
    lambda told: told.__delitem__("record"),
    lambda told: told.__setitem__("kept", True),
    lambda told: told.__setitem__("time_limit", "long"),
]


@in_loop
async def test_the_result_of_a_job_is_verified_when_it_is_read(url: str, tmp_path: Path) -> None:
    async with service(settings(url, time_limit=1e-9)) as opened:
        await answered(opened.design(ASKED))
        for solved, tamper in enumerate(TAMPERED, 1):
            with closing(sqlite3.connect(tmp_path / "store.sqlite")) as database, database:
                [(text,)] = database.execute("SELECT result FROM darrm_jobs")
                told = json.loads(text)
                tamper(told)
                database.execute("UPDATE darrm_jobs SET result = ?", (json.dumps(told),))
            job = await job_of(opened)
            assert await opened.load_result(job) is None, TAMPERED[solved - 1]
            answer = await answered(opened.design(ASKED))
            assert solves(opened) == solved + 1  # solved again
            assert verify(problem_from_record(answer["problem"]), answer["gamma"]).margin >= 0


# ------------------------------------------------------------------------------------------------ end and restart


@in_loop
async def test_a_shutdown_returns_jobs_to_the_queue(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.endless_gamma)
    async with service(settings(url)) as opened:
        asking = asyncio.create_task(opened.design(ASKED))
        await running(opened, ASKED.spec().key)
        pids = opened.solvers.processes
    with pytest.raises(ShuttingDown, match="try again when it is back"):
        await asking
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    async with service(settings(url, solve="off")) as opened:
        job = await job_of(opened)
        assert (job.state, job.owner, job.attempts) == ("queued", "", 0)
    monkeypatch.undo()
    async with service(settings(url)) as opened:
        news = [news async for news in opened.events.subscribe(job)]
        assert (news[-1].job.state, news[-1].job.attempts) == ("done", 1)


@in_loop
async def test_without_a_store_results_stay_with_their_jobs() -> None:
    async with service(settings("off")) as opened:
        answer = await answered(opened.design(ASKED))
        job = await job_of(opened, answer["id"])
        assert (await opened.load_result(job) or {})["gamma"] == answer["gamma"]


@in_loop
async def test_a_short_design_is_solved_once_without_a_job(url: str) -> None:
    async with service(settings(url, short_seconds=1.0)) as opened:
        answers = await asyncio.gather(*(opened.design(ASKED) for _ in range(8)))
        gammas = [answer["gamma"] for answer in answers if not isinstance(answer, Pending)]
        assert gammas == 8 * gammas[:1]
        assert sum(state.tasks for state in opened.pools.values()) == 1
        assert sum(opened.jobs.counts().values()) == 0
        again = await opened.design(ASKED)
        assert not isinstance(again, Pending)
        assert again["cached"]
        # Without waiting, the answer is the job; likewise if a limit may stop the solve.
        other = replace(ASKED, m=1.5)
        assert isinstance(await opened.design(other, 0.0), Pending)
        limited = replace(ASKED, m=1.25, time_limit=10.0)
        assert not isinstance(await opened.design(limited), Pending)
        assert sum(opened.jobs.counts().values()) == 2


@in_loop
async def test_a_busy_queue_turns_designs_into_jobs(url: str) -> None:
    async with service(settings(url, short_seconds=1.0)) as opened:
        with ExitStack() as stack:
            for queue in opened.queues:
                stack.enter_context(queue.expecting(60.0))
            assert not isinstance(await opened.design(ASKED), Pending)
        assert sum(opened.jobs.counts().values()) == 1
