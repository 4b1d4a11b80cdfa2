"""Random allocation: totals just above those of all allocations and adaptive transcripts."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from campaigns.sampled import drawn_law, small_mechanisms
from campaigns.sampled_ensembles import random_vote, shown, worst_allocated_delta
from support.cases import for_each
from support.enumeration import exp_fraction
from support.refusals import refused, refuses

from darrm_opt import Privacy
from darrm_opt.accounting.allocation import ORDERS, in_most
from darrm_opt.accounting.interop import as_pld, renyi_divergences
from darrm_opt.accounting.sampling import ALLOCATION_FIELDS, FIELDS, Sampling
from darrm_opt.accounting.total import cost
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum, NoisyMaximum

MECHANISMS = {
    **small_mechanisms(2, 2, 1.0, exponential=1.5, laplace=1.0, gnmax=1.2),
    "permute_and_flip": mechanism_class("permute_and_flip").of(2, 3, 0.7),
}

ONE = mechanism_class("permute_and_flip").of(1, 2, 2.0)  # one voter of two classes, mostly answered as it votes


def allocated(among: int, times: int = 1, records: int = 2) -> Sampling:
    return Sampling(records, scheme="random-allocation", among=among, times=times)


CASES = [*((name, *times) for name in MECHANISMS for times in ((2, 1), (3, 2))), ("table", 3, 1), ("gnmax", 3, 1)]
"""Mechanisms, t and k."""


@for_each(("name", "among", "times"), CASES)
@for_each("more", [True, False])
def test_never_below_any_allocation_and_transcript(name: str, among: int, times: int, more: bool) -> None:
    mechanism, rng = MECHANISMS[name], Random(f"{name} {among} {times}")
    votes = [random_vote(rng, mechanism.classes), shown(9, 1)]
    data, neighbour = ([0, 9], [0, None]) if more else ([0, None], [0, 9])
    shape, law = (mechanism.K, mechanism.classes), drawn_law(mechanism)
    true = worst_allocated_delta(data, neighbour, votes, shape, law, among=among, times=times)
    for delta in (0.0, 1e-3, 3e-2):
        found = cost(mechanism, among, delta, allocated(among, times))
        slope = exp_fraction(min(found.epsilon, 50.0))  # the least account
        assert true(slope) <= Fraction(delta), found.epsilons


def truth(mechanism: VoteMechanism, delta: float, *, among: int, times: int) -> float:
    """The ε of a round, to 1e-3, if the only voter reveals one record."""
    law, low, high = drawn_law(mechanism), 0.0, 30.0
    both = [
        worst_allocated_delta(with_it, without, [shown(9, 1)], (1, 2), law, among=among, times=times)
        for with_it, without in (([9], [None]), ([None], [9]))
    ]
    while high - low > 1e-3:
        middle = (low + high) / 2
        slope = exp_fraction(middle)
        low, high = (low, middle) if max(true(slope) for true in both) <= delta else (middle, high)
    return low


@for_each(("among", "times", "least"), [(2, 1, 0.99), (4, 1, 0.99), (6, 1, 0.99), (4, 2, 0.94), (6, 2, 0.95)])
def test_the_total_is_close_to_the_loss_by_one_voter(among: int, times: int, least: float) -> None:
    for delta in (1e-3, 3e-2):
        found = cost(ONE, among, delta, allocated(among, times)).epsilon
        assert least * found <= truth(ONE, delta, among=among, times=times) <= found


def test_many_queries_in_one_round() -> None:
    """By binomial counts of one question, for t far beyond enumeration."""
    among, p = 200, float(drawn_law(ONE)((1, 0))[0])
    ones, delta = np.arange(among + 1), 1e-4
    logs = np.array([math.lgamma(among + 1) - math.lgamma(k + 1) - math.lgamma(among - k + 1) for k in ones])
    without = np.exp(logs + ones * math.log(1 - p) + (among - ones) * math.log(p))
    ratio = (ones * p / (1 - p) + (among - ones) * (1 - p) / p) / among
    found = cost(ONE, among, delta, allocated(among, records=5000)).epsilon
    for share, most in ((1.0, True), (0.999, False)):
        x = math.exp(share * found)
        shown_by = max((without * np.maximum(side, 0)).sum() for side in (ratio - x, 1 - x * ratio))
        assert (shown_by <= delta) == most


def test_poisson_sampling_is_not_a_bound_for_allocation() -> None:
    """At rate k/t a record may be in no query, where an allocation has it in k: the account of the rate is lower."""
    mechanism = mechanism_class("permute_and_flip").of(1, 2, 12.0)
    apart = cost(mechanism, 2, 0.6, Sampling(1, rate=0.5)).epsilon
    assert truth(mechanism, 0.6, among=2, times=1) > 1.1 * apart
    assert cost(mechanism, 2, 0.6, allocated(2)).epsilon > 1.1 * apart


def test_at_delta_0_only_the_releases_with_the_record_count() -> None:
    for queries, releases in ((3, 2), (10, 4), (11, 5), (12, 6)):
        assert in_most(allocated(5, 2), queries) == releases
        found = cost(ONE, queries, 0.0, allocated(5, 2))
        assert found.epsilon == cost(ONE, in_most(allocated(5, 2), queries), 0.0).epsilon
        assert found.account.endswith("unsampled")


def test_every_round_is_charged() -> None:
    one, two, three = (cost(ONE, 10 * rounds, 1e-4, allocated(10)).epsilon for rounds in (1, 2, 3))
    assert one < two < three <= 3.001 * one
    assert cost(ONE, 21, 1e-4, allocated(10)).epsilon == three


def test_two_releases_of_a_round_have_an_account() -> None:
    assert {"pld", "renyi"} <= cost(ONE, 2, 1e-3, allocated(2)).epsilons.keys()


def test_any_votes_and_large_ensembles_have_an_account() -> None:
    sampling = Sampling(5452, scheme="random-allocation", among=136)
    many = NoisyMaximum(100, 10, 1.6)  # laws of any votes
    assert cost(many, 500, 1e-5, sampling).epsilon < 0.2 * cost(many, 4, 1e-5).epsilon
    two = mechanism_class("exponential").of(40, 6, 0.5, affected=2)  # only an ε
    assert two.sampled_laws(sampling) is None
    assert cost(two, 136, 1e-5, sampling).epsilon < 0.6 * cost(two, 1, 1e-5).epsilon
    total = Privacy(3.0, 1e-5)
    found = mechanism_class("gnmax").calibrated(10, 4, total, 500, sampling=sampling)
    assert found.value == pytest.approx(0.93, rel=0.03)
    assert found.fits(total, 500, sampling)


def test_uncovered_totals_are_refused() -> None:
    refuses(
        Sampling,
        {"records": 10, "scheme": "random-allocation", "among": 5},
        among=[None],
        times=[6, 0],
        sample=[3],
        rate=[0.5],
        neighbours=["replace-one"],
        labels=[2],
    )
    for name in ("among", "times"):
        given: dict[str, Any] = {name: 5}
        with pytest.raises(InvalidInput, match=f"^{name} cannot be combined with poisson. It is for random-allocation"):
            Sampling(10, 3, **given)


def test_records_state_the_allocation_and_old_ones_are_read() -> None:
    sampling = allocated(5, 2)
    assert tuple(sampling.record()) == ALLOCATION_FIELDS
    assert Sampling.from_record(sampling.record()) == sampling
    assert sampling.chance == pytest.approx(0.4)
    assert "in 2 of every 5 queries" in sampling.words
    old = Sampling(10, 3)
    assert tuple(old.record()) == FIELDS
    assert Sampling.from_record(old.record()) == old


@for_each(
    "sampling",
    [
        allocated(5),
        Sampling(10, 2, labels=3),
        Sampling(10, 2, scheme="each-voter"),  # as once stated for one voter, which is too low
        Sampling(10, 2, scheme="each-voter-with-replacement"),
    ],
)
def test_other_accountants_refuse_it(sampling: Sampling) -> None:
    with refused("sampling"):
        as_pld(ONE, queries=5, sampling=sampling)
    with refused("sampling"):
        renyi_divergences(ONE, sampling, ORDERS)


def test_one_release_costs_no_more_than_its_round() -> None:
    for mechanism, delta in ((LaplaceMaximum(2, 3, 0.5), 5e-3), (NoisyMaximum(250, 3, 0.6), 1e-7)):
        one, whole = (cost(mechanism, releases, delta, allocated(5)).epsilon for releases in (1, 5))
        assert one <= whole < math.inf


@for_each("mechanism", [NoisyMaximum(5, 3, 2.0), NoisyMaximum(4, 3, 3.0, threshold=2.0, check_sigma=3.0)])
def test_no_account_decreases_with_more_rounds(mechanism: NoisyMaximum) -> None:
    """Each account, not only the least: one round is one release of all records, whose laws are listed."""
    rounds = [cost(mechanism, each, 1e-5, allocated(4)).epsilons for each in (4, 8, 12)]
    for less, more in pairwise(rounds):
        for account in {*less} & {*more}:
            assert less[account] <= more[account] * (1 + 1e-9), account
    assert not {"renyi, unsampled", "gaussian, unsampled"} & {*rounds[0]}  # laws of any votes; these pairs are exact
