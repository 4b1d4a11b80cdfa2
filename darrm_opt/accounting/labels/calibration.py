"""Calibration of noisy votes: the least noise, or the most labels, for a total (ε, δ) over many queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from darrm_opt.accounting.gaussian import gaussian_epsilon
from darrm_opt.accounting.labels.vote_cost import (
    MAX_SIGMA,
    MIN_DISCRETE_SIGMA,
    MIN_SIGMA,
    Noise,
    VoteCost,
    VoteReleases,
    vote_cost,
)
from darrm_opt.accounting.rdp import ORDERS, rdp_epsilon
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.search import largest_count, least_fitting

PRECISION = 1e-4
"""Relative distance of σ from the least one that fits."""

MAX_ROUNDS = 60
"""Most evaluations of the account in one calibration; some ten are usual."""

MAX_LABELS = 10**7
"""Largest number of labels that is looked for."""


@dataclass(frozen=True)
class CalibratedVote:
    """Noise for a budget, and what it costs.

    Attributes:
        releases: labels, and checks where there are any, with their σ [votes].
        cost: what they cost: ``cost.epsilon`` is within the budget.
    """

    releases: tuple[VoteReleases, ...]
    cost: VoteCost

    @property
    def label_sigma(self) -> float:
        """σ of the labels' noise [votes]."""
        return self.releases[0].sigma

    @property
    def check_sigma(self) -> float | None:
        """σ₁ of the checks' noise [votes]; None where there are no checks."""
        return self.releases[1].sigma if len(self.releases) > 1 else None


def calibrate_noise(
    budget: Privacy,
    labels: int,
    *,
    checks: int = 0,
    check_ratio: float = 4.0,
    classes: int | None = None,
    affected: int = 1,
    noise: Noise = "gaussian",
    precision: float = PRECISION,
) -> CalibratedVote:
    """Return the least noise with which labels and checks fit in a budget: GNMax, or Confident-GNMax where checks > 0.

    Args:
        budget: total (ε, δ), ε > 0 and finite, δ > 0.
        labels: labels Q, ≥ 1.
        checks: checks, ≥ 0: every query of Confident-GNMax is checked.
        check_ratio: σ₁/σ, noise of a check over that of a label, > 0. The published settings have 3.75 to 5.
        classes: number of classes, ≥ 2; None for any number.
        affected: votes that one record can move, ≥ 1.
        noise: as in `VoteReleases`.
        precision: relative distance of σ from the least one that fits, in (0, 1).

    Returns:
        σ within ``precision`` of the least one that the account proves.

    Guarantees:
        ``cost.epsilon <= budget.epsilon`` at δ = ``budget.delta``.

    Raises:
        InvalidInput: a number is outside its range.

    >>> vote = calibrate_noise(Privacy(2.0, 1e-5), 286, checks=640, check_ratio=3.75)
    >>> round(vote.label_sigma, 1), vote.cost.epsilon <= 2
    (40.2, True)
    """
    _check_budget(budget)
    whole_number(labels, "labels", "a number of labels, at least 1")
    whole_number(checks, "checks", "a number of checks, at least 0", least=0)
    ratio = real_number(check_ratio, "check_ratio", _RATIO)
    if not 0 < ratio < math.inf:
        raise InvalidInput("check_ratio", check_ratio, _RATIO)
    if not 0 < real_number(precision, "precision", "a share of σ in (0, 1)") < 1:
        raise InvalidInput("precision", precision, "a share of σ in (0, 1)")

    def releases(sigma: float) -> tuple[VoteReleases, ...]:
        label_releases = (VoteReleases("label", sigma, labels, noise),)
        return (*label_releases, VoteReleases("check", ratio * sigma, checks, noise)) if checks else label_releases

    costs: dict[float, VoteCost] = {}

    def label_epsilon(sigma: float) -> float:
        costs[sigma] = vote_cost(releases(sigma), budget.delta, classes=classes, affected=affected)
        return costs[sigma].epsilon

    def counts_epsilon(sigma: float) -> float:
        variance = sum(release.count * release.shift(affected) ** 2 for release in releases(sigma)) * (1 + 1e-9)
        if noise == "discrete":
            return rdp_epsilon(ORDERS * (variance / 2), budget.delta)[0]
        return gaussian_epsilon(math.sqrt(variance), budget.delta)

    least = max(1.0, (1 + 1e-9) / ratio) if checks else 1.0  # ratio·σ rounds
    floor = (MIN_DISCRETE_SIGMA if noise == "discrete" else MIN_SIGMA) * least
    upper = _sigma_of_counts(counts_epsilon, budget.epsilon, floor)
    sigma = _least_sigma(label_epsilon, budget.epsilon, upper, floor, precision)
    if sigma not in costs:  # nothing below the noise of the counts fits
        label_epsilon(sigma)
    return CalibratedVote(releases(sigma), costs[sigma])


