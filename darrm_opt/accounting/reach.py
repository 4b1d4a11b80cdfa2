"""What releases cost where chance decides how many voters one record reaches.

Models trained on subsamples that are drawn without looking at the records (bagging) share one record in a random number R of
them, with a law that is public. Draw once, let the same models answer every query, and compare two neighbours by the same
draw: given that the record reaches r models, only those r voters can differ, so the Q releases together are (ε, D_r(ε))
-indistinguishable, D_r the exact account with r affected voters. The hockey-stick divergence is jointly convex, so

    D(ε) ≤ Σ_r Pr[R = r]·D_r(ε)    for every ε.

Composed for each r first and averaged after: the draw is shared by all queries. The bound holds even where the draw becomes
known, and is then attained; an adversary who must guess the draw gets no more. D_0 = 0: a record that no model saw leaks
nothing.

Few terms. D_r grows with r, so counts may be taken together at the largest of them, and the counts at the far end, together
of probability below a small share of δ, may count as a sure loss: both only raise the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from darrm_opt.accounting.bits import compose_bits
from darrm_opt.accounting.freshness import counted_voters
from darrm_opt.accounting.open_votes import OpenVotes
from darrm_opt.accounting.optimal import least_epsilon
from darrm_opt.accounting.refusals import BelowLeakFloor
from darrm_opt.accounting.release import NoisyMajority
from darrm_opt.accounting.release_profile import release_profile
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Privacy, Problem, whole_number
from darrm_opt.rounding import float_above, up

SPARED = 4e-3
"""Share of the total δ that the far end of the law may take as a sure loss, or a line of a region that is left out."""

MOST_PARTS, FEW_PARTS, LEAST_PARTS = 24, 8, 6
"""Most counts that are accounted for one by one; beyond, neighbouring counts are taken together. Few where voters are private,
as each count then asks for a search of its own, and fewer for very many releases."""

STEPS = 3e3
"""Releases times counts in one account, where that many counts are to be had: about a second."""

MOST_POINTS, LEAST_POINTS, UPDATES = 2001, 501, 5e6
"""Grid points of the recursions: as many as leave that many updates of a point, one release and one count."""

COARSER, COARSEST = 2e-5, 2e-2
"""Share by which δ of one release may rise where lines of its region are left out, for each of many releases, and at most: it
raises their total ε by half of that, at most."""

TOLERANCE, MAX_EXACT = 3e-3, 40
"""Of the region of voters that are not private, in an average over many counts; for up to so many voters it is exact."""

UNLIKELY = 1e-2
"""Counts at the near end, together of at most this probability, are taken together first: it costs next to nothing."""

DIGITS = 60
"""Decimal digits of the law: its own rounding, a few units in the last digit for each voter, is far below a double's."""


@dataclass(frozen=True)
class Part:
    """Counts taken together.

    Attributes:
        count: the largest of them [voters].
        chance: that the record reaches one of them, rounded up [probability].
    """

    count: int
    chance: float


