"""Response cache: encoded answers given recently, keyed by query, answered before the router is reached.

An answer, once optimal and stored, never changes: its id is a hash of the question. So its bytes may be kept in this
process under the id, and under the exact query that asked for it. Only answers that this process has proved, when it
solved or read them, are put in.

A training job's thousand workers ask the same question within a second. Client, rate limit, log line and metrics are
the business of the outer middleware; all that a route would add is to find that the bytes are here.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from fastapi import Request, Response

from api.middleware.admission import App, Receive, Scope, Send
from api.observability import audit, metrics
from api.responses import encoded_response

MAX_CACHE_BYTES = 64 * 2**20
"""Memory for all entries together [bytes]."""

MAX_KEY_LENGTH = 1024
"""Longest key that is cached [characters]."""

ENTRY_OVERHEAD = 400
"""Approximate memory of an entry besides its body and key [bytes]."""

CACHED_PATH = "/v1/gamma"
"""The path whose GET answers are looked up by query."""

REVALIDATE = "no-cache"
"""Cache-Control of an answer to a query: another version may answer differently, so clients check the entity tag."""


class EncodedAnswer(NamedTuple):
    """An encoded answer."""

    content: bytes  # the bytes
    form: str  # their media type
    etag: str  # strong entity tag of these very bytes
    key: str = ""  # id of the answer

    @classmethod
    def of(cls, content: bytes, form: str, key: str = "") -> EncodedAnswer:
        """Return an encoded answer with its tag.

        >>> EncodedAnswer.of(b"{}", "application/json").etag
        '"44136fa355b3678a1146ad16f7e8649e"'
        """
        return cls(content, form, entity_tag(content), key)


class ResponseCache:
    """Encoded answers by key; the least recently used leave first. For use within one event loop."""

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
        """Return the number of entries."""
        return len(self._entries)


def _entry_bytes(key: tuple[str, ...], body: EncodedAnswer) -> int:
    return len(body.content) + sum(map(len, key)) + ENTRY_OVERHEAD


def query_key(scope: MutableMapping[str, Any]) -> tuple[str, ...]:
    """Return the key of the answer to a GET: its query and its Accept header, letter by letter."""
    accept = ""
    for name, value in scope["headers"]:
        if name == b"accept":
            accept += value.decode("latin-1") + "\n"
    return ("?", scope["query_string"].decode("latin-1"), accept)


def entity_tag(content: bytes) -> str:
    """Return the strong entity tag of some bytes."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def etag_matches(if_none_match: Sequence[str], etag: str) -> bool:
    """Tell whether If-None-Match headers name ``etag`` (RFC 9110, 13.1.2: weak comparison).

    >>> [etag_matches(tags, '"a"') for tags in (['W/"a", "b"'], ['"b"', '"a"'], ["*"], [])]
    [True, True, True, False]
    """
    tags = {tag.strip().removeprefix("W/") for line in if_none_match for tag in line.split(",")}
    return etag in tags or "*" in tags


def conditional_response(body: EncodedAnswer, request: Request, caching: str, name: str = "gamma") -> Response:
    """Return the response with an encoded answer, or 304 where the client has it already."""
    headers = {"ETag": body.etag, "Cache-Control": caching}
    if etag_matches(request.headers.getlist("if-none-match"), body.etag):
        return Response(status_code=304, headers={**headers, "Vary": "Accept"})
    return encoded_response(body.content, body.form, name, headers)


class ResponseCacheMiddleware:
    """ASGI middleware: answers from the `ResponseCache` of the application, and passes on everything else."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from the cache, or pass the request on."""
        if scope["type"] == "http" and scope["path"] == CACHED_PATH and scope["method"] == "GET":
            cache: ResponseCache = scope["app"].state.response_cache
            answer = cache.get(*query_key(scope))
            if answer is not None:
                scope["darrm.route"] = CACHED_PATH
                metrics.count_lookups("memory")
                audit.mention_question(answer.key)
                if any(name == b"if-none-match" for name, _ in scope["headers"]):
                    response = conditional_response(answer, Request(scope), REVALIDATE)
                    await response(scope, receive, send)  # type: ignore[arg-type]  # Starlette's types are wider
                else:
                    headers = _headers(answer.form, answer.etag, len(answer.content))
                    await send({"type": "http.response.start", "status": 200, "headers": headers})
                    await send({"type": "http.response.body", "body": answer.content})
                return
        await self._app(scope, receive, send)


@lru_cache(maxsize=256)  # to make them takes longer than to send them
def _headers(form: str, etag: str, length: int) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of an answer to a query from the cache."""
    response = encoded_response(b"", form, "gamma", {"ETag": etag, "Cache-Control": REVALIDATE})
    response.headers["content-length"] = str(length)
    return tuple(response.raw_headers)
