"""A γ for a sequence at a total δ of 0, and at one below the resolution of the exact account."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt import Privacy, Problem, solve, verify
from darrm_opt.accounting.mixture import AffectedDistribution
from darrm_opt.planning import design_sequence

VOTERS = [Problem(5, Privacy(math.inf), Privacy(1.0), 1), Problem(5, Privacy(0.5, 1e-5), Privacy(1.0))]


@for_each("delta", [0.0, 1e-300, 1e-18])
@for_each("queries", [1, 2, 20])
@for_each("voters", VOTERS)
def test_at_a_tiny_delta_the_total_holds_and_is_as_useful_as_an_equal_share(
    voters: Problem, queries: int, delta: float
) -> None:
    total = Privacy(1.0, delta)
    found = design_sequence(voters, queries, total, fresh=True)
    assert found.total.epsilon <= total.epsilon
    assert found.total.delta == delta
    share = Problem(voters.K, voters.voter, Privacy(1.0 / queries), voters.affected)
    assert verify(share, found.noise).margin >= 0  # at δ = 0 the ε of the releases add up
    assert found.utility == pytest.approx(solve(share).utility, rel=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-18])
def test_the_total_holds_for_every_draw_of_affected_voters(delta: float) -> None:
    total, distribution = Privacy(1.0, delta), AffectedDistribution.binomial(5, 0.1)
    found = design_sequence(VOTERS[0], 3, total, distribution=distribution)
    assert 0 < found.total.epsilon <= 1.0
    everyone = Problem(5, Privacy(math.inf), Privacy(1.0 / 3), 5)
    assert verify(everyone, found.noise).margin >= 0
    assert found.utility > 0.1


@pytest.mark.parametrize("epsilon", [20.0, 400.0, 500.0])
def test_a_total_whose_exponential_overflows_needs_no_warning(epsilon: float) -> None:
    found = design_sequence(Problem(11, Privacy(math.inf), Privacy(1.0), 1), 5, Privacy(epsilon, 1e-5))
    assert found.total.epsilon <= epsilon
    assert found.utility > 0.99


def test_a_coin_costs_nothing() -> None:
    found = design_sequence(VOTERS[0], 3, Privacy(1.0, 0.0), stop=lambda: True)
    assert not np.any(found.noise.values)
    assert found.total == Privacy(0.0, 0.0)
