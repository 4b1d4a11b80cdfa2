"""The release log: restarts, torn writes, kill -9, several processes, and refusals."""

from __future__ import annotations

import base64
import json
import math
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.paths import ROOT
from support.refusals import refused

from darrm_opt import NotPrivate, Privacy, Problem, Solution, solve
from darrm_opt.accounting import BudgetUnreadable, PrivacyBudget, Release
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.release import (
    BudgetSpent,
    PrivateVote,
    Quota,
    ReleaseIdTaken,
    ReleaseLog,
    ReleaseLogDamaged,
    log_lines,
    most_releases,
)
from darrm_opt.release.journal import Journal, create
from darrm_opt.release.log_lines import decoded

SMALL = Problem.from_allowance(K=3, m=2, epsilon=0.4)
TEACHERS = Problem(11, Privacy(math.inf), Privacy(0.2676, 3e-4), 1)
VOTES = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 1, 0]])


@cache
def solved(problem: Problem) -> Solution:
    found: Solution = solve(problem)
    return found


def begun(folder: Path, queries: int = 100) -> ReleaseLog:
    return ReleaseLog.create(folder / "log", solved(SMALL), queries=queries)


def release(log: ReleaseLog) -> PrivateVote:
    return PrivateVote(solved(SMALL), log)


def stored_bits(log: ReleaseLog, name: str) -> NDArray[np.int16]:
    bits = log.stored(name)
    assert bits is not None
    return bits


def never(_: int) -> NDArray[np.int16]:
    pytest.fail("a release that was made before is drawn again")


# ------------------------------------------------------------------------------------------ ids


def test_a_release_with_an_id_is_charged_once_and_returned_again(tmp_path: Path) -> None:
    log = begun(tmp_path)
    bits = release(log).release_many(VOTES, "monday")
    assert log.spent == 5
    again = release(ReleaseLog(tmp_path / "log"))  # as after a restart
    for votes in (VOTES, 1 - VOTES):  # for any votes
        assert np.array_equal(again.release_many(votes, "monday"), bits)
    assert (log.spent, log.left, log.ids) == (5, 95, frozenset({"monday"}))
    assert np.array_equal(stored_bits(log, "monday"), bits)
    assert log.stored("tuesday") is None


def test_the_same_votes_without_an_id_are_charged_again(tmp_path: Path) -> None:
    log = begun(tmp_path)
    mechanism = release(log)
    for number in range(4):
        mechanism.release_many(VOTES)
        mechanism.release_many(VOTES, f"day {number}")
    assert log.spent == 40


def test_an_id_has_a_fixed_number_of_releases(tmp_path: Path) -> None:
    mechanism = release(begun(tmp_path))
    mechanism.release_many(VOTES, "monday")
    with pytest.raises(
        ReleaseIdTaken, match=r"'monday' was used for 5 releases, not 4: choose another id\. Nothing was"
    ):
        mechanism.release_many(VOTES[:4], "monday")


def test_the_refusal_of_a_spent_budget_states_the_rest(tmp_path: Path) -> None:
    log = begun(tmp_path, queries=7)
    mechanism = release(log)
    mechanism.release_many(VOTES)
    with pytest.raises(
        BudgetSpent, match=r"5 releases were requested and 2 are left: the budget, 7 releases, allows 7"
    ) as no:
        mechanism.release_many(VOTES)
    assert (no.value.limit, no.value.spent, no.value.asked, no.value.budget) == (7, 5, 5, "7 releases")
    assert log.spent == 5
    assert len(mechanism.release_many(VOTES[:2])) == 2
    with pytest.raises(BudgetSpent, match="none are left"):
        mechanism.release(VOTES[0])


