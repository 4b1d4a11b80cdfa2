"""Compiled search: the worst case by the kernel's `separation.c`, with sieves as in `pruned`, a join as in `separable`.

The kernel processes the columns of the blossom (all ny ≤ nx of one nx), each row while it is in the cache, both halves
of the mirror at once. A column depends on its nx and on those before it in its block of eight, whose reach it inherits;
results are ordered by value, then by counts. So blocks can be distributed among threads in any way, and the answer does
not depend on their number.

Without cuts, multisets that beat no find may be left out (`Collector.level`). To be independent of the order of the
columns, a column uses its own finds and those of a first pass over the faces (ny = 0).

Everything that the kernel leaves out is charged at the bound of a sieve, as in `pruned`; one further sieve is the reach
of a row (docs/proofs.md). γ with and without the kernel agree within 1e-9: rows and cuts come in another order, and
both end at the same optimum of the canonical goal.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from darrm_opt.design.constraint import PrivacyConstraint, rounding_error
from darrm_opt.design.kernel.library import LARGEST, MIN_THREADED_WORK, Search, Tables, in_threads
from darrm_opt.design.separation.binomials import binomial
from darrm_opt.design.separation.result import (
    MAX_EVALUATED_MEAN,
    MAX_PASSED_ENTRIES,
    MAX_TABLE_ENTRIES,
    TAIL,
    Collector,
    Indices,
    KernelResult,
    Settle,
)
from darrm_opt.noise import Array
from darrm_opt.process import usable_processors
from darrm_opt.rounding import UNIT_ROUNDOFF

SETTLES: tuple[Settle, ...] = ("always", "until a cut", "never", "one kind")
"""In the order of their numbers in the kernel."""

MIN_PRUNED_WORK = 1e4  # entries of rows from which a first pass over the faces pays

MAX_SIEVED_MEAN = 2.0
"""The kernel's MOST_SIEVED_MEAN: with more voters off their ends, a pass over a row may cost less than its sieves."""

PARTS_PER_THREAD = 4  # parts per thread, as columns differ in length and in open work


def search_columns(
    library: ctypes.CDLL,
    signed: Array,
    constraint: PrivacyConstraint,
    collector: Collector,
    *,
    settle: Settle,
    spacing: int = 1,
) -> None:
    """Give the collector the worst multisets, the cuts, and a bound on the multisets left out.

    "one kind" searches only the faces, nx = 0 or ny = 0, and with ``spacing`` only every spacing-th column of them; it
    proves nothing.
    """
    r = constraint.affected
    collector.tick()
    whole, passes = 0 if settle == "one kind" else r, takes_passes(r, constraint.corners.Delta)

    def search(mode: Settle, width: int, start: float) -> KernelResult:
        if _work(constraint, width, one_kind=mode == "one kind") <= MIN_THREADED_WORK * spacing:
            return _search(library, signed, constraint, collector, mode, _Columns(0, 1, width, spacing), start)
        # on the faces, the repeated part (the first row of every column) is most of the work, without passes
        threads = thread_count()
        parts = min(r + 1, threads * PARTS_PER_THREAD) if threads > 1 and (width > 0 or passes) else 1
        columns = (_Columns(first, parts, width, spacing) for first in range(parts))
        calls = [partial(_search, library, signed, constraint, collector, mode, part, start) for part in columns]
        return _merge(in_threads(calls, threads), collector.most)

    if not collector.most and constraint.corners.Delta > 0 and (_work(constraint, r) > MIN_PRUNED_WORK or whole < r):
        collector.take(search("never", 0, -LARGEST), complete=False)
    collector.take(search(settle, whole, collector.value))


class _Columns(NamedTuple):
    """Columns of the blocks first, first + stride, … with nx divisible by ``spacing``; their rows with ny ≤ width."""

    first: int
    stride: int
    width: int
    spacing: int


def thread_count() -> int:
    """Return the number of threads of a large search: ``OMP_NUM_THREADS`` if set, else the usable processors."""
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, int(setting)) if setting.isdecimal() else usable_processors()


def _work(constraint: PrivacyConstraint, width: int, *, one_kind: bool = False) -> float:
    """Return the approximate number of entries of rows and their blossoms in a search."""
    r = constraint.affected
    blossoms = (2 * (r + 1) ** 2 / 3 if one_kind else (r + 1) ** 3 / 24) * constraint.K
    blossoms = blossoms if takes_passes(r, constraint.corners.Delta) else 0.0
    return (r + 1) * min(width + 1, r / 4 + 1) * constraint.K / 3 + blossoms


