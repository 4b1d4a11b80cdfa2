"""The description of the API: complete, true, and the same in the repository as in the app."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from pydantic import BaseModel
from support.patient import client_fixture, patient

from api.app import create_app
from api.errors.problem_details import MEDIA_TYPE
from api.responses import CSV, JSON, NPZ
from api.routes import ROUTERS
from api.routes.requests import from_query
from api.schemas.fields import SAMPLES_ARE_TAKEN, AnswerModel
from api.schemas.questions import DesignRequest, model_of_question
from api.settings import Settings
from darrm_opt.answers.statement import ACCOUNTS
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.questions.sampled import SampledQuestion
from tools import openapi

REQUESTS: dict[str, type[BaseModel]] = {
    "/v1/gamma": DesignRequest,
    "/v1/estimate": DesignRequest,
    **{
        f"/v1/{path}": model_of_question(question, query=True)
        for path, question in QUESTIONS.items()
        if question.by_query
    },
}
"""Routes with both a query and a body."""

TABLES = {"/v1/gamma", "/v1/gamma/{id}", "/v1/gamma/batch", "/v1/error-curve", "/v1/tradeoff", "/v1/profile"}
"""Routes with CSV and npz answers."""


@pytest.fixture(scope="module")
def text() -> str:
    return openapi.openapi_text()


@pytest.fixture(scope="module")
def schema(text: str) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(text)
    return described


client = client_fixture(patient())


def operations(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, about) for path, methods in schema["paths"].items() for method, about in methods.items()]


def test_the_description_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(Settings(cache_url="memory"))
    with TestClient(app) as client:
        client.get("/openapi.json")
        monkeypatch.setattr(app, "openapi", None)
        monkeypatch.setattr("gzip.compress", None)
        plain = client.get("/openapi.json", headers={"accept-encoding": "identity"})
        packed = client.get("/openapi.json", headers={"accept-encoding": "gzip"})
        assert (packed.headers["content-encoding"], packed.content) == ("gzip", plain.content)
        assert packed.headers["etag"] == f"W/{plain.headers['etag']}"
        for tag in (plain.headers["etag"], packed.headers["etag"]):
            known = client.get("/openapi.json", headers={"if-none-match": tag})
            assert (known.status_code, known.content) == (304, b"")


def test_the_description_is_deterministic(text: str) -> None:
    assert text == openapi.openapi_text()


def test_the_description_is_built_once_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    app, built = create_app(Settings(cache_url="memory", solve="off")), list[str]()
    with TestClient(app) as client, ThreadPoolExecutor(4) as pool:
        assert app.state.openapi is None
        assert client.post("/v1/estimate", json={"K": 11, "m": 3, "epsilon": 0.1}).status_code == 200
        wrong = client.delete("/v1/gamma")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
        assert app.state.openapi is None  # without the description
        build = app.openapi

        def counted() -> dict[str, Any]:
            built.append("once")
            return build()

        monkeypatch.setattr(app, "openapi", counted)
        answers = [*pool.map(lambda _: client.get("/openapi.json").content, range(4))]
    assert len({*answers}) == len(built) == 1


def test_every_route_is_described(schema: dict[str, Any]) -> None:
    paths = {
        route.path  # type: ignore[attr-defined]  # ours have it
        for router in ROUTERS
        for route in router.routes
        if getattr(route, "include_in_schema", False)
    }
    assert paths == set(schema["paths"])
    assert set(REQUESTS) | TABLES < paths
    for path, _, about in operations(schema):
        assert about["summary"], path
        assert about["description"], path
        assert about["tags"], path


def test_every_error_is_described_with_its_media_type(schema: dict[str, Any]) -> None:
    everywhere = {"400", "401", "408", "413", "421", "422", "429", "431", "500", "503"}
    for path, method, about in operations(schema):
        statuses = set(about["responses"])
        if path.startswith("/v1/"):
            assert everywhere <= statuses, (path, method)
            assert about["security"] == [{}, {"bearer": []}, {"key": []}]
        if path.startswith("/v1/") and not path.startswith("/v1/jobs"):
            assert "406" in statuses, (path, method)
        for status in statuses:
            answer = about["responses"][status]
            assert answer["description"], (path, method, status)
            if status >= "400":
                assert set(answer["content"]) == {MEDIA_TYPE}, (path, method, status)
                assert answer["content"][MEDIA_TYPE]["schema"]["$ref"].endswith("/ProblemDetails")
            elif status == "304":
                assert "content" not in answer
            if status in {"429", "503"} and path.startswith("/v1/"):
                assert "Retry-After" in answer["headers"]


def test_every_media_type_is_described(schema: dict[str, Any]) -> None:
    for path, _, about in operations(schema):
        if path.startswith("/v1/") and not path.startswith("/v1/jobs"):
            assert set(about["responses"]["200"]["content"]) == ({JSON, CSV, NPZ} if path in TABLES else {JSON}), path


@pytest.mark.parametrize("path", REQUESTS)
def test_a_query_has_the_fields_of_the_body(schema: dict[str, Any], path: str) -> None:
    model = REQUESTS[path]
    parameters = {
        about["name"]: about for about in schema["paths"][path]["get"]["parameters"] if about["in"] == "query"
    }
    assert set(parameters) == set(model.model_fields)
    needed = {name for name, field in model.model_fields.items() if field.is_required()}
    assert {name for name, about in parameters.items() if about["required"]} == needed
    assert '"null"' not in json.dumps(parameters)
    for name, about in parameters.items():
        assert about["description"], name
        if about["schema"].get("type") == "array":
            assert (about["style"], about["explode"]) == ("form", False)
            assert "maxItems" in about["schema"], name


def test_a_query_is_read_like_the_body(schema: dict[str, Any]) -> None:
    both = {path for path, methods in schema["paths"].items() if {"get", "post"} <= set(methods)}
    assert {path for path in both if not path.startswith("/v1/jobs")} == set(REQUESTS)
    app = create_app(Settings(cache_url="memory"))
    app.state.settings = Settings(cache_url="memory")
    for path, model in REQUESTS.items():
        for asked in examples(schema, model.__name__):
            if "groups" in asked:  # objects, which a query cannot contain
                continue
            given = {name: ",".join(map(str, one)) if isinstance(one, list) else one for name, one in asked.items()}
            query = urlencode({name: str(one).lower() if one is True else one for name, one in given.items()})
            scope = {"type": "http", "app": app, "path": path, "query_string": query.encode(), "headers": []}
            assert asyncio.run(from_query(model)(Request(scope))) == model.model_validate(asked), (path, asked)


def test_the_routes_that_take_samples_are_named() -> None:
    taking = {f"/v1/{path}" for path, question in QUESTIONS.items() if issubclass(question, SampledQuestion)}
    assert set(SAMPLES_ARE_TAKEN.rstrip(".").replace(",", " ").split()) & set(REQUESTS) == taking


def test_operations_that_take_an_id_are_linked(schema: dict[str, Any]) -> None:
    taking = {about["operationId"] for path, _, about in operations(schema) if "{id}" in path}
    linked = {
        link["operationId"]
        for _, _, about in operations(schema)
        for answer in about["responses"].values()
        for link in answer.get("links", {}).values()
    }
    assert linked == taking


def test_every_answer_describes_its_fields(schema: dict[str, Any]) -> None:
    nouns = {"problem", "certificate", "statistics", "over", "private", "status", "voters", "each", "nearest"}
    for name, about in schema["components"]["schemas"].items():
        if name.endswith(("Answer", "Details", "Point", "Item")):
            bare = {field for field, told in about["properties"].items() if "description" not in told}
            assert bare <= nouns, (name, bare)


# ------------------------------------------------------------------------------------------------------ examples

PASSING = {"cached", "statistics", "margin", "error_bound", "gap", "worst_corners", "version", "seconds", "stored"} | {
    "design_hash"
}
"""Fields that may differ between two answers to one question: rounding, ties, time and age."""


def same(value: Any, expected: Any) -> None:
    """Assert that two answers are equal except for `PASSING`."""
    if isinstance(expected, dict):
        assert set(value) == set(expected)
        for name in set(expected) - PASSING:
            if name == "account":  # accounts tie up to the last bit, which differs from Python 3.12 on
                assert {value[name], expected[name]} <= {*ACCOUNTS, "none", "post-processing", None}
            else:
                same(value[name], expected[name])
    elif isinstance(expected, list):
        assert len(value) == len(expected)
        for one, other in zip(value, expected, strict=True):
            same(one, other)
    elif isinstance(expected, float) and expected not in {0.0, 1.0}:
        assert value == pytest.approx(expected, rel=1e-4, abs=1e-6)
    elif isinstance(expected, float):
        assert value == pytest.approx(expected, abs=1e-6)
    else:
        assert value == expected


def examples(schema: dict[str, Any], name: str) -> list[dict[str, Any]]:
    described = schema["components"]["schemas"][name]
    assert "examples" in described, f"add {name} to api/schemas/examples.json"
    return list(described["examples"])


def example(schema: dict[str, Any], name: str) -> dict[str, Any]:
    [only] = examples(schema, name)
    next(model for model in AnswerModel.__subclasses__() if model.__name__ == name).model_validate(only)
    return dict(only)


SMALL = {"K": 5, "m": 2, "epsilon": 0.1, "Delta": 1e-5}


@pytest.mark.parametrize(
    ("path", "asked", "name"),
    [
        ("/v1/gamma", SMALL, "GammaAnswer"),
        ("/v1/error-curve", {**SMALL, "points": 2}, "ErrorCurveAnswer"),
        ("/v1/estimate", {"K": 35, "m": 3, "epsilon": 0.1, "Delta": 1e-5}, "EstimateAnswer"),
        (
            "/v1/tradeoff",
            {"K": 5, "epsilon": 0.1, "Delta": 1e-5, "ms": [1, 2], "baselines": ["randomized_response"]},
            "TradeoffAnswer",
        ),
        ("/v1/least", {"K": 5, "epsilon": 0.1, "Delta": 1e-5, "utility": 0.95}, "LeastAnswer"),
        ("/v1/profile", {**SMALL, "epsilons": [0.0, 0.1, 0.2]}, "ProfileAnswer"),
        ("/v1/compose", {**SMALL, "queries": 10, "fresh": True}, "ComposeAnswer"),
        (
            "/v1/plan",
            {"K": 3, "epsilon": "inf", "affected": 1, "queries": 2, "total_epsilon": 2.0, "total_delta": 1e-5},
            "PlanAnswer",
        ),
    ],
)
def test_the_examples_are_true(
    client: TestClient, schema: dict[str, Any], path: str, asked: dict[str, Any], name: str
) -> None:
    answer = client.post(path, json=asked)
    assert answer.status_code == 200
    try:
        same(answer.json(), example(schema, name))
    except AssertionError as err:
        err.add_note(f"If the answer is right, it is the new {name} of api/schemas/examples.json: POST {path} {asked}")
        raise


@pytest.mark.slow
def test_the_example_of_a_comparison_is_true(client: TestClient, schema: dict[str, Any]) -> None:
    [asked] = examples(schema, "CompareRequest")
    told, expected = client.post("/v1/compare", json=asked).json(), example(schema, "CompareAnswer")
    answered = [{row["name"]: row["value"] is None for row in each["rows"]} for each in (told, expected)]
    assert answered[0] == answered[1], "CompareAnswer of api/schemas/examples.json is the answer to CompareRequest"
    assert set(told) == set(expected)


def test_the_example_of_a_proof_is_true(client: TestClient, schema: dict[str, Any]) -> None:
    [asked] = examples(schema, "VerifyRequest")
    same(client.post("/v1/verify", json=asked).json(), example(schema, "VerifyAnswer"))


def test_the_examples_of_requests_are_answered(client: TestClient, schema: dict[str, Any]) -> None:
    for path, model in REQUESTS.items():
        if path not in {"/v1/compare", "/v1/plurality/options"}:
            for asked in examples(schema, model.__name__):
                assert client.post(path, json=asked).status_code == 200, (path, asked)
    [batch] = schema["components"]["schemas"]["BatchRequest"]["examples"]
    assert [item["status"] for item in client.post("/v1/gamma/batch", json=batch).json()["results"]] == [200, 200]


def test_the_example_of_a_problem_is_true(client: TestClient, schema: dict[str, Any]) -> None:
    [expected] = schema["components"]["schemas"]["ProblemDetails"]["examples"]
    told = client.get("/v1/gamma", params={**SMALL, "K": 0}).json()
    assert {name: told[name] for name in expected} == expected


def test_the_result_of_a_job_has_a_schema_whatever_its_kind(schema: dict[str, Any]) -> None:
    def answers(path: str, method: str) -> list[dict[str, Any]]:
        answer = schema["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
        return list(answer.get("anyOf", [answer]))

    described = answers("/v1/jobs/{id}/result", "get")
    assert [kind for kind in QUESTIONS if not all(one in described for one in answers(f"/v1/{kind}", "post"))] == []
