"""Certificates: accepted γ hold in exact arithmetic, refused ones violate the constraint there."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from support.cases import for_each
from support.exact import Voters, random_multiset
from support.kernels import PATHS, searched_by
from support.refusals import refused
from support.searches import separable_worst_case
from support.strategies import NOISES, ProblemCase, random_case, random_noise

from darrm_opt import (
    NoiseFunction,
    NotPrivate,
    NotProven,
    Privacy,
    Problem,
    __version__,
    certify,
    solve,
    verify,
)
from darrm_opt.design.backends import open_backend
from darrm_opt.design.certificate import scaled_worst_case
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.objective import rectangular
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.design.separation.result import search_error
from darrm_opt.noise import Array

CASES = [random_case(np.random.default_rng((seed, 11)), (1, 2, 3, 5, 6, 7, 9, 10, 13)) for seed in range(40)]
SMALL = [random_case(np.random.default_rng((seed, 12)), (1, 2, 3, 4, 5)) for seed in range(30)]


def excess(problem: Problem, noise: NoiseFunction | Array, voters: dict[str, int]) -> Decimal:
    """Return the violation of the constraint at a multiset, for the exact numbers of the problem."""
    return Voters.of(problem).excess(np.asarray(noise), voters)


def optimum(problem: Problem) -> NoiseFunction:
    noise: NoiseFunction = solve(problem).noise
    return noise


# ------------------------------------------------------------------------------------------- accepted γ


@for_each("case", CASES)
def test_every_solution_is_verified_from_gamma_and_from_json(case: ProblemCase) -> None:
    solution = solve(case.problem)
    assert solution.certificate.margin >= 0
    parsed = json.loads(json.dumps(solution.gamma.tolist()))
    assert np.array_equal(parsed, solution.gamma)
    certificate = verify(case.problem, parsed)
    assert certificate.margin >= 0
    assert verify(case.problem, NoiseFunction(parsed)) == verify(case.problem, np.array(parsed)) == certificate
    for voters in (certificate.worst_corners, solution.certificate.worst_corners):
        assert excess(case.problem, solution.noise, voters) <= 0
        assert Voters.of(case.problem.strictest).excess(solution.gamma, voters) <= 0


@for_each("case", CASES)
def test_the_fields_of_a_certificate_are_true(case: ProblemCase) -> None:
    problem = case.problem
    rng = np.random.default_rng(case.K)
    noise, certificate = certify(problem, random_noise(rng, problem.K))
    constraint = PrivacyConstraint.of(problem)
    assert certificate.method in {"complete", "monotone"}
    assert certificate.limit == constraint.limit
    assert certificate.margin == (certificate.limit - certificate.bound) / 2 >= 0
    assert certificate.bound >= certificate.worst_value + certificate.error_bound >= certificate.worst_value
    assert certificate.error_bound <= 1e-13 * problem.K
    assert certificate.version == __version__
    assert sum(certificate.worst_corners.values()) == problem.K
    assert set(certificate.worst_corners) <= set(constraint.corners.labels)
    strict = Voters.of(problem.strictest)
    assert strict.phi(noise.values, certificate.worst_corners) <= Decimal(certificate.bound)
    assert Decimal(certificate.limit) <= strict.limit()
    # half the slack of φ is that of probabilities: e^(−mε)·Pr[b|D] ≤ Pr[b|D′] + e^(−mε)·δ, with b = 1
    for _ in range(4):
        assert -strict.excess(noise.values, random_multiset(rng, problem)) / 2 >= Decimal(certificate.margin)


@for_each("case", CASES)
def test_the_repair_keeps_a_private_gamma_and_scales_others(case: ProblemCase) -> None:
    problem = case.problem
    rng = np.random.default_rng(case.K)
    for kind in NOISES:
        given = random_noise(rng, problem.K, kind)
        repaired, certificate = certify(problem, given)
        assert certificate.margin >= 0
        assert np.all(repaired.values <= given.values)
        if repaired != given:
            with pytest.raises(NotPrivate):
                verify(problem, given)
            if (top := given.values.max()) > 1e-290 and repaired.values.max() > 1e-290:
                scale = repaired.values.max() / top
                assert repaired.values == pytest.approx(scale * given.values, rel=1e-12, abs=1e-300)
        else:
            assert verify(problem, given).margin >= 0
        assert certify(problem, repaired)[0] == repaired  # repairing again changes nothing


@for_each("case", SMALL)
def test_the_repair_loses_no_more_than_rounding(case: ProblemCase) -> None:
    problem = case.problem
    given = random_noise(np.random.default_rng(case.K), problem.K, "uniform")
    constraint = PrivacyConstraint.of(problem)
    worst = worst_case(given, constraint, above=-math.inf)
    repaired, _ = certify(problem, given)
    if worst.value > constraint.limit > 0:
        best = constraint.limit / worst.value
        lost = best * given.values.max() - repaired.values.max()
        assert lost <= 8 * constraint.error(1.0) / worst.value


@for_each("case", SMALL)
def test_the_search_of_gamma_proves_the_scaled_gamma(case: ProblemCase) -> None:
    """The implied bound covers all multisets in exact arithmetic, for the stored doubles of the scaled γ."""
    problem, rng = case.problem, np.random.default_rng((case.K, 13))
    constraint = PrivacyConstraint.of(problem)
    voters = Voters.of(problem.strictest)
    every = [row for block in ConstraintGenerator(problem).blocks() for row in block]
    proved, violated = 0, 0
    for kind in NOISES:
        given = random_noise(rng, problem.K, kind)
        found = worst_case(given, constraint, above=-math.inf)
        violated += found.value > max(constraint.limit, 1e-9)
        if not constraint.limit < found.bound:
            continue
        room = constraint.limit - 3 * search_error(constraint, float(given.values.max()))
        scale = max(0.0, room / found.bound) * (1 - 2.0**-51)
        scaled = NoiseFunction(given.values * scale)
        implied = scaled_worst_case(given, found, scaled, scale, constraint)
        if implied is None:
            continue
        proved += 1
        assert implied.bound <= constraint.limit
        for row in [every[i] for i in rng.integers(0, len(every), 20)] + [found.counts]:
            assert voters.phi(scaled.values, constraint.corners.named(row)) <= Decimal(implied.bound)
        again = worst_case(scaled, constraint)
        assert (again.bound, again.value) == pytest.approx((implied.bound, implied.value), abs=1e-12)
        assert again.method == implied.method
        # a loose bound, or one of an incomplete search, implies nothing
        for poor in ({"bound": found.bound + 1e-6}, {"method": "estimate"}, {"method": "first-order"}):
            assert scaled_worst_case(given, dataclasses.replace(found, **poor), scaled, scale, constraint) is None
    assert proved or not violated or constraint.limit < 0.01


def test_a_solution_takes_one_search_and_its_proof_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = []

    def counted(*args: Any, **options: Any) -> Any:
        searches.append(args)
        return worst_case(*args, **options)

    for module in ("certificate", "cutting_planes", "solver"):
        monkeypatch.setattr(f"darrm_opt.design.{module}.worst_case", counted)
    for K, Delta in ((7, 0.0), (11, 1e-5), (11, 1e-2), (21, 0.0)):
        problem = Problem.from_allowance(K=K, m=3, epsilon=0.1, Delta=Delta)
        searches.clear()
        solution = solve(problem)
        assert len(searches) == solution.statistics.rounds
        proof = verify(problem, solution.gamma)
        assert proof.bound == pytest.approx(solution.certificate.bound, abs=3e-12)
        assert proof.worst_value == pytest.approx(solution.certificate.worst_value, abs=1e-12)
        assert proof.method == solution.certificate.method


def test_a_scale_that_was_too_large_shrinks_until_it_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soundness does not depend on the allowance for rounding: if it is too small, the search detects that."""
    problem, given = Problem.from_allowance(K=5, m=2, epsilon=0.1), NoiseFunction(np.ones(6))
    usual, _ = certify(problem, given)
    monkeypatch.setattr("darrm_opt.design.certificate.search_error", lambda *_: -1e-9)
    repaired, certificate = certify(problem, given)
    assert certificate == verify(problem, repaired)
    assert 1 - 1e-6 < repaired.values.max() / usual.values.max() <= 1 + 1e-12


