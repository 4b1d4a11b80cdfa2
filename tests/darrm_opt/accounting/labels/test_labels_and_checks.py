"""Totals of labels and checks: published settings, ball arithmetic, brute force over histograms, enumeration."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from support.cases import for_each
from support.noisy_votes import vote_total
from support.paths import ROOT
from support.refusals import refused
from vote_enumeration import (
    check_pairs,
    edges,
    exact_recursion_delta,
    histograms,
    label_law,
    label_pairs,
    recursion_delta,
)

from darrm_opt import InvalidInput, Privacy
from darrm_opt.accounting.composition.optimal import optimal_delta
from darrm_opt.accounting.gaussian import gaussian_delta, gaussian_epsilon
from darrm_opt.accounting.labels import composition as labels_composition
from darrm_opt.accounting.labels import discrete_gaussian_argmax as lattice
from darrm_opt.accounting.labels import gaussian_argmax, noisy_bit, power_divergence, vote_release
from darrm_opt.accounting.labels import gaussian_comparison as comparison
from darrm_opt.accounting.labels.composition import bounded_range_divergence, composed_epsilon, table_divergence
from darrm_opt.accounting.labels.power_divergence import (
    PowerDivergence,
    gaussian_counts,
    gaussian_divergence,
    largest_loss_term,
    loss_gradients,
    loss_term,
)
from darrm_opt.accounting.labels.vote_release import VoteRelease
from darrm_opt.accounting.rdp import ORDERS, rdp_epsilon
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum, calibrated_check
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP

RNG = np.random.default_rng(17)

SETTINGS = [
    # checks, σ₁, labels, σ₂, δ; ε of counts by RDP; largest ε of labels by (a) Rényi and (b) the recursion
    (640, 150.0, 286, 40.0, 1e-5, 2.76, 2.16, 2.06),
    (1500, 200.0, 524, 40.0, 1e-5, 3.83, 2.99, 2.82),
    (8500, 200.0, 3098, 40.0, 1e-6, 11.84, 9.11, 8.75),
    (12000, 500.0, 10762, 100.0, 1e-8, 9.48, 7.39, 7.15),
]
"""Published settings of Confident-GNMax."""


@pytest.fixture(autouse=True)
def own_draws() -> None:
    RNG.bit_generator.state = np.random.default_rng(17).bit_generator.state  # whichever tests ran before


def divergence(p: Array, q: Array, order: float) -> Any:
    """Return H_a from its definition, in doubles, of laws along the last axis."""
    powers = np.exp(np.minimum(order * np.log(p) + (1 - order) * np.log(q), 700.0))
    return (np.sum(powers, axis=-1) - 1) / (order * (order - 1))


def confident(
    checks: int, check_sigma: float, labels: int, sigma: float, noise: Any = "gaussian"
) -> list[tuple[str, float, int, str]]:
    return [("check", check_sigma, checks, noise), ("label", sigma, labels, noise)]


def counts_epsilons(releases: Any, delta: float, affected: int = 1) -> tuple[float, float]:
    """Return ε of the noisy counts: by Rényi divergences, and as one Gaussian mechanism."""
    variance = sum(
        count * (affected / sigma) ** 2 * (2 if kind == "label" else 1) for kind, sigma, count, *_ in releases
    )
    return rdp_epsilon(ORDERS * variance / 2, delta)[0], gaussian_epsilon(math.sqrt(variance), delta)


# ------------------------------------------------------------------------------------------- published settings


@for_each(("checks", "check_sigma", "labels", "sigma", "delta", "counts", "renyi", "recursion"), SETTINGS)
def test_totals_at_published_settings(
    checks: int,
    check_sigma: float,
    labels: int,
    sigma: float,
    delta: float,
    counts: float,
    renyi: float,
    recursion: float,
) -> None:
    releases = confident(checks, check_sigma, labels, sigma)
    cost, shown = vote_total(releases, delta), list(counts_epsilons(releases, delta))
    shown += [cost.epsilons["renyi"], cost.epsilons["gaussian"]]
    assert round(shown[0], 2) == counts
    assert shown[2] <= renyi
    assert shown[3] <= recursion
    assert shown == sorted(shown, reverse=True)
    cells = " | ".join(f"{math.ceil(1000 * epsilon) / 1000:.3f}" for epsilon in shown[:3])
    row = f"| {checks} at {check_sigma:g} / {labels} at {sigma:g}, {delta:.0e} | {cells} | **{math.ceil(1000 * shown[3]) / 1000:.3f}** |"
    assert row.replace("e-0", "e-") in (ROOT / "docs" / "label_accounting.md").read_text(encoding="utf-8").splitlines()
    # Exact knowledge of 2/π of the information in the counts would not cost less.
    least = (2 / math.pi) * (checks / check_sigma**2 + 2 * labels / sigma**2)
    assert gaussian_delta(math.sqrt(least), cost.epsilon) < delta


# ------------------------------------------------------------------------------------------- ball arithmetic


def ball_cells(flint: Any, alpha: float, beta: float) -> list[Any]:
    """Return the probabilities of a, b and another class as balls, by integration."""
    arb, acb = flint.arb, flint.acb

    def phi(t: Any) -> Any:
        return (-(t * t) / 2).exp() / (2 * acb.pi()).sqrt()

    def Phi(t: Any) -> Any:
        return (-t / acb(2).sqrt()).erfc() / 2

    def wins(mine: float, other: float) -> Any:
        return acb.integral(lambda t, _: phi(t - mine) * Phi(t - other), 0, 40).real

    neither = (Phi(acb(-alpha)) * Phi(acb(-beta))).real
    return [wins(alpha, beta), wins(beta, alpha), arb(neither)]


def test_cell_probabilities_are_those_of_ball_arithmetic() -> None:
    flint = pytest.importorskip("flint")
    flint.ctx.prec = 128
    points = [(0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (-1.5, 7.0), (7.0, -1.5), *RNG.uniform(-1.5, 4, (25, 2)).tolist()]
    for alpha, beta in points:
        found = gaussian_argmax.cell_probabilities(np.array([alpha]), np.array([beta]))[0]
        for value, true, relative in zip(found, ball_cells(flint, alpha, beta), (0, 0, 1), strict=True):
            error = float(abs(flint.arb(float(value)) - true).upper())
            assert error <= (noisy_bit.TAIL_ERROR / 4 * value if relative else gaussian_argmax.CELL_ERROR / 8)


# ------------------------------------------------------------------------------------------- the family, at random


@for_each("sigma", [1.0, 3.0, 25.0, 300.0])
def test_no_pair_of_the_family_exceeds_the_bound_and_one_is_close(sigma: float) -> None:
    h, mu = 1 / sigma, math.sqrt(2) / sigma
    alpha, beta = np.concatenate([RNG.uniform(-1, 3, (4000, 2)), RNG.normal(0, 4, (2000, 2))]).T
    p, q = gaussian_argmax.cell_probabilities(alpha, beta), gaussian_argmax.cell_probabilities(alpha - h, beta + h)
    fine = np.all(np.minimum(p, q) > 1e-9, axis=1)
    p, q = p[fine], q[fine]
    release = gaussian_argmax.label_divergence(sigma)
    for scaled in (0.0, 0.03, 0.31, 0.77, 1.0, 1.64, 2.2, 2.93):
        order = 0.5 + scaled / mu
        if abs(order - 1) < 1e-2:
            continue
        bound = float(release.at(np.array([order]))[0])
        for pair in ((p, q), (q, p)):
            largest = np.max(divergence(*pair, order))
            assert largest <= bound * (1 + 1e-7)
        if scaled <= 1 and sigma > 1:
            assert largest >= bound * (1 - 0.01)


def test_losses_increase_with_alpha_and_decrease_with_beta() -> None:
    alpha, beta = RNG.uniform(-2, 4, (3000, 2)).T
    for h in (0.02, 0.5):
        for cell in range(3):

            def loss(da: float, db: float, h: float = h, cell: int = cell) -> Array:
                p = gaussian_argmax.cell_probabilities(alpha + da, beta + db)
                q = gaussian_argmax.cell_probabilities(alpha + da - h, beta + db + h)
                return np.log(q[:, cell] / p[:, cell])

            assert np.all(loss(0.1, 0.0) - loss(0, 0) > -1e-9)
            assert np.all(loss(0.0, 0.1) - loss(0, 0) < 1e-9)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.4])
def test_no_bit_exceeds_the_bound_and_one_is_close(mu: float) -> None:
    release = noisy_bit.bit_divergence(mu)
    u = np.concatenate([RNG.uniform(-3, 3, 3000), RNG.uniform(-8, 8, 2000)])
    p, q = np.stack([ndtr(u), ndtr(-u)], axis=1), np.stack([ndtr(u - mu), ndtr(mu - u)], axis=1)
    for scaled in (0.0, 0.42, 1.3, 2.8):
        order = 0.5 + scaled / mu
        bound = float(release.at(np.array([order]))[0])
        largest = float(np.max(np.sum(p * loss_term(np.log(q / p), np.array(order)), axis=1)))
        assert largest <= bound * (1 + 1e-9)
        if scaled < 2:
            assert largest >= bound * (1 - 0.002)


def test_the_divergence_of_noisy_counts_is_its_closed_form() -> None:
    orders = np.array([0.5, 0.8, 1.7, 6.0, 40.0])
    closed = np.expm1(orders * (orders - 1) * 0.02) / (orders * (orders - 1))
    np.testing.assert_allclose(gaussian_divergence(0.2, orders), closed, rtol=1e-12)
    assert gaussian_divergence(0.2, np.array([1.0]))[0] >= 0.02
    assert gaussian_divergence(0.2, np.array([1e9]))[0] == math.inf


def test_loss_terms_are_those_of_each_loss_and_order() -> None:
    """For each way to compute powers; also for orders with nearly equal gaps, and over intervals."""
    losses, orders = np.linspace(-0.3, 9.0, 60), 1.5 + 0.5 * np.arange(40.0)
    orders += 2e-10 * (np.arange(40) % 2)  # as different as gaps that count as equal may be
    terms, single = loss_term(losses.reshape(60, 1, 1), orders), loss_term(losses, orders[7] + 0 * losses)
    assert terms.shape == (60, 1, 40)
    assert single.shape == (60,)
    np.testing.assert_allclose(terms[:, 0, 7], single, rtol=1e-11)
    (first, error), (both, more) = loss_gradients(losses.reshape(60, 1, 1), orders)
    assert first.shape == both.shape == (60, 1, 40)
    with localcontext() as context:
        context.prec = 60
        for row, column in product(range(0, 60, 7), range(40)):
            loss, order = Decimal(float(losses[row])), Decimal(float(orders[column]))
            true = (((1 - order) * loss).exp() - 1) / (order - 1)
            assert abs(true - Decimal(float(first[row, 0, column]))) <= Decimal(float(error[row, 0, column]))
            true += (1 - (-order * loss).exp()) / order
            assert abs(true - Decimal(float(both[row, 0, column]))) <= Decimal(float(more[row, 0, column]))
    _, ulps = power_divergence._power_changes(losses.reshape(1, 60, 1), orders.reshape(40, 1, 1))
    assert ulps.ravel()[:11].tolist() == [*range(8, 49, 5), 8, 13]  # each step from the previous order is charged
    low, high = np.array([[-1.0], [-0.2], [0.0], [0.5], [-2.0]]), np.array([[0.1], [3.0], [1.0], [0.7], [-1.0]])
    for share in np.linspace(0, 1, 11).tolist():
        inside = loss_term(low + share * (high - low), orders)
        assert np.all(inside <= largest_loss_term(low, high, orders) * (1 + 1e-9))


def test_a_bound_is_charged_for_its_logarithm_and_that_of_counts_holds_from_order_1() -> None:
    bound = PowerDivergence(np.array([0.5, 2.0, 3.0]), np.array([1.0, 4.0, 16.0]), 30.0, "by hand")
    for order, value in ((2.0, 4.0), (2.5, 8.0)):
        assert value * (1 + 2.0**-41) <= bound.at(np.array([order]))[0] <= value * (1 + 2.0**-39)
    assert bound.renyi(np.array([2.0]))[0] == pytest.approx(math.log(9), rel=1e-11)
    assert bound.scaled(2.0).orders.tolist() == [0.5, 1.25, 1.75]
    other = PowerDivergence(np.array([0.5, 2.0]), np.array([1.0, 1.0]), 0.1, "by hand", within_gaussian=False)
    assert other.at(np.array([0.75]))[0] > 0.2
    assert other.at(np.array([1.0])) == gaussian_divergence(0.1, np.array([1.0]))
    for order in (1.5, 7.0, 30.0):
        found = gaussian_counts(0.3).renyi(np.array([order]))[0]
        assert Fraction(found) >= Fraction(order) * Fraction(0.3) ** 2 / 2 * Fraction(1 + 4 * ULP)


@for_each("mu", [2.8, 0.7, 5e-3, 1.4e-5])
def test_powers_of_evenly_spaced_orders_are_bounds_in_forty_digits(mu: float) -> None:
    """Each power is computed from that of the previous order: its value and error include the steps."""
    orders = noisy_bit.scaled_orders(mu)
    losses = np.tile([[1e-9, -1e-7, 0.03, -0.4, 1.7, -6.0, 30.0]], 7).T * mu  # enough orders to use this path
    terms, ((firsts, error), (boths, more)) = loss_term(losses, orders), loss_gradients(losses, orders)
    with localcontext() as context:
        context.prec = 60
        for row, column in product(range(7), range(orders.size)):
            loss, order = Decimal(float(losses[row, 0])), Decimal(float(orders[column]))
            back = ((1 - order) * loss).exp()
            exact = (back - order + (order - 1) * loss.exp()) / (order * (order - 1))
            first, second = (back - 1) / (order - 1), (1 - (-order * loss).exp()) / order
            assert exact <= Decimal(float(terms[row, column]))
            for true, found, off in ((first, firsts, error), (first + second, boths, more)):
                assert abs(true - Decimal(float(found[row, column]))) <= Decimal(float(off[row, column]))
            if abs(loss) > Decimal(0.01 * mu):
                assert Decimal(float(terms[row, column])) <= exact * (1 + Decimal("1e-12") / min(abs(loss), Decimal(1)))
                size = (abs(first) + abs(second)) * (1 + order * abs(loss))
                assert Decimal(float(boths[row, column])) <= abs(first + second) + size * Decimal("1e-13")


def test_the_increase_of_a_gaussian_is_bounded_from_below() -> None:
    """J·n_s(y) = U(x; s + t) − U(x; s), which J approaches from below."""
    for s, t in ((0.01, 0.002), (1.0, 0.01), (0.5, 0.3)):
        for y in (0.0, 0.4, 1.5):
            order = np.array([0.5 + y / s])
            density = math.exp(-((y - s / 2) ** 2) / (2 * s)) / math.sqrt(2 * math.pi * s)
            exact = gaussian_delta(math.sqrt(s + t), y) - gaussian_delta(math.sqrt(s), y)
            found = float(comparison.gaussian_increase(s, t, order)[0]) * density
            assert found <= exact + 1e-15
            assert found >= exact * (1 - 2e-3) - 1e-14


# ------------------------------------------------------------------------------------------- brute force


@for_each(
    ("K", "classes", "sigma", "labels", "checks"),
    [(12, 5, 9.0, 10, 0), (9, 3, 4.0, 6, 0), (6, 4, 12.0, 4, 4), (11, 2, 20.0, 10, 0), (3, 3, 2.0, 1, 0)],
)
def test_never_below_brute_force_over_all_histograms(
    K: int, classes: int, sigma: float, labels: int, checks: int
) -> None:
    label, check = label_pairs(K, classes, sigma), check_pairs(K, classes, 2 * sigma, K - 1.5)
    steps = [label] * (labels - checks) + [label, check] * checks
    releases = [("label", sigma, labels), ("check", 2 * sigma, checks)]
    deltas = (1e-2, 1e-4)
    costs = [vote_total(releases, delta) for delta in deltas]
    totals = np.array([(cost.epsilons["gaussian"], cost.epsilons["renyi"]) for cost in costs])
    for order in (steps, steps[::-1]) if checks else (steps,):
        shown = recursion_delta(order, totals.ravel(), points=1001).reshape(totals.shape)
        assert np.all(shown <= np.array(deltas)[:, np.newaxis])


def test_never_below_the_recursion_over_the_family() -> None:
    """The worst member of the three-cell family at each of 40 steps, some of them checks."""
    sigma, labels, checks = 6.0, 30, 10
    h = 1 / sigma
    alpha, beta = (each.ravel() for each in np.meshgrid(np.arange(-0.5, 3.1, 0.4), np.arange(-0.5, 3.1, 0.4)))
    near = (np.abs(alpha - beta) < 2) & (alpha + beta < 5)
    p = gaussian_argmax.cell_probabilities(alpha[near], beta[near])
    q = gaussian_argmax.cell_probabilities(alpha[near] - h, beta[near] + h)
    label = [*zip(p, q, strict=True), *zip(q, p, strict=True)]
    check = check_pairs(9, 2, 2 * sigma, 7)
    cost = vote_total([("label", sigma, labels), ("check", 2 * sigma, checks)], 1e-4)
    steps = ([label] * 3 + [check]) * 10
    spent = recursion_delta(steps, np.array([cost.epsilons["gaussian"]]), points=1001)[0]
    assert 0.2e-4 < spent <= 1e-4


def test_never_below_exact_enumeration_in_fractions() -> None:
    """Laws of labels rounded to rationals, three adaptive releases, all transcripts."""
    sigma = 2.0
    pairs = []
    for here, there in edges(3, 3):
        laws = [
            [Fraction(round(value * 10**6), 10**6) for value in label_law(counts, sigma)] for counts in (here, there)
        ]
        laws = [[*law[:-1], 1 - sum(law[:-1], Fraction(0))] for law in laws]
        pairs.append(list(zip(*laws, strict=True)))
    as_floats = [(np.array([float(p) for p, _ in pair]), np.array([float(q) for _, q in pair])) for pair in pairs]
    releases = [("label", sigma, 3)]
    for delta in (0.1, 0.01):
        cost = vote_total(releases, delta)
        for epsilon in (cost.epsilon, cost.epsilon / 2, 0.5):
            exact = exact_recursion_delta([pairs] * 3, epsilon)
            found = float(recursion_delta([as_floats] * 3, np.array([epsilon]), points=20_001)[0])
            assert float(exact) <= found * (1 + 1e-9) + 1e-12  # chords lie above
            assert found <= float(exact) * 1.01 + 1e-6
        assert exact_recursion_delta([pairs] * 3, cost.epsilon) <= Fraction(delta)


def test_histograms_and_edges_are_complete() -> None:
    assert len(list(histograms(30, 4))) == 297
    assert len(list(histograms(50, 3))) == 234
    raw = {
        tuple(sorted(zip(n, m, strict=True)))
        for n in product(range(5), repeat=3)
        if sum(n) == 4
        for a, b in permutations(range(3), 2)
        if n[a] > 0
        for m in [tuple(count - (c == a) + (c == b) for c, count in enumerate(n))]
    }
    assert {tuple(sorted(zip(n, m, strict=True))) for n, m in edges(4, 3)} == raw
    np.testing.assert_allclose(label_law([5, 2, 2], 1e-3 + 1), label_law([5, 2, 2], 1.001), rtol=1e-12)
    assert label_law([4, 1], 3.0)[0] == pytest.approx(0.5 * math.erfc(-3 / (2 * 3.0)), rel=1e-12)


# ------------------------------------------------------------------------------------------- discrete noise


@pytest.mark.parametrize("sigma", [0.2, 0.5, 0.9, 1.0, 1.1])
def test_counts_with_little_discrete_noise_do_not_exceed_their_bound(sigma: float) -> None:
    """At order ½ their divergence exceeds that of the Gaussian mechanism; from order 1 it does not."""
    orders = np.array([0.5, 0.7, 0.95, 0.99, 1.05, 1.4, 2.0])
    k = np.arange(-60, 61)
    kinds: tuple[Any, ...] = ("check", "label")
    for kind, affected in product(kinds, (1, 2, 3)):
        bounds = VoteRelease(kind, sigma, "discrete").divergence(None, affected).at(orders)
        above = []
        for order, bound in zip(orders.tolist(), bounds.tolist(), strict=True):
            # ln Σ P^a Q^(1−a) of one count that moves by r, twice for the two of a label
            powers = -(order * k**2 + (1 - order) * (k - affected) ** 2) / (2 * sigma**2)
            one = np.logaddexp.reduce(powers) - np.logaddexp.reduce(-(k**2) / (2 * sigma**2))
            exact = math.expm1(one * (1 + (kind == "label"))) / (order * (order - 1))
            assert exact <= bound
            above.append(exact > gaussian_divergence(VoteRelease(kind, sigma).shift(affected), np.array([order])))
        assert not any(above[4:])


# ------------------------------------------------------------------------------------------- wide discrete noise

TIES = ((0, 0, True), (0, 0, False), (0, 1, True), (1, 0, False))
"""Least u and v with which a and b win, and whether a wins u = v."""


def whole(least: int, most: int) -> Array:
    return np.arange(least, most + 1, dtype=np.float64)


def cells_of(rows: Array, columns: Array, tie: tuple[int, int, bool]) -> list[Any]:
    """Return where a, b and another class win, from the rule, shape (u, v) each."""
    (t_a, t_b, a_first), u, v = tie, rows[:, np.newaxis], columns[np.newaxis, :]
    a = (u >= t_a) & ((u >= v) if a_first else (u > v))
    b = (v >= t_b) & ((v > u) if a_first else (v >= u))
    return [a, b, ~a & ~b]


def masses_at(values: Array, mean: float, scale: float) -> Array:
    return np.asarray(np.exp(-((values - mean) ** 2) / (2 * scale**2)) / (scale * math.sqrt(2 * math.pi)))


def test_the_bound_of_a_quadratic_function_on_a_square_holds() -> None:
    corners, bends = RNG.normal(size=(4, 300)), RNG.exponential(2, (2, 300)) * (RNG.random((2, 300)) < 0.9)
    x = np.linspace(0, 1, 201)[:, np.newaxis]
    rows = [(1 - x) * low + x * high + bends[0] / 2 * x * (1 - x) for low, high in (corners[::2], corners[1::2])]
    largest = np.max([(1 - y) * rows[0] + y * rows[1] + bends[1] / 2 * y * (1 - y) for y in x], axis=(0, 1))
    found = gaussian_argmax._largest_on_squares(corners[:, np.newaxis], *bends[:, np.newaxis])[0]
    assert np.all((largest <= found + 1e-12) & (found <= largest + 1e-3))
    assert np.mean(found > corners.max(axis=0) + 1e-3) > 0.2  # often between the corners


@pytest.mark.parametrize(("sigma", "m"), [(4.2, 2), (7.5, 3)])
def test_a_label_is_an_average_of_labels_on_a_coarser_lattice(sigma: float, m: int) -> None:
    """Lemma 5, by enumeration: the residues of u and v do not depend on the means, and determine one of four ties."""
    k = whole(-60, 60)
    for i, j in ((0, 0), (5, 3), (-2, 4)):
        weights = np.outer(masses_at(k, i, sigma), masses_at(k, j, sigma))
        for tie in TIES:
            average = np.zeros(3)
            for r, other in product(range(m), repeat=2):
                # Which of the four, from all u′, v′ in a small square.
                few = whole(-3, 3)
                cells = cells_of(m * few + r, m * few + other, tie)
                (which,) = [
                    n
                    for n, each in enumerate(TIES)
                    if all(np.array_equal(*pair) for pair in zip(cells, cells_of(few, few, each), strict=True))
                ]
                means = (np.array([(i - r) / m]), np.array([(j - other) / m]))
                average += lattice.real_laws(sigma / m, *means)[which][0] / m**2
            np.testing.assert_allclose(average, [weights[cell].sum() for cell in cells_of(k, k, tie)], rtol=1e-9)
    assert sum(masses_at(k, 0.0, sigma)) >= 1 - 1e-15


def test_within_a_cell_the_variance_is_bounded_and_the_covariance_nonnegative() -> None:
    """Lemmas 1 and 6 need Var(u | cell) ≤ s² + 0.26 and Cov(u, v | cell) ≥ 0."""
    k = whole(-80, 80)
    most = 0.0
    for scale in (2.0, 2.9, 6.0):
        for i, j in RNG.uniform(-2 * scale, 3 * scale, (12, 2)):
            weights = np.outer(masses_at(k, i, scale), masses_at(k, j, scale))
            for tie in TIES:
                for cell in cells_of(k, k, tie):
                    law = np.where(cell, weights, 0.0) / weights[cell].sum()
                    u, v = law.sum(axis=1) @ k, law.sum(axis=0) @ k
                    variances = [law.sum(axis=1) @ (k - u) ** 2, law.sum(axis=0) @ (k - v) ** 2]
                    most = max(most, *(each - scale**2 for each in variances))
                    assert (k - u) @ law @ (k - v) >= -1e-9
    assert most <= gaussian_argmax.LATTICE_VARIANCE


@pytest.mark.parametrize("sigma", [134.6])
def test_no_pair_of_whole_means_exceeds_the_bound_of_wide_noise_and_one_is_close(sigma: float) -> None:
    release = lattice.lattice_label_divergence(sigma)
    orders = release.orders[[0, 3, 6, 10]]
    bounds, largest = release.at(orders), np.zeros(4)
    reach = math.ceil(12 * sigma)
    noise = masses_at(whole(-reach, reach), 0, sigma)
    noise = np.append(noise / noise.sum(), 0.0)
    below = np.append(0.0, np.cumsum(noise[:-1]))

    def law(i: int, j: int, tie: tuple[int, int, bool]) -> list[float]:
        t_a, t_b, a_first = tie

        def at(x: Any) -> Any:
            return noise[np.where(np.abs(x) <= reach, x + reach, -1)]

        def less(x: Any) -> Any:
            return below[np.clip(x + reach, 0, 2 * reach + 1)]

        u, v = (np.arange(t, 20 * reach // 12) for t in (t_a, t_b))
        a, b = at(u - i) @ less(u + a_first - j), at(v - j) @ less(v + 1 - a_first - i)
        neither = less(t_a - i) * less(t_b - j)
        assert a + b + neither == pytest.approx(1, abs=1e-12)
        return [float(a), float(b), float(neither)]

    means = np.rint(np.concatenate([RNG.uniform(-1.5, 4, (40, 2)), RNG.normal(0.82, 0.1, (30, 2))]) * sigma)
    for i, j in means.astype(int):
        for tie in TIES:
            p, q = np.array(law(i, j, tie)), np.array(law(i - 1, j + 1, tie))
            for pair in ((p, q), (q, p)):
                found = np.array([divergence(*pair, order) for order in orders])
                assert np.all(found <= bounds * (1 + 1e-7))
                largest = np.maximum(largest, found)
    assert np.all(largest >= 0.98 * bounds)


def test_wide_noise_costs_as_much_as_by_enumeration_and_as_continuous_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no jump from listed noise to σ = 1e5: within 2e-3 of enumeration, within 1 % of continuous noise."""
    listed = lattice.lattice_label_divergence(16.0).values[:11]
    monkeypatch.setattr(lattice, "MAX_LISTED_SIGMA", 2.0)
    for coarse, most in ((16.0, 3e-4), (8.0, 2e-3)):  # the same lattice, and every second point
        monkeypatch.setattr(lattice, "COARSE", coarse)
        ratio = lattice.lattice_label_divergence.__wrapped__(16.0).values[:11] / listed
        assert np.all((ratio >= 1) & (ratio <= 1 + most))
    monkeypatch.undo()
    listed = lattice.lattice_label_divergence(40.0).values
    for sigma in (134.6, 1e5):
        scaled = lattice.lattice_label_divergence(sigma).values[:11] * sigma**2
        assert np.all(scaled <= gaussian_argmax.label_divergence(sigma).values[:11] * sigma**2 * 1.002)
        assert scaled[0] == pytest.approx(listed[0] * 40.0**2, rel=3e-4)


