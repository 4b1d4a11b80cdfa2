"""Composition III, corrected: the tail that its third branch really has, in place of the slack.

E = H + √(2 S₂ ln(1/s)) leaves P[loss > E] ≤ min(s, tail(E)); H and S₂ as of
`darrm_opt.accounting.composition.closed_forms`.
"""

from __future__ import annotations

import math
from fractions import Fraction

from darrm_opt.accounting.composition.closed_forms import kov_branches
from darrm_opt.accounting.composition.optimal import add_leak, checked_mechanisms, least_possible_delta, nats
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, multiple_up, up


def tail_composition(epsilon: float, delta: float, k: int, slack: float) -> Privacy:
    """Return the total privacy of k mechanisms by the third branch, charging the tail that it has instead of s.

    ε = kε tanh(ε/2) + ε√(2k ln(1/s)), δ = 1 − (1−δ)^k (1 − min(s, tail)).

    Guarantees: Sound: the tail of the privacy loss bounds δ₀.
    Source: composition III of the reviewed source, with the sign of its exponent and its δ corrected; see
    `darrm_papers.he_wang_tao.printed`.
    """
    total = kov_branches({Privacy(epsilon, delta): k}, slack)[2]
    tail = min(slack, loss_tail(epsilon, k, total))
    total_delta = add_leak(least_possible_delta(delta, k), k * math.log1p(-delta), tail)
    return Privacy(total, total_delta) if total_delta < 1 else Privacy(math.inf)


def loss_tail(epsilon: float, k: int, total_epsilon: float) -> float:
    """Return a bound on the probability that the privacy loss of k-fold ε-randomised response exceeds E.

    With a = (1 + E/(kε))/2 and p = e^ε/(1+e^ε): exp(−k·KL(a‖p)) where kε tanh(ε/2) ≤ E < kε; 0 above; 1 below.

    Source: Chernoff's bound; the corrected tail of composition III.
    """
    epsilon, _, k = checked_mechanisms(epsilon, 0.0, k)
    total_epsilon = nats(total_epsilon, "total_epsilon")
    max_loss = multiple_up(k, epsilon)
    if Fraction(total_epsilon) >= k * Fraction(epsilon):
        return 0.0
    if total_epsilon < up(k * epsilon * math.tanh(epsilon / 2), 8):
        return 1.0
    shrink = math.exp(-epsilon)
    p, q = 1 / (1 + shrink), shrink / (1 + shrink)
    a, rest = ((max_loss + sign * total_epsilon) / (2 * max_loss) for sign in (1, -1))  # rest > 0; q > 0 as tanh < 1
    to_a, to_rest = math.log(a / p), math.log(rest / q)
    exponent = k * (a * to_a + rest * to_rest)
    # Every factor is within a few ulps: a, rest and their shares of `max_loss` to 4, the logs to 8 absolute.
    error = k * ULP * (16 + 8 * abs(to_a) + 8 * abs(to_rest))
    return min(1.0, up(math.exp(-max(0.0, exponent - error)), 4))
