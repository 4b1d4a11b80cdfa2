"""Validation of stored rows, and `check` of a whole store.

Others may write to a store, cut it short, or keep it across versions of this program. So a row is untrusted: it is
verified (`darrm_opt.verification`), and the result carries the certificate of *this* proof.

A proof depends only on the row's text and the question, and takes milliseconds to seconds, so each process proves a
row once (`Proofs`). The key is the SHA-256 computed from the text just read, never the stored one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from darrm_opt.design.solution import Solution
from darrm_opt.errors import NotPrivate
from darrm_opt.record import CORE, DesignSpec, digest
from darrm_opt.untrusted import json_value
from darrm_opt.verification import InvalidSolution
from solver_cache.model import Answer, Decision, Row, Spec, kind_of, kind_of_record, row_of
from solver_cache.store import Store

if TYPE_CHECKING:
    from darrm_opt.tables.record import TableSpec
    from darrm_opt.tables.solver import TableSolution

A_co = TypeVar("A_co", bound="Answer", covariant=True)


@dataclass(frozen=True)
class Validation(Generic[A_co]):
    """Result of validating a row.

    Attributes:
        decision: "hit", "miss" (nothing stored), "damaged" (not an answer to the question, or not private) or "stale"
            (another version of the record or of the answers).
        solution: for a hit the answer, proved again; else None.
        reason: defect of the row; empty for a hit and a miss.
    """

    decision: Decision
    solution: A_co | None = None
    reason: str = ""


@overload
def validate_row(row: Row | None, spec: DesignSpec) -> Validation[Solution]: ...


@overload
def validate_row(row: Row | None, spec: TableSpec) -> Validation[TableSolution]: ...


@overload
def validate_row(row: Row | None, spec: Spec | None = None) -> Validation[Answer]: ...


def validate_row(row: Row | None, spec: Spec | None = None) -> Validation[Any]:
    """Return the validation of ``row`` as an answer to ``spec``. Pure, except that proofs are remembered.

    Args:
        row: as read from the store; None: nothing is stored.
        spec: the question; None: the one that the record states, which must match the row's key.

    Guarantees:
        The γ (or table) of a hit is private for the question exactly as stored, whatever was done to the row, and its
        utility is recomputed. Its *optimality* is not: that rests on this program having written the row.
    """
    if row is None:
        return Validation("miss")
    question = row.key if spec is None else spec.key  # without a question the row's own key decides
    try:
        check_text(row)
        proved_solution = PROOFS.get(row.digest, question)
        if proved_solution is not None:
            return Validation("hit", proved_solution)
        solution = read_row(row)
        if spec is None:
            spec = stated_spec(solution, row)
        solution = _verified(solution, spec)
        check_final(solution)
    except (InvalidRow, InvalidSolution, NotPrivate) as err:
        return Validation(err.decision if isinstance(err, InvalidRow) else "damaged", reason=str(err))
    PROOFS.add(row.digest, question, solution, len(row.record))
    return Validation("hit", solution)


def prove_row(row: Row) -> Row:
    """Return a row proved to answer the question of its key and spelt as this program spells it.

    Raises:
        InvalidRow: with the reason.
    """
    try:
        solution = read_row(row)
        check_final(_verified(solution, stated_spec(solution, row)))
    except (InvalidSolution, NotPrivate) as err:
        raise InvalidRow(str(err)) from err
    written = row_of(solution)
    if written.record != row.record:  # such as a gap, which the proof does not check
        raise InvalidRow("its record does not follow from its numbers")
    return replace(row, columns=written.columns)


def _verified(answer: Answer, spec: Spec) -> Answer:
    """Return an answer proved by this process; raises as `Kind.verify`, or InvalidRow."""
    kind = kind_of(spec)
    if kind_of(answer) is not kind:
        raise InvalidRow("it answers a question of another kind")
    proved: Answer = kind.verify(answer, spec)
    return proved


class InvalidRow(Exception):
    """A row is not a valid answer. Never leaves this package."""

    def __init__(self, reason: str, decision: Decision = "damaged") -> None:
        self.decision: Decision = decision
        super().__init__(reason)


def check_text(row: Row) -> None:
    """Raise InvalidRow unless a row's text matches its hash and is of this version."""
    if row.digest != digest(row.record):
        raise InvalidRow("its text does not match its SHA-256")
    if row.core != CORE:
        raise InvalidRow(f"it was written by version {row.core} of the answers; this is {CORE}", "stale")


def read_row(row: Row) -> Answer:
    """Return the answer in a row's text, unproved."""
    check_text(row)
    try:
        record = json_value(row.record)
    except ValueError as err:
        raise InvalidRow(f"its text is not JSON: {err}") from err
    kind = kind_of_record(record)
    # Not damaged: another version may still read it.
    if isinstance(record, dict) and record.get("format") != kind.format:
        raise InvalidRow(
            f"its record has format {record.get('format')!r:.80}; this program reads {kind.format}", "stale"
        )
    try:
        answer: Answer = kind.read(record)
    except InvalidSolution as err:
        raise InvalidRow(str(err)) from err
    return answer


def stated_spec(solution: Answer, row: Row) -> Spec:
    """Return the question that a row's answer states, which must match its key."""
    spec: Spec = kind_of(solution).spec_of(solution)
    if spec.key != row.key:
        raise InvalidRow("it is stored under the key of another question")
    return spec


def check_final(solution: Answer) -> None:
    """Raise InvalidRow for an answer that solving again might improve."""
    if not solution.status.is_final:
        status = solution.status.value
        raise InvalidRow(f"its status is '{status}': solving again may improve it, so it is not stored")


@dataclass(frozen=True)
class Finding:
    """Defect of a store.

    Attributes:
        key: key of the row; empty for a defect of the database itself.
        trouble: the defect, in words.
    """

    key: str
    trouble: str


def check(store: Store) -> Iterator[Finding]:
    """Yield every defect of ``store``: of the database itself, then of each row, proved again one by one.

    Nothing is changed: an invalid row is a miss, and is replaced when its answer is next needed.

    Raises:
        CacheError: the store cannot be read.
    """
    for fault in store.integrity_errors():
        yield Finding("", fault)
    for row in store.rows():
        validation = validate_row(row)
        if validation.decision != "hit":
            yield Finding(row.key, f"{validation.decision}: {validation.reason}")


MAX_PROOF_BYTES = 64 * 2**20  # memory for remembered solutions, estimated by the length of their texts


class Proofs:
    """Cache of solutions proved in this process, least recently used first out. Thread-safe."""

    def __init__(self, max_bytes: int = MAX_PROOF_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._proofs: OrderedDict[tuple[str, str], tuple[Answer, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str, key: str) -> Answer | None:
        """Return the solution with this text, proved for this question, or None."""
        with self._lock:
            proof = self._proofs.get((digest, key))
            if proof is None:
                return None
            self._proofs.move_to_end((digest, key))
            return proof[0]

    def add(self, digest: str, key: str, solution: Answer, length: int) -> None:
        """Remember a solution proved for a question, stated by a text of ``length`` characters."""
        with self._lock:
            if (digest, key) in self._proofs:
                return
            self._proofs[digest, key] = solution, length
            self._bytes += length
            while self._bytes > self._max_bytes:
                self._bytes -= self._proofs.popitem(last=False)[1][1]

    def __len__(self) -> int:
        return len(self._proofs)


PROOFS = Proofs()