def takes_passes(affected: int, Delta: float) -> bool:
    """Return whether so many voters are off their ends that most columns take a pass over all blossoms of a row."""
    return affected * Delta > MAX_SIEVED_MEAN


def _search(
    library: ctypes.CDLL,
    signed: Array,
    constraint: PrivacyConstraint,
    collector: Collector,
    settle: Settle,
    columns: _Columns,
    start: float,
    stop: int = 0,
) -> KernelResult:
    """Search some columns; they leave out multisets that beat none of their finds and nothing above ``start``."""
    most, corners = collector.most, len(constraint.corners.labels)
    signed = np.ascontiguousarray(signed)
    values, cuts = np.empty(most), np.empty((most, 8), dtype=np.int64)
    search = Search(
        signed_values=signed.ctypes.data,
        fuzz=rounding_error(constraint.affected, float(signed.max())),  # antisymmetric: the largest absolute value
        above=_finite(collector.above),
        start=_finite(start),
        seconds=_finite(collector.remaining),
        width=columns.width,
        first=columns.first,
        stride=columns.stride,
        spacing=columns.spacing,
        settle=SETTLES.index(settle),
        most=most,
        stop=stop or None,
        cut_values=values.ctypes.data,
        cuts=cuts.ctypes.data,
    )
    tables = _tables(constraint)  # keeps the arrays alive while the library reads them
    collector.check(library.separate(tables.reference, search))
    counts = np.array(search.counts[:corners], dtype=np.int64)
    cut_count = search.kept
    return KernelResult(
        _real(search.value), counts, _real(search.left_out), values[:cut_count], cuts[:cut_count, :corners]
    )


def _merge(parts: list[KernelResult], most: int) -> KernelResult:
    """Return the result of one search of all columns: the first cuts by value, then by counts."""
    worst = min(parts, key=lambda part: (-part.value, part.counts.tolist()))
    values, cuts = np.concatenate([part.values for part in parts]), np.concatenate([part.cuts for part in parts])
    order = np.lexsort((*cuts.T[::-1], -values))[:most]
    return KernelResult(worst.value, worst.counts, max(part.left_out for part in parts), values[order], cuts[order])


class _TablesOf:
    """Tables of one constraint, and the arrays that their pointers refer to."""

    def __init__(self, constraint: PrivacyConstraint) -> None:
        corners, r = constraint.corners, constraint.affected
        self._arrays = mass, terms, tail = _binomials(r, corners.Delta)
        self._tables = Tables(
            K=constraint.K,
            affected=r,
            x=corners.x,
            y=corners.y,
            Delta=corners.Delta,
            q=constraint.q,
            stride=mass.shape[1],
            mass=mass.ctypes.data,
            terms=terms.ctypes.data,
            tail=tail.ctypes.data,
            most_mean=MAX_EVALUATED_MEAN,
            most_entries=MAX_TABLE_ENTRIES,
            most_passed=MAX_PASSED_ENTRIES,
        )
        self.reference = ctypes.byref(self._tables)


_tables = lru_cache(maxsize=16)(_TablesOf)


@lru_cache(maxsize=16)
def _binomials(r: int, Delta: float) -> tuple[Array, Indices, Array]:
    """Return (Pr[Bin(a, Δ) = t] at [a, t], `terms_of`, the tail of `pruned._local_bend`), the last two by M."""
    # M counts the voters that move; only those M whose mean M·Δ makes a sum over the terms worthwhile.
    mean: Array = np.arange(r + 1, dtype=np.float64) * Delta
    mean = mean[mean <= MAX_EVALUATED_MEAN]
    terms: Indices = np.ones(mean.size, dtype=np.int64)
    tail = mean.copy()
    bound, t, first = mean**2 / 2, 1, 0
    while (first := first + int(bound[first:].searchsorted(TAIL, side="right"))) < mean.size:  # both grow with M
        t += 1
        terms[first:] = t
        tail[first:] *= mean[first:] / t
        bound[first:] *= mean[first:] / (t + 1)
    tail *= 1 + (terms + 1) * 4 * UNIT_ROUNDOFF
    if Delta == 0:
        return np.ones((1, 1)), terms, tail
    mass = binomial(np.arange(mean.size), Delta, int(min(terms.max(), mean.size)))
    return np.ascontiguousarray(mass.T), terms, tail


def _finite(level: float) -> float:
    return min(max(level, -LARGEST), LARGEST)


def _real(value: float) -> float:
    return -np.inf if value <= -LARGEST else value