@dataclass(frozen=True)
class Reach:
    """How many voters one record reaches, by chance that does not look at the records.

    Attributes:
        chances: Pr[it reaches r voters], r = 0..K, each rounded up [probability].

    Raises:
        InvalidInput: a chance outside [0, 1], or chances that do not add up to 1 at least.
    """

    chances: tuple[float, ...]

    def __post_init__(self) -> None:
        for chance in self.chances:
            if not 0 <= chance <= 1:
                raise InvalidInput("chances", chance, "probabilities in [0, 1]")
        if len(self.chances) < 2 or sum(map(Fraction, self.chances)) < 1:
            raise InvalidInput("chances", self.chances, "a probability for each of 0..K voters, together at least 1")

    @classmethod
    def exactly(cls, count: int, K: int) -> Reach:
        """Return the law of a record that reaches ``count`` of K voters for certain.

        Args:
            count: in 0..K.
            K: voters, ≥ 1.
        """
        K = whole_number(K, "K", "a whole number of voters, at least 1")
        count = whole_number(count, "count", f"a number of voters in 0..{K}", least=0)
        if count > K:
            raise InvalidInput("count", count, f"a number of voters in 0..{K}")
        return cls(tuple(float(r == count) for r in range(K + 1)))

    @classmethod
    def binomial(cls, K: int, chance: Fraction | float) -> Reach:
        """Return the law of a record that reaches each of K voters independently with the same chance.

        Args:
            K: voters, ≥ 1.
            chance: [probability] in [0, 1]. A larger one is a larger count, so one that was rounded up is safe.

        >>> Reach.binomial(2, 0.5).chances
        (0.25000000000000006, 0.5000000000000001, 0.25000000000000006)
        """
        K = whole_number(K, "K", "a whole number of voters, at least 1")
        q = Fraction(chance)
        if not 0 <= q <= 1:
            raise InvalidInput("chance", chance, "a probability in [0, 1]")
        if q in (0, 1):
            return cls.exactly(K * int(q), K)
        with localcontext(Context(prec=DIGITS, Emin=MIN_EMIN)):
            rest = Decimal((1 - q).numerator) / Decimal((1 - q).denominator)
            odds = Decimal(q.numerator) / Decimal((1 - q).numerator)  # one denominator
            chances = [rest**K]
            for r in range(K):
                chances.append(chances[-1] * (K - r) / (r + 1) * odds)
            return cls(tuple(min(1.0, math.nextafter(float(each), math.inf)) for each in chances))

    @property
    def K(self) -> int:
        """Voters."""
        return len(self.chances) - 1

    @property
    def mean(self) -> float:
        """Voters that one record reaches on average, up to rounding."""
        return float(np.arange(self.K + 1) @ np.array(self.chances))

    def parts(self, spared: float, most: int = MOST_PARTS) -> tuple[list[Part], float]:
        """Return few counts that stand for all, and the probability of the far end that they leave out.

        Args:
            spared: what may be left out [probability].
            most: most parts, ≥ 1.

        Guarantees:
            Σ over parts of chance·D_count + what is left out is at least Σ_r Pr[r]·D_r for every D that grows from
            D_0 = 0 to at most 1.
        """
        last, beyond = self.K, 0.0
        while last > 0 and (wider := up(beyond + self.chances[last], 1)) <= spared:
            last, beyond = last - 1, wider if self.chances[last] else beyond
        first, near = 1, 0.0
        while first < last and last - first >= most and (near := near + self.chances[first]) <= UNLIKELY:
            first += 1
        ends = np.unique(np.linspace(last, first, min(most, last - first + 1)).round().astype(int)).tolist()
        found, start = [], 1
        for end in ends if last else ():
            chance = float_above(sum((Fraction(self.chances[r]) for r in range(start, end + 1)), Fraction(0)))
            start = end + 1
            if chance:
                found.append(Part(end, min(1.0, chance)))
        return found, beyond


@dataclass(frozen=True)
class ReachedTotal:
    """What the releases cost together, averaged over the number of voters that one record reaches.

    Attributes:
        parts: counts that stand for all of the law.
        deltas: for each of them ε ↦ D_count(ε), sound.
        beyond: probability of the far end, charged as a sure loss.
        reach: an ε beyond which nothing falls any more [nats].
    """

    parts: tuple[Part, ...]
    deltas: tuple[Callable[[float], float], ...]
    beyond: float
    reach: float

    def delta(self, epsilon: float) -> float:
        """Return δ at ``epsilon`` ≥ 0 [nats], rounded up."""
        total = sum(shares := self.shares(epsilon), self.beyond)
        return min(1.0, up(total, len(shares) + 2)) if total else 0.0

    def shares(self, epsilon: float) -> list[float]:
        """Return what each part adds to δ at ``epsilon`` [probability]."""
        return [part.chance * delta(epsilon) for part, delta in zip(self.parts, self.deltas, strict=True)]

    def epsilon(self, delta: float) -> float:
        """Return ε [nats] at ``delta`` [probability] in [0, 1).

        Raises:
            BelowLeakFloor: δ is below the probability of an infinite loss.
        """
        delta = Privacy(0.0, delta).delta
        floor = self.delta(self.reach)
        if floor > delta:
            raise BelowLeakFloor(delta, floor, "that is the probability of an infinite loss, over draws and answers")
        return least_epsilon(self.delta, delta, self.reach)

    def heaviest(self, epsilon: float) -> Part | None:
        """Return the part that adds most to δ at ``epsilon`` [nats]; None where nothing is added."""
        shares = self.shares(epsilon)
        return self.parts[int(np.argmax(shares))] if shares and max(shares) > 0 else None


