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

from sqlalchemy import Connection, Select, delete, func, select, tuple_

from darrm_opt.errors import InvalidInput
from darrm_opt.problem import number_of_voters
from darrm_opt.record import CORE
from solver_cache.database.connection import Database
from solver_cache.database.engine import insert_new, is_among
from solver_cache.database.jobs import PAGE_SIZE
from solver_cache.database.tables import SOLUTIONS, TAGS
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

_DESIGN = (SOLUTIONS.c.key, SOLUTIONS.c.created, *(SOLUTIONS.c[name] for name in SearchColumns.__dataclass_fields__))


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
        columns = SOLUTIONS.c
        newest = columns.created.desc(), columns.key.desc()
        page = _matching(design_filter).order_by(*newest).limit(limit)
        with self._database.reading() as connection:
            if after is not None:
                query = select(columns.created, columns.key).where(columns.key == after)
                last_row = connection.execute(query).one_or_none()
                if last_row is None:
                    raise InvalidInput("after", after, "the id of a design that is stored")
                page = page.where(tuple_(columns.created, columns.key) < tuple_(*last_row))
            return _designs(connection, select(*_DESIGN).where(columns.key.in_(page)).order_by(*newest))

    def get(self, key: str) -> StoredDesign | None:
        """Return one design, or None where there is none of this version."""
        with self._database.reading() as connection:
            return _design(connection, key)

    def evict(self, max_bytes: int | None = None, before: str | None = None) -> int:
        """Remove answers without a tag, the ones stored longest ago first; return how many.

        Args:
            max_bytes: bound on the records of all answers together, those with tags too [bytes]; None: no bound.
            before: remove every one that was stored before this time (UTC, ISO 8601); None: none for its age.
        """
        columns = SOLUTIONS.c
        untagged = columns.key.not_in(select(TAGS.c.key))
        oldest = select(columns.key, columns.created, func.length(columns.record)).where(untagged)
        oldest = oldest.order_by(columns.created, columns.key).limit(MAX_EVICTED_AT_ONCE)
        count = 0
        while True:  # a page is one transaction: others can write in between
            with self._database.writing() as connection:
                total = connection.execute(select(func.coalesce(func.sum(func.length(columns.record)), 0))).scalar_one()
                excess = 0 if max_bytes is None else int(total) - max_bytes
                keys: list[str] = []
                for key, created, size in connection.execute(oldest):
                    if excess <= 0 and not (before is not None and str(created) < before):
                        break
                    keys.append(str(key))
                    excess -= int(size)
                is_chosen = is_among(self._database.dialect, columns.key, keys)
                removed = connection.execute(delete(SOLUTIONS).where(is_chosen, untagged)).rowcount if keys else 0
            count += removed
            if len(keys) < MAX_EVICTED_AT_ONCE or not removed:
                return count

    def tag(self, key: str, tag: str) -> StoredDesign | None:
        """Give a design a tag, unless it has it; return it as it then stands, or None where there is none."""
        check_tag(tag)
        with self._database.writing() as connection:
            # locked, so that two who tag it at once are counted, and one who removes it leaves no tag behind
            design = select(SOLUTIONS.c.key).where(SOLUTIONS.c.key == key, SOLUTIONS.c.core == CORE).with_for_update()
            if connection.execute(design).one_or_none() is None:
                return None
            other_tags = select(func.count()).select_from(TAGS).where(TAGS.c.key == key, TAGS.c.tag != tag)
            if int(connection.execute(other_tags).scalar_one()) >= MAX_TAGS:
                raise InvalidInput("tag", tag, f"at most {MAX_TAGS} tags of one design", "Take one away first.")
            now = datetime.now(UTC).isoformat(timespec="seconds")
            connection.execute(insert_new(self._database.dialect, TAGS, key=key, tag=tag, created=now))
            return _design(connection, key)

    def untag(self, key: str, tag: str) -> StoredDesign | None:
        """Take a tag from a design, if it has it; return it as it then stands, or None where there is none."""
        check_tag(tag)
        with self._database.writing() as connection:
            connection.execute(delete(TAGS).where(TAGS.c.key == key, TAGS.c.tag == tag))
            return _design(connection, key)


def _matching(design_filter: DesignFilter) -> Select[tuple[str]]:
    """Return the query for the keys of designs: of columns of one index alone, so that no record is passed over."""
    columns = SOLUTIONS.c
    page = select(columns.key).where(columns.core == CORE)
    if design_filter.K is not None:
        page = page.where(columns.voters == design_filter.K)
    if design_filter.epsilon is not None:
        page = page.where(columns.voter_epsilon.between(*_close_to(design_filter.epsilon)))
    if design_filter.m is not None:
        low, high = _close_to(design_filter.m)
        target, voter = columns.target_epsilon, columns.voter_epsilon
        page = page.where(voter > 0, voter < math.inf, target >= low * voter, target <= high * voter)
    if design_filter.tag is not None:
        page = page.where(columns.key.in_(select(TAGS.c.key).where(TAGS.c.tag == design_filter.tag)))
    return page


def _close_to(number: float) -> tuple[float, float]:
    return number * (1 - CLOSE), number * (1 + CLOSE)


def _design(connection: Connection, key: str) -> StoredDesign | None:
    designs = _designs(connection, select(*_DESIGN).where(SOLUTIONS.c.key == key, SOLUTIONS.c.core == CORE))
    return designs[0] if designs else None


def _designs(connection: Connection, page: Select[Any]) -> Sequence[StoredDesign]:
    """Return the designs of a page, with their tags."""
    rows = connection.execute(page).mappings().all()
    keys = [str(row["key"]) for row in rows]
    tags: dict[str, list[str]] = {}
    for key, tag in connection.execute(select(TAGS.c.key, TAGS.c.tag).where(TAGS.c.key.in_(keys)).order_by(TAGS.c.tag)):
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
