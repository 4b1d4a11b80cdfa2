"""Declared fields: each once, with the same range in the declaration, in OpenAPI and in refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel
from support.patient import patient

from api.app import create_app
from api.schemas.fields import DECLARED, LIMITS, RequestModel
from api.schemas.questions import model_of_answer
from api.settings import Settings
from darrm_opt import fields
from tools import openapi

KEYWORDS = {"minimum": "least", "exclusiveMinimum": "above", "maximum": "most", "exclusiveMaximum": "below"}
"""Names of limits in OpenAPI and in declarations."""

SCHEMA: dict[str, Any] = json.loads(openapi.openapi_text())

SCHEMAS = SCHEMA["components"]["schemas"]


def requests(model: type[RequestModel] = RequestModel) -> Iterator[type[RequestModel]]:
    for inner in model.__subclasses__():
        yield inner
        yield from requests(inner)


def bodies() -> Iterator[tuple[str, str]]:
    """Yield each path with a body, and the schema of the body; a plan has two."""
    for path, methods in SCHEMA["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        about = content.get("schema", {})
        for each in about.get("oneOf", about.get("anyOf", [about])):
            if "$ref" in each:
                yield path, each["$ref"].rpartition("/")[2]


def test_few_schemas_are_written_by_hand() -> None:
    """All others are generated from the declarations of questions and answers."""

    def models(base: type[BaseModel]) -> Iterator[str]:
        for model in base.__subclasses__():
            if model.__module__.startswith("api.") and model is not Settings:
                yield from () if model.__module__ == model_of_answer.__module__ else [model.__name__]
            yield from models(model)

    assert len({*models(BaseModel)}) <= 24, {*models(BaseModel)}


def ranges(about: dict[str, Any]) -> dict[str, float]:
    """Return the limits of a property from whichever of its types has them."""
    found = {KEYWORDS[name]: float(about[name]) for name in KEYWORDS.keys() & about.keys()}
    for inner in [*about.get("anyOf", ()), *([about["items"]] if isinstance(about.get("items"), dict) else [])]:
        found |= ranges(inner)
    return found


def beyond(limit: str, value: float) -> float:
    """Return a number just out of a range."""
    if limit in ("above", "below"):
        return value
    step = 1 if value.is_integer() else 0.1
    return value - step if limit == "least" else value + step


CASES = [
    (path, name, field, limit, value)
    for path, name in bodies()
    for field, about in SCHEMAS[name]["properties"].items()
    for limit, value in ranges(about).items()
]


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(patient())) as opened:
        yield opened


def test_every_field_is_declared_once() -> None:
    names = [field.name for field in fields._DECLARED]
    assert len(names) == len(set(names)) == len(fields.FIELDS)
    for model in requests():
        assert set(model.model_fields) <= set(DECLARED), model
        for name, info in model.model_fields.items():
            assert f"[{DECLARED[name].unit}]" in str(info.description) or not DECLARED[name].unit, (model, name)


def test_a_request_narrows_a_range_and_never_widens_it() -> None:
    told: dict[tuple[str, str], list[float]] = {(field, limit): [] for _, _, field, limit, _ in CASES}
    for _, _, field, limit, value in CASES:
        told[field, limit].append(value)
    for (field, limit), values in told.items():
        declared = DECLARED[field].limits.get(limit)
        if declared is not None:
            assert all(value >= declared if limit in ("least", "above") else value <= declared for value in values)
    assert {field for field, _ in told} >= {name for name, field in fields.FIELDS.items() if field.limits} - {
        "weight"  # of a group, which is in a list
    }


@pytest.mark.parametrize("path", sorted({path for path, *_ in CASES}))
def test_every_limit_of_the_description_is_enforced_by_its_route(client: TestClient, path: str) -> None:
    for _, name, field, limit, value in (case for case in CASES if case[0] == path):
        wrong: Any = beyond(limit, value)
        about = SCHEMAS[name]["properties"][field]
        kinds = [about, *about.get("anyOf", ())]
        if DECLARED[field].kind == "whole":
            wrong = int(wrong)
        elif any(kind.get("type") == "array" for kind in kinds):
            wrong = [wrong] * 2
        asked = {**SCHEMAS[name]["examples"][0], field: wrong}
        answer = client.post(path, json=asked)
        assert answer.status_code == 422, (field, limit)
        complaint = {error["field"]: error["detail"] for error in answer.json()["errors"]}[field]
        accepted = DECLARED[field].of(**{limit: value}).accepted
        assert complaint.startswith(f"{field} = ")
        assert f" is not valid: expected {accepted}." in complaint
        listed = {each["name"] for each in SCHEMA["paths"][path].get("get", {}).get("parameters", ())}
        if set(asked) <= listed:
            query = {key: ",".join(map(str, one)) if isinstance(one, list) else one for key, one in asked.items()}
            read = client.get(path, params=query).json()
            assert {error["field"]: error["detail"] for error in read["errors"]}[field] == complaint


def test_the_names_of_limits_are_those_of_a_declaration() -> None:
    assert set(LIMITS.values()) == set(KEYWORDS.values())
