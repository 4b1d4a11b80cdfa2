"""Bagging as a source of (ε, Δ), from the chance that a record is not drawn; and the drawing itself.

Draw N subsamples of k records from a dataset of n, train one model on each with any base learner, add no noise. Models
and votes are post-processing of the draw **if each learner sees its own subsample and nothing else**: no tuning,
scaling or early stopping on the whole dataset.

With M = N·k draws in all, the draws from neighbouring datasets agree where they avoid the differing record, so their
total variation distance is exactly the probability δ of drawing it:

| draws | δ | the papers' ε (form ``paper``) |
|---|---|---|
| with replacement | 1 − ((n−1)/n)^M | M·ln((n+1)/n) |
| without, subsamples independent | 1 − (1 − k/n)^N | N·ln((n+1)/(n+1−k)) |
| without, subsamples disjoint | M/n | ln((n+1)/(n+1−M)) |

Bagging is therefore (0, δ)-private (form ``zero``). The exact profile δ(ε) is flat, so no ε > 0 buys a smaller δ: the
papers' ε is true and superfluous. Both hold when a record is added, removed or replaced (ours: total variation is
symmetric, and the draws that avoid a replaced record coincide). δ ≥ 1/n always: the draw may contain a record outright.

Values are computed in whole numbers, or in decimals with a margin, and rounded up.

Source: Liu, Jia, Gong, "On the intrinsic differential privacy of bagging", Theorems 2 to 6.

*How many of K models one record affects.* A sound account of DPBag rests on this number. The source's per-record
account counts how the teachers that saw a record voted on the given dataset; that is no (ε, δ) guarantee
(`moments_accountant.per_instance_loss`). The draw does not depend on the data, so the number of teachers that saw the
record has a known distribution. Each of K models is affected with the same probability:

    with replacement              1 − (1 − 1/n)^k     and the number of affected models is Binomial(K, that),
    without, independent          k/n                 likewise,
    without, disjoint             one model with probability K·k/n, none otherwise.

`accounting.mixture` averages the exact cost over that distribution. Neighbours that replace a record share the draw. If
they add or remove one, n is the smaller size: a draw that misses the record is a draw from the others, so both can be
drawn together such that only models that drew it differ.

The (ε, Δ) of a private model must hold for a given subsample: privacy that comes from the draw is counted here, once.
The draw *is* the privacy, so it uses the operating system's randomness and is exactly uniform.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.mixture import AffectedDistribution
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, Problem
from darrm_opt.randomness import RandomSource, SystemRandomness
from darrm_opt.rounding import as_written, float_above, log_above, one_minus_power
from darrm_opt.search import largest_count

Adjacency = Literal["add_remove", "replace", "both"]
"""Which datasets are neighbours: one record more or less, one record's content changed, or either."""


@dataclass(frozen=True)
class Guarantee(Privacy):
    """(ε, δ)-differential privacy, for every dataset and every neighbour of it.

    Guarantees: A `Privacy`, so it serves as ``Problem.voter`` as it is.
    """

    adjacency: Adjacency = "both"  # the neighbours it holds for
    basis: str = ""  # the theorem it rests on


Sampling = Literal["independent", "disjoint"]
Form = Literal["paper", "zero"]

MAX_DRAWS = 2**53  # largest answer of `bagging_max_draws` [records]


