"""Total privacy if the number of voters that one record affects is random.

Models trained on subsamples that are drawn without looking at the records (bagging) share one record in a random number
R of them, with a public law. Draw once, let the same models answer every query, and compare two neighbours by the same
draw: given that the record affects r models, only those r voters can differ, so the Q releases together are
(ε, D_r(ε))-indistinguishable, with D_r the exact account with r affected voters. The hockey-stick divergence is jointly
convex, so

    D(ε) ≤ Σ_r Pr[R = r]·D_r(ε)    for every ε.

Composition comes first, for each r, and the average after: all queries share the draw. The bound holds even if the draw
becomes known, and is then attained; an adversary who must guess the draw gains no more. D_0 = 0: a record that no model
has seen leaks nothing.

Few terms are enough. D_r grows with r, so counts may be grouped at the largest of them, and the counts at the far end,
of total probability below a small share of δ, may be charged as a certain loss: both only increase the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.bounds import is_within
from darrm_opt.accounting.composition.optimal import least_epsilon
from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.accounting.gaussian import gaussian_delta
from darrm_opt.accounting.guarantee import ReleaseGuarantee, estimated_shift
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.accounting.release_profile import NoisyMajority, release_profile
from darrm_opt.arguments import whole_number
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy, Problem
from darrm_opt.rounding import float_above, up

NEGLECTED_SHARE = 4e-3  # share of the total δ charged for the far end of the law, or for omitted lines of a region

MAX_GROUPS, MAX_PRIVATE_GROUPS, MIN_GROUPS = 24, 8, 6
"""Maximum number of groups of counts; fewer if voters are private, as each count then needs a search, and fewer still
for very many releases."""

MAX_STEPS = 3e3  # releases times counts in one account, unless there are fewer counts: about a second

MAX_POINTS, MIN_POINTS, MAX_UPDATES = 2001, 501, 5e6
"""Grid points of the recursions, such that there are about this many updates per release and count."""

LINE_RISE, MAX_LINE_RISE = 2e-5, 2e-2
"""Relative increase of δ of one release allowed for omitting lines of its region, for each of many releases, and
maximum: their total ε increases by at most half of that."""

TOLERANCE, MAX_EXACT_VOTERS = 3e-3, 40
"""Tolerance of the region of voters that are not private, in an average over many counts; for at most this many voters
it is exact."""

NEAR_END_CHANCE = 1e-2  # total probability of the counts at the near end that form one group, at negligible cost

DIGITS = 60
"""Decimal digits of the law, whose rounding (a few units in the last digit per voter) is far below a double's."""


@dataclass(frozen=True)
class CountGroup:
    """A group of counts of affected voters, accounted for at the largest of them."""

    count: int  # the largest of them [voters]
    chance: float  # probability that the record affects one of them, rounded up [probability]


@dataclass(frozen=True)
class AffectedDistribution:
    """The distribution of the number of voters that one record affects, drawn independently of the records."""

    chances: tuple[float, ...]  # Pr[it affects r voters], r = 0..K, each rounded up [probability]

    def __post_init__(self) -> None:
        for chance in self.chances:
            if not 0 <= chance <= 1:
                raise InvalidInput("chances", chance, "probabilities in [0, 1]")
        if len(self.chances) < 2 or sum(map(Fraction, self.chances)) < 1:
            raise InvalidInput(
                "chances", self.chances, "a probability for each of 0..K voters, whose sum is at least 1"
            )

    @classmethod
    def exactly(cls, count: int, K: int) -> AffectedDistribution:
        """Return the distribution of a record that affects exactly ``count`` of K voters."""
        K = whole_number(K, "K", "a whole number of voters, at least 1")
        count = whole_number(count, "count", f"a number of voters in 0..{K}", least=0, most=K)
        return cls(tuple(float(r == count) for r in range(K + 1)))

    @classmethod
    def binomial(cls, K: int, chance: Fraction | float) -> AffectedDistribution:
        """Return the distribution of a record that affects each of K voters independently with the same probability.

        Rounding ``chance`` up is safe: the count only grows.

        >>> AffectedDistribution.binomial(2, 0.5).chances
        (0.25000000000000006, 0.5000000000000001, 0.25000000000000006)
        """
        K = whole_number(K, "K", "a whole number of voters, at least 1")
        q = Fraction(chance)
        if not 0 <= q <= 1:
            raise InvalidInput("chance", chance, "a probability in [0, 1]")
        if q in (0, 1):
            return cls.exactly(K * int(q), K)
        with localcontext(Context(prec=DIGITS, Emin=MIN_EMIN)):
            complement = Decimal((1 - q).numerator) / Decimal((1 - q).denominator)
            odds = Decimal(q.numerator) / Decimal((1 - q).numerator)  # one denominator
            # In decimals: each term errs by a few units of the 60th digit per voter, so the next double above the
            # nearest is above the exact term. Binomial coefficients of a large K overflow.
            chances = [complement**K]
            for r in range(K):
                chances.append(chances[-1] * (K - r) / (r + 1) * odds)
            return cls(tuple(min(1.0, math.nextafter(float(term), math.inf)) for term in chances))

    @property
    def K(self) -> int:
        """Voters."""
        return len(self.chances) - 1

    @property
    def mean(self) -> float:
        """Average number of voters that one record affects, except for rounding."""
        return float(np.arange(self.K + 1) @ np.array(self.chances))

    def parts(self, slack: float, most: int = MAX_GROUPS) -> tuple[list[CountGroup], float]:
        """Return groups that cover all counts but the far end, and the probability of that far end.

        Guarantees: Σ over parts of chance·D_count + the rest is at least Σ_r Pr[r]·D_r for every D that grows from D_0
        = 0 to at most 1.
        """
        # The far end of the distribution is charged as a certain loss, within the slack: otherwise each of its counts
        # would need a recursion.
        last, beyond = self.K, 0.0
        while last > 0 and (far_chance := up(beyond + self.chances[last], 1)) <= slack:
            last, beyond = last - 1, far_chance if self.chances[last] else beyond
        first, near_chance = 1, 0.0
        while (
            first < last
            and last - first >= most
            and (near_chance := near_chance + self.chances[first]) <= NEAR_END_CHANCE
        ):
            first += 1
        # D grows with the count, so a group is covered by its largest one.
        ends = np.unique(np.linspace(last, first, min(most, last - first + 1)).round().astype(int)).tolist()
        groups, start = [], 1
        for end in ends if last else ():
            chance = float_above(sum((Fraction(self.chances[r]) for r in range(start, end + 1)), Fraction(0)))
            start = end + 1
            if chance:
                groups.append(CountGroup(end, min(1.0, chance)))
        return groups, beyond


