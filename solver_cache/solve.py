"""Cached solving: return the stored answer, proved again, or solve and store it; as objects or as records.

Calls block; a service runs them in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.solution import Solution, Status, Watcher
from darrm_opt.design.solver import Method, Shape, check_choices, solve
from darrm_opt.problem import Problem
from darrm_opt.record import CORE, DesignSpec, canonical_json, digest
from solver_cache.location import CacheError, ReadOnlyCache
from solver_cache.model import Answer, Decision, Row, Spec, kind_of, row_of
from solver_cache.store import NoStore, Store
from solver_cache.validate import Validation, validate_row

if TYPE_CHECKING:
    from darrm_opt.tables.objective import TableObjective
    from darrm_opt.tables.priors import PluralityPrior
    from darrm_opt.tables.record import TableSpec
    from darrm_opt.tables.solver import TableSolution

_LOG = logging.getLogger("solver_cache")


A_co = TypeVar("A_co", bound="Answer", covariant=True)


@dataclass(frozen=True)
class CachedSolution(Generic[A_co]):
    """Certified solution and its origin.

    Attributes:
        solution: the answer, certified by this process even when it was read from the store.
        decision: outcome of the lookup: "hit", "miss", "damaged" or "stale".
        stored: whether the store holds this answer now. An answer that a time limit cut short is not stored.
        trouble: why an optimal answer could not be stored; usually empty.
    """

    solution: A_co
    decision: Decision
    stored: bool
    trouble: str = ""

    @property
    def hit(self) -> bool:
        """Whether the answer was stored already."""
        return self.decision == "hit"


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
) -> CachedSolution[Solution]:
    """Return the certified optimal γ, from the store if possible, else by solving.

    Args:
        problem: as in `darrm_opt.solve`, like ``objective`` and ``shape``.
        objective: the utility to maximise.
        shape: "free" or "monotone".
        method: how to solve; does not affect a stored answer.
        backend: LP solver; as ``method``.
        store: store of answers (`solver_cache.open_store`).
        time_limit: [s]; an answer that it cuts short is returned with its gap, and not stored.
        progress: called after every round of a solve.

    Guarantees:
        The γ is private exactly as stored, proved by this process, whatever the store holds. A row that is damaged,
        tampered with or from another version is a miss; it is logged, counted and replaced.

    Raises:
        InvalidInput: an argument is invalid, whether the answer is stored or not.
        BackendUnavailable: the solver is needed, and is not installed or its licence is too small.
        CacheError: the store cannot be read. If it cannot be *written*, the answer is returned with its `trouble`.
    """
    spec = DesignSpec(problem, objective, shape)
    check_choices(problem, shape, method, backend, time_limit=time_limit)
    return _cached_or_solved(
        spec,
        store,
        lambda: solve(problem, spec.objective, shape, method, backend, time_limit=time_limit, progress=progress),
    )


def cached_table(
    problem: Problem,
    objective: TableObjective | PluralityPrior | str = "dirichlet(1)",
    *,
    store: Store,
    backend: str = "highs",
    time_limit: float | None = None,
) -> CachedSolution[TableSolution]:
    """Return the certified optimal table, from the store if possible, else by solving.

    Args:
        problem: voters, classes and target.
        objective: as in `darrm_opt.tables.solver.solve_table`, like ``backend``.
        store: store of answers.
        backend: LP solver.
        time_limit: [s]; as in `cached_solve`.

    Guarantees:
        As `cached_solve`, for the table.

    Raises:
        InvalidInput: as `solve_table`.
        CacheError: the store cannot be read.
    """
    from darrm_opt.tables.record import TableSpec
    from darrm_opt.tables.solver import solve_table

    spec = TableSpec(problem, objective)
    return _cached_or_solved(
        spec, store, lambda: solve_table(problem, spec.objective, backend=backend, time_limit=time_limit)
    )


def _cached_or_solved(spec: Spec, store: Store, solve_it: Callable[[], Any]) -> CachedSolution[Any]:
    row, validation = _look_up(spec, store)
    if validation.solution is not None:
        return CachedSolution(validation.solution, validation.decision, stored=True)
    return _keep(solve_it(), spec, store, row, validation.decision)


@overload
def recall(spec: DesignSpec, store: Store) -> Solution | None: ...


@overload
def recall(spec: TableSpec, store: Store) -> TableSolution | None: ...


@overload
def recall(spec: Spec, store: Store) -> Answer | None: ...


def recall(spec: Spec, store: Store) -> Answer | None:
    """Return the answer to ``spec`` that ``store`` holds, proved again, or None; never solves.

    Raises:
        CacheError: the store cannot be read.
    """
    return _look_up(spec, store)[1].solution


def keep(solution: Answer, store: Store) -> CachedSolution[Any]:
    """Store a certified ``solution`` that was made elsewhere, such as in another process; return the one now stored.

    A valid stored answer stays (``decision`` "hit"); else the new one is stored ("miss", "damaged" or "stale": what
    was stored before), unless solving again may improve it. The hit counter of ``store`` does not count this.

    Raises:
        CacheError: the store cannot be read. If it cannot be *written*, the answer is returned with its `trouble`.
    """
    spec: Any = kind_of(solution).spec_of(solution)
    row = store.get(spec.key)
    validation = validate_row(row, spec)
    if validation.solution is not None:
        return CachedSolution(validation.solution, validation.decision, stored=True)
    return _keep(solution, spec, store, row, validation.decision)


def _keep_row(
    row: Row, spec: Spec, store: Store, invalid_row: Row | None, clients: Collection[str] = ()
) -> tuple[Answer | None, bool, str]:
    """Store a valid row unless a valid one came first; it may replace ``invalid_row``.

    Returns a valid answer that another process stored first, whether the store holds a valid answer now, and why the
    row could not be stored.
    """
    try:
        stored = store.put(row, replacing=invalid_row, clients=clients)
    except ReadOnlyCache as err:  # as configured: no warning
        return None, False, str(err)
    except CacheError as err:
        return _not_stored(spec, store, str(err))
    if stored == row:
        return None, not isinstance(store, NoStore), ""
    other = validate_row(stored, spec).solution
    return other, other is not None, "" if other else "another row is stored under its key"


def _look_up(spec: Spec, store: Store) -> tuple[Row | None, Validation[Answer]]:
    """Look up a question, count the outcome, and log an invalid row."""
    row = store.get(spec.key)
    validation = validate_row(row, spec)
    store.hits.add(validation.decision)
    if validation.solution is not None:
        store.reads.add(spec.key)
    if validation.decision in {"damaged", "stale"}:
        decision, reason = validation.decision, validation.reason
        _LOG.warning("%s: row %s is %s and counts as a miss: %s", store.url, spec.key, decision, reason)
    return row, validation


def _keep(
    solution: Answer, spec: Spec, store: Store, invalid_row: Row | None, decision: Decision
) -> CachedSolution[Any]:
    """Store a new answer, unless solving again may improve it or it would not be valid when read."""
    if not solution.status.is_final:
        return CachedSolution(solution, decision, stored=False)
    new_row = row_of(solution)
    validation = validate_row(new_row, spec)
    if validation.solution is None:
        other, stored, trouble = _not_stored(spec, store, f"it fails its own validation: {validation.reason}")
    else:
        other, stored, trouble = _keep_row(new_row, spec, store, invalid_row)
    return CachedSolution(other or solution, decision, stored, trouble)


def _not_stored(spec: Spec, store: Store, trouble: str) -> tuple[None, bool, str]:
    _LOG.warning("%s: the answer to %s is not stored: %s", store.url, spec.key, trouble)
    return None, False, trouble


def load_record(key: str, store: Store) -> dict[str, Any] | None:
    """Return the record stored under ``key``, proved again for its own problem, or None."""
    row = store.get(key)
    if row is None:
        return None
    validation = validate_row(row)
    if validation.solution is None:
        _LOG.warning("%s: row %s is %s and is not returned: %s", store.url, key, validation.decision, validation.reason)
        return None
    store.reads.add(key)
    return _record(validation.solution)


def _record(answer: Answer) -> dict[str, Any]:
    return kind_of(answer).record(answer)


def load_records(requests: Sequence[Spec], store: Store) -> list[dict[str, Any] | None]:
    """Return the stored record of each question, proved again, or None."""
    solutions = [recall(request, store) for request in requests]
    return [None if solution is None else _record(solution) for solution in solutions]


def save_record(
    spec: Spec, record: dict[str, Any], store: Store, clients: Collection[str] = ()
) -> tuple[dict[str, Any], bool, str]:
    """Store an optimal answer that its solver process has proved; see `Store.put` for ``clients``.

    Returns the record now stored, whether one is, and why the answer could not be stored (also logged; usually
    empty).
    """
    try:
        row = store.get(spec.key)
    except CacheError as err:
        _LOG.warning("the answer to %s is not stored: %s", spec.key, err)
        return record, False, str(err)
    solution: Answer | None = validate_row(row, spec).solution
    if solution is None:
        text = canonical_json(record)
        solution, stored, trouble = _keep_row(Row(spec.key, CORE, text, digest(text)), spec, store, row, clients)
        if solution is None:
            return record, stored, trouble
    return _record(solution), True, ""


def save_records(answers: Sequence[tuple[Spec, dict[str, Any]]], store: Store, clients: Collection[str] = ()) -> None:
    """Store the final ones of new answers as `save_record` does; failures are only logged."""
    for request, record in answers:
        if Status(record["status"]).is_final:
            save_record(request, record, store, clients)
