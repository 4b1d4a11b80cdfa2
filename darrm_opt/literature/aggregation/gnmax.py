"""GNMax: release the class whose vote count, plus Gaussian noise, is largest.

A record that moves r votes changes two counts by r each, so the counts have l₂-sensitivity √2·r and the
release is (λ, λr²/σ²)-RDP at every order λ > 1, Q releases (λ, Qλr²/σ²). At δ that is ε = Qλr²/σ² +
ln(1/δ)/(λ−1), and to reach a target ε one needs σ² = Qλr²/(ε − ln(1/δ)/(λ−1)), least over λ.

The noise that is drawn is a *discrete* Gaussian on the counts: the same RDP (Canonne, Kamath, Steinke
2020, Theorem 4), exact sampling, no floating-point hole. For two classes the release is one bit and
costs much less than noisy counts: `GnmaxPlan` accounts for it exactly.

Source: Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson, "Scalable private learning with PATE" (2018);
the DaRRM paper, Section 5 and Table 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.rdp import ORDERS, gaussian_rdp, gaussian_rdp_epsilon, rdp_epsilon
from darrm_opt.bagging.guarantee import Guarantee
from darrm_opt.bagging.teachers import check_teachers
from darrm_opt.errors import InvalidInput
from darrm_opt.literature.aggregation.laplace_plan import MAX_LABELS, least_noise
from darrm_opt.literature.aggregation.moments_accountant import (
    MIN_PROBABILITY,
    checked_epsilon,
    log_one_over,
    noisy_vote_laws,
    vote_costs,
)
from darrm_opt.mechanisms.vote_noise import GaussianNoise, Kind, positive_fraction
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.rounding import GUARD
from darrm_opt.search import largest_count

GRID_END = 500.0
"""Largest λ of the paper's grid."""

GRID_STEP = 0.5
"""Step of the paper's grid, which starts at λ_min = 1 + ln(1/δ)/ε."""

Accountant = Literal["best", "rdp", "pld", "two_class", "bits"]

