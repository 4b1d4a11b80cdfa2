"""Bodies of responses: none for HEAD, compressed by gzip where they are large and the client accepts that.

Starlette's middleware leaves a strong entity tag on other bytes than those that it names, compresses the same cached
answer every time, and takes ``gzip;q=0`` for consent. Here the tag becomes a weak one (RFC 9110, 8.8.3.3), by which
clients revalidate as before, and the compressed bytes of an answer with a tag are kept in the response cache. Event
streams and compressed content are left as they are.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from api.middleware.admission import App, Receive, Scope, Send
from api.middleware.response_cache import EncodedAnswer, ResponseCache

MIN_BYTES = 1400
"""Smallest body that is compressed [bytes]: below, it fits into one packet as it is."""

THREAD_BYTES = 2**16
"""Smallest body that is compressed in a thread [bytes]: it takes milliseconds, for which nobody else should wait."""

LEVEL = 5

_TYPES = (
    b"application/json",
    b"application/problem+json",
    b"image/svg+xml",
    b"text/css",
    b"text/csv",
    b"text/html",
    b"text/javascript",
    b"text/plain",
)
"""Media types that are text; those of the page, too."""

Headers = list[tuple[bytes, bytes]]

_CHANGED = frozenset({b"content-encoding", b"content-length", b"etag"})
"""Headers that say something else of the compressed bytes."""


EVENTS = "/events"
"""End of the paths whose GET never ends by itself; their HEAD is left to the router."""


class CompressionMiddleware:
    """ASGI middleware that compresses whole, large answers of text."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and compress its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: dict[str, Any] | None = None

        async def compress(message: dict[str, Any]) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                if message["status"] == 304:
                    message = {
                        **message,
                        "headers": _not_modified_headers(_varying(message.get("headers", [])), scope["headers"]),
                    }
                elif _is_text(message.get("headers", ())):
                    start = message  # until its body is seen
                    return
            elif start is not None:
                head, start = start, None
                if not message.get("more_body") and len(message.get("body", b"")) >= MIN_BYTES:
                    head, message = await _compress_answer(head, message, scope)
                await send(head)
            await send(message)

        await self._app(scope, receive, compress)


async def _compress_answer(
    start: dict[str, Any], message: dict[str, Any], scope: Scope
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the two messages of an answer, compressed if the client accepts that."""
    if not accepts_gzip(scope["headers"]):
        return {**start, "headers": _uncompressed_headers(tuple(start["headers"]))}, message
    tag, before, after = _compressed_headers(tuple(start["headers"]))
    cache: ResponseCache = scope["app"].state.response_cache
    cached = cache.get("gzip", tag) if tag else None
    body = await _compress_body(message["body"], tag, cache) if cached is None else cached.content
    return {**start, "headers": [*before, (b"content-length", b"%d" % len(body)), *after]}, {**message, "body": body}


@lru_cache(maxsize=256)  # the same for every answer from the cache
def _uncompressed_headers(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(_varying(headers))


@lru_cache(maxsize=256)
def _compressed_headers(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[str, Headers, Headers]:
    """Return the entity tag of an answer and its headers when compressed: those before and those after its length."""
    tag = dict(headers).get(b"etag", b"")
    unchanged = [(name, value) for name, value in _varying(headers) if name not in _CHANGED]
    return tag.decode("latin-1"), [*unchanged, (b"content-encoding", b"gzip")], [(b"etag", _weak(tag))] if tag else []


async def _compress_body(body: bytes, tag: str, cache: ResponseCache) -> bytes:
    content = compressed(body) if len(body) < THREAD_BYTES else await asyncio.to_thread(compressed, body)
    if tag:
        cache.put(EncodedAnswer(content, "gzip", tag), "gzip", tag)
    return content


def compressed(body: bytes) -> bytes:
    """Return a body compressed, the same bytes every time."""
    return gzip.compress(body, LEVEL, mtime=0)


def accepts_gzip(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a client accepts gzip (RFC 9110, 12.5.3).

    >>> headers = (b"br, gzip", b"gzip;q=0", b"*", b"*, gzip; q=0.0", b"br")
    >>> [accepts_gzip([(b"accept-encoding", text)]) for text in headers]
    [True, False, True, False, False]
    """
    return _names_gzip(b",".join([value for name, value in headers if name == b"accept-encoding"]))


@lru_cache(maxsize=256)  # clients send one of a few
def _names_gzip(accepted: bytes) -> bool:
    weights: dict[str, bool] = {}
    for part in accepted.decode("latin-1").lower().split(","):
        coding, _, weight = part.partition(";")
        weights[coding.strip()] = weight.replace(" ", "").removeprefix("q=").strip("0.") != "" or not weight
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))


def _is_text(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    kind = b""
    for name, value in headers:
        if name == b"content-encoding":
            return False
        if name == b"content-type":
            kind = value
    return kind.startswith(_TYPES)


def _varying(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return headers by which caches keep the compressed answer apart from the plain one."""
    vary = [value for name, value in headers if name == b"vary"]
    rest = [(name, value) for name, value in headers if name != b"vary"]
    return [*rest, (b"vary", b", ".join([*vary, b"Accept-Encoding"]))]


def _not_modified_headers(headers: Headers, request_headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a 304 with the entity tag as the client has it: weak if its copy came compressed."""
    tags = b",".join(value for name, value in request_headers if name == b"if-none-match")
    return [(name, _weak(value) if name == b"etag" and _weak(value) in tags else value) for name, value in headers]


def _weak(tag: bytes) -> bytes:
    return tag if tag.startswith(b"W/") else b"W/" + tag


class HeadMiddleware:
    """ASGI middleware that has HEAD answered as GET, and sends the head alone."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].endswith(EVENTS):
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)
