"""Contract of the job queue in every store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.refusals import refused
from support.stores import query_plan
from support.waiting import together

from darrm_opt import InvalidInput
from solver_cache import Job, Store, open_store
from solver_cache.database.jobs import _ABANDONED, _WAITING, STATES, Jobs, take_conditions
from solver_cache.database.statements import Statements
from solver_cache.model import MAX_LEASE_SECONDS

LONG, SHORT = 600.0, 0.001


@pytest.fixture
def jobs(store: Store) -> Jobs:
    return store.jobs


def submitted(jobs: Jobs, *names: str, kind: str = "gamma") -> None:
    for name in names:
        jobs.submit(name, kind, "{}")
        time.sleep(SHORT)  # the order is by time


def claimed(jobs: Jobs, owner: str = "me", lease: float = LONG) -> str | None:
    job = jobs.take(owner, lease)
    return None if job is None else job.id


# -------------------------------------------------------------------------------------------------- submitting


def test_the_null_store_has_jobs_in_memory() -> None:
    store = open_store("off")
    assert (store.jobs.submit("a", "gamma", "{}").state, store.jobs.database.url) == ("queued", "memory")
    assert (claimed(store.jobs), store.jobs.counts()["running"]) == ("a", 1)


def test_a_submitted_job_waits(jobs: Jobs) -> None:
    before = time.time()
    job = jobs.submit("a", "gamma", '{"K":11}')
    assert job == Job("a", "gamma", '{"K":11}', "queued", 0, "", 0.0, "", "", "", job.created, job.created)
    assert before - 60 < job.created < time.time() + 60
    assert not job.over
    assert jobs.get("a") == job
    assert jobs.get("A") is None


def test_text_is_returned_verbatim(jobs: Jobs) -> None:
    text = "γ = ½ · '\"; --\n\t\u2028 😀" + "0.1" * 100_000
    assert jobs.submit("a", "gamma", text).request == text
    jobs.take("me", LONG)
    assert jobs.renew("a", "me", LONG, text)
    assert jobs.finish("a", "me", text)
    job = jobs.get("a")
    assert job is not None
    assert (job.request, job.progress, job.result) == (text, text, text)


def test_a_job_is_submitted_once(jobs: Jobs) -> None:
    first = jobs.submit("a", "gamma", "first")
    assert jobs.submit("a", "gamma", "second") == first
    running = jobs.take("me", LONG)
    assert jobs.submit("a", "gamma", "second") == running
    jobs.finish("a", "me", "result")
    done = jobs.submit("a", "gamma", "second")
    assert (done.state, done.request, done.result) == ("done", "first", "result")


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
def test_failed_jobs_can_be_submitted_again(jobs: Jobs, ending: str) -> None:
    jobs.submit("a", "gamma", "first")
    jobs.take("me", LONG)
    jobs.renew("a", "me", LONG, "half")
    assert jobs.fail("a", "me", "why") if ending == "failed" else jobs.cancel("a")
    over = jobs.get("a")
    assert over is not None
    assert (over.state, over.reason, over.over) == (ending, "why" if ending == "failed" else "", True)
    again = jobs.submit("a", "gamma", "second")
    assert replace(again, created=0, updated=0) == Job("a", "gamma", "second", "queued", 0, "", 0.0, "", "", "", 0, 0)
    assert again.created >= over.created
    assert claimed(jobs) == "a"


def test_a_job_with_an_obsolete_result_can_be_submitted_afresh(jobs: Jobs) -> None:
    jobs.submit("a", "gamma", "first")
    assert jobs.submit("a", "gamma", "second", afresh=True).request == "first"
    running = jobs.take("me", LONG)
    assert jobs.submit("a", "gamma", "second", afresh=True) == running
    jobs.finish("a", "me", "result")
    again = jobs.submit("a", "gamma", "second", afresh=True)
    assert (again.state, again.request, again.result, again.attempts) == ("queued", "second", "", 0)


# ---------------------------------------------------------------------------------------------------- claiming


def test_the_oldest_job_is_taken_first(jobs: Jobs) -> None:
    submitted(jobs, "b", "a", "c")
    assert [claimed(jobs) for _ in range(4)] == ["b", "a", "c", None]


def test_a_taken_job_runs_until_its_lease_expires(jobs: Jobs) -> None:
    submitted(jobs, "a")
    job = jobs.take("me", LONG)
    assert job == jobs.get("a")
    assert job is not None
    assert (job.state, job.owner, job.attempts) == ("running", "me", 1)
    assert job.lease_until == pytest.approx(job.updated + LONG, abs=1e-3)
    assert jobs.take("you", LONG) is None


def test_an_expired_lease_is_taken_over(jobs: Jobs) -> None:
    submitted(jobs, "new")
    submitted(jobs, "old", kind="grid")
    assert jobs.take("me", SHORT, kinds=["grid"])
    time.sleep(0.05)
    job = jobs.take("you", LONG)
    assert job is not None
    assert (job.id, job.owner, job.attempts) == ("old", "you", 2)  # before the one that has waited longer
    assert not jobs.renew("old", "me", LONG)
    assert not jobs.finish("old", "me", "mine")
    assert not jobs.fail("old", "me", "mine")
    assert not jobs.release("old", "me")
    assert jobs.get("old") == job
    assert jobs.finish("old", "you", "yours")


def test_an_expired_lease_can_be_renewed(jobs: Jobs) -> None:
    submitted(jobs, "a")
    jobs.take("me", SHORT)
    time.sleep(0.05)
    assert jobs.renew("a", "me", LONG, "half")
    assert jobs.take("you", LONG) is None
    job = jobs.get("a")
    assert job is not None
    assert job.progress == "half"
    assert jobs.renew("a", "me", LONG)
    assert jobs.get("a").progress == "half"  # type: ignore[union-attr]  # it exists


def test_jobs_of_some_kinds_can_be_taken(jobs: Jobs) -> None:
    submitted(jobs, "a", "b", "c")
    submitted(jobs, "table", kind="grid")
    assert jobs.take("me", LONG, kinds=[]) is None
    assert jobs.take("me", LONG, kinds=["plan"]) is None
    assert jobs.take("me", LONG, kinds=["plan", "grid"]).id == "table"  # type: ignore[union-attr]  # None fails as well
    assert jobs.take("me", LONG, kinds=["grid"]) is None


def test_a_released_job_keeps_its_place_in_the_queue(jobs: Jobs) -> None:
    submitted(jobs, "a", "b")
    jobs.take("me", LONG)
    assert jobs.release("a", "me")
    job = jobs.get("a")
    assert job is not None
    assert (job.state, job.owner, job.attempts, job.lease_until) == ("queued", "", 0, 0.0)
    assert not jobs.finish("a", "me", "late")
    assert claimed(jobs, "you") == "a"


@pytest.mark.parametrize("lease", [0, -1.0, float("nan"), float("inf"), MAX_LEASE_SECONDS + 1])
def test_invalid_leases_are_refused(jobs: Jobs, lease: float) -> None:
    submitted(jobs, "a")
    with pytest.raises(InvalidInput, match=r"lease_seconds = .* is not valid: expected seconds above 0, at most 3600"):
        jobs.take("me", lease)
    with refused("lease_seconds"):
        jobs.renew("a", "me", lease)
    with refused("owner", "''"):
        jobs.take("", LONG)
    assert claimed(jobs) == "a"


def test_threads_never_take_a_job_twice(jobs: Jobs) -> None:
    names = {f"{number:02}" for number in range(40)}
    for name in names:
        jobs.submit(name, "gamma", "{}")
    taken: list[tuple[str, str]] = []

    def work(owner: str) -> None:
        while job := jobs.take(owner, LONG):
            taken.append((job.id, owner))
            assert jobs.finish(job.id, owner, owner)

    together(*(lambda owner=f"{number}": work(owner) for number in range(8)))
    assert sorted(name for name, _ in taken) == sorted(names)
    assert {job.id: job.result for job in jobs.list("done")} == dict(taken)


def test_threads_that_submit_one_job_make_one(jobs: Jobs) -> None:
    seen: list[Job] = []
    together(*(lambda n=n: seen.append(jobs.submit("a", "gamma", f"from {n}")) for n in range(8)))
    assert len(seen) == 8
    assert set(seen) == {jobs.get("a")}
    assert [claimed(jobs), claimed(jobs)] == ["a", None]


# ---------------------------------------------------------------------------------------- ending and cancelling


@pytest.mark.parametrize("state", ["queued", "running"])
def test_unfinished_jobs_can_be_cancelled(jobs: Jobs, state: str) -> None:
    submitted(jobs, "a")
    if state == "running":
        jobs.take("me", LONG)
    job = jobs.cancel("a")
    assert job is not None
    assert (job.state, job.owner, job.lease_until) == ("cancelled", "", 0.0)
    assert not jobs.renew("a", "me", LONG)
    assert not jobs.finish("a", "me", "late")
    assert claimed(jobs) is None
    assert jobs.get("a") == job


def test_finished_jobs_do_not_change(jobs: Jobs) -> None:
    submitted(jobs, "a", "b")
    for _ in range(2):
        jobs.take("me", LONG)
    assert jobs.finish("a", "me", "result")
    assert jobs.fail("b", "me", "a reason\0 with a null")
    before = [jobs.get(name) for name in "ab"]
    assert [jobs.cancel(name) for name in "ab"] == before
    assert not jobs.finish("a", "me", "again")
    assert not jobs.fail("a", "me", "again")
    assert not jobs.release("a", "me")
    assert [jobs.get(name) for name in "ab"] == before
    assert claimed(jobs) is None


def test_missing_jobs_are_none(jobs: Jobs) -> None:
    assert jobs.get("a") is None
    assert jobs.cancel("a") is None
    assert not jobs.renew("a", "me", LONG)
    assert not jobs.finish("a", "me", "")
    assert jobs.prune(time.time()) == 0
    assert list(jobs.list()) == []
    assert jobs.counts() == dict.fromkeys(STATES, 0)


# ------------------------------------------------------------------------------------------ listing and pruning


def test_jobs_are_listed_by_page_the_newest_first(jobs: Jobs) -> None:
    submitted(jobs, "b")
    submitted(jobs, "a", kind="grid")
    submitted(jobs, "c", "d", "e")
    jobs.take("me", LONG, kinds=["grid"])
    jobs.finish("a", "me", "")
    assert [job.id for job in jobs.list()] == ["e", "d", "c", "a", "b"]
    assert [job.id for job in jobs.list(limit=2)] == ["e", "d"]
    assert [job.id for job in jobs.list(limit=2, after="d")] == ["c", "a"]
    assert [job.id for job in jobs.list("queued", limit=2, after="d")] == ["c", "b"]
    assert [job.id for job in jobs.list("done")] == ["a"]
    assert list(jobs.list(after="b")) == []
    assert jobs.counts() == {"queued": 4, "running": 0, "done": 1, "failed": 0, "cancelled": 0}


def test_a_page_cannot_start_after_another_clients_job(jobs: Jobs) -> None:
    for id, client in (("a", "one"), ("b", "two"), ("c", "one"), ("d", "")):
        jobs.submit(id, "gamma", "{}", client=client)
    assert {job.id for job in jobs.list(client="one", after="d")} == {"a", "c"}  # d has no client
    assert [job.id for job in jobs.list(client="one", after="c")] == ["a"]
    refusals = []
    for id in ("b", "gone"):  # the same refusal, so it does not reveal whether another client has a job
        with pytest.raises(InvalidInput, match="the id of a job that is stored") as caught:
            jobs.list(client="one", after=id)
        refusals.append(str(caught.value).replace(repr(id), ""))
    assert refusals[0] == refusals[1]


def test_invalid_lists_are_refused(jobs: Jobs) -> None:
    with refused("after", "'gone'"):
        jobs.list(after="gone")
    with refused("state", "'lost'"):
        jobs.list("lost")  # type: ignore[arg-type]  # as a route may receive
    with pytest.raises(InvalidInput, match="limit = 0 is not valid: expected a whole number, at least 1"):
        jobs.list(limit=0)


def test_pruning_deletes_old_finished_jobs(jobs: Jobs) -> None:
    submitted(jobs, "done", "failed", "running", "cancelled", "queued")
    for _ in range(3):
        jobs.take("me", LONG)
    jobs.finish("done", "me", "")
    jobs.fail("failed", "me", "")
    jobs.cancel("cancelled")
    assert jobs.prune(time.time() - 3600) == 0
    assert jobs.prune(time.time() + 3600) == 3
    assert sorted(job.id for job in jobs.list()) == ["queued", "running"]


def test_pruning_handles_any_number(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver_cache.database.jobs.MAX_PRUNED_AT_ONCE", 3)
    for number in range(10):
        jobs.submit(f"{number}", "gamma", "{}")
        jobs.cancel(f"{number}")
    assert jobs.prune(time.time() + 3600) == 10


# -------------------------------------------------------------------------------------------- clocks that jump


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def jumping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Jobs, Clock]]:
    clock = Clock()
    monkeypatch.setattr("solver_cache.database.statements.time.time", clock)
    with closing(open_store(f"sqlite:///{tmp_path / 'cache.sqlite'}")) as store:
        yield store.jobs, clock


@pytest.mark.parametrize("jump", [LONG + 1, 1e9])
def test_a_clock_set_ahead_costs_one_extra_solve(jumping: tuple[Jobs, Clock], jump: float) -> None:
    jobs, clock = jumping
    submitted(jobs, "a")
    jobs.take("me", LONG)
    clock.now += jump
    assert claimed(jobs, "you") == "a"
    assert not jobs.finish("a", "me", "mine")
    assert jobs.finish("a", "you", "yours")


@pytest.mark.parametrize("jump", [-1e5, -999_999.0])
def test_a_clock_set_back_does_not_delay_the_job_of_a_dead_owner(jumping: tuple[Jobs, Clock], jump: float) -> None:
    jobs, clock = jumping
    submitted(jobs, "a", "b")
    jobs.take("me", LONG)
    clock.now += jump
    assert [claimed(jobs, "you") for _ in range(3)] == ["a", "b", None]


def test_a_clock_set_back_slightly_keeps_the_claim(jumping: tuple[Jobs, Clock]) -> None:
    jobs, clock = jumping
    submitted(jobs, "a")
    jobs.take("me", LONG)
    clock.now -= 60
    assert claimed(jobs, "you") is None
    assert jobs.renew("a", "me", LONG)
    clock.now += LONG + 1
    assert claimed(jobs, "you") == "a"


def test_a_lease_renewed_during_a_take_is_kept(jumping: tuple[Jobs, Clock], monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, clock = jumping
    submitted(jobs, "a", "b")
    assert claimed(jobs, "me", MAX_LEASE_SECONDS) == "a"
    writing = jobs.database.writing

    def after_a_renewal() -> AbstractContextManager[Statements]:
        monkeypatch.setattr(jobs.database, "writing", writing)
        clock.now += 10
        assert jobs.renew("a", "me", MAX_LEASE_SECONDS)
        return writing()

    monkeypatch.setattr(jobs.database, "writing", after_a_renewal)
    assert claimed(jobs, "you") == "b"
    assert jobs.finish("a", "me", "mine")


# --------------------------------------------------------------------------------- several stores of a database


def test_jobs_outlive_the_store_and_are_shared(lasting_url: str) -> None:
    with closing(open_store(lasting_url)) as store:
        store.jobs.submit("a", "gamma", "{}")
        taken = store.jobs.take("me", LONG)
    with ExitStack() as stack:
        one, other = (stack.enter_context(closing(open_store(lasting_url))).jobs for _ in range(2))
        assert one.get("a") == taken
        other.cancel("a")
        assert not one.renew("a", "me", LONG)


def test_concurrent_stores_never_take_a_job_twice(lasting_url: str) -> None:
    names = [f"{number:02}" for number in range(40)]
    taken: list[str] = []
    with ExitStack() as stack:
        stores: list[Store] = [stack.enter_context(closing(open_store(lasting_url))) for _ in range(4)]
        for name in names:
            stores[0].jobs.submit(name, "gamma", "{}")

        def work(store: Store, owner: str) -> None:
            misses = 0
            while misses < 3:  # a claim may find its job locked and return nothing
                job = store.jobs.take(owner, LONG)
                misses = 0 if job else misses + 1
                taken.extend([job.id] if job else [])

        together(*(lambda store=store, owner=f"{n}": work(store, owner) for n, store in enumerate(stores)))
        while (job := stores[0].jobs.take("last", LONG)) is not None:
            taken.append(job.id)
    assert sorted(taken) == names


def test_taking_a_job_uses_an_index(lasting_url: str) -> None:
    """For any number of jobs: no scan, no sort."""
    with closing(open_store(lasting_url)) as store:
        database = store._database  # type: ignore[attr-defined]
        if database.dialect == "postgresql":
            with database.writing() as statements:
                statements.rows(
                    "INSERT INTO darrm_jobs SELECT n::text, 'gamma', '', "
                    "(ARRAY['queued','done','running'])[1 + n % 3], 0, '', n, "
                    "'', '', '', n, n, (n % 100)::text, 1 FROM generate_series(1, 30000) n"
                )
                statements.rows("ANALYZE darrm_jobs")
        for kinds in (None, ["gamma"]):
            more, values = take_conditions(kinds, None)
            abandoned = _ABANDONED.format(more=more, lock="")
            waiting = _WAITING.format(more=f"{more} AND client = :client", lock="")
            plan = query_plan(store, [abandoned, waiting], **values, client="7")
            assert "darrm_jobs_waiting" in plan
            assert "darrm_jobs_leases" in plan


# ------------------------------------------------------------------------------------------------------ clients


def test_clients_share_the_queue(jobs: Jobs) -> None:
    for number in range(20):
        jobs.submit(f"greedy {number:02}", "gamma", "{}", client="greedy")
        time.sleep(SHORT)
    assert claimed(jobs) == "greedy 00"
    jobs.submit("polite 1", "gamma", "{}", client="polite")
    time.sleep(SHORT)
    jobs.submit("polite 2", "gamma", "{}", client="polite")
    time.sleep(SHORT)
    jobs.submit("third", "gamma", "{}", client="third")
    assert claimed(jobs) == "polite 1"  # before the other nineteen: greedy already has a running job
    assert claimed(jobs) == "third"
    for name in ("greedy 00", "polite 1", "third"):
        assert jobs.finish(name, "me", "{}")
        time.sleep(SHORT)
    order = list[str]()
    for _ in range(4):  # one at a time, least recently served first
        job = claimed(jobs)
        assert job is not None
        order.append(job)
        assert jobs.finish(job, "me", "{}")
        time.sleep(SHORT)
    assert order == ["greedy 01", "polite 2", "greedy 02", "greedy 03"]


def test_short_jobs_can_be_taken_separately(jobs: Jobs) -> None:
    jobs.submit("long", "gamma", "{}", seconds=100.0)
    time.sleep(SHORT)
    jobs.submit("short", "gamma", "{}", seconds=0.05)
    assert jobs.take("me", LONG, max_seconds=1.0).id == "short"  # type: ignore[union-attr]
    assert jobs.take("me", LONG, max_seconds=1.0) is None
    found = jobs.take("me", LONG)
    assert found is not None
    assert (found.id, found.seconds) == ("long", 100.0)


def test_a_job_belongs_to_those_who_submitted_it(jobs: Jobs) -> None:
    assert jobs.submit("mine", "gamma", "{}", client="me").client == "me"
    jobs.submit("ours", "gamma", "{}", client="me")
    jobs.submit("ours", "gamma", "{}", client="you")
    jobs.submit("theirs", "gamma", "{}", client="they")
    jobs.submit("nobody's", "gamma", "{}")

    def listed(client: str | None) -> set[str]:
        return {job.id for job in jobs.list(client=client)}

    assert listed(None) == {"mine", "ours", "theirs", "nobody's"}
    assert listed("me") == {"mine", "ours", "nobody's"}
    assert listed("you") == {"ours", "nobody's"}
    assert listed("stranger") == {"nobody's"}
    assert jobs.cancel("mine", client="you") is None
    assert jobs.get("mine").state == "queued"  # type: ignore[union-attr]
    assert jobs.cancel("ours", client="me").state == "queued"  # type: ignore[union-attr]  # the other client still waits for it
    assert listed("me") == {"mine", "nobody's"}
    assert jobs.cancel("ours", client="me") is None
    assert jobs.cancel("ours", client="you").state == "cancelled"  # type: ignore[union-attr]
    assert jobs.cancel("nobody's", client="stranger").state == "cancelled"  # type: ignore[union-attr]
    assert jobs.cancel("theirs").state == "cancelled"  # type: ignore[union-attr]
    assert jobs.submit("theirs", "gamma", "{}", client="me").state == "queued"
    assert "theirs" not in listed("they")  # it now belongs to another client
    assert jobs.cancel("no such job", client="me") is None


def test_a_running_job_can_be_settled(jobs: Jobs) -> None:
    jobs.submit("a", "gamma", "{}")
    assert jobs.settle("a", "early").state == "queued"  # type: ignore[union-attr]
    assert claimed(jobs) == "a"
    found = jobs.settle("a", "so far")
    assert found is not None
    assert (found.state, found.result, found.owner) == ("done", "so far", "")
    assert not jobs.renew("a", "me", LONG)
    assert not jobs.finish("a", "me", "late")
    assert jobs.settle("a", "again").result == "so far"  # type: ignore[union-attr]
    assert jobs.settle("no such job", "") is None


def test_a_job_is_settled_by_its_only_client(jobs: Jobs) -> None:
    for client in ("me", "you"):
        jobs.submit("ours", "gamma", "{}", client=client)
    assert claimed(jobs) == "ours"
    assert jobs.settle("ours", "theft", client="stranger") is jobs.get("ours", "stranger") is None
    assert jobs.get("ours", "me") == jobs.get("ours")
    assert jobs.settle("ours", "hasty", client="me").state == "running"  # type: ignore[union-attr]  # the other client waits for the optimum
    assert jobs.cancel("ours", client="me").state == "running"  # type: ignore[union-attr]
    found = jobs.settle("ours", "enough", client="you")
    assert found is not None
    assert (found.state, found.result) == ("done", "enough")


def test_the_age_of_the_queue_is_that_of_its_oldest_job(jobs: Jobs) -> None:
    assert jobs.waiting_seconds() == 0
    submitted(jobs, "a", "b")
    time.sleep(0.01)
    assert 0.01 <= jobs.waiting_seconds() < 300
    assert claimed(jobs) == "a"
    assert claimed(jobs) == "b"
    assert jobs.waiting_seconds() == 0


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "'no state'"),
        ("attempts", "'x'"),
        ("result", "x'ff'"),
        ("request", "x'00ff'"),
        ("created", "'y'"),
        ("kind", "7"),
    ],
)
@pytest.mark.parametrize("state", STATES)
def test_a_damaged_row_is_a_failed_job_until_submitted_again(
    tmp_path: Path, column: str, value: str, state: str
) -> None:
    with closing(open_store(f"sqlite:///{tmp_path / 'cache.sqlite'}")) as store:
        jobs = store.jobs
        jobs.submit("a", "gamma", "{}", client="me")
        with store._database.writing() as statements:  # type: ignore[attr-defined]
            statements.rows(f"UPDATE darrm_jobs SET state = '{state}'")  # noqa: S608 — of our own
            statements.rows(f"UPDATE darrm_jobs SET {column} = {value}")  # noqa: S608 — of our own
        if column == "kind":  # a number, which the column converts to text: an unknown kind
            assert jobs.get("a").kind == "7"  # type: ignore[union-attr]
            return
        for found in (jobs.get("a"), *jobs.list()):
            assert found is not None
            assert (found.state, found.reason) == ("failed", "The stored job is damaged. Submit it again.")
        again = jobs.submit("a", "gamma", "{}", client="me")
        assert (again.state, again.attempts, again.request) == ("queued", 0, "{}")
        assert claimed(jobs) == "a"
        assert jobs.finish("a", "me", "{}")
