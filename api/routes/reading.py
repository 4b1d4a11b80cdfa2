"""How requests are read: from a query or from a JSON body, the same fields, and neither with a name that stands twice."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from api.desk import Desk
from api.routes.at import AtDesk
from api.schemas.query import from_query, query_parameters, refuse_repeated

Route = TypeVar("Route", bound=Callable[[Any, Request, Desk], Awaitable[Response]])


def new_router(tag: str, prefix: str = "/v1") -> APIRouter:
    """Return a router below ``prefix`` whose bodies are read strictly.

    Args:
        tag: heading of its routes in the documentation.
        prefix: of their paths.
    """
    return APIRouter(prefix=prefix, tags=[tag], route_class=_StrictRoute)


def both_ways(router: APIRouter, path: str, model: type[BaseModel], **about: Any) -> Callable[[Route], Route]:
    """Return a decorator that has a route answer GET, which asks by a query, and POST, which asks by a body.

    Args:
        router: where it is added.
        path: of both.
        model: what is asked, the type of the route's first parameter.
        about: documentation of both, as FastAPI has it.
    """

    def added(route: Route) -> Route:
        async def by_query(request: Request, desk: AtDesk, asked: Any = Depends(from_query(model))) -> Response:  # noqa: B008 — the model is a value here
            return await route(asked, request, desk)

        name, by_query.__doc__ = route.__name__, route.__doc__
        described = query_parameters(model)
        router.add_api_route(path, by_query, methods=["GET"], name=f"get_{name}", openapi_extra=described, **about)
        router.add_api_route(path, route, methods=["POST"], name=f"post_{name}", **about)
        return route

    return added


class _StrictRoute(APIRoute):
    """A route whose body is JSON as it is written in the standard, sent as it is."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        if coding not in {"", "identity"}:
            raise RequestValidationError([{"type": "coded", "loc": ("body",), "input": coding}])
        return json.loads(await self.body(), object_pairs_hook=_named_once)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Of two values of one name JSON's readers keep this or that one, and it may be an ε."""
    refuse_repeated("body", pairs)
    return dict(pairs)
