"""One step of the bit recursion: compiled and NumPy to the bit, and both never below the recursion in fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.kernels import HAS_KERNEL, PATHS, searched_by

from darrm_opt.accounting.bits.backward_step import backward_step, compile_moves, grid_spacing, terminal_values
from darrm_opt.accounting.bits.recursion import compose_bits, compose_bits_any_order
from darrm_opt.accounting.bits.region import BitRegion, inner_region, outer_region, privacy_region, spanned_region
from darrm_opt.accounting.composition.enumeration import Pair, adaptive_bits_delta
from darrm_opt.accounting.errors import DeltaTooSmall
from darrm_opt.problem import Privacy

ROUNDING = Fraction(1, 10**13)


def random_pairs(rng: np.random.Generator, many: int) -> list[Pair]:
    """Return pairs of probabilities of every size, some with an answer that cannot happen."""
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
        spanned_region([(Fraction(1, 2), Fraction(1, 10**30)), (Fraction(1), Fraction(9, 10))]),  # left of every cell
        inner_region(np.array(pairs, dtype=np.float64)),
    ]


@pytest.mark.skipif(not HAS_KERNEL, reason="built without a C compiler")
@pytest.mark.parametrize("seed", range(20))
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


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("seed", range(12))
def test_no_total_is_below_the_recursion_in_fractions(seed: int, path: str) -> None:
    rng = np.random.default_rng((seed, 42))
    pairs = random_pairs(rng, int(rng.integers(1, 4)))
    region = spanned_region(pairs)
    shown = [each for p, q in pairs for each in ((p, q), (q, p))]  # a renamed answer adds nothing
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
