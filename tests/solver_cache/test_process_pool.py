"""Solver processes: results, cancellation, limits and deaths, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support import solver_tasks as tasks
from support.paths import TESTS
from support.served import gone
from support.waiting import in_loop, until_in_loop

from darrm_opt.errors import InvalidInput, NotPrivate, SolveFailed
from solver_cache.process_pool import MemoryExceeded, PoolClosed, PoolProcess, ProcessLost, ProcessPool, TaskTimeout
from solver_cache.task_loop import pack_error, unpack_error


@asynccontextmanager
async def pool(size: int = 1, **settings: Any) -> AsyncIterator[ProcessPool]:
    """Open a pool, and check that it leaves nothing behind."""
    opened, pids = ProcessPool(size, **settings), set[int]()
    try:
        yield opened
        pids = {*opened.processes}
    finally:
        await opened.close()
    assert opened.processes == ()
    assert not [pid for pid in pids if there(pid)]


def there(pid: int) -> bool:
    """Return whether a process exists, possibly as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def begun(path: Path) -> Callable[[], bool]:
    """Return whether a task has written its process id to the file."""
    return lambda: path.exists() and path.read_text(encoding="ascii") != ""


@in_loop
async def test_tasks_run_in_reused_processes() -> None:
    async with pool(2) as solvers:
        assert await asyncio.gather(*(solvers.run(tasks.double, i) for i in range(20))) == [*range(0, 40, 2)]
        pids = {await solvers.run(tasks.who, None) for _ in range(5)}
        assert pids <= {*solvers.processes}
        assert os.getpid() not in pids
        state = solvers.state
        assert (state.size, state.alive, state.busy, state.waiting) == (2, 2, 0, 0)
        assert (state.started, state.tasks, state.crashed, state.killed) == (2, 25, 0, 0)


@in_loop
async def test_processes_are_started_when_needed_or_at_once() -> None:
    async with pool(2) as solvers:
        assert not solvers.processes
        await solvers.run(tasks.double, 1)
        assert len(solvers.processes) == 1
        await solvers.prestart()
        assert len(solvers.processes) == 2


