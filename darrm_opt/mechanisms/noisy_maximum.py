"""Noisy maxima: the class with the largest count plus integer noise, drawn exactly; ties are broken at random.

Between two classes the release is one bit, whose pairs of laws have a closed form; among more, Gaussian noise has its
own accounts (`darrm_opt.accounting.labels`).

Source of the samplers: Canonne, Kamath, Steinke 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from darrm_opt.accounting.calibrate import calibrate
from darrm_opt.accounting.guarantee import LawTriples, ReleaseGuarantee, Releases
from darrm_opt.accounting.labels.discrete_gaussian_argmax import END, LatticeNoise, lattice_label_estimate
from darrm_opt.accounting.labels.noisy_bit import normal_cdf
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.labels.pure_loss import check_loss, label_loss
from darrm_opt.accounting.labels.sampled_argmax import (
    MAX_MOVED,
    check_of_any_votes,
    label_of_any_votes,
    sampled_labels,
)
from darrm_opt.accounting.labels.vote_release import MAX_SIGMA, MIN_DISCRETE_SIGMA, VoteRelease
from darrm_opt.accounting.propose_test_release import VoteBatch
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import estimated_epsilon
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.mechanisms.base import CUT, FINER, PRECISION, CountTable, VoteMechanism, checked_parameter, checked_shape
from darrm_opt.mechanisms.vote_noise import (
    GaussianNoise,
    LaplaceNoise,
    VoteNoise,
    bit_pairs,
    gauss_legendre,
    gaussian_table,
    laplace_table,
    noise_function,
    noisy_leaders,
)
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource
from darrm_opt.rounding import float_above
from darrm_opt.tables.problem import ABSTENTION, Histograms
from darrm_opt.tables.votes import Labels, VoteTable

MIN_BIT_SIGMA = 0.2  # smallest σ [votes] between two classes, where the account is exact for any noise

MAX_BIT_VOTERS = 1000
"""Maximum number of voters for which the pairs of a bit are listed; beyond, the account of labels is as tight."""

MAX_LOSS = 200.0  # largest |log| of a probability that is listed
MIN_PROBABILITY = 1e-300  # smallest probability whose logarithm is computed
BLOCK, PRODUCTS = 5000, 1 << 15  # vote counts per block, and products per step: sizes that stay in the cache

MAX_NODES, MAX_NODES_SMOOTH = 24, 8
"""Maximum number of nodes of the integral over ties, below and from `SMOOTH_SCALE`: more change no double."""

SMOOTH_SCALE = 4.0  # scale of noise [votes] from which a difference of one vote changes the probabilities little

WIDE_SIGMA = 2.0**18
"""Standard deviation [votes] from which discrete noise has the probabilities of its density, within 1e-12."""

MAX_REACH, MAX_ROWS, MAX_SIZE = 400, 300, 3_000_000
"""Largest reach of Gaussian noise (sums over it round once a step), and maximum number of vote counts, for
probabilities of every class; for Laplace noise, of products of factors: a tenth of a second."""

_SIGMA = "a standard deviation, from 0.2 to 1e150 votes"

MAX_WIDTH_MOVED = 400.0
"""Largest σ times moved votes [votes²] for which the laws of noisy counts among many classes are listed."""

FEW_VOTERS = 2  # from σ = this × voters on, most counts that a bound for any votes considers are impossible


class NoisyMaximum(VoteMechanism):
    """GNMax with discrete Gaussian noise; with a threshold, Confident-GNMax.

    Args:
        K: voters, ≥ 1.
        classes: C, 2 to `darrm_opt.mechanisms.base.MAX_CLASSES`.
        sigma: σ ≥ `MIN_BIT_SIGMA` of the noise on each count [votes], taken at its exact value. Among more than two
            classes, σ below 1 is charged as noisy counts, but where its laws are listed.
        threshold: ⊥ is released unless the largest count + N(0, check_sigma²) is at least this [votes]; None: no check.
        check_sigma: σ₁ ≥ `MIN_BIT_SIGMA` of the check's noise [votes]; required with a threshold, and only then.
        affected: votes that one record can move, 1..K.
        cap: maximum number of labels over all releases, ≥ 1, with a threshold only; None: no cap. A release log counts
            them.

    Raises:
        InvalidInput: a value is out of range.

    Source: Papernot and others 2018; for the account of labels, docs/proofs.md, "What labels cost".
    """

    name = "gnmax"
    kind = "darrm noisy maximum"
    parameter = "sigma"
    meaning = "σ of noise on each count [votes]"
    increases = False
    limits = (MIN_BIT_SIGMA, 1e12)
    advice = "Release the vote with Gaussian noise"
    has_check = True
    title = "GNMax (Gaussian noise)"

    def __init__(
        self,
        K: int,
        classes: int,
        sigma: float,
        *,
        threshold: float | None = None,
        check_sigma: float | None = None,
        affected: int = 1,
        cap: int | None = None,
    ) -> None:
        self.K, self.classes, self.affected = checked_shape(K, classes, affected)
        self.sigma = checked_parameter(sigma, "sigma", (MIN_BIT_SIGMA, MAX_SIGMA), _SIGMA)
        # a threshold without noise would reveal exact counts; noise without a threshold has no effect.
        if (threshold is None) != (check_sigma is None):
            raise InvalidInput("check_sigma", check_sigma, "a number with a threshold, None without")
        self.threshold = self.check_sigma = None
        if threshold is not None and check_sigma is not None:
            accepted = "a finite number of votes"
            self.threshold = real_number(threshold, "threshold", accepted, above=-math.inf, below=math.inf)
            self.check_sigma = checked_parameter(check_sigma, "check_sigma", (MIN_BIT_SIGMA, MAX_SIGMA), _SIGMA)
        if cap is not None:
            self.cap = whole_number(cap, "cap", "a whole number of labels, at least 1")
            # Without a check every release is a label, so a cap would be a second number of releases.
            if threshold is None:
                raise InvalidInput("cap", cap, "None without a threshold", "The number of releases is the cap there.")

    @classmethod
    def range_for(cls, K: int, classes: int) -> tuple[float, float]:
        """Return the range of σ for ``K`` voters and ``classes``: at least 1 among more than two classes."""
        return (MIN_BIT_SIGMA if classes == 2 and K <= MAX_BIT_VOTERS else MIN_DISCRETE_SIGMA), cls.limits[1]

    @property
    def noise(self) -> GaussianNoise:
        """The noise on each count."""
        return GaussianNoise.of_sigma(self.sigma)

    @property
    def description(self) -> str:
        """Short description."""
        noise = f"the largest count after discrete Gaussian noise of σ = {self.sigma:.6g} votes on each"
        if self.threshold is None:
            return noise
        check = f"if the largest count passes {self.threshold:g} votes after noise of σ = {self.check_sigma:.6g}"
        cap = "" if self.cap is None else f"; at most {self.cap:,} classes"
        return f"{noise}, {check}{cap}"

    @property
    def words(self) -> str:
        """Meaning of σ, for a plan."""
        return f"Gaussian noise of σ = {self.sigma:.4g} votes on each of {self.classes:,} counts."

    def _gamma(self) -> NoiseFunction:
        return noise_function(self.K, self.noise)

    def draw_many(self, counts: VoteTable, source: RandomSource) -> Labels:
        labels = noisy_leaders(counts, self.noise, source)
        if self.threshold is not None and self.check_sigma is not None:
            check = GaussianNoise.of_sigma(self.check_sigma).draw_many(len(counts), source)
            labels[counts.max(axis=1) + check < self.threshold] = ABSTENTION
        return labels

    @property
    def concentration(self) -> Fraction:
        """ρ of the zCDP of one release: r votes leave one count and join others, so ‖Δ‖₂² ≤ 2r²."""
        moved = Fraction(self.affected) ** 2
        rho = moved / Fraction(self.sigma) ** 2
        if self.check_sigma is not None:  # of the largest count, which moves by r
            rho += moved / (2 * Fraction(self.check_sigma) ** 2)
        return rho

    def bounds(self, releases: int) -> Releases:
        """Return the guarantees of the releases: their checks, if any, and their labels up to the cap."""
        labels = releases if self.cap is None else min(releases, self.cap)
        laws = None
        # Without a check two classes are one bit, with few pairs.
        if self.threshold is None and _is_bit(self, self.noise):
            laws = partial(bit_pairs, self.noise, self.K, self.affected)
        divergence, of_any = partial(self._divergence, "label", self.sigma), None
        if laws is None and _is_listable(self):
            of_any = partial(label_of_any_votes, self.sigma, self.classes, self.affected)
        estimate = None
        if self.classes > 2 and self.affected == 1 and self.sigma >= MIN_DISCRETE_SIGMA:
            estimate = partial(lattice_label_estimate, self.sigma)
        loss = partial(label_loss, self.sigma, self.K, self.classes, self.affected)
        label = ReleaseGuarantee(laws=laws, divergence=divergence, estimate=estimate, any_votes=of_any, loss=loss)
        if laws is not None and self.sigma >= FEW_VOTERS * self.K:
            label = ReleaseGuarantee(laws=laws)  # only possible votes: tighter and faster
        if self.check_sigma is None:
            return [(label, labels)]
        divergence = partial(self._divergence, "check", self.check_sigma)
        check = ReleaseGuarantee(
            divergence=divergence,
            estimate=divergence,
            any_votes=partial(check_of_any_votes, self.check_sigma, self.affected),
            loss=partial(check_loss, self.check_sigma, self.threshold, self.K, self.classes, self.affected),
        )
        # Every query is checked, but labels are released up to the cap only: each part is charged that often.
        return [(label, labels), (check, releases)]

    def batch(self, queries: int) -> VoteBatch:
        """Return a fixed batch of ``queries`` ≥ 1.

        Raises:
            InvalidInput: a record can move several votes, there is a cap, or σ is below 1.
        """
        if self.affected != 1:
            raise InvalidInput("affected", self.affected, "1", "An account by the votes is for one moved vote.")
        if self.cap is not None:
            raise InvalidInput("cap", self.cap, Rule("cannot be combined with an account by the votes"), "Drop cap.")
        return VoteBatch(self, queries)

    def sampled_laws(self, sampling: Sampling, cut: float = CUT) -> Sequence[LawTriples] | None:
        """Return the laws of one answer without a record and with it: listed, or for a label those of any votes."""
        listed = super().sampled_laws(sampling, cut)
        if listed is None and self.threshold is None:
            return sampled_labels(self.sigma, self.classes, self.affected, sampling.neighbours, cut)
        return listed

    def class_chances(self, counts: CountTable) -> Array | None:
        """Return Pr[each class is released], and Pr[⊥] last with a threshold; None if σ is too small or too large."""
        reach = math.ceil(END * self.sigma)
        if _is_bit(self, self.noise):
            chances = _bit_chances(counts, self.noise)
        elif len(counts) > MAX_ROWS or not self.K <= reach <= MAX_REACH:
            return None
        else:
            chances = class_chances(counts, LatticeNoise(self.sigma, 0.0), reach)
        if self.threshold is None or self.check_sigma is None:
            return chances
        check = _gaussian_noise(self.check_sigma)
        least = np.ceil(self.threshold - counts[:, :1]).astype(np.intp)
        if np.any(np.abs(least) >= check.end):
            return None
        return np.hstack([chances * check.at_least(least), check.below(least)])

    def leader_chances(self, counts: CountTable) -> Array:
        """Return Pr[one of the leaders has the largest noisy count], shape (N,), given that the check passes."""
        noise, step = _gaussian_noise(self.sigma), max(1, math.floor(self.sigma / 4))
        # Beyond 9σ less than 1e-18 is left; a sum of a Gaussian density at steps of σ/4 is its integral in double
        # precision.
        return leader_chances(counts, noise, step, math.ceil(9 * self.sigma / step), self.sigma)

    def pass_chances(self, largest: CountTable) -> Array:
        """Return Pr[the check passes] for each ``largest`` count, same shape."""
        if self.threshold is None or self.check_sigma is None:
            return np.ones(largest.shape)
        return pass_chances(largest, self.threshold, self.check_sigma)

    @staticmethod
    def table(cells: Histograms, rate: float) -> Array:
        """Return the probabilities of each cell with continuous noise, shape (cells,).

        Args:
            cells: of a table.
            rate: 1/σ ≥ 0 [1/votes].
        """
        return gaussian_table(cells, rate)

    def _divergence(self, kind: Literal["label", "check"], sigma: float) -> PowerDivergence:
        return VoteRelease(kind, sigma, "discrete").divergence(self.classes, self.affected)


class LaplaceMaximum(VoteMechanism):
    """The class with the largest count plus discrete Laplace noise.

    Guarantees: One release is 2r/b-DP.
    Source: Dwork, Roth 2014, report noisy max; Jordon, Yoon, van der Schaar: SAA.
    """

    name = "laplace"
    kind = "darrm Laplace maximum"
    parameter = "scale"
    meaning = "Scale of noise on each count [votes]"
    increases = False
    limits = (0.02, 1e12)
    advice = "Release the vote with Laplace noise"
    title = "Laplace noise (SAA)"

    def __init__(self, K: int, classes: int, scale: float, *, affected: int = 1) -> None:
        self.K, self.classes, self.affected = checked_shape(K, classes, affected)
        # b > 0 of the noise on each count [votes]: Pr[x] ∝ e^(−|x|/b); taken at its exact value
        self.scale = checked_parameter(scale, "scale", self.limits, "a scale from 0.02 to 1e12 votes")

    @property
    def noise(self) -> LaplaceNoise:
        """The noise on each count."""
        return LaplaceNoise(self.scale)

    @property
    def description(self) -> str:
        return f"the largest count after discrete Laplace noise of scale {self.scale:.6g} votes on each"

    @property
    def words(self) -> str:
        return f"Laplace noise of scale {self.scale:.4g} votes on each of {self.classes:,} counts."

    def _gamma(self) -> NoiseFunction:
        return noise_function(self.K, self.noise)

    def draw_many(self, counts: VoteTable, source: RandomSource) -> Labels:
        return noisy_leaders(counts, self.noise, source)

    def bounds(self, releases: int) -> Releases:
        each = Privacy(float_above(2 * self.affected / Fraction(self.scale)))
        laws = partial(bit_pairs, self.noise, self.K, self.affected) if _is_bit(self, self.noise) else None
        return [(ReleaseGuarantee(each, laws), releases)]

    def class_chances(self, counts: CountTable) -> Array | None:
        """Return Pr[each class is released]; None if the scale is too small or too large."""
        if _is_bit(self, self.noise):
            return _bit_chances(counts, self.noise)
        noise = _LaplaceLattice(self.scale)
        size = len(counts) * self.classes**2 * noise.end
        if len(counts) > MAX_ROWS or MAX_LOSS * self.scale < self.K or size > MAX_SIZE:
            return None
        return class_chances(counts, noise, noise.end + self.K)

    def leader_chances(self, counts: CountTable) -> Array:
        noise = _LaplaceLattice(self.scale)
        step = max(1, math.floor(self.scale / 50))  # the density has an edge at each count
        # Beyond 40 scales less than e^−40 < 1e-17 is left.
        return leader_chances(counts, noise, step, math.ceil(40 * self.scale / step), self.scale)

    @staticmethod
    def table(cells: Histograms, rate: float) -> Array:
        """Return the probabilities of each cell with continuous noise of scale 1/rate, shape (cells,)."""
        return laplace_table(cells, rate)


def calibrated_check(
    K: int,
    classes: int,
    total: Privacy,
    queries: int,
    ratio: float,
    threshold: float,
    cap: int | None,
    affected: int = 1,
    precision: float = PRECISION,
) -> NoisyMaximum:
    """Return Confident-GNMax at nearly the least noise with which every query can be checked within a total.

    ``ratio``: σ₁/σ, noise of a check over that of a label. ``cap``: maximum number of labels; None: one per query.
    """

    def checked_maximum(inverse: float) -> NoisyMaximum:
        # Both σ and σ₁ = ratio·σ must be within the limits of discrete noise.
        noisiest = NoisyMaximum.limits[1] * min(1.0, 1 / ratio)
        sigma = max(min(1 / inverse, noisiest), MIN_DISCRETE_SIGMA, MIN_DISCRETE_SIGMA / ratio)
        return NoisyMaximum(
            K,
            classes,
            sigma,
            threshold=threshold,
            check_sigma=max(ratio * sigma, MIN_DISCRETE_SIGMA),
            affected=affected,
            cap=cap,
        )

    def make(inverse: float) -> tuple[NoisyMaximum, float]:
        mechanism = checked_maximum(inverse)
        return mechanism, mechanism.epsilon(queries, total.delta)

    def estimate(inverse: float) -> float | None:
        return estimated_epsilon(checked_maximum(inverse).bounds(queries), total.delta)

    most = min(1.0, ratio) / MIN_DISCRETE_SIGMA
    guess = min(most, total.epsilon / (5 * affected * math.sqrt(queries)))
    # Start from an estimate: the accounts of checks and labels are slower.
    found = calibrate(make, total.epsilon, most, guess=guess, precision=precision, estimate=estimate, finer=FINER)
    if found is None:
        raise InvalidInput("epsilon", total.epsilon, f"a total within which {queries} checks are proved")
    return found.result


class _LaplaceLattice:
    """Discrete Laplace noise on the integers, with the methods of `LatticeNoise`."""

    def __init__(self, scale: float) -> None:
        self.end = math.ceil(40 * scale)
        self._scale, self._whole = scale, 1 + math.exp(-1 / scale)

    # An exponential of a quotient errs by its exponent in ulps, at most 40 up to the end; a power would err by k.
    def at(self, k: CountTable) -> Array:
        """Return Pr[X = k]."""
        return np.asarray(-math.expm1(-1 / self._scale) / self._whole * np.exp(-np.abs(k) / self._scale))

    def below(self, k: CountTable) -> Array:
        """Return Pr[X < k]."""
        return np.where(
            k <= 0,
            np.exp((np.minimum(k, 0) - 1) / self._scale) / self._whole,
            1 - np.exp(-np.maximum(k, 0) / self._scale) / self._whole,
        )


class _WideGaussian:
    """Discrete Gaussian noise from `WIDE_SIGMA` on, with the methods of `LatticeNoise`, by its density."""

    def __init__(self, sigma: float) -> None:
        self.end = math.ceil(END * sigma)
        self._sigma = sigma

    def at(self, k: CountTable) -> Array:
        """Return Pr[X = k]."""
        return np.asarray(np.exp(-((k / self._sigma) ** 2) / 2) / (self._sigma * math.sqrt(2 * math.pi)))

    def below(self, k: CountTable) -> Array:
        """Return Pr[X < k]."""
        return normal_cdf((k - 0.5) / self._sigma)

    def at_least(self, k: CountTable) -> Array:
        """Return Pr[X ≥ k]."""
        return normal_cdf((0.5 - k) / self._sigma)


def _gaussian_noise(sigma: float) -> LatticeNoise | _WideGaussian:
    return LatticeNoise(sigma, 0.0) if sigma < WIDE_SIGMA else _WideGaussian(sigma)


def leader_chances(
    counts: CountTable, noise: LatticeNoise | _WideGaussian | _LaplaceLattice, step: int, reach: int, scale: float
) -> Array:
    """Return Pr[one of the leaders has the largest noisy count], ties broken uniformly, to about 1e-12.

    With f and F the law of the noise, d_j the votes by which class j is behind and s the rank of a leader among its
    ties,

        Pr[a given leader is released] = Σ_x f(x)·∫₀¹ Π_j (F(x + d_j − 1) + s·f(x + d_j)) ds.

    Only every ``step``-th x is summed: enough for wide noise, whose summands are smooth.
    """
    x = np.arange(-reach, reach + 1) * step
    exact = counts.shape[1] // 2 + 1  # the integrand has degree C − 1
    s, ds = gauss_legendre(min(exact, MAX_NODES if scale < SMOOTH_SCALE else MAX_NODES_SMOOTH))
    behind = counts[:, :1] - counts
    leaders = np.count_nonzero(behind == 0, axis=1)
    behind = np.minimum(behind, reach * step + noise.end + 1)  # from there on F = 1
    chances = np.empty(len(counts))
    weights = np.multiply.outer(step * noise.at(x), ds).ravel()
    block, step_rows = max(1, BLOCK // counts.shape[1]), max(4, PRODUCTS // weights.size)
    for start in range(0, len(counts), block):
        gaps, places = np.unique(behind[start : start + block], return_inverse=True)
        places = places.reshape(-1, counts.shape[1])
        shifted = x[None, :] + gaps[:, None]
        factors = noise.below(shifted)[:, :, None] + s * noise.at(shifted)[:, :, None]
        factors = factors.reshape(gaps.size, -1)
        for first in range(0, len(places), step_rows):
            rows = places[first : first + step_rows]
            product = factors[rows[:, 1]]
            for column in range(2, counts.shape[1]):
                product *= factors[rows[:, column]]
            chances[start + first : start + first + len(rows)] = product @ weights
    return np.asarray(np.minimum(chances * leaders, 1.0))


def class_chances(counts: CountTable, noise: LatticeNoise | _LaplaceLattice, reach: int) -> Array:
    """Return Pr[each class has the largest noisy count], ties broken uniformly, shape (N, C).

    As `leader_chances`, for every class and every value of the noise: sums of positive terms, so small probabilities
    keep their relative precision.
    """
    values = np.arange(-reach, int(counts.max()) + reach + 1)
    s, ds = gauss_legendre(counts.shape[1] // 2 + 1)
    votes, places = np.unique(counts, return_inverse=True)
    places = places.reshape(counts.shape)
    at = noise.at(values - votes[:, None])
    factors = noise.below(values - votes[:, None])[:, :, None] + s * at[:, :, None]
    chances = np.empty(counts.shape)
    for row, each in enumerate(places):
        for place in range(counts.shape[1]):
            if place and each[place] == each[place - 1]:  # equal counts, equal probabilities
                chances[row, place] = chances[row, place - 1]
                continue
            others = np.prod(factors[np.delete(each, place)], axis=0) @ ds
            chances[row, place] = (at[each[place]] * others).sum()  # in pairs: a few roundings, however many values
    return np.minimum(chances, 1.0)


def pass_chances(largest: CountTable, threshold: float, sigma: float) -> Array:
    """Return Pr[largest count + discrete Gaussian noise σ ≥ threshold], same shape as ``largest``."""
    least_noise = np.ceil(threshold - largest).astype(np.intp)
    return np.asarray(_gaussian_noise(sigma).at_least(least_noise))


def _is_bit(mechanism: VoteMechanism, noise: VoteNoise) -> bool:
    """Return whether the release is a bit whose pairs of laws can be listed, both answers being possible."""
    return mechanism.classes == 2 and mechanism.K <= MAX_BIT_VOTERS and noise.loses(mechanism.K) >= MIN_PROBABILITY


def _bit_chances(counts: CountTable, noise: VoteNoise) -> Array:
    margins, rows = np.unique(counts[:, 0] - counts[:, 1], return_inverse=True)
    behind = np.array([noise.loses(margin) for margin in margins.tolist()])[rows]
    return np.stack([1 - behind, behind], axis=1)


def _is_listable(mechanism: NoisyMaximum) -> bool:
    """Return whether the laws of its noisy counts can be listed for the votes that a record can move."""
    moved = 1 if mechanism.classes == 2 else mechanism.affected
    return moved <= MAX_MOVED and (moved == 1 or moved * mechanism.sigma <= MAX_WIDTH_MOVED)
