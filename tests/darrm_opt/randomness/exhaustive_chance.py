"""Exact distributions of samplers, by all paths of their random choices with exact probabilities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import TypeVar

from darrm_opt.randomness import RandomSource

Outcome = TypeVar("Outcome", bound=Hashable)


class _NeedsMore(Exception):
    def __init__(self, weights: list[Fraction]) -> None:
        self.weights = weights


class _Scripted(RandomSource):
    """A source that follows a script, and raises when it ends."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._answers = iter(script)

    def octets(self, count: int) -> bytes:
        raise AssertionError(f"{count} bytes were asked for: a sampler draws whole numbers and chances")

    def below(self, n: int) -> int:
        return 0 if n == 1 else self._next([Fraction(1, n)] * n)

    def chance(self, numerator: Fraction | int, denominator: int = 1) -> bool:
        """Take one of two branches, for any denominator."""
        probability = Fraction(numerator, denominator)
        if probability in (0, 1):
            return bool(probability)
        return bool(self._next([1 - probability, probability]))

    def _next(self, weights: list[Fraction]) -> int:
        answer = next(self._answers, None)
        if answer is None:
            raise _NeedsMore(weights)
        return answer


def exact_distribution(
    draw: Callable[[RandomSource], Outcome], least: Fraction = Fraction(1, 10**5)
) -> tuple[dict[Outcome, Fraction], Fraction]:
    """Return the probability of each outcome over all paths of probability at least ``least``, and the rest.

    The exact probability of an outcome lies between its entry and its entry plus the rest.
    """
    masses: dict[Outcome, Fraction] = defaultdict(Fraction)
    remainder = Fraction(0)
    pending: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while pending:
        script, weight = pending.pop()
        if weight < least:
            remainder += weight
            continue
        try:
            masses[draw(_Scripted(script))] += weight
        except _NeedsMore as more:
            pending += [((*script, i), weight * share) for i, share in enumerate(more.weights) if share]
    return dict(masses), remainder
