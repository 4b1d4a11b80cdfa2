"""Knots: a program of few variables for many voters, refined where the dual says that more of them matter.

For thousands of voters γ has thousands of values, but privacy and utility see it only through binomial means, which do
not resolve neighbours. So the solver is given γ at some *knots*, linear between them:

    z = M·y        y: the solver's variables, in [0, 1]; z: the program's, γ itself or its increments (`master_program`)

M has no negative entry, and its rows sum to at most 1, so z lies in the box, too, and whatever holds for rows·M·y holds
for rows·z: an answer of the smaller program is one of the whole. The bound is not that of the smaller program but weak
duality over *all* coordinates with its multipliers (`dual_bound`). What lies between the two is, at each coordinate,

    v_l = max(0, r_l)·(1 − z_l) + max(0, −r_l)·z_l,      r = w − Aᵀλ,

what complementary slackness lacks there: 0 everywhere if every coordinate is a knot. New knots go where it is largest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from darrm_opt.noise import Array

MIN_WEIGHT = 1e-10
"""Coordinates whose weight is below this share of the largest get few knots to begin with, those
above its root the most."""

MAX_CLOSE_KNOTS = 200
"""About how many knots the coordinates get that have the largest weights, to begin with."""

MIN_NEW_KNOTS, MAX_NEW_KNOTS = 16, 60
"""Coordinates that become knots at a time, with their neighbours."""


@dataclass(frozen=True, eq=False, repr=False)
class Knots:
    """Some coordinates of γ's upper half, the first and the last among them."""

    places: NDArray[np.int64]  # their indices, increasing, shape (knots,)
    entries: int  # number of coordinates
    monotone: bool  # whether the program's variables are the increments of γ

    @classmethod
    def initial(cls, weights: Array, K: int, *, monotone: bool) -> Knots:
        """Return knots close together where the objective lies, and far apart elsewhere; steps are shares of √K."""
        entries, largest = weights.size, weights.max()
        relevant, heaviest = (np.flatnonzero(weights > share * largest) for share in (MIN_WEIGHT, MIN_WEIGHT**0.5))
        step = max(K**0.5 / 32, heaviest.size / MAX_CLOSE_KNOTS)
        places = np.arange(0, entries, max(1, round(8 * step)))
        for coordinates, distance in ((relevant, 2 * step), (heaviest, step)):
            places = np.union1d(places, coordinates[:: max(1, round(distance))])
        return cls(np.union1d(places, [0, entries - 1]), entries, monotone)

    @property
    def size(self) -> int:
        """Number of knots."""
        return int(self.places.size)

    def with_places(self, places: NDArray[np.int64]) -> Knots:
        """Return these knots and others."""
        return Knots(np.union1d(self.places, places), self.entries, self.monotone)

    def reduce(self, rows: Array) -> Array:
        """Return rows (or weights) of z as rows of y: rows·M, shape (…, knots)."""
        lengths = np.diff(self.places)
        if self.monotone:  # each increment is spread evenly over its segment
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
        """Return z of y: M·y, shape (entries,)."""
        lengths = np.diff(self.places)
        if self.monotone:
            return np.concatenate([values[:1], np.repeat(values[1:] / lengths, lengths)])
        return np.interp(np.arange(self.entries), self.places, values)

    def refine(self, reduced_costs: Array, z: Array, loss_limit: float) -> Knots | None:
        """Return more knots, where most is lost, until about ``loss_limit`` is left to lose; None: nothing to add."""
        loss = np.maximum(reduced_costs, 0.0) * (1.0 - z) + np.maximum(-reduced_costs, 0.0) * z
        if loss.sum() <= loss_limit:
            return None
        order = np.argsort(-loss, kind="stable")
        remaining = loss.sum() - np.cumsum(loss[order])
        # beside the worst, what else loses: elsewhere the loss returns as soon as it is mended here
        count = max(int(np.searchsorted(-remaining, -loss_limit)) + 1, MIN_NEW_KNOTS)
        places = order[: min(count, MAX_NEW_KNOTS, int(np.count_nonzero(loss)))]
        # what a knot loses is its neighbours' doing: with them as knots, too, its variable is that coordinate alone
        with_neighbours = np.concatenate([places - 1, places, places + 1])
        knots = self.with_places(np.clip(with_neighbours, 0, self.entries - 1))
        return knots if knots.size > self.size else None
