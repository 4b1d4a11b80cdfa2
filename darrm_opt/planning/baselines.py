"""Baselines: what else meets the target of one release, for comparisons with γ_opt and with the best table."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from darrm_opt.baselines import (
    double_subsampling,
    plain_majority,
    plain_majority_sharp,
    randomized_response,
    subsampling,
)
from darrm_opt.design.certificate import certify
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import CONFIDENT, calibrated_names, mechanism_class
from darrm_opt.mechanisms.table import CalibratedMechanism, calibrate_confident, calibrate_mechanism, tables
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem
from darrm_opt.tables.priors import PluralityObjective, PluralityPrior
from darrm_opt.tables.problem import PluralityProblem
from darrm_opt.tables.record import problem_record
from darrm_opt.tables.rule import PluralityRule
from darrm_opt.tables.solver import PluralitySolution, as_objective, solve_plurality, weighted_sum

MAX_SCALING = 1e-9
"""Largest share of a baseline that its proof may remove: a baseline that is exactly private, as γ_Sub is, loses 1e-12
to rounding and to the canonical numbers of the problem; one that is not private loses far more."""


def _subsampled(make: Callable[[int, int], NoiseFunction], problem: Problem) -> NoiseFunction | None:
    voters = 0 if problem.m is None else math.floor(problem.m)
    return make(problem.K, min(voters, problem.K)) if voters else None


def _randomized_response(problem: Problem) -> NoiseFunction:
    price = plain_majority_sharp if problem.voter.delta == 0 else plain_majority
    majority = price(problem.K, problem.voter, problem.affected)
    return randomized_response(problem.K, problem.target, majority)


def _calibrated(name: str, problem: Problem) -> NoiseFunction | None:
    """Return the γ of a mechanism of the registry at its most useful parameter, for votes that are not private."""
    found, target = mechanism_class(name), problem.target
    if target.epsilon == 0:
        return None
    try:
        gamma = getattr(found.calibrated(problem.K, 2, target, 1, affected=problem.affected), "gamma", None)
    except InvalidInput:  # no parameter is private
        return None
    return gamma if isinstance(gamma, NoiseFunction) else None


BASELINES: dict[str, Callable[[Problem], NoiseFunction | None]] = {
    "double_subsampling": lambda problem: _subsampled(double_subsampling, problem),
    "subsampling": lambda problem: _subsampled(subsampling, problem),
    "randomized_response": _randomized_response,
}
"""By the name of its function in `darrm_opt.baselines`; None if it is not defined for the problem."""

OTHER_BASELINES: dict[str, Callable[[Problem], NoiseFunction | None]] = {
    **{name: partial(_calibrated, name) for name in calibrated_names() if name not in BASELINES},
    "majority": lambda problem: NoiseFunction.from_upper_half(np.ones((problem.K + 1) // 2), problem.K),
}
"""Shown on request: mechanisms for voters that are not private, which protect more than they need, and no noise."""


def private_baselines(problem: Problem, names: Sequence[str] | None = None) -> dict[str, NoiseFunction]:
    """Return the baselines of a problem by name, each proved private for that very problem.

    A baseline that is not defined for the problem (subsampling without a whole m ≥ 1) or not private there (a δ below
    its own) is left out: the comparison is at equal privacy.

    >>> problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
    >>> sorted(private_baselines(problem))
    ['double_subsampling', 'randomized_response', 'subsampling']
    """
    makers = (
        BASELINES if names is None else {name: (BASELINES | OTHER_BASELINES)[name] for name in dict.fromkeys(names)}
    )
    candidates = {name: make(problem) for name, make in makers.items()}
    private = {name: certify_unscaled(problem, noise) for name, noise in candidates.items() if noise is not None}
    return {name: noise for name, noise in private.items() if noise is not None}


def reasons_left_out(problem: Problem, names: Sequence[str], compared: Container[str]) -> dict[str, str]:
    """Return the reason for each of the baselines ``names`` that is not among ``compared``.

    >>> problem = Problem.from_allowance(K=11, m=0.5, epsilon=0.1)
    >>> names = ["subsampling", "majority"]
    >>> reasons_left_out(problem, names, private_baselines(problem, names))["majority"]
    'It is not private for this problem.'
    """
    makers = BASELINES | OTHER_BASELINES
    missing = [name for name in dict.fromkeys(names) if name not in compared]
    undefined = {name for name in missing if makers[name](problem) is None}
    return {name: _UNDEFINED.get(name, _NOT_DEFINED) if name in undefined else _NOT_PRIVATE for name in missing}


_NOT_PRIVATE = "It is not private for this problem."

_NOT_DEFINED = "It is not defined for this problem."

_UNDEFINED = dict.fromkeys(
    ("double_subsampling", "subsampling"), "It samples at least one voter, so it asks for m of at least 1."
) | {name: "It asks for a target ε above 0." for name in OTHER_BASELINES if name in calibrated_names()}
"""What a baseline asks for, where it is None for some problems."""


def certify_unscaled(problem: Problem, noise: NoiseFunction) -> NoiseFunction | None:
    """Return a γ as it is proved private for a problem, if that costs no more than `MAX_SCALING` of it; else None."""
    private_noise, _ = certify(problem, noise)
    return private_noise if np.all(private_noise.values >= noise.values * (1 - MAX_SCALING)) else None


@dataclass(frozen=True)
class MechanismComparison:
    """The optimal rule, and the utility of each mechanism at the same (ε, δ), neighbours and transcript."""

    solution: PluralitySolution
    mechanisms: dict[str, CalibratedMechanism]  # by name, each at its largest private rate, certified

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

    With abstention, a checked noisy maximum is among the mechanisms. A ``solution`` that is known is not solved for
    again.
    """
    goal = as_objective(objective)
    if solution is None:
        solution = solve_plurality(problem, goal, time_limit=time_limit)
    labelling = PluralityProblem(problem.K, problem.classes, problem.target, problem.affected)
    mechanisms = {name: calibrate_mechanism(labelling, name) for name in tables()}
    if problem.abstention:
        mechanisms[CONFIDENT] = calibrate_confident(problem, lambda rule: utility(rule, goal))
    return MechanismComparison(solution, mechanisms)
