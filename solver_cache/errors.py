"""Errors of the cache, with advice on what to do."""

from __future__ import annotations

from darrm_opt.errors import DarrmError


class CacheError(DarrmError):
    """The store cannot be used; nothing was half-written there.

    Attributes:
        url: the place, without its password.
        trouble: what is wrong with it.
        advice: what to do about it.
    """

    def __init__(self, url: str, trouble: str, advice: str) -> None:
        self.url = url
        self.trouble = trouble
        self.advice = advice
        super().__init__(f"The cache at {url} cannot be used: {trouble}. {advice}")


class ReadOnlyCache(CacheError):
    """Write to a store that was opened for reading only."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "it is opened for reading only", "Take ?mode=ro off its URL to write to it.")


ELSEWHERE = "Set DARRM_CACHE_URL to another place, or to 'off' to store nothing."
"""Advice that fits wherever the place itself cannot be mended from here."""

DAMAGED = "Its file is damaged: move it away. Answers are solved again; jobs, webhooks and tags in it are lost."
"""Advice for a file that is not what it was."""
