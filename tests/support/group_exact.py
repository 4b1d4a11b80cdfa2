"""Groups of voters by full enumeration: every map of the outcomes, every multiset, every set of outputs, no symmetry.

Nothing is shared with the product. A voter's corner is any of the C^4 maps (C^2 where Δ = 0) from the outcomes of the
extremal pair to the classes, monotone or not; the program has one variable for each vote count and output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

Group = tuple[int, float, float]  # K, ε, Δ


def exponential(epsilon: float) -> Fraction:
    """e^ε within 1e-60 of it."""
    with localcontext(prec=90):
        return Fraction(Decimal(epsilon).exp())


def every_pair(epsilon: float, delta: float, classes: int) -> list[tuple[list[Fraction], list[Fraction]]]:
    """The laws before and after of one voter at every map."""
    a = Fraction(1) if math.isinf(epsilon) else exponential(epsilon) / (1 + exponential(epsilon))
    d = Fraction(delta)
    outcomes = [((1 - d) * a, (1 - d) * (1 - a)), ((1 - d) * (1 - a), (1 - d) * a)]
    if delta:
        outcomes += [(d, Fraction(0)), (Fraction(0), d)]
    pairs = []
    for chosen in product(range(classes), repeat=len(outcomes)):
        p, q = [Fraction(0)] * classes, [Fraction(0)] * classes
        for (before, after), c in zip(outcomes, chosen, strict=True):
            p[c] += before
            q[c] += after
        pairs.append((p, q))
    return pairs


@cache
def votes_of(K: int, classes: int) -> list[tuple[int, ...]]:
    """Every way in which K votes fall."""
    return [votes for votes in product(range(K + 1), repeat=classes) if sum(votes) == K]


def law_of(voters: Sequence[Sequence[Any]], classes: int) -> list[Any]:
    """Chance of each of `votes_of`, voter by voter."""
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
    """Every corner of a small problem.

    Attributes:
        counts: every combination of the groups' counts.
        before: chances of the counts at each corner, doubles, shape (corners, counts).
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
    def of(cls, groups: Sequence[Group], classes: int, affected: int, *, abstention: bool = False) -> Enumeration:
        counts = list(product(*(votes_of(K, classes) for K, _, _ in groups)))
        pairs = [every_pair(epsilon, delta, classes) for _, epsilon, delta in groups]
        listed = []
        for (K, _, _), options in zip(groups, pairs, strict=True):
            of_group = []
            for chosen in combinations_with_replacement(range(len(options)), K):
                moving = sum(options[i][0] != options[i][1] for i in chosen)
                if moving <= affected:
                    laws = [law_of([[float(x) for x in options[i][s]] for i in chosen], classes) for s in (0, 1)]
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

    def optimum(self, worth: np.ndarray[Any, Any], epsilon: float, delta: float) -> float:
        """The largest Σ worth·x over all private x, shape (counts, outputs), every set of outputs a row."""
        n, o = len(self.counts), self.outputs
        difference = np.unique(np.round(self.before - math.exp(epsilon) * self.after, 14), axis=0)
        sets = [s for size in range(1, o) for s in combinations(range(o), size)]
        rows: Any = sparse.vstack(
            [
                sparse.kron(sparse.csr_array(difference), sparse.csr_array([[float(j in s) for j in range(o)]]))
                for s in sets
            ]
        )
        sums: Any = sparse.kron(sparse.eye_array(n), np.ones((1, o)))
        answer = linprog(
            -worth.ravel(),
            A_ub=rows,
            b_ub=np.full(rows.shape[0], delta),
            A_eq=sums,
            b_eq=np.ones(n),
            bounds=(0, 1),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        assert answer.status == 0, answer.message
        best: Any = answer.fun
        return -float(best)

    def worst_excess(
        self, probabilities: Callable[[Any], Sequence[Fraction]], epsilon: float, delta: float, most: int = 4
    ) -> Fraction:
        """The largest Pr[S | before] − e^ε·Pr[S | after] − δ, exact at the ``most`` corners where doubles find it worst."""
        table = [probabilities(counts) for counts in self.counts]
        for row in table:
            assert sum(row) == 1
            assert min(row) >= 0
        doubles = np.array([[float(x) for x in row] for row in table])
        losses = np.maximum((self.before - math.exp(epsilon) * self.after) @ doubles, 0).sum(axis=1)
        worst, c = -Fraction(delta), exponential(epsilon)
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
        """Chance of the counts where chances of the classes are uniform on the simplex, at the strict leader."""
        worth = np.zeros((len(self.counts), self.outputs))
        for place, groups in enumerate(self.counts):
            total = [sum(votes[c] for votes in groups) for c in range(self.classes)]
            ways = math.prod(
                math.factorial(sum(votes)) // math.prod(math.factorial(v) for v in votes) for votes in groups
            )
            chance = ways * math.prod(math.factorial(t) for t in total)  # Dirichlet(1), up to one constant
            leaders = [c for c in range(self.classes) if total[c] == max(total)]
            if len(leaders) == 1:
                worth[place, leaders[0]] = chance
        return np.asarray(worth / worth.sum())


def random_problem(rng: np.random.Generator) -> dict[str, Any]:
    """A small problem: classes, groups, target, affected, abstention."""
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
