"""Closed-form composition of (ε, δ)-DP mechanisms, each chosen freely in view of the earlier outputs.

    basic_composition  (kε, kδ)
    kov_composition    Kairouz, Oh, Viswanath: grows with √k

Every answer is rounded up: the doubles that are returned are a guarantee, not an approximation of one.

For mechanisms with different parameters, with S₁ = Σε_i, S₂ = Σε_i², H = Σε_i tanh(ε_i/2) and slack s in (0, 1],

    E = min{ S₁,  H + √(2 S₂ ln(e + √S₂/s)),  H + √(2 S₂ ln(1/s)) },    D = 1 − (1−s) Π(1−δ_i),

where S₁ needs no slack: s = 0 there. For equal mechanisms this is `kov_composition`. `tail_composition` replaces s by
the tail that the third branch really has: E = H + √(2 S₂ ln(1/s)) leaves P[loss > E] ≤ min(s, tail(E)).
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from darrm_opt.accounting.composition.optimal import (
    Events,
    add_leak,
    check_total_delta,
    checked_mechanisms,
    count_events,
    leak_of,
    least_possible_delta,
    nats,
    total_loss,
)
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, down, multiple_up, up

CLOSED_FORM_ULPS = 32
"""Relative error of `kov_composition` before rounding. Each term is positive and goes through fewer than 12
operations of at most 2 units in the last place (tanh, log, sqrt and expm1 included), none of which
amplifies a relative error: 24, and 32 leaves room."""

MAX_MECHANISMS = 2**53
"""Beyond this a count is not exact as a double."""

_MECHANISMS = "a whole number of mechanisms, at least 1"


def basic_composition(epsilon: float, delta: float, k: int) -> Privacy:
    """Return (kε, kδ), the privacy of k mechanisms that are (ε, δ)-DP each.

    (inf, 0), "nothing is promised", where kδ ≥ 1.

    Guarantees: Never below the exact value; exact where a double can hold it.
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
    δ_total = 1 − (1−δ)^k(1−δ′); the first branch needs no slack, so there δ_total = 1 − (1−δ)^k.

    (inf, 0), "nothing is promised", where δ_total rounds to 1.

    Guarantees: Never below the exact value; above it by less than 1e-14 of it.
    Source: Theorem 2.3 of the paper; Kairouz, Oh, Viswanath, "The composition theorem for differential privacy",
    Theorem 3.4.

    >>> round(kov_composition(0.2676, 0.0003, k=50, slack=1e-4).epsilon, 3)
    9.901
    """
    mechanism, k = Privacy(epsilon, delta), _check_count(k)
    slack = real_number(slack, "slack", "a probability in [0, 1)", least=0, below=1)
    if mechanism.epsilon == math.inf:
        return Privacy(math.inf)
    total, charge = multiple_up(k, mechanism.epsilon), 0.0
    if slack > 0:
        root_branch = up(_square_root_branches(mechanism.epsilon, k, slack), CLOSED_FORM_ULPS)
        if root_branch < total:
            total, charge = root_branch, slack
    failure = -math.expm1(k * math.log1p(-mechanism.delta) + math.log1p(-charge))  # 1 − (1−δ)^k(1−δ′)
    return _finite_or_nothing(total, up(failure, CLOSED_FORM_ULPS) if failure > 0 else 0.0)


def _square_root_branches(epsilon: float, k: int, slack: float) -> float:
    """Return the smaller of the two branches that grow with √k; (e^ε−1)/(e^ε+1) = tanh(ε/2), which cannot overflow."""
    mean = k * epsilon * math.tanh(epsilon / 2)
    spread = math.sqrt(k) * epsilon
    first = math.log(math.e + spread / slack)
    second = -math.log(slack)
    return mean + spread * math.sqrt(2 * min(first, second))


def _finite_or_nothing(epsilon: float, delta: float) -> Privacy:
    return Privacy(epsilon, delta) if delta < 1 else Privacy(math.inf)


def _check_count(k: int) -> int:
    count = whole_number(k, "k", _MECHANISMS)
    if count > MAX_MECHANISMS:
        raise InvalidInput("k", k, f"{_MECHANISMS} and at most {MAX_MECHANISMS}")
    return count


BRANCH_ULPS = 64
"""Relative error of a branch before rounding: sums of positive terms of at most 6 operations each, added by `fsum`,
then two square roots, a logarithm and a sum."""


def kov_branches(events: Events, slack: float) -> tuple[float, float, float]:
    """Return the three branches of the closed form [nats], each rounded up.

    (Σε, branch with ln(e + √S₂/s), branch with ln(1/s)).

    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.5.
    """
    return _branches(count_events(events), check_slack(slack))


def kov_composition_of_sequence(events: Events, slack: float) -> Privacy:
    """Return the total privacy by the closed form with slack s; where Σε is the least, no slack is charged.

    (inf, 0) where the total δ rounds to 1.

    Guarantees: Sound; never below `optimal_composition_of_sequence` at the same δ.
    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.5.
    """
    counts, slack = count_events(events), check_slack(slack)
    sum_branch, *root_branches = _branches(counts, slack)
    if sum_branch <= min(root_branches):
        return _finite_or_nothing(sum_branch, leak_of(counts))
    return _finite_or_nothing(min(root_branches), kov_delta(counts, slack))


def kov_delta(events: Events, slack: float) -> float:
    """Return 1 − (1−s) Π(1−δ_i), rounded up: what a branch with slack s ≥ 0 costs in δ [probability]."""
    counts = count_events(events)
    return add_leak(leak_of(counts), _log_no_leak(counts), 0.0 if slack == 0 else check_slack(slack))


def kov_composition_at_delta(events: Events, total_delta: float) -> Privacy:
    """Return the least ε of the closed form at a total δ: all that Π(1−δ_i) leaves of it is slack.

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


def tail_composition(epsilon: float, delta: float, k: int, slack: float) -> Privacy:
    """Return the total privacy of k mechanisms by the third branch, charging the tail that it has instead of s.

    ε = kε tanh(ε/2) + ε√(2k ln(1/s)), δ = 1 − (1−δ)^k (1 − min(s, tail)).

    Guarantees: Sound: the tail of the privacy loss bounds δ₀.
    Source: composition III of the reviewed source, with the sign of its exponent and its δ corrected; see
    `darrm_papers.he_wang_tao.printed`.
    """
    total = kov_branches({Privacy(epsilon, delta): k}, slack)[2]
    tail = min(slack, loss_tail(epsilon, k, total))
    return _finite_or_nothing(total, add_leak(least_possible_delta(delta, k), k * math.log1p(-delta), tail))


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


def check_slack(slack: float) -> float:
    """Return a checked slack in (0, 1]."""
    return real_number(slack, "slack", "a probability above 0, at most 1", above=0, most=1)


def _branches(counts: Counter[Privacy], slack: float) -> tuple[float, float, float]:
    squares = math.fsum(count * event.epsilon**2 for event, count in counts.items())
    mean = math.fsum(count * event.epsilon * math.tanh(event.epsilon / 2) for event, count in counts.items())
    first = mean + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / slack))
    second = mean + math.sqrt(2 * squares * -math.log(slack))
    first, second = (up(term, BRANCH_ULPS) if term else 0.0 for term in (first, second))
    return total_loss(counts), first, second


def _log_no_leak(counts: Counter[Privacy]) -> float:
    return math.fsum(count * math.log1p(-event.delta) for event, count in counts.items())
