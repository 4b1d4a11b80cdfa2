"""Theorems of the reviewed source that are false as printed, to reproduce its numbers and nothing else.

Every function here raises `UnsoundBound`, with a counterexample, unless ``acknowledge_unsound=True``; no accountant,
budget or service calls any of them. What to use instead: `optimal`, `kov_composition_at_delta`, `tail_composition`,
`sgld`, `federated`, `high_probability`.

Source: F. He, B. Wang, D. Tao,
"Tighter Generalization Bounds for Iterative Differentially Private Learning Algorithms".

*Composition.* I, II and V claim a δ below 1 − Π(1−δ_i) when k > E/ε and the slack is small. A mechanism that reveals
the record with probability δ_i and is blank otherwise refutes them in one line: after all runs the record is out with
probability 1 − Π(1−δ_i). Their proof bounds product events only, and "some step leaked" is none. In III an exponent has
the wrong sign.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from darrm_opt.accounting.composition.closed_forms import check_slack, kov_branches
from darrm_opt.accounting.composition.optimal import Events, checked_mechanisms, count_events, optimal_delta_of_sequence
from darrm_opt.accounting.gaussian import gaussian_delta, positive_delta
from darrm_opt.arguments import whole_number
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.problem import Privacy
from darrm_papers.he_wang_tao.training import positive


@dataclass(frozen=True)
class Counterexample:
    """A mechanism for which a printed claim is false.

    Attributes:
        mechanism: its description.
        epsilon: total ε of the claim [nats].
        claimed: the claimed δ at ``epsilon`` [probability].
        truth: a lower bound on the mechanism's true δ [probability].
    """

    mechanism: str
    epsilon: float
    claimed: float
    truth: float

    def __str__(self) -> str:
        return (
            f"{self.mechanism}: at epsilon = {self.epsilon:.6g} the claim is delta = {self.claimed:.6g}, "
            f"the truth at least {self.truth:.6g}."
        )


class UnsoundBound(DarrmError):
    """A theorem that is false as printed was requested without acknowledging it."""

    def __init__(self, name: str, counterexample: Counterexample, instead: str) -> None:
        self.counterexample = counterexample
        super().__init__(
            f"{name} is false as printed: {counterexample} Use {instead}, or pass acknowledge_unsound=True to "
            "reproduce the printed number."
        )


@dataclass(frozen=True)
class PrintedTheorem:
    """The numbers of a theorem as printed. Not a guarantee: there is no way from here to a `Privacy`."""

    name: str  # the theorem
    epsilon: float
    delta: float
    exact_delta: float | None  # the exact optimum at the same ε, where it is known [probability]
    counterexample: Counterexample  # what refutes the theorem, for these very inputs where they are refuted

    @property
    def shortfall(self) -> float:
        """By how much the printed δ is below the exact one at these inputs; 0 where it is not known to be."""
        return 0.0 if self.exact_delta is None else max(0.0, self.exact_delta - self.delta)

    @property
    def refuted_here(self) -> bool:
        """Whether the printed δ is below the exact one at these very inputs."""
        return self.exact_delta is not None and self.delta < self.exact_delta * (1 - 1e-9)


def _stated(
    theorem: PrintedTheorem,
    instead: str,
    acknowledge_unsound: bool,  # noqa: FBT001 - private: the public functions take it by name
    mechanism: str = "",
) -> PrintedTheorem:
    """Return a theorem, or raise `UnsoundBound` if the caller has not acknowledged what it is.

    Where it is refuted at its very inputs, ``mechanism`` becomes its counterexample.
    """
    if mechanism and theorem.refuted_here and theorem.exact_delta is not None:
        at_inputs = Counterexample(mechanism, theorem.epsilon, theorem.delta, theorem.exact_delta)
        theorem = replace(theorem, counterexample=at_inputs)
    if acknowledge_unsound is not True:
        raise UnsoundBound(theorem.name, theorem.counterexample, instead)
    return theorem


MAX_ENUMERATED = 15  # most mechanisms of different parameters for which theorem I's maximum is enumerated

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
    claimed = min(1.0, second_delta(epsilon, delta, k, total) + _tail(epsilon, k, total, slack))
    exact = optimal_delta_of_sequence(counts, total)
    theorem = PrintedTheorem("composition theorem III", total, claimed, exact, RESPONSE)
    instead, mechanism = "tail_composition() or optimal_composition()", "the hardest mechanism for these inputs"
    return _stated(theorem, instead, acknowledge_unsound, mechanism)


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


def _tail(epsilon: float, k: int, total: float, slack: float) -> float:
    """Return the tail of theorem III as printed, of k mechanisms at E = ``total``, which ``slack`` gives."""
    most = k * epsilon
    if total >= most:
        raise InvalidInput(
            "slack", slack, f"one whose ε is below kε = {most!r}", "The printed tail is not defined there."
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
    theorem = PrintedTheorem(name, total, claimed, optimal_delta_of_sequence(counts, total), LEAK)
    mechanism = "the mechanisms that leak with their own delta, at these inputs"
    instead = "kov_composition_at_delta() or optimal_composition_of_sequence()"
    return _stated(theorem, instead, acknowledge_unsound, mechanism)


SGLD_RUN = Counterexample(
    "100 steps of SGLD with a shift of 2 standard deviations on 1 of 1000 records, delta = slack = 1e-6, all other "
    "gradients equal and the changed one opposite",
    epsilon=0.7734,
    claimed=1.0997e-06,
    truth=3.25e-05,
)
"""The canonical refutation of Theorem 7, by an optimistic PLD of the realisable pair; the tests recompute it."""

FEDERATED_RUN = Counterexample(
    "100 rounds of federated learning with 1 of 1000 clients each, noise multiplier 1, delta = slack = 1e-6, all other "
    "updates equal and the replaced one opposite",
    epsilon=0.8212,
    claimed=1.0997e-06,
    truth=1.9e-04,
)
"""The canonical refutation of Theorem 8's totals, by an optimistic PLD of the realisable pair; recomputed in tests."""

