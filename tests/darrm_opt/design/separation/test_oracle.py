"""Every search for the worst corner multiset against enumeration."""

from __future__ import annotations

import itertools
import math
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.exact import NEGLIGIBLE, Voters, mean, named, signed
from support.kernels import HAS_KERNEL, PATHS, by_each_path, searched_by
from support.searches import enumerated_worst_case, separable_worst_case, uneven
from support.strategies import ProblemCase, noises, random_case, random_noise

from darrm_opt import NoiseFunction, Privacy, Problem, certify
from darrm_opt.design.constraint import (
    DOWN,
    DOWN_FROM_ONE,
    ONE,
    STEP_ERROR,
    UP,
    UP_TO_ONE,
    XY,
    YX,
    ConstraintGenerator,
    Counts,
    PrivacyConstraint,
)
from darrm_opt.design.polar_form import layers, stored_layers
from darrm_opt.design.separation import separable
from darrm_opt.design.separation.first_order import Rows
from darrm_opt.design.separation.oracle import (
    ERRORS_BELOW_LIMIT,
    search_layers,
    worst_case,
    worst_case_near_faces,
)
from darrm_opt.design.separation.pruned import search_pruned
from darrm_opt.design.separation.result import (
    TAIL,
    Collector,
    Settle,
    TimeLimitReached,
    WorstCase,
    search_error,
    terms_of,
)
from darrm_opt.design.separation.separable import search_by_reach, search_separable
from darrm_opt.noise import Array

SETTLE: tuple[Settle, ...] = ("always", "until a cut", "never")


def check(
    noise: NoiseFunction,
    problem: Problem,
    *,
    above: float | None,
    most: int,
    settle: Settle = "always",
    true: WorstCase | None = None,
) -> WorstCase:
    """Search by each of `PATHS`, compare with the enumerated worst case; return the result of the first path."""
    true = true or enumerated_worst_case(noise, problem)
    constraint = PrivacyConstraint.of(problem)
    found = by_each_path(worst_case, noise, constraint, above=above, most=most, settle=settle)
    assert len({one.error for one in found}) == 1
    for one in found:
        check_found(one, noise, problem, above=above, most=most, settle=settle, true=true)
    return found[0]


def check_found(
    found: WorstCase,
    noise: NoiseFunction,
    problem: Problem,
    *,
    above: float | None,
    most: int,
    settle: Settle,
    true: WorstCase,
) -> None:
    """Compare the result of one search with the enumerated worst case."""
    constraint = PrivacyConstraint.of(problem)
    error = constraint.error(float(noise.values.max()))
    charged = search_error(constraint, float(noise.values.max())) if constraint.corners.Delta > 0 else error
    level = constraint.limit - ERRORS_BELOW_LIMIT * charged if above is None else above
    fuzz = 4 * error + 1e-15

    assert found.bound >= true.value - fuzz  # a bound holds whatever was omitted
    assert found.value <= true.value + fuzz
    assert abs(constraint.values(noise.signed, found.counts[np.newaxis])[0] - found.value) <= fuzz
    if settle == "always" or found.method != "first-order":
        assert found.method in ("complete", "monotone")
        assert found.bound <= max(true.value, level) + 2 * fuzz  # and is no looser than requested
        if true.value > level + fuzz:
            assert abs(found.value - true.value) <= fuzz
            assert len(found.cuts) > 0 or most == 0
    check_multisets(found.counts[np.newaxis], problem)
    assert len(found.cuts) <= most
    if len(found.cuts):
        check_multisets(found.cuts, problem)
        values = constraint.values(noise.signed, found.cuts)
        assert values.min() > level - fuzz
        assert np.all(np.diff(values) <= fuzz)  # worst first


def check_multisets(counts: Counts, problem: Problem) -> None:
    assert len(np.unique(counts, axis=0)) == len(counts)
    assert counts.min() >= 0
    assert np.all(counts.sum(axis=1) == problem.K)
    assert np.all(counts[:, 2:].sum(axis=1) <= problem.affected)


def levels(problem: Problem, worst: float) -> list[float | None]:
    return [None, -math.inf, PrivacyConstraint.of(problem).limit, worst - 1e-3, worst - 1e-12, worst + 1e-9, worst / 2]


