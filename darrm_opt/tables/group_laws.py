"""Laws of a group's votes: the maps of one voter, multisets of them up to relabelling, and the laws of their counts.

Any pair of laws of a voter is a post-processing of one pair with m outcomes: the edges of the region of its privacy
profile (`darrm_opt.voters`; Blackwell 1953). An (ε, Δ)-DP voter has four (Kairouz, Oh, Viswanath 2015), with
probabilities

    (Δ, 0),  (1−Δ)·(a, 1−a),  (1−Δ)·(1−a, a),  (0, Δ),      a = e^ε/(1 + e^ε).

A post-processing is a mixture of maps from outcomes to classes. A linear functional lets each class take a run of
outcomes in the order of their likelihood ratio, so *monotone* maps suffice, Σ_j C(m−1, j−1)·C!/(C−j)! of them: C² for
two outcomes; 8, 39, 136 for four and C = 2, 3, 4. Only the multiset of a group's maps matters.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations, permutations

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy, Problem
from darrm_opt.tables.groups import compositions
from darrm_opt.tables.problem import Index
from darrm_opt.voters import PrivacyProfile

MAX_MAPS = 3000  # maximum number of maps of one voter: six classes of four outcomes have 816, of six outcomes 2,250

KEY_BLOCK = 500_000

LAW_BLOCK = 30_000  # probabilities in one block of a convolution: what fits in the processor's cache

Map = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class VoterMaps:
    """The corners of one voter."""

    pairs: tuple[tuple[Fraction, Fraction], ...]  # probabilities of each outcome before and after, by falling ratio
    maps: tuple[Map, ...]  # the class of each outcome, outcomes in the order of the likelihood ratio
    # probability of each class, within 1e-60, one tuple of fractions per map
    before: tuple[tuple[Fraction, ...], ...]
    after: tuple[tuple[Fraction, ...], ...]  # the same on the neighbouring data set
    moves: Array  # whether the two differ, shape (maps,), read-only

    @cached_property
    def laws(self) -> tuple[Array, Array]:
        """The nearest doubles of `before` and `after`, shape (maps, classes)."""
        before, after = (np.array([[float(x) for x in row] for row in side]) for side in (self.before, self.after))
        return before, after


def _outcomes(voter: Privacy) -> tuple[tuple[Fraction, Fraction], ...]:
    """Return the pair of laws from which every pair of a voter is post-processed, by falling likelihood ratio."""
    if isinstance(voter, PrivacyProfile):
        return voter.outcomes()
    if voter.epsilon == math.inf:
        a = Fraction(1)
    else:
        context = decimal.Context(prec=80, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
        a = 1 / (1 + Fraction(context.exp(-decimal.Decimal(voter.epsilon))))
    inside, delta = 1 - Fraction(voter.delta), Fraction(voter.delta)
    pairs = ((inside * a, inside * (1 - a)), (inside * (1 - a), inside * a))
    return ((delta, Fraction(0)), *pairs, (Fraction(0), delta)) if delta else pairs


@lru_cache(maxsize=64)
def voter_maps(voter: Privacy, classes: int) -> VoterMaps:
    """Return the corners of one voter's pairs of laws.

    >>> [len(voter_maps(Privacy(0.5, 1e-3), classes).maps) for classes in (2, 3, 4)]
    [8, 39, 136]
    """
    pairs = _outcomes(voter)
    outcomes = len(pairs)
    # Outcomes are in the order of their likelihood ratio, so a monotone map cuts them into runs, one per class that it
    # uses; other maps lose no more at any linear functional.
    numbers_of_runs = range(1, min(outcomes, classes) + 1)
    count = sum(math.comb(outcomes - 1, runs - 1) * math.perm(classes, runs) for runs in numbers_of_runs)
    if count > MAX_MAPS:
        stated = f"{count:,} maps of a voter's {outcomes} outcomes to {classes} classes"
        advice = "State fewer points of the voters' privacy profile, or use fewer classes."
        raise InvalidInput("groups", stated, f"at most {MAX_MAPS:,}", advice)
    maps: list[Map] = []
    for runs in numbers_of_runs:
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
    return VoterMaps(pairs, tuple(maps), before, after, moves)


def relabellings(maps: tuple[Map, ...], classes: int) -> Index:
    """Return the place of each map after every relabelling of the classes, shape (C!, maps)."""
    places = {chosen: place for place, chosen in enumerate(maps)}
    return np.array(
        [[places[tuple(order[c] for c in chosen)] for chosen in maps] for order in permutations(range(classes))]
    )


def fixed_multisets(order: Index, moves: Array, K: int, affected: int) -> list[int]:
    """Return the number of multisets of K maps fixed by a relabelling, by number of moving ones (≤ ``affected``)."""
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


@dataclass(frozen=True, eq=False)
class GroupLaws:
    """Multisets of one group's maps, and the laws of its counts."""

    multisets: Index  # places of the maps, increasing, shape (multisets, K)
    moved: Index  # number of moving voters, shape (multisets,)
    # probability of each composition of the votes, shape (multisets, compositions); every entry has a relative error
    # below (C + 2)·K·`UNIT_ROUNDOFF` (plus underflow)
    before: Array
    after: Array  # the same on the neighbouring data set