def test_bits_of_wide_noise_are_bounded_at_every_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice, "COARSE", 6.0)
    for scale, shift in ((8.4, 1), (15.0, 3)):
        orders = noisy_bit.scaled_orders(shift / scale)
        found = lattice.coarse_bit_values(scale, shift, orders)
        for offset in (0.0, 0.3, 0.5):
            exact = lattice.lattice_bit_values(scale, offset, shift, orders)
            assert np.all(found >= exact)
            assert np.all(found[:11] <= exact[:11] * 1.02)
    monkeypatch.undo()
    below, above = (lattice.lattice_bit_divergence(scale, 2, (0.0,)) for scale in (4990.0, 5010.0))
    np.testing.assert_allclose(above.values[:11] * 5010**2, below.values[:11] * 4990**2, rtol=1e-3)


def test_a_thousand_labels_among_thousands_of_voters_need_little_noise() -> None:
    assert vote_total([("label", 134.6, 1000, "discrete")], 1e-5, classes=3).epsilon <= 1.0


# ------------------------------------------------------------------------------------------- metamorphic, calibration


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-300])
def test_the_least_deltas_have_an_account(delta: float) -> None:
    assert 12 < vote_total([("label", 40, 100)], delta).epsilon < 14


@for_each("noise", ["gaussian", "discrete"])
@for_each(("sigma", "count"), [(1e-3, 3), (0.6, 20), (1.0, 1), (2e5, 100), (1e7, 10)])
@for_each("affected", [1, 70])
def test_extreme_noise_has_an_account(noise: Any, sigma: float, count: int, affected: int) -> None:
    if noise == "discrete" and sigma < 1:
        return
    releases = [("label", sigma, count, noise), ("check", sigma, count, noise)]
    for delta in (1e-300, 0.9):
        cost = vote_total(releases, delta, classes=2, affected=affected)
        assert 0 <= cost.epsilon <= 1.0001 * counts_epsilons(releases, delta, affected)[0] < math.inf


