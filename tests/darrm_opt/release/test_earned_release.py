"""Propose-test-release of a batch: one test, one charge, all labels or none, also if the process is killed."""

from __future__ import annotations

import json
import os
import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.refusals import refused

from darrm_opt.accounting.propose_test_release import Proposal, propose
from darrm_opt.errors import DarrmError
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource, SeededRandomnessForTestsOnly
from darrm_opt.release import BatchWithheld, BudgetSpent, PrivateVote, ReleaseCounter, ReleaseLog
from darrm_opt.release.journal import LockedJournal, create

MECHANISM = NoisyMaximum(60, 3, 5.0)
TOTAL = Privacy(4.5, 1e-4)


@cache
def proposal_of_batch() -> Proposal:
    return propose(MECHANISM.batch(30), TOTAL)


def votes(agreeing: int) -> np.ndarray:
    """Return votes of 60 voters in 30 queries, of whom this many agree."""
    leaders = np.arange(30)[:, np.newaxis] % 3
    return np.where(np.arange(60) < agreeing, leaders, (leaders + 1) % 3)


EARN, FAIL = votes(60), votes(30)


def log_of(folder: Path) -> ReleaseLog:
    return ReleaseLog.open_or_create(folder / "log", MECHANISM, proposal=proposal_of_batch())


def test_if_the_test_passes_all_labels_are_released_in_one_line(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    assert (log.budget, log.limit, log.spent, log.passed, log.proposal) == (TOTAL, 30, 0, None, proposal_of_batch())
    assert log.cost(0, 1e-4).epsilon == 0
    labels = PrivateVote(MECHANISM, log).release_many(EARN, "batch")
    assert (labels == np.arange(30) % 3).mean() > 0.9
    assert (log.left, log.passed, log.labels) == (0, True, 30)
    assert len((tmp_path / "log").read_text().splitlines()) == 2
    again = log_of(tmp_path)  # another process, with other votes
    assert PrivateVote(MECHANISM, again).release_many(FAIL, "batch").tolist() == labels.tolist()
    assert (again.cost(30, 1e-4).epsilon, again.cost(30, 1e-5).epsilon) == (4.5, float("inf"))
    with pytest.raises(BudgetSpent):
        PrivateVote(MECHANISM, again).release_many(EARN, "another")


def test_a_batch_that_does_not_pass_is_charged_and_never_tested_again(tmp_path: Path) -> None:
    for votes, name in ((FAIL, "batch"), (EARN, "batch"), (EARN, "another"), (EARN, None)):
        with pytest.raises(BatchWithheld) as withheld:
            PrivateVote(MECHANISM, log_of(tmp_path)).release_many(votes, name)
        assert withheld.value.total == TOTAL
        assert withheld.value.test == proposal_of_batch().failed(TOTAL.delta)
    log = log_of(tmp_path)
    assert (log.left, log.passed, log.labels) == (0, False, 0)
    with pytest.raises(BatchWithheld):
        log.stored("batch")
    assert log.stored("another") is None
    assert pickle.loads(pickle.dumps(withheld.value)).total == TOTAL  # noqa: S301 — pickled here


class Killed(BaseException):
    """The process is killed here."""


@pytest.mark.parametrize("batch", [EARN, FAIL], ids=["earns", "fails"])
@pytest.mark.parametrize("moment", ["before the test", "while it draws", "before the line", "after the line"])
def test_a_kill_at_any_time_leaves_one_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: np.ndarray, moment: str
) -> None:
    """The file at that time determines the answer of the next process: nothing, or everything."""

    def kill(*_: object) -> None:
        raise Killed

    append = LockedJournal.append

    def append_and_die(self: LockedJournal, record: dict) -> None:  # type: ignore[type-arg]
        if moment == "after the line":
            append(self, record)
        raise Killed

    with monkeypatch.context() as patch:
        if moment == "before the test":
            patch.setattr(Proposal, "passes", kill)
        elif moment == "while it draws":
            patch.setattr(Proposal, "passes", lambda *_: True)
            patch.setattr(NoisyMaximum, "draw_many", kill)
        else:
            patch.setattr(LockedJournal, "append", append_and_die)
        with pytest.raises(Killed):
            PrivateVote(MECHANISM, log_of(tmp_path)).release_many(batch, "batch")
    log = log_of(tmp_path)
    assert log.spent == (30 if moment == "after the line" else 0)
    outcomes = []
    for _ in range(3):
        try:
            outcomes.append(PrivateVote(MECHANISM, log_of(tmp_path)).release_many(batch, "batch").tolist())
        except BatchWithheld:
            outcomes.append(None)
    assert outcomes == 3 * outcomes[:1]
    assert (outcomes[0] is not None) == (batch is EARN) == log.passed
    assert (log.spent, len((tmp_path / "log").read_text().splitlines())) == (30, 2)