# --------------------------------------------------------------------------------------- against enumeration


@for_each("seed", range(30))
def test_few_voters_agree_with_enumeration(seed: int) -> None:
    rng = np.random.default_rng((seed, 1))
    problem = random_case(rng, (1, 2, 3, 4, 5, 6, 7, 8, 9), largest_Delta=(0.3, 0.9)[seed % 2]).problem
    noise = uneven(rng, problem.K)
    if seed % 3 == 0:  # like solutions, with many multisets at the limit
        noise, _ = certify(problem, noise)
    true = enumerated_worst_case(noise, problem)
    for above in levels(problem, true.value):
        for settle in SETTLE:
            check(noise, problem, above=above, most=int(rng.choice([0, 1, 5, 1000])), settle=settle, true=true)


@for_each("Delta", [1e-12, 1e-3, 0.3])
@for_each(("K", "affected"), [(6, r) for r in range(1, 7)] + [(8, 5), (9, 9), (11, 2)])
def test_any_number_of_affected_voters_agrees_with_enumeration(K: int, affected: int, Delta: float) -> None:
    rng = np.random.default_rng((K, affected))
    problem = Problem(K, Privacy(0.4, Delta), Privacy(0.9, min(0.4, 2 * Delta)), affected)
    noise = uneven(rng, K)
    true = enumerated_worst_case(noise, problem)
    for settle in SETTLE:
        check(noise, problem, above=None, most=20, settle=settle, true=true)
        check(noise, problem, above=-math.inf, most=20, settle=settle, true=true)


@pytest.mark.parametrize(
    ("K", "Delta"), [(10, 0.3), (11, 1e-5), (11, 0.1), (61, 0.0), pytest.param(15, 0.1, marks=pytest.mark.slow)]
)
def test_the_most_voters_that_can_be_enumerated_agree(K: int, Delta: float) -> None:
    problem = Problem(K, Privacy(0.3, Delta), Privacy(1.2, Delta / 2))
    noise = uneven(np.random.default_rng(K), K)
    true = enumerated_worst_case(noise, problem)
    for above in (None, true.value - 1e-6):
        check(noise, problem, above=above, most=50, true=true)


@for_each("epsilon", [1e-4, 0.3, 4.0, math.inf])
@for_each(("K", "affected"), [(12, 12), (21, 4), (30, 30), (33, 1), (40, 40)])
def test_many_voters_at_Delta_0_agree_with_enumeration(K: int, affected: int, epsilon: float) -> None:
    rng = np.random.default_rng((K, affected))
    problem = Problem(K, Privacy(epsilon), Privacy(min(20.0, 3 * epsilon), 0.01), affected)
    for _ in range(2):
        noise = uneven(rng, K)
        true = enumerated_worst_case(noise, problem)
        check(noise, problem, above=None, most=50, true=true)
        assert check(noise, problem, above=-math.inf, most=50, true=true).method == "complete"


@given(st.data())
def test_generated_noise_functions_agree_with_enumeration(data: st.DataObject) -> None:
    K = data.draw(st.integers(1, 7))
    Delta = data.draw(st.sampled_from([0.0, 1e-9, 1e-3, 0.2]))
    problem = Problem(K, Privacy(data.draw(st.floats(1e-3, 3)), Delta), Privacy(data.draw(st.floats(0, 9)), Delta))
    noise = data.draw(noises(K))
    check(
        noise,
        problem,
        above=data.draw(st.sampled_from([None, -math.inf])),
        most=3,
        settle=data.draw(st.sampled_from(SETTLE)),
    )


@for_each("seed", range(24))
def test_bounds_and_values_hold_in_exact_arithmetic(seed: int) -> None:
    """The bound covers φ at the multisets found by any path; the value is attained."""
    rng = np.random.default_rng((seed, 2))
    problem = random_case(rng).problem
    noise, voters = uneven(rng, problem.K), Voters.of(problem.strictest)
    every = by_each_path(worst_case, noise, PrivacyConstraint.of(problem), above=-math.inf, most=8)
    exact = [voters.phi(noise.values, named(row)) for one in every for row in (one.counts, *one.cuts)]
    for found in every:
        attained = voters.phi(noise.values, named(found.counts))
        assert abs(attained - Decimal(found.value)) <= Decimal(3 * found.error) + NEGLIGIBLE
        assert max(exact) <= Decimal(found.bound) + NEGLIGIBLE