@pytest.mark.parametrize(("K", "classes", "queries"), [(250, 10, 60), (1500, 2, 1000)])
def test_calibrated_noise_fits_and_a_little_less_does_not(K: int, classes: int, queries: int) -> None:
    total = Privacy(1.5, 1e-6)
    noise = NoisyMaximum.calibrated(K, classes, total, queries)
    made = [("label", noise.sigma, queries, "discrete")]
    assert noise.epsilon(queries, 1e-6) == vote_total(made, 1e-6, classes=classes).epsilon <= 1.5
    less = [("label", noise.sigma * (1 - 5e-4), queries, "discrete")]
    assert vote_total(less, 1e-6, classes=classes).epsilon > 1.5


def test_calibrated_checks() -> None:
    checked = calibrated_check(50, 3, Privacy(2.0, 1e-5), 40, 3.0, 30.0, 20)
    assert checked.check_sigma == pytest.approx(3 * checked.sigma)
    assert 1.999 < checked.epsilon(40, 1e-5) <= 2.0
    for ratio in (0.3, 3.0):
        loud = calibrated_check(50, 3, Privacy(50.0, 1e-5), 1, ratio, 30.0, 1)
        assert min(loud.sigma, loud.check_sigma or 0.0) == pytest.approx(1.0)  # the least noise offered
    with refused("epsilon"):
        calibrated_check(50, 3, Privacy(1e-300, 1e-300), 40, 3.0, 30.0, None)


