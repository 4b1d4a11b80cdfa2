"""`darrm cost --votes`: what noisy labels reveal about the votes of a file, made private before it is printed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.darrm_runner import refused, run, run_json

from darrm_opt.accounting.propose_test_release import VoteBatch, earned_epsilon
from darrm_opt.accounting.published_loss import unpublished_epsilon

SHAPE = ("--K", "40", "--classes", "3", "--sigma", "5", "--delta", "1e-4")


@pytest.fixture
def votes(tmp_path: Path) -> str:
    """Votes of 40 voters in 30 queries, of whom 38 agree."""
    table = np.tile(np.arange(30)[:, np.newaxis] % 3, (1, 40))
    table[:, :2] = (table[:, :2] + 1) % 3
    np.save(tmp_path / "votes.npy", table)
    return str(tmp_path / "votes.npy")


def test_what_is_published_is_private_and_the_rest_is_on_request(votes: str) -> None:
    batch = VoteBatch(40, 3, 30, 5.0)
    counts = np.array([np.roll([38, 2, 0], query) for query in range(30)])
    raw, test = unpublished_epsilon(batch, counts, 1e-4), earned_epsilon(batch, 1e-4)
    found = run_json("cost", "gnmax", *SHAPE, "--votes", votes, "--unpublished")
    assert found["epsilon"] == run_json("cost", "gnmax", *SHAPE, "--queries", "30")["epsilon"]
    told = found["votes"]
    assert told["not_for_publication"] == {"epsilon": raw.epsilon, "delta": 1e-4, "order": raw.order}
    assert told["stated"] == {"epsilon": test.total.epsilon, "delta": 1e-4, "chance": 0.99, "leader_share": 0.9}
    assert raw.epsilon < told["stated"]["epsilon"] < found["epsilon"]
    less = run_json("cost", "gnmax", *SHAPE, "--votes", votes, "--leader-share", "0.95")["votes"]["stated"]
    assert less["epsilon"] < told["stated"]["epsilon"]  # who expects more agreement states less
    published = [told["published"]]
    published += [run_json("cost", "gnmax", *SHAPE, "--votes", votes)["votes"]["published"] for _ in range(3)]
    assert len({each["renyi"] for each in published}) > 1  # drawn anew each time
    assert all(each["spent"]["epsilon"] > 0 for each in published)


def test_the_sentences_say_what_is_no_guarantee(votes: str) -> None:
    told = run("cost", "gnmax", *SHAPE, "--votes", votes).stdout
    assert "no guarantee" in told
    assert "NOT FOR PUBLICATION" not in told
    told = run("cost", "gnmax", *SHAPE, "--votes", votes, "--unpublished").stdout
    assert "NOT FOR PUBLICATION, as it depends on the votes" in told


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("gnmax", *SHAPE, "--queries", "31"), "--queries: '31'"),
        (("gnmax", *SHAPE, "--affected", "2"), "--affected: 2"),
        (("gnmax", *SHAPE, "--threshold", "20", "--check-sigma", "9", "--cap", "4"), "--cap: 4"),
        (("laplace", "--K", "40", "--classes", "3", "--scale", "5", "--delta", "1e-4"), "NAME: 'laplace'"),
        (("gnmax", *SHAPE[:4], "--total-epsilon", "3", "--total-delta", "1e-5"), "--votes"),
        (("gnmax", *SHAPE, "--records", "1000", "--sample", "40"), "--votes"),
        ((), "--votes"),
        (("gnmax", *SHAPE, "--leader-share", "0.3"), "--leader-share: 0.3"),
    ],
)
def test_what_has_no_such_account_is_refused(votes: str, arguments: tuple[str, ...], option: str) -> None:
    assert option in refused("cost", *arguments, "--votes", votes)


def test_the_check_is_part_of_the_batch(votes: str) -> None:
    check = ("--threshold", "30", "--check-sigma", "9")
    found = run_json("cost", "gnmax", *SHAPE, *check, "--votes", votes, "--unpublished")
    counts = np.array([np.roll([38, 2, 0], query) for query in range(30)])
    raw = unpublished_epsilon(VoteBatch(40, 3, 30, 5.0, 30.0, 9.0), counts, 1e-4)
    assert found["votes"]["not_for_publication"]["epsilon"] == raw.epsilon


@pytest.mark.parametrize(("option", "value"), [("--leader-share", ("0.8",)), ("--unpublished", ())])
def test_what_is_said_of_a_batch_needs_its_votes(option: str, value: tuple[str, ...]) -> None:
    assert option in refused("cost", "gnmax", *SHAPE, option, *value)
    assert option in refused("cost", "--epsilon", "1", option, *value)
