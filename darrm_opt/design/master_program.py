"""Master program: the linear program of γ that grows during one solve, with a proven upper bound on its optimum.

    maximise    w · γ                        share of the noiseless utility kept
    over        γ(⌊K/2⌋+1..K) in [0, 1]      the upper half; symmetry gives the rest
    subject to  φ_i · γ ≤ limit              one row per corner multiset (`PrivacyConstraint.rows`)

For shape = "monotone" the variables are the increments t ≥ 0 of γ instead: γ(l) = Σ_{k ≤ l} t_k and Σ t ≤ 1. A row or
weight of γ becomes its suffix sums (`in_increments`), and γ is monotone by construction.

Every variable lies in a box, so any multipliers λ ≥ 0, from any solver, prove a bound on the optimum (`dual_bound`):

    w·γ ≤ bᵀλ + (w − Aᵀλ)·γ ≤ bᵀλ + Σ_l max(0, w_l − (Aᵀλ)_l)           (weak duality)

*Knots.* For thousands of voters γ has thousands of values, but privacy and utility depend on it through binomial means,
which do not resolve neighbours. So the solver gets γ at some coordinates, with linear interpolation (`Knots`):

    z = M·y        y: the solver's variables, in [0, 1]; z: the program's, γ itself or its increments

M has no negative entry, and its rows sum to at most 1, so z lies in the box too, and what holds for rows·M·y holds for
rows·z: an answer of the smaller program is one of the whole. The bound is weak duality over *all* coordinates, with the
multipliers of the smaller program. The difference between the two is, at each coordinate,

    v_l = max(0, r_l)·(1 − z_l) + max(0, −r_l)·z_l,      r = w − Aᵀλ,

the violation of complementary slackness: 0 everywhere if every coordinate is a knot. New knots go where it is largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from darrm_opt.design.backends import MIN_TOLERANCE, Backend, WarmStart, open_backend
from darrm_opt.design.constraint import STEP_ERROR, Counts, PrivacyConstraint, cached_rows, multiset_keys
from darrm_opt.design.goal import LinearGoal
from darrm_opt.design.separation.result import WorstCase
from darrm_opt.design.solution import Status
from darrm_opt.noise import Array, Integers, NoiseFunction
from darrm_opt.rounding import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from darrm_opt.design.backends.interior import InteriorPoint

MAX_SMALL_ENTRY = 2.0**-20  # a row whose entries are all below this is scaled up, as the solver would ignore most of it
MAX_EXPONENT = 1000  # largest exponent of that power of two: beyond 2^1023 it is no double
MAX_ROWS_PER_COLUMN = 2.5  # with more rows per variable than this, rows that do not bind are removed from the solver
MIN_DROP_K = 200  # smallest K at which that pays; with fewer voters, only programs with still more rows are thinned

MAX_ROWS_PER_COLUMN_BELOW, MIN_DROP_ROWS = 10.0, 500
"""Rows per variable, and rows, from which thinning pays below `MIN_DROP_K`, as the basis grows with the rows."""

OFF_ENDS = 1e-9  # distance from 0 and 1 at which a variable counts as interior
MAX_EQUATIONS = 100  # largest system of equations that replaces a solve
NEAR_SHARE = 1e-3  # slack, as a share of the limit, up to which a row is kept in the solver
NEAR_INTERIOR_SHARE = 0.1  # the same for an interior-point program, which leaves each row some slack and a multiplier

MIN_WEIGHT = 1e-10
"""Coordinates with weights below this share of the largest get few initial knots, those above its root the most."""

MAX_CLOSE_KNOTS = 200  # approximate number of initial knots on the coordinates with the largest weights

MIN_NEW_KNOTS, MAX_NEW_KNOTS = 16, 60
"""Minimum and maximum number of coordinates that become knots at a time, with their neighbours."""


@dataclass(frozen=True, eq=False, repr=False)
class Knots:
    """Some coordinates of γ's upper half, including the first and the last."""

    places: Integers  # their indices, increasing, shape (knots,)
    entries: int  # number of coordinates
    monotone: bool  # whether the program's variables are the increments of γ

    @classmethod
    def initial(cls, weights: Array, K: int, *, monotone: bool) -> Knots:
        """Return knots that are dense where the weights are large and sparse elsewhere; steps are shares of √K."""
        entries, largest = weights.size, weights.max()
        relevant, heaviest = (np.flatnonzero(weights > share * largest) for share in (MIN_WEIGHT, MIN_WEIGHT**0.5))
        step = max(K**0.5 / 4, heaviest.size / MAX_CLOSE_KNOTS)
        places = np.arange(0, entries, max(1, round(8 * step)))
        for coordinates, distance in ((relevant, 2 * step), (heaviest, step)):
            places = np.union1d(places, coordinates[:: max(1, round(distance))])
        return cls(np.union1d(places, [0, entries - 1]), entries, monotone)

    @property
    def size(self) -> int:
        """Number of knots."""
        return int(self.places.size)

    def reduce(self, rows: Array) -> Array:
        """Return rows (or weights) of z as rows of y: rows·M, shape (…, knots)."""
        lengths = np.diff(self.places)
        if self.monotone:  # each increment spreads evenly over its segment
            means = np.add.reduceat(rows[..., 1:], self.places[:-1], axis=-1) / lengths
            return np.concatenate([rows[..., :1], means], axis=-1)
        segment = np.repeat(np.arange(lengths.size), lengths)
        share = (np.arange(self.entries - 1) - self.places[segment]) / lengths[segment]
        following_parts = rows[..., :-1] * share
        own = np.add.reduceat(rows[..., :-1] - following_parts, self.places[:-1], axis=-1)
        following = np.add.reduceat(following_parts, self.places[:-1], axis=-1)
        result = np.zeros((*rows.shape[:-1], self.size))
        result[..., :-1] = own
        result[..., 1:] += following
        result[..., -1] += rows[..., -1]
        return result

    def expand(self, values: Array) -> Array:
        """Return z = M·y, shape (entries,)."""
        lengths = np.diff(self.places)
        if self.monotone:
            return np.concatenate([values[:1], np.repeat(values[1:] / lengths, lengths)])
        return np.interp(np.arange(self.entries), self.places, values)

    def refine(self, reduced_costs: Array, z: Array, loss_limit: float) -> Knots | None:
        """Return more knots where the loss is largest, until about ``loss_limit`` remains; None: nothing to add."""
        loss = np.maximum(reduced_costs, 0.0) * (1.0 - z) + np.maximum(-reduced_costs, 0.0) * z
        if loss.sum() <= loss_limit:
            return None
        order = np.argsort(-loss, kind="stable")
        remaining = loss.sum() - np.cumsum(loss[order])
        # include coordinates with smaller losses: elsewhere the loss returns as soon as it is mended here
        count = max(int(np.searchsorted(-remaining, -loss_limit)) + 1, MIN_NEW_KNOTS)
        places = order[: min(count, MAX_NEW_KNOTS, int(np.count_nonzero(loss)))]
        # neighbours cause a knot's loss: if they are knots too, its variable is that coordinate alone
        new = np.clip(np.concatenate([places - 1, places, places + 1]), 0, self.entries - 1)
        knots = Knots(np.union1d(self.places, new), self.entries, self.monotone)
        return knots if knots.size > self.size else None


