"""Random allocation: each record is in exactly k random releases of every t, drawn anew for the next t.

Prompts that rotate through the data draw no sample for a query: each record is spread over a round of t queries. Let
(P, Q) be a pair that dominates one release, the answer without a record and with it, and R = Q/P its likelihood ratio.
A round with k = 1 is dominated by

    (P^t, U·P^t),    U = (R₁ + … + R_t)/t,    R_i independent, each with the law of R under P

in both directions, also if each query is chosen after the answers before it; k of t is dominated by k rounds of 1 of
⌊t/k⌋. Both directions follow from g(y) = E(y − U)₊:

    a record removed    H_x(Q‖P) = 1 − x + g(x)
    a record added      H_x(P‖Q) = x·g(1/x)

g increases if R is spread out at a constant mean, and if U wraps around at its upper end: so atoms of R are spread onto
a grid and summed by one Fourier transform, and a bound on the rounding is added.

Rounds are composed as any profile is. The other accounts are those of k releases of every t with all records: given its
queries, a record is in no others.

Source: Feldman and Shenfeld 2025 (the pair of a round, and k of t by k rounds); the sum by convolution on a grid of
ratios is ours. Proofs: docs/proofs.md, "Ensembles that are drawn anew for every query".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from darrm_opt.accounting.composition.optimal import epsilon_at_delta
from darrm_opt.accounting.guarantee import LawTriples, ReleaseGuarantee
from darrm_opt.accounting.law_pairs import LawPairs, largest_deltas
from darrm_opt.accounting.pld import FFT_ERROR, POWER_ERROR, fast_length, profile_of_event
from darrm_opt.accounting.rdp import rdp_epsilon
from darrm_opt.accounting.sampled import (
    LOG_FACTORIALS,
    MAX_LOSS,
    MIN_LOSS,
    RARE_SHARE,
    SLACK_SHARE,
    charged_noise,
    composed_epsilon,
    cut_of,
    log_moments,
    logarithms,
)
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP

COARSE_KNOTS, KNOTS = 60, 400
"""Number of losses at which the profile of one release is evaluated to find its ends, and between them."""

MIN_RATIO_LOG = -10.0  # smallest ln R distinguished from 0 if no relevant answer has less
SPREAD_SHARE = 0.02  # relative increase of the variance of R that the grid may cause
MIN_CELLS, MAX_CELLS = 1 << 16, 1 << 21  # number of cells of a round's grid

ROUND_KNOTS: Array = np.concatenate([-np.geomspace(MIN_LOSS, 30, KNOTS)[::-1], [0], np.geomspace(MIN_LOSS, 30, KNOTS)])
"""Losses of a round at which its profile is first evaluated."""

ATOM_ERROR = 16 * ULP
"""Error of the δ of one release at a ratio x, relative to min(1, x), by the atoms of R: three telescoping roundings of
a slope, and that of their difference. A law that is off by a share w of each side has δ larger by w(1 − δ), at x ≤ 1 at
least w·x(1 − δ(1)): so w = ATOM_ERROR/(1 − δ(1)) covers it, in each release of a round."""

ORDERS: Array = np.arange(2.0, 1025.0)  # orders of Rényi divergences: integers, whose moments are sums of products
ORDERS.setflags(write=False)

FIRST_ORDERS: Array = np.array(sorted({*np.geomspace(ORDERS[0], ORDERS[-1], 36).round()}))
"""Orders at which integrals are computed first; up to `NEXT_ORDERS` more are computed around the best."""
FIRST_ORDERS.setflags(write=False)

NEXT_ORDERS, MANY_ORDERS = 16, 128

MIN_MEAN = 1e-300  # smallest mean of an exponential that is computed

PLACE_STEP, PARTS = 0.08, 256
"""Spacing of the logarithms at which an integrand is computed, and number of parts between two of them."""

END_EXPONENT = 50.0  # exponent below which an integrand's exponential is where the grid ends, for the lowest order

INTEGRAL_ERROR = 1e-8
"""Error of the logarithm of an integral: differences of numbers that agree to 1/`PARTS`², and exponents below 10⁶."""

Profile = Callable[[Array], Array]  # δ at any losses


def in_most(sampling: Sampling, releases: int) -> int:
    """Return the maximum number of ``releases`` releases that one record is in."""
    rounds, rest = divmod(releases, sampling.among or 1)
    return sampling.times * rounds + min(sampling.times, rest)


def allocated_accounts(
    bounds: Callable[[int], ReleaseGuarantee | None],
    sampled_laws: Callable[[float], Sequence[LawTriples] | None],
    sampling: Sampling,
    affected: int,
    releases: int,
    delta: float,
) -> dict[str, Callable[[], Privacy]]:
    """Return the accounts of releases with random allocation, by name.

    Accounts without allocation hold too, for `in_most` releases. ``bounds``, ``sampled_laws``: as for
    `sampled.sampled_accounts`.
    """
    among, times = sampling.among or 1, sampling.times
    if among // times < 2 or not releases or not delta:  # no gain at δ = 0
        return {}
    families = sampled_laws(cut_of(delta, releases)) or ()
    missing = max((family.missing for family in families), default=0.0) * releases
    release = None if families else bounds(affected)
    parts, rounds = among // times, times * -(-releases // among)
    # (without the record, with it), and the reverse.
    added, removed = ([family.pairs(1.0)[side] for family in families] for side in (0, 1))
    if release is not None and release.laws is not None and isinstance(release.shown, LawPairs):
        added = removed = [release.shown]
    if removed:
        known: Profile = partial(largest_deltas, removed)
    elif release is not None and (event := release.event()) is not None:
        known = profile_of_event(event)
    else:
        return {}
    accounts: dict[str, Callable[[], Privacy]] = {"pld": partial(_convolved, known, parts, rounds, missing, delta)}
    if removed:
        accounts["renyi"] = partial(_renyi, added, removed, parts, rounds, missing, delta)
    return accounts


def _convolved(known: Profile, among: int, rounds: int, missing: float, delta: float) -> Privacy:
    """Return ε of rounds of one in ``among`` releases, the larger of the directions."""
    left = delta * (1 - SLACK_SHARE)
    one = RoundProfile.of(known, among, RARE_SHARE * delta / rounds)
    epsilon = max(_direction(profile, rounds, left) for profile in (one.removed, one.added))
    return charged_noise(epsilon, missing, delta)


def _direction(profile: Profile, rounds: int, delta: float) -> float:
    deltas = np.minimum.accumulate(profile(ROUND_KNOTS))
    if rounds > 1:
        return composed_epsilon(profile, ROUND_KNOTS, deltas, rounds, delta)
    flat_from = float(ROUND_KNOTS[np.argmax(deltas <= deltas[-1])])
    reason = "that is the probability of an infinite loss, rounding included"
    return epsilon_at_delta(lambda each: float(profile(np.array([each]))[0]), delta, max(flat_from, 0.0), reason)


def _renyi(
    added: Sequence[LawPairs], removed: Sequence[LawPairs], among: int, rounds: int, missing: float, delta: float
) -> Privacy:
    """Return ε by the Rényi divergences of rounds of one in ``among`` releases, the larger of the directions."""
    # Rare answers are left out as in `sampled`: with the record in one release of a round, without it in all of them.
    left = delta * (1 - SLACK_SHARE)
    answers = max(laws.on_data.shape[1] for laws in removed)
    rare = SLACK_SHARE * left / (rounds * answers)
    left *= (1 - SLACK_SHARE) * (1 - 8 * ULP)

    def best(moments: Array, orders: Array) -> tuple[float, float]:
        known = np.isfinite(moments)
        if not known.any():
            raise DeltaTooSmall(delta, delta, "an answer that is possible on only one of two neighbours")
        divergences = rounds * np.maximum(moments, 0.0)[known] / (orders[known] - 1) * (1 + 4 * ULP)
        return rdp_epsilon(divergences, left, orders[known])

    # The highest orders are the slowest, and only matter at small ε.
    for orders in (ORDERS[:MANY_ORDERS], ORDERS):
        epsilon, order = best(removed_moments(removed, among, rare, orders), orders)
        if order < MANY_ORDERS:
            break
    first, order = best(added_moments(added, among, rare / among, FIRST_ORDERS), FIRST_ORDERS)
    if first > epsilon:  # otherwise the other direction is larger
        place = int(np.searchsorted(FIRST_ORDERS, order))
        low, high = FIRST_ORDERS[[max(0, place - 1), min(place + 1, FIRST_ORDERS.size - 1)]].tolist()
        between = np.unique(np.linspace(low, high, NEXT_ORDERS).round())
        epsilon = max(epsilon, min(first, best(added_moments(added, among, rare / among, between), between)[0]))
    return charged_noise(epsilon, missing, delta)


def removed_moments(pairs: Sequence[LawPairs], among: int, rare: float, orders: Array = ORDERS) -> Array:
    """Return bounds on ln E U^a at each of the first of `ORDERS`, each query with any of the pairs (Q, P).

    Source: a multinomial sum, Σ a!/(m₁!…m_t!)·Π E R^m_i over t^a: the a-th coefficient of a power.
    """
    logs = [logarithms(laws, rare) for laws in pairs]
    moments = np.max([log_moments(*each, orders) for each in logs], axis=0)
    moments = moments[: int(np.argmin(np.append(np.isfinite(moments), False)))]  # a moment requires all below it
    factorials = LOG_FACTORIALS[: moments.size + 2]
    series = np.concatenate([[0.0, 0.0], np.maximum(moments, 0.0)]) - factorials
    power, square, left = np.concatenate([[0.0], np.full(series.size - 1, -np.inf)]), series, among
    while left:
        power, square, left = _product(power, square) if left % 2 else power, _product(square, square), left // 2
    size = float(np.max(np.abs(np.concatenate([series, power, factorials]))))
    error = 2 * among * ULP * (8 * size + series.size + 16)
    found = np.full(orders.size, np.inf)
    found[: moments.size] = (power + factorials)[2:] - orders[: moments.size] * math.log(among) * (1 - 4 * ULP) + error
    return found


def _product(first: Array, second: Array) -> Array:
    """Return the logarithms of the first coefficients of the product of two series, from theirs."""
    place = np.subtract.outer(np.arange(first.size), np.arange(first.size))
    terms = np.where(place >= 0, first + second[np.maximum(place, 0)], -np.inf)
    return np.asarray(np.logaddexp.reduce(terms, axis=1))


def added_moments(pairs: Sequence[LawPairs], among: int, rare: float, orders: Array) -> Array:
    """Return bounds on ln E U^(1−a) at each of the orders, for queries with any of the pairs (P, Q).

    Source: y^−s = ∫ v^(s−1)·e^(−vy) dv/Γ(s), and E e^(−vU) is at most the t-th power of the largest E e^(−vR/t), whose
    logarithm is convex in v: it is bounded by chords, and the function by finer ones.
    """
    laws = []
    for each in pairs:
        p, q = each.bounds
        kept = p > rare
        ratios = np.where(kept, q / np.where(kept, p, 1.0) * (1 - 2 * ULP), math.inf)
        laws.append((np.ascontiguousarray(np.where(kept, p, 0.0).T), np.ascontiguousarray(ratios.T)))
    least = min(float(ratios.min()) for _, ratios in laws)
    if least <= 0:
        return np.full(orders.size, np.inf)
    powers = orders - 1
    # The end of the grid only affects tightness: the rest at either end is bounded and added below.
    end = math.log((END_EXPONENT + 2 * powers[-1]) / least)
    places = np.concatenate([[-18.0], np.linspace(-4, end, math.ceil((end + 4) / PLACE_STEP) + 1)])
    logs = np.empty(places.size)
    for number, v in enumerate((np.exp(places) / among).tolist()):
        logs[number] = max(float((p * np.exp(-v * ratios)).sum(axis=0).max()) for p, ratios in laws)
    logs = np.maximum(logs, MIN_MEAN)  # a bound if it underflows
    logs = np.minimum(among * (np.log(logs) + 16 * ULP * (100 + max(len(p) for p, _ in laws))), 0.0)
    fine = np.interp(np.arange((places.size - 1) * PARTS + 1) / PARTS, np.arange(places.size), places)
    values = np.interp(np.exp(fine), np.exp(places), logs)
    widths, alike = np.unique(np.diff(fine), return_inverse=True)  # few, since steps are equal except for rounding
    growth, found = np.expm1(widths), np.empty(powers.size)
    for number, s in enumerate(powers.tolist()):
        # Between two points the function is below its chord, whose product with a power is integrated exactly.
        one, more = np.expm1(s * widths) / s, np.expm1((s + 1) * widths) / (s + 1)
        with np.errstate(divide="ignore"):
            left = np.log(np.maximum((1 + growth) * one - more, 0.0) / growth)[alike] + values[:-1]
            right = np.log(np.maximum(more - one, 0.0) / growth)[alike] + values[1:]
        terms = s * fine[:-1] + np.logaddexp(left, right)
        # Below the first point the function is at most 1; beyond the last it decreases at least at the smallest ratio.
        ends = [s * fine[0] - math.log(s), math.log(2 / least) + (s - 1) * end + logs[-1]]
        peak = max(float(terms.max()), *ends)
        total = math.log(float(np.exp(terms - peak).sum()) + sum(math.exp(each - peak) for each in ends)) + peak
        found[number] = total - math.lgamma(s) + INTEGRAL_ERROR
    return found


@dataclass(frozen=True, eq=False)
class RoundProfile:
    """δ of a round of t releases of which one has the record, in both directions, rounded up."""

    step: float  # of the grid of U
    masses: Array  # Pr[U < each of its points] under P, shape (cells + 1,)
    means: Array  # sums of U below them, in steps, likewise
    error: float  # bound on the sum of the errors of the masses
    atom_error: float  # bound on the total variation error of the laws of a round

    @classmethod
    def of(cls, known: Profile, among: int, rare: float) -> RoundProfile:
        """Return the profile, from that of one release; ``rare``: probability charged as an infinite loss."""
        ratios, chances = _atoms(known, rare)
        variance = max(float(chances @ (ratios - 1) ** 2), MIN_LOSS**2)
        # The rare rest beyond the end wraps around, which is sound.
        end = among + 12 * math.sqrt(among * variance) + 1.5 * float(ratios[-1])
        step = max(SPREAD_SHARE * variance, math.sqrt(6 * SPREAD_SHARE * variance))
        cells = fast_length(min(MAX_CELLS, max(MIN_CELLS, math.ceil(end / step), 2 * among)))
        step = end / cells
        places = ratios / step  # in two thirds of the cells
        low = np.floor(places).astype(np.intp)
        upper = places - low
        grid = np.bincount(low, chances * (1 - upper), cells) + np.bincount(low + 1, chances * upper, cells)
        sums = np.fft.irfft(np.fft.rfft(grid, cells) ** among, cells)
        # As for `pld.Pld.repeated`; probabilities are differences of slopes, each at most 1, and sums of ``among``
        # terms.
        eta = FFT_ERROR * math.log2(cells)
        transform = math.sqrt(cells) * ((among + 1) * eta + among * POWER_ERROR)
        error = math.expm1(among * 4 * ratios.size * ULP) + transform + 2 * cells * ULP
        masses = np.concatenate([[0.0], np.cumsum(sums)])
        means = np.concatenate([[0.0], np.cumsum(sums * np.arange(cells) / cells)])
        atom_error = among * (ATOM_ERROR + 8 * ULP) / max(1 - float(known(np.zeros(1))[0]), ATOM_ERROR)
        return cls(step / among, masses, means * cells, error, min(1.0, atom_error))

    def _put(self, ratios: Array) -> Array:
        """Return E(y − U)₊ at each y ≥ 0."""
        place = np.minimum(np.ceil(ratios / self.step), self.masses.size - 1).astype(np.intp)
        return np.asarray(np.maximum(ratios * self.masses[place] - self.step * self.means[place], 0.0))

    def removed(self, losses: Array) -> Array:
        """Return the largest Pr[S with the record] − e^loss·Pr[S without it]."""
        x = np.exp(losses)
        error = x * self.error + (1 + x) * self.atom_error
        return np.asarray(np.clip(1 - x + self._put(x) + error, 0.0, 1.0))

    def added(self, losses: Array) -> Array:
        """Return the largest Pr[S without the record] − e^loss·Pr[S with it]."""
        x = np.exp(losses)
        error = self.error + (1 + x) * self.atom_error
        return np.asarray(np.clip(x * self._put(1 / x) + error, 0.0, 1.0))


def _atoms(known: Profile, rare: float) -> tuple[Array, Array]:
    """Return ratios R, increasing from 0, and their probabilities under P, of a law with at least the known δ."""
    # Ratios beyond the largest, of probability ``rare`` under Q, are infinite losses.
    coarse = np.linspace(MIN_RATIO_LOG, MAX_LOSS, COARSE_KNOTS)
    deltas = known(coarse)
    top = float(coarse[np.argmax(deltas <= deltas[-1] + rare)])
    fine = np.linspace(0.0, top, COARSE_KNOTS)
    deltas = known(fine)
    top = float(fine[np.argmax(deltas <= deltas[-1] + rare)])
    fine = np.linspace(MIN_RATIO_LOG, 0.0, COARSE_KNOTS)
    without = known(fine) + np.expm1(fine)  # at least the probability of smaller ratios
    bottom = float(fine[np.argmax(without > ATOM_ERROR * 4) - 1]) if without[0] <= ATOM_ERROR * 4 else MIN_RATIO_LOG
    losses = np.linspace(bottom, max(top, MIN_LOSS), KNOTS)
    ratios, deltas = np.concatenate([[0.0], np.exp(losses)]), np.concatenate([[1.0], known(losses)])
    deltas = np.minimum.accumulate(np.maximum(deltas, 1 - ratios))
    # δ is convex in the ratio, so the lower hull of upper bounds is an upper bound too.
    hull: list[int] = []
    slopes: list[float] = []
    for place in range(ratios.size):
        while hull:
            slope = float((deltas[place] - deltas[hull[-1]]) / (ratios[place] - ratios[hull[-1]]))
            if not slopes or slope > slopes[-1]:
                slopes.append(slope)
                break
            hull.pop()
            slopes.pop()
        hull.append(place)
    chances = np.diff(np.array([-1.0, *slopes, 0.0]))
    return ratios[hull], np.maximum(chances, 0.0)
