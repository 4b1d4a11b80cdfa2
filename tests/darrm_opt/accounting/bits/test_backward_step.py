"""One step of the bit recursion: the same bits compiled and in NumPy, and never below the recursion in fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each
from support.enumeration import Pair, adaptive_bits_delta
from support.kernels import HAS_KERNEL, PATHS, searched_by

from darrm_opt.accounting.bits import backward_step as backward
from darrm_opt.accounting.bits.backward_step import (
    Moves,
    backward_step,
    chord_weight,
    compile_moves,
    grid_spacing,
    terminal_values,
)
from darrm_opt.accounting.bits.recursion import compose_bits, compose_bits_any_order
from darrm_opt.accounting.bits.region import BitRegion, inner_region, outer_region, privacy_region, spanned_region
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP

ROUNDING = Fraction(1, 10**13)


def random_pairs(rng: np.random.Generator, many: int) -> list[Pair]:
    """Return pairs of probabilities of every size, some with an impossible answer."""
    numbers = np.where(rng.random((many, 2)) < 0.3, 10.0 ** rng.uniform(-30, 0, (many, 2)), rng.random((many, 2)))
    numbers[rng.random((many, 2)) < 0.1] = 0.0
    return [(Fraction(float(p)), Fraction(float(q))) for p, q in numbers]


def regions(seed: int) -> list[BitRegion]:
    """Return regions of each kind."""
    rng = np.random.default_rng((seed, 41))
    pairs = random_pairs(rng, int(rng.integers(1, 12)))
    slopes = np.sort(np.exp(rng.exponential(size=4)))
    return [
        privacy_region(Privacy(float(rng.exponential()), float(rng.choice([0.0, 1e-12, 0.2])))),
        outer_region(slopes, np.sort(rng.uniform(0, 0.3, size=4))[::-1]),
        spanned_region(pairs),
        spanned_region([(Fraction(1, 2), Fraction(1, 10**30)), (Fraction(1), Fraction(9, 10))]),  # left of all cells
        inner_region(np.array(pairs, dtype=np.float64)),
    ]


@pytest.mark.skipif(not HAS_KERNEL, reason="built without a C compiler")
@for_each("seed", range(20))
def test_both_paths_return_the_same_doubles(seed: int) -> None:
    far = 0
    for region in regions(seed):
        for points, queries, narrow in ((3, 2, False), (11, 4, True), (1024, 3, False), (2050, 2, True)):
            step = 0.01 if narrow else grid_spacing([(region, queries)], points)
            moves = compile_moves(region, step, points)
            far += len(moves.base)
            values = {path: terminal_values(points) for path in PATHS}
            for _ in range(queries):
                for path in PATHS:
                    with searched_by(path):
                        values[path] = backward_step(values[path], moves)
                assert values["c"].tobytes() == values["numpy"].tobytes()
    assert far


@for_each("path", PATHS)
@for_each("seed", range(12))
def test_no_total_is_below_the_recursion_in_fractions(seed: int, path: str) -> None:
    rng = np.random.default_rng((seed, 42))
    pairs = random_pairs(rng, int(rng.integers(1, 4)))
    region = spanned_region(pairs)
    shown = [each for p, q in pairs for each in ((p, q), (q, p))]  # renamed answers add nothing
    with searched_by(path):
        for queries, points in ((1, 50), (2, 301), (3, 2001))[: 5 - len(pairs)]:
            total = compose_bits([(region, queries)], points=points)
            assert np.array_equal(total.values, compose_bits_any_order([(region, queries)], points=points).values)
            for epsilon in (0.0, 0.2, 1.0, 3.0):
                exact = adaptive_bits_delta([shown] * queries, epsilon)
                assert exact <= Fraction(total.delta(epsilon)) <= exact + queries * Fraction(total.step) + ROUNDING
            for delta in (1e-6, 0.1, 0.6):
                try:
                    epsilon = total.epsilon(delta)
                except DeltaTooSmall:
                    continue
                assert adaptive_bits_delta([shown] * queries, epsilon) <= Fraction(delta)
                assert math.isfinite(epsilon)


# ------------------------------------------------------------------------------------------------- moves on a grid


def moves_of(p: float, q: float, step: float, points: int) -> Moves:
    """Return the moves of the single vertex (p, q), without rounding."""
    return compile_moves(BitRegion(np.array([[p, 1 - p, q, 1 - q]]), "outer"), step, points)


def in_units(value: float, exact: float) -> float:
    """Return how many units in the last place a value is above another."""
    return float((Fraction(value) / Fraction(exact) - 1) * 2**52)


@for_each("p", [0.5, 1e-3])
@for_each("cells", [2000, -1900])
def test_a_move_to_the_border_of_a_cell_is_placed_just_left_of_it(p: float, cells: int) -> None:
    """By the error of its logarithms: 4 units of 1 + |ln p| + |shift|, and of the position."""
    step = 1e-4 if p < 0.1 else 3.4e-4
    q = p * math.exp(cells * step)
    moves = moves_of(p, q, step, 2001)
    near, far = moves.weights[0, :2].tolist()
    assert moves.cells[0, :2].tolist() == [cells - 1 + moves.left, cells + moves.left]
    guard = 4 * ULP * (1 + abs(math.log(p)) + abs(cells * step)) / step + 4 * ULP * abs(cells)
    position = (math.log(q) - math.log(p)) / step
    assert near / (near + far) == pytest.approx(guard + cells - position, rel=0.01, abs=0)
    assert 14 < in_units(near + far, p) < 18


def test_weights_are_those_of_the_chord_charged_for_rounding() -> None:
    p, q, step = 0.3, 0.4, 0.05
    moves = moves_of(p, q, step, 40)
    for answer, (a, b) in enumerate(((p, q), (1 - p, 1 - q))):
        position = math.log(b / a) / step
        cell = math.floor(position)
        share = math.expm1((position - cell) * step) / math.expm1(step)
        near, far = moves.weights[0, 2 * answer : 2 * answer + 2].tolist()
        assert moves.cells[0, 2 * answer : 2 * answer + 2].tolist() == [cell + moves.left, cell + 1 + moves.left]
        assert (near, far) == pytest.approx((a * (1 - share), a * share), rel=1e-11, abs=0)
        assert 14 < in_units(near + far, a) < 18
    assert (moves.left, moves.right) == (4, 6)
    assert moves.far.tolist() == [-1]
    assert (moves.base.shape, moves.factor.shape) == ((0, 40), (0, 40))
    assert moves.constants.tolist() == [0.0]
    for j in range(1, 5):
        exact = Fraction(math.exp(-j * step))
        assert 14 <= in_units(moves.scale[j - 1], float(exact)) <= 18
        assert 14 <= in_units(moves.offset[j - 1], -math.expm1(-j * step)) <= 18


def test_impossible_answers_add_a_constant_or_nothing() -> None:
    moves = moves_of(0.0, 0.25, 0.1, 5)
    assert moves.weights[0, :2].tolist() == [0.0, 0.0]
    assert moves.constants.tolist() == [0.0]
    assert (moves.left, moves.right) == (3, 0)
    moves = moves_of(0.25, 0.0, 0.1, 5)
    assert 14 <= in_units(moves.constants[0], 0.25) <= 18
    assert moves.weights[0, :2].tolist() == [0.0, 0.0]
    assert (moves.left, moves.right) == (0, 3)
    moves = moves_of(1.0, 0.0, 0.1, 5)
    assert (moves.left, moves.right, moves.scale.size, moves.cells.tolist()) == (0, 0, 0, [[0] * 4])
    for path in PATHS:
        with searched_by(path):
            assert backward_step(terminal_values(5), moves).tolist() == [1.0] * 5


def test_right_of_the_grid_the_last_value_is_used() -> None:
    moves = moves_of(1e-9, 0.5, 0.1, 20)
    assert moves.cells[0, :2].tolist() == [20 + moves.left, 21 + moves.left]
    assert 0 <= moves.weights[0, 0] < 1e-20
    assert 14 <= in_units(moves.weights[0, :2].sum(), 1e-9) <= 18
    assert moves.right == 21


@for_each(("position", "is_far"), [(-38.5, False), (-40.5, True), (-55.5, True), (-400.0, True)])
def test_left_of_twice_the_grid_the_mirror_image_is_added(position: float, is_far: bool) -> None:
    points, step, p = 20, 0.1, 0.6
    q = p * math.exp(position * step)
    moves = moves_of(p, q, step, points)
    assert moves.far.tolist() == [0 if is_far else -1]
    if is_far:
        assert moves.weights[0, :2].tolist() == [0.0, 0.0]
        x = np.exp(step * np.arange(points)) * (q / p)
        assert moves.factor[0] == pytest.approx(p * x, rel=1e-12, abs=0)
        assert moves.base[0] == pytest.approx(p * (1 - x), rel=1e-12, abs=0)
        for base, factor in zip(moves.base[0].tolist(), moves.factor[0].tolist(), strict=True):
            assert 12 < in_units(base + factor, p) < 20


@for_each("share", [0.0, 1e-9, 0.3, 0.999, 1.0])
def test_the_weight_of_a_chord_is_rounded_down(share: float) -> None:
    for step in (1e-6, 0.1, 3.0, 699.0):
        exact = math.expm1(share * step) / math.expm1(step)
        found = chord_weight(share, step)
        if exact > 1e-300:
            assert -14 < in_units(found, exact) < -5
        else:
            assert 0 <= found <= exact
    assert chord_weight(share, 700.0) == chord_weight(share, 1e5) == 0.0


def test_cells_too_wide_for_doubles_are_sound() -> None:
    """A grid of three points up to 1e5 nats, which once raised OverflowError."""
    region = spanned_region([(Fraction(1, 2), Fraction(1, 10**308))])
    for points in (3, 5, 2001):
        total = compose_bits([(region, 2)], points=points)
        for epsilon, exact in ((0.0, 0.75), (600.0, 0.75), (1000.0, 0.25), (1300.0, 0.25)):
            assert total.delta(epsilon) >= exact * (1 - 1e-9)
    assert compose_bits([(privacy_region(Privacy(650.0)), 9)], points=7).delta(0.0) == 1.0


# ------------------------------------------------------------------------------------------------- the end of the grid

HALF = spanned_region([(Fraction(3, 4), Fraction(1, 4))])
LEAKY = privacy_region(Privacy(0.3, 0.01))
CERTAIN = BitRegion(np.array([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0]]), "outer")


def test_the_shift_and_leak_of_a_region_are_its_largest() -> None:
    assert backward._largest_shift(HALF) == pytest.approx(math.log(3), rel=1e-14)
    assert backward._largest_shift(LEAKY) == pytest.approx(math.log((math.exp(0.3) + 0.01) / 0.99), rel=1e-12)
    assert backward._largest_shift(spanned_region([(Fraction(1, 2), Fraction(1, 8))])) == pytest.approx(math.log(4))
    assert backward._largest_shift(CERTAIN) == 0.0
    assert backward._infinite_loss(CERTAIN) == 1.0
    assert backward._infinite_loss(LEAKY) == pytest.approx(0.01, rel=1e-9)
    swapped = BitRegion(np.array([[0.3, 0.7, 0.5, 0.5], [0.8, 0.2, 1.0, 0.0], [0.9, 0.1, 1.0, 0.0]]), "outer")
    assert backward._infinite_loss(swapped) == 0.2
    assert backward._infinite_loss(BitRegion(np.array([[0.3, 0.7, 0.5, 0.5]]), "outer")) == 0.0


@for_each("chance", [1e-20, 1e-6])
@for_each("count", [1, 12, 400])
def test_the_tail_of_the_losses_is_the_least_chernoff_bound(count: int, chance: float) -> None:
    """For (3/4, 1/4) the mean of e^(λ·loss) is (3·3^λ + 3^(−λ))/4."""
    found = backward._loss_tail_end([(HALF, count)], math.log(3), chance)
    grid = np.exp(np.linspace(math.log(1e-6), math.log(1e3), 40_001)) / math.log(3)
    mean = np.logaddexp(math.log(0.75) + grid * math.log(3), math.log(0.25) - grid * math.log(3))
    least = float(np.min((count * mean - math.log(chance)) / grid))
    assert least * (1 - 1e-9) <= found <= least * 1.01
    tail = sum(
        math.comb(count, j) * Fraction(3) ** j / Fraction(4) ** count
        for j in range(count + 1)
        if (2 * j - count) * math.log(3) > found
    )
    assert tail <= Fraction(chance)
    odds, delta = math.exp(0.3), 0.01
    likely, loss = (odds + delta) / (odds + 1), math.log((odds + delta) / (1 - delta))
    finite = np.logaddexp(math.log(likely) + grid * loss, math.log(1 - likely) - grid * loss)
    finite = np.maximum(finite, -grid * math.log(1 - delta))  # given that no infinite loss of the other side occurred
    least = float(np.min((count * mean + 5 * finite - math.log(chance)) / grid))
    found = backward._loss_tail_end([(HALF, count), (LEAKY, 5)], math.log(3), chance)
    assert least * (1 - 1e-9) <= found <= least * 1.01


def test_the_grid_ends_at_the_flat_end_of_the_total() -> None:
    """Without infinite losses: at the sum of all shifts, the tail of the losses, or the limit of all grids."""
    end = backward._grid_end
    shift = math.log(3)
    assert end([(HALF, 1)], 0.7, 101) == 0.7
    assert end([(HALF, 1)], 50.0, 101) == max(shift, backward._loss_tail_end([(HALF, 1)], shift, 1e-20))
    both = [(privacy_region(Privacy(0.2)), 1), (HALF, 2)]
    assert end(both, 50.0, 101) == max(shift, backward._loss_tail_end(both, shift, 1e-20))
    assert end(both[::-1], 50.0, 101) == end(both, 50.0, 101)
    tail = backward._loss_tail_end([(HALF, 400)], shift, 1e-20)
    assert end([(HALF, 400)], 400 * shift, 101) == tail < 400 * shift
    shift, leak = backward._largest_shift(LEAKY), backward._infinite_loss(LEAKY)
    assert end([(LEAKY, 1)], 9.0, 101) == max(shift, backward._loss_tail_end([(LEAKY, 1)], shift, 1e-6 * leak))


@pytest.mark.parametrize(("region", "count"), [(LEAKY, 40), (LEAKY, 300), (privacy_region(Privacy(1.0, 1e-4)), 25)])
def test_with_infinite_losses_the_grid_ends_where_only_they_remain(region: BitRegion, count: int) -> None:
    full = count * backward._largest_shift(region)
    found = backward._grid_end([(region, count)], full, 4001)
    leak = backward._infinite_loss(region)
    tail = backward._loss_tail_end([(region, count)], full / count, max(1e-20, 1e-6 * min(1.0, count * leak)))
    assert found < min(full, tail)
    fine = compose_bits([(region, count)], points=4001)
    limit = 1 - (1 - leak) ** count
    assert limit <= fine.delta(found) <= limit * (1 + 1e-6)
    assert fine.delta(0.8 * found) > limit * (1 + 1e-8)
    assert found * (1 - 1e-12) <= 4000 * fine.step <= 1.05 * found


def test_leaks_below_rounding_are_ignored() -> None:
    rounding = privacy_region(Privacy(0.3, 1e-12))
    full = 50 * backward._largest_shift(rounding)
    chance = 1e-6 * 50 * backward._infinite_loss(rounding)
    tail = backward._loss_tail_end([(rounding, 50)], full / 50, chance)
    assert backward._grid_end([(rounding, 50)], full, 2001) == min(full, max(0.3, tail))


def test_the_largest_loss_is_a_whole_number_of_cells() -> None:
    three = BitRegion(np.array([[0.6, 0.4, 0.45, 0.55], [0.9, 0.1, 0.3, 0.7], [0.95, 0.05, 0.8, 0.2]]), "outer")
    step = grid_spacing([(LEAKY, 2), (three, 2)], 501)
    cells = math.log(3) / step
    assert cells == pytest.approx(round(cells), rel=1e-12)
    end = backward._grid_end([(LEAKY, 2), (three, 2)], 2 * 0.3 + 2 * math.log(7), 501)
    assert end / 500 <= step < end / 500 * (1 + 1 / math.floor(cells))
    assert grid_spacing([(CERTAIN, 3)], 501) == 1.0
    assert grid_spacing([(HALF, 1)], 2) == math.log(3)
    assert grid_spacing([(HALF, 1), (HALF, 1)], 2) == pytest.approx(2 * math.log(3), rel=1e-15)
    none = BitRegion(np.array([[1.0, 0.0, 0.5, 0.5], [0.4, 0.6, 0.39, 0.61]]), "outer")
    assert 0 < grid_spacing([(none, 1)], 501) < math.log(2) / 100
    huge = privacy_region(Privacy(400.0))
    assert grid_spacing([(huge, 10_000)], 11) == pytest.approx(backward.MAX_EPSILON / 10, rel=0.05)