class MasterProgram:
    """Maximise weights·γ over a growing set of corner multisets."""

    def __init__(
        self,
        constraint: PrivacyConstraint,
        goal: LinearGoal,
        shape: str,
        backend: str,
        *,
        by_knots: bool = False,
        tolerance: float = MIN_TOLERANCE,
        interior: bool = False,
        further: Sequence[PrivacyConstraint] = (),
    ) -> None:
        self._constraint, self._monotone = constraint, shape == "monotone"
        self.constraints = (constraint, *further)  # all on the same γ; most programs have one
        self._columns = goal.weights.size
        self.knots: Knots | None = None  # coordinates that the solver sees; None: all
        if by_knots:
            weights = goal.weights[: constraint.entries]
            self.knots = Knots.initial(weights, constraint.K, monotone=self._monotone)
        self.is_interior = interior  # solved by an interior-point method, with slack in every row
        self._program = self._open(backend, tolerance)
        self._rows: list[Array] = []
        self._limits: list[Array] = []
        self._scales: list[Array] = []  # factor of each row in the solver
        self._multisets: list[Counts] = []
        self._owners: list[Integers] = []  # number of the constraint of each multiset
        self._place: dict[bytes, int] = {}  # index of each multiset among the rows
        self._active: Integers = np.empty(0, dtype=np.int64)  # rows in the solver, in its order
        self.rows = self.iterations = 0
        self.multipliers: Array = np.empty(0)  # of the last solve, one per row, shape (rows,)
        self._answer: Array = np.empty(0)
        if self._monotone:
            self._append(self._widen(np.ones((1, constraint.entries))), np.ones(1))  # γ(K) ≤ 1
        self._append(self._to_variables(goal.rows), goal.limits)
        self._goal_rows = self.rows  # the first rows, which stand for no multiset

    def _open(self, backend: str, tolerance: float) -> Backend:
        """Return an empty program."""
        if not self.is_interior:
            return open_backend(backend, self._solver_columns, tolerance)
        from darrm_opt.design.backends.interior import InteriorPoint

        return InteriorPoint(self._solver_columns, tolerance)

    def add(self, multisets: Counts, number: int = 0) -> Array:
        """Add a row of a constraint, given by its number, per multiset; return the rows, shape (multisets, entries)."""
        keys = multiset_keys(multisets)
        rows = new_rows = cached_rows(self.constraints[number], multisets, keys)
        keys = _row_keys(keys, number)
        if not self._place.keys().isdisjoint(keys):
            stored_places = [self._place[key] for key in keys if key in self._place]
            new_indices = [i for i, key in enumerate(keys) if key not in self._place]
            self._activate(self._goal_rows + np.setdiff1d(stored_places, self._active - self._goal_rows))
            keys, multisets, new_rows = tuple(keys[i] for i in new_indices), multisets[new_indices], rows[new_indices]
        self._place.update(
            zip(keys, range(self.rows - self._goal_rows, self.rows - self._goal_rows + len(keys)), strict=True)
        )
        self._multisets.append(multisets)
        if len(self.constraints) > 1:
            self._owners.append(np.full(len(multisets), number))
        limits = np.full(len(new_rows), self.constraints[number].limit)
        self._append(self._to_variables(self._widen(new_rows)), limits)
        return rows

    @property
    def multisets(self) -> Counts:
        """The multisets that are rows."""
        corners = len(self._constraint.corners.labels)
        return np.frombuffer(b"".join(sorted(self._place)), dtype=np.int64).reshape(-1, corners)

    @property
    def near_multisets(self) -> Counts:
        """The multisets whose rows nearly bind at the last answer; all multisets before there is one."""
        if not self._multisets or not self._answer.size:
            return self.multisets
        multisets: Counts = self._join(self._multisets)
        return multisets[self._near()[self._goal_rows :]]

    def worst_row(self, noise: NoiseFunction, worst: WorstCase) -> WorstCase:
        """Return a worst case of γ, or the worst of this program's rows if that is worse."""
        # a search for cuts skips multisets that it proves near the limit, including those of binding rows.
        if self._monotone or not self._multisets:
            return worst
        entries = self._constraint.entries
        values = self._join(self._rows)[self._goal_rows :, :entries] @ noise.upper_half
        row = int(values.argmax())
        if values[row] <= worst.value:
            return worst
        return replace(worst, value=float(values[row]), counts=self._join(self._multisets)[row])

    def new_multisets(self, multisets: Counts, number: int = 0) -> Counts:
        """Return the multisets without a row in the solver, which may violate its rows by its tolerance."""
        if not len(multisets):
            return multisets
        places = [self._place.get(key) for key in _row_keys(multiset_keys(multisets), number)]
        if len(self._active) == self.rows:
            return multisets[[place is None for place in places]]
        active = set((self._active - self._goal_rows).tolist())
        return multisets[[place not in active for place in places]]

    def maximise(self, weights: Array, seconds: float | None, gap: float = 0.0) -> tuple[Status, NoiseFunction]:
        """Return the status and answer of a solve; an interior-point solve stops at ``gap``."""
        if self.is_interior:
            cast("InteriorPoint", self._program).gap = gap
        outcome = self._program.solve(self._to_solver(self._to_variables(weights)), seconds)
        self.iterations += outcome.iterations
        self.multipliers = np.zeros(self.rows)
        self.multipliers[self._active] = outcome.multipliers * self._join(self._scales)[self._active]
        self._answer = self._all_coordinates(outcome.upper_half)
        return outcome.status, self._noise(self._answer)

    def bound(self, weights: Array) -> float:
        """Return the proven bound on weights·γ from the multipliers of the last solve."""
        support = np.flatnonzero(self.multipliers > 0)
        rows, limits = self._join(self._rows)[support], self._join(self._limits)[support]
        return dual_bound(self._to_variables(weights), rows, limits, self.multipliers[support], self._constraint.K)

    def refine(self, weights: Array, loss_limit: float) -> bool:
        """Add knots where the last answer's bound loses most, until about ``loss_limit`` remains; return if any."""
        if self.knots is None:
            return False
        entries = self._constraint.entries
        support = np.flatnonzero((self.multipliers > 0) & (self.multipliers < np.inf))
        costs = self._to_variables(weights) - self.multipliers[support] @ self._join(self._rows)[support]
        knots = self.knots.refine(costs[:entries], self._answer[:entries], loss_limit)
        if knots is None:
            return False
        self._continue_with(knots)
        return True

    def drop_slack_rows(self) -> None:
        """Remove rows that are far from binding at the last answer from the solver, if it has many."""
        if self._constraint.K >= MIN_DROP_K:
            most_rows = MAX_ROWS_PER_COLUMN * self._solver_columns
        else:
            most_rows = max(MAX_ROWS_PER_COLUMN_BELOW * self._solver_columns, MIN_DROP_ROWS)
        if len(self._active) <= most_rows:
            return
        is_far = ~self._near()[self._active]
        self._program.drop(np.flatnonzero(is_far))
        self._active = self._active[~is_far]

    def _near(self) -> np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]:
        """Return a mask of the rows that nearly bind at the last answer, or stand for no multiset."""
        rows, limits = self._join(self._rows), self._join(self._limits)
        slack = limits - rows @ self._answer
        share = NEAR_INTERIOR_SHARE if self.is_interior else NEAR_SHARE
        near: np.ndarray[tuple[Any, ...], np.dtype[np.bool_]] = slack <= share * np.abs(limits)
        solved_rows = self.multipliers.size
        if not self.is_interior:  # otherwise every row has a multiplier
            near[:solved_rows] |= self.multipliers > 0
        near[solved_rows:] = near[: self._goal_rows] = True  # rows since the last solve, and those of no multiset
        return near

    def _continue_with(self, knots: Knots) -> None:
        """Give the solver more knots and the nearly binding rows; old ones keep their state."""
        old_columns = {int(place): column for column, place in enumerate(self.knots.places)} if self.knots else {}
        goal_columns = self._columns - self._constraint.entries
        sources = np.array([old_columns.get(int(place), -1) for place in knots.places])
        columns = np.concatenate([sources, len(old_columns) + np.arange(goal_columns)])
        values = np.zeros(columns.size)
        if not self._monotone:
            values[: knots.size] = self._answer[knots.places]
        near_rows = np.arange(self._active.size) if self.is_interior else np.flatnonzero(self._near()[self._active])
        self.knots, self._active = knots, self._active[near_rows]
        rows, limits, scales = (self._join(part)[self._active] for part in (self._rows, self._limits, self._scales))
        start = WarmStart(columns, near_rows, values)
        self._program = self._program.continued(self._to_solver(rows) * scales[:, np.newaxis], limits * scales, start)

    def _activate(self, indices: Integers) -> None:
        """Return rows to the solver."""
        rows, limits, scales = (self._join(part)[indices] for part in (self._rows, self._limits, self._scales))
        self._program.add(self._to_solver(rows) * scales[:, np.newaxis], limits * scales)
        self._active = np.concatenate([self._active, indices])

    def multipliers_for(self, weights: Array) -> Array | None:
        """Return the multipliers of other weights if the same rows and variables bind; None if that is unclear."""
        # With T the binding rows and F the interior variables, A[T, F]ᵀλ = w[F]. Any λ proves its bound.
        binding = np.flatnonzero(self.multipliers > 0)
        interior = np.flatnonzero((self._answer > OFF_ENDS) & (self._answer < 1 - OFF_ENDS))
        if self.knots is not None or binding.size != interior.size or binding.size > MAX_EQUATIONS:
            return None
        rows = self._join(self._rows)[binding]
        try:
            solution = np.linalg.solve(rows[:, interior].T, self._to_variables(weights)[interior])
        except np.linalg.LinAlgError:
            return None
        multipliers = np.zeros(self.rows)
        multipliers[binding] = solution
        return multipliers

    def bound_for(
        self, readings: Sequence[PrivacyConstraint], weights: Array, multipliers: Array, *, exact: bool = True
    ) -> float:
        """Return a proven bound on weights·γ over all that the loosest ``readings`` of the constraints allow.

        It is proved by multipliers of these rows; ``exact`` recomputes the rows.
        """
        # a multiset stands for a row of either reading. Rows with multipliers are recomputed for the loosest; or, if
        # that takes long, a row A′ is bounded by this program's A: A·γ ≤ A′·γ + |A − A′|₁, and the mass of L moves
        # by at most 2Σ|p_i − p′_i| in the sum.
        support = np.flatnonzero((multipliers > 0) & (multipliers < np.inf))
        positive, multiset_rows = multipliers[support], slice(support.searchsorted(self._goal_rows), None)
        rows, limits = self._join(self._rows)[support], self._join(self._limits)[support]
        extra = 0.0
        if exact and len(limits[multiset_rows]):
            places = support[multiset_rows] - self._goal_rows
            multisets, new_rows, new_limits = (
                self._join(self._multisets)[places],
                rows[multiset_rows],
                limits[multiset_rows],
            )
            for number, loosest in enumerate(readings):
                own = slice(None) if len(readings) == 1 else self._join(self._owners)[places] == number
                new_rows[own] = self._to_variables(self._widen(cached_rows(loosest, multisets[own])))
                new_limits[own] = loosest.limit
        elif len(limits[multiset_rows]):
            (loosest,) = readings
            corners, loosest_corners = self._constraint.corners, loosest.corners
            chances = ((corners.p, loosest_corners.p), (corners.reflected, loosest_corners.reflected))
            shift = max(np.abs(one - other).max() for one, other in chances) + STEP_ERROR
            distance = abs(self._constraint.q - loosest.q) + 4 * self._constraint.K * shift
            # γ ≤ 1 in every entry, so moving a row changes its product by at most the 1-norm of the move: |q − q′| for
            # the factor of the first mass, and 2K times the shift of the positions for each of the two masses.
            extra = float(positive[multiset_rows].sum()) * (max(0.0, loosest.limit - self._constraint.limit) + distance)
        return dual_bound(self._to_variables(weights), rows, limits, positive, self._constraint.K) + extra * (
            1 + STEP_ERROR
        )

    def close(self) -> None:
        """Release the solver; no further solve is allowed."""
        self._program.close()

    def _widen(self, rows: Array) -> Array:
        """Return rows of γ as rows of all variables."""
        if rows.shape[1] == self._columns:
            return rows
        return np.pad(rows, ((0, 0), (0, self._columns - rows.shape[1])))

    def _to_variables(self, rows: Array) -> Array:
        """Return rows (or weights) of γ as rows of the program's variables (increments if monotone)."""
        if not self._monotone:
            return rows
        entries = self._constraint.entries
        return np.concatenate([in_increments(rows[..., :entries]), rows[..., entries:]], axis=-1)

    @property
    def _solver_columns(self) -> int:
        """Number of the solver's variables."""
        return self._columns if self.knots is None else self._columns - self._constraint.entries + self.knots.size

    def _to_solver(self, rows: Array) -> Array:
        """Return rows (or weights) of the program's variables as rows of the solver's."""
        if self.knots is None:
            return rows
        entries = self._constraint.entries
        return np.concatenate([self.knots.reduce(rows[..., :entries]), rows[..., entries:]], axis=-1)

    def _all_coordinates(self, values: Array) -> Array:
        """Return the program's variables from the solver's."""
        if self.knots is None:
            return values
        size = self.knots.size
        return np.concatenate([self.knots.expand(values[:size]), values[size:]])

    def _append(self, rows: Array, limits: Array) -> None:
        if limits.size:
            scales = _scales(rows)
            self._program.add(self._to_solver(rows) * scales[:, np.newaxis], limits * scales)
            self._active = np.concatenate([self._active, np.arange(self.rows, self.rows + limits.size)])
            self._rows.append(rows)
            self._limits.append(limits)
            self._scales.append(scales)
            self.rows += limits.size

    def _join(self, parts: list[Any]) -> Any:
        """Return parts as one array, and store it."""
        if len(parts) > 1:
            parts[:] = [np.concatenate(parts)]
        return parts[0] if parts else np.empty((0, self._columns) if parts is self._rows else 0)

    def _noise(self, values: Array) -> NoiseFunction:
        upper = values[: self._constraint.entries]
        upper = np.fmin(np.fmax(upper, 0.0), 1.0)  # NaN becomes 0
        if self._monotone:
            upper = np.minimum(np.cumsum(upper), 1.0)
        return NoiseFunction.from_upper_half(upper, self._constraint.K)


