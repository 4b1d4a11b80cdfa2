"""Stored designs as a list for people: newest first, filtered, with tags. Nothing is proved, and no γ is read.

A tag is a word attached to the content key of an answer. It is stored apart from the row, so it affects neither the
answer nor its proof, and is deleted with the row.

An answer without clients is public: precomputed, imported, or designed without a key. Others belong to the clients
that asked for them. A method with a ``client`` sees public answers and tags and its own; with None it sees all, and
sets public tags.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from darrm_opt.errors import InvalidInput
from darrm_opt.problem import number_of_voters
from darrm_opt.record import CORE
from solver_cache.database.connection import Database
from solver_cache.database.dependents import IS_VISIBLE, add_clients, lock, remove
from solver_cache.database.jobs import PAGE_SIZE
from solver_cache.database.statements import FOR_UPDATE, Statements, is_listed
from solver_cache.model import COUNTS, NUMBERS, SearchColumns, is_shape

TAG_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
MAX_TAGS = 32
MAX_LISTED = 1000
MAX_ROWS = 2**31 - 1  # more rows than any store has

MAX_EVICTED_AT_ONCE = 500
CLOSE = 1e-9  # relative tolerance of filters for ε and m: 0.3/0.1 counts as 3

_NAMES = ("key", "created", *SearchColumns.__dataclass_fields__)

_PLACE = {"sqlite": "instr(record, '\"problem\":')", "postgresql": "strpos(record, '\"problem\":')"}
"""Position of the problem in a record: columns hold its numbers, but not the points of profiles."""

MAX_PROBLEM = 4000  # longest text of a γ's problem


def _design_query(statements: Statements) -> str:
    problem = f"substr(record, {_PLACE[statements.dialect]}, {MAX_PROBLEM})"
    return f"SELECT {', '.join(_NAMES)}, {problem} FROM darrm_solutions"


_UNTAGGED = "key NOT IN (SELECT key FROM darrm_design_tags)"

_TOTAL = "SELECT coalesce(sum(bytes), 0) FROM darrm_solutions"

_USED = "coalesce(reads.read, designs.created)"

_AGES = f"""
    SELECT designs.key, {_USED} AS used,
    sum(coalesce(designs.bytes, 0)) OVER (ORDER BY {{first}}{_USED}, designs.key)
    - coalesce(designs.bytes, 0) AS earlier
    FROM darrm_solutions designs LEFT JOIN darrm_design_reads reads ON reads.key = designs.key
