"""Data model of the cache: rows, the columns to search them by, completed jobs, statistics and hit counts."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from darrm_opt.design_spec import CORE, DesignSpec, canonical_json, digest
from solver_cache.jobs import State
from solver_cache.kinds import Answer, Spec, kind_of, kind_of_record

Decision = Literal["hit", "miss", "damaged", "stale"]
"""Outcome of a lookup: an answer; nothing stored; not an answer, or not private; written for other versions."""

ClaimResult = Literal["taken", "stored", "held"]
"""Outcome of a claim of a key: it is the caller's; its answer is stored already; another owner holds it."""


@dataclass(frozen=True)
class Row:
    """Stored answer as text, with its hash. Anything in it may be wrong: see `solver_cache.validate`.

    Attributes:
        key: content key of the request that it answers (`DesignSpec.key`).
        core: version of the answers that wrote it (`CORE`).
        record: canonical JSON of `darrm_opt.record.solution_record`.
        digest: SHA-256 of ``record``; finds accidents, proves nothing (whoever can write a row can hash it).
        columns: `search_columns` of ``record``, where its writer knows them; None: they are to be read.
    """

    key: str
    core: int
    record: str
    digest: str
    columns: SearchColumns | None = field(default=None, compare=False, repr=False)


def row_of(answer: Answer, spec: Spec | None = None, *, timed: bool = True) -> Row:
    """Return the row that stores an answer.

    Args:
        answer: a solution of any kind.
        spec: what it answers, where the caller knows it.
        timed: whether the record states how long the solve took.
    """
    kind = kind_of(answer)
    record = kind.record(answer, timed=timed)
    text = canonical_json(record)
    return Row((spec or kind.spec_of(answer)).key, CORE, text, digest(text), SearchColumns(**kind.asked(record)))


@dataclass(frozen=True)
class Stats:
    """Statistics of a store.

    Attributes:
        rows: stored answers, valid or not.
        stale: rows written for another version of the answers; they count as misses.
        bytes: disk space; 0 if unknown.
        schema: version of the tables; 0 if there are none.
        jobs: number of jobs in each state.
    """

    rows: int
    stale: int
    bytes: int
    schema: int
    jobs: Mapping[State, int]


class HitCounter:
    """Hit counter: lookups by decision. Safe to share between threads.

    >>> hits = HitCounter()
    >>> hits.add("hit")
    >>> hits.counts
    {'hit': 1, 'miss': 0, 'damaged': 0, 'stale': 0}
    """

    def __init__(self) -> None:
        self._counts: Counter[Decision] = Counter()
        self._lock = threading.Lock()

    def add(self, decision: Decision) -> None:
        """Count one lookup."""
        with self._lock:
            self._counts[decision] += 1

    @property
    def counts(self) -> dict[Decision, int]:
        """Lookups so far, by decision."""
        with self._lock:
            return {decision: self._counts[decision] for decision in ("hit", "miss", "damaged", "stale")}


@dataclass(frozen=True)
class SearchColumns:
    """The question that a row answers, and how well.

    Attributes:
        voters: K.
        voter_epsilon: ε of one voter [nats]; may be infinite.
        voter_delta: Δ of one voter [probability].
        affected: how many voters one record can influence.
        target_epsilon: ε of the release [nats].
        target_delta: δ of the release [probability].
        objective: its text.
        shape: "free" or "monotone"; of a table, its classes.
        utility: what the record says that the answer is worth.
    """

    voters: int
    voter_epsilon: float
    voter_delta: float
    affected: int
    target_epsilon: float
    target_delta: float
    objective: str
    shape: str
    utility: float

    def answers(self, spec: DesignSpec) -> bool:
        """Whether an answer to this question is one to ``spec`` as well, though perhaps not the best.

        Voters that are at least as private, of whom a record reaches no more, are voters as they were assumed; and a
        release that is at least as private is as private as it must be.
        """
        problem = spec.problem
        return (
            self.voters == problem.K
            and self.objective == str(spec.objective)
            and self.shape in SHAPES[spec.shape]
            and self.voter_epsilon >= problem.voter.epsilon
            and self.voter_delta >= problem.voter.delta
            and self.affected >= problem.affected
            and self.target_epsilon <= problem.target.epsilon
            and self.target_delta <= problem.target.delta
        )


SHAPES: dict[str, tuple[str, ...]] = {"free": ("free", "monotone"), "monotone": ("monotone",)}
"""Shapes of the answers that have the shape that is asked."""

LARGEST = 2**31 - 1
"""Largest whole number that the columns hold."""


def search_columns(record: str) -> SearchColumns | None:
    """Return what a record says was asked, or None where it does not say.

    >>> search_columns("{}") is None
    True
    """
    try:
        content = json.loads(record)
        asked = kind_of_record(content).asked(content)
        names = ("voter_epsilon", "voter_delta", "target_epsilon", "target_delta", "utility")
        numbers = {name: _real(asked[name]) for name in names}
        counts = {name: _positive_integer(asked[name]) for name in ("voters", "affected")}
        objective = asked["objective"]
        if not (isinstance(objective, str) and objective.isascii() and objective.isprintable()):
            return None
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError):  # anything may stand in a row
        return None
    return SearchColumns(**{**asked, **numbers, **counts})


def columns_of(record: str) -> dict[str, Any]:
    """Return the values of the columns; all NULL where the record does not say."""
    columns = search_columns(record)
    names = SearchColumns.__dataclass_fields__
    return {name: None if columns is None else getattr(columns, name) for name in names}


def _real(number: Any) -> float:
    if type(number) not in {int, float} or math.isnan(number):
        raise TypeError
    return float(number)


def _positive_integer(number: Any) -> int:
    if type(number) is not int or not 0 < number <= LARGEST:
        raise TypeError
    return number
