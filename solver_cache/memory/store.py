"""In-memory store, and its index: sorted columns that find the nearest answer among a million without reading them.

Rows are kin when they have K and objective in common. Kin stand in columns, the best utility first; which of them answer a
question is then six comparisons of whole columns. Columns are made when kin are first asked for, and again after a change.
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

Kin = tuple[int, str]


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
        self._designs = MemoryDesigns(self._stored, self._search_columns)
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
            there = self.present(keys)
            self._claims.end(owner, there)
            found = self._claims.take(owner, lease_seconds, [key for key in keys if key not in there])
        return found | dict.fromkeys(there, "stored")

    def complete(self, owner: str, rows: Sequence[Row]) -> dict[str, Row]:
        """Store those of ``rows`` that ``owner`` claimed; return the rows that stand there, as `Store.complete` does."""
        with self._lock:
            own = self._claims.own(owner, [row.key for row in rows])
            standing = {row.key: self.put(row) for row in rows if row.key in own}
            self._claims.end(owner, own)
        return standing

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
            kept = sorted(self._rows.items())
        return (row for key, row in kept if key > after)

    def stats(self) -> Stats:
        """Return what is stored, counted."""
        kept = list(self.rows())
        return Stats(len(kept), sum(row.core != CORE for row in kept), 0, 0, self.jobs.counts())

    def candidates(self, spec: DesignSpec) -> Iterator[Row]:
        """Yield rows as `Store.candidates` says."""
        with self._lock:
            found = self._index.candidates(spec)
        return (row for key in found if (row := self._rows.get(key)) is not None)

    def _stored(self) -> dict[str, str]:
        """Return when the rows of this version were stored."""
        with self._lock:
            return {key: when for key, when in self._created.items() if self._rows[key].core == CORE}

    def _search_columns(self) -> dict[str, SearchColumns]:
        with self._lock:
            return self._index.search_columns()

    def integrity_errors(self) -> list[str]:
        """Return nothing: there is no place to be damaged."""
        return []

    def health_check(self) -> None:
        """Do nothing: memory reads and writes."""

    def close(self) -> None:
        """Do nothing; the rows stay until the object goes."""


class MemoryIndex:
    """Finds keys of rows by what they say was asked. Not safe to share between threads."""

    def __init__(self) -> None:
        self._new: dict[str, Row] = {}
        self._search_columns: dict[str, SearchColumns] = {}
        self._kin: dict[Kin, set[str]] = {}
        self._columns: dict[Kin, _KinColumns] = {}

    def put(self, row: Row) -> None:
        """Take a row in, in the place of the one with its key; its record is read when something is looked for."""
        self.remove(row.key)
        self._new[row.key] = row

    def remove(self, key: str) -> None:
        """Forget a row."""
        self._new.pop(key, None)
        columns = self._search_columns.pop(key, None)
        if columns is not None:
            kin = columns.voters, columns.objective
            self._kin[kin].discard(key)
            self._columns.pop(kin, None)

    def search_columns(self) -> dict[str, SearchColumns]:
        """Return what the rows say was asked, by key."""
        self._read()
        return dict(self._search_columns)

    def candidates(self, spec: DesignSpec) -> Iterator[str]:
        """Yield the keys of rows that say they answer ``spec``, as `solver_cache.store.Store.candidates` says."""
        self._read()
        kin = spec.problem.K, str(spec.objective)
        if kin not in self._kin:
            return iter(())
        if kin not in self._columns:
            self._columns[kin] = _KinColumns.of({key: self._search_columns[key] for key in self._kin[kin]})
        return self._columns[kin].answers(spec)

    def _read(self) -> None:
        """Read what the new rows say."""
        for key, row in self._new.items():
            columns = search_columns(row.record) if row.core == CORE else None
            if columns is not None:
                kin = columns.voters, columns.objective
                self._search_columns[key] = columns
                self._kin.setdefault(kin, set()).add(key)
                self._columns.pop(kin, None)
        self._new.clear()


@dataclass(frozen=True)
class _KinColumns:
    """Kin, the best utility first.

    Attributes:
        keys: of the rows.
        monotone: whether the shape is, shape (rows,).
        assumed: ε and Δ of the voters and how many a record reaches, which must be at least as asked, shape (3, rows).
        promised: ε and δ of the release, which must be at most as asked, shape (2, rows).
    """

    keys: list[str]
    monotone: NDArray[np.bool_]
    assumed: NDArray[np.float64]
    promised: NDArray[np.float64]

    @classmethod
    def of(cls, kin: dict[str, SearchColumns]) -> _KinColumns:
        keys = sorted(kin, key=lambda key: (kin[key].utility, key), reverse=True)
        sorted_ = [kin[key] for key in keys]
        assumed = [(each.voter_epsilon, each.voter_delta, float(each.affected)) for each in sorted_]
        promised = [(each.target_epsilon, each.target_delta) for each in sorted_]
        monotone = [each.shape == "monotone" for each in sorted_]
        return cls(
            keys,
            np.array(monotone, dtype=np.bool_),
            np.array(assumed, dtype=np.float64).reshape(-1, 3).T.copy(),
            np.array(promised, dtype=np.float64).reshape(-1, 2).T.copy(),
        )

    def answers(self, spec: DesignSpec) -> Iterator[str]:
        problem = spec.problem
        good = self.monotone if "free" not in SHAPES[spec.shape] else np.ones(len(self.keys), dtype=np.bool_)
        for column, least in zip(
            self.assumed, (problem.voter.epsilon, problem.voter.delta, problem.affected), strict=True
        ):
            good = good & (column >= least)
        for column, most in zip(self.promised, (problem.target.epsilon, problem.target.delta), strict=True):
            good = good & (column <= most)
        return (self.keys[i] for i in np.flatnonzero(good))
