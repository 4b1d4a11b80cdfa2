"""In-memory store, and its index: sorted columns that find the nearest answer among a million without reading them.

Rows that have K and objective in common are a group, held as columns, the best utility first; which of them answer a
question is then six comparisons of whole columns. The columns of a group are made on its first search, and again after
a change.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from darrm_opt.design_spec import CORE, DesignSpec
from solver_cache.designs import Designs
from solver_cache.memory.claims import MemoryClaims
from solver_cache.memory.designs import MemoryDesigns
from solver_cache.memory.jobs import MemoryJobs
from solver_cache.model import SHAPES, ClaimResult, HitCounter, Row, SearchColumns, Stats, search_columns

Group = tuple[int, str]


class MemoryStore:
    """In-memory store: keeps rows until the process ends."""

    url = "memory"
    file = None

    def __init__(self) -> None:
        self.hits = HitCounter()
        self.jobs = MemoryJobs()
        self._rows: dict[str, Row] = {}
        self._created: dict[str, str] = {}
        self._index = MemoryIndex()
        self._lock = threading.RLock()
        self._claims = MemoryClaims()
        self._designs = MemoryDesigns(self._creation_times, self._search_columns)
        self.designs: Designs = self._designs

    def get(self, key: str) -> Row | None:
        """Return the row kept under ``key``."""
        return self._rows.get(key)

    def present(self, keys: Collection[str]) -> set[str]:
        """Return keys as `Store.present` says."""
        return {key for key in keys if (row := self._rows.get(key)) is not None and row.core == CORE}

    def put(self, row: Row, replacing: Row | None = None) -> Row:
        """Keep ``row``, unless another than ``replacing`` is there; return the one that then stands (`Store.put`)."""
        with self._lock:
            if self._rows.get(row.key) in {None, replacing}:
                self._rows[row.key] = row
                self._created.setdefault(row.key, datetime.now(UTC).isoformat(timespec="milliseconds"))
                self._index.put(row)
            return self._rows[row.key]

    def claim(self, owner: str, lease_seconds: float, keys: Collection[str]) -> dict[str, ClaimResult]:
        """Claim ``keys`` for ``owner`` and ``lease_seconds``; return what became of each, as `Store.claim` does."""
        with self._lock:
            stored = self.present(keys)
            self._claims.end(owner, stored)
            results = self._claims.take(owner, lease_seconds, [key for key in keys if key not in stored])
        return results | dict.fromkeys(stored, "stored")

    def complete(self, owner: str, rows: Sequence[Row]) -> dict[str, Row]:
        """Store those of ``rows`` that ``owner`` claimed; return the stored rows, as `Store.complete` does."""
        with self._lock:
            own_keys = self._claims.own(owner, [row.key for row in rows])
            stored = {row.key: self.put(row) for row in rows if row.key in own_keys}
            self._claims.end(owner, own_keys)
        return stored

    def renew_claims(self, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
        """Hold the claims of ``owner`` to ``keys`` for ``lease_seconds`` from now (`Store.renew_claims`)."""
        self._claims.renew(owner, lease_seconds, keys)

    def release_claims(self, owner: str, keys: Collection[str]) -> None:
        """Let go of the claims of ``owner`` to ``keys`` (`Store.release_claims`)."""
        self._claims.end(owner, keys)

    def remove(self, row: Row) -> bool:
        """Forget ``row``, if it stands; say whether it was there (`Store.remove`)."""
        with self._lock:
            if self._rows.get(row.key) != row:
                return False
            del self._rows[row.key], self._created[row.key]
            self._index.remove(row.key)
            self._designs.forget(row.key)
            return True

    def rows(self, after: str = "") -> Iterator[Row]:
        """Yield every row behind ``after``, in the order of keys."""
        with self._lock:
            rows = sorted(self._rows.items())
        return (row for key, row in rows if key > after)

    def stats(self) -> Stats:
        """Return what is stored, counted."""
        rows = list(self.rows())
        return Stats(len(rows), sum(row.core != CORE for row in rows), 0, 0, self.jobs.counts())

    def candidates(self, spec: DesignSpec) -> Iterator[Row]:
        """Yield rows as `Store.candidates` says."""
        with self._lock:
            keys = self._index.candidates(spec)
        return (row for key in keys if (row := self._rows.get(key)) is not None)

    def _creation_times(self) -> dict[str, str]:
        """Return when the rows of this version were stored."""
        with self._lock:
            return {key: created for key, created in self._created.items() if self._rows[key].core == CORE}

    def _search_columns(self) -> dict[str, SearchColumns]:
        with self._lock:
            return self._index.search_columns()

    def integrity_errors(self) -> list[str]:
        """Return nothing: there is no place to be damaged."""
        return []

    def health_check(self) -> None:
        """Do nothing: memory reads and writes."""

    def interrupt(self) -> None:
        """Do nothing: memory does not hang."""

    def close(self) -> None:
        """Do nothing; the rows stay until the object goes."""


class MemoryIndex:
    """Finds keys of rows by what they say was asked. Not safe to share between threads."""

    def __init__(self) -> None:
        self._new_rows: dict[str, Row] = {}
        self._search_columns: dict[str, SearchColumns] = {}
        self._keys: dict[Group, set[str]] = {}
        self._columns: dict[Group, _GroupColumns] = {}

    def put(self, row: Row) -> None:
        """Take a row in, in the place of the one with its key; its record is read when something is looked for."""
        self.remove(row.key)
        self._new_rows[row.key] = row

    def remove(self, key: str) -> None:
        """Forget a row."""
        self._new_rows.pop(key, None)
        columns = self._search_columns.pop(key, None)
        if columns is not None:
            group = columns.voters, columns.objective
            self._keys[group].discard(key)
            self._columns.pop(group, None)

    def search_columns(self) -> dict[str, SearchColumns]:
        """Return what the rows say was asked, by key."""
        self._read_new_rows()
        return dict(self._search_columns)

    def candidates(self, spec: DesignSpec) -> Iterator[str]:
        """Yield the keys of rows that say they answer ``spec``, as `solver_cache.store.Store.candidates` says."""
        self._read_new_rows()
        group = spec.problem.K, str(spec.objective)
        if group not in self._keys:
            return iter(())
        if group not in self._columns:
            self._columns[group] = _GroupColumns.of({key: self._search_columns[key] for key in self._keys[group]})
        return self._columns[group].candidates(spec)

    def _read_new_rows(self) -> None:
        for key, row in self._new_rows.items():
            columns = search_columns(row.record) if row.core == CORE else None
            if columns is not None:
                group = columns.voters, columns.objective
                self._search_columns[key] = columns
                self._keys.setdefault(group, set()).add(key)
                self._columns.pop(group, None)
        self._new_rows.clear()


@dataclass(frozen=True)
class _GroupColumns:
    """Columns of a group of rows, the best utility first.

    Attributes:
        keys: of the rows.
        monotone: whether the shape is, shape (rows,).
        voter: ε and Δ of the voters and how many a record reaches, which must be at least as asked, shape (3, rows).
        target: ε and δ of the release, which must be at most as asked, shape (2, rows).
    """

    keys: list[str]
    monotone: NDArray[np.bool_]
    voter: NDArray[np.float64]
    target: NDArray[np.float64]

    @classmethod
    def of(cls, group: dict[str, SearchColumns]) -> _GroupColumns:
        keys = sorted(group, key=lambda key: (group[key].utility, key), reverse=True)
        rows = [group[key] for key in keys]
        monotone = [row.shape == "monotone" for row in rows]
        voter = [(row.voter_epsilon, row.voter_delta, float(row.affected)) for row in rows]
        target = [(row.target_epsilon, row.target_delta) for row in rows]
        return cls(
            keys,
            np.array(monotone, dtype=np.bool_),
            np.array(voter, dtype=np.float64).reshape(-1, 3).T.copy(),
            np.array(target, dtype=np.float64).reshape(-1, 2).T.copy(),
        )

    def candidates(self, spec: DesignSpec) -> Iterator[str]:
        """Yield the keys of the rows that say they answer ``spec``."""
        problem = spec.problem
        is_candidate = self.monotone if "free" not in SHAPES[spec.shape] else np.ones(len(self.keys), dtype=np.bool_)
        minima = problem.voter.epsilon, problem.voter.delta, problem.affected
        for column, minimum in zip(self.voter, minima, strict=True):
            is_candidate = is_candidate & (column >= minimum)
        maxima = problem.target.epsilon, problem.target.delta
        for column, maximum in zip(self.target, maxima, strict=True):
            is_candidate = is_candidate & (column <= maximum)
        return (self.keys[i] for i in np.flatnonzero(is_candidate))
