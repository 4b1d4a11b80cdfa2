"""Baselines: other γ that meet the target of one release, for comparison with γ_opt; for tables, `table_baselines`."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from functools import partial

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
from darrm_opt.mechanisms.base import calibrated_names, mechanism_class
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem

MAX_SCALING = 1e-9
"""Largest share of a baseline that its proof may remove. An exactly private one, such as γ_Sub, loses 1e-12 to rounding
and to the canonical numbers of the problem; one that is not private loses far more."""


def _subsampled(make: Callable[[int, int], NoiseFunction], problem: Problem) -> NoiseFunction | None:
    voters = 0 if problem.m is None else math.floor(problem.m)
    return make(problem.K, min(voters, problem.K)) if voters else None


def _randomized_response(problem: Problem) -> NoiseFunction:
    price = plain_majority_sharp if problem.voter.delta == 0 else plain_majority
    majority = price(problem.K, problem.voter, problem.affected)
    return randomized_response(problem.K, problem.target, majority)


def _calibrated(name: str, problem: Problem) -> NoiseFunction | None:
    """Return the γ of a registered mechanism at its most useful parameter, for votes that are not private."""
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
"""By the name of its function in `darrm_opt.baselines`; None if undefined for the problem."""

OTHER_BASELINES: dict[str, Callable[[Problem], NoiseFunction | None]] = {
    **{name: partial(_calibrated, name) for name in calibrated_names() if name not in BASELINES},
    "majority": lambda problem: NoiseFunction.from_upper_half(np.ones((problem.K + 1) // 2), problem.K),
}
"""Shown on request: mechanisms for non-private voters, which protect more than these voters need, and no noise."""


def private_baselines(problem: Problem, names: Sequence[str] | None = None) -> dict[str, NoiseFunction]:
    """Return the baselines of a problem by name, each proved private for it.

    A baseline that is undefined for the problem (subsampling without a whole m ≥ 1) or not private for it (δ below its
    own) is omitted, so that the comparison is at equal privacy.

    >>> problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
    >>> sorted(private_baselines(problem))
    ['double_subsampling', 'randomized_response', 'subsampling']
    """
    known = BASELINES | OTHER_BASELINES
    if unknown := [name for name in names or () if name not in known]:
        raise InvalidInput("baselines", unknown[0], "one of " + ", ".join(known))
    makers = BASELINES if names is None else {name: known[name] for name in dict.fromkeys(names)}
    candidates = {name: make(problem) for name, make in makers.items()}
    private = {name: certify_unscaled(problem, noise) for name, noise in candidates.items() if noise is not None}
    return {name: noise for name, noise in private.items() if noise is not None}


def reasons_left_out(problem: Problem, names: Sequence[str], compared: Container[str]) -> dict[str, str]:
    """Return the reason why each of the baselines ``names`` is not among ``compared``.

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
    ("double_subsampling", "subsampling"), "It samples at least one voter, so it requires m ≥ 1."
) | {name: "It requires a target ε above 0." for name in OTHER_BASELINES if name in calibrated_names()}
"""Requirements of the baselines that are None for some problems."""


def certify_unscaled(problem: Problem, noise: NoiseFunction) -> NoiseFunction | None:
    """Return a γ as proved private for a problem, scaled by at least 1 − `MAX_SCALING`; None if that is not enough."""
    private_noise, _ = certify(problem, noise)
    return private_noise if np.all(private_noise.values >= noise.values * (1 - MAX_SCALING)) else None