def test_a_release_with_too_large_a_loss_has_no_finite_epsilon_by_the_comparison() -> None:
    loud = PowerDivergence(np.array([0.5, 50.0]), np.array([1.0, 1e6]), 1.0, "made up", within_gaussian=False)
    assert comparison.gaussian_cost(loud, 10, 1e-10).variance > 10
    assert comparison.gaussian_cost(loud, 0, 1e-10) == comparison.GaussianCost(0.0, 0.0)


# ------------------------------------------------------------------------------------------- any release


@pytest.mark.parametrize(("epsilon", "count", "off"), [(0.02, 10_000, 1.01), (0.05, 500, 1.02), (0.3, 50, 1.05)])
def test_randomised_response_against_its_exact_composition(epsilon: float, count: int, off: float) -> None:
    x = 1 / (1 + math.exp(-epsilon))
    table = table_divergence([[x, 1 - x]], [[1 - x, x]])
    found = composed_epsilon([(table, count)], 1e-6)
    assert optimal_delta(epsilon, 0.0, count, found) <= 1e-6
    assert optimal_delta(epsilon, 0.0, count, found / off) > 1e-6


def test_a_table_has_the_largest_divergence_of_its_pairs() -> None:
    laws = RNG.dirichlet(np.full(4, 20.0), (2, 6))
    table = table_divergence(laws[0], laws[1])
    for order in (0.5, 0.8, 1.9, 7.3):
        largest = max(np.max(divergence(laws[i], laws[1 - i], order)) for i in (0, 1))
        assert largest <= table.at(np.array([order]))[0] <= largest * 1.005
    assert table.at(np.array([1e5]))[0] == gaussian_divergence(table.shift, np.array([1e5]))[0]
    spread = [laws[0][0] * np.array([1, 1, 1, 0]), laws[1][0] * np.array([1, 1, 1, 0])]
    assert table_divergence(spread[:1], spread[1:]).values[0] > 0  # an impossible outcome


