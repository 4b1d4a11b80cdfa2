"""What is to be done: which problems of a grid are kept already, and batches of those that are not.

*Batches.* Cheap problems go together, so that handing them out costs little; dear ones go alone, and first, so that no
worker is left with one at the end.

*Warm starts.* Problems that differ in their target only share their constraints. Where it pays (`pays`) they are solved in
groups of `GROUP` neighbours: the *lead*, the one in the middle, by itself, and the others starting from the lead's rows.
So what a problem starts from, and with it every bit of its γ, depends on the grid alone: not on who solved what before,
on which worker, or on what was lost and solved again. A chain in which each starts from the one before would be a little
faster (K = 101, five δ: 0.58 s against 0.71 s, and 0.90 s without warm starts) and would break with every link that is
kept already. Warm and cold answers are both optimal and differ by 1e-16 to 5e-9 in γ, 3e-11 at most in utility.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from darrm_opt.design.schedule import is_expensive
from solver_cache.key import Request
from solver_cache.store import Store

GROUP = 12
"""Problems around one lead."""

MIN_GROUP = 3
"""Fewer do not repay the lead."""

WARM_K = 35
"""Least number of voters for which warm starts save rounds (measured: none at K ≤ 21, a fifth to a third from 51 on)."""

BATCH_SECONDS = 0.5
"""Work that is handed out at a time, where it can be cut."""

MOST = 64
"""Most problems in a batch."""

LOOKED_UP = 600
"""Keys looked up at a time."""

Cost = Callable[[Request], float]


@dataclass(frozen=True)
class Batch:
    """Work for one worker.

    Attributes:
        requests: what is to be solved, in this order.
        lead: the problem whose rows the others start from, whether it is among them or not; None: each by itself.
        seconds: expected time [s].
    """

    requests: tuple[Request, ...]
    lead: Request | None
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Attributes:
        problems: size of the grid.
        kept: those whose answers are kept already.
        repeated: those that the grid names once more.
        batches: the others, dear ones first.
        seconds: expected work [s on one processor].
    """

    problems: int
    kept: int
    repeated: int
    batches: tuple[Batch, ...]
    seconds: float

    @property
    def missing(self) -> int:
        """Number of problems to be solved."""
        return sum(len(batch.requests) for batch in self.batches)


def make_plan(requests: Iterable[Request], store: Store, cost: Cost) -> Plan:
    """Return what is to be done for a grid; nothing is changed. Holds in memory what is missing, and no more.

    Args:
        requests: of a grid, those that differ in their target only one after another.
        store: where answers are kept. That a row is there counts; it is proved when it is read.
        cost: expected time to solve one [s].

    Raises:
        InvalidInput: as `solver_cache.precompute.grid.Grid.requests`.
        CacheError: the store cannot be read.
    """
    batcher, seen = _Batcher(cost), set[str]()
    problems = kept = repeated = 0
    for groups in _pages(_groups(requests)):
        keys = {request: request.key for group in groups for request in group}
        there = store.present(keys.values())
        for group in groups:
            missing = []
            for request in group:
                key = keys[request]
                kept += key in there
                repeated += key in seen
                if key not in there and key not in seen:
                    seen.add(key)
                    missing.append(request)
            problems += len(group)
            batcher.add(group, missing)
    batches = batcher.done()
    return Plan(problems, kept, repeated, batches, sum(batch.seconds for batch in batches))


def pays(group: tuple[Request, ...]) -> bool:
    """Whether a group is solved from its lead's rows."""
    problem = group[0].problem
    return len(group) >= MIN_GROUP and problem.voter.delta > 0 and problem.K >= WARM_K and not is_expensive(problem)


class _Batcher:
    """Makes batches of what is missing in each group."""

    def __init__(self, cost: Cost) -> None:
        self._cost = cost
        self._batches: list[Batch] = []
        self._loose: list[Request] = []
        self._seconds = 0.0

    def add(self, group: tuple[Request, ...], missing: list[Request]) -> None:
        if not missing:
            return
        if pays(group):
            lead = group[len(group) // 2]
            first = sorted(missing, key=lambda request: request != lead)  # stable: the lead, then the others in order
            self._batches.append(Batch(tuple(first), lead, sum(map(self._cost, first))))
            return
        for request in missing:
            seconds = self._cost(request)
            if seconds >= BATCH_SECONDS:
                self._batches.append(Batch((request,), None, seconds))
                continue
            self._loose.append(request)
            self._seconds += seconds
            if self._seconds >= BATCH_SECONDS or len(self._loose) == MOST:
                self._flush()

    def done(self) -> tuple[Batch, ...]:
        self._flush()
        return tuple(sorted(self._batches, key=lambda batch: -batch.seconds))

    def _flush(self) -> None:
        if self._loose:
            self._batches.append(Batch(tuple(self._loose), None, self._seconds))
            self._loose, self._seconds = [], 0.0


def _groups(requests: Iterable[Request]) -> Iterator[tuple[Request, ...]]:
    """Yield neighbours that differ in their target only, at most `GROUP` at a time."""

    def kin(request: Request) -> object:
        problem = request.problem
        return problem.K, problem.voter, problem.affected, str(request.objective), request.shape

    for _, family in itertools.groupby(requests, key=kin):
        while group := tuple(itertools.islice(family, GROUP)):
            yield group


def _pages(groups: Iterable[tuple[Request, ...]]) -> Iterator[list[tuple[Request, ...]]]:
    page, many = list[tuple[Request, ...]](), 0
    for group in groups:
        page.append(group)
        many += len(group)
        if many >= LOOKED_UP:
            yield page
            page, many = [], 0
    if page:
        yield page
