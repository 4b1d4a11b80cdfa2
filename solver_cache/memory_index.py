"""What rows in memory say was asked, sorted, so that the nearest answer is found among a million without reading them.

Rows are kin when they have K and objective in common. Kin stand in columns, the best utility first; which of them answer a
question is then six comparisons of whole columns. Columns are made when kin are first asked for, and again after a change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver_cache.asked import SHAPES, Asked, asked_in
from solver_cache.key import CORE, Request
from solver_cache.row import Row

Kin = tuple[int, str]


class MemoryIndex:
    """Finds keys of rows by what they say was asked. Not safe to share between threads."""

    def __init__(self) -> None:
        self._new: dict[str, Row] = {}
        self._asked: dict[str, Asked] = {}
        self._kin: dict[Kin, set[str]] = {}
        self._columns: dict[Kin, _Columns] = {}

    def put(self, row: Row) -> None:
        """Take a row in, in the place of the one with its key; its record is read when something is looked for."""
        self.remove(row.key)
        self._new[row.key] = row

    def remove(self, key: str) -> None:
        """Forget a row."""
        self._new.pop(key, None)
        asked = self._asked.pop(key, None)
        if asked is not None:
            kin = asked.voters, asked.objective
            self._kin[kin].discard(key)
            self._columns.pop(kin, None)

    def stricter(self, request: Request) -> Iterator[str]:
        """Yield the keys of rows that say they answer ``request``, as `solver_cache.store.Store.stricter` says."""
        self._read()
        kin = request.problem.K, str(request.objective)
        if kin not in self._kin:
            return iter(())
        if kin not in self._columns:
            self._columns[kin] = _Columns.of({key: self._asked[key] for key in self._kin[kin]})
        return self._columns[kin].answers(request)

    def _read(self) -> None:
        """Read what the new rows say."""
        for key, row in self._new.items():
            asked = asked_in(row.record) if row.core == CORE else None
            if asked is not None:
                kin = asked.voters, asked.objective
                self._asked[key] = asked
                self._kin.setdefault(kin, set()).add(key)
                self._columns.pop(kin, None)
        self._new.clear()


@dataclass(frozen=True)
class _Columns:
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
    def of(cls, kin: dict[str, Asked]) -> _Columns:
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

    def answers(self, request: Request) -> Iterator[str]:
        problem = request.problem
        good = self.monotone if "free" not in SHAPES[request.shape] else np.ones(len(self.keys), dtype=np.bool_)
        for column, least in zip(
            self.assumed, (problem.voter.epsilon, problem.voter.delta, problem.affected), strict=True
        ):
            good = good & (column >= least)
        for column, most in zip(self.promised, (problem.target.epsilon, problem.target.delta), strict=True):
            good = good & (column <= most)
        return (self.keys[i] for i in np.flatnonzero(good))
