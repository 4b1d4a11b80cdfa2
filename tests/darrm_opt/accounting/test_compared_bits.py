"""The Gaussian comparison of a γ, by the vertices of its region, against the exact loss of adversaries.

The oracle (`campaigns.transcripts`) knows no region, no power divergence and no Gaussian: it places every voter at a corner of F and enumerates all adaptive transcripts in fractions.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from campaigns.transcripts import Fresh, Pair, shown_pairs
from support.cases import for_each

from darrm_opt.accounting.gaussian import gaussian_delta
from darrm_opt.accounting.labels.gaussian_comparison import GRID_RATIO, _increment, gaussian_cost
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import total_of
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem

flint = pytest.importorskip("flint")
arb = flint.arb

SLACK = 1e-12

CASES = {
    "private": (Problem(3, Privacy(0.4), Privacy(1.0)), [0.3, 0.5]),
    "two of them affected": (Problem(4, Privacy(0.3), Privacy(1.0), 2), [0.2, 0.9]),
    "leaking": (Problem(3, Privacy(0.2, 1e-2), Privacy(1.0)), [0.1, 0.2]),
    "not private": (Problem(5, Privacy(math.inf), Privacy(1.0), 1), [0.02, 0.05, 0.1]),
    "not monotone": (Problem(3, Privacy(0.5), Privacy(1.0), 1), [0.5, 0.3]),
}


def majority_of(case: str) -> NoisyMajority:
    problem, upper = CASES[case]
    return NoisyMajority(NoiseFunction.from_upper_half(np.array(upper), problem.K), problem)


def pairs_of(majority: NoisyMajority) -> list[Pair]:
    """Return the extreme pairs, for both answers and both orders of the neighbours."""
    shown = shown_pairs(majority.noise, majority.problem)
    return [pair for p, q in shown for pair in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p))]


@for_each("case", CASES)
def test_no_adversary_exceeds_the_comparison_in_a_few_releases(case: str) -> None:
    majority = majority_of(case)
    bound = majority.profile.divergence
    assert bound is not None
    for releases in (1, 2, 3):
        oracle = Fresh.of([(majority.noise, majority.problem)] * releases)
        cost = gaussian_cost(bound, releases, SLACK)
        assert cost.variance < math.inf
        for epsilon in (0.0, 0.03, 0.1, 0.3, 1.0):
            claimed = gaussian_delta(math.sqrt(cost.variance), epsilon) + cost.slack
            assert oracle.delta(epsilon) <= Fraction(claimed)


@for_each("case", CASES)
def test_the_divergence_of_the_vertices_is_the_largest_of_all_pairs(case: str) -> None:
    """At integer orders a power divergence is a fraction."""
    majority = majority_of(case)
    bound = majority.profile.divergence
    assert bound is not None
    for order in (2, 3, 5):
        exact = max(
            (sum(x**order / y ** (order - 1) for x, y in ((p, q), (1 - p, 1 - q))) - 1) / (order * (order - 1))
            for p, q in pairs_of(majority)
        )
        claimed = Fraction(float(bound.at(np.array([float(order)]))[0]))
        assert exact <= claimed
        if order <= bound.orders[-1]:
            assert claimed <= exact * Fraction(102, 100)


@for_each("case", CASES)
def test_one_step_of_the_comparison_holds_for_all_pairs(case: str) -> None:
    majority = majority_of(case)
    bound, pairs = majority.profile.divergence, pairs_of(majority)
    assert bound is not None
    pairs += [((p + r) / 2, (q + s) / 2) for (p, q), (r, s) in zip(pairs, pairs[2:], strict=False)]
    used = []
    for position in (16, 60, 140):
        s = bound.shift**2 * 2 * GRID_RATIO**position
        t = _increment(bound, s, SLACK)
        for y in np.linspace(0.0, 4 * math.sqrt(s), 9).tolist():
            before, after = (float(curve(y, each)) for each in (s, s + t))
            steps = [sum(float(chance * curve(y, s, ratio)) for chance, ratio in laws_of(pair)) for pair in pairs]
            assert max(steps) <= after + SLACK + 1e-15
            used.append((max(steps) - before) / (after - before) if after - before > 1e-9 else 0.0)
    assert max(used) > 0.9


@for_each("case", CASES)
def test_many_equal_releases_nearly_attain_the_bound(case: str) -> None:
    """A tiny vertex with a large loss, after the second last line, once raised the bound of "leaking" to 8.7."""
    majority, releases, delta = majority_of(case), 400, 1e-3
    claimed = total_of([(majority.guarantee, releases)], delta, skip=("bits",)).epsilons["gaussian"]
    attained = [binomial_delta(p, q, releases, claimed) for p, q in pairs_of(majority)]
    assert max(attained) <= delta
    nearly = [binomial_delta(p, q, releases, 0.95 * claimed) for p, q in pairs_of(majority)]
    assert max(nearly) > delta


def laws_of(pair: Pair) -> list[tuple[Any, Any]]:
    """Return (P_c, Q_c/P_c) of both answers."""
    p, q = pair
    return [
        (arb(x.numerator) / x.denominator, arb(y.numerator) * x.denominator / (arb(y.denominator) * x.numerator))
        for x, y in ((p, q), (1 - p, 1 - q))
    ]


def curve(y: float, s: float, ratio: Any = 1) -> Any:
    """Return U(e^y·ratio; s) from its definition, in ball arithmetic."""
    flint.ctx.prec = 120
    at, root = arb(y) + arb(ratio).log(), arb(s).sqrt()

    def tail(z: Any) -> Any:  # Φ(z)
        return (-z / arb(2).sqrt()).erfc() / 2

    return tail(root / 2 - at / root) - at.exp() * tail(-root / 2 - at / root)


def binomial_delta(p: Fraction, q: Fraction, releases: int, epsilon: float) -> Any:
    """Return δ at ε of this many bits that are 1 with probability p, or q on the neighbour, in ball arithmetic."""
    flint.ctx.prec = 120
    (a, b), c, zero = (arb(x.numerator) / x.denominator for x in (p, q)), arb(epsilon).exp(), arb(0)
    law = [(a**k * (1 - a) ** (releases - k), b**k * (1 - b) ** (releases - k)) for k in range(releases + 1)]
    return sum(((x - c * y).max(zero) * math.comb(releases, k) for k, (x, y) in enumerate(law)), zero)
