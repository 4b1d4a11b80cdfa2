"""Response bodies: a cache of recent answers, compression, and none for HEAD.

An optimal stored answer never changes: its id is a hash of the question. So this process caches the bytes of answers
that it has proved, by id and by exact query: the thousand workers of a training job ask the same question within a
second. The outer middleware still applies client, rate limit, log line and metrics.

Starlette's gzip middleware keeps a strong entity tag on changed bytes, compresses the same cached answer every time,
and ignores ``gzip;q=0``. Here the tag becomes weak (RFC 9110, 8.8.3.3), which still revalidates, and compressed bytes
of an answer with a tag are cached. Event streams and compressed content are passed on.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from fastapi import Request, Response
from starlette.types import Message, Receive, Scope, Send

from api.middleware.admission import HttpMiddleware
from api.observability import access_log, metrics
from api.responses import IMMUTABLE, encoded_response

MAX_CACHE_BYTES = 64 * 2**20  # memory for all entries

MAX_KEY_LENGTH = 1024
ENTRY_OVERHEAD = 400  # approximate memory of an entry besides body and key
CACHED_PATH = "/v1/gamma"  # path whose GET responses are cached by query

REVALIDATE = "no-cache"
"""Cache-Control of a response to a query: another version may respond differently, so clients revalidate."""


class EncodedAnswer(NamedTuple):
    """Encoded answer."""

    content: bytes
    form: str  # media type
    etag: str  # strong entity tag of the bytes
    key: str = ""  # id of the answer

    @classmethod
    def of(cls, content: bytes, form: str, key: str = "") -> EncodedAnswer:
        """Return an encoded answer with its tag.

        >>> EncodedAnswer.of(b"{}", "application/json").etag
        '"44136fa355b3678a1146ad16f7e8649e"'
        """
        return cls(content, form, f'"{hashlib.sha256(content).hexdigest()[:32]}"', key)


class ResponseCache:
    """LRU cache of encoded answers. For use within one event loop."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._entries: OrderedDict[tuple[str, ...], EncodedAnswer] = OrderedDict()

    def get(self, *key: str) -> EncodedAnswer | None:
        """Return the entry under ``key``, or None."""
        body = self._entries.get(key)
        if body is not None:
            self._entries.move_to_end(key)
        return body

    def put(self, body: EncodedAnswer, *key: str) -> None:
        """Cache ``body`` under ``key``, unless the key is too long."""
        if sum(map(len, key)) > MAX_KEY_LENGTH or key in self._entries:
            return
        self._entries[key] = body
        self._size += _entry_bytes(key, body)
        while self._size > self._max_bytes:
            self._size -= _entry_bytes(*self._entries.popitem(last=False))

    def __len__(self) -> int:
        return len(self._entries)


def _entry_bytes(key: tuple[str, ...], body: EncodedAnswer) -> int:
    return len(body.content) + sum(map(len, key)) + ENTRY_OVERHEAD


def query_key(scope: Scope) -> tuple[str, ...]:
    """Return the cache key of a GET: its exact query and Accept header."""
    accept = ""
    for name, value in scope["headers"]:
        if name == b"accept":
            accept += value.decode("latin-1") + "\n"
    return ("?", scope["query_string"].decode("latin-1"), accept)


def etag_matches(if_none_match: Sequence[str], etag: str) -> bool:
    """Whether If-None-Match headers list ``etag`` (RFC 9110, 13.1.2: weak comparison).

    >>> [etag_matches(tags, '"a"') for tags in (['W/"a", "b"'], ['"b"', '"a"'], ["*"], [])]
    [True, True, True, False]
    """
    tags = {tag.strip().removeprefix("W/") for line in if_none_match for tag in line.split(",")}
    return etag in tags or "*" in tags


def conditional_response(body: EncodedAnswer, request: Request, caching: str) -> Response:
    """Return the response with an encoded answer, or 304 if the client has it."""
    headers = {"ETag": body.etag, "Cache-Control": caching}
    if etag_matches(request.headers.getlist("if-none-match"), body.etag):
        return Response(status_code=304, headers={**headers, "Vary": "Accept"})
    return encoded_response(body.content, body.form, "gamma", headers)


def permanent_response(body: EncodedAnswer, request: Request) -> Response:
    """Return the response with an answer by its id; with keys, shared caches must not store it."""
    caching = IMMUTABLE if request.app.state.settings.keys is None else f"private, {IMMUTABLE}"
    return conditional_response(body, request, caching)


class ResponseCacheMiddleware(HttpMiddleware):
    """ASGI middleware that responds from the `ResponseCache`, or passes the request on."""

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == CACHED_PATH and scope["method"] == "GET":
            state = scope["app"].state
            cache: ResponseCache = state.response_cache
            # With private designs the route checks and records ownership.
            answer = None if state.settings.private_designs else cache.get(*query_key(scope))
            if answer is not None:
                state.service.store.reads.add(answer.key)
                scope["darrm.route"] = CACHED_PATH
                metrics.count_lookups("memory")
                access_log.mention_question(answer.key)
                if any(name == b"if-none-match" for name, _ in scope["headers"]):
                    response = conditional_response(answer, Request(scope), REVALIDATE)
                    await response(scope, receive, send)
                else:
                    headers = _headers(answer.form, answer.etag, len(answer.content))
                    await send({"type": "http.response.start", "status": 200, "headers": headers})
                    await send({"type": "http.response.body", "body": answer.content})
                return
        await self._app(scope, receive, send)


