"""Laws of labels of a sample, for any votes: each from the rule, by enumeration of the truncated noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt.accounting.labels import sampled_argmax
from darrm_opt.noise import Array

SIGMA, REACH = 0.75, 1

TIES = [(1 / (m + 1), 1 / (m + 2), 1 / (m + 3)) for m in range(1, 7)]
"""Shares of one to three given classes if m other classes tie with them."""

CORNERS = [(0, 0, 0), (1 / 8, 0, 0), (1 / 8, 1 / 8, 0), (1 / 8, 1 / 8, 1 / 8)]  # the same for more than six


def masses(reach: int = REACH, sigma: float = SIGMA) -> dict[int, float]:
    weights = {k: math.exp(-k * k / (2 * sigma * sigma)) for k in range(-reach, reach + 1)}
    return {k: weight / sum(weights.values()) for k, weight in weights.items()}


def law(means: Sequence[int], ties: Sequence[float] | None) -> list[float]:
    """Return the probabilities of classes with these means, and of the others, whose largest value is 0 (None: −∞)."""
    noise, chances = masses(), [0.0] * (len(means) + 1)
    for draws in product(noise, repeat=len(means)):
        chance = math.prod(noise[draw] for draw in draws)
        values = [mean + draw for mean, draw in zip(means, draws, strict=True)]
        top = max(values) if ties is None else max(0, *values)
        first = [n for n, value in enumerate(values) if value == top]
        share = ties[len(first) - 1] if ties is not None and first and not top else 1 / max(1, len(first))
        for n in first:
            chances[n] += share * chance
        chances[-1] += (1 - share * len(first)) * chance
    return chances if ties is not None else chances[:-1]


def check(found: Sequence[Array], bases: list[tuple[int, ...]], ties: list[Any]) -> None:
    """Compare laws with one more vote for the first class, the second, and so on."""
    for place, laws in enumerate(found):
        means = [tuple(mean + (n == place) for n, mean in enumerate(base)) for base in bases]
        exact = [law(each, tie) for tie in ties for each in means]
        np.testing.assert_allclose(laws, exact, rtol=1e-13, atol=1e-15)


@for_each(("others", "ties"), [(1, TIES[:1]), (6, TIES), (9, [*TIES, *CORNERS])])
def test_cells_follow_the_rule(others: int, ties: list[Any]) -> None:
    """At all means, from one that cannot win with one more vote to one that cannot lose with one less."""
    noise, means = sampled_argmax._CutNoise(SIGMA, REACH), range(-REACH - 2, REACH + 1)
    check(sampled_argmax._three_cells(noise, others), [*product(means, repeat=2)], ties)
    check(sampled_argmax._four_cells(noise, others), [*product(means, repeat=3)], ties)


def test_cells_of_the_only_classes_that_can_win_follow_the_rule() -> None:
    noise = sampled_argmax._CutNoise(SIGMA, REACH)
    apart = range(-2 * REACH - 2, 2 * REACH + 3)  # so far apart that one vote changes nothing
    check(sampled_argmax._three_alone(noise), [(0, i, j) for i, j in product(apart, repeat=2)], [None])
    off, on = sampled_argmax._two_cells(noise)
    leads = range(-2 * REACH - 1, 2 * REACH + 2)
    np.testing.assert_allclose(off, [law((lead + 1, 0), None) for lead in leads], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(on, [law((lead - 1, 0), None) for lead in leads], rtol=1e-13, atol=1e-15)


# ------------------------------------------------------------------------------------------- which laws are listed


def test_noise_is_truncated_at_the_least_end_within_the_probability() -> None:
    for end, chance in ((11, sampled_argmax.cut_chance(11)), (12, sampled_argmax.cut_chance(11) * 0.999), (20, 0.0)):
        assert sampled_argmax.cut_end(chance) == end
    assert sampled_argmax.cut_end(1.0) == sampled_argmax.MIN_END
    assert sampled_argmax.cut_chance(9) == pytest.approx(2 * math.exp(-40.5) / 9 / math.sqrt(2 * math.pi), rel=1e-14)


@for_each("listed", [True, False])
def test_a_label_has_the_laws_of_its_cells_or_of_noisy_counts(listed: bool) -> None:
    chance = sampled_argmax.cut_chance(10) / 2  # for two classes, and 5/2 of it for two counts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled_argmax, "sampled_label_laws", lambda *of: ("cells", *of) if listed else None)
        patch.setattr(sampled_argmax, "sampled_counts", lambda *of: ("counts", *of))
        for classes, affected, neighbours in product((2, 5), (1, 2), ("add-remove", "replace-one")):
            found: Any = sampled_argmax.sampled_labels(3.0, classes, affected, neighbours, classes * chance)  # type: ignore[arg-type]
            if listed and affected == 1:
                assert found == ("cells", 3.0, classes, neighbours, 11)
            elif classes == 2 or (affected == 1 and neighbours == "add-remove"):
                assert found == ("counts", 3.0, affected, neighbours, 11 if classes == 2 else 10)
            else:
                assert found is None
        patch.setattr(sampled_argmax, "counts_of_any_votes", lambda *of: of)
        if not listed:
            of_any: list[Any] = [sampled_argmax.label_of_any_votes(3.0, *of) for of in ((2, 1), (4, 1), (2, 3), (4, 3))]
            assert of_any == [(3.0, 2, 1), (3.0, 2, 1), (3.0, 2, 3), (3.0, 4, 3)]


@for_each(
    ("classes", "neighbours", "shapes"),
    [  # by the numbers of means and of ties, with a reach of 1
        (2, "add-remove", [(7, 2)]),
        (3, "add-remove", [(7, 2), (25, 3)]),
        (4, "add-remove", [(7, 2), (50, 3)]),
        (2, "replace-one", [(7, 2)] * 2),
        (3, "replace-one", [(7, 2), (25, 3)] * 2 + [(81, 3)]),
        (5, "replace-one", [(7, 2), (75, 3)] * 2 + [(81, 3), (250, 4)]),
    ],
)
def test_laws_are_listed_up_to_their_limits(classes: int, neighbours: Any, shapes: list[tuple[int, int]]) -> None:
    listed, end = sampled_argmax.sampled_label_laws.__wrapped__, 2
    sigma, width, ways = 0.5, 6, max(0, classes - 2)
    triples = ways * width**2
    if neighbours == "replace-one":
        triples = 2 * triples + (max(0, classes - 3) * width**3 + 4 * width**2 if classes > 2 else 0)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MIN_SIGMA", sigma), ("MAX_TRIPLES", triples), ("MAX_WIDTH", width)):
            patch.setattr(sampled_argmax, name, value)
        found = listed(sigma, classes, neighbours, end)
        assert found is not None
        assert [each.off.shape for each in found] == shapes
        assert {each.missing for each in found} == {classes * sampled_argmax.cut_chance(end)}
        for name, value in (("MIN_SIGMA", 0.51), ("MAX_TRIPLES", triples - 1), ("MAX_WIDTH", width - 1)):
            with pytest.MonkeyPatch.context() as beyond:
                beyond.setattr(sampled_argmax, name, value)
                assert listed(sigma, classes, neighbours, end) is None


# ------------------------------------------------------------------------------------------- noisy counts, checks


@for_each(("affected", "neighbours"), [(1, "add-remove"), (2, "replace-one")])
def test_the_laws_of_counts_are_listed_by_their_lead(affected: int, neighbours: Any) -> None:
    """Leads of −last..last, by sums over both noises; those possible on one side only are one answer each."""
    sigma, end, last = 0.5, 9, 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled_argmax, "MIN_SIGMA", sigma)
        patch.setattr(sampled_argmax, "MAX_LEAD", last)
        found = sampled_argmax.sampled_counts.__wrapped__(sigma, affected, neighbours, end)
        assert sampled_argmax.sampled_counts.__wrapped__(sigma, 5, neighbours, end) is None  # beyond all leads
        patch.setattr(sampled_argmax, "MIN_SIGMA", 0.49)
        assert sampled_argmax.sampled_counts.__wrapped__(sigma, affected, neighbours, end) is not None
        patch.setattr(sampled_argmax, "MAX_LEAD", last - 1)
        assert sampled_argmax.sampled_counts.__wrapped__(sigma, affected, neighbours, end) is None
    leads = {
        d: sum(math.exp(-(k**2 + (k - d) ** 2) / (2 * sigma**2)) for k in range(-40, 41))
        for d in range(-last, last + 1)
    }
    total, shift = sum(leads.values()), 2 * affected
    off = [leads[d] / total for d in range(-last + shift, last + 1)]
    off += [sum(leads[d] for d in range(-last, -last + shift)) / total, 0.0]
    assert found is not None
    np.testing.assert_allclose(found[0].off, np.array([off]), rtol=1e-12)
    on = [leads[d - shift] / total for d in range(-last + shift, last + 1)] + [0.0, off[-2]]
    laws: list[Any] = [found[0].on] if neighbours == "add-remove" else [found[0].other, found[1].on]
    for each in laws:
        np.testing.assert_allclose(each, np.array([on]), rtol=1e-12)
    assert {each.missing for each in found} == {2 * sampled_argmax.cut_chance(end)}


def test_one_moved_vote_gives_the_cells_of_a_label() -> None:
    cells, found = sampled_argmax.sampled_label_laws(0.5, 3, "add-remove"), sampled_argmax.label_of_any_votes(0.5, 3, 1)
    assert cells is not None
    assert found.missing == cells[0].missing
    assert found.pairs.on_data.shape == (2 * sum(each.off.shape[0] for each in cells), 3)


def test_few_leads_are_not_merged(move: Callable[..., None]) -> None:
    """At the limit, and above it with both ends kept."""
    off, on = (np.exp(-((np.arange(9.0) - mean) ** 2) / 8) for mean in (4, 5))
    move(sampled_argmax, ATOMS=9)
    assert sampled_argmax._joined_atoms(off, on, 0.25)[0] is off
    move(sampled_argmax, ATOMS=3)
    few = sampled_argmax._joined_atoms(off, on, 0.25)
    ratio = np.exp(0.25 * (np.array([0, 4, 8]) - 4.5))
    np.testing.assert_allclose(few[1] / few[0], ratio, rtol=1e-12)
    np.testing.assert_allclose([law.sum() for law in few], [off.sum(), on.sum()], rtol=1e-12)


@for_each("affected", [1, 2])
def test_laws_of_counts_and_checks_are_sums_of_noise(affected: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled_argmax, "MIN_END", 1)
        check = sampled_argmax.check_of_any_votes(SIGMA, affected)
        counts = sampled_argmax.counts_of_any_votes(SIGMA, 4, affected)
        assert counts.missing == affected * sampled_argmax.cut_chance(1)
    noise = masses()
    # Thresholds from below all noise to above it, with the largest count there and moved.
    passes = {
        t: [sum(m for k, m in noise.items() if k >= t), sum(m for k, m in noise.items() if k < t)] for t in range(-9, 9)
    }
    places = range(-REACH - affected, REACH + 2)
    here, there = ([passes[t + move_by] for t in places] for move_by in (0, affected))
    np.testing.assert_allclose(check.pairs.on_data, here + there, rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(check.pairs.on_neighbour, there + here, rtol=1e-13, atol=1e-16)
    pairs = []
    for gains in [(1,)] if affected == 1 else [(2,), (1, 1)]:
        chances: dict[int, float] = {}
        for draws in product(noise, repeat=len(gains)):
            value = sum(gain * (draw + REACH) for gain, draw in zip(gains, draws, strict=True))
            chances[value] = chances.get(value, 0.0) + math.prod(noise[draw] for draw in draws)
        moved, size = sum(gain**2 for gain in gains), affected * (2 * REACH + affected) + 1
        at, then = ([chances.get(n - start, 0.0) for n in range(size)] for start in (0, moved))
        pairs += [(at, then), (then, at)]
    np.testing.assert_allclose(counts.pairs.on_data, [p for p, _ in pairs], rtol=1e-13)
    np.testing.assert_allclose(counts.pairs.on_neighbour, [q for _, q in pairs], rtol=1e-13)


def test_votes_are_gained_by_up_to_all_other_classes() -> None:
    """All partitions in both orders: (3), (2, 1) and (1, 1, 1)."""
    rows = [sampled_argmax.counts_of_any_votes(SIGMA, classes, 3).pairs.on_data.shape[0] for classes in (2, 3, 4, 5)]
    assert rows == [2, 4, 6, 6]
    assert sampled_argmax._gains(4, 2, 3) == [(2, 2), (2, 1, 1)]
