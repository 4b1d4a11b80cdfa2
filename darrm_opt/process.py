"""Process: its processors, its identity, and what forked children must not inherit.

An account in memory remembers the process that made it, so that a copy made by ``fork`` has no budget left. A locked
file is closed in the children, which would otherwise hold the lock for their lifetime.
"""

from __future__ import annotations

import os
from io import FileIO
from weakref import WeakSet

_forks = 0
_files: WeakSet[FileIO] = WeakSet()


def process_identity() -> tuple[int, int]:
    """Return a value that differs between a process and all its forked children, even if a process id is reused."""
    return os.getpid(), _forks


def close_in_forks(file: FileIO) -> FileIO:
    """Return ``file`` and close it at once in every child forked from now on."""
    _files.add(file)
    return file


def _begin_child() -> None:
    global _forks  # noqa: PLW0603 - a counter per process
    _forks += 1
    for file in _files:
        file.close()


if hasattr(os, "register_at_fork"):  # elsewhere processes do not fork
    os.register_at_fork(after_in_child=_begin_child)


def usable_processors() -> int:
    """Return the number of processors that this process may use, ≥ 1; if unknown, the number that exist."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
