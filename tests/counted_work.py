"""A worker's work, counted: each solve is written to a file when it begins and when it is complete.

The file is named by ``COUNTED``; a problem whose key stands in ``COUNTED_CRASH`` takes its process with it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from solver_cache.key import Request
from solver_cache.precompute import work
from solver_cache.precompute.work import Answered, Event, Failed, Task, perform

_SOLVED = work._Solver.solved


def _counted(self: work._Solver, request: Request) -> Answered | Failed:
    _say("begun", request.key)
    if request.key == os.environ.get("COUNTED_CRASH"):
        os._exit(9)
    found = _SOLVED(self, request)
    _say("done", request.key)
    return found


def _say(word: str, key: str) -> None:
    path = os.environ.get("COUNTED")
    if path:
        with Path(path).open("ab", buffering=0) as file:  # one write in append mode: lines of processes do not mix
            file.write(f"{word} {key}\n".encode())


def counted(task: Task) -> Iterator[Event]:
    """Do a task as `perform` does, counting."""
    if work._Solver.solved is not _counted:
        work._Solver.solved = _counted  # type: ignore[method-assign]
    yield from perform(task)


def counts(path: Path, word: str = "done") -> Counter[str]:
    """Return how often each key was solved to completion (or begun)."""
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(line.partition(" ")[2] for line in lines if line.startswith(f"{word} "))
