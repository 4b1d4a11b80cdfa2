"""Stores of rows: the protocol, the store that keeps nothing, and `open_store`.

A store keeps text under keys and knows nothing of privacy. What it must do is in `Store`, and one test module holds
every store to it.
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

    Attributes:
        hits: how often this store had the answer, since it was opened.
        reads: the answers that were given from it; `save_reads` writes them down.
    """

    hits: HitCounter
    reads: ReadMarks

    @property
    def url(self) -> str:
        """The place, without its password."""

    @property
    def file(self) -> Path | None:
        """The file that holds it all; None where it is not one file."""

    @property
    def jobs(self) -> Jobs:
        """The jobs that are kept beside the rows."""

    @property
    def designs(self) -> Designs:
        """The rows as a list for people, and their tags."""

    def get(self, key: str) -> Row | None:
        """Return the row kept under ``key``, as it stands: unexamined.

        Raises:
            CacheError: the place cannot be read.
        """

    def present(self, keys: Collection[str]) -> set[str]:
        """Return those of ``keys`` under which a row of this version stands, unexamined: one look for many.

        Raises:
            CacheError: the place cannot be read.
        """

    def put(self, row: Row, replacing: Row | None = None, clients: Collection[str] = ()) -> Row:
        """Keep ``row``, unless another than ``replacing`` is there already; return the one that then stands.

        If it is stored now, the answer is that of ``clients``, who had it designed; of everyone without any. One that
        was there already becomes theirs too, unless it is everyone's.

        Whoever comes first wins, so that an answer, once given, stays the same; and a bad row is replaced only by
        one who saw that very row, so that a good one that came in between is safe.

        Raises:
            CacheError: the place cannot be written; nothing was changed. A `ReadOnlyCache` if it is opened so.
        """

    def put_many(self, rows: Sequence[Row]) -> dict[str, Row]:
        """Keep rows, each with a key of its own, where there are none; return those that stood there, unexamined.

        In a database in one transaction.

        Raises:
            CacheError: as `put`.
        """

    def claim(self, owner: str, lease_seconds: float, keys: Collection[str]) -> dict[str, ClaimResult]:
        """Claim keys whose answers are to be solved, all that can be had; in a database in one transaction.

        A claim ends when the answer is stored (`complete`) or when it is let go (`release_claims`); one whose lease ran
        out goes to whoever asks next. Who asks for what it holds is told that it has it: so who does not know whether
        it was heard asks again.

        Args:
            owner: who claims: a name that nobody else uses, in any process on any machine.
            lease_seconds: how long it is held unless renewed [s], in (0, `solver_cache.model.MAX_LEASE_SECONDS`].
            keys: of the answers.

        Returns:
            For each key: "taken", ``owner`` holds it; "stored", a row of this version stands there, unexamined, and
            ``owner`` does not hold it, or no longer; "held", by another.

        Raises:
            InvalidInput: ``owner`` is empty, or ``lease_seconds`` is out of range.
            CacheError: the place cannot be written; nothing was changed. A `ReadOnlyCache` if it is opened so.
        """

    def complete(self, owner: str, rows: Sequence[Row]) -> dict[str, Row]:
        """Store the answers to what ``owner`` claimed, which ends its claims, in a database in one transaction.

        An answer whose claim another took over, or that nobody claimed, is left out. A row that is there already stays,
        as for `put`.

        Args:
            owner: who claimed their keys.
            rows: the answers.

        Returns:
            For each key that was claimed, the row that stands there.

        Raises:
            CacheError: as `put`.
        """

    def renew_claims(self, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
        """Hold the claims of ``owner`` to ``keys`` for ``lease_seconds`` from now, those that nobody took over.

        Raises:
            InvalidInput: as `claim`.
            CacheError: as `put`.
        """

    def release_claims(self, owner: str, keys: Collection[str]) -> set[str]:
        """Let go of claims, those of ``keys`` that ``owner`` holds; return these.

        Raises:
            CacheError: as `put`.
        """

    def remove(self, row: Row) -> bool:
        """Forget ``row``, unless another stands under its key by now; say whether it was there.

        Raises:
            CacheError: the place cannot be written; nothing was changed.
        """

    def rows(self, after: str = "") -> Iterator[Row]:
        """Yield every row, in the order of keys; of those behind ``after``."""

    def stats(self) -> Stats:
        """Return what is stored, counted."""

    def save_reads(self) -> None:
        """Write down which answers were read, each at most once an hour; for eviction (`Designs.evict`).

        Raises:
            CacheError: the place cannot be written; the marks are gone.
        """

    def candidates(self, spec: DesignSpec, client: str | None = None) -> Iterator[Row]:
        """Yield candidates: rows that say they answer ``spec`` or a stricter question; not validated.

        The same objective and number of voters; a shape as asked or stronger; voters no more private than asked, of
        whom a record reaches no fewer; a release no less private than asked. The best utility first, as recorded. Only
        those that ``client`` may see (`Designs`).
        """

    def integrity_errors(self) -> list[str]:
        """Return what is wrong with the place itself, in words; empty when nothing is."""

    def health_check(self) -> None:
        """Read, and unless it is opened for reading only write, what leaves everything as it was.

        Raises:
            CacheError: that cannot be done: the place is gone, its disk full, or it may not be written any more.
        """

    def interrupt(self) -> None:
        """End calls of other threads that wait for PostgreSQL, each with a `CacheError`; nothing for other stores."""

    def close(self) -> None:
        """Close the store."""


class NoStore:
    """Null store: keeps no answers, so everything is solved. Jobs and claims last as long as it does."""

    url = OFF
    file = None

    def __init__(self) -> None:
        self.hits, self.reads = HitCounter(), ReadMarks()

    @cached_property
    def _memory(self) -> Store:
        """The store of jobs and lists, made on first use: a solve alone needs no database."""
        return open_store(MEMORY)

    @property
    def jobs(self) -> Jobs:
        """The jobs of this process."""
        return self._memory.jobs

    @property
    def designs(self) -> Designs:
        """An empty list."""
        return self._memory.designs

    def get(self, key: str) -> Row | None:  # noqa: ARG002 — the protocol's argument
        """Return None."""
        return None

    def present(self, keys: Collection[str]) -> set[str]:  # noqa: ARG002 — the protocol's argument
        """Return nothing."""
        return set()

    def put(self, row: Row, replacing: Row | None = None, clients: Collection[str] = ()) -> Row:  # noqa: ARG002 — the protocol's arguments
        """Return ``row``, kept nowhere, whatever it is ``replacing`` and for which ``clients``."""
        return row

    def put_many(self, rows: Sequence[Row]) -> dict[str, Row]:  # noqa: ARG002 — the protocol's argument
        """Return nothing: none stood here, and none is kept."""
        return {}

    def claim(self, owner: str, lease_seconds: float, keys: Collection[str]) -> dict[str, ClaimResult]:
        """Claim ``keys`` for ``owner`` and ``lease_seconds``, in this process; return what became of each."""
        return self._memory.claim(owner, lease_seconds, keys)

    def complete(self, owner: str, rows: Sequence[Row]) -> dict[str, Row]:
        """Return, of `rows`, those that `owner` claimed, stored nowhere."""
        own_keys = self._memory.release_claims(owner, [row.key for row in rows])
        return {row.key: row for row in rows if row.key in own_keys}

    def renew_claims(self, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
        """Hold the claims of ``owner`` to ``keys`` for ``lease_seconds`` from now."""
        self._memory.renew_claims(owner, lease_seconds, keys)

    def release_claims(self, owner: str, keys: Collection[str]) -> set[str]:
        """Let go of the claims of ``owner`` to ``keys``; return those that it held."""
        return self._memory.release_claims(owner, keys)

    def remove(self, row: Row) -> bool:  # noqa: ARG002 — the protocol's argument
        """Return False: nothing is there."""
        return False

    def rows(self, after: str = "") -> Iterator[Row]:  # noqa: ARG002 — the protocol's argument
        """Yield nothing."""
        return iter(())

    def stats(self) -> Stats:
        """Return zeros, and the jobs."""
        return Stats(0, 0, 0, 0, self.jobs.counts())

    def save_reads(self) -> None:
        """Forget the marks."""
        self.reads.take()

    def candidates(self, spec: DesignSpec, client: str | None = None) -> Iterator[Row]:  # noqa: ARG002 — the protocol's arguments
        """Yield nothing that answers ``spec``, to no ``client``."""
        return iter(())

    def integrity_errors(self) -> list[str]:
        """Return nothing: nothing is there to be wrong."""
        return []

    def health_check(self) -> None:
        """Do nothing: there is no place."""

    def interrupt(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Forget the jobs and claims."""
        if "_memory" in vars(self):
            self._memory.close()


def open_store(url: str) -> Store:
    """Open the place at ``url``, making it first where it does not exist yet.

    Args:
        url: a database URL, such as ``sqlite:////var/cache/darrm.sqlite`` (four slashes: an absolute path) or
            ``postgresql+psycopg://user@host/name``, for reading only with ``?mode=ro`` behind it; or ``memory`` (until
            the process ends); or ``off``.

    Returns:
        The open store; close it.

    Raises:
        CacheError: the place cannot be used. Found out now, before any work, and nothing is left behind half-made.
        BackendUnavailable: any but ``off`` without the extra ``store``, or PostgreSQL without ``postgres``.
    """
    if url == OFF:
        return NoStore()
    with needed_by("The store of answers"):
        from solver_cache.database.store import DatabaseStore

        return DatabaseStore(url)
