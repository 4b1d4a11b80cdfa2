"""Requests: models read strictly from a query or JSON body, the service as a dependency, work that can be cancelled.

A body is standard JSON in UTF-8, each name once. What is validated item by item takes some ten microseconds for each,
on the event loop, and more for each that is wrong: so the entries of a body of a megabyte are counted before it is
read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, TypeVar, get_args

from fastapi import APIRouter, Depends, Request, Response
from fastapi.datastructures import DefaultPlaceholder
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from api.errors.problem_details import ClientDisconnected, NotCached
from api.observability import access_log
from api.service.design_service import DesignService
from api.settings import Settings
from darrm_opt.decimals import number_in, out_of_range
from darrm_opt.fields import MAX_POINTS
from solver_cache.solve import load_record

KEY_PATTERN = re.compile(r"[0-9a-f]{64}")  # form of an id
MAX_FIELDS = 64  # fields of one object or query; no request has as many
BATCH_PATH = "/v1/gamma/batch"  # the path whose bodies hold many requests
FIELDS_PER_PROBLEM = 20  # fields of each problem of a batch, the largest of which has some ten
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # one that is not closed too, or each quote in it is tried


class StrictRoute(APIRoute):
    """Route whose body is standard JSON, without a content coding; it is described when that is first asked for.

    Models of answers and errors, and those of queries, are for the description alone: FastAPI would build validators
    for each of them, twice, which is half of a server's start. A query's model stands among the ``parameters`` of
    ``openapi_extra``.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        self._settings = settings
        described = {"responses": None, "openapi_extra": None}
        # one that the annotation does not give is of a route that returns a response itself
        if not isinstance(settings.get("response_model"), DefaultPlaceholder):
            described["response_model"] = None
        super().__init__(path, endpoint, **{**settings, **described})

    def documented(self) -> APIRoute:
        """Return the route with all that its description says."""
        extra = dict(self._settings["openapi_extra"] or {})
        if "parameters" in extra:
            extra["parameters"] = [*itertools.chain.from_iterable(map(_parameters, extra["parameters"]))]
        settings = {**self._settings, "openapi_extra": extra, "generate_unique_id_function": lambda route: route.name}
        return APIRoute(self.path, self.endpoint, **settings)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            try:
                return await handle(_StrictRequest(request.scope, request.receive))
            except (RequestValidationError, HTTPException) as err:
                _forget_frames(err)
                if isinstance(err, RequestValidationError) and self.body_field is not None:
                    name_fields(err.errors(), self.body_field.field_info.annotation)
                raise

        return strictly


def name_fields(errors: Sequence[Any], model: Any) -> None:
    """Add to the errors about unknown fields the fields that a request has, and those of the objects in it."""
    unknown = [error for error in errors if error["type"] == "extra_forbidden" and "ctx" not in error]
    if unknown and isinstance(model, type) and issubclass(model, BaseModel):
        for error in unknown:
            error["ctx"] = _known_fields(model)


@cache
def _known_fields(model: type[BaseModel]) -> dict[str, tuple[str, ...]]:
    def models(hint: Any) -> Iterator[type[BaseModel]]:
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            yield hint
        for part in get_args(hint):
            yield from models(part)

    inner = [
        name for field in model.model_fields.values() for each in models(field.annotation) for name in each.model_fields
    ]
    return {"fields": tuple(model.model_fields), "inner": tuple(inner)}


def _forget_frames(err: BaseException | None) -> None:
    """Remove the tracebacks of a refusal: a frame of FastAPI holds it and the body, and it would hold that frame."""
    # Such a circle is freed by a garbage collection alone, and hundreds of bodies of a megabyte come before the next.
    while err is not None:
        err.__traceback__ = None
        err = err.__cause__ or err.__context__


