"""The privacy constraint of the design against the paper's inequality in exact arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from support.cases import for_each
from support.exact import NEGLIGIBLE, Voters, distribution, mean, named, precise, random_multiset, signed
from support.strategies import ProblemCase, random_case, random_noise

from darrm_opt import Privacy, Problem
from darrm_opt.design.constraint import LABELS, STEP_ERROR, ConstraintGenerator, Counts, PrivacyConstraint

CASES = [random_case(np.random.default_rng(seed)) for seed in range(30)]


def some_multisets(rng: np.random.Generator, problem: Problem, many: int) -> Counts:
    labels = LABELS if problem.voter.delta > 0 else LABELS[:4]
    rows = [random_multiset(rng, problem) for _ in range(many)]
    return np.array([[row[label] for label in labels] for row in rows], dtype=np.int64)


@for_each("case", CASES)
def test_values_are_the_papers_inequality_divided_by_its_factor(case: ProblemCase) -> None:
    rng = np.random.default_rng(case.K)
    problem = case.problem
    constraint, voters = PrivacyConstraint.of(problem), Voters.of(problem.strictest)
    noise = random_noise(rng, problem.K)
    multisets = some_multisets(rng, problem, 6)
    for value, counts in zip(constraint.values(noise.signed, multisets), multisets, strict=True):
        true = voters.phi(noise.values, named(counts))
        assert (
            abs(Decimal(float(value)) - true) <= Decimal(2 * constraint.error(float(noise.values.max()))) + NEGLIGIBLE
        )


@for_each("case", CASES)
def test_the_limit_is_rounded_down_slightly(case: ProblemCase) -> None:
    problem = case.problem
    limit = PrivacyConstraint.of(problem).limit
    true = Voters.of(problem.strictest).limit()
    assert Decimal(limit) <= true
    assert Decimal(limit) >= true * (1 - Decimal(32 * 2.0**-53))
    # the strictest reading is at least as strict as the given numbers
    asked_for = Voters(case.K, case.epsilon, case.Delta, case.target_epsilon, case.delta).limit()
    assert true <= asked_for
    assert true >= asked_for - Decimal("1.1e-11") * (1 + asked_for) - Decimal("5e-15")


def test_at_target_0_the_limit_is_0() -> None:
    constraint = PrivacyConstraint.of(Problem(3, Privacy(1.0), Privacy(0.0, 0.0)))
    assert (constraint.q, constraint.limit) == (1.0, 0.0)


def test_rows_of_dyadic_corners_are_exact_fractions() -> None:
    """ε = ln 3 would make x = ¾; at ε = 0 x is (1+Δ)/2 exactly, so that every probability is a fraction."""
    problem = Problem(5, Privacy(0.0, 0.25), Privacy(0.0, 0.5))
    constraint = PrivacyConstraint.of(problem)
    Delta = Fraction(problem.strictest.voter.delta)
    x = (1 + Delta) / 2
    zero, one = Fraction(0), Fraction(1)
    at = [
        (zero, zero),
        (one, one),
        (x, 1 - x),
        (1 - x, x),
        (zero, Delta),
        (Delta, zero),
        (1 - Delta, one),
        (one, 1 - Delta),
    ]
    multisets = np.concatenate([*ConstraintGenerator(problem).blocks()])
    rows = constraint.rows(multisets)
    assert rows.shape == (math.comb(12, 7), 3)
    for row, counts in zip(rows[::7], multisets[::7], strict=True):
        pairs = [pair for pair, count in zip(at, counts, strict=True) for _ in range(count)]
        on_data, on_neighbour = (distribution([pair[side] for pair in pairs]) for side in (0, 1))
        for l, entry in zip(range(3, 6), row, strict=True):
            exact = on_data[l] - on_data[5 - l] - (on_neighbour[l] - on_neighbour[5 - l])
            assert abs(Fraction(float(entry)) - exact) <= Fraction(2 * (1 + constraint.q) * 5 * STEP_ERROR)


@for_each("case", CASES[:30])
def test_rows_err_within_their_bounds(case: ProblemCase) -> None:
    rng = np.random.default_rng(case.K)
    problem = case.problem
    constraint, voters = PrivacyConstraint.of(problem), Voters.of(problem.strictest)
    multisets = some_multisets(rng, problem, 3)
    K = problem.K
    for row, counts in zip(constraint.rows(multisets), multisets, strict=True):
        worst = Decimal(0)
        for entry, value in enumerate(row):
            unit = np.zeros(K + 1)
            unit[K // 2 + 1 + entry] = unit[(K - 1) // 2 - entry] = 1.0
            worst += abs(Decimal(float(value)) - voters.phi(unit, named(counts)))
        assert worst <= Decimal(4 * (K + 1) * STEP_ERROR)  # the charge of the dual bound, for all entries


@for_each("seed", range(20))
def test_no_voters_in_F_are_worse_than_the_corners(seed: int) -> None:
    """φ at random pairs (p, p′) of F, another for each voter, never exceeds its largest corner."""
    rng = np.random.default_rng((seed, 1))
    problem = random_case(rng, (2, 3, 4, 5)).problem
    constraint, noise = PrivacyConstraint.of(problem), random_noise(rng, problem.K)
    corners = [*Voters.of(problem.strictest).corners().values()]
    voters = Voters.of(problem.strictest)
    everything = np.concatenate([*ConstraintGenerator(problem).blocks()])
    largest = constraint.values(noise.signed, everything).max()
    g = signed(noise.values, Decimal)
    with precise():
        growth = Decimal(voters.target_epsilon).exp()
        for _ in range(30):
            pairs = []
            for i in range(problem.K):
                shares = rng.dirichlet(np.full(len(corners), 0.3))
                shares = shares / shares.sum()
                p, q = (
                    sum((Decimal(float(w)) * at[side] for w, at in zip(shares, corners, strict=True)), start=Decimal(0))
                    for side in (0, 1)
                )
                pairs.append((p, q) if i < problem.affected else (p, p))  # a voter that is not affected
            phi = mean(g, [p for p, _ in pairs]) / growth - mean(g, [q for _, q in pairs])
            assert phi <= Decimal(float(largest)) + Decimal("1e-13")
