"""Noisy iterative training: T steps, each a Gaussian mechanism on a random batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from darrm_opt.accounting.composition import general
from darrm_opt.accounting.gaussian import gaussian_epsilon, gaussian_epsilon_tail, sampled
from darrm_opt.accounting.optimal import optimal
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, real_number, whole_number
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
            BelowLeakFloor: the steps' own δ's already exceed ``total_delta``.
        """
        return optimal(self.step.epsilon, self.step.delta, self.steps, total_delta)

    def general(self, slack: float) -> Privacy:
        """Return the total privacy by the closed form with slack δ′ [probability]."""
        return general(self.step.epsilon, self.step.delta, self.steps, slack)


def noisy_training(
    moved: float, sigma: float, batch: int, records: int, steps: int, delta: float, bound: StepBound
) -> NoisyTraining:
    """Return the privacy of T steps on batches drawn uniformly without replacement.

    Args:
        moved: how far one record moves the *sum* over a batch, > 0, so that μ = moved/(batch·sigma).
        sigma: standard deviation of the noise on the batch's mean, > 0, in the same unit.
        batch: τ, 1..records.
        records: N ≥ 1.
        steps: T ≥ 1.
        delta: δ of one step for the batch it sees, in (0, 1).
        bound: "exact" (the Gaussian's own profile) or "tail" (the closed form above it).

    Raises:
        InvalidInput: a number is outside its range.
    """
    records = whole_number(records, "records", "a whole number of records, at least 1")
    batch = whole_number(batch, "batch", "a whole number of records, at least 1")
    steps = whole_number(steps, "steps", "a whole number of steps, at least 1")
    if batch > records:
        raise InvalidInput("batch", batch, f"at most the number of records, {records}")
    shift = up(moved / (batch * sigma), 2)
    if bound == "exact":
        unsampled = Privacy(gaussian_epsilon(shift, delta), delta)
    elif bound == "tail":
        unsampled = Privacy(gaussian_epsilon_tail(shift, delta), delta)
    else:
        raise InvalidInput("bound", bound, "'exact' or 'tail'")
    rate = 1.0 if batch == records else min(1.0, up(batch / records, 1))
    return NoisyTraining(shift, rate, steps, unsampled, sampled(unsampled, rate))


def positive(value: float, argument: str, accepted: str) -> float:
    """Return a checked finite number above 0."""
    number = real_number(value, argument, accepted)
    if not 0 < number < math.inf:
        raise InvalidInput(argument, value, accepted)
    return number
