"""Closed forms that a solve falls back on: certified without a search, and as a search certifies them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt import Problem, verify
from darrm_opt.design.closed_forms import one_voter
from darrm_opt.design.constraint import PrivacyConstraint


@for_each(
    "problem",
    [
        Problem.from_allowance(K=7, m=1, epsilon=0.1),
        Problem.from_allowance(K=8, m=0.5, epsilon=0.7),
        Problem.from_allowance(K=9, m=2, epsilon=0.3, Delta=1e-3),
        Problem.from_allowance(K=9, m=1, epsilon=0.3, Delta=0.2, delta=0.05, affected=4),
        Problem.from_allowance(K=6, m=None, epsilon=math.inf, delta=1e-3, affected=2, target_epsilon=0.4),
    ],
)
def test_one_voter_drawn_at_random_is_certified_without_a_search(problem: Problem) -> None:
    noise, certificate = one_voter(problem, PrivacyConstraint.of(problem))
    upper = noise.values[problem.K // 2 + 1 :]
    lines = 2 * np.arange(problem.K // 2 + 1, problem.K + 1) / problem.K - 1
    assert upper / lines == pytest.approx(np.full(upper.size, upper[-1]), rel=1e-12)
    searched = verify(problem, noise.values)
    assert certificate.margin >= 0
    assert certificate.worst_value == pytest.approx(searched.worst_value, abs=certificate.error_bound)
    assert searched.worst_value - searched.error_bound <= certificate.bound <= certificate.limit
