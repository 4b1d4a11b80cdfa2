"""Processors that this process may use."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """Return how many processors this process may use, ≥ 1; where the system does not say, how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
