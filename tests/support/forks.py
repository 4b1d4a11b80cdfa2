"""Forked child processes: the result or the failure of one, or one that survives."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def fork() -> int:
    """Call `os.fork`, without its warning about threads, which tests have on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


@contextmanager
def living_child() -> Iterator[None]:
    """Fork a child that does nothing until this block ends."""
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
    """Return the result of ``act`` in a child process or in its child; fail with its traceback if it raises."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:  # the child must not leave this branch and run the tests
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
