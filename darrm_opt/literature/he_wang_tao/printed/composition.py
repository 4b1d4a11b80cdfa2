"""Composition theorems I, II, III and V as printed.

I, II and V claim a δ below 1 − Π(1−δ_i) when k > E/ε and the slack is small. A mechanism that reveals the record with
probability δ_i and is blank otherwise refutes them in one line: after all runs the record is out with probability
1 − Π(1−δ_i). Their proof bounds product events only, and "some step leaked" is none. In III an exponent has the
wrong sign.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations

from darrm_opt.accounting.composition.closed_forms import check_slack, kov_branches
from darrm_opt.accounting.composition.optimal import Events, checked_mechanisms, count_events, optimal_delta_of_sequence
from darrm_opt.accounting.errors import Counterexample, UnsoundBound
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy


@dataclass(frozen=True)
class PrintedTheorem:
    """The numbers of a theorem as printed. Not a guarantee: there is no way from here to a `Privacy`.

    Attributes:
        name: the theorem.
        epsilon: total ε as printed [nats].
        delta: total δ as printed [probability]; may be too small.
        exact_delta: the exact optimum at the same ε, where it is known [probability].
        counterexample: what refutes the theorem, for these very inputs where they are refuted.
    """

    name: str
    epsilon: float
    delta: float
    exact_delta: float | None
    counterexample: Counterexample

    @property
    def sound(self) -> bool:
        """False: the theorem is refuted, even where a number of it happens to hold."""
        return False

    @property
    def shortfall(self) -> float:
        """By how much the printed δ is below the exact one at these inputs; 0 where it is not known to be."""
        return 0.0 if self.exact_delta is None else max(0.0, self.exact_delta - self.delta)

    @property
    def refuted_here(self) -> bool:
        """Whether the printed δ is below the exact one at these very inputs."""
        return self.exact_delta is not None and self.delta < self.exact_delta * (1 - 1e-9)


def require_acknowledgement(theorem: PrintedTheorem, instead: str, *, acknowledge_unsound: bool) -> PrintedTheorem:
    """Return ``theorem``, or raise `UnsoundBound` if the caller has not acknowledged what it is."""
    if acknowledge_unsound is not True:
        raise UnsoundBound(theorem.name, theorem.counterexample, instead)
    return theorem


MAX_ENUMERATED = 15
"""Most mechanisms of different parameters for which theorem I's maximum is enumerated."""

LEAK = Counterexample(
    "1000 runs of a mechanism that reveals the record with probability 1e-5 and is blank otherwise, which is "
    "(1, 1e-5)-DP, with slack 1e-5",
    epsilon=613.859870198533,
    claimed=0.008207391114461834,
    truth=0.0099502157,
)
"""The canonical refutation of I, II and V; the tests recompute it."""

RESPONSE = Counterexample(
    "50 runs of randomised response with epsilon = 0.2676, and slack 1e-4",
    epsilon=9.900906703305654,
    claimed=1.52976e-15,
    truth=5.13483e-07,
)
"""The canonical refutation of III; the tests recompute it."""


def composition_i_printed(events: Events, slack: float, *, acknowledge_unsound: bool = False) -> PrintedTheorem:
    """Return composition theorem I (Theorem 4) as printed: false.

    D = max over α of [1 − Π(1 − e^(α_i) A_i)] + 1 − Π(1 − A_i) + s, A_i = δ_i/(1+e^(ε_i)), Σα_i = E, 0 ≤ α_i ≤ ε_i, at
    most one of them strictly inside; E the least branch of `kov_branches`.

    Args:
        events: (ε, δ) of each mechanism; at most `MAX_ENUMERATED` unless all are equal.
        slack: s, in (0, 1].
        acknowledge_unsound: must be True.

    Counterexample: `LEAK`.
    """
    counts = count_events(events)
    total = min(kov_branches(counts, slack))
    return _leaking("composition theorem I", counts, total, _first_delta(counts, total, slack), acknowledge_unsound)


def composition_v_printed(events: Events, slack: float, *, acknowledge_unsound: bool = False) -> PrintedTheorem:
    """Return composition theorem V (Theorem 6) as printed: false. As I, with E = H + √(2 S₂ ln(1/s)).

    Counterexample: `LEAK`.
    """
    counts = count_events(events)
    total = kov_branches(counts, slack)[2]
    return _leaking("composition theorem V", counts, total, _first_delta(counts, total, slack), acknowledge_unsound)


def composition_ii_printed(
    epsilon: float, delta: float, k: int, slack: float, *, acknowledge_unsound: bool = False
) -> PrintedTheorem:
    """Return composition theorem II (Corollary 2) as printed: false.

    D = 1 − (1 − e^ε A)^m (1 − A)^(k−m) + 1 − (1 − A)^k + s, A = δ/(1+e^ε), m = min(k, ⌈E/ε⌉).

    Args:
        epsilon: of one mechanism [nats], finite, > 0.
        delta: of one mechanism [probability], in [0, 1).
        k: number of mechanisms, ≥ 1.
        slack: s, in (0, 1].
        acknowledge_unsound: must be True.

    Counterexample: `LEAK`.
    """
    epsilon, delta, k = checked_mechanisms(epsilon, delta, k)
    counts = count_events({Privacy(epsilon, delta): k})
    total = min(kov_branches(counts, slack))
    claimed = min(1.0, second_delta(epsilon, delta, k, total) + slack)
    return _leaking("composition theorem II", counts, total, claimed, acknowledge_unsound)


