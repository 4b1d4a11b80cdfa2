"""Priors over votes among C classes.

Every prior treats the classes alike: it draws a random favoured class (or none), then the voters choose independently.
With a the probability of the favoured class and b = (1−a)/(C−1) that of each other, the partition λ has mass

    Pr[λ] = K!/Πλ_i! · C!/Π mult! · Σ_v (mult_λ(v)/C)·E[a^v b^(K−v)].

    favoured(a_1,…,a_n)    a is one of these with equal probabilities, each ≥ 1/C
    beta(alpha,beta)       a ~ Beta(alpha, beta)
    dirichlet(alpha)       the probabilities of all classes ~ Dirichlet(alpha, …, alpha)
    histogram(c:n; c:n)    past votes: the counts c, separated by commas, were seen n times
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.tables.problem import Histograms, Partition
from darrm_opt.tables.votes import VoteTable, count_votes

Ties = Literal["excluded", "any"]

MIN_SHAPE, MAX_SHAPE = 1e-3, 1e4
FORMS = "favoured(a_1,…,a_n), beta(alpha,beta), dirichlet(alpha) or histogram(n_1,…,n_C:times; …)"


@runtime_checkable
class PluralityPrior(Protocol):
    """Prior of the votes."""

    def masses(self, cells: Histograms) -> Array:
        """Return the probability of each partition, shape (partitions,); relative error below 1e-11."""


@dataclass(frozen=True)
class Favoured:
    """One class is favoured: every voter chooses it with the same probability, and the others share the rest.

    Args:
        chances: possible probabilities of the favoured class, equally likely [probability], each in [1/C, 1].
    """

    chances: tuple[float, ...]

    def __post_init__(self) -> None:
        accepted = "probabilities of the favoured class, each at least 1/classes and at most 1"
        chances = tuple(real_number(chance, "chances", accepted) for chance in self.chances)
        if not chances or not all(0 < chance <= 1 for chance in chances):
            raise InvalidInput("chances", self.chances, accepted)
        object.__setattr__(self, "chances", chances)

    def masses(self, cells: Histograms) -> Array:
        """Return the probability of each partition, shape (partitions,).

        Raises:
            InvalidInput: a chance is below 1/C.
        """
        self.check_classes(cells.classes)
        return _favoured_masses(cells, self._log_moment)

    def check_classes(self, classes: int) -> None:
        """Reject probabilities below 1/C, at which another class would be favoured.

        Args:
            classes: C.

        Raises:
            InvalidInput: a probability is below 1/C.
        """
        low = min(self.chances)
        if low < (1 - 1e-12) / classes:
            raise InvalidInput("chances", low, f"at least 1/{classes}", "Below it another class is favoured.")

    def _log_moment(self, votes: int, K: int, classes: int) -> float:
        logs = [_log_power(a, votes) + _log_power((1 - a) / (classes - 1), K - votes) for a in self.chances]
        largest = max(logs)
        if largest == -math.inf:
            return -math.inf
        return largest + math.log(math.fsum(math.exp(log - largest) for log in logs) / len(logs))

    def __str__(self) -> str:
        return f"favoured({','.join(repr(chance) for chance in self.chances)})"


@dataclass(frozen=True)
class FavouredBeta:
    """One class is favoured: voters choose it with a probability drawn from a Beta law; the others share the rest.

    Args:
        alpha: first shape parameter, `MIN_SHAPE` to `MAX_SHAPE`; the mean probability is alpha/(alpha + beta).
        beta: second shape parameter, in the same range.
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _shape(self.alpha, "alpha"))
        object.__setattr__(self, "beta", _shape(self.beta, "beta"))

    def masses(self, cells: Histograms) -> Array:
        """Return the probability of each partition, shape (partitions,)."""
        return _favoured_masses(cells, self._log_moment)

    def _log_moment(self, votes: int, K: int, classes: int) -> float:
        others = K - votes
        log_ratio = _log_beta(self.alpha + votes, self.beta + others) - _log_beta(self.alpha, self.beta)
        return log_ratio - others * math.log(classes - 1)

    def __str__(self) -> str:
        return f"beta({self.alpha!r},{self.beta!r})"


