"""Plain majority: each of its accounts where it is the cheapest, and the word for none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from darrm_opt import NoiseFunction, Privacy, Problem
from darrm_opt.accounting.accounts import NAMES, PLANNED
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.mixture import AffectedDistribution, DrawnMajority
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import total_of
from darrm_opt.planning.plain_majority import answers_total, plain_majority_total, private_model_count


def voters(K: int, epsilon: float, delta: float = 0.0, affected: int | None = None) -> Problem:
    return Problem(K, Privacy(epsilon, delta), Privacy(1.0), affected or K)


def by_bits(problem: Problem, queries: int, delta: float) -> float:
    ones = NoisyMajority(NoiseFunction(np.ones(problem.K + 1), problem.K), problem)
    return total_of([(ones.guarantee, queries)], delta, effort=PLANNED, skip=NAMES - {"bits"}).best.epsilon


def test_the_answers_of_a_single_voter_are_its_votes() -> None:
    assert answers_total(voters(1, 0.4), 3, 0.0, fresh=True) == (1.2, "votes")
    assert answers_total(voters(1, 0.4, 1e-3), 1, 1e-3, fresh=True) == (0.4, "votes")


def test_half_of_the_votes_decide_where_the_bits_are_too_many_to_account() -> None:
    """K = 5 at ε = 0.4: three votes decide, so Q answers cost 3Qε and not 5Qε."""
    epsilon, account = answers_total(voters(5, 0.4), 200_000, 0.0, fresh=True)
    assert account == "votes"
    assert 240_000 <= epsilon <= 240_000 * (1 + 1e-14)
    composed = optimal_composition(0.01, 0.0, 10_000, 1e-5).epsilon
    assert composed < 10_000 * 0.01
    assert answers_total(voters(5, 0.01, affected=1), 10_000, 1e-5, fresh=True)[0] <= composed


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_bits_are_cheaper_than_the_votes_of_three_voters(delta: float) -> None:
    problem = voters(3, 0.4, delta)
    epsilon, account = answers_total(problem, 2, 0.05, fresh=True)
    assert account == "bits"
    assert epsilon == by_bits(problem, 2, 0.05) < optimal_composition(0.4, delta, 6, 0.05).epsilon
    assert plain_majority_total(problem, 2, 0.05, fresh=True) == (epsilon, "bits")


def test_models_together_pay_for_every_answer_unless_they_are_fresh() -> None:
    problem = voters(3, 0.4)
    for queries in (1, 2, 1000):
        assert plain_majority_total(problem, queries, 0.0)[0] <= 1.2
    assert plain_majority_total(problem, 2, 0.0) == (1.2, "post-processing")
    assert plain_majority_total(problem, 1, 0.0)[1] != "post-processing"  # its bit is cheaper
    assert plain_majority_total(problem, 40, 0.0, fresh=True)[0] > 1.2


def test_where_a_draw_decides_the_bits_of_the_mixture_count() -> None:
    problem = voters(3, 2.0, affected=3)
    distribution = AffectedDistribution.binomial(3, 0.1)
    for fresh in (False, True):
        found = plain_majority_total(problem, 1, 0.05, fresh=fresh, distribution=distribution)
        expected = DrawnMajority(NoiseFunction(np.ones(4)), problem, distribution, fresh).epsilon(1, 0.05)
        assert found == (expected, "bits")
        assert expected < plain_majority_total(problem, 1, 0.05, fresh=fresh)[0]
    rare = AffectedDistribution.binomial(3, 1e-4)
    assert plain_majority_total(problem, 2, 0.01, distribution=rare) == (0.0, "bits")
    assert plain_majority_total(voters(3, math.inf), 1, 0.01, distribution=rare) == (0.0, "bits")


def test_nothing_is_proved_of_voters_that_show_their_records() -> None:
    nothing = (math.inf, "none")
    for fresh in (False, True):
        assert plain_majority_total(voters(3, math.inf), 1, 0.1, fresh=fresh) == nothing
        assert answers_total(voters(3, math.inf), 1, 0.1, fresh=fresh) == nothing
        assert plain_majority_total(voters(3, 0.5, 0.2), 9, 1e-3, fresh=fresh) == nothing
        sure = AffectedDistribution.exactly(3, 3)
        assert plain_majority_total(voters(3, math.inf), 1, 0.1, fresh=fresh, distribution=sure) == nothing
    assert answers_total(voters(3, 0.4), 2, 0.1, fresh=False) == nothing


def test_models_are_counted_until_they_cost_more_than_the_total() -> None:
    problem = voters(5, 0.3)
    for total, count in ((0.29, 0), (0.3, 1), (0.9, 3), (0.91, 3), (1.5, 5), (9.0, 5)):
        assert private_model_count(problem, Privacy(total)) == count
    assert private_model_count(voters(5, 0.3, affected=2), Privacy(9.0)) == 2
    assert private_model_count(voters(5, math.inf), Privacy(9.0)) == 0
    assert private_model_count(voters(5, math.inf), Privacy(math.inf)) == 0
