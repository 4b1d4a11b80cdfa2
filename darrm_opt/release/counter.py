"""`ReleaseCounter`: releases that are counted in the memory of one process."""

from __future__ import annotations

import threading

import numpy as np

from darrm_opt.process import process_identity
from darrm_opt.release.errors import BudgetSpent
from darrm_opt.release.log import Draw
from darrm_opt.tables.problem import ABSTENTION
from darrm_opt.tables.votes import Labels


class ReleaseCounter:
    """Counter of releases in this process. Copies have nothing left, or they would be free.

    Args:
        limit: releases allowed in all, ≥ 0.

    Guarantees:
        No more answers leave than ``limit``, whatever threads and forks do; each is charged before it is drawn.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spent = self._labels = 0
        self._lock = threading.Lock()
        self._process = process_identity()

    @property
    def left(self) -> int:
        """Releases that are left; none in a process that was forked from the one that made it."""
        return self.limit - self._spent if self._process == process_identity() else 0

    def charge_and_release(self, count: int, draw: Draw) -> Labels:
        """Charge ``count`` releases, then draw and return them, as `ReleaseLog.charge_and_release`.

        Args:
            count: how many answers.
            draw: draws them, given how many classes were released before.

        Raises:
            BudgetSpent: fewer are left; nothing was charged, and nothing drawn.
        """
        # before the lock, which another thread may have held when it was copied
        self._refuse_fork(count)
        with self._lock:
            if count > self.left:
                raise BudgetSpent(f"{self.limit} predictions", self.limit, self._spent, count)
            self._spent += count
            labels = draw(self._labels)
            self._refuse_fork(count)  # a child that was forked meanwhile: one charge, one answer
            self._labels += int(np.count_nonzero(labels != ABSTENTION))
        return labels

    def _refuse_fork(self, count: int) -> None:
        if self._process != process_identity():
            raise BudgetSpent(f"{self.limit} predictions of the process that was forked", self.limit, self.limit, count)

    def __getstate__(self) -> dict[str, int]:
        return {"limit": self.limit}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__init__(state["limit"])  # type: ignore[misc]  # on a new object
        self._spent = self.limit
