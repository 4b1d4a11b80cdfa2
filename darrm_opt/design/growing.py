"""The linear program of one solve as it grows: rows by multiset, an answer, a proven bound."""

from __future__ import annotations

import numpy as np

from darrm_opt.design.backends import open_backend
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import Counts
from darrm_opt.design.program import Outcome, Status, dual_bound, in_increments
from darrm_opt.noise import Array, NoiseFunction


class GrowingProgram:
    """Maximise weights·γ over a set of corner multisets that grows.

    Args:
        constraint: the privacy constraint.
        shape: "free" or "monotone".
        backend: name of the LP solver.

    Attributes:
        rows: number of rows.
        iterations: simplex iterations so far.
    """

    def __init__(self, constraint: PrivacyConstraint, shape: str, backend: str) -> None:
        self._constraint, self._monotone = constraint, shape == "monotone"
        self._program = open_backend(backend, constraint.entries)
        self._rows: list[Array] = []
        self._limits: list[Array] = []
        self._known: set[bytes] = set()
        self.rows = self.iterations = 0
        if self._monotone:
            self._append(np.ones((1, constraint.entries)), np.ones(1))  # γ(K) ≤ 1

    def add(self, multisets: Counts) -> None:
        """Add a row for each multiset."""
        self._known.update(row.tobytes() for row in multisets)
        rows = self._constraint.rows(multisets)
        self._append(in_increments(rows) if self._monotone else rows, np.full(len(rows), self._constraint.limit))

    def unknown(self, multisets: Counts) -> Counts:
        """Return the multisets that are no rows yet; a solver leaves known ones violated up to its tolerance."""
        return multisets[[row.tobytes() not in self._known for row in multisets]]

    def maximise(self, weights: Array, seconds: float | None) -> tuple[Status, NoiseFunction, float]:
        """Return how the solve ended, its answer as a noise function, and a proven bound on weights·γ."""
        weights = in_increments(weights) if self._monotone else weights
        outcome = self._program.solve(weights, seconds)
        self.iterations += outcome.iterations
        rows, limits = (
            np.concatenate(self._rows or [np.empty((0, weights.size))]),
            np.concatenate(self._limits or [np.empty(0)]),
        )
        bound = dual_bound(weights, rows, limits, outcome.multipliers, self._constraint.K)
        return outcome.status, self._noise(outcome), bound

    def _append(self, rows: Array, limits: Array) -> None:
        if limits.size:
            self._program.add(rows, limits)
            self._rows.append(rows)
            self._limits.append(limits)
            self.rows += limits.size

    def _noise(self, outcome: Outcome) -> NoiseFunction:
        upper = np.clip(np.nan_to_num(outcome.upper_half, nan=0.0), 0.0, 1.0)
        if self._monotone:
            upper = np.minimum(np.cumsum(upper), 1.0)
        return NoiseFunction.from_upper_half(upper, self._constraint.K)
