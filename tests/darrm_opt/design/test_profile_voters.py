"""γ for voters with a privacy profile, against an independent oracle.

The oracle (`profile_enumeration`) enumerates every multiset of vertices; the whole linear program is solved with
SciPy.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from profile_enumeration import rows
from scipy.optimize import linprog
from support.kernels import HAS_KERNEL, searched_by
from support.refusals import refused
from support.searches import enumerated_worst_case

from darrm_opt import NotPrivate, Privacy, Problem, certify, solve, verify
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.objective import as_objective
from darrm_opt.design.separation.arcs import search_jointly
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.design.solution import Status
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import TargetProfile
from darrm_opt.record import DesignSpec, problem_from_record, problem_record, solution_from_record, solution_record
from darrm_opt.verification import verify_solution
from darrm_opt.voters import PrivacyProfile

TWO = [(0.0, 0.0597853), (0.3, 0.00147645)]
THREE = [(0.0, 0.02), (0.1, 0.004), (0.3, 0.0)]


def best_utility(K: int, points: Any, target: tuple[float, float], weights: Any, affected: int) -> float:
    """Return the utility of the best γ by the full linear program."""
    limit = math.exp(target[0]) - 1 + 2 * target[1]
    program = rows(K, points, target[0], affected)
    answer = linprog(-np.asarray(weights), A_ub=program, b_ub=np.full(len(program), limit), bounds=(0, 1))
    return float(np.asarray(weights) @ answer.x)


def problem_of(K: int, points: Any, target: tuple[float, float], affected: int | None = None) -> Problem:
    return Problem(K, PrivacyProfile(points), Privacy(*target), affected)


@pytest.mark.parametrize(
    ("points", "target", "utility"),
    [
        (TWO, (0.3, 1e-5), 0.85782),
        (TWO[1:], (0.3, 1e-5), 0.68350),
        (THREE, (0.25, 0.0), 0.97524),
        (THREE[2:], (0.25, 0.0), 0.59669),
    ],
)
def test_known_utilities_of_five_voters(points: Any, target: tuple[float, float], utility: float) -> None:
    solution = solve(problem_of(5, points, target), "shared(1,1)")
    assert solution.utility == pytest.approx(utility, abs=5e-6)
    assert solution.gap < 1e-9


CASES = [
    (3, TWO, (0.3, 1e-5), 3),
    (4, THREE, (0.2, 0.0), 4),
    (5, THREE, (0.25, 0.0), 2),
    (5, TWO, (0.1, 0.01), 1),
    (6, [(0.1, 0.03), (0.4, 0.01)], (0.3, 0.005), 3),
    (7, TWO, (0.2, 0.02), 2),
    (5, [(0.0, 0.3), (0.5, 0.2)], (0.4, 0.1), 5),
    (4, [(0.05, 0.1), (0.3, 0.05), (1.0, 0.0)], (0.7, 0.0), 3),
]


@pytest.mark.parametrize(("K", "points", "target", "affected"), CASES)
def test_the_optimum_is_that_of_complete_enumeration(
    K: int, points: Any, target: tuple[float, float], affected: int
) -> None:
    problem = problem_of(K, points, target, affected)
    solution = solve(problem, "rectangular")
    weights = solution.objective.linear_goal(K).weights
    assert solution.utility == pytest.approx(best_utility(K, points, target, weights, affected), abs=1e-6)
    assert solution.gap < 1e-8
    generator = ConstraintGenerator(problem)
    assert sum(len(block) for block in generator.blocks()) == generator.size
    assert solve(problem, "rectangular", method="enumerate").utility == pytest.approx(solution.utility, abs=1e-9)
    program = rows(K, points, target[0], affected)
    assert (program @ solution.noise.upper_half).max() <= math.exp(target[0]) - 1 + 2 * target[1] + 1e-12
    assert verify(problem, solution.gamma).margin >= 0
    monotone = solve(problem, "rectangular", shape="monotone")
    assert monotone.utility <= solution.upper_bound
    assert monotone.certificate.method == "monotone"


def hostile(K: int, seed: int) -> NoiseFunction:
    """Return a γ that is flat, jagged, or almost a step."""
    draw = np.random.default_rng(seed)
    upper = draw.uniform(0, 1, (K + 1) // 2) ** draw.choice([0.1, 1.0, 5.0])
    upper = [np.sort(upper), upper, np.where(upper > 0.5, 1.0, 0.0), np.round(upper, 1)][seed % 4]
    return NoiseFunction.from_upper_half(np.asarray(upper, dtype=float), K)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_hostile_gamma_is_refused_or_repaired_in_agreement_with_the_oracle(case: int) -> None:
    K, points, target, affected = CASES[case]
    problem, limit = problem_of(K, points, target, affected), math.exp(target[0]) - 1 + 2 * target[1]
    program = rows(K, points, target[0], affected)
    for seed in range(40):
        noise = hostile(K, 1000 * case + seed)
        worst = float((program @ noise.upper_half).max())
        repaired, certificate = certify(problem, noise)
        assert (program @ repaired.upper_half).max() <= limit + 1e-12
        assert certificate.bound <= certificate.limit
        if worst > 1e-9:  # no more is lost than rounding requires
            scale = min(1.0, limit / worst)
            assert repaired.values.max() >= scale * noise.values.max() * (1 - 1e-9)
        if worst > limit + 1e-9:
            with pytest.raises(NotPrivate) as caught:
                verify(problem, noise)
            assert sum(caught.value.worst.values()) == K
        elif worst < limit - 1e-9:
            assert verify(problem, noise).margin >= 0


@pytest.mark.parametrize("seed", range(6))
def test_kernel_numpy_and_enumeration_find_the_same_worst_case(seed: int) -> None:
    K, points, target, affected = CASES[seed]
    problem = problem_of(K, points, target, affected)
    constraint, noise = PrivacyConstraint.of(problem), hostile(K, seed)
    known = enumerated_worst_case(noise, problem)
    for form in ("numpy", *(["c"] if HAS_KERNEL else [])):
        with searched_by(form):
            found = worst_case(noise, constraint, above=-1.0)
            assert found.value == pytest.approx(known.value, abs=1e-13)
            assert known.value <= found.bound <= known.value + 1e-10
            cuts = worst_case(noise, constraint, above=known.value - 1e-3, most=50).cuts
            assert len(cuts)
            assert constraint.values(noise.signed, cuts).min() > known.value - 1e-3


@pytest.mark.skipif(not HAS_KERNEL, reason="no compiled kernel here")
@pytest.mark.parametrize(("K", "affected"), [(4, 4), (6, 6), (7, 3), (8, 8)])
def test_multisets_omitted_by_a_search_are_within_its_bound(K: int, affected: int) -> None:
    # near the worst level few multisets are evaluated: all others rely on the bounds of nodes
    problem = problem_of(K, TWO, (0.3, 1e-5), affected)
    constraint = PrivacyConstraint.of(problem)
    program = np.concatenate([constraint.rows(counts) for counts in ConstraintGenerator(problem).blocks()])
    for seed in range(24):
        noise = hostile(K, seed)
        worst = float((program @ noise.upper_half).max())
        for above in (worst + 1e-6, worst + 1e-12, worst - 1e-9, worst - 0.1 * abs(worst)):
            found = worst_case(noise, constraint, above=above)
            assert worst - 1e-13 <= found.bound <= max(worst, above) + 1e-10
            assert above > worst or found.value == pytest.approx(worst, abs=1e-13)


@pytest.mark.skipif(not HAS_KERNEL, reason="the sweep is compiled")
@pytest.mark.parametrize(("delta_at_0", "Delta"), [(0.013, 1e-5), (0.03, 0.0), (0.013, 1e-3)])
def test_a_sweep_is_complete_beyond_enumeration(delta_at_0: float, Delta: float) -> None:
    K, random = 41, np.random.default_rng(5)
    for affected in (K, 17):
        problem = problem_of(K, [(0.0, delta_at_0), (0.1, Delta)], (0.2, 1e-4), affected)
        constraint = PrivacyConstraint.of(problem)
        moving = constraint.corners.p + constraint.corners.reflected != 1.0
        for seed in range(4):
            noise = hostile(K, seed)
            found = worst_case(noise, constraint, above=-1.0)
            assert found.value <= found.bound <= found.value + 1e-9
            # moving one voter at a time, from many starts, finds no worse multiset
            counts = random.multinomial(affected, random.dirichlet(np.full(moving.size, 0.2), 400))
            counts[:, :2] += random.multinomial(K - affected, [0.5, 0.5], 400)
            assert constraint.values(noise.signed, counts).max() <= found.bound
            # and none exceeds a level just above it
            level = found.bound + 1e-9
            assert worst_case(noise, constraint, above=level).bound <= level + 1e-9


@pytest.mark.skipif(not HAS_KERNEL, reason="the sweep is compiled")
def test_two_points_of_many_voters_are_solved_to_optimality() -> None:
    solution = solve(problem_of(101, [(0.0, 0.0129650535132), (0.0999300010473, 1e-5)], (0.1, 1e-5)))
    assert solution.status is Status.OPTIMAL
    assert solution.gap < 1e-6
    assert solution.certificate.method == "complete"


@pytest.mark.parametrize("case", [0, 3, 7])
def test_ball_arithmetic_finds_the_same_worst_case(case: int) -> None:
    K, points, target, affected = CASES[case]
    problem = problem_of(K, points, target, affected)
    solution = solve(problem)
    exact = verify(problem, solution.gamma, arithmetic="ball")
    assert exact.method == "ball"
    assert exact.bound <= solution.certificate.bound
    assert exact.worst_value == pytest.approx(solution.certificate.worst_value, abs=1e-13)
    with pytest.raises(NotPrivate):
        verify(problem, np.ones(K + 1), arithmetic="ball")


@pytest.mark.parametrize(
    ("K", "points", "targets", "affected"),
    [
        (5, THREE, [(0.0, 0.03), (0.2, 0.005)], 5),
        (6, TWO, [(0.1, 0.03), (0.3, 0.004), (0.6, 1e-4)], 4),
        (5, [(0.4, 0.0)], [(0.2, 0.1), (0.6, 0.0)], 5),
        (4, TWO, [(0.2, 0.01)], 4),
    ],
)
def test_several_targets_hold_simultaneously(K: int, points: Any, targets: Any, affected: int) -> None:
    voter = PrivacyProfile(points) if len(points) > 1 else Privacy(*points[0])
    asked = Problem(K, voter, TargetProfile(targets), affected)
    found = solve(asked)
    program = np.concatenate([rows(K, points, E, affected) for E, _ in targets])
    limits = np.concatenate([np.full(len(rows(K, points, E, affected)), math.exp(E) - 1 + 2 * d) for E, d in targets])
    weights = np.asarray(as_objective("rectangular").linear_goal(K).weights)
    best = linprog(-weights, A_ub=program, b_ub=limits, bounds=(0, 1))
    assert found.utility == pytest.approx(-float(best.fun or 0.0), abs=1e-6)
    assert found.gap < 1e-7
    assert (program @ found.noise.upper_half - limits).max() <= 1e-12
    each = [verify(problem, found.gamma) for problem in asked.each_target]
    assert verify(asked, found.gamma) == min(each, key=lambda one: one.margin)
    alone = [solve(problem) for problem in asked.each_target]
    assert found.utility <= min(one.utility for one in alone) + 1e-6
    breaks = 0
    # A γ for one target violates another, and `certify` scales it until all hold.
    for one in alone:
        scaled, proof = certify(asked, one.noise)
        assert (program @ scaled.upper_half - limits).max() <= 1e-12
        assert verify(asked, scaled).margin == pytest.approx(proof.margin, abs=1e-14)
        breaks += not np.array_equal(scaled.values, one.gamma)
    assert breaks or len(targets) == 1
    record = json.loads(json.dumps(solution_record(found)))
    assert solution_from_record(record) == found
    assert verify_solution(found, DesignSpec.of(found)) == found
    if len(targets) > 1:
        assert record["problem"]["targets"] == [list(target) for target in targets]
        assert DesignSpec(asked).key != DesignSpec(Problem(K, voter, Privacy(*targets[0]), affected)).key
        assert verify(asked, found.gamma, arithmetic="ball").margin >= found.certificate.margin
    monotone = solve(asked, shape="monotone")
    assert monotone.noise.is_monotone
    assert monotone.utility <= found.upper_bound
    assert monotone.gap < 1e-7


@pytest.mark.parametrize("voter", [Privacy(0.1, 1e-5), PrivacyProfile(TWO)], ids=["point", "profile"])
def test_several_targets_have_a_fallback(voter: Privacy) -> None:
    asked = Problem(11, voter, TargetProfile([(0.2, 0.03), (0.4, 1e-3)]))
    found = solve(asked, time_limit=1e-9)  # no round finishes
    assert found.status is Status.TIME_LIMIT
    assert 0.05 < found.utility < solve(asked).utility < found.upper_bound
    assert verify(asked, found.gamma).margin >= 0
    vast = Problem(100_001, Privacy(0.1, 1e-5), asked.target, 50_000)
    with refused("time_limit"):  # as for one target: any proof takes longer
        solve(vast, time_limit=1)


def test_invalid_targets_are_refused() -> None:
    for targets in ([], [(i / 10, 0.1 / 2**i) for i in range(1, 18)]):
        with refused("target"):
            TargetProfile(targets)
    several = Problem(3, Privacy(0.1), TargetProfile([(0.2, 0.01), (0.4, 1e-3)]))
    with refused("objective"):
        solve(several, "minimax")
    with refused("method"):
        solve(several, method="enumerate")
    with refused("problem"):
        PrivacyConstraint.of(several)  # a list of targets is not a voter


def test_a_profile_as_target_requires_all_its_points() -> None:
    asked = Problem(5, Privacy(0.1), PrivacyProfile(TWO))
    assert asked == Problem(5, Privacy(0.1), TargetProfile(PrivacyProfile(TWO).points))
    assert asked.target.points == PrivacyProfile(TWO).points


def test_a_profile_of_one_point_is_that_privacy_bit_for_bit() -> None:
    plain = Problem(7, Privacy(0.2, 1e-4), Privacy(0.3, 1e-4))
    stated = problem_of(7, [(0.2, 1e-4), (0.5, 1e-4)], (0.3, 1e-4))
    assert plain == stated
    assert type(stated.voter) is Privacy
    assert DesignSpec(plain).key == DesignSpec(stated).key
    assert (solve(plain).gamma == solve(stated).gamma).all()


def test_utility_never_decreases_with_more_points() -> None:
    points = [(0.3, 0.0), (0.0, 0.04), (0.1, 0.01), (0.2, 0.002), (0.05, 0.022)]
    utilities = [solve(problem_of(7, points[: n + 1], (0.3, 0.0))).utility for n in range(len(points))]
    assert all(after >= before - 1e-9 for before, after in itertools.pairwise(utilities))
    assert utilities[-1] > utilities[0] + 0.1


def test_a_problem_and_its_solution_round_trip() -> None:
    problem = problem_of(5, THREE, (0.25, 0.0), 3)
    record = problem_record(problem)
    assert record["profile"] == [[0.0, 0.02], [0.1, 0.004], [0.3, 0.0]]
    assert problem_from_record(record) == problem
    assert problem_from_record(record).voter.points == problem.voter.points
    with pytest.raises(ValueError, match="points of which the last is epsilon and Delta"):
        problem_from_record({**record, "Delta": 0.1})
    solution = solve(problem)
    again = verify_solution(solution_from_record(solution_record(solution)), DesignSpec(problem))
    assert (again.gamma == solution.gamma).all()
    one_point = Problem(5, Privacy(0.3), Privacy(0.25), 3)
    assert DesignSpec(problem).key != DesignSpec(one_point).key
    assert dataclasses.replace(problem, affected=4).voter == problem.voter


@pytest.mark.skipif(not HAS_KERNEL, reason="the joint search is compiled")
@pytest.mark.parametrize("seed", range(8))
def test_a_joint_search_finds_the_worst_case_at_every_slope(seed: int) -> None:
    random = np.random.default_rng(seed)
    K = int(random.integers(2, 7))
    problem = Problem(
        K, PrivacyProfile([(0, 0.1), (0.2, 0.03), (0.7, 1e-3)]), Privacy(0.5), int(random.integers(1, K + 1))
    )
    noise = hostile(K, seed)
    if seed % 2:  # a monotone γ is searched on the upper chain
        half = np.sort(random.random(K // 2 + 1))
        noise = NoiseFunction(half[np.maximum(np.arange(K + 1), K - np.arange(K + 1)) - (K + 1) // 2])
    base, q = PrivacyConstraint.of(problem), np.exp(-random.uniform(0, 1.2, 20))
    exact = [enumerated_worst_case(noise, problem, base._replace(q=float(each), limit=1.0)) for each in q]
    values = np.array([worst.value for worst in exact])
    bounds, counts = search_jointly(noise, base, q, np.full(q.size, -2.0))
    assert (bounds >= values).all()
    assert bounds == pytest.approx(values, abs=1e-11)
    for k, multiset in enumerate(counts):
        found = base._replace(q=float(q[k])).values(noise.signed, multiset[np.newaxis])
        assert found[0] == pytest.approx(values[k], abs=1e-11)
    # multisets below the level are omitted, with a bound at the level
    bounds, counts = search_jointly(noise, base, q, values + 1e-3)
    assert (bounds >= values).all()
    assert bounds == pytest.approx(values + 1e-3, abs=1e-11)
    assert not counts.any()
