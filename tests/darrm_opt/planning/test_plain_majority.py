"""Plain majority: each of its accounts if it is the least, and the refusal if there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from darrm_opt import NoiseFunction, Privacy, Problem
from darrm_opt.accounting.accounts import NAMES, PLANNED
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.mixture import BaggedMajority
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import total_of
from darrm_opt.bagging import Bags
from darrm_opt.planning.plain_majority import answers_total, majority, private_model_count
from darrm_opt.planning.question import Question


def voters(K: int, epsilon: float, delta: float = 0.0, affected: int | None = None) -> Problem:
    return Problem(K, Privacy(epsilon, delta), Privacy(1.0), affected or K)


def by_bits(problem: Problem, queries: int, delta: float) -> float:
    ones = NoisyMajority(NoiseFunction(np.ones(problem.K + 1), problem.K), problem)
    return total_of([(ones.guarantee, queries)], delta, effort=PLANNED, skip=NAMES - {"bits"}).best.epsilon


def test_the_answers_of_a_single_voter_are_its_votes() -> None:
    assert answers_total(voters(1, 0.4), 3, 0.0, fresh=True) == (1.2, "votes")
    assert answers_total(voters(1, 0.4, 1e-3), 1, 1e-3, fresh=True) == (0.4, "votes")


def test_if_the_bits_are_too_many_half_of_the_votes_are_charged() -> None:
    """K = 5, ε = 0.4: three votes decide, so Q answers cost 3Qε instead of 5Qε."""
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


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    ("voter", "total", "chance", "account"),
    [
        (2.0, 3.0, 0.1, "bits"),  # by the privacy of the draw
        (math.inf, 1.0, 1e-4, "bits"),
        (2.0, 0.1, 0.1, "none"),
        (math.inf, 1.0, 0.5, "none"),
        (0.3, 2.0, 1.0, "without a draw"),  # the draw reaches all voters
    ],
)
def test_a_draw_is_used_if_its_bits_cost_least(
    voter: float, total: float, chance: float, account: str, fresh: bool
) -> None:
    bags = Bags(10_000, round(10_000 * chance), replacement=False)
    question = Question.of(3, Privacy(voter), 1, Privacy(total, 0.05), None, bags=bags, fresh=fresh)
    option = majority(question)
    assert option.fits == (account != "none")
    if account == "bits":
        drawn = BaggedMajority(NoiseFunction(np.ones(4)), question.released, bags.affected_distribution(3), fresh)
        assert option.account == "bits"
        assert option.spent is not None
        assert option.spent.epsilon == drawn.epsilon(1, 0.05)
    assert option.why.startswith("A record is so unlikely to be drawn") == (account == "bits")


def test_there_is_no_total_for_voters_that_reveal_their_records() -> None:
    for fresh in (False, True):
        assert answers_total(voters(3, math.inf), 1, 0.1, fresh=fresh) == (math.inf, "none")
    assert answers_total(voters(3, 0.4), 2, 0.1, fresh=False) == (math.inf, "none")


def test_the_largest_number_of_models_within_the_total_is_found() -> None:
    problem = voters(5, 0.3)
    for total, count in ((0.29, 0), (0.3, 1), (0.9, 3), (0.91, 3), (1.5, 5), (9.0, 5)):
        assert private_model_count(problem, Privacy(total)) == count
    assert private_model_count(voters(5, 0.3, affected=2), Privacy(9.0)) == 2
    assert private_model_count(voters(5, math.inf), Privacy(9.0)) == 0
    assert private_model_count(voters(5, math.inf), Privacy(math.inf)) == 0
