"""Runs with real processes: the stored answers are the same however a run ends, and only lost ones are solved twice."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaigns import counted_work
from campaigns.counted_work import GRID, counted, counts
from support.paths import ROOT
from support.waiting import until

from darrm_opt import InvalidInput, Problem, solve
from darrm_opt.answers.tables import design_seconds
from darrm_opt.design.solution import Solution, Status
from solver_cache import CacheError, Row, Store, open_store, validate_row
from solver_cache.database.store import DatabaseStore
from solver_cache.precompute import worker
from solver_cache.precompute.executor import AssignmentEnded, AssignmentLost, AssignmentReport, Processes
from solver_cache.precompute.grid import grid_of
from solver_cache.precompute.plan import RunOutcome, RunProgress, make_plan
from solver_cache.precompute.scheduler import RunOptions, run
from solver_cache.precompute.worker import (
    QUICK_SECONDS,
    Answer,
    Assignment,
    AttemptFailed,
    ClaimedElsewhere,
    Claims,
    SolveFinished,
    event_groups,
    perform,
)

WARM: dict[str, Any] = {"K": 101, "epsilon": 0.1, "Delta": 1e-5, "m": [2, 3, 4, 5]}
MANY = 22


def run_grid(content: dict[str, Any], store: Store, options: RunOptions | None = None, workers: int = 1) -> RunOutcome:
    """Run a grid on processes of this machine, and count the solves."""
    plan = make_plan(grid_of(content).specs(), store, design_seconds)
    with closing(Processes(workers, counted)) as executor:
        return run(plan, store, executor, options)


def open_claims(content: dict[str, Any], store: Store) -> list[str]:
    """Return the keys of a grid that are still claimed."""
    found = store.claim("who asks", 60, [spec.key for spec in grid_of(content).specs()])
    return [key for key, what in found.items() if what == "held"]


def rows(store: Store) -> list[Row]:
    return [*store.rows()]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COUNTED", str(tmp_path / "counted"))
    return tmp_path / "counted"


@pytest.fixture(scope="module")
def undisturbed() -> list[Row]:
    """Return the table of `GRID`, computed by this process."""
    return counted_work.undisturbed(GRID)


def test_a_run_stores_the_answers_of_solve(log: Path, undisturbed: list[Row]) -> None:
    store, seen = open_store("memory"), list[RunProgress]()
    plan = make_plan(grid_of(GRID).specs(), store, design_seconds)
    with closing(Processes(2, counted)) as executor:
        outcome = run(plan, store, executor, watcher=seen.append)
    assert rows(store) == undisturbed
    assert {validate_row(row).decision for row in undisturbed} == {"hit"}
    spec = next(iter(grid_of(GRID).specs()))
    kept = store.get(spec.key)
    assert kept is not None
    assert json.loads(kept.record)["gamma"] == solve(spec.problem).gamma.tolist()
    assert json.loads(kept.record)["statistics"]["seconds"] == {}  # nothing depends on the machine
    assert set(counts(log).values()) == {1}
    assert (outcome.progress.solved, outcome.progress.failed, outcome.failures) == (MANY, 0, ())
    assert [at.over for at in seen] == sorted(at.over for at in seen)
    assert seen[-1].remaining == 0
    assert 0 <= seen[-1].worst_gap < 1e-8
    assert open_claims(GRID, store) == []
    assert store.jobs.list() == []


def test_stored_problems_are_not_solved_again(log: Path) -> None:
    store = open_store("memory")
    run_grid({**GRID, "K": [5, 7]}, store)
    before = counts(log)
    assert make_plan(grid_of(GRID).specs(), store, design_seconds).stored == sum(before.values()) == 10
    run_grid(GRID, store)
    assert set(counts(log).values()) == {1}
    assert make_plan(grid_of(GRID).specs(), store, design_seconds).batches == ()


# ---------------------------------------------------------------------------------------------- warm starts


def answers(task: Assignment) -> dict[str, str]:
    return {event.key: event.row.record for event in perform(task) if isinstance(event, Answer)}


def test_warm_answers_do_not_depend_on_earlier_solves() -> None:
    (batch,) = make_plan(grid_of(WARM).specs(), open_store("memory"), design_seconds).batches
    assert batch.lead is not None
    assert batch.lead == batch.specs[0]
    whole = list(perform(Assignment(0, batch.specs, batch.lead)))
    expected = {event.key: event.row.record for event in whole if isinstance(event, Answer)}
    assert json.loads(expected[batch.lead.key])["gamma"] == solve(batch.specs[0].problem).gamma.tolist()
    again = answers(Assignment(1, batch.specs[:0:-1], batch.lead))  # in reverse order, with the lead solved elsewhere
    alone = answers(Assignment(2, batch.specs[2:3], batch.lead))
    assert again == {key: record for key, record in expected.items() if key != batch.lead.key}
    assert alone.items() <= expected.items()
    assert len(alone) == 1


def test_warm_and_cold_answers_agree() -> None:
    (batch,) = make_plan(grid_of(WARM).specs(), open_store("memory"), design_seconds).batches
    for spec, event in zip(batch.specs, perform(Assignment(0, batch.specs, batch.lead)), strict=True):
        assert isinstance(event, Answer)
        warm, cold = json.loads(event.row.record), solve(spec.problem, spec.objective)
        assert warm["gamma"] == pytest.approx(cold.gamma.tolist(), abs=1e-6)
        assert warm["utility"] == pytest.approx(cold.utility, abs=1e-9)


# ------------------------------------------------------------------------------------------- several at once


def test_two_concurrent_runs_share_the_work(log: Path, tmp_path: Path, undisturbed: list[Row]) -> None:
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    outcomes: list[RunOutcome] = []
    grids = [GRID, {**GRID, "K": [11, 9, 7, 5]}]  # in different orders

    def one(content: dict[str, Any], place: str) -> None:
        with closing(open_store(url)) as store:
            outcomes.append(run_grid(content, store, RunOptions(store_url=place)))

    open_store(url).close()
    threads = [threading.Thread(target=one, args=(grid, place)) for grid, place in zip(grids, ("", url), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert set(counts(log).values()) == {1}
    assert len(counts(log)) == MANY
    assert sum(outcome.progress.solved for outcome in outcomes) == MANY
    with closing(open_store(url)) as store:
        assert rows(store) == undisturbed
        assert open_claims(GRID, store) == []


def test_a_run_waits_for_the_claims_of_other_runs(log: Path) -> None:
    store = open_store("memory")
    spec = next(iter(grid_of(GRID).specs()))
    other = Claims(store, "another", 60)
    assert other.take([spec.key]) == {spec.key: "taken"}
    (event,) = perform(Assignment(0, (spec,)))
    assert isinstance(event, Answer)

    def complete() -> None:
        time.sleep(1)
        other.complete([event.row])

    thread = threading.Thread(target=complete)
    thread.start()
    outcome = run_grid({**GRID, "K": 5}, store)
    thread.join()
    assert counts(log)[spec.key] == 0
    assert (outcome.progress.elsewhere, outcome.progress.solved) == (1, 3)


def test_an_expired_claim_is_taken_over(log: Path) -> None:
    store = open_store("memory")
    spec = next(iter(grid_of(GRID).specs()))
    assert Claims(store, "who died", 0.5).take([spec.key]) == {spec.key: "taken"}
    assert run_grid({**GRID, "K": 5}, store).progress.solved == 4
    assert counts(log)[spec.key] == 1


def test_an_answer_whose_claim_was_taken_over_is_not_stored(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    spec = next(iter(grid_of(GRID).specs()))
    with closing(open_store(url)) as store:
        events = perform(Assignment(0, (spec,), store_url=url, owner="who was cut off", lease=60))
        assert next(events) == SolveFinished(spec.key)
        with closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as file:
            file.execute("UPDATE darrm_claims SET owner = 'another'")
        assert [*events] == [ClaimedElsewhere(spec.key)]
        assert rows(store) == []


def test_an_invalid_row_is_replaced() -> None:
    store = open_store("memory")
    spec = next(iter(grid_of(GRID).specs()))
    (event,) = perform(Assignment(0, (spec,)))
    assert isinstance(event, Answer)
    claims = Claims(store, "me", 60)
    assert claims.take([spec.key]) == {spec.key: "taken"}
    store.put(replace(event.row, record="{}"))
    assert claims.complete([event.row]) == {spec.key}
    assert rows(store) == [event.row]


# ------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("direct", [False, True])
def test_a_problem_that_kills_its_worker_is_recorded_and_the_run_continues(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: list[Row], *, direct: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    poison = [*grid_of(GRID).specs()][3].key
    monkeypatch.setenv("COUNTED_CRASH", poison)
    with closing(open_store(url)) as store:
        outcome = run_grid(GRID, store, RunOptions(attempts=2, lease=2, store_url=url if direct else ""))
        assert [failure.key for failure in outcome.failures] == [poison]
        assert (
            outcome.failures[0].reason
            == "given up after 2 attempts: The solver process ended by itself with exit code 9."
        )
        # of a worker that returns answers in groups it is not known which problem it was at: the batch is tried once
        # more
        crashes = 2 if direct else 3
        assert (outcome.progress.solved, outcome.progress.losses) == (MANY - 1, crashes)
        assert rows(store) == [row for row in undisturbed if row.key != poison]
        assert counts(log, "begun")[poison] == crashes
        # answers not yet stored are solved again
        assert set(counts(log).values()) <= ({1, 2, 3} if direct else {1, 2})
        assert open_claims(GRID, store) == []
        store.release_claims("who asks", [poison])
        monkeypatch.delenv("COUNTED_CRASH")
        assert run_grid(GRID, store).progress.solved == 1  # another run tries again
        assert rows(store) == undisturbed


def test_a_problem_that_cannot_be_solved_in_time_fails_at_once(log: Path) -> None:
    store = open_store("memory")
    outcome = run_grid({**GRID, "K": 101, "m": 3}, store, RunOptions(time_limit=1e-6))
    assert len(outcome.failures) == 2
    assert all("time" in failure.reason for failure in outcome.failures)
    assert open_claims({**GRID, "K": 101, "m": 3}, store) == []
    assert rows(store) == []
    assert set(counts(log, "begun").values()) == {1}


class Here:
    """An executor in this process."""

    streams, workers, capacity = True, 1, 1

    def __init__(self) -> None:
        self._tasks: list[Assignment] = []
        self.taken: list[Assignment] = []

    def submit(self, task: Assignment) -> None:
        self._tasks.append(task)
        self.taken.append(task)

    def poll(self, _: float) -> list[AssignmentReport]:
        tasks, self._tasks = self._tasks, []
        return [AssignmentReport(task.number, [*perform(task), AssignmentEnded()]) for task in tasks]

    def close(self) -> None:
        """Do nothing: no process was started."""


def test_tasks_shrink_towards_the_end_and_cover_every_problem_once() -> None:
    store, executor = open_store("memory"), Here()
    plan = make_plan(grid_of({**GRID, "K": {"from": 5, "to": 21, "step": 2}}).specs(), store, lambda _: 0.015)
    assert len(plan.batches) == 1  # whose keys are claimed together
    outcome = run(plan, store, executor)
    sizes = [len(task.specs) for task in executor.taken]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] >= plan.missing / 4
    assert sizes[-1] <= 4  # `MIN_TASK_SECONDS`
    assert sum(sizes) == plan.missing == outcome.progress.solved


def test_processes_start_before_there_is_a_task() -> None:
    with closing(Processes(2)) as executor:
        until(lambda: len(executor.processes) == 2)


def test_an_idle_process_that_dies_loses_nothing() -> None:
    with closing(Processes(1)) as executor:
        for K in (5, 7):
            plan = make_plan(grid_of({**GRID, "K": K}).specs(), open_store("memory"), design_seconds)
            outcome = run(plan, open_store("memory"), executor)
            assert (outcome.progress.solved, outcome.progress.losses) == (plan.missing, 0)
            until(
                lambda: (executor._thread.pool.state.busy, executor._thread.pool.state.waiting) == (0, 0)
            )  # its warm-up
            (pid,) = executor.processes
            os.kill(pid, signal.SIGKILL)
            until(lambda: executor.processes == ())


def test_waiting_assignments_survive_a_dead_process(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [*itertools.islice(grid_of(GRID).specs(), 4)]
    monkeypatch.setenv("COUNTED_CRASH", specs[0].key)
    with closing(Processes(1, counted)) as executor:
        for number, spec in enumerate(specs[:3]):
            executor.submit(Assignment(number, (spec,)))
        assert executor.capacity == 0
        reports = list[AssignmentReport]()
        while executor.capacity < 3:
            reports += executor.poll(60)
    ends = {report.number: type(report.events[-1]) for report in reports}
    assert ends == {0: AssignmentLost, 1: AssignmentEnded, 2: AssignmentEnded}
    assert counts(log, "begun") == {spec.key: 1 for spec in specs[:3]}


def test_work_that_cannot_be_pickled_is_reported_and_the_rest_is_done() -> None:
    (spec,) = itertools.islice(grid_of(GRID).specs(), 1)
    with closing(Processes(1, lambda _: iter(()))) as executor:  # other processes cannot import it
        executor.submit(Assignment(1, (spec,)))
        (report,) = executor.poll(60)
        (event,) = report.events
        assert isinstance(event, AssignmentLost)
        assert "local object" in event.reason
        executor._work = perform
        executor.submit(Assignment(2, (spec,)))
        events = [event for _ in range(2) for report in executor.poll(60) for event in report.events]
        assert [type(event) for event in events] == [Answer, AssignmentEnded]


@pytest.mark.parametrize("direct", [False, True])
def test_an_answer_at_the_provable_limit_is_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, direct: bool
) -> None:

    def limited(problem: Problem, *arguments: Any, **choices: Any) -> Solution:
        found: Solution = replace(solve(problem, *arguments, **choices), status=Status.SEARCH_LIMIT)
        return found

    monkeypatch.setattr(worker, "solve", limited)
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    with closing(open_store(url)) as store:
        plan = make_plan(grid_of({**GRID, "K": 5}).specs(), store, design_seconds)
        outcome = run(plan, store, Here(), RunOptions(store_url=url if direct else ""))
        assert (outcome.progress.solved, outcome.progress.limited, outcome.failures) == (4, 4, ())
        assert {json.loads(row.record)["status"] for row in rows(store)} == {"search limit"}
        assert outcome.progress.worst_gap == max(json.loads(row.record)["gap"] for row in rows(store))
        assert make_plan(grid_of({**GRID, "K": 5}).specs(), store, design_seconds).stored == 4


def test_an_unexpected_failure_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:

    def broken(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(worker, "solve", broken)
    (event,) = perform(Assignment(0, (next(iter(grid_of(GRID).specs())),)))
    assert isinstance(event, AttemptFailed)
    assert (event.transient, event.reason) == (True, "MemoryError: no room")


class Full(DatabaseStore):
    """A store that is full after a few rows."""

    def complete(self, owner: str, rows: Sequence[Row]) -> dict[str, Row]:
        room = 3 - len([*self.rows()])
        stored = super().complete(owner, rows[:room])
        if len(rows) > room:
            raise CacheError("memory", "database or disk is full", "Make room there.")
        return stored


def test_a_full_disk_ends_the_run_and_loses_only_work_in_flight() -> None:
    store = Full("memory")
    with pytest.raises(CacheError, match="disk is full"):
        run_grid(GRID, store, RunOptions(retry_seconds=0.2))
    assert len(rows(store)) == 3
    assert open_claims(GRID, store) == []
    roomy = open_store("memory")
    for row in rows(store):
        roomy.put(row)
    assert run_grid(GRID, roomy).progress.solved == MANY - 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store_url": "memory"}, "store_url = 'memory' is not valid: expected a database that workers can reach"),
        ({"backend": "simplex"}, "backend = 'simplex' is not valid: expected one of highs"),
        ({"time_limit": 0}, "time_limit = 0 is not valid: expected seconds above 0"),
        ({"lease": 1e9}, "lease = 1000000000.0 is not valid: expected seconds above 0, at most 3600"),
        ({"attempts": 0}, "attempts = 0 is not valid: expected a whole number, at least 1"),
    ],
)
def test_invalid_options_of_a_run_are_refused_before_it_starts(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        RunOptions(**options)


# ---------------------------------------------------------------------------------------------------- kills


def written(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "grid.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_is_continued(tmp_path: Path, undisturbed: list[Row], how: signal.Signals) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    command = [sys.executable, "-c", "from darrm.cli import main; main()", "precompute", str(written(tmp_path, GRID))]
    command += ["--url", url, "--workers", "1", "--lease", "2"]
    with closing(open_store(url)) as store:
        driver = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        until(lambda: len(rows(store)) >= 2 or driver.poll() is not None)
        with contextlib.suppress(ProcessLookupError):
            driver.send_signal(how)
        _, said = driver.communicate(timeout=300)
        kept = len(rows(store))
        assert kept >= 2
        if how is signal.SIGINT and kept < MANY:
            assert driver.returncode == 130
            assert b"Interrupted" in said
            assert open_claims(GRID, store) == []
            store.release_claims("who asks", [spec.key for spec in grid_of(GRID).specs()])
        finished = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, check=True, timeout=300)
        told = json.loads(finished.stdout)
        assert told["plan"]["stored"] == kept
        assert rows(store) == undisturbed


def test_workers_that_are_killed_are_replaced(log: Path, undisturbed: list[Row]) -> None:
    store, killed = open_store("memory"), 0
    plan = make_plan(grid_of(GRID).specs(), store, design_seconds)
    with closing(Processes(2, counted)) as executor:

        def kill(at: RunProgress) -> None:
            nonlocal killed
            if killed < 3 and at.over > 5 * killed and executor.processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(executor.processes[0], signal.SIGKILL)
                killed += 1

        outcome = run(plan, store, executor, RunOptions(attempts=20), kill)
    assert outcome.failures == ()
    assert rows(store) == undisturbed
    assert outcome.progress.solved == MANY  # each arrived once, even if it was started several times
    lost = sum(counts(log).values()) - MANY
    assert 0 <= lost <= MANY // 2 * killed  # at most one assignment per worker


# --------------------------------------------------------------------------------------------- groups of answers


class Ticks:
    """A clock that every event advances."""

    def __init__(self) -> None:
        self.now = 0.0


def test_quick_answers_are_reported_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ticks()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    row = Row("key", 1, "{}", "")

    def events(seconds: Sequence[float]) -> Iterator[Any]:
        for number, each in enumerate(seconds):
            clock.now += each
            yield Answer(str(number), row, 0.0)

    quick, slow = 0.6 * QUICK_SECONDS, 2 * QUICK_SECONDS
    sizes = [len(group) for group in event_groups(events([quick] * 100), careful=False)]
    assert sizes == [42, 42, 16]  # slightly more than `SAVE_SECONDS` each
    groups = [*event_groups(events([quick, slow, slow, quick]), careful=False)]
    assert [[event.key for event in group if isinstance(event, Answer)] for group in groups] == [
        ["0", "1"],
        ["2"],
        ["3"],
    ]
    assert all(len(group) == 1 for group in event_groups(events([quick] * 5), careful=True))
    failed = AttemptFailed("x", "no", transient=True)
    assert [*event_groups(iter([failed, failed]), careful=False)] == [[failed], [failed]]
    assert [*event_groups(iter([]), careful=False)] == []