def test_the_largest_loss_of_a_table_is_charged_for_its_rounding() -> None:
    table = table_divergence([[0.25, 0.75]], [[0.75, 0.25]], error=0.0)
    units = (table.shift - math.log(3)) / ULP
    assert 8 * (1 + math.log(3)) - 2 <= units <= 8 * (1 + math.log(3)) + 2
    assert not labels_composition.TABLE_ORDERS.flags.writeable


def test_a_sum_of_divergences_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """For two kinds by eight units each and eight for their sum."""
    given: list[Array] = []

    def recorded(divergences: Array, _: float) -> tuple[float, float]:
        given.append(divergences)
        return 1.0, 2.0

    monkeypatch.setattr(labels_composition, "rdp_epsilon", recorded)
    one, two = (table_divergence([[x, 1 - x]], [[1 - x, x]]) for x in (0.51, 0.53))
    labels_composition.renyi_epsilon([(one, 3), (two, 5)], 1e-5)
    exact = np.array(
        [
            3 * Fraction(a) + 5 * Fraction(b)
            for a, b in zip(*(x.renyi(ORDERS).tolist() for x in (one, two)), strict=True)
        ]
    )
    units = np.array(
        [float((Fraction(a) / b - 1) / Fraction(ULP)) for a, b in zip(given[0].tolist(), exact, strict=True)]
    )
    assert np.all((units > 24 - 3) & (units < 24 + 3))


