"""Parts of the cutting-plane loop: selection of cuts, incumbents, and the clock of a solve."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from darrm_opt import Problem, solve, verify
from darrm_opt.design import cutting_planes
from darrm_opt.design.constraint import (
    DOWN,
    DOWN_FROM_ONE,
    ONE,
    UP,
    UP_TO_ONE,
    XY,
    YX,
    ConstraintGenerator,
    PrivacyConstraint,
)
from darrm_opt.design.cutting_planes import CuttingPlanes, Incumbent, no_release, select_cuts
from darrm_opt.design.goal import CanonicalGoal
from darrm_opt.design.kernel.library import kernel
from darrm_opt.design.master_program import MasterProgram
from darrm_opt.design.objective import as_objective
from darrm_opt.design.schedule import FACE_SPACING, MAX_PASSED_K, MIN_GRACE, SolveClock, Stage, schedule
from darrm_opt.design.separation.compiled import MAX_SIEVED_MEAN
from darrm_opt.design.separation.oracle import worst_case, worst_case_near_faces
from darrm_opt.design.separation.result import TimeLimitReached
from darrm_opt.design.solution import Status
from darrm_opt.noise import NoiseFunction


def stage(max_cuts: int, min_distance: float) -> Stage:
    return Stage(gap=0.0, max_cuts=max_cuts, min_distance=min_distance, complete=True, step=1.0)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30),
    st.integers(1, 6),
    st.sampled_from([0, 1, 3.5]),
)
def test_cuts_keep_their_order_a_minimum_distance_and_a_maximum_number(
    pairs: list[tuple[int, int]], max_cuts: int, min_distance: float
) -> None:
    cuts = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    chosen = select_cuts(cuts, stage(max_cuts, min_distance))
    expected: list[tuple[int, int]] = []
    for a, b in pairs:  # by definition: a cut is taken unless it is too close to an earlier one
        far = all(abs(a - c) + abs(b - d) > min_distance for c, d in expected)
        if len(expected) < max_cuts and (far or min_distance == 0):
            expected.append((a, b))
    assert [tuple(row) for row in chosen.tolist()] == expected


PROBLEM = Problem.from_allowance(7, 2, 0.3, 1e-2)
CONSTRAINT = PrivacyConstraint.of(PROBLEM)


def test_an_incumbent_is_its_gamma_scaled_until_the_search_finds_no_violation() -> None:
    plain = NoiseFunction(np.ones(8))
    incumbent = Incumbent(plain, worst_case(plain, CONSTRAINT), CONSTRAINT.limit, complete=True)
    assert incumbent.worst.value > CONSTRAINT.limit
    again = worst_case(incumbent.noise, CONSTRAINT)
    assert again.value == pytest.approx(CONSTRAINT.limit, rel=1e-12)
    assert verify(PROBLEM, incumbent.noise.values * (1 - 1e-9)).margin >= 0


def test_an_incompletely_searched_incumbent_is_scaled_by_rows() -> None:
    """An empty search leaves γ = 1; the rows of all multisets scale it like the complete search."""
    plain = NoiseFunction(np.ones(8))
    whole = worst_case(plain, CONSTRAINT)
    blind = Incumbent(plain, worst_case(no_release(7), CONSTRAINT), CONSTRAINT.limit, complete=False)
    assert blind.noise == plain
    rows = np.concatenate([CONSTRAINT.rows(counts) for counts in ConstraintGenerator(PROBLEM).blocks()])
    held = blind.with_rows(rows)
    assert held.worst.value == pytest.approx(whole.value, rel=1e-12)
    assert held.worst.bound >= held.worst.value
    complete = Incumbent(plain, whole, CONSTRAINT.limit, complete=True)
    assert complete.with_rows(2 * rows) is complete


def test_stages_end_at_the_tolerance_or_without_cuts() -> None:
    small, large = PROBLEM, Problem.from_allowance(501, 3, 0.1)
    exact, *others = schedule(small, "free", 1e-6)
    assert (exact.gap, exact.complete, others) == (0.0, True, [])
    for shape in ("free", "monotone"):
        stages = schedule(large, shape, 1e-4)
        assert all(0 < each.gap < 1e-4 for each in stages)
        assert stages[-1].complete
        assert all(not before.complete or after.complete for before, after in pairwise(stages))
    for K, affected in ((201, 150), (MAX_PASSED_K + 1, None)):
        (bounding,) = schedule(Problem.from_allowance(K, 3, 0.1, 0.45, affected=affected), "free", 1e-4)
        assert bounding.bounding
    assert schedule(Problem.from_allowance(MAX_PASSED_K, 3, 0.1, 0.45), "free", 1e-4)[-1].complete


@pytest.mark.skipif(kernel() is None, reason="NumPy searches the faces completely")
@pytest.mark.parametrize("spacing", [1, 8])
def test_a_search_near_the_faces_finds_the_worst_of_one_kind_per_side(spacing: int) -> None:
    """Against enumeration: one kind of voters away from the ends per side, and all undecided voters at one corner."""
    problem = Problem.from_allowance(9, 1.5, 0.5, 0.3)
    constraint = PrivacyConstraint.of(problem)
    noise = NoiseFunction(np.array([0.9, 0.2, 0.8, 0.1, 0.7, 0.7, 0.1, 0.8, 0.2, 0.9]))
    blocks = [(counts, constraint.values(noise.signed, counts)) for counts in ConstraintGenerator(problem).blocks()]
    every, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    sits = (every[:, [DOWN, UP_TO_ONE]].min(axis=1) == 0) & (every[:, [DOWN_FROM_ONE, UP]].min(axis=1) == 0)
    sits &= (every[:, [XY, YX]].min(axis=1) == 0) & (every[:, [XY, YX]].max(axis=1) % spacing == 0)
    found = worst_case_near_faces(noise, constraint, above=0.4, most=1000, spacing=spacing)
    assert found.value == pytest.approx(values[sits].max(), rel=1e-12)
    assert (found.cuts[:, [XY, YX]].max(axis=1) % spacing == 0).all()
    near_one = every[:, [ONE, UP_TO_ONE, DOWN_FROM_ONE]].sum(axis=1)
    passed = found.cuts[found.cuts[:, [XY, YX]].sum(axis=1) * 0.3 < 9 * 0.3 - MAX_SIEVED_MEAN]
    assert len(passed) >= 3
    for cut in passed:  # each is the worst with its numbers of undecided voters and of voters near 1
        alike = sits & (every[:, XY] == cut[XY]) & (every[:, YX] == cut[YX])
        alike &= near_one == cut[[ONE, UP_TO_ONE, DOWN_FROM_ONE]].sum()
        assert (every[alike] == cut).all(axis=1).any()
        own = constraint.values(noise.signed, cut[np.newaxis])[0]
        assert own == pytest.approx(values[alike].max(), rel=1e-12)


def test_an_incumbent_of_a_partial_search_does_not_end_a_stage() -> None:
    problem = Problem.from_allowance(41, 1.5, 0.5, 0.3)
    constraint = PrivacyConstraint.of(problem)
    goal = CanonicalGoal(as_objective("rectangular").linear_goal(41), constraint.entries)
    loop = CuttingPlanes(
        constraint, goal, MasterProgram(constraint, goal.goal, "free", "highs"), SolveClock(None), None
    )
    plain = NoiseFunction(np.ones(42))
    loop.incumbent = Incumbent(plain, worst_case(no_release(41), constraint), constraint.limit, False, partial=True)
    stage = Stage(gap=1e-3, max_cuts=20, min_distance=2.0, complete=False, step=0.5, spacing=8)
    assert loop.gap <= stage.gap  # the searched part shows no violation
    assert not loop._reaches_gap(stage)
    assert not loop.incumbent.partial
    assert loop.incumbent.worst.value > constraint.limit
    assert loop.program.rows > 0


def test_some_columns_of_the_faces_are_searched_first_only_if_searches_take_passes() -> None:
    near_faces, proving = schedule(Problem.from_allowance(401, 1.5, 1.0, 0.1), "free", 1e-6)
    assert near_faces.spacing == proving.spacing == FACE_SPACING
    assert proving.faces_first
    for problem, shape in (
        (Problem.from_allowance(401, 3, 0.1, 1e-4), "free"),
        (Problem.from_allowance(401, 3, 0.1, 0.1), "monotone"),
    ):
        assert all(stage.spacing == 1 and not stage.faces_first for stage in schedule(problem, shape, 1e-6))


@pytest.mark.skipif(kernel() is None, reason="NumPy takes a minute")
def test_the_last_incumbent_of_a_stage_is_searched_completely() -> None:
    """A search that stops at a cut overrates its γ: this solve once ended at twice its tolerance."""
    solution = solve(Problem.from_allowance(151, 18.875, 0.1, 0.01, delta=0.0))
    assert solution.status is Status.OPTIMAL
    assert solution.gap < 1e-6


@pytest.mark.skipif(kernel() is None, reason="NumPy takes seconds")
def test_an_exact_stage_of_few_voters_that_is_interrupted_ends_without_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = Problem.from_allowance(61, 3, 0.1, 0.1)
    (stage,) = schedule(problem, "free", 1e-6)
    assert stage.later is not None
    assert (stage.later.gap, stage.later.complete, stage.later.step, stage.later.faces_first) == (0.0, True, 1.0, True)
    whole = solve(problem)
    monkeypatch.setattr(cutting_planes, "MAX_ITERATIONS_PER_VOTER", 0)
    solution = solve(problem)
    assert solution.gamma == pytest.approx(whole.gamma, abs=1e-9)
    assert solution.certificate.method == whole.certificate.method == "complete"
    assert solution.statistics.rows < whole.statistics.rows


def test_a_clock_without_a_limit_never_stops() -> None:
    clock = SolveClock(None)
    assert (clock.deadline, clock.remaining, clock.remaining_for_fallback) == (math.inf, None, None)
    clock.check()
    clock.begin_proof()
    assert clock.proof_deadline == math.inf


def test_a_clock_stops_searches_at_the_limit_and_the_proof_after_its_grace_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    clock = SolveClock(2.0)
    inner = SolveClock(1.0, clock)
    now[0] = 101.5
    clock.check()
    with pytest.raises(TimeLimitReached):
        inner.check()
    inner.begin_proof()
    assert inner.proof_deadline == 101.5 + MIN_GRACE
    assert clock.remaining_for_fallback == clock.remaining == 0.5
    clock.proof_deadline = inner.proof_deadline
    now[0] = 101.7
    clock.begin_proof()  # has begun: no time is added
    assert clock.proof_deadline == 101.5 + MIN_GRACE
    assert clock.remaining_for_fallback == pytest.approx((101.5 + MIN_GRACE - 101.7) / 2)
    assert SolveClock(1.0, clock).proof_deadline == clock.proof_deadline
    with clock.measure("search"):
        now[0] += 0.25
    assert clock.seconds["search"] == 0.25
