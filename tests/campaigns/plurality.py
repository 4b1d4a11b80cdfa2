"""Is every certified plurality rule private, and would a plain solver's answer have been?

Random problems of up to 7 voters and 4 classes; for each

- the certified rule of `solve_table` is evaluated in fractions at every vote count, every neighbour and every set
  of outputs, listed one by one without any symmetry (`support.plurality_exact`). Nothing may come out above the limit;
- its certificate is made again from the table alone, and must be the same;
- the gap between the rule's worth and the proven bound is noted.

    PYTHONPATH=tests python -m campaigns.plurality --problems 10000 --write docs/soundness.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from support.plurality_exact import worst_excess

from campaigns.driver import Campaign, Row, Tally, listed, shares_within, table
from darrm_opt import Privacy
from darrm_opt.plurality import Dirichlet, Favoured, PluralityObjective, TableSolution, solve_table, verify_table
from darrm_opt.problem import NOT_PRIVATE, Problem

MAX_VOTERS = {2: 9, 3: 6, 4: 4}  # voters by classes: every set of outputs of every edge is listed in fractions

ABOVE = Fraction(1, 10**40)
"""By how much the oracle's e^ε is above the true one, times any probability; at ε ≤ 20 it is below 1e-36 of it."""


@dataclass(frozen=True)
class Finding:
    """Finding on one problem: the solution, and the exact excess at every vote count [probability], ≤ 0 or wrong."""

    solution: TableSolution
    excess: Fraction
    same: bool

    @property
    def holds(self) -> bool:
        return self.excess <= ABOVE and self.same


def random_problem(rng: np.random.Generator) -> tuple[Problem, PluralityObjective]:
    """Return a problem and an objective, extremes included."""
    classes = int(rng.choice([2, 3, 3, 4]))
    K = int(rng.integers(1, MAX_VOTERS[classes] + 1))
    epsilon = float(rng.choice([0.0, 20.0, *(10 ** rng.uniform(-3, 0.7, size=6))]))
    delta = float(rng.choice([0.0, 0.0, *(10 ** rng.uniform(-12, -0.5, size=4))]))
    affected = int(rng.integers(1, min(K, 3) + 1))
    problem = Problem(
        K, NOT_PRIVATE, Privacy(epsilon, delta), affected, classes=classes, abstention=bool(rng.integers(3) == 0)
    )
    if rng.integers(2):
        prior: Favoured | Dirichlet = Favoured(tuple(rng.uniform(1 / classes + 1e-3, 1, size=3).tolist()))
    else:
        prior = Dirichlet(float(10 ** rng.uniform(-1, 1)))
    ties = "any" if rng.integers(2) else "excluded"
    return problem, PluralityObjective(prior, ties, float(rng.choice([0.0, 1.0, 4.0])))  # type: ignore[arg-type]


def examine(problem: Problem, objective: PluralityObjective) -> Finding:
    """Solve one problem and check its rule exactly."""
    solution = solve_table(problem, objective)
    target, rule = problem.target, solution.table
    excess = worst_excess(
        rule.probabilities, problem.K, problem.classes, problem.affected, target.epsilon, target.delta
    )
    return Finding(solution, excess, verify_table(problem, rule) == solution.certificate)


def finding(seed: int, number: int) -> Finding:
    return examine(*random_problem(np.random.default_rng((seed, number))))


def row(found: Finding) -> Row:
    problem = found.solution.problem
    kinds = {
        f"C = {problem.classes}": True,
        "abstention": problem.abstention,
        "affected > 1": problem.affected > 1,
        "δ = 0": problem.target.delta == 0,
        "ε = 0": problem.target.epsilon == 0,
        "ε = 20": problem.target.epsilon == 20,
        found.solution.status.value: True,
    }
    return Row(
        [] if found.holds else [f"not private: {problem}"],
        [f"problem: {kind}" for kind, holds in kinds.items() if holds],
        {"gap": found.solution.gap, "slack": float(-found.excess)},
    )


def lines(tally: Tally) -> Iterator[str]:
    slack = f"{min(tally.values('slack')):.1e}"
    yield from table(
        ("certified rules", "not private as doubles", "smallest slack"), [(len(tally.rows), len(tally.faults), slack)]
    )
    yield ""
    yield f"Problems by kind: {listed(tally.kinds('problem'))}"
    gaps = tally.values("gap")
    yield f"Gaps: {shares_within(gaps, (1e-8, 1e-7, 1e-6))}; the largest {max(gaps):.1e}."


CAMPAIGN = Campaign(
    "plurality",
    __doc__,
    "problems",
    10_000,
    lambda seed, number: row(finding(seed, number)),
    lines,
    verb="plurality",
    packages=("highspy", "scipy", "numpy"),
)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
