"""Stored designs as people look at them: newest first, filtered, with tags. Nothing is proved here, and no γ is read.

A tag is a word beside the content key of an answer, in a place of its own: it is never a part of the row, so it can
change neither an answer nor its proof. It lasts as long as the row does. Tags are shared: everyone who uses a store
sees the same ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from darrm_opt.errors import InvalidInput
from darrm_opt.problem import number_of_voters
from darrm_opt.record import CORE
from solver_cache.database.connection import Database
from solver_cache.database.jobs import PAGE_SIZE
from solver_cache.database.statements import FOR_UPDATE, Statements, is_listed
from solver_cache.model import SearchColumns, is_shape

TAG_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Form of a tag."""

MAX_TAGS = 32
"""Most tags of one design."""

MAX_LISTED = 1000
"""Most designs of one list."""

MAX_EVICTED_AT_ONCE = 500
"""Answers removed in one transaction."""

CLOSE = 1e-9
"""Relative difference up to which ε and m are what a filter asks for: 0.3/0.1 is 3."""

_NUMBERS = ("voter_epsilon", "voter_delta", "target_epsilon", "target_delta", "utility")

_NAMES = ("key", "created", *SearchColumns.__dataclass_fields__)

_DESIGN = f"SELECT {', '.join(_NAMES)} FROM darrm_solutions"

_UNTAGGED = "key NOT IN (SELECT key FROM darrm_design_tags)"


@dataclass(frozen=True)
class StoredDesign:
    """One stored answer in a list: what its record says was asked, unproved, and its tags."""

    key: str  # content key
    created: str  # when it was stored (UTC, ISO 8601); for people, nothing depends on it
    about: SearchColumns | None  # the question, and the utility; None where the record does not say
    tags: tuple[str, ...]  # in order


@dataclass(frozen=True)
class DesignFilter:
    """Which designs to list; None leaves a property open."""

    K: int | None = None  # number of voters
    epsilon: float | None = None  # ε of one voter [nats]; may be infinite
    m: float | None = None  # allowance, target ε over voter ε
    tag: str | None = None  # one that it must have

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
"""The filter that leaves nothing out."""


def check_tag(tag: str) -> None:
    """Refuse a text that is no tag.

    >>> check_tag("round-2")
    """
    if not re.fullmatch(TAG_PATTERN, tag):
        raise InvalidInput(
            "tag", tag, "1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit"
        )