@dataclass(frozen=True)
class Draws:
    """How the subsamples are drawn."""

    n: int  # records in the dataset, ≥ 2
    subsample_size: int  # k ≥ 1 [records]
    n_models: int
    replacement: bool  # whether a record can be drawn twice within a subsample
    sampling: Sampling  # without replacement, subsamples ``independent`` or ``disjoint``

    def __post_init__(self) -> None:
        n, k = _check_drawing(self)
        N = whole_number(self.n_models, "n_models", "a number of models, at least 1")
        if self.replacement:
            return
        joint_models = 1 if self.sampling == "independent" else N
        if joint_models * k < n:
            return
        reason = "delta = 1, which is no privacy" if joint_models * k == n else "no more than n records to draw from"
        advice = f"Without replacement there is {reason}: draw less."
        if k >= n:
            raise InvalidInput("subsample_size", k, f"at most n - 1 = {n - 1}", advice)
        if n <= N:
            raise InvalidInput("n_models", N, f"at most (n - 1)/{k} = {(n - 1) // k} for {k} records each", advice)
        raise InvalidInput("subsample_size", k, f"at most (n - 1)/{N} = {(n - 1) // N} for {N} models", advice)

    @property
    def delta(self) -> Fraction:
        """Probability that a given record is drawn at all; never below the exact value."""
        n, k, N = self.n, self.subsample_size, self.n_models
        if self.replacement:
            return one_minus_power(Fraction(n - 1, n), N * k)  # Theorem 3
        if self.sampling == "independent":
            return one_minus_power(Fraction(n - k, n), N)
        return Fraction(N * k, n)  # Theorem 4

    @property
    def paper_epsilon(self) -> Fraction:
        """Largest log-ratio of the probabilities of a draw that avoids the record; never below the exact value."""
        # Theorem 4 as printed in the introduction has a factor N in front; its statement and proof do not.
        n, k, N = self.n, self.subsample_size, self.n_models
        if self.replacement:
            return log_above(Fraction(n + 1, n), N * k)
        if self.sampling == "independent":
            return log_above(Fraction(n + 1, n + 1 - k), N)
        return log_above(Fraction(n + 1, n + 1 - N * k))

    @property
    def theorem(self) -> str:
        """Where the papers' (ε, δ) is stated."""
        if self.replacement:
            return f"bagging, Theorem {2 if self.n_models == 1 else 3}"
        return (
            "bagging, Theorem 4" if self.sampling == "disjoint" or self.n_models == 1 else "bagging, N-fold Theorem 4"
        )


def bagging_guarantee(
    n: int,
    subsample_size: int,
    n_models: int = 1,
    *,
    replacement: bool = True,
    sampling: Sampling = "independent",
    form: Form = "paper",
) -> Guarantee:
    """Return the privacy of releasing all ``n_models`` models, for adding, removing and replacing one record.

    ``sampling``: without replacement, whether each subsample is drawn afresh (``independent``; use it for voters, which
    DaRRM assumes independent) or all of them at once (``disjoint``). ``form``: ``paper`` for the published (ε, δ);
    ``zero`` for (0, δ), which is stronger.

    Source: Liu, Jia, Gong, Theorems 2, 3 and 4; ``independent`` and ``zero`` are ours.

    >>> bagging_guarantee(60_000, 300).delta
    0.004987562266630783
    """
    draws = Draws(n, subsample_size, n_models, replacement, sampling)
    if form not in ("paper", "zero"):
        raise InvalidInput("form", form, "'paper' or 'zero'")
    delta = float_above(draws.delta)
    if delta >= 1:
        advice = "Almost surely every record is drawn."
        # With one model δ may be below 1 already: then their number is what to change.
        if float_above(Draws(n, subsample_size, 1, replacement, sampling).delta) < 1:
            raise InvalidInput("n_models", n_models, "fewer models: delta rounds to 1", advice)
        raise InvalidInput("subsample_size", subsample_size, "fewer draws: delta rounds to 1", advice)
    if form == "zero":
        return Guarantee(0.0, delta, "both", "bagging, total variation of the draw")
    return Guarantee(float_above(draws.paper_epsilon), delta, "both", draws.theorem)


