"""Solved once, kept, and proved again whenever it is read.

Importing this package is cheap: SQLAlchemy is imported by `open_store`, and only for a database.

>>> from darrm_opt import Problem
>>> from solver_cache import MemoryStore, cached_solve
>>> store = MemoryStore()
>>> problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
>>> [cached_solve(problem, store=store).found for _ in range(2)]
['miss', 'hit']
"""

from solver_cache.check import Finding, check
from solver_cache.errors import CacheError, ReadOnlyCache
from solver_cache.examine import Decision, Found, examine, inspect
from solver_cache.jobs import Job, Jobs, open_jobs
from solver_cache.key import CORE, Request
from solver_cache.nearest import Nearest, nearest
from solver_cache.place import cache_url
from solver_cache.row import Row
from solver_cache.solve import CachedSolution, cached_solve, keep, recall
from solver_cache.store import MemoryStore, NoStore, Store, open_store

__all__ = [
    "CORE",
    "CacheError",
    "CachedSolution",
    "Decision",
    "Finding",
    "Found",
    "Job",
    "Jobs",
    "MemoryStore",
    "Nearest",
    "NoStore",
    "ReadOnlyCache",
    "Request",
    "Row",
    "Store",
    "cache_url",
    "cached_solve",
    "check",
    "examine",
    "inspect",
    "keep",
    "nearest",
    "open_jobs",
    "open_store",
    "recall",
]
