"""What is wrong with a store: for the person who looks after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from solver_cache.examine import inspect
from solver_cache.store import Store


@dataclass(frozen=True)
class Finding:
    """One thing wrong.

    Attributes:
        key: the row's key; empty when it is about the place itself.
        trouble: what is wrong, in words.
    """

    key: str
    trouble: str


def check(store: Store) -> Iterator[Finding]:
    """Yield everything wrong with ``store``: its place, then each row, proved again one by one.

    Nothing is changed: a bad row is harmless (it is a miss) and is replaced when its answer is next asked for.

    Raises:
        CacheError: the store cannot be read.
    """
    for fault in store.faults():
        yield Finding("", fault)
    for row in store.rows():
        found = inspect(row)
        if found.decision != "hit":
            yield Finding(row.key, f"{found.decision}: {found.reason}")
