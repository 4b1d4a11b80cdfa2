"""DPBag, DPBag- and SAA: spreads, accounts and what is unsound in the source, against enumeration and counterexamples."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.refusals import refused

from darrm_opt import Privacy
from darrm_opt.mechanisms.vote_noise import LaplaceNoise
from darrm_opt.teachers import Partition, slot_partition
from darrm_papers.moments_accountant import (
    PerInstanceLoss,
    epsilon_floor,
    moment_increment,
    moments_epsilon,
    per_instance_loss,
    pure_epsilon,
    record_losses,
    record_weights,
    saa_label_budget,
    saa_lam_for,
    spread_floor,
    star_spread,
    vote_spread,
)
from darrm_papers.pate import data_dependent_moment

Votes = list[list[list[int]]]


def random_case(seed: int, R: int = 9, k: int = 4, n: int = 3, Q: int = 6, C: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, C, (k, n, Q)), rng.integers(0, n, (R, k))


# ------------------------------------------------------------------------------------------- spreads


@pytest.mark.parametrize("C", [2, 3])
def test_spread_is_the_largest_shift_of_the_counts(C: int) -> None:
    """After a record leaves, its k teachers may vote anything: no class moves by more than km, all together by 2km."""
    k = 3
    for own in product(range(C), repeat=k):
        m = vote_spread([[[vote]] for vote in own], [[0] * k], C)[0, 0]
        counts = np.bincount(own, minlength=C)
        shifts = [np.abs(np.bincount(new, minlength=C) - counts) for new in product(range(C), repeat=k)]
        assert max(shift.max() for shift in shifts) == round(k * m)
        assert max(shift.sum() for shift in shifts) == round(2 * k * m)


def test_spread_against_its_definition() -> None:
    for seed in range(20):
        votes, chunks = random_case(seed)
        spread = vote_spread(votes, chunks, 3)
        for u, q in product(range(9), range(6)):
            own = [votes[j, chunks[u, j], q] for j in range(4)]
            assert spread[u, q] == max(1 - own.count(c) / 4 for c in range(3))
        weights = record_weights(votes, chunks, 3)
        assert weights == [sum((Fraction(round(4 * m), 4) ** 2 for m in row), Fraction(0)) for row in spread]


def test_spread_floor_is_attained() -> None:
    for k, C in product((1, 2, 3, 4, 7), (2, 3, 5)):
        least = min(
            vote_spread([[[vote]] for vote in own], [[0] * k], C)[0, 0]
            for own in [[(i % C) for i in range(k)], [0] * k]
        )
        assert spread_floor(k, C) == pytest.approx(least)


def test_star_rules_against_enumeration() -> None:
    for seed in range(10):
        votes, _ = random_case(seed, k=3, n=2, Q=5)
        worst = [
            max(vote_spread(votes, [list(entry)], 3)[0, q] for entry in product(range(2), repeat=3)) for q in range(5)
        ]
        assert star_spread(votes, 3, "adversarial").tolist() == worst
        assert star_spread(votes, 3, "last_chunk").tolist() == vote_spread(votes, [[1, 1, 1]], 3)[0].tolist()


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, chunks = random_case(1, Q=50)
    whole = record_weights(votes, chunks, 3)
    monkeypatch.setattr("darrm_papers.moments_accountant._BLOCK", 100)
    assert record_weights(votes, chunks, 3) == whole


# ------------------------------------------------------------------------------------------- the noisy vote


@pytest.mark.parametrize("k", [1, 3])
def test_a_vote_is_pure_private_at_two_lambda_m(k: int) -> None:
    """Theorem 1, and Theorem 4 per pair, on the distribution that is drawn: noise of scale k/λ."""
    for lam in (0.05, 0.7):
        noise = LaplaceNoise(k / Fraction(lam))
        for margin, moved in product(range(-60, 61), range(1, k + 1)):
            ratio = noise.wins(margin) / noise.wins(margin - 2 * moved)
            assert abs(math.log(ratio)) <= 2 * lam * moved / k * (1 + 1e-9)
    far = LaplaceNoise(1 / Fraction(0.05))
    assert math.log(far.wins(-800) / far.wins(-802)) > 0.97 * 0.1  # the bound is nearly attained far out


# ------------------------------------------------------------------------------------------- accounts


@given(st.floats(0.05, 20), st.floats(1e-9, 0.2), st.floats(1e-3, 1))
def test_budget_is_the_largest_that_fits(epsilon: float, delta: float, lam: float) -> None:
    T = saa_label_budget(epsilon, delta, lam)
    assert moments_epsilon(T, lam, delta) <= epsilon
    assert moments_epsilon(T + 1, lam, delta) > epsilon
    if epsilon <= epsilon_floor(delta):
        assert T == 0


@given(st.floats(0.2, 20), st.floats(1e-6, 0.2), st.integers(1, 10**6))
def test_lambda_for_returns_to_the_start(epsilon: float, delta: float, n_labels: int) -> None:
    if epsilon <= epsilon_floor(delta) * 1.001:
        with refused("epsilon"):
            saa_lam_for(n_labels, epsilon * 0.99, delta)
        return
    lam = saa_lam_for(n_labels, epsilon, delta)
    assert epsilon * (1 - 1e-9) <= moments_epsilon(n_labels, lam, delta) <= epsilon


def test_accounts_never_fall_below_the_exact_value() -> None:
    assert Fraction(pure_epsilon(0.1, 3)) >= 6 * Fraction(0.1)
    # Fractions of the moments accountant, ln(1/δ) bounded from below by a rational.
    lam, S, log_delta = Fraction(0.01), 777, Fraction(11512925464970228, 10**15)  # ln(1e5) > this
    exact = min(2 * lam**2 * S * (l + 1) + log_delta / l for l in range(1, 81))
    assert moments_epsilon(777, 0.01, 1e-5) >= exact


def test_no_queries_cost_nothing_and_more_never_less() -> None:
    assert moments_epsilon(0, 0.1, 1e-5) == 0.0
    spent = [moments_epsilon(T, 0.1, 1e-5) for T in range(1, 40)]
    assert spent == sorted(spent)
    assert moments_epsilon(10, 0.1, 1e-5) <= moments_epsilon(10, 0.1, 1e-6)
    assert moment_increment(0.1, 3, 0.5) == pytest.approx(moment_increment(0.1, 3) / 4)


# ------------------------------------------------------------------------------------------- per-record accounts


def test_per_instance_loss_is_the_worst_record_and_not_a_privacy() -> None:
    votes, chunks = random_case(5, k=4, C=2)
    partition = Partition(chunks, 3, "replace")
    loss = per_instance_loss(votes, partition, 2, 0.3, 1e-3)
    assert isinstance(loss, PerInstanceLoss)
    assert not isinstance(loss, Privacy)
    assert "must not" not in repr(loss)
    assert "not differential privacy" in loss.warning
    weights = record_weights(votes, chunks, 2)
    assert loss.epsilon == moments_epsilon(float(max(weights)), 0.3, 1e-3)
    each = record_losses(weights, 0.3, 1e-3)
    assert each.max() == pytest.approx(loss.epsilon, rel=1e-12)
    assert loss.epsilon <= moments_epsilon(6, 0.3, 1e-3)  # never worse than DPBag-
    added = per_instance_loss(votes, Partition(chunks, 3, "add_remove"), 2, 0.3, 1e-3)
    assert added.epsilon >= loss.epsilon


def test_per_instance_loss_bounds_the_exact_divergence() -> None:
    """Two classes, replaced record: the moments of the votes drawn, for every way its teachers may vote afterwards."""
    lam, k, n = 0.6, 4, 2
    for seed in range(5):
        votes, chunks = random_case(seed, R=3, k=k, n=n, Q=4, C=2)
        noise = LaplaceNoise(k / Fraction(lam))
        spread = vote_spread(votes, chunks, 2)
        for u, q in product(range(3), range(4)):
            own = [int(votes[j, chunks[u, j], q]) for j in range(k)]
            ones = int(votes[:, :, q].sum())
            for new in range(k + 1):
                p, other = noise.wins(2 * ones - k * n), noise.wins(2 * (ones - sum(own) + new) - k * n)
                for l in (1, 5, 30):
                    for a, b in ((p, other), (other, p)):
                        moment = math.log(a * (a / b) ** l + (1 - a) * ((1 - a) / (1 - b)) ** l)
                        assert moment <= moment_increment(lam, l, spread[u, q]) + 1e-12


@for_each(
    ("make", "argument"),
    [
        (lambda: slot_partition(3, 4), "n_chunks"),
        (lambda: vote_spread([[[0]]], [[0, 0]], 2), "chunks"),
        (lambda: vote_spread([[[2]]], [[0]], 2), "votes"),
        (lambda: vote_spread([[0]], [[0]], 2), "votes"),
        (lambda: vote_spread([[[0]]], [[0]], 1), "n_classes"),
        (lambda: star_spread([[[0]]], 2, "first"), "rule"),  # type: ignore[arg-type]
        (lambda: moments_epsilon(-1, 0.1, 1e-3), "weight"),
        (lambda: moments_epsilon(1, 0.1, 0.0), "delta"),
        (lambda: moments_epsilon(1, 0.1, 1e-3, []), "orders"),
        (lambda: moments_epsilon(1, 0.1, 1e-3, [0.5]), "orders"),
        (lambda: moment_increment(0.1, 1, 1.5), "m"),
        (lambda: data_dependent_moment([], 0.1, 1), "margins"),
        (lambda: data_dependent_moment([-1], 0.1, 1), "margins"),
    ],
)
def test_refusals(make: Any, argument: str) -> None:
    with refused(argument):
        make()