def reached_total(
    gamma: ArrayLike | NoiseFunction,
    problem: Problem,
    queries: int,
    reach: Reach,
    *,
    fresh: bool = False,
    total_delta: float = 0.0,
    points: int | None = None,
    most_parts: int | None = None,
) -> ReachedTotal:
    """Return what releases of any γ cost, by the exact recursion on its bits, averaged over the reach of a record.

    Private voters that were trained once are taken as not private where they answer more than one query: given the draw, their own
    privacy does not compose.

    Args:
        gamma: γ(0..K), shape (K+1,), symmetric, in [0, 1].
        problem: K and the voters count; its ``affected`` and its target do not. The voters' own privacy must hold with the
            draw given: what a random draw adds to it is counted here, not there.
        queries: Q ≥ 1, fixed beforehand, each chosen freely in view of the earlier answers; one draw serves all of them.
        reach: how many voters one record reaches.
        fresh: see `freshness.FRESH`.
        total_delta: where ε will be asked [probability]: a `SPARED` share of it goes to the law's far end.
        points: grid points of each recursion, as in `compose_bits`; None for what a second or so affords.
        most_parts: counts that are accounted for one by one; None likewise. Sound for any numbers.

    Guarantees:
        Sound at every ε.

    Raises:
        InvalidInput: a number is outside its range, or the reach is that of another number of voters.
        TooMuchWork: too many releases for the recursion.

    Source: joint convexity of the hockey-stick divergence; docs, "Proofs".

    >>> voters = Problem(5, Privacy(math.inf), Privacy(1.0))
    >>> gamma = NoiseFunction.from_upper_half([0.1, 0.2, 0.3], 5)
    >>> total = reached_total(gamma, voters, 3, Reach.binomial(5, 0.1), total_delta=0.01)
    >>> total.epsilon(0.01) < reached_total(gamma, voters, 3, Reach.exactly(5, 5)).epsilon(0.01)
    True
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if reach.K != problem.K:
        raise InvalidInput("reach", reach.K, f"the law of a record among K = {problem.K} voters")
    noise, problem = NoiseFunction(gamma, problem.K), counted_voters(problem, queries, fresh=fresh)
    parts, beyond = counts_of(problem, queries, reach, total_delta, most_parts)
    if points is None:
        points = min(MOST_POINTS, max(LEAST_POINTS, int(UPDATES / (queries * max(1, len(parts))))))
    # Lines of a region that matter little are left out: what many releases share among them, and the longer the coarser.
    fewer = min(COARSEST, COARSER * queries), SPARED * total_delta / queries
    curves = [_curve(noise, affected_by(problem, part.count), queries, points, fewer) for part in parts]
    furthest = max((flat for _, flat in curves), default=0.0)
    return ReachedTotal(tuple(parts), tuple(delta for delta, _ in curves), beyond, furthest)


def counts_of(
    problem: Problem, queries: int, reach: Reach, total_delta: float, most_parts: int | None = None
) -> tuple[list[Part], float]:
    """Return the counts that `reached_total` accounts for one by one, and the probability that it charges as lost."""
    if most_parts is None:
        usual = MOST_PARTS if problem.voter.epsilon == math.inf else FEW_PARTS
        most_parts = min(usual, max(LEAST_PARTS, int(STEPS / queries)))
    return reach.parts(SPARED * Privacy(0.0, total_delta).delta, most_parts)


def reached_epsilon(
    gamma: ArrayLike | NoiseFunction,
    problem: Problem,
    queries: int,
    total_delta: float,
    reach: Reach,
    *,
    fresh: bool = False,
    **effort: int | None,
) -> float:
    """Return the total ε of `reached_total` at a total δ [nats]; arguments, guarantees and refusals are its own."""
    total = reached_total(gamma, problem, queries, reach, fresh=fresh, total_delta=total_delta, **effort)
    return total.epsilon(total_delta)


def affected_by(problem: Problem, count: int) -> Problem:
    """Return the problem with ``count`` affected voters."""
    return Problem(problem.K, problem.voter, problem.target, count)


def _curve(
    noise: NoiseFunction, problem: Problem, queries: int, points: int, fewer: tuple[float, float]
) -> tuple[Callable[[float], float], float]:
    """Return ε ↦ D_r(ε) for the problem's r, and an ε beyond which it is flat."""
    private = problem.voter.epsilon < math.inf
    one = NoisyMajority(noise, problem).profile if private else OpenVotes(noise, problem.affected)
    if queries == 1:
        return one.delta, one.reach
    if isinstance(one, OpenVotes) and problem.K <= MAX_EXACT:
        region = one.region
    else:
        profile = release_profile(noise, problem, tolerance=TOLERANCE) if isinstance(one, OpenVotes) else one
        region = profile.coarser(*fewer)
    total = compose_bits([(region, queries)], points=points)
    return total.delta, up((total.values.size - 1) * total.step, 4)
