"""Data model of the cache: kinds of answers, stored rows and their search columns, statistics.

A store holds text. A `Kind` knows how to read, prove and describe that text as a γ or as a table of any number of
classes; everything else in this package is the same for all kinds. Each record names its kind.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
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
Answer: TypeAlias = "Solution | TableSolution"  # content of a row
Spec: TypeAlias = "DesignSpec | TableSpec"  # question; its key is the key of the row


def kind_of_record(record: Any) -> Kind:
    """Return the kind that a record names; without a name it is a γ."""
    if not (isinstance(record, dict) and "kind" in record):
        return GAMMA
    from darrm_opt.tables.record import KINDS

    return table_kind() if record["kind"] in KINDS else GAMMA


def kind_of(item: Answer | Spec) -> Kind:
    """Return the kind of an answer or a question."""
    return GAMMA if isinstance(item, Solution | DesignSpec) else table_kind()


def table_kind() -> Kind:
    """Return the kind of tables; imported on use, because a γ does not need it."""
    from solver_cache.table_kind import TABLE

    return TABLE


def is_shape(text: Any) -> bool:
    """Return whether a text is a valid shape: of a γ, or the classes of a table."""
    return isinstance(text, str) and re.fullmatch(r"free|monotone|\d{1,4} classes( or none)?", text) is not None


def question_record(spec: Spec) -> dict[str, Any]:
    """Return a question as plain data: problem, objective and, for a γ, shape."""
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
"""Outcome of a lookup: valid answer, nothing stored, invalid or not private, written by another version."""

ClaimResult = Literal["taken", "stored", "held"]
"""Outcome of claiming a key: claimed, already stored, or claimed by another owner."""

MAX_LEASE_SECONDS = 3600.0
"""Longest lease. A later end was written by a wrong clock and is void, so that a clock that is set back cannot
block the job of a dead owner."""


def check_lease(owner: str, lease_seconds: float) -> None:
    """Raise InvalidInput unless the arguments make a valid lease."""
    if not owner:
        raise InvalidInput("owner", owner, "a name that is not empty")
    if not (math.isfinite(lease_seconds) and 0 < lease_seconds <= MAX_LEASE_SECONDS):
        raise InvalidInput("lease_seconds", lease_seconds, f"seconds above 0, at most {MAX_LEASE_SECONDS:g}")


@dataclass(frozen=True)
class Row:
    """Stored answer as text, with its hash. Untrusted: see `solver_cache.validate`.

    Attributes:
        key: content key of the question (`DesignSpec.key`).
        core: version of the answers that wrote it (`CORE`).
        record: canonical JSON of `darrm_opt.record.solution_record`.
        digest: SHA-256 of ``record``; detects accidents, not tampering.
        columns: `search_columns` of ``record``, if the writer knows them; None: derived from the record.
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

    rows: int  # stored answers, including invalid ones
    stale: int  # rows of another version, which count as misses
    bytes: int  # disk space; 0 if unknown
    schema: int  # schema version; 0 without tables
    jobs: Mapping[State, int]  # number of jobs in each state


class HitCounter:
    """Counter of lookups by decision. Thread-safe.

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


MAX_READ_MARKS = 100_000  # reads remembered between saves, some 10 MB; further ones are not recorded


class ReadMarks:
    """Keys of the answers read since the last `take`. Thread-safe.

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
        """Return the keys in order and clear them."""
        with self._lock:
            keys, self._keys = self._keys, {}
        return sorted(keys)


@dataclass(frozen=True)
class SearchColumns:
    """Question and utility of a row."""

    voters: int
    voter_epsilon: float  # ε of one voter [nats], possibly infinite
    voter_delta: float  # Δ of one voter [probability]
    affected: int  # voters that one record can influence
    target_epsilon: float  # ε of the release [nats]
    target_delta: float  # δ of the release [probability]
    objective: str  # its text
    shape: str  # "free" or "monotone"; of a table, its classes
    utility: float  # as the record states it

    def fields(self) -> dict[str, Any]:
        """Return them by the names that questions and answers have for them; "inf" for an infinite ε of a voter."""
        infinite = {"epsilon": "inf"} if self.voter_epsilon == math.inf else {}
        return dict(zip(FIELD_NAMES, astuple(self), strict=True)) | infinite

    def answers(self, spec: DesignSpec) -> bool:
        """Whether an answer to this question also answers ``spec``, perhaps not optimally.

        It does if its voters may be less private, a record may influence more of them, and its release is at least as
        private.
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


FIELD_NAMES = ("K", "epsilon", "Delta", "affected", "target_epsilon", "delta", "objective", "shape", "utility")
"""What questions and answers call the `SearchColumns`, in their order."""

SHAPES: dict[str, tuple[str, ...]] = {"free": ("free", "monotone"), "monotone": ("monotone",)}
"""Shapes that satisfy each requested shape."""

COUNTS = ("voters", "affected")

NUMBERS = ("voter_epsilon", "voter_delta", "target_epsilon", "target_delta", "utility")

LARGEST = 2**31 - 1  # largest integer that the columns hold


def search_columns(record: str) -> SearchColumns | None:
    """Return the question and utility that a record states, or None if it is malformed.

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
    except UNREADABLE:
        return None
    return SearchColumns(**{**asked, **numbers, **counts})


def columns_of(record: str) -> dict[str, Any]:
    """Return the column values; all NULL for a malformed record."""
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
