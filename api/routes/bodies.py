"""Bodies of requests: standard JSON in UTF-8, each name once, and no more entries than any request needs.

What is validated item by item takes some ten microseconds for each, on the event loop, and more for each that is wrong.
So a body of a megabyte is counted before it is read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from api.errors.accepted import MAX_POINTS
from api.settings import Settings
from darrm_opt.number_text import out_of_range

MAX_FIELDS = 64
"""Fields of one object or query; no request has as many."""

BATCH_PATH = "/v1/gamma/batch"
"""The path whose bodies hold many requests."""

FIELDS_PER_PROBLEM = 20
"""Fields of each problem of a batch, the largest of which has some ten."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # one that is not closed too, or each quote in it is tried


class StrictRoute(APIRoute):
    """Route whose body is standard JSON, without a content coding."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            try:
                return await handle(_StrictRequest(request.scope, request.receive))
            except (RequestValidationError, HTTPException) as err:
                _forget_frames(err)
                raise

        return strictly


def _forget_frames(err: BaseException | None) -> None:
    """Remove the tracebacks of a refusal: a frame of FastAPI holds it and the body, and it would hold that frame.

    Such a circle is freed by a garbage collection alone, and hundreds of bodies of a megabyte come before the next.
    """
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
    """Reject a query or an object with more fields than any request has.

    Raises:
        RequestValidationError: saying how many it may have.
    """
    if count > MAX_FIELDS:
        raise RequestValidationError([{"type": "too_many_fields", "loc": (where,), "input": MAX_FIELDS}])


def reject_repeated(where: str, pairs: Sequence[tuple[str, Any]]) -> None:
    """Reject names that occur more than once in a query or a body.

    Raises:
        RequestValidationError: naming them.
    """
    names = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    if names:
        raise RequestValidationError([{"type": "repeated", "loc": (where, name)} for name in names])


def _float_or_text(text: str) -> float | str:
    """Return the double that ``text`` spells; else the text, which its field will refuse, as no double holds it."""
    return text if out_of_range(text) else float(text)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object without repeated names: of two values, JSON parsers keep either one, and it may be an ε."""
    check_field_count("body", len(pairs))
    content = dict(pairs)
    if len(content) < len(pairs):
        reject_repeated("body", pairs)
    return content
