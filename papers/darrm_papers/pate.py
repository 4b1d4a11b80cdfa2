"""GNMax: release the class whose vote count, plus Gaussian noise, is largest.

A record that moves r votes changes two counts by r each, so the counts have l₂-sensitivity √2·r and the
release is (λ, λr²/σ²)-RDP at every order λ > 1, Q releases (λ, Qλr²/σ²). At δ that is ε = Qλr²/σ² +
ln(1/δ)/(λ−1), and to reach a target ε one needs σ² = Qλr²/(ε − ln(1/δ)/(λ−1)), least over λ.

The noise that is drawn is a *discrete* Gaussian on the counts: the same RDP (Canonne, Kamath, Steinke
2020, Theorem 4), exact sampling, no floating-point hole. A released label costs much less than noisy counts:
`mechanisms.noisy_maximum.NoisyMaximum` accounts for it.

Source: Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson, "Scalable private learning with PATE" (2018);
the DaRRM paper, Section 5 and Table 4.

*Data-dependent bounds* of GNMax (Algorithm 6 of the DaRRM paper; Papernot et al. 2018, Theorem 6).

Where teachers agree, a release says less than its worst case. **The bound is computed from private votes,
so it is sensitive itself**: publishing it, stopping by it or tuning noise with it voids the guarantee; that takes
smooth sensitivity, which is not offered here. It also bounds one direction only: this dataset against
each neighbour. It is for the eyes of the data's owner; the data-independent `gnmax_epsilon` is a guarantee.

The same holds for the moments of PATE with Laplace votes, and for the DPBag paper's conjecture about them (Papernot
et al. 2017, Theorem 3 and Lemma 4; Jordon et al., supplement). At DPBag's noise (λ = 2/n_chunks) they are worse than
the data-independent bound anyway.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.rdp import gaussian_rdp_epsilon
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.vote_noise import GaussianNoise, Kind, positive_fraction
from darrm_opt.rounding import GUARD
from darrm_papers.moments_accountant import (
    checked_epsilon,
    checked_lam,
    checked_orders,
    log_one_over,
    moment_increment,
)

GRID_END = 500.0  # largest λ of the paper's grid
GRID_STEP = 0.5  # step of the paper's grid, which starts at λ_min = 1 + ln(1/δ)/ε


@dataclass(frozen=True)
class GnmaxNoise:
    """Noise for a target, and the RDP order at which it is proved."""

    sigma: float  # σ [votes], rounded up
    order: float  # λ, the minimiser


def gnmax_sigma(
    epsilon: float,
    delta: float,
    *,
    queries: int = 1,
    affected: int = 1,
    search: Literal["continuous", "grid"] = "continuous",
) -> GnmaxNoise:
    """Return the least σ for which RDP proves (ε, δ) for all releases together.

    ``search``: ``continuous`` for the exact minimiser over λ > 1; ``grid`` for the paper's {λ_min, λ_min + 0.5, …} up
    to 500. The λ printed in the DaRRM paper beside σ = 21.46, 34.31, is not its minimiser: there the formula gives σ =
    37.7.

    Guarantees: ``gnmax_epsilon(sigma, delta, ...) <= epsilon``.
    Source: DaRRM paper, Figure 10 and Table 4. With u = λ − 1 and c = ln(1/δ), minimising (u² + u)/(εu − c) gives εu² −
    2cu − c = 0.

    >>> noise = gnmax_sigma(0.2676, 0.0003, search="grid")
    >>> round(noise.sigma, 2), round(noise.order, 1)
    (21.46, 62.3)
    """
    epsilon, c = checked_epsilon(epsilon), log_one_over(delta)
    Q = whole_number(queries, "queries", "a number of releases, at least 1")
    r = whole_number(affected, "affected", "a number of votes, at least 1")

    def variance(order: float) -> float:
        epsilon_left = epsilon - c / (order - 1) if order > 1 else 0.0
        return Q * r * r * order / epsilon_left if epsilon_left > 0 else math.inf

    if search == "continuous":
        # The positive root of εu² − 2cu − c, see Source.
        best_order = 1 + (c + math.sqrt(c * c + epsilon * c)) / epsilon
    elif search == "grid":
        least_order = 1 + c / epsilon
        # The grid starts half a step above λ_min, where no ε is left and σ is infinite.
        steps = math.floor((GRID_END - least_order) / GRID_STEP)
        if steps < 1:
            accepted = f"large enough that 1 + ln(1/delta)/epsilon = {least_order:g} is below 500"
            raise InvalidInput("epsilon", epsilon, accepted, "Use 'continuous'.")
        best_order = min((least_order + GRID_STEP * i for i in range(1, steps + 1)), key=variance)
    else:
        raise InvalidInput("search", search, "'continuous' or 'grid'")
    # The formula is a bound at every λ: the guard is for its own rounding, not for that of the minimiser.
    sigma = math.sqrt(variance(best_order)) * GUARD
    if not math.isfinite(sigma):
        accepted = "a number of nats that is neither so small that σ is infinite nor so large that λ − 1 rounds to 0"
        raise InvalidInput("epsilon", epsilon, accepted)
    return GnmaxNoise(sigma, best_order)


def gnmax_epsilon(sigma: float, delta: float, *, queries: int = 1, affected: int = 1) -> float:
    """Return ε at δ of Q releases by RDP, least over all orders λ > 1, rounded up.

    Source: ρ + 2√(ρ·ln(1/δ)) with ρ = Q·r²/σ², the minimum of λρ + ln(1/δ)/(λ−1) (Bun, Steinke 2016).

    >>> round(gnmax_epsilon(21.46, 0.0003), 4)
    0.2676
    """
    Q = whole_number(queries, "queries", "a number of releases, at least 0", least=0)
    r = whole_number(affected, "affected", "a number of votes, at least 1")
    return gaussian_rdp_epsilon(sigma, Q, delta, math.sqrt(2) * r)


def gnmax_wins(K: int, ones: int, sigma: float, kind: Kind = "continuous") -> float:
    """Return the probability that GNMax releases 1 when ``ones`` of K voters say 1, two classes.

    >>> round(gnmax_wins(11, 11, 21.46), 3)
    0.641
    """
    K = whole_number(K, "K", "a number of voters, at least 1")
    ones = whole_number(ones, "ones", f"a number of votes in 0..{K}", least=0, most=K)
    return GaussianNoise.of_sigma(sigma).wins(2 * ones - K, kind)


@dataclass(frozen=True)
class DataDependentMoment:
    """A moment bound computed from private votes: sensitive itself."""

    value: float  # the bound to use: the least of the two below that applies
    formula: float  # the data-dependent formula, whether or not it applies
    applies: bool  # whether its precondition q < 1/(1 + e^{2λ}) holds
    data_independent: float  # 2λ²l(l+1)
    wrong_winner: float  # q, the bound on the chance that another class wins
    proven: bool  # False for the conjecture


def wrong_winner_bound(margins: Sequence[float], lam: float) -> float:
    """Return q ≥ Pr[the leading class does not win], noise of scale 1/λ on each count.

    Source: Papernot et al. 2017, Lemma 4; exact for two classes.

    >>> round(wrong_winner_bound([100], 0.02), 12)
    0.135335283237
    """
    lam = checked_lam(lam)
    if not len(margins):
        raise InvalidInput("margins", margins, "the lead over at least one other class")
    leads = [real_number(margin, "margins", "leads in votes, at least 0") * lam for margin in margins]
    if not all(0 <= x < math.inf for x in leads):
        raise InvalidInput("margins", margins, "leads in votes, at least 0", "Count from the leading class.")
    return math.fsum((2 + x) / 4 * math.exp(-x) for x in leads)


def data_dependent_moment(margins: Sequence[float], lam: float, order: float) -> DataDependentMoment:
    """Return the moment of one SAA vote given the vote, or the data-independent 2λ²l(l+1) if that is less.

    The moment is ln((1−q)·((1−q)/(1−e^{2λ}q))^l + q·e^{2λl}).
    """
    return _moment(margins, lam, order, 1.0, proven=True)


def conjectured_moment(margins: Sequence[float], lam: float, order: float, m: float) -> DataDependentMoment:
    """Return the same with λ·m in place of λ in the bound but not in q: **a conjecture, not proved**.

    For two classes it held in every random trial; experimental, and used by nothing here.

    ``m``: spread of one record's teachers' votes; margins are divided by n_partitions.
    """
    return _moment(margins, lam, order, m, proven=False)


def _moment(margins: Sequence[float], lam: float, order: float, m: float, *, proven: bool) -> DataDependentMoment:
    l = float(checked_orders([order])[0])
    q = wrong_winner_bound(margins, lam)
    data_independent = moment_increment(lam, l, m)
    step = 2 * lam * m
    # 1/(1 + e^step) is the precondition (e^step − 1)/(e^{2·step} − 1), cancelled.
    applies = q < 1 / (1 + math.exp(step))
    formula = math.inf
    if q * math.exp(step) < 1:
        stays = (1 + l) * math.log1p(-q) - l * math.log1p(-q * math.exp(step))
        formula = float(np.logaddexp(stays, math.log(q) + step * l)) if q > 0 else stays
    return DataDependentMoment(
        min(formula, data_independent) if applies else data_independent, formula, applies, data_independent, q, proven
    )


WARNING = (
    "This bound was computed from the private votes: it is sensitive itself, holds for this dataset in one direction "
    "only, and must not be published or decide anything that is."
)

RDP_ORDERS = (1.5, *(float(order) for order in range(2, 101)), *(float(2**e) for e in range(7, 12)))
"""Orders λ tried by `sensitive_epsilon`."""


@dataclass(frozen=True)
class SensitiveRdp:
    """A data-dependent RDP bound of one release at one order; **sensitive itself**."""

    value: float  # the bound to use: the least of the two that apply
    formula: float  # Theorem 6's value; ``inf`` where its precondition fails
    applies: bool  # whether the precondition holds
    data_independent: float  # λr²/σ²
    wrong_winner: float  # q, the bound on the chance that another class wins

    @property
    def warning(self) -> str:
        """Why this must not be published."""
        return WARNING


@dataclass(frozen=True)
class SensitiveEpsilon:
    """A data-dependent ε of all releases; **sensitive itself, and not a guarantee**."""

    epsilon: float
    delta: float
    data_independent_epsilon: float  # the guarantee that may be published instead [nats]

    @property
    def warning(self) -> str:
        """Why this must not be published."""
        return WARNING


def log_wrong_winner(counts: Sequence[int] | NDArray[Any], sigma: float, kind: Kind = "discrete") -> float:
    """Return ln q, q ≥ Pr[the leading class does not win]: ½·Σ erfc((n* − n_c)/2σ) over the others.

    Source: Papernot et al. 2018, Proposition 7; exact for two classes.
    """
    votes = sorted(checked_counts(counts))
    noise = GaussianNoise.of_sigma(sigma)
    q = math.fsum(noise.loses(votes[-1] - other, kind) for other in votes[:-1])
    return math.log(min(q, 1.0)) if q > 0 else -math.inf


def sensitive_rdp(
    counts: Sequence[int] | NDArray[Any], sigma: float, order: float, *, affected: int = 1, kind: Kind = "discrete"
) -> SensitiveRdp:
    """Return the data-dependent RDP of one GNMax release.

    With q as above, s = σ/r, μ₂ = s√(ln 1/q), μ₁ = μ₂ + 1, ε_i = μ_i/s², the bound at λ ≤ μ₁ is
    ln((1−q)·A^(λ−1) + q·B^(λ−1))/(λ−1), A = (1−q)/(1 − (q·e^ε₂)^((μ₂−1)/μ₂)), B = e^ε₁/q^(1/(μ₁−1)).

    Precondition: μ₂ > 1, ln(1/q) > ε₂, and q ≤ e^((μ₂−1)ε₂)/(μ₁/(μ₁−1)·μ₂/(μ₂−1))^μ₂, which puts q where the
    bound grows with it. Where it fails the data-independent bound is returned.

    Source: Papernot et al. 2018, Theorem 6 with Proposition 10.

    >>> sensitive_rdp([250, 0], 40.0, 5.0).applies, sensitive_rdp([6, 5], 21.46, 5.0).applies
    (True, False)
    """
    order = real_number(order, "order", "a finite order, above 1", above=1, below=math.inf)
    r = whole_number(affected, "affected", "a number of votes, at least 1")
    variance = (float(positive_fraction(sigma, "sigma")) / r) ** 2
    data_independent = order / variance * GUARD
    log_q = log_wrong_winner(counts, sigma, kind)
    q = math.exp(log_q)
    formula = _theorem_6(log_q, variance, order)
    applies, formula = formula is not None, math.inf if formula is None else formula
    return SensitiveRdp(min(formula, data_independent), formula, applies, data_independent, q)


def sensitive_check_rdp(pass_chance: float, sigma: float, order: float) -> float:
    """Return the data-dependent RDP of a check "largest count + N(0, σ²) ≥ T", as the authors' code charges it.

    A check moves by one vote, and labels by two: Theorem 6 with σ√2, of the likelier outcome.

    Source: Papernot et al. 2018, Theorem 6 and the analysis code of its Confident-GNMax.

    >>> sensitive_check_rdp(0.5, 150.0, 5.0) == 5.0 / (2 * 150.0**2) * GUARD
    True
    """
    variance = 2 * float(positive_fraction(sigma, "sigma")) ** 2
    data_independent = order / variance * GUARD
    rarer = min(pass_chance, 1 - pass_chance)
    formula = _theorem_6(math.log(rarer) if rarer > 0 else -math.inf, variance, order)
    return data_independent if formula is None else min(formula, data_independent)


def sensitive_epsilon(
    counts: Sequence[Sequence[int]] | NDArray[Any],
    sigma: float,
    delta: float,
    *,
    affected: int = 1,
) -> SensitiveEpsilon:
    """Return the data-dependent ε of all releases, for the data's owner only.

    Source: DaRRM paper, Algorithm 6.
    """
    c = log_one_over(delta)
    rows = [checked_counts(row) for row in counts]
    # Many queries have the same votes up to the names of classes: each is bounded once.
    distinct = Counter(tuple(sorted(row)) for row in rows)

    def spent(order: float) -> float:
        terms = (n * sensitive_rdp(row, sigma, order, affected=affected).value for row, n in distinct.items())
        return math.fsum(terms) + c / (order - 1)

    epsilon = min(map(spent, RDP_ORDERS)) * GUARD if rows else 0.0
    return SensitiveEpsilon(epsilon, delta, gnmax_epsilon(sigma, delta, queries=len(rows), affected=affected))


def _theorem_6(log_q: float, variance: float, order: float) -> float | None:
    """Return Theorem 6's bound, or None where its precondition fails."""
    if log_q == -math.inf:
        return 0.0
    mu_2 = math.sqrt(-variance * log_q)
    mu_1 = mu_2 + 1
    if mu_2 <= 1 or order > mu_1:
        return None
    epsilon_1, epsilon_2 = mu_1 / variance, mu_2 / variance
    if -log_q <= epsilon_2:
        return None
    grows_until = (mu_2 - 1) * epsilon_2 - mu_2 * (math.log1p(1 / (mu_1 - 1)) + math.log1p(1 / (mu_2 - 1)))
    if log_q > grows_until:
        return None
    log_stay = math.log(-math.expm1(log_q))
    log_A = log_stay - math.log(-math.expm1((log_q + epsilon_2) * (mu_2 - 1) / mu_2))
    log_B = epsilon_1 - log_q / (mu_1 - 1)
    total = np.logaddexp(log_stay + (order - 1) * log_A, log_q + (order - 1) * log_B)
    return max(0.0, float(total)) / (order - 1) * GUARD


def checked_counts(counts: Sequence[int] | NDArray[Any]) -> list[int]:
    """Return vote counts of at least two classes as ints."""
    array = np.asarray(counts)
    if array.ndim != 1 or array.size < 2 or array.dtype.kind not in "iu" or bool((array < 0).any()):
        raise InvalidInput("counts", counts, "whole numbers of votes, at least 0, for at least two classes")
    return [int(count) for count in array]
