"""Time limits: fallbacks of a solve, stopping of searches, and refusals before any work.

The clock is a counter: each reading takes a fixed time, so nothing depends on the machine.
"""

from __future__ import annotations

import itertools
import math
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.exact import Voters, random_multiset
from support.kernels import PATHS, searched_by
from support.refusals import refused
from support.strategies import ProblemCase, random_case

from darrm_opt import Privacy, Problem, Progress, certify, solve, verify
from darrm_opt.design import closed_forms, cutting_planes, solver
from darrm_opt.design.closed_forms import best_closed_form, monotone_search_seconds, one_voter
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.objective import rectangular
from darrm_opt.design.separation import monotone
from darrm_opt.design.separation.monotone import search_monotone
from darrm_opt.design.separation.oracle import worst_case, worst_case_near_faces
from darrm_opt.design.separation.result import Collector, TimeLimitReached
from darrm_opt.design.solution import Status
from darrm_opt.noise import NoiseFunction


def counting_clock(monkeypatch: pytest.MonkeyPatch, step: float) -> Callable[[], int]:
    """Make every reading of the clock take ``step`` seconds; return the count of readings."""
    looks = itertools.count()
    seen = [0]

    def clock() -> float:
        seen[0] = next(looks)
        return seen[0] * step

    monkeypatch.setattr(time, "perf_counter", clock)
    return lambda: seen[0]


