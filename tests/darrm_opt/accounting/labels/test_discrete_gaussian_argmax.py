"""Lattice noise: each step against enumeration in forty digits, by independent code.

Tests move the ends of sums and of the triangle inward, so that the result depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from vote_enumeration import edges

from darrm_opt.accounting.labels import discrete_gaussian_argmax as lattice
from darrm_opt.accounting.labels import gaussian_argmax, noisy_bit
from darrm_opt.accounting.labels.power_divergence import gaussian_divergence
from darrm_opt.noise import Array

RNG = np.random.default_rng(17)

ME = Decimal(lattice.MASS_ERROR)

TIES = ((0, 0, True), (0, 0, False), (0, 1, True), (1, 0, False))
"""Least u and v with which a and b win, and whether a wins u = v."""

Law = Sequence[Decimal]


@pytest.fixture(autouse=True)
def own_draws() -> None:
    RNG.bit_generator.state = np.random.default_rng(17).bit_generator.state  # whichever tests ran before


@pytest.fixture(autouse=True)
def forty_digits() -> Iterator[None]:
    with localcontext(prec=40):
        yield


def density(x: float | Decimal, scale: float) -> Decimal:
    """Return the density of N(0, scale²)."""
    pi = Decimal("3.141592653589793238462643383279502884197")
    return (-(Decimal(x) ** 2) / (2 * Decimal(scale) ** 2)).exp() / (Decimal(scale) * (2 * pi).sqrt())


def masses(scale: float, offset: float, last: int) -> dict[int, Decimal]:
    """Return the discrete Gaussian on −last..last."""
    weights = {k: density(Decimal(k) + Decimal(offset), scale) for k in range(-last, last + 1)}
    return {k: weight / sum(weights.values()) for k, weight in weights.items()}


def loss_term(loss: Decimal, order: float) -> Decimal:
    a = Decimal(order)
    return ((-(a - 1) * loss).exp() - a + (a - 1) * loss.exp()) / (a * (a - 1))


def divergence(p: Law, q: Law, order: float, margin: Decimal = Decimal(0)) -> Decimal:
    """Return H_a from its definition; with a margin, the largest over losses within it."""
    losses = [(y / x).ln() for x, y in zip(p, q, strict=True)]
    terms = [max(loss_term(loss - margin, order), loss_term(loss + margin, order)) for loss in losses]
    return sum((x * term for x, term in zip(p, terms, strict=True)), Decimal(0))


def decimals(law: Array) -> Law:
    return [Decimal(float(x)) for x in law]


def laws_by_rule(at_u: dict[int, Decimal], at_v: dict[int, Decimal], tie: tuple[int, int, bool]) -> Law:
    """Return the probabilities of a, b and another class, from the rule."""
    (t_a, t_b, a_first), chances = tie, [Decimal(0)] * 3
    for (u, p), (v, q) in product(at_u.items(), at_v.items()):
        a, b = u >= t_a and (u >= v if a_first else u > v), v >= t_b and (v > u if a_first else v >= u)
        assert not (a and b)
        chances[0 if a else 1 if b else 2] += p * q
    return chances


def moved(noise: dict[int, Decimal], mean: int) -> dict[int, Decimal]:
    return {k + mean: mass for k, mass in noise.items()}


def close(found: Any, exact: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(
        np.asarray(found, dtype=np.float64), np.asarray(exact, dtype=np.float64), rtol=rtol, atol=0
    )


# ------------------------------------------------------------------------------------------- noise and laws


@for_each(("scale", "offset", "end"), [(2.0, 0.25, 1.5), (1.3, 0.5, 3.0), (2.0, 0.0, 9.0)])
def test_noise_is_a_discrete_gaussian_on_its_support(scale: float, offset: float, end: float) -> None:
    noise, last = lattice.LatticeNoise(scale, offset, end), math.ceil(end * scale)
    exact, k = masses(scale, offset, last), np.arange(-last - 2, last + 4)
    close(noise.at(k), [exact.get(n, 0) for n in k.tolist()])
    close(noise.below(k), [sum(mass for m, mass in exact.items() if m < n) for n in k.tolist()])
    close(noise.at_least(k), [sum(mass for m, mass in exact.items() if m >= n) for n in k.tolist()])


@for_each("ends", [((-6, 0), (-2, 5)), ((-1, 4), (-5, 2)), ((-4, -2), (-3, -3))])
def test_laws_at_whole_means_are_those_of_the_rule(ends: tuple[tuple[int, int], tuple[int, int]]) -> None:
    noise, exact = lattice.LatticeNoise(1.7, 0.0, 2.0), masses(1.7, 0.0, 4)
    i, j = (np.array([least, most, *RNG.integers(least, most + 1, 4)]) for least, most in ends)
    for tie, laws in zip(TIES, lattice.tie_laws(noise, i, j), strict=True):
        for mean_u, mean_v, law in zip(i.tolist(), j.tolist(), laws, strict=True):
            close(law, laws_by_rule(moved(exact, mean_u), moved(exact, mean_v), tie))


def some_pairs(n: int) -> tuple[Array, Array]:
    return RNG.dirichlet([2, 2, 2], n), RNG.dirichlet([2, 2, 2], n)


def test_divergences_of_pairs_are_charged_for_their_rounding(move: Callable[..., None]) -> None:
    move(lattice, CHUNK=3)
    (p, q), orders = some_pairs(7), np.array([0.5, 0.8, 2.5, 8.0])
    exact = [
        [divergence(decimals(a), decimals(b), order, 3 * ME) * (1 + ME) ** 2 for order in orders.tolist()]
        for a, b in zip(p, q, strict=True)
    ]
    close(lattice.pair_divergences(p, q, orders), exact, rtol=2e-13)


def test_quick_bounds_are_their_formula() -> None:
    """For partly equidistant orders: each power is the previous one times that of the gap."""
    (p, q), orders = some_pairs(5), np.array([0.5, 0.8, 1.6, 2.4, 3.2, 3.7, 4.2])
    found = lattice._quick_bounds(p, q, orders)
    for a, row in zip(map(Decimal, orders.tolist()), found, strict=True):
        margin, rounding = 8 * ME / a, Decimal(lattice.QUICK_ERROR) / abs(a * (a - 1))
        for on_data, on_neighbour, bound in zip(p, q, row, strict=True):
            powers = sum(x * (x / y) ** (a - 1) for x, y in zip(decimals(on_data), decimals(on_neighbour), strict=True))
            exact = powers * (1 / (a * (a - 1)) + margin + rounding) + sum(decimals(on_neighbour)) / a
            exact += margin + rounding * (2 * a + 1) - sum(decimals(on_data)) / (a - 1)
            assert abs(Decimal(float(bound)) - exact) <= Decimal("5e-15") * (1 + powers / abs(a - 1))
    many = noisy_bit.scaled_orders(0.3)
    assert np.all(lattice._quick_bounds(p, q, many) >= lattice.pair_divergences(p, q, many).T)


def test_the_largest_pair_is_that_of_an_exhaustive_evaluation(move: Callable[..., None]) -> None:
    """With the quick bounds of the module, and with looser ones."""

    def looser(p: Array, q: Array, orders: Array) -> Array:
        return lattice.pair_divergences(p, q, orders).T * (1 + 97 * p[:, 0] % 1)

    move(lattice, CHUNK=4)
    several, one = np.array([0.5, 0.8, 2.5, 8.0]), np.array([2.5])
    near = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4])  # here the quick bounds mistake the largest pair
    for quick_bounds, orders in product((lattice._quick_bounds, looser), (several, one)):
        move(lattice, _quick_bounds=quick_bounds)
        for _ in range(5):
            p, q = (0.9 * law + 0.1 * laws for law, laws in zip(near, some_pairs(19), strict=True))
            every = lattice.pair_divergences(p, q, orders)
            assert lattice._largest(p, q, orders).tolist() == every.max(axis=0).tolist()


@for_each("triangle", [(4, 9), (-6, -8), (-2, 6)])
def test_the_largest_member_of_the_triangle_is_found(triangle: tuple[int, int]) -> None:
    """At the least means, at the largest sum, and inside."""
    (first, largest_sum), sigma, orders = triangle, 2.0, np.array([0.5, 2.0, 5.0])
    noise, best = lattice.LatticeNoise(sigma, 0.0), np.zeros(3)
    for di, dj, places in ((1, 0, (0, 3)), (0, 1, (1, 2))):
        i, j = (
            each.ravel()
            for each in np.meshgrid(
                np.arange(first - di, largest_sum - first + 2), np.arange(first - dj, largest_sum - first + 2)
            )
        )
        within = i + j <= largest_sum
        i, j = i[within], j[within]
        p, q = (lattice.tie_laws(noise, *means)[places[0]] for means in ((i, j), (i - 1, j + 1)))
        best = np.maximum(best, lattice.pair_divergences(p, q, orders).max(axis=0))
    close(lattice._inside(sigma, first, largest_sum, orders), best, rtol=1e-11)


# ------------------------------------------------------------------------------------------- beyond a threshold, bits


@for_each(("threshold", "shift"), [(-2, 1), (-1, -2), (3, 3), (2, -1)])
@for_each("offset", [0.0, 0.25])
def test_censored_noise_is_charged_by_its_cells(threshold: int, shift: int, offset: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattice.LatticeNoise.__init__, "__defaults__", (2.5,))
        orders = np.array([0.5, 0.8, 2.5])
        found = lattice.censored_lattice(1.7, offset, threshold, shift, orders)
    exact = masses(1.7, offset, 5)
    below, there = (
        sum((mass for k, mass in exact.items() if k < end), Decimal(0)) for end in (threshold, threshold - shift)
    )
    ratios = {k: density(k + offset - shift, 1.7) / density(k + offset, 1.7) for k in exact if k >= threshold}
    p, q = [below], [there]
    for k, ratio in ratios.items():
        p, q = [*p, exact[k]], [*q, exact[k] * ratio]
    close(found, [divergence(p, q, order, 3 * ME) * (1 + 2 * ME) for order in orders.tolist()], rtol=2e-13)


@for_each(
    ("offset", "shift", "grid_end"),
    [(0.0, 1, 9.0), (0.5, 1, 0.6), (0.25, 3, 0.6), (0.25, 1, 9.0), (0.5, 3, 9.0), (0.0, 1, 0.0)],
)
def test_bits_are_bounded_at_every_threshold(offset: float, shift: int, grid_end: float) -> None:
    """Up to the last threshold by enumeration, beyond it by the censored noise."""
    scale, orders = 1.7, np.array([0.5, 2.5])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattice, "GRID_END", grid_end)
        found = lattice.lattice_bit_values(scale, offset, shift, orders)
    exact, last = masses(scale, offset, 24), math.floor(grid_end * scale)

    @cache
    def bit(k: int) -> Law:
        at_least = sum((mass for m, mass in exact.items() if m >= k), Decimal(0))
        return [at_least, sum((mass for m, mass in exact.items() if m < k), Decimal(0))]

    censored = [lattice.censored_lattice(scale, offset, last, step, orders) for step in (shift, -shift)]
    for place, order in enumerate(orders.tolist()):
        listed = [divergence(bit(k), bit(k + shift), order) for k in range(-last, last + 1)]
        beyond = max(float(values[place]) for values in censored)
        close(found[place], max(float(max(listed)), beyond), rtol=1e-9)
        pairs = [(bit(k), bit(k + shift)) for k in range(-8, 9)]
        pairs += [] if offset == 0.25 else [(q, p) for p, q in pairs]  # the other lattices are symmetric
        assert all(divergence(*pair, order) <= Decimal(float(found[place])) for pair in pairs)


def test_a_bit_is_the_worst_of_its_offsets_and_ranges_include_their_ends(move: Callable[..., None]) -> None:
    scale, bit = lattice.MIN_SIGMA / math.sqrt(2), lattice.lattice_bit_divergence.__wrapped__
    found = bit(scale, 1, (0.0, 0.5))
    assert found.shift == 1 / scale * (1 + lattice.PERIODS)
    each = [lattice.lattice_bit_values(scale, offset, 1, found.orders) for offset in (0.0, 0.5)]
    assert np.any(each[0] > each[1])
    close(found.values, np.minimum(np.max(each, axis=0) * (1 + 1e-9), found.at(found.orders)), rtol=1e-14)
    assert np.all(found.values[found.orders < 1] > np.max(each, axis=0)[found.orders < 1])
    for name, end in (("MAX_SHIFT", found.shift), ("MIN_SHIFT", found.shift), ("MAX_LISTED_SCALE", scale)):
        move(lattice, **{name: end})
        assert bit(scale, 1, (0.0, 0.5)).method == found.method == "noisy bit on the lattice: enumerated"
    move(lattice, MAX_LISTED_SCALE=1.0)
    assert bit(scale, 1, (0.0,)).method == "noisy bit on the lattice: grid of real means"
    for name, end in (("MAX_SHIFT", 0.5), ("MIN_SHIFT", 2.0), ("MIN_SIGMA", 3.0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lattice, name, end)
            assert bit(scale, 1, (0.0,)).method == "noisy counts"
    assert lattice.lattice_counts(0.25).shift == 0.25 * (1 + lattice.PERIODS)


# ------------------------------------------------------------------------------------------- labels


def lattice_law(counts: tuple[int, ...], sigma: float, order: tuple[int, ...]) -> Array:
    """Return the law of the argmax of counts plus discrete Gaussians; ties go to the first class in ``order``."""
    reach = math.ceil(9 * sigma)
    k = np.arange(-reach, reach + 1)
    masses = np.exp(-(k**2) / (2 * sigma**2))
    masses /= masses.sum()
    law = np.zeros(len(counts))
    rank = {c: place for place, c in enumerate(order)}
    values = np.arange(min(counts) - reach, max(counts) + reach + 1)
    at = np.array([[masses[v - n + reach] if abs(v - n) <= reach else 0.0 for v in values] for n in counts])
    below = np.cumsum(at, axis=1) - at
    for c in range(len(counts)):
        beaten = [below[d] + (at[d] if rank[c] < rank[d] else 0.0) for d in range(len(counts)) if d != c]
        law[c] = float(np.sum(at[c] * np.prod(beaten, axis=0)))
    return law


def power_divergence(p: Array, q: Array, order: float) -> Any:
    """Return H_a from its definition, in doubles, of laws along the last axis."""
    return (np.sum(np.exp(order * np.log(p) + (1 - order) * np.log(q)), axis=-1) - 1) / (order * (order - 1))


@for_each("sigma", [2.0, 3.3])
def test_no_label_exceeds_the_bound_and_one_is_close(sigma: float) -> None:
    release = lattice.lattice_label_divergence(sigma)
    orders = np.array([0.5, 0.7, 1.5, 2.5, 5.0])
    bounds = release.at(orders)
    largest = np.zeros(orders.size)
    for here, there in edges(5, 3):
        laws = [[lattice_law(counts, sigma, order) for order in permutations(range(3))] for counts in (here, there)]
        fixed = list(zip(*laws, strict=True))
        at_random = (np.mean(laws[0], axis=0), np.mean(laws[1], axis=0))
        for p, q in [*fixed, at_random]:
            found = np.array([power_divergence(p, q, order) for order in orders])
            assert np.all(found <= bounds)
            largest = np.maximum(largest, found)
    assert np.all(largest[:4] >= 0.9 * bounds[:4])
    # Why lattice noise has a separate account: a little of it reveals more than continuous noise.
    assert np.all(bounds[:4] > gaussian_argmax.label_divergence(sigma).at(orders[:4]))


@for_each("listed", [True, False])
def test_outside_the_triangle_a_bit_and_a_share_of_the_counts_are_charged(listed: bool) -> None:
    """By the formula of the proof, which no member outside exceeds; each term decides somewhere."""
    sigma, deciding = 3.0, set()
    for least, most_sum in ((-1.5, 4 * math.sqrt(2)), (-0.9, 1.0), (-2.5, 3.0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lattice, "MIN_MEAN", least)
            patch.setattr(lattice, "MAX_SUM", most_sum)
            patch.setattr(lattice, "MAX_LISTED_SIGMA", sigma if listed else 2.9)
            patch.setattr(lattice, "_inside", lambda *_: 0.0)
            patch.setattr(lattice, "largest_in_boxes", lambda *_, least: least)
            bound = lattice.lattice_label_divergence.__wrapped__(sigma)
        orders, first = bound.orders, math.ceil(least * sigma)

        def bits(scale: float, offset: float, orders: Array = orders) -> Array:
            if not listed:
                return lattice.coarse_bit_values(scale, 1, orders)
            return lattice.lattice_bit_values(scale, offset, 1, orders)

        single, pair = bits(sigma, 0.0), [bits(sigma / math.sqrt(2), offset) for offset in (0.0, 0.5)]
        censored = [
            lattice.censored_lattice(sigma, 0.0, -first, step, orders)
            if listed
            else lattice._coarse_censored(sigma, -first, step, orders)
            for step in (1, -1)
        ]
        counts = gaussian_divergence(math.sqrt(2) / sigma * (1 + lattice.PERIODS), orders)
        for place, a in enumerate(orders.tolist()):
            tail = max(float(values[place]) for values in censored)
            rare = (1 + a * (a - 1) * tail if a > 1 else 1) * float(single[place]) + tail
            third = max(float(values[place]) for values in pair) + math.exp(-(most_sum**2) / 4) * float(counts[place])
            expected = max(rare, third) * (1 + 1e-9)
            deciding.add(rare > third if expected < counts[place] else None)
            close(bound.values[place], min(expected, float(counts[place])) if a > 1 else expected, rtol=1e-13)
        noise = lattice.LatticeNoise(sigma, 0.0)
        i, j = (index.ravel() - 14 for index in np.indices((40, 40)))
        outside = (np.minimum(i, j) < first) | (i + j > most_sum * sigma)
        i, j, some = i[outside], j[outside], orders[[0, 3, 9]]
        p, q = (np.concatenate(lattice.tie_laws(noise, *means)) for means in ((i, j), (i - 1, j + 1)))
        clear = np.minimum(p.min(axis=1), q.min(axis=1)) > 1e-30
        assert np.all(lattice.pair_divergences(p[clear], q[clear], some) <= bound.at(some) * (1 + 1e-8))
        assert bound.method.endswith("enumerated" if listed else "boxes in real means")
    assert deciding >= {True, False}


def test_the_inside_of_the_triangle_counts_and_ranges_include_their_ends(move: Callable[..., None]) -> None:
    label = lattice.lattice_label_divergence.__wrapped__
    wide = label(5.5)
    inside = lattice._inside(5.5, -8, 32, wide.orders) * (1 + 1e-9)
    assert np.count_nonzero(wide.values == inside) >= 10  # elsewhere the bounds outside of the triangle are larger
    found = label(2.0)  # the least σ
    assert found.shift == math.sqrt(2) / 2.0 * (1 + lattice.PERIODS)
    for name in ("MAX_SIGMA", "MAX_LISTED_SIGMA"):
        move(lattice, **{name: 2.0})
        again = label(2.0)
        assert again.method == "three cells on the lattice: enumerated"
        assert again.values.tolist() == found.values.tolist()
    assert label(1.99).method == label(2.01).method == "noisy counts"


def test_an_estimate_is_the_bound_if_that_is_quick(move: Callable[..., None]) -> None:
    bound = lattice.lattice_label_divergence(2.5)
    close(lattice.lattice_label_estimate(2.5).values, bound.values, rtol=1e-14)
    move(lattice, ESTIMATE_SIGMA=2.5)
    close(lattice.lattice_label_estimate(10.0).values, bound.values / 16, rtol=1e-14)


# ------------------------------------------------------------------------------------------- the coarser lattice


def test_masses_below_a_threshold_are_sums(move: Callable[..., None]) -> None:
    """With a late end of the sum, to the last digit; with an end near the largest mean, or near 0."""
    scale, means = 1.5, [-9.5, -9.25, -4.0, 0.3125, 2.5, 11.0]
    for noise_end in (11.0, 1.0):
        move(lattice, COARSE_END=noise_end)
        for some in (means, means[:3]):
            for threshold in (0.0, 1.0):
                distances = [mean - threshold for mean in some]
                last = max(math.floor(max(distances)), 0) + math.ceil(noise_end * scale)
                exact = [sum(density(n + x % 1, scale) for n in range(math.floor(x) + 1, last + 1)) for x in distances]
                close(lattice._below(threshold, np.array(some), scale), exact)


def test_translated_masses_are_sums() -> None:
    scale, means = 1.5, np.array([-1.75, 0.25, 3.5, 3.25])
    first, last = -5, 7
    (at, up_to), (bent, bent_up_to) = lattice._translated(means, scale, first, last, bent=True)
    for row, mean in enumerate(means.tolist()):
        # All sums begin at the distance of the largest mean from ``first``.
        mass = {n: density(n - mean, scale) for n in range(first + math.floor(mean) - 3, last + 1)}
        bend = {n: (((Decimal(n) - Decimal(mean)) / Decimal(scale)) ** 2 - 1) * mass[n] for n in mass}
        for table, sums, exact in ((at, up_to, mass), (bent, bent_up_to, bend)):
            numbers = range(-1, last + 1)
            close(table[row], [exact[n] for n in numbers])
            total = [sum(value for m, value in exact.items() if m <= n) for n in numbers]
            np.testing.assert_allclose(sums[row], np.array(total, dtype=np.float64), rtol=1e-12, atol=1e-15)
    ends = [
        lattice._coordinates(np.array(i), np.array(j), 2.0, 1.5)[2:]
        for i, j in (([0.5, 9.5], [3.0]), ([3.0], [0.5, 9.5]))
    ]
    assert ends == [(0 - 3, 10 + 3 + 1)] * 2


@cache
def real_masses(mean: float, scale: float) -> dict[int, Decimal]:
    return {n: density(n - Decimal(mean), scale) for n in range(-28, 35)}


MEANS = [*(RNG.integers(-4096, 9216, (5, 2)) / 1024).tolist(), [10.5, -3.25]]


@for_each("mean", MEANS)
def test_laws_at_real_means_and_their_second_derivatives_are_those_of_the_rule(mean: list[float]) -> None:
    """For all means at once, as a list shares its sums."""
    scale, (x, y) = 1.7, np.array(MEANS).T
    place, (i, j) = MEANS.index(mean), mean
    at_u, at_v = real_masses(i, scale), real_masses(j, scale)
    bent_u, bent_v = (
        {n: (((n - Decimal(m)) / Decimal(scale)) ** 2 - 1) * mass for n, mass in at.items()}
        for m, at in ((i, at_u), (j, at_v))
    )
    for tie, laws in zip(TIES, lattice.real_laws(scale, x, y), strict=True):
        close(laws[place], laws_by_rule(at_u, at_v, tie), rtol=lattice.MASS_ERROR / 100)
    for tie, bends in zip(TIES, lattice.real_bends(scale, x, y), strict=False):  # of the first two
        for bend, pair in zip(bends, ((bent_u, at_v), (at_u, bent_v)), strict=True):
            exact = np.array(laws_by_rule(*pair, tie), dtype=np.float64)
            np.testing.assert_allclose(bend[place], exact, atol=1e-12)


def test_cells_of_the_coarser_lattice_are_charged_for_their_rounding() -> None:
    for scale, coarse in ((59.0, 59.0), (60.0, 60.0), (119.0, 119.0), (150.0, 75.0)):
        assert lattice.coarse_scale(scale) == coarse
    sigma, ulps = 130.0, 1e-13
    family, alpha, beta = lattice.coarse_cells(sigma), np.array([0.25, -1.0]), np.array([0.5, 2.0])
    laws = lattice.real_laws(65.0, alpha * 65, beta * 65)
    for law, (low, high) in zip(laws, family.bounds(alpha, beta), strict=False):
        close(low / law, np.full((2, 3), 1 - lattice.MASS_ERROR), ulps)
        close(high / law, np.full((2, 3), 1 + lattice.MASS_ERROR), ulps)
    close(family.another(alpha, beta) / laws[0][:, 2], np.full(2, 1 + 3 * lattice.MASS_ERROR), ulps)
    # A mean is rounded down by less than one step of the coarser lattice, plus one for ties.
    start = gaussian_argmax.MIN_MEAN - 2 / lattice.COARSE
    assert start - 1 / 65 < family.least <= start
    assert (family.spacing, family.charge) == (1 / 65, lattice.PERIODS)


def test_bits_at_real_means_are_listed_up_to_the_censored_ones(move: Callable[..., None]) -> None:
    scale, shift, orders, asked = 5.0, 2, np.array([0.5, 0.8, 2.5]), []

    def values_on_grid(*laws: Any, **options: float) -> Array:
        asked.append((laws, options))
        return np.zeros(3)

    move(
        lattice, COARSE=2.0, GRID_END=1.5, GRID_STEP=0.2, values_on_grid=values_on_grid
    )  # a scale of 2.5, half of a spacing
    found = lattice.coarse_bit_values(scale, shift, orders)
    (((p, q, error, mu, _), options),) = asked
    means = [Decimal(n) / 2 for n in range(-8, 9)]
    for laws, move_by in ((p, 0), (q, Decimal(shift) / 2)):
        for law, mean in zip(laws, means, strict=True):
            mass = {n: density(n - mean + move_by, 2.5) for n in range(-40, 40)}
            close(law, [sum(mass[n] for n in range(40)), sum(mass[n] for n in range(-40, 0))])
    assert (error, mu, options["step"], options["charge"]) == (float(3 * ME), 0.4, 0.2, lattice.PERIODS)
    close(options["slack"], gaussian_argmax.LATTICE_VARIANCE / 2.5**2 * 0.4 * 0.2)
    # A mean is rounded down by less than one step of the coarser lattice: half a standard deviation.
    censored = [lattice._coarse_censored(scale, 5, step, orders) for step in (shift, -shift)]
    assert found.tolist() == np.max(censored, axis=0).tolist()


@for_each(("threshold", "shift"), [(4, 1), (4, -1), (3, 2), (9, -3)])
def test_censored_noise_is_bounded_at_every_offset(threshold: int, shift: int) -> None:
    """By the formula of the proof, from the ends of each cell; never below the censored noise of a lattice."""
    scale, orders = 5.0, np.array([0.5, 0.8, 2.5])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattice, "COARSE", 2.0)
        bound = lattice._coarse_censored(scale, threshold, shift, orders)
        patch.setattr(lattice, "END", 2.0)
        short = lattice._coarse_censored(scale, threshold, shift, orders)
    for offset in (0.0, 0.3, 0.5, 0.9):
        assert np.all(bound >= lattice.censored_lattice(scale, offset, threshold, shift, orders))
    coarse, start, step = Decimal("2.5"), Decimal(threshold) / 2, Decimal(shift) / 2
    below, there = (
        [sum(density(x + n, 2.5) for n in range(-40, end)) for end in (0, 1)] for x in (start, start - step)
    )
    slack = 3 * ME + Decimal(gaussian_argmax.LATTICE_VARIANCE) / coarse**3 * abs(step) / coarse

    def term(losses: list[Decimal], order: float) -> Decimal:
        return max(loss_term(min(losses) - slack, order), loss_term(max(losses) + slack, order))

    for order, found in zip(orders.tolist(), short, strict=True):
        atoms = [(Decimal(y) / x).ln() for x, y in zip(below, there, strict=True)]
        exact = below[1] * term(atoms, order)
        for n in range(5):
            losses = [step * (2 * (start + end) - step) / (2 * coarse**2) for end in (n, n + 1)]
            exact += density(start + n, 2.5) * term(losses, order)
        close(found, exact * (1 + 2 * ME), rtol=2e-13)