"""
"""Answers with their last use, and the bytes of those used earlier or sorted ``first``."""


@dataclass(frozen=True)
class StoredDesign:
    """Stored answer in a list: its question, unproved, and its tags."""

    key: str  # content key
    created: str  # when it was stored (UTC, ISO 8601)
    about: SearchColumns | None  # question and utility; None for a malformed record
    tags: tuple[str, ...]  # in order
    points: Mapping[str, Any] = field(default_factory=dict)  # "profile" and "targets", if a γ's problem has them


@dataclass(frozen=True)
class DesignFilter:
    """Filter of designs; None does not restrict a property."""

    K: int | None = None  # number of voters
    epsilon: float | None = None  # ε of one voter [nats]; may be infinite
    m: float | None = None  # allowance: target ε / voter ε
    tag: str | None = None  # required tag

    def __post_init__(self) -> None:
        if self.K is not None:
            number_of_voters(self.K)
        if self.epsilon is not None and not self.epsilon >= 0:
            raise InvalidInput("epsilon", self.epsilon, "a number of nats, at least 0 (inf: not private)")
        if self.m is not None and not 0 < self.m < math.inf:
            raise InvalidInput("m", self.m, "a privacy allowance, a real number above 0")
        if self.tag is not None:
            check_tag(self.tag)


EVERY = DesignFilter()


def check_tag(tag: str) -> None:
    """Raise InvalidInput for an invalid tag.

    >>> check_tag("round-2")
    """
    if not re.fullmatch(TAG_PATTERN, tag):
        raise InvalidInput(
            "tag", tag, "1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit"
        )


def not_since(days: float) -> str:
    """Return the time ``days`` ago, for `Designs.evict`."""
    return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")


class Designs:
    """Stored designs and their tags. Safe to use from several threads; in a database also from several processes.

    A method that cannot use the database raises CacheError and has changed nothing.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self,
        design_filter: DesignFilter = EVERY,
        limit: int = PAGE_SIZE,
        after: str | None = None,
        client: str | None = None,
    ) -> Sequence[StoredDesign]:
        """Return designs of this version, newest first."""
        if not 1 <= limit <= MAX_LISTED:
            raise InvalidInput("limit", limit, f"a whole number from 1 to {MAX_LISTED}")
        newest = "ORDER BY created DESC, key DESC"
        where, values = _matching(design_filter, client)
        with self._database.reading() as statements:
            if after is not None:
                query = "SELECT created, key FROM darrm_solutions WHERE key = :key"
                last = statements.rows(f"{query} AND {_seen(client)}", key=after, client=client)
                if not last:
                    raise InvalidInput("after", after, "the id of a design that is stored")
                where += " AND (created, key) < (:created, :key)"
                values |= {"created": last[0][0], "key": last[0][1]}
            # read from the index alone
            page = f"SELECT key FROM darrm_solutions WHERE {where} {newest} LIMIT :limit"
            query = _design_query(statements)
            return _designs(statements, client, f"{query} WHERE key IN ({page}) {newest}", limit=limit, **values)

    def get(self, key: str, client: str | None = None) -> StoredDesign | None:
        """Return a design of this version, or None."""
        with self._database.reading() as statements:
            return _design(statements, key, client)

    def grant(self, keys: Collection[str], client: str) -> bool:
        """Share designs with a client that asked for them; public ones stay public. Return whether all exist."""
        with self._database.writing() as statements:
            stored = lock(statements, keys)
            add_clients(statements, stored, [client])
            return len(stored) == len(set(keys))

    def stored_bytes(self) -> int:
        """Return the total length of all records [bytes]."""
        with self._database.reading() as statements:
            [(total,)] = statements.rows(_TOTAL)
        return int(total)

    def evict(
        self, max_bytes: int | None = None, before: str | None = None, down_to: int | None = None, most: int = MAX_ROWS
    ) -> int:
        """Remove answers without a tag, least recently read or stored first; return their number.

        Args:
            max_bytes: limit on the records of all answers, including tagged ones [bytes]; None: no limit.
            before: also remove answers neither read nor stored since this time (UTC, ISO 8601).
            down_to: size to reach once ``max_bytes`` is exceeded [bytes]; None: ``max_bytes``.
            most: largest number of answers to remove.
        """
        untagged = _AGES.format(first="") + f"WHERE designs.{_UNTAGGED}"
        chosen = f"SELECT key FROM ({untagged}) ages WHERE earlier < :excess OR used < :before"
        query = f"{chosen} ORDER BY used, key LIMIT :most"
        with self._database.reading() as statements:
            [(total,)] = statements.rows(_TOTAL)
            excess = 0
            if max_bytes is not None and total > max_bytes:
                excess = int(total) - (max_bytes if down_to is None else min(max_bytes, down_to))
            if excess <= 0 and before is None:
                return 0
            keys = [str(key) for (key,) in statements.rows(query, excess=excess, before=before or "", most=most)]
        count = 0
        for page in _pages(keys):
            with self._database.writing() as statements:
                count += remove(statements, page, _UNTAGGED)
        return count

    def evict_of_clients(self, max_bytes: int, most: int = MAX_ROWS) -> int:
        """Take designs from each client that holds more than ``max_bytes``; remove those left without a client.

        Untagged ones go first, then the least recently read or stored: tags do not raise a client's quota. At most
        ``most`` are taken from each client. Returns the number of answers removed from the store.
        """
        held = (
            "SELECT owners.client, sum(designs.bytes) FROM darrm_design_clients owners "
            "JOIN darrm_solutions designs ON designs.key = owners.key "
            "GROUP BY owners.client HAVING sum(designs.bytes) > :most"
        )
        own = _AGES.format(first="designs.key IN (SELECT key FROM darrm_design_tags), ")
        own += "JOIN darrm_design_clients owners ON owners.key = designs.key WHERE owners.client = :client"
        beyond = f"SELECT key FROM ({own}) ages WHERE earlier < :excess ORDER BY earlier LIMIT :most"
        others = (
            "NOT EXISTS (SELECT 1 FROM darrm_design_clients owners "
            "WHERE owners.key = darrm_solutions.key AND owners.client <> :client)"
        )
        count = 0
        with self._database.reading() as statements:
            excesses = {str(client): int(total) - max_bytes for client, total in statements.rows(held, most=max_bytes)}
            chosen = {
                client: [str(key) for (key,) in statements.rows(beyond, client=client, excess=excess, most=most)]
                for client, excess in excesses.items()
            }
        for client, page in ((client, page) for client, keys in chosen.items() for page in _pages(keys)):
            with self._database.writing() as statements:
                # One transaction: an answer that lost its last client would become public.
                count += remove(statements, page, others, client=client)
                deletion = f"DELETE FROM darrm_design_clients WHERE client = :client AND {is_listed(statements)}"
                statements.rows(deletion, client=client, keys=statements.listed(page))
        return count

    def tag(self, key: str, tag: str, client: str | None = None) -> StoredDesign | None:
        """Add a tag to a design; return the design, or None if it does not exist."""
        check_tag(tag)
        with self._database.writing() as statements:
            # locked: concurrent tags are counted, and a concurrent removal leaves no tag behind
            locked = "SELECT key FROM darrm_solutions WHERE key = :key AND core = :core AND "
            locked += f"{_seen(client)} {FOR_UPDATE[statements.dialect]}"
            if not statements.rows(locked, key=key, core=CORE, client=client):
                return None
            owner = client or ""
            other_tags = "SELECT count(*) FROM darrm_design_tags WHERE key = :key AND tag <> :tag AND client = :client"
            [(count,)] = statements.rows(other_tags, key=key, tag=tag, client=owner)
            if int(count) >= MAX_TAGS:
                raise InvalidInput("tag", tag, f"at most {MAX_TAGS} tags of one design", "Remove one first.")
            insertion = (
                "INSERT INTO darrm_design_tags (key, tag, client, created) VALUES (:key, :tag, :client, :created) "
                "ON CONFLICT DO NOTHING"
            )
            created = datetime.now(UTC).isoformat(timespec="seconds")
            statements.rows(insertion, key=key, tag=tag, client=owner, created=created)
            return _design(statements, key, client)

    def untag(self, key: str, tag: str, client: str | None = None) -> StoredDesign | None:
        """Remove a tag, of ``client`` unless that is None; return the design, or None if it does not exist."""
        check_tag(tag)
        is_own = "" if client is None else "AND client = :client"
        deletion = f"DELETE FROM darrm_design_tags WHERE key = :key AND tag = :tag {is_own}"
        with self._database.writing() as statements:
            statements.rows(deletion, key=key, tag=tag, client=client)
            return _design(statements, key, client)