def composition_iii_printed(
    epsilon: float, delta: float, k: int, slack: float, *, acknowledge_unsound: bool = False
) -> PrintedTheorem:
    """Return composition theorem III (Corollary 3) as printed: false. As II, with the tail for s and E = third branch.

    Counterexample: `RESPONSE`, whose tail the printed sign makes smaller by the factor e^(E+kε).
    """
    epsilon, delta, k = checked_mechanisms(epsilon, delta, k)
    counts = count_events({Privacy(epsilon, delta): k})
    total = kov_branches(counts, slack)[2]
    claimed = min(1.0, second_delta(epsilon, delta, k, total) + _tail(epsilon, k, total))
    exact = optimal_delta_of_sequence(counts, total)
    at_inputs = Counterexample("the hardest mechanism for these inputs", total, claimed, exact)
    theorem = PrintedTheorem(
        "composition theorem III", total, claimed, exact, at_inputs if claimed < exact * (1 - 1e-9) else RESPONSE
    )
    return require_acknowledgement(
        theorem, "tail_composition() or optimal_composition()", acknowledge_unsound=acknowledge_unsound
    )


def loss_tail_printed(epsilon: float, k: int, slack: float, *, acknowledge_unsound: bool = False) -> PrintedTheorem:
    """Return the tail of composition theorem III as printed: false, the sign of (E+kε)/2 is wrong.

    e^(−(E+kε)/2) [2kε/((1+e^ε)(kε−E))]^k [(kε+E)/(kε−E)]^(−(E+kε)/(2ε)) at E = third branch for ``slack``.

    Counterexample: `RESPONSE`.
    """
    return composition_iii_printed(epsilon, 0.0, k, slack, acknowledge_unsound=acknowledge_unsound)


def second_delta(epsilon: float, delta: float, k: int, total: float) -> float:
    """Return the δ of theorem II without its slack."""
    share = delta / (1 + math.exp(epsilon))
    full = min(k, math.ceil(total / epsilon * (1 - 1e-14)))
    most = full * math.log1p(-math.exp(epsilon) * share) + (k - full) * math.log1p(-share)
    return -math.expm1(most) - math.expm1(k * math.log1p(-share))


def _tail(epsilon: float, k: int, total: float) -> float:
    most = k * epsilon
    if total >= most:
        raise InvalidInput(
            "slack", total, f"one whose ε is below kε = {most!r}", "The printed tail is not defined there."
        )
    logarithm = -(total + most) / 2
    logarithm += k * (math.log(2 * most) - math.log1p(math.exp(epsilon)) - math.log(most - total))
    logarithm -= (total + most) / (2 * epsilon) * math.log((most + total) / (most - total))
    return math.exp(logarithm)


def _first_delta(counts: Counter[Privacy], total: float, slack: float) -> float:
    slack = check_slack(slack)
    shares = [(event.epsilon, event.delta / (1 + math.exp(event.epsilon))) for event in counts.elements()]
    if len(counts) == 1:
        epsilon = shares[0][0]
        full = min(len(shares), math.floor(total / epsilon * (1 + 1e-14)))
        alphas = [[epsilon] * full + [total - full * epsilon] * (full < len(shares))]
    elif len(shares) <= MAX_ENUMERATED:
        alphas = _vertices([epsilon for epsilon, _ in shares], total)
    else:
        raise InvalidInput("events", len(shares), f"at most {MAX_ENUMERATED} mechanisms, unless all are equal")
    best = 0.0
    for alpha in alphas:
        padded = alpha + [0.0] * (len(shares) - len(alpha))
        log_blank = math.fsum(math.log1p(-math.exp(a) * share) for a, (_, share) in zip(padded, shares, strict=True))
        best = max(best, -math.expm1(log_blank))
    rest = -math.expm1(math.fsum(math.log1p(-share) for _, share in shares))
    return min(1.0, best + rest + slack)


def _vertices(epsilons: list[float], total: float) -> list[list[float]]:
    """Return every α with entries 0 or ε_i but one, that adds up to ``total``."""
    indices = range(len(epsilons))
    if total >= math.fsum(epsilons):
        return [epsilons]
    vertices = []
    for size in range(len(epsilons)):
        for full in combinations(indices, size):
            remainder = total - math.fsum(epsilons[i] for i in full)
            if remainder < 0:
                continue
            base = [epsilons[i] if i in full else 0.0 for i in indices]
            vertices += [
                [*base[:partial], remainder, *base[partial + 1 :]]
                for partial in indices
                if partial not in full and remainder <= epsilons[partial]
            ]
    return vertices


def _leaking(
    name: str,
    counts: Counter[Privacy],
    total: float,
    claimed: float,
    acknowledge_unsound: bool,  # noqa: FBT001 - private: the public functions take it by name
) -> PrintedTheorem:
    exact = optimal_delta_of_sequence(counts, total)
    at_inputs = Counterexample("the mechanisms that leak with their own delta, at these inputs", total, claimed, exact)
    theorem = PrintedTheorem(name, total, claimed, exact, at_inputs if claimed < exact * (1 - 1e-9) else LEAK)
    return require_acknowledgement(
        theorem,
        "kov_composition_of_sequence() or optimal_composition_of_sequence()",
        acknowledge_unsound=acknowledge_unsound,
    )
