"""The paper's Figure 6: K = 35, m = 6.4521, δ = 0.1001. The complete constraint set admits γ = 1, by three ways of looking.

Enumeration in doubles (of the 26,978,328 vectors those among which the worst is); the package's own search; and a
separate search in ball arithmetic, exact up to 2^-256.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import flint
import numpy as np
import pytest
from support.cases import for_each

from darrm_opt import Problem, solve, verify
from darrm_opt.accounting.composition.closed_forms import kov_composition
from darrm_opt.design.constraint import DOWN, DOWN_FROM_ONE, LABELS, UP, UP_TO_ONE, XY, PrivacyConstraint
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy

K = 35
ONE = NoiseFunction(np.ones(K + 1), K)
PRINTED = {10: (6.4521, 0.1001), 13: (7.5742, 0.1001), 15: (8.2708, 0.1001), 20: (9.8823, 0.1002)}
"""M → (m, δ), as Table 3 prints them."""

Row = list[flint.arb]


def as_printed(M: int) -> Problem:
    m, delta = PRINTED[M]
    return Problem.from_allowance(K=K, m=m, epsilon=0.1, Delta=1e-5, delta=delta)


def step(row: Row, t: flint.arb) -> Row:
    return [low + t * (high - low) for low, high in pairwise(row)]


def running_maximum(table: dict[tuple[int, int], flint.arb], rows: int, columns: int) -> None:
    """Turn U into M(A, A′) = max of U over a ≤ A, a′ ≤ A′, in place."""
    for A in range(rows):
        for A1 in range(columns):
            for before in ((A - 1, A1), (A, A1 - 1)):
                if before in table:
                    table[A, A1] = table[A, A1].max(table[before])


def slack_in_balls(problem: Problem, n_mixed: int | None = None) -> flint.arb:
    """Return limit − max f over every corner vector for γ = 1, f = H(p) − c·H(p′), limit = c − 1 + 2δ.

    For each (nx, ny) the other n voters sit near 0 or near 1; f = U_{n₁}(a, a′) + c·U_{n₀}(b′, b), and the counts are coupled by
    a + b ≤ n₀, a′ + b′ ≤ n₁ alone. Written from that sentence, with no code of the package.
    """
    flint.ctx.prec = 256
    ball = flint.arb
    epsilon, Delta = ball(problem.voter.epsilon), ball(problem.voter.delta)
    c = ball(problem.target.epsilon).exp()
    x, y = (epsilon.exp() + Delta) / (epsilon.exp() + 1), (1 - Delta) / (epsilon.exp() + 1)
    worst = ball(-10)
    by_x: Row = [ball((2 * l > K) - (2 * l < K)) for l in range(K + 1)]
    for nx in range(K + 1):
        by_y = by_x
        for ny in range(K - nx + 1):
            n = K - nx - ny
            if n_mixed is None or nx + ny == n_mixed:
                U: dict[tuple[int, int], Row] = {}
                near_zero = by_y
                for a in range(n + 1):
                    both = near_zero
                    for a1 in range(n - a + 1):
                        U[a, a1] = both
                        both = step(both, 1 - Delta) if len(both) > 1 else both
                    near_zero = step(near_zero, Delta) if len(near_zero) > 1 else near_zero
                best = []  # of each n₁, at most a ≤ n₀ and a′ ≤ n₁
                for n1 in range(n + 1):
                    n0 = n - n1
                    best.append({(a, a1): U[a, a1][n1 - a1] for a in range(n0 + 1) for a1 in range(n1 + 1)})
                    running_maximum(best[n1], n0 + 1, n1 + 1)
                for n1, mine in enumerate(best):
                    n0 = n - n1
                    for A in range(n0 + 1):
                        for A1 in range(n1 + 1):
                            worst = worst.max(mine[A, A1] + c * best[n0][n1 - A1, n0 - A])
            by_y = step(by_y, y) if len(by_y) > 1 else by_y
        by_x = step(by_x, x) if len(by_x) > 1 else by_x
    return c - 1 + 2 * ball(problem.target.delta) - worst


@for_each("M", PRINTED)
def test_the_plain_majority_is_private_there(M: int) -> None:
    unrounded = Problem(K, Privacy(0.1, 1e-5), kov_composition(0.1, 1e-5, M, 0.1))
    for problem in (as_printed(M), unrounded):
        certificate = verify(problem, ONE)
        assert certificate.margin > 0.03  # 3 % of probability to spare
        assert certificate.error_bound < 1e-9
        assert (solve(problem).gamma == 1).all()


def test_by_exact_arithmetic() -> None:
    problem = as_printed(10)
    slack = slack_in_balls(problem)
    assert slack.lower() > 0
    margin = verify(problem, ONE).margin  # of the constraint divided by e^(mε), halved
    assert float(slack) / 2 * math.exp(-problem.target.epsilon) == pytest.approx(margin, abs=1e-9)


def test_exact_arithmetic_refutes_what_is_not_private() -> None:
    problem = Problem.from_allowance(K=K, m=6.4521, epsilon=0.1, Delta=1e-5, delta=0.03)
    assert slack_in_balls(problem, n_mixed=29).upper() < 0  # where the worst vector is: 29 at (x, y), 6 at (Δ, 0)


def test_by_enumeration() -> None:
    """Every vector in which all voters move and none from y to x, of all 26,978,328."""
    problem = as_printed(10)
    constraint = PrivacyConstraint.of(problem)
    bars = np.array([*combinations(range(K + 4), 4)])
    vectors = np.zeros((len(bars), len(LABELS)), dtype=np.int64)
    vectors[:, [XY, UP, DOWN, UP_TO_ONE, DOWN_FROM_ONE]] = np.diff(bars, prepend=-1, append=K + 4, axis=1) - 1
    worst = float(constraint.values(ONE.signed, vectors).max())
    assert worst + constraint.error(1.0) < constraint.limit
    assert worst == pytest.approx(verify(problem, ONE).worst_value, abs=1e-12)
