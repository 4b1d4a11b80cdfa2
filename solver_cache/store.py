"""Stores of rows: the protocol, the null store, and `open_store`.

A store maps keys to text and knows nothing of privacy. One test module holds every implementation to `Store`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from darrm_opt.optional_packages import needed_by
from darrm_opt.record import DesignSpec
from solver_cache.location import MEMORY, OFF
from solver_cache.model import ClaimResult, HitCounter, ReadMarks, Row, Stats

if TYPE_CHECKING:
    from solver_cache.database.designs import Designs
    from solver_cache.database.jobs import Jobs


class Store(Protocol):
    """Store of rows. Safe to use from several threads; a database also from several processes.

    A method that cannot read or write the store raises `CacheError` and has changed nothing; a write to a store that
    is open for reading only raises `ReadOnlyCache`. Rows are returned as stored, unproved.

    Attributes:
        hits: lookups since the store was opened.
        reads: answers read from it, until `save_reads` records them.
    """

    hits: HitCounter
    reads: ReadMarks

    @property
    def url(self) -> str:
        """Location, without its password."""

    @property
    def file(self) -> Path | None:
        """SQLite file; None for other stores."""

    @property
    def jobs(self) -> Jobs:
        """Jobs, stored beside the rows."""

    @property
    def designs(self) -> Designs:
        """Searchable list of the rows, with tags."""

    def get(self, key: str) -> Row | None:
        """Return the row under ``key``, or None."""

    def present(self, keys: Collection[str]) -> set[str]:
        """Return those of ``keys`` under which a row of this version is stored."""

    def put(self, row: Row, replacing: Row | None = None, clients: Collection[str] = ()) -> Row:
        """Store ``row`` unless its key holds a row other than ``replacing``; return the row now stored.

        The first writer wins, so an answer never changes once given; an invalid row is replaced only by a writer that
        has seen that very row. A new answer belongs to ``clients``; without any it is public. An answer already
        stored becomes theirs as well, unless it is public.
        """

    def put_many(self, rows: Sequence[Row]) -> dict[str, Row]:
        """Store ``rows``, with distinct keys, in one transaction; return the rows already stored under their keys."""

    def claim(self, owner: str, lease_seconds: float, keys: Collection[str]) -> dict[str, ClaimResult]:
        """Claim the keys of answers to be solved, in one transaction.

        A claim ends when its answer is stored (`complete`), when it is released (`release_claims`), or when its lease
        expires and another owner claims the key. Claiming again is idempotent, so a caller that lost the reply can
        repeat the call.

        Args:
            owner: name of the claimant, unique among all processes and machines.
            lease_seconds: duration unless renewed [s], in (0, `solver_cache.model.MAX_LEASE_SECONDS`].
            keys: keys of the answers.

        Returns:
            For each key: "taken": ``owner`` holds it; "stored": a row of this version is stored, and ``owner`` holds
            no claim; "held": another owner holds it.

        Raises:
            InvalidInput: ``owner`` is empty, or ``lease_seconds`` is out of range.
        """

    def complete(self, owner: str, rows: Sequence[Row]) -> dict[str, Row]:
        """Store those of ``rows`` whose keys ``owner`` holds, and end these claims, in one transaction.

        Returns:
            The row now stored under each of these keys: an existing row stays, as for `put`.
        """

    def renew_claims(self, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
        """Extend the claims of ``owner`` on ``keys`` to ``lease_seconds`` from now; lost claims stay lost.

        Raises:
            InvalidInput: as `claim`.
        """

    def release_claims(self, owner: str, keys: Collection[str]) -> set[str]:
        """End the claims of ``owner`` on ``keys``; return the keys that it held."""

    def remove(self, row: Row) -> bool:
        """Remove ``row`` unless another row has replaced it; return whether it was stored."""

    def rows(self, after: str = "") -> Iterator[Row]:
        """Yield every row whose key is greater than ``after``, in the order of keys."""

    def stats(self) -> Stats:
        """Return the statistics of the store."""

    def save_reads(self) -> None:
        """Record which answers were read, at most once an hour each, for eviction (`Designs.evict`)."""

    def candidates(self, spec: DesignSpec, client: str | None = None) -> Iterator[Row]:
        """Yield the rows that claim to answer ``spec`` or a stricter question, highest stated utility first.

        See `SearchColumns.answers`. Only rows that ``client`` may see (`Designs`).
        """

    def integrity_errors(self) -> list[str]:
        """Return the defects of the database itself, in words."""

    def health_check(self) -> None:
        """Read, and unless the store is read-only also write, without a lasting change."""

    def interrupt(self) -> None:
        """Abort the calls of other threads that wait for PostgreSQL, each with a `CacheError`; no effect elsewhere."""

    def close(self) -> None:
        """Close the store."""


class NoStore(Store):
    """Null store: stores no answers. Jobs and claims live as long as the object."""

    url = OFF
    file = None

    def __init__(self) -> None:
        self.hits, self.reads = HitCounter(), ReadMarks()

    @cached_property
    def _memory(self) -> Store:
        """Store of the jobs and claims, created on first use: a solve alone needs no database."""
        return open_store(MEMORY)

    @property
    def jobs(self) -> Jobs:
        """Jobs of this process."""
        return self._memory.jobs

    @property
    def designs(self) -> Designs:
        """An empty list."""
        return self._memory.designs

    def get(self, key: str) -> Row | None:  # noqa: ARG002 — the protocol's argument
        return None

    def present(self, keys: Collection[str]) -> set[str]:  # noqa: ARG002 — the protocol's argument
        return set()

    def put(self, row: Row, replacing: Row | None = None, clients: Collection[str] = ()) -> Row:  # noqa: ARG002 — the protocol's arguments
        return row

    def put_many(self, rows: Sequence[Row]) -> dict[str, Row]:  # noqa: ARG002 — the protocol's argument
        return {}

    def claim(self, owner: str, lease_seconds: float, keys: Collection[str]) -> dict[str, ClaimResult]:
        return self._memory.claim(owner, lease_seconds, keys)

    def complete(self, owner: str, rows: Sequence[Row]) -> dict[str, Row]:
        own_keys = self._memory.release_claims(owner, [row.key for row in rows])
        return {row.key: row for row in rows if row.key in own_keys}

    def renew_claims(self, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
        self._memory.renew_claims(owner, lease_seconds, keys)

    def release_claims(self, owner: str, keys: Collection[str]) -> set[str]:
        return self._memory.release_claims(owner, keys)

    def remove(self, row: Row) -> bool:  # noqa: ARG002 — the protocol's argument
        return False

    def rows(self, after: str = "") -> Iterator[Row]:  # noqa: ARG002 — the protocol's argument
        return iter(())

    def stats(self) -> Stats:
        return Stats(0, 0, 0, 0, self.jobs.counts())

    def save_reads(self) -> None:
        self.reads.take()

    def candidates(self, spec: DesignSpec, client: str | None = None) -> Iterator[Row]:  # noqa: ARG002 — the protocol's arguments
        return iter(())

    def integrity_errors(self) -> list[str]:
        return []

    def health_check(self) -> None:
        """Do nothing: there is no place."""

    def interrupt(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        if "_memory" in vars(self):
            self._memory.close()


def open_store(url: str) -> Store:
    """Open the store at ``url``; create it if it does not exist.

    Args:
        url: a database URL, such as ``sqlite:////var/cache/darrm.sqlite`` (four slashes: an absolute path) or
            ``postgresql+psycopg://user@host/name``, with ``?mode=ro`` appended to read only; ``memory`` (until the
            process ends); or ``off``.

    Returns:
        The open store, which the caller closes.

    Raises:
        CacheError: the store cannot be used; nothing is left half-made.
        BackendUnavailable: the extra ``store``, or for PostgreSQL ``postgres``, is not installed.
    """
    if url == OFF:
        return NoStore()
    with needed_by("The store of answers"):
        from solver_cache.database.store import DatabaseStore

        return DatabaseStore(url)
