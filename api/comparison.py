"""What γ_opt is compared with: every baseline that has a meaning for a problem, at the same privacy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from darrm_opt.baselines import (
    double_subsampling,
    plain_majority,
    plain_majority_sharp,
    randomized_response,
    subsampling,
)
from darrm_opt.design.certificate import certify
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem

ROUNDING = 1e-9
"""Share of a baseline that its proof may take: those that are private with nothing to spare, as γ_Sub is, lose 1e-12 to
rounding and to the canonical numbers of the problem; one that is not private loses far more."""


def _sampled(make: Callable[[int, int], NoiseFunction], problem: Problem) -> NoiseFunction | None:
    voters = 0 if problem.m is None else math.floor(problem.m)
    return make(problem.K, min(voters, problem.K)) if voters else None


def _constant(problem: Problem) -> NoiseFunction:
    price = plain_majority_sharp if problem.voter.delta == 0 else plain_majority
    majority = price(problem.K, problem.voter, problem.affected)
    return randomized_response(problem.K, problem.target, majority)


BASELINES: dict[str, Callable[[Problem], NoiseFunction | None]] = {
    "double_subsampling": lambda problem: _sampled(double_subsampling, problem),
    "subsampling": lambda problem: _sampled(subsampling, problem),
    "randomized_response": _constant,
}
"""By the name of its function in `darrm_opt.baselines`; None where the problem gives it no meaning."""


def private_baselines(problem: Problem) -> dict[str, NoiseFunction]:
    """Return the baselines of a problem by name, each proved private for that very problem.

    One that the problem gives no meaning (subsampling without a whole m ≥ 1 to sample) or that is not private there
    (a δ below its own) is left out: a comparison is between things of equal privacy.

    >>> problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
    >>> sorted(private_baselines(problem))
    ['double_subsampling', 'randomized_response', 'subsampling']
    """
    made = {name: make(problem) for name, make in BASELINES.items()}
    proved = {name: _proved(problem, noise) for name, noise in made.items() if noise is not None}
    return {name: noise for name, noise in proved.items() if noise is not None}


def _proved(problem: Problem, noise: NoiseFunction) -> NoiseFunction | None:
    proved, _ = certify(problem, noise)
    return proved if np.all(proved.values >= noise.values * (1 - ROUNDING)) else None
