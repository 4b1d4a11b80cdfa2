"""Corners of voters among C classes, and the sweep: the largest loss of a table over every corner, with its error.

Any (ε, Δ)-DP pair of laws is a post-processing of one pair with four outcomes (Kairouz, Oh, Viswanath 2015), of chances

    (Δ, 0),  (1−Δ)·(a, 1−a),  (1−Δ)·(1−a, a),  (0, Δ),      a = e^ε/(1 + e^ε).

A post-processing is a mixture of maps from outcomes to classes, and the loss is convex in each voter's pair, so that
the worst case has every voter at a map. A linear functional lets each class take a run of outcomes in the order of
their likelihood ratio, so *monotone* maps are enough: C² for Δ = 0; 8, 39, 136 for Δ > 0 and C = 2, 3, 4.

Only the multiset of each group's maps matters, and relabelling the classes of all groups at once changes nothing: one
group's multisets are listed up to relabelling, the others' in full. The losses are then products of matrices.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any

import numpy as np

from darrm_opt.design.separation.compiled import thread_count
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import EXPONENT_BITS, UNIT_ROUNDOFF, exp_bounds
from darrm_opt.tables.groups import GroupProblem, VoterGroup, compositions
from darrm_opt.tables.problem import Index

MAX_CORNERS = 400_000_000
"""Most corners of a sweep: some twenty seconds."""

MAX_LAW_BYTES = 800 * 2**20
"""Most memory for the laws of the groups' counts."""

MAX_COUNT_STEPS = 2000 * 2000
"""Most voters times affected ones with which corners are counted exactly before a problem is refused."""

BLOCK_NUMBERS = 250_000
"""Losses that are computed at once: 2 MB, what a processor's cache holds."""

PRODUCT_TERMS = 250_000
"""Products of one call of BLAS: above 262,144 OpenBLAS starts threads of its own, beside those of the sweep."""

KEY_BLOCK = 500_000
"""Keys that are compared at once."""

MAX_KEYS = 4 * 10**10
"""Most digits of keys that listing a group's multisets up to relabelling may take: some minutes."""

LAW_BLOCK = 30_000
"""Probabilities of one block while laws are convolved: what a processor's cache holds."""

Map = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class VoterMaps:
    """The corners of one voter."""

    maps: tuple[Map, ...]  # the class of each outcome, as tuples in the order of the likelihood ratio
    # probability of each class, exactly up to 1e-60, one tuple of fractions a map
    before: tuple[tuple[Fraction, ...], ...]
    after: tuple[tuple[Fraction, ...], ...]  # the same on the neighbouring data set
    moves: Array  # whether the two differ, shape (maps,), read-only


