"""Data-dependent Rényi bounds: what a fixed batch of noisy votes reveals, given the votes themselves.

If the leader of a query is far ahead, moving one vote hardly changes its label. `UnpublishedLoss.renyi` bounds, at one
order, D_λ(labels on D″ ‖ labels on any neighbour of D″) for every D″ that differs from the given votes in the votes of
at most ``moved`` voters, each of whom may vote differently on every query. **The bound depends on the votes: it must
not be published.** For publishable results see `darrm_opt.accounting.propose_test_release`.

A moved voter shrinks the leader's margin over each other class by at most 2, so the bound at ``moved`` is that of
margins smaller by 2·moved. Given M, the largest noisy count of the classes that a vote does not move between, the label
has three cells (`discrete_gaussian_argmax`); H_a is jointly convex, so that of the label is at most its mean over M.
The tables here are *envelopes* of the three cells: they decrease with the margin and with the leader's distance from M,
so that worse margins can only raise the mean. Proofs: docs/proofs.md, "An ε that the votes earn".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.bounds import log_power_sum, upper_bound
from darrm_opt.accounting.labels.discrete_gaussian_argmax import (
    MASS_ERROR,
    PERIODS,
    LatticeNoise,
    censored_lattice,
    lattice_bit_values,
    pair_divergences,
    tie_laws,
)
from darrm_opt.accounting.labels.noisy_bit import MIN_DISTANCE_FROM_ONE
from darrm_opt.accounting.labels.power_divergence import PowerDivergence, gaussian_divergence, largest_loss_term
from darrm_opt.accounting.labels.vote_release import MAX_SIGMA as MOST_SIGMA
from darrm_opt.accounting.labels.vote_release import MIN_DISCRETE_SIGMA, VoteRelease
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP

REACH = 9.0
"""Distance below M [σ] up to which a class has its own entries; the rest has probability below 1e-18 and is charged."""

MAX_SUM = 12.0
"""Sum of the distances of two classes from M [σ] from which M hardly matters: another class wins below 1e-16."""

END = 30.0  # standard deviations to which noise is summed: tables reach further than `discrete_gaussian_argmax`

MIN_SIGMA, MAX_SIGMA = 1.0, 120.0
"""Range of σ [votes] of the tables; elsewhere a label is charged its cost for any votes."""

TAIL_END = 12.0  # standard deviations, beyond the requested tails, to which noise is summed: more changes no double

MAX_TAILS = 10**6
"""Maximum number of listed tails of a check's noise; with more, a check is charged its cost for any votes."""

BLOCK = 100_000  # size of the (queries, distances) arrays that are processed at a time, which fit in the cache

CountRows = NDArray[np.int64]


def check_noise(sigma: float | None, name: str) -> None:
    """Refuse discrete noise that the losses of given votes do not cover."""
    accepted = f"a standard deviation of discrete noise, from {MIN_DISCRETE_SIGMA:g} to {MOST_SIGMA:g} votes"
    if sigma is not None:
        real_number(sigma, name, accepted, least=MIN_DISCRETE_SIGMA, most=MOST_SIGMA)


