"""Linear program of groups of voters: rows of corners, cutting planes, dual bound.

For a corner with laws P, P′ and a set S of outputs, with D = e^−ε·P − P′, the row is

    Σ_n D(n)·Σ_o ([o ∈ S] − |S|/outputs)·x[o, n] ≤ e^−ε·δ + (1 − e^−ε)·|S|/outputs,

where the limit is the slack at x = 0. With two classes and one group these are the rows of γ, with a faster search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from darrm_opt.design.backends import Outcome, open_backend
from darrm_opt.design.separation.compiled import thread_count
from darrm_opt.design.solution import Status
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import Problem
from darrm_opt.rounding import UNIT_ROUNDOFF
from darrm_opt.tables.corners import CompletedCorners, Corners, Violations, corners_of, likely_corners
from darrm_opt.tables.edge_program import STEP_INWARD, VIOLATION, Optimum
from darrm_opt.tables.group_laws import laws_at, voter_maps
from darrm_opt.tables.groups import MAX_CELLS, GroupCells, group_cells
from darrm_opt.tables.objective import TableObjective, expected
from darrm_opt.tables.problem import Index
from darrm_opt.tables.table import Table

CANONICAL_WEIGHT = 1e-9
"""Share of the objective that rewards the leading class everywhere, also where the prior has little weight."""

NEAR = 1e-5  # utility below the program's at which cuts are sought at its own answer

MAX_NEW_ROWS = 400

ROWS_PER_VARIABLE, IDLE_ROUNDS = 2, 3
"""Above this many rows per variable, rows that have not bound for this many rounds are dropped."""

CORNER_SECONDS = 4e-8  # approximate time of a proof per corner [s], on one processor: a time limit reserves it
MIN_SECONDS = 0.1  # minimum time of the first program under a time limit [s]

MAX_ROUNDS = 400


class _Program:
    """The rows, in the form of the backend and of the dual bound."""

    def __init__(self, problem: Problem, corners: Sequence[Corners], likely: Sequence[Corners], backend: str) -> None:
        from scipy import sparse  # not needed for reading and proving a table

        cells = group_cells(problem)
        count = len(cells.owners)
        self.problem, self.cells, self.corners, self.likely = problem, cells, corners, likely
        # If a sweep of all corners takes long, only the last one is complete, and proves.
        self.is_quick = likely is corners and not isinstance(corners[0], CompletedCorners)
        self.to_cells = [
            sparse.csr_array(
                (np.ones(len(cells.layout)), (np.arange(len(cells.layout)), cells.layout[:, o])),
                shape=(len(cells.layout), count),
            )
            for o in range(cells.outputs)
        ]
        # Between two classes a table is d = x[0] − x[1] in [−1, 1], one number per orbit (none where both have the same
        # counts): the backend gets (1 + d)/2, half as many variables, and needs no sums.
        self.pairs = cells.starts[np.bincount(cells.owners) == 2] if cells.outputs == 2 else None
        self.variables = count if self.pairs is None else len(self.pairs)
        self.backend = open_backend(backend, self.variables)
        self.sums = 0
        if self.pairs is None:
            sums = np.zeros((len(cells.first), count))
            sums[cells.owners, np.arange(count)] = cells.multiplicities
            self.backend.add(sums, np.ones(len(sums)))
            self.sums = len(sums)
        self._rows_of: dict[bytes, tuple[Index, Array, int]] = {}  # maps of the voters, set of outputs, target
        self._idle = np.zeros(0, dtype=np.intp)

    def __len__(self) -> int:
        return len(self._rows_of)

    @property
    def places(self) -> Index:
        """Maps of all voters by row."""
        return np.array([row[0] for row in self._rows_of.values()], dtype=np.intp).reshape(-1, self.problem.K)

    def add(self, places: Index, sets: Any, number: int) -> int:
        """Add the new rows of a target, given by its number; return how many."""
        before_adding, corners = len(self), self.corners[number]
        new = []
        for i, (corner, chosen) in enumerate(zip(places, sets.astype(np.float64), strict=True)):
            key = corner.tobytes() + sets[i].tobytes() + bytes([number])
            if key not in self._rows_of:
                self._rows_of[key] = (corner, chosen, number)
                new.append(i)
        if new:
            before, after = laws_at(self.problem, corners.maps, corners.by_group(places[new]))
            chosen = sets[new].astype(np.float64)
            inverse, limit = np.full(len(new), corners.inverse), np.full(len(new), corners.limit)
            rows, limits = self._rows(before, after, chosen, inverse, limit)
            if self.pairs is not None:  # entries of the two classes differ in sign only
                rows = rows[:, self.pairs]
                rows, limits = 2 * rows, limits + rows.sum(axis=1)
            self.backend.add(rows, limits)
        return len(self) - before_adding

    def cut(self, chances: Array, *, complete: bool) -> tuple[int, list[Violations]]:
        """Add rows that a table violates; return how many are new, and the corners.

        ``complete``: if the likely corners give no new row, search all corners.
        """
        places = self.places
        cuts = [_likely_cuts(one, chances, places) for one in self.likely]
        added = sum(self.add(found.places, found.sets, number) for number, found in enumerate(cuts))
        if complete and not (added or self.is_quick):
            cuts = [one.violations(chances, VIOLATION, MAX_NEW_ROWS) for one in self.corners]
            added = sum(self.add(found.places, found.sets, number) for number, found in enumerate(cuts))
        return added, cuts

    def solve(self, weights: Array, seconds: float | None) -> Outcome:
        """Return the backend's outcome in terms of x."""
        if self.pairs is None:
            outcome = self.backend.solve(weights, seconds)
            return outcome._replace(upper_half=np.clip(outcome.upper_half, 0.0, 1.0))
        outcome = self.backend.solve(2 * weights[self.pairs], seconds)
        d = np.clip(2 * outcome.upper_half - 1, -1.0, 1.0)
        x = np.zeros(weights.size)
        x[self.pairs], x[self.pairs + 1] = np.maximum(d, 0.0), np.maximum(-d, 0.0)
        return outcome._replace(upper_half=x)

    def drop_idle(self, multipliers: Array) -> Array:
        """Drop rows that no longer bind, if there are many; return the multipliers of the others."""
        # Rows are dense, one number per cell, and most bind for a few rounds only. If the corner of a dropped row is
        # violated, a sweep finds it again.
        y = multipliers[self.sums :]
        idle = np.zeros(len(y), dtype=np.intp)
        idle[: len(self._idle)] = self._idle
        self._idle = np.where(y > 0, 0, idle + 1)
        if len(y) <= ROWS_PER_VARIABLE * self.variables:
            return y
        stay = self._idle < IDLE_ROUNDS
        if not stay.all():
            self.backend.drop(np.flatnonzero(~stay) + self.sums)
            self._rows_of = {k: v for (k, v), keep in zip(self._rows_of.items(), stay.tolist(), strict=True) if keep}
            self._idle = self._idle[stay]
        return np.asarray(y[stay])

    def _rows(self, before: Array, after: Array, sets: Array, inverse: Array, limit: Array) -> tuple[Array, Array]:
        # The remainder to 1 is shared by all outputs: a set's probability is Σ x over it plus its share of the rest, so
        # the mean is subtracted from every coefficient, and the constant part goes into the limit.
        share = sets.mean(axis=1, keepdims=True)
        loss = inverse[:, None] * before - after
        rows = np.zeros((len(sets), len(self.cells.owners)))
        for o, to_cells in enumerate(self.to_cells):
            rows += (loss * (sets[:, o, None] - share)) @ to_cells
        return rows, limit + (1 - inverse) * share[:, 0]

    def bound(self, weights: Array, multipliers: Array) -> float:
        """Return a proven bound on weights·x over every private table, for the loosest reading of the problem.

        Guarantees: Never below the optimum, for any multipliers of the rows (negative ones become 0): rounding is
        added.
        """
        y = np.where((multipliers > 0) & (multipliers < np.inf), multipliers, 0.0)
        rows, limits = np.zeros((0, weights.size)), np.zeros(0)
        loosest = self.problem.loosest
        targets = loosest.targets
        # Binding rows are recomputed for the loosest reading, as the program's are those of the strictest.
        used = np.flatnonzero(y)
        y = y[used]
        if len(y):
            known = list(self._rows_of.values())
            places, sets = (np.array([known[i][part] for i in used.tolist()]) for part in (0, 1))
            of_row = [targets[known[i][2]] for i in used.tolist()]
            inverse = np.array([math.exp(-target.epsilon) for target in of_row])
            maps = [voter_maps(voter, self.cells.classes) for voter in loosest.voters]
            before, after = laws_at(self.problem, maps, self.corners[0].by_group(places))
            rows, limits = self._rows(
                before, after, sets, inverse, np.array([target.delta for target in of_row]) * inverse
            )
        charged = rows.T @ y
        # a computed row differs from the true one by ``relative`` of its parts, which x ≤ 1 in sum charges at most
        # (1 + e^−ε) of; then the roundings of the sums above, each entry's terms in ulps.
        terms = (len(y) + 8) * 2 * UNIT_ROUNDOFF * (np.abs(weights) + np.abs(rows).T @ y)
        inverse_of_least = math.exp(-min(target.epsilon for target in targets))
        slack = 2 * self.corners[0].relative * (1 + inverse_of_least) * float(y.sum())
        # The most that an orbit's x, with Σ multiplicity·x ≤ 1, gains beyond the charge: its best cell's, for all of 1.
        gains = np.maximum.reduceat((weights - charged + terms) / self.cells.multiplicities, self.cells.starts)
        parts = [*np.maximum(gains, 0.0).tolist(), *(limits * y).tolist()]
        return math.fsum(parts) * (1 + 8 * UNIT_ROUNDOFF) + slack * (1 + len(parts) * UNIT_ROUNDOFF)