def test_if_no_scale_can_be_proved_gamma_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.from_allowance(K=5, m=2, epsilon=0.1)
    monkeypatch.setattr("darrm_opt.design.certificate.search_error", lambda *_: 1.0)
    repaired, certificate = certify(problem, NoiseFunction(np.ones(6)))
    assert not repaired.values.any()
    assert certificate == verify(problem, np.zeros(6))


@for_each("case", CASES)
@for_each("arithmetic", ["float", "ball"])
def test_gamma_0_is_always_private(case: ProblemCase, arithmetic: Any) -> None:
    problem = case.problem
    if arithmetic == "ball" and problem.voter.delta > 0 and problem.K > 5:
        problem = Problem(5, problem.voter, problem.target, min(5, problem.affected))
    certificate = verify(problem, np.zeros(problem.K + 1), arithmetic=arithmetic)
    assert certificate.margin >= 0
    assert certificate.worst_value == pytest.approx(0.0, abs=1e-300)


# -------------------------------------------------------------------------------------------- refused γ


def binding(problem: Problem, noise: NoiseFunction) -> bool:
    """Return whether a slightly larger γ violates the constraint."""
    constraint = PrivacyConstraint.of(problem)
    found = worst_case(noise, constraint, above=-math.inf)
    return found.value >= constraint.limit * (1 - 1e-9) - 4 * constraint.error(1.0) and constraint.limit > 1e-5


