"""Short forms of the campaigns of endurance, faults and kills: 150 mixed requests, one fault, a few kills."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from campaigns.endurance import Piece, campaign, report, requests_of
from campaigns.kill_service import Campaign
from campaigns.operating_faults import Finding, Reply, examine, judge
from campaigns.operating_faults import report as faults_report


def test_the_requests_depend_only_on_the_seed_and_the_piece() -> None:
    assert requests_of(1, 0, 200) == requests_of(1, 0, 200)
    assert requests_of(1, 0, 200) != requests_of(1, 1, 200)


@pytest.mark.slow
def test_every_request_of_a_mixed_load_gets_its_expected_answer(tmp_path: Path) -> None:
    pieces = campaign(tmp_path, 3, 150, size=75)
    assert [(piece.requests, piece.wrong) for piece in pieces] == [(75, [])] * 2
    told = "\n".join(report(pieces))
    assert "150 requests in" in told
    assert ": 0 answers of 5xx, 0 broken connections, 0 other unexpected statuses." in told


def test_an_answer_of_5xx_is_reported() -> None:
    piece = Piece(2, 1.0, Counter({("stored γ", 200): 1, ("stored γ", 503): 1}), ["GET /: 503"])
    assert ": 1 answers of 5xx, 0 broken connections, 0 other" in next(report([piece]))


OK, REFUSED = Reply(200, 0.1), Reply(503, 0.1)


@pytest.mark.parametrize(
    ("during", "recovery", "wrong"),
    [
        ({}, 1.0, ""),
        ({"readiness": REFUSED, "new problem": REFUSED, "stored": REFUSED}, 1.0, ""),
        ({"new problem": REFUSED}, 1.0, "it is ready, and a new problem is not answered"),
        ({"readiness": REFUSED, "given before": REFUSED}, 1.0, "given before: 503"),
        ({"stored": Reply(500, 0.1, "a bug")}, 1.0, "stored: a bug"),
        ({}, None, "it does not recover"),
    ],
)
def test_wrong_responses_under_a_fault_are_found(during: dict[str, Reply], recovery: float | None, wrong: str) -> None:
    usual = dict.fromkeys(("readiness", "given before", "stored", "new problem", "certificate"), OK)
    found = Finding("a fault", {**usual, **during}, usual, recovery)
    assert "; ".join(judge(found)).startswith(wrong)
    assert bool(judge(found)) == bool(wrong)
    assert any(line.startswith("| a fault | ") for line in faults_report([found]))


@pytest.mark.slow
def test_a_fault_is_reported_and_recovered_from() -> None:
    """Other faults: test_readiness.py; a killed solver: test_process_pool.py, and below."""
    assert examine("file overwritten").wrong == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="searches /proc for processes")
def test_nothing_is_lost_or_wrong_after_some_kills(tmp_path: Path) -> None:
    """Kills of the service, its workers, solver processes and clients, at random times; long form: docs/faults.md."""
    outcome = Campaign(tmp_path, seed=2).run(kills=3, seconds=240)
    assert outcome.wrong == []
    assert sum(outcome.kills.values()) >= 3
    assert outcome.answers > 0
    assert outcome.rows >= max(1, outcome.jobs["done"])  # of a few answers, all may be of short designs
    assert set(outcome.jobs) <= {"done", "failed"}