@lru_cache(maxsize=64)
def voter_maps(voter: Privacy, classes: int) -> VoterMaps:
    """Return the corners of one voter's pairs of laws.

    >>> [len(voter_maps(Privacy(0.5, 1e-3), classes).maps) for classes in (2, 3, 4)]
    [8, 39, 136]
    """
    if voter.epsilon == math.inf:
        a = Fraction(1)
    else:
        context = decimal.Context(prec=80, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
        a = 1 / (1 + Fraction(context.exp(-decimal.Decimal(voter.epsilon))))
    inside, delta = 1 - Fraction(voter.delta), Fraction(voter.delta)
    pairs = [(inside * a, inside * (1 - a)), (inside * (1 - a), inside * a)]
    if delta:
        pairs = [(delta, Fraction(0)), *pairs, (Fraction(0), delta)]
    outcomes = len(pairs)
    # Outcomes stand in the order of their likelihood ratio, so a monotone map cuts them into runs, one for each class
    # that it uses; other maps lose no more at any linear functional.
    maps: list[Map] = []
    for runs in range(1, min(outcomes, classes) + 1):
        for cuts in combinations(range(1, outcomes), runs - 1):
            ends = (0, *cuts, outcomes)
            maps.extend(
                tuple(c for c, i, j in zip(order, ends, ends[1:], strict=False) for _ in range(j - i))
                for order in permutations(range(classes), runs)
            )
    # In fractions: the certificate evaluates its worst corner exactly.
    before, after = (
        tuple(
            tuple(sum((pairs[j][side] for j in range(outcomes) if chosen[j] == c), Fraction(0)) for c in range(classes))
            for chosen in maps
        )
        for side in (0, 1)
    )
    moves = np.array([float(len(set(chosen)) > 1) for chosen in maps])
    moves.setflags(write=False)
    return VoterMaps(tuple(maps), before, after, moves)


def _relabellings(maps: tuple[Map, ...], classes: int) -> Index:
    """Return the place of each map after every relabelling of the classes, shape (C!, maps)."""
    places = {chosen: place for place, chosen in enumerate(maps)}
    return np.array(
        [[places[tuple(order[c] for c in chosen)] for chosen in maps] for order in permutations(range(classes))]
    )


def corner_count(problem: GroupProblem, *, swept: bool = False) -> int:
    """Return the number of corners of a problem, one of each orbit under relabelling the classes; nothing is listed.

    ``swept`` counts those that a sweep looks at: one group's up to relabelling, the others' in full.

    Source: the lemma that is not Burnside's; a permutation fixes the multisets that are unions of its cycles.

    >>> from darrm_opt.tables.groups import group_of
    >>> corner_count(GroupProblem(3, [group_of(5, 0.5)], Privacy(1.0)))
    222
    """
    sides = [voter_maps(voter, problem.classes) for voter in problem.strictest[0]]
    orders = [_relabellings(side.maps, problem.classes) for side in sides]
    first = _reduced_group(problem)
    total = 0
    for number in range(len(orders[0])):
        fixed = [1]  # by voters that move: combinations that this relabelling leaves as they are
        for g, (side, order) in enumerate(zip(sides, orders, strict=True)):
            chosen = order[0 if swept and g != first else number]
            fixed = _products(fixed, _fixed_multisets(chosen, side.moves, problem.groups[g].K, problem.affected))
        total += sum(fixed[: problem.affected + 1])
    return total // len(orders[0])


def _fixed_multisets(order: Index, moves: Array, K: int, affected: int) -> list[int]:
    """Return how many multisets of K maps a relabelling fixes, by number of those that move (up to ``affected``)."""
    most = min(K, affected)
    ways = [[0] * (most + 1) for _ in range(K + 1)]
    ways[0][0] = 1
    seen: set[int] = set()
    for place in range(len(order)):
        if place in seen:
            continue
        length, at = 0, place
        while at not in seen:
            seen.add(at)
            at, length = int(order[at]), length + 1
        moved = length if moves[place] else 0
        for k in range(length, K + 1):
            for r in range(moved, most + 1):
                ways[k][r] += ways[k - length][r - moved]
    return ways[K]


def _products(left: list[int], right: list[int]) -> list[int]:
    total = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            total[i + j] += a * b
    return total


def _reduced_group(problem: GroupProblem) -> int:
    """Return the group whose multisets are listed up to relabelling: the one with most."""
    counts = [
        math.comb(group.K + len(voter_maps(voter, problem.classes).maps) - 1, group.K)
        for group, voter in zip(problem.groups, problem.strictest[0], strict=True)
    ]
    return counts.index(max(counts))


@dataclass(frozen=True, eq=False)
class GroupLaws:
    """Multisets of one group's maps, and the laws of its counts."""

    multisets: Index  # places of the maps, increasing, shape (multisets, K)
    moved: Index  # voters that move, shape (multisets,)
    # probability of each composition of the votes, shape (multisets, compositions); every entry has a relative error
    # below (C + 2)·K·`UNIT_ROUNDOFF` (plus underflow)
    before: Array
    after: Array  # the same on the neighbouring data set


def group_laws(sides: VoterMaps, K: int, classes: int, affected: int, *, reduced: bool) -> GroupLaws:
    """Return the laws of a group.

    ``reduced``: one multiset of each orbit under relabelling the classes.

    Guarantees: With ``reduced`` each orbit's first multiset, in lexicographic order. The first of an orbit without its
    largest map is the first of its own orbit, so each is found by adding a map to one that is.
    """
    orders = _relabellings(sides.maps, classes)[: None if reduced else 1]
    digits = _digits(len(sides.maps), K)[orders]  # of each map after each relabelling, shape (orders, maps, limbs)
    p, q = (np.array([[float(x) for x in row] for row in side]) for side in (sides.before, sides.after))
    chosen = np.empty((1, 0), dtype=np.int16)
    moved = np.zeros(1, dtype=np.intp)
    before = after = np.ones((1, 1))
    # One voter at a time, no map before the last one's: each multiset is made once, from one parent, and its law is the
    # parent's convolved with one voter's. A multiset that is not the first of its orbit is dropped at once: none that
    # continues it is the first of its own.
    for k in range(1, K + 1):
        last = chosen[:, -1].astype(np.intp) if k > 1 else np.zeros(1, dtype=np.intp)
        more = len(sides.maps) - last  # maps that may follow: none before the last
        parent = np.repeat(np.arange(len(chosen)), more)
        new = np.arange(len(parent)) - np.repeat(np.cumsum(more) - more - last, more)
        count = moved[parent] + sides.moves[new].astype(np.intp)
        keep = count <= affected
        parent, new, count = parent[keep], new[keep], count[keep]
        rows = max(1, KEY_BLOCK // len(orders))
        blocks = [slice(start, start + rows) for start in range(0, len(new), rows)]
        first = [_is_first(digits, chosen[parent[block]].astype(np.intp), new[block]) for block in blocks]
        keep = np.concatenate(first) if first else np.zeros(0, dtype=bool)
        parent, new, moved = parent[keep], new[keep], count[keep]
        places, width = _steps(k, classes)
        before = _convolved(before, parent, p[new], places, width)
        after = _convolved(after, parent, q[new], places, width)
        chosen = np.column_stack([chosen[parent], new.astype(np.int16)])
    return GroupLaws(chosen.astype(np.intp), moved, before, after)


def _digits(maps: int, K: int) -> Index:
    """Return for each map what one voter at it adds to a key: a digit of base K + 1, in limbs of 62 bits."""
    # Of two multisets of one size the first in lexicographic order has the larger key.
    bits = K.bit_length()
    per_limb = 62 // bits
    limbs = np.zeros((maps, -(-maps // per_limb)), dtype=np.int64)
    for place in range(maps):
        limbs[place, place // per_limb] = 1 << bits * (per_limb - 1 - place % per_limb)
    return limbs


def _is_first(digits: Index, chosen: Index, new: Index) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which multisets, chosen maps and a new one, have no relabelling with a larger key: the first of orbits."""
    larger = np.zeros((len(digits), len(new)), dtype=bool)
    equal = np.ones_like(larger)
    for limb in range(digits.shape[2]):  # one after the other: with many classes, keys of all limbs fill the memory
        column = digits[:, :, limb]
        key = column[:, new]
        for k in range(chosen.shape[1]):
            key += column[:, chosen[:, k]]
        larger |= equal & (key > key[0])
        equal &= key == key[0]
        if not equal[1:].any():
            break
    return np.asarray(~larger.any(axis=0))


def _convolved(laws: Array, parent: Index, chances: Array, places: list[Index], width: int) -> Array:
    """Return the laws of the counts with one more voter, of the multisets that each continue a parent."""
    result = np.empty((len(parent), width))
    rows = max(1, LAW_BLOCK // width)
    for start in range(0, len(parent), rows):  # blocks that stay in the cache
        block = np.ascontiguousarray(laws[parent[start : start + rows]].T)
        law = np.zeros((width, block.shape[1]))
        for c, place in enumerate(places):
            law[place] += block * chances[start : start + rows, c]
        result[start : start + rows] = law.T
    return result


@dataclass(frozen=True, eq=False)
class Violations:
    """Corners at which a table loses most."""

    corners: Index  # place of the multiset of each group, shape (found, groups)
    # the worst set of outputs that is not empty, shape (found, outputs)
    sets: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    excesses: Array  # e^−ε·Pr[S | before] − Pr[S | after] − e^−ε·δ as computed, shape (found,), largest first
    largest: float  # the largest of all corners, as computed


class Corners:
    """Every corner of a problem, one of each orbit, as laws; with ``moving`` those where these groups alone move."""

    def __init__(
        self,
        problem: GroupProblem,
        voters: tuple[Privacy, ...],
        target: Privacy,
        *,
        moving: Collection[int] | None = None,
    ) -> None:
        self.problem, self.cells = problem, problem.cells
        self.reduced = _reduced_group(problem)
        check_reach(problem)
        self.maps = [voter_maps(voter, problem.classes) for voter in voters]
        self.laws = [
            group_laws(
                side,
                group.K,
                problem.classes,
                problem.affected if moving is None or g in moving else 0,
                reduced=g == self.reduced,
            )
            for g, (side, group) in enumerate(zip(self.maps, problem.groups, strict=True))
        ]
        self.target = target  # of the release, as it shall be read
        _, high = exp_bounds(target.epsilon)
        exact = Fraction(1 << EXPONENT_BITS, high)
        self.inverse = _float_below(exact)  # e^−ε, rounded down
        self.limit = _float_below(Fraction(target.delta) * exact)  # e^−ε·δ, rounded down
        # Laws have relative errors of (C+2) units a voter, products of matrices as many as their terms; the table's
        # chances one; e^−ε two. All terms are ≥ 0, so that the parts of an excess, e^−ε and 1 at most in sum over
        # the outputs, keep these relative errors; differences and sums over the outputs add a few.
        steps = (
            (problem.classes + 3) * problem.K + 2 * sum(self.cells.widths) + len(problem.groups) + problem.outputs + 16
        )
        self.relative = 1.01 * steps * UNIT_ROUNDOFF
        # Between two classes Pr[1] is 1 − Pr[0], and so are the losses of the second: they are not computed.
        self._seen = 1 if self.problem.outputs == 2 else self.problem.outputs
        self._last = np.empty((0, 0))
        if len(self.laws) > 1:
            last = [law for g, law in enumerate(self.laws) if g != self.reduced][-1]
            self._last = np.ascontiguousarray(np.hstack([last.before, last.after]).T)
        # bound on the error of a computed excess, rounding of the laws, products and sums
        self.error = self.relative * (self.inverse + 1.0) * 1.01 + 1e-290

    def __len__(self) -> int:
        return math.prod(len(law.multisets) for law in self.laws)

    def _losses(self, table: Array, start: int, rows: int) -> Array:
        """Return e^−ε·Pr[o | before] − Pr[o | after] at a block of the reduced group's multisets, of all `_seen` o."""
        lead = self.laws[self.reduced]
        others = [law for g, law in enumerate(self.laws) if g != self.reduced]
        part = slice(start, start + rows)
        if not others:
            return np.ascontiguousarray(((lead.before[part] * self.inverse - lead.after[part]) @ table).T)
        flat = table.reshape(len(table), -1)
        sides = []
        for side, scale in (("before", self.inverse), ("after", -1.0)):
            contracted = ((getattr(lead, side)[part] * scale) @ flat).reshape(-1, *table.shape[1:])
            for axis, law in enumerate(others[:-1], 1):
                # one more group's counts become its multisets, in the same place
                contracted = np.moveaxis(np.tensordot(contracted, getattr(law, side), axes=(axis, 1)), -1, axis)
            sides.append(np.moveaxis(contracted, -1, 0))
        # The last product takes both sides at once: no array of the corners' size is made beside the losses.
        both = np.ascontiguousarray(np.concatenate(sides, axis=-1))
        losses = np.empty((*both.shape[:-1], self._last.shape[1]))
        width = max(1, PRODUCT_TERMS // (both.shape[-2] * both.shape[-1]))
        for tile in range(0, self._last.shape[1], width):
            np.matmul(both, self._last[:, tile : tile + width], out=losses[..., tile : tile + width])
        return losses

    def _excesses(self, losses: Array) -> Array:
        """Return the largest Σ losses − e^−ε·δ of a set of outputs that is not empty, the first axis being outputs."""
        if self._seen < self.problem.outputs:
            excess = (self.inverse - 1.0) - losses[0]
            np.maximum(excess, losses[0], out=excess)
        else:
            excess, top = np.maximum(losses[0], 0.0), losses[0].copy()
            for of_output in losses[1:]:
                excess += np.maximum(of_output, 0.0)
                np.maximum(top, of_output, out=top)
            # Of the sets that are not empty: no rounding is to be charged to the empty one.
            excess += np.minimum(top, 0.0, out=top)
        excess -= self.limit
        return np.asarray(excess)

    def _too_many(self, start: int, rows: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None:
        """Return which corners of a block move more voters than one record can, or None if none does."""
        if self.problem.affected >= self.problem.K or len(self.laws) == 1:
            return None
        moved = self.laws[self.reduced].moved[start : start + rows]
        for g, law in enumerate(self.laws):
            if g != self.reduced:
                moved = moved[..., None] + law.moved
        return moved > self.problem.affected

    def violations(self, chances: Array, above: float, most: int = 200) -> Violations:
        """Return the corners at which a table loses most: a complete sweep.

        ``most`` of those whose excess is above ``above``: one for each multiset of the reduced group first.

        Guarantees: At no corner has a set that is not empty an excess above ``largest`` + `error`.
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
                # Combinations in which a record would move more than `affected` voters are no corners.
                loss[too_many] = -math.inf
            flat = loss.reshape(len(loss), -1)
            best = flat.argmax(axis=1)
            excess = flat[np.arange(len(flat)), best]
            worst = float(excess.max(initial=-math.inf))
            # One corner for each multiset of the reduced group: the very worst ones resemble each other.
            first = np.flatnonzero(excess > above) * flat.shape[1] + best[excess > above]
            more = np.flatnonzero(flat > max(above, 0.5 * worst)) if worst > above else first
            hits = np.union1d(first, more) if more.size <= most else first
            found = losses.reshape(self._seen, -1)[:, hits].T
            # Losses of all outputs add up to e^−ε − 1: the last one follows from the others.
            if self._seen < outputs:
                found = np.hstack([found, (self.inverse - 1.0) - found])
            highest = found.max(axis=1, initial=-math.inf, keepdims=True)
            # S must not be empty, or its excess is 0 and proves nothing of the table.
            sets = (found > 0) | ((found == highest) & (highest <= 0))
            places = np.array(np.unravel_index(hits, loss.shape))
            places[0] += start
            corners = np.empty((hits.size, groups), dtype=np.intp)
            corners[:, order] = places.T
            return worst, flat.ravel()[hits], corners, sets, np.isin(hits, first, assume_unique=True)

        starts = range(0, lead, rows)
        threads = min(thread_count(), len(starts))
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:  # products and comparisons leave the interpreter
                parts = list(pool.map(search, starts))
        else:
            parts = [search(start) for start in starts]
        largest = max(part[0] for part in parts)
        excesses, corners, sets, first = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3, 4))
        best = np.lexsort((-excesses, ~first))[:most]
        best = best[np.argsort(-excesses[best], kind="stable")]
        return Violations(corners[best], sets[best], excesses[best], largest)

    def output_laws(self, chances: Array) -> tuple[Array, Array]:
        """Return Pr[o | before] and Pr[o | after] at every corner, shape (corners, outputs).

        Guarantees: each with a relative error below ``relative``, but for underflow.
        """
        sides = []
        for side in ("before", "after"):
            table = chances.reshape(*self.cells.widths, -1)
            for law in self.laws:  # the first axis becomes the multisets of its group, and goes to the end
                table = np.moveaxis(np.tensordot(getattr(law, side), table, axes=(1, 0)), 0, -2)
            sides.append(table.reshape(-1, table.shape[-1]))
        moved = np.zeros((), dtype=np.intp)
        for law in self.laws:
            moved = np.add.outer(moved, law.moved)
        within = moved.ravel() <= self.problem.affected
        return sides[0][within], sides[1][within]

    def private_share(self, excess: float) -> float:
        """Return by what x is to be multiplied so that an excess becomes 0, which is convex in x (but for rounding)."""
        slack = -math.expm1(-self.target.epsilon) / self.problem.outputs + self.limit  # of x = 0, at least
        return 1.0 if excess <= 0 else max(0.0, 1 - excess / (excess + slack) * (1 + 2.0**-20) - 2.0**-50)

    def multisets(self, corners: Index) -> list[Index]:
        """Return the places of each group's maps at corners, as `laws_at` takes them."""
        return [law.multisets[corners[:, g]] for g, law in enumerate(self.laws)]


def check_reach(problem: GroupProblem) -> int:
    """Refuse a problem that is too large, before any work; return how many probabilities its laws hold."""
    full = [voter_maps(voter, problem.classes) for voter in problem.strictest[0]]
    bound = [math.comb(group.K + len(side.maps) - 1, group.K) for group, side in zip(problem.groups, full, strict=True)]
    lead, orders = _reduced_group(problem), math.factorial(problem.classes)
    # To count exactly takes K·affected steps a map. Where these are more than for 2,000 voters that all move, there are
    # more than `MAX_CORNERS` corners of any table that is within reach, and a bound is reason enough.
    steps = max(group.K * min(group.K, problem.affected) for group in problem.groups)
    if steps > MAX_COUNT_STEPS and max(bound) > MAX_CORNERS:
        corners, sizes = math.prod(bound) // orders, [n // (orders if g == lead else 1) for g, n in enumerate(bound)]
    else:
        alone = [
            GroupProblem(problem.classes, [group], problem.target, min(problem.affected, group.K))
            for group in problem.groups
        ]
        sizes = [corner_count(one) if g == lead else _unreduced(one) for g, one in enumerate(alone)]
        corners = math.prod(sizes)
    keys = key_count(problem)
    if keys > MAX_KEYS:
        raise InvalidInput(
            "groups",
            "; ".join(map(str, problem.groups)),
            f"multisets of voters' maps that can be listed; {problem.classes} classes have {orders} orders, too many "
            "for so many voters",
            "Take fewer voters or classes, or Delta = 0.",
        )
    widths = problem.cells.widths
    memory = sum(16 * 3 * size * width for size, width in zip(sizes, widths, strict=True))
    if corners > MAX_CORNERS or memory > MAX_LAW_BYTES:
        raise InvalidInput(
            "groups",
            "; ".join(map(str, problem.groups)),
            f"at most {MAX_CORNERS:,} corners and {MAX_LAW_BYTES >> 20} MiB of laws; here there are {corners:,} "
            f"corners and {memory >> 20:,} MiB",
            "Take fewer voters or classes, Delta = 0, or fewer affected voters.",
        )
    return sum(size * width for size, width in zip(sizes, widths, strict=True))


def key_count(problem: GroupProblem) -> int:
    """Return about how many digits of keys are compared while the lead's multisets are listed up to relabelling."""
    lead = problem.groups[_reduced_group(problem)]
    maps, orders = len(voter_maps(lead.voter, problem.classes).maps), math.factorial(problem.classes)
    parents = 1
    if lead.K > 1:
        fewer = GroupProblem(
            problem.classes, [VoterGroup(lead.K - 1, lead.voter)], problem.target, min(problem.affected, lead.K - 1)
        )
        parents = corner_count(fewer)
    limbs = int(_digits(maps, lead.K).shape[1])
    return parents * maps * orders * limbs * lead.K


def count_bound(problem: GroupProblem, voters: tuple[Privacy, ...], moving: Collection[int]) -> int:
    """Return at least as many corners as there are for these voters at which the moving groups alone move."""
    total = 1
    for g, (group, voter) in enumerate(zip(problem.groups, voters, strict=True)):
        if g in moving:
            alone = [VoterGroup(group.K, voter)]
            affected = min(problem.affected, group.K)
            total *= _unreduced(GroupProblem(problem.classes, alone, problem.target, affected))
        else:
            total *= problem.cells.widths[g]
    return total


def _unreduced(problem: GroupProblem) -> int:
    """Return the number of multisets of a problem's one group."""
    side = voter_maps(problem.strictest[0][0], problem.classes)
    identity = np.arange(len(side.maps))
    return sum(_fixed_multisets(identity, side.moves, problem.groups[0].K, problem.affected))


def _float_below(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def laws_at(problem: GroupProblem, maps: list[VoterMaps], multisets: list[Index]) -> tuple[Array, Array]:
    """Return the laws of the counts at given corners, of voters that may be read otherwise than those of a sweep.

    Before and after, shape (corners, counts).
    """
    joint = [np.ones((len(multisets[0]), 1)) for _ in range(2)]
    for side, chosen in zip(maps, multisets, strict=True):
        for number, exact in enumerate((side.before, side.after)):
            chances = np.array([[float(x) for x in row] for row in exact])
            law, same = np.ones((len(chosen), 1)), np.arange(len(chosen))
            for k in range(1, chosen.shape[1] + 1):
                places, width = _steps(k, problem.classes)
                law = _convolved(law, same, chances[chosen[:, k - 1]], places, width)
            joint[number] = (joint[number][:, :, None] * law[:, None, :]).reshape(len(chosen), -1)
    return joint[0], joint[1]


def _steps(k: int, classes: int) -> tuple[list[Index], int]:
    """Return where each composition of k − 1 votes stands with one more for each class, and how many there are."""
    votes, more = compositions(k - 1, classes), compositions(k, classes)
    factors = (k + 1) ** np.arange(classes)[::-1]
    steps = np.eye(classes, dtype=np.intp)
    return [np.searchsorted(more @ factors, (votes + step) @ factors) for step in steps], len(more)
