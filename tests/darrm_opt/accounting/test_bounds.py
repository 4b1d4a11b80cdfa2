"""Bounds are never NaN: a value that was not computed is no bound, and comparisons with it fail."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from campaigns import extremes
from support.cases import for_each

from darrm_opt import Privacy
from darrm_opt.accounting.adaptive import adaptive_epsilon
from darrm_opt.accounting.bounds import is_within, log_power_sum, upper_bound
from darrm_opt.accounting.composition.optimal import epsilon_at_delta
from darrm_opt.accounting.guarantee import LawTriples, ReleaseGuarantee, estimated_shift
from darrm_opt.accounting.labels import discrete_gaussian_argmax
from darrm_opt.accounting.labels.composition import bounded_range_divergence
from darrm_opt.accounting.labels.data_dependent import LogTails
from darrm_opt.accounting.labels.noisy_bit import values_on_grid
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.labels.vote_release import VoteRelease
from darrm_opt.accounting.law_pairs import AnyVotes, LawPairs
from darrm_opt.accounting.propose_test_release import propose
from darrm_opt.accounting.published_loss import publish_loss, unpublished_epsilon
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import ReleaseTotal, cost, total_of
from darrm_opt.errors import DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.rounding import ULP


def test_nan_bounds_nothing() -> None:
    assert upper_bound([1.0, math.nan, math.inf, -0.5]).tolist() == [1.0, math.inf, math.inf, -0.5]
    assert upper_bound([7.0, math.nan], [math.nan, 3.0]).tolist() == [7.0, 3.0]
    assert float(upper_bound(math.nan, math.nan)) == math.inf
    assert not is_within(math.nan, 1.0)
    assert not is_within(1.0, math.nan)
    assert is_within(1.0, 1.0)
    assert not is_within(math.inf, 1e308)
    with pytest.raises(DeltaTooSmall):
        epsilon_at_delta(lambda _: math.nan, 0.1, 1.0, "nothing is known")
    assert ReleaseTotal(0.1, {}).or_less({"none": math.nan}).epsilon == math.inf


@for_each("error", [math.nan, 1.0, math.inf, -0.5])
def test_laws_of_unknown_error_are_rejected(error: float) -> None:
    with pytest.raises(InvalidInput, match="error"):  # they would cost nothing at δ = 0
        LawPairs(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]]), error=error)


def test_a_loss_whose_quotient_overflows_is_finite_and_too_large_for_the_adaptive_recursion() -> None:
    least = math.ulp(0.0)
    laws = LawPairs(np.array([[least, 0.5, 0.5], [1.0, 0.0, 0.0]]), np.array([[1.0, 0.0, 0.0], [least, 0.5, 0.5]]))
    with pytest.raises(TooMuchWork):
        adaptive_epsilon([laws], 2, 0.5)
    impossible = LawPairs(np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.5, 0.5]]))  # no answer has a finite loss
    with pytest.raises(DeltaTooSmall):
        adaptive_epsilon([impossible], 2, 0.5)


def test_a_family_with_one_pair_that_was_not_computed_has_no_bound() -> None:
    orders = np.linspace(1.5, 4, 6)
    p, q = np.array([[0.5, 0.3, 0.2], [0.6, 0.2, 0.2]]), np.array([[0.4, 0.35, 0.25], [0.3, 0.4, 0.3]])
    assert np.all(discrete_gaussian_argmax._largest(p, q, orders) > 0)
    p[1] = math.nan
    bits = np.array([[0.25, 0.75], [0.5, 0.5], [math.nan, 0.5], [0.75, 0.25]])
    for lost in (
        discrete_gaussian_argmax._largest(p, q, orders),
        values_on_grid(bits, bits[:, ::-1], 0.0, 0.1, orders),
    ):
        bound = partial(PowerDivergence, orders, lost, math.inf, "lost")
        assert np.all(bound().at(orders) == math.inf)
        assert 0 < (estimated_shift([(ReleaseGuarantee(divergence=bound), 2)]) or 0.0) < math.inf


def test_a_guarantee_that_was_not_computed_is_not_used() -> None:
    laws = LawPairs(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]]))
    assert AnyVotes(laws, missing=math.nan).missing == 1.0
    assert LawTriples(laws.on_data, laws.on_neighbour, missing=math.nan).missing == 1.0
    assert ReleaseGuarantee(loss=lambda: math.nan).event() is None
    assert ReleaseGuarantee(Privacy(2.0), loss=lambda: math.nan).event() == Privacy(2.0)
    assert ReleaseGuarantee(loss=lambda: 0.5).event() == Privacy(0.5)
    with pytest.raises(InvalidInput):
        LawPairs(np.array([[math.nan, 0.5]]), np.array([[0.25, 0.75]]))
    lost = ReleaseGuarantee(divergence=lambda: PowerDivergence(np.array([0.5]), np.array([math.nan]), math.inf, "lost"))
    total = total_of([(lost, 3)], 1e-5)
    assert total.epsilon == math.inf
    with pytest.raises(DeltaTooSmall):  # rather than a total
        _ = total.best


def test_sampled_pairs_are_mixtures_with_their_rounding_errors() -> None:
    off, on, other = (np.array([law]) for law in ([0.5, 0.5], [0.25, 0.75], [0.875, 0.125]))
    added, removed = LawTriples(off, on, error=1e-12).pairs(0.25)
    (replaced,) = LawTriples(off, on, other, error=1e-12).pairs(0.25)
    mixed, mixed_other = [[0.4375, 0.5625]], [[0.59375, 0.40625]]
    for laws, on_data, on_neighbour in ((added, off, mixed), (removed, mixed, off), (replaced, mixed, mixed_other)):
        assert laws.error == 1e-12 + 4 * ULP
        assert laws.on_data.tolist() == np.array(on_data).tolist()
        assert laws.on_neighbour.tolist() == np.array(on_neighbour).tolist()
    above = 1 + 2.0**-52  # a sum of probabilities, rounded
    assert max(law.max() for law in (laws.on_data for laws in LawTriples(off * 2 * above, on).pairs(0.5))) <= 1
    assert LawTriples(off, on, other * 2).pairs(1.0)[0].on_neighbour.tolist() == [[1.0, 0.25]]


def test_disjoint_laws_are_like_no_noise() -> None:
    shown: Any = SimpleNamespace(finite=True, affinity=0.0)
    assert estimated_shift([(ReleaseGuarantee(laws=lambda: shown), 2)]) == math.inf


def test_powers_are_summed_by_their_logarithms() -> None:
    p, q = np.array([0.5, 0.25, 0.25, 0.0]), np.array([0.25, 0.5, 0.125, 0.125])
    with np.errstate(divide="ignore"):
        logs = np.log(p), np.log(q)
    assert float(log_power_sum(*logs, 3.0)) == pytest.approx(
        math.log(float(np.sum(p[:3] ** 3 / q[:3] ** 2))), rel=1e-14
    )
    assert float(log_power_sum(*logs[::-1], 3.0)) == math.inf  # an answer possible on one side only
    never = np.append(logs[0], -math.inf), np.append(logs[1], -math.inf)  # an impossible one
    assert float(log_power_sum(*never, 3.0)) == float(log_power_sum(*logs, 3.0))
    # 2000·ln(½/¼): the power itself exceeds all doubles.
    assert float(log_power_sum(*logs, 2001.0)) == pytest.approx(1999 * math.log(2) + math.log(1.5), rel=1e-14)


@for_each("kind", ["label", "check"])
@for_each("sigma", [1.0, 3.0, 1e6])
def test_divergences_are_never_nan(kind: str, sigma: float) -> None:
    bound = VoteRelease(kind, sigma, "discrete").divergence(3)  # type: ignore[arg-type]
    assert bound.values.size > 0
    assert np.all(bound.values > 0)
    orders = np.concatenate([np.geomspace(1.001, 1e300, 40)])
    values = bound.renyi(orders)
    assert not np.isnan(values).any()
    assert np.all(np.diff(values) >= -1e-9 * values[:-1])
    assert not np.isnan(bounded_range_divergence(500.0).renyi(orders)).any()
    lost = PowerDivergence(np.array([0.5, 2.0]), np.array([math.nan, math.nan]), 1.0, "lost")
    assert lost.at(np.array([0.5, 1.5, 2.0])).tolist() == pytest.approx(
        [math.expm1(-0.125) / -0.25, 0.6066, 0.8592], rel=1e-3
    )


@for_each(("sigma", "end"), [(1.0, 50), (1.1187, 150), (4.0, 30)])
def test_logarithms_of_tails_do_not_underflow(sigma: float, end: int) -> None:
    """Against sums of integers."""
    tails, scale = LogTails(sigma, end), 10**9000
    square = 2 * Fraction(sigma) ** 2

    def mass(k: int) -> int:
        exponent = Fraction(k * k) / square
        return int(scale * Fraction(_exp_minus(exponent)))

    masses = {k: mass(k) for k in range(end + 60)}
    total = masses[0] + 2 * sum(masses[k] for k in range(1, end + 60))
    for k in (1, 2, end // 2, end):
        exact = _log(Fraction(sum(masses[j] for j in range(k, end + 60)), total))
        assert float(tails.at_least(np.array(k))) == pytest.approx(exact, rel=1e-12)
        assert float(tails.below(np.array(1 - k))) == pytest.approx(exact, rel=1e-12)
    assert float(np.logaddexp(tails.at_least(np.array(0)), tails.below(np.array(0)))) == pytest.approx(0.0, abs=1e-14)
    assert tails.error <= 1e-10


CONTEXT = Context(prec=60)


def _log(ratio: Fraction) -> float:
    return float(CONTEXT.ln(CONTEXT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))))


def _exp_minus(exponent: Fraction) -> Fraction:
    return Fraction(CONTEXT.exp(-CONTEXT.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))))


EXAMPLE = np.array([[1, 2, 0]])


@for_each("order", [24.6, 35.0, 70.0, 1e4, 1e200])
def test_a_check_whose_powers_overflow_is_charged(order: float) -> None:
    batch = NoisyMaximum(3, 3, 1.0, threshold=3.3, check_sigma=1.1187).batch(1)
    found = batch.loss(EXAMPLE, order).renyi()
    assert 2.7 < found <= batch.renyi(order) * (1 + 1e-12)
    assert math.isfinite(found)
    if order == 35.0:
        assert found >= 2.7529  # by enumeration


def test_split_votes_do_not_pass_a_proposal() -> None:
    """20,000 queries of votes (57, 44, 0): the labels cost far more than the target, so the distance is 0."""
    batch = NoisyMaximum(101, 3, 2.9, threshold=20.0, check_sigma=10.0).batch(20_000)
    proposal = propose(batch, Privacy(12.0, 1e-9))
    counts = np.tile([57, 44, 0], (20_000, 1))
    assert proposal.unpublished_distance(counts) == 0
    assert proposal.pass_chance(0) <= 1e-9
    small = NoisyMaximum(20, 3, 1.0).batch(5000)
    for leader in (20, 16, 11):
        counts = np.tile([leader, 20 - leader, 0], (5000, 1))
        for order in (25.0, 70.0):
            assert small.loss(counts, order).renyi() == pytest.approx(small.renyi(order), rel=1e-9)


@for_each(("K", "classes", "sigma"), [(1, 2, 478.7), (1, 2, 10.6), (3, 2, 325.7), (3, 3, 1.0)])
@for_each("check", [{}, {"threshold": 1.5, "check_sigma": 2.0}])
def test_the_loss_of_votes_is_at_most_that_of_any_votes(
    K: int, classes: int, sigma: float, check: dict[str, Any]
) -> None:
    """Also of few voters, all of whose votes are listed."""
    batch = NoisyMaximum(K, classes, sigma, **check).batch(2)
    leading = np.tile([K, *[0] * (classes - 1)], (2, 1))
    for order in (1.2, 36.0, 1e9):
        losses = [batch.loss(leading, order).renyi(moved) for moved in (0, 1, K)]
        assert 0 < losses[0] <= losses[1] <= losses[2] <= batch.renyi(order)


def test_split_votes_have_a_published_loss() -> None:
    batch = NoisyMaximum(3, 3, 2.0).batch(1)
    assert unpublished_epsilon(batch, np.array([[1, 1, 1]]), 1e-5).epsilon <= batch.epsilon(1e-5)
    many = NoisyMaximum(10, 3, 1.5).batch(807)
    assert math.isfinite(publish_loss(many, np.tile([9, 1, 0], (807, 1)), 1e-5).epsilon)
    checked = NoisyMaximum(20, 3, 2.0, threshold=5.0, check_sigma=2.0).batch(10)
    for moved in (0, 3, 20):
        assert math.isfinite(checked.loss(np.tile([10, 10, 0], (10, 1)), 1e5).renyi(moved))


SLOW = (*extremes.SLOW, "batch", "checked batch", "divergence", "continuous noise", "cost")
"""Questions that compute a bound for a new σ, in a second each: left to campaigns, and tested here at other values."""


def test_extreme_questions_never_return_nan() -> None:
    quick = [name for name in extremes.QUESTIONS if not name.startswith(SLOW)]
    assert not any(extremes.row(1, number, quick).faults for number in range(12 * len(quick)))
    costs = [f"cost of {name}" for name in ("permute_and_flip", "randomized_response", "subsampling")]
    assert not any(extremes.row(2, number, costs).faults for number in range(5 * len(costs)))


@for_each("delta", [5e-324, 1e-310, 3e-308])
@for_each(
    "sampling",
    [
        None,
        Sampling(1000, rate=0.01),
        Sampling(1000, rate=0.01, labels=3),
        Sampling(100, 10, scheme="without-replacement"),
        Sampling(100, 10, scheme="each-voter"),
        Sampling(100, scheme="random-allocation", among=10),
    ],
)
def test_subnormal_deltas_are_answered_as_the_others(delta: float, sampling: Sampling | None) -> None:
    for mechanism, queries in ((NoisyMaximum(5, 3, 2.0), 30), (NoisyMaximum(5, 3, 1e5), 1)):
        found = cost(mechanism, queries, delta, sampling)
        assert 0 < found.epsilon <= cost(mechanism, queries, 0.0, sampling).epsilon * (1 + 1e-12)


def test_all_kinds_are_asked_in_all_directions() -> None:
    asked = [(name, argument) for _, name, argument in extremes.cycle([*extremes.QUESTIONS])]
    assert {*asked} == {
        (name, each) for name, (_, words) in extremes.QUESTIONS.items() for each in ["", *words.split()]
    }
    at = extremes.draw(Random("1"))
    for argument in {argument for _, argument in asked if argument}:
        assert at.dearer(argument) != at, argument


def test_a_wrong_answer_is_detected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        "NaN": (lambda _: [math.nan], ""),
        "negative": (lambda _: [-1.0], ""),
        "error": (lambda _: [1 / 0], ""),
        "warning": (lambda _: [float(np.exp(np.float64(1e4)))], ""),
        "falls": (lambda at: [2.0**-at.queries], "queries"),
        "grows": (lambda at: [at.sigma], "sigma"),
    }
    monkeypatch.setattr(extremes, "QUESTIONS", {**wrong, "good": (lambda _: [math.inf], "queries")})
    found = [wrong for number in range(20) for wrong in extremes.row(3, number).faults]
    assert {line.partition(":")[0].partition(",")[0] for line in found} == {*wrong}
    assert not any("good" in line for line in found)
    assert extremes.CAMPAIGN.main(["--questions", "20", "--seed", "3"]) == 1
    assert "20 questions, " in capsys.readouterr().out