@for_each("epsilon", [0.5, math.inf])
@for_each(("K", "affected"), [(1, 1), (5, 5), (6, 4)])
def test_at_Delta_0_the_worst_of_every_layer_row_is_found(K: int, affected: int, epsilon: float) -> None:
    """With mirror images: the worst multiset for each (nx, ny)."""
    problem = Problem(K, Privacy(epsilon), Privacy(0.9), affected)
    constraint = PrivacyConstraint.of(problem)
    everything = np.concatenate([*ConstraintGenerator(problem).blocks()])
    for seed in range(4):
        noise = uneven(np.random.default_rng((seed, K)), K)
        if noise.is_monotone:
            noise = NoiseFunction(np.zeros(K + 1))
        collector = Collector(above=-math.inf, most=10_000)
        search_layers(noise, constraint, collector)
        found = collector.result(0.0, "complete").cuts
        here, all_values = constraint.values(noise.signed, found), constraint.values(noise.signed, everything)
        for nx, ny in {(int(row[XY]), int(row[YX])) for row in everything}:
            mine = here[(found[:, XY] == nx) & (found[:, YX] == ny)]
            assert len(mine) in (1, 2)  # two if nx = ny and the mirror image differs
            assert mine.max() == pytest.approx(all_values[(everything[:, XY] == nx) & (everything[:, YX] == ny)].max())


# ----------------------------------------------------------------------------------- the separable search


@for_each("Delta", [1e-3, 0.2])
@for_each(("K", "affected"), [(1, 1), (5, 5), (5, 3), (6, 1), (3, 2)])
def test_the_worst_of_every_skeleton_is_found(K: int, affected: int, Delta: float) -> None:
    """The worst multiset for each (nx, ny, n₁) of the rows."""
    problem = Problem(K, Privacy(0.3, Delta), Privacy(0.9, 0.0), affected)
    constraint = PrivacyConstraint.of(problem)
    everything = np.concatenate([*ConstraintGenerator(problem).blocks()])
    near_one = everything[:, [ONE, UP_TO_ONE, DOWN_FROM_ONE]].sum(axis=1)
    for seed in range(3):
        noise = random_noise(np.random.default_rng((seed, K)), K, "uniform")
        true = constraint.values(noise.signed, everything)
        corners, seen = constraint.corners, 0
        for s, first, layer in layers(noise.signed, corners.x, corners.y, affected):
            nx = first + np.arange(len(layer))
            collector, by_reach = Collector(above=-math.inf, most=10_000), Collector(above=-math.inf, most=10_000)
            search_separable(Rows(layer, nx, s - nx), constraint, collector)
            found = collector.result(0.0, "complete").cuts
            if affected == K:
                search_by_reach(Rows(layer, nx, s - nx), constraint, by_reach)
                values = constraint.values(noise.signed, by_reach.result(0.0, "complete").cuts)
                assert values == pytest.approx(constraint.values(noise.signed, found), abs=1e-14)
            assert found.shape == (len(layer) * (K - s + 1), 8)
            assert np.all(found >= 0)
            assert np.all(found.sum(axis=1) == K)
            assert np.all(found[:, 2:].sum(axis=1) <= affected)
            skeletons = np.stack([found[:, XY], found[:, YX], found[:, [ONE, UP_TO_ONE, DOWN_FROM_ONE]].sum(axis=1)], 1)
            for (x, y, n1), value in zip(skeletons, constraint.values(noise.signed, found), strict=True):
                same = (everything[:, XY] == x) & (everything[:, YX] == y) & (near_one == n1)
                assert value == pytest.approx(true[same].max(), abs=1e-13)
            assert len(np.unique(skeletons, axis=0)) == len(found)
            seen += len(found)
        assert seen > 0