class Designs:
    """Stored designs and their tags. Safe to use from several threads; in a database also from several processes.

    Every method raises CacheError where the place cannot be used, and has then changed nothing.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self, design_filter: DesignFilter = EVERY, limit: int = PAGE_SIZE, after: str | None = None
    ) -> Sequence[StoredDesign]:
        """Return designs of this version, the newest first."""
        if not 1 <= limit <= MAX_LISTED:
            raise InvalidInput("limit", limit, f"a whole number from 1 to {MAX_LISTED}")
        newest = "ORDER BY created DESC, key DESC"
        where, values = _matching(design_filter)
        with self._database.reading() as statements:
            if after is not None:
                last = statements.rows("SELECT created, key FROM darrm_solutions WHERE key = :key", key=after)
                if not last:
                    raise InvalidInput("after", after, "the id of a design that is stored")
                where += " AND (created, key) < (:created, :key)"
                values |= {"created": last[0][0], "key": last[0][1]}
            # of columns of one index alone, so that no record is passed over
            page = f"SELECT key FROM darrm_solutions WHERE {where} {newest} LIMIT :limit"
            return _designs(statements, f"{_DESIGN} WHERE key IN ({page}) {newest}", limit=limit, **values)

    def get(self, key: str) -> StoredDesign | None:
        """Return one design, or None where there is none of this version."""
        with self._database.reading() as statements:
            return _design(statements, key)

    def evict(self, max_bytes: int | None = None, before: str | None = None) -> int:
        """Remove answers without a tag, the ones stored longest ago first; return how many.

        Args:
            max_bytes: bound on the records of all answers together, those with tags too [bytes]; None: no bound.
            before: remove every one that was stored before this time (UTC, ISO 8601); None: none for its age.
        """
        oldest = (
            f"SELECT key, created, length(record) FROM darrm_solutions WHERE {_UNTAGGED} "
            f"ORDER BY created, key LIMIT {MAX_EVICTED_AT_ONCE}"
        )
        count = 0
        while True:  # a page is one transaction: others can write in between
            with self._database.writing() as statements:
                [(total,)] = statements.rows("SELECT coalesce(sum(length(record)), 0) FROM darrm_solutions")
                excess = 0 if max_bytes is None else int(total) - max_bytes
                keys: list[str] = []
                for key, created, size in statements.rows(oldest):
                    if excess <= 0 and not (before is not None and str(created) < before):
                        break
                    keys.append(str(key))
                    excess -= int(size)
                deletion = f"DELETE FROM darrm_solutions WHERE {is_listed(statements)} AND {_UNTAGGED}"
                removed = statements.change(deletion, [{"keys": statements.listed(keys)}]) if keys else 0
            count += removed
            if len(keys) < MAX_EVICTED_AT_ONCE or not removed:
                return count

    def tag(self, key: str, tag: str) -> StoredDesign | None:
        """Give a design a tag, unless it has it; return it as it then stands, or None where there is none."""
        check_tag(tag)
        with self._database.writing() as statements:
            # locked, so that two who tag it at once are counted, and one who removes it leaves no tag behind
            locked = (
                f"SELECT key FROM darrm_solutions WHERE key = :key AND core = :core {FOR_UPDATE[statements.dialect]}"
            )
            if not statements.rows(locked, key=key, core=CORE):
                return None
            other_tags = "SELECT count(*) FROM darrm_design_tags WHERE key = :key AND tag <> :tag"
            [(count,)] = statements.rows(other_tags, key=key, tag=tag)
            if int(count) >= MAX_TAGS:
                raise InvalidInput("tag", tag, f"at most {MAX_TAGS} tags of one design", "Take one away first.")
            insertion = (
                "INSERT INTO darrm_design_tags (key, tag, created) VALUES (:key, :tag, :created) ON CONFLICT DO NOTHING"
            )
            statements.rows(insertion, key=key, tag=tag, created=datetime.now(UTC).isoformat(timespec="seconds"))
            return _design(statements, key)

    def untag(self, key: str, tag: str) -> StoredDesign | None:
        """Take a tag from a design, if it has it; return it as it then stands, or None where there is none."""
        check_tag(tag)
        with self._database.writing() as statements:
            statements.rows("DELETE FROM darrm_design_tags WHERE key = :key AND tag = :tag", key=key, tag=tag)
            return _design(statements, key)


def _matching(design_filter: DesignFilter) -> tuple[str, dict[str, Any]]:
    """Return the conditions of a filter, and their values."""
    conditions, values = ["core = :core"], dict[str, Any](core=CORE)
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
        conditions.append("key IN (SELECT key FROM darrm_design_tags WHERE tag = :tag)")
        values["tag"] = design_filter.tag
    return " AND ".join(conditions), values


def _close_to(number: float) -> tuple[float, float]:
    return number * (1 - CLOSE), number * (1 + CLOSE)


def _design(statements: Statements, key: str) -> StoredDesign | None:
    designs = _designs(statements, f"{_DESIGN} WHERE key = :key AND core = :core", key=key, core=CORE)
    return designs[0] if designs else None


def _designs(statements: Statements, page: str, **values: Any) -> Sequence[StoredDesign]:
    """Return the designs of a page, with their tags."""
    rows = [dict(zip(_NAMES, row, strict=True)) for row in statements.rows(page, **values)]
    keys = [str(row["key"]) for row in rows]
    tags: dict[str, list[str]] = {}
    query = f"SELECT key, tag FROM darrm_design_tags WHERE {is_listed(statements)} ORDER BY tag"
    for key, tag in statements.rows(query, keys=statements.listed(keys)):
        tags.setdefault(str(key), []).append(str(tag))
    return [
        StoredDesign(str(row["key"]), str(row["created"]), _columns(row), tuple(tags.get(str(row["key"]), ())))
        for row in rows
    ]


def _columns(values: Any) -> SearchColumns | None:
    """Return what the columns of a row say, which in SQLite can be of any type; None where they do not say."""
    columns = {name: values[name] for name in SearchColumns.__dataclass_fields__}
    numbers = all(isinstance(columns[name], float | int) for name in _NUMBERS)
    counts = all(isinstance(columns[name], int) for name in ("voters", "affected"))
    if not (numbers and counts and isinstance(columns["objective"], str) and is_shape(columns["shape"])):
        return None
    return SearchColumns(**columns | {name: float(columns[name]) for name in _NUMBERS})