def test_a_millionth_more_is_refused_if_the_constraint_binds() -> None:
    tried = 0
    for case in CASES:
        problem, noise = case.problem, optimum(case.problem)
        scaled = np.minimum(noise.values * (1 + 1e-6), 1.0)
        if not binding(problem, noise) or np.any(noise.values * (1 + 1e-6) > 1):
            continue
        with pytest.raises(NotPrivate) as refusal:
            verify(problem, scaled)
        assert excess(problem, scaled, refusal.value.worst) > 0
        assert not isinstance(refusal.value, NotProven)
        tried += 1
    assert tried >= 10


def plain(problem: Problem, solver: str) -> NoiseFunction | None:
    """Return the answer of a solver to the full program, only clipped to the box."""
    constraint, weights = PrivacyConstraint.of(problem), rectangular().weights(problem.K)
    rows = np.concatenate([constraint.rows(block) for block in ConstraintGenerator(problem).blocks()])
    limits = np.full(len(rows), constraint.limit)
    if solver == "default":
        answer = linprog(-weights, A_ub=rows, b_ub=limits, bounds=(0, 1), method="highs").x
    else:
        backend = open_backend("highs", constraint.entries)
        backend.add(rows, limits)
        answer = backend.solve(weights).upper_half
    return None if answer is None else NoiseFunction.from_upper_half(np.clip(answer, 0, 1), problem.K)


def refusal(problem: Problem, noise: NoiseFunction) -> NotPrivate | None:
    """Return why a γ is refused, or None if it is proved."""
    try:
        verify(problem, noise)
    except NotPrivate as refusal:
        return refusal
    return None


@pytest.mark.parametrize("solver", ["default", "tightest"])
def test_raw_solver_answers_are_refused_if_they_violate_the_constraint(solver: str) -> None:
    """At the default tolerances of HiGHS, and at the tightest ones (those of the backend)."""
    broken = 0
    for seed in range(120):
        problem = random_case(np.random.default_rng((seed, 13)), (3, 5, 6, 7, 8, 9)).problem
        noise = plain(problem, solver)
        if noise is None:
            continue
        why = refusal(problem, noise)
        if isinstance(why, NotProven):
            assert abs(excess(problem, noise, why.worst)) < Decimal("1e-11")
        elif why is not None:
            strict = Voters.of(problem.strictest).excess(noise.values, why.worst)
            assert strict > 0
            assert float(strict) / 2 == pytest.approx(why.excess, rel=1e-3, abs=1e-13)
            broken += excess(problem, noise, why.worst) > 0
            assert certify(problem, noise)[1].margin >= 0
    assert broken >= 3


@pytest.mark.parametrize("path", PATHS)
def test_voters_with_Delta_near_1_are_not_ignored(path: str) -> None:
    problem = Problem(60, Privacy(0.0, 1 - 1e-6), Privacy(5.0))
    upper = np.zeros(30)
    upper[0], upper[-1] = 0.1, (PrivacyConstraint.of(problem).limit + 1e-6) / (1 + math.exp(-5.0))
    noise = NoiseFunction.from_upper_half(upper, problem.K)
    assert excess(problem, noise, {"down": 60}) > 1e-7
    with searched_by(path), pytest.raises(NotPrivate):
        verify(problem, noise)


def test_a_refusal_states_the_multiset_and_the_excess() -> None:
    problem = Problem.from_allowance(K=3, m=1, epsilon=0.1)
    with pytest.raises(
        NotPrivate,
        match=(
            r"^gamma is not private\. Counterexample: all 3 voters answer 1 with probability 0\.5\d+ on the data and "
            r"0\.4\d+ on its neighbour; δ would have to be 0\.\d+ larger\. Design a private γ with `darrm solve`"
        ),
    ) as refusal:
        verify(problem, [1.0, 1.0, 1.0, 1.0])
    error = refusal.value
    assert sum(error.worst.values()) == 3
    assert excess(problem, np.ones(4), error.worst) > 0
    # `excess` is additional δ: with it the same γ is private
    needed = float(str(error).partition("have to be ")[2].partition(" ")[0])
    assert verify(Problem(3, problem.voter, Privacy(0.1, needed * 1.01)), np.ones(4)).margin >= 0
    with pytest.raises(NotPrivate):
        verify(Problem(3, problem.voter, Privacy(0.1, needed * 0.98)), np.ones(4))