Radical = Literal["sum", "fraction", "logarithm"]
"""Extent of the radical of Theorem 8: ln(1/δ) + 1/τ², as it is typeset; the whole fraction; or ln(1/δ), as the units
suggest."""

IMPOSSIBLE = Counterexample(
    "any algorithm at all at epsilon = 2.5, delta = 1e-6: the printed failure probability is negative",
    epsilon=2.5,
    claimed=-7.3e-09,
    truth=0.0,
)
"""The refutation of Theorem 1 from ε = 2 on."""


def sgld_step_printed(
    batch: int, lipschitz: float, sigma: float, delta: float, *, acknowledge_unsound: bool = False
) -> PrintedTheorem:
    """Return the per-step ε of Theorem 7 as printed: false, half of the first term is lost.

    ε = [2√2 Lσ(1/τ)√ln(1/δ) + 4L²/τ²]/(2σ²), where the shift 2L/τ gives [4√2 Lσ(1/τ)√ln(1/δ) + 4L²/τ²]/(2σ²).

    Counterexample: the Gaussian mechanism itself, by its exact profile.
    """
    batch, shift = _shift(batch, lipschitz, sigma)
    epsilon = (shift * math.sqrt(2 * -math.log(positive_delta(delta))) + shift**2) / 2
    return _gaussian("Theorem 7's per-step epsilon", shift, epsilon, delta, acknowledge_unsound)


