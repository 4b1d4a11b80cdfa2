"""Gaussian steps, sampling, SGLD, federated learning and RDP: sound against ball arithmetic and independent accountants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused, refuses

from darrm_opt.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_epsilon_tail
from darrm_opt.accounting.rdp import ORDERS, gaussian_rdp, gaussian_rdp_epsilon, rdp_delta, rdp_epsilon
from darrm_opt.accounting.sampling import amplify_by_subsampling
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.problem import Privacy
from darrm_papers.he_wang_tao.training import as_replace_one, doubling_rule_holds, federated, sgld


def ball_delta(mu: float, epsilon: float) -> Any:
    """Return Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) in ball arithmetic."""
    flint = pytest.importorskip("flint")
    flint.ctx.prec = 400
    shift, nats, root = flint.arb(mu), flint.arb(epsilon), flint.arb(2).sqrt()
    ends = [((nats / shift + sign * shift / 2) / root).erfc() / 2 for sign in (-1, 1)]
    return ends[0] - nats.exp() * ends[1]


def test_gaussian_profile_is_the_exact_one_rounded_up() -> None:
    generator = np.random.default_rng(7)
    for _ in range(1500):
        mu = float(10 ** generator.uniform(-4, 1.5))
        epsilon = float(generator.choice([0.0, 10 ** generator.uniform(-6, 2)]))
        found, exact = gaussian_delta(mu, epsilon), ball_delta(mu, epsilon)
        assert found >= exact
        if exact > 1e-250:
            assert found <= exact * (1 + 1e-7)
    assert gaussian_delta(1.0, math.inf) == 0.0
    assert gaussian_delta(1e-3, 1e3) > 0.0


def test_gaussian_epsilon_holds_and_little_less_does_not() -> None:
    for mu in (1e-3, 0.1, 1.0, 7.0):
        for delta in (1e-12, 1e-5, 0.01):
            epsilon = gaussian_epsilon(mu, delta)
            assert gaussian_delta(mu, epsilon) <= delta
            assert epsilon == 0 or gaussian_delta(mu, epsilon * (1 - 1e-6)) > delta
            assert epsilon <= gaussian_epsilon_tail(mu, delta)


def test_sampling_is_amplification_and_exact_for_the_worst_mechanism() -> None:
    """(1−q)·Q + q·P against Q, for randomised response (P, Q): the largest ratio is 1 + q(e^ε − 1)."""
    for epsilon in (1e-6, 0.3, 1.0, 1.2, 5.0, 800.0):
        for rate in (1e-3, 0.2, 1.0):
            found = amplify_by_subsampling(Privacy(epsilon, 1e-6), rate)
            if epsilon < 700:
                assert found.epsilon == pytest.approx(math.log1p(rate * math.expm1(epsilon)), rel=1e-12)
            assert found.epsilon <= epsilon
            assert found.delta == pytest.approx(rate * 1e-6)
    assert amplify_by_subsampling(Privacy(math.inf), 0.5).epsilon == math.inf
    assert amplify_by_subsampling(Privacy(0.0), 0.5) == Privacy(0.0)
    assert doubling_rule_holds(1.25, 1e-3)
    assert not doubling_rule_holds(1.3, 1e-3)


@pytest.mark.parametrize(
    ("records", "batch", "sigma", "steps", "delta"), [(60_000, 128, 0.1, 1000, 1e-5), (1000, 50, 0.2, 200, 1e-4)]
)
def test_sgld_is_above_the_rdp_accountant_of_the_library(
    records: int, batch: int, sigma: float, steps: int, delta: float
) -> None:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    run = sgld(records, batch, 1.0, sigma, steps, delta)
    total = run.optimal(run.general(delta).delta)
    accountant = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    step = dp_accounting.SampledWithoutReplacementDpEvent(records, batch, dp_accounting.GaussianDpEvent(1 / run.shift))
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, steps))
    tighter = accountant.get_epsilon(total.delta)
    assert tighter < total.epsilon < 5 * tighter
    assert total.epsilon < run.general(delta).epsilon


def test_more_steps_and_less_noise_never_cost_less() -> None:
    steps = [sgld(1000, 50, 1.0, 0.2, t, 1e-6).optimal(1e-3).epsilon for t in (1, 10, 100)]
    noise = [sgld(1000, 50, 1.0, s, 10, 1e-6).optimal(1e-3).epsilon for s in (2.0, 0.5, 0.1)]
    assert steps == sorted(steps)
    assert noise == sorted(noise)
    with pytest.raises(DeltaTooSmall):
        sgld(1000, 50, 1.0, 0.2, 100, 1e-4).optimal(1e-6)


def test_federated_adjacencies() -> None:
    replace, silence = (federated(1000, 20, 1.0, 50, 1e-7, adjacency=a) for a in ("replace", "zero_out"))
    assert replace.shift == pytest.approx(2 * silence.shift)
    assert silence.step.epsilon < replace.step.epsilon
    total = silence.optimal(1e-5)
    assert as_replace_one(total).epsilon == 2 * total.epsilon
    assert as_replace_one(total).delta == pytest.approx((1 + math.exp(total.epsilon)) * 1e-5)
    assert as_replace_one(Privacy(800.0, 1e-5)) == Privacy(math.inf)
    assert as_replace_one(Privacy(800.0)) == Privacy(1600.0)


def test_bad_training_is_named() -> None:
    refuses(
        sgld,
        {"records": 1000, "batch": 50, "lipschitz": 1.0, "sigma": 0.2, "steps": 10, "delta": 1e-6},
        batch=[2000, 0, 5.0],
        records=[True],
        lipschitz=[0.0],
        sigma=[-1.0, math.inf],
        steps=[0],
        delta=[0.0],
        bound=["loose"],
    )


def test_bad_steps_are_named() -> None:
    with refused("adjacency"):
        federated(10, 2, 1.0, 1, 1e-6, adjacency="add")  # type: ignore[arg-type]
    with refused("mu"):
        gaussian_delta(0.0, 1.0)
    with refused("rate"):
        amplify_by_subsampling(Privacy(0.1), 1.5)


# --------------------------------------------------------------------------------------------------- RDP


@for_each("sigma", [0.7, 3.0, 20.0])
@for_each("delta", [1e-8, 1e-3])
def test_rdp_is_above_the_exact_gaussian_and_tight_is_below_standard(sigma: float, delta: float) -> None:
    exact = gaussian_epsilon(1 / sigma, delta)
    curve = gaussian_rdp(sigma)
    tight, order = rdp_epsilon(curve, delta)
    standard, _ = rdp_epsilon(curve, delta, conversion="standard")
    assert exact <= tight < standard
    assert order in ORDERS
    best = gaussian_rdp_epsilon(sigma, 1, delta)
    assert best <= standard * (1 + 1e-12)
    assert standard <= best * 1.001
    assert rdp_delta(curve, tight)[0] <= delta * (1 + 1e-9)
    assert rdp_delta(curve, exact)[0] >= delta


def test_rdp_adds_up_over_queries() -> None:
    """k Gaussians of σ are one of σ/√k: the curve of the sum is the same curve."""
    np.testing.assert_allclose(9 * gaussian_rdp(3.0), gaussian_rdp(1.0), rtol=1e-14)
    assert gaussian_rdp_epsilon(3.0, 9, 1e-5) == pytest.approx(gaussian_rdp_epsilon(1.0, 1, 1e-5))
    costs = [gaussian_rdp_epsilon(3.0, k, 1e-5) for k in (0, 1, 2, 10, 10**6)]
    assert costs == sorted(costs)
    assert costs[0] == 0.0
    np.testing.assert_allclose(gaussian_rdp(2.0, [2.0, 3.0], sensitivity=2**0.5), [0.5, 0.75], rtol=1e-14)


def test_rdp_agrees_with_the_library() -> None:
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=ORDERS.tolist())
    accountant.compose(GaussianDpEvent(2.0), 5)
    ours, _ = rdp_epsilon(5 * gaussian_rdp(2.0), 1e-6)
    assert ours == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-9)


@for_each(
    ("rdp", "orders", "argument"),
    [
        ([0.1], [1.0], "orders"),
        ([], [], "orders"),
        ([0.1, 0.2], [2.0], "rdp"),
        ([-0.1], [2.0], "rdp"),
        ([math.nan], [2.0], "rdp"),
    ],
)
def test_bad_curves_are_named(rdp: list[float], orders: list[float], argument: str) -> None:
    with refused(argument):
        rdp_epsilon(rdp, 1e-5, orders)


def test_bad_rdp_inputs_are_named() -> None:
    with refused("sigma"):
        gaussian_rdp(0.0)
    with refused("conversion"):
        rdp_epsilon([0.1], 1e-5, [2.0], conversion="best")  # type: ignore[arg-type]
