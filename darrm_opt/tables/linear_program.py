"""The equivariant linear program of a plurality problem, in HiGHS, with cuts added as they are found.

    maximise    w · x                                                      utility
    over        x[λ, v] ≥ 0                                                one variable a cell
    subject to  Σ_v mult_λ(v)·x[λ, v] + x[λ, ⊥] = 1                        one row a partition
                Σ_{c ∈ S} (e^−ε·x_c − x′_c) ≤ e^−ε·δ                       one row an edge and set of outputs S

Edges times sets are far too many rows; `Cuts` holds those that an optimum needed. Any multipliers y ≥ 0 of the cuts
prove a bound, whoever made them, since the rest is a maximum over a product of simplices (weak duality):

    w·x ≤ bᵀy + (w − Aᵀy)·x ≤ bᵀy + Σ_λ max_v (w − Aᵀy)_{λ,v}/mult_λ(v)
"""

from __future__ import annotations

import math
from fractions import Fraction

import highspy
import numpy as np
from numpy.typing import NDArray

from darrm_opt.design.backends.highs import check_status, new_highs
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.problem import Privacy
from darrm_opt.rounding import UNIT_ROUNDOFF, ratio_below
from darrm_opt.tables.certificate import EXPONENT_BITS, exp_bounds
from darrm_opt.tables.problem import Histograms, Index

with needed_by("The linear program of several classes"):
    from scipy import sparse

TOLERANCE = 1e-10
"""Primal and dual feasibility; the least HiGHS accepts."""

ROW_SCALE = 64.0
"""Rows and limits are multiplied by this, so that the tolerance is that much finer."""

Masks = NDArray[np.bool_]


class Cuts:
    """Privacy constraints by edge and set of outputs: which outputs (groups) of which edge are in S."""

    def __init__(self, cells: Histograms, target: Privacy) -> None:
        self._cells = cells
        low, high = exp_bounds(target.epsilon)
        self.inverse = ratio_below(1 << EXPONENT_BITS, high)
        """e^−ε, rounded down."""
        self.limit = float(np.nextafter(target.delta * float(Fraction(1 << EXPONENT_BITS, low)) * (1 + 2.0**-50), 1.0))
        """e^−ε·δ, rounded up."""
        if target.delta == 0:
            self.limit = 0.0
        self._edges: list[Index] = []
        self._sets: list[Masks] = []
        self._seen: set[tuple[int, bytes]] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def violated(self, x: Array, above: float) -> tuple[Index, Masks, float]:
        """Return the edges whose worst set exceeds the limit by more than ``above``, these sets, the largest excess."""
        cells = self._cells
        outputs = cells.sizes * (self.inverse * x[cells.left] - x[cells.right])
        worst = outputs > 0
        excess = np.where(worst, outputs, 0.0).sum(axis=1) - self.limit
        edges = np.flatnonzero(excess > above)
        return edges, worst[edges], float(excess.max(initial=-math.inf))

    def add(self, edges: Index, sets: Masks) -> sparse.csr_array:
        """Keep those of the constraints that are new, and return their rows."""
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
        cells = self._cells
        coefficients = (cells.sizes[edges] * sets).astype(np.float64).ravel()
        row = np.repeat(np.arange(len(edges)), cells.left.shape[1])
        matrix = sparse.coo_array(
            (
                np.concatenate([self.inverse * coefficients, -coefficients]),
                (np.concatenate([row, row]), np.concatenate([cells.left[edges].ravel(), cells.right[edges].ravel()])),
            ),
            shape=(len(edges), cells.values.size),
        ).tocsr()
        matrix.eliminate_zeros()
        return matrix

    def dual_bound(self, weights: Array, multipliers: Array) -> float:
        """Return a proven upper bound on w·x over all private rules, from any multipliers (negative ones become 0).

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


class PluralityProgram:
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
        """Add rows · x ≤ limit, one for all or one each."""
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
        """Return whether an optimum was reached, x, the cuts' multipliers and the iterations, within a time [s].

        Nothing that is proved rests on what the solver says.
        """
        highs = self._highs
        # HiGHS counts the time of all runs of a model together.
        limit = highspy.kHighsInf if seconds == math.inf else highs.getRunTime() + max(seconds, 0.0)
        optimal = False
        # Warm and tight first. Where rounding defeats that: looser from scratch, then the primal simplex. A looser x is
        # repaired, and its bound is proved by any multipliers.
        for tolerance, strategy, afresh in ((TOLERANCE, 1, False), (1e-8, 1, True), (1e-8, 4, True)):
            for name, value in (
                ("time_limit", limit),
                ("simplex_strategy", strategy),
                ("primal_feasibility_tolerance", tolerance),
                ("dual_feasibility_tolerance", tolerance),
            ):
                check_status(highs.setOptionValue(name, value), f"option {name}")
            if afresh:
                highs.clearSolver()
            outcome = highs.run()
            status = highs.getModelStatus()
            optimal = outcome != highspy.HighsStatus.kError and status == highspy.HighsModelStatus.kOptimal
            if optimal or status == highspy.HighsModelStatus.kTimeLimit:
                break
        solution = highs.getSolution()
        x = np.asarray(solution.col_value, dtype=np.float64)
        # Rows were scaled by `ROW_SCALE`, so multipliers are by its inverse. Those of the partitions' sums are not
        # needed: the bound takes a maximum over each partition.
        multipliers = np.asarray(solution.row_dual, dtype=np.float64)[self._partition_count :] * ROW_SCALE
        # After a failure HiGHS may have no solution at all.
        if x.size != self._cell_count:
            x = np.zeros(self._cell_count)
        return optimal, x, multipliers, max(0, int(highs.getInfo().simplex_iteration_count))