def utility(problem: Problem, noise: NoiseFunction) -> float:
    return float(rectangular().weights(problem.K) @ noise.values[problem.K // 2 + 1 :])


# ------------------------------------------------------------------------------------------ the first incumbent

PRIVATE = [
    Problem.from_allowance(11, 3, 0.1),
    Problem.from_allowance(12, 2.5, 0.3, 1e-3),
    Problem.from_allowance(21, 2, 0.5, 0.1, affected=7),
    Problem(9, Privacy(float("inf")), Privacy(0.7, 1e-3), 2),
    Problem(7, Privacy(0.0, 0.05), Privacy(0.2, 0.01)),
]


@for_each("problem", PRIVATE)
def test_the_fallback_is_the_best_private_closed_form(problem: Problem) -> None:
    objective = rectangular().linear_goal(problem.K).utility
    noise, certificate = best_closed_form(problem, PrivacyConstraint.of(problem), objective)
    assert certificate.margin >= 0
    assert verify(problem, noise).bound == pytest.approx(certificate.bound, abs=1e-12)
    each = [utility(problem, certify(problem, form)[0]) for form in closed_forms.closed_forms(problem)]
    assert len(each) >= 2
    assert utility(problem, noise) == pytest.approx(max(each), abs=1e-12)
    assert utility(problem, noise) > 0


@for_each("problem", PRIVATE)
def test_a_time_limit_of_almost_0_gives_the_best_closed_form_or_monotone_gamma(problem: Problem) -> None:
    solution = solve(problem, time_limit=1e-9)
    monotone = solve(problem, shape="monotone")
    assert solution.status is Status.TIME_LIMIT
    assert solution.utility >= monotone.utility - 1e-9
    assert verify(problem, solution.gamma).margin >= 0
    assert solution.upper_bound >= solve(problem).utility


def test_at_the_time_limit_a_better_monotone_answer_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """K = 101, Δ = 0.2: a search takes seconds, and the incumbent is then worse than the monotone γ."""
    problem = Problem.from_allowance(101, 2, 0.3, 0.2, delta=0.1)
    monotone = solve(problem, shape="monotone")

    def out_of_time(noise: NoiseFunction, *arguments: Any, **options: Any) -> Any:
        if not noise.is_monotone:
            raise TimeLimitReached
        return worst_case(noise, *arguments, **options)

    monkeypatch.setattr(cutting_planes, "worst_case", out_of_time)
    monkeypatch.setattr(solver, "worst_case", out_of_time)
    solution = solve(problem, time_limit=1000.0)
    assert solution.status is Status.TIME_LIMIT
    assert solution.utility == pytest.approx(monotone.utility, abs=1e-9)
    assert solution.upper_bound >= solution.utility


@for_each("problem", [PRIVATE[1], Problem.from_allowance(65, 2, 0.3, 1e-3)])
@for_each("shape", ["free", "monotone"])
def test_a_limit_that_is_not_reached_does_not_change_the_answer(problem: Problem, shape: Any) -> None:
    without, within = solve(problem, shape=shape), solve(problem, shape=shape, time_limit=1e6)
    assert within.gamma.tobytes() == without.gamma.tobytes()
    assert (within.status, within.upper_bound) == (without.status, without.upper_bound)


def test_a_proof_that_takes_too_long_is_never_called_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.from_allowance(65, 2, 0.3, 1e-3)

    def too_long(*_: object, **__: object) -> Any:
        raise TimeLimitReached

    monkeypatch.setattr(solver, "repair", too_long)
    solution = solve(problem, time_limit=1000.0)
    assert solution.status is Status.TIME_LIMIT
    assert solution.utility > 0.1
    assert verify(problem, solution.gamma).margin >= 0


@for_each("case", [random_case(np.random.default_rng((seed, 21)), (1, 2, 3, 4, 7, 9)) for seed in range(40)])
def test_one_voter_is_proved_without_a_search(case: ProblemCase) -> None:
    """The bound covers all multisets in exact arithmetic, and a search agrees with the certificate."""
    problem = case.problem
    constraint = PrivacyConstraint.of(problem)
    noise, certificate = one_voter(problem, constraint)
    assert noise.is_monotone
    assert certificate.bound <= certificate.limit
    proof = verify(problem, noise)
    assert proof.method == certificate.method
    assert (proof.bound, proof.worst_value) == pytest.approx((certificate.bound, certificate.worst_value), abs=1e-12)
    voters, rng = Voters.of(problem.strictest), np.random.default_rng(case.K)
    for _ in range(30):
        assert voters.phi(noise.values, random_multiset(rng, problem)) <= Decimal(certificate.bound)
    assert voters.phi(noise.values, certificate.worst_corners) >= Decimal(certificate.bound) - Decimal("1e-12")
    if constraint.limit > 1e-9:
        assert noise.values.max() > 0
        best = certify(problem, NoiseFunction(np.abs(2 * np.arange(problem.K + 1) - problem.K) / problem.K))[0]
        assert noise.values == pytest.approx(best.values, abs=1e-9 + 1e-12 / constraint.limit)


def test_there_is_a_private_gamma_even_if_no_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(*_: object, **__: object) -> Any:
        raise TimeLimitReached

    for module in ("closed_forms", "cutting_planes", "solver", "certificate"):
        monkeypatch.setattr(f"darrm_opt.design.{module}.worst_case", too_long)
    problem = Problem.from_allowance(1001, 3, 0.1, 1e-4)
    solution = solve(problem, time_limit=1000.0)
    monkeypatch.undo()
    assert solution.status is Status.TIME_LIMIT
    assert solution.utility > 0.4
    assert verify(problem, solution.gamma).margin >= 0


# ---------------------------------------------------------------------------------------- every search stops


@for_each("Delta", [0.0, 1e-3, 0.5])
@for_each("affected", [300, 100])
def test_a_monotone_search_stops_at_its_deadline(Delta: float, affected: int) -> None:
    constraint = PrivacyConstraint.of(Problem.from_allowance(300, 3, 0.1, Delta, affected=affected))
    with pytest.raises(TimeLimitReached):
        search_monotone(np.sign(np.arange(301) - 150.0), constraint, Collector(deadline=time.perf_counter() - 1))


@pytest.mark.parametrize("shape", ["free", "monotone"])
@pytest.mark.parametrize(("K", "Delta"), [(61, 1e-3), (81, 0.2), (121, 0.1), (401, 1e-4)])
def test_every_phase_stops_soon_after_the_limit(
    monkeypatch: pytest.MonkeyPatch, K: int, Delta: float, shape: Any
) -> None:
    """Searches read the clock every few milliseconds: the count of readings shows that none continues."""
    problem = Problem.from_allowance(K, 3, 0.1, Delta)
    looks = counting_clock(monkeypatch, 0.002)
    solution = solve(problem, shape=shape, time_limit=1.0)
    assert looks() * 0.002 <= 1.0 + 1.0
    assert solution.certificate.margin >= 0


@pytest.mark.parametrize("path", PATHS)
def test_the_inner_monotone_search_observes_the_time_limit(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    problem = Problem.from_allowance(401, 3, 0.1, 1e-3)
    step = 0.002 if path == "numpy" else 0.02  # the kernel has its own clock, and reads this one once per search
    looks = counting_clock(monkeypatch, step)
    with searched_by(path):
        solution = solve(problem, time_limit=2.0)
    assert solution.status is Status.TIME_LIMIT
    assert looks() * step <= 3.0
    assert solution.utility > 0


# ------------------------------------------------------------------------------------- refused before any work


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("K", "Delta", "affected"), [(100_000, 0.0, None), (100_000, 0.0, 50_000), (20_000, 1e-3, None), (5001, 0.0, 2500)]
)
def test_problems_that_cannot_be_proved_are_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, K: int, Delta: float, affected: int | None, path: str
) -> None:
    monkeypatch.setattr(solver, "MasterProgram", None)  # nothing is computed
    with searched_by(path), refused("time_limit", "5"):
        solve(Problem.from_allowance(K, 3, 0.1, Delta, affected=affected), time_limit=5)


@pytest.mark.parametrize("path", PATHS)
def test_a_monotone_search_of_very_many_voters_uses_little_memory_and_stops(path: str) -> None:
    """One pair of rows of means is in memory at a time; all 50,001 × 50,001 would take 20 GB."""
    K, r = 100_000, 50_000
    constraint = PrivacyConstraint.of(Problem(K, Privacy(1e-5, 1e-7), Privacy(0.3, 1e-3), r))
    noise = NoiseFunction.from_upper_half(np.linspace(1e-4, 1e-3, K // 2), K)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with searched_by(path), pytest.raises(TimeLimitReached):  # all would take days
        worst_case(noise, constraint, deadline=time.perf_counter() + 0.3)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


def test_too_large_a_matrix_is_refused_before_any_work() -> None:
    K, r = 100_000, 50_000
    constraint = PrivacyConstraint.of(Problem(K, Privacy(1e-5, 0.01), Privacy(0.3, 1e-3), r))
    noise = NoiseFunction.from_upper_half(np.linspace(1e-4, 1e-3, K // 2), K)
    with refused("affected", "50000"):
        worst_case(noise, constraint)


@pytest.mark.parametrize("Delta", [0.0, 0.01, 0.3])
@pytest.mark.parametrize(("K", "affected"), [(12, 5), (40, 30), (9, 9), (7, 1)])
def test_means_in_blocks_are_those_of_one_computation(
    monkeypatch: pytest.MonkeyPatch, K: int, affected: int, Delta: float
) -> None:
    constraint = PrivacyConstraint.of(Problem(K, Privacy(0.3, Delta), Privacy(0.9, Delta / 2), affected))
    noise = NoiseFunction.from_upper_half(np.sort(np.random.default_rng(K).random((K + 1) // 2)), K)
    for terms in (0, 64):  # with and without matrix products
        monkeypatch.setattr(monotone, "MAX_TERMS", terms)
        with searched_by("numpy"):
            whole = worst_case(noise, constraint, above=-math.inf, most=10_000)
            monkeypatch.setattr(monotone, "MAX_TABLE_ENTRIES", 2 * affected)
            parts = worst_case(noise, constraint, above=-math.inf, most=10_000)
            monkeypatch.undo()
        assert parts.bound == pytest.approx(whole.bound, abs=1e-15)
        assert {*map(tuple, whole.cuts.tolist())} <= {*map(tuple, parts.cuts.tolist())}


@for_each(("K", "Delta"), [(5001, 0.0), (1001, 0.1), (801, 0.9), (301, 0.5)])
def test_problems_that_can_be_proved_are_not_refused(K: int, Delta: float) -> None:
    assert 2 * monotone_search_seconds(Problem.from_allowance(K, 3, 0.1, Delta)) < 5


# ------------------------------------------------------------------------------------ voters away from the ends


@pytest.mark.parametrize(("K", "Delta"), [(401, 0.9), (101, 0.5)])
def test_gamma_0_is_private_whatever_the_voters(K: int, Delta: float) -> None:
    certificate = verify(Problem.from_allowance(K, 3, 0.1, Delta, delta=0.1), np.zeros(K + 1))
    assert (certificate.bound, certificate.error_bound, certificate.method) == (0.0, 0.0, "monotone")
    assert sum(certificate.worst_corners.values()) == K


def test_hundreds_of_voters_away_from_the_ends_are_searched() -> None:
    """K = 801, Δ = 0.9: mean^k/k! overflows."""
    problem = Problem.from_allowance(801, 3, 0.1, 0.9, affected=795, delta=0.1)
    private, certificate = certify(problem, NoiseFunction.from_upper_half(np.ones(401), 801))
    assert 0.1 < private.values.max() < 0.5
    assert certificate.margin >= 0


@pytest.mark.parametrize(("K", "Delta", "delta"), [(61, 0.9, 0.5), (101, 0.5, 0.05)])
def test_fifty_voters_away_from_the_ends_do_not_overflow(K: int, Delta: float, delta: float) -> None:
    problem = Problem.from_allowance(K, 3, 0.1, Delta, delta=delta)
    upper = np.linspace(0.02, 0.05, (K + 1) // 2)
    upper[-3] = 0.0  # not monotone
    certificate = verify(problem, NoiseFunction.from_upper_half(upper, K))
    assert certificate.margin > 0


@pytest.mark.parametrize("affected", [120, 70])
@pytest.mark.parametrize("Delta", [0.3, 0.9])
def test_many_terms_give_the_same_monotone_search(monkeypatch: pytest.MonkeyPatch, affected: int, Delta: float) -> None:
    """By matrix products and by a loop over the terms of a binomial."""
    problem = Problem.from_allowance(120, 3, 0.1, Delta, delta=0.2, affected=affected)
    constraint, rng = PrivacyConstraint.of(problem), np.random.default_rng(affected)
    for _ in range(3):
        noise = NoiseFunction.from_upper_half(np.sort(rng.random(60)), 120)
        loop = worst_case(noise, constraint)
        with searched_by("numpy"):
            whole = worst_case(noise, constraint)
            with monkeypatch.context() as patched:
                patched.setattr("darrm_opt.design.separation.monotone.MAX_TERMS", 1000)
                assert worst_case(noise, constraint).value == pytest.approx(loop.value, abs=1e-13)
        assert whole.value == pytest.approx(loop.value, abs=1e-13)
        assert constraint.values(noise.signed, whole.counts[None, :])[0] == pytest.approx(whole.value, abs=1e-12)


# ------------------------------------------------------------------------ free γ that cannot be proved


def test_cuts_of_incomplete_searches_bound_the_gain_of_a_free_gamma(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the monotone γ is optimal, as cuts of incomplete searches show; once the gap was 0.055."""
    monkeypatch.setattr("darrm_opt.design.schedule.MAX_PASSED_K", 0)
    solution = solve(Problem.from_allowance(131, 3, 0.1, 0.5, delta=0.05))
    assert (solution.certificate.method, solution.status) == ("monotone", Status.OPTIMAL)
    assert solution.upper_bound == pytest.approx(0.191442, abs=2e-6)
    assert solution.gap <= 1e-6


def test_an_open_gap_has_the_status_search_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without those cuts the answer is the same, with a larger gap."""
    problem = Problem.from_allowance(131, 3, 0.1, 0.5, delta=0.05)

    def blind(*arguments: Any, **options: Any) -> Any:
        found = worst_case_near_faces(*arguments, **(options | {"most": 0}))
        return replace(found, cuts=found.cuts[:0])

    monkeypatch.setattr("darrm_opt.design.schedule.MAX_PASSED_K", 0)
    monkeypatch.setattr(cutting_planes, "worst_case_near_faces", blind)
    solution = solve(problem)
    assert solution.status is Status.SEARCH_LIMIT
    assert 0.01 < solution.gap < 0.1
    assert solution.status.is_final
    assert "best monotone" in solution.status.advice


def test_a_limit_reached_in_the_inner_monotone_search_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no search of a free γ is affordable, no stage follows the monotone one."""
    monkeypatch.setattr("darrm_opt.design.schedule.MAX_PASSED_K", 0)
    problem = Problem.from_allowance(201, 3, 0.1, 0.45)
    monkeypatch.setattr(cutting_planes.CuttingPlanes, "_maximise", lambda self, _: (Status.TIME_LIMIT, self.noise, 1.0))
    solution = solve(problem, time_limit=1.0)
    assert solution.status is Status.TIME_LIMIT
    assert not solution.status.is_final
    assert solution.utility > 0  # a closed form


def test_a_limit_reached_in_the_bounding_stage_is_reported() -> None:
    problem = Problem.from_allowance(201, 3, 0.1, 0.45)
    seen: list[Progress] = []
    clock = time.perf_counter
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("darrm_opt.design.schedule.MAX_PASSED_K", 0)
        patched.setattr(time, "perf_counter", lambda: clock() + 3600 * bool(seen))
        solution = solve(problem, time_limit=1800.0, progress=seen.append)
    assert solution.status is Status.TIME_LIMIT
    assert solution.utility > 0.5