def test_a_failure_while_drawing_costs_nothing(tmp_path: Path) -> None:
    log = begun(tmp_path)

    def breaks(_: int) -> NDArray[np.int16]:
        raise RuntimeError("no randomness")

    with pytest.raises(RuntimeError, match="no randomness"):
        log.charge_and_release(3, breaks)
    with refused("draw", "(2,)"):
        log.charge_and_release(3, lambda _: np.zeros(2, dtype=np.int16))
    with pytest.raises(RuntimeError, match="cannot be used from within one of its own releases"):
        log.charge_and_release(1, lambda _: np.full(1, log.spent, dtype=np.int16))
    assert log.spent == 0
    assert log.charge_and_release(3, lambda _: np.ones(3, dtype=np.int16)).tolist() == [1, 1, 1]


def test_a_release_that_is_not_on_the_disk_is_not_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = begun(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("darrm_opt.release.journal.os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            release(log).release_many(VOTES, "monday")
    # The line may have been written; if so, the release was charged and is returned.
    bits = release(log).release_many(VOTES, "monday")
    assert log.spent == 5
    assert np.array_equal(stored_bits(ReleaseLog(log.path), "monday"), bits)


def test_lines_of_a_dead_process_are_flushed_before_they_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Another process may have died between writing and flushing its line: a reader flushes it first.
    log = begun(tmp_path)
    other = ReleaseLog(log.path)
    release(other).release_many(VOTES, "monday")
    flushed: list[int] = []
    monkeypatch.setattr("darrm_opt.release.journal.os.fsync", flushed.append)
    assert log.stored("monday") is not None
    assert len(flushed) == 1
    assert log.stored("monday") is not None
    assert len(flushed) == 1


def test_the_file_contains_no_votes_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    log = begun(tmp_path)
    release(log).release_many(VOTES, "monday")
    release(log).release_many(VOTES)
    lines = [json.loads(line.partition(" ")[2]) for line in log.path.read_text().splitlines()]
    assert {*lines[0]} == {"kind", "format", "version", "mechanism", "budget", "account", "limit"}
    assert {*lines[0]["mechanism"]} == {"kind", "format", "problem", "gamma", "fresh"}
    assert [{*line} for line in lines[1:]] == [{"count", "labels", "id", "answers"}, {"count", "labels"}]
    assert log.path.stat().st_mode & 0o777 == 0o600


# ------------------------------------------------------------------------------------------ limits


def test_a_total_budget_allows_nearly_the_most_releases_that_fit(tmp_path: Path) -> None:
    budget = Privacy(2.0, 0.02)
    log = ReleaseLog.create(tmp_path / "log", solved(TEACHERS), budget=budget)
    assert (log.account, log.budget) == ("bits", budget)
    # More than by the optimal composition of (mε, δ), as the account uses this γ.
    assert log.limit > PrivacyBudget(budget).affordable(TEACHERS.target)
    gamma = solved(TEACHERS).noise
    assert exact_epsilon(gamma, TEACHERS, log.limit, budget.delta, fresh=True) <= budget.epsilon
    assert exact_epsilon(gamma, TEACHERS, math.ceil(1.05 * log.limit) + 1, budget.delta, fresh=True) > budget.epsilon
    assert log.in_words == "epsilon = 2, delta = 0.02 in total"
    assert ReleaseLog(log.path).limit == log.limit


def test_a_budget_too_small_for_one_release_is_refused() -> None:
    assert most_releases(solved(TEACHERS), Privacy(0.01), fresh=True) == Quota(0, "none")
    teachers = CertifiedNoiseFunction(Release.of(solved(TEACHERS)), fresh=True)
    assert teachers.fits(Privacy(0.0), 0)
    assert not teachers.fits(Privacy(1.0, 0.1), 10**6)
    assert not teachers.fits(Privacy(1.0, 0.1), 1000)


def test_a_limit_of_another_version_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "__version__", "0.0.1")
    path = tmp_path / "log"
    made = ReleaseLog.create(path, solved(SMALL), budget=Privacy(2.0, 1e-6))
    monkeypatch.undo()
    assert ReleaseLog(path).limit == made.limit
    with monkeypatch.context() as patch:
        patch.setattr(CertifiedNoiseFunction, "fits", lambda *_, **__: False)
        with pytest.raises(BudgetUnreadable, match=r"proved by version 0\.0\.1, and this version, .* cannot prove it"):
            ReleaseLog(path)


# ------------------------------------------------------------------------------------------ refusals


def test_a_release_log_is_for_one_gamma(tmp_path: Path) -> None:
    log = begun(tmp_path)
    other = solve(Problem.from_allowance(K=3, m=1, epsilon=0.4))
    text = (
        r"^budget = .* is not valid: expected the release log of this mechanism\. The limit "
        r"of a release log is proved for one mechanism, such as a gamma with its problem: give another "
        r"mechanism its own log and its own part of the total\.$"
    )
    with pytest.raises(InvalidInput, match=text):
        PrivateVote(other, log)
    with pytest.raises(NotPrivate):
        ReleaseLog.create(tmp_path / "other", (np.ones(4), other.problem), queries=3)
    assert not (tmp_path / "other").exists()


def test_a_number_of_releases_must_fit_in_a_given_budget(tmp_path: Path) -> None:
    total = Privacy(2.0, 1e-6)
    log = ReleaseLog.create(tmp_path / "log", solved(SMALL), budget=total, queries=2, fresh=True)
    assert (log.limit, log.budget, log.fresh) == (2, total, True)
    assert log.cost(2, total.delta).epsilon <= total.epsilon
    assert log.account in {"optimal", "bits", "profile"}
    with pytest.raises(InvalidInput) as refused:
        ReleaseLog.create(tmp_path / "other", solved(SMALL), budget=total, queries=20, fresh=True)
    assert (refused.value.argument, refused.value.value) == ("queries", 20)
    assert not (tmp_path / "other").exists()


def test_a_number_of_releases_may_spend_a_budget_to_the_last_unit(tmp_path: Path) -> None:
    mechanism = mechanism_class("exponential").of(3, 2, 0.4)
    spent = mechanism.epsilon(2, 0.0)
    assert ReleaseLog.create(tmp_path / "log", mechanism, budget=Privacy(spent), queries=2).limit == 2
    with refused("queries", "2"):
        ReleaseLog.create(tmp_path / "less", mechanism, budget=Privacy(math.nextafter(spent, 0.0)), queries=2)


def test_answers_are_those_stored_in_the_line() -> None:
    assert decoded("gA==", 1, None).tolist() == [1]
    for text in ("!gA==", "gA", None, "gIA="):
        with pytest.raises(ReleaseLogDamaged):
            decoded(text, 1, None)


def test_a_release_log_for_too_few_releases_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(
        BudgetSpent, match="5 releases were requested and 4 are left: the budget, 4 releases, allows 4 in all"
    ):
        ReleaseLog.create(tmp_path / "log", solved(SMALL), queries=4, first=5)
    with refused("first"):
        ReleaseLog.create(tmp_path / "log", solved(SMALL), queries=4, first=1.5)  # type: ignore[arg-type]  # refused
    assert not [*tmp_path.iterdir()]
    assert ReleaseLog.create(tmp_path / "log", solved(SMALL), queries=4, first=4).left == 4


def test_a_release_log_never_replaces_another(tmp_path: Path) -> None:
    release(begun(tmp_path)).release_many(VOTES)
    with refused("release_log"):
        begun(tmp_path)
    assert ReleaseLog(tmp_path / "log").spent == 5
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_invalid_numbers_and_ids_are_refused(tmp_path: Path) -> None:
    log = begun(tmp_path)
    for bad in (-1, 1.5, True, "3"):
        with refused("count", repr(bad)):
            log.charge_and_release(bad, never)  # type: ignore[arg-type]  # refused
    for name in ("", "x" * 201, "a\nb", 7):
        with refused("release_id"):
            log.charge_and_release(1, never, name)  # type: ignore[arg-type]  # refused
    assert log.charge_and_release(1, lambda _: np.ones(1, dtype=np.int16), "x" * 200).tolist() == [1]
    with refused("queries", "-1"):
        ReleaseLog.create(tmp_path / "l", solved(SMALL), queries=-1)
    with refused("budget"):
        ReleaseLog.create(tmp_path / "l", solved(SMALL), budget=Privacy(math.inf))
    with pytest.raises(BudgetUnreadable, match="cannot be written"):
        ReleaseLog.create(tmp_path / "none" / "l", solved(SMALL), queries=1)


@pytest.mark.parametrize(("classes", "size"), [(2, 0), (2, 1), (2, 3), (3, 2), (3, 22), (3, 26)])
def test_a_line_has_as_many_answers_as_it_counts(tmp_path: Path, classes: int, size: int) -> None:
    """Twelve answers of γ are two bytes, of a mechanism among classes 24: more or fewer are damage."""
    mechanism = solved(SMALL) if classes == 2 else mechanism_class("permute_and_flip").of(3, classes, 0.5)
    log = ReleaseLog.create(tmp_path / "log", mechanism, queries=50)
    line = {"count": 12, "labels": 12, "id": "b", "answers": base64.b64encode(bytes(size)).decode()}
    Journal(log.path, None, lambda *_: None).locked(lambda file: file.append(line))
    with pytest.raises(ReleaseLogDamaged):
        log.stored("b")


def test_invalid_release_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetUnreadable, match="cannot be opened"):
        ReleaseLog(tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(BudgetUnreadable, match="is empty"):
        ReleaseLog(tmp_path / "empty")
    (tmp_path / "text").write_text("hello\nworld\n")
    with pytest.raises(ReleaseLogDamaged, match="damaged at byte 0"):
        ReleaseLog(tmp_path / "text")
    for content, words in (
        ({"gamma": [1, 1], "queries": 5}, "a plan"),
        ({"gamma": [1, 1]}, "a solution"),
        ({"kind": "diary"}, "of the kind 'diary'"),
    ):
        (tmp_path / "plan.json").write_text(json.dumps(content, indent=2))
        with pytest.raises(BudgetUnreadable, match=rf"plan\.json is not a release log \(it is {words}\)") as refused:
            ReleaseLog(tmp_path / "plan.json")
        assert not isinstance(refused.value, ReleaseLogDamaged)
    # A log without its checksums is a damaged log, and no other document.
    (tmp_path / "bare").write_text(json.dumps({"kind": "darrm release log", "format": 1}))
    with pytest.raises(ReleaseLogDamaged, match="damaged at byte 0"):
        ReleaseLog(tmp_path / "bare")
    create(tmp_path / "other", {"kind": "diary"})
    with pytest.raises(BudgetUnreadable, match="not a release log of format 1, the format of this version"):
        ReleaseLog(tmp_path / "other")
    create(tmp_path / "another_format", {"kind": "darrm release log", "format": 2})
    with pytest.raises(BudgetUnreadable, match="not a release log of format 1, the format of this version"):
        ReleaseLog(tmp_path / "another_format")
    create(tmp_path / "half", {"kind": "darrm release log", "format": 1})
    with pytest.raises(ReleaseLogDamaged, match=r"header of the release log .* cannot be read"):
        ReleaseLog(tmp_path / "half")
    header = json.loads(begun(tmp_path).path.read_text().partition(" ")[2])
    mechanism = header["mechanism"]
    stricter = {**mechanism["problem"], "m": 0.25, "target_epsilon": 0.1}
    create(tmp_path / "forged", header | {"mechanism": {**mechanism, "gamma": [1.0] * 4, "problem": stricter}})
    with pytest.raises(NotPrivate):
        ReleaseLog(tmp_path / "forged")


# ------------------------------------------------------------------------------------------ opened or created


def test_a_log_is_created_once_and_opened_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with refused("budget"):
        ReleaseLog.open_or_create(path, solved(SMALL))
    with pytest.raises(BudgetSpent, match="5 releases were requested"):
        ReleaseLog.open_or_create(path, solved(SMALL), queries=4, first=5)
    assert not path.exists()
    release(ReleaseLog.open_or_create(path, solved(SMALL), queries=7)).release_many(VOTES)
    again = [ReleaseLog.open_or_create(path, solved(SMALL), queries=queries, first=5) for queries in (7, None)]
    assert [log.left for log in again] == [2, 2]


def test_logs_of_other_mechanisms_or_limits_are_not_opened(tmp_path: Path) -> None:
    path, total = tmp_path / "log", Privacy(2.0, 1e-6)
    ReleaseLog.create(path, solved(SMALL), queries=7)
    other = solve(Problem.from_allowance(K=3, m=1, epsilon=0.4))
    with refused("release_log"):
        ReleaseLog.open_or_create(path, other, queries=7)
    with refused("queries", "8"):
        ReleaseLog.open_or_create(path, solved(SMALL), queries=8)
    with refused("budget"):
        ReleaseLog.open_or_create(path, solved(SMALL), budget=total)
    with refused("fresh", "True"):
        ReleaseLog.open_or_create(path, solved(SMALL), queries=7, fresh=True)
    within = ReleaseLog.create(tmp_path / "total", solved(SMALL), budget=total, fresh=True)
    assert ReleaseLog.open_or_create(within.path, solved(SMALL), budget=total, fresh=True).limit == within.limit
    with refused("queries"):
        ReleaseLog.open_or_create(within.path, solved(SMALL), queries=within.limit + 1)
    assert ReleaseLog.open_or_create(within.path, solved(SMALL), queries=within.limit).budget == total


def test_a_log_created_concurrently_by_another_process_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(begun(tmp_path, queries=7)).release_many(VOTES)
    monkeypatch.setattr(Path, "exists", lambda _: False)  # the state before
    assert ReleaseLog.open_or_create(tmp_path / "log", solved(SMALL), queries=7).left == 2


# ------------------------------------------------------------------------------------------ the format

WRITTEN = """\
dd91fad7ecfffa0ef773eb38dccdf958 {"kind":"darrm release log","format":1,"version":"0.2.0",\
"mechanism":{"kind":"darrm noise function","format":1,"problem":{"K":3,"m":2.0,"epsilon":0.4,"Delta":0.0,\
"target_epsilon":0.8,"delta":0.0,"affected":3},"gamma":[0.999999999999754,0.999999999999754,0.999999999999754,\
0.999999999999754],"fresh":false},"budget":null,"account":"queries","limit":100}
4a15798afac6e0345ce32ad27184138d {"count":5,"labels":5,"id":"monday","answers":"qA=="}
46757c782b8d27bd2c53f9db2327a5d0 {"count":2,"labels":2}
"""
"""A file of format 1."""


def test_the_format_is_stable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "__version__", "0.2.0")
    (tmp_path / "written").write_text(WRITTEN)
    log = ReleaseLog.create(tmp_path / "log", ReleaseLog(tmp_path / "written").mechanism, queries=100)
    log.charge_and_release(5, lambda _: np.array([1, 0, 1, 0, 1], dtype=np.int16), "monday")
    log.charge_and_release(2, lambda _: np.ones(2, dtype=np.int16))
    assert log.path.read_text() == WRITTEN


