"""Row cache: the parts of privacy rows that all problems with the same voters share.

A row is q·P + R, where P and R are signed masses of a multiset (`PrivacyConstraint.signed_masses`) and only
q = e^(−target ε) depends on the target. Along one line of a table, where ε, Δ and K stay and the target varies,
every row is thus made once.
"""

from __future__ import annotations

import functools
import os
import threading

import numpy as np

from darrm_opt.design.polytope.constraint import PrivacyConstraint
from darrm_opt.design.polytope.corners import Corners, Counts
from darrm_opt.noise import Array

MAX_LINES = 16
"""Voters whose rows are kept; each problem needs those of its strictest and of its loosest reading."""

MAX_FAMILIES = 64
"""Read-only arrays of multisets whose keys are kept: solves start from the same ones again and again."""

MAX_ENTRIES = 250_000
"""Most doubles kept of each part for one kind of voters (2 MB); further rows are made each time."""


def multiset_keys(counts: Counts) -> tuple[bytes, ...]:
    """Return each multiset as bytes, which can be looked up."""
    content = np.ascontiguousarray(counts).tobytes()
    return (_split if counts.flags.writeable else _family_keys)(content, counts.shape[1] * counts.itemsize)


def _split(content: bytes, width: int) -> tuple[bytes, ...]:
    return tuple([content[start : start + width] for start in range(0, len(content), width)])


_family_keys = functools.lru_cache(maxsize=MAX_FAMILIES)(_split)


def cached_rows(constraint: PrivacyConstraint, counts: Counts, keys: tuple[bytes, ...] | None = None) -> Array:
    """Return `PrivacyConstraint.rows`, bit for bit, from parts that are made once.

    Args:
        constraint: of the problem.
        counts: voters at each corner [voters], shape (vectors, corners).
        keys: `multiset_keys`, where the caller has them.
    """
    if not 0 < len(counts) * constraint.entries <= MAX_ENTRIES:
        return constraint.rows(counts)
    keys = multiset_keys(counts) if keys is None else keys
    return _line(constraint.K, constraint.corners).rows(constraint, counts, keys)


@functools.lru_cache(maxsize=MAX_LINES)
def _line(K: int, corners: Corners) -> _Line:  # noqa: ARG001 — what the parts depend on
    return _Line((K + 1) // 2)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_line.cache_clear)  # a lock that another thread held stays shut in the child


class _Line:
    """Signed masses by multiset for one kind of voters; safe to share between threads."""

    def __init__(self, entries: int) -> None:
        self._lock = threading.Lock()
        self._place: dict[bytes, int] = {}
        self._parts = np.empty((0, 2, entries))  # on the data and on the neighbour

    def rows(self, constraint: PrivacyConstraint, counts: Counts, keys: tuple[bytes, ...]) -> Array:
        """Return the rows of some multisets."""
        with self._lock:
            places = [self._place.get(key, -1) for key in keys]
            if -1 in places:
                missing = [i for i, place in enumerate(places) if place < 0]
                size = len(self._parts)
                if (size + len(missing)) * constraint.entries > MAX_ENTRIES:
                    return constraint.rows(counts)
                new_parts = np.stack(constraint.signed_masses(counts[missing]), axis=1)
                # before the places: an interruption or want of memory leaves rows without a place at worst
                self._parts = np.concatenate([self._parts, new_parts])
                for place, i in enumerate(missing, size):
                    self._place.setdefault(keys[i], place)
                places = [self._place[key] for key in keys]
            parts = self._parts.take(places, axis=0)
            rows: Array = constraint.q * parts[:, 0] + parts[:, 1]
            return rows
