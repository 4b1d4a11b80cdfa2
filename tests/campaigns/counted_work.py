"""A worker's work, counted: each solve is written to a file when it begins, is complete, and its answer is kept.

A line is "begun", "done", "kept" or "refused" (its claim was lost), with the key, the process and in whose name it was.
The file is named by ``COUNTED``; a problem whose key stands in ``COUNTED_CRASH`` takes its process with it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from darrm_opt.answers.tables import design_seconds
from solver_cache import Row, open_store
from solver_cache.model import Spec
from solver_cache.precompute import worker
from solver_cache.precompute.grid import grid_of
from solver_cache.precompute.plan import make_plan
from solver_cache.precompute.worker import (
    Answer,
    AnswerStored,
    Assignment,
    AttemptFailed,
    ClaimedElsewhere,
    Event,
    SolveFinished,
    perform,
)

GRID: dict[str, Any] = {"K": [5, 7, 9, 11], "epsilon": 0.1, "Delta": [0, 1e-5], "m": [1, 2, 3], "where": "m<(K+1)/2"}
"""A grid of 22 small problems."""

_SOLVED = worker._Solver.solve


def _solve_and_note(self: worker._Solver, spec: Spec) -> Answer | AttemptFailed:
    _say("begun", spec.key, self._task.owner)
    if spec.key == os.environ.get("COUNTED_CRASH"):
        os._exit(9)
    answer = _SOLVED(self, spec)
    _say("done", spec.key, self._task.owner)
    return answer


def _say(word: str, key: str, owner: str) -> None:
    path = os.environ.get("COUNTED")
    if path:
        with Path(path).open("ab", buffering=0) as file:  # one write in append mode: lines of processes do not mix
            file.write(f"{word} {key} {os.getpid()} {owner}\n".encode())


def counted(task: Assignment) -> Iterator[Event]:
    """Do a task as `perform` does, counting."""
    if worker._Solver.solve is not _solve_and_note:
        worker._Solver.solve = _solve_and_note  # type: ignore[method-assign]
    solved_keys = set[str]()
    for event in perform(task):
        if isinstance(event, SolveFinished):
            solved_keys.add(event.key)
        elif isinstance(event, AnswerStored | ClaimedElsewhere) and event.key in solved_keys:
            _say("kept" if isinstance(event, AnswerStored) else "refused", event.key, task.owner)
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
    fields = [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []
    return [Line(word, key, int(process), owner) for word, key, process, owner in fields]


def counts(path: Path, word: str = "done") -> Counter[str]:
    """Return how often each key was solved to completion (or begun)."""
    return Counter(line.key for line in lines(path) if line.word == word)


def undisturbed(content: dict[str, Any]) -> list[Row]:
    """Return the table of a grid, made by this process alone."""
    store = open_store("memory")
    for batch in make_plan(grid_of(content).specs(), store, design_seconds).batches:
        for event in perform(Assignment(0, batch.specs, batch.lead)):
            assert isinstance(event, Answer), event
            store.put(event.row)
    return [*store.rows()]
