"""`darrm cost --votes`: the loss of labels for the votes of a file, published privately; `darrm label --ptr`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.darrm_runner import refused, run, run_json, start

from darrm.cli.vote_files import VoteFile
from darrm_opt.accounting.propose_test_release import ptr_epsilon
from darrm_opt.accounting.published_loss import unpublished_epsilon
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.release import ReleaseLog

SHAPE = ("--K", "40", "--classes", "3", "--sigma", "5", "--delta", "1e-4")


@pytest.fixture
def votes(tmp_path: Path) -> str:
    """Write the votes of 40 voters in 30 queries, of whom 38 agree."""
    table = np.tile(np.arange(30)[:, np.newaxis] % 3, (1, 40))
    table[:, :2] = (table[:, :2] + 1) % 3
    np.save(tmp_path / "votes.npy", table)
    return str(tmp_path / "votes.npy")


def test_the_published_loss_is_private_and_the_exact_one_is_on_request(votes: str) -> None:
    batch = NoisyMaximum(40, 3, 5.0).batch(30)
    counts = np.array([np.roll([38, 2, 0], query) for query in range(30)])
    raw, test = unpublished_epsilon(batch, counts, 1e-4), ptr_epsilon(batch, 1e-4)
    found = run_json("cost", "gnmax", *SHAPE, "--votes", votes, "--unpublished")
    assert found["epsilon"] == run_json("cost", "gnmax", *SHAPE, "--queries", "30")["epsilon"]
    told = found["votes"]
    assert told["not_for_publication"] == {"epsilon": raw.epsilon, "delta": 1e-4, "order": raw.order}
    assert told["stated"] == {"epsilon": test.total.epsilon, "delta": 1e-4, "chance": 0.99, "leader_share": 0.9}
    assert raw.epsilon < told["stated"]["epsilon"] < found["epsilon"]
    less = run_json("cost", "gnmax", *SHAPE, "--votes", votes, "--leader-share", "0.95")["votes"]["stated"]
    assert less["epsilon"] < told["stated"]["epsilon"]  # more expected agreement gives a smaller total
    published = [told["published"]]
    published += [run_json("cost", "gnmax", *SHAPE, "--votes", votes)["votes"]["published"] for _ in range(3)]
    assert len({each["renyi"] for each in published}) > 1  # the noise differs each time
    assert all(each["spent"]["epsilon"] > 0 for each in published)


def test_the_votes_are_read_once(votes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(file: VoteFile, rows: int) -> Iterator[Any]:
        read.append(file.path)
        return blocks(file, rows)

    blocks = VoteFile.blocks
    monkeypatch.setattr(VoteFile, "blocks", counted)
    assert run("cost", "gnmax", *SHAPE, "--votes", votes).exit_code == 0
    assert read == [votes]


def test_the_text_marks_values_that_are_not_guarantees(votes: str) -> None:
    told = run("cost", "gnmax", *SHAPE, "--votes", votes).stdout
    assert "no guarantee" in told
    assert "NOT FOR PUBLICATION" not in told
    told = run("cost", "gnmax", *SHAPE, "--votes", votes, "--unpublished").stdout
    assert "NOT FOR PUBLICATION, as it depends on the votes: ε = " in told
    assert re.search(r"ε = \S+ at δ = 0\.0001\.$", told.strip())


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("gnmax", *SHAPE, "--queries", "31"), "--queries: '31'"),
        (("gnmax", *SHAPE, "--affected", "2"), "--affected: 2"),
        (
            ("gnmax", *SHAPE, "--check", "threshold=20,sigma=9,cap=4"),
            "--check cannot be combined with an account by the votes. Drop cap.",
        ),
        (("laplace", "--K", "40", "--classes", "3", "--scale", "5", "--delta", "1e-4"), "NAME: 'laplace'"),
        (("gnmax", *SHAPE[:4], "--total-epsilon", "3", "--total-delta", "1e-5"), "--votes"),
        (("gnmax", *SHAPE, "--records", "1000", "--sample", "40"), "--votes"),
        (("bagging",), "--votes"),
        (("gnmax", *SHAPE, "--leader-share", "0.3"), "--leader-share: 0.3"),
    ],
)
def test_options_without_a_data_dependent_account_are_refused(
    votes: str, arguments: tuple[str, ...], option: str
) -> None:
    assert option in refused("cost", *arguments, "--votes", votes)


def test_the_check_is_part_of_the_batch(votes: str) -> None:
    check = ("--check", "threshold=30,sigma=9")
    found = run_json("cost", "gnmax", *SHAPE, *check, "--votes", votes, "--unpublished")
    counts = np.array([np.roll([38, 2, 0], query) for query in range(30)])
    raw = unpublished_epsilon(NoisyMaximum(40, 3, 5.0, threshold=30.0, check_sigma=9.0).batch(30), counts, 1e-4)
    assert found["votes"]["not_for_publication"]["epsilon"] == raw.epsilon


@pytest.mark.parametrize(("option", "value"), [("--leader-share", ("0.8",)), ("--unpublished", ())])
def test_options_of_a_batch_require_its_votes(option: str, value: tuple[str, ...]) -> None:
    assert option in refused("cost", "gnmax", *SHAPE, option, *value)
    assert option in refused("cost", "bagging", option, *value)


# ------------------------------------------------------------------------------------------ propose-test-release


@pytest.fixture
def ptr_command(tmp_path: Path) -> tuple[str, ...]:
    """A command without its total and output: 58 of 60 voters agree in 30 queries."""
    votes = str(tmp_path / "votes.npy")
    table = np.tile(np.arange(30)[:, np.newaxis] % 3, (1, 60))
    table[:, :2] = (table[:, :2] + 1) % 3
    np.save(votes, table)
    source, log = tmp_path / "mechanism.json", tmp_path / "log"
    run("cost", "gnmax", "--K", "60", *SHAPE[2:], "--queries", "30", "--output", str(source))
    return ("label", "--votes", votes, "--solution", str(source), "--release-log", str(log))


def test_if_the_test_passes_labels_are_released_once(ptr_command: tuple[str, ...], tmp_path: Path) -> None:
    output = str(tmp_path / "labels.csv")
    found = run_json(*ptr_command, "--ptr", "4.5,1e-4", "--output", output)
    assert (found["labels"], found["spent"], found["left"]) == (30, 30, 0)
    assert (found["total_epsilon"], found["total_delta"], found["account"]) == (4.5, 1e-4, "propose-test-release")
    right = np.array(Path(output).read_text().split()[1:], dtype=int) == np.arange(30) % 3
    assert right.mean() > 0.9
    status = run_json("label", "--status", str(tmp_path / "log"))
    assert (status["passed"], status["epsilon"]) == (True, 4.5)
    assert "test       passed" in run("label", "--status", str(tmp_path / "log")).stdout
    # The same command again: the released labels, without a charge.
    again = (*ptr_command[:1], ptr_command[2], *ptr_command[3:])
    output = str(tmp_path / "again.csv")
    release_id = found["release_id"]
    result = run(*again, "--ptr", "4.5,1e-4", "--output", output, "--release-id", release_id, "--json")
    resumed = json.loads(result.stdout)
    assert "30 of 30 labels were released before" in result.stderr
    assert (resumed["resumed"], resumed["spent"]) == (30, 30)
    assert Path(output).read_text() == (tmp_path / "labels.csv").read_text()


def test_a_failed_test_releases_nothing_and_states_its_cost(ptr_command: tuple[str, ...], tmp_path: Path) -> None:
    votes = ptr_command[2]
    table = np.load(votes)
    table[:, :28] = (table[:, :28] + 1) % 3
    np.save(votes, table)
    for _ in range(2):
        result = run(*ptr_command, "--ptr", "4.5,1e-4", "--output", str(tmp_path / "labels.csv"))
        assert (result.exit_code, result.stdout) == (4, "")
        assert "failed the test" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"votes.npy", "mechanism.json", "log"}
    assert run_json("label", "--status", str(tmp_path / "log"))["passed"] is False
    assert "not passed" in run("label", "--status", str(tmp_path / "log")).stdout


@pytest.mark.parametrize(
    ("more", "option"),
    [
        (("--ptr", "4.5"), "--ptr: '4.5'"),
        (("--ptr", "4.5,0"), "--ptr: 0.0"),
        (("--ptr", "0.5,1e-4"), "--ptr: 0.5"),
        (("--ptr", "9,1e-4"), "--ptr: 9.0"),
        (("--ptr", "4.5,1e-4", "--queries", "30"), "--queries cannot be combined with --ptr"),
        (("--ptr", "4.5,1e-4", "--leader-share", "0.2"), "--leader-share: 0.2"),
        (("--leader-share", "0.8", "--queries", "30"), "--leader-share needs --ptr"),
        (("votes.csv", "--queries", "30"), "--votes"),
    ],
)
def test_totals_without_a_test_are_refused(
    ptr_command: tuple[str, ...], tmp_path: Path, more: tuple[str, ...], option: str
) -> None:
    assert option in refused(*ptr_command, *more, "--output", str(tmp_path / "labels.csv"))
    assert not (tmp_path / "log").exists()


def test_a_log_has_one_budget(ptr_command: tuple[str, ...], tmp_path: Path) -> None:
    output = ("--output", str(tmp_path / "labels.csv"))
    run_json(*ptr_command, "--queries", "30", *output)
    (tmp_path / "labels.csv").unlink()
    assert "--ptr" in refused(*ptr_command, "--ptr", "4.5,1e-4", *output)


@pytest.mark.slow
def test_a_job_killed_at_any_time_has_one_outcome(ptr_command: tuple[str, ...], tmp_path: Path) -> None:
    """SIGKILL once the log exists or slightly later: the test is drawn once, and its labels are those of the log."""
    random = np.random.default_rng(3)
    log, output = tmp_path / "log", tmp_path / "labels.csv"
    command = (*ptr_command, "--ptr", "4.5,1e-4", "--output", str(output))
    for _ in range(4):
        process = start(*command, cwd=tmp_path)
        while process.poll() is None and not log.exists():
            time.sleep(0.001)
        time.sleep(float(random.random()) * 0.02)
        process.kill()
        process.communicate()
        lines = log.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 2
        if output.exists():
            break
    if not output.exists() or (tmp_path / ".labels.csv.job").exists():
        assert run(*command).exit_code == 0
    released = ReleaseLog(log)
    (name,) = released.ids
    stored = released.stored(name)
    assert stored is not None
    assert [int(label) for label in output.read_text(encoding="utf-8").split()[1:]] == stored.tolist()
    assert (released.spent, released.passed) == (30, True)
    assert [path.name for path in tmp_path.glob(".*")] == []
