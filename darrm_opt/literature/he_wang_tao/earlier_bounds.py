"""Older bounds that the reviewed source compares itself with, as it quotes them: for comparison tables, not guarantees.

They were copied as formulas and not verified here; some carry preconditions that the source does not repeat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from darrm_opt.accounting.composition.optimal import Events, count_events
from darrm_opt.problem import Privacy


def nissim_stemmer_on_average(privacy: Privacy, databases: int = 1) -> float:
    """Return databases·δ + 2ε (Nissim, Stemmer 2015; binary loss), beside `generalisation.on_average`."""
    return databases * privacy.delta + 2 * privacy.epsilon


def nissim_stemmer_failure(privacy: Privacy) -> float:
    """Return (2δ/ε)·ln(2/ε), the failure probability of |R − R̂| < 13ε (Nissim, Stemmer 2015; binary loss)."""
    return 2 * privacy.delta / privacy.epsilon * math.log(2 / privacy.epsilon)


def dwork_failure(privacy: Privacy) -> float:
    """Return 8δ^ε, the failure probability of R − R̂ < 4ε (Dwork et al. 2015)."""
    return 8 * math.pow(privacy.delta, privacy.epsilon)


def dwork_roth_composition(events: Events, slack: float) -> tuple[float, float]:
    """Return (Σε(e^ε − 1) + √(2Σε² ln(1/s)), s + Σδ): advanced composition.

    True, looser than `kov_composition_of_sequence`, and not rounded outward (Dwork, Rothblum, Vadhan 2010; Dwork, Roth
    2014).
    """
    counts = count_events(events)
    mean = math.fsum(n * privacy.epsilon * math.expm1(privacy.epsilon) for privacy, n in counts.items())
    squares = math.fsum(n * privacy.epsilon**2 for privacy, n in counts.items())
    delta = math.fsum(n * privacy.delta for privacy, n in counts.items())
    return mean + math.sqrt(2 * squares * -math.log(slack)), slack + delta


def dwork_roth_kl(epsilon: float) -> float:
    """Return ε(e^ε − 1), a bound on the divergence that `generalisation.kl_divergence` bounds exactly (2014)."""
    return epsilon * math.expm1(epsilon)


def exponential_selection(scores: Sequence[float], epsilon: float, sensitivity: float = 1.0) -> list[float]:
    """Return the law of the exponential mechanism, Pr[i] ∝ e^(ε·q_i/(2Δq)), ε-DP in exact arithmetic.

    Source: McSherry, Talwar 2007. The proof of Theorem 1 selects a database by it. For majorities:
    `mechanisms.selection.ExponentialMechanism`.
    """
    best = max(scores)
    weights = [math.exp(epsilon * (score - best) / (2 * sensitivity)) for score in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def dwork_rothblum_kl(epsilon: float) -> float:
    """Return ε(e^ε − 1)/2, a bound on the divergence that `generalisation.kl_divergence` bounds exactly (2016)."""
    return epsilon * math.expm1(epsilon) / 2


def oneto_risk(epsilon: float, samples: int, empirical: float) -> float:
    """Return √(6R̂)·e′ + 6(ε² + 1/N), e′ = ε + √(1/N): R − R̂ for pure ε-DP w.p. 1 − 3e^(−Nε²) (Oneto et al. 2017)."""
    return math.sqrt(6 * empirical) * (epsilon + math.sqrt(1 / samples)) + 6 * (epsilon**2 + 1 / samples)


def oneto_variance(epsilon: float, samples: int, variance: float) -> float:
    """Return √(4V̂)·e′ + (5N/(N−1))(ε² + 1/N): the same by the losses' empirical variance (Oneto et al. 2017)."""
    spread = math.sqrt(4 * variance) * (epsilon + math.sqrt(1 / samples))
    return spread + 5 * samples / (samples - 1) * (epsilon**2 + 1 / samples)