def _row_keys(keys: tuple[bytes, ...], number: int) -> tuple[bytes, ...]:
    """Return keys of the rows of a constraint; those of the first are the multisets' own."""
    return tuple([key + bytes([number]) for key in keys]) if number else keys


def _scales(rows: Array) -> Array:
    """Return powers of two that scale the largest entry of a `MAX_SMALL_ENTRY` row to [1/2, 1); 1 for others."""
    largest = np.abs(rows).max(axis=1)
    if largest.min() >= MAX_SMALL_ENTRY:
        return np.ones(len(rows))
    exponent = np.maximum(np.frexp(largest)[1], -MAX_EXPONENT)
    scales: Array = np.where((largest > 0) & (largest < MAX_SMALL_ENTRY), np.ldexp(1.0, -exponent), 1.0)
    return scales


def in_increments(rows: Array) -> Array:
    """Return rows (or weights) of γ as rows of its increments: suffix sums along the last axis."""
    sums: Array = np.cumsum(rows[..., ::-1], axis=-1)[..., ::-1]
    return sums


def dual_bound(weights: Array, rows: Array, limits: Array, multipliers: Array, K: int) -> float:
    """Return a proven upper bound on w·γ over all private γ, from any multipliers.

    Guarantees: Never below the true optimum: the error of the rows (2·(1+q)·K·`STEP_ERROR` per entry in the sum over
    entries), of every product and of every sum is added, charged at γ ≤ 1.
    Source: weak duality, with the box's multipliers eliminated.
    """
    nonnegative = np.where((multipliers > 0) & (multipliers < np.inf), multipliers, 0.0)  # NaN is neither
    # suffix sums of weights (and of rows) add one rounding per entry: inside the slack below
    reduced_costs = weights - rows.T @ nonnegative
    bound = float(limits @ nonnegative + np.maximum(reduced_costs, 0.0).sum())
    # rows: error of 4K steps each (q ≤ 1, two blossoms, differences of two masses); sums: their length in ulps
    slack = float(nonnegative.sum()) * (
        4 * (K + 1) * STEP_ERROR + 4 * (nonnegative.size + weights.size) * UNIT_ROUNDOFF * 2.0
    )
    return bound + slack + 4 * weights.size * UNIT_ROUNDOFF
