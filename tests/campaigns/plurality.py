"""Is every certified plurality rule private, and would a plain solver's answer have been?

Random problems of up to 7 voters and 4 classes; for each

- the certified rule of `solve_table` is evaluated in fractions at every vote count, every neighbour and every set
  of outputs, listed one by one without any symmetry (`support.plurality_exact`). Nothing may come out above the limit;
- its certificate is made again from the table alone, and must be the same;
- the gap between the rule's worth and the proven bound is noted.

    PYTHONPATH=tests python -m campaigns.plurality --problems 10000 --write docs/soundness.md
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
from support.plurality_exact import worst_excess

from campaigns.pages import listed, origin, publish, read_options
from darrm_opt import Privacy
from darrm_opt.plurality import Dirichlet, Favoured, PluralityObjective, TableSolution, solve_table, verify_table
from darrm_opt.problem import NOT_PRIVATE, Problem

MAX_VOTERS = {2: 9, 3: 6, 4: 4}
"""Voters by classes: every set of outputs of every edge is listed in fractions."""

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
        """Whether the certificate is right."""
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


def campaign(problems: int, seed: int = 0) -> Iterator[Finding]:
    """Yield the findings of that many problems; each has its own generator, so that one can be looked at alone."""
    for number in range(problems):
        yield examine(*random_problem(np.random.default_rng((seed, number))))


@dataclass
class Tally:
    """Findings, counted."""

    problems: int = 0
    broken: list[Finding] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    gaps: list[float] = field(default_factory=list)
    tightest: float = math.inf

    def add(self, finding: Finding) -> None:
        """Count one finding."""
        problem = finding.solution.problem
        self.problems += 1
        self.broken += [] if finding.holds else [finding]
        kinds = {
            f"C = {problem.classes}": True,
            "abstention": problem.abstention,
            "affected > 1": problem.affected > 1,
            "δ = 0": problem.target.delta == 0,
            "ε = 0": problem.target.epsilon == 0,
            "ε = 20": problem.target.epsilon == 20,
            finding.solution.status.value: True,
        }
        self.kinds.update(kind for kind, holds in kinds.items() if holds)
        self.gaps.append(finding.solution.gap)
        self.tightest = min(self.tightest, float(-finding.excess))

    def lines(self) -> Iterator[str]:
        """Yield the result, as Markdown."""
        yield "| certified rules | not private as doubles | smallest slack |"
        yield "|---|---|---|"
        yield f"| {self.problems} | {len(self.broken)} | {self.tightest:.1e} |"
        yield ""
        yield f"Problems by kind: {listed(self.kinds)}"
        gaps = np.array(self.gaps)
        shares = ", ".join(f"{np.mean(gaps <= limit):.2%} at most {limit:g}" for limit in (1e-8, 1e-7, 1e-6))
        yield f"Gaps: {shares}; the largest {gaps.max():.1e}."


_HEAD = (
    "## Plurality rules",
    "",
    "A certificate claims that a release rule is private for the doubles that it is stored in. This campaign holds",
    "that claim against fractions on random problems: 1 to 9 voters, 2 to 4 classes, records that move 1 to 3",
    "votes, with and without abstention, ε = 0 and from 1e-3 to 20 nats, δ = 0 and 1e-12 to 0.3. Every vote count,",
    "every neighbour and every set of outputs is listed one by one, without any symmetry, by code that shares",
    "nothing with the product's.",
    "",
)


def report(tally: Tally, command: str) -> str:
    """Return the part of the page that says what was run and what came of it."""
    return "\n".join([*_HEAD, *tally.lines(), "", origin(command, "highspy", "scipy", "numpy"), ""])


def main(arguments: Sequence[str]) -> int:
    """Run the campaign; 1 if any certified rule is not private."""
    options = read_options(__doc__, arguments, problems=10_000, seed=0, write=Path)
    tally = Tally()
    for number, finding in enumerate(campaign(options.problems, options.seed)):
        tally.add(finding)
        if not finding.holds:
            sys.stdout.write(f"NOT PRIVATE: problem {number}, {finding.solution.problem}\n")
    page = report(tally, f"make plurality ARGS='--problems {options.problems} --seed {options.seed}'")
    publish(page, options.write, _HEAD[0])
    return 1 if tally.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
