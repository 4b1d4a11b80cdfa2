"""Data-dependent privacy bounds of PATE: GNMax (Algorithm 6 of the DaRRM paper; Papernot et al. 2018, Theorem 6).

Where teachers agree, a release says less than its worst case. **The bound is computed from private votes,
so it is sensitive itself**: publishing it, stopping by it or tuning noise with it voids the guarantee; that takes
smooth sensitivity, which is not offered here. It also bounds one direction only: this dataset against
each neighbour. It is for the eyes of the data's owner; the data-independent `gnmax.gnmax_epsilon` is a guarantee.

The same holds for the moments of PATE with Laplace votes, and for the DPBag paper's conjecture about them (Papernot
et al. 2017, Theorem 3 and Lemma 4; Jordon et al., supplement). At DPBag's noise (λ = 2/n_chunks) they are worse than
the data-independent bound anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.literature.aggregation.gnmax import gnmax_epsilon
from darrm_opt.literature.aggregation.moments_accountant import (
    checked_lam,
    checked_orders,
    log_one_over,
    moment_increment,
)
from darrm_opt.mechanisms.vote_noise import GaussianNoise, Kind, checked_counts, positive_fraction
from darrm_opt.problem import real_number, whole_number
from darrm_opt.rounding import GUARD


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
        formula = _log_add(stays, math.log(q) + step * l) if q > 0 else stays
    return DataDependentMoment(
        min(formula, data_independent) if applies else data_independent, formula, applies, data_independent, q, proven
    )


def _log_add(a: float, b: float) -> float:
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


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
    if formula is None:
        return SensitiveRdp(
            data_independent, math.inf, applies=False, data_independent=data_independent, wrong_winner=q
        )
    return SensitiveRdp(
        min(formula, data_independent), formula, applies=True, data_independent=data_independent, wrong_winner=q
    )


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
    orders: Iterable[float] = RDP_ORDERS,
    kind: Kind = "discrete",
) -> SensitiveEpsilon:
    """Return the data-dependent ε of all releases, for the data's owner only.

    Source: DaRRM paper, Algorithm 6.
    """
    c = log_one_over(delta)
    rows = [checked_counts(row) for row in counts]
    distinct: dict[tuple[int, ...], int] = {}
    for row in rows:
        key = tuple(sorted(row))
        distinct[key] = distinct.get(key, 0) + 1

    def spent(order: float) -> float:
        terms = (
            n * sensitive_rdp(row, sigma, order, affected=affected, kind=kind).value for row, n in distinct.items()
        )
        return math.fsum(terms) + c / (order - 1)

    epsilon = min(map(spent, orders)) * GUARD if rows else 0.0
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
