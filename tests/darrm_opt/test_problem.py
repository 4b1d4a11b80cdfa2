"""Problems: canonical numbers, equality, refusals and warnings."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.refusals import refused, refuses
from support.strategies import ProblemCase, problem_cases

from darrm_opt import DarrmError, InvalidInput, Privacy, Problem
from darrm_opt.decimals import DELTA_GRID_FROM, GRID_DIGITS
from darrm_opt.problem import MAX_TARGET_EPSILON, NOT_PRIVATE, TargetProfile
from darrm_opt.record import canonical_json, problem_record

ALLOWANCES = [0.25, 0.5, 1, 1.5, 2, 3, 4.5, 5, 7, 11, 20]


def problem(**changes: Any) -> Problem:
    usual: dict[str, Any] = {"K": 11, "m": 3, "epsilon": 0.1, "Delta": 1e-5}
    return Problem.from_allowance(**(usual | changes))


def target(epsilon: float, delta: float = 0.0) -> Privacy:
    return Problem(11, Privacy(0.1, 1e-5), Privacy(epsilon, delta)).target


def voter(epsilon: float, Delta: float = 0.0) -> Privacy:
    return Problem(11, Privacy(epsilon, Delta), Privacy(0.3)).voter


# ---------------------------------------------------------------------------------------- canonical numbers


@for_each(
    ("noisy", "clean"), [(3 * 0.1, 0.3), (0.7 - 0.4, 0.3), (0.1 + 0.2, 0.3), (1.1 * 3, 3.3), (11 * 0.0892, 0.9812)]
)
def test_floating_point_noise_is_removed(noisy: float, clean: float) -> None:
    assert noisy != clean
    assert target(noisy).epsilon == voter(noisy).epsilon == clean
    assert Problem(5, Privacy(noisy), Privacy(clean)) == Problem(5, Privacy(clean), Privacy(noisy))


@for_each("epsilon", [1e-4, 0.0852, 1 / 3, 4.0])
@for_each("m", ALLOWANCES)
def test_the_target_epsilon_is_the_same_number_however_it_is_computed(epsilon: float, m: float) -> None:
    product = m * epsilon
    summed = sum([epsilon] * int(m)) + (m - int(m)) * epsilon
    quotient = epsilon / (1 / m)
    assert target(product).epsilon == target(summed).epsilon == target(quotient).epsilon


def plainly(Delta: float, m: float) -> float:
    """Return 1 − (1−Δ)^m by the plain formula, with its cancellation."""
    return 1 - math.pow(1 - Delta, m)


@for_each("Delta", [1e-5, 1e-4])
@for_each("m", [1, 3, 5, 7, 10, 13, 15])
def test_the_papers_default_delta_is_the_same_number_however_it_is_computed(Delta: float, m: float) -> None:
    without_cancellation = -math.expm1(m * math.log1p(-Delta))
    assert target(1.0, plainly(Delta, m)) == target(1.0, without_cancellation)
    default = problem(m=m, Delta=Delta)
    assert default == problem(m=m, Delta=Delta, delta=plainly(Delta, m))
    assert default.target.delta == pytest.approx(without_cancellation, abs=1e-12, rel=1e-6)


def test_the_default_delta_is_nearly_always_the_same_number_however_it_is_computed() -> None:
    # Two numbers on both sides of an edge of the grid stay different; this should be rare.
    rng = np.random.default_rng(20)
    pairs = [(float(f"{10 ** rng.uniform(-8, -0.6):.2e}"), float(rng.choice(ALLOWANCES))) for _ in range(1000)]
    apart = [(D, m) for D, m in pairs if problem(Delta=D, m=m, delta=plainly(D, m)) != problem(Delta=D, m=m)]
    assert len(apart) <= 10, apart


def test_cancellation_in_a_tiny_Delta_is_not_noise() -> None:
    # The values differ in the fifth digit of δ: they are two requests.
    assert target(1.0, 1 - (1 - 1e-12) ** 3) != target(1.0, 3e-12)
    assert target(1.0, 3e-12).delta == 3e-12


@for_each("value", [0.1234567890123, 0.12345678901234, 1 / 3, 2 / 3, math.pi / 4])
def test_other_numbers_are_rounded_towards_the_stronger_guarantee(value: float) -> None:
    assert voter(value).epsilon >= value >= target(value).epsilon
    assert voter(value).epsilon - target(value).epsilon == pytest.approx(10.0**-GRID_DIGITS, rel=1e-3, abs=0)
    tiny = value * 1e-10
    assert voter(1.0, tiny).delta >= tiny >= target(1.0, tiny).delta
    assert voter(1.0, tiny).delta - target(1.0, tiny).delta == pytest.approx(
        10.0 ** (-GRID_DIGITS - 10), rel=1e-3, abs=0
    )


@given(st.floats(1e-9, 0.99))
def test_the_Delta_of_a_voter_is_never_rounded_down_by_more_than_noise(Delta: float) -> None:
    # the total of several models is computed from it, without a margin for rounding
    assert voter(0.1, Delta).delta >= Delta * (1 - 256 * 2.0**-52)
    assert voter(0.1, 1.00004e-9).delta == 1.0001e-9


@given(problem_cases())
def test_a_canonical_problem_is_unchanged(case: ProblemCase) -> None:
    once = case.problem
    assert Problem(once.K, once.voter, once.target, once.affected) == once
    for number in (once.voter.epsilon, once.voter.delta, once.target.epsilon, once.target.delta):
        if 0 < number < math.inf:
            assert len(Decimal(repr(number)).normalize().as_tuple().digits) <= 15


@given(problem_cases())
def test_numbers_lie_between_the_strictest_and_the_loosest_reading_of_their_problem(case: ProblemCase) -> None:
    strict, loose = case.problem.strictest, case.problem.loosest
    assert strict.voter.epsilon >= case.epsilon
    assert strict.voter.delta >= case.Delta
    assert strict.target.epsilon <= case.target_epsilon
    assert strict.target.delta <= case.delta
    assert strict.voter.epsilon == case.epsilon or case.epsilon > 0  # an exact 0 remains 0
    assert strict.voter.delta == case.Delta or case.Delta > 0
    assert loose.voter.epsilon <= case.epsilon
    assert loose.voter.delta <= case.Delta
    assert loose.target.epsilon >= case.target_epsilon
    assert loose.target.delta >= case.delta
    assert (loose.voter.delta > 0) == (case.Delta > 0)
    assert loose.target.epsilon == 0 or case.target_epsilon > 0


@given(st.integers(1, 10**GRID_DIGITS - 1), st.integers(-30, 2), st.integers(-400, 400))
def test_the_strictest_reading_covers_numbers_at_the_edge_of_the_noise(digits: int, exponent: int, ulps: int) -> None:
    grid_point = float(Decimal(digits).scaleb(exponent - GRID_DIGITS))
    near = grid_point + ulps * math.ulp(grid_point)
    released = Problem(3, Privacy(near), Privacy(near)).strictest
    assert released.target.epsilon <= near <= released.voter.epsilon
    assert released.voter.epsilon <= near * (1 + 1.1 * 10.0 ** (1 - GRID_DIGITS))  # by a tiny margin
    assert released.target.epsilon >= near * (1 - 1.1 * 10.0 ** (1 - GRID_DIGITS))


@given(st.one_of(st.floats(1e-18, 0.999), st.just(DELTA_GRID_FROM)), st.integers(-80, 80))
def test_the_strictest_reading_covers_any_delta(delta: float, ulps: int) -> None:
    near = float(Decimal(delta).quantize(Decimal("1e-15"))) + ulps * 2.0**-54
    for value in (delta, near):
        if not 0 < value < 1:
            continue
        strict = Problem(3, Privacy(1.0, value), Privacy(1.0, value)).strictest
        assert strict.target.delta <= value <= strict.voter.delta
        assert strict.voter.delta - strict.target.delta <= max(4e-13, 1.1e-11 * value)  # by a tiny margin


@for_each("delta", [1 - 2.0**-53, 1 - 1e-15, 0.999999999999999])
def test_a_delta_near_1_stays_below_1(delta: float) -> None:
    strict = Problem(3, Privacy(0.1, delta), Privacy(0.1, delta)).strictest
    assert 0.999 < strict.target.delta <= delta <= strict.voter.delta < 1
    for m in (90, 101, 201):
        assert 0.999 < Problem.from_allowance(201, m, 0.1, 0.3).target.delta < 1


def test_zero_is_exactly_zero() -> None:
    strict = Problem(3, Privacy(0.0, 0.1), Privacy(0.0, 0.0)).strictest
    assert (strict.voter.epsilon, strict.target.epsilon, strict.target.delta) == (0.0, 0.0, 0.0)
    assert math.copysign(1, Privacy(-0.0, -0.0).epsilon) == math.copysign(1, Privacy(-0.0, -0.0).delta) == 1
    assert Problem(3, Privacy(0.1), Privacy(0.1)).strictest.voter.delta == 0.0


def test_voters_that_are_not_private_need_no_Delta() -> None:
    assert Problem(3, Privacy(math.inf, 0.2), Privacy(0.3)) == Problem(3, Privacy(math.inf), Privacy(0.3))
    assert Problem(3, Privacy(math.inf), Privacy(0.3)).strictest.voter == Privacy(math.inf, 0.0)


# --------------------------------------------------------------------------------------------- problems


def test_both_constructors_make_the_same_problem() -> None:
    assert problem(delta=3e-5) == Problem(K=11, voter=Privacy(0.1, 1e-5), target=Privacy(0.3, 3e-5))
    assert problem(m=None, target_epsilon=0.3, delta=3e-5) == problem(delta=3e-5)
    assert problem(affected=11) == problem(affected=None) == problem()


def test_equal_problems_have_equal_hashes_and_others_differ() -> None:
    same = {Problem(11, Privacy(0.1), Privacy(3 * 0.1)), Problem(11, Privacy(0.1), Privacy(0.3))}
    assert len(same) == 1
    others = [
        problem(K=12),
        problem(m=4),
        problem(epsilon=0.2),
        problem(Delta=1e-6),
        problem(delta=0.1),
        problem(affected=2),
    ]
    assert len({problem(), *others}) == len(others) + 1


@for_each("m", ALLOWANCES)
def test_the_allowance_is_recovered(m: float) -> None:
    assert problem(m=m).m == m


@pytest.mark.parametrize("epsilon", [0.0, math.inf])
def test_m_is_none_if_it_is_undefined(epsilon: float) -> None:
    asked = problem(m=None, epsilon=epsilon, target_epsilon=0.5, Delta=0.01)
    assert (asked.m, asked.target.delta) == (None, 0.01)  # by default one voter's Δ


@pytest.mark.parametrize("epsilon", [5e-324, 1e-310, 2e-309])
@pytest.mark.parametrize("Delta", [0.0, 0.3])
def test_m_is_none_if_no_double_represents_it(epsilon: float, Delta: float) -> None:
    tiny = problem(K=3, m=None, epsilon=epsilon, Delta=Delta, delta=None, target_epsilon=0.6)
    assert (tiny.m, tiny.target.delta) == (None, Delta)
    assert json.loads(canonical_json(problem_record(tiny)))["m"] is None


NOISY = [0.1, 0.05, 0.1]


def test_an_almost_useless_gamma_has_a_warning_if_delta_is_below_Delta() -> None:
    assert problem(delta=1e-6).warnings(NOISY) == (
        (
            "delta = 1e-06 is below Delta = 1e-05, and the release is hardly more than a fair coin: it is the majority with "
            "probability 0.55 at most. Were the two swapped?"
        ),
    )
    assert problem().warnings(NOISY) == ()
    assert problem(m=None, epsilon=math.inf, target_epsilon=0.1, delta=0.0).warnings(NOISY) == ()
    assert problem(m=1, epsilon=1 / 3, Delta=1e-10 / 3).warnings(NOISY) == ()  # δ and Δ are the same number


def test_a_useful_gamma_has_no_warning() -> None:
    assert problem(delta=1e-6).warnings([0.9, 0.2, 0.9]) == ()


# --------------------------------------------------------------------------------------------------- refusals


REFUSED: list[tuple[str, dict[str, Any]]] = [  # the refused argument, and the change
    *(("K", {"K": K}) for K in (0, -3, 2.5, "a", True, 11.0, None)),
    *(("epsilon", {"epsilon": value}) for value in (-0.1, math.nan, -math.inf, "a", True)),
    *(("Delta", {"Delta": value}) for value in (-1e-9, 1.0, 1.5, math.inf)),
    *(("delta", {"delta": value}) for value in (-1e-9, 1.0, math.nan, "x")),
    *(("m", {"m": value}) for value in (0, -1, math.nan, math.inf, "3", True, None)),
    *(("affected", {"affected": value}) for value in (0, 2.0, 12)),
    *(
        ("m", change)
        for change in ({"epsilon": math.inf}, {"epsilon": 0, "target_epsilon": 0.3}, {"target_epsilon": 0.3})
    ),
    *(("target_epsilon", {"epsilon": value, "m": None}) for value in (0.0, math.inf)),
    ("target_epsilon", {"m": None, "target_epsilon": -1}),
    ("target_epsilon", {"m": 6000}),
    *(("target_epsilon", {"m": None, "target_epsilon": math.inf, **voter}) for voter in ({}, {"Delta": 0.0})),
    ("epsilon", {"epsilon": 0.0, "Delta": 0.0, "m": None, "target_epsilon": 0.1}),
    *((name, {name: 10**400}) for name in ("epsilon", "m", "delta")),  # above all doubles
]


@for_each(("argument", "changes"), REFUSED)
def test_invalid_problem_is_refused(argument: str, changes: dict[str, Any]) -> None:
    with refused(argument) as refusal:
        problem(**changes)
    assert isinstance(refusal.value, DarrmError)
    assert isinstance(refusal.value, ValueError)


def test_voter_and_target_must_be_a_privacy() -> None:
    refuses(Problem, {"K": 11, "voter": Privacy(0.1), "target": Privacy(0.3)}, voter=[(0.1, 0.0)], target=[(0.1, 0.0)])
    assert Problem(3, Privacy(1.0), Privacy(MAX_TARGET_EPSILON)).target.epsilon == MAX_TARGET_EPSILON


def test_a_refusal_has_the_argument_value_accepted_range_and_advice() -> None:
    with pytest.raises(InvalidInput) as refusal:
        problem(affected=12)
    error = refusal.value
    assert (error.argument, error.value, error.accepted) == ("affected", 12, "at most K = 11 voters")
    assert error.advice == "A record cannot influence more voters than there are."


# ------------------------------------------------------------------------------------------- the loosest reading


@given(st.floats(1e-18, 0.999), st.floats(1e-12, 400))
def test_the_loosest_reading_covers_the_step_of_the_grid(delta: float, epsilon: float) -> None:
    asked = Problem(3, Privacy(epsilon, delta), Privacy(epsilon, delta)).loosest
    assert asked.voter.epsilon <= epsilon <= asked.target.epsilon
    assert asked.voter.delta <= delta <= asked.target.delta
    assert asked.target.epsilon - asked.voter.epsilon <= 5e-11 * epsilon  # by a tiny margin
    assert asked.target.delta - asked.voter.delta <= max(6e-13, 5e-11 * delta)


# -------------------------------------------------------------------------------- another K, kinds of numbers


def test_with_another_K_all_voters_remain_affected_if_all_were() -> None:
    all_of_them, some = problem(K=11), problem(K=11, affected=4)
    assert dataclasses.replace(all_of_them, K=13) == problem(K=13)
    assert dataclasses.replace(all_of_them, K=7).affected == 7
    assert dataclasses.replace(dataclasses.replace(all_of_them, K=7), K=13).affected == 13
    assert dataclasses.replace(problem(K=11, affected=11), K=13).affected == 13  # 11 of 11 are all
    assert dataclasses.replace(some, K=13).affected == 4
    assert dataclasses.replace(all_of_them, K=13, affected=11).affected == 11
    assert dataclasses.replace(all_of_them, target=Privacy(0.2)).affected == 11


def test_all_affected_voters_are_an_ordinary_integer() -> None:
    known, copied = problem(), copy.deepcopy(problem())
    assert known == copied == problem(affected=11)
    assert hash(known) == hash(copied) == hash(problem(affected=11))
    assert (repr(known.affected), json.dumps(known.affected), known.affected + 1) == ("11", "11", 12)
    assert dataclasses.replace(copied, K=13).affected == 13
    assert known.strictest.affected == known.loosest.affected == 11


@for_each("number", [Decimal("0.3"), np.array(0.3), np.float32(0.5), np.array(1, dtype=np.int32), Fraction(1, 4)])
def test_numbers_of_any_type_are_accepted(number: Any) -> None:
    assert Privacy(number) == Privacy(float(number))
    eleven: Any = np.array(11)
    assert Problem(eleven, Privacy(number), Privacy(number)).K == 11


@for_each(
    "number",
    [Decimal("nan"), Decimal("sNaN"), Decimal(-1), np.array([0.3]), np.array(True), np.array("0.3"), np.bool_(True)],
)
def test_invalid_numbers_are_refused_in_every_container(number: Any) -> None:
    with refused("epsilon"):
        Privacy(number)


def test_a_target_profile_is_not_accepted_as_a_voter() -> None:
    # targets are rounded towards privacy: a voter with δ = 0.01 + 1e-15 is not (ε, 0.01)-DP
    several = TargetProfile([(0.1, 0.01 + 1e-15), (0.4, 1e-5)])
    with refused("voter"):
        Problem(3, several, Privacy(0.5))
    with refused("voter"):
        Problem(groups=[(3, several)], target=Privacy(0.5))


def test_another_target_changes_nothing_else() -> None:
    asked = Problem(5, Privacy(0.1, 1e-4), Privacy(0.3, 1e-3), 2, classes=3, abstention=True)
    other = asked.with_allowance(2, 1e-3)
    assert other == dataclasses.replace(asked, target=Privacy(0.2, 1e-3))
    public = Problem(5, NOT_PRIVATE, Privacy(0.3, 1e-3), 2, classes=4)
    assert public.with_allowance(0.4, 1e-3) == dataclasses.replace(public, target=Privacy(0.4, 1e-3))
