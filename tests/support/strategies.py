"""Random problems and noise functions over the accepted range, for all tests of the design.

The same distribution by two sources: `random_case` for a seeded generator, `problem_cases` for Hypothesis. Both
reach K = 1 and even K; Δ = 0 and 1e-12..0.3; ε from 1e-4 to 4, inf, and 0 beside Δ > 0; targets up to 20 nats and 0; δ
= 0, below Δ, the default, and large; records that reach 1..K voters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy, Problem

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19, 21, 24, 25, 31)
"""Numbers of voters to draw from: mostly small ones, where most errors show."""

MAX_TARGET = 20.0  # largest target ε drawn [nats]


@dataclass(frozen=True)
class ProblemCase:
    """The numbers as given, before they become canonical."""

    K: int
    epsilon: float
    Delta: float
    target_epsilon: float
    delta: float
    affected: int

    @property
    def problem(self) -> Problem:
        """The problem with these numbers."""
        return Problem(
            self.K, Privacy(self.epsilon, self.Delta), Privacy(self.target_epsilon, self.delta), self.affected
        )


def _case(
    among: Callable[[Sequence[float]], float],
    between: Callable[[float, float], float],
    whole: Callable[[int, int], int],
    K: int,
    *,
    largest_Delta: float,
) -> ProblemCase:
    """Draw the rest of a problem, given functions to draw a choice, a real number and an integer."""
    affected = K if among((0, 1)) else whole(1, K)
    epsilon = among((0.0, math.inf, 0.1, 1e-4, 4.0, *5 * [10 ** between(-4, math.log10(4))]))
    Delta = among((0.0, 0.0, 1e-12, largest_Delta, *4 * [10 ** between(-12, math.log10(largest_Delta))]))
    if epsilon == 0:
        Delta = Delta or 1e-3
    if epsilon == math.inf:
        Delta = 0.0
    if epsilon in (0.0, math.inf):
        m, target = 1.0, among((0.0, MAX_TARGET, between(0, MAX_TARGET), 10 ** between(-3, 1)))
    else:
        m = among((1, 1, 0.01, (K + 1) / 2, K, between(0.1, K), between(1, K / 2 + 1), whole(1, K), math.inf))
        target = min(MAX_TARGET, m * epsilon)
    default = -math.expm1(min(K, target / epsilon) * math.log1p(-Delta)) if 0 < epsilon < math.inf else Delta
    default = min(default, 0.999)  # above, it is 1 in all digits of a double
    delta = among((0.0, default, default, Delta, Delta / 3, 10 ** between(-9, -0.5)))
    return ProblemCase(K, epsilon, Delta, target, delta, affected)


def random_case(rng: np.random.Generator, sizes: Sequence[int] = SIZES, *, largest_Delta: float = 0.3) -> ProblemCase:
    """Return the numbers of a problem from a seeded generator."""
    return _case(
        lambda options: float(options[int(rng.integers(len(options)))]),
        lambda low, high: float(rng.uniform(low, high)),
        lambda low, high: int(rng.integers(low, high + 1)),
        sizes[int(rng.integers(len(sizes)))],
        largest_Delta=largest_Delta,
    )


@st.composite
def problem_cases(draw: st.DrawFn, sizes: Sequence[int] = SIZES, *, largest_Delta: float = 0.3) -> ProblemCase:
    """Draw the numbers of a problem."""
    return _case(
        lambda options: float(options[draw(st.integers(0, len(options) - 1))]),
        lambda low, high: draw(st.floats(low, high, allow_nan=False)),
        lambda low, high: draw(st.integers(low, high)),
        draw(st.sampled_from(sizes)),
        largest_Delta=largest_Delta,
    )


NOISES = ("uniform", "coin", "alternating", "spike", "monotone", "majority", "small", "smooth")
"""Kinds of γ: anything in [0, 1]; 0 or 1; as rough as can be; one entry only; never falling away from K/2; 1; tiny
numbers; a polynomial in the margin."""


def upper_half(rng: np.random.Generator, K: int, kind: str) -> Array:
    """Return γ(⌊K/2⌋+1..K) of a kind of `NOISES`."""
    entries = (K + 1) // 2
    margin: Array = np.arange(1, entries + 1) / entries
    values: dict[str, Callable[[], Array]] = {
        "uniform": lambda: rng.random(entries),
        "coin": lambda: rng.integers(0, 2, entries).astype(float),
        "alternating": lambda: np.mod(np.arange(entries) + float(rng.integers(2)), 2.0),
        "spike": lambda: np.eye(entries)[rng.integers(entries)] * rng.random(),
        "monotone": lambda: np.sort(rng.random(entries)),
        "majority": lambda: np.ones(entries),
        "small": lambda: rng.random(entries) * 10.0 ** float(rng.integers(-308, -3)),
        "smooth": lambda: np.power(margin, rng.uniform(0.2, 3)) * rng.random(),
    }
    return values[kind]()


def random_noise(rng: np.random.Generator, K: int, kind: str | None = None) -> NoiseFunction:
    """Return a symmetric γ of a kind of `NOISES`, or of any."""
    if kind is None:
        kind = NOISES[int(rng.integers(len(NOISES)))]
    return NoiseFunction.from_upper_half(upper_half(rng, K, kind), K)


@st.composite
def noises(draw: st.DrawFn, K: int) -> NoiseFunction:
    """Draw a symmetric γ."""
    entries = (K + 1) // 2
    values = draw(st.lists(st.floats(0, 1), min_size=entries, max_size=entries))
    return NoiseFunction.from_upper_half(np.array(values), K)
