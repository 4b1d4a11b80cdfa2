"""Identity of a process: an account in memory remembers it, so that a copy made by ``fork`` has nothing left."""

from __future__ import annotations

import os

_forks = 0


def process_identity() -> tuple[int, int]:
    """Return a value that differs between a process and all its forked children, also if a process id is reused."""
    return os.getpid(), _forks


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 - one number for each process is the point
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)
