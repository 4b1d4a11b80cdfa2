"""The sieves of the pruned search, and the complete search, against formulas per skeleton and all multisets."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each
from support.exact import mean, signed
from support.searches import splits
from support.strategies import random_noise

from darrm_opt.design.constraint import DOWN, DOWN_FROM_ONE, ONE, UP, UP_TO_ONE, XY, YX, PrivacyConstraint
from darrm_opt.design.polar_form import at_ends, layers
from darrm_opt.design.separation import pruned
from darrm_opt.design.separation.binomials import bound_by_distance, bound_by_extremes
from darrm_opt.design.separation.first_order import Choice, Rows, Skeletons, Slopes, first_order_choice
from darrm_opt.design.separation.pruned import LAYERS_BETWEEN_ROW_BOUNDS
from darrm_opt.design.separation.result import (
    MAX_EVALUATED_MEAN,
    Collector,
    Settle,
    TimeLimitReached,
    evaluation_error,
    search_error,
    terms_of,
)
from darrm_opt.design.separation.separable import search_separable
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy, Problem

Split = tuple[int, int, int, int]


def constraint_of(Delta: float, K: int = 8, affected: int | None = None) -> PrivacyConstraint:
    return PrivacyConstraint.of(Problem(K, Privacy(0.3, Delta), Privacy(0.9, 0.0), affected))


def suspects_of(A: Array, q: float, fuzz: float) -> pruned._OpenRows:
    """Return suspect rows, with the bound on their second differences."""
    rows = Rows(A, np.arange(len(A)), len(A) - 1 - np.arange(len(A)))
    bend = np.abs(np.diff(A, 2, axis=1)).max(axis=1, initial=0.0) + 4 * fuzz
    return pruned._OpenRows(rows, at_ends(A, q), bend)


def search_of(
    Delta: float, n: int, moving: int, *, above: float, most: int = 0, fuzz: float = 0.0, settle: Settle = "always"
) -> pruned._Search:
    """Return a search of rows with two voters away from the ends, the voters of the rows of `suspects_of`."""
    return pruned._Search(constraint_of(Delta, n + 2, moving + 2), Collector(above=above, most=most), fuzz, settle)


def rough(seed: int, n: int, many: int = 3) -> Array:
    """Return rows of different curvature: rough, almost straight, and with ties."""
    rng = np.random.default_rng((seed, n))
    straight = np.linspace(-1, 1, n + 1) * rng.uniform(-1, 1, (many, 1))
    rows: Array = straight + rng.uniform(-1, 1, (many, n + 1)) * 10.0 ** rng.uniform(-4, 0, (many, 1))
    rows[0] = np.round(2 * rows[0]) / 2
    return rows


def phi(row: Array, n1: int, q: float, Delta: float, split: Split) -> float:
    """Return q·E[A(n₁ + Bin(down, Δ) − Bin(up to one, Δ))] + E[A(n₀ + Bin(down from one, Δ) − Bin(up, Δ))]."""
    down, up, up_to_one, down_from_one = split

    def binomial(trials: int) -> list[float]:
        return [math.comb(trials, t) * Delta**t * (1 - Delta) ** (trials - t) for t in range(trials + 1)]

    def mean(N: int, plus: int, minus: int) -> float:
        here, there = binomial(plus), binomial(minus)
        return sum(a * b * float(row[N + x - y]) for x, a in enumerate(here) for y, b in enumerate(there))

    return q * mean(n1, down, up_to_one) + mean(row.size - 1 - n1, down_from_one, up)


def worst(A: Array, q: float, Delta: float, moving: int) -> float:
    n = A.shape[1] - 1
    every = ((row, n1, split) for row in A for n1 in range(n + 1) for split in splits(n - n1, n1, moving))
    return max(phi(row, n1, q, Delta, split) for row, n1, split in every)


# ---------------------------------------------------------------------------------------------- bounds of rows


@for_each("width", [None, 0, 2])
@for_each("K", [1, 2, 8, 19])
def test_the_bounds_of_rows_hold_in_every_layer(K: int, width: int | None) -> None:
    """They hold on every layer, are the maxima on every eighth, and those of the previous eighth in between."""
    fuzz = 1e-3
    bounds = pruned._RowBounds(fuzz)
    fresh: dict[int, tuple[float, float]] = {}
    for s, first, layer in layers(random_noise(np.random.default_rng(K), K, "coin").signed, 0.6, 0.4, K, width):
        bounds.descend(layer, s)
        assert bounds.slope.shape == bounds.bend.shape == (len(layer),)
        for i, row in enumerate(layer):
            steepest = float(np.abs(np.diff(row)).max(initial=0.0)) + 2 * fuzz
            bent = float(np.abs(np.diff(row, 2)).max(initial=0.0)) + 4 * fuzz
            assert bounds.slope[i] >= steepest - 1e-12
            assert bounds.bend[i] >= bent - 1e-12
            if s % LAYERS_BETWEEN_ROW_BOUNDS == 0:
                assert (bounds.slope[i], bounds.bend[i]) == (steepest, bent)
            else:
                assert (bounds.slope[i], bounds.bend[i]) == fresh[min(first + i, s - s % LAYERS_BETWEEN_ROW_BOUNDS)]
        if s % LAYERS_BETWEEN_ROW_BOUNDS == 0:
            fresh = {first + i: (bounds.slope[i], bounds.bend[i]) for i in range(len(layer))}


def test_the_error_of_a_search_is_the_sum_of_its_parts() -> None:
    """Two blossoms, and two means over binomials with means of at most affected·Δ."""
    constraint = constraint_of(0.25, 12, 9)
    error = constraint.error(0.5) + (1 + constraint.q) * evaluation_error(9 * 0.25) * 0.5
    assert search_error(constraint, 0.5) == pytest.approx(error, rel=1e-9, abs=0)
    many = constraint_of(0.25, 300)
    error = many.error(1.0) + (1 + many.q) * evaluation_error(MAX_EVALUATED_MEAN)
    assert search_error(many, 1.0) == pytest.approx(error, rel=1e-9, abs=0)


# ---------------------------------------------------------------------------------------------- mirror images


@pytest.mark.parametrize(("K", "affected"), [(2, 2), (4, 4), (5, 3)])
def test_mirror_images_are_suspect_too(monkeypatch: pytest.MonkeyPatch, K: int, affected: int) -> None:
    """More voters at (y, x) than at (x, y) are rarely the worst case, so results do not show whether they were searched."""
    constraint, seen = constraint_of(0.1, K, affected), {}

    def kept(_: pruned._Search, suspects: pruned._OpenRows, bound: float, moving: int) -> None:
        rows = suspects.rows
        for i, (nx, ny) in enumerate(zip(rows.nx.tolist(), rows.ny.tolist(), strict=True)):
            assert moving == affected - nx - ny
            assert suspects.at_ends[i] == pytest.approx(constraint.q * rows.values[i] + rows.values[i][::-1], abs=1e-14)
            assert bound >= suspects.at_ends[i].max() - 1e-14
            assert suspects.bend[i] >= np.abs(np.diff(rows.values[i], 2)).max(initial=0.0)
            seen[nx, ny] = rows.values[i].copy()

    monkeypatch.setattr(pruned, "_search_rows", kept)
    noise = random_noise(np.random.default_rng(K), K, "uniform")
    pruned.search_pruned(noise.signed, constraint, Collector(above=-math.inf, most=1), settle="always")
    assert set(seen) == {(nx, ny) for nx in range(affected + 1) for ny in range(affected + 1 - nx)}
    x, y, g = Fraction(constraint.corners.x), Fraction(constraint.corners.y), signed(noise.values, Fraction)
    one, zero = Fraction(1), Fraction(0)
    for (nx, ny), row in seen.items():
        rest = K - nx - ny
        exact = [mean(g, [x] * nx + [y] * ny + [one] * ones + [zero] * (rest - ones)) for ones in range(rest + 1)]
        assert row == pytest.approx([*map(float, exact)], abs=1e-14)


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_best_of_a_layer_is_found_with_its_voters(*, mirrored: bool) -> None:
    for seed in range(4):
        layer, nx, q = rough(seed, 4), np.array([3, 4, 5]), constraint_of(0.1).q
        here = -layer[:, ::-1] if mirrored else layer
        values = at_ends(here, q)
        search = search_of(0.1, 4, 4, above=-math.inf, most=9)
        best = values.max(axis=1)
        pruned._offer_best(best, layer, nx, 5, search, mirrored=mirrored)
        found = search.collector.result(0.0, "complete")
        row, n1 = np.unravel_index(int(values.argmax()), values.shape)
        many_x, many_y = (5 - nx[row], nx[row]) if mirrored else (nx[row], 5 - nx[row])
        assert found.value == best.max()
        assert found.counts.tolist() == [4 - n1, n1, many_x, many_y, 0, 0, 0, 0]
        pruned._offer_best(best - 1e-9, layer, nx, 5, search, mirrored=mirrored)
        assert len(search.collector.result(0.0, "complete").cuts) == 1  # one that is no better is not found


# ---------------------------------------------------------------------------------------------- the sieves


@pytest.mark.parametrize("part", [1, 10, 32_768])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_the_steepest_kinds_at_both_ends_are_found(monkeypatch: pytest.MonkeyPatch, n: int, part: int) -> None:
    monkeypatch.setattr(pruned, "CACHE_ENTRIES", part)
    fuzz, Delta, moving = 1e-2, 0.05, max(0, n - 1) or n
    for seed in range(8):
        A = rough(seed, n)
        suspects = suspects_of(A, constraint_of(Delta).q, fuzz)
        search = search_of(Delta, n, moving, above=float(np.median(suspects.at_ends)), fuzz=fuzz)
        q, mean = search.constraint.q, moving * search.constraint.corners.Delta
        expected, left_out = [], -math.inf
        for i, row in enumerate(A):
            steepest = [max(0.0, *(row[k] - row[j] for k in (j - 1, j + 1) if 0 <= k <= n), 0.0) for j in range(n + 1)]
            for n1 in range(n + 1):
                bound = suspects.at_ends[i, n1] + mean * max(q * steepest[n1], steepest[n - n1])
                bound += 0.5 * mean**2 * suspects.bend[i] + 2 * mean * fuzz
                if bound > search.collector.level:
                    expected.append((i, n1))
                else:
                    left_out = max(left_out, bound)
        found = pruned._sieve_by_steepest_kind(search, suspects, moving)
        assert search.collector.left_out == pytest.approx(left_out, abs=1e-14)
        assert [*zip(*(each.tolist() for each in found), strict=True)] == expected


@pytest.mark.parametrize("part", [1, 7, 32_768])
@pytest.mark.parametrize(("n", "moving", "Delta"), [(1, 1, 0.3), (4, 4, 0.3), (5, 2, 0.4), (4, 3, 0.01)])
def test_the_range_of_blossoms_is_bounded(
    monkeypatch: pytest.MonkeyPatch, n: int, moving: int, Delta: float, part: int
) -> None:
    monkeypatch.setattr(pruned, "CACHE_ENTRIES", part)
    ruled_out = 0
    for seed in range(6):
        A = rough(seed, n)
        suspects = suspects_of(A, constraint_of(Delta).q, 0.0)
        search = search_of(Delta, n, moving, above=float(np.quantile(suspects.at_ends, [0.5, 0.9, 1.0][seed % 3])))
        q, exactly, level = search.constraint.q, search.constraint.corners.Delta, search.collector.level
        i, n1 = np.nonzero(suspects.at_ends > -math.inf)
        kept = pruned._sieve_by_extremes(search, Skeletons(suspects.rows, i, n1, moving))
        expected = []
        for row, one in zip(i.tolist(), n1.tolist(), strict=True):
            at, zero, many, few = (
                np.array([row]),
                n - one,
                np.array([min(one, moving)]),
                np.array([min(n - one, moving)]),
            )
            here = bound_by_extremes(A, at, np.array([one]), few, many, exactly, moving)[0]
            there = bound_by_extremes(A, at, np.array([zero]), many, few, exactly, moving)[0]
            reach = bound_by_distance(A[at], moving, exactly)[0]
            if min(q * here + there, q * reach[one] + reach[zero]) > level:
                expected.append((row, one))
            else:
                ruled_out += 1
                assert max(phi(A[row], one, q, exactly, split) for split in splits(zero, one, moving)) <= level + 1e-13
        assert [*zip(kept.i.tolist(), kept.n1.tolist(), strict=True)] == expected
    assert ruled_out > 10


@for_each("mean", [1e-7, 0.02, 0.9, 50.5, 63.0])
def test_the_curvature_near_a_skeleton_is_bounded(mean: float) -> None:
    """One kink at a time: it counts fully within the window, and by the tail outside."""
    n, window = 60, terms_of(mean) + 1
    tail = float(Fraction(mean) ** (window - 1) / math.factorial(window - 1))
    kinks = np.array([3, 20, 30, 59])
    A = np.maximum(np.arange(n + 1) - kinks[:, np.newaxis], 0) * 0.25
    bend = np.array([0.5, 0.5, 1.0, 1.0])
    i, n1 = np.divmod(np.arange(4 * (n + 1)), n + 1)
    kept = (i != 1) & (n1 % 3 != 1)  # some rows and skeletons are skipped
    at = Skeletons(Rows(A, kinks, kinks), i, n1, 5).only(kept)
    found = pruned._local_bend(A, bend, at, mean)
    for value, row, here in zip(found.tolist(), at.i, at.n1, strict=True):
        distance = min(abs(kinks[row] - here), abs(kinks[row] - (n - here)))
        seen = pytest.approx(0.25 + tail * bend[row], rel=1e-11, abs=0)
        beyond = pytest.approx(tail * bend[row], rel=1e-11, abs=0)
        assert value in (seen, beyond)
        if distance <= window:
            assert value == seen
        if distance > window + 2:
            assert value == beyond
            assert value >= tail * bend[row]


@pytest.mark.parametrize("settle", ["always", "until a cut", "never"])
@pytest.mark.parametrize("most", [0, 4])
@pytest.mark.parametrize(("n", "moving", "Delta"), [(1, 1, 0.1), (4, 4, 0.1), (5, 2, 0.3), (6, 6, 0.01), (6, 4, 0.02)])
def test_the_sieves_follow_their_formulas(
    monkeypatch: pytest.MonkeyPatch, n: int, moving: int, Delta: float, most: int, settle: Settle
) -> None:
    """The skeletons found, those left open, and the bound charged for the rest, one skeleton at a time."""
    left_open = 0
    looked_at: list[tuple[int, int]] = []

    def kept(slopes: Slopes, at: Skeletons, q: float, e: Array) -> Choice:
        looked_at.extend(zip(at.i.tolist(), at.n1.tolist(), strict=True))
        return first_order_choice(slopes, at, q, e)

    monkeypatch.setattr(pruned, "first_order_choice", kept)
    for seed in range(6):
        fuzz, A = (0.0, 1e-3, 1e-2)[seed % 3], rough(seed, n)
        suspects = suspects_of(A, constraint_of(Delta).q, fuzz)
        above = float(np.quantile(suspects.at_ends, [0.1, 0.5, 0.8, 0.95, 1.0, 1.0][seed]))
        search = search_of(Delta, n, moving, above=above, most=most, fuzz=fuzz, settle=settle)
        q, exactly = search.constraint.q, search.constraint.corners.Delta
        mean = moving * exactly
        steep = [*zip(*map(np.ndarray.tolist, pruned._sieve_by_steepest_kind(search, suspects, moving)), strict=True)]
        bounds, offered, uncertain, passed = [above] if most else [], [], [], []
        for i, n1 in steep:
            at = Skeletons(suspects.rows, np.array([i]), np.array([n1]), moving)
            slopes = Slopes.of(at, q)
            gain = float(slopes.gain(at)[0])
            bound = suspects.at_ends[i, n1] + exactly * (gain + 2 * fuzz * moving) + 0.5 * mean**2 * suspects.bend[i]
            if bound <= above:
                bounds.append(bound)
                continue
            if pruned._sieve_by_extremes(search, at).i.size == 0:
                continue
            local = float(pruned._local_bend(A, suspects.bend, at, mean)[0])
            choice = first_order_choice(slopes, at, q, np.array([mean * (local + 4 * fuzz) + 2 * fuzz]))
            split = [int(getattr(choice, kind)[0]) for kind in ("down", "up", "up_to_one", "down_from_one")]
            value = phi(A[i], n1, q, exactly, (split[0], split[1], split[2], split[3]))
            passed.append((i, n1))
            offered.append((value, i, *split))
            if choice.overlap[0] > 0:
                uncertain.append((value + exactly * float(choice.overlap[0]), i, n1))
        looked_at.clear()
        bounds.append(search.collector.left_out)  # the skeletons removed by sieves 1 and 3, each at its bound
        assert bounds[-1] <= above
        left = pruned._apply_sieves(search, suspects, moving)
        level = above if most else max([above, *(value for value, *_ in offered)])
        settling = settle == "always" or (settle == "until a cut" and not search.collector.cut)
        expected = [(i, n1) for bound, i, n1 in uncertain if bound > level and settling]
        bounds += [bound for bound, i, n1 in uncertain if (i, n1) not in expected]
        assert [*zip(left.i.tolist(), left.n1.tolist(), strict=True)] == expected
        assert looked_at == passed
        if math.isfinite(max(bounds)):
            assert search.collector.left_out == pytest.approx(max(bounds), abs=1e-13)
        if offered:
            found = search.collector.result(0.0, "complete")
            assert found.value == pytest.approx(max(offered)[0], abs=1e-13)
            assert tuple(found.counts[[DOWN, UP, UP_TO_ONE, DOWN_FROM_ONE]]) == max(offered)[2:]
        left_open += len(expected)
    assert left_open > 0 or settle != "always" or most == 0 or n == 1


@pytest.mark.parametrize(("n", "moving", "Delta"), [(4, 4, 0.1), (5, 2, 0.3)])
def test_the_first_order_bound_decides_at_the_level(
    monkeypatch: pytest.MonkeyPatch, n: int, moving: int, Delta: float
) -> None:
    """Without the other sieves a skeleton passes if and only if the level is below its bound."""
    fuzz, A = 1e-2, rough(5, n)
    i, n1 = np.divmod(np.arange(3 * (n + 1)), n + 1)
    q, exactly = constraint_of(Delta).q, constraint_of(Delta, n + 2, moving + 2).corners.Delta
    rows = suspects_of(A, q, fuzz)
    at, looked_at = Skeletons(rows.rows, i, n1, moving), []

    def kept(slopes: Slopes, at: Skeletons, q: float, e: Array) -> Choice:
        looked_at.append(set(zip(at.i.tolist(), at.n1.tolist(), strict=True)))
        return first_order_choice(slopes, at, q, e)

    monkeypatch.setattr(pruned, "_sieve_by_steepest_kind", lambda *_: (i, n1))
    monkeypatch.setattr(pruned, "_sieve_by_extremes", lambda _, passed: passed)
    monkeypatch.setattr(pruned, "first_order_choice", kept)
    gains, mean = Slopes.of(at, q).gain(at), moving * exactly
    for place, gain in enumerate(gains):
        here = int(i[place]), int(n1[place])
        bound = rows.at_ends[here] + exactly * (gain + 2 * fuzz * moving) + 0.5 * mean**2 * rows.bend[here[0]]
        for level, passes in ((bound - 1e-12, True), (bound + 1e-12, False)):
            looked_at.clear()
            pruned._apply_sieves(search_of(Delta, n, moving, above=level, fuzz=fuzz), rows, moving)
            assert any(here in looked for looked in looked_at) == passes


@for_each("settle", ["always", "never"])
@for_each(("n", "moving", "Delta"), [(1, 1, 0.1), (3, 3, 0.05), (4, 3, 0.4), (4, 4, 0.01), (4, 2, 1e-6)])
def test_errors_of_the_rows_omit_nothing(n: int, moving: int, Delta: float, settle: Settle) -> None:
    """With rows off by up to ``fuzz`` the bounds hold for the exact ones, up to that error of φ."""
    rng = np.random.default_rng(n)
    for seed in range(8):
        true, fuzz, constraint = rough(seed, n), 10.0 ** rng.uniform(-4, -1), constraint_of(Delta, n + 2, moving + 2)
        q, level = constraint.q, worst(true, constraint.q, constraint.corners.Delta, moving)
        A = true + fuzz * rng.choice([-1, 1], true.shape)
        for above in (-math.inf, level - 0.05, level - 1e-3, level + 1e-9):
            search = search_of(Delta, n, moving, above=above, fuzz=fuzz, settle=settle)
            suspects = suspects_of(A, q, fuzz)
            reach = constraint.corners.Delta * moving * (np.abs(np.diff(A, axis=1)).max(axis=1) + 2 * fuzz)
            bound = float((suspects.at_ends.max(axis=1) + reach).max())
            assert bound >= level - (1 + q) * fuzz  # sieve 1
            pruned._search_rows(search, suspects, bound, moving)
            proved = max(search.collector.value, search.collector.left_out)
            assert proved >= level - (1 + q) * fuzz - 1e-12
            assert search.collector.value <= level + (1 + q) * fuzz + 1e-12
            if settle == "always":
                assert proved <= max(level + (1 + q) * fuzz, above) + 1e-12


# ---------------------------------------------------------------------------------------------- complete search


def one_by_one(search: pruned._Search, rows: Rows, moving: int) -> None:
    for row, n1 in itertools.product(range(len(rows.values)), range(rows.n + 1)):
        pruned._search_skeleton(search, rows, row, n1, moving)


def rows_at_once(search: pruned._Search, rows: Rows, moving: int) -> None:
    assert moving == search.constraint.affected - 2
    search_separable(rows, search.constraint, search.collector)


@for_each("complete", [one_by_one, rows_at_once])
@for_each("Delta", [0.01, 0.4])
@for_each(("n", "moving"), [(0, 0), (1, 1), (3, 3), (3, 2), (3, 1), (4, 4), (4, 3), (3, 0)])
def test_complete_search_of_arbitrary_rows(
    complete: Callable[[pruned._Search, Rows, int], None], n: int, moving: int, Delta: float
) -> None:
    """The worst multiset of each skeleton: its voters add up, and φ there is the largest."""
    for seed in range(3):
        A = np.random.default_rng((seed, n)).uniform(-1, 1, (3, n + 1))
        search = search_of(Delta, n, moving, above=-math.inf, most=10_000)
        q, exactly, rows = search.constraint.q, search.constraint.corners.Delta, suspects_of(A, 0.5, 0.0).rows
        complete(search, rows, moving)
        result = search.collector.result(0.0, "complete")
        found = {(int(row[XY]), int(row[[ONE, UP_TO_ONE, DOWN_FROM_ONE]].sum())): row for row in result.cuts}
        assert len(result.cuts) == len(found) == 3 * (n + 1)
        largest = -math.inf
        for i, row in enumerate(A):
            for n1 in range(n + 1):
                counts = found[int(rows.nx[i]), n1]
                assert (counts.min(), counts.sum(), counts[YX]) == (0, n + 2, rows.ny[i])
                split = tuple(int(counts[kind]) for kind in (DOWN, UP, UP_TO_ONE, DOWN_FROM_ONE))
                best = max(phi(row, n1, q, exactly, other) for other in splits(n - n1, n1, moving))
                assert sum(split) <= moving
                assert phi(row, n1, q, exactly, (split[0], split[1], split[2], split[3])) == pytest.approx(best)
                largest = max(largest, best)
        assert result.value == pytest.approx(largest)


# ---------------------------------------------------------------------------------------------- which search


@pytest.mark.parametrize(
    ("Delta", "affordable"), [(0.24, True), (0.24, False), (0.49, False), (0.51, True), (0.51, False)]
)
def test_if_the_sieves_prune_nothing_the_search_is_complete_or_the_bound_is_that_of_the_rows(
    monkeypatch: pytest.MonkeyPatch, Delta: float, *, affordable: bool
) -> None:
    """Four voters move, so means over the binomials are allowed up to Δ = 1/2."""
    looked = []
    rows = suspects_of(rough(1, 4), 0.5, 0.0)
    none = np.empty(0, dtype=np.int64)

    def sifted(*_: object) -> Skeletons:
        looked.append("sieves")
        return Skeletons(rows.rows, none, none, 4)

    monkeypatch.setattr(pruned, "MAX_TABLE_ENTRIES", 5 * 5**2 if affordable else 5 * 5**2 - 1)
    monkeypatch.setattr(pruned, "MAX_PASSED_ENTRIES", 0)
    monkeypatch.setattr(pruned, "MAX_EVALUATED_MEAN", 2.0)
    monkeypatch.setattr(pruned, "search_separable", lambda *_: looked.append("complete"))
    monkeypatch.setattr(pruned, "_apply_sieves", sifted)
    search = search_of(Delta, 4, 4, above=0.0)
    pruned._search_rows(search, rows, 7.5, 4)
    if Delta < 0.5:
        assert (looked, search.collector.left_out) == (["sieves"], -math.inf)
    elif affordable:
        assert (looked, search.collector.left_out) == (["complete"], -math.inf)
    else:
        assert (looked, search.collector.left_out) == ([], 7.5)


@pytest.mark.parametrize("affordable", [True, False])
@pytest.mark.parametrize("many", [0, 3, 10, 11])
def test_open_skeletons_are_searched_completely(
    monkeypatch: pytest.MonkeyPatch, many: int, *, affordable: bool
) -> None:
    """One by one; with more than n + 2·rows of them, here 10, by whole rows."""
    suspects = suspects_of(rough(1, 4), 0.5, 0.0)
    i, n1 = np.array([0, 0, 2, 0, 0, 2, 0, 2, 2, 0, 2])[:many], (np.arange(11) * 3 % 5)[:many]
    settled: list[tuple[int, int]] = []
    searched: list[Rows] = []
    monkeypatch.setattr(pruned, "MAX_TABLE_ENTRIES", 5 * 5**2 if affordable else 5 * 5**2 - 1)
    monkeypatch.setattr(pruned, "search_separable", lambda rows, *_: searched.append(rows))
    monkeypatch.setattr(pruned, "_apply_sieves", lambda *_: Skeletons(suspects.rows, i, n1, 4))
    monkeypatch.setattr(pruned, "_search_skeleton", lambda *asked: settled.append(asked[2:4]))
    pruned._search_rows(search_of(0.1, 4, 4, above=0.0), suspects, 7.5, 4)
    if affordable and many > 10:
        (rows,) = searched
        assert np.array_equal(rows.values, suspects.rows.values[[0, 2]])
        assert (rows.nx.tolist(), rows.ny.tolist(), settled) == ([0, 2], [2, 0], [])
    else:
        assert (settled, searched) == ([*zip(i.tolist(), n1.tolist(), strict=True)], [])


def test_settling_stops_at_the_deadline() -> None:
    search = replace(search_of(0.1, 4, 4, above=0.0), collector=Collector(deadline=time.perf_counter() - 1))
    with pytest.raises(TimeLimitReached):
        pruned._search_skeleton(search, suspects_of(rough(1, 4), 0.5, 0.0).rows, 0, 2, 4)
