"""Equivariant linear program of a plurality problem, in HiGHS, with cuts added as they are found.

    maximise    w · x                                                      utility
    over        x[λ, v] ≥ 0                                                one variable per cell
    subject to  Σ_v mult_λ(v)·x[λ, v] + x[λ, ⊥] = 1                        one row per partition
                Σ_{c ∈ S} (e^−ε·x_c − x′_c) ≤ e^−ε·δ                       one row per edge and set of outputs S

Edges times sets are far too many rows; `Cuts` holds those that an optimum needed. Any multipliers y ≥ 0 of the cuts,
from any source, prove a bound, since the rest is a maximum over a product of simplices (weak duality):

    w·x ≤ bᵀy + (w − Aᵀy)·x ≤ bᵀy + Σ_λ max_v (w − Aᵀy)_{λ,v}/mult_λ(v)

`optimum` is the loop: solve the program, find the worst sets, add them, stop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import highspy
import numpy as np
from numpy.typing import NDArray

from darrm_opt.design.backends import MIN_TOLERANCE
from darrm_opt.design.backends.highs import (
    DUAL_SIMPLEX,
    PRIMAL_SIMPLEX,
    attempt,
    check_status,
    limit_time,
    new_highs,
)
from darrm_opt.design.solution import Status
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import EXPONENT_BITS, UNIT_ROUNDOFF, exp_bounds, ratio_below
from darrm_opt.tables.objective import PluralityObjective, weighted_sum
from darrm_opt.tables.problem import ABSTENTION, Histograms, Index, partition_cells
from darrm_opt.tables.table import Table

with needed_by("The linear program of several classes"):
    from scipy import sparse

ATTEMPTS = ((DUAL_SIMPLEX, MIN_TOLERANCE, False), (DUAL_SIMPLEX, 1e-8, True), (PRIMAL_SIMPLEX, 1e-8, True))
"""(strategy, tolerance, afresh): warm and tight first, then what is likelier to keep its accuracy. A looser x is
repaired, and any multipliers prove a bound."""

ROW_SCALE = 64.0  # factor of rows and limits that makes the tolerance finer

CANONICAL_WEIGHT = 1e-8
"""Share of the objective that rewards the class with the most votes everywhere, also where the prior has little weight.
`gap` includes it. Where the prior has no weight at all, it is too small to decide every entry: see the documentation,
"One answer"."""

VIOLATION = 2e-12  # excess below which a constraint counts as satisfied; the remainder is repaired

STEP_INWARD = 0.8
"""Share of the way from the program's answer to a private table at which cuts are sought, as they are deeper there."""

MAX_ROUNDS = 1000

Masks = NDArray[np.bool_]


@dataclass(frozen=True)
class Optimum:
    """Outcome of a program: unproved proposals and a proved bound."""

    candidates: list[Table]
    score: Callable[[Table], float]  # utility of a table, without the constant
    constant: float
    bound: float  # on the utility of every private table
    status: Status
    cuts: int  # privacy constraints in the final program
    rounds: int  # programs solved
    iterations: int  # total number of simplex iterations