class _StrictRequest(Request):
    async def json(self) -> Any:
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        if coding not in {"", "identity"}:
            raise RequestValidationError([{"type": "coded", "loc": ("body",), "input": coding}])
        body, most = await self.body(), max_entries(self.url.path, self.app.state.settings)
        if has_more_entries(body, most):
            raise RequestValidationError([{"type": "too_many_entries", "loc": ("body",), "input": most}])
        # as text, or UTF-16 would be taken as well
        return json.loads(body.decode("utf-8-sig"), object_pairs_hook=_unique_names, parse_float=_float_or_text)


def max_entries(path: str, settings: Settings) -> int:
    """Return how many entries of objects and lists a body may have together."""
    if path == BATCH_PATH:
        return FIELDS_PER_PROBLEM * settings.max_batch + MAX_POINTS
    return settings.max_voters + 1 + 2 * MAX_POINTS  # a γ, and the largest list


def has_more_entries(body: bytes, most: int) -> bool:
    """Tell whether a JSON text has more entries of objects and lists than ``most``, without reading it.

    >>> has_more_entries(b'{"a": [1, 2], "b": ",,,,"}', 3), has_more_entries(b'{"a": [1, 2, 3, 4, 5]}', 3)
    (False, True)
    """
    if body.count(b",") < most:
        return False
    # an entry has a name and a value, and each two quotes: beyond, the commas are not worth a closer look
    return body.count(b'"') > 4 * most or _STRING.sub(b"", body).count(b",") >= most


def check_field_count(where: str, count: int) -> None:
    """Reject a query or an object with more fields than any request has."""
    if count > MAX_FIELDS:
        raise RequestValidationError([{"type": "too_many_fields", "loc": (where,), "input": MAX_FIELDS}])


def reject_repeated(where: str, pairs: Sequence[tuple[str, Any]]) -> None:
    """Reject names that occur more than once in a query or a body."""
    names = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    if names:
        raise RequestValidationError([{"type": "repeated", "loc": (where, name)} for name in names])


def _float_or_text(text: str) -> float | str:
    """Return the double that ``text`` spells; else the text, which its field will refuse, as no double holds it."""
    number = float(text)  # what is far from the ends of the range is looked at no further: a γ has thousands
    return number if number and math.isfinite(number) else text if out_of_range(text) else number


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object without repeated names: of two values, JSON parsers keep either one, and it may be an ε."""
    check_field_count("body", len(pairs))
    content = dict(pairs)
    if len(content) < len(pairs):
        reject_repeated("body", pairs)
    return content


Model = TypeVar("Model", bound=BaseModel)

Result = TypeVar("Result")


def from_query(model: type[Model]) -> Callable[[Request], Coroutine[Any, Any, Model]]:
    """Return a dependency that reads ``model`` from the query, as strictly as a body.

    A list is written with commas, as in ``m=1,2,3``. A name given twice is refused: which of two privacy parameters was
    meant is not for us to guess.
    """

    async def read(request: Request) -> Model:  # a plain function would be called in a thread
        check_field_count("query", request.scope["query_string"].count(b"&") + 1)
        pairs = request.query_params.multi_items()
        reject_repeated("query", pairs)
        most = max_entries(request.url.path, request.app.state.settings)
        if sum(text.count(",") for name, text in pairs if name in _numeric_fields(model) | _list_fields(model)) >= most:
            raise RequestValidationError([{"type": "too_many_entries", "loc": ("query",), "input": most}])
        misread = [(name, part) for name, text in pairs if name in _numeric_fields(model) for part in _misread(text)]
        wrong: list[Any] = [{"type": "number", "loc": ("query", name), "input": part} for name, part in misread]
        try:
            understood = model.model_validate_strings(dict(pairs))
        except ValidationError as err:
            wrong += [{**error, "loc": ("query", *error["loc"])} for error in err.errors(include_url=False)]
            name_fields(wrong, model)
            raise RequestValidationError(wrong) from err
        if wrong:
            raise RequestValidationError(wrong)
        return understood

    return read


def _parameters(parameter: type[BaseModel] | dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the OpenAPI description of a model as query parameters, the same fields, one by one; or of a parameter."""
    if isinstance(parameter, dict):
        return [parameter]
    schema = parameter.model_json_schema()
    lists = _list_fields(parameter)
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": field["description"] + (" Separated by commas." if name in lists else ""),
            "schema": _query_schema(field),
        }
        | ({"style": "form", "explode": False} if name in lists else {})
        for name, field in schema["properties"].items()
    ]


