"""In-memory claims of keys, for stores that hold nothing beyond the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from solver_cache.jobs import MAX_LEASE_SECONDS, check_claim
from solver_cache.model import ClaimResult


class MemoryClaims:
    """Claims of keys. Safe to share between threads.

    Args:
        clock: what time it is [s since 1970-01-01 UTC].
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._claims: dict[str, tuple[str, float]] = {}
        self._lock = threading.RLock()

    def take(self, owner: str, lease_seconds: float, keys: Collection[str]) -> dict[str, ClaimResult]:
        """Claim keys, as `solver_cache.store.Store.claim` says."""
        check_claim(owner, lease_seconds)
        with self._lock:
            now = self._clock()
            results: dict[str, ClaimResult] = {}
            for key in keys:
                holder, lease_until = self._claims.get(key, ("", now))
                if holder in {"", owner} or not 0 <= lease_until - now <= MAX_LEASE_SECONDS:
                    self._claims[key] = owner, now + lease_seconds
                results[key] = "taken" if self._claims[key][0] == owner else "held"
            return results

    def own(self, owner: str, keys: Collection[str]) -> set[str]:
        """Return those of ``keys`` that ``owner`` claimed, and nobody took over."""
        with self._lock:
            return {key for key in keys if self._claims.get(key, ("", 0.0))[0] == owner}

    def renew(self, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
        """Hold claims for longer, as `solver_cache.store.Store.renew_claims` says."""
        check_claim(owner, lease_seconds)
        with self._lock:
            self._claims |= dict.fromkeys(self.own(owner, keys), (owner, self._clock() + lease_seconds))

    def end(self, owner: str, keys: Collection[str]) -> set[str]:
        """End claims; return those that ``owner`` held."""
        with self._lock:
            own_keys = self.own(owner, keys)
            for key in own_keys:
                del self._claims[key]
            return own_keys