class Cuts:
    """Privacy constraints by edge and set S: which outputs (groups) of which edge are in S."""

    def __init__(self, cells: Histograms, target: Privacy) -> None:
        self._cells = cells
        low, high = exp_bounds(target.epsilon)
        self.inverse = ratio_below(1 << EXPONENT_BITS, high)  # e^−ε, rounded down
        # e^−ε·δ, rounded up
        self.limit = float(np.nextafter(target.delta * float(Fraction(1 << EXPONENT_BITS, low)) * (1 + 2.0**-50), 1.0))
        if target.delta == 0:
            self.limit = 0.0
        self._edges: list[Index] = []
        self._sets: list[Masks] = []
        self._seen: set[tuple[int, bytes]] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def violated(self, x: Array) -> tuple[Index, Masks, float]:
        """Return the edges whose worst set exceeds the limit by `VIOLATION`, these sets, the largest excess."""
        left, right, sizes = self._cells.edges
        outputs = sizes * (self.inverse * x[left] - x[right])
        worst = outputs > 0
        excess = np.where(worst, outputs, 0.0).sum(axis=1) - self.limit
        edges = np.flatnonzero(excess > VIOLATION)
        return edges, worst[edges], float(excess.max(initial=-math.inf))

    def add(self, edges: Index, sets: Masks) -> sparse.csr_array:
        """Store the new constraints and return their rows."""
        new = []
        for place, (edge, mask) in enumerate(zip(edges.tolist(), sets, strict=True)):
            key = (edge, mask.tobytes())
            if key not in self._seen:
                self._seen.add(key)
                new.append(place)
        self._edges.append(edges[new])
        self._sets.append(sets[new])
        return self._rows(edges[new], sets[new])

    def rows(self) -> sparse.csr_array:
        """Return A, all rows in order of addition, shape (cuts, cells)."""
        if not self._edges:
            return sparse.csr_array((0, self._cells.values.size))
        return self._rows(np.concatenate(self._edges), np.concatenate(self._sets))

    def _rows(self, edges: Index, sets: Masks) -> sparse.csr_array:
        left, right, sizes = (side[edges] for side in self._cells.edges)
        coefficients = (sizes * sets).astype(np.float64).ravel()
        row = np.repeat(np.arange(len(edges)), left.shape[1])
        matrix = sparse.coo_array(
            (
                np.concatenate([self.inverse * coefficients, -coefficients]),
                (np.concatenate([row, row]), np.concatenate([left.ravel(), right.ravel()])),
            ),
            shape=(len(edges), self._cells.values.size),
        ).tocsr()
        matrix.eliminate_zeros()
        return matrix

    def dual_bound(self, weights: Array, multipliers: Array) -> float:
        """Return a proven upper bound on w·x over all private tables, from any multipliers (negative ones become 0).

        Guarantees: Never below the true optimum: the rounding of every product and sum is added.
        """
        cells, A = self._cells, self.rows()
        y = np.maximum(np.nan_to_num(multipliers, nan=0.0, posinf=0.0), 0.0)
        reduced = weights - A.T @ y
        longest = int(np.diff(A.tocsc().indptr).max(initial=0))
        # Each entry of A carries 3 roundings (and may be of two terms), each sum its length.
        slack = (longest + 8) * 2 * UNIT_ROUNDOFF * (np.abs(weights) + abs(A).T @ y)
        best = np.maximum.reduceat((reduced + slack) / cells.multiplicities, cells.starts)
        terms = np.concatenate([best, self.limit * y])
        return math.nextafter(math.fsum(terms) + 4 * UNIT_ROUNDOFF * math.fsum(np.abs(terms)), math.inf)


class EdgeProgram:
    """The program in HiGHS; rows are added to the live model, so the dual simplex starts warm."""

    def __init__(self, cells: Histograms, weights: Array) -> None:
        self._highs = new_highs({"small_matrix_value": 1e-12})
        cell_count, partition_count = cells.values.size, len(cells.partitions)
        check_status(self._highs.addVars(cell_count, np.zeros(cell_count), 1.0 / cells.multiplicities), "addVars")
        check_status(self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize), "changeObjectiveSense")
        ones, columns = np.ones(partition_count), np.arange(cell_count, dtype=np.int32)
        check_status(self._highs.changeColsCost(cell_count, columns, weights), "changeColsCost")
        starts, multiplicities = cells.starts.astype(np.int32), cells.multiplicities.astype(np.float64)
        sums = (partition_count, ones, ones, cell_count, starts, columns, multiplicities)
        check_status(self._highs.addRows(*sums), "addRows")
        self._partition_count, self._cell_count = partition_count, cell_count

    def add(self, rows: sparse.csr_array, limit: float | Array) -> None:
        """Add rows · x ≤ limit, with a common limit or one per row."""
        count = rows.shape[0]
        status = self._highs.addRows(
            count,
            np.full(count, -highspy.kHighsInf),
            np.broadcast_to(np.asarray(limit, dtype=np.float64) * ROW_SCALE, count),
            rows.nnz,
            rows.indptr[:-1].astype(np.int32),
            rows.indices.astype(np.int32),
            rows.data * ROW_SCALE,
        )
        check_status(status, "addRows")

    def solve(self, seconds: float) -> tuple[bool, Array, Array, int]:
        """Return whether an optimum was reached, x, the cuts' multipliers and the iterations, within ``seconds``.

        No proof rests on the solver's outcome.
        """
        highs = self._highs
        limit_time(highs, seconds)
        for strategy, tolerance, afresh in ATTEMPTS:
            status = attempt(highs, strategy, tolerance, afresh=afresh)
            if status in {Status.OPTIMAL, Status.TIME_LIMIT}:
                break
        solution = highs.getSolution()
        x = np.asarray(solution.col_value, dtype=np.float64)
        # Rows were scaled by `ROW_SCALE`, so multipliers are by its inverse. Those of the partitions' sums are not
        # needed, as the bound takes a maximum over each partition.
        multipliers = np.asarray(solution.row_dual, dtype=np.float64)[self._partition_count :] * ROW_SCALE
        # After a failure HiGHS may have no solution.
        if x.size != self._cell_count:
            x = np.zeros(self._cell_count)
        return status is Status.OPTIMAL, x, multipliers, max(0, int(highs.getInfo().simplex_iteration_count))


