"""Count of a worker's solves: each is logged to the file named by ``COUNTED`` when it begins and when it is complete.

A problem whose key stands in ``COUNTED_CRASH`` takes its process with it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from darrm_opt.answers.tables import design_seconds
from solver_cache import Row, open_store
from solver_cache.model import Spec
from solver_cache.precompute import worker
from solver_cache.precompute.grid import grid_of
from solver_cache.precompute.plan import make_plan
from solver_cache.precompute.worker import Answer, Assignment, AttemptFailed, Event, perform

GRID: dict[str, Any] = {"K": [5, 7, 9, 11], "epsilon": 0.1, "Delta": [0, 1e-5], "m": [1, 2, 3], "where": "m<(K+1)/2"}
"""A grid of 22 small problems."""

_SOLVED = worker._Solver.solve


def _solve_and_note(self: worker._Solver, spec: Spec) -> Answer | AttemptFailed:
    _say("begun", spec.key)
    if spec.key == os.environ.get("COUNTED_CRASH"):
        os._exit(9)
    answer = _SOLVED(self, spec)
    _say("done", spec.key)
    return answer


def _say(word: str, key: str) -> None:
    path = os.environ.get("COUNTED")
    if path:
        with Path(path).open("ab", buffering=0) as file:  # one write in append mode: lines of processes do not mix
            file.write(f"{word} {key}\n".encode())


def counted(task: Assignment) -> Iterator[Event]:
    """Do a task as `perform` does, counting."""
    worker._Solver.solve = _solve_and_note  # type: ignore[method-assign]
    yield from perform(task)


def counts(path: Path, word: str = "done") -> Counter[str]:
    """Return how often each key was solved to completion (or begun)."""
    lines = [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []
    return Counter(key for said, key in lines if said == word)


def undisturbed(content: dict[str, Any]) -> list[Row]:
    """Return the table of a grid, made by this process alone."""
    store = open_store("memory")
    for batch in make_plan(grid_of(content).specs(), store, design_seconds).batches:
        for event in perform(Assignment(0, batch.specs, batch.lead)):
            assert isinstance(event, Answer), event
            store.put(event.row)
    return [*store.rows()]
