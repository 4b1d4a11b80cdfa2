"""Calibrated tables: a mechanism at the largest rate where its label alone, over all edges, is (ε, δ)-DP.

A rate t ≥ 0 is in nats a vote; of Gaussian noise it is 1/σ, of Laplace noise 1/scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import CONFIDENT, mechanism_classes
from darrm_opt.mechanisms.vote_noise import checked_table
from darrm_opt.noise import Array
from darrm_opt.search import largest_fitting
from darrm_opt.tables.certificate import PluralityCertificate, certify_rule
from darrm_opt.tables.problem import Histograms, PluralityProblem
from darrm_opt.tables.rule import PluralityRule

MAX_RATE = 2000.0
"""Largest rate tried: beyond it the plurality is released as it is."""

ROUNDING = 1e-15
"""Excess that is left to the repair."""

THRESHOLDS, CHECK_SHARES = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8), (0.25, 0.5, 1.0, 2.0)
"""Thresholds of the check that are tried, as shares of K, and deviations σ₂/σ₁ of its two noises."""

TableLaw = Callable[[Histograms, float], Array]
"""Probabilities of the cells at a rate."""


@cache
def tables() -> dict[str, TableLaw]:
    """Return the laws of the mechanisms that have one as a table, by name."""
    laws = ((name, getattr(mechanism, "table", None)) for name, mechanism in mechanism_classes().items())
    return {name: law for name, law in laws if law is not None}


@dataclass(frozen=True)
class CalibratedMechanism:
    """A mechanism at the largest rate that is private, as a certified rule.

    Attributes:
        name: one of `tables`.
        rate: t [nats a vote]; of Gaussian noise 1/σ [1/votes].
        problem: for which it is private.
        rule: its probabilities as doubles, repaired.
        certificate: why that rule is private.
    """

    name: str
    rate: float
    problem: PluralityProblem
    rule: PluralityRule
    certificate: PluralityCertificate


def calibrate_mechanism(problem: PluralityProblem, name: str, *, precision: float = 1e-10) -> CalibratedMechanism:
    """Return a mechanism at the largest rate at which its label, and nothing more, is private for the problem.

    Args:
        problem: without abstention; every edge of it is looked at.
        name: one of `tables`.
        precision: relative distance of the rate from the largest one.

    Guarantees:
        The rule is certified as it is stored, whatever the bisection found.

    Raises:
        InvalidInput: another name, abstention, or too many partitions.
    """
    law = tables().get(name)
    if law is None:
        raise InvalidInput("mechanism", name, "one of " + ", ".join(tables()))
    if problem.abstention:
        raise InvalidInput(
            "abstention", problem.abstention, "a problem without abstention", "These mechanisms always release a class."
        )
    cells = problem.histograms
    rate = _largest_rate(problem, lambda rate: law(cells, rate), precision)
    return _certified(problem, name, rate, law(cells, rate))


def calibrate_confident(problem: PluralityProblem, utility: Callable[[PluralityRule], float]) -> CalibratedMechanism:
    """Return a checked noisy maximum at the most useful threshold and split of noise, of `THRESHOLDS` × `CHECK_SHARES`.

    Guarantees: The rule is certified as it is stored: its output (a class, or ⊥) and nothing more is private.
    """
    if not problem.abstention:
        raise InvalidInput("abstention", problem.abstention, "a problem with abstention")
    cells, mechanisms = problem.histograms, []
    for threshold in sorted({problem.K * share for share in THRESHOLDS}):
        for check_share in CHECK_SHARES:
            table = partial(checked_table, cells, threshold=threshold, check_share=check_share)
            rate = _largest_rate(problem, table, 1e-4)
            mechanisms.append(_certified(problem, CONFIDENT, rate, table(rate)))
    return max(mechanisms, key=lambda mechanism: utility(mechanism.rule))


def _certified(problem: PluralityProblem, name: str, rate: float, table: Array) -> CalibratedMechanism:
    rule, certificate = certify_rule(problem, PluralityRule.normalised(problem, table))
    return CalibratedMechanism(name, rate, problem, rule, certificate)


def _largest_rate(problem: PluralityProblem, table: Callable[[float], Array], precision: float = 1e-10) -> float:
    """Return the rate, to a relative precision from below, up to which a mechanism is private, in floating point."""
    cells, target = problem.histograms, problem.strictest_target
    c = math.exp(target.epsilon)

    def fits(rate: float) -> bool:
        x = table(rate)
        outputs = cells.sizes * np.maximum(x[cells.left] - c * x[cells.right], 0.0)
        return float(outputs.sum(axis=1).max(initial=0.0)) <= target.delta + ROUNDING

    low, high = 0.0, 1e-3
    while high < MAX_RATE and fits(high):
        low, high = high, 2 * high
    return largest_fitting(fits, low, high, precision)