def test_a_table_is_charged_for_its_errors_and_skips_orders_near_1() -> None:
    """With 100 likely and 100 unlikely outcomes, in forty digits."""
    p, q, error = 0.008, 0.002, 1e-9
    found = table_divergence([[p] * 100 + [q] * 100], [[q] * 100 + [p] * 100], error)
    loss = (Decimal(q) / Decimal(p)).ln()
    margin = 3 * Decimal(error) + 8 * Decimal(ULP) * (1 - loss)
    for order, value in zip(found.orders.tolist(), found.values.tolist(), strict=True):
        a, exact = Decimal(order), Decimal(0)
        for mass, each in ((p, loss), (q, -loss)):
            terms = [((1 - a) * x).exp() - a + (a - 1) * x.exp() for x in (each - margin, each + margin)]
            exact += 100 * Decimal(mass) * (1 + Decimal(error)) * max(term / (a * (a - 1)) for term in terms)
        assert abs(Decimal(value) / exact - 1 - 3200 * Decimal(ULP)) < 800 * Decimal(ULP) * (1 + 1 / abs(a - 1))
    small = 1e-13
    far = table_divergence([[0.5, 0.5 - small, small]], [[0.5, small, 0.5 - small]], 0.0)
    charge = (Decimal(far.shift) - ((Decimal(0.5 - small)) / Decimal(small)).ln()) / Decimal(ULP)
    assert abs(charge / (8 * (1 + Decimal(far.shift))) - 1) < Decimal("0.15")
    x = math.sqrt(1 - 0.995**2) / 2  # the first order above ½ is then 1
    assert table_divergence([[0.5 + x, 0.5 - x]], [[0.5 - x, 0.5 + x]]).orders.size == 60


