"""Cache of certified solutions: each problem is solved once, stored, and re-proved on every read.

Importing this package is cheap; SQLAlchemy is imported only for PostgreSQL.

>>> from darrm_opt import Problem
>>> from solver_cache import cached_solve, open_store
>>> store = open_store("memory")
>>> problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
>>> [cached_solve(problem, store=store).decision for _ in range(2)]
['miss', 'hit']
"""

from typing import TYPE_CHECKING, Any

from darrm_opt.record import CORE, DesignSpec
from solver_cache.location import CacheError, ReadOnlyCache, cache_url
from solver_cache.model import Decision, Row
from solver_cache.nearest import Nearest, nearest
from solver_cache.solve import CachedSolution, cached_solve, cached_table, keep, recall
from solver_cache.store import NoStore, Store, open_store
from solver_cache.validate import Finding, Validation, check, validate_row

if TYPE_CHECKING:
    from solver_cache.database.jobs import Job

__all__ = [
    "CORE",
    "CacheError",
    "CachedSolution",
    "Decision",
    "DesignSpec",
    "Finding",
    "Job",
    "Nearest",
    "NoStore",
    "ReadOnlyCache",
    "Row",
    "Store",
    "Validation",
    "cache_url",
    "cached_solve",
    "cached_table",
    "check",
    "keep",
    "nearest",
    "open_store",
    "recall",
    "validate_row",
]


def __getattr__(name: str) -> Any:
    """Import `Job` on first use."""
    if name != "Job":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from solver_cache.database.jobs import Job

    return Job
