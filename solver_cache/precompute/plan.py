"""Plan of a run: the stored problems of a grid, and batches of the others; progress and outcome.

*Batches.* Cheap problems are grouped, which saves overhead; expensive ones go alone and first, so that no worker is
left with one at the end.

*Warm starts.* Problems that differ only in their target share their constraints. Where it pays (`warm_start_pays`)
they are solved in groups of `GROUP_SIZE` neighbours: the *lead*, in the middle, starts cold, and the others start
from its rows. So every bit of a γ depends on the grid alone, not on order, workers, or lost and repeated work. A
chain in which each starts from its neighbour would be a little faster (K = 101, five δ: 0.58 s against 0.71 s, and
0.90 s without warm starts) but would break at every stored link. Warm and cold answers are both optimal; they differ
by 1e-16 to 5e-9 in γ and at most 3e-11 in utility.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from darrm_opt.design.schedule import is_expensive
from darrm_opt.record import DesignSpec
from darrm_opt.tables.record import TableSpec
from solver_cache.model import Spec
from solver_cache.precompute.grid import Grid
from solver_cache.store import Store

GROUP_SIZE = 12
MIN_GROUP = 3  # smaller groups do not repay the lead

MIN_WARM_K = 101
"""Smallest K for which warm starts save time.

Measured: nothing at K ≤ 75, 2 to 7 % at 101. Designs in stages (`is_expensive`) start cold.
"""

BATCH_SECONDS = 1.0  # work per batch, where it can be divided
MAX_BATCH = 500  # problems per batch: some lines of a grid, whose problems share their rows (`cached_rows`)

KEYS_PER_LOOKUP = 600
SAMPLE = 500  # problems per part that an estimate examines

Cost = Callable[[Any], float]


@dataclass(frozen=True)
class Batch:
    """Work for one worker."""

    specs: tuple[Any, ...]  # problems, in order
    # the problem whose rows the others start from, in this batch or not; None: cold starts
    lead: DesignSpec | None
    mean_seconds: float  # expected time per problem [s]
    careful: bool = False  # report each result at once, because a worker was lost with these problems

    @property
    def seconds(self) -> float:
        """Expected time [s]."""
        return self.mean_seconds * len(self.specs)


@dataclass(frozen=True)
class RunPlan:
    """Plan of a run."""

    problems: int  # size of the grid
    stored: int  # problems with a stored answer
    repeated: int  # duplicates within the grid
    batches: tuple[Batch, ...]  # the others, most expensive first
    seconds: float  # expected work [s on one processor]

    @property
    def missing(self) -> int:
        """Number of problems to solve."""
        return sum(len(batch.specs) for batch in self.batches)


def make_plan(specs: Iterable[Spec], store: Store, cost: Cost) -> RunPlan:
    """Return the plan for a grid; changes nothing, and holds only missing problems in memory."""
    batcher, seen = _Batcher(cost), set[str]()
    problems = stored = repeated = 0
    for groups in _pages(_groups(specs)):
        stored_keys = store.present([spec.key for group in groups for spec in group])
        for group in groups:
            missing = []
            for spec in group:
                key = spec.key
                stored += key in stored_keys
                repeated += key in seen
                if key not in stored_keys and key not in seen:
                    seen.add(key)
                    missing.append(spec)
            problems += len(group)
            batcher.add(group, missing)
    batches = batcher.done()
    return RunPlan(problems, stored, repeated, batches, sum(batch.seconds for batch in batches))


@dataclass(frozen=True)
class PlanEstimate:
    """Estimate of a plan from a sample of the grid."""

    problems: int  # size of the grid
    stored: int  # problems with a stored answer
    seconds: float  # expected work [s on one processor]
    sampled: int  # problems examined


def estimate_plan(grid: Grid, store: Store, cost: Cost) -> PlanEstimate:
    """Estimate the plan for a grid of any size from `SAMPLE` problems of each part."""
    problems = stored = seconds = 0.0
    sampled = 0
    for part in grid.parts:
        specs = list(part.sample(SAMPLE))
        stored_keys = store.present([spec.key for spec in specs])
        missing = [spec for spec in specs if spec.key not in stored_keys]
        scale = part.size / min(SAMPLE, part.size)
        problems += scale * len(specs)
        stored += scale * (len(specs) - len(missing))
        seconds += scale * sum(map(cost, missing))
        sampled += len(specs)
    return PlanEstimate(round(problems), round(stored), seconds, sampled)


def warm_start_pays(group: tuple[Spec, ...]) -> TypeGuard[tuple[DesignSpec, ...]]:
    """Whether a group is solved from its lead's rows."""
    if isinstance(group[0], TableSpec):
        return False
    problem = group[0].problem
    return len(group) >= MIN_GROUP and problem.voter.delta > 0 and problem.K >= MIN_WARM_K and not is_expensive(problem)


