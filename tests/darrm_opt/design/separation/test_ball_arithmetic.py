"""Verification in ball arithmetic: against decimals with 70 digits, and against the search in doubles."""

from __future__ import annotations

import math
import sys
from decimal import Decimal

import numpy as np
import pytest
from support.cases import for_each
from support.exact import Voters, precise, random_multiset
from support.searches import enumerated_worst_case
from support.strategies import ProblemCase, random_case, random_noise

from darrm_opt import BackendUnavailable, NotPrivate, NotProven, Privacy, Problem, certify, solve, verify
from darrm_opt.design.constraint import LABELS, PrivacyConstraint
from darrm_opt.design.separation.ball_arithmetic import BallConstraint, ball_worst_case
from darrm_opt.design.separation.oracle import worst_case

SMALL = [random_case(np.random.default_rng((seed, 21)), (1, 2, 3, 4, 5, 6)) for seed in range(40)]
LARGER = [random_case(np.random.default_rng((seed, 22))) for seed in range(40)]


def as_counts(voters: dict[str, int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([voters.get(label, 0) for label in LABELS], dtype=np.int64)


@for_each("case", LARGER)
def test_values_agree_with_70_digits(case: ProblemCase) -> None:
    rng = np.random.default_rng(case.K)
    problem = case.problem
    ball, exact = BallConstraint(problem), Voters.of(problem.strictest)
    for _ in range(3):
        noise, voters = random_noise(rng, problem.K), random_multiset(rng, problem)
        value = ball.value_at(noise, as_counts(voters), ball.vertices()) - ball.limit
        true = exact.excess(noise.values, voters)
        with precise():
            middle, radius = Decimal(value.mid().str(60, radius=False)), Decimal(value.rad().str(5, radius=False))
            assert radius < Decimal("1e-50")
            assert abs(middle - true) < Decimal("1e-50")
        if abs(true) > Decimal("1e-50"):
            assert (value <= 0) == (true <= 0)
            assert (value > 0) == (true > 0)


@for_each("case", SMALL)
def test_the_worst_case_agrees_with_enumeration_in_doubles(case: ProblemCase) -> None:
    problem = case.problem
    noise = random_noise(np.random.default_rng(case.K), problem.K)
    constraint = PrivacyConstraint.of(problem)
    true = enumerated_worst_case(noise, problem)
    found = ball_worst_case(noise, problem)
    error = constraint.error(float(noise.values.max()))
    assert abs(found.value - true.value) <= 3 * error + 1e-15
    assert found.value <= found.bound <= found.value + 4 * max(math.ulp(found.bound), 5e-324)
    assert found.method == "ball"
    assert found.counts.sum() == problem.K
    assert Voters.of(problem.strictest).phi(
        noise.values, dict(zip(LABELS, map(int, found.counts), strict=False))
    ) <= Decimal(found.bound)


def test_only_noise_meets_a_limit_of_0() -> None:
    problem = Problem(3, Privacy(math.inf), Privacy(0.0))
    assert verify(problem, np.zeros(4), arithmetic="ball").margin == 0


@for_each("case", SMALL)
def test_a_certificate_in_doubles_holds_in_balls(case: ProblemCase) -> None:
    problem = case.problem
    solution = solve(problem)
    certificate = verify(problem, solution.gamma, arithmetic="ball")
    assert certificate.method == "ball"
    assert certificate.margin >= solution.certificate.margin - 1e-15
    for kind in ("uniform", "majority", "alternating"):
        noise, _ = certify(problem, random_noise(np.random.default_rng(case.K), problem.K, kind))
        assert verify(problem, noise, arithmetic="ball").margin >= 0


@for_each("case", SMALL)
def test_both_arithmetics_refuse_the_same(case: ProblemCase) -> None:
    problem = case.problem
    noise = random_noise(np.random.default_rng((case.K, 5)), problem.K, "uniform")
    try:
        accepted = verify(problem, noise).margin >= 0
    except NotProven:
        return
    except NotPrivate:
        accepted = False
    if accepted:
        assert verify(problem, noise, arithmetic="ball").margin >= 0
    else:
        with pytest.raises(NotPrivate):
            verify(problem, noise, arithmetic="ball")


def test_balls_decide_cases_that_doubles_leave_open() -> None:
    problem = Problem.from_allowance(K=5, m=0.5, epsilon=0.1)
    noise, constraint = solve(problem).noise, PrivacyConstraint.of(problem)
    found = worst_case(noise, constraint, above=-math.inf)
    touching = noise.values * (constraint.limit / found.value)
    with pytest.raises(NotProven):
        verify(problem, touching)
    decided = {True: 0, False: 0}
    for shift in (-5e-15, -2e-15, 2e-15, 5e-15):
        shifted = touching * (1 + shift)
        with pytest.raises(NotProven):
            verify(problem, shifted)
        try:
            decided[verify(problem, shifted, arithmetic="ball").margin >= 0] += 1
        except NotPrivate:
            decided[False] += 1
    assert decided == {True: 2, False: 2}


@pytest.mark.parametrize(("K", "epsilon"), [(21, 0.1), (24, math.inf)])
def test_many_voters_without_Delta(K: int, epsilon: float) -> None:
    problem = Problem(K, Privacy(epsilon), Privacy(0.5, 1e-4), 5)
    solution = solve(problem)
    assert verify(problem, solution.gamma, arithmetic="ball").margin >= solution.certificate.margin - 1e-15


def test_doubles_are_exact_rationals_and_results_are_rounded_outward() -> None:
    problem = Problem.from_allowance(K=3, m=1, epsilon=0.1, Delta=0.01)
    ball = BallConstraint(problem)
    assert ball.exact(0.1) * 2**55 == 3602879701896397
    assert (ball.x + ball.y - 1).contains(0)
    assert float(ball.q.rad()) < 1e-60
    found = ball_worst_case(random_noise(np.random.default_rng(1), 3), problem)
    assert found.bound > found.value  # the doubles on both sides of a number that is not a double


def test_without_flint_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(
        BackendUnavailable,
        match=r"^arithmetic = 'ball' needs the package python-flint, which is not installed: pip install 'darrm-opt\[exact\]'\.$",
    ):
        verify(Problem.from_allowance(K=3, m=1, epsilon=0.1), np.zeros(4), arithmetic="ball")


@for_each("epsilon", [1e16, 1e19, 1e21, 1e300])
@for_each("Delta", [0.0, 0.1])
def test_voters_with_an_epsilon_that_overflows_are_almost_not_private(epsilon: float, Delta: float) -> None:
    problem = Problem(3, Privacy(epsilon, Delta), Privacy(0.5))
    with pytest.raises(NotPrivate):
        verify(problem, [1.0] * 4, arithmetic="ball")
    noise, certificate = certify(problem, random_noise(np.random.default_rng(5), 3))
    assert verify(problem, noise, arithmetic="ball").bound == pytest.approx(certificate.bound, abs=1e-12)
