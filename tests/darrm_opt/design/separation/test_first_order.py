"""The best kind of the voters near an end to first order: against all multisets and fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each
from support.exact import mean
from support.searches import splits

from darrm_opt.design.constraint import LABELS
from darrm_opt.design.separation.first_order import Choice, Rows, Skeletons, Slopes, first_order_choice
from darrm_opt.noise import Array

KINDS = ("down", "up", "up_to_one", "down_from_one")
"""The kinds that a voter near 0 may move to (two), and one near 1 (two)."""

Split = tuple[int, ...]


def skeletons(seed: int, n: int, moving: int) -> Skeletons:
    """Return every skeleton of three rows of random numbers."""
    rng = np.random.default_rng((seed, n, moving))
    rows = Rows(rng.uniform(-1, 1, (3, n + 1)), np.array([2, 1, 0]), np.array([0, 1, 2]))
    i, n1 = np.divmod(np.arange(3 * (n + 1)), n + 1)
    return Skeletons(rows, i, n1, moving)


def phi(row: Array, n1: int, q: Fraction, Delta: Fraction, split: Split) -> Fraction:
    """Return q·H(p) + H(1−p′) over the voters near the ends, from the definition of each kind."""
    on_data = {"down": Delta, "up": Fraction(0), "up_to_one": 1 - Delta, "down_from_one": Fraction(1)}
    reflected = {"down": Fraction(1), "up": 1 - Delta, "up_to_one": Fraction(0), "down_from_one": Delta}
    moved = [kind for kind, many in zip(KINDS, split, strict=True) for _ in range(many)]
    n = row.size - 1
    ones, zeros = n1 - split[2] - split[3], n - n1 - split[0] - split[1]
    coefficients = [Fraction(float(value)) for value in row]
    here = mean(coefficients, [on_data[kind] for kind in moved] + [Fraction(1)] * ones + [Fraction(0)] * zeros)
    there = mean(coefficients, [reflected[kind] for kind in moved] + [Fraction(0)] * ones + [Fraction(1)] * zeros)
    return q * here + there


def slopes_at(slopes: Slopes, k: int) -> list[float]:
    return [float(getattr(slopes, kind)[k]) for kind in KINDS]


def chosen(choice: Choice, k: int) -> Split:
    return tuple(int(getattr(choice, kind)[k]) for kind in KINDS)


def linear(split: Split, slopes: list[float]) -> float:
    return sum(many * slope for many, slope in zip(split, slopes, strict=True))


@for_each("n", [0, 1, 2, 5])
def test_a_slope_is_the_gain_of_one_more_voter(n: int) -> None:
    at = skeletons(1, n, n)
    q, Delta = Fraction(3, 8), Fraction(1, 16)
    slopes = Slopes.of(at, float(q))
    for k, (i, n1) in enumerate(zip(at.i, at.n1, strict=True)):
        row, ends = at.rows.values[i], phi(at.rows.values[i], int(n1), q, Delta, (0, 0, 0, 0))
        for place, slope in enumerate(slopes_at(slopes, k)):
            one = tuple(int(place == other) for other in range(4))
            possible = n1 < n if place < 2 else n1 > 0
            true = (phi(row, int(n1), q, Delta, one) - ends) / Delta if possible else Fraction(0)
            assert slope == pytest.approx(float(true), abs=1e-14)


@for_each(("n", "moving"), [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (5, 0), (5, 1), (5, 2), (5, 3), (5, 5)])
def test_the_gain_is_that_of_the_best_allocation(n: int, moving: int) -> None:
    for seed in range(4):
        at = skeletons(seed, n, moving)
        slopes = Slopes.of(at, 0.8)
        for k, gain in enumerate(slopes.gain(at)):
            every = splits(n - int(at.n1[k]), int(at.n1[k]), moving)
            assert gain == pytest.approx(max(linear(split, slopes_at(slopes, k)) for split in every), abs=1e-14)


def perturbed(slopes: list[float], q: float, e: float) -> list[list[float]]:
    """Return the slopes with their largest errors: q·e for the kinds that move p, e for the others."""
    errors = (q * e, e, q * e, e)
    return [
        [slope + sign * error for slope, sign, error in zip(slopes, signs, errors, strict=True)]
        for signs in itertools.product((-1, 1), repeat=4)
    ]


@for_each("e", [0.0, 0.05, 1.0])
@for_each(("n", "moving"), [(0, 0), (1, 0), (1, 1), (2, 1), (4, 4), (4, 3), (4, 1)])
def test_a_choice_loses_at_most_its_stated_loss(n: int, moving: int, e: float) -> None:
    q = 0.8
    for seed in range(3):
        at = skeletons(seed, n, moving)
        slopes = Slopes.of(at, q)
        choice = first_order_choice(slopes, at, q, np.full(at.i.size, e))
        for k in range(at.i.size):
            n0, n1 = n - int(at.n1[k]), int(at.n1[k])
            mine, every = chosen(choice, k), [*splits(n0, n1, moving)]
            assert mine in every
            slopes_here = slopes_at(slopes, k)
            assert linear(mine, slopes_here) == pytest.approx(
                max(linear(split, slopes_here) for split in every), abs=1e-14
            )
            possible = perturbed(slopes_here, q, e)
            loss = max(max(linear(split, true) for split in every) - linear(mine, true) for true in possible)
            assert choice.overlap[k] >= loss - 1e-12
            assert choice.overlap[k] == pytest.approx(stated_loss(slopes_here, possible, (n0, n1, moving)), abs=1e-12)
            if moving == n:
                assert choice.overlap[k] == pytest.approx(loss, abs=1e-12)  # the bound is tight


def stated_loss(slopes: list[float], possible: list[list[float]], ends: tuple[int, int, int]) -> float:
    """Return the loss by exchanges: at each end to the best rival of each voter, then between ends if necessary."""
    n0, n1, moving = ends
    total, best = 0.0, []
    for end, many in ((0, n0), (2, n1)):
        first, second = slopes[end : end + 2]
        kind = None if max(first, second) <= 0 else end if first >= second else end + 1
        regret = max(max(0.0, *true[end : end + 2]) - (0.0 if kind is None else true[kind]) for true in possible)
        total += min(many, moving) * max(0.0, regret)
        best.append((max(first, second), kind, end))
    if n0 + n1 > moving and all(kind is not None for _, kind, _ in best):
        (_, kind, _), (_, _, other) = best if best[0][0] >= best[1][0] else best[::-1]
        assert kind is not None
        total += moving * max(0.0, *(max(true[other : other + 2]) - true[kind] for true in possible))
    return total


def test_the_counts_of_a_choice_are_its_voters() -> None:
    at = skeletons(7, 5, 4)
    slopes = Slopes.of(at, 0.8)
    choice = first_order_choice(slopes, at, 0.8, np.zeros(at.i.size))
    counts = choice.counts(at)
    assert counts.shape == (18, len(LABELS))
    for k, row in enumerate(counts):
        down, up, up_to_one, down_from_one = chosen(choice, k)
        i, n1 = int(at.i[k]), int(at.n1[k])
        assert dict(zip(LABELS, map(int, row), strict=True)) == {
            "zero": 5 - n1 - down - up,
            "one": n1 - up_to_one - down_from_one,
            "xy": 2 - i,
            "yx": i,
            "up": up,
            "down": down,
            "up_to_one": up_to_one,
            "down_from_one": down_from_one,
        }
    assert counts.sum() == 18 * 7
    assert len({chosen(choice, k) for k in range(18)}) > 3


def test_some_of_the_skeletons_have_their_own_slopes() -> None:
    at = skeletons(8, 4, 3)
    kept = np.arange(at.i.size) % 3 == 1
    some = at.only(kept)
    assert (some.rows, some.moving) == (at.rows, 3)
    assert some.n0.tolist() == (4 - at.n1[kept]).tolist()
    ours, theirs = Slopes.of(at, 0.8), Slopes.of(some, 0.8)
    assert all(np.array_equal(getattr(ours, kind)[kept], getattr(theirs, kind)) for kind in KINDS)
