"""Proofs of this process: one for each stored text and question, remembered by their hashes.

A proof of a row is a pure function of the row's text and of the question, and takes from milliseconds to seconds. A
process that serves reads the same rows again and again: it proves each once. The key is the SHA-256 computed from the
text that was read, never the one stored beside it, so a text that was changed by one byte is another text.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from solver_cache.kinds import Answer

MAX_PROOF_BYTES = 64 * 2**20
"""Memory for the solutions that are remembered, estimated by the length of their texts [bytes]."""


class Proofs:
    """Solutions that were proved in this process; the least recently used leave first. Safe to share between threads.

    Args:
        max_bytes: length of their texts together [bytes].
    """

    def __init__(self, max_bytes: int = MAX_PROOF_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._proofs: OrderedDict[tuple[str, str], tuple[Answer, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str, key: str) -> Answer | None:
        """Return the solution with this text, proved for this question; None if it is not remembered.

        Args:
            digest: SHA-256 of the text, computed from it.
            key: content key of the question (`DesignSpec.key`).
        """
        with self._lock:
            proof = self._proofs.get((digest, key))
            if proof is None:
                return None
            self._proofs.move_to_end((digest, key))
            return proof[0]

    def add(self, digest: str, key: str, solution: Answer, length: int) -> None:
        """Remember a solution that this process proved for a question, stated by a text of ``length`` characters."""
        with self._lock:
            if (digest, key) in self._proofs:
                return
            self._proofs[digest, key] = solution, length
            self._bytes += length
            while self._bytes > self._max_bytes:
                self._bytes -= self._proofs.popitem(last=False)[1][1]

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._proofs)


PROOFS = Proofs()
"""The proofs of this process."""
