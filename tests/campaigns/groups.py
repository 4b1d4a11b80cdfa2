"""Groups of voters against full enumeration, at length: `python -m campaigns.groups --optima 300`.

Random small problems are solved, and the optimum, the bound and the privacy of the table are held against
`tests/support/group_exact.py`, which shares no code with the product. Hostile tables (optima that are scaled, moved by
a few units in the last place, or random) are given to the verifier: none that the oracle finds beyond its (ε, δ), in
fractions, may be called private.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from support.group_exact import Enumeration, random_problem

from campaigns.driver import Campaign, Row, Tally
from darrm_opt import InvalidInput, NotPrivate, Privacy
from darrm_opt.errors import NotProven
from darrm_opt.problem import Problem
from darrm_opt.tables.certificate import verify_table
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.table import Table

TOLERANCE = 2e-9  # how far an optimum may be from that of the oracle, whose own solver is as exact as that
GAP = 1e-8  # how far above the optimum a bound may be
TABLES = 34  # hostile tables of each problem


def problem_of(case: dict[str, Any]) -> Problem:
    """Return the product's form of a random problem."""
    target = Privacy(case["epsilon"], case["delta"])
    return Problem(
        groups=case["groups"],
        target=target,
        affected=case["affected"],
        classes=case["classes"],
        abstention=case["abstention"],
    )


def chances_of(table: Table, problem: Problem) -> Callable[[Any], Sequence[Fraction]]:
    """Return the chances of a table by the counts of each group, as the oracle has them."""
    return (lambda counts: table.probabilities(counts[0])) if problem.is_public else table.probabilities


def hostile(best: Table, rng: np.random.Generator) -> Table | None:
    """Return a table that is private, or just not."""
    values = best.values.copy()
    kind = int(rng.integers(4))
    if kind == 0:
        values *= 1 + 10.0 ** -rng.integers(1, 16)
    elif kind == 1:
        values = np.nextafter(values, rng.choice([0.0, 2.0], values.size))
    elif kind == 2:
        values[rng.integers(values.size)] = rng.random()
    else:
        values = rng.random(values.size) * 10.0 ** -rng.integers(0, 6)
    sums = np.add.reduceat(values * best.cells.multiplicities, best.cells.starts)
    values = values / np.maximum(sums, 1.0)[best.cells.owners] * (1 - 2.0**-50)
    try:
        return Table(best.cells, np.clip(values, 0.0, 1.0))
    except InvalidInput:
        return None


def examine(seed: int, number: int) -> Row:
    """Solve a random problem, and verify hostile tables for it."""
    rng = np.random.default_rng(1_000_000 * seed + number)
    case = random_problem(rng)
    problem, total = problem_of(case), (case["epsilon"], case["delta"])
    solution = solve_table(problem)
    every = Enumeration.of(case["groups"], case["classes"], case["affected"], abstention=case["abstention"])
    best = every.optimum(every.plurality_worth(), total)
    excess = every.worst_excess(chances_of(solution.table, problem), *total)
    faults, verdicts = list[str](), Counter[str]()
    is_near = abs(solution.utility - best) <= TOLERANCE and -TOLERANCE <= solution.upper_bound - best <= GAP
    if excess > 0 or not is_near:
        faults.append(f"{case}: {solution.utility} to {solution.upper_bound}, {best}, {float(excess)}")
    for _ in range(TABLES):
        table = hostile(solution.table, rng)
        if table is None:
            continue
        try:
            verify_table(problem, table)
        except (NotPrivate, NotProven):
            verdicts["refused"] += 1
            continue
        verdicts["private"] += 1
        excess = every.worst_excess(chances_of(table, problem), *total, 1)
        if excess > 0:
            faults.append(f"called private, but {float(excess)} beyond: {case}, {table.values.tolist()}")
    return Row(faults, [], {**verdicts})


def lines(tally: Tally) -> Iterator[str]:
    private, refused = (int(sum(tally.values(name))) for name in ("private", "refused"))
    yield (
        f"{len(tally.rows)} optima, {private + refused:,} hostile tables of which {private:,} were called private; "
        f"{len(tally.faults)} failures."
    )


CAMPAIGN = Campaign("groups", __doc__, "optima", 300, examine, lines, verb="groups")

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