TWO_CLASS_ORDERS = (*range(1, 81), *(2**e for e in range(7, 15)), *(3 * 2**e for e in range(5, 13)))
"""Moment orders l = λ − 1 of the exact two-class account; the large ones serve small ε."""


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
            raise InvalidInput(
                "epsilon",
                epsilon,
                f"large enough that 1 + ln(1/delta)/epsilon = {least_order:g} is below 500",
                "Use 'continuous'.",
            )
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
class GnmaxPlan:
    """Release ``n_labels`` labels by GNMax: everything fixed before the data are looked at.

    >>> GnmaxPlan(1, 21.46, n_chunks=11, delta=3e-4).guarantee.epsilon < 0.1
    True
    """

    n_labels: int  # labels to release, ≥ 0
    sigma: float
    n_chunks: int  # teachers per partition, ≥ 1
    n_partitions: int = 1  # partitions, ≥ 1: votes that one record can move
    n_classes: int = 2
    delta: float = 1e-5
    # ``rdp`` of noisy counts, the papers'; ``pld`` of noisy counts. ``best`` is the least of the tight RDP of noisy
    # counts and, for two classes, of ``two_class``: the exact account of one released bit, composed by its moments.
    # ``bits`` composes the bits exactly: the tightest for two classes, seconds for a thousand labels
    accountant: Accountant = "best"
    adjacency: Literal["replace", "add_remove"] = "replace"

    def __post_init__(self) -> None:
        whole_number(self.n_labels, "n_labels", "a number of labels, at least 0", least=0)
        check_teachers(self)
        object.__setattr__(self, "sigma", float(positive_fraction(self.sigma, "sigma")))
        log_one_over(self.delta)
        if self.accountant not in ("best", "rdp", "pld", "two_class", "bits"):
            raise InvalidInput("accountant", self.accountant, "'best', 'rdp', 'pld', 'two_class' or 'bits'")
        if self.accountant in ("two_class", "bits") and self.n_classes != 2:
            raise InvalidInput("accountant", self.accountant, "'best', 'rdp' or 'pld' unless n_classes = 2")

    @property
    def noise(self) -> GaussianNoise:
        """The discrete Gaussian on each count."""
        return GaussianNoise.of_sigma(self.sigma)

    @property
    def guarantee(self) -> Guarantee:
        """(ε, δ) of all labels together, ε rounded up."""
        epsilon, basis = _label_cost(self)(self.n_labels)
        return Guarantee(epsilon, self.delta, self.adjacency, basis)

    @classmethod
    def for_target(
        cls,
        target: Privacy,
        *,
        n_chunks: int,
        n_partitions: int = 1,
        n_classes: int = 2,
        n_labels: int | None = None,
        sigma: float | None = None,
        accountant: Accountant = "best",
        adjacency: Literal["replace", "add_remove"] = "replace",
    ) -> GnmaxPlan:
        """Return the plan that makes the most of a target (ε, δ).

        Guarantees: ``plan.guarantee.epsilon <= target.epsilon`` and ``plan.guarantee.delta == target.delta``.

        >>> GnmaxPlan.for_target(Privacy(0.2676, 0.0003), n_chunks=11, n_labels=1, accountant="rdp").sigma < 21.47
        True
        """
        epsilon = checked_epsilon(target.epsilon)
        if (n_labels is None) == (sigma is None):
            raise InvalidInput("sigma", sigma, "exactly one of sigma and n_labels", "Each decides the other.")

        def plan(T: int, sigma: float) -> GnmaxPlan:
            return cls(T, sigma, n_chunks, n_partitions, n_classes, target.delta, accountant, adjacency)

        if n_labels is None:
            assert sigma is not None  # noqa: S101 - for the type checker; checked above
            cost = _label_cost(plan(0, sigma))
            return plan(largest_count(lambda T: cost(T)[0] <= epsilon, MAX_LABELS), sigma)
        whole_number(n_labels, "n_labels", "a number of labels, at least 1")
        rdp_sigma = gnmax_sigma(epsilon, target.delta, queries=n_labels, affected=n_partitions).sigma
        if accountant == "rdp" or (accountant == "best" and n_classes != 2):
            return plan(n_labels, rdp_sigma)
        return plan(n_labels, least_noise(lambda sigma: plan(n_labels, sigma).guarantee.epsilon <= epsilon, rdp_sigma))


def _label_cost(plan: GnmaxPlan) -> Callable[[int], tuple[float, str]]:
    """Return the function from a number of labels at the plan's noise to (ε, basis), by its accountant."""
    teachers = plan.n_chunks * plan.n_partitions
    bit_costs = None
    # Below that chance a logarithm of it means nothing, and the counts are charged instead.
    if (
        plan.accountant in ("best", "two_class", "bits")
        and plan.n_classes == 2
        and plan.noise.loses(teachers) >= MIN_PROBABILITY
    ):
        laws = noisy_vote_laws(teachers, plan.noise, plan.n_partitions)
        bit_costs = vote_costs(laws, plan.delta, TWO_CLASS_ORDERS, exact=plan.accountant == "bits")

    def cost(T: int) -> tuple[float, str]:
        options = bit_costs(T) if bit_costs else []
        # By the tighter conversion to (ε, δ), which the papers' closed form, below, does not have.
        if plan.accountant == "best" and T > 0:
            divergences = T * gaussian_rdp(plan.sigma, ORDERS, math.sqrt(2) * plan.n_partitions) * GUARD
            options.append((rdp_epsilon(divergences, plan.delta)[0], "GNMax, RDP of noisy counts, tight conversion"))
        if plan.accountant == "pld":
            counts_epsilon = gnmax_pld_epsilon(
                plan.sigma, plan.delta, queries=T, affected=plan.n_partitions, n_classes=plan.n_classes
            )
            options.append((counts_epsilon, "GNMax, PLD of noisy counts"))
        # Last, for every accountant that has proved nothing so far: the counts bound whatever is computed from them.
        elif plan.accountant in ("best", "rdp") or not options:
            counts_epsilon = gnmax_epsilon(plan.sigma, plan.delta, queries=T, affected=plan.n_partitions)
            options.append((counts_epsilon, "GNMax, RDP of noisy counts"))
        return min(options)

    return cost


