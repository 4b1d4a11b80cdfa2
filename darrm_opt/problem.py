"""Problem of a design: K voters, how private each is, and how private their majority must be.

Notation: ``K`` voters; each is (ε, Δ)-DP (``voter``); the release must be (mε, δ)-DP (``target``);
one record can influence at most ``affected`` voters.

Numbers are canonical (`darrm_opt.decimals`): 3·0.1 and 0.3 are one problem, and what is between two points of the
grid moves to the side of the stronger guarantee: voters less private, release more private. What the design proves, it
proves for `Problem.strictest`, the far end of the noise that was forgiven, so no input that rounds to a problem is
promised more than was proved. How good an answer can be it proves for `Problem.loosest`, so no input that rounds to a
problem has a better one.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from darrm_opt.decimals import (
    DELTA_GRID,
    DOWN,
    EPSILON_NOISE,
    MAX_DELTA,
    UP,
    delta_noise,
    delta_step,
    grid_delta,
    grid_point,
    grid_step,
    out_of_range,
)
from darrm_opt.errors import InvalidInput, UnsafeArithmetic
from darrm_opt.fields import FIELDS

MAX_TARGET_EPSILON = FIELDS["target_epsilon"].limits["most"]
"""Largest target ε [nats]."""

NEARLY_A_COIN = 0.2
"""Largest γ(l) below which a release is nearly a fair coin: even the clearest vote is then released wrongly in 40 % of
the cases. The planner calls such an answer useless as well (`planning.MIN_ACCURACY`)."""

FRESH = FIELDS["fresh"].description

MAX_VOTERS = 10**6
"""Most voters of a problem: many more than can be solved, and few enough for arrays of that size."""

_ONE, _BELOW_HALF_ULP, _ABOVE_HALF_ULP = 1.0, 2.0**-54, 3.0 * 2.0**-54
_LEAST_NORMAL, _TWO = sys.float_info.min, 2.0  # variables: Python would compute with literals when it compiles

_REMEDY = (
    "Some library has changed the processor's floating-point mode (as -ffast-math does, or "
    "torch.set_flush_denormal), and no proof holds in it. Restore the default, or call from another process."
)


@dataclass(frozen=True)
class Privacy:
    """(ε, δ)-differential privacy of one mechanism.

    Args:
        epsilon: [nats], ≥ 0; ``inf`` means no privacy at all.
        delta: [probability], in [0, 1).

    Raises:
        InvalidInput: if a number is outside its range, NaN, or not a number.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _epsilon(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", _probability(self.delta, "delta"))

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """The points (ε, δ) that hold: this one, or those of a `voters.PrivacyProfile`."""
        return ((self.epsilon, self.delta),)

    def with_points(self, points: Iterable[tuple[float, float]]) -> Privacy:
        """Return the same kind of guarantee with other points, taken as they are."""
        ((epsilon, delta),) = points
        return Privacy(epsilon, delta)


class AllVoters(int):
    """Number of affected voters where it is all of them: the number K, which remembers that it stands for "all".

    So ``dataclasses.replace(problem, K=13)`` asks for all 13, not for the 11 of before: a weaker promise must be asked
    for in so many words (``replace(problem, K=13, affected=11)``).
    """

    __slots__ = ()


@dataclass(frozen=True, init=False)
class Problem:
    """Design the private majority of K voters.

    Args:
        K: number of voters, ≥ 1; if K is even a tie releases a fair coin.
        voter: privacy of one voter; ε = ``inf`` for voters that are not private (δ is then
            irrelevant and set to 0), ε = 0 only with δ > 0. Several points (ε, δ): a `voters.PrivacyProfile`.
        target: privacy wanted of the released bit; finite ε ≥ 0.
        affected: how many voters one record can influence, 1..K; None means all K.

    Guarantees:
        Frozen; equal and equally hashed when the same up to floating noise; every number canonical. Where all voters
        are affected, ``dataclasses.replace`` with another K affects all of those. Voters that are not alike, more
        classes and abstention: `tables.groups.simplest_problem`.

    Raises:
        InvalidInput: naming the argument, its value and what is accepted.

    Source: Problem 1.1 of the paper; ``affected`` is ours (docs, "Affected voters").

    >>> Problem(K=11, voter=Privacy(0.1), target=Privacy(3 * 0.1)).target.epsilon
    0.3
    """

    K: int
    voter: Privacy
    target: Privacy
    affected: int

    def __init__(self, K: int, voter: Privacy, target: Privacy, affected: int | None = None) -> None:
        K = number_of_voters(K)
        voter = _canonical_voter(voter)
        target = _canonical_target(target)
        if affected is None or isinstance(affected, AllVoters):
            affected = K
        affected = whole_number(affected, "affected", FIELDS["affected"].accepted)
        if affected > K:
            raise InvalidInput(
                "affected", affected, f"at most K = {K} voters", "A record cannot influence more voters than there are."
            )
        object.__setattr__(self, "K", K)
        object.__setattr__(self, "voter", voter)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "affected", _all_voters(K) if affected == K else affected)

    @classmethod
    def from_allowance(
        cls,
        K: int,
        m: float | None,
        epsilon: float,
        Delta: float = 0.0,
        delta: float | None = None,
        affected: int | None = None,
        *,
        target_epsilon: float | None = None,
    ) -> Problem:
        """Return the problem whose target is (mε, δ).

        Args:
            K: number of voters, ≥ 1.
            m: privacy allowance, real > 0: the release may cost m times one voter's ε. None where
                ``target_epsilon`` is given instead.
            epsilon: ε of one voter [nats], ≥ 0 or ``inf``.
            Delta: Δ of one voter [probability], in [0, 1).
            delta: δ of the release [probability], in [0, 1); default 1 − (1−Δ)^m, or Δ where there is no m.
            affected: voters that one record can influence, 1..K; default K.
            target_epsilon: target ε [nats], ≥ 0; the only way for ε = 0 and ε = inf, where m has no meaning.

        Raises:
            InvalidInput: naming the argument, its value and what is accepted.

        >>> Problem.from_allowance(K=11, m=3, epsilon=0.1).target
        Privacy(epsilon=0.3, delta=0.0)
        """
        K = number_of_voters(K)
        epsilon = _epsilon(epsilon, "epsilon")
        Delta = _probability(Delta, "Delta")
        target_epsilon = _target_epsilon(m, epsilon, target_epsilon)
        if delta is None:
            allowance = 1.0 if epsilon in (0.0, math.inf) else target_epsilon / epsilon
            power = allowance * math.log1p(-Delta)
            delta = min(-math.expm1(power), MAX_DELTA)  # 1 − (1−Δ)^m without cancellation
        else:
            delta = _probability(delta, "delta")
        return cls(K, Privacy(epsilon, Delta), Privacy(target_epsilon, delta), affected)

    @property
    def m(self) -> float | None:
        """Privacy allowance, target ε over voter ε; None where it has no meaning: ε = 0, ε = inf, or several points."""
        if self.voter.epsilon in (0.0, math.inf) or len(self.voter.points) > 1:
            return None
        return float(f"{self.target.epsilon / self.voter.epsilon:.10g}")

    @property
    def strictest(self) -> Problem:
        """The hardest problem among those whose numbers round to this one: what the design must satisfy.

        Its voters are less private and its target more private than any input that became this
        problem, so a proof for it is a proof for each of them. A number that is exactly 0 stays 0.
        """
        return _strictest(self)

    @property
    def loosest(self) -> Problem:
        """The easiest problem, beyond those whose numbers round to this one: what an upper bound must cover.

        Its voters are more private and its target less private than any input that became this problem, so no γ that is
        private for one of them beats a bound for it. A number that is exactly 0 stays 0.
        """
        return _loosest(self)

    def with_allowance(self, m: float, delta: float | None = None) -> Problem:
        """Return the problem of the same voters at another target.

        Args:
            m: privacy allowance, > 0; the target ε itself [nats] where m has no meaning.
            delta: δ of the release [probability]; default as in `from_allowance`.

        Raises:
            InvalidInput: naming the argument, its value and what is accepted.

        >>> Problem.from_allowance(K=11, m=3, epsilon=0.1).with_allowance(2).target
        Privacy(epsilon=0.2, delta=0.0)
        """
        epsilon, Delta = self.voter.epsilon, self.voter.delta
        if len(self.voter.points) > 1:
            target = Privacy(_epsilon(m, "target_epsilon"), Delta if delta is None else _probability(delta, "delta"))
            return Problem(self.K, self.voter, target, self.affected)
        if self.m is None:
            return Problem.from_allowance(self.K, None, epsilon, Delta, delta, self.affected, target_epsilon=m)
        return Problem.from_allowance(self.K, m, epsilon, Delta, delta, self.affected)

    def warnings(self, gamma: Iterable[float]) -> tuple[str, ...]:
        """Return sentences about what the user should reconsider, judged by the γ that was found; usually none.

        Args:
            gamma: γ(0..K) [probability].
        """
        looks_swapped = self.target.delta < self.voter.delta - 2 * float(DELTA_GRID)
        if not looks_swapped or math.isinf(self.voter.epsilon) or max(gamma) >= NEARLY_A_COIN:
            return ()
        message = (
            f"delta = {self.target.delta:g} is below Delta = {self.voter.delta:g}, and the release is hardly more "
            f"than a fair coin: it is the majority with probability {(1 + max(gamma)) / 2:.3g} at most. Were the two "
            "swapped?"
        )
        return (message,)