def optimum(problem: Problem, goal: TableObjective, backend: str, deadline: float) -> Optimum:
    """Return the program's outcome by a deadline, a time of `time.perf_counter`."""
    cells = group_cells(problem)
    if len(cells.owners) > MAX_CELLS:
        raise InvalidInput("groups", f"{len(cells.owners):,} cells", f"at most {MAX_CELLS:,} cells of a table")
    worth = goal.worth(cells)
    weights, constant = _cell_weights(worth, cells)
    asked = (1 - CANONICAL_WEIGHT) * weights + CANONICAL_WEIGHT * _everywhere(cells)
    corners = corners_of(problem)
    program = _Program(problem, corners, likely_corners(problem) or corners, backend)
    x = inside = np.zeros(weights.size)
    multipliers = np.zeros(0)
    status, rounds, iterations = Status.ITERATION_LIMIT, 0, 0
    deadline -= CORNER_SECONDS * sum(map(len, corners)) / thread_count()
    while rounds < MAX_ROUNDS:
        left = deadline - time.perf_counter()
        if left <= 0 and rounds:  # at least one round, to have something to prove
            status = Status.TIME_LIMIT
            break
        outcome = program.solve(asked, None if left == math.inf else max(left, MIN_SECONDS))
        rounds, iterations = rounds + 1, iterations + outcome.iterations
        if outcome.status is not Status.OPTIMAL:
            status = outcome.status
            break
        x = outcome.upper_half
        multipliers = program.drop_idle(outcome.multipliers)
        # While the best private table is far below, cuts are sought on the way to it: they are deeper.
        share = STEP_INWARD if float(asked @ (x - inside)) > NEAR else 0.0
        while True:
            point = share * inside + (1 - share) * x
            chances = _chances(point, cells)
            added, cuts = program.cut(chances, complete=share == 0.0)
            private = point * min(_private_share(corners, cuts, 2), 1 - 2e-12)
            if asked @ private > asked @ inside:
                inside = private
            if added or share == 0.0 or time.perf_counter() > deadline:
                break
            share = 0.0 if share < 0.3 else share / 2
        if not added:  # nothing is violated, or only known rows
            status = Status.OPTIMAL if share == 0.0 else Status.TIME_LIMIT
            if not program.is_quick:  # scaled for the proof: a repair takes another sweep
                x = x * min(_private_share(corners, cuts, 2), 1 - 2e-12)
            break
    # The bound is on the utility without the canonical part: any multipliers prove one; these a nearly optimal one.
    bound = program.bound(weights, multipliers) + constant
    bound += 8 * UNIT_ROUNDOFF * worth.size * float(np.abs(worth).sum())  # of the weights' own sums
    program.backend.close()
    # If cuts are missing the last x is far from private, and ``inside`` is the best private table found.
    candidates = [Table.normalised(cells, x if status is Status.OPTIMAL else inside)]
    score = partial(expected, worth=worth)
    return Optimum(candidates, score, 0.0, bound, status, len(program), rounds, iterations)


