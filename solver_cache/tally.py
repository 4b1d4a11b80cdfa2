"""How often a store had the answer."""

from __future__ import annotations

import threading
from collections import Counter

from solver_cache.examine import Decision


class Tally:
    """Counts decisions; safe to share between threads.

    >>> tally = Tally()
    >>> tally.add("hit")
    >>> tally.counts
    {'hit': 1, 'miss': 0, 'damaged': 0, 'stale': 0}
    """

    def __init__(self) -> None:
        self._counts: Counter[Decision] = Counter()
        self._lock = threading.Lock()

    def add(self, decision: Decision) -> None:
        """Count one look into the store."""
        with self._lock:
            self._counts[decision] += 1

    @property
    def counts(self) -> dict[Decision, int]:
        """Looks so far, by decision."""
        with self._lock:
            return {decision: self._counts[decision] for decision in ("hit", "miss", "damaged", "stale")}
