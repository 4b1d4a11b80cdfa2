"""Plurality by full enumeration: all vote counts, neighbours and sets of outputs, without symmetry.

Only the probabilities of a table at one vote count are from the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from support.enumeration import whole

Counts = tuple[int, ...]


def vote_counts(K: int, classes: int) -> list[Counts]:
    """Return all vote counts of K votes."""
    if classes == 1:
        return [(K,)]
    return [(first, *rest) for first in range(K + 1) for rest in vote_counts(K - first, classes - 1)]


def neighbours(counts: Counts, affected: int) -> set[Counts]:
    """Return all other vote counts after changing up to ``affected`` votes."""
    reached = {counts}
    for _ in range(affected):
        reached |= {
            tuple(n - (c == a) + (c == b) for c, n in enumerate(each))
            for each in reached
            for a, b in permutations(range(len(each)), 2)
            if each[a]
        }
    return reached - {counts}


def exp_above(epsilon: float) -> Fraction:
    """Return a fraction above e^ε by less than 1e-40 of it."""
    with localcontext(prec=80):
        return Fraction(Decimal(epsilon).exp()) * (1 + Fraction(1, 10**45))


def worst_excess(
    probabilities: Callable[[Counts], Sequence[Fraction]],
    K: int,
    classes: int,
    affected: int,
    epsilon: float,
    delta: float,
) -> Fraction:
    """Return the largest Pr[S | n] − e^ε·Pr[S | n′] − δ over all n, n′ and sets S, by enumeration.

    e^ε is rounded up by 1e-45: a larger violation gives a positive value.
    """
    c, worst = exp_above(epsilon), 0
    every = vote_counts(K, classes)
    one, laws = whole([probabilities(counts) for counts in every])
    table = dict(zip(every, laws, strict=True))
    for counts, p_law in table.items():
        assert sum(p_law) == one
        assert min(p_law) >= 0
        for neighbour in neighbours(counts, affected):
            q_law = table[neighbour]
            differences = [c.denominator * p - c.numerator * q for p, q in zip(p_law, q_law, strict=True)]
            for size in range(1, len(p_law) + 1):
                for subset in combinations(differences, size):
                    worst = max(worst, sum(subset))
    return Fraction(worst, one * c.denominator) - Fraction(delta)


def favoured_law(K: int, classes: int, chances: Sequence[float]) -> dict[Counts, float]:
    """Return the mass of every vote count if class 0 is favoured, without symmetrisation."""
    law = {}
    for counts in vote_counts(K, classes):
        orders = math.factorial(K)
        for count in counts:
            orders //= math.factorial(count)
        mass = 0.0
        for a in chances:
            b = (1 - a) / (classes - 1)
            mass += math.prod((a if c == 0 else b) ** n for c, n in enumerate(counts))
        law[counts] = orders * mass / len(chances)
    return law


def optimum(
    law: dict[Counts, float],
    affected: int,
    epsilon: float,
    delta: float,
    *,
    abstention: bool = False,
    price: float = 0.0,
) -> float:
    """Return the best expected worth of all tables, symmetric or not, given a strict plurality, by the full program.

    The law must be symmetric in the classes, else the optimum may use it.
    """
    every = list(law)
    classes = len(every[0])
    outputs = classes + abstention
    offset = {counts: index * outputs for index, counts in enumerate(every)}
    n_variables = len(every) * outputs
    worth, constant, strict = np.zeros(n_variables), 0.0, 0.0
    for counts, mass in law.items():
        top = max(counts)
        if counts.count(top) > 1:
            continue
        strict += mass
        worth[offset[counts] + counts.index(top)] += mass * (1 + price)
        if abstention:
            worth[offset[counts] + classes] += mass * price
        constant -= mass * price
    rows, columns, entries, limits, row = [], [], [], [], 0
    for counts in every:
        for neighbour in neighbours(counts, affected):
            for size in range(1, outputs + 1):
                for subset in combinations(range(outputs), size):
                    for output in subset:
                        rows += [row, row]
                        columns += [offset[counts] + output, offset[neighbour] + output]
                        entries += [math.exp(-epsilon), -1.0]
                    limits.append(math.exp(-epsilon) * delta)
                    row += 1
    sums = sparse.csr_array(np.kron(np.eye(len(every)), np.ones(outputs)))
    answer = linprog(  # type: ignore[call-overload]  # its stubs know no sparse arrays
        -worth / strict,
        A_ub=sparse.coo_array((entries, (rows, columns)), shape=(row, n_variables)).tocsr(),
        b_ub=limits,
        A_eq=sums,
        b_eq=np.ones(len(every)),
        bounds=(0, 1),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.status == 0
    return float(-answer.fun + constant / strict)


def alike(law: dict[Counts, float]) -> dict[Counts, float]:
    """Return the law averaged over all orders of the classes."""
    sums: dict[Counts, list[float]] = {}
    for counts, mass in law.items():
        sums.setdefault(tuple(sorted(counts)), []).append(mass)
    return {counts: math.fsum(sums[tuple(sorted(counts))]) / len(sums[tuple(sorted(counts))]) for counts in law}