class _Batcher:
    """Collects the missing problems of each group into batches."""

    def __init__(self, cost: Cost) -> None:
        self._cost = cost
        self._batches: list[Batch] = []
        self._loose: list[Spec] = []
        self._seconds = 0.0

    def add(self, group: tuple[Spec, ...], missing: list[Spec]) -> None:
        if not missing:
            return
        if warm_start_pays(group):
            lead = group[len(group) // 2]
            first = sorted(missing, key=lambda spec: spec != lead)  # stable: the lead, then the others in order
            self._add(first, lead, sum(map(self._cost, first)))
            return
        for spec in missing:
            seconds = self._cost(spec)
            if seconds >= BATCH_SECONDS:
                self._add([spec], None, seconds)
                continue
            self._loose.append(spec)
            self._seconds += seconds
            if self._seconds >= BATCH_SECONDS or len(self._loose) == MAX_BATCH:
                self._flush()

    def done(self) -> tuple[Batch, ...]:
        self._flush()
        return tuple(sorted(self._batches, key=lambda batch: -batch.seconds))

    def _flush(self) -> None:
        if self._loose:
            self._add(self._loose, None, self._seconds)
            self._loose, self._seconds = [], 0.0

    def _add(self, specs: Sequence[Spec], lead: DesignSpec | None, seconds: float) -> None:
        self._batches.append(Batch(tuple(specs), lead, seconds / len(specs)))


def _groups(specs: Iterable[Spec]) -> Iterator[tuple[Spec, ...]]:
    """Yield neighbours that differ only in their target, at most `GROUP_SIZE` at a time."""

    def kin(spec: Spec) -> object:
        if isinstance(spec, TableSpec):
            return spec.problem.K, spec.problem.classes
        problem = spec.problem
        return problem.K, problem.voter, problem.affected, str(spec.objective), spec.shape

    for _, family in itertools.groupby(specs, key=kin):
        while group := tuple(itertools.islice(family, GROUP_SIZE)):
            yield group


def _pages(groups: Iterable[tuple[Spec, ...]]) -> Iterator[list[tuple[Spec, ...]]]:
    page, many = list[tuple[Spec, ...]](), 0
    for group in groups:
        page.append(group)
        many += len(group)
        if many >= KEYS_PER_LOOKUP:
            yield page
            page, many = [], 0
    if page:
        yield page


@dataclass
class RunProgress:
    """Progress of a run."""

    planned: int  # missing when it began
    work: float  # expected work [s on one processor]
    solved: int = 0  # answers stored by this run
    elsewhere: int = 0  # answers stored by other runs
    limited: int = 0  # of `solved`, those with a gap because nothing better can be proved private
    failed: int = 0  # problems given up
    losses: int = 0  # workers lost while working
    worst_gap: float = 0.0  # largest gap among `solved`
    done: float = 0.0  # finished part of ``work`` [s]
    seconds: float = 0.0  # elapsed time [s]

    @property
    def over(self) -> int:
        """Problems that need no more work."""
        return self.solved + self.elsewhere + self.failed

    @property
    def rate(self) -> float:
        """Answers stored per second."""
        return self.solved / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining(self) -> float | None:
        """Expected remaining time at the current rate [s]; None while unknown."""
        if self.over == self.planned:
            return 0.0
        return self.seconds * (self.work - self.done) / self.done if self.done > 0 else None


@dataclass(frozen=True)
class Failure:
    """Problem given up."""

    spec: Spec  # the problem
    key: str  # its content key
    reason: str  # why, in words


@dataclass(frozen=True)
class RunOutcome:
    """Outcome of a run."""

    progress: RunProgress  # at its end
    failures: tuple[Failure, ...]  # problems given up


RunWatcher = Callable[[RunProgress], None]