@dataclass(frozen=True)
class MixtureTotal:
    """Total privacy of the releases, averaged over the number of voters that one record affects."""

    parts: tuple[CountGroup, ...]  # groups of counts that cover the distribution
    deltas: tuple[Callable[[float], float], ...]  # for each of them ε ↦ D_count(ε), sound
    beyond: float  # probability of the far end, charged as a certain loss
    max_loss: float  # an ε from which δ is constant [nats]

    def delta(self, epsilon: float) -> float:
        """Return δ at ``epsilon`` ≥ 0 [nats], rounded up."""
        total = sum(shares := self.shares(epsilon), self.beyond)
        return min(1.0, up(total, len(shares) + 2)) if total else 0.0

    def shares(self, epsilon: float) -> list[float]:
        """Return the contribution of each part to δ at ``epsilon`` [probability]."""
        return [part.chance * delta(epsilon) for part, delta in zip(self.parts, self.deltas, strict=True)]

    def epsilon(self, delta: float) -> float:
        """Return ε [nats] at ``delta`` [probability] in [0, 1)."""
        delta = Privacy(0.0, delta).delta
        floor = self.delta(self.max_loss)
        if not is_within(floor, delta):
            raise DeltaTooSmall(delta, floor, "that is the probability of an infinite loss, over draws and answers")
        return least_epsilon(self.delta, delta, self.max_loss)

    def heaviest(self, epsilon: float) -> CountGroup | None:
        """Return the part that adds most to δ at ``epsilon`` [nats]; None if nothing is added."""
        shares = self.shares(epsilon)
        return self.parts[int(np.argmax(shares))] if shares and max(shares) > 0 else None