def test_concurrent_processes_draw_one_test(tmp_path: Path) -> None:
    log_of(tmp_path)
    children = []
    for _ in range(4):
        if not (child := os.fork()):
            try:
                labels = PrivateVote(MECHANISM, log_of(tmp_path)).release_many(EARN, "batch")
                (tmp_path / f"{os.getpid()}.json").write_text(json.dumps(labels.tolist()))
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert len({path.read_text() for path in tmp_path.glob("*.json")}) == 1
    assert len([*tmp_path.glob("*.json")]) == 4
    assert log_of(tmp_path).spent == 30


def test_a_counter_releases_a_batch_once() -> None:
    counter = ReleaseCounter(30, proposal_of_batch())
    copy = pickle.loads(pickle.dumps(counter))  # noqa: S301 — pickled here
    assert (copy.left, copy.proposal) == (0, proposal_of_batch())
    vote = PrivateVote(MECHANISM, counter)
    with refused("votes"):
        vote.release_many(EARN[:29])
    assert len(vote.release_many(EARN)) == 30
    for budget, error in ((counter, BudgetSpent), (ReleaseCounter(30, proposal_of_batch()), BatchWithheld)):
        with pytest.raises(error):
            PrivateVote(MECHANISM, budget).release_many(FAIL)
        assert budget.left == 0
    with refused("limit"):
        ReleaseCounter(29, proposal_of_batch())


@pytest.mark.slow
def test_labels_are_released_as_often_as_the_test_passes() -> None:
    """At one distance: the share released is the stated probability, within 5 standard deviations."""
    batch = votes(45)
    counts = np.stack([(batch == label).sum(axis=1) for label in range(3)], axis=1)
    chance = proposal_of_batch().pass_chance(proposal_of_batch().unpublished_distance(counts))
    assert 0.02 < chance < 0.98
    source: RandomSource = SeededRandomnessForTestsOnly(5)
    left = 0
    for _ in range(300):
        try:
            PrivateVote(MECHANISM, ReleaseCounter(30, proposal_of_batch()), source=source).release_many(batch)
            left += 1
        except BatchWithheld:
            continue
    assert abs(left - 300 * chance) <= 5 * (300 * chance * (1 - chance)) ** 0.5


def test_batches_and_proposals_of_another_log_are_refused(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    vote = PrivateVote(MECHANISM, log)
    with refused("votes"):
        vote.release_many(EARN[:29], "batch")
    assert log.spent == 0
    new = tmp_path / "new"
    other = NoisyMaximum(60, 3, 6.0)
    for argument, make in (
        ("budget", lambda: ReleaseLog.create(new, MECHANISM, budget=TOTAL, proposal=proposal_of_batch())),
        ("queries", lambda: ReleaseLog.create(new, MECHANISM, queries=30, proposal=proposal_of_batch())),
        ("proposal", lambda: ReleaseLog.create(new, other, proposal=proposal_of_batch())),
        ("proposal", lambda: ReleaseLog.create(new, MECHANISM, proposal=TOTAL)),  # type: ignore[arg-type]
        ("proposal", lambda: PrivateVote(other, ReleaseCounter(30, proposal_of_batch()))),
        (
            "proposal",
            lambda: ReleaseLog.open_or_create(
                log.path, MECHANISM, proposal=propose(MECHANISM.batch(30), Privacy(4.6, 1e-4))
            ),
        ),
    ):
        with refused(argument):
            make()
    assert not new.exists()


@pytest.mark.parametrize(
    ("name", "value"), [("test_threshold", 1), ("target", 9.0), ("test_sigma", 50.0), ("order", None)]
)
def test_a_log_with_a_test_that_is_not_private_is_refused(tmp_path: Path, name: str, value: object) -> None:
    log_of(tmp_path)
    header = json.loads((tmp_path / "log").read_text()[33:])
    header["proposal"][name] = value
    create(tmp_path / "forged", header)
    with pytest.raises(DarrmError):
        ReleaseLog(tmp_path / "forged")
