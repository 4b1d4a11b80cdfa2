"""Optimal table: a program proposes, a proof decides.

Voters that are not private use `edge_program`, groups of voters `corner_program`.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from darrm_opt.arguments import real_number
from darrm_opt.design.solution import Status
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Problem
from darrm_opt.tables.certificate import TableCertificate, certify_table
from darrm_opt.tables.objective import TableObjective, is_plurality, objective_for, plurality_of, question_cells
from darrm_opt.tables.priors import PluralityPrior
from darrm_opt.tables.table import Table


@dataclass(frozen=True)
class TableStatistics:
    """Effort of a solve; a record does not contain it."""

    cuts: int = 0  # privacy constraints in the final program
    rounds: int = 0  # programs solved
    iterations: int = 0  # total number of simplex iterations
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class TableSolution:
    """A certified table.

    Attributes:
        problem: the problem solved.
        objective: the maximised objective.
        table: the release; its `values` are the array.
        utility: of the table.
        upper_bound: proven bound on the utility of any private release that depends on the vote counts only.
        status: outcome of the solve.
        certificate: proof that the table is private.
        statistics: effort of the solve.
    """

    problem: Problem
    objective: TableObjective
    table: Table
    utility: float
    upper_bound: float
    status: Status
    certificate: TableCertificate
    statistics: TableStatistics

    @property
    def gap(self) -> float:
        """Upper bound on the utility that the best private release has beyond this one; ≥ 0."""
        return max(0.0, self.upper_bound - self.utility)


def solve_table(
    problem: Problem,
    objective: TableObjective | PluralityPrior | str = "dirichlet(1)",
    *,
    backend: str = "highs",
    time_limit: float | None = None,
) -> TableSolution:
    """Return the best private release of votes among classes, with its certificate.

    Args:
        problem: voters, classes and target.
        objective: the utility of a release; a prior, or its text, stands for the probability of a right label given
            that one class alone leads.
        backend: the LP solver; "highs" for voters that are not private.
        time_limit: [s]; after it, the best table so far is returned with a gap.

    Guarantees:
        The table is (ε, δ)-DP for its doubles exactly as stored; no private release that depends on the counts (of each
        group) only has a utility above ``upper_bound``.

    Raises:
        InvalidInput: an argument is out of range, the prior does not fit, or there are too many vote counts.
        SolveFailed: the solver rejected the program.

    Source: ours; the documentation, "Votes among any number of classes"; Problem 1.1 of the paper for any number of
    classes and for groups of voters.

    >>> from darrm_opt import Privacy
    >>> problem = Problem(11, Privacy(math.inf), Privacy(1.0, 1e-5), affected=1, classes=3)
    >>> round(solve_table(problem, "favoured(0.4,0.5,0.6,0.7,0.8,0.9)").utility, 3)
    0.901
    >>> round(solve_table(Problem(5, Privacy(0.5), Privacy(1.0), classes=3)).utility, 4)
    0.9488
    """
    start = time.perf_counter()
    if not isinstance(problem, Problem):
        raise InvalidInput("problem", problem, "a Problem")
    if time_limit is not None:
        real_number(time_limit, "time_limit", "seconds, above 0", above=0)
    deadline = math.inf if time_limit is None else start + time_limit
    goal = objective_for(problem, objective)
    # Imported on use: reading and proving a table needs no solver.
    if is_plurality(problem, goal):
        from darrm_opt.tables import edge_program

        if backend != "highs":
            raise InvalidInput("backend", backend, "'highs' for voters that are not private")
        found = edge_program.optimum(problem, plurality_of(goal), deadline)
    else:
        from darrm_opt.tables import corner_program

        found = corner_program.optimum(problem, goal, backend, deadline)
    proved = [certify_table(problem, candidate) for candidate in found.candidates]
    # If the target is so strict that the repair leaves nothing, a release that ignores the votes may be better.
    for constant in Table.constants(question_cells(problem, goal)):
        if all(found.score(constant) > found.score(table) for table, _ in proved):
            proved.append(certify_table(problem, constant))
    table, certificate = max(proved, key=lambda pair: found.score(pair[0]))
    utility = found.score(table) + found.constant
    statistics = TableStatistics(found.cuts, found.rounds, found.iterations, time.perf_counter() - start)
    bound = max(found.bound, utility)
    return TableSolution(problem, goal, table, utility, bound, found.status, certificate, statistics)