@dataclass(frozen=True, eq=False)
class UnpublishedLoss:
    """Rényi loss of a fixed batch of queries, given the votes: **not for publication**."""

    counts: CountRows  # votes for each class in each query, shape (queries, C), C ≥ 2, each row with the same sum K ≥ 1
    sigma: float  # σ ≥ 1 of the discrete Gaussian noise on each count [votes]
    order: float  # λ, from 1.001 on
    # ⊥ is released unless the largest noisy count is at least this [votes]; None: no check
    threshold: float | None = None
    check_sigma: float | None = None  # σ₁ ≥ 1 of the check's noise [votes]; with a threshold, and only then
    any_votes: float = math.inf  # D_λ of the batch for any votes, if it is known [nats]
    _repeats: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        if counts.ndim != 2 or counts.shape[1] < 2 or counts.dtype.kind not in "iu" or np.any(counts < 0):
            raise InvalidInput("counts", counts.shape, "whole numbers of votes, shape (queries, classes)")
        if counts.size and (np.ptp(counts.sum(axis=1)) or not counts[0].sum()):
            raise InvalidInput("counts", counts.shape, "rows with the same number of votes, at least 1")
        order = real_number(self.order, "order", _ORDER, least=1 + MIN_DISTANCE_FROM_ONE, below=math.inf)
        if (self.threshold is None) != (self.check_sigma is None):
            raise InvalidInput("check_sigma", self.check_sigma, "a number with a threshold, None without")
        check_noise(self.sigma, "sigma")
        check_noise(self.check_sigma, "check_sigma")
        object.__setattr__(self, "order", order)
        ordered = np.sort(counts.astype(np.int64), axis=1)[:, ::-1]
        rows, repeats = np.unique(ordered, axis=0, return_counts=True) if len(ordered) else (ordered, np.zeros(0))
        object.__setattr__(self, "counts", rows)
        object.__setattr__(self, "_repeats", repeats)

    @property
    def voters(self) -> int:
        """K."""
        return int(self.counts[0].sum()) if len(self.counts) else 0

    def renyi(self, moved: int = 0) -> float:
        """Return the largest D_λ [nats] of the batch over all votes that differ from these in at most ``moved`` voters.

        Guarantees: With D″ at most ``moved`` voters from D, and D′ a neighbour of D″, D_λ(batch on D″ ‖ batch on D′) is
        at most this. It grows with ``moved``, and if D and E are neighbours, that of E at ``moved`` is at most that of
        D at ``moved + 1``.
        """
        moved = whole_number(moved, "moved", "a whole number of voters, at least 0", least=0)
        if not len(self.counts):
            return 0.0
        labels = self._label_losses(moved)
        losses = labels if self.check_sigma is None else self._checked(labels, moved)
        return float(upper_bound(np.dot(losses, self._repeats) * (1 + (8 + len(losses)) * ULP), self.any_votes))

    def _label_losses(self, moved: int) -> Array:
        margins = self.counts[:, :1] - self.counts[:, 1:] - 2 * moved
        bound = _any_votes(self.sigma, self.counts.shape[1])
        losses = np.full(len(margins), float(bound.renyi(np.array([self.order]))[0]))
        ahead = margins[:, 0] > 0
        if np.any(ahead) and MIN_SIGMA <= self.sigma <= MAX_SIGMA:
            envelope = label_envelope(self.sigma, self.order, two=self.counts.shape[1] == 2, largest=self.voters)
            with np.errstate(over="ignore"):
                powers = self.order * (self.order - 1) * envelope.at(margins[ahead]) * (1 + 8 * ULP)
                local = np.log1p(powers) / (self.order - 1) * (1 + 32 * ULP)
            # Both hold: the bound by the votes never exceeds the bound for any votes.
            losses[ahead] = upper_bound(local, losses[ahead])
        return losses

    def _checked(self, labels: Array, moved: int) -> Array:
        """Return the losses of a check and, if it passes, a label."""
        if self.threshold is None or self.check_sigma is None:
            return labels
        b, least = self.order - 1, math.ceil(self.threshold)
        bound = VoteRelease("check", self.check_sigma, "discrete").divergence()
        # Cost of a check for any votes: used if the bound by the votes is no better, or overflows.
        most = float(bound.renyi(np.array([self.order]))[0])
        if self.voters + abs(least) + TAIL_END * self.check_sigma > MAX_TAILS:
            return labels + most
        tails = LogTails.of(self.check_sigma, self.voters + abs(least) + 2)
        losses = np.empty(len(labels))
        for place, (largest, label) in enumerate(zip(self.counts[:, 0], labels, strict=True)):
            # All largest counts after k voters moved: docs/proofs.md takes the maximum over them.
            tops = np.arange(max(largest - moved, 0), min(largest + moved, self.voters) + 1)
            # a neighbour's largest count is at most one vote away, in either direction.
            here, there = least - tops, least - tops - np.array([[-1], [0], [1]])
            passes, fails = (np.broadcast_to(law(here), there.shape) for law in (tails.at_least, tails.below))
            passes_there, fails_there = (law(there) for law in (tails.at_least, tails.below))
            # a label is drawn only after a pass: its divergence multiplies only the power of that answer.
            on_data, on_neighbour = np.stack([passes, fails]), np.stack([passes_there - label, fails_there])
            with np.errstate(over="ignore", invalid="ignore"):
                joint = float(np.max(log_power_sum(on_data, on_neighbour, self.order, axis=0)))
                # The error of a logarithm is multiplied by λ in a power.
                local = joint / b * (1 + 32 * ULP) + (2 * self.order + 1) * tails.error / b
            losses[place] = upper_bound(local, most + label)
        return np.maximum(losses, 0.0)