def optimum(problem: Problem, goal: PluralityObjective, deadline: float) -> Optimum:
    """Return the program's outcome by a deadline, a time of `time.perf_counter`."""
    cells = partition_cells(problem)
    weights, constant = goal.cell_weights(cells)
    # Everything below is proved for any multipliers and tables; the solver only proposes them.
    cuts, program = Cuts(cells, problem.strictest.target), EdgeProgram(cells, _canonical(weights, cells))
    inside = _private_start(cells, problem.target.epsilon / (2 * problem.affected))
    status, rounds, iterations = Status.ITERATION_LIMIT, 0, 0
    x, multipliers = inside, np.zeros(0)
    while rounds < MAX_ROUNDS:
        optimal, x, multipliers, steps = program.solve(deadline - time.perf_counter())
        rounds, iterations = rounds + 1, iterations + steps
        if not optimal:
            status = Status.TIME_LIMIT if time.perf_counter() >= deadline else Status.NUMERICAL
            break
        edges, sets, worst = cuts.violated(x)
        if worst > 1e-3 or edges.size > len(cells.partitions) // 4:
            between = STEP_INWARD * inside + (1 - STEP_INWARD) * x
            deeper = cuts.violated(between)
            if deeper[0].size:
                edges, sets = deeper[:2]
            else:
                inside = between
        count_before = len(cuts)
        program.add(cuts.add(edges, sets), cuts.limit)
        if len(cuts) == count_before:  # nothing is violated, or only known rows
            status = Status.OPTIMAL
            break
    bound = cuts.dual_bound(weights, multipliers) + constant
    # Constant tables are private for any target: if it leaves next to nothing, repair may cost more than that.
    silent = cells.values == ABSTENTION
    some_class = (1 - 2.0**-50) / cells.classes  # the same double in every cell: exactly constant
    candidates = [Table.normalised(cells, table) for table in ((x,) if status is Status.OPTIMAL else (x, inside))]
    candidates += [Table(cells, np.where(silent, *each)) for each in ((0.0, some_class), (1.0, 0.0))]
    score = partial(weighted_sum, weights=weights)
    return Optimum(candidates, score, constant, bound, status, len(cuts), rounds, iterations)


def _private_start(cells: Histograms, rate: float) -> Array:
    """Return probabilities ∝ e^(rate·votes) of the classes: 2·rate·affected-DP, and strictly so almost everywhere."""
    weights = np.where(
        cells.values == ABSTENTION, 0.0, np.exp(rate * (cells.values - cells.values[cells.starts][cells.owners]))
    )
    return np.asarray(weights / np.add.reduceat(weights * cells.multiplicities, cells.starts)[cells.owners])


def _canonical(weights: Array, cells: Histograms) -> Array:
    """Return weights that determine every entry: more votes have more value, also where the prior has no weight."""
    scores = np.where(cells.values == ABSTENTION, 0, cells.values) / cells.values[cells.starts][cells.owners]
    everywhere = scores * cells.multiplicities / len(cells.partitions)
    return (1 - CANONICAL_WEIGHT) * weights + CANONICAL_WEIGHT * everywhere
