"""Noisy iterative training: T steps, each a Gaussian mechanism on a random batch.

Stochastic gradient Langevin dynamics: how private a whole run is.

    θ_t = θ_{t−1} − η_t [∇r/τ + (1/τ) Σ_{z in batch} ∇l(z|θ_{t−1}) + g_t],  g_t ~ N(0, σ²I),  ‖∇l‖ ≤ L,

for a batch of τ of N records.

Replacing one record moves the mean by at most 2L/τ, so μ = 2L/(τσ); learning rates and the regulariser do not matter.
The source's own theorem for this loses a factor 2 and more; it is under `printed`, with a counterexample.
For real runs dp_accounting's RDP or PLD of the subsampled Gaussian is tighter still (2 to 4 times in the tests).

Agnostic federated learning: how private the clients are over all rounds.

Each round samples τ of N clients: θ ← θ + (1/τ) Σ h_i/max(1, ‖h_i‖/L) + b, b ~ N(0, L²σ²I). Adjacency is on clients,
and L cancels: replacing one client moves the mean by at most 2L/τ (μ = 2/(τσ)), silencing one by L/τ (μ = 1/(τσ)).
The source's per-round ε is valid for silencing only; it is under `printed`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from darrm_opt.accounting.composition.closed_forms import kov_composition
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.gaussian import gaussian_epsilon, gaussian_epsilon_tail
from darrm_opt.accounting.sampling import amplify_by_subsampling
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import up

StepBound = Literal["exact", "tail"]


@dataclass(frozen=True)
class NoisyTraining:
    """The privacy of every step of a training run, ready to be composed.

    Attributes:
        shift: μ, how far one record moves a step's mean, in standard deviations.
        rate: q, the share of the records in a batch.
        steps: T.
        unsampled: (ε, δ) of a step for the batch that it sees.
        step: (ε, δ) of a step on a random batch.
    """

    shift: float
    rate: float
    steps: int
    unsampled: Privacy
    step: Privacy

    def optimal(self, total_delta: float) -> Privacy:
        """Return the least total ε [nats] at a total δ [probability], over all compositions of T such steps.

        Raises:
            DeltaTooSmall: the steps' own δ's already exceed ``total_delta``.
        """
        return optimal_composition(self.step.epsilon, self.step.delta, self.steps, total_delta)

    def general(self, slack: float) -> Privacy:
        """Return the total privacy by the closed form with slack δ′ [probability]."""
        return kov_composition(self.step.epsilon, self.step.delta, self.steps, slack)


def noisy_training(
    sensitivity: float, sigma: float, batch: int, records: int, steps: int, delta: float, bound: StepBound
) -> NoisyTraining:
    """Return the privacy of T steps on batches drawn uniformly without replacement.

    ``sensitivity``: how far one record moves the *sum* over a batch, so that μ = sensitivity/(batch·sigma). ``bound``:
    the Gaussian's own profile, or the closed form above it.
    """
    records = whole_number(records, "records", "a whole number of records, at least 1")
    batch = whole_number(batch, "batch", "a whole number of records, at least 1")
    steps = whole_number(steps, "steps", "a whole number of steps, at least 1")
    if batch > records:
        raise InvalidInput("batch", batch, f"at most the number of records, {records}")
    shift = up(sensitivity / (batch * sigma), 2)
    if bound == "exact":
        unsampled = Privacy(gaussian_epsilon(shift, delta), delta)
    elif bound == "tail":
        unsampled = Privacy(gaussian_epsilon_tail(shift, delta), delta)
    else:
        raise InvalidInput("bound", bound, "'exact' or 'tail'")
    rate = 1.0 if batch == records else min(1.0, up(batch / records, 1))
    return NoisyTraining(shift, rate, steps, unsampled, amplify_by_subsampling(unsampled, rate))


def doubling_rule_holds(epsilon: float, rate: float) -> bool:
    """Return whether 2qε ≥ ln(1 + q(e^ε − 1)): the shortcut of the reviewed source, false for ε above about 1.256."""
    return 2 * rate * epsilon >= math.log1p(rate * math.expm1(epsilon))


def positive(value: float, argument: str, accepted: str) -> float:
    """Return a checked finite number above 0."""
    return real_number(value, argument, accepted, above=0, below=math.inf)


def sgld(
    records: int, batch: int, lipschitz: float, sigma: float, steps: int, delta: float, *, bound: StepBound = "exact"
) -> NoisyTraining:
    """Return the privacy of an SGLD run under replace-one.

    Args:
        records: N ≥ 1.
        batch: τ, 1..N, drawn uniformly without replacement at each step.
        lipschitz: L > 0, bound on the norm of one record's gradient.
        sigma: σ > 0, standard deviation of the noise on the averaged gradient.
        steps: T ≥ 1.
        delta: δ of one step for the batch it sees [probability], in (0, 1).
        bound: "exact" or "tail", see `noisy_training`.

    Returns:
        The steps' privacy; compose with ``.optimal(total_delta)`` or ``.general(slack)``.

    Guarantees:
        Sound for every parameter, rounded up.

    Raises:
        InvalidInput: a number is outside its range.

    Source: He, Wang, Tao, Theorem 7, corrected (papers/README.md, "Bounds that are false as published").

    >>> round(sgld(10_000, 100, 1.0, 0.2, 500, 1e-6).general(1e-6).epsilon, 4)
    0.5292
    """
    lipschitz = positive(lipschitz, "lipschitz", "a bound on a gradient's norm, a finite number above 0")
    sigma = positive(sigma, "sigma", "a standard deviation, a finite number above 0")
    return noisy_training(2 * lipschitz, sigma, batch, records, steps, delta, bound)


Adjacency = Literal["replace", "zero_out"]


def federated(
    clients: int,
    cohort: int,
    sigma: float,
    rounds: int,
    delta: float,
    *,
    adjacency: Adjacency = "replace",
    bound: StepBound = "exact",
) -> NoisyTraining:
    """Return the clients' privacy over a federated run.

    Args:
        clients: N ≥ 1.
        cohort: τ, 1..N, drawn uniformly without replacement in each round.
        sigma: σ > 0, noise multiplier: the noise's standard deviation over the clipping norm L.
        rounds: T ≥ 1.
        delta: δ of one round for the cohort it sees [probability], in (0, 1).
        adjacency: "replace" one client by another (what `generalisation` needs), or "zero_out": its update by 0.
        bound: "exact" or "tail", see `noisy_training`.

    Returns:
        The rounds' privacy under that adjacency; compose with ``.optimal(total_delta)`` or ``.general(slack)``.

    Guarantees:
        Sound for every parameter, rounded up.

    Source: He, Wang, Tao, Theorem 8, corrected (papers/README.md, "Bounds that are false as published").
    """
    sigma = positive(sigma, "sigma", "a noise multiplier, a finite number above 0")
    if adjacency not in ("replace", "zero_out"):
        raise InvalidInput("adjacency", adjacency, "'replace' or 'zero_out'")
    sensitivity = 2.0 if adjacency == "replace" else 1.0
    return noisy_training(sensitivity, sigma, cohort, clients, rounds, delta, bound)


def as_replace_one(total: Privacy) -> Privacy:
    """Return what add/remove-one or zero-out privacy (ε, δ) means for replacing one: (2ε, (1+e^ε)δ), rounded up.

    Returns:
        (inf, 0), "nothing is promised", where the new δ reaches 1.

    Source: group privacy for two steps.
    """
    delta = up((1 + math.exp(total.epsilon)) * total.delta, 8) if total.delta and total.epsilon < 700 else total.delta
    if total.delta and (total.epsilon >= 700 or delta >= 1):
        return Privacy(math.inf)
    return Privacy(2 * total.epsilon, delta)
