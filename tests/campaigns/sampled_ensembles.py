"""Sampled ensembles by enumeration: every sample, every assignment to voters, every transcript, in fractions.

Nothing here knows of q, of convexity or of pairs: records are drawn, shared out and answered, and the hockey-stick of
the best adaptive questions is added up. The oracle for `darrm_opt.accounting.sampled`, schemes that it refuses included.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from random import Random

from support.enumeration import whole

Share = tuple[int, ...]  # values of the records that one voter has, sorted
Vote = Callable[[int, Share], int]  # from a voter and its share to a class: one question, answered
Law = Callable[[tuple[int, ...]], Sequence[Fraction]]  # from vote counts to the probability of each output
Draw = Iterator[tuple[Fraction, tuple[Share, ...]]]  # chances of shares: one share for each voter


def shares(scheme: str, values: Sequence[int | None], K: int, sample: int, rate: Fraction) -> Draw:
    """Yield every way to draw the records and share them out.

    Args:
        scheme: of `darrm_opt.accounting.sampling`, or one of those that it refuses.
        values: of the records; None where there is none.
        K: voters.
        sample: s, or of each voter.
        rate: q of the Poisson schemes.
    """
    present = [value for value in values if value is not None]
    if scheme == "without-replacement":
        deals = list(permutations(range(len(values)), sample))
        for deal in deals:
            yield (
                Fraction(1, len(deals)),
                tuple(
                    tuple(sorted(present[place] for place in deal[voter * sample // K : (voter + 1) * sample // K]))
                    for voter in range(K)
                ),
            )
    elif scheme.startswith("poisson"):
        for size in range(len(present) + 1):
            for drawn in combinations(range(len(present)), size):
                chance = rate**size * (1 - rate) ** (len(present) - size)
                for part, owners in _owners(scheme, size, K):
                    yield (
                        chance * part,
                        tuple(
                            tuple(
                                sorted(present[place] for place, owner in zip(drawn, owners, strict=True) if owner == v)
                            )
                            for v in range(K)
                        ),
                    )
    else:
        picks = list(
            product(range(len(values)), repeat=sample)
            if scheme == "each-voter-with-replacement"
            else combinations(range(len(values)), sample)
        )
        for each in product(picks, repeat=K):
            yield (
                Fraction(1, len(picks) ** K),
                tuple(tuple(sorted(present[place] for place in pick)) for pick in each),
            )


def _owners(scheme: str, size: int, K: int) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    """Yield who gets each of the sampled records."""
    if scheme == "poisson":
        for owners in product(range(K), repeat=size):
            yield Fraction(1, K**size), owners
    elif scheme == "poisson-by-position":
        yield Fraction(1), tuple(place * K // size for place in range(size))
    else:
        orders = list(permutations(range(size)))
        for order in orders:
            yield Fraction(1, len(orders)), tuple(place % K for place in order)


def joint_law(
    draws: Sequence[tuple[Fraction, tuple[Share, ...]]], votes: Sequence[Vote], classes: int, law: Law
) -> dict[tuple[int, ...], Fraction]:
    """Return the law of the labels of one sample for one or several questions, put to the same voters."""
    total: dict[tuple[int, ...], Fraction] = {}
    for chance, each in draws:
        laws = []
        for vote in votes:
            counts = Counter(vote(voter, share) for voter, share in enumerate(each))
            laws.append(law(tuple(counts[label] for label in range(classes))))
        for outputs in product(*(range(len(one)) for one in laws)):
            joint = math.prod((one[o] for one, o in zip(laws, outputs, strict=True)), start=chance)
            total[outputs] = total.get(outputs, Fraction(0)) + joint
    return total


def worst_delta(
    pairs: Sequence[tuple[Sequence[Fraction], Sequence[Fraction]]], queries: int, slope: Fraction
) -> Fraction:
    """Return the largest Σ (P − slope·Q)₊ over all transcripts of the best adaptive choice among the pairs."""

    common, numerators = whole([law for pair in pairs for law in pair])
    scaled = [*zip(numerators[::2], numerators[1::2], strict=True)]

    def value(left: int, a: int, b: int) -> int:
        if left == 0 or a == 0:
            return max(0, a - b)
        return max(sum(value(left - 1, a * p, b * q) for p, q in zip(*pair, strict=True)) for pair in scaled)

    return Fraction(value(queries, slope.denominator, slope.numerator), slope.denominator * common**queries)


def question_pairs(
    scheme: str,
    data: Sequence[int | None],
    neighbour: Sequence[int | None],
    questions: Sequence[Sequence[Vote]],
    K: int,
    classes: int,
    law: Law,
    *,
    sample: int = 1,
    rate: Fraction = Fraction(1, 2),
) -> list[tuple[list[Fraction], list[Fraction]]]:
    """Return the laws of the answers on both sides, one pair for each question (or several questions to one sample)."""
    sides = [list(shares(scheme, values, K, sample, rate)) for values in (data, neighbour)]
    pairs = []
    for votes in questions:
        first, second = (joint_law(side, votes, classes, law) for side in sides)
        outputs = sorted(first.keys() | second.keys())
        pairs.append(([first.get(o, Fraction(0)) for o in outputs], [second.get(o, Fraction(0)) for o in outputs]))
    return pairs


def random_vote(rng: Random, classes: int) -> Vote:
    """Return a question to which every voter answers anything at all, by what it has."""
    answers: dict[tuple[int, Share], int] = {}

    def vote(voter: int, share: Share) -> int:
        return answers.setdefault((voter, share), rng.randrange(classes))

    return vote


def shown(value: int, label: int, other: int = 0) -> Vote:
    """Return the question whether a voter has a record of this value: it then votes ``label``, else ``other``."""
    return lambda _, share: label if value in share else other


def allocations(
    values: Sequence[int | None], K: int, among: int, times: int
) -> Iterator[tuple[Fraction, tuple[tuple[Share, ...], ...]]]:
    """Yield every way to give each record to a voter in ``times`` of ``among`` queries: the shares of each query."""
    present = [value for value in values if value is not None]
    each = [
        dict(zip(chosen, voters, strict=True))
        for chosen in combinations(range(among), times)
        for voters in product(range(K), repeat=times)
    ]
    for dealt in product(each, repeat=len(present)):
        yield (
            Fraction(1, len(each) ** len(present)),
            tuple(
                tuple(
                    tuple(sorted(value for value, of in zip(present, dealt, strict=True) if of.get(query) == voter))
                    for voter in range(K)
                )
                for query in range(among)
            ),
        )


def worst_allocated_delta(
    data: Sequence[int | None],
    neighbour: Sequence[int | None],
    questions: Sequence[Vote],
    shape: tuple[int, int],
    law: Law,
    *,
    among: int,
    times: int,
) -> Callable[[Fraction], Fraction]:
    """Return, as a function of the slope, the largest Σ (P − slope·Q)₊ over all transcripts of a round.

    Each question is chosen by the answers before. ``shape``: voters and classes.
    """
    K, classes = shape
    sides = [list(allocations(values, K, among, times)) for values in (data, neighbour)]

    def law_of(vote: Vote, shares: tuple[Share, ...]) -> Sequence[Fraction]:
        counts = Counter(vote(voter, share) for voter, share in enumerate(shares))
        return law(tuple(counts[label] for label in range(classes)))

    laws = [
        [[law_of(vote, shares[query]) for _, shares in side] for vote in questions for query in range(among)]
        for side in sides
    ]
    common, numerators = whole([law for side in laws for asked in side for law in asked])
    rows = iter(numerators)
    scaled = [[[next(rows) for _ in asked] for asked in side] for side in laws]

    def value(query: int, weights: Sequence[Sequence[int]]) -> int:
        if query == among:
            return max(0, sum(weights[0]) - sum(weights[1]))
        found = 0
        for number in range(len(questions)):
            chances = [side[number * among + query] for side in scaled]
            after = (
                [[w * c[o] for w, c in zip(*pair, strict=True)] for pair in zip(weights, chances, strict=True)]
                for o in range(len(chances[0][0]))
            )
            found = max(found, sum(value(query + 1, each) for each in after))
        return found

    draws = math.lcm(*(len(side) for side in sides))  # all of a side are equally likely

    def worst(slope: Fraction) -> Fraction:
        start = [
            [weight * draws // len(side)] * len(side)
            for weight, side in zip((slope.denominator, slope.numerator), sides, strict=True)
        ]
        return Fraction(value(0, start), slope.denominator * draws * common**among)

    return worst