def _seen(client: str | None) -> str:
    """Return the condition that ``client`` may see an answer."""
    return "true" if client is None else IS_VISIBLE


def _tags_seen(client: str | None) -> str:
    return "true" if client is None else "client IN ('', :client)"


def _pages(keys: Sequence[str]) -> list[Sequence[str]]:
    """Return keys in pages of one transaction each, so that other writers get their turn."""
    return [keys[start : start + MAX_EVICTED_AT_ONCE] for start in range(0, len(keys), MAX_EVICTED_AT_ONCE)]


def _matching(design_filter: DesignFilter, client: str | None) -> tuple[str, dict[str, Any]]:
    """Return the conditions of a filter and a client, and their parameters."""
    conditions, values = ["core = :core", _seen(client)], dict[str, Any](core=CORE, client=client)
    if design_filter.K is not None:
        conditions.append("voters = :voters")
        values["voters"] = design_filter.K
    if design_filter.epsilon is not None:
        conditions.append("voter_epsilon BETWEEN :least_epsilon AND :most_epsilon")
        values["least_epsilon"], values["most_epsilon"] = _close_to(design_filter.epsilon)
    if design_filter.m is not None:
        conditions.append(
            "voter_epsilon > 0 AND voter_epsilon < :infinity "
            "AND target_epsilon >= :least_m * voter_epsilon AND target_epsilon <= :most_m * voter_epsilon"
        )
        values["infinity"] = math.inf
        values["least_m"], values["most_m"] = _close_to(design_filter.m)
    if design_filter.tag is not None:
        conditions.append(f"key IN (SELECT key FROM darrm_design_tags WHERE tag = :tag AND {_tags_seen(client)})")
        values["tag"] = design_filter.tag
    return " AND ".join(conditions), values


