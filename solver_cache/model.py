"""Data model of the cache: kinds of answers, the rows that store them, the columns to search them by, statistics.

A store keeps text. What the text is of, a γ or a table for votes among any number of classes, how it is read and proved
again, and what is said of it in lists and table files, is one `Kind` for each sort of answer; everything else in this
package is the same for all. The record says which kind it is.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from darrm_opt.design.solution import Solution
from darrm_opt.errors import InvalidInput
from darrm_opt.record import CORE, FORMAT, DesignSpec, canonical_json, digest, problem_record, solution_record
from darrm_opt.untrusted import UNREADABLE, json_value
from darrm_opt.verification import read_solution, verify_solution
from solver_cache.kind import Kind

if TYPE_CHECKING:
    from darrm_opt.tables.record import TableSpec
    from darrm_opt.tables.solver import TableSolution

State = Literal["queued", "running", "done", "failed", "cancelled"]
"""State of a job."""

Answer: TypeAlias = "Solution | TableSolution"
"""What a row holds."""

Spec: TypeAlias = "DesignSpec | TableSpec"
"""What was asked; its key is that of the row."""


def kind_of_record(record: Any) -> Kind:
    """Return the kind that a record says it is; that of γ where it says none."""
    if not (isinstance(record, dict) and "kind" in record):
        return GAMMA
    from darrm_opt.tables.record import KINDS

    return table_kind() if record["kind"] in KINDS else GAMMA


def kind_of(item: Answer | Spec) -> Kind:
    """Return the kind of an answer or of a question."""
    return GAMMA if isinstance(item, Solution | DesignSpec) else table_kind()


def table_kind() -> Kind:
    """Return the kind of tables, whose code no γ needs."""
    from solver_cache.table_kind import TABLE

    return TABLE


def is_shape(text: Any) -> bool:
    """Tell whether a text is the shape of some answer: of a γ, or the classes of a table."""
    return isinstance(text, str) and re.fullmatch(r"free|monotone|\d{1,4} classes( or none)?", text) is not None


def question_record(spec: Spec) -> dict[str, Any]:
    """Return a question as plain data: the problem, the objective, and the shape of a γ."""
    if not isinstance(spec, DesignSpec):
        return spec.record
    return {"problem": problem_record(spec.problem), "objective": str(spec.objective), "shape": spec.shape}


def _gamma_record(solution: Solution, *, timed: bool = True) -> dict[str, Any]:
    record = solution_record(solution)
    if not timed:
        record["statistics"]["seconds"] = {}
    return record


def _gamma_asked(record: dict[str, Any]) -> dict[str, Any]:
    problem, shape = record["problem"], record["shape"]
    if shape not in ("free", "monotone"):
        raise ValueError(shape)
    return {
        "voters": problem["K"],
        "voter_epsilon": math.inf if problem["epsilon"] == "inf" else problem["epsilon"],
        "voter_delta": problem["Delta"],
        "affected": problem["affected"],
        "target_epsilon": problem["target_epsilon"],
        "target_delta": problem["delta"],
        "objective": record["objective"],
        "shape": shape,
        "utility": record["utility"],
    }


def _gamma_columns(record: dict[str, Any]) -> dict[str, Any]:
    problem, proof = record["problem"], record["certificate"]
    return {
        **{name: problem[name] for name in ("K", "m", "Delta", "affected", "target_epsilon", "delta")},
        "epsilon": math.inf if problem["epsilon"] == "inf" else problem["epsilon"],
        **{name: record[name] for name in ("objective", "shape", "utility", "upper_bound", "gap", "gamma")},
        "certificate": proof["method"],
        **{name: proof[name] for name in ("bound", "limit", "margin", "error_bound", "worst_value", "version")},
    }


GAMMA = Kind(FORMAT, DesignSpec.of, _gamma_record, read_solution, verify_solution, _gamma_asked, _gamma_columns)


Decision = Literal["hit", "miss", "damaged", "stale"]
"""Outcome of a lookup: an answer; nothing stored; not an answer, or not private; written for other versions."""

ClaimResult = Literal["taken", "stored", "held"]
"""Outcome of a claim of a key: it is the caller's; its answer is stored already; another owner holds it."""

MAX_LEASE_SECONDS = 3600.0
"""Longest lease [s]. One that ends later than this from now was written by a clock that was wrong, and is void: so a
clock that is set back cannot make a dead owner's job wait for as long as it was ahead."""


def check_lease(owner: str, lease_seconds: float) -> None:
    """Refuse what cannot be a lease: of a job, or of the claim of a key."""
    if not owner:
        raise InvalidInput("owner", owner, "a name that is not empty")
    if not (math.isfinite(lease_seconds) and 0 < lease_seconds <= MAX_LEASE_SECONDS):
        raise InvalidInput("lease_seconds", lease_seconds, f"seconds above 0, at most {MAX_LEASE_SECONDS:g}")


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
    """Return the row that stores an answer."""
    kind = kind_of(answer)
    record = kind.record(answer, timed=timed)
    text = canonical_json(record)
    return Row((spec or kind.spec_of(answer)).key, CORE, text, digest(text), SearchColumns(**kind.asked(record)))


@dataclass(frozen=True)
class Stats:
    """Statistics of a store."""

    rows: int  # stored answers, valid or not
    stale: int  # rows written for another version of the answers; they count as misses
    bytes: int  # disk space; 0 if unknown
    schema: int  # version of the tables; 0 if there are none
    jobs: Mapping[State, int]  # number of jobs in each state


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


MAX_READ_MARKS = 100_000
"""Most answers whose reads wait to be noted: some 10 MB. Reads beyond them are not noted."""


class ReadMarks:
    """Keys of the answers that were read since they were last taken down. Safe to share between threads.

    >>> marks = ReadMarks()
    >>> marks.add("a"), marks.take(), marks.take()
    (None, ['a'], [])
    """

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._lock = threading.Lock()

    def add(self, key: str) -> None:
        """Mark an answer as read."""
        with self._lock:
            if len(self._keys) < MAX_READ_MARKS:
                self._keys[key] = None

    def take(self) -> list[str]:
        """Return the keys in order, and forget them."""
        with self._lock:
            keys, self._keys = self._keys, {}
        return sorted(keys)


@dataclass(frozen=True)
class SearchColumns:
    """The question that a row answers, and how well."""

    voters: int
    voter_epsilon: float  # ε of one voter [nats]; may be infinite
    voter_delta: float  # Δ of one voter [probability]
    affected: int  # how many voters one record can influence
    target_epsilon: float  # ε of the release [nats]
    target_delta: float  # δ of the release [probability]
    objective: str  # its text
    shape: str  # "free" or "monotone"; of a table, its classes
    utility: float  # what the record says that the answer is worth

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

COUNTS = ("voters", "affected")

NUMBERS = ("voter_epsilon", "voter_delta", "target_epsilon", "target_delta", "utility")

LARGEST = 2**31 - 1
"""Largest whole number that the columns hold."""


def search_columns(record: str) -> SearchColumns | None:
    """Return what a record says was asked, or None where it does not say.

    >>> search_columns("{}") is None
    True
    """
    try:
        content = json_value(record)
        asked = kind_of_record(content).asked(content)
        numbers = {name: _real(asked[name]) for name in NUMBERS}
        counts = {name: _positive_integer(asked[name]) for name in COUNTS}
        objective = asked["objective"]
        if not (isinstance(objective, str) and objective.isascii() and objective.isprintable()):
            return None
    except UNREADABLE:  # anything may stand there
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