@cache
def _list_fields(model: type[BaseModel]) -> frozenset[str]:
    properties = model.model_json_schema()["properties"]
    return frozenset(name for name, field in properties.items() if _query_schema(field).get("type") == "array")


@cache
def _numeric_fields(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(name for name, field in model.model_json_schema()["properties"].items() if _holds_number(field))


def _misread(text: str) -> list[str]:
    """Return the parts of a text, between commas, that Python reads as another number than `number_in`, if at all."""
    # It takes 0_1 for digits in groups, and a person may have meant 0.1.
    return [part for part in text.split(",") if number_in(part) is None and _is_python_float(part)]


def _is_python_float(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def _holds_number(schema: dict[str, Any]) -> bool:
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return schema.get("type") in {"integer", "number"} or any(map(_holds_number, inner))


def _query_schema(field: dict[str, Any]) -> dict[str, Any]:
    """Return a field's schema without null, which a query expresses by omitting the name."""
    schema = {key: value for key, value in field.items() if key not in {"title", "description"}}
    if schema.get("default", 0) is None:
        del schema["default"]
    members = [member for member in schema.pop("anyOf", []) if member != {"type": "null"}]
    return {**schema, **members[0]} if len(members) == 1 else {**schema, "anyOf": members} if members else schema


Route = TypeVar("Route", bound=Callable[[Any, Request, DesignService], Awaitable[Response]])


def create_router(tag: str, prefix: str = "/v1") -> APIRouter:
    """Return a router below ``prefix`` whose bodies are read strictly."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=StrictRoute)


def get_and_post(
    router: APIRouter, path: str, model: type[BaseModel], **documentation: Any
) -> Callable[[Route], Route]:
    """Return a decorator that adds a route for GET, with a query, and for POST, with a body."""
    query: Any = Depends(from_query(model))

    def add_route(route: Route) -> Route:
        async def by_query(request: Request, service: Service, params: Any = query) -> Response:
            return await route(params, request, service)

        name, by_query.__doc__ = route.__name__, route.__doc__
        extra: Any = {"parameters": [model]}
        router.add_api_route(path, by_query, methods=["GET"], name=f"get_{name}", openapi_extra=extra, **documentation)
        router.add_api_route(path, route, methods=["POST"], name=f"post_{name}", **documentation)
        return route

    return add_route


async def get_service(request: Request) -> DesignService:  # a plain function would be called in a thread
    """Return the service that the application's lifespan opened."""
    service: DesignService = request.app.state.service
    return service


Service = Annotated[DesignService, Depends(get_service)]  # `get_service` as a parameter of a route


async def stored_record(id: str, service: DesignService, kind: str | None, path: str) -> dict[str, Any]:
    """Return the record that is stored under an id, proved again; NotCached where none of that kind is (γ has none)."""
    access_log.mention_question(id[:64])
    is_readable = KEY_PATTERN.fullmatch(id) and await service.may_see(id)
    record = await service.run_in_reader(load_record, id, service.store) if is_readable else None
    if record is None or record.get("kind") != kind:
        raise NotCached(f"No such answer is stored under the id {id[:80]}. Ask for its problem at {path}.")
    return record


async def until_disconnect(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what ``work`` does, and cancel it when the client disconnects: nobody else waits for it.

    A page drops its previous request when its user asks for something else, and its next request waits behind that one.
    """
    task, disconnect = asyncio.ensure_future(work), asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnected("The client went away.")
    finally:
        disconnect.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
