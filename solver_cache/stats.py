"""What a store holds, counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from solver_cache.jobs import State


@dataclass(frozen=True)
class Stats:
    """What a store holds.

    Attributes:
        rows: kept answers, good or bad.
        stale: those that were written for another version of the answers, and count as misses.
        bytes: room that they take; 0 where that is not known.
        schema: version of the tables; 0 where there are none.
        jobs: number of jobs in each state.
    """

    rows: int
    stale: int
    bytes: int
    schema: int
    jobs: Mapping[State, int]
