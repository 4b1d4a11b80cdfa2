"""Master program: the linear program of one solve as it grows, with rows by multiset, an answer and a proven bound."""

from __future__ import annotations

import numpy as np

from darrm_opt.design.backends import open_backend
from darrm_opt.design.linear_goal import LinearGoal
from darrm_opt.design.polytope.constraint import PrivacyConstraint
from darrm_opt.design.polytope.corners import Counts
from darrm_opt.design.polytope.polar_form import STEP_ERROR
from darrm_opt.design.program import Outcome, Status, dual_bound, in_increments
from darrm_opt.noise import Array, NoiseFunction

MAX_SMALL_ENTRY = 2.0**-20
"""A row whose entries all lie below this is scaled up for the solver, which would take most of it for nothing."""


class MasterProgram:
    """Maximise weights·γ over a set of corner multisets that grows.

    Args:
        constraint: the privacy constraint.
        goal: what is maximised, with its own variables and rows.
        shape: "free" or "monotone".
        backend: name of the LP solver.

    Attributes:
        rows: number of rows.
        iterations: simplex iterations so far.
        multipliers: of the last solve, one a row, shape (rows,).
    """

    def __init__(self, constraint: PrivacyConstraint, goal: LinearGoal, shape: str, backend: str) -> None:
        self._constraint, self._monotone = constraint, shape == "monotone"
        self._columns = goal.weights.size
        self._program = open_backend(backend, self._columns)
        self._rows: list[Array] = []
        self._limits: list[Array] = []
        self._scales: list[Array] = []  # by how much larger the solver sees a row
        self._multisets: list[Counts] = []
        self._known: set[bytes] = set()
        self.rows = self.iterations = 0
        self.multipliers: Array = np.empty(0)
        if self._monotone:
            self._append(self._widened(np.ones((1, constraint.entries))), np.ones(1))  # γ(K) ≤ 1
        self._append(self._shaped(goal.rows), goal.limits)
        self._others = self.rows  # rows that stand for no multiset: the first

    def add(self, multisets: Counts) -> Array:
        """Add a row for each multiset; return them, shape (multisets, entries)."""
        self._known.update(row.tobytes() for row in multisets)
        self._multisets.append(multisets)
        return self.add_rows(self._constraint, multisets)

    def add_rows(self, constraint: PrivacyConstraint, multisets: Counts) -> Array:
        """Add the rows of a further constraint on the same γ, which `bound_for` does not know; return them."""
        rows = constraint.rows(multisets)
        self._append(self._shaped(self._widened(rows)), np.full(len(rows), constraint.limit))
        return rows

    @property
    def multisets(self) -> Counts:
        """The multisets that are rows."""
        corners = len(self._constraint.corners.labels)
        return np.frombuffer(b"".join(sorted(self._known)), dtype=np.int64).reshape(-1, corners)

    def unknown(self, multisets: Counts) -> Counts:
        """Return the multisets that are no rows yet; a solver leaves known ones violated up to its tolerance."""
        return multisets[[row.tobytes() not in self._known for row in multisets]]

    def maximise(self, weights: Array, seconds: float | None) -> tuple[Status, NoiseFunction, float]:
        """Return how the solve ended, its answer as a noise function, and a proven bound on weights·γ."""
        weights = self._shaped(weights)
        outcome = self._program.solve(weights, seconds)
        self.iterations += outcome.iterations
        rows, limits, scales = (
            np.concatenate(self._rows or [np.empty((0, weights.size))]),
            np.concatenate(self._limits or [np.empty(0)]),
            np.concatenate(self._scales or [np.empty(0)]),
        )
        self.multipliers = outcome.multipliers * scales
        bound = dual_bound(weights, rows, limits, self.multipliers, self._constraint.K)
        return outcome.status, self._noise(outcome), bound

    def bound_for(
        self, loosest: PrivacyConstraint, weights: Array, multipliers: Array, *, exactly: bool = True
    ) -> float:
        """Return a proven bound on weights·γ over everything that ``loosest`` allows, from multipliers of these rows.

        A multiset stands for a row of either constraint. The rows that matter are made again for ``loosest``; or, where
        that takes long, a row A′ is bounded by this program's A: A·γ ≤ A′·γ + |A − A′|₁, and the mass of L moves by at
        most 2Σ|p_i − p′_i| in the sum.

        Args:
            loosest: the constraint of the problem as asked (`PrivacyConstraint.loosest`).
            weights: of γ and the goal's own variables, shape (columns,).
            multipliers: as many as there were rows when they were found, shape (≤ rows,).
            exactly: whether to make the rows again.
        """
        used = np.flatnonzero(np.nan_to_num(multipliers, nan=0.0, posinf=0.0) > 0)
        kept, own = multipliers[used], used >= self._others
        rows = np.concatenate([*self._rows, np.empty((0, self._columns))])[used]
        limits = np.concatenate([*self._limits, np.empty(0)])[used]
        extra = 0.0
        if exactly and own.any():
            labels = len(self._constraint.corners.labels)
            multisets = np.concatenate([*self._multisets, np.empty((0, labels), dtype=np.int64)])
            rows[own] = self._shaped(self._widened(loosest.rows(multisets[used[own] - self._others])))
            limits[own] = loosest.limit
        elif own.any():
            mine, theirs = self._constraint.corners, loosest.corners
            moved = max(np.abs(mine.p - theirs.p).max(), np.abs(mine.reflected - theirs.reflected).max()) + STEP_ERROR
            apart = abs(self._constraint.q - loosest.q) + 4 * self._constraint.K * moved
            extra = float(kept[own].sum()) * (max(0.0, loosest.limit - self._constraint.limit) + apart)
        return dual_bound(self._shaped(weights), rows, limits, kept, self._constraint.K) + extra * (1 + STEP_ERROR)

    def _widened(self, rows: Array) -> Array:
        """Return rows of γ alone as rows of all variables."""
        return np.pad(rows, ((0, 0), (0, self._columns - rows.shape[1])))

    def _shaped(self, rows: Array) -> Array:
        """Return rows (or weights) of γ as rows of the program's variables, which are increments if monotone."""
        if not self._monotone:
            return rows
        entries = self._constraint.entries
        return np.concatenate([in_increments(rows[..., :entries]), rows[..., entries:]], axis=-1)

    def _append(self, rows: Array, limits: Array) -> None:
        if limits.size:
            scales = _scales(rows)
            self._program.add(rows * scales[:, np.newaxis], limits * scales)
            self._rows.append(rows)
            self._limits.append(limits)
            self._scales.append(scales)
            self.rows += limits.size

    def _noise(self, outcome: Outcome) -> NoiseFunction:
        upper = np.clip(np.nan_to_num(outcome.upper_half[: self._constraint.entries], nan=0.0), 0.0, 1.0)
        if self._monotone:
            upper = np.minimum(np.cumsum(upper), 1.0)
        return NoiseFunction.from_upper_half(upper, self._constraint.K)


def _scales(rows: Array) -> Array:
    """Return powers of two that bring the largest entry of a `MAX_SMALL_ENTRY` to [1/2, 1); 1 for other rows."""
    largest = np.abs(rows).max(axis=1)
    scales: Array = np.where((largest > 0) & (largest < MAX_SMALL_ENTRY), np.ldexp(1.0, -np.frexp(largest)[1]), 1.0)
    return scales
