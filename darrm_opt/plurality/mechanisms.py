"""Noisy maxima that people use, as rules: each at the rate where the label alone, over all edges, is (ε, δ)-DP.

With counts n and a rate t ≥ 0 [nats a vote] (for GNMax 1/σ):

    exponential        Pr[c] ∝ e^(t·n_c)
    permute_and_flip   Pr[c] = a_c·∫₀¹ Π_{j≠c} (1 − a_j·s) ds,   a_j = e^(t·(n_j − max n))
    laplace            the largest of n_c + Laplace(1/t)
    gnmax              the largest of n_c + N(0, 1/t²)

Source: McSherry, Talwar 2007; McKenna, Sheldon 2020 (in the order of a uniform permutation, given that c arrives at the
share s of the order, each other class arrived before it with chance s); Dwork, Roth 2014; Papernot and others 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.search import largest_fitting
from darrm_opt.tables.certificate import PluralityCertificate, certify_rule
from darrm_opt.tables.problem import ABSTENTION, Histograms, PluralityProblem
from darrm_opt.tables.rule import PluralityRule

MAX_RATE = 2000.0
"""Largest rate tried: beyond it the plurality is released as it is."""

ROUNDING = 1e-15
"""Excess that is left to the repair."""

THRESHOLDS, CHECK_SHARES = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8), (0.25, 0.5, 1.0, 2.0)
"""Thresholds of Confident-GNMax that are tried, as shares of K, and deviations σ₂/σ₁ of its two noises."""

NODES = 24
"""Gauss–Legendre nodes in a panel: exact to rounding for a bell curve over two standard deviations."""

SMALLEST = 1e-200
"""Below this a distribution function counts as this."""

REACH = 12.0
"""Standard deviations (for Laplace: 3 times as many scales) after which a tail is cut off: below 1e-15."""


def exponential_table(cells: Histograms, rate: float) -> Array:
    """Return the exponential mechanism's probabilities, shape (cells,)."""
    weights = _flip_chances(cells, rate)
    sums = np.add.reduceat(weights * cells.multiplicities, cells.starts)
    table: Array = weights / sums[cells.owners]
    return table


def permute_and_flip_table(cells: Histograms, rate: float) -> Array:
    """Return permute-and-flip's probabilities, shape (cells,)."""
    table = _flip_chances(cells, rate)
    # The integrand has degree C − 1 in s: Gauss–Legendre with that many nodes is exact.
    s, ds = gauss_legendre(cells.classes // 2 + 1)
    misses = 1 - table[:, None] * s
    product = np.multiply.reduceat(misses ** cells.multiplicities[:, None], cells.starts, axis=0)
    chances: Array = table * ((product[cells.owners] / misses) @ ds)
    return chances


def laplace_table(cells: Histograms, rate: float) -> Array:
    """Return the probabilities of the largest count with Laplace noise of scale 1/rate, shape (cells,)."""
    if rate == 0:
        return exponential_table(cells, 0.0)

    def density(z: Array) -> Array:
        return 0.5 * np.exp(-np.abs(z))

    def below(z: Array) -> Array:
        return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0.0)), 1 - 0.5 * np.exp(-np.maximum(z, 0.0)))

    return _noisy_maximum(cells, rate, density, below, 3 * REACH)


def gnmax_table(cells: Histograms, rate: float) -> Array:
    """Return the probabilities of the largest count with Gaussian noise of deviation 1/rate, shape (cells,)."""
    with needed_by("Gaussian noise on counts"):
        from scipy.special import ndtr

    if rate == 0:
        return exponential_table(cells, 0.0)

    def density(z: Array) -> Array:
        return np.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    return _noisy_maximum(cells, rate, density, ndtr, REACH)


MECHANISMS: dict[str, Callable[[Histograms, float], Array]] = {
    "permute_and_flip": permute_and_flip_table,
    "exponential": exponential_table,
    "laplace": laplace_table,
    "gnmax": gnmax_table,
}
"""Probabilities of each mechanism by its name, for a rate ≥ 0 [nats a vote; for gnmax 1/σ]."""


