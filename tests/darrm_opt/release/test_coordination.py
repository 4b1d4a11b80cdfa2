"""Coordinated votes: against a race in sixty digits, their law, and the probability that voters agree."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.refusals import refused

from darrm_opt.mechanisms import mechanism_class
from darrm_opt.randomness import PublicRandomness, RandomSource, SeededRandomnessForTestsOnly
from darrm_opt.release import PrivateVote, coordinated_votes
from darrm_opt.release.coordination import _race

SEED = b"sixteen bytes or more"


def raced(table: NDArray[np.float64], source: RandomSource, bits: int) -> list[int]:
    """Return the same votes from all bits at once, in decimals."""
    words = [source.words(table.shape[1], bits) for _ in range(1 + 192 // bits)]
    with localcontext() as context:
        context.prec = 120
        times = []
        for label in range(table.shape[1]):
            number = 0
            for block in words:
                number = (number << bits) + int(block[label])
            uniform = Decimal(2 * number + 1) / Decimal(2 ** (bits * len(words) + 1))
            times.append(-(1 - uniform).ln())
        return [
            min((time / Decimal(float(p)), label) for label, (time, p) in enumerate(zip(times, row, strict=True)) if p)[
                1
            ]
            for row in table
        ]


@pytest.mark.parametrize("bits", [1, 2, 5, 64])
def test_every_vote_is_the_winner_of_the_race_for_any_width_of_words(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for seed in range(60):
        table = rng.dirichlet(np.full(6, 0.5), size=4)
        table[rng.random(table.shape) < 0.2] = 0.0
        table[:, 0] += 1e-12  # every row has a positive weight
        table[1] *= 5e-324 / table[1].min(where=table[1] > 0, initial=1.0)  # down to the smallest double
        ours = _race(table, SeededRandomnessForTestsOnly(seed), bits)
        assert ours.tolist() == raced(table, SeededRandomnessForTestsOnly(seed), bits)


def test_a_voter_votes_the_same_alone_and_among_others() -> None:
    table = np.random.default_rng(3).dirichlet(np.ones(5), size=8)
    for bits in (1, 64):
        for seed in range(20):
            together = _race(table, PublicRandomness(SEED + bytes([seed])), bits)
            alone = [_race(row[None, :], PublicRandomness(SEED + bytes([seed])), bits)[0] for row in table]
            assert together.tolist() == alone


def test_votes_have_the_law_of_their_voters_and_agree_with_the_stated_probability() -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.3, 0.5, 0.1])
    draws = 8_000
    source = SeededRandomnessForTestsOnly(7)
    votes = np.array([coordinated_votes([p, 3 * q], source) for _ in range(draws)])
    for law, column in ((p, votes[:, 0]), (q, votes[:, 1])):
        found = np.bincount(column, minlength=4) / draws
        assert np.all(np.abs(found - law) <= 4.5 * np.sqrt(law * (1 - law) / draws))
    agree = sum(1 / sum(max(a / p[j], b / q[j]) for a, b in zip(p, q, strict=True)) for j in range(4) if p[j] and q[j])
    distance = np.abs(p - q).sum() / 2
    assert (1 - distance) / (1 + distance) <= agree <= 1 - distance
    assert abs((votes[:, 0] == votes[:, 1]).mean() - agree) <= 4.5 * math.sqrt(agree * (1 - agree) / draws)


def test_coordinated_voters_release_a_plausible_word_where_independent_ones_release_noise() -> None:
    K, words, plausible = 100, 300, 20
    laws = np.zeros((K, words))
    laws[:, :plausible] = np.random.default_rng(5).dirichlet(np.full(plausible, 50.0), size=K)
    source, rng = SeededRandomnessForTestsOnly(1), np.random.default_rng(1)
    vote = PrivateVote(mechanism_class("permute_and_flip").of(K, words, 0.3), source=SeededRandomnessForTestsOnly(2))
    together = sum((vote.release(coordinated_votes(laws, source)) or 0) < plausible for _ in range(30))
    apart = sum((vote.release([rng.choice(words, p=law) for law in laws]) or 0) < plausible for _ in range(30))
    assert together >= 28
    assert apart <= 15


class Constant(RandomSource):
    """A source of one byte."""

    def octets(self, count: int) -> bytes:
        return bytes(count)


@pytest.mark.parametrize(
    "wrong",
    [
        [0.5, 0.5],
        [[]],
        [[0.0, 0.0]],
        [[-1.0, 2.0]],
        [[math.nan, 1.0]],
        [[math.inf, 1.0]],
        [["a", "b"]],
        np.ma.array([[0.5, 0.5]], mask=[[False, True]]),
    ],
)
def test_invalid_laws_are_refused(wrong: Any) -> None:
    with refused("probabilities") as error:
        coordinated_votes(wrong)
    assert "nan" not in str(error.value)


def test_a_repeating_source_and_a_short_seed_are_refused() -> None:
    with refused("source"):
        coordinated_votes([[0.5, 0.5]], Constant())
    for seed in (b"short", "text of sixteen or more", 7):
        with refused("seed"):
            PublicRandomness(seed)
    assert PublicRandomness(SEED).octets(5) == PublicRandomness(SEED).octets(5)
    source = PublicRandomness(SEED)
    assert source.octets(8) != source.octets(8)
