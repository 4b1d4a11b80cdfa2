"""The description of the API (OpenAPI): what FastAPI makes of the routes, completed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from api import problems
from api.schemas.fields import Answer, Asked


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the description of the API, made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes
        )
        app.openapi_schema = _with_keys(_with_examples(problems.document(made)))
    return app.openapi_schema


def _with_examples(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description with the examples as they are: FastAPI leaves out of them what is null."""
    described = schema["components"]["schemas"]
    for model in (*_below(Asked), *_below(Answer)):
        extra = model.model_config.get("json_schema_extra")
        if isinstance(extra, dict) and "examples" in described.get(model.__name__, ()):
            described[model.__name__]["examples"] = extra["examples"]
    return schema


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        yield child
        yield from _below(child)


def _with_keys(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description with what a server may ask of those who call it: a key, in one of two headers, or none."""
    schema["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, where the server asks for one."},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same, in another header."},
    }
    for path, operations in schema["paths"].items():
        if path.startswith("/v1/") or path == "/metrics":
            for operation in operations.values():
                operation["security"] = [{}, {"bearer": []}, {"key": []}]
    return schema