def sgld_printed(
    records: int,
    batch: int,
    lipschitz: float,
    sigma: float,
    steps: int,
    delta: float,
    slack: float,
    *,
    acknowledge_unsound: bool = False,
) -> PrintedTheorem:
    """Return Theorem 7 (SGLD) as printed, its last term omitted: false.

    E = √(8q²Te² ln(1/s)) + 2Tqe·tanh(qe) with e of `sgld_step_printed`, q = τ/N, and D as in theorem II for 2qe and qδ.

    Counterexample: `SGLD_RUN`. Besides the factor 2, the rule (2qε, qδ) for a sampled step fails for ε above 1.256.
    """
    rate, step, total = _sgld_total(records, batch, lipschitz, sigma, steps, delta, slack)
    claimed = second_delta(2 * rate * step, rate * delta, steps, total)
    theorem = PrintedTheorem("Theorem 7 (SGLD)", total, claimed, None, SGLD_RUN)
    return _stated(theorem, "sgld()", acknowledge_unsound)


def sgld_last_term_printed(
    records: int,
    batch: int,
    lipschitz: float,
    sigma: float,
    steps: int,
    delta: float,
    slack: float,
    *,
    acknowledge_unsound: bool = False,
) -> PrintedTheorem:
    """Return the last term of Theorem 7's δ as printed: false, with qe for 2qe and the sign error of theorem III.

    e^(−(E+qTe)/2) [2qTe/((1+e^(qe))(qTe−E))]^T [(qTe+E)/(qTe−E)]^(−(E+qTe)/(2qe)).

    Counterexample: `SGLD_RUN`.
    """
    rate, step, total = _sgld_total(records, batch, lipschitz, sigma, steps, delta, slack)
    theorem = PrintedTheorem("Theorem 7's last term", total, _tail(rate * step, steps, total, slack), None, SGLD_RUN)
    return _stated(theorem, "sgld()", acknowledge_unsound)


def federated_step_printed(
    cohort: int, sigma: float, delta: float, *, radical: Radical = "sum", acknowledge_unsound: bool = False
) -> PrintedTheorem:
    """Return the per-round ε of Theorem 8 as printed: false, in each reading of its radical.

    Let L = ln(1/δ), and μ = 1/(τσ) the shift of a round where a client is silenced; where one is replaced it is 2μ.

    - ``sum``, as it is typeset: ε = 4σ(1/τ)√(L + 1/τ²)/(2σ²) = 2μ√(L + 1/τ²). Silencing: true for μ ≤ 1.17√L, false for
      less noise. Replacing: false, at δ ≤ 1e-5 from μ = ⅛ on.
    - ``fraction``: ε = √([4σ(1/τ)L + 1/τ²]/(2σ²)) = √(2μL + μ²/2), far too large for much noise. Silencing: true for
      μ ≤ ½, false for little noise. Replacing: true for μ ≤ ⅛, false for little noise.
    - ``logarithm``: ε = [4σ(1/τ)√L + 1/τ²]/(2σ²) = 2μ√L + μ²/2. Silencing: true. Replacing: as for ``sum``.

    What is called true follows from the tail bound, ε = s√(2L) + s²/2 at a shift s (`gaussian_epsilon_tail`).

    Counterexample: replacing one client, by the Gaussian's exact profile at shift 2/(τσ).
    """
    cohort, shift = _shift(cohort, 0.5, sigma)  # 1/(τσ)
    logarithm = -math.log(positive_delta(delta))
    if radical == "sum":
        epsilon = 2 * shift * math.sqrt(logarithm + 1 / cohort**2)
    elif radical == "fraction":
        epsilon = math.sqrt(2 * shift * logarithm + shift**2 / 2)
    elif radical == "logarithm":
        epsilon = 2 * shift * math.sqrt(logarithm) + shift**2 / 2
    else:
        raise InvalidInput("radical", radical, "'sum', 'fraction' or 'logarithm'")
    return _gaussian("Theorem 8's per-round epsilon", 2 * shift, epsilon, delta, acknowledge_unsound)


