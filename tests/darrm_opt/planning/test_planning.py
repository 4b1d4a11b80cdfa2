"""Planner: advice against brute force, proofs and texts."""

from __future__ import annotations

import itertools
import math
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused, refuses

from darrm_opt import Privacy, PrivateVote, Problem, solve, verify
from darrm_opt.accounting import DeltaTooSmall
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.accuracy import disagreement
from darrm_opt.answers.running_time import plan_account_seconds, plan_seconds
from darrm_opt.bagging import Bags
from darrm_opt.baselines import subsampling
from darrm_opt.errors import NotPrivate, VerificationFailed
from darrm_opt.mechanisms.vote_noise import GaussianNoise, LaplaceNoise, noise_function
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning import MECHANISMS
from darrm_opt.planning import plan as typed_plan
from darrm_opt.priors import IndependentVoters, SharedBeta
from darrm_opt.questions.plan import ReleasePlan, plan_record

plan: Any = typed_plan
"""Untyped, so that optional fields need no checks: a test fails if one is None."""

INF = Privacy(math.inf)
USUAL = IndependentVoters(0.5, 50)

# ------------------------------------------------------------------------------------------ brute force


def cost(noise: NoiseFunction, voters: Problem, queries: int, delta: float) -> float:
    try:
        return exact_epsilon(noise, voters, queries, delta, points=2001, fresh=True)
    except DeltaTooSmall:
        return math.inf


@cache
def brute_force(K: int, voter: Privacy, queries: int, total: Privacy, affected: int, fresh: bool) -> float:
    """Return the best accuracy of many γ that fit, from grids of targets, noises, probabilities and subsets."""
    private = voter.epsilon < math.inf
    best = 0.5
    if private and not fresh:
        fitting = [
            n
            for n in range(1, affected + 1)
            if optimal_composition(voter.epsilon, voter.delta, n, total.delta).epsilon <= total.epsilon
        ]
        if affected in fitting:
            return 1.0
        best = max([best, *(1 - disagreement(subsampling(K, n), USUAL) for n in fitting)])
    counted = voter if fresh or queries == 1 else INF
    voters = Problem(K, counted, total, affected)
    targets = itertools.product(np.geomspace(0.02, 1, 7) * total.epsilon, (0.0, total.delta, 0.003, 0.02, 0.06, 0.12))
    tried = [solve(Problem(K, counted, Privacy(e, d), affected), "rectangular agreement").noise for e, d in targets]
    tried += [noise_function(K, GaussianNoise.of_sigma(s)) for s in np.geomspace(0.5, 40, 9)]
    tried += [noise_function(K, LaplaceNoise(s)) for s in np.geomspace(0.5, 40, 9)]
    tried += [NoiseFunction(np.full(K + 1, share), K) for share in (*np.linspace(0.05, 1, 12),)]
    tried += [subsampling(K, m) for m in range(1, K + 1)]
    for noise in sorted(tried, key=lambda noise: disagreement(noise, USUAL)):
        accuracy = 1 - disagreement(noise, USUAL)
        if accuracy <= best:
            break
        if cost(noise, voters, queries, total.delta) <= total.epsilon:
            best = accuracy
    return best


GRID = [
    (3, INF, 4, Privacy(2.0, 1e-3), 1, False),
    (5, INF, 1, Privacy(1.0, 1e-3), 2, False),
    (3, Privacy(0.4), 3, Privacy(1.0, 1e-3), 3, True),
    (5, Privacy(0.4), 3, Privacy(1.0, 1e-3), 3, False),
    (5, Privacy(0.4), 3, Privacy(0.5, 1e-3), 1, False),
    (3, Privacy(0.1), 4, Privacy(3.0, 1e-3), 3, True),
    (3, Privacy(1.0, 1e-4), 2, Privacy(0.6, 1e-3), 1, True),
]


def planned_for(K: int, voter: Privacy, queries: int, total: Privacy, affected: int, fresh: bool) -> Any:
    return _plan(K, voter, queries, total, affected, fresh)


@cache
def _plan(*asked: Any) -> Any:
    *rest, fresh = asked
    return plan(*rest, fresh=fresh)


@for_each("asked", GRID)
def test_the_advice_is_as_good_as_brute_force(asked: Any) -> None:
    found = planned_for(*asked)
    wanted = brute_force(*asked)
    assert found.options[0].accuracy >= wanted - 2e-3
    assert (found.verdict == "plain majority") == (wanted == 1.0)
    assert {option.name for option in found.options} <= set(MECHANISMS)


def test_a_designed_gamma_says_what_its_privacy_rests_on() -> None:
    found = plan(11, Privacy(math.inf), 12, Privacy(1.0, 1e-3), 1, mechanisms=("optimal", "optimal_sequence"))
    why = {option.name: option.why for option in found.options}
    assert why["optimal_sequence"].startswith("γ is designed for all 12 releases at once; their exact total is proved ")
    assert re.match(r"γ was designed for \(0\.\d+, 0\.\d+\)-DP per release; the total is proved from γ", why["optimal"])
    pure = plan(11, Privacy(math.inf), 12, Privacy(1.0), 1, mechanisms=("optimal",)).options[0]
    assert re.match(r"Every release is 0\.\d+-DP, the best split of the total over 12 of them\.", pure.why)


