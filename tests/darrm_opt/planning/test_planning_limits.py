"""Planner at its limits: options that just fit, do not fit or are skipped, with reasons and proofs."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt import Privacy, Problem, verify
from darrm_opt.accounting import TooMuchWork
from darrm_opt.accounting.accounts import SLOW
from darrm_opt.accounting.bits.adversary import attained_epsilon
from darrm_opt.accounting.mixture import BaggedMajority
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import exact_epsilon, total_of
from darrm_opt.bagging import Bags
from darrm_opt.baselines import subsampling_mixture
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning import best_target, ranking
from darrm_opt.planning import plan as typed_plan
from darrm_opt.planning.option import MECHANISMS, TIME_IS_UP
from darrm_opt.planning.sequence_design import design_sequence

plan: Any = typed_plan
"""Untyped, so that optional fields need no checks: a test fails if one is None."""

INF = Privacy(math.inf)


def only(
    mechanism: str, K: int, voter: Privacy, queries: int, total: Privacy, affected: int, *, fresh: bool = False
) -> Any:
    """Return the option of one mechanism."""
    (option,) = plan(K, voter, queries, total, affected, mechanisms=(mechanism,), fresh=fresh).options
    return option


@for_each("epsilon", [0.3, 0.6, 1.2, 9.0])
def test_the_largest_number_of_voters_within_the_total_is_drawn(epsilon: float) -> None:
    total = Privacy(epsilon, 1e-3)
    option = only("subsampling", 5, Privacy(0.3), 2, total, 5, fresh=True)
    assert option.fits
    assert verify(option.problem, option.noise).margin >= 0
    assert exact_epsilon(option.noise, option.problem, 2, total.delta, points=2001, fresh=True) <= total.epsilon * (
        1 + 1e-5
    )
    several, at_most_one = (
        r"The majority of (\S+) voters on average, drawn",
        r"With probability (\S+) one voter's answer, else",
    )
    drawn = re.match(several, option.why) or re.match(at_most_one, option.why)
    assert drawn is not None
    voters = float(drawn[1])
    np.testing.assert_allclose(option.noise.values, subsampling_mixture(5, voters).values, atol=1e-3)
    if voters < 5:
        more = subsampling_mixture(5, min(5.0, 1.05 * voters))
        assert exact_epsilon(more, option.problem, 2, total.delta, fresh=True) > total.epsilon


def test_one_answer_may_fit_if_the_models_do_not() -> None:
    asked = (5, Privacy(0.4), 1, Privacy(1.5, 1e-3), 5)
    option = only("majority", *asked)
    assert (option.fits, option.account, option.queries) == (True, "bits", 1)
    assert 1.0 < option.spent.epsilon <= 1.5
    refused = only("majority", 5, Privacy(0.4), 1, Privacy(0.5, 1e-3), 5)
    assert not refused.fits
    assert refused.why.startswith("A record affects 5 of the 5 models: together they cost ε = ")


TOTAL, LEAKY = Privacy(0.5, 1e-3), Privacy(1.0, 1e-4)


@for_each(
    ("mechanism", "voter", "queries", "total", "affected", "fresh", "outcome", "why"),
    [
        ("fewer_voters", Privacy(1.0, 1e-6), 9, TOTAL, 3, False, "does not fit", "One model alone is (1, 1e-06)-DP"),
        ("fewer_voters", Privacy(0.1), 9, TOTAL, 3, False, "does not apply", "All voters fit: see majority."),
        ("fewer_voters", Privacy(0.1), 9, TOTAL, 3, True, "does not apply", "Voters with fresh randomness can be"),
        ("fewer_voters", INF, 9, TOTAL, 3, False, "does not apply", "Voters that are not private stay so"),
        ("majority", Privacy(0.1, 1e-3), 9, LEAKY, 3, False, "does not fit", "The models' own Δ, for 3 of them toge"),
        ("majority", Privacy(0.1, 1e-3), 9, LEAKY, 3, True, "does not fit", "No finite ε is proved at that δ"),
        ("majority", Privacy(0.1), 9, Privacy(0.1, 1e-3), 3, True, "does not fit", "9 plain majorities cost ε = "),
        ("optimal_sequence", Privacy(0.1), 501, TOTAL, 3, True, "not computed", "Designing a γ for more than 500"),
        ("optimal_sequence", INF, 3, Privacy(1.0), 1, False, "not computed", "At a total δ of 0 the releases' ε add"),
    ],
)
def test_options_without_a_setting_give_the_outcome_and_the_reason(
    mechanism: str, voter: Privacy, queries: int, total: Privacy, affected: int, fresh: bool, outcome: str, why: str
) -> None:
    option = only(mechanism, 5, voter, queries, total, affected, fresh=fresh)
    assert (option.outcome, option.fits, option.accuracy, option.spent) == (outcome, False, None, None)
    assert option.why.startswith(why)
    assert only("optimal_sequence", 5, Privacy(0.5), 1, Privacy(1.0, 1e-5), 5, fresh=True).outcome == "fits"


@pytest.mark.parametrize("voter", [Privacy(0.1), INF], ids=str)
def test_every_mechanism_for_many_queries_is_proved(voter: Privacy) -> None:
    queries, total = 100_000, Privacy(3.0, 1e-3)
    names = ("optimal", "exponential", "randomized_response") if voter is INF else ("gnmax",)
    found = plan(5, voter, queries, total, 1 if voter is INF else 5, fresh=True, mechanisms=names, least_accuracy=0.5)
    calibrated = {option.name: option for option in found.options if option.noise is not None}
    assert {*names} <= {*calibrated}
    for option in calibrated.values():
        assert verify(option.problem, option.noise).margin >= 0
        assert 0.9 * total.epsilon < option.spent.epsilon <= total.epsilon
        region = NoisyMajority(option.noise, found.question.released).profile.inner  # attained by neighbours
        attained = attained_epsilon([(region, 300)], total.delta)
        assert attained <= option.spent.epsilon


@pytest.mark.parametrize("queries", [7, 600])
def test_the_quick_account_is_never_below_the_exact_one(queries: int) -> None:
    total_delta = 1e-3
    for voters in (Problem(11, Privacy(0.1), Privacy(1.0)), Problem(11, INF, Privacy(1.0), 1)):
        for share in (0.01, 0.1):
            majority = NoisyMajority(NoiseFunction(np.full(12, share), 11), voters)
            parts = [(majority.guarantee, queries)]
            exact = total_of(parts, total_delta).totals["bits"]
            quick = total_of(parts, total_delta, skip=SLOW).epsilon
            assert exact.epsilon * (1 - 1e-6) <= quick <= 1.02 * exact.epsilon


def test_mechanisms_that_take_too_much_work_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object, **__: object) -> None:
        raise TooMuchWork("It takes a year.")

    monkeypatch.setattr(mechanism_class("randomized_response"), "calibrated", endless)
    found = plan(5, INF, 3, Privacy(2.0, 1e-3), 1, mechanisms=("optimal", "randomized_response"))
    assert {each.name: each.fits for each in found.options} == {"optimal": True, "randomized_response": False}
    assert found.options[1].why == "Not computed: It takes a year."


@for_each("mechanism", ["subsampling", "randomized_response", "gnmax", "permute_and_flip", "laplace"])
@for_each(("queries", "fresh"), [(1, False), (3, True), (3, False)])
def test_at_delta_0_every_mechanism_is_proved_by_sums(mechanism: str, queries: int, fresh: bool) -> None:
    """K = 5, ε = 1: γ_Sub(1) is 1-DP, and once exceeded a total of 1."""
    total = Privacy(1.0 * queries)
    option = only(mechanism, 5, Privacy(1.0), queries, total, 5, fresh=fresh)
    assert option.fits
    assert option.account in {"simple", "optimal", "bits"}  # the same at δ = 0
    assert 0.99 * total.epsilon <= option.spent.epsilon <= total.epsilon
    assert (option.spent.delta, option.problem.target.delta) == (0.0, 0.0)
    assert queries * Fraction(option.problem.target.epsilon) <= Fraction(total.epsilon)
    assert option.problem.voter.epsilon == (1.0 if fresh or queries == 1 else math.inf)
    assert verify(option.problem, option.noise).margin >= 0


def test_at_delta_0_a_plain_majority_costs_half_of_the_votes() -> None:
    option = only("majority", 5, Privacy(0.5), 2, Privacy(3.0), 5, fresh=True)
    assert (option.fits, option.account, option.spent) == (True, "votes", Privacy(3.0))
    assert not only("majority", 5, Privacy(0.5), 2, Privacy(2.99), 5, fresh=True).fits
    assert "see optimal" in only("optimal_sequence", 5, INF, 3, Privacy(1.0), 1).why


def test_a_time_limit_keeps_earlier_results() -> None:
    reported: list[str] = []
    at = iter(range(1000))

    def late() -> bool:
        return next(at) > 30

    whole = plan(31, INF, 30, Privacy(1.0, 1e-5), 1, mechanisms=("gnmax", "laplace"))
    request = replace(whole.question, stop=late)
    options = ranking.ranked_options(request, MECHANISMS, lambda option: reported.append(option.name))
    assert set(reported) == {option.name for option in options} == set(MECHANISMS) - {"confident_gnmax"}
    assert any(option.fits for option in options)
    assert {option.why for option in options if option.name == reported[-1]} == {TIME_IS_UP}
    assert all(option.spent is None or option.spent.epsilon <= 1.0 for option in options)
    with refused("time_limit", "0"):
        plan(3, INF, 2, Privacy(1.0, 1e-5), 1, time_limit=0)
    found = plan(31, INF, 30, Privacy(1.0, 1e-5), 1, time_limit=1e-3)
    assert found.warnings[-1].startswith("The time limit of 0.001 s was reached")
    assert {option.why for option in found.options if option.name == "optimal"} == {TIME_IS_UP}


@pytest.mark.parametrize("stopped", [0, 3, 40])
def test_stopped_searches_return_a_result_within_the_total(stopped: int) -> None:
    at = iter(range(10**6))
    voters = Problem(11, INF, Privacy(1.0), 1)
    total = Privacy(2.0, 1e-3)

    def stop() -> bool:
        return next(at) >= stopped

    found = design_sequence(voters, 20, total, stop=stop)
    assert found.total.epsilon <= total.epsilon
    single = best_target(11, INF, 20, total, 1, stop=stop)
    assert single.total.epsilon <= total.epsilon
    assert single.solution.utility > 0


def test_a_draw_of_subsamples_is_used_by_the_account() -> None:
    """Options equal those of `compare` for the same draw, and are better than if a record affects all voters."""
    total, mechanisms = Privacy(1.0, 1e-4), ("gnmax", "optimal_sequence")
    drawn = plan(5, None, 5, total, bags=Bags(1000, 50), mechanisms=mechanisms)
    certain = plan(5, None, 5, total, mechanisms=mechanisms)
    assert drawn.question.bags == Bags(1000, 50)
    assert (drawn.options[0].accuracy or 0) > 1.01 * (certain.options[0].accuracy or 1)
    (suggestion,) = drawn.suggestions
    assert total.epsilon < suggestion.total.epsilon < certain.suggestions[-1].total.epsilon
    for option in drawn.options:
        law = Bags(1000, 50).affected_distribution(5)
        spent = BaggedMajority(option.noise, drawn.question.released, law).epsilon(5, total.delta)
        assert spent <= total.epsilon * (1 + 1e-3)
    assert "one record affects a random number of the 5 voters" in drawn.options[0].why
    own = plan(3, None, 5, Privacy(1.0, 1e-2), bags=Bags(10**6, 10), mechanisms=("majority",))
    assert own.verdict == "plain majority"
    with refused("affected"):
        plan(5, None, 5, total, 2, bags=Bags(1000, 50))


@pytest.mark.parametrize(("epsilon", "queries", "voters"), [(1.0, 1, 1.0), (0.3, 2, 1.0)])
def test_at_delta_0_the_parameter_is_the_largest_proved_one(epsilon: float, queries: int, voters: float) -> None:
    """At the ε of one voter it is γ_Sub(1), and not 0.997 voters on average."""
    total = Privacy(epsilon * queries)
    (option,) = plan(11, Privacy(epsilon), queries, total, fresh=True, mechanisms=("subsampling",)).options
    assert option.noise.values.tolist() == pytest.approx(subsampling_mixture(11, voters).values.tolist(), rel=1e-4)
    assert option.noise.values.max() <= 1


@pytest.mark.parametrize(("queries", "gain"), [(1, 0.05), (4, 0.08)])
def test_gamma_opt_of_a_draw_counts_the_voters_that_a_record_affects(queries: int, gain: float) -> None:
    """Instead of all K: the total is the average over their number, and uses nearly all of the budget."""
    total = Privacy(1.0, 1e-3)
    bags = Bags(1000, 20)
    (drawn,) = plan(5, None, queries, total, mechanisms=("optimal",), bags=bags).options
    (certain,) = plan(5, None, queries, total, mechanisms=("optimal",)).options
    assert (drawn.accuracy or 0) > (certain.accuracy or 1) + gain
    law = bags.affected_distribution(5)
    spent = BaggedMajority(drawn.noise, Problem(5, INF, total), law).epsilon(queries, total.delta)
    assert 0.99 * total.epsilon < spent <= total.epsilon
    assert drawn.problem.affected == 5  # the certificate of one release is for a record that affects all voters
    assert verify(drawn.problem, drawn.noise).margin >= 0
    assert "their total is the average over the draw" in drawn.why


def test_with_a_draw_the_sequence_of_one_release_is_the_best_option() -> None:
    found = plan(5, None, 1, Privacy(1.5, 2e-3), bags=Bags(5000, 20))
    fits = {option.name: option.accuracy or 0 for option in found.options if option.fits}
    assert fits["optimal_sequence"] >= max(fits.values()) - 1e-6
    assert fits["optimal"] > fits["randomized_response"] + 0.05


def test_with_a_draw_a_release_of_unanimous_votes_has_a_proof() -> None:
    """γ(K) = 1 has no finite ε for a record that affects all K voters; γ(K) = 1 − 1e-6 has one."""
    (option,) = plan(3, None, 1, Privacy(3.0, 1e-3), bags=Bags(5000, 2), mechanisms=("subsampling",)).options
    assert option.fits
    assert option.noise.values[3] == 1 - 1e-6
    assert verify(option.problem, option.noise).margin >= 0


def test_the_advice_repeats_the_total_if_nothing_fits() -> None:
    found = plan(5, INF, 3, Privacy(1.0, 1e-3), mechanisms=("majority",))
    assert (found.verdict, found.best, found.suggestions) == ("none", None, ())
    assert found.advice.startswith("No option fits: nothing gives an accuracy of ")
    assert " over 3 queries within (1, 0.001). Every record is taken to influence all 5 voters" in found.advice
    disjoint = plan(5, INF, 3, Privacy(1.0, 1e-3), affected=1, mechanisms=("majority",))
    assert disjoint.advice.endswith(" over 3 queries within (1, 0.001).")


def test_private_models_whose_delta_is_too_large_get_a_suggestion() -> None:
    found = plan(5, Privacy(0.1, 1e-3), 9, Privacy(1.0, 1e-4), 3, mechanisms=("majority",))
    (suggestion,) = found.suggestions
    assert (suggestion.queries, suggestion.accuracy) == (None, 1.0)
    assert plan(5, Privacy(0.1, 1e-3), 9, suggestion.total, 3, mechanisms=("majority",)).verdict == "plain majority"
    assert found.warnings[0].startswith("total_delta = 0.0001 is below Delta = 0.001")


def test_a_meaningless_voter_epsilon_causes_a_warning() -> None:
    found = plan(5, Privacy(25.0), 1, Privacy(1.0, 1e-3), 1, mechanisms=("majority",))
    assert found.warnings == ("epsilon = 25 gives no meaningful privacy: such a voter is hardly private.",)


def test_a_total_just_below_the_cost_of_models_or_a_release_is_not_exceeded() -> None:
    assert plan(1, Privacy(0.5, 1.00004e-9), 10, Privacy(0.5, 1e-9), 1).best is None
    total = Privacy(1.0, 9.99996e-9)  # the δ of a release on the grid is 1e-8
    option = only("optimal", 3, INF, 4, total, 1)
    assert option.spent.delta <= total.delta


def majority_of_a_sample(K: int, ones: int, n: int) -> Fraction:
    """Return Pr[the majority of n of K votes is 1], with a fair coin at ties."""
    chances = [(k, math.comb(ones, k) * math.comb(K - ones, n - k)) for k in range(n + 1) if n - k <= K - ones]
    return Fraction(sum(count * (2 * (2 * k > n) + (2 * k == n)) for k, count in chances), 2 * math.comb(K, n))


@pytest.mark.parametrize("K", [4, 11])
def test_an_even_number_of_models_is_no_better_than_one_less(K: int) -> None:
    for n in range(2, K + 1, 2):
        for ones in range(K + 1):
            assert majority_of_a_sample(K, ones, n) == majority_of_a_sample(K, ones, n - 1)
    option = only("fewer_voters", 11, Privacy(0.5), 20, Privacy(2.0), 11)
    assert (option.voters, option.spent) == (3, Privacy(1.5))
    assert only("fewer_voters", 11, Privacy(0.5), 20, Privacy(1.0), 11).voters == 1
