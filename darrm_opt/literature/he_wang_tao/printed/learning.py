"""The generalisation, SGLD and federated theorems as printed, where they are false or not proved."""

from __future__ import annotations

import math
from typing import Literal

from darrm_opt.accounting.composition.closed_forms import check_slack
from darrm_opt.accounting.errors import Counterexample
from darrm_opt.accounting.gaussian import gaussian_delta, positive_delta
from darrm_opt.errors import InvalidInput
from darrm_opt.literature.he_wang_tao.printed.composition import PrintedTheorem, require_acknowledgement, second_delta
from darrm_opt.literature.he_wang_tao.training import positive
from darrm_opt.problem import whole_number

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

    Args:
        batch: τ ≥ 1.
        lipschitz: L > 0.
        sigma: σ > 0.
        delta: of one step, in (0, 1).
        acknowledge_unsound: must be True.

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

    Args:
        records: N ≥ batch.
        batch: τ ≥ 1.
        lipschitz: L > 0.
        sigma: σ > 0.
        steps: T ≥ 1.
        delta: of one step, in (0, 1).
        slack: s, in (0, 1].
        acknowledge_unsound: must be True.

    Counterexample: `SGLD_RUN`. Besides the factor 2, the rule (2qε, qδ) for a sampled step fails for ε above 1.256.
    """
    rate, step, total = _sgld_total(records, batch, lipschitz, sigma, steps, delta, slack)
    claimed = second_delta(2 * rate * step, rate * delta, steps, total)
    theorem = PrintedTheorem("Theorem 7 (SGLD)", total, claimed, None, SGLD_RUN)
    return require_acknowledgement(theorem, "sgld()", acknowledge_unsound=acknowledge_unsound)


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
    step_epsilon = rate * step
    most = steps * step_epsilon
    if total >= most:
        raise InvalidInput("slack", slack, "one whose ε is below qTe", "The printed term is not defined there.")
    logarithm = -(total + most) / 2
    logarithm += steps * (math.log(2 * most) - math.log1p(math.exp(step_epsilon)) - math.log(most - total))
    logarithm -= (total + most) / (2 * step_epsilon) * math.log((most + total) / (most - total))
    theorem = PrintedTheorem("Theorem 7's last term", total, math.exp(logarithm), None, SGLD_RUN)
    return require_acknowledgement(theorem, "sgld()", acknowledge_unsound=acknowledge_unsound)


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

    Args:
        cohort: τ ≥ 1.
        sigma: σ > 0, noise multiplier.
        delta: of one round, in (0, 1).
        radical: the reading.
        acknowledge_unsound: must be True.

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

    Args:
        clients: N ≥ cohort.
        cohort: τ ≥ 1 clients a round.
        sigma: σ > 0, noise multiplier.
        rounds: T ≥ 1.
        delta: of one round, in (0, 1).
        slack: s, in (0, 1].
        radical: how far the radical of e extends; ``sum`` as it is typeset.
        acknowledge_unsound: must be True.

    Counterexample: `FEDERATED_RUN`.
    """
    rounds = whole_number(rounds, "rounds", "a whole number of rounds, at least 1")
    step = federated_step_printed(cohort, sigma, delta, radical=radical, acknowledge_unsound=True).epsilon
    rate, total = _sampled_total(clients, "clients", cohort, "cohort", rounds, step, slack)
    claimed = second_delta(2 * rate * step, rate * delta, rounds, total)
    theorem = PrintedTheorem("Theorem 8 (federated learning)", total, claimed, None, FEDERATED_RUN)
    return require_acknowledgement(theorem, "federated()", acknowledge_unsound=acknowledge_unsound)


def high_probability_printed(epsilon: float, delta: float, *, acknowledge_unsound: bool = False) -> PrintedTheorem:
    """Return Theorem 1 as printed: P[|R̂ − R| < 9ε] > 1 − β, β = e^(−ε)(δ/ε)ln(2/ε); ``epsilon`` = 9ε, ``delta`` = β.

    Its proof gives β for one side only, so two sides need 2β, and for ε ≥ 2 the claim is a probability of 1 or more.

    Counterexample: `IMPOSSIBLE`.
    """
    epsilon = positive(epsilon, "epsilon", "a finite number of nats above 0")
    beta = math.exp(-epsilon) * positive_delta(delta) / epsilon * math.log(2 / epsilon)
    theorem = PrintedTheorem("Theorem 1", 9 * epsilon, beta, None, IMPOSSIBLE)
    return require_acknowledgement(theorem, "high_probability()", acknowledge_unsound=acknowledge_unsound)


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
    return require_acknowledgement(theorem, "gaussian_epsilon()", acknowledge_unsound=acknowledge_unsound)