class LogTails:
    """ln Pr[X ≥ k] of discrete Gaussian noise X, for every integer |k| up to an end, without underflow."""

    def __init__(self, sigma: float, end: int) -> None:
        # Pr[X ≥ k]/Pr[X = k] = 1 + e^(−(2k + 1)/2σ²)·(that of k + 1).
        self._end = end + math.ceil(TAIL_END * sigma)
        k = np.arange(self._end + 1, dtype=np.float64)
        ratios, shares = np.exp(-(2 * k + 1) / (2 * sigma * sigma)).tolist(), [1.0]
        for ratio in ratios[-2::-1]:
            shares.append(1 + ratio * shares[-1])
        masses = -(k * k) / (2 * sigma * sigma)
        logs = masses + np.log(shares[::-1])  # of Pr[X ≥ k]/Pr[X = 0], k ≥ 0
        logs -= math.log(2 * shares[-1] - 1)  # the sum of all masses over Pr[X = 0]
        below = np.log1p(-np.exp(logs[:0:-1]))  # Pr[X ≥ k] = 1 − Pr[X ≥ 1 − k], k ≤ 0
        self._at_least = np.concatenate([below, logs[1:]])
        # Each share errs by some ulps per relevant step, a mass by those of its exponent; the rest beyond the end is
        # below e^(−TAIL_END²/2) of each tail.
        steps = 8 * (min(self._end, math.ceil(TAIL_END * sigma * 2)) + 16)
        self.error = (steps + 8 * float(np.abs(masses).max())) * ULP + math.exp(-TAIL_END * TAIL_END / 2)

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, sigma: float, end: int) -> LogTails:
        """Return the tails, cached."""
        return cls(sigma, end)

    def at_least(self, k: CountRows) -> Array:
        """Return ln Pr[X ≥ k]."""
        return np.asarray(self._at_least[k + self._end - 1])

    def below(self, k: CountRows) -> Array:
        """Return ln Pr[X < k]."""
        return self.at_least(1 - k)


_ORDER = f"a finite order, at least {1 + MIN_DISTANCE_FROM_ONE:g}"


def _any_votes(sigma: float, classes: int) -> PowerDivergence:
    return VoteRelease("label", sigma, "discrete").divergence(classes)


@lru_cache(maxsize=16)
def label_envelope(sigma: float, order: float, *, two: bool, largest: int) -> LabelEnvelope:
    """Return the bounds on H_λ of a label by the leader's margins, for two classes or for more."""
    return LabelEnvelope(sigma, order, two=two, largest=largest)


