"""Documents of the service: the page at / with its files, a map for language models, and the OpenAPI description.

A browser may load the page's own files and nothing else. The description is FastAPI's, completed with examples, keys
and links. Each is encoded once, and revalidated by its entity tag.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from api.middleware.response_bodies import REVALIDATE, EncodedAnswer, compress, conditional_response, etag_matches
from api.responses import JSON
from api.routes.requests import StrictRoute
from api.schemas.fields import examples_of
from api.schemas.forms import page_of
from darrm_opt.mechanisms import calibrated_names, mechanism_class

router = APIRouter(include_in_schema=False)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page: nothing inline, nothing evaluated, nothing from elsewhere."""

MECHANISMS = "mechanisms.js"
"""The page's file that is made here: the parameter of each mechanism, by name, as the registry has them."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


# plain functions would be called in threads
@router.api_route("/", methods=["GET", "HEAD"])
async def get_page(request: Request) -> Response:
    """Return the page."""
    return _file_response(_file("index.html"), request)


@router.api_route("/llms.txt", methods=["GET", "HEAD"])
async def get_map(request: Request) -> Response:
    """Return the map of the API and the documentation for language models."""
    return _file_response(_file("llms.txt"), request)


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def get_page_file(name: str, request: Request) -> Response:
    """Return one of the page's own files."""
    if name not in _names():
        raise HTTPException(404)
    return _file_response(_file(name), request)


def _file_response(file: EncodedAnswer, request: Request) -> Response:
    headers = {
        "ETag": file.etag,
        "Cache-Control": REVALIDATE,
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    if etag_matches(request.headers.getlist("if-none-match"), file.etag):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.form)


@cache
def _names() -> frozenset[str]:
    """Return the names of the page's own files except the page itself, which has its own address."""
    names = {file.name for file in files("api").joinpath("page").iterdir() if Path(file.name).suffix in TYPES}
    return frozenset(names - {"index.html"} | {MECHANISMS})


@cache
def _file(name: str) -> EncodedAnswer:
    if name == MECHANISMS:
        parameters = {mechanism: mechanism_class(mechanism).parameter for mechanism in calibrated_names()}
        content = f"export const MECHANISMS = {json.dumps(parameters)};\n".encode()
    elif name == "index.html":
        content = page_of(files("api").joinpath("page", name).read_text(encoding="utf-8")).encode()
    else:
        content = files("api").joinpath("page", name).read_bytes()
    return EncodedAnswer.of(content, TYPES[Path(name).suffix])


@router.get("/openapi.json")
async def get_description(request: Request) -> Response:
    """Return the description of the API: bytes that are encoded when they are first asked for."""
    if request.app.state.openapi is None:
        await asyncio.to_thread(_encode_openapi, request.app)
    return conditional_response(request.app.state.openapi, request, REVALIDATE)


def _encode_openapi(app: FastAPI) -> None:
    """Build and encode the description, plain and compressed, once: that takes half a second."""
    with _BUILDING:
        if app.state.openapi is None:
            content = json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
            encoded = EncodedAnswer.of(content, JSON)
            tag = encoded.etag
            app.state.response_cache.put(EncodedAnswer(compress(content), "gzip", tag), "gzip", tag)
            app.state.openapi = encoded


_BUILDING = threading.Lock()


def openapi_schema(app: FastAPI) -> dict[str, Any]:
    """Return the description of the API, computed once for an application."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            description=app.description,
            routes=[route.documented() for route in app.state.routes if isinstance(route, StrictRoute)],
            servers=app.servers,
        )
        app.openapi_schema = _with_enums(_with_links(_with_keys(_with_examples(schema))))
    return app.openapi_schema


def _with_enums(schema: Any) -> Any:
    """Return the description with each constant as an enumeration of one, which more generators of clients read."""
    if isinstance(schema, dict):
        # A field may be called "const", and then holds a schema.
        constant = schema.get("const", {})
        changed = {} if isinstance(constant, dict) else {"enum": [constant]}
        return changed | {name: _with_enums(item) for name, item in schema.items() if not (changed and name == "const")}
    return [*map(_with_enums, schema)] if isinstance(schema, list) else schema


def _with_examples(schema: dict[str, Any]) -> dict[str, Any]:
    models = schema["components"]["schemas"]
    for model in _subclasses(BaseModel):
        if model.__name__ in models and (examples := examples_of(model)):
            models[model.__name__]["examples"] = examples
    return schema


def _subclasses(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        yield child
        yield from _subclasses(child)


def _with_keys(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description with its security schemes: a key, in one of two headers, or none."""
    schema["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, if the server requires one."},
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
