"""The linear program of one solve as it grows: rows by multiset, an answer, a proven bound."""

from __future__ import annotations

import numpy as np

from darrm_opt.design.aim import Aim
from darrm_opt.design.backends import open_backend
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import Counts
from darrm_opt.design.program import Outcome, Status, dual_bound, in_increments
from darrm_opt.noise import Array, NoiseFunction


class GrowingProgram:
    """Maximise weights·γ over a set of corner multisets that grows.

    Args:
        constraint: the privacy constraint.
        aim: the goal, with its own variables and rows.
        shape: "free" or "monotone".
        backend: name of the LP solver.

    Attributes:
        rows: number of rows.
        iterations: simplex iterations so far.
    """

    def __init__(self, constraint: PrivacyConstraint, aim: Aim, shape: str, backend: str) -> None:
        self._constraint, self._monotone = constraint, shape == "monotone"
        self._columns = aim.weights.size
        self._program = open_backend(backend, self._columns)
        self._rows: list[Array] = []
        self._limits: list[Array] = []
        self._known: set[bytes] = set()
        self.rows = self.iterations = 0
        if self._monotone:
            self._append(self._widened(np.ones((1, constraint.entries))), np.ones(1))  # γ(K) ≤ 1
        self._append(self._shaped(aim.rows), aim.limits)

    def add(self, multisets: Counts) -> Array:
        """Add a row for each multiset; return them, shape (multisets, entries)."""
        self._known.update(row.tobytes() for row in multisets)
        rows = self._constraint.rows(multisets)
        self._append(self._shaped(self._widened(rows)), np.full(len(rows), self._constraint.limit))
        return rows

    @property
    def found(self) -> Counts:
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
        rows, limits = (
            np.concatenate(self._rows or [np.empty((0, weights.size))]),
            np.concatenate(self._limits or [np.empty(0)]),
        )
        bound = dual_bound(weights, rows, limits, outcome.multipliers, self._constraint.K)
        return outcome.status, self._noise(outcome), bound

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
            self._program.add(rows, limits)
            self._rows.append(rows)
            self._limits.append(limits)
            self.rows += limits.size

    def _noise(self, outcome: Outcome) -> NoiseFunction:
        upper = np.clip(np.nan_to_num(outcome.upper_half[: self._constraint.entries], nan=0.0), 0.0, 1.0)
        if self._monotone:
            upper = np.minimum(np.cumsum(upper), 1.0)
        return NoiseFunction.from_upper_half(upper, self._constraint.K)