def bagging_majority_delta(K: int, member_delta: float) -> float:
    """Return δ of the plain majority bit of K independent members at ε = 0: 1 − (1−Δ)^((K+1)/2), rounded up.

    A member that avoids the record behaves alike on both datasets, so its pair of probabilities is a mixture of four
    extreme ones, and the worst case, multi-affine, is extreme: (K−1)/2 members always vote 1, the others only if they
    drew the record. The bit changes unless all of those missed it. The bound is attained.

    >>> bagging_majority_delta(5, 0.1) < 1 - 0.9**5
    True
    """
    K = whole_number(K, "K", "an odd number of members, at least 1")
    if K % 2 == 0:
        raise InvalidInput("K", K, "an odd number of members", "An even number can tie.")
    Delta = real_number(member_delta, "member_delta", "a probability in [0, 1)", least=0, below=1)
    return float_above(one_minus_power(1 - Fraction(Delta), (K + 1) // 2))


def bagging_max_draws(n: int, *, delta: float, epsilon: float | None = None, replacement: bool = True) -> int:
    """Return the largest number of draws M = N·k that stays within (ε, δ), by exact arithmetic; 0 if none does.

    ε and δ are the decimals that they print as (0.18 is 18/100). Without ε the form is ``zero``.

    >>> bagging_max_draws(50_000, delta=0.18, epsilon=0.2)
    9922
    """
    n = whole_number(n, "n", "a number of records, at least 2", least=2)
    delta = real_number(delta, "delta", "a probability in [0, 1)", least=0, below=1)
    delta_limit = as_written(delta)
    epsilon_limit = None
    if epsilon is not None:
        epsilon = real_number(epsilon, "epsilon", "a finite number of nats, at least 0", least=0, below=float("inf"))
        epsilon_limit = as_written(epsilon)

    def fits(count: int) -> bool:
        if not replacement and count > n - 1:
            return False
        draws = Draws(n, count, 1, replacement, "disjoint")
        return draws.delta <= delta_limit and (epsilon_limit is None or draws.paper_epsilon <= epsilon_limit)

    return largest_count(fits, MAX_DRAWS)


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
        n, k = _check_drawing(self)
        if self.replacement and self.sampling == "disjoint":
            raise InvalidInput("sampling", self.sampling, "'independent' with replacement", "Draw without replacement.")
        if not self.replacement and k > n:
            raise InvalidInput("subsample_size", k, f"at most n = {n} without replacement")

    @property
    def chance(self) -> float:
        """Probability that a given record is in a given subsample, rounded up."""
        return float_above(self._chance)

    def check_voters(self, problem: Problem) -> None:
        """Reject a stated number of affected voters, and more disjoint subsamples than there are records."""
        # K is the default; any other number would be a second claim about the same draw.
        if problem.affected != problem.K:
            raise InvalidInput(
                "affected",
                problem.affected,
                f"None or all K = {problem.K} with n and subsample_size",
                "The draw decides how many voters a record affects.",
            )
        self.affected_distribution(problem.K)

    def affected_distribution(self, K: int) -> AffectedDistribution:
        """Return the distribution of the number of K models that one record affects."""
        K = whole_number(K, "K", "a whole number of voters, at least 1")
        if self.sampling == "independent":
            return AffectedDistribution.binomial(K, self._chance)
        records = K * self.subsample_size
        if records > self.n:
            raise InvalidInput(
                "subsample_size", self.subsample_size, f"at most n / K = {self.n // K} for {K} disjoint subsamples"
            )
        chance = Fraction(records, self.n)
        return AffectedDistribution((float_above(1 - chance), float_above(chance), *[0.0] * (K - 1)))

    @property
    def _chance(self) -> Fraction:
        if self.replacement:
            return one_minus_power(Fraction(self.n - 1, self.n), self.subsample_size)
        return Fraction(self.subsample_size, self.n)


def _check_drawing(draws: Draws | Bags) -> tuple[int, int]:
    """Return n and the size of a subsample."""
    n = whole_number(draws.n, "n", "a number of records, at least 2", least=2)
    k = whole_number(draws.subsample_size, "subsample_size", "a number of records, at least 1")
    if not isinstance(draws.replacement, bool):
        raise InvalidInput("replacement", draws.replacement, "True or False")
    if draws.sampling not in ("independent", "disjoint"):
        raise InvalidInput("sampling", draws.sampling, "'independent' or 'disjoint'")
    return n, k


def bags_of(
    n: int | None, subsample_size: int | None, sampling: Sampling = "independent", *, replacement: bool = True
) -> Bags | None:
    """Return how the voters' subsamples are drawn; None if neither n nor subsample_size is given."""
    if n is None and subsample_size is None:
        for name, value, default in (("replacement", replacement, True), ("sampling", sampling, "independent")):
            if value != default:
                raise InvalidInput(name, value, f"{default!r} without n and subsample_size", "State the sampling.")
        return None
    if n is None:
        raise InvalidInput("n", None, "the number of records, with subsample_size")
    if subsample_size is None:
        raise InvalidInput("subsample_size", None, "the number of records drawn for one model, with n")
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
    """Return the record numbers of each model's subsample; each sequence, or ordered subset, is equally likely.

    Keep them secret: they tell which models saw a record.

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
    """Return k different numbers below n in uniformly random order: k steps of a shuffle with a sparse table."""
    displaced: dict[int, int] = {}
    members = []
    for place in range(k):
        other = place + source.below(n - place)
        members.append(displaced.get(other, other))
        displaced[other] = displaced.get(place, place)
    return members
