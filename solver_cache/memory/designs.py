"""In-memory designs: the rows of a memory store as a list, and their tags."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from solver_cache.designs import (
    EVERY,
    MAX_TAGS,
    DesignFilter,
    StoredDesign,
    check_list,
    check_tag,
    too_many_tags,
    unknown_after,
)
from solver_cache.jobs import PAGE_SIZE
from solver_cache.model import SearchColumns


class MemoryDesigns:
    """`solver_cache.designs.Designs` in memory.

    Args:
        created: when each row of this version was stored, by key, the oldest first.
        search_columns: what the rows say was asked, by key.
    """

    def __init__(
        self, created: Callable[[], Mapping[str, str]], search_columns: Callable[[], Mapping[str, SearchColumns]]
    ) -> None:
        self._created, self._search_columns = created, search_columns
        self._tags: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def list(
        self,
        design_filter: DesignFilter = EVERY,
        limit: int = PAGE_SIZE,
        after: str | None = None,
    ) -> Sequence[StoredDesign]:
        """Return designs, the newest first, as `Designs.list` says."""
        check_list(limit)
        created, columns = self._created(), self._search_columns()
        if after is not None and after not in created:
            raise unknown_after(after)
        keys = sorted(created, key=lambda key: (created[key], key), reverse=True)
        if after is not None:
            keys = keys[keys.index(after) + 1 :]
        tag = design_filter.tag
        keys = [key for key in keys if design_filter.fits(columns.get(key)) and self._has(key, tag)]
        return [self._design(key, created[key], columns.get(key)) for key in keys[:limit]]

    def get(self, key: str) -> StoredDesign | None:
        """Return one design, as `Designs.get` says."""
        created = self._created().get(key)
        return None if created is None else self._design(key, created, self._search_columns().get(key))

    def tag(self, key: str, tag: str) -> StoredDesign | None:
        """Give a design a tag, as `Designs.tag` says."""
        check_tag(tag)
        with self._lock:
            if key in self._created():
                tags = self._tags.setdefault(key, set())
                if len(tags - {tag}) >= MAX_TAGS:
                    raise too_many_tags(tag)
                tags.add(tag)
        return self.get(key)

    def untag(self, key: str, tag: str) -> StoredDesign | None:
        """Take a tag from a design, as `Designs.untag` says."""
        check_tag(tag)
        with self._lock:
            self._tags.get(key, set()).discard(tag)
        return self.get(key)

    def forget(self, key: str) -> None:
        """Forget the tags of a row that is removed."""
        with self._lock:
            self._tags.pop(key, None)

    def _has(self, key: str, tag: str | None) -> bool:
        return tag is None or tag in self._tags.get(key, ())

    def _design(self, key: str, created: str, columns: SearchColumns | None) -> StoredDesign:
        return StoredDesign(key, created, columns, tuple(sorted(self._tags.get(key, ()))))