def mixture_total(
    gamma: ArrayLike | NoiseFunction,
    problem: Problem,
    queries: int,
    distribution: AffectedDistribution,
    *,
    fresh: bool = False,
    total_delta: float = 0.0,
    points: int | None = None,
) -> MixtureTotal:
    """Return the total privacy of releases of any γ, by the exact recursion averaged over the affected voters.

    Private voters trained once are taken as not private if they answer more than one query: given the draw, their own
    privacy does not compose.

    The voters' own privacy must hold given the draw, whose effect is counted here. One draw serves all queries.
    ``total_delta`` is where ε will be evaluated: the share `NEGLECTED_SHARE` of it covers the far end. Sound for any
    number of ``points``; None for about a second of work.

    Guarantees: Sound at every ε.
    Source: joint convexity of the hockey-stick divergence; docs/proofs.md.

    >>> voters = Problem(5, Privacy(math.inf), Privacy(1.0))
    >>> gamma = NoiseFunction.from_upper_half([0.1, 0.2, 0.3], 5)
    >>> total = mixture_total(gamma, voters, 3, AffectedDistribution.binomial(5, 0.1), total_delta=0.01)
    >>> total.epsilon(0.01) < mixture_total(gamma, voters, 3, AffectedDistribution.exactly(5, 5)).epsilon(0.01)
    True
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if distribution.K != problem.K:
        raise InvalidInput("distribution", distribution.K, f"a distribution over 0..{problem.K} voters")
    noise, problem = NoiseFunction(gamma, problem.K), effective_voters(problem, queries, fresh=fresh)
    parts, beyond = count_groups(problem, queries, distribution, total_delta)
    if points is None:
        points = min(MAX_POINTS, max(MIN_POINTS, int(MAX_UPDATES / (queries * max(1, len(parts))))))
    # Lines of a region that matter little are omitted: many releases share an allowance, and long sequences are
    # coarser.
    coarsening = min(MAX_LINE_RISE, LINE_RISE * queries), NEGLECTED_SHARE * total_delta / queries
    curves = [
        _profile_at_count(noise, with_affected(problem, part.count), queries, points, coarsening) for part in parts
    ]
    max_loss = max((flat_from for _, flat_from in curves), default=0.0)
    return MixtureTotal(tuple(parts), tuple(delta for delta, _ in curves), beyond, max_loss)


def count_groups(
    problem: Problem, queries: int, distribution: AffectedDistribution, total_delta: float
) -> tuple[list[CountGroup], float]:
    """Return the groups of `mixture_total`, and the probability that it charges as a certain loss."""
    most = MAX_GROUPS if problem.voter.epsilon == math.inf else MAX_PRIVATE_GROUPS
    groups = min(most, max(MIN_GROUPS, int(MAX_STEPS / queries)))
    return distribution.parts(NEGLECTED_SHARE * Privacy(0.0, total_delta).delta, groups)


def with_affected(problem: Problem, count: int) -> Problem:
    """Return the problem with ``count`` affected voters."""
    return Problem(problem.K, problem.voter, problem.target, count)


def _profile_at_count(
    noise: NoiseFunction, problem: Problem, queries: int, points: int, coarsening: tuple[float, float]
) -> tuple[Callable[[float], float], float]:
    """Return ε ↦ D_r(ε) for the problem's r, and an ε beyond which it is flat."""
    private = problem.voter.epsilon < math.inf
    release = NoisyMajority(noise, problem).profile if private else BitPairs.of_gamma(noise, problem.affected)
    if queries == 1:
        return release.delta, release.max_loss
    # The time of the recursion is proportional to the vertices: use the exact region if it has few, otherwise a larger
    # one inside fewer lines, which is also sound.
    if isinstance(release, BitPairs) and problem.K <= MAX_EXACT_VOTERS:
        region = release.region
    else:
        profile = release_profile(noise, problem, tolerance=TOLERANCE) if isinstance(release, BitPairs) else release
        region = profile.coarser(*coarsening)
    total = compose_bits([(region, queries)], points=points)
    return total.delta, up((total.values.size - 1) * total.step, 4)


@dataclass(frozen=True, eq=False)
class BaggedMajority:
    """The majority of voters of whom a record affects a random number, released through a γ; as for `mixture_total`."""

    noise: NoiseFunction
    problem: Problem
    distribution: AffectedDistribution
    fresh: bool = False

    @property
    def guarantee(self) -> ReleaseGuarantee:
        """Guarantee of one release, for `darrm_opt.accounting.total.total_of`.

        >>> from darrm_opt.accounting.total import estimated_epsilon, total_of
        >>> gamma = NoiseFunction.from_upper_half([0.1, 0.2, 0.3], 5)
        >>> law = AffectedDistribution.binomial(5, 0.1)
        >>> parts = [(BaggedMajority(gamma, Problem(5, Privacy(math.inf), Privacy(1.0)), law).guarantee, 30)]
        >>> 0.8 < estimated_epsilon(parts, 0.01) / total_of(parts, 0.01).epsilon < 1.2
        True
        """
        return ReleaseGuarantee(bagged=self)

    def epsilon(self, queries: int, delta: float) -> float:
        """Return the total ε of `mixture_total` at a total δ [nats]."""
        total = mixture_total(self.noise, self.problem, queries, self.distribution, fresh=self.fresh, total_delta=delta)
        return total.epsilon(delta)

    def estimate(self, queries: int, delta: float) -> float | None:
        """Return an estimate, not a proof, of the same; None if there is none.

        For each number of affected voters, one Gaussian mechanism of the same Hellinger distances.
        """
        parts, beyond = count_groups(self.problem, queries, self.distribution, delta)
        majorities = [NoisyMajority(self.noise, with_affected(self.problem, part.count)) for part in parts]
        shifts = [estimated_shift([(majority.guarantee, queries)]) for majority in majorities]

        def delta_at(epsilon: float) -> float:
            shares = [
                part.chance * (1.0 if shift is None or shift == math.inf else gaussian_delta(shift, epsilon))
                for part, shift in zip(parts, shifts, strict=True)
                if shift != 0
            ]
            return beyond + sum(shares)

        floor = delta_at(MAX_TARGET_EPSILON)
        return math.inf if floor > delta else least_epsilon(delta_at, delta, MAX_TARGET_EPSILON)
