"""Groups of voters by full enumeration: all maps of the outcomes, multisets and sets of outputs, without symmetry.

Nothing is shared with the product. A voter's region is the polygon of the points (ε, δ) that it states; its outcomes
are the edges of the upper boundary. A voter's corner is any of the C^m maps from its m outcomes to the classes, or only
a monotone one where that is asked for; the program has one variable for each vote count and output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, groupby, pairwise, product
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from support.enumeration import exp_fraction

Point = tuple[float, float]
Points = Sequence[Point]
Group = tuple[int, float, float]  # K, ε, Δ
ProfileGroup = tuple[int, Points]
Pair = tuple[list[Fraction], list[Fraction]]  # probabilities of each class before and after

NOTHING = Fraction(1, 10**50)  # probabilities below this are rounding errors of e^ε: an edge of this length is none


def points_of(group: Group | ProfileGroup) -> Points:
    """Return the points of the profile of the voters of a group."""
    return group[1] if len(group) == 2 else [(group[1], group[2])]


def polygon(points: Points) -> list[tuple[Fraction, Fraction]]:
    """Return the vertices (after, before) of the upper boundary of the region of all points, from (0, 0) to (1, 1).

    They are those crossings of two lines at which no other line is lower.
    """
    zero, one = Fraction(0), Fraction(1)
    lines = [(zero, one)]  # slope, height: probabilities are at most 1
    for epsilon, delta in points:
        if not math.isinf(epsilon):
            slope = exp_fraction(epsilon)
            # Pr[S | before] ≤ e^ε·Pr[S | after] + δ for an event, and for its complement with the data sets exchanged.
            lines += [(slope, Fraction(delta)), (1 / slope, 1 - (1 - Fraction(delta)) / slope)]
    places = {zero, one}
    for (a, b), (c, d) in combinations(lines, 2):
        if a != c and 0 < (d - b) / (a - c) < 1:
            places.add((d - b) / (a - c))
    found = [(zero, zero)]
    for place in sorted(places):
        height = min(a * place + b for a, b in lines)
        if max(abs(place - found[-1][0]), abs(height - found[-1][1])) < NOTHING:
            continue
        if len(found) > 1:
            (x, y), (x2, y2) = found[-2:]
            if abs((x2 - x) * (height - y) - (place - x) * (y2 - y)) < NOTHING:  # on one line
                found.pop()
        found.append((place, height))
    return [*found, (one, one)] if found[-1] != (one, one) else found


def outcomes(points: Points) -> list[tuple[Fraction, Fraction]]:
    """Return the probabilities (before, after) of each outcome, by decreasing likelihood ratio."""
    corners = polygon(points)
    return [(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(corners)]


def every_pair(points: Points, classes: int, *, monotone: bool = False) -> list[Pair]:
    """Return the laws before and after of a voter at all maps, or at those in which each class has one run of outcomes."""
    edges = outcomes(points)
    pairs = []
    for chosen in product(range(classes), repeat=len(edges)):
        runs = [c for c, _ in groupby(chosen)]
        if monotone and len(runs) > len(set(runs)):
            continue
        p, q = [Fraction(0)] * classes, [Fraction(0)] * classes
        for (before, after), c in zip(edges, chosen, strict=True):
            p[c] += before
            q[c] += after
        pairs.append((p, q))
    return pairs


@cache
def votes_of(K: int, classes: int) -> list[tuple[int, ...]]:
    """Return all vote counts of K votes."""
    return [votes for votes in product(range(K + 1), repeat=classes) if sum(votes) == K]


def law_of(voters: Sequence[Sequence[Any]], classes: int) -> list[Any]:
    """Return the probability of each of `votes_of`, voter by voter."""
    nothing = 0 * voters[0][0]
    law: dict[tuple[int, ...], Any] = {(0,) * classes: nothing + 1}
    for law_of_voter in voters:
        before, law = law, {}
        for votes, chance in before.items():
            for c, answer in enumerate(law_of_voter):
                more = (*votes[:c], votes[c] + 1, *votes[c + 1 :])
                law[more] = law.get(more, nothing) + chance * answer
    return [law.get(votes, nothing) for votes in votes_of(len(voters), classes)]


@dataclass
class Enumeration:
    """All corners of a small problem.

    Attributes:
        counts: every combination of the groups' counts.
        before: probabilities of the counts at each corner, doubles, shape (corners, counts).
        after: the same for the neighbour.
    """

    classes: int
    outputs: int
    counts: list[tuple[tuple[int, ...], ...]]
    before: np.ndarray[Any, Any]
    after: np.ndarray[Any, Any]
    corners: list[tuple[tuple[int, ...], ...]]
    pairs: list[list[tuple[list[Fraction], list[Fraction]]]]

    @classmethod
    def of(
        cls,
        groups: Sequence[Group | ProfileGroup],
        classes: int,
        affected: int,
        *,
        abstention: bool = False,
        monotone: bool = False,
    ) -> Enumeration:
        counts = list(product(*(votes_of(group[0], classes) for group in groups)))
        pairs = [every_pair(points_of(group), classes, monotone=monotone) for group in groups]
        listed = []
        for (K, *_), options in zip(groups, pairs, strict=True):
            of_group = []
            doubles = [[[float(x) for x in side] for side in option] for option in options]
            moves = [before != after for before, after in options]
            for chosen in combinations_with_replacement(range(len(options)), K):
                moving = sum(moves[i] for i in chosen)
                if moving <= affected:
                    laws = [law_of([doubles[i][s] for i in chosen], classes) for s in (0, 1)]
                    of_group.append((chosen, moving, laws))
            listed.append(of_group)
        corners: list[tuple[tuple[int, ...], ...]] = []
        before: list[np.ndarray[Any, Any]] = []
        after: list[np.ndarray[Any, Any]] = []
        for combined in product(*listed):
            if sum(moving for _, moving, _ in combined) <= affected:
                corners.append(tuple(chosen for chosen, _, _ in combined))
                for side, rows in ((0, before), (1, after)):
                    law = np.ones(1)
                    for _, _, laws in combined:
                        law = np.outer(law, laws[side]).ravel()
                    rows.append(law)
        return cls(classes, classes + abstention, counts, np.array(before), np.array(after), corners, pairs)

    def optimum(self, worth: np.ndarray[Any, Any], *targets: Point) -> float:
        """Return the largest Σ worth·x over all x that are private for every target, shape (counts, outputs).

        Every set of outputs is a row. Violated rows are added until there are none.
        """
        n, o = len(self.counts), self.outputs
        sets = [[float(j in s) for j in range(o)] for size in range(1, o) for s in combinations(range(o), size)]
        losses = [
            (np.unique(np.round(self.before - math.exp(epsilon) * self.after, 14), axis=0), delta)
            for epsilon, delta in targets
        ]
        rows: list[Any] = []
        limits: list[float] = []
        seen: set[tuple[int, int, int]] = set()
        sums: Any = sparse.kron(sparse.eye_array(n), np.ones((1, o)))
        while True:
            answer: Any = linprog(
                -worth.ravel(),
                A_ub=sparse.vstack(rows) if rows else None,
                b_ub=limits or None,
                A_eq=sums,
                b_eq=np.ones(n),
                bounds=(0, 1),
                method="highs",
                options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
            )
            assert answer.status == 0, answer.message
            x = answer.x.reshape(n, o)
            before = len(seen)
            for t, (loss, delta) in enumerate(losses):
                excesses = loss @ x @ np.array(sets).T - delta  # for all corners and sets
                for s, column in enumerate(excesses.T):
                    for corner in np.argsort(-column)[:50].tolist():
                        if column[corner] > 1e-11 and (t, s, corner) not in seen:
                            seen.add((t, s, corner))
                            rows.append(sparse.csr_array(np.kron(loss[corner], sets[s])[None, :]))
                            limits.append(delta)
            if len(seen) == before:
                return -float(answer.fun)

    def least_delta(
        self, probabilities: Callable[[Any], Sequence[Fraction]], epsilon: float, most: int = 4
    ) -> Fraction:
        """Return the least δ ≥ 0 with which a table is (ε, δ)-DP, exact at the ``most`` worst corners in doubles."""
        return max(Fraction(0), self.worst_excess(probabilities, epsilon, 0.0, most))

    def worst_excess(
        self, probabilities: Callable[[Any], Sequence[Fraction]], epsilon: float, delta: float, most: int = 4
    ) -> Fraction:
        """Return the largest Pr[S | before] − e^ε·Pr[S | after] − δ, exact at the ``most`` worst corners in doubles."""
        table = [probabilities(counts) for counts in self.counts]
        for row in table:
            assert sum(row) == 1
            assert min(row) >= 0
        doubles = np.array([[float(x) for x in row] for row in table])
        losses = np.maximum((self.before - math.exp(epsilon) * self.after) @ doubles, 0).sum(axis=1)
        worst, c = -Fraction(delta), exp_fraction(epsilon)
        for corner in np.argsort(-losses)[:most].tolist():
            sides = []
            for side in (0, 1):
                laws = [
                    law_of([options[i][side] for i in chosen], self.classes)
                    for chosen, options in zip(self.corners[corner], self.pairs, strict=True)
                ]
                joint = [math.prod(parts, start=Fraction(1)) for parts in product(*laws)]
                sides.append(
                    [sum(mass * row[o] for mass, row in zip(joint, table, strict=True)) for o in range(self.outputs)]
                )
            excess = sum((max(p - c * q, Fraction(0)) for p, q in zip(*sides, strict=True)), Fraction(0))
            worst = max(worst, excess - Fraction(delta))
        return worst

    def plurality_worth(self) -> np.ndarray[Any, Any]:
        """Return Pr[counts] at the strict leader if the probabilities of the classes are uniform on the simplex."""
        worth = np.zeros((len(self.counts), self.outputs))
        for place, groups in enumerate(self.counts):
            total = [sum(votes[c] for votes in groups) for c in range(self.classes)]
            ways = math.prod(
                math.factorial(sum(votes)) // math.prod(math.factorial(v) for v in votes) for votes in groups
            )
            chance = ways * math.prod(math.factorial(t) for t in total)  # Dirichlet(1), up to a constant
            leaders = [c for c in range(self.classes) if total[c] == max(total)]
            if len(leaders) == 1:
                worth[place, leaders[0]] = chance
        return np.asarray(worth / worth.sum())


def random_problem(rng: np.random.Generator) -> dict[str, Any]:
    """Return a small problem: classes, groups, target, affected, abstention."""
    while True:
        classes, several = int(rng.choice([2, 2, 3, 3, 4])), int(rng.integers(1, 4))
        groups: list[Group] = []
        for _ in range(several):
            delta = float(rng.choice([0.0, 0.0, 1e-3, 0.05]))
            epsilon = float(rng.choice([0.1, 0.5, 1.0, 2.0, math.inf]))
            groups.append((int(rng.integers(1, 5)), epsilon, 0.0 if math.isinf(epsilon) else delta))
        maps = [classes ** (4 if delta else 2) for _, _, delta in groups]
        corners = math.prod(math.comb(K + m - 1, K) for (K, _, _), m in zip(groups, maps, strict=True))
        counts = math.prod(math.comb(K + classes - 1, K) for K, _, _ in groups)
        K = sum(K for K, _, _ in groups)
        if corners * counts * 2**classes <= 2_000_000:
            return {
                "classes": classes,
                "groups": groups,
                "epsilon": float(rng.choice([0.05, 0.3, 1.0, 2.0])),
                "delta": float(rng.choice([0.0, 1e-4, 0.02])),
                "affected": int(rng.integers(1, K + 1)),
                "abstention": bool(rng.random() < 0.2),
            }