@pytest.mark.parametrize(("entries", "rows"), [(27, 1), (53, 1), (54, 2), (26, 1)])
def test_rows_in_parts_give_the_same_result(monkeypatch: pytest.MonkeyPatch, entries: int, rows: int) -> None:
    constraint = PrivacyConstraint.of(Problem(9, Privacy(0.3, 0.1), Privacy(0.9, 0.0)))
    noise = uneven(np.random.default_rng(4), 9)
    whole, in_parts = Collector(above=0.1, most=50), Collector(above=0.1, most=50)
    *_, (s, first, layer) = layers(noise.signed, constraint.corners.x, constraint.corners.y, 7)
    nx = first + np.arange(len(layer))
    search_separable(Rows(layer, nx, s - nx), constraint, whole)
    tables = []

    def kept(*asked: Any) -> Array:
        tables.append(ends_near(*asked))
        return tables[-1]

    ends_near = separable._near_end_table
    monkeypatch.setattr(separable, "_near_end_table", kept)
    monkeypatch.setattr(separable, "MAX_TABLE_ENTRIES", entries)
    search_separable(Rows(layer, nx, s - nx), constraint, in_parts)
    assert [table.shape for table in tables] == (4 // rows) * [(rows, 3, 3, 3)]  # two voters, both may move
    one, other = whole.result(0.0, "complete"), in_parts.result(0.0, "complete")
    assert one.value == other.value
    assert np.array_equal(one.cuts, other.cuts)


def test_no_rows_have_no_result_and_a_passed_deadline_raises() -> None:
    constraint, rows = PrivacyConstraint.of(Problem(9, Privacy(0.3, 0.1), Privacy(0.9, 0.0))), np.zeros((1, 3))
    nobody = Collector()
    search_separable(Rows(rows[:0], np.arange(0), np.arange(0)), constraint, nobody)
    assert nobody.value == -math.inf
    with pytest.raises(TimeLimitReached):
        search_separable(
            Rows(rows, np.array([7]), np.array([0])), constraint, Collector(deadline=time.perf_counter() - 1)
        )


@for_each("seed", range(40))
def test_the_separable_search_agrees_with_enumeration(seed: int) -> None:
    rng = np.random.default_rng((seed, 3))
    problem = random_case(rng, (1, 2, 3, 4, 5, 6, 7, 8, 9)).problem
    if problem.voter.delta == 0:
        problem = Problem(problem.K, Privacy(0.2, 0.05), Privacy(0.3, 0.0), problem.affected)
    noise, constraint = random_noise(rng, problem.K), PrivacyConstraint.of(problem)
    found, true = separable_worst_case(noise, constraint), enumerated_worst_case(noise, problem)
    error = constraint.error(float(noise.values.max()))
    assert abs(found.value - true.value) <= 4 * error + 1e-15
    assert found.bound >= true.value - 4 * error
    assert abs(constraint.values(noise.signed, found.counts[np.newaxis])[0] - found.value) <= 4 * error + 1e-15


@pytest.mark.parametrize(("K", "affected"), [(1, 1), (4, 4), (5, 3)])
def test_the_separable_search_includes_mirror_images(monkeypatch: pytest.MonkeyPatch, K: int, affected: int) -> None:
    """More voters at (y, x) than at (x, y) are rarely the worst case, so results do not show whether they were searched."""
    seen = {}

    def kept(rows: Rows, *_: object) -> None:
        for row, nx, ny in zip(rows.values, rows.nx, rows.ny, strict=True):
            seen[int(nx), int(ny)] = row.copy()
        search_separable(rows, constraint, Collector())

    monkeypatch.setattr(separable, "search_separable", kept)
    constraint = PrivacyConstraint.of(Problem(K, Privacy(0.3, 0.1), Privacy(0.9, 0.0), affected))
    noise = random_noise(np.random.default_rng(K), K, "uniform")
    with pytest.raises(AssertionError, match="saw no multiset"):
        separable_worst_case(noise, constraint)
    assert set(seen) == {(nx, ny) for nx in range(affected + 1) for ny in range(affected + 1 - nx)}
    x, y, g = Fraction(constraint.corners.x), Fraction(constraint.corners.y), signed(noise.values, Fraction)
    one, zero = Fraction(1), Fraction(0)
    for (nx, ny), row in seen.items():
        rest = K - nx - ny
        exact = [mean(g, [x] * nx + [y] * ny + [one] * ones + [zero] * (rest - ones)) for ones in range(rest + 1)]
        assert row == pytest.approx([*map(float, exact)], abs=1e-14)


@for_each("Delta", [1e-7, 1e-4, 0.02, 0.2, 0.6])
@for_each(("K", "affected"), [(15, 15), (16, 9), (21, 2), (22, 6)])
def test_every_path_agrees_with_the_separable_search(K: int, affected: int, Delta: float) -> None:
    problem = Problem(K, Privacy(0.2, Delta), Privacy(0.7, Delta / 2), affected)
    constraint, noise = PrivacyConstraint.of(problem), uneven(np.random.default_rng((K, affected, 4)), K)
    true = separable_worst_case(noise, constraint)
    for above, settle in itertools.product((None, true.value - 1e-5, true.value + 1e-9), SETTLE):
        options: dict[str, Any] = {"above": above, "most": 5, "settle": settle}
        for found in by_each_path(worst_case, noise, constraint, **options):
            check_found(found, noise, problem, true=true, **options)


def test_a_search_settles_the_remainder_by_default() -> None:
    """Without settling, the method states the open remainder, and the bound covers it."""
    methods = set()
    for seed in range(12):
        rng = np.random.default_rng((seed, 5))
        problem = Problem(8, Privacy(0.1, 10.0 ** rng.uniform(-4, -1.3)), Privacy(0.3, 0.0))
        noise = uneven(rng, 8)
        true = enumerated_worst_case(noise, problem)
        above = true.value - 1e-3
        methods.add(check(noise, problem, above=above, most=5, settle="never", true=true).method)
        assert check(noise, problem, above=above, most=5, true=true).method == "complete"
        assert worst_case(noise, PrivacyConstraint.of(problem), above=above, most=5).method == "complete"  # by default
    assert methods == {"complete", "first-order"}


# -------------------------------------------------------------------------------------------- monotone γ


@for_each("seed", range(30))
def test_a_small_set_suffices_for_a_monotone_noise_function(seed: int) -> None:
    rng = np.random.default_rng((seed, 6))
    problem = random_case(rng, (1, 2, 3, 5, 6, 8, 9)).problem
    noise = random_noise(rng, problem.K, str(rng.choice(["monotone", "majority", "smooth"])))
    true = enumerated_worst_case(noise, problem)
    for above in (None, -math.inf):
        found = check(noise, problem, above=above, most=10, true=true)
        assert found.method == "monotone"


@for_each("Delta", [0.0, 1e-6, 1e-3])
@for_each(("K", "affected"), [(61, 61), (64, 20)])
def test_the_general_searches_agree_with_the_small_set_beyond_enumeration(K: int, affected: int, Delta: float) -> None:
    problem = Problem(K, Privacy(0.1, Delta), Privacy(0.7, Delta), affected)
    constraint = PrivacyConstraint.of(problem)
    for kind in ("monotone", "smooth", "majority"):
        noise = random_noise(np.random.default_rng((K, affected)), K, kind)
        small = worst_case(noise, constraint, above=-math.inf)
        collector = Collector(above=small.value - 1e-4)
        if Delta > 0:
            search_pruned(noise.signed, constraint, collector, settle="always")
        else:
            search_layers(noise, constraint, collector)
        fuzz = 4 * constraint.error(1.0)
        assert small.method == "monotone"
        assert abs(collector.value - small.value) <= fuzz
        assert max(collector.value, collector.left_out) <= small.value + fuzz


def test_is_monotone_ignores_the_tie() -> None:
    assert NoiseFunction([1.0, 0.5, 0.5, 1.0]).is_monotone
    assert NoiseFunction([1.0, 1.0, 0.9, 1.0, 1.0]).is_monotone  # a tie is a fair coin for any γ(K/2)
    assert not NoiseFunction([0.4, 0.5, 0.5, 0.4]).is_monotone
    assert not NoiseFunction([1.0, math.nextafter(1, 0), 1.0, 1.0, math.nextafter(1, 0), 1.0]).is_monotone


# ------------------------------------------------------------------------------------------- near faces, stored layers


@for_each("Delta", [0.0, 1e-6, 1e-2, 0.2, 0.6])
@for_each(("K", "affected"), [(8, 8), (9, 6), (15, 15), (22, 9), (30, 30), (31, 12)])
def test_cuts_near_faces_are_violated(K: int, affected: int, Delta: float) -> None:
    """Every cut exceeds the level; both paths find the same worst case, also near the faces."""
    problem = Problem(K, Privacy(0.2, Delta), Privacy(0.6, Delta / 2), affected)
    constraint, noise = PrivacyConstraint.of(problem), uneven(np.random.default_rng((0, K)), K)
    fine = worst_case(noise, constraint, above=-math.inf)
    level = fine.value / 2
    pairs = [(XY, YX), *([(DOWN, UP_TO_ONE), (UP, DOWN_FROM_ONE)] if Delta else [])]
    of_one_kind = affected == K and all(fine.counts[list(pair)].min() == 0 for pair in pairs)
    for most in (500, 7, 0):
        every = by_each_path(worst_case_near_faces, noise, constraint, above=level, most=most)
        if of_one_kind and HAS_KERNEL:
            assert every[0].value == pytest.approx(fine.value, abs=1e-13)
        for found in every:
            assert found.method == "estimate"
            assert every[-1].value - 1e-13 <= found.value <= fine.value + 1e-13
            assert len(found.cuts) <= most
            if len(found.cuts):
                check_multisets(found.cuts, problem)
                assert constraint.values(noise.signed, found.cuts).min() > level - 1e-12
                assert np.all(found.cuts[:, 2:4].min(axis=1) == 0)


@pytest.mark.parametrize("Delta", [0.0, 1e-3])
def test_stored_layers_do_not_change_the_result(Delta: float) -> None:
    problem = Problem(12, Privacy(0.3, Delta), Privacy(0.6, Delta))
    constraint, noise = PrivacyConstraint.of(problem), uneven(np.random.default_rng(1), 12)
    kept = stored_layers(noise.signed, constraint.corners.x, constraint.corners.y, 12)
    once, again = (worst_case(noise, constraint, above=0.0, most=20, stored=stored) for stored in (None, kept))
    assert (once.bound, once.value, once.method) == (again.bound, again.value, again.method)
    assert np.array_equal(once.cuts, again.cuts)


@for_each("Delta", [0.0, 1e-3, 0.2])
@for_each("flat", [False, True])
def test_a_search_stops_at_its_deadline(Delta: float, flat: bool) -> None:
    constraint = PrivacyConstraint.of(Problem(12, Privacy(0.3, Delta), Privacy(0.6, Delta)))
    noise = NoiseFunction(np.full(13, 0.1)) if flat else uneven(np.random.default_rng(1), 12)
    for path in PATHS:
        with searched_by(path), pytest.raises(TimeLimitReached):
            worst_case(noise, constraint, deadline=time.perf_counter() - 1)


# ------------------------------------------------------------------------------------------ charges for rounding


@for_each("Delta", [0.0, 1e-3, 0.3])
@for_each("affected", [9, 4])
def test_the_charge_of_a_search_for_rounding(Delta: float, affected: int) -> None:
    problem = Problem(9, Privacy(0.3, Delta), Privacy(0.6, Delta / 2), affected)
    constraint, noise = (
        PrivacyConstraint.of(problem),
        NoiseFunction.from_upper_half(np.array([0.75, 0, 0.5, 0.25, 0.75]), 9),
    )
    largest = 0.75
    error = search_error(constraint, largest) if Delta > 0 else constraint.error(largest)
    found = worst_case(noise, constraint, above=-math.inf)
    assert (found.bound, found.method) == (found.value + error, "complete")
    if Delta == 0:
        near = worst_case_near_faces(noise, constraint, above=-math.inf, most=0)
        assert near.bound == near.value  # no proof, so no error is charged


@for_each(("epsilon", "Delta"), [(0.3, 0.0), (0.3, 1e-6), (0.3, 1e-3), (0.3, 0.3), (1e-4, 0.0)])
def test_the_charge_of_a_monotone_search_for_rounding(epsilon: float, Delta: float) -> None:
    """In addition to the error of the blossom: r convolution steps, sums of T + 1 products, and two truncated tails.

    Near ε = 0, where φ is small, even the tails are visible in the bound.
    """
    target = Privacy(0.6 if epsilon > 0.1 else 0.0, Delta / 2)
    constraint = PrivacyConstraint.of(Problem(9, Privacy(epsilon, Delta), target, 7))
    noise = random_noise(np.random.default_rng(1), 9, "monotone")
    largest, found = float(noise.values.max()), worst_case(noise, constraint, above=-math.inf)
    terms = min(7, terms_of(7 * constraint.corners.Delta)) if Delta > 0 else 0
    extra = (1 + constraint.q) * largest * ((7 + (terms + 1) + 2) * STEP_ERROR + TAIL)
    assert (found.bound, found.method) == (found.value + (constraint.error(largest) + extra), "monotone")


@pytest.mark.parametrize("Delta", [0.0, 1e-3, 0.3])
def test_a_margin_larger_than_rounding_is_proved(Delta: float) -> None:
    problem = Problem(9, Privacy(0.3, Delta), Privacy(0.6, Delta / 2))
    constraint, noise = (
        PrivacyConstraint.of(problem),
        NoiseFunction.from_upper_half(np.array([0.0, 1.0, 0.0, 1.0, 1.0]), 9),
    )
    worst = worst_case(noise, constraint)
    assert worst.value > constraint.limit
    assert worst.cuts.shape[0] == 0  # none requested
    error = worst_case(noise, constraint, above=-math.inf).bound - worst.value
    scale = (constraint.limit - 1.5 * error) / worst.value
    found = worst_case(NoiseFunction(noise.values * scale), constraint)
    assert found.bound <= constraint.limit
    assert found.method == "complete"


# ------------------------------------------------------------------------------------------ collected cuts


def test_a_collector_keeps_the_worst_of_many() -> None:
    rng = np.random.default_rng(8)
    collector = Collector(above=0.5, most=7)
    offered = [(rng.random(20), rng.integers(0, 9, (20, 4))) for _ in range(10)]
    for values, counts in offered:
        collector.offer(values, counts)
    collector.leave_out(0.25)
    found = collector.result(1e-9, "complete")
    values, counts = np.concatenate([v for v, _ in offered]), np.concatenate([c for _, c in offered])
    order = np.argsort(-values)
    assert found.value == values.max()
    assert found.bound == values.max() + 1e-9
    assert np.array_equal(found.counts, counts[order[0]])
    assert np.array_equal(found.cuts, counts[order[:7]])


def test_a_collector_keeps_a_cut_once_and_equal_ones_by_their_counts() -> None:
    collector = Collector(above=0.5, most=5)
    several = np.array([[2, 300], [2, 1], [1, 9], [2, 1], [3, 0], [1, 8]])
    collector.offer(np.array([0.7, 0.7, 0.7, 0.9, 0.9, 0.4]), several)
    collector.offer(np.array([0.7]), several[:1])
    cuts = collector.result(0.0, "complete").cuts
    assert cuts.tolist() == [[2, 1], [3, 0], [1, 9], [2, 300]]
    assert cuts.flags.writeable  # a read-only array counts as a family of rows that is reused (`cached_rows`)


def test_omitted_multisets_are_in_the_bound() -> None:
    collector = Collector()
    collector.offer(np.array([0.1]), np.zeros((1, 4), dtype=np.int64))
    collector.leave_out(0.4)
    found = collector.result(0.0, "first-order")
    assert (found.value, found.bound) == (0.1, 0.4)
    assert found.cuts.shape == (0, 4)


@for_each("case", [random_case(np.random.default_rng((seed, 7))) for seed in range(25)])
def test_the_worst_case_of_pure_noise_is_0(case: ProblemCase) -> None:
    found = worst_case(NoiseFunction(np.zeros(case.K + 1)), PrivacyConstraint.of(case.problem))
    assert found.value == found.bound == 0.0 or found.bound == PrivacyConstraint.of(case.problem).limit
