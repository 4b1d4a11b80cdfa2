"""A real child: what it says, or how it failed; or one that lives on."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def fork() -> int:
    """Do as `os.fork`, also where there are threads, which is what is tried here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


@contextmanager
def living_child() -> Iterator[None]:
    """Fork a child that does nothing, and lives until this block ends."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    try:
        yield
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def forked(act: Callable[[], str], depth: int = 1) -> str:
    """Return what ``act`` returns in a child process, or in its child; fail with its traceback if it raises."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:  # nothing may leave this branch: the child must not go on with the tests
        os.close(reader)
        try:
            result = "+" + (act() if depth == 1 else forked(act, depth - 1))
        except BaseException:  # noqa: BLE001 - reported to the parent
            result = "-" + traceback.format_exc()
        with os.fdopen(writer, "w", encoding="utf-8") as pipe:
            pipe.write(result)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    assert result.startswith("+"), result
    return result[1:]