# ------------------------------------------------------------------------------------------ damage


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    """Return a log with two releases, and the bytes where its lines end."""
    log = begun(tmp_path_factory.mktemp("written"))
    release(log).release_many(VOTES, "monday")
    release(log).release_many(VOTES[:3])
    content = log.path.read_bytes()
    return content, [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]


@pytest.mark.parametrize("tail", [b"", b"\0", b"\0" * 4096])
def test_a_write_truncated_anywhere_does_not_count(
    tmp_path: Path, written: tuple[bytes, list[int]], tail: bytes
) -> None:
    content, ends = written
    path = tmp_path / "log"
    for cut in range(ends[1], len(content)):
        path.write_bytes(content[:cut] + (tail if cut > ends[1] else b""))
        if cut == len(content) - 1 and tail:
            continue  # a complete line with another end is damage, see below
        log = ReleaseLog(path)
        assert (log.spent, log.ids) == (5, frozenset({"monday"}))
        release(log).release(VOTES[0])
        assert ReleaseLog(path).spent == 6


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.data())
def test_any_changed_bit_is_detected(tmp_path: Path, written: tuple[bytes, list[int]], data: st.DataObject) -> None:
    content, _ = written
    place = data.draw(st.one_of(st.integers(0, len(content) - 1), st.integers(len(content) - 60, len(content) - 1)))
    changed = bytearray(content)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "log"
    path.write_bytes(changed)
    with pytest.raises(ReleaseLogDamaged, match="damaged at byte"):
        ReleaseLog(path)
    assert path.read_bytes() == changed