def test_a_refusal_names_all_kinds_of_voters() -> None:
    with pytest.raises(
        NotPrivate,
        match=r"Counterexample: 1 voter answers 1 with probability 0 on the data and 0 on its neighbour, 1 voter answers "
        r"1 with probability 1 on the data and 1 on its neighbour, 1 voter answers 1 with probability 0\.5",
    ):
        verify(Problem(3, Privacy(0.1), Privacy(0.05), 1), np.ones(4))


def test_a_violation_of_the_strictest_reading_only_is_not_a_refutation() -> None:
    """Numbers that differ by input noise are the same problem; a γ that only the strictest forbids is not proved."""
    problem = Problem(11, Privacy(math.inf), Privacy(0.2676, 3e-4), 1)
    strict, nominal = PrivacyConstraint.of(problem), PrivacyConstraint.of(problem, nominal=True)
    assert nominal.limit - strict.limit > 4 * strict.error(1.0)  # else nothing lies between the two readings
    noise = optimum(problem)
    found = worst_case(noise, strict, above=-math.inf)
    between = strict.limit + 0.8 * (nominal.limit - strict.limit)
    with pytest.raises(NotProven, match="cannot be shown to be private"):
        verify(problem, noise.values * (between / found.value))
    beyond = strict.limit + 3 * (nominal.limit - strict.limit)
    with pytest.raises(NotPrivate, match="gamma is not private"):
        verify(problem, noise.values * (beyond / found.value))


def test_within_rounding_a_gamma_is_neither_proved_nor_refuted() -> None:
    problem = Problem.from_allowance(K=5, m=2, epsilon=0.1)
    noise = optimum(problem)
    constraint = PrivacyConstraint.of(problem)
    found = worst_case(noise, constraint, above=-math.inf)
    touching = noise.values * (constraint.limit / found.value)
    with pytest.raises(
        NotProven,
        match=(
            r"^gamma cannot be shown to be private in floating point: the constraint is met up to \S+ at voters "
            r"\d at \w+.*, within the noise of the stated numbers\. Use certify\(\) to scale it down by that much\.$"
        ),
    ) as refusal:
        verify(problem, touching)
    assert isinstance(refusal.value, NotPrivate)  # so a refusal of one implies that of the other
    assert certify(problem, NoiseFunction(touching))[1].margin >= 0


THREE = Problem.from_allowance(K=3, m=1, epsilon=0.1)


@for_each(
    ("call", "argument"),
    [
        (lambda: verify(THREE, [1.0, 0.5, 1.0]), "gamma"),
        (lambda: verify(THREE, [math.nan] * 4), "gamma[0]"),
        (lambda: verify(THREE, "abc"), "gamma"),  # type: ignore[arg-type]
        (lambda: verify(THREE, np.zeros(4), arithmetic="interval"), "arithmetic"),  # type: ignore[arg-type]
        (lambda: verify(3, NoiseFunction([1.0, 1.0])), "problem"),  # type: ignore[arg-type]
        (lambda: certify(3, NoiseFunction([1.0, 1.0])), "problem"),  # type: ignore[arg-type]
        (lambda: certify(THREE, NoiseFunction(np.ones(5))), "gamma"),
    ],
)
def test_invalid_arguments_are_refused(call: Callable[[], object], argument: str) -> None:
    with refused(argument):
        call()


@pytest.mark.parametrize(("K", "Delta"), [(15, 0.05), (21, 0.3), (31, 0.02)])
def test_far_inside_the_margin_is_a_good_share_of_the_slack(K: int, Delta: float) -> None:
    """For γ far inside, the proved margin is most of the exact slack, and the charge is rounding only."""
    problem = Problem.from_allowance(K, 3, 0.5, Delta, delta=0.3)
    upper = np.linspace(0.02, 0.1, (K + 1) // 2)
    upper[-2] = 0.0  # not monotone
    noise = NoiseFunction.from_upper_half(upper, K)
    certificate, constraint = verify(problem, noise), PrivacyConstraint.of(problem)
    true = (constraint.limit - separable_worst_case(noise, constraint).value) / 2
    assert 0.2 * true <= certificate.margin <= true  # once 1e-11
    assert (certificate.limit - certificate.worst_value + certificate.error_bound) / 2 >= true - 1e-12
    assert 0 < certificate.error_bound <= 1e-12
