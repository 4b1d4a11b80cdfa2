"""Encoded answers that were given lately, so that giving them again costs next to nothing.

An answer, once optimal and kept, never changes: its id is made of the question. So its bytes may be kept in this
process under the id, and under the very query that asked for it. What gets in was proved by this process when it was
solved or read; nothing else does.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import MutableMapping, Sequence
from typing import Any, NamedTuple

MAX_BYTES = 64 * 2**20
"""What the kept bodies and their names may take together [bytes]."""

MAX_NAME = 1024
"""A longer question is not remembered [characters]."""

OVERHEAD = 400
"""About what an entry takes besides its body and name [bytes]."""


class Body(NamedTuple):
    """An encoded answer.

    Attributes:
        content: the bytes.
        form: their media type.
        etag: strong entity tag: of these very bytes.
    """

    content: bytes
    form: str
    etag: str

    @classmethod
    def of(cls, content: bytes, form: str) -> Body:
        """Return an encoded answer with its tag.

        >>> Body.of(b"{}", "application/json").etag
        '"44136fa355b3678a1146ad16f7e8649e"'
        """
        return cls(content, form, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


class Served:
    """Bodies by name, the ones not asked for longest leaving first. For one event loop.

    Args:
        most: bytes at most.
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._size = 0
        self._bodies: OrderedDict[tuple[str, ...], Body] = OrderedDict()

    def get(self, *name: str) -> Body | None:
        """Return what is kept under ``name``."""
        body = self._bodies.get(name)
        if body is not None:
            self._bodies.move_to_end(name)
        return body

    def put(self, body: Body, *name: str) -> None:
        """Keep ``body`` under ``name``."""
        if sum(map(len, name)) > MAX_NAME or name in self._bodies:
            return
        self._bodies[name] = body
        self._size += _weight(name, body)
        while self._size > self._most:
            self._size -= _weight(*self._bodies.popitem(last=False))

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._bodies)


def question_of(scope: MutableMapping[str, Any]) -> tuple[str, ...]:
    """Return the name under which the answer to a GET is kept: its query and its Accept, letter by letter.

    Args:
        scope: of the request, as ASGI has it.
    """
    accept = ""
    for name, value in scope["headers"]:
        if name == b"accept":
            accept += value.decode("latin-1") + "\n"
    return ("?", scope["query_string"].decode("latin-1"), accept)


def _weight(name: tuple[str, ...], body: Body) -> int:
    return len(body.content) + sum(map(len, name)) + OVERHEAD


def same(if_none_match: Sequence[str], etag: str) -> bool:
    """Whether If-None-Match headers name ``etag`` (RFC 9110, 13.1.2: weak comparison).

    >>> same(['W/"a", "b"'], '"a"'), same(['"b"', '"a"'], '"a"'), same(["*"], '"a"'), same([], '"a"')
    (True, True, True, False)
    """
    tags = {tag.strip().removeprefix("W/") for line in if_none_match for tag in line.split(",")}
    return etag in tags or "*" in tags