@pytest.mark.parametrize("line", [0, 1])
def test_a_removed_line_is_detected(tmp_path: Path, written: tuple[bytes, list[int]], line: int) -> None:
    lines = written[0].splitlines(keepends=True)
    (tmp_path / "log").write_bytes(b"".join(lines[:line] + lines[line + 1 :]))
    with pytest.raises(ReleaseLogDamaged, match="damaged at byte"):
        ReleaseLog(tmp_path / "log")


def test_a_release_log_truncated_or_replaced_while_in_use_is_refused(tmp_path: Path) -> None:
    log = begun(tmp_path)
    earlier = log.path.read_bytes()
    release(log).release_many(VOTES)
    log.path.write_bytes(earlier)
    with pytest.raises(ReleaseLogDamaged, match="replaced or cut while it was in use"):
        release(log).release_many(VOTES)
    other = ReleaseLog(log.path)
    beside = tmp_path / "copy"
    beside.write_bytes(log.path.read_bytes())
    beside.replace(log.path)
    with pytest.raises(ReleaseLogDamaged, match="replaced or cut"):
        _ = other.spent
    log.path.unlink()
    with pytest.raises(BudgetUnreadable, match="cannot be opened: No such file"):
        _ = other.spent


# ------------------------------------------------------------------------------------------ concurrency