def most_labels(
    budget: Privacy,
    sigma: float,
    *,
    checks_per_label: float = 0.0,
    check_sigma: float | None = None,
    classes: int | None = None,
    affected: int = 1,
    noise: Noise = "gaussian",
) -> int:
    """Return the most labels that fit in a budget at a given noise, each with its share of checks.

    Args:
        budget: total (ε, δ), ε > 0 and finite, δ > 0.
        sigma: σ of the labels' noise, > 0 [votes].
        checks_per_label: checks for each label, ≥ 0; their number is rounded up.
        check_sigma: σ₁ of the checks' noise, > 0 [votes]; needed where there are checks.
        classes: number of classes, ≥ 2; None for any number.
        affected: votes that one record can move, ≥ 1.
        noise: as in `VoteReleases`.

    Returns:
        The number, at most 10⁷; 0 if not even one label fits.

    Raises:
        InvalidInput: a number is outside its range.

    >>> most_labels(Privacy(2.0, 1e-5), 40.0)
    305
    """
    _check_budget(budget)
    share = real_number(checks_per_label, "checks_per_label", _SHARE)
    if not 0 <= share < math.inf:
        raise InvalidInput("checks_per_label", checks_per_label, _SHARE)

    def fits(labels: int) -> bool:
        releases = [VoteReleases("label", sigma, labels, noise)]
        if share:
            releases.append(VoteReleases("check", check_sigma, math.ceil(share * labels), noise))  # type: ignore[arg-type]  # checked there
        return vote_cost(releases, budget.delta, classes=classes, affected=affected).epsilon <= budget.epsilon

    return largest_count(fits, MAX_LABELS)


_RATIO = "noise of a check over noise of a label, a finite number above 0"
_SHARE = "a number of checks for each label, at least 0"


def _check_budget(budget: Privacy) -> None:
    if not 0 < budget.epsilon < math.inf:
        raise InvalidInput("epsilon", budget.epsilon, "a finite number of nats above 0")
    if budget.delta == 0:
        raise InvalidInput("delta", budget.delta, "a probability above 0 and below 1")


def _least_sigma(
    epsilon_at: Callable[[float], float], epsilon: float, upper: float, floor: float, precision: float
) -> float:
    """Return a σ ≥ ``floor`` at which ε fits, within ``precision`` of one at which it does not; it fits at ``upper``.

    ln ε falls nearly in proportion to ln σ: secant steps, aimed by turns a little above and below the answer, inside
    the bracket found so far.
    """
    lower, sigma, slope = floor, max(0.85 * upper, floor), -1.2
    previous: tuple[float, float] | None = None
    for _ in range(MAX_ROUNDS):
        spent = epsilon_at(sigma)  # 0 where δ alone covers the releases
        excess = math.log(spent / epsilon) if spent > 0 else -math.inf
        if excess <= 0:
            upper = sigma
        else:
            lower = sigma
        if upper - lower <= precision * upper:
            break
        if previous is not None and previous[0] != sigma:
            slope = (excess - previous[1]) / math.log(sigma / previous[0])
        previous = (sigma, excess)
        offset = precision / 3 if excess > 0 else -precision / 3
        guess = sigma * math.exp(-excess / slope + offset) if slope < 0 else 0.0
        sigma = guess if lower < guess < upper else (lower + upper) / 2
    return upper


def _sigma_of_counts(epsilon_at: Callable[[float], float], epsilon: float, floor: float) -> float:
    """Return a σ ≥ ``floor`` at which the noisy counts alone fit, by doubling and halving."""

    def fits(sigma: float) -> bool:
        return epsilon_at(sigma) <= epsilon

    sigma = max(1.0, floor)
    while not fits(sigma):
        sigma *= 2
        if sigma > MAX_SIGMA:
            raise InvalidInput("epsilon", epsilon, f"a number of nats that σ = {MAX_SIGMA:g} votes reaches")
    while sigma / 2 > floor and fits(sigma / 2):
        sigma /= 2
    return least_fitting(fits, max(sigma / 2, floor), sigma, PRECISION)