def federated_printed(
    clients: int,
    cohort: int,
    sigma: float,
    rounds: int,
    delta: float,
    slack: float,
    *,
    radical: Radical = "sum",
    acknowledge_unsound: bool = False,
) -> PrintedTheorem:
    """Return the totals of Theorem 8 (agnostic federated learning) as printed, its last term omitted: false.

    E = √(8q²Te² ln(1/s)) + 2Tqe·tanh(qe) with e of `federated_step_printed`, q = τ/N, and D as in theorem II for 2qe
    and qδ.

    Counterexample: `FEDERATED_RUN`.
    """
    rounds = whole_number(rounds, "rounds", "a whole number of rounds, at least 1")
    step = federated_step_printed(cohort, sigma, delta, radical=radical, acknowledge_unsound=True).epsilon
    rate, total = _sampled_total(clients, "clients", cohort, "cohort", rounds, step, slack)
    claimed = second_delta(2 * rate * step, rate * delta, rounds, total)
    theorem = PrintedTheorem("Theorem 8 (federated learning)", total, claimed, None, FEDERATED_RUN)
    return _stated(theorem, "federated()", acknowledge_unsound)


def high_probability_printed(epsilon: float, delta: float, *, acknowledge_unsound: bool = False) -> PrintedTheorem:
    """Return Theorem 1 as printed: P[|R̂ − R| < 9ε] > 1 − β, β = e^(−ε)(δ/ε)ln(2/ε); ``epsilon`` = 9ε, ``delta`` = β.

    Its proof gives β for one side only, so two sides need 2β, and for ε ≥ 2 the claim is a probability of 1 or more.

    Counterexample: `IMPOSSIBLE`.
    """
    epsilon = positive(epsilon, "epsilon", "a finite number of nats above 0")
    beta = math.exp(-epsilon) * positive_delta(delta) / epsilon * math.log(2 / epsilon)
    theorem = PrintedTheorem("Theorem 1", 9 * epsilon, beta, None, IMPOSSIBLE)
    return _stated(theorem, "high_probability()", acknowledge_unsound)


def _sgld_total(
    records: int, batch: int, lipschitz: float, sigma: float, steps: int, delta: float, slack: float
) -> tuple[float, float, float]:
    step = sgld_step_printed(batch, lipschitz, sigma, delta, acknowledge_unsound=True).epsilon
    rate, total = _sampled_total(records, "records", batch, "batch", steps, step, slack)
    return rate, step, total


def _sampled_total(
    population: int, population_name: str, sample: int, sample_name: str, steps: int, step: float, slack: float
) -> tuple[float, float]:
    """Return (q, E): the share that is drawn in a step, and the total ε that both theorems print."""
    population = whole_number(population, population_name, f"a whole number of {population_name}, at least 1")
    steps = whole_number(steps, "steps", "a whole number of steps, at least 1")
    if sample > population:
        raise InvalidInput(sample_name, sample, f"at most the number of {population_name}, {population}")
    rate = sample / population
    mean = 2 * steps * rate * step * math.tanh(rate * step)
    return rate, math.sqrt(8 * rate**2 * steps * step**2 * -math.log(check_slack(slack))) + mean


def _shift(batch: int, lipschitz: float, sigma: float) -> tuple[int, float]:
    batch = whole_number(batch, "batch", "a whole number of records, at least 1")
    lipschitz = positive(lipschitz, "lipschitz", "a bound on a gradient's norm, a finite number above 0")
    return batch, 2 * lipschitz / (batch * positive(sigma, "sigma", "a standard deviation, a finite number above 0"))


def _gaussian(name: str, shift: float, epsilon: float, delta: float, acknowledge_unsound: bool) -> PrintedTheorem:  # noqa: FBT001 (private: the public functions take it by name)
    exact = gaussian_delta(shift, epsilon)
    mechanism = f"the Gaussian mechanism with a shift of {shift:.6g} standard deviations"
    theorem = PrintedTheorem(name, epsilon, delta, exact, Counterexample(mechanism, epsilon, delta, exact))
    return _stated(theorem, "gaussian_epsilon()", acknowledge_unsound)
