"""Joint totals of models with privacy profiles: against exact products of their pairs, and known totals."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest
from support.cases import for_each
from support.enumeration import exp_fraction
from support.group_exact import Points, outcomes

from darrm_opt import Privacy, plan
from darrm_opt.accounting import model_profiles
from darrm_opt.accounting.accounts import compose_models
from darrm_opt.accounting.pld import Pld
from darrm_opt.learning.release_plan import voting_plan
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.mechanisms.table import least_private
from darrm_opt.voters import PrivacyProfile

# DP-SGD, rate 0.05, 100 steps, noise multiplier 13.7, add or remove one record: by the PLD of dp_accounting.
DP_SGD = [
    (0.0, 0.0145757),
    (0.0166875, 0.00781216),
    (0.033375, 0.00367085),
    (0.0500625, 0.00149425),
    (0.0667501, 0.000521972),
    (0.0834376, 0.000155354),
    (0.100125, 3.91862e-05),
    (0.116813, 8.3441e-06),
    (0.1335, 1.4961e-06),
]
PURE = [(0.0, 0.12), (0.5, 0.0)]
LEAKY = [(0.0, 0.0597853), (0.3, 0.00147645)]


def exact_delta(models: list[Points], epsilon: float) -> float:
    """δ of the product of the models' pairs, every combination of outcomes in exact numbers."""
    slope, total = exp_fraction(epsilon), Fraction(0)
    for chosen in product(*map(outcomes, models)):
        before, after = math.prod(p for p, _ in chosen), math.prod(q for _, q in chosen)
        total += max(before - slope * after, Fraction(0))
    return float(total)


@for_each(
    "models",
    [
        [PURE],
        [LEAKY],
        [LEAKY, LEAKY],
        [PURE, PURE, PURE],
        [LEAKY, PURE, LEAKY],
        [DP_SGD, DP_SGD],
        [PURE, [(0.3, 1e-3)]],
    ],
)
def test_the_total_is_that_of_the_product_of_the_pairs(models: list[Points]) -> None:
    counts: dict[Privacy, int] = {PrivacyProfile(points): models.count(points) for points in models}
    for total_delta in (1e-3, 1e-2, 0.05):
        found = compose_models(counts, total_delta)
        if total_delta < exact_delta(models, 50.0) - 1e-9:
            assert found.epsilon == math.inf
            continue
        assert found.delta == total_delta
        assert exact_delta(models, found.epsilon) <= total_delta * (1 + 1e-12)
        if found.epsilon > 0:
            assert exact_delta(models, found.epsilon * (1 - 2e-3)) > total_delta


@for_each(("K", "most", "of_one_point"), [(11, 0.26, 0.98), (35, 0.41, 1.96)])
def test_models_trained_by_dp_sgd_cost_the_composition_of_their_profiles(
    K: int, most: float, of_one_point: float
) -> None:
    assert compose_models({PrivacyProfile(DP_SGD): K}, K * 1e-4).epsilon <= most
    assert compose_models({Privacy(0.0892, 1e-4): K}, K * 1e-4).epsilon > of_one_point - 0.01


def test_plans_and_plain_votes_charge_the_composed_profiles() -> None:
    voter, total = PrivacyProfile(DP_SGD), Privacy(0.5, 35e-4)
    (option,) = plan(35, voter, 1000, total).options
    assert (option.name, option.fits) == ("majority", True)
    assert option.spent is not None
    found = voting_plan(35, queries=1000, total=total, voter=voter, affected=35)
    mechanism = found.mechanism
    assert isinstance(mechanism, PlainVote)
    assert mechanism.epsilon(1, total.delta) == option.spent.epsilon <= 0.41
    assert mechanism.cost(1, total.delta).account == "profiles"
    assert mechanism.most_releases(total).queries == 1
    again = PlainVote.from_record(json.loads(json.dumps(mechanism.record())))
    assert again == mechanism
    assert again.epsilon(1, total.delta) == mechanism.epsilon(1, total.delta)
    # A single point of the same models does not fit.
    assert not PlainVote(35, 2, Privacy(voter.epsilon, voter.delta), affected=35).fits(total, 1)


def test_each_point_alone_is_an_account() -> None:
    models: dict[Privacy, int] = {PrivacyProfile(PURE): 3}
    assert compose_models(models, 0.0).epsilon == 1.5
    assert compose_models(models, 0.36).epsilon == 0.0
    assert compose_models({PrivacyProfile(LEAKY): 1}, 0.00147645).epsilon <= 0.3


def test_of_different_voters_the_least_private_ones_are_charged() -> None:
    """A record may reach any of them; among crossing profiles none is the least private."""
    one, other = PrivacyProfile([(0.0, 0.4), (0.1, 1e-5)]), PrivacyProfile([(0.0, 0.01), (0.2, 1e-6)])
    reached = least_private([(one, 2), (other, 2)], 2)
    total = compose_models(reached, 0.02).epsilon
    for pair in combinations_with_replacement([one.points, other.points], 2):
        assert exact_delta(list(pair), total) <= 0.02
    assert least_private([(one, 2), (other, 1)], 3) == {one: 2, other: 1}
    assert least_private([(one, 2), (one, 3)], 4) == {one: 4}


def test_a_model_that_is_not_private_has_no_total() -> None:
    assert compose_models({PrivacyProfile(PURE): 1, Privacy(math.inf): 1}, 0.1).epsilon == math.inf
    assert compose_models({PrivacyProfile(LEAKY): 3}, 1e-6).epsilon == pytest.approx(math.inf)


def test_the_grid_of_several_models_is_that_of_their_largest_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[float] = []
    one = PrivacyProfile(PURE)
    laws = model_profiles._pld(one, 0.01)

    def pld(_: Privacy, step: float) -> Pld:
        steps.append(step)
        return laws

    monkeypatch.setattr(model_profiles, "_pld", pld)
    model_profiles.composed_profiles({one: 1, PrivacyProfile([(0.0, 0.2), (0.25, 0.0)]): 1}, 0.1)
    assert steps == [one.epsilon / model_profiles.CELLS] * 2
