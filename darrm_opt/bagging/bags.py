"""Bags: K models, each trained on a subsample of one dataset, and how many of them one record affects.

This is what a sound account of DPBag rests on. The source's per-record account counts, at the dataset at hand, how the
teachers that saw a record voted; that is no (ε, δ) guarantee (`per_instance`). What can be counted without looking at
the data is how many teachers saw the record, since the draw does not look either: for each of K models alike the chance
of being reached is

    with replacement              1 − (1 − 1/n)^k     and the number of affected models is Binomial(K, that),
    without, independent          k/n                 likewise,
    without, disjoint             one model with chance K·k/n, none otherwise.

`accounting.mixture` averages the exact cost over that law. Neighbours may replace a record, where both share the draw;
or add or remove one, where n is the smaller size: a draw that misses the record is a draw from the others, so both can
be drawn together such that only models that drew it differ.

A model may see its own subsample and nothing else, and where it is private itself, its (ε, Δ) must hold for a subsample
that is given: privacy that comes from the draw is counted here, once.

The draw *is* the privacy, so it comes from the operating system, exactly uniform, as `bagging_guarantee` assumes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.mixture import AffectedDistribution
from darrm_opt.bagging.guarantee import Draws, Sampling
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Problem, whole_number
from darrm_opt.randomness import RandomSource, SystemRandomness
from darrm_opt.rounding import float_above, one_minus_power


@dataclass(frozen=True)
class Bags:
    """How the subsamples of K models are drawn, as for `bagging_guarantee`.

    >>> round(Bags(1000, 50).chance, 4)
    0.0488
    """

    n: int  # records in the dataset, ≥ 2 (a public lower bound is safe) [records]
    subsample_size: int  # k ≥ 1 records for each model; n at most without replacement [records]
    replacement: bool = True  # whether a record can be drawn twice within a subsample
    sampling: Sampling = "independent"  # without replacement, subsamples ``independent`` or ``disjoint``

    def __post_init__(self) -> None:
        n = whole_number(self.n, "n", "a number of records, at least 2", least=2)
        k = whole_number(self.subsample_size, "subsample_size", "a number of records, at least 1")
        if not isinstance(self.replacement, bool):
            raise InvalidInput("replacement", self.replacement, "True or False")
        if self.sampling not in ("independent", "disjoint"):
            raise InvalidInput("sampling", self.sampling, "'independent' or 'disjoint'")
        if self.replacement and self.sampling == "disjoint":
            raise InvalidInput("sampling", self.sampling, "'independent' with replacement", "Draw without replacement.")
        if not self.replacement and k > n:
            raise InvalidInput("subsample_size", k, f"at most n = {n} without replacement")

    @property
    def chance(self) -> float:
        """The probability that a given record is in a given subsample, rounded up."""
        return float_above(self._chance)

    def affected_distribution(self, K: int) -> AffectedDistribution:
        """Return the distribution of the number of K models that one record affects."""
        K = whole_number(K, "K", "a whole number of voters, at least 1")
        if self.sampling == "independent":
            return AffectedDistribution.binomial(K, self._chance)
        records = K * self.subsample_size
        if records > self.n:
            raise InvalidInput(
                "subsample_size",
                self.subsample_size,
                f"at most n / K = {self.n // K} for {K} disjoint subsamples",
            )
        chance = Fraction(records, self.n)
        return AffectedDistribution((float_above(1 - chance), float_above(chance), *[0.0] * (K - 1)))

    @property
    def _chance(self) -> Fraction:
        if self.replacement:
            return one_minus_power(Fraction(self.n - 1, self.n), self.subsample_size)
        return Fraction(self.subsample_size, self.n)


def checked_bags(
    problem: Problem, n: int | None, subsample_size: int | None, sampling: Sampling, *, replacement: bool
) -> Bags | None:
    """Return how the voters' subsamples are drawn, None where nothing is said of it."""
    if n is None and subsample_size is None:
        for name, value, default in (("replacement", replacement, True), ("sampling", sampling, "independent")):
            if value != default:
                raise InvalidInput(name, value, f"{default!r} without n and subsample_size", "Say what is drawn.")
        return None
    if n is None:
        raise InvalidInput("n", None, "the number of records, with subsample_size")
    if subsample_size is None:
        raise InvalidInput("subsample_size", None, "the number of records drawn for one model, with n")
    if problem.affected != problem.K:
        raise InvalidInput(
            "affected",
            problem.affected,
            f"None or all K = {problem.K} with n and subsample_size",
            "The draw decides how many voters a record affects.",
        )
    return Bags(n, subsample_size, replacement, sampling)


def draw_subsamples(
    n: int,
    subsample_size: int,
    n_models: int,
    *,
    replacement: bool = True,
    sampling: Sampling = "independent",
    source: RandomSource | None = None,
) -> list[NDArray[np.int64]]:
    """Return the record numbers of each model's subsample.

    The record numbers must stay secret: who knows them knows which models saw a record.

    Guarantees: Every sequence (with replacement) or ordered subset (without) is equally likely.

    >>> [len(members) for members in draw_subsamples(100, 10, 3)]
    [10, 10, 10]
    """
    draws = Draws(n, subsample_size, n_models, replacement, sampling)
    n, k, N = draws.n, draws.subsample_size, draws.n_models
    source = source or SystemRandomness()
    if replacement:
        return [np.array([source.below(n) for _ in range(k)], dtype=np.int64) for _ in range(N)]
    if sampling == "independent":
        return [np.array(_first_of_shuffle(n, k, source), dtype=np.int64) for _ in range(N)]
    records = _first_of_shuffle(n, N * k, source)
    return [np.array(records[i * k : (i + 1) * k], dtype=np.int64) for i in range(N)]


def _first_of_shuffle(n: int, k: int, source: RandomSource) -> list[int]:
    """Return k different numbers below n in uniformly random order: k steps of a shuffle, stored sparsely."""
    displaced: dict[int, int] = {}
    members = []
    for place in range(k):
        other = place + source.below(n - place)
        members.append(displaced.get(other, other))
        displaced[other] = displaced.get(place, place)
    return members
