"""Selection mechanisms: permute-and-flip and the exponential mechanism, for any number of voters and classes.

Let class c be d_c votes behind the leader. Both mechanisms toss coins with success probability e^(−rate·d_c):
permute-and-flip for one class after another in random order, the exponential mechanism for a class drawn anew each
time; the first success is released. The rates are rational, and the coins are tossed exactly. Both are pure DP for any
counts.

Source: McKenna, Sheldon 2020; McSherry, Talwar 2007; the coin: Canonne, Kamath, Steinke 2020.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from darrm_opt.accounting.guarantee import ReleaseGuarantee, Releases
from darrm_opt.accounting.labels.composition import MAX_RANGE, bounded_range_divergence
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.design.report import guarantee
from darrm_opt.errors import InvalidInput
from darrm_opt.inversion import ExponentialCoins
from darrm_opt.mechanisms.base import CountTable, VoteMechanism, checked_parameter, checked_shape
from darrm_opt.mechanisms.vote_noise import bit_pairs, gauss_legendre
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource, below_each
from darrm_opt.rounding import float_above
from darrm_opt.tables.problem import ABSTENTION, Histograms
from darrm_opt.tables.votes import Labels, VoteTable, label_type

MAX_RATE = 1000.0  # largest rate: there a class that is one vote behind is never released
MAX_TRIED = 1024  # maximum number of classes tried one by one: if nearly all are far behind, nearly all are tried
MAX_HALVINGS = 40  # weights of classes are at least 2⁻⁴⁰, so that a million of them add up in 64 bits

MAX_BIT_VOTERS, MIN_EXPONENT = 1000, 600.0
"""Maximum number of voters, and largest rate·K, for which the pairs of a bit are listed: no probability < e^−600."""


class SelectionMechanism(VoteMechanism):
    """A selection mechanism at a rate.

    Guarantees: One release is 2·rate·affected-DP.
    """

    kind: ClassVar[str] = "darrm selection mechanism"
    parameter: ClassVar[str] = "rate"
    meaning: ClassVar[str] = "Nats per vote"
    limits: ClassVar[tuple[float, float]] = (0.0, MAX_RATE)
    TRIES_ONCE: ClassVar[bool] = False

    def __init__(self, K: int, classes: int, rate: float, *, affected: int = 1) -> None:
        self.K, self.classes, self.affected = checked_shape(K, classes, affected)
        accepted = f"a number of nats per vote above 0, at most {MAX_RATE:g}"
        # t > 0 [nats per vote], up to `MAX_RATE`; taken at its exact value
        self.rate = checked_parameter(rate, "rate", self.limits, accepted)

    @property
    def each(self) -> Privacy:
        """(ε, 0) of one release: 2·rate·affected, rounded up [nats]."""
        return Privacy(float_above(2 * self.affected * Fraction(self.rate)))

    @staticmethod
    @abstractmethod
    def lead(nats: Array) -> Array:
        """Return 2·Pr[the leader is released] − 1 between two classes, for rate·lead [nats]."""

    @abstractmethod
    def loses(self, margin: int) -> float:
        """Return Pr[a class that leads by ``margin`` votes loses] between two classes."""

    @staticmethod
    @abstractmethod
    def table(cells: Histograms, rate: float) -> Array:
        """Return the probabilities of each cell at a rate ≥ 0, shape (cells,)."""

    def class_chances(self, counts: CountTable) -> Array | None:
        if self.rate * self.K > MIN_EXPONENT:
            return None
        weights, _ = _weights(counts, self.rate)
        return self.shared_out(weights)

    @staticmethod
    @abstractmethod
    def shared_out(weights: Array) -> Array:
        """Return Pr[each class is released] from the weights e^(−rate·lag), shape (N, C)."""

    @abstractmethod
    def divergence(self) -> PowerDivergence | None:
        """Return a bound on the power divergences that is tighter than that of (ε, 0)-DP; None if there is none."""

    @property
    def description(self) -> str:
        name = self.name.replace("_", " ")
        return f"{name} at {_rate_text(self.rate, '.6g')}, each released class {guarantee(self.each)}"

    def _gamma(self) -> NoiseFunction:
        leads = np.arange(2 - self.K % 2, self.K + 1, 2, dtype=np.float64)
        return NoiseFunction.from_upper_half(np.clip(self.lead(self.rate * leads), 0.0, 1.0), self.K)

    def bounds(self, releases: int) -> Releases:
        is_bit = self.classes == 2 and self.K <= MAX_BIT_VOTERS and self.rate * self.K <= MIN_EXPONENT
        laws = partial(bit_pairs, self, self.K, self.affected) if is_bit else None
        return [(ReleaseGuarantee(self.each, laws, self.divergence), releases)]

    def record(self) -> dict[str, Any]:
        return super().record() | {"name": self.name}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> SelectionMechanism:
        classes = {one.name: one for one in (PermuteAndFlip, ExponentialMechanism)}
        if record.get("format") != 1 or record["name"] not in classes:
            raise InvalidInput("mechanism", record["name"], "one of " + ", ".join(classes))
        found = classes[record["name"]]
        return found(record["K"], record["classes"], record["rate"], affected=record["affected"])

    def draw_many(self, counts: VoteTable, source: RandomSource) -> Labels:
        lags, coins = counts.max(axis=1, keepdims=True) - counts, _coins(self.rate, self.K)
        places = (self._try if self.classes <= MAX_TRIED else self._draw_of_many)(lags, coins, source)
        return places.astype(label_type(self.classes))

    def _try(self, lags: VoteTable, coins: ExponentialCoins, source: RandomSource) -> VoteTable:
        """Return a class for each row, shape (N,): draw a class uniformly and toss its coin, until one succeeds."""
        # With `TRIES_ONCE` a tried class is skipped, so the classes are tried in a random order.
        labels = np.zeros(len(lags), dtype=np.int64)
        is_tried = np.zeros(lags.shape, dtype=bool)
        rows = np.arange(len(lags))
        while rows.size:
            places = below_each(np.full(rows.size, self.classes), source)
            if self.TRIES_ONCE:
                untried = ~is_tried[rows, places]
                is_tried[rows, places] = True
            succeeds = coins.toss(lags[rows, places], source)
            if self.TRIES_ONCE:
                succeeds &= untried
            labels[rows[succeeds]] = places[succeeds]
            rows = rows[~succeeds]
        return labels

    @abstractmethod
    def _draw_of_many(self, lags: VoteTable, coins: ExponentialCoins, source: RandomSource) -> VoteTable:
        """Return the same as `_try` without trying class by class, shape (N,)."""


def _rate_text(rate: float, form: str) -> str:
    number = format(rate, form)
    return f"{number} {'nat' if number == '1' else 'nats'} per vote"


class PermuteAndFlip(SelectionMechanism):
    """Permute-and-flip: in random order, release a class with probability e^(−rate·its lag), until one is released.

    Between two classes it equals the vote with Laplace noise of scale 1/rate on the *difference*, or with geometric
    noise and ties broken by a coin: in all three a class behind by d votes wins with probability e^(−rate·d)/2.
    """

    name = "permute_and_flip"
    TRIES_ONCE = True
    title = "permute-and-flip"
    advice = "Release the vote with Laplace noise on the difference"

    @property
    def words(self) -> str:
        if self.classes > 2:
            return f"Permute-and-flip at {_rate_text(self.rate, '.4g')}."
        return f"Laplace (or geometric) noise of scale {1 / self.rate:.4g} votes on the difference of the counts."

    def _draw_of_many(self, lags: VoteTable, coins: ExponentialCoins, source: RandomSource) -> VoteTable:
        # If all coins are tossed in advance, the first success in a random order is uniform among the successes.
        successes = coins.toss(lags.ravel(), source).reshape(lags.shape).cumsum(axis=1, dtype=np.int64)
        return np.asarray(np.argmax(successes > below_each(successes[:, -1], source)[:, None], axis=1))

    def leader_chances(self, counts: CountTable) -> Array:
        weights, leaders = _weights(counts, self.rate)
        s, ds = gauss_legendre(counts.shape[1] // 2 + 1)
        product = np.ones((len(counts), s.size))
        for column in range(1, counts.shape[1]):
            product *= 1 - weights[:, column, None] * s
        return np.asarray(np.minimum(leaders * (product @ ds), 1.0))

    @staticmethod
    def shared_out(weights: Array) -> Array:
        """Return a_c·∫₀¹ Π_{j≠c} (1 − a_j·s) ds, as `table`; positive factors keep relative precision."""
        s, ds = gauss_legendre(weights.shape[1] // 2 + 1)
        misses = 1 - weights[:, :, None] * s
        others = np.stack(
            [np.prod(np.delete(misses, place, axis=1), axis=1) for place in range(weights.shape[1])], axis=1
        )
        return np.asarray(weights * (others @ ds))

    def divergence(self) -> PowerDivergence | None:
        """Return None: its losses fill the range that (ε, 0)-DP allows."""
        return None

    @staticmethod
    def lead(nats: Array) -> Array:
        """Return 1 − e^(−rate·lead)."""
        return np.asarray(-np.expm1(-nats))

    def loses(self, margin: int) -> float:
        """Return e^(−rate·margin)/2."""
        return math.exp(-self.rate * margin) / 2

    @staticmethod
    def table(cells: Histograms, rate: float) -> Array:
        """Return a_c·∫₀¹ Π_{j≠c} (1 − a_j·s) ds, a_j = e^(rate·(n_j − max n)).

        Given that c arrives at time s in (0, 1), each other class has arrived before it with probability s.
        """
        chances = _cell_weights(cells, rate)
        # The integrand has degree C − 1 in s, for which Gauss–Legendre with this many nodes is exact.
        s, ds = gauss_legendre(cells.classes // 2 + 1)
        misses = 1 - chances[:, None] * s
        product = np.multiply.reduceat(misses ** cells.multiplicities[:, None], cells.starts, axis=0)
        return np.asarray(chances * ((product[cells.owners] / misses) @ ds))


class ExponentialMechanism(SelectionMechanism):
    """The exponential mechanism: each class with probability ∝ e^(rate·votes)."""

    name = "exponential"
    title = "exponential mechanism"
    advice = "Release the vote by the exponential mechanism"

    @property
    def words(self) -> str:
        answer = "Either answer" if self.classes == 2 else "Each class"
        return f"{answer} with probability proportional to e^({self.rate:.4g}·votes)."

    def _draw_of_many(self, lags: VoteTable, coins: ExponentialCoins, source: RandomSource) -> VoteTable:
        # a class of probability t = e^(−rate·lag) is drawn with weight 2^−k ≥ t and accepted with probability t·2^k:
        # together t. More than half are accepted, since k is the largest such number or t is tiny.
        halvings = np.minimum(coins.halvings(lags), MAX_HALVINGS)
        sums = np.cumsum(np.int64(1) << (MAX_HALVINGS - halvings), axis=1)
        labels = np.zeros(len(lags), dtype=np.int64)
        rows = np.arange(len(lags))
        while rows.size:
            places = np.argmax(sums[rows] > below_each(sums[rows, -1], source)[:, None], axis=1)
            succeeds = coins.toss(lags[rows, places], source, halvings[rows, places])
            labels[rows[succeeds]] = places[succeeds]
            rows = rows[~succeeds]
        return labels

    def leader_chances(self, counts: CountTable) -> Array:
        weights, leaders = _weights(counts, self.rate)
        return np.asarray(leaders / weights.sum(axis=1))

    @staticmethod
    def shared_out(weights: Array) -> Array:
        """Return each weight over the sum of all."""
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def divergence(self) -> PowerDivergence | None:
        """Return the bound for losses in a range of width 2·rate·affected."""
        width = self.each.epsilon
        return bounded_range_divergence(width) if width <= MAX_RANGE else None

    @staticmethod
    def lead(nats: Array) -> Array:
        """Return tanh(rate·lead/2)."""
        return np.asarray(np.tanh(nats / 2))

    def loses(self, margin: int) -> float:
        """Return 1/(1 + e^(rate·margin))."""
        odds = math.exp(-self.rate * margin)
        return odds / (1 + odds)

    @staticmethod
    def table(cells: Histograms, rate: float) -> Array:
        """Return e^(rate·n_c) over the sum of all."""
        weights = _cell_weights(cells, rate)
        sums = np.add.reduceat(weights * cells.multiplicities, cells.starts)
        return np.asarray(weights / sums[cells.owners])


@lru_cache(maxsize=64)
def _coins(rate: float, K: int) -> ExponentialCoins:
    return ExponentialCoins(Fraction(rate), K)


def _weights(counts: CountTable, rate: float) -> tuple[Array, Array]:
    """Return e^(−rate·lag) of each class, and the number of leaders."""
    behind = counts[:, :1] - counts
    return np.exp(-rate * behind), np.count_nonzero(behind == 0, axis=1).astype(np.float64)


def _cell_weights(cells: Histograms, rate: float) -> Array:
    """Return e^(−rate·lag) of each cell, 0 for ⊥."""
    behind = cells.values[cells.starts][cells.owners] - cells.values
    return np.where(cells.values == ABSTENTION, 0.0, np.exp(-rate * behind))
