"""A worker's work, counted: each solve is written to a file when it begins, when it is complete, and when its answer is kept.

A line is "begun", "done", "kept" or "refused" (its claim was lost), with the key, the process and in whose name it was. The
file is named by ``COUNTED``; a problem whose key stands in ``COUNTED_CRASH`` takes its process with it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from solver_cache.key import Request
from solver_cache.precompute import work
from solver_cache.precompute.work import Answered, Event, Failed, Held, Kept, Solved, Task, perform

_SOLVED = work._Solver.solved


def _counted(self: work._Solver, request: Request) -> Answered | Failed:
    _say("begun", request.key, self._task.owner)
    if request.key == os.environ.get("COUNTED_CRASH"):
        os._exit(9)
    found = _SOLVED(self, request)
    _say("done", request.key, self._task.owner)
    return found


def _say(word: str, key: str, owner: str) -> None:
    path = os.environ.get("COUNTED")
    if path:
        with Path(path).open("ab", buffering=0) as file:  # one write in append mode: lines of processes do not mix
            file.write(f"{word} {key} {os.getpid()} {owner}\n".encode())


def counted(task: Task) -> Iterator[Event]:
    """Do a task as `perform` does, counting."""
    if work._Solver.solved is not _counted:
        work._Solver.solved = _counted  # type: ignore[method-assign]
    solved = set[str]()
    for event in perform(task):
        if isinstance(event, Solved):
            solved.add(event.key)
        elif isinstance(event, Kept | Held) and event.key in solved:
            _say("kept" if isinstance(event, Kept) else "refused", event.key, task.owner)
        yield event


@dataclass(frozen=True)
class Line:
    """One line of the file."""

    word: str
    key: str
    process: int
    owner: str


def lines(path: Path) -> list[Line]:
    """Return what was written."""
    told = [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []
    return [Line(word, key, int(process), owner) for word, key, process, owner in told]


def counts(path: Path, word: str = "done") -> Counter[str]:
    """Return how often each key was solved to completion (or begun)."""
    return Counter(line.key for line in lines(path) if line.word == word)