@dataclass(frozen=True)
class CalibratedMechanism:
    """A mechanism at the largest rate that is private, as a certified rule.

    Attributes:
        name: one of `MECHANISMS`.
        rate: t [nats a vote]; for gnmax 1/σ [1/votes].
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
        name: one of `MECHANISMS`.
        precision: relative distance of the rate from the largest one.

    Guarantees:
        The rule is certified as it is stored, whatever the bisection found.

    Raises:
        InvalidInput: another name, abstention, or too many partitions.
    """
    if name not in MECHANISMS:
        raise InvalidInput("mechanism", name, "one of " + ", ".join(MECHANISMS))
    if problem.abstention:
        raise InvalidInput(
            "abstention", problem.abstention, "a problem without abstention", "These mechanisms always release a class."
        )
    cells, table = problem.histograms, MECHANISMS[name]
    rate = _largest_rate(problem, lambda rate: table(cells, rate), precision)
    return _certified(problem, name, rate, table(cells, rate))


def confident_table(cells: Histograms, rate: float, threshold: float, check_share: float) -> Array:
    """Return Confident-GNMax's probabilities, shape (cells,), of cells with ⊥.

    A class is released only if the largest count + N(0, σ₁²) is at least the threshold; then GNMax's with σ₂ = 1/rate.

    Args:
        cells: with abstention.
        rate: 1/σ₂ [1/votes].
        threshold: T [votes].
        check_share: σ₂/σ₁.
    """
    with needed_by("Gaussian noise on counts"):
        from scipy.special import ndtr

    passes = ndtr((cells.values[cells.starts] - threshold) * rate * check_share)[cells.owners]
    return np.where(cells.values == ABSTENTION, 1 - passes, gnmax_table(cells, rate) * passes)


def calibrate_confident(problem: PluralityProblem, utility: Callable[[PluralityRule], float]) -> CalibratedMechanism:
    """Return Confident-GNMax at the most useful threshold and split of noise, of `THRESHOLDS` × `CHECK_SHARES`.

    Args:
        problem: with abstention.
        utility: of a rule.

    Guarantees:
        The rule is certified as it is stored: its output (a class, or ⊥) and nothing more is private.
    """
    if not problem.abstention:
        raise InvalidInput("abstention", problem.abstention, "a problem with abstention")
    cells, mechanisms = problem.histograms, []
    for threshold in sorted({problem.K * share for share in THRESHOLDS}):
        for check_share in CHECK_SHARES:
            table = partial(confident_table, cells, threshold=threshold, check_share=check_share)
            rate = _largest_rate(problem, table, 1e-4)
            mechanisms.append(_certified(problem, "confident_gnmax", rate, table(rate)))
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


@lru_cache(maxsize=16)
def gauss_legendre(nodes: int) -> tuple[Array, Array]:
    """Return Gauss–Legendre nodes and weights on [0, 1]: exact for polynomials of degree below 2·nodes."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return (points + 1) / 2, weights / 2


def _flip_chances(cells: Histograms, rate: float) -> Array:
    """Return e^(rate·(count − largest count)), 0 for ⊥."""
    behind = cells.values[cells.starts][cells.owners] - cells.values
    return np.where(cells.values == ABSTENTION, 0.0, np.exp(-rate * behind))


def _noisy_maximum(
    cells: Histograms,
    rate: float,
    density: Callable[[Array], Array],
    below: Callable[[Array], Array],
    reach: float,
) -> Array:
    """Return Pr[class has the largest count plus noise/rate] = ∫ f(z − t·n_c) Π_{j≠c} F(z − t·n_j) dz for each cell.

    Panels end at the counts, where Laplace's density has its edge.
    """
    K = cells.K
    largest = rate * K
    panels = max(1, math.ceil(rate / 1.0))  # at most one unit of noise a panel
    ends = np.concatenate(
        [
            -reach + np.arange(math.ceil(reach)) * (reach / math.ceil(reach)),
            np.arange(K * panels) * (rate / panels),
            largest + np.arange(math.ceil(reach) + 1) * (reach / math.ceil(reach)),
        ]
    )
    nodes, shares = gauss_legendre(NODES if rate >= 0.2 else 8)
    widths = np.diff(ends)
    z = (ends[:-1, None] + widths[:, None] * nodes).ravel()
    dz = (widths[:, None] * shares).ravel()
    counts = np.arange(K + 1)
    f = density(z[None, :] - rate * counts[:, None])  # by count: shape (K + 1, nodes)
    F = below(z[None, :] - rate * counts[:, None])
    # Φ is kept above 0 so that the product of all can be divided by one; where that matters f is 0 anyway.
    votes, silent = np.maximum(cells.values, 0), cells.values == ABSTENTION
    factors = np.maximum(F, SMALLEST)[votes]
    product = np.multiply.reduceat(factors ** np.where(silent, 0, cells.multiplicities)[:, None], cells.starts, axis=0)
    table: Array = (product[cells.owners] / factors * f[votes]) @ dz
    table[silent] = 0.0
    return table