@for_each("asked", GRID)
def test_every_option_that_fits_is_proved(asked: Any) -> None:
    K, voter, queries, total, affected, fresh = asked
    for option in planned_for(*asked).options:
        if not option.fits:
            assert (option.accuracy, option.spent, option.release) == (None, None, None)
            continue
        assert option.spent.epsilon <= total.epsilon
        assert option.spent.delta <= total.delta
        if option.noise is None or option.problem is None:
            assert option.account in {"post-processing", "votes", "bits"}
            continue
        assert option.problem.voter == (voter if fresh or queries == 1 else INF)
        assert option.problem.affected == affected
        verify(option.problem, option.noise)
        assert option.accuracy == pytest.approx(1 - disagreement(option.noise, USUAL), abs=1e-12)
        again = cost(option.noise, option.problem, queries, total.delta)
        assert again <= total.epsilon * (1 + 1e-5)  # on a different, coarser grid
        assert PrivateVote(option.release).release([1] * K) in {0, 1}


# ------------------------------------------------------------------------------------------ trained once, or fresh


def test_the_plain_majority_is_advised_if_it_fits() -> None:
    found = plan(11, Privacy(0.5, 1e-6), 10**6, Privacy(0.5, 1e-6), affected=1)
    assert found.verdict == "plain majority"
    assert found.advice.startswith("You do not need this mechanism")
    assert (found.best.accuracy, found.best.queries, found.best.spent) == (1.0, None, Privacy(0.5, 1e-6))
    assert [option.name for option in found.options] == [
        "majority"
    ]  # no mechanism is more accurate, so none was searched
    three = plan(9, Privacy(0.1), 1000, Privacy(0.3), affected=3)
    assert three.verdict == "plain majority"  # 3·0.1 counts as 0.3


def test_fresh_answers_are_charged_one_by_one() -> None:
    trained = plan(5, Privacy(0.1), 20, Privacy(0.5, 1e-3), affected=1)
    fresh = plan(
        5, Privacy(0.1), 20, Privacy(0.5, 1e-3), affected=1, fresh=True, mechanisms=("majority", "randomized_response")
    )
    assert trained.verdict == "plain majority"
    assert fresh.verdict != "plain majority"
    enough = plan(5, Privacy(0.1), 20, Privacy(2.0, 1e-3), affected=1, fresh=True)
    assert enough.best.name == "majority"
    assert enough.best.queries == 20
    assert any("trained once" in warning for warning in enough.warnings)


def test_models_trained_once_never_count_as_fresh() -> None:
    asked = (5, Privacy(0.4), 3, Privacy(0.5, 1e-3), 5)
    mechanisms = ("optimal",)
    trained, fresh = plan(*asked, mechanisms=mechanisms), plan(*asked, mechanisms=mechanisms, fresh=True)
    one, two = trained.options[0], fresh.options[0]
    assert (one.problem.voter, two.problem.voter) == (INF, Privacy(0.4))
    assert one.accuracy < two.accuracy
    assert "same randomness every time" in one.why
    assert "fresh randomness" in two.why
    single = plan(5, Privacy(0.4), 1, Privacy(0.5, 1e-3), 5, mechanisms=mechanisms).options[0]
    assert single.problem.voter == Privacy(0.4)


def test_extreme_questions_have_a_valid_plan() -> None:
    mechanisms = ("majority", "fewer_voters", "optimal", "randomized_response", "subsampling")
    for K, voter, total, fresh in (
        (5, Privacy(0.5), Privacy(1.0), True),  # δ = 0
        (3, Privacy(0.0, 0.01), Privacy(1.0, 0.1), True),  # ε = 0
        (3, Privacy(0.0, 0.01), Privacy(1.0, 0.1), False),
        (1, Privacy(0.5), Privacy(1.0, 1e-3), True),
        (2, INF, Privacy(1.0), False),
    ):
        found = plan(K, voter, 3, total, fresh=fresh, mechanisms=mechanisms)
        fitting = [option for option in found.options if option.fits]
        assert fitting, (K, voter, total, fresh)
        noisy = found.verdict != "plain majority"
        assert any("the ε of the releases add up" in warning for warning in found.warnings) == (
            noisy and total.delta == 0
        )
        for option in fitting:
            assert option.spent.epsilon <= total.epsilon
            assert option.spent.delta <= total.delta


# ------------------------------------------------------------------------------------------ suggestions, refusals