CHARGES = """
import sys
from darrm_opt.release import BudgetSpent, PrivateVote, ReleaseLog
log = ReleaseLog(sys.argv[1])
release = PrivateVote(log.mechanism, log)
made = 0
try:
    while True:
        release.release([1, 0, 1], None if sys.argv[2] == "-" else f"{sys.argv[2]}{made}")
        made += 1
        print(made, flush=True)
except BudgetSpent:
    pass
"""


def start(log: ReleaseLog, name: str = "-") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHARGES, str(log.path), name]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_share_a_budget_to_the_last_release(tmp_path: Path) -> None:
    log = begun(tmp_path, queries=300)
    running = [start(log, name) for name in ("-", "a", "b")]
    made = []
    for process in running:
        stdout, stderr = process.communicate(timeout=120)
        assert (process.returncode, stderr) == (0, "")
        made.append(len(stdout.splitlines()))
    assert sum(made) == log.spent == 300
    assert len(log.ids) == made[1] + made[2]


def test_threads_share_a_budget_to_the_last_release(tmp_path: Path) -> None:
    log = begun(tmp_path, queries=60)
    mechanism, made = release(log), []

    def work() -> None:
        try:
            while True:
                made.append(mechanism.release(VOTES[0]))
        except BudgetSpent:
            pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == log.spent == 60


def test_the_log_of_a_killed_process_counts_all_its_releases(tmp_path: Path) -> None:
    log = begun(tmp_path, queries=100_000)
    rng, told = np.random.default_rng(4), 0
    for number in range(4):
        process = start(log, f"run {number}, release ")
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(int(rng.integers(1, 40))):
            assert process.stdout.readline(), process.stderr.read()
        time.sleep(float(rng.random()) * 0.002)
        process.kill()
        lines = process.stdout.read().splitlines()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        told = int(lines[-1]) if lines else 0
        found = ReleaseLog(log.path)
        here = [name for name in found.ids if name.startswith(f"run {number},")]
        assert told <= len(here) <= found.spent
        # The release in progress at the kill is requested again with its id, and is charged once.
        before, name = found.spent, f"run {number}, release {len(here) - 1}"
        assert found.charge_and_release(1, never, name).shape == (1,)
        assert found.spent == before
    assert log.spent == len(log.ids)