def test_the_bound_of_a_range_of_losses_is_just_above_its_worst_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    width, orders = 1.5, np.array([0.5, 2.0, 5.0])
    upper = np.exp(np.linspace(0, width, 700)[1:-1])
    lower = upper * math.exp(-width)
    q = (1 - lower) / (upper - lower)
    laws = np.stack([upper * q, lower * (1 - q)], axis=1), np.stack([q, 1 - q], axis=1)
    exact = np.array([divergence(*laws, order).max() for order in orders])
    found = bounded_range_divergence(width).at(orders)
    assert np.all((found >= exact) & (found <= exact * 1.01))
    monkeypatch.setattr(labels_composition, "RANGE_STEPS", 4)
    assert np.all(bounded_range_divergence(width).at(orders) >= exact)  # two pairs; the others are mirror images
    off_one = np.abs(bounded_range_divergence(width).orders - 1).min()
    for least, fewer in ((off_one, 0), (math.nextafter(off_one, 1), 1)):
        monkeypatch.setattr(labels_composition, "MIN_DISTANCE_FROM_ONE", least)
        assert bounded_range_divergence(width).orders.size == labels_composition.TABLE_ORDERS.size - fewer


def test_each_kind_of_release_has_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: tuple[Any, ...] = ("label", "check")
    bounds = ("lattice_bit", "lattice_label", "bit", "label")
    for name in bounds:
        monkeypatch.setattr(vote_release, f"{name}_divergence", lambda *of, name=name: (name, *of))
    for name in ("lattice_counts", "gaussian_counts"):
        monkeypatch.setattr(vote_release, name, lambda *of, name=name: (name, *of))
    label, check = (VoteRelease(kind, 4.0) for kind in kinds)
    lattice_label, lattice_check = (VoteRelease(kind, 4.0, "discrete") for kind in kinds)
    expected: Any
    for release, classes, affected, expected in (
        (check, None, 2, ("bit", check.shift(2))),
        (label, 2, 3, ("bit", label.shift(3))),
        (label, 3, 1, ("label", 4.0)),
        (label, None, 1, ("label", 4.0)),
        (label, None, 2, ("gaussian_counts", label.shift(2))),
        (lattice_check, None, 2, ("lattice_bit", 4.0, 2, (0.0,))),
        (lattice_label, 2, 3, ("lattice_bit", 4.0 / math.sqrt(2), 3, (0.0, 0.5))),
        (lattice_label, 3, 1, ("lattice_label", 4.0)),
        (lattice_label, None, 2, ("lattice_counts", label.shift(2))),
    ):
        assert release.divergence(classes, affected) == expected
    monkeypatch.setattr(vote_release, "MIN_DISCRETE_SIGMA", 4.0)  # wide enough without a coarser lattice
    assert lattice_label.divergence(3) == ("lattice_label", 4.0)  # type: ignore[comparison-overlap]


