"""Process: the processors it may use, its identity, and what its forked children must not inherit.

An account in memory remembers the process that made it, so that a copy made by ``fork`` has nothing left. A file whose
lock a process holds is closed in its children, which would hold the lock as long as they live.
"""

from __future__ import annotations

import os
from io import FileIO
from weakref import WeakSet

_forks = 0
_files: WeakSet[FileIO] = WeakSet()


def process_identity() -> tuple[int, int]:
    """Return a value that differs between a process and all its forked children, also if a process id is reused."""
    return os.getpid(), _forks


def close_in_forks(file: FileIO) -> FileIO:
    """Return a file, which is closed at once in every child that is forked from now on."""
    _files.add(file)
    return file


def _begin_child() -> None:
    global _forks  # noqa: PLW0603 - one number for each process is the point
    _forks += 1
    for file in _files:
        file.close()


if hasattr(os, "register_at_fork"):  # elsewhere processes do not fork
    os.register_at_fork(after_in_child=_begin_child)


def usable_processors() -> int:
    """Return how many processors this process may use, ≥ 1; where the system does not say, how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