def a_problem(value: Any) -> Problem:
    """Return ``value`` if it is a problem."""
    if not isinstance(value, Problem):
        raise InvalidInput("problem", value, "a Problem")
    return value


def number_of_voters(value: Any) -> int:
    """Return ``value`` as a number of voters, 1 to `MAX_VOTERS`."""
    K = whole_number(value, "K", FIELDS["K"].accepted)
    if K > MAX_VOTERS:
        raise InvalidInput("K", K, f"at most {MAX_VOTERS} voters")
    return K


def whole_number(
    value: Any, argument: str, accepted: str, *, least: int = 1, most: float = math.inf, advice: str = ""
) -> int:
    """Return ``value`` as an int in ``least``..``most``; refuse booleans, floats and text.

    An array without axes is its number. ``advice`` is what the error adds for a number outside the range.
    """
    if type(value) is int and least <= value <= most:
        return value
    number = _number_of(value)
    if isinstance(number, bool) or not isinstance(number, numbers.Integral):
        raise InvalidInput(argument, number, accepted)
    whole = int(number)
    if not least <= whole <= most:
        raise InvalidInput(argument, number, accepted, advice)
    return whole


def check_arithmetic() -> None:
    """Raise `UnsafeArithmetic` unless this thread rounds to nearest and computes with subnormal numbers."""
    # Libraries that are compiled for speed change both for a whole thread ("flush to zero", "denormals are zero"); a
    # bound that was computed so proves nothing. Every proof asks, every account, and every number that comes in
    # (`real_number`), in a fraction of a microsecond.
    if _ONE + _BELOW_HALF_ULP != _ONE or _ONE + _ABOVE_HALF_ULP == _ONE or -_ONE - _BELOW_HALF_ULP != -_ONE:
        raise UnsafeArithmetic(f"sums are not rounded to nearest in this thread. {_REMEDY}")
    if _LEAST_NORMAL / _TWO * _TWO != _LEAST_NORMAL:
        raise UnsafeArithmetic(f"subnormal numbers count as zero in this thread. {_REMEDY}")


