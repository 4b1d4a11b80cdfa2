"""Baselines: noise functions in closed form that γ_opt is compared with.

    subsampling          γ_Sub(l) = |2q(l) − 1|, the majority of m voters drawn without replacement
    double_subsampling   γ_DSub: γ_Sub with 2m − 1 voters at the privacy of m
    subsampling_mixture  a mixture of two γ_Sub, for any mean number of voters
    randomized_response  γ_const: the same γ for every l, from the privacy of the plain majority

γ_const needs (τε, λ), the privacy of the plain majority: `plain_majority` by composition over the voters, or
`plain_majority_sharp`, about twice as good and proved for Δ = 0. For even K a tie is a fair coin whatever γ(K/2) is; it
is stored as 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy
from darrm_opt.rounding import down, multiple_up, ratio_below

Composition = Callable[[float, float, int], Privacy]
"""(ε, δ) of one mechanism and the number of mechanisms → the privacy of all together."""

ADVANTAGE_ULPS = 16
"""Relative error of γ_const before rounding: two quotients of sums of positive terms, each sum and each
exponential within 4 units in the last place; 16 covers their ratio."""

_VOTERS = "a whole number of voters, at least 1"


def subsampling(K: int, m: int) -> NoiseFunction:
    """Return γ_Sub: release the majority of m voters drawn without replacement, ties by a fair coin.

    Args:
        K: number of voters, ≥ 1.
        m: voters drawn, 1..K.

    Returns:
        γ(l) = |2q(l) − 1|, q(l) = Pr[majority of the drawn is 1 | l ones], a tie counting one half.

    Guarantees:
        Exactly symmetric; each entry is the largest double at most the exact value.

    Raises:
        InvalidInput: K or m is not a whole number in its range.

    Source: Lemma 3.1 of the paper.

    >>> subsampling(K=4, m=1).values.tolist()
    [1.0, 0.5, 0.0, 0.5, 1.0]
    """
    K = whole_number(K, "K", _VOTERS)
    m = whole_number(m, "m", f"a whole number of voters to draw, from 1 to K = {K}", most=K)
    # An even draw with a coin for ties is the majority of that draw without one random member: at a
    # margin of 2 or more the member does not matter, and at a tie it decides either way with equal odds.
    t = (m + 1) // 2
    sample_size = 2 * t - 1
    samples = math.comb(K, sample_size)
    # score(l) = #(draws won by ones) − #(draws won by zeros). Turning one more voter to 1 turns the draws
    # that contain it with t−1 ones and t−1 zeros: score(l+1) = score(l) + 2·C(l, t−1)·C(K−l−1, t−1).
    increments = (2 * math.comb(l, t - 1) * math.comb(K - l - 1, t - 1) for l in range(K))
    scores = list(itertools.accumulate(increments, initial=-samples))
    upper = [ratio_below(score, samples) for score in scores[K // 2 + 1 :]]
    return NoiseFunction.from_upper_half(np.array(upper), K)


def subsampling_mixture(K: int, voters: float) -> NoiseFunction:
    """Return a mixture of γ_Sub: a coin independent of the votes decides how many voters are drawn.

    Source: Lemma 3.1 of the paper, mixed.

    >>> subsampling_mixture(3, 2.0).values.round(3).tolist()
    [1.0, 0.667, 0.667, 1.0]
    """
    K = whole_number(K, "K", _VOTERS)
    max_voters = K - 1 + K % 2
    mean = real_number(
        voters, "voters", f"a mean number of voters above 0, at most {max_voters}", above=0, most=max_voters
    )
    if mean <= 1:
        return NoiseFunction(subsampling(K, 1).values * mean)
    fewer = min(2 * int((mean - 1) / 2) + 1, max(1, max_voters - 2))
    share = (mean - fewer) / 2
    values = (1 - share) * subsampling(K, fewer).values + share * subsampling(K, min(fewer + 2, max_voters)).values
    return NoiseFunction(np.minimum(values, 1.0))


def double_subsampling(K: int, m: int) -> NoiseFunction:
    """Return γ_DSub: the privacy of m voters with the accuracy of 2m − 1.

    The paper proves mε-DP for identically distributed voters with Δ = δ = 0; it holds for any independent voters with
    Δ = δ = 0. The majority of 2t − 1 of them is tε-DP: given t ones under p, thin each one by e^{−ε}; the first t ones
    all survive with probability e^{−tε}, and p′ ≥ e^{−ε}p with monotonicity does the rest. A mixture over subsets drawn
    independently of the data keeps that. For Δ > 0 check the result with `verify` like any other γ.

    Args:
        K: number of voters, ≥ 1.
        m: privacy allowance, a whole number ≥ 1.

    Returns:
        γ_Sub with 2m − 1 voters; γ = 1 where m ≥ (K+1)/2.

    Guarantees:
        Exactly symmetric; each entry is the largest double at most the exact value.

    Raises:
        InvalidInput: K or m is not a whole number in its range.

    Source: Theorem 4.1 of the paper; beyond identically distributed voters ours.

    >>> double_subsampling(K=5, m=3).values.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    K = whole_number(K, "K", _VOTERS)
    m = whole_number(m, "m", "a whole privacy allowance, at least 1")
    if 2 * m >= K + 1:
        return NoiseFunction.from_upper_half(np.ones((K + 1) // 2), K)
    return subsampling(K, 2 * m - 1)


def randomized_response(K: int, target: Privacy, majority: Privacy) -> NoiseFunction:
    """Return γ_const: keep the plain majority with one probability, whatever the votes, else toss a fair coin.

    With s(ε, δ) = (e^ε − 1 + 2δ)/(e^ε + 1), Lemma A.1 reads γ = s(mε, δ)/s(τε, λ): the constraint at the corner (x, y)
    of the plain majority's (τε, λ) region, which binds for mε ≤ τε. For mε > τε the corner (λ, 0) binds, with
    γ = (e^{mε} − 1 + 2δ)/(e^{mε} − 1 + 2λ), and Lemma A.1 alone would not be private. The smaller γ is returned.

    Args:
        K: number of voters, ≥ 1.
        target: (mε, δ) of the release.
        majority: (τε, λ) of the plain majority; ε = ``inf`` if it is unknown.

    Returns:
        γ with the same value for every l ≠ K/2, at most 1.

    Guarantees:
        The stored value is at most the exact one: the release is (mε, δ)-DP if the plain majority is
        (τε, λ)-DP, for any K and any voters.

    Raises:
        InvalidInput: K is not a whole number ≥ 1, or a privacy is not a `Privacy`.

    Source: Lemma A.1 of the paper, with the corner (λ, 0) added.

    >>> round(float(randomized_response(3, Privacy(0.1), majority=Privacy(0.3)).values[0]), 12)
    0.335550012933
    """
    K = whole_number(K, "K", _VOTERS)
    for argument, privacy in (("target", target), ("majority", majority)):
        if not isinstance(privacy, Privacy):
            raise InvalidInput(argument, privacy, "a Privacy(epsilon, delta)")
    return NoiseFunction.from_upper_half(np.full((K + 1) // 2, _constant(target, majority)), K)


def _constant(target: Privacy, majority: Privacy) -> float:
    if target.epsilon >= majority.epsilon and target.delta >= majority.delta:
        return 1.0  # the plain majority is private enough; also the case 0/0
    ratio = _advantage(target) / _advantage(majority)
    if target.epsilon > majority.epsilon:
        shrink, gap = math.exp(-target.epsilon), -math.expm1(-target.epsilon)
        ratio = min(ratio, (gap + 2 * target.delta * shrink) / (gap + 2 * majority.delta * shrink))
    return min(down(ratio, ADVANTAGE_ULPS), 1.0)


def _advantage(privacy: Privacy) -> float:
    """Return s(ε, δ), divided by e^ε above and below: sums of positive terms, no overflow at any ε."""
    shrink = math.exp(-privacy.epsilon)
    return (-math.expm1(-privacy.epsilon) + 2 * privacy.delta * shrink) / (1 + shrink)


def plain_majority(
    K: int, voter: Privacy, affected: int | None = None, *, compose: Composition | None = None
) -> Privacy:
    """Return the privacy (τε, λ) of the plain majority, by composition over the voters.

    Args:
        K: number of voters, ≥ 1.
        voter: (ε, Δ) of one voter.
        affected: voters that one record can influence, 1..K; None means all K.
        compose: how (ε, Δ) composes over the voters; None is simple composition, (Kε, KΔ).

    Returns:
        The majority's privacy, rounded up; (inf, 0), no guarantee, if λ would reach 1.

    Raises:
        InvalidInput: a number is outside its range.

    Source: Lemma A.1 of the paper.

    >>> plain_majority(11, Privacy(0.5, 0.0625))
    Privacy(epsilon=5.5, delta=0.6875)
    """
    count = _affected_count(K, affected)
    if compose is not None:
        return compose(voter.epsilon, voter.delta, count)
    if voter.epsilon == math.inf:
        return Privacy(math.inf)
    failure = multiple_up(count, voter.delta)
    return Privacy(multiple_up(count, voter.epsilon), failure) if failure < 1 else Privacy(math.inf)


def plain_majority_sharp(K: int, voter: Privacy, affected: int | None = None) -> Privacy:
    """Return the privacy of the plain majority of independent pure-DP voters: ⌈K/2⌉·ε instead of K·ε.

    For odd K = 2t − 1 the majority is tε-DP (see `double_subsampling`). For even K, ties by a fair
    coin, it is the majority of K − 1 voters drawn at random, so K/2·ε. If a record reaches only r
    voters, r·ε holds as well.

    Args:
        K: number of voters, ≥ 1.
        voter: ε of one voter; Δ must be 0.
        affected: voters that one record can influence, 1..K; None means all K.

    Raises:
        InvalidInput: Δ > 0, for which this is not proved, or a number outside its range.

    Source: ours; the proof is in `double_subsampling`.

    >>> plain_majority_sharp(11, Privacy(0.5))
    Privacy(epsilon=3.0, delta=0.0)
    """
    count = min(_affected_count(K, affected), (K + 1) // 2)
    if voter.delta > 0:
        advice = "The sharper price of a plain majority is proved for Delta = 0 only: use plain_majority."
        raise InvalidInput("Delta", voter.delta, "Delta = 0", advice)
    if voter.epsilon == math.inf:
        return Privacy(math.inf)
    return Privacy(multiple_up(count, voter.epsilon))


def _affected_count(K: int, affected: int | None) -> int:
    K = whole_number(K, "K", _VOTERS)
    if affected is None:
        return K
    affected = whole_number(affected, "affected", "a whole number of voters, at least 1")
    if affected > K:
        raise InvalidInput("affected", affected, f"at most K = {K} voters")
    return affected