def group_laws(
    sides: VoterMaps, K: int, classes: int, affected: int, *, reduced: bool, alike: bool = False
) -> GroupLaws:
    """Return the laws of a group.

    ``reduced``: one multiset per orbit under relabelling the classes, the first in lexicographic order. ``alike``: only
    those in which all moving voters send the outcome that is likeliest before to one class.
    """
    # The first multiset of an orbit without its largest map is the first of its own orbit, so each is found by adding a
    # map to one that is.
    orders = relabellings(sides.maps, classes)[: None if reduced else 1]
    digits = map_digits(len(sides.maps), K)[orders]  # of each map after each relabelling, shape (orders, maps, limbs)
    p, q = sides.laws
    chosen = np.empty((1, 0), dtype=np.int16)
    moved = np.zeros(1, dtype=np.intp)
    first_class = np.array([chosen[0] for chosen in sides.maps])
    towards = np.full(1, -1)  # the class to which moving voters go first; −1 while none moves
    before = after = np.ones((1, 1))
    # One voter at a time, no map before the last one's: each multiset is made once, from one parent, and its law is the
    # parent's convolved with one voter's. A multiset that is not the first of its orbit is dropped at once, as none
    # that continues it is the first of its own.
    for k in range(1, K + 1):
        last = chosen[:, -1].astype(np.intp) if k > 1 else np.zeros(1, dtype=np.intp)
        more = len(sides.maps) - last  # maps that may follow: none before the last
        parent = np.repeat(np.arange(len(chosen)), more)
        new = np.arange(len(parent)) - np.repeat(np.cumsum(more) - more - last, more)
        count = moved[parent] + sides.moves[new].astype(np.intp)
        keep = count <= affected
        if alike:
            keep &= (sides.moves[new] == 0) | (towards[parent] < 0) | (towards[parent] == first_class[new])
        parent, new, count = parent[keep], new[keep], count[keep]
        rows = max(1, KEY_BLOCK // len(orders))
        blocks = [slice(start, start + rows) for start in range(0, len(new), rows)]
        first = [_is_first(digits, chosen[parent[block]].astype(np.intp), new[block]) for block in blocks]
        keep = np.concatenate(first) if first else np.zeros(0, dtype=bool)
        parent, new, moved = parent[keep], new[keep], count[keep]
        towards = np.where(sides.moves[new] > 0, first_class[new], towards[parent])
        places, width = next_places(k, classes)
        before = convolved(before, parent, p[new], places, width)
        after = convolved(after, parent, q[new], places, width)
        chosen = np.column_stack([chosen[parent], new.astype(np.int16)])
    return GroupLaws(chosen.astype(np.intp), moved, before, after)


def map_digits(maps: int, K: int) -> Index:
    """Return one voter's contribution to a key for each map: a digit of base K + 1, in limbs of 62 bits."""
    # Of two multisets of equal size the first in lexicographic order has the larger key.
    bits = max(1, K.bit_length())
    per_limb = 62 // bits
    limbs = np.zeros((maps, -(-maps // per_limb)), dtype=np.int64)
    for place in range(maps):
        limbs[place, place // per_limb] = 1 << bits * (per_limb - 1 - place % per_limb)
    return limbs


def _is_first(digits: Index, chosen: Index, new: Index) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which multisets, chosen maps and a new one, are first in their orbit: no relabelling has a larger key."""
    larger = np.zeros((len(digits), len(new)), dtype=bool)
    equal = np.ones_like(larger)
    for limb in range(digits.shape[2]):  # one by one: with many classes, keys of all limbs fill the memory
        column = digits[:, :, limb]
        key = column[:, new]
        for k in range(chosen.shape[1]):
            key += column[:, chosen[:, k]]
        larger |= equal & (key > key[0])
        equal &= key == key[0]
        if not equal[1:].any():
            break
    return np.asarray(~larger.any(axis=0))


def convolved(laws: Array, parent: Index, chances: Array, places: list[Index], width: int) -> Array:
    """Return the laws of the counts with one more voter, for multisets that each continue a parent."""
    result = np.empty((len(parent), width))
    rows = max(1, LAW_BLOCK // width)
    for start in range(0, len(parent), rows):  # blocks that stay in the cache
        block = np.ascontiguousarray(laws[parent[start : start + rows]].T)
        law = np.zeros((width, block.shape[1]))
        for c, place in enumerate(places):
            law[place] += block * chances[start : start + rows, c]
        result[start : start + rows] = law.T
    return result


def laws_at(problem: Problem, maps: list[VoterMaps], multisets: list[Index]) -> tuple[Array, Array]:
    """Return the laws of the counts before and after at given corners, shape (corners, counts), for any voters."""
    joint = [np.ones((len(multisets[0]), 1)) for _ in range(2)]
    for side, chosen in zip(maps, multisets, strict=True):
        for number, chances in enumerate(side.laws):
            law, same = np.ones((len(chosen), 1)), np.arange(len(chosen))
            for k in range(1, chosen.shape[1] + 1):
                places, width = next_places(k, problem.classes)
                law = convolved(law, same, chances[chosen[:, k - 1]], places, width)
            joint[number] = (joint[number][:, :, None] * law[:, None, :]).reshape(len(chosen), -1)
    return joint[0], joint[1]


@lru_cache(maxsize=256)
def next_places(k: int, classes: int) -> tuple[list[Index], int]:
    """Return the index of each composition of k − 1 votes with one more for each class, and their number."""
    votes, more = compositions(k - 1, classes), compositions(k, classes)
    factors = (k + 1) ** np.arange(classes)[::-1]
    steps = np.eye(classes, dtype=np.intp)
    return [np.searchsorted(more @ factors, (votes + step) @ factors) for step in steps], len(more)
