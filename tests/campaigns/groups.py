"""Groups of voters against full enumeration, at length: `python -m campaigns.groups --optima 300 --tables 10000`.

Random small problems are solved, and the optimum, the bound and the privacy of the table are held against
`tests/support/group_exact.py`, which shares no code with the product. Hostile tables (optima that are scaled, moved by
a few units in the last place, or random) are given to the verifier: none that the oracle finds beyond its (ε, δ), in
fractions, may be called private.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from support.group_exact import Enumeration, random_problem

from campaigns.pages import read_options
from darrm_opt import InvalidInput, NotPrivate, Privacy
from darrm_opt.errors import NotProven
from darrm_opt.problem import Problem, as_group
from darrm_opt.tables.certificate import verify_table
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.table import Table

TOLERANCE = 2e-9
"""How far an optimum may be from that of the oracle, whose own solver is as exact as that."""

GAP = 1e-8
"""How far above the optimum a bound may be."""


def problem_of(case: dict[str, Any]) -> Problem:
    """Return the product's form of a random problem."""
    groups = [as_group(group) for group in case["groups"]]
    target = Privacy(case["epsilon"], case["delta"])
    return Problem(
        groups=groups, target=target, affected=case["affected"], classes=case["classes"], abstention=case["abstention"]
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


def main() -> int:
    """Run as many problems as asked; return 1 if any is wrong."""
    limit = (float("inf"), "stop after this time [s], and say how far")
    asked = read_options(__doc__, None, optima=300, tables=10_000, seed=1, seconds=limit)
    start, problems, tables, private, failures = time.perf_counter(), 0, 0, 0, list[str]()
    per_problem = -(-asked.tables // asked.optima)
    while problems < asked.optima and time.perf_counter() - start < asked.seconds:
        seed = asked.seed * 1_000_000 + problems
        rng = np.random.default_rng(seed)
        case = random_problem(rng)
        problem = problem_of(case)
        solution = solve_table(problem)
        every = Enumeration.of(case["groups"], case["classes"], case["affected"], abstention=case["abstention"])
        best = every.optimum(every.plurality_worth(), (case["epsilon"], case["delta"]))
        excess = every.worst_excess(chances_of(solution.table, problem), case["epsilon"], case["delta"])
        if (
            excess > 0
            or abs(solution.utility - best) > TOLERANCE
            or not -TOLERANCE <= solution.upper_bound - best <= GAP
        ):
            failures.append(
                f"seed {seed}: {case}: {solution.utility} to {solution.upper_bound}, {best}, {float(excess)}"
            )
        problems += 1
        for _ in range(per_problem):
            table = hostile(solution.table, rng)
            if table is None:
                continue
            tables += 1
            try:
                verify_table(problem, table)
            except (NotPrivate, NotProven):
                continue
            private += 1
            excess = every.worst_excess(chances_of(table, problem), case["epsilon"], case["delta"], 1)
            if excess > 0:
                failures.append(f"seed {seed}: called private, but {float(excess)} beyond: {table.values.tolist()}")
    for failure in failures:
        sys.stdout.write(f"{failure}\n")
    sys.stdout.write(
        f"{problems} optima, {tables:,} hostile tables of which {private:,} were called private; "
        f"{len(failures)} failures; seed {asked.seed}; {time.perf_counter() - start:.0f} s\n"
    )
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