def test_suggestions_make_a_useless_plan_useful() -> None:
    mechanisms = ("majority", "optimal", "randomized_response")
    asked = (5, Privacy(1.5), 30, Privacy(0.8, 1e-4), 2)
    found = plan(*asked, mechanisms=mechanisms)
    assert (found.verdict, found.best) == ("none", None)
    assert found.advice.startswith("No option is useful")
    assert {suggestion.change for suggestion in found.suggestions} == {"queries", "total"}
    assert found.advice.count(". Or ") == len(found.suggestions) - 1  # one of them suffices
    for suggestion in found.suggestions:
        assert suggestion.words[1:] in found.advice
        queries = asked[2] if suggestion.queries is None else suggestion.queries
        again = plan(asked[0], asked[1], queries, suggestion.total, 2, mechanisms=mechanisms)
        assert again.options[0].accuracy >= suggestion.accuracy - 1e-3
        assert again.verdict != "none"
    least = plan(*asked, mechanisms=mechanisms, least_accuracy=0.5)
    assert least.verdict == "noisy majority"


def test_the_best_option_depends_on_the_prior() -> None:
    mechanisms = ("optimal",)
    asked = (5, INF, 2, Privacy(2.0, 1e-3), 1)
    shared = plan(*asked, "shared(1,1)", mechanisms=mechanisms).options[0]
    usual = plan(*asked, mechanisms=mechanisms).options[0]
    assert shared.accuracy == pytest.approx(1 - disagreement(shared.noise, SharedBeta(1, 1)))
    assert shared.accuracy != usual.accuracy


def test_invalid_arguments_are_refused() -> None:
    refuses(
        plan,
        {"K": 5, "voter": None, "queries": 3, "total": Privacy(1.0, 1e-3), "affected": 1},
        K=[0],
        queries=[0, 10**10],
        classes=[1],
        total=[1.0],
        affected=[6],
        fresh=["yes"],
        least_accuracy=[0.4],
        prior=["minimax"],
        mechanisms=[("magic",), ()],
    )
    with refused("total_epsilon", "0.0"):
        plan(5, None, 3, Privacy(0.0, 0.1), 1)
    with refused("counts"):
        plan(5, None, 3, Privacy(1.0, 1e-3), 1, "histogram(1,2)")


def test_swapped_deltas_and_ties_cause_warnings() -> None:
    found = plan(4, Privacy(0.5, 1e-2), 1, Privacy(1.0, 1e-4), mechanisms=("randomized_response",))
    assert any("swapped" in warning for warning in found.warnings)
    assert any("can tie" in warning for warning in found.warnings)


def test_a_plan_for_other_voters_is_refused() -> None:
    voters = {"K": 3, "epsilon": "inf", "affected": 1, "queries": 2}
    asked = ReleasePlan.of({**voters, "total_epsilon": 2.0, "total_delta": 1e-5})
    told = plan_record(plan(3, INF, 2, Privacy(2.0, 1e-5), 1, mechanisms=("randomized_response",)))
    assert asked.verify(told).options[0].name == "randomized_response"
    told["options"][0]["problem"] |= {"epsilon": 0.1}  # computed for private voters
    with pytest.raises(VerificationFailed, match="for other voters"):
        asked.verify(told)
    told["options"][0]["problem"] |= {"epsilon": "inf", "target_epsilon": 0.01}
    with pytest.raises(NotPrivate):
        asked.verify(told)


def test_estimated_seconds_of_a_plan_grow_with_its_work() -> None:
    assert plan_seconds(0.1, 1) < plan_seconds(0.1, 100) < plan_seconds(1.0, 100)
    assert plan_seconds(0.1, 10**9) == plan_seconds(0.1, 10**6)
    assert plan_seconds(0.1, 5, account_seconds=7.0) == plan_seconds(0.1, 5) + 7.0


def test_estimated_seconds_include_the_accounts_of_a_draw() -> None:
    voters, total, draw = Problem(35, INF, Privacy(1.0)), Privacy(1.0, 1e-5), Bags(1000, 50)
    assert plan_account_seconds(voters, 20, total, None) == 0
    assert 3 < plan_account_seconds(voters, 20, total, draw) < 30
    assert plan_account_seconds(voters, 5000, total, draw) == 0  # too many: the plan omits them


def test_a_mechanism_replaced_by_its_table_has_suggestions() -> None:
    found = plan(8, None, 700, Privacy(4.0, 1e-3), 1, "beta(8,2)", mechanisms="permute_and_flip")
    assert set(found.options[0].parameters) == {"rate", "epsilon", "delta"}  # the table if it is better
    assert found.verdict == "none"
    assert found.suggestions[0].accuracy >= 0.6


def test_fresh_private_voters_of_three_classes_count_as_not_private() -> None:
    asked: dict[str, Any] = {"classes": 3, "mechanisms": ("gnmax", "permute_and_flip", "majority")}
    found = plan(3, Privacy(1.0), 2, Privacy(0.9, 1e-3), 1, fresh=True, **asked)
    fixed = plan(3, None, 2, Privacy(0.9, 1e-3), 1, **asked)
    assert [(one.name, one.spent) for one in found.options] == [(one.name, one.spent) for one in fixed.options]
