"""OpenAPI description: FastAPI's own, completed with examples, keys and links, and encoded once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from api.middleware.response_bodies import REVALIDATE, EncodedAnswer, compress, conditional_response
from api.responses import JSON
from api.schemas.fields import AnswerModel, RequestModel

router = APIRouter(include_in_schema=False)

_schemas: dict[str, dict[str, Any]] = {}
"""Descriptions that were computed, by the prefix of their paths: all else is the same for every application."""


@router.get("/openapi.json")
async def get_description(request: Request) -> Response:
    """Return the description of the API: bytes that were encoded when the application started."""
    return conditional_response(request.app.state.openapi, request, REVALIDATE)


def prepare_openapi(app: FastAPI) -> None:
    """Encode the description of the API, plain and compressed: that takes tens of milliseconds."""
    content = json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
    app.state.openapi = EncodedAnswer.of(content, JSON)
    tag = app.state.openapi.etag
    app.state.response_cache.put(EncodedAnswer(compress(content), "gzip", tag), "gzip", tag)


def openapi_schema(app: FastAPI) -> dict[str, Any]:
    """Return the description of the API, computed once in a process."""
    prefix = app.servers[0]["url"] if app.servers else ""
    if prefix not in _schemas:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            description=app.description,
            routes=app.routes,
            servers=app.servers,
        )
        _schemas[prefix] = _with_links(_with_keys(_with_examples(schema)))
    app.openapi_schema = _schemas[prefix]
    return _schemas[prefix]


def _with_examples(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description with complete examples: FastAPI drops null values."""
    models = schema["components"]["schemas"]
    for model in (*_subclasses(RequestModel), *_subclasses(AnswerModel)):
        extra = model.model_config.get("json_schema_extra")
        if isinstance(extra, dict) and "examples" in models.get(model.__name__, ()):
            models[model.__name__]["examples"] = extra["examples"]
    return schema


def _subclasses(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        yield child
        yield from _subclasses(child)


def _with_keys(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description with its security schemes: a key, in one of two headers, or none."""
    schema["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, where the server asks for one."},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same, in another header."},
    }
    for path, operations in schema["paths"].items():
        if path.startswith("/v1/") or path == "/metrics":
            for operation in operations.values():
                operation["security"] = [{}, {"bearer": []}, {"key": []}]
    return schema


_FROM_JOBS = (("submit_job", "200"), ("submit_job", "202"), ("get_gamma", "202"), ("post_gamma", "202"))

_LINKS = {
    "get_gamma_by_id": (("get_gamma", "200"), ("post_gamma", "200")),
    "get_plurality_by_id": (("get_plurality", "200"), ("post_plurality", "200")),
    "get_table_by_id": (("post_table", "200"),),
    **dict.fromkeys(
        ("get_design", "compare_designs", "tag_design", "untag_design"), (("get_gamma", "200"), ("post_gamma", "200"))
    ),
    "get_job": _FROM_JOBS,
    "get_job_result": _FROM_JOBS,
    "get_job_events": _FROM_JOBS,
    "cancel_job": _FROM_JOBS,
    "stop_job": _FROM_JOBS,
    "add_webhook": _FROM_JOBS,
    "list_webhooks": _FROM_JOBS,
    "remove_webhook": _FROM_JOBS,
}
"""Operations that take the id of an answer, each with the operations and statuses that return it."""


def _with_links(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description with links from an answer's id to the operations that take one."""
    operations = {
        operation["operationId"]: operation for methods in schema["paths"].values() for operation in methods.values()
    }
    for target, sources in _LINKS.items():
        for source, status in sources:
            links = operations[source]["responses"][status].setdefault("links", {})
            links[target] = {"operationId": target, "parameters": {"id": "$response.body#/id"}}
    return schema
