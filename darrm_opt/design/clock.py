"""Clock of one solve: the deadline of its searches, the time for its last proof, and the seconds of each phase."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from darrm_opt.design.separation.result import TimeLimitReached

GRACE = 0.2
"""Share of the time limit, at least `MIN_GRACE` seconds, that proving the best γ so far may take beyond it."""

MIN_GRACE = 0.8


class SolveClock:
    """Deadlines of one solve and a stopwatch for its phases; all times in seconds, by `time.perf_counter`.

    Args:
        limit: seconds from now after which searches stop; None: no limit.
        parent: clock of the solve on whose behalf this one runs: the end of its last proof holds here, too.

    Attributes:
        deadline: when searches stop; inf without a limit.
        proof_deadline: when the last proof stops; inf until that has begun.
        seconds: time by phase: "program" (the LP solver), "search" (worst cases), "certify", "total".
    """

    def __init__(self, limit: float | None, parent: SolveClock | None = None) -> None:
        self.limit = limit
        self._start = time.perf_counter()
        self.deadline = math.inf if limit is None else self._start + limit
        self.proof_deadline: float = math.inf if parent is None else parent.proof_deadline
        self.seconds = {"program": 0.0, "search": 0.0, "certify": 0.0, "total": 0.0}

    @property
    def grace(self) -> float:
        """How long the last proof may take beyond the limit."""
        return math.inf if self.limit is None else max(MIN_GRACE, GRACE * self.limit)

    @property
    def elapsed(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self._start

    @property
    def remaining(self) -> float | None:
        """Time until the deadline, negative once it has passed; None without a limit."""
        return None if self.limit is None else self.limit - self.elapsed

    @property
    def remaining_for_fallback(self) -> float | None:
        """Time that looking for a γ to fall back on may take: half of what is left once the last proof has begun."""
        if self.proof_deadline < math.inf:
            return (self.proof_deadline - time.perf_counter()) / 2
        return self.remaining

    def begin_proof(self) -> None:
        """Start the time of the last proof, unless the parent has."""
        if self.proof_deadline == math.inf:
            self.proof_deadline = time.perf_counter() + self.grace

    def check(self) -> None:
        """Give up if it is time.

        Raises:
            TimeLimitReached: the deadline has passed.
        """
        if time.perf_counter() > self.deadline:
            raise TimeLimitReached

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - start