TAIL_ERROR = 2.0**-38
"""Relative error of a tail probability, 4e-12: an exponential errs by its exponent, at most 400, in ulps, and deciding
which w has a loss above ε errs by a few ulps of ε and r²/σ²."""

REACH = 14.0
"""Losses are kept up to this many standard deviations of w; what lies beyond, below 1e-43, counts as infinite."""

MAX_SIGMA = 10_000.0
"""Beyond this σ [votes] tables of w grow long; RDP is within a percent there."""


def gnmax_pld_epsilon(sigma: float, delta: float, *, queries: int = 1, affected: int = 1, n_classes: int = 2) -> float:
    """Return ε at δ of Q releases of noisy counts, by PLD.

    Guarantees: Sound for the discrete noise that is drawn, rounding included.
    Source: ours, on Doroshenko et al. 2022.

    >>> round(gnmax_pld_epsilon(21.46, 3e-4), 3)
    0.148
    """
    from darrm_opt.accounting.pld import pld_from_profile

    Q = whole_number(queries, "queries", "a number of releases, at least 0", least=0)
    r = whole_number(affected, "affected", "a number of votes, at least 1")
    C = whole_number(n_classes, "n_classes", "a number of classes, at least 2", least=2)
    noise = GaussianNoise.of_sigma(sigma)
    if noise.sigma > MAX_SIGMA:
        raise InvalidInput("sigma", sigma, f"at most {MAX_SIGMA:g} votes", "Use the account by RDP.")
    if r > 1 and C > 2:
        raise InvalidInput("affected", r, "1 vote with more than two classes", "Use the account by RDP.")
    if Q == 0:
        return 0.0
    profile = CountsProfile(noise, r)
    return (
        pld_from_profile(profile, discretisation=profile.spacing, max_loss=profile.max_loss).repeated(Q).epsilon(delta)
    )


class CountsProfile:
    """The privacy profile ε ↦ δ(ε) of one release of noisy counts, for every real ε; never below the exact one."""

    def __init__(self, noise: GaussianNoise, affected: int) -> None:
        self.variance = float(noise.variance)
        self.affected = affected
        half = noise.difference_masses()  # Pr[w], w = 0, 1, …
        tails = np.concatenate([half[::-1], half[1:]])[::-1].cumsum()[::-1]  # from the far end: small tails keep digits
        self._first = -(half.size - 1)
        self._tails = np.append(tails, 0.0)

    @property
    def spacing(self) -> float:
        """Distance of neighbouring losses where r votes move [nats]."""
        return self.affected / self.variance

    @property
    def max_loss(self) -> float:
        """A loss that is exceeded with negligible probability [nats]."""
        r = self.affected
        return (r * r + r * math.ceil(REACH * math.sqrt(2 * self.variance))) / self.variance

    def __call__(self, epsilons: Array) -> Array:
        """Return δ at each ε [nats]."""
        return np.asarray(np.max([self._delta(epsilons, r) for r in range(1, self.affected + 1)], axis=0))

    def _delta(self, epsilons: Array, r: int) -> Array:
        """Return Pr[L > ε] − e^ε·Pr′[L > ε]; under the neighbour w is larger by 2r, so both are tails of w."""
        w = np.floor((epsilons * self.variance - r * r) / r).astype(np.int64) + 1  # the least w with L > ε
        on_data, on_neighbour = self._tail(w), self._tail(w + 2 * r)
        with np.errstate(over="ignore", invalid="ignore"):  # inf·0 where the tail is empty
            neighbour_term = np.where(on_neighbour > 0, np.exp(epsilons) * on_neighbour * (1 - TAIL_ERROR), 0.0)
        return np.clip(on_data * (1 + TAIL_ERROR) - neighbour_term, 0.0, 1.0)

    def _tail(self, w: NDArray[np.int64]) -> Array:
        """Return Pr[difference of two samples ≥ w]."""
        return np.asarray(self._tails[np.clip(w - self._first, 0, self._tails.size - 1)], dtype=np.float64)
