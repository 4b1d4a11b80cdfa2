"""Comparison of the optimum with the mechanisms that people use, at equal privacy of the released label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from darrm_opt.mechanisms.calibrated_table import (
    CONFIDENT,
    CalibratedMechanism,
    calibrate_confident,
    calibrate_mechanism,
    tables,
)
from darrm_opt.tables.priors import PluralityObjective, PluralityPrior
from darrm_opt.tables.problem import PluralityProblem
from darrm_opt.tables.record import problem_record
from darrm_opt.tables.rule import PluralityRule
from darrm_opt.tables.solver import PluralitySolution, as_objective, solve_plurality, weighted_sum


@dataclass(frozen=True)
class MechanismComparison:
    """The optimal rule, and the utility of each mechanism at the same (ε, δ), neighbours and transcript.

    Attributes:
        solution: the optimum.
        mechanisms: by name, each at its largest private rate, certified.
    """

    solution: PluralitySolution
    mechanisms: dict[str, CalibratedMechanism]

    @property
    def utilities(self) -> dict[str, float]:
        """Utility of each mechanism, by name (`PluralityObjective`)."""
        return {name: utility(mechanism.rule, self.solution.objective) for name, mechanism in self.mechanisms.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        solution = self.solution
        return {
            "problem": problem_record(solution.problem),
            "prior": str(solution.objective.prior),
            "ties": solution.objective.ties,
            "price": solution.objective.price,
            "utility": solution.utility,
            "upper_bound": solution.upper_bound,
            "gap": solution.gap,
            "status": solution.status.value,
            "margin": solution.certificate.margin,
            "utilities": self.utilities,
            "rates": {name: mechanism.rate for name, mechanism in self.mechanisms.items()},
        }


def utility(rule: PluralityRule, objective: PluralityObjective) -> float:
    """Return the utility of a rule under an objective."""
    weights, constant = objective.weights(rule.cells)
    return weighted_sum(rule, weights) + constant


def compare_mechanisms(
    problem: PluralityProblem,
    objective: PluralityObjective | PluralityPrior | str = "dirichlet(1)",
    *,
    time_limit: float | None = None,
    solution: PluralitySolution | None = None,
) -> MechanismComparison:
    """Return the optimum and every mechanism for one problem.

    Args:
        problem: voters, classes and target; with abstention, Confident-GNMax is among the mechanisms.
        objective: as for `solve_plurality`.
        time_limit: for the optimum [s].
        solution: the optimum, where it is known; None: it is solved.

    Raises:
        InvalidInput: as `solve_plurality`.
    """
    goal = as_objective(objective)
    if solution is None:
        solution = solve_plurality(problem, goal, time_limit=time_limit)
    labelling = PluralityProblem(problem.K, problem.classes, problem.target, problem.affected)
    mechanisms = {name: calibrate_mechanism(labelling, name) for name in tables()}
    if problem.abstention:
        mechanisms[CONFIDENT] = calibrate_confident(problem, lambda rule: utility(rule, goal))
    return MechanismComparison(solution, mechanisms)
