"""Theorems that are false as printed: refused by default, and refuted again here from scratch."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.accounting.composition.optimal import least_possible_delta, optimal_delta
from darrm_opt.accounting.gaussian import gaussian_delta, gaussian_epsilon_tail
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.problem import Privacy
from darrm_papers.he_wang_tao.generalisation import failure_probability
from darrm_papers.he_wang_tao.printed import (
    FEDERATED_RUN,
    IMPOSSIBLE,
    LEAK,
    RESPONSE,
    SGLD_RUN,
    Counterexample,
    PrintedTheorem,
    Radical,
    UnsoundBound,
    composition_i_printed,
    composition_ii_printed,
    composition_iii_printed,
    composition_v_printed,
    federated_printed,
    federated_step_printed,
    high_probability_printed,
    loss_tail_printed,
    sgld_last_term_printed,
    sgld_printed,
    sgld_step_printed,
)
from darrm_papers.he_wang_tao.tail import loss_tail, tail_composition

EACH = {Privacy(1.0, 1e-5): 1000}
RUN = (1000, 1, 1.0, 1.0, 100, 1e-6, 1e-6)

PRINTED: list[tuple[Callable[..., PrintedTheorem], tuple[Any, ...], str]] = [
    (
        composition_i_printed,
        (EACH, 1e-5),
        r"composition theorem I is false.*Use kov_composition_at_delta\(\) or optimal_composition_of_sequence\(\)",
    ),
    (composition_ii_printed, (1.0, 1e-5, 1000, 1e-5), "composition theorem II is false"),
    (composition_iii_printed, (0.2676, 0.0, 50, 1e-4), r"composition theorem III is false.*Use tail_composition\(\)"),
    (composition_v_printed, (EACH, 1e-5), "composition theorem V is false"),
    (loss_tail_printed, (0.2676, 50, 1e-4), "composition theorem III is false"),
    (sgld_step_printed, (10, 1.0, 1.0, 1e-5), r"Theorem 7's per-step epsilon is false.*Use gaussian_epsilon\(\)"),
    (sgld_printed, RUN, r"Theorem 7 \(SGLD\) is false.*100 steps of SGLD.*Use sgld\(\)"),
    (sgld_last_term_printed, (1000, 50, 1.0, 0.2, 200, 1e-4, 1e-4), "Theorem 7's last term is false"),
    (federated_step_printed, (1, 5.0, 1e-8), "Theorem 8's per-round epsilon is false"),
    (
        federated_printed,
        (1000, 1, 1.0, 100, 1e-6, 1e-6),
        r"Theorem 8 \(federated.*1 of 1000 clients.*Use federated\(\)",
    ),
    (high_probability_printed, (2.5, 1e-6), r"Theorem 1 is false.*Use high_probability\(\)"),
]


@for_each(("theorem", "arguments", "message"), PRINTED)
def test_refused_by_default_with_a_counterexample(
    theorem: Callable[..., PrintedTheorem], arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(UnsoundBound, match=message) as caught:
        theorem(*arguments)
    assert isinstance(caught.value, DarrmError)
    assert isinstance(caught.value.counterexample, Counterexample)
    assert caught.value.counterexample.claimed < caught.value.counterexample.truth
    with pytest.raises(UnsoundBound):
        theorem(*arguments, acknowledge_unsound=1)  # only True is an acknowledgement
    printed = theorem(*arguments, acknowledge_unsound=True)
    assert printed.shortfall >= 0
    assert printed.refuted_here == (printed.exact_delta is not None and printed.shortfall > 0)
    assert "the truth at least" in str(printed.counterexample)


def test_the_leak_mechanism_refutes_i_ii_and_v() -> None:
    """Simulated exactly: after 1000 runs the record is out with probability 1 − (1−1e-5)^1000."""
    floor = least_possible_delta(1e-5, 1000)
    second = composition_ii_printed(1.0, 1e-5, 1000, 1e-5, acknowledge_unsound=True)
    assert (second.epsilon, second.delta) == pytest.approx((LEAK.epsilon, LEAK.claimed))
    assert LEAK.truth <= floor
    for printed in (
        second,
        composition_i_printed(EACH, 1e-5, acknowledge_unsound=True),
        composition_v_printed(EACH, 1e-5, acknowledge_unsound=True),
    ):
        assert printed.delta < LEAK.truth * 0.9
        assert printed.exact_delta is not None
        assert printed.exact_delta >= floor
        assert printed.refuted_here
    # The printed claim for the DaRRM paper's own setting is below the truth too.
    darrm = composition_ii_printed(0.2676, 3e-4, 50, 1e-4, acknowledge_unsound=True)
    assert darrm.delta == pytest.approx(0.014529, abs=1e-6)
    assert darrm.shortfall > 3e-4


def test_where_it_happens_to_hold_the_canonical_counterexample_is_given() -> None:
    printed = composition_ii_printed(0.05, 1e-6, 20, 1e-4, acknowledge_unsound=True)
    assert not printed.refuted_here
    assert printed.counterexample == LEAK


def test_theorem_ii_never_exceeds_by_more_than_four_thirds() -> None:
    """The understatement is largest at ε = ln 3: 4/3 in the limit."""
    delta, k = 1e-9, 100_000
    printed = composition_ii_printed(math.log(3), delta, k, 1e-15, acknowledge_unsound=True)
    assert printed.exact_delta is not None
    assert 1.25 < printed.exact_delta / printed.delta < 4 / 3


def test_randomised_response_refutes_iii_and_the_sign_is_what_is_wrong() -> None:
    printed = loss_tail_printed(0.2676, 50, 1e-4, acknowledge_unsound=True)
    assert printed.delta == pytest.approx(RESPONSE.claimed, rel=1e-4, abs=0)
    assert printed.epsilon == pytest.approx(RESPONSE.epsilon)
    assert optimal_delta(0.2676, 0.0, 50, printed.epsilon) >= RESPONSE.truth
    for epsilon, k, slack in [(0.2676, 50, 1e-4), (0.01, 100, 1e-6), (0.1, 200, 1e-5)]:
        wrong = loss_tail_printed(epsilon, k, slack, acknowledge_unsound=True)
        right = loss_tail(epsilon, k, wrong.epsilon)
        assert wrong.delta * math.exp(wrong.epsilon + k * epsilon) == pytest.approx(right, rel=1e-9)
    fixed = tail_composition(0.2676, 0.0, 50, 1e-4)
    assert optimal_delta(0.2676, 0.0, 50, fixed.epsilon) <= fixed.delta <= 1e-4
    with refused("slack", "1e-06"):
        loss_tail_printed(1.0, 50, 1e-6, acknowledge_unsound=True)


@cache
def realisable_run() -> Any:
    """Return 100 steps that take 1 of 1000 records, which moves the mean by 2 deviations; optimistic."""
    from dp_accounting.pld import privacy_loss_distribution

    step = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        standard_deviation=1.0,
        sensitivities=[0.0, 2.0],
        sampling_probs=[0.999, 0.001],
        pessimistic_estimate=False,
        value_discretization_interval=1e-3,
    )
    return step.self_compose(100)


def test_a_realisable_run_refutes_theorem_7() -> None:
    """(1−q)N(0,1) + qN(μ,1) against N(0,1), composed optimistically by the library: a true lower bound on δ."""
    claim = sgld_printed(*RUN, acknowledge_unsound=True)
    assert claim.epsilon == pytest.approx(SGLD_RUN.epsilon, abs=1e-4)
    assert claim.delta + 1e-6 == pytest.approx(SGLD_RUN.claimed, rel=1e-3)  # with the slack that sets its ε
    truth = realisable_run().get_delta_for_epsilon(claim.epsilon)
    assert truth >= SGLD_RUN.truth > 10 * SGLD_RUN.claimed


def test_the_per_step_epsilons_lose_their_factor() -> None:
    shift = 0.2
    printed = sgld_step_printed(10, 1.0, 1.0, 1e-5, acknowledge_unsound=True)
    assert printed.epsilon == pytest.approx(0.49985, abs=1e-5)
    assert gaussian_epsilon_tail(shift, 1e-5) == pytest.approx(0.97971, abs=1e-5)
    assert printed.exact_delta == pytest.approx(51e-5, rel=0.01)
    for scale, delta, times in [(20.0, 1e-5, 1.004), (5.0, 1e-8, 139), (1.0, 1e-5, 160)]:
        federated = federated_step_printed(1, scale, delta, radical="logarithm", acknowledge_unsound=True)
        assert federated.exact_delta == pytest.approx(times * delta, rel=0.01)
        # For silencing a client the same number is sound.
        assert gaussian_delta(1 / scale, federated.epsilon) <= delta


def test_the_totals_of_theorem_8_are_those_of_a_hand() -> None:
    # Everybody in one round, tau = sigma = 1: e = sqrt((4x + 1)/2) = 2 at x = ln(1/delta) = 1.75, or (4 sqrt(x) + 1)/2 = 3 at x = 1.5625.
    whole = federated_printed(1, 1, 1.0, 1, math.exp(-1.75), math.exp(-2), radical="fraction", acknowledge_unsound=True)
    assert whole.epsilon == pytest.approx(8.0 + 4 * 0.964027580075817, rel=1e-12)  # sqrt(8·4·2) + 2·2·tanh 2
    assert whole.delta == pytest.approx(0.173773943450445, rel=1e-12)  # delta itself: one step, which takes all of it
    part = federated_printed(
        2, 1, 1.0, 1, math.exp(-1.5625), math.exp(-2), radical="logarithm", acknowledge_unsound=True
    )
    assert part.epsilon == pytest.approx(6.0 + 3 * 0.905148253644866, rel=1e-12)  # sqrt(8/4·9·2) + 2·3/2·tanh 1.5
    assert part.delta == pytest.approx(0.209611387151098 / 2, rel=1e-12)
    # As typeset, e = 4 sqrt(x + 1)/2 = 3 at x = 1.25; with two clients a round e = 4/2 sqrt(x + 1/4)/2 = 1.5 at x = 2.
    alike = federated_printed(2, 1, 1.0, 1, math.exp(-1.25), math.exp(-2), acknowledge_unsound=True)
    assert alike.epsilon == pytest.approx(part.epsilon, rel=1e-12)
    assert federated_step_printed(2, 1.0, math.exp(-2), acknowledge_unsound=True).epsilon == pytest.approx(1.5)
    with refused("cohort", "3"):
        federated_printed(2, 3, 1.0, 1, 0.1, 0.1, acknowledge_unsound=True)
    with refused("radical", "'all'"):
        federated_printed(2, 1, 1.0, 1, 0.1, 0.1, radical="all", acknowledge_unsound=True)  # type: ignore[arg-type]


@for_each("cohort", [1, 3, 20])
@for_each("delta", [1e-1, 1e-5, 1e-8])
def test_where_each_reading_of_theorem_8_is_true(cohort: int, delta: float) -> None:
    """A round silences a client with a shift of 1/(τσ), and replaces one with twice that: the exact Gaussian decides."""
    logarithm = -math.log(delta)
    limits: dict[tuple[Radical, int], float] = {  # the largest 1/(τσ) up to which it is said to be true
        ("sum", 1): 2 * (2 - math.sqrt(2)) * math.sqrt(logarithm),
        ("fraction", 1): 1 / 2,
        ("fraction", 2): 1 / 8,
        ("logarithm", 1): math.inf,
    }
    for radical, times in [*limits, ("sum", 2), ("logarithm", 2)]:
        shifts = [0.004, 0.05, 1 / 8, 1 / 2, 1.0, 3.0, 8.0, 40.0]
        limit = limits.get((radical, times), 0.0)
        held = []
        for shift in shifts:
            claim = federated_step_printed(
                cohort, 1 / (cohort * shift), delta, radical=radical, acknowledge_unsound=True
            )
            held.append(gaussian_delta(times * shift, claim.epsilon) <= delta)
            assert held[-1] or shift > limit
        assert held[-1] == (limit == math.inf)
        if limit == 0.0 and delta <= 1e-5:
            assert not any(held[2:])


@pytest.mark.parametrize(("radical", "times"), [("sum", 170), ("fraction", 360), ("logarithm", 150)])
def test_a_realisable_run_refutes_theorem_8(radical: Radical, times: float) -> None:
    """The pair that refutes Theorem 7: a replaced client moves the mean of a round by 2/(τσ) = 2 deviations."""
    claim = federated_printed(1000, 1, 1.0, 100, 1e-6, 1e-6, radical=radical, acknowledge_unsound=True)
    truth = realisable_run().get_delta_for_epsilon(claim.epsilon)
    assert truth > times * (claim.delta + 1e-6)
    if radical == "sum":
        assert claim.epsilon == pytest.approx(FEDERATED_RUN.epsilon, abs=1e-4)
        assert claim.delta + 1e-6 == pytest.approx(FEDERATED_RUN.claimed, rel=1e-4)
        assert truth > 0.99 * FEDERATED_RUN.truth


def test_theorem_1_claims_the_impossible() -> None:
    printed = high_probability_printed(2.5, 1e-6, acknowledge_unsound=True)
    assert printed.delta == pytest.approx(IMPOSSIBLE.claimed, rel=0.01)
    assert printed.delta < 0  # a probability above 1 is promised
    half = high_probability_printed(0.05, 1e-6, acknowledge_unsound=True)
    assert half.delta == pytest.approx(failure_probability(Privacy(0.05, 1e-6)) / 2)


def test_first_theorem_of_many_different_mechanisms_is_not_enumerated() -> None:
    with pytest.raises(InvalidInput, match="at most 15 mechanisms, unless all are equal"):
        composition_i_printed([Privacy(0.1 + i / 100, 1e-6) for i in range(16)], 1e-6, acknowledge_unsound=True)


def test_the_vertex_maximum_is_the_maximum() -> None:
    """Against random α in the polytope: 0 ≤ α_i ≤ ε_i, Σα_i = E."""
    import numpy as np

    events = [Privacy(0.1, 1e-6), Privacy(0.2, 1e-5), Privacy(0.3, 1e-4), Privacy(0.5, 1e-6)]
    printed = composition_v_printed(events, 0.9, acknowledge_unsound=True)
    shares = np.array([event.delta / (1 + math.exp(event.epsilon)) for event in events])
    rest = -math.expm1(np.log1p(-shares).sum()) + 0.9
    generator = np.random.default_rng(5)
    limits = np.array([event.epsilon for event in events])
    for _ in range(500):
        alpha = generator.uniform(0, 1, 4) * limits
        alpha = np.minimum(limits, alpha * printed.epsilon / alpha.sum())  # at most E in sum: a smaller value
        assert -math.expm1(np.log1p(-np.exp(alpha) * shares).sum()) + rest <= printed.delta + 1e-12