def regions(sigma: float, largest: int) -> tuple[CountRows, CountRows, CountRows, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return margins, distances of leader and rival from M, and masks: the rival is far below M; both are high.

    Five arrays of shape (margins, distances of the leader).
    """
    reach, far = math.ceil(REACH * sigma), math.ceil((REACH + MAX_SUM) * sigma)
    gaps, places = np.indices((largest + 1, reach + far + 1))
    leader = places - reach
    high = 2 * leader - gaps >= MAX_SUM * sigma
    return gaps, leader, leader - gaps, (leader - gaps < -reach) & ~high, high


@lru_cache(maxsize=2)
def three_cell_laws(sigma: float, largest: int, step: int) -> list[tuple[Array, Array]]:
    """Return the laws of three cells on both sides where neither of the `regions` applies.

    One pair for each way of breaking ties, for every order.
    """
    _, leader, rival, low, high = regions(sigma, largest)
    i, j = leader[~(low | high)], rival[~(low | high)]
    noise = LatticeNoise(sigma, 0.0, END)
    return list(zip(tie_laws(noise, i, j), tie_laws(noise, i + step, j - step), strict=True))


class LabelEnvelope:
    """Upper bounds on H_λ of one label over all moves of one vote, by the leader's margins over the other classes."""

    def __init__(self, sigma: float, order: float, *, two: bool, largest: int) -> None:
        self._orders = np.array([order])
        self._product = order * (order - 1)
        self._noise = LatticeNoise(sigma, 0.0, END)
        self._reach, self._far = math.ceil(REACH * sigma), math.ceil((REACH + MAX_SUM) * sigma)
        self._any = float(_any_votes(sigma, 2 if two else 3).at(self._orders)[0])
        self._largest = min(largest, self._reach + self._far)
        with np.errstate(over="ignore", invalid="ignore"):  # `at` handles the NaN of ∞·0
            self._votes = [self._pair(sigma, step) for step in (-2, 2)]  # a vote leaves the leader, or comes to it
            if not two:
                self._votes = [
                    self._three_cells(sigma, pair, step) for pair, step in zip(self._votes, (-1, 1), strict=True)
                ]
                self._others = [self._censored(sigma, shift) for shift in (-1, 1)]
            self._charge = float(2 * self._noise.at_least(np.array(self._reach))) * self._any

    def at(self, margins: CountRows) -> Array:
        """Return bounds on H_λ, shape (n,); ∞ if that overflows."""
        if margins.shape[1] == 1:
            gaps = np.minimum(margins[:, 0], self._largest)
            return upper_bound(np.max([table[gaps] for table in self._votes], axis=0), self._any)
        values = np.empty(len(margins))
        rows_at_a_time = max(1, BLOCK // (self._reach + self._far + 1))
        for start in range(0, len(margins), rows_at_a_time):
            rows = slice(start, start + rows_at_a_time)
            with np.errstate(over="ignore", invalid="ignore"):  # the NaN of ∞·0 is not a bound
                values[rows] = np.maximum(self._with_leader(margins[rows]), self._between_others(margins[rows, :2]))
        return upper_bound(values, self._any)

    def _with_leader(self, margins: CountRows) -> Array:
        """Return the largest H_λ of a vote that the leader loses to another class, or gains from it."""
        size, rivals = self._reach + self._far + 1, margins.shape[1]  # distances of the leader's count from M
        largest = int(margins.max())
        reversed_chances = self._noise.below(largest + 1 + self._reach - np.arange(largest + size))
        # Row g: Pr[a noisy count g behind the leader's is not above it by more than a distance], at each distance.
        rows = np.lib.stride_tricks.sliding_window_view(reversed_chances, size)[::-1]
        not_above = [rows[gap] for gap in margins.T]
        others = [np.ones((len(margins), size))]  # products over the rivals behind one: the last, the last two, …
        for chance in not_above[:0:-1]:
            others.append(others[-1] * chance)
        before = np.ones((len(margins), size))  # over those before it
        most = np.zeros(len(margins))
        for rival in range(rivals):
            behind = others.pop()
            if rival:
                before *= not_above[rival - 1]
                if np.array_equal(margins[:, rival], margins[:, rival - 1]):
                    continue  # equal margins have equal means
            # Pr[leader − M ≥ distance]: no other class has a noisy count above that. With only two classes M is −∞, and
            # all of the probability is at the last distance.
            chances = before * behind
            masses = chances.copy()
            masses[:, :-1] -= chances[:, 1:]
            np.maximum(masses, 0.0, out=masses)
            gaps = np.minimum(margins[:, rival], self._largest)
            for table in self._votes:
                means = np.einsum("nd,nd->n", masses, table[gaps])
                most = np.maximum(most, means * (1 + 2 * MASS_ERROR) + MASS_ERROR**3 + margins.shape[1] * self._charge)
        return most

    def _between_others(self, margins: CountRows) -> Array:
        """Return H_λ of a vote that moves between two classes behind the leader: their counts, censored below M."""
        leader = np.arange(-self._reach, self._reach + 1)  # its noise; M is at least its noisy count
        masses = self._noise.at(leader)
        most = np.zeros(len(margins))
        for order in ((0, 1), (1, 0)):
            places = [np.minimum(margins[:, [place]] + leader, self._far) + self._reach for place in order]
            first, second = (values[at] for values, at in zip(self._others, places, strict=True))
            means = (first + second + self._product * first * second) @ masses
            most = np.maximum(most, means * (1 + 2 * MASS_ERROR) + self._charge)
        return most

    def _pair(self, sigma: float, step: int) -> Array:
        """Return the largest H_λ of the winner between two noisy counts, over margins from each one on."""
        # The sum of the two noises has the same law on both sides and determines the parity of their difference: given
        # that, the difference is a discrete Gaussian in steps of two.
        margins = np.arange(self._largest + 1)
        values = np.zeros(margins.size)
        for odd in (0, 1):
            noise = LatticeNoise(sigma / math.sqrt(2), odd / 2, END)
            for won_ties in (0, 1):  # by the class behind: it wins where 2k + odd ≥ margin + 1 − won_ties
                least = np.ceil((margins + 1 - won_ties - odd) / 2).astype(np.int64)
                p, q = (np.stack([noise.below(k), noise.at_least(k)], axis=1) for k in (least, least + step // 2))
                values = np.maximum(values, pair_divergences(p, q, self._orders)[:, 0])
        return np.asarray(np.maximum.accumulate(values[::-1])[::-1])

    def _three_cells(self, sigma: float, pair: Array, step: int) -> Array:
        """Return the largest H_λ of three cells at each margin and distance of the leader, and at larger ones."""
        gaps, leader, _, low, high = regions(sigma, self._largest)
        values = np.zeros(gaps.shape)
        # M hardly matters: given the sum of the two, which reveals nothing, it is the pair, or anything if both are
        # below M.
        sum_noise = LatticeNoise(sigma / math.sqrt(2), 0.0, END)
        both_below = float(sum_noise.below(np.array(1 - math.floor(MAX_SUM * sigma / 2))))
        counts = float(gaussian_divergence(math.sqrt(2) / sigma * (1 + PERIODS), self._orders)[0])
        alone = pair + both_below * counts
        values[high] = alone[gaps[high]]
        # The rival hardly ever reaches M: reveal its count if it does.
        tail = float(censored_lattice(sigma, 0.0, self._reach, -step, self._orders)[0])
        single = float(lattice_bit_values(sigma, 0.0, 1, self._orders)[0])
        excess = np.arange(self._reach, self._noise.end + 1)
        tilted = np.exp(-(self._orders[0] - 1) * -step * (2 * excess + step) / (2 * sigma * sigma))
        reached = float(self._noise.at(excess) @ tilted) * (1 + 4 * MASS_ERROR)
        distances = np.arange(-self._reach, self._far + 1)
        thresholds = np.concatenate([-distances, 1 - distances])
        p, q = (
            np.stack([self._noise.at_least(at), self._noise.below(at)], axis=1)
            for at in (thresholds, thresholds - step)
        )
        bits = pair_divergences(p, q, self._orders)[:, 0].reshape(2, -1).max(axis=0)
        rare = tail + (1 + self._product * tail) * bits + reached * single
        values[low] = rare[leader[low] + self._reach]
        middle = ~(low | high)
        laws_by_ties = three_cell_laws(sigma, self._largest, step)
        values[middle] = np.max([pair_divergences(p, q, self._orders)[:, 0] for p, q in laws_by_ties], axis=0)
        # The last distance and the largest margin include everything beyond.
        values[:, -1] = np.maximum(values[:, -1], np.maximum(alone, rare[-1]))
        for axis in (0, 1):
            values = np.flip(np.maximum.accumulate(np.flip(values, axis), axis=axis), axis)
        return np.asarray(values)

    def _censored(self, sigma: float, shift: int) -> Array:
        """Return H_λ of a count, censored below M, that moves by ``shift``, at distances −reach to far below M."""
        noise = self._noise
        distances = np.arange(-self._reach, self._far + 1)
        values = np.arange(-noise.end, noise.end + 1)
        losses = shift * (2 * values - shift) / (2 * sigma * sigma)
        error = 3 * MASS_ERROR
        terms = noise.masses * largest_loss_term(losses - error, losses + error, self._orders)
        beyond = np.concatenate([np.cumsum(terms[::-1])[::-1], [0.0]])[np.clip(distances + noise.end, 0, values.size)]
        p, q = noise.below(distances), noise.below(distances - shift)
        atoms = np.log(q / p)
        atom = p * largest_loss_term(atoms - error, atoms + error, self._orders)
        return np.asarray((beyond + atom) * (1 + 4 * MASS_ERROR))
