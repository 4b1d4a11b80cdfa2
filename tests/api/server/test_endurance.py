"""The campaigns of endurance and of faults in their short form: a few hundred requests of the mixed load, and faults that need no root."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from campaigns.endurance import (
    MIX,
    RATIO,
    Piece,
    campaign,
    interval,
    quantile,
    read_record,
    report,
    requests_of,
)
from campaigns.operating_faults import FAULTS, Finding, Reply, examine, judge
from campaigns.operating_faults import report as faults_report


def test_the_requests_depend_on_the_seed_and_the_piece_alone() -> None:
    assert requests_of(1, 0, 200) == requests_of(1, 0, 200)
    assert requests_of(1, 0, 200) != requests_of(1, 1, 200)
    assert len({request.name for request in requests_of(1, 0)}) == len(MIX)


def test_quantiles_are_those_of_the_times_within_an_interval() -> None:
    times = [0.001 * number for number in range(1, 1001)]
    histogram: dict[str, int] = {}
    for each in times:
        histogram[str(interval(each))] = histogram.get(str(interval(each)), 0) + 1
    for share in (0.5, 0.99, 0.999):
        exact = 1000 * times[math.ceil(share * len(times)) - 1]
        assert exact <= quantile(histogram, share) * (1 + 1e-12) <= exact * RATIO * (1 + 1e-9)


@pytest.mark.slow
def test_a_mixed_load_gets_what_each_request_calls_for_and_goes_on_from_its_record(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    first = campaign(tmp_path, 3, [], 1, record, count=150)
    assert first[0].wrong == []
    pieces = campaign(tmp_path, 3, read_record(record, 3), 2, record, count=150)
    assert [(piece.number, piece.requests, piece.wrong) for piece in pieces] == [(0, 150, []), (1, 150, [])]
    assert [piece.number for piece in read_record(record, 3)] == [0, 1]
    told = "\n".join(report(pieces))
    assert "300 requests in" in told
    assert ": 0 answers of 5xx, 0 broken connections, 0 other unexpected statuses." in told
    assert "*server 2*" in told  # each server's memory is told apart


def test_an_answer_of_5xx_is_reported() -> None:
    piece = Piece(1, 0, 7, 2, 1.0, {"stored γ": {"200": 1, "503": 1}}, {"stored γ": {"1": 2}}, ["0.1 GET /: 503"])
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
def test_what_is_wrong_under_a_fault(during: dict[str, Reply], recovery: float | None, wrong: str) -> None:
    usual = dict.fromkeys(("readiness", "given before", "stored", "new problem", "certificate"), OK)
    found = Finding("a fault", {**usual, **during}, usual, recovery)
    assert "; ".join(judge(found)).startswith(wrong)
    assert bool(judge(found)) == bool(wrong)
    assert any(line.startswith("| a fault | ") for line in faults_report([found]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["file deleted", "file overwritten", "solver killed"])
def test_a_fault_is_told_survived_and_over(name: str) -> None:
    found = examine(name, FAULTS[name])
    assert found.wrong == []
