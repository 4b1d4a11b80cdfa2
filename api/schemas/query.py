"""A model read from a query, as strictly as from a body, and described field by field."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


def from_query(model: type[Model]) -> Callable[[Request], Model]:
    """Return a dependency that reads ``model`` from the query, as strictly as a body.

    A list is written with commas, as in ``m=1,2,3``. A name given twice is refused: which of two privacy parameters was
    meant is not for us to guess.
    """

    def read(request: Request) -> Model:
        pairs = request.query_params.multi_items()
        refuse_repeated("query", pairs)
        grouped = [(name, text) for name, text in pairs if "_" in text and name in _numeric(model)]
        if grouped:  # which Python takes for digits in groups, and a person may have meant 0.1 by 0_1
            raise RequestValidationError(
                [{"type": "number", "loc": ("query", n), "input": text} for n, text in grouped]
            )
        try:
            return model.model_validate_strings(dict(pairs))
        except ValidationError as err:
            told = err.errors(include_url=False)
            raise RequestValidationError([{**error, "loc": ("query", *error["loc"])} for error in told]) from err

    return read


def refuse_repeated(where: str, pairs: Sequence[tuple[str, Any]]) -> None:
    """Refuse names that stand more than once in a query or in a body.

    Raises:
        RequestValidationError: naming them.
    """
    repeated = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    if repeated:
        raise RequestValidationError([{"type": "repeated", "loc": (where, name)} for name in repeated])


def query_parameters(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of ``model`` as query parameters: the same fields, one by one."""
    schema = model.model_json_schema()
    lists = _lists(model)
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", ()),
                "description": about["description"] + (" Separated by commas." if name in lists else ""),
                "schema": _in_a_query(about),
            }
            | ({"style": "form", "explode": False} if name in lists else {})
            for name, about in schema["properties"].items()
        ]
    }


@cache
def _lists(model: type[BaseModel]) -> frozenset[str]:
    """Return the fields of a model that hold a list."""
    properties = model.model_json_schema()["properties"]
    return frozenset(name for name, about in properties.items() if _in_a_query(about).get("type") == "array")


@cache
def _numeric(model: type[BaseModel]) -> frozenset[str]:
    """Return the fields of a model that hold a number or numbers."""
    return frozenset(
        name
        for name, about in model.model_json_schema()["properties"].items()
        if re.search(r"'type': '(integer|number)'", repr(about))
    )


def _in_a_query(about: dict[str, Any]) -> dict[str, Any]:
    """Return a field's schema without null, which a query has no way to say but by leaving the name out."""
    kept = {key: value for key, value in about.items() if key not in {"title", "description"}}
    if kept.get("default", 0) is None:
        del kept["default"]
    members = [member for member in kept.pop("anyOf", []) if member != {"type": "null"}]
    return {**kept, **members[0]} if len(members) == 1 else {**kept, "anyOf": members} if members else kept
