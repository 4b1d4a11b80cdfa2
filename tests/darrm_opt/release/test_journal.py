"""The journal under a release log: interrupted before any bytecode, forked while it is held, killed while created."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal
import stat
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import interrupts
from numpy.typing import NDArray
from support.forks import fork, forked, living_child

from darrm_opt import Problem, Solution, solve
from darrm_opt.accounting import BudgetExceeded, BudgetUnreadable
from darrm_opt.release import ReleaseLog, ReleaseLogDamaged
from darrm_opt.release.journal import create

SOURCES = tuple(f"darrm_opt/{name}.py" for name in ("release/journal", "release/log", "durable_file", "process"))
"""Files whose bytecodes are interrupted, including the standard library."""
SOURCES += ("_weakrefset.py", "contextlib.py", "json/__init__.py", "json/encoder.py", "json/decoder.py")

pytestmark = pytest.mark.filterwarnings(  # of a file that was open, but not yet locked, at the interrupt
    "ignore:unclosed file:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@cache
def solved() -> Solution:
    found: Solution = solve(Problem.from_allowance(K=3, m=2, epsilon=0.4))
    return found


def begun(path: Path) -> ReleaseLog:
    return ReleaseLog.create(path, solved(), queries=10**6)


def bits(_: int = 0) -> NDArray[np.int16]:
    return np.array([1, 0, 1], dtype=np.int16)


def is_free(path: Path) -> bool:
    """Return whether the lock of a log is free."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Make fsync record the size of a file: "flushed" is the length that survives a power failure."""
    noted = {"flushed": 0}

    def note(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            noted["flushed"] = status.st_size

    monkeypatch.setattr(os, "fsync", note)
    return noted


# ------------------------------------------------------------------------------------------ interrupts


def check_consistent(log: ReleaseLog, disk: dict[str, int]) -> bool:
    """Check that the lock is free and that the log and a new reader agree on durable data; return True."""
    assert is_free(log.path)
    spent, ids = log.spent, log.ids
    assert disk["flushed"] == log.path.stat().st_size
    again = ReleaseLog(log.path)
    assert (again.spent, again.ids) == (spent, ids)
    assert spent == 3 * len(ids)
    return True


def test_no_interrupt_is_lost_in_a_generator_that_the_collector_closes() -> None:
    def suspended() -> Iterator[None]:
        try:
            yield
        finally:
            sum((1, 2, 3))

    def act() -> list[list[int]]:
        return [[number] for number in range(20)]

    thresholds = gc.get_threshold()
    asked = 0
    gc.set_threshold(10)
    try:
        for _ in interrupts(act, __file__):
            asked += 1
            next(generator := suspended())
            cycle: list[object] = [generator]
            cycle.append(cycle)
    finally:
        gc.set_threshold(*thresholds)
    assert asked > 100


FEW = 25  # releases until another log is created, since a long one is read again each time


def test_append_interrupted_before_any_bytecode(tmp_path: Path, disk: dict[str, int]) -> None:
    log, number, released = begun(tmp_path / "log"), 0, 0

    def release() -> None:
        nonlocal released
        assert log.charge_and_release(3, bits, f"release {number}").tolist() == [1, 0, 1]
        released += 1

    for asked, _ in enumerate(interrupts(release, *SOURCES), 1):
        check_consistent(log, disk)
        assert released == 0
        release()  # with the same id: charged once, whether or not the line was written
        number, released = number + 1, 0
        assert log.spent == 3 * number
        if number == FEW:
            log, number = begun(tmp_path / f"log {asked}"), 0
    assert asked > 300
    assert released == 1


def test_take_interrupted_before_any_bytecode(tmp_path: Path, disk: dict[str, int]) -> None:
    # Another process added a line, and a second one that it had not finished when it died.
    def add() -> None:
        other.charge_and_release(3, bits, f"release {number}")
        with log.path.open("ab") as file:
            file.write(b'0123 {"count":3')
        disk["flushed"] = 0

    def read() -> int:
        return log.spent

    log, number = begun(tmp_path / "log"), 0
    other = ReleaseLog(log.path)
    add()
    for asked, _ in enumerate(interrupts(read, *SOURCES), 1):
        check_consistent(log, disk)
        number += 1
        assert log.spent == 3 * number
        if number == FEW:
            log, number = begun(tmp_path / f"log {asked}"), 0
            other = ReleaseLog(log.path)
        add()
    assert asked > 300


def test_lock_and_unlock_interrupted_before_any_bytecode(tmp_path: Path, disk: dict[str, int]) -> None:
    log = begun(tmp_path / "log")
    log.charge_and_release(3, bits, "monday")
    disk["flushed"] = log.path.stat().st_size
    assert sum(1 for _ in interrupts(lambda: log.stored("monday"), *SOURCES) if check_consistent(log, disk)) > 100


def test_create_interrupted_before_any_bytecode(tmp_path: Path, disk: dict[str, int]) -> None:
    number = 0

    def path() -> Path:
        return tmp_path / str(number) / "log"

    path().parent.mkdir()
    for number, _ in enumerate(interrupts(lambda: begun(path()), *SOURCES), 1):
        # The path is now that of the next number.
        before = tmp_path / str(number - 1)
        if (before / "log").exists():
            assert is_free(before / "log")
            log = ReleaseLog(before / "log")
        else:
            log = begun(before / "log")
        assert log.charge_and_release(3, bits, "monday").tolist() == [1, 0, 1]
        check_consistent(log, disk)
        assert names(before) == ["log"]
        path().parent.mkdir()
    assert number > 300


# ------------------------------------------------------------------------------------------ forks


def held(log: ReleaseLog) -> tuple[threading.Thread, threading.Event]:
    """Return a thread that holds a log, in a release, until the event is set."""
    holding, finish = threading.Event(), threading.Event()

    def draw(_: int) -> NDArray[np.int16]:
        holding.set()
        finish.wait(60)
        return bits()

    thread = threading.Thread(target=lambda: log.charge_and_release(3, draw, "thread"))
    thread.start()
    assert holding.wait(60)
    return thread, finish


def test_a_surviving_child_does_not_keep_the_lock_of_a_parent_thread(tmp_path: Path) -> None:
    log = begun(tmp_path / "log")
    thread, finish = held(log)
    with living_child():
        finish.set()
        thread.join()
        assert is_free(log.path)


def test_a_child_of_a_parent_killed_in_a_release_does_not_keep_the_lock(tmp_path: Path) -> None:
    log = begun(tmp_path / "log")
    reader, writer = os.pipe()
    ready, begun_to_live = os.pipe()
    parent = fork()
    if parent == 0:
        held(log)
        if fork() == 0:
            os.close(writer)
            os.write(begun_to_live, b".")
            os.read(reader, 1)  # until our end is closed
            os._exit(0)
        os.read(ready, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(parent, 0)
    try:
        assert is_free(log.path)
    finally:
        for descriptor in (writer, reader, ready, begun_to_live):
            os.close(descriptor)


def test_a_child_can_use_a_log_locked_by_a_parent_thread(tmp_path: Path) -> None:
    log = begun(tmp_path / "log")
    thread, finish = held(log)

    def child() -> str:
        signal.alarm(60)  # a child that hangs is killed without output
        finish.set()  # a copy: the thread of the parent still holds the log
        log.charge_and_release(3, bits, "child")
        return " ".join(sorted(log.ids))

    threading.Timer(0.2, finish.set).start()
    assert forked(child) == "child thread"
    thread.join()
    assert (log.ids, log.spent) == (frozenset({"child", "thread"}), 6)


def test_after_a_fork_inside_a_draw_only_the_parent_gets_answers(tmp_path: Path) -> None:
    log = begun(tmp_path / "log")
    reader, writer = os.pipe()
    child = -1

    def draw(_: int) -> NDArray[np.int16]:
        nonlocal child
        child = fork()
        return bits()

    outcome = b"another error"
    try:
        answers = log.charge_and_release(3, draw, "monday")
        outcome = b"answers"
    except BudgetExceeded as err:
        outcome = b"refused: " + str(err).encode()
    finally:
        if child == 0:
            os.write(writer, outcome)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000).startswith(b"refused: process ")
    os.close(reader)
    os.close(writer)
    assert answers.tolist() == [1, 0, 1]
    assert is_free(log.path)
    assert (log.spent, ReleaseLog(log.path).spent, log.path.read_bytes().count(b"\n")) == (3, 3, 2)


# ------------------------------------------------------------------------------------------ creation


def killed_at(monkeypatch: pytest.MonkeyPatch, function: str, path: Path, *, after: bool) -> None:
    """Create a journal in a child that is killed when it calls a function of `os`, before or after its effect."""
    act = getattr(os, function)

    def die(*arguments: Any, **options: Any) -> None:
        if after:
            act(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    child = fork()
    if child == 0:
        monkeypatch.setattr(os, function, die)
        create(path, {"kind": "killed"})
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(("function", "after"), [("fsync", False), ("fsync", True), ("link", False)])
def test_the_draft_of_a_killed_creator_is_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, after: bool
) -> None:
    path = tmp_path / "log"
    killed_at(monkeypatch, function, path, after=after)
    assert not path.exists()
    assert begun(path).spent == 0
    assert names(tmp_path) == ["log"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_draft_of_a_creator_killed_after_creation_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    killed_at(monkeypatch, "link", path, after=True)
    content = path.read_bytes()
    assert len(names(tmp_path)) == 2
    with pytest.raises(FileExistsError):
        create(path, {"kind": "another"})
    assert (names(tmp_path), path.read_bytes()) == (["log"], content)


def test_opening_a_log_removes_a_leftover_draft(tmp_path: Path) -> None:
    log = begun(tmp_path / "log")
    os.link(log.path, tmp_path / ".log.draft")  # as if the creator had been killed before removing it
    os.link(log.path, tmp_path / "backup")
    assert log.spent == 0
    assert names(tmp_path) == ["backup", "log"]


def test_a_link_in_place_of_the_draft_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("votes")
    (tmp_path / ".log.draft").symlink_to("precious")
    begun(tmp_path / "log")
    assert names(tmp_path) == ["log", "precious"]
    assert (tmp_path / "precious").read_text() == "votes"


def test_one_of_several_concurrent_creators_succeeds(tmp_path: Path) -> None:
    outcomes: list[str] = []

    def work(number: int, path: Path, start: threading.Barrier) -> None:
        start.wait()
        try:
            create(path, {"kind": str(number)})
            outcomes.append(str(number))
        except FileExistsError:
            outcomes.append("exists")

    for trial in range(20):
        outcomes.clear()
        start, path = threading.Barrier(4), tmp_path / f"log {trial}"
        threads = [threading.Thread(target=work, args=(number, path, start)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winner = json.loads(path.read_bytes().partition(b" ")[2])["kind"]
        assert sorted(outcomes) == sorted([winner, "exists", "exists", "exists"])
    assert names(tmp_path) == sorted(f"log {trial}" for trial in range(20))


# ------------------------------------------------------------------------------------------ other files


@pytest.mark.parametrize("content", [b"", b'{"K": 3}', b'{"K": 3}\n', b"no end of line\0", b"a\nb"])
def test_an_invalid_log_is_refused_and_left_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "solution.json"
    path.write_bytes(content)
    with pytest.raises(BudgetUnreadable, match="solution"):
        ReleaseLog(path)
    assert path.read_bytes() == content


def test_the_error_of_a_damaged_log_has_advice_if_the_original_is_lost(tmp_path: Path) -> None:
    path = begun(tmp_path / "log").path
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(ReleaseLogDamaged) as damage:
        ReleaseLog(path)
    assert damage.value.fault == f"the release log {path} is damaged at byte 0"
    assert damage.value.advice.startswith("Restore the original file")
    assert "If it is lost, treat its whole budget as spent" in damage.value.advice
    assert damage.value.advice in str(damage.value)