@dataclass(frozen=True)
class Dirichlet:
    """The probabilities of the classes are drawn from a symmetric Dirichlet distribution, once for all voters.

    Args:
        alpha: concentration of each class, `MIN_SHAPE` to `MAX_SHAPE`; if it is small the voters agree.
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _shape(self.alpha, "alpha"))

    def masses(self, cells: Histograms) -> Array:
        """Return the probability of each partition, shape (partitions,)."""
        total = self.alpha * cells.classes
        front = math.lgamma(total) - math.lgamma(total + cells.K)
        rising = [math.lgamma(self.alpha + votes) - math.lgamma(self.alpha) for votes in range(cells.K + 1)]
        return _normalised(
            math.exp(_log_arrangements(partition) + front + math.fsum(rising[votes] for votes in partition))
            for partition in cells.partitions
        )

    def __str__(self) -> str:
        return f"dirichlet({self.alpha!r})"


@dataclass(frozen=True)
class PastVotes:
    """Votes that were counted before, public or no longer sensitive; the classes count as alike.

    Args:
        counts: pairs (vote counts, times seen), with one count per class.

    >>> PastVotes((((3, 1, 0), 2), ((0, 1, 3), 5))).counts
    (((3, 1, 0), 7),)
    """

    counts: tuple[tuple[Partition, int], ...]

    def __post_init__(self) -> None:
        accepted = "pairs of vote counts and how often they were seen"
        seen: Counter[Partition] = Counter()
        for partition, times in self.counts:
            votes = (whole_number(n, "counts", accepted, least=0) for n in partition)
            seen[tuple(sorted(votes, reverse=True))] += whole_number(times, "counts", accepted)
        if not seen or len({(len(partition), sum(partition)) for partition in seen}) != 1:
            raise InvalidInput("counts", "none, or of different voters or classes", accepted)
        object.__setattr__(self, "counts", tuple(sorted(seen.items(), reverse=True)))

    @classmethod
    def of_votes(cls, votes: Any, classes: int) -> PastVotes:
        """Return the prior of a table of votes.

        Args:
            votes: class of each voter, 0..C−1, shape (N, K).
            classes: C.

        Raises:
            InvalidInput: as `darrm_opt.tables.votes.count_votes`.
        """
        seen = Counter(tuple(row) for row in np.sort(count_votes(votes, None, classes), axis=1)[:, ::-1].tolist())
        return cls(tuple(seen.items()))

    def check_shape(self, K: int, classes: int) -> None:
        """Reject another number of voters or classes.

        Args:
            K: number of voters.
            classes: C.

        Raises:
            InvalidInput: the counts are not K votes among C classes.
        """
        example = self.counts[0][0]
        if (sum(example), len(example)) != (K, classes):
            raise InvalidInput(
                "counts", f"{sum(example)} votes among {len(example)} classes", f"K = {K} votes among {classes} classes"
            )

    def masses(self, cells: Histograms) -> Array:
        """Return the probability of each partition, shape (partitions,).

        Raises:
            InvalidInput: the votes were of another number of voters or classes.
        """
        self.check_shape(cells.K, cells.classes)
        table = np.zeros(len(cells.partitions))
        for partition, times in self.counts:
            table[cells.numbers[partition]] = times
        return _normalised(table)

    def __str__(self) -> str:
        return (
            f"histogram({'; '.join(','.join(map(str, partition)) + f':{times}' for partition, times in self.counts)})"
        )


def sample_counts(prior: PluralityPrior, K: int, classes: int, size: int) -> VoteTable:
    """Return random vote counts from a prior, decreasing, shape (size, C), for problems with too many to list."""
    rng = np.random.default_rng(0)
    if isinstance(prior, Dirichlet):
        chances = rng.dirichlet(np.full(classes, prior.alpha), size)
    elif isinstance(prior, (Favoured, FavouredBeta)):
        if isinstance(prior, Favoured):
            prior.check_classes(classes)
            first = np.resize(prior.chances, size)
        else:
            first = rng.beta(prior.alpha, prior.beta, size)
        others = (1 - first) / (classes - 1)
        chances = np.column_stack([first, np.broadcast_to(others[:, None], (size, classes - 1))])
    else:
        raise InvalidInput("prior", str(prior), "favoured, beta, dirichlet or past votes")
    chances /= chances.sum(axis=1, keepdims=True)
    counts: VoteTable = np.sort(rng.multinomial(K, chances), axis=1)[:, ::-1].astype(np.int64)
    return counts


def is_class_prior(text: Any) -> bool:
    """Return whether a text has the form of a prior among classes that a prior between two does not have."""
    if not isinstance(text, str):
        return False
    name, _, rest = text.strip().partition("(")
    return name.strip() in ("favoured", "beta", "dirichlet") or (
        name.strip() == "histogram" and bool(set(":;") & set(rest))
    )


def parse_prior(text: str) -> PluralityPrior:
    """Return the prior that a text names: favoured, beta, dirichlet or histogram.

    Raises:
        InvalidInput: the text is not a prior; the error shows the forms.

    >>> parse_prior("histogram(3,1,0:5; 2,2,0:1)").counts
    (((3, 1, 0), 5), ((2, 2, 0), 1))
    """
    match = re.fullmatch(r"\s*([a-z]+)\s*\((.*)\)\s*", text, re.DOTALL) if isinstance(text, str) else None  # type: ignore[redundant-expr]  # typed by people
    if match is None or match[1] not in ("favoured", "beta", "dirichlet", "histogram"):
        raise InvalidInput("prior", text, FORMS)
    name, inside = match[1], match[2]
    try:
        if name == "histogram":
            return PastVotes(tuple(_counts_and_times(part) for part in inside.split(";")))
        numbers = tuple(float(number) for number in inside.split(","))
    except ValueError as err:
        if isinstance(err, InvalidInput):
            raise
        raise InvalidInput("prior", text, FORMS) from err
    if name == "favoured":
        return Favoured(numbers)
    if len(numbers) != (2 if name == "beta" else 1):
        raise InvalidInput("prior", text, FORMS)
    return FavouredBeta(*numbers) if name == "beta" else Dirichlet(*numbers)


def _counts_and_times(text: str) -> tuple[Partition, int]:
    counts, _, times = text.partition(":")
    return tuple(int(count) for count in counts.split(",")), int(times or "1")


def _favoured_masses(cells: Histograms, log_moment: Callable[[int, int, int], float]) -> Array:
    K, classes = cells.K, cells.classes
    moments = [log_moment(votes, K, classes) for votes in range(K + 1)]

    def mass(partition: Partition) -> float:
        front = _log_arrangements(partition)
        return math.fsum(
            multiplicity / classes * math.exp(front + moments[votes])
            for votes, multiplicity in Counter(partition).items()
        )

    return _normalised(mass(partition) for partition in cells.partitions)


def _log_arrangements(partition: Partition) -> float:
    """Return the logarithm of the number of ways in which K votes have these counts, in any order of the classes."""
    ways = math.factorial(sum(partition)) * math.factorial(len(partition))
    for count in partition:
        ways //= math.factorial(count)
    for multiplicity in Counter(partition).values():
        ways //= math.factorial(multiplicity)
    return math.log(ways)


def _normalised(masses: Iterable[float] | Array) -> Array:
    table = np.fromiter(masses, dtype=np.float64)
    return table / math.fsum(table)


def _log_power(base: float, exponent: int) -> float:
    if exponent == 0:
        return 0.0
    return exponent * math.log(base) if base > 0 else -math.inf


def _log_beta(alpha: float, beta: float) -> float:
    return math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)


def _shape(value: Any, argument: str) -> float:
    accepted = f"a number from {MIN_SHAPE:g} to {MAX_SHAPE:g}"
    return real_number(value, argument, accepted, least=MIN_SHAPE, most=MAX_SHAPE)
