"""Questions × doors: each is asked, refused, proved and read again the same way by REST, by a client and from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.live import Ruled, serving
from support.patient import patient

from api.app import create_app
from darrm_client import DarrmClient
from darrm_opt import Problem, solve
from darrm_opt.errors import DarrmError, InvalidInput, VerificationFailed
from darrm_opt.questions import QUESTIONS
from darrm_opt.record import solution_record

GROUPS = [{"K": 2, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}]

VOTERS: dict[str, Any] = {"K": 3, "m": 1, "epsilon": 0.5}

TOTAL: dict[str, Any] = {"total_epsilon": 2.0, "total_delta": 1e-5}

ASKED: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # path, fields; a change that is refused; a change of the answer that is a lie
    "plan": ("plan", {**TOTAL, "K": 3, "epsilon": "inf", "affected": 1, "queries": 2}, {"price": -1.0}, {"queries": 3}),
    "plan of classes": (
        "plan",
        {**TOTAL, "K": 4, "epsilon": "inf", "affected": 1, "classes": 3},
        {"n": 9, "subsample_size": 3},
        {"mechanism": {"kind": "nothing"}},
    ),
    "plan of groups": ("plan", {"groups": GROUPS, "total_epsilon": 0.6}, {"K": 4}, {"groups": GROUPS[:1]}),
    "options": (
        "plurality/options",
        {**TOTAL, "K": 4, "classes": 3, "price": 0.5},
        {"least_accuracy": 0.2},
        {"mechanism": {"kind": "nothing"}},
    ),
    "compose": ("compose", {"epsilon": 0.3, "delta": 1e-5, "queries": 10}, {"fresh": True}, {"accounts": {}}),
    "compose γ": (
        "compose",
        {**VOTERS, "queries": 4, "fresh": True, "total_delta": 1e-4},
        {"epsilon": -1.0},
        {"gamma": [1.0] * 4},
    ),
}


@pytest.fixture(scope="module")
def service() -> Iterator[TestClient]:
    with TestClient(create_app(patient())) as client:
        yield client


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = Path(tmp_path_factory.mktemp("questions")) / "table.jsonl"
    problem = Problem.from_allowance(**VOTERS)
    path.write_text(json.dumps(solution_record(solve(problem))), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("name", ASKED)
def test_a_question_has_one_answer_at_every_door(service: TestClient, table: str, name: str) -> None:
    path, fields, wrong, lie = ASKED[name]
    kind = QUESTIONS[path]
    asked = kind.of(fields)
    assert kind.of(json.loads(json.dumps(asked.record()))) == asked
    told = service.post(f"/v1/{path}", json=fields).json()
    if "groups" not in fields:
        assert service.get(f"/v1/{path}", params=fields).json() == told
    remote = Ruled(lambda _method, path, body: (200, service.post(path, json=body).json()))
    liar = Ruled(lambda _method, _path, _body: (200, told | lie))
    with serving(remote) as url, DarrmClient(url) as client, DarrmClient(table) as file:
        records = [_plain(asked, each.ask(asked)) for each in (client, file)]
        assert records[0] == records[1]
        assert {each: _given(told[each]) for each in records[0]} == records[0]
        with pytest.raises(InvalidInput):
            client.ask(kind.of(fields | wrong))
    with serving(liar) as url, DarrmClient(url) as client, pytest.raises(DarrmError) as caught:
        client.ask(asked)
    assert isinstance(caught.value, VerificationFailed) or lie.get("gamma")  # a γ that is not private is refuted
    refused = service.post(f"/v1/{path}", json=fields | wrong)
    assert (refused.status_code, refused.json()["field"]) == (422, next(iter(wrong)))


def _plain(asked: Any, answer: Any) -> dict[str, Any]:
    """Return an answer as plain data, without what an offline table does not say."""
    record = json.loads(json.dumps(asked.canonical().record_of(answer)))
    if "options" in record:  # a client keeps what was proved, and not why an option does not fit
        record = {each: record[each] for each in ("queries", "total", "verdict", "advice", "warnings")}
    return dict(_given(record))


def _given(value: Any) -> Any:
    """Return plain data without what is null."""
    if isinstance(value, dict):
        return {name: _given(one) for name, one in value.items() if one is not None}
    return value
