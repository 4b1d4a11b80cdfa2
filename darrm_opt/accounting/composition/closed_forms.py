"""Closed-form composition of (ε, δ)-DP mechanisms, each chosen freely after the earlier outputs.

    basic_composition  (kε, kδ)
    kov_composition    Kairouz, Oh, Viswanath: grows with √k

Every result is rounded up: the returned doubles are a guarantee, not an approximation of one.

For mechanisms with different parameters, with S₁ = Σε_i, S₂ = Σε_i², H = Σε_i tanh(ε_i/2) and slack s in (0, 1],

    E = min{ S₁,  H + √(2 S₂ ln(e + √S₂/s)),  H + √(2 S₂ ln(1/s)) },    D = 1 − (1−s) Π(1−δ_i),

where S₁ needs no slack: s = 0 there. For equal mechanisms this is `kov_composition`.
"""

from __future__ import annotations

import math
from collections import Counter

from darrm_opt.accounting.composition.optimal import (
    Events,
    add_leak,
    check_total_delta,
    count_events,
    leak_of,
    total_loss,
)
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import down, multiple_up, up

MAX_MECHANISMS = 2**53  # largest count that is exact as a double

_MECHANISMS = "a whole number of mechanisms, at least 1"


def basic_composition(epsilon: float, delta: float, k: int) -> Privacy:
    """Return (kε, kδ), the privacy of k mechanisms that are (ε, δ)-DP each; (inf, 0), no guarantee, if kδ ≥ 1.

    Guarantees: Never below the exact value; exact if it is a double.
    Source: basic composition (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006).

    >>> basic_composition(0.5, 0.25, 3)
    Privacy(epsilon=1.5, delta=0.75)
    """
    mechanism, k = Privacy(epsilon, delta), _check_count(k)
    if mechanism.epsilon == math.inf:
        return Privacy(math.inf)
    return _finite_or_nothing(multiple_up(k, mechanism.epsilon), multiple_up(k, mechanism.delta))


def kov_composition(epsilon: float, delta: float, k: int, slack: float) -> Privacy:
    """Return the privacy of k mechanisms that are (ε, δ)-DP each, by the closed form with slack δ′.

    ε_total = min{kε, B + ε√(2k·ln(e + √(kε²)/δ′)), B + ε√(2k·ln(1/δ′))}, B = kε(e^ε−1)/(e^ε+1), and
    δ_total = 1 − (1−δ)^k(1−δ′); the first branch needs no slack, so there δ_total = 1 − (1−δ)^k. If δ_total rounds to
    1, (inf, 0): no guarantee.

    Guarantees: Never below the exact value; above it by a relative 2e-14 at most.
    Source: Theorem 2.3 of the paper; Kairouz, Oh, Viswanath, "The composition theorem for differential privacy",
    Theorem 3.4.

    >>> round(kov_composition(0.2676, 0.0003, k=50, slack=1e-4).epsilon, 3)
    9.901
    """
    mechanism, k = Privacy(epsilon, delta), _check_count(k)
    slack = real_number(slack, "slack", "a probability in [0, 1)", least=0, below=1)
    if mechanism.epsilon == math.inf:
        return Privacy(math.inf)
    counts, charge = Counter({mechanism: k}), 0.0
    total = total_loss(counts)
    if slack > 0 and (root_branch := min(_branches(counts, slack)[1:])) < total:
        total, charge = root_branch, slack
    return _finite_or_nothing(total, kov_delta(counts, charge))


def _finite_or_nothing(epsilon: float, delta: float) -> Privacy:
    return Privacy(epsilon, delta) if delta < 1 else Privacy(math.inf)


def _check_count(k: int) -> int:
    count = whole_number(k, "k", _MECHANISMS)
    if count > MAX_MECHANISMS:
        raise InvalidInput("k", k, f"{_MECHANISMS} and at most {MAX_MECHANISMS}")
    return count


BRANCH_ULPS = 64
"""Relative error of a branch before rounding: `fsum` of positive terms of at most 6 operations each, then two square
roots, a logarithm and a sum."""


def kov_branches(events: Events, slack: float) -> tuple[float, float, float]:
    """Return the three branches of the closed form [nats], each rounded up: Σε, with ln(e + √S₂/s), with ln(1/s).

    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.5.
    """
    return _branches(count_events(events), check_slack(slack))


def kov_delta(events: Events, slack: float) -> float:
    """Return 1 − (1−s) Π(1−δ_i), rounded up: the δ of a branch with slack s ≥ 0 [probability]."""
    counts = count_events(events)
    return add_leak(leak_of(counts), _log_no_leak(counts), 0.0 if slack == 0 else check_slack(slack))


def kov_composition_at_delta(events: Events, total_delta: float) -> Privacy:
    """Return the least ε of the closed form at a total δ, with the largest slack that Π(1−δ_i) leaves.

    Guarantees: Sound; never below `optimal_composition_of_sequence`.

    >>> round(kov_composition_at_delta([Privacy(0.2676, 0.0003)] * 50, 0.015).epsilon, 4)
    9.8532
    """
    counts = count_events(events)
    total_delta, floor = check_total_delta(counts, total_delta)
    # s = (D − floor)/Π(1−δ_i), rounded down, so that floor + Π(1−δ_i)·s is at most D.
    log_no_leak = _log_no_leak(counts)
    slack = min(1.0, down((total_delta - floor) / math.exp(log_no_leak), 8 + int(4 * abs(log_no_leak))))
    if slack == 0:
        return Privacy(total_loss(counts), total_delta)
    return Privacy(min(_branches(counts, slack)), total_delta)


def check_slack(slack: float) -> float:
    """Return a valid slack in (0, 1]."""
    return real_number(slack, "slack", "a probability above 0, at most 1", above=0, most=1)


MAX_TOTAL = 1e150
"""Largest Σε for the branches with a root, which are ∞ beyond it [nats]: its square is far from overflow."""


def _branches(counts: Counter[Privacy], slack: float) -> tuple[float, float, float]:
    total = total_loss(counts)
    if total > MAX_TOTAL:
        return total, math.inf, math.inf
    squares = math.fsum(count * event.epsilon**2 for event, count in counts.items())
    mean = math.fsum(count * event.epsilon * math.tanh(event.epsilon / 2) for event, count in counts.items())
    first = mean + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / slack))
    second = mean + math.sqrt(2 * squares * -math.log(slack))
    first, second = (up(term, BRANCH_ULPS) if term else 0.0 for term in (first, second))
    return total, first, second


def _log_no_leak(counts: Counter[Privacy]) -> float:
    return math.fsum(count * math.log1p(-event.delta) for event, count in counts.items())
