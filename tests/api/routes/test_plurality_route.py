"""`/v1/plurality`: the optimal table over HTTP, by query and by body, what is refused, and the client that proves it again."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient

from api.app import create_app
from api.tasks.answers import verify_stored
from api.tasks.task import verify_result
from darrm_opt import NotPrivate, Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.answers.decode import table_plan_of
from darrm_opt.answers.tables import verified_table, verify_table_answer
from darrm_opt.answers.verification import verify_options
from darrm_opt.errors import VerificationFailed
from darrm_opt.mechanisms import mechanism_from_record
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.planning import plan
from darrm_opt.plurality import PluralityObjective, parse_prior, solve_table
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.questions.plan import plan_record
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.record import canonical_json, digest
from darrm_opt.tables.record import TableSpec, problem_record, table_from_record
from solver_cache.model import Row

ASKED: dict[str, Any] = {"K": 5, "classes": 3, "target_epsilon": 1.0, "delta": 1e-3, "prior": "favoured(0.5,0.9)"}


client = client_fixture(patient())


def test_the_answer_is_that_of_the_core_and_its_rule_is_proved(client: TestClient) -> None:
    told = client.post("/v1/plurality", json=ASKED).json()
    expected = solve_table(Problem(5, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3), "favoured(0.5,0.9)")
    problem, rule, certificate = table_from_record(told["record"])
    assert (problem, rule, certificate) == (expected.problem, expected.table, expected.certificate)
    assert told["utility"] == expected.utility
    assert set(told["utilities"]) == {"permute_and_flip", "exponential", "laplace", "gnmax"}
    assert client.get("/v1/plurality", params=ASKED).json() == told | {"cached": True}
    assert verify_table_answer(told, problem) == told
    spec = TableSpec(problem, PluralityObjective(parse_prior("favoured(0.5,0.9)")))
    read = verified_table(told | {"cached": True}, spec)
    assert (read.id, read.cached, read.table, read.utility) == (told["id"], True, expected.table, expected.utility)
    assert read.utilities == told["utilities"]
    with pytest.raises(VerificationFailed, match="another question"):
        verified_table(told, TableSpec(problem, PluralityObjective(parse_prior("favoured(0.5,0.8)"))))
    for claim in ("utility", "upper_bound"):
        with pytest.raises(VerificationFailed, match="claims fit its table"):
            verified_table({**told, "record": {**told["record"], claim: 0.01}}, spec)


def test_many_releases_and_abstention(client: TestClient) -> None:
    told = client.post("/v1/plurality", json=ASKED | {"queries": 10, "abstention": True, "price": 1.0}).json()
    assert told["problem"]["target_epsilon"] < 0.4
    assert told["problem"]["abstention"]
    assert "confident_gnmax" in told["utilities"]


def test_too_much_work_is_refused_before_it() -> None:
    with TestClient(create_app(patient(max_work_seconds=30))) as client:
        told = client.post("/v1/plurality", json=ASKED | {"K": 60, "classes": 5})
    assert told.status_code == 422
    assert "expected solving time" in told.text


OPTIONS: dict[str, Any] = {
    "K": 3,
    **{name: ASKED[name] for name in ("classes", "prior")},
    "total_epsilon": 2.0,
    "total_delta": 1e-3,
    "queries": 1,
    "price": 1.0,
}


def test_every_option_for_answering_queries(client: TestClient) -> None:
    told = client.post("/v1/plurality/options", json=OPTIONS).json()
    goal = PluralityObjective(parse_prior("favoured(0.5,0.9)"), price=1.0)
    expected = plan(3, None, 1, Privacy(2.0, 1e-3), 1, goal, classes=3)
    assert told["options"] == plan_record(expected)["options"]
    assert told["prior"] == "favoured(0.5,0.9)"
    assert mechanism_from_record(told["mechanism"]) == expected.options[0].mechanism
    assert client.get("/v1/plurality/options", params=OPTIONS).json() == told
    problem = Problem(3, NOT_PRIVATE, Privacy(2.0, 1e-3), 1, classes=3)
    assert verify_options(told, problem, 1) == told
    read = table_plan_of(told, expected.question)
    assert read.options[0].mechanism == expected.options[0].mechanism
    assert (read.verdict, read.advice) == (expected.verdict, expected.advice)
    assert [(option.name, option.right, option.spent) for option in read.options] == [
        (option.name, option.right, option.spent) for option in expected.options if option.spent is not None
    ]
    with pytest.raises(VerificationFailed, match="20 answers of this mechanism"):
        verify_options(told, problem, 20)
    with pytest.raises(VerificationFailed, match="other voters or classes"):
        verify_options(told, Problem(3, NOT_PRIVATE, Privacy(2.0, 1e-3), 2, classes=3), 1)
    with pytest.raises(VerificationFailed, match="mechanism is invalid"):
        verify_options({**told, "mechanism": {"kind": "nothing"}}, problem, 1)
    # Of models that are said to show nothing the plain vote would fit; these voters are not private.
    with pytest.raises(VerificationFailed, match="private themselves"):
        verify_options({**told, "mechanism": PlainVote(3, 3, Privacy(0.0)).record()}, problem, 1)


TOTAL: dict[str, Any] = {"total_epsilon": 3.0, "total_delta": 1e-5}
SAMPLED: dict[str, Any] = TOTAL | {"K": 4, "classes": 3, "queries": 40, "records": 5452, "sample": 40}


def test_options_for_queries_with_a_fresh_sample_each(client: TestClient) -> None:
    told = client.post("/v1/plurality/options", json=SAMPLED | {"sampling": "without-replacement"}).json()
    sampling, total = Sampling(5452, 40, scheme="without-replacement"), Privacy(3.0, 1e-5)
    expected = plan(4, None, 40, total, 1, classes=3, sampling=sampling)
    assert told["options"] == plan_record(expected)["options"]
    assert told["sampling"] == told["mechanism"]["sampling"] == sampling.record()
    problem = Problem(4, NOT_PRIVATE, total, 1, classes=3)
    assert verify_options(told, problem, 40, sampling) == told
    for other in (None, Sampling(5452, 40)):
        with pytest.raises(VerificationFailed, match="another sampling"):
            verify_options(told, problem, 40, other)
    with pytest.raises(VerificationFailed, match="40 answers of this mechanism"):
        verify_options({**told, "sampling": None}, problem, 40)
    argument = {"problem": problem_record(problem), "queries": 40, **SAMPLED, "sampling": "without-replacement"}
    assert verify_result((partial(verify_stored, QUESTIONS["plurality/options"]), argument, told), lambda _: None) == ""


def test_more_voters_and_classes_than_tables_hold(client: TestClient) -> None:
    asked = {"K": 61, "classes": 12, "total_epsilon": 1.0, "total_delta": 1e-5, "prior": "beta(8,2)"}
    told = client.post("/v1/plurality/options", json=asked).json()
    assert told["samples"] == 2000
    assert {option["name"] for option in told["options"]} == {"permute_and_flip", "exponential", "laplace", "gnmax"}
    for option in told["options"]:
        record = told["mechanism"] if option is told["options"][0] else None
        assert option["epsilon"] <= 1.0
        assert record is None or verify_options(told, Problem(61, NOT_PRIVATE, Privacy(1.0, 1e-5), 1, classes=12), 1)


def test_a_dishonest_service_is_detected(client: TestClient) -> None:
    told = client.post("/v1/plurality", json=ASKED).json()
    problem = Problem(5, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3)
    with pytest.raises(VerificationFailed, match="another problem"):
        verify_table_answer(told, Problem(5, NOT_PRIVATE, Privacy(0.5, 1e-3), 1, classes=3))
    with pytest.raises(VerificationFailed, match="table is invalid"):
        verify_table_answer({**told, "record": {}}, problem)
    values = [0.0] * len(told["record"]["values"])
    values[-2] = 1.0
    values[-1] = 0.0
    with pytest.raises(NotPrivate):
        verify_table_answer({**told, "record": {**told["record"], "values": values}}, problem)


def test_a_rule_is_stored_listed_and_read_by_its_id(client: TestClient) -> None:
    asked = ASKED | {"K": 4, "prior": "dirichlet(2)"}
    told = client.post("/v1/plurality", json=asked).json()
    again = client.post("/v1/plurality", json=asked | {"prior": "dirichlet( 2.0 )"}).json()
    assert (told["cached"], again["cached"]) == (False, True)
    assert {**again, "cached": False, "prior": told["prior"]} == told
    id = told["id"]
    stored = client.get(f"/v1/plurality/{id}")
    assert stored.json() == {name: again[name] for name in stored.json()}
    assert set(told) - set(stored.json()) == {"utilities", "rates"}
    same = client.get(f"/v1/plurality/{id}", headers={"If-None-Match": stored.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    assert client.put(f"/v1/designs/{id}/tags/mine").json()["shape"] == "3 classes"
    assert [design["id"] for design in client.get("/v1/designs?tag=mine").json()["designs"]] == [id]
    assert client.get(f"/v1/designs/{id}").json()["design"]["record"] == told["record"]


def test_rules_and_gammas_are_not_confused(client: TestClient) -> None:
    rule = client.post("/v1/plurality", json=ASKED).json()["id"]
    gamma = client.post("/v1/gamma", json={"K": 3, "m": 1, "epsilon": 0.5}).json()["id"]
    assert client.get(f"/v1/gamma/{rule}").status_code == 404
    assert client.get(f"/v1/plurality/{gamma}").status_code == 404
    refused = client.get(f"/v1/designs/{gamma}/compare/{rule}")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "other")


def test_a_stored_rule_that_is_not_private_is_not_returned(client: TestClient) -> None:
    asked = ASKED | {"K": 3, "prior": "dirichlet(3)"}
    id = client.post("/v1/plurality", json=asked).json()["id"]
    store = client.app.state.service.store  # type: ignore[attr-defined]  # the application's own
    row = store.get(id)
    text = canonical_json(json.loads(row.record) | {"values": [1.0, 0.0, 1.0, 0.0, 0.0]})
    store.remove(row)
    store.put(Row(id, row.core, text, digest(text)))
    assert client.get(f"/v1/plurality/{id}").status_code == 404
    assert not client.post("/v1/plurality", json=asked).json()["cached"]
    assert client.get(f"/v1/plurality/{id}").status_code == 200  # the bad row was replaced


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (3, "groups = 3 is not valid"),
        ([3], "groups[0] = 3 is not valid: expected an object with K"),
        ([{"K": 2, "epsilon": 0.1}, {"K": 3, "profile": "0:2"}], "groups[1].profile = 2 is not valid"),
        ([{"K": 2, "epsilon": 0.1}, {"K": 3, "profile": "x(1)"}], "groups[1].profile = 'x(1)' is not valid"),
        ([{"K": 2, "epsilon": -1}], "groups[0].epsilon = -1.0 is not valid"),
    ],
)
def test_an_error_of_a_group_names_its_place(client: TestClient, groups: Any, said: str) -> None:
    for path, target in (("/v1/table", "target_epsilon"), ("/v1/plan", "total_epsilon")):
        told = client.post(path, json={"groups": groups, target: 0.3})
        assert told.status_code == 422, told.text
        assert said in told.json()["detail"], path
