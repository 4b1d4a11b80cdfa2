"""Problem details (RFC 9457) of what is denied before a route is reached: too much, too often, too slow, no key."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import NamedTuple

MEDIA_TYPE = b"application/problem+json"

TITLES = {
    "bad-request": "The request is not HTTP.",
    "key-needed": "A valid API key is needed.",
    "too-slow": "The request took too long to arrive.",
    "body-too-large": "The body of the request is too large.",
    "head-too-large": "The request line and headers are too large.",
    "wrong-host": "This server is not called by that name.",
    "too-many-requests": "Too many requests from one client.",
    "busy": "The server is busy.",
    "not-ready": "Answers cannot be given at the moment.",
    "internal-error": "Something unforeseen went wrong.",
}
"""By the last word of the problem's type."""


class Denial(NamedTuple):
    """An answer that says no.

    Attributes:
        status: of HTTP.
        name: one of `TITLES`.
        detail: what happened this time, and what to do about it.
        headers: more headers, in lower case.
        closing: whether the connection must end with it, as there may be a body that nobody will read.
    """

    status: int
    name: str
    detail: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    closing: bool = False

    def body(self, request_id: str | None = None) -> bytes:
        """Return the problem details."""
        told: dict[str, str | int] = {
            "type": f"urn:darrm-opt:problem:{self.name}",
            "title": TITLES[self.name],
            "status": self.status,
            "detail": self.detail,
        }
        if request_id is not None:
            told["request_id"] = request_id
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()

    def all_headers(self, body: bytes) -> list[tuple[bytes, bytes]]:
        """Return the headers of the answer with that body."""
        headers = [(b"content-type", MEDIA_TYPE), (b"content-length", b"%d" % len(body)), *self.headers]
        return [*headers, (b"connection", b"close")] if self.closing else headers

    def raw(self) -> bytes:
        """Return the whole answer as bytes of HTTP/1.1, for where there is no application yet."""
        body, phrase = self.body(), HTTPStatus(self.status).phrase.encode()
        lines = b"".join(b"%b: %b\r\n" % header for header in self.all_headers(body))
        return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (self.status, phrase, lines, body)


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """Return the header that says when to come back [s]: whole seconds, rounded up, at least one.

    >>> retry_after(0.01), retry_after(2.5)
    ((b'retry-after', b'1'), (b'retry-after', b'3'))
    """
    return (b"retry-after", b"%d" % max(1, -int(-seconds // 1)))