def test_sigma_is_in_units_of_the_weight() -> None:
    weighted = vote_total([("label", 8.0, 3)], 1e-5, weight=2.0)
    assert weighted.epsilon == vote_total([("label", 4.0 * (1 - 2 * ULP), 3)], 1e-5).epsilon


def test_the_comparison_is_charged_for_its_slack_and_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of δ after all kinds; the mean noise of all kinds; and the grid for many kinds."""
    asked, strides = list[tuple[float, float]](), list[int]()

    def cost(_: PowerDivergence, count: int, __: float, stride: int) -> comparison.GaussianCost:
        strides.append(stride)
        return comparison.GaussianCost(0.1 * count, 1e-7)

    def epsilon(*of: float) -> float:
        asked.append(of)  # type: ignore[arg-type]
        return 1.0

    monkeypatch.setattr(labels_composition, "gaussian_cost", cost)
    monkeypatch.setattr(labels_composition, "gaussian_epsilon", epsilon)
    for kinds, stride, expected in ((2, 1, 1), (2, 5, 5), (17, 1, 3), (17, 5, 5)):
        strides.clear()
        labels_composition.compared_epsilon([(gaussian_counts(0.1), 3)] * kinds, 1e-5, stride)
        assert strides == [expected] * kinds
        shift, left = map(Fraction, asked.pop())
        variance, slack = kinds * Fraction(0.1 * 3), kinds * Fraction(1e-7)
        assert variance < shift**2 < variance * (1 + Fraction(20 * kinds * ULP))
        assert (
            Fraction(1e-5) - slack * (1 + Fraction(10 * kinds * ULP)) - Fraction(3e-21) < left < Fraction(1e-5) - slack
        )


# ------------------------------------------------------------------------------------------- bad input


@for_each(
    ("make", "argument", "accepted"),
    [
        (lambda: VoteRelease("vote", 1.0), "kind", "'label' or 'check'"),  # type: ignore[arg-type]
        (lambda: VoteRelease("label", 0.0), "sigma", "from 1e-50 to 1e\\+150"),
        (lambda: VoteRelease("label", math.inf), "sigma", "from 1e-50 to 1e\\+150"),
        (lambda: VoteRelease("label", 1.0, "laplace"), "noise", "'gaussian' or 'discrete'"),  # type: ignore[arg-type]
        (lambda: vote_total([("label", 1.0, -1)], 1e-5), "count", "at least 0"),
        (lambda: VoteRelease("label", 1.0).guarantee(classes=1), "classes", "at least 2"),
        (lambda: VoteRelease("label", 1.0).guarantee(affected=0), "affected", "at least 1"),
        (lambda: VoteRelease("label", 1.0).guarantee(weight=0.0), "weight", "above 0"),
        (lambda: VoteRelease("label", 1.0).guarantee(weight=math.inf), "weight", "above 0"),
        (lambda: VoteRelease("label", 40.0, "discrete").guarantee(weight=2.0), "weight", "1 for discrete noise"),
        (lambda: table_divergence([[0.5, 0.5]], [[0.5, 0.4, 0.1]]), "on_neighbour", "as many laws"),
        (lambda: table_divergence([[1.5, -0.5]], [[0.5, 0.5]]), "on_data", "probabilities"),
        (lambda: table_divergence([[0.5, 0.5]], [[1.5, -0.5]]), "on_neighbour", "probabilities"),
        (lambda: table_divergence([[1.0, 0.0]], [[0.5, 0.5]]), "on_neighbour", "same possible outcomes"),
        (lambda: composed_epsilon([(table_divergence([[0.5, 0.5]], [[0.5, 0.5]]), -1)], 1e-5), "count", "at least 0"),
    ],
)
def test_invalid_arguments_are_refused(make: Any, argument: str, accepted: str) -> None:
    with pytest.raises(InvalidInput, match=accepted) as caught:
        make()
    assert caught.value.argument == argument