def _likely_cuts(corners: Corners, chances: Array, known: Index) -> Violations:
    """Return violated corners, if any."""
    if not isinstance(corners, CompletedCorners):
        return corners.violations(chances, VIOLATION, MAX_NEW_ROWS)
    found = corners.climb(chances, corners.starts(known))
    new = (found.excesses > VIOLATION).nonzero()[0][:MAX_NEW_ROWS]
    return Violations(found.places[new], found.sets[new], found.excesses[new], found.largest)


def _private_share(corners: Sequence[Corners], cuts: Sequence[Violations], errors: int = 0) -> float:
    """Return the factor of x that makes no target's excess positive, with ``errors`` errors of a sweep."""
    return min(one.private_share(found.largest + errors * one.error) for one, found in zip(corners, cuts, strict=True))


def _chances(x: Array, cells: GroupCells) -> Array:
    """Return Pr[o | n] of x, shape (counts, outputs)."""
    rest = 1 - np.add.reduceat(x * cells.multiplicities, cells.starts)
    return np.asarray((x + rest[cells.owners] / cells.outputs)[cells.layout])


def _cell_weights(worth: Array, cells: GroupCells) -> tuple[Array, float]:
    """Return (w, constant) such that the utility of x is w·x + constant."""
    mean = worth.mean(axis=1)
    weights = np.bincount(cells.layout.ravel(), (worth - mean[:, None]).ravel(), minlength=len(cells.owners))
    return np.asarray(weights, dtype=np.float64), math.fsum(mean.tolist())


def _everywhere(cells: GroupCells) -> Array:
    """Return weights that determine every entry: the leading class has some value at every count."""
    scores = cells.counts.sum(axis=1) / sum(cells.sizes)
    if cells.abstention:
        scores = np.column_stack([scores, np.zeros(len(scores))])
    return _cell_weights(scores / len(scores), cells)[0]
