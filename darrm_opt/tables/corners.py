"""Corners of voters among C classes, and the sweep: the largest loss of a table over every corner, with its error.

The loss is convex in each voter's pair of laws, so in the worst case every voter is at a map from the outcomes of its
extremal pair to the classes (`darrm_opt.tables.group_laws`). Relabelling the classes of all groups at once changes
nothing: one group's multisets of maps are listed up to relabelling, the others' in full. The losses are then products
of matrices. If there are too many, one voter's map is not listed: for given maps of the others its worst map is
Σ_j max_c of a linear functional, in closed form (`CompletedCorners`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from darrm_opt.design.separation.compiled import thread_count
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy, Problem, VoterGroup
from darrm_opt.rounding import EXPONENT_BITS, UNIT_ROUNDOFF, exp_bounds, float_below
from darrm_opt.tables.group_laws import (
    GroupLaws,
    convolved,
    fixed_multisets,
    group_laws,
    laws_at,
    map_digits,
    next_places,
    relabellings,
    voter_maps,
)
from darrm_opt.tables.groups import group_cells
from darrm_opt.tables.problem import Index

MAX_CORNERS = 400_000_000  # maximum number of corners of a sweep that lists all: some twenty seconds
MAX_LISTED = 20_000_000  # maximum number of listed corners if one voter's map can be left open instead

MAX_STEPS = 10**10
"""Maximum number of steps of a sweep with one open map, each a maximum at an outcome: some twenty seconds."""

MAX_LAW_BYTES = 800 * 2**20  # maximum memory for the laws of the groups' counts [bytes]

MAX_COUNT_STEPS = 2000 * 2000
"""Maximum of voters times affected ones at which corners are counted exactly before a problem is rejected."""

BLOCK_NUMBERS = 250_000  # losses computed at once: 2 MB, which fits in the processor's cache
COMPLETED_BLOCK = 16_000  # losses completed at once: each takes a dozen numbers, which fit in the processor's cache

PRODUCT_TERMS = 250_000
"""Products in one call of BLAS: above 262,144 OpenBLAS starts threads of its own, besides those of the sweep."""

MIN_LIKELY_STEPS, LIKELY_SHARE = 10**6, 4
"""Steps of a sweep from which few corners are searched first, and by which factor they must be fewer."""

MAX_CLIMBS, CLIMB = 8, 1e-13
"""Maximum number of rounds over all voters in which maps are exchanged, and smallest gain for another round."""

MAX_CLIMBERS = 800  # maximum number of starts of climbs, pairs of maps of all voters and sets of outputs
MAX_KEYS = 4 * 10**10  # maximum number of digits of keys in listing a group's multisets up to relabelling: some minutes

Part = TypeVar("Part")


@lru_cache(maxsize=64)
def corner_count(problem: Problem, *, swept: bool = False) -> int:
    """Return the number of corners of a problem, one per orbit under relabelling the classes, without listing them.

    ``swept`` counts the corners of a sweep instead: one group's up to relabelling, the others' in full.

    Source: the lemma that is not Burnside's; a permutation fixes the multisets that are unions of its cycles.

    >>> corner_count(Problem(5, Privacy(0.5), Privacy(1.0), classes=3))
    222
    """
    sides = [voter_maps(voter, problem.classes) for voter in problem.strictest.voters]
    orders = [relabellings(side.maps, problem.classes) for side in sides]
    first = _reduced_group(problem)
    total = 0
    for number in range(len(orders[0])):
        fixed = np.ones(1, dtype=object)  # whole numbers by number of moving voters: combinations that it fixes
        for g, (side, order) in enumerate(zip(sides, orders, strict=True)):
            chosen = order[0 if swept and g != first else number]
            of_group = fixed_multisets(chosen, side.moves, problem.groups[g].K, problem.affected)
            fixed = np.convolve(fixed, np.array(of_group, dtype=object))
        total += sum(fixed[: problem.affected + 1].tolist())
    return total // len(orders[0])


def _reduced_group(problem: Problem) -> int:
    """Return the group whose multisets are listed up to relabelling: the one with the most."""
    counts = [
        math.comb(group.K + len(voter_maps(voter, problem.classes).maps) - 1, group.K)
        for group, voter in zip(problem.groups, problem.strictest.voters, strict=True)
    ]
    return counts.index(max(counts))


@dataclass(frozen=True, eq=False)
class Violations:
    """Corners at which a table loses most."""

    places: Index  # the map of each voter, group by group, shape (found, K)
    # the worst nonempty set of outputs, shape (found, outputs)
    sets: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    excesses: Array  # e^−ε·Pr[S | before] − Pr[S | after] − e^−ε·δ as computed, shape (found,), largest first
    largest: float  # the largest over all corners, as computed


class Corners:
    """Every corner of a problem, one per orbit, as laws.

    ``moving``: only corners at which these groups move. ``alike``: only those where all moving voters of a group send
    the outcome that is likeliest before to one class; if many voters are between two classes, the worst is nearly
    always one of these few.
    """

    def __init__(
        self,
        problem: Problem,
        voters: tuple[Privacy, ...],
        target: Privacy,
        *,
        moving: Collection[int] | None = None,
        alike: bool = False,
    ) -> None:
        check_reach(problem)
        self._alike = alike
        self._set(problem, voters, target)
        self._list(moving)

    def _set(self, problem: Problem, voters: tuple[Privacy, ...], target: Privacy) -> None:
        self.problem, self.cells = problem, group_cells(problem)
        self.reduced = _reduced_group(problem)
        self.maps = [voter_maps(voter, problem.classes) for voter in voters]
        # Laws have relative errors of (C+2) units per voter, products of matrices as many as their terms; the table's
        # probabilities one; e^−ε two. All terms are ≥ 0, so that the parts of an excess, at most e^−ε and 1 in sum over
        # the outputs, keep these relative errors; differences and sums over the outputs add a few.
        steps = (
            (problem.classes + 3) * problem.K + 2 * sum(self.cells.widths) + len(problem.groups) + problem.outputs + 16
        )
        self.relative = 1.01 * steps * UNIT_ROUNDOFF
        self._read(target)

    def _read(self, target: Privacy) -> None:
        self.target = target  # in the chosen reading
        _, high = exp_bounds(target.epsilon)
        exact = Fraction(1 << EXPONENT_BITS, high)
        self.inverse = float_below(exact)  # e^−ε, rounded down
        self.limit = float_below(Fraction(target.delta) * exact)  # e^−ε·δ, rounded down
        # bound on the error of a computed excess: rounding of the laws, products and sums
        self.error = self.relative * (self.inverse + 1.0) * 1.01 + 1e-290

    def at(self, target: Privacy) -> Corners:
        """Return these corners for another target."""
        other = copy.copy(self)
        other._read(target)  # noqa: SLF001 - a copy of this one
        return other

    def _list(self, moving: Collection[int] | None) -> None:
        self.laws = self._listed(moving)
        # Between two classes Pr[1] is 1 − Pr[0], which determines the losses of the second.
        self._seen = 1 if self.problem.outputs == 2 else self.problem.outputs
        self._last = np.empty((0, 0))
        if self._others:
            last = self._others[-1]
            self._last = np.ascontiguousarray(np.hstack([last.before, last.after]).T)

    def _listed(self, moving: Collection[int] | None, left_out: int = 0) -> list[GroupLaws]:
        """Return the laws of each group, of the reduced one without some voters; ``moving`` as in the class."""
        problem = self.problem
        return [
            group_laws(
                side,
                group.K - left_out if g == self.reduced else group.K,
                problem.classes,
                problem.affected if moving is None or g in moving else 0,
                reduced=g == self.reduced,
                alike=self._alike,
            )
            for g, (side, group) in enumerate(zip(self.maps, problem.groups, strict=True))
        ]

    @property
    def _others(self) -> list[GroupLaws]:
        """Laws of the groups that are listed in full."""
        return [law for g, law in enumerate(self.laws) if g != self.reduced]

    def __len__(self) -> int:
        return math.prod(len(law.multisets) for law in self.laws)

    def _losses(self, table: Array, start: int, rows: int) -> Array:
        """Return e^−ε·Pr[o | before] − Pr[o | after] at a block of the reduced group's multisets, for all `_seen` o."""
        lead = self.laws[self.reduced]
        others = self._others
        part = slice(start, start + rows)
        if not others:
            return np.ascontiguousarray(((lead.before[part] * self.inverse - lead.after[part]) @ table).T)
        flat = table.reshape(len(table), -1)
        sides = []
        for side, scale in (("before", self.inverse), ("after", -1.0)):
            contracted = ((getattr(lead, side)[part] * scale) @ flat).reshape(-1, *table.shape[1:])
            for axis, law in enumerate(others[:-1], 1):
                # one more group's counts become its multisets, at the same axis
                contracted = np.moveaxis(np.tensordot(contracted, getattr(law, side), axes=(axis, 1)), -1, axis)
            sides.append(np.moveaxis(contracted, -1, 0))
        # The last product takes both sides at once, so the losses are the only array of the corners' size.
        both = np.ascontiguousarray(np.concatenate(sides, axis=-1))
        losses = np.empty((*both.shape[:-1], self._last.shape[1]))
        width = max(1, PRODUCT_TERMS // (both.shape[-2] * both.shape[-1]))
        for tile in range(0, self._last.shape[1], width):
            np.matmul(both, self._last[:, tile : tile + width], out=losses[..., tile : tile + width])
        return losses

    def _excesses(self, losses: Array) -> Array:
        """Return the largest Σ losses − e^−ε·δ over nonempty sets of outputs; the first axis is the outputs."""
        if self._seen < self.problem.outputs:
            excess = (self.inverse - 1.0) - losses[0]
            np.maximum(excess, losses[0], out=excess)
        else:
            excess, top = np.maximum(losses[0], 0.0), losses[0].copy()
            for of_output in losses[1:]:
                excess += np.maximum(of_output, 0.0)
                np.maximum(top, of_output, out=top)
            # Nonempty sets only: no rounding must be charged to the empty one.
            excess += np.minimum(top, 0.0, out=top)
        excess -= self.limit
        return np.asarray(excess)

    def _too_many(self, start: int, rows: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None:
        """Return a mask of a block's corners that move more voters than one record can, or None if none does."""
        if self.problem.affected >= self.problem.K or len(self.laws) == 1:
            return None
        moved = self.laws[self.reduced].moved[start : start + rows]
        for law in self._others:
            moved = moved[..., None] + law.moved
        return moved > self.problem.affected

    def violations(self, chances: Array, above: float, most: int = 200) -> Violations:
        """Return the corners at which a table loses most, by a complete sweep.

        Up to ``most`` of those with an excess above ``above``: one per multiset of the reduced group first.

        Guarantees: At no corner has a nonempty set an excess above ``largest`` + `error`.
        """
        groups, outputs = len(self.laws), self.problem.outputs
        order = [self.reduced, *(g for g in range(groups) if g != self.reduced)]
        table = np.moveaxis(chances.reshape(*self.cells.widths, outputs)[..., : self._seen], self.reduced, 0)
        lead, others = len(self.laws[self.reduced].multisets), [len(self.laws[g].multisets) for g in order[1:]]
        rows = max(1, BLOCK_NUMBERS // (max(math.prod(others), math.prod(table.shape[1:-1])) * outputs))

        def search(start: int) -> tuple[float, Array, Index, Any, Any]:
            losses = self._losses(table, start, rows)
            loss = self._excesses(losses)
            too_many = self._too_many(start, rows)
            if too_many is not None:
                # Combinations in which a record would move more than `affected` voters are not corners.
                loss[too_many] = -math.inf
            flat = loss.reshape(len(loss), -1)
            best = flat.argmax(axis=1)
            excess = flat[np.arange(len(flat)), best]
            worst = float(excess.max(initial=-math.inf))
            # One corner per multiset of the reduced group, as the very worst ones resemble each other.
            first = np.flatnonzero(excess > above) * flat.shape[1] + best[excess > above]
            more = np.flatnonzero(flat > max(above, 0.5 * worst)) if worst > above else first
            hits = np.union1d(first, more) if more.size <= most else first
            found = losses.reshape(self._seen, -1)[:, hits].T
            # Losses of all outputs sum to e^−ε − 1, which gives the last one.
            if self._seen < outputs:
                found = np.hstack([found, (self.inverse - 1.0) - found])
            highest = found.max(axis=1, initial=-math.inf, keepdims=True)
            # S must not be empty: its excess would be 0 and prove nothing.
            sets = (found > 0) | ((found == highest) & (highest <= 0))
            places = np.array(np.unravel_index(hits, loss.shape))
            places[0] += start
            corners = np.empty((hits.size, groups), dtype=np.intp)
            corners[:, order] = places.T
            return worst, flat.ravel()[hits], corners, sets, np.isin(hits, first, assume_unique=True)

        parts = _in_threads(search, range(0, lead, rows))
        largest = max(part[0] for part in parts)
        excesses, corners, sets, first = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3, 4))
        best = np.lexsort((-excesses, ~first))[:most]
        best = best[np.argsort(-excesses[best], kind="stable")]
        places = np.hstack([law.multisets[corners[best, g]] for g, law in enumerate(self.laws)])
        return Violations(places, sets[best], excesses[best], largest)

    def output_laws(self, chances: Array) -> tuple[Array, Array]:
        """Return Pr[o | before] and Pr[o | after] at every corner, shape (corners, outputs).

        Guarantees: each with a relative error below ``relative``, except for underflow.
        """
        sides = []
        for side in ("before", "after"):
            table = chances.reshape(*self.cells.widths, -1)
            for law in self.laws:  # the first axis becomes the multisets of its group and moves to the end
                table = np.moveaxis(np.tensordot(getattr(law, side), table, axes=(1, 0)), 0, -2)
            sides.append(table.reshape(-1, table.shape[-1]))
        moved = np.zeros((), dtype=np.intp)
        for law in self.laws:
            moved = np.add.outer(moved, law.moved)
        within = moved.ravel() <= self.problem.affected
        return sides[0][within], sides[1][within]

    def private_share(self, excess: float) -> float:
        """Return the factor of x that makes an excess 0; the excess is convex in x (except for rounding)."""
        slack = -math.expm1(-self.target.epsilon) / self.problem.outputs + self.limit  # at x = 0, at least
        return 1.0 if excess <= 0 else max(0.0, 1 - excess / (excess + slack) * (1 + 2.0**-20) - 2.0**-50)

    def by_group(self, places: Index) -> list[Index]:
        """Return the maps of each group's voters from those of all voters, as for `laws_at`."""
        return np.split(places, np.cumsum([group.K for group in self.problem.groups])[:-1], axis=1)


class CompletedCorners(Corners):
    """Every corner of a problem, with the map of one voter of the reduced group left open.

    For a set of outputs S and given maps of the others, this voter's loss is Σ_c U_c·p_c − V_c·q_c over its own
    probabilities p, q of the classes, with U_c and V_c the probabilities of S if it answers c, before (times e^−ε) and
    after. The worst map lets each outcome choose: Σ_j max_c (U_c·p_j − V_c·q_j). The loss of the complement of S is
    e^−ε − 1 minus that of S, so its worst map takes the least. The others' multisets are made from those of one voter
    fewer during the sweep.
    """

    def _list(self, moving: Collection[int] | None) -> None:
        problem, lead = self.problem, self.maps[self.reduced]
        self.laws = self._listed(moving, left_out=2)
        parents = self.laws[self.reduced]
        last = parents.multisets[:, -1] if parents.multisets.shape[1] else np.zeros(1, dtype=np.intp)
        more = len(lead.maps) - last
        self._parent = np.repeat(np.arange(len(last)), more)
        self._new = np.arange(len(self._parent)) - np.repeat(np.cumsum(more) - more - last, more)
        within = parents.moved[self._parent] + lead.moves[self._new] <= problem.affected
        self._parent, self._new = self._parent[within], self._new[within]
        # sets of outputs up to the complement: those that contain the first output and not all
        rest = problem.outputs - 1
        self._halves = np.array([[1, *(number >> o & 1 for o in range(rest))] for number in range(2**rest - 1)])
        self._doubles = [(float(p), float(q)) for p, q in lead.pairs]
        # The last voter's probabilities, its maximum at each outcome and the sums of a set's outputs add roundings of
        # terms that are, with either sign, at most e^−ε and 1 in sum.
        self.relative += 1.01 * (len(lead.pairs) + 2 * problem.outputs + 8) * UNIT_ROUNDOFF
        self._read(self.target)

    def __len__(self) -> int:
        others = math.prod(len(law.multisets) for law in self._others)
        return len(self._parent) * len(self.maps[self.reduced].maps) * others

    def violations(self, chances: Array, above: float, most: int = 200) -> Violations:
        """Return corners at which a table loses most, as in `Corners`: one per multiset of the others."""
        values = (chances @ self._halves.T).reshape(*self.cells.widths, len(self._halves))
        values = np.moveaxis(values, self.reduced, 0)
        places, _ = next_places(self.problem.groups[self.reduced].K, self.problem.classes)
        tables = [values[place] for place in places]
        others = math.prod(len(law.multisets) for law in self._others)
        rows = max(1, COMPLETED_BLOCK // (others * len(self._halves)))

        def search(start: int) -> tuple[float, list[Any]]:
            return self._search(tables, slice(start, start + rows), above, most)

        parts = _in_threads(search, range(0, len(self._parent), rows))
        found = sorted((one for part in parts for one in part[1]), key=lambda one: (-one[0], one[1].tobytes()))[:most]
        width = self.problem.K, self.problem.outputs
        return Violations(
            np.array([one[1] for one in found], dtype=np.intp).reshape(-1, width[0]),
            np.array([one[2] for one in found], dtype=bool).reshape(-1, width[1]),
            np.array([one[0] for one in found]),
            # the set of all outputs counts too
            max(self.inverse - 1.0 - self.limit, *(part[0] for part in parts)),
        )

    def _search(self, tables: list[Array], block: slice, above: float, most: int) -> tuple[float, list[Any]]:
        """Return the largest excess of a block of multisets, and the worst corners: excess, maps, set of outputs."""
        lead = self.maps[self.reduced]
        others = self._others
        moved = self.laws[self.reduced].moved[self._parent[block]] + lead.moves[self._new[block]].astype(np.intp)
        sides = self._contracted(tables, block)
        top, bottom = self._completed(sides)
        for law in others:
            moved = moved[..., None] + law.moved
        full = moved >= self.problem.affected
        if full.any():  # the last voter must not move
            losses = [before - after for before, after in zip(*sides, strict=True)]
            top = np.where(full[..., None], reduce(np.maximum, losses), top)
            bottom = np.where(full[..., None], reduce(np.minimum, losses), bottom)
            top[moved > self.problem.affected] = -math.inf
            bottom[moved > self.problem.affected] = math.inf
        mirrored = (self.inverse - 1.0) - bottom
        excess = np.maximum(top, mirrored).reshape(len(moved), -1) - self.limit
        best = excess.argmax(axis=1)
        worst = excess[np.arange(len(best)), best]
        order = np.argsort(-worst, kind="stable")[:most]
        found: list[Any] = []
        for row in order[worst[order] > above].tolist():
            place = np.unravel_index(best[row], top.shape[1:])
            at = (row, *place)
            is_complement = bool(mirrored[at] > top[at])
            u, v = (np.array([one[at] for one in side]) for side in sides)
            losses_of_maps = lead.laws[0] @ u - lead.laws[1] @ v
            if full[at[:-1]]:
                losses_of_maps[lead.moves > 0] = math.inf if is_complement else -math.inf
            last = int(losses_of_maps.argmin() if is_complement else losses_of_maps.argmax())
            child = block.start + row
            parent = self.laws[self.reduced].multisets[self._parent[child]]
            maps = [law.multisets[i] for law, i in zip(others, place[:-1], strict=True)]
            maps.insert(self.reduced, np.sort([*parent, self._new[child], last]))
            found.append((float(worst[row]), np.concatenate(maps), (self._halves[place[-1]] == 1) != is_complement))
        return float(worst.max(initial=-math.inf)), found

    def _contracted(self, tables: list[Array], block: slice) -> tuple[list[Array], list[Array]]:
        """Return U_c and V_c by class, shape (multisets, multisets of the other groups…, sets)."""
        lead = self.maps[self.reduced]
        places, width = next_places(self.problem.groups[self.reduced].K - 1, self.problem.classes)
        parents, new = self._parent[block], self._new[block]
        sides: tuple[list[Array], list[Array]] = ([], [])
        for name, chances, scale, of_class in zip(
            ("before", "after"), lead.laws, (self.inverse, 1.0), sides, strict=True
        ):
            law = convolved(getattr(self.laws[self.reduced], name), parents, chances[new], places, width) * scale
            for table in tables:
                part = (law @ table.reshape(len(table), -1)).reshape(-1, *table.shape[1:])
                for axis, other in enumerate(self._others, 1):
                    part = np.moveaxis(np.tensordot(part, getattr(other, name), axes=(axis, 1)), -1, axis)
                of_class.append(np.ascontiguousarray(part))
        return sides

    def _completed(self, sides: tuple[list[Array], list[Array]]) -> tuple[Array, Array]:
        """Return the largest and the smallest loss of each set of outputs over the last voter's maps."""
        top, bottom = np.zeros_like(sides[0][0]), np.zeros_like(sides[0][0])
        high, low, value, minus = (np.empty_like(top) for _ in range(4))
        for p, q in self._doubles:
            for c, (before, after) in enumerate(zip(*sides, strict=True)):
                np.multiply(before, p, out=value)
                np.multiply(after, q, out=minus)
                np.subtract(value, minus, out=value)
                if c:
                    np.maximum(high, value, out=high)
                    np.minimum(low, value, out=low)
                else:
                    high[...] = low[...] = value
            top += high
            bottom += low
        return top, bottom

    def starts(self, known: Index) -> Index:
        """Return maps of all voters as starts of climbs: alike in each group, random, and the known ones."""
        chance = np.random.default_rng(len(known))
        sizes = np.repeat([len(side.maps) for side in self.maps], [group.K for group in self.problem.groups])
        alike = np.arange(sizes.max())[:, None] % sizes
        half = max(2, MAX_CLIMBERS // (4 * len(self._halves)))
        drawn = chance.integers(sizes, size=(half, self.problem.K))
        drawn[: half // 2] = alike[chance.integers(len(alike), size=half // 2)]
        found = np.vstack([drawn, known[-half:]])
        # No more voters move than one record can move: the first map of a voter is a class.
        fixed = chance.permuted(np.tile(np.arange(self.problem.K), (len(found), 1)), axis=1) >= self.problem.affected
        return np.where(fixed, 0, found)

    def climb(self, chances: Array, starts: Index) -> Violations:
        """Return corners that no change of one voter's map makes worse, found from starting maps of all voters.

        Each voter in turn takes its worst map, given those of the others, for each set of outputs.
        """
        problem = self.problem
        sets = np.vstack([self._halves, 1 - self._halves])
        values = (chances @ sets.T).reshape(*self.cells.widths, len(sets))
        ends = np.cumsum([0, *(group.K for group in problem.groups)])
        moves = np.concatenate([side.moves for side in self.maps])
        offsets = np.cumsum([0, *(len(side.maps) for side in self.maps)])[:-1]
        group_of_voter = np.repeat(np.arange(len(problem.groups)), np.diff(ends))
        maps = np.repeat(starts, len(sets), axis=0)
        chosen = np.tile(np.arange(len(sets)), len(starts))
        excess = np.full(len(maps), -math.inf)
        for _ in range(MAX_CLIMBS):
            before_climbing = excess.copy()
            for voter, g in enumerate(group_of_voter.tolist()):
                side = self.maps[g]
                parts = np.split(
                    np.delete(maps, voter, axis=1),
                    np.cumsum(np.diff(ends) - (np.arange(len(self.maps)) == g))[:-1],
                    axis=1,
                )
                p, q = laws_at(problem, self.maps, parts)
                places, _ = next_places(problem.groups[g].K, problem.classes)
                losses = np.zeros((len(maps), len(side.maps)))
                for c, place in enumerate(places):
                    table = np.take(values, place, axis=g).reshape(-1, len(sets)).T
                    rows = table[chosen]
                    u = np.einsum("ij,ij->i", p, rows) * self.inverse
                    v = np.einsum("ij,ij->i", q, rows)
                    losses += u[:, None] * side.laws[0][:, c] - v[:, None] * side.laws[1][:, c]
                moving = moves[maps + offsets[group_of_voter]]
                moving[:, voter] = 0
                losses[np.ix_(moving.sum(axis=1) >= problem.affected, side.moves > 0)] = -math.inf
                maps[:, voter] = losses.argmax(axis=1)
                excess = losses.max(axis=1) - self.limit
            if not (excess > before_climbing + CLIMB).any():
                break
        for start, end in pairwise(ends):
            maps[:, start:end].sort(axis=1)
        _, first = np.unique(np.column_stack([maps, chosen]), axis=0, return_index=True)
        order = first[np.argsort(-excess[first], kind="stable")]
        return Violations(maps[order], sets[chosen[order]] == 1, excess[order], float(excess.max(initial=-math.inf)))


class Reach(NamedTuple):
    """Cost of a sweep over a problem's corners."""

    completed: bool  # whether one voter's map is left open
    probabilities: int  # in the stored laws
    keys: int  # digits compared in listing multisets up to relabelling
    steps: int  # losses of a sweep, or maxima at an outcome


def check_reach(problem: Problem) -> Reach:
    """Return the cost of a sweep by the cheaper method; reject a problem that is too large, before any work."""
    maps = [voter_maps(voter, problem.classes) for voter in problem.strictest.voters]
    bound = [math.comb(group.K + len(side.maps) - 1, group.K) for group, side in zip(problem.groups, maps, strict=True)]
    lead = _reduced_group(problem)
    # Exact counting takes K·affected steps per map. If these are more than for 2,000 voters that all move, any feasible
    # table has more than `MAX_CORNERS` corners, and a bound suffices to reject it.
    steps = max(group.K * min(group.K, problem.affected) for group in problem.groups)
    countable = steps <= MAX_COUNT_STEPS or max(bound) <= MAX_CORNERS
    K, orders = problem.groups[lead].K, math.factorial(problem.classes)
    sets = (2 ** (problem.outputs - 1) - 1) * problem.classes * len(maps[lead].pairs)
    if problem.affected >= K and math.comb(K + len(maps[lead].maps) - 2, K - 1) // orders * sets > MAX_STEPS:
        # Orbits of this many maps are not counted either, if an orbit holds at most one per order of the classes.
        countable = countable and bound[lead] // orders <= MAX_CORNERS
    if countable:
        sizes = [_size(problem, g, group.K, lead) for g, group in enumerate(problem.groups)]
    else:
        sizes = [n // (orders if g == lead else 1) for g, n in enumerate(bound)]
    corners, memory = math.prod(sizes), 16 * 3 * _probabilities(problem, sizes)
    keys = _key_count(problem, lead, K) if countable else MAX_KEYS + 1
    listed = Reach(completed=False, probabilities=_probabilities(problem, sizes), keys=keys, steps=corners)
    fits = corners <= MAX_CORNERS and memory <= MAX_LAW_BYTES and keys <= MAX_KEYS
    if fits and corners <= MAX_LISTED:
        return listed._replace(steps=corner_count(problem, swept=True) * problem.outputs)
    if countable and K > 1:
        multisets = _size(problem, lead, K - 1, lead)
        others = math.prod(size for g, size in enumerate(sizes) if g != lead)
        left = list(sizes)
        left[lead] = _size(problem, lead, K - 2, lead)
        numbers = _probabilities(problem, left, {lead: K - 2})
        keys_left = _key_count(problem, lead, K - 2)
        open_steps = multisets * others * sets
        pays = not fits or corners * problem.outputs > open_steps  # with few maps an open one saves nothing
        if (
            pays
            and 48 * numbers + 16 * multisets <= MAX_LAW_BYTES
            and keys_left <= MAX_KEYS
            and open_steps <= MAX_STEPS
        ):
            return Reach(completed=True, probabilities=numbers, keys=keys_left, steps=open_steps)
    if fits:
        return listed._replace(steps=corner_count(problem, swept=True) * problem.outputs)
    if keys > MAX_KEYS:
        raise InvalidInput(
            "groups",
            "; ".join(map(str, problem.groups)),
            f"multisets of voters' maps that can be listed; {problem.classes} classes have {orders} orders, too many "
            "for this many voters",
            "Use fewer voters or classes, or Delta = 0.",
        )
    raise InvalidInput(
        "groups",
        "; ".join(map(str, problem.groups)),
        f"at most {MAX_CORNERS:,} corners and {MAX_LAW_BYTES >> 20} MiB of laws; here there are {corners:,} "
        f"corners and {memory >> 20:,} MiB",
        "Use fewer voters or classes, Delta = 0, fewer points of a profile, or fewer affected voters.",
    )


def _probabilities(problem: Problem, sizes: list[int], voters: Mapping[int, int] | None = None) -> int:
    """Return the number of probabilities in the laws of multisets; ``voters`` replaces the voters of some groups."""
    number = [(voters or {}).get(g, group.K) for g, group in enumerate(problem.groups)]
    widths = [math.comb(K + problem.classes - 1, K) for K in number]
    return sum(size * width for size, width in zip(sizes, widths, strict=True))


def _size(problem: Problem, g: int, K: int, lead: int) -> int:
    """Return the number of multisets of K voters of a group: up to relabelling in the lead, otherwise in full."""
    if not K:
        return 1
    group = VoterGroup(K, problem.groups[g].voter)
    alone = Problem(groups=[group], target=problem.target, affected=min(problem.affected, K), classes=problem.classes)
    return corner_count(alone) if g == lead else _unreduced(alone)


def _key_count(problem: Problem, lead: int, K: int) -> int:
    """Return the approximate number of digits of keys compared in listing K voters' multisets up to relabelling."""
    maps, orders = len(voter_maps(problem.groups[lead].voter, problem.classes).maps), math.factorial(problem.classes)
    limbs = int(map_digits(maps, K).shape[1])
    return _size(problem, lead, max(K - 1, 0), lead) * maps * orders * limbs * K


@lru_cache(maxsize=1)
def corners_of(problem: Problem) -> tuple[Corners, ...]:
    """Return the corners of a problem's strictest reading per target, swept the cheaper way; the last are cached."""
    strictest = problem.strictest
    first, *others = strictest.targets
    corners = (CompletedCorners if check_reach(problem).completed else Corners)(problem, strictest.voters, first)
    return (corners, *(corners.at(target) for target in others))


@lru_cache(maxsize=1)
def likely_corners(problem: Problem) -> tuple[Corners, ...]:
    """Return the corners to search first per target: few that are alike, or none if all are searched."""
    if problem.classes > 2:  # the worst is often another one, and each one missed costs a complete sweep
        return ()
    reach, strictest = check_reach(problem), problem.strictest
    numbers = []
    for group, voter in zip(problem.groups, strictest.voters, strict=True):
        moving = int(voter_maps(voter, 2).moves.sum()) // 2
        numbers.append(2 * math.comb(group.K + moving + 1, group.K))
    if reach.steps < MIN_LIKELY_STEPS or math.prod(numbers) > reach.steps / LIKELY_SHARE:
        return ()
    first, *others = strictest.targets
    corners = Corners(problem, strictest.voters, first, alike=True)
    return (corners, *(corners.at(target) for target in others))


def count_bound(problem: Problem, voters: tuple[Privacy, ...], moving: Collection[int]) -> int:
    """Return an upper bound on the number of corners of these voters at which only the moving groups move."""
    total = 1
    for g, (group, voter) in enumerate(zip(problem.groups, voters, strict=True)):
        if g in moving:
            alone = [VoterGroup(group.K, voter)]
            affected = min(problem.affected, group.K)
            total *= _unreduced(
                Problem(groups=alone, target=problem.target, affected=affected, classes=problem.classes)
            )
        else:
            total *= group_cells(problem).widths[g]
    return total


def _unreduced(problem: Problem) -> int:
    """Return the number of multisets of a problem's one group."""
    side = voter_maps(problem.strictest.voters[0], problem.classes)
    identity = np.arange(len(side.maps))
    return sum(fixed_multisets(identity, side.moves, problem.groups[0].K, problem.affected))


def _in_threads(search: Callable[[int], Part], starts: range) -> list[Part]:
    """Return the results of a search of each block, in threads: products and comparisons release the interpreter."""
    threads = min(thread_count(), len(starts))
    if threads <= 1:
        return [search(start) for start in starts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(search, starts))
