"""Stored designs as people look at them: newest first, filtered, with tags. Nothing is proved here, and no γ is read.

A tag is a word beside the content key of an answer, in a place of its own: it is never a part of the row, so it can
change neither an answer nor its proof. It lasts as long as the row does. Tags are shared: everyone who uses a store
sees the same ones.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from darrm_opt.errors import InvalidInput
from darrm_opt.problem import number_of_voters
from solver_cache.model import SearchColumns

TAG_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Form of a tag."""

MAX_TAGS = 32
"""Most tags of one design."""

MAX_LISTED = 1000
"""Most designs of one list."""

CLOSE = 1e-9
"""Relative difference up to which ε and m are what a filter asks for: 0.3/0.1 is 3."""


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


def too_many_tags(tag: str) -> InvalidInput:
    """Return the error of a tag beyond `MAX_TAGS`."""
    return InvalidInput("tag", tag, f"at most {MAX_TAGS} tags of one design", "Take one away first.")


def check_list(limit: int) -> None:
    """Refuse a limit that is out of range."""
    if not 1 <= limit <= MAX_LISTED:
        raise InvalidInput("limit", limit, f"a whole number from 1 to {MAX_LISTED}")


def unknown_after(after: str) -> InvalidInput:
    """Return the error of a page behind a design that is not there."""
    return InvalidInput("after", after, "the id of a design that is stored")