def real_number(
    value: Any,
    argument: str,
    accepted: str,
    *,
    least: float = -math.inf,
    above: float | None = None,
    most: float = math.inf,
    below: float | None = None,
    advice: str = "",
) -> float:
    """Return ``value``, a real number or a ``Decimal``, as a float between two bounds: closed, or open where given so.

    Booleans, NaN, text, and what would become 0 or infinite are refused. Every account takes its numbers through here,
    and so notices if this thread's arithmetic is unsafe (`check_arithmetic`). ``advice`` is what the error adds for a
    number outside the range.
    """
    check_arithmetic()
    number = value if type(value) is float else _as_float(value, argument, accepted)  # the abstract classes take time
    if math.isnan(number):
        raise InvalidInput(argument, value, accepted)
    at_an_open_end = (above is not None and number <= above) or (below is not None and number >= below)
    if at_an_open_end or not least <= number <= most:
        raise InvalidInput(argument, value, accepted, advice)
    return number


def _as_float(value: Any, argument: str, accepted: str) -> float:
    """Return a number of another type as a float, unless that would make it 0 or infinite."""
    value = _number_of(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise InvalidInput(argument, value, accepted, out_of_range(value) if isinstance(value, str) else "")
    try:
        number = float(value)
    except (OverflowError, ValueError) as err:  # a whole number beyond every double; a signalling NaN
        raise InvalidInput(argument, value, accepted) from err
    if number in {0.0, math.inf, -math.inf} and number != value:
        raise InvalidInput(argument, value, accepted)
    return number


def _number_of(value: Any) -> Any:
    """Return what an array without axes holds; anything else as it is."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _epsilon(value: Any, argument: str) -> float:
    return real_number(value, argument, FIELDS["epsilon"].accepted, least=0) + 0.0  # no -0.0


def _probability(value: Any, argument: str) -> float:
    return real_number(value, argument, FIELDS["delta"].accepted, least=0, below=1) + 0.0


def _target_epsilon(m: float | None, epsilon: float, target_epsilon: float | None) -> float:
    """Return the target ε from exactly one of ``m`` and ``target_epsilon``."""
    # m·0 and m·∞ say nothing of the target.
    if epsilon in (0.0, math.inf):
        if m is not None:
            advice = "The allowance m has no meaning for such voters: give target_epsilon instead."
            raise InvalidInput("m", m, f"no m with epsilon = {epsilon:g}", advice)
        if target_epsilon is None:
            advice = f"epsilon = {epsilon:g} leaves m without meaning."
            raise InvalidInput("target_epsilon", None, "a number of nats, at least 0", advice)
    elif (m is None) == (target_epsilon is None):
        raise InvalidInput("m", m, "exactly one of m and target_epsilon", "The target ε is m·epsilon.")
    if target_epsilon is not None:
        return _protects(_epsilon(target_epsilon, "target_epsilon"))
    allowance = real_number(m, "m", FIELDS["m"].accepted, above=0, below=math.inf)
    # The decimal grid of `Problem` takes 3·0.1 for 0.3: m = 3 and a target of 0.3 are one problem.
    return _protects(allowance * epsilon)


_all_voters = lru_cache(maxsize=256)(AllVoters)


def _canonical_voter(voter: Privacy) -> Privacy:
    if not isinstance(voter, Privacy):
        raise InvalidInput("voter", voter, "a Privacy(epsilon, delta)")
    return _rounded_voter(voter)


@lru_cache(maxsize=256)
def _rounded_voter(voter: Privacy) -> Privacy:
    """Return a voter on the grid. Remembered, as the problems of a table share their voters."""
    if len(voter.points) > 1:
        return voter  # a profile is canonical
    if voter.epsilon == math.inf:
        return Privacy(math.inf, 0.0)
    canonical = Privacy(grid_point(voter.epsilon, UP), min(grid_delta(voter.delta, UP), MAX_DELTA))
    if canonical.epsilon == 0 and canonical.delta == 0:
        advice = "A voter with epsilon = 0 and Delta = 0 does not depend on the data: release the plain majority."
        raise InvalidInput("epsilon", voter.epsilon, "epsilon above 0, or epsilon = 0 with Delta above 0", advice)
    return canonical


def _canonical_target(target: Privacy) -> Privacy:
    if not isinstance(target, Privacy):
        raise InvalidInput("target", target, "a Privacy(epsilon, delta)")
    if len(target.points) > 1:
        advice = "Tables for groups satisfy several at once; ask for a γ that satisfies the strictest."
        raise InvalidInput("target", target.points, "one (epsilon, delta)", advice)
    _protects(target.epsilon)
    delta = min(grid_delta(target.delta, DOWN), float(1 - DELTA_GRID))
    return Privacy(grid_point(target.epsilon, DOWN), delta)


def _protects(target_epsilon: float) -> float:
    if target_epsilon > MAX_TARGET_EPSILON:
        advice = "Such a target protects nobody: lower m or epsilon."
        raise InvalidInput("target_epsilon", target_epsilon, f"at most {MAX_TARGET_EPSILON:g} nats", advice)
    return target_epsilon


def _strictest(problem: Problem) -> Problem:
    """Move each number by twice the noise that the grid forgives (twice covers the rounding of this very step)."""
    voter, target = problem.voter, problem.target
    if voter.epsilon != math.inf:
        voter = voter.with_points(
            (epsilon * (1 + 2 * EPSILON_NOISE), min(Delta + 2 * delta_noise(Delta), MAX_DELTA))
            for epsilon, Delta in voter.points
        )
    delta = max(target.delta - 2 * delta_noise(target.delta), 0.0)
    return _off_grid_problem(problem, voter, Privacy(target.epsilon * (1 - 2 * EPSILON_NOISE), delta))


def _loosest(problem: Problem) -> Problem:
    """Move each number the other way: by twice the noise and by the step of the grid that rounding may have taken."""
    voter, target = problem.voter, problem.target
    if voter.epsilon != math.inf:
        voter = voter.with_points(_loosest_point(*point) for point in voter.points)
    epsilon = target.epsilon * (1 + 2 * EPSILON_NOISE) + grid_step(target.epsilon)
    delta = target.delta + 2 * delta_noise(target.delta) + delta_step(target.delta) if target.delta else 0.0
    return _off_grid_problem(problem, voter, Privacy(epsilon, min(delta, MAX_DELTA)))


def _loosest_point(epsilon: float, Delta: float) -> tuple[float, float]:
    """Return a voter's (ε, Δ) below all that round to it."""
    least = max(Delta - 2 * delta_noise(Delta) - delta_step(Delta), 0.0) if Delta else 0.0
    return max(epsilon * (1 - 2 * EPSILON_NOISE) - grid_step(epsilon), 0.0), least


def _off_grid_problem(problem: Problem, voter: Privacy, target: Privacy) -> Problem:
    """Return the problem with these numbers as they are: they are not canonicalised again, as they lie off the grid."""
    copy = object.__new__(Problem)
    for name, value in (("K", problem.K), ("affected", problem.affected), ("voter", voter), ("target", target)):
        object.__setattr__(copy, name, value)
    return copy
