"""Generalisation bounds from differential privacy: how far the training loss is from the expected loss.

R is the expected loss of the learned hypothesis, R̂ its mean loss on the N training records; records are i.i.d., each
loss is in [0, 1] (rescale first), and the algorithm is (ε, δ)-DP under *replacing* one record (convert with
`training.as_replace_one`). The bounds here are the reviewed source's where its proofs hold, and corrected where they do
not; at the ε of hundreds of composed queries the high-probability ones are vacuous, and are reported as such.

The older bounds at the end, from `nissim_stemmer_on_average` on, are copied as the source quotes them: they were not
verified here, and some carry preconditions that the source does not repeat. They are no guarantees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from darrm_opt.accounting.gaussian import positive_delta
from darrm_opt.arguments import whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, up

Sides = Literal["two", "one"]
Constant = Literal["nine", "rederived"]

MAX_USEFUL = 1 / 9  # from this ε on, 9ε ≥ 1 and the high-probability bound holds for any algorithm whatever

_DATABASES = "a whole number of databases, at least 1"
_SAMPLES = "a whole number of records, at least 1"


@dataclass(frozen=True)
class HighProbability:
    """P[|R̂ − R| < threshold] > 1 − failure, or the statement that nothing is promised.

    Attributes:
        threshold: [loss units, losses in [0, 1]]; 1 where vacuous.
        failure: probability that the bound fails, rounded up; 1 where vacuous.
        epsilon: the ε that was used [nats]: the given one, or the least that N records allow.
        samples_needed: least N for the ε that was used.
        vacuous: whether it promises nothing.
        reason: why it is vacuous; empty otherwise.
    """

    threshold: float
    failure: float
    epsilon: float
    samples_needed: int
    vacuous: bool
    reason: str


def on_average(privacy: Privacy, databases: int = 1) -> float:
    """Return a bound on |E R̂ − E R| for an algorithm that returns a hypothesis and the index of one of its databases.

    Args:
        privacy: (ε, δ) of the algorithm in all records of all databases.
        databases: how many databases of equal size it sees, ≥ 1 (never the number of composed steps).

    Returns:
        min(1, e^(−ε)·databases·δ + 1 − e^(−ε)), rounded up.

    Source: He, Wang, Tao, Theorem 2 (proof redone: sound for every ε).
    """
    databases = whole_number(databases, "databases", _DATABASES)
    delta_term = math.exp(-privacy.epsilon) * databases * privacy.delta
    return min(1.0, _up(delta_term - math.expm1(-privacy.epsilon)))


def on_average_excess(privacy: Privacy, databases: int = 1) -> float:
    """Return b such that E R̂ ≤ E R + b: e^(−ε)·databases·δ + ε, rounded up and at most 1.

    Args:
        privacy: (ε, δ) of the algorithm.
        databases: how many databases of N records it draws from, ≥ 1.

    Source: He, Wang, Tao, Corollary 1.
    """
    databases = whole_number(databases, "databases", _DATABASES)
    return min(1.0, _up(math.exp(-privacy.epsilon) * databases * privacy.delta + privacy.epsilon))


def total_variation(privacy: Privacy) -> float:
    """Return the largest total variation between an (ε, δ)-DP mechanism's outputs on neighbours: δ + (1−δ)tanh(ε/2).

    For one database it bounds |E R̂ − E R|, at about half of `on_average` for small ε.

    Returns:
        The bound [probability], rounded up.

    Source: the profile of the hardest (ε, δ)-DP mechanism at 0, where it has the loss ±ε with mass 1 − δ.

    >>> round(total_variation(Privacy(0.2676, 0.0003)), 6)
    0.133267
    """
    return min(1.0, _up(privacy.delta + (1 - privacy.delta) * math.tanh(privacy.epsilon / 2)))


def kl_divergence(epsilon: float) -> float:
    """Return the largest Kullback–Leibler divergence between an ε-DP mechanism's outputs: ε·tanh(ε/2) [nats].

    Rounded up; attained by randomised response.

    Source: He, Wang, Tao, Lemma 5.
    """
    epsilon = Privacy(epsilon).epsilon
    return _up(epsilon * math.tanh(epsilon / 2))


def multi_database(privacy: Privacy, databases: int) -> tuple[float, float]:
    """Return (α, probability): the chosen database has R̂ ≤ R + α with at least that probability.

    Args:
        privacy: 0 < ε ≤ 1 (beyond 1 the statement is impossible).
        databases: how many databases of equal size, ≥ 1.

    Returns:
        α = databases·e^(−ε)·δ + 3ε rounded up, and ε; (1, 1) where α ≥ 1, since the loss is at most 1.

    Raises:
        InvalidInput: ε is not in (0, 1], or the count is no whole number ≥ 1.

    Source: He, Wang, Tao, Theorem 3.
    """
    databases = whole_number(databases, "databases", _DATABASES)
    if not 0 < privacy.epsilon <= 1:
        raise InvalidInput(
            "epsilon", privacy.epsilon, "above 0 and at most 1", "The theorem promises a probability of ε."
        )
    alpha = _up(databases * math.exp(-privacy.epsilon) * privacy.delta + 3 * privacy.epsilon)
    return (1.0, 1.0) if alpha >= 1 else (alpha, privacy.epsilon)


def high_probability(
    privacy: Privacy, samples: int, *, sides: Sides = "two", constant: Constant = "nine"
) -> HighProbability:
    """Return how far R̂ can be from R, and with what probability not.

    Args:
        privacy: (ε, δ) under replace-one, δ > 0 (a pure ε-DP algorithm is (ε, δ)-DP for any δ: choose one).
        samples: N ≥ 1 training records. If too few for ε, the least ε that N allows is used instead.
        sides: "two": |R̂ − R|, failure 2β; "one": R̂ − R only, failure β.
        constant: "nine": 9ε; "rederived": the smaller threshold that the proof gives (ours, checked numerically only).

    Returns:
        The bound; vacuous, with the reason, where ε ≥ 1/9, or the failure probability reaches 1.

    Raises:
        InvalidInput: δ = 0, or a number is outside its range.

    Source: He, Wang, Tao, Theorem 1, with the factor 2 that its statement lost.
    """
    samples = whole_number(samples, "samples", _SAMPLES)
    if sides not in ("two", "one"):
        raise InvalidInput("sides", sides, "'two' or 'one'")
    if constant not in ("nine", "rederived"):
        raise InvalidInput("constant", constant, "'nine' or 'rederived'")
    delta = positive_delta(privacy.delta)
    # Sound: what is (ε, δ)-DP is so for every larger ε, and the theorem asks for the least one that N allows.
    epsilon = max(privacy.epsilon, epsilon_floor(samples, delta))
    # Said, not refused: a caller who sweeps over ε gets a row that promises nothing.
    if epsilon >= MAX_USEFUL:
        samples_needed = least_samples(Privacy(epsilon, delta)) if math.isfinite(epsilon) else 1
        reason = (
            f"epsilon = {epsilon:.6g} is at least 1/9, so the threshold 9·epsilon is no less than the largest loss, 1"
        )
        return HighProbability(1.0, 1.0, epsilon, samples_needed, vacuous=True, reason=reason)
    pair = Privacy(epsilon, delta)
    failure = failure_probability(pair, sides=sides)
    samples_needed = least_samples(pair)
    if failure >= 1:
        reason = f"the failure probability {failure:.6g} is at least 1: delta is too large for epsilon"
        return HighProbability(1.0, 1.0, epsilon, samples_needed, vacuous=True, reason=reason)
    # The smaller threshold was derived for δ ≤ ε only.
    limit = threshold(epsilon) if constant == "nine" or delta > epsilon else rederived_threshold(pair)
    return HighProbability(limit, failure, epsilon, samples_needed, vacuous=False, reason="")


def threshold(epsilon: float) -> float:
    """Return 9ε, rounded up: the deviation that `high_probability` speaks of."""
    return _up(9 * Privacy(epsilon).epsilon)


def rederived_threshold(privacy: Privacy) -> float:
    """Return 2ε + [ε + 1 − e^(−2ε) + e^(−2ε)kδ]/(1−ε), k = ⌈εe^ε/δ⌉, rounded up: 6ε to 7ε.

    Source: ours, from the proof of Theorem 1; checked numerically, not peer reviewed.
    """
    epsilon, delta = privacy.epsilon, positive_delta(privacy.delta)
    if not delta <= epsilon < 1:
        raise InvalidInput("epsilon", epsilon, "at least delta and below 1")
    databases = math.ceil(epsilon * math.exp(epsilon) / delta * (1 + 8 * ULP))
    shrink = math.exp(-2 * epsilon)
    return _up(2 * epsilon + (epsilon - math.expm1(-2 * epsilon) + shrink * databases * delta) / (1 - epsilon))


def failure_probability(privacy: Privacy, *, sides: Sides = "two") -> float:
    """Return β = e^(−ε)(δ/ε)·ln(2/ε), doubled for two sides, rounded up; may exceed 1, which promises nothing.

    At ε ≥ 2 the printed claim is a probability above 1.

    Source: He, Wang, Tao, Theorem 1; its proof gives β for each side.
    """
    epsilon, delta = privacy.epsilon, positive_delta(privacy.delta)
    if not 0 < epsilon < 2:
        raise InvalidInput(
            "epsilon", epsilon, "above 0 and below 2", "Beyond, the printed failure probability is negative."
        )
    beta = math.exp(-epsilon) * delta / epsilon * math.log(2 / epsilon)
    error = 4 * ULP * delta / epsilon  # near ε = 2 the logarithm is small, and its argument rounds
    return _up((2 if sides == "two" else 1) * (beta + error))


def least_samples(privacy: Privacy) -> int:
    """Return the least N with N ≥ (2/ε²)·ln(16e^ε/δ), the precondition of `high_probability`."""
    epsilon, delta = privacy.epsilon, positive_delta(privacy.delta)
    if not 0 < epsilon < math.inf:
        raise InvalidInput("epsilon", epsilon, "a finite number of nats above 0")
    return math.ceil(2 / epsilon**2 * (math.log(16 / delta) + epsilon) * (1 + 8 * ULP))


def epsilon_floor(samples: int, delta: float) -> float:
    """Return the least ε that N records allow: (1 + √(1 + 2N·ln(16/δ)))/N, rounded up.

    Source: the precondition of Theorem 1 with equality; why such bounds fall like √(log N/N) and no faster.
    """
    samples = whole_number(samples, "samples", _SAMPLES)
    return _up((1 + math.sqrt(1 + 2 * samples * math.log(16 / positive_delta(delta)))) / samples)


def _up(value: float) -> float:
    return up(value, 16) if value else 0.0


def nissim_stemmer_on_average(privacy: Privacy, databases: int = 1) -> float:
    """Return databases·δ + 2ε (Nissim, Stemmer 2015; binary loss), beside `generalisation.on_average`."""
    return databases * privacy.delta + 2 * privacy.epsilon


def nissim_stemmer_failure(privacy: Privacy) -> float:
    """Return (2δ/ε)·ln(2/ε), the failure probability of |R − R̂| < 13ε (Nissim, Stemmer 2015; binary loss)."""
    return 2 * privacy.delta / privacy.epsilon * math.log(2 / privacy.epsilon)


def dwork_rothblum_kl(epsilon: float) -> float:
    """Return ε(e^ε − 1)/2, a bound on the divergence that `generalisation.kl_divergence` bounds exactly (2016)."""
    return epsilon * math.expm1(epsilon) / 2
