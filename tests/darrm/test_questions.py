"""All questions by all interfaces: asked, refused, verified and read by command, REST, client and table file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from support.darrm_runner import run, run_json
from support.live import Ruled, serving
from support.patient import patient

from api.app import create_app
from darrm_client import AnswerNotFound, DarrmClient
from darrm_opt import Problem, solve
from darrm_opt.errors import DarrmError, InvalidInput, NotPrivate, VerificationFailed
from darrm_opt.questions.design import Design
from darrm_opt.questions.question import plain_spelling
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.tables.solver import solve_table
from solver_cache.model import row_of
from solver_cache.table_files import write_table

GROUPS = [{"K": 2, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}]

VOTERS: dict[str, Any] = {"K": 3, "m": 1, "epsilon": 0.5}

TOTAL: dict[str, Any] = {"total_epsilon": 2.0, "total_delta": 1e-5}

SAMPLED = {"records": 5452, "sample": 40}

PROFILE = [[0.0, 0.02], [0.1, 0.004], [0.3, 0.0]]

NOTHING = [0.0, 0.0, 0.0, 0.0]  # γ = 0, private for any voters and useless

ASKED: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # path, fields; a change that is refused; a false change of the answer
    "verify": ("verify", {**VOTERS, "gamma": NOTHING}, {"gamma": [0.1, 0.2, 0.3]}, {"private": False}),
    "curve": (
        "error-curve",
        {**VOTERS, "points": 5},
        {"objective": "tau"},
        {"curves": {"optimal": {"gamma": [1.0] * 4}}},
    ),
    "tradeoff": ("tradeoff", {"K": 3, "epsilon": 0.5, "ms": [1.0]}, {"m_from": 1.0}, {"points": []}),
    "tradeoff of targets": (
        "tradeoff",
        {"K": 3, "epsilon": 0.5, "target_epsilons": [0.5], "baselines": ["subsampling"]},
        {"ms": [1.0]},
        {"utility": [1.0]},
    ),
    "least": ("least", {"K": 3, "epsilon": 0.5, "utility": 0.9}, {"m": 2.0}, {"value": 9.9}),
    "profile": ("profile", {**VOTERS, "epsilons": [0.0, 0.3]}, {"objective": "histogram(1,2)"}, {"gamma": [1.0] * 4}),
    "profile γ": ("profile", {**VOTERS, "gamma": NOTHING, "points": 3}, {"gamma": [2.0]}, {"gamma": [1.0] * 4}),
    "plan": ("plan", {**TOTAL, "K": 3, "epsilon": "inf", "affected": 1, "queries": 2}, {"price": -1.0}, {"queries": 3}),
    "plan of classes": (
        "plan",
        {**TOTAL, "K": 4, "epsilon": "inf", "affected": 1, "classes": 3},
        {"n": 9, "subsample_size": 3},
        {"mechanism": {"kind": "nothing"}},
    ),
    "plan of groups": ("plan", {"groups": GROUPS, "total_epsilon": 0.6}, {"K": 4}, {"groups": GROUPS[:1]}),
    "plan of groups, a price": (
        "plan",
        {"groups": GROUPS, "total_epsilon": 0.7, "total_delta": 1e-3, "queries": 2, "fresh": True, "price": 0.5},
        {"records": 10},
        {"groups": GROUPS[:1]},
    ),
    "plan of groups whose votes are fixed": (
        "plan",
        {"groups": GROUPS, "total_epsilon": 0.4, "total_delta": 1e-5, "queries": 3, "affected": 1},
        {"prior": "rectangular"},
        {"groups": GROUPS[:1]},
    ),
    "plan of groups without noise": (
        "plan",
        {"groups": GROUPS, "total_epsilon": 3.0},
        {"classes": 1},
        {"groups": GROUPS[:1]},
    ),
    "plan of samples": (
        "plan",
        {
            **TOTAL,
            "K": 4,
            "epsilon": "inf",
            "queries": 2,
            "prior": "shared(2,5)",
            **SAMPLED,
            "neighbours": "replace-one",
        },
        {"sample": 6000},
        {"mechanism": {"kind": "nothing"}},
    ),
    "plan of voters that draw": (
        "plan",
        {**TOTAL, "K": 5, "epsilon": 1.0, "queries": 2, "fresh": True, **SAMPLED, "sampling": "each-voter"},
        {"sampling": "poisson"},
        {"queries": 3},
    ),
    "options": (
        "plurality/options",
        {**TOTAL, "K": 4, "classes": 3, "price": 0.5},
        {"least_accuracy": 0.2},
        {"mechanism": {"kind": "nothing"}},
    ),
    "plurality": (
        "plurality",
        {"K": 3, "classes": 3, "target_epsilon": 1.0, "price": 0.5},
        {"prior": "nothing"},
        {"record": {"kind": "nothing"}},
    ),
    "table": ("table", {"groups": GROUPS, "target_epsilon": 0.6}, {"price": -1.0}, {"table": []}),
    "cost": (
        "cost",
        {"mechanism": "gnmax", "K": 11, "queries": 20, "parameter": 20.0, "delta": 1e-5},
        {"total_delta": 1e-5},
        {"epsilon": 0.1},
    ),
    "cost of a total": (
        "cost",
        {"mechanism": "laplace", "K": 25, "classes": 10, **TOTAL},
        {"delta": 1e-5},
        {"parameter": "many"},
    ),
    "cost of rounds of samples": (
        "cost",
        {
            "mechanism": "laplace",
            "K": 4,
            "queries": 8,
            **TOTAL,
            "records": 500,
            "sampling": "random-allocation",
            "among": 8,
        },
        {"sample": 4},
        {"epsilon": 0.1},
    ),
    "least target of a profile": (
        "least",
        {"K": 5, "profile": PROFILE, "parameter": "target_epsilon", "utility": 0.95, "delta": 0.0, "digits": 2},
        {"parameter": "m"},
        {"value": 9.9},
    ),
    "comparison of voters that draw": (
        "compare",
        {**TOTAL, "K": 5, "profile": PROFILE, "queries": 3, "fresh": True, **SAMPLED, "sampling": "each-voter"},
        {"sampling": "poisson"},
        {"rows": [{"name": "optimal"}]},
    ),
    "calibrate": (
        "calibrate",
        {"mechanism": "laplace", "K": 25, "classes": 10, **TOTAL},
        {"mechanism": "abacus"},
        {"mechanism": "gnmax"},
    ),
    "compose": ("compose", {"epsilon": 0.3, "delta": 1e-5, "queries": 10}, {"fresh": True}, {"accounts": {}}),
    "compose γ": (
        "compose",
        {**VOTERS, "queries": 4, "fresh": True, "total_delta": 1e-4},
        {"epsilon": -1.0},
        {"gamma": [1.0] * 4},
    ),
}


COMMANDS = {"plan": ("plan",), "compare": ("plan", "--compare"), "cost": ("cost",), "least": ("least",)}
"""Verbs whose options are the fields, and that print the answer of the service."""

TABLES: list[Any] = [QUESTIONS[path].of(ASKED[path][1]) for path in ("plurality", "table")]


@pytest.fixture(scope="module")
def service() -> Iterator[TestClient]:
    with TestClient(create_app(patient())) as client:
        yield client


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = Path(tmp_path_factory.mktemp("questions")) / "table.jsonl"
    stored = [row_of(solve(Problem.from_allowance(**VOTERS)))]
    stored += [row_of(solve_table(asked.spec.problem, asked.spec.objective)) for asked in TABLES]
    write_table(path, stored)
    return path.as_uri()


def test_every_question_is_asked() -> None:
    assert {path for path, *_ in ASKED.values()} == set(QUESTIONS), "add a row to ASKED"


@pytest.mark.parametrize("name", ASKED)
def test_a_question_has_the_same_answer_by_all_interfaces(service: TestClient, table: str, name: str) -> None:
    path, fields, wrong, lie = ASKED[name]
    kind = QUESTIONS[path]
    asked = kind.of(fields)
    assert kind.of(json.loads(json.dumps(asked.record()))) == asked
    answer = service.post(f"/v1/{path}", json=fields)
    assert answer.status_code == 200, answer.text
    told = _known(answer.json())
    if not {"groups", "profile"} & fields.keys() and kind.by_query:
        query = {each: ",".join(map(str, one)) if isinstance(one, list) else one for each, one in fields.items()}
        assert _known(service.get(f"/v1/{path}", params=query).json()) == told
    if path in COMMANDS and not (path == "cost" and "parameter" in fields):  # the option has the name of the parameter
        printed = _known(run_json(*_words(path, fields)))
        assert printed == {each: told[each] for each in printed}
    remote = Ruled(lambda _method, path, body: (200, service.post(path, json=body).json()))
    liar = Ruled(lambda _method, _path, _body: (200, told | lie))
    with serving(remote) as url, DarrmClient(url) as client, DarrmClient(table) as file:
        records = [_plain(asked, client.ask(asked))]
        if kind.solves and not asked.designs():
            with pytest.raises(AnswerNotFound):
                file.ask(asked)
        else:
            assert _plain(asked, file.ask(asked)) == records[0]
        assert {each: _given(told[each]) for each in records[0]} == records[0]
        with pytest.raises(InvalidInput):
            client.ask(kind.of(fields | wrong))
    with serving(liar) as url, DarrmClient(url) as client, pytest.raises(DarrmError) as caught:
        client.ask(asked)
    assert isinstance(caught.value, VerificationFailed | NotPrivate)
    refused = service.post(f"/v1/{path}", json=fields | wrong)
    assert (refused.status_code, refused.json()["field"]) == (422, next(iter(wrong)))


@pytest.mark.parametrize("name", [name for name in ASKED if QUESTIONS[ASKED[name][0]].table])
def test_an_answer_with_columns_is_exported_as_a_table(service: TestClient, name: str) -> None:
    path, fields, _, _ = ASKED[name]
    asked = QUESTIONS[path].of(fields)
    columns = asked.columns(service.post(f"/v1/{path}", json=fields).json())
    lines = service.post(f"/v1/{path}", json=fields, headers={"accept": "text/csv"}).text.splitlines()
    assert [*csv.reader(lines)] == [
        [*columns],
        *(["" if each is None else str(each) for each in row] for row in zip(*columns.values(), strict=True)),
    ]
    content = service.post(f"/v1/{path}", json=fields, headers={"accept": "application/x-npz"}).content
    with np.load(io.BytesIO(content)) as arrays:
        assert set(arrays.files) == {"record", *columns}


@pytest.mark.parametrize("name", ["curve", "tradeoff", "least", "profile"])
def test_designs_are_stored_and_required_if_solving_is_off(service: TestClient, name: str) -> None:
    path, fields, _, _ = ASKED[name]
    asked, told = QUESTIONS[path].of(fields), service.post(f"/v1/{path}", json=fields).json()
    stored = [part["id"] for _, part in asked.parts(told)] or [told["id"]]
    assert [service.get(f"/v1/gamma/{id}").status_code for id in stored] == [200] * len(stored)
    assert all(part["cached"] for _, part in asked.parts(told)) or not asked.designs()
    with TestClient(create_app(patient(solve="off"))) as closed:
        refused = closed.post(f"/v1/{path}", json=fields)
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (404, "not-stored")


def _words(path: str, fields: dict[str, Any]) -> list[str]:
    """Return the arguments of a command for the same question."""
    groups = [f"--group=K={each['K']},epsilon={each['epsilon']}" for each in fields.get("groups", ())]
    given = {name: value for name, value in fields.items() if name not in ("groups", "mechanism")}
    more = [f"{name}={given.pop(name)}" for name in ("among", "neighbours") if name in given]
    if more or "sampling" in given:
        given["sampling"] = ",".join([given.get("sampling", "poisson"), *more])
    if "profile" in given:
        given["profile"] = ",".join(f"{epsilon}:{delta}" for epsilon, delta in given["profile"])
    words = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in given.items()]
    return [*COMMANDS[path], *([fields["mechanism"]] if "mechanism" in fields else []), *groups, *words]


def _plain(asked: Any, answer: Any) -> dict[str, Any]:
    """Return an answer as plain data, without fields that a table file lacks."""
    record = _known(asked.canonical().record_of(answer))
    for name in ("utilities", "rates", "seconds"):  # of tables: baselines, and fields of this answer only
        record.pop(name, None)
    if "options" in record:  # a client keeps verified fields, without the reasons of unfit options
        record = {each: record[each] for each in ("queries", "total", "verdict", "advice", "warnings")}
    return dict(_given(record))


def _given(value: Any) -> Any:
    """Return plain data without null values."""
    if isinstance(value, dict):
        return {name: _given(one) for name, one in value.items() if one is not None}
    return [*map(_given, value)] if isinstance(value, list) else value


def _known(value: Any) -> Any:
    """Return plain data with all "cached" set to true."""
    return json.loads(json.dumps(value).replace('"cached": false', '"cached": true'))


def test_a_field_of_many_questions_is_declared_once() -> None:
    """And again only if a question narrows or requires it: with another description, range or default."""
    asked: list[type] = [*QUESTIONS.values(), Design]
    classes = {base for question in asked for base in question.__mro__}
    declared = {
        name: [each.__name__ for each in classes if name in vars(each).get("__annotations__", {})]
        for name in ("affected", "queries", "total_epsilon", "Delta", "profile", "ties", "price", "records", "fresh")
    }
    assert {name: len(found) for name, found in declared.items()} == {
        "affected": 2,  # default all voters, or one for voters that are not private
        "queries": 2,  # few for a table
        "total_epsilon": 2,  # optional for cost
        "Delta": 1,
        "profile": 1,
        "ties": 1,
        "price": 1,
        "records": 1,
        "fresh": 2,  # within a total, or composed
    }, "inherit it, as from PublicQuestion or QueriesQuestion of questions/voters.py; or explain the declaration here"


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("plan", {"K": 5, "epsilon": 0.5, **TOTAL}),
        ("plan", {"groups": GROUPS, **TOTAL}),
        ("compare", {"K": 4, "epsilon": 0.5, **TOTAL}),
        ("table", {"groups": GROUPS, "target_epsilon": 1.0}),
        ("tradeoff", VOTERS),
        ("compose", VOTERS),
    ],
)
def test_all_affected_voters_given_or_omitted_are_the_same_question(path: str, asked: dict[str, Any]) -> None:
    question = QUESTIONS[path]
    everyone = question.of(asked).voters
    assert question.of({**asked, "affected": everyone}).argument() == question.of(asked).argument()
    assert question.of({**asked, "affected": 1}).argument() != question.of(asked).argument()


@pytest.mark.parametrize(
    ("path", "field", "spellings"),
    [
        ("plan", "prior", ("dirichlet(2)", " dirichlet( 2.0 )", "dirichlet(2e0)")),
        ("plan", "prior", ("histogram(2,1:3;3,0:1)", "histogram( 2, 1 : 3; 3,0:1 )")),
        ("error-curve", "objective", ("shared(0.5,2) agreement", "shared( 5e-1 ,2.0)  agreement")),
        ("error-curve", "objective", ("uniform(lower=0.5)", "uniform( lower = 0.50 )")),
    ],
)
def test_spellings_of_a_prior_are_the_same_question(path: str, field: str, spellings: tuple[str, ...]) -> None:
    asked: dict[str, Any] = {**TOTAL, "K": 3, "affected": 1, "epsilon": "inf", "target_epsilon": 1.0}
    questions = [QUESTIONS[path].of({**asked, field: text}) for text in spellings]
    assert len({json.dumps(each.argument()) for each in questions}) == 1
    assert questions[0].argument()[field] == spellings[0]
    for each in questions:
        each.check()
        QUESTIONS[path].of(each.argument()).check()


def test_large_counts_are_not_rounded_to_the_same_question() -> None:
    counts = [str(2**53), str(2**53 + 1), "9" * 5000]
    assert [plain_spelling(f"histogram(0{count}, 1)") for count in counts] == [
        f"histogram({each},1)" for each in counts
    ]


def test_a_plan_without_a_fitting_option_is_an_answer(service: TestClient) -> None:
    asked = {"K": 4, "epsilon": "inf", "affected": 1, "classes": 3, "total_epsilon": 1.0, "time_limit": 1e-9}
    told, question = service.post("/v1/plan", json=asked).json(), QUESTIONS["plan"].of(asked)
    assert (told["verdict"], told["options"], told["mechanism"], told["design_hash"]) == ("none", [], None, None)
    assert (question.verify(told).verdict, question.verify(told).options) == ("none", ())
    with pytest.raises(VerificationFailed):
        question.verify(told | {"verdict": "noisy majority"})
    words = [f"--{name.replace('_', '-')}={value}" for name, value in asked.items()]
    assert run_json("plan", *words) == {name: told[name] for name in told if name not in ("groups", "sampling")}
    assert "No option fits" in run("plan", *words).stdout


def test_a_number_of_affected_voters_without_default_is_kept() -> None:
    asked = {"K": 1, "mechanism": "laplace", "parameter": 1.0, "delta": 0.0}
    assert QUESTIONS["cost"].of(asked).argument()["affected"] == 1
    sampled = {"K": 5, "epsilon": "inf", "records": 100, "sample": 5, "affected": 5, **TOTAL}
    assert QUESTIONS["plan"].of(sampled).argument()["affected"] == 5