def _close_to(number: float) -> tuple[float, float]:
    return number * (1 - CLOSE), number * (1 + CLOSE)


def _design(statements: Statements, key: str, client: str | None) -> StoredDesign | None:
    query = f"{_design_query(statements)} WHERE key = :key AND core = :core AND {_seen(client)}"
    designs = _designs(statements, client, query, key=key, core=CORE, client=client)
    return designs[0] if designs else None


def _designs(statements: Statements, viewer: str | None, page: str, **values: Any) -> Sequence[StoredDesign]:
    """Return the designs of a page, with the tags visible to a client."""
    rows = [dict(zip((*_NAMES, "problem"), row, strict=True)) for row in statements.rows(page, **values)]
    keys = [str(row["key"]) for row in rows]
    tags: dict[str, list[str]] = {}
    query = f"SELECT DISTINCT key, tag FROM darrm_design_tags WHERE {is_listed(statements)} AND {_tags_seen(viewer)}"
    for key, tag in statements.rows(f"{query} ORDER BY tag", keys=statements.listed(keys), client=viewer):
        tags.setdefault(str(key), []).append(str(tag))
    return [
        StoredDesign(
            str(row["key"]),
            str(row["created"]),
            _columns(row),
            tuple(tags.get(str(row["key"]), ())),
            problem_points(str(row["problem"])),
        )
        for row in rows
    ]


def problem_points(text: str) -> dict[str, Any]:
    """Return the profile and targets, if any, in the text of a γ's problem.

    >>> problem_points('"problem":{"K":3,"profile":[[0.0,0.1],[0.3,0.01]]},"shape":"free"}')
    {'profile': [[0.0, 0.1], [0.3, 0.01]]}
    """
    try:
        problem, _ = json.JSONDecoder().raw_decode(text.removeprefix('"problem":'))
        found = {name: problem[name] for name in ("profile", "targets") if name in problem}
        pairs = [[float(number) for number in point] for points in found.values() for point in points]
    except (ValueError, TypeError, RecursionError):  # a table, or a damaged row
        return {}
    return found if all(len(pair) == 2 and all(map(math.isfinite, pair)) for pair in pairs) else {}


def _columns(values: Any) -> SearchColumns | None:
    """Return the search columns of a row, whose types SQLite does not enforce; None if they are malformed."""
    columns = {name: values[name] for name in SearchColumns.__dataclass_fields__}
    numbers = all(isinstance(columns[name], float | int) for name in NUMBERS)
    counts = all(isinstance(columns[name], int) for name in COUNTS)
    if not (numbers and counts and isinstance(columns["objective"], str) and is_shape(columns["shape"])):
        return None
    return SearchColumns(**columns | {name: float(columns[name]) for name in NUMBERS})