@lru_cache(maxsize=256)  # slower to build than to send
def _headers(form: str, etag: str, length: int) -> tuple[tuple[bytes, bytes], ...]:
    response = encoded_response(b"", form, "gamma", {"ETag": etag, "Cache-Control": REVALIDATE})
    response.headers["content-length"] = str(length)
    return tuple(response.raw_headers)


MIN_BYTES = 1400  # smallest body to compress; a smaller one fits into one packet
THREAD_BYTES = 2**16  # smallest body to compress in a thread, because it takes milliseconds

LEVEL = 5

_APPLICATION = (b"application/json", b"application/problem+json", b"image/svg+xml")
_TYPES = (*_APPLICATION, b"text/css", b"text/csv", b"text/html", b"text/javascript", b"text/plain")  # to compress

Headers = list[tuple[bytes, bytes]]

_CHANGED = frozenset({b"content-encoding", b"content-length", b"etag"})  # headers that differ for the compressed bytes


EVENTS = "/events"  # suffix of paths whose GET never ends; the router handles their HEAD


class CompressionMiddleware(HttpMiddleware):
    """ASGI middleware that compresses large, complete text responses."""

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message | None = None

        async def compress(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                if message["status"] == 304:
                    headers = _not_modified_headers(_varying(message.get("headers", [])), scope["headers"])
                    message = {**message, "headers": headers}
                elif _is_text(message.get("headers", ())):
                    start = message  # sent with its body
                    return
            elif start is not None:
                head, start = start, None
                if not message.get("more_body") and len(message.get("body", b"")) >= MIN_BYTES:
                    head, message = await _compress_answer(head, message, scope)
                await send(head)
            await send(message)

        await self._app(scope, receive, compress)


async def _compress_answer(start: Message, message: Message, scope: Scope) -> tuple[Message, Message]:
    """Return the two messages of a response, compressed if the client accepts gzip."""
    if not accepts_gzip(scope["headers"]):
        return {**start, "headers": _uncompressed_headers(tuple(start["headers"]))}, message
    tag, before, after = _compressed_headers(tuple(start["headers"]))
    cache: ResponseCache = scope["app"].state.response_cache
    cached, body = cache.get("gzip", tag) if tag else None, message["body"]
    if cached is not None:
        body = cached.content
    else:
        body = compress(body) if len(body) < THREAD_BYTES else await asyncio.to_thread(compress, body)
        if tag:
            cache.put(EncodedAnswer(body, "gzip", tag), "gzip", tag)
    return {**start, "headers": [*before, (b"content-length", b"%d" % len(body)), *after]}, {**message, "body": body}


@lru_cache(maxsize=256)  # the same for cached responses
def _uncompressed_headers(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(_varying(headers))


@lru_cache(maxsize=256)
def _compressed_headers(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[str, Headers, Headers]:
    """Return the entity tag of a response, and its headers when compressed, before and after its length."""
    tag = dict(headers).get(b"etag", b"")
    unchanged = [(name, value) for name, value in _varying(headers) if name not in _CHANGED]
    return tag.decode("latin-1"), [*unchanged, (b"content-encoding", b"gzip")], [(b"etag", _weak(tag))] if tag else []


def compress(body: bytes) -> bytes:
    """Return a body compressed, deterministically."""
    return gzip.compress(body, LEVEL, mtime=0)


def accepts_gzip(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a client accepts gzip (RFC 9110, 12.5.3).

    >>> headers = (b"br, gzip", b"gzip;q=0", b"*", b"*, gzip; q=0.0", b"br")
    >>> [accepts_gzip([(b"accept-encoding", text)]) for text in headers]
    [True, False, True, False, False]
    """
    return _names_gzip(b",".join([value for name, value in headers if name == b"accept-encoding"]))


@lru_cache(maxsize=256)  # few distinct values
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
    vary = [value for name, value in headers if name == b"vary"]
    rest = [(name, value) for name, value in headers if name != b"vary"]
    return [*rest, (b"vary", b", ".join([*vary, b"Accept-Encoding"]))]


def _not_modified_headers(headers: Headers, request_headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a 304 with a weak entity tag if the client's copy was compressed."""
    tags = b",".join(value for name, value in request_headers if name == b"if-none-match")
    return [(name, _weak(value) if name == b"etag" and _weak(value) in tags else value) for name, value in headers]


def _weak(tag: bytes) -> bytes:
    return tag if tag.startswith(b"W/") else b"W/" + tag


class HeadMiddleware(HttpMiddleware):
    """ASGI middleware that answers HEAD as GET without a body."""

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "HEAD" or scope["path"].endswith(EVENTS):
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)
