"""Look it up, else solve it and keep it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import get_args

from darrm_opt.design.backends import BACKENDS
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.solution import Solution, Watcher
from darrm_opt.design.solver import Method, Shape, solve
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Problem
from solver_cache.errors import CacheError, ReadOnlyCache
from solver_cache.examine import Decision, Found, examine
from solver_cache.key import Request
from solver_cache.row import Row, row_of
from solver_cache.store import Store

_LOG = logging.getLogger("solver_cache")


@dataclass(frozen=True)
class CachedSolution:
    """A certified solution, and where it came from.

    Attributes:
        solution: what was asked for; certified by this process, also when it was read from the store.
        found: what the look into the store came to: "hit", "miss", "damaged" or "stale".
        kept: whether the store holds this answer now. An answer that is not optimal (a time limit) is not kept.
        trouble: why an optimal answer could not be kept; usually empty.
    """

    solution: Solution
    found: Decision
    kept: bool
    trouble: str = ""

    @property
    def hit(self) -> bool:
        """Whether the answer was there already."""
        return self.found == "hit"


def cached_solve(
    problem: Problem,
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    method: Method = "auto",
    backend: str = "highs",
    *,
    store: Store,
    time_limit: float | None = None,
    progress: Watcher | None = None,
) -> CachedSolution:
    """Return the certified optimal γ, from the store where it is kept, else by solving.

    Args:
        problem: as in `darrm_opt.solve`, like the next two.
        objective: what "utility" weighs.
        shape: "free" or "monotone".
        method: how to solve if it has to be solved; a kept answer is the same whatever made it.
        backend: as ``method``.
        store: where answers are kept (`solver_cache.open_store`).
        time_limit: [s]; an answer cut short by it is returned, with its gap, but not kept: a key has one answer, the
            optimal one, and not whatever a busy machine came to.
        progress: called after every round of a solve.

    Guarantees:
        The γ is private exactly as stored, proved by this process; whatever the store holds. A row that is damaged,
        tampered with or from another version is a miss: it is logged, counted and replaced.

    Raises:
        InvalidInput: an argument is outside what is accepted; the same whether the answer is kept or not.
        BackendUnavailable: it must be solved, and the solver is not installed or its licence is too small.
        CacheError: the store cannot be read. If it cannot be *written*, the answer is returned with its `trouble`.
    """
    request = Request(problem, objective, shape)
    _check_choices(method, backend, time_limit)
    row, found = _look(request, store)
    if found.solution is not None:
        return CachedSolution(found.solution, found.decision, kept=True)
    solution = solve(problem, request.objective, shape, method, backend, time_limit=time_limit, progress=progress)
    if not solution.status.settled:
        return CachedSolution(solution, found.decision, kept=False)
    return _keep(solution, request, store, row, found.decision)


def recall(request: Request, store: Store) -> Solution | None:
    """Return the answer to ``request`` that ``store`` has, proved again, or None; nothing is solved.

    Raises:
        CacheError: the store cannot be read.
    """
    return _look(request, store)[1].solution


def keep(solution: Solution, store: Store) -> CachedSolution:
    """Keep a ``solution`` that was made elsewhere, such as in another process, in ``store``; return the one that then stands.

    Its ``found`` says what was there before: "hit" (and that answer stands), "miss", "damaged" or "stale" (and the new
    answer takes its place). An answer that solving again may better is not kept. The store's tally counts nothing: nobody asked.

    Raises:
        CacheError: the store cannot be read. If it cannot be *written*, the answer is returned with its `trouble`.
    """
    request = Request(solution.problem, solution.objective, "monotone" if solution.shape == "monotone" else "free")
    row = store.get(request.key)
    found = examine(row, request)
    if found.solution is not None:
        return CachedSolution(found.solution, found.decision, kept=True)
    if not solution.status.settled:
        return CachedSolution(solution, found.decision, kept=False)
    return _keep(solution, request, store, row, found.decision)


def _look(request: Request, store: Store) -> tuple[Row | None, Found]:
    """Look into the store, count, and report what is wrong."""
    row = store.get(request.key)
    found = examine(row, request)
    store.tally.add(found.decision)
    if found.decision in {"damaged", "stale"}:
        _LOG.warning("%s: row %s is %s and counts as a miss: %s", store.url, request.key, found.decision, found.reason)
    return row, found


def _keep(solution: Solution, request: Request, store: Store, seen: Row | None, decision: Decision) -> CachedSolution:
    """Keep the answer where a bad row, or none, was seen; if another process was first, its answer stands."""
    mine = row_of(solution)
    reread = examine(mine, request)
    if reread.solution is None:  # never keep what would not be believed when read
        return _not_kept(solution, request, store, decision, f"it does not pass its own check: {reread.reason}")
    try:
        standing = store.put(mine, replacing=seen)
    except ReadOnlyCache as err:  # as it was asked for: nothing to warn of
        return CachedSolution(solution, decision, kept=False, trouble=str(err))
    except CacheError as err:
        return _not_kept(solution, request, store, decision, str(err))
    if standing == mine:
        return CachedSolution(solution, decision, kept=True)
    theirs = examine(standing, request).solution
    return CachedSolution(theirs or solution, decision, kept=theirs is not None)


def _not_kept(solution: Solution, request: Request, store: Store, decision: Decision, trouble: str) -> CachedSolution:
    _LOG.warning("%s: the answer to %s is not kept: %s", store.url, request.key, trouble)
    return CachedSolution(solution, decision, kept=False, trouble=trouble)


def _check_choices(method: str, backend: str, time_limit: float | None) -> None:
    """Refuse what `solve` would refuse, also when nothing has to be solved."""
    if method not in get_args(Method):
        raise InvalidInput("method", method, "'auto', 'enumerate' or 'cuts'")
    if backend not in BACKENDS:
        raise InvalidInput("backend", backend, "one of " + ", ".join(BACKENDS))
    if time_limit is not None and not time_limit > 0:
        raise InvalidInput("time_limit", time_limit, "None, or seconds above 0")