@in_loop
async def test_files_in_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("random", "socket", "tempfile"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    async with pool() as solvers:
        assert await solvers.run(tasks.double, 4) == 8


def test_processes_compute_with_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> Any:
        pool = ProcessPool(1)
        try:
            return await pool.run(os.getenv, "OPENBLAS_NUM_THREADS")
        finally:
            await pool.close()

    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert asyncio.run(test()) == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")  # set by the operator
    assert asyncio.run(test()) == "3"


@in_loop
async def test_errors_are_raised_in_the_parent() -> None:
    async with pool() as solvers:
        with pytest.raises(InvalidInput, match=r"K = 0 is not valid: expected at least 1\. Ask for more\.") as err:
            await solvers.run(tasks.refuse, 0)
        assert (err.value.argument, err.value.value, err.value.accepted) == ("K", 0, "at least 1")
        with pytest.raises(ZeroDivisionError, match="a bug"):
            await solvers.run(tasks.break_down, None)
        with pytest.raises(SolveFailed, match=r"The task failed: known_only_here\.Odd: an odd end"):
            await solvers.run(tasks.break_down_in_own_words, None)
        with pytest.raises(SolveFailed, match="its answer cannot be sent"):
            await solvers.run(tasks.not_to_be_sent, None)
        with pytest.raises(SolveFailed, match="its argument cannot be sent"):
            await solvers.run(tasks.double, lambda: None)
        assert await solvers.run(tasks.double, 4) == 8
        assert solvers.state.started == 1


def test_errors_are_packed_and_unpacked() -> None:
    err = unpack_error(pack_error(NotPrivate("It is not.", {"x": 3}, 0.25)))
    assert isinstance(err, NotPrivate)
    assert (str(err), err.worst, err.excess) == ("It is not.", {"x": 3}, 0.25)

    class Local(Exception):  # cannot be imported from elsewhere
        pass

    assert pack_error(Local("only text"))[0] is None
    assert unpack_error(pack_error(Local("only text"))) is None


@in_loop
async def test_progress_does_not_block_the_loop() -> None:
    async with pool() as solvers:
        told: list[int] = []
        await solvers.run(tasks.tell, 5, progress=told.append)
        assert told == [0, 1, 2, 3, 4]


@in_loop
async def test_progress_reports_are_thinned_out_unless_all_are_requested() -> None:
    for seconds, many in ((0, 500), (3600, 1)):
        async with pool(report_seconds=seconds) as solvers:
            reports: list[int] = []
            await solvers.run(tasks.count_up, 500, progress=reports.append)
            assert reports == [*range(many)]


@pytest.mark.parametrize(("task", "survives"), [(tasks.willing, True), (tasks.deaf, False)])
@in_loop
async def test_cancelled_tasks_stop(tmp_path: Path, task: Any, survives: bool) -> None:
    async with pool() as solvers:
        file = tmp_path / "pid"
        running = asyncio.create_task(solvers.run(task, str(file)))
        await until_in_loop(begun(file))
        pid = int(file.read_text(encoding="ascii"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until_in_loop(lambda: solvers.state.busy == 0)
        assert there(pid) == survives
        assert await solvers.run(tasks.double, 1) == 2
        assert (solvers.state.killed, solvers.state.started) == ((0, 1) if survives else (1, 2))


@in_loop
async def test_cancelling_before_the_start_costs_nothing() -> None:
    async with pool() as solvers:
        for _ in range(3):
            running = asyncio.create_task(solvers.run(tasks.double, 1))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert await solvers.run(tasks.double, 1) == 2
        assert solvers.state.started == 1


@in_loop
async def test_a_killed_process_is_replaced_and_its_task_retried(tmp_path: Path) -> None:
    async with pool() as solvers:
        assert await solvers.run(tasks.kill_itself, (str(tmp_path / "once"), 1)) == "done"
        assert (solvers.state.crashed, solvers.state.started) == (1, 2)
        with pytest.raises(ProcessLost, match=r"^The solver process was killed by SIGKILL\.$"):
            await solvers.run(tasks.kill_itself, (str(tmp_path / "always"), 100))
        assert (tmp_path / "always").stat().st_size == 2
        with pytest.raises(ProcessLost):
            await solvers.run(tasks.kill_itself, (str(tmp_path / "never again"), 1), retries=0)
        assert await solvers.run(tasks.double, 3) == 6


@in_loop
async def test_an_idle_process_that_is_killed_is_replaced() -> None:
    async with pool() as solvers:
        first = await solvers.run(tasks.who, None)
        os.kill(first, signal.SIGKILL)
        await until_in_loop(lambda: not there(first))  # not even as a zombie
        assert await solvers.run(tasks.who, None) != first
        assert solvers.state.crashed == 1


@in_loop
async def test_a_task_beyond_its_time_limit_is_killed(tmp_path: Path) -> None:
    async with pool() as solvers:
        with pytest.raises(TaskTimeout, match=r"^The task exceeded its time limit of 0\.5 s and was stopped\.$"):
            await solvers.run(tasks.deaf, str(tmp_path / "pid"), time_limit=0.5)
        assert await solvers.run(tasks.double, 3, time_limit=60) == 6


@in_loop
async def test_a_killed_process_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver_cache.process_pool.WATCH_SECONDS", 0.0)
    async with pool() as solvers:
        with pytest.raises(TaskTimeout):
            await solvers.run(tasks.deaf, str(tmp_path / "pid"), time_limit=0.01)
        assert solvers.state.killed == 1


@in_loop
async def test_a_growing_process_is_killed_or_replaced() -> None:
    async with pool(memory=300) as solvers:
        with pytest.raises(MemoryExceeded, match=r"exceeded its memory limit of 300 MiB"):
            await solvers.run(tasks.grow, 400)
        assert solvers.state.killed == 1
        pid = await solvers.run(tasks.hoard, 1)
        assert await solvers.run(tasks.hoard, 140) == pid  # below the limit, but idle above half of it
        assert await solvers.run(tasks.who, None) != pid
        assert solvers.state.retired == 1


class DelayedStarts:
    """Starts of processes, of which the second waits until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.go, start = 0, asyncio.Event(), PoolProcess.start

        async def start_later(name: str, report_seconds: float, niceness: int) -> PoolProcess:
            self.count += 1
            if self.count == 2:
                await self.go.wait()
            return await start(name, report_seconds, niceness)

        monkeypatch.setattr(PoolProcess, "start", start_later)


@in_loop
async def test_an_old_process_serves_until_its_successor_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = DelayedStarts(monkeypatch)
    async with pool(max_tasks=3) as solvers:
        first = await solvers.run(tasks.who, None)
        assert {await solvers.run(tasks.who, None) for _ in range(9)} == {first}
        assert (starts.count, solvers.state.retired) == (2, 0)
        starts.go.set()
        await until_in_loop(lambda: solvers.state.retired == 1)
        second = await solvers.run(tasks.who, None)
        assert second != first
        await until_in_loop(lambda: solvers.processes == (second,))
        while solvers.state.retired == 1:  # also if its successor is ready in the middle of a task
            pid = await solvers.run(tasks.who, None)
            assert pid == second or solvers.state.retired == 2
        await until_in_loop(lambda: solvers.state.alive == 1)
        assert (solvers.state.started, solvers.state.crashed, solvers.state.killed) == (3, 0, 0)


@in_loop
async def test_a_process_is_warmed_up_before_it_takes_over() -> None:
    async with pool(max_tasks=2, warm_up=tasks.warm_up) as solvers:
        assert not await solvers.run(tasks.is_warm, None)  # the first process is awaited
        first = await solvers.run(tasks.who, None)
        while await solvers.run(tasks.who, None) == first:
            pass
        assert await solvers.run(tasks.is_warm, None)
    async with pool(warm_up=tasks.warm_up) as solvers:
        await solvers.prestart()
        assert await solvers.run(tasks.is_warm, None)


@pytest.mark.parametrize("late", [False, True])
@in_loop
async def test_a_successor_replaces_a_dead_old_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, late: bool
) -> None:
    starts, file = DelayedStarts(monkeypatch), tmp_path / "pid"
    async with pool(max_tasks=3) as solvers:
        for _ in range(2):
            await solvers.run(tasks.who, None)
        first = await solvers.run(tasks.who, None)
        busy = asyncio.create_task(solvers.run(tasks.deaf, str(file), retries=0))
        await until_in_loop(begun(file))
        if late:
            starts.go.set()
            await until_in_loop(lambda: [*solvers._successors.values()] != [None])
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ProcessLost):
            await busy
        assert await solvers.run(tasks.who, None) != first
        starts.go.set()
        await until_in_loop(lambda: solvers.state.alive == 1 and not solvers._successors)
        assert await solvers.run(tasks.double, 3) == 6
        assert (solvers.state.started, solvers.state.crashed) == (2 if late else 3, 1)


@in_loop
async def test_closing_ends_running_and_waiting_tasks(tmp_path: Path) -> None:
    solvers = ProcessPool(1)
    file = tmp_path / "pid"
    running = [asyncio.create_task(solvers.run(tasks.deaf, str(file))) for _ in range(3)]
    await until_in_loop(begun(file))
    [pid] = solvers.processes
    await solvers.close()
    assert not there(pid)
    for task in running:
        with pytest.raises(PoolClosed, match="The process pool is shutting down"):
            await task
    with pytest.raises(PoolClosed):
        await solvers.run(tasks.double, 1)


@in_loop
async def test_closing_during_a_start_leaves_no_process() -> None:
    solvers = ProcessPool(2)
    running = [asyncio.create_task(solvers.run(tasks.double, 1)) for _ in range(2)]
    for _ in range(4):
        await asyncio.sleep(0)
    await solvers.close()
    assert solvers.processes == ()
    assert solvers.state.busy == 0
    for task in running:
        with pytest.raises(PoolClosed):
            await task


ORPHANS = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from support import solver_tasks
from solver_cache.process_pool import MemoryExceeded, PoolClosed, ProcessPool, TaskTimeout
from solver_cache.process_pool import PoolProcess, ProcessLost

async def main():
    pool = ProcessPool(2)
    await pool.prestart()
    busy = asyncio.ensure_future(pool.run(solver_tasks.deaf, sys.argv[2]))
    while not open(sys.argv[2], "a+").tell():
        await asyncio.sleep(0.01)
    print(*pool.processes, flush=True)
    await busy

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_processes_end_if_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(ORPHANS, encoding="utf-8")
    arguments = [sys.executable, str(script), str(TESTS), str(tmp_path / "pid")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(there(pid) for pid in pids)
        parent.kill()
    gone(pids)
