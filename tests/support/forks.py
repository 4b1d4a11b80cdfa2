"""A real child: what it says, or how it failed."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable


def forked(act: Callable[[], str], depth: int = 1) -> str:
    """Return what ``act`` returns in a child process, or in its child; fail with its traceback if it raises."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forks where there are threads, which is what is tried here
        child = os.fork()
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
