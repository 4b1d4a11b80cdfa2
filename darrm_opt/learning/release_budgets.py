"""Budgets of a classifier, counted in memory or in a file: `left`, and `charge_and_release`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

from darrm_opt.mechanism import BudgetSpent
from darrm_opt.mechanism.durable_log import DurableLog
from darrm_opt.process import process_identity

Answers = TypeVar("Answers", bound=NDArray[Any])


class ReleaseCounter:
    """Counter of releases in this process. Copies have nothing left, or they would be free.

    Args:
        limit: releases allowed in all, ≥ 0.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spent = 0
        self._lock = threading.Lock()
        self._process = process_identity()

    @property
    def left(self) -> int:
        """Releases that are left; none in a process that was forked from the one that made it."""
        return self.limit - self._spent if self._process == process_identity() else 0

    def charge_and_release(self, count: int, draw: Callable[[], Answers]) -> Answers:
        """Charge ``count`` releases, then draw and return them.

        Raises:
            BudgetSpent: fewer are left; nothing was charged, and nothing drawn.
        """
        # before the lock, which another thread may have held when it was copied
        if self._process != process_identity():
            raise BudgetSpent(f"{self.limit} predictions of the process that was forked", self.limit, self.limit, count)
        with self._lock:
            if count > self.left:
                raise BudgetSpent(f"{self.limit} predictions", self.limit, self._spent, count)
            self._spent += count
        return draw()

    def __getstate__(self) -> dict[str, int]:
        return {"limit": self.limit}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__init__(state["limit"])  # type: ignore[misc]  # on a new object
        self._spent = self.limit


class ReopenedLog:
    """Release log that is opened anew for each use, so that copies of this object and forked processes share it.

    Args:
        log: the log.
        subject: what it is for: a `Release`, or a plurality mechanism.
    """

    def __init__(self, log: DurableLog[Any, Any], subject: Any) -> None:
        self._kind, self._path, self._subject = type(log), log.path, subject

    @property
    def left(self) -> int:
        """Releases that are left."""
        return self._open().left

    def charge_and_release(self, count: int, draw: Callable[[], Answers]) -> Answers:
        """Draw ``count`` releases, charge and return them, as `DurableLog.charge_and_release`."""
        answers: Answers = self._open().charge_and_release(count, draw)
        return answers

    def _open(self) -> DurableLog[Any, Any]:
        log = self._kind(self._path)
        log.check_is_for(self._subject)  # it may have been replaced
        return log
