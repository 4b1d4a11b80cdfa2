"""Data-dependent bounds against all vote counts of small problems, by enumerated laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.label_laws import checked_law, label_law, renyi
from support.plurality_exact import neighbours, vote_counts
from support.refusals import refused, refuses

from darrm_opt.accounting.labels import data_dependent
from darrm_opt.accounting.labels.data_dependent import LabelEnvelope, LogTails, UnpublishedLoss
from darrm_opt.accounting.labels.discrete_gaussian_argmax import (
    PERIODS,
    LatticeNoise,
    censored_lattice,
    lattice_bit_values,
    pair_divergences,
    tie_laws,
)
from darrm_opt.accounting.labels.power_divergence import gaussian_divergence, largest_loss_term
from darrm_opt.accounting.labels.vote_release import VoteRelease
from darrm_papers.pate import sensitive_rdp


def largest_within(values: dict[tuple[int, ...], float], moved: int) -> dict[tuple[int, ...], float]:
    """Return for each vote count the largest value over all counts within ``moved`` moved votes."""
    for _ in range(moved):
        values = {n: max(values[n], *(values[m] for m in neighbours(n, 1))) for n in values}
    return values


@for_each("moved", [0, 1, 2])
@for_each("order", [1.5, 3.0, 8.0, 35.0, 70.0])
@for_each(("K", "classes", "sigma"), [(6, 2, 1.5), (6, 3, 1.0), (12, 3, 1.3), (9, 4, 2.0)])
def test_no_vote_count_within_reach_has_a_larger_loss(
    K: int, classes: int, sigma: float, order: float, moved: int
) -> None:
    counts = list(vote_counts(K, classes))
    local = {n: max(renyi(label_law(n, sigma), label_law(m, sigma), order) for m in neighbours(n, 1)) for n in counts}
    for n, true in largest_within(local, moved).items():
        assert true <= UnpublishedLoss(np.array([n]), sigma, order).renyi(moved) * (1 + 1e-9) + 1e-12, n


@for_each("moved", [0, 1])
@for_each("threshold", [3, 5.5])
@for_each("order", [4.0, 25.0, 70.0])
def test_checks_are_included(order: float, threshold: float, moved: int) -> None:
    sigma, check_sigma = 1.2, 1.5
    counts = list(vote_counts(6, 3))
    laws = {n: checked_law(n, sigma, threshold, check_sigma) for n in counts}
    local = {n: max(renyi(laws[n], laws[m], order) for m in neighbours(n, 1)) for n in counts}
    for n, true in largest_within(local, moved).items():
        loss = UnpublishedLoss(np.array([n]), sigma, order, threshold, check_sigma)
        assert true <= loss.renyi(moved) * (1 + 1e-9) + 1e-12, n


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_it_is_close_to_the_exact_loss_if_the_leader_is_ahead(classes: int) -> None:
    sigma, order, K = 20.0, 12.0, 150
    for leader in (105, 125, 145):
        rest, left = divmod(K - leader, classes - 1)
        n = (leader, *(rest + (c < left) for c in range(classes - 1)))
        true = max(renyi(label_law(n, sigma), label_law(m, sigma), order) for m in neighbours(n, 1))
        assert true <= UnpublishedLoss(np.array([n]), sigma, order).renyi() <= 1.2 * true


def test_it_increases_with_the_moved_voters_up_to_the_loss_of_any_votes() -> None:
    counts = np.random.default_rng(5).multinomial(60, [0.7, 0.2, 0.1], size=30)
    loss = UnpublishedLoss(counts, 5.0, 8.0)
    values = [loss.renyi(moved) for moved in range(61)]
    assert values == sorted(values)
    any_votes = float(VoteRelease("label", 5.0, "discrete").divergence(3).renyi(np.array([8.0]))[0])
    assert values[-1] == pytest.approx(30 * any_votes, rel=1e-9)


def test_a_neighbour_has_at_most_the_loss_with_one_more_voter_moved() -> None:
    random = np.random.default_rng(6)
    for _ in range(40):
        votes = random.choice(3, p=[0.75, 0.15, 0.1], size=(8, 30))
        changed = votes.copy()
        changed[:, random.integers(30)] = random.integers(3, size=8)
        here, there = (
            UnpublishedLoss(np.stack([(v == c).sum(axis=1) for c in range(3)], axis=1), 2.0, 5.0)
            for v in (votes, changed)
        )
        for moved in range(6):
            assert here.renyi(moved) <= there.renyi(moved + 1)


@pytest.mark.parametrize("agreement", [0.8, 0.9, 0.96])
def test_it_is_at_most_four_fifths_of_the_published_algorithm(agreement: float) -> None:
    sigma, order, K = 40.0, 20.0, 250
    shares = [agreement, *[(1 - agreement) / 9] * 9]
    counts = np.random.default_rng(7).multinomial(K, shares, size=20)
    published = sum(sensitive_rdp(row, sigma, order, kind="continuous").value for row in counts)
    assert UnpublishedLoss(counts, sigma, order).renyi() <= 0.8 * published


def test_zero_queries_have_no_loss() -> None:
    assert UnpublishedLoss(np.zeros((0, 3), dtype=int), 2.0, 4.0).renyi() == 0.0


def test_invalid_arguments_are_refused() -> None:
    counts = [np.array(wrong) for wrong in ([[1.5, 2.5]], [[3], [3]], [[2, 1], [2, 2]], [[0, 0]])]
    valid = {"counts": np.array([[3, 1]]), "sigma": 2.0, "order": 4.0}
    refuses(UnpublishedLoss, valid, counts=counts, sigma=[0.5], order=[1.0, math.inf])
    with refused("check_sigma"):
        UnpublishedLoss(np.array([[3, 1]]), 2.0, 4.0, threshold=2.0)


def test_a_negative_number_of_voters_is_refused() -> None:
    with refused("moved"):
        UnpublishedLoss(np.array([[3, 1]]), 2.0, 4.0).renyi(-1)


# ------------------------------------------------------------------------------------------- step by step

SIGMA, ORDER, LARGEST, UNIT = 1.5, 3.0, 6, 2.0**-9
REACH, FAR = 3, 12
"""A class has separate entries from 2σ below M; the distances of the leader from M end at 8σ above it."""


@pytest.fixture
def envelope(move: Callable[..., None]) -> LabelEnvelope:
    """Return bounds of a small table, with visible units of rounding."""
    move(data_dependent, REACH=2.0, MAX_SUM=6.0, MASS_ERROR=UNIT, ULP=UNIT)
    data_dependent.three_cell_laws.cache_clear()
    return LabelEnvelope(SIGMA, ORDER, two=False, largest=LARGEST)


def divergence_of(p: list[float], q: list[float]) -> float:
    return float(pair_divergences(np.array([p]), np.array([q]), np.array([ORDER]))[0, 0])


def chance(noise: LatticeNoise, k: int) -> list[float]:
    """Return Pr[X ≥ k] and Pr[X < k]."""
    return [float(noise.at_least(np.array(k))), float(noise.below(np.array(k)))]


def pair_of(margin: int, step: int) -> float:
    """Return the largest H of the winner of two counts, at a margin and at larger ones."""
    found = []
    for each, odd, won_ties in product(range(margin, LARGEST + 1), (0, 1), (0, 1)):
        noise = LatticeNoise(SIGMA / math.sqrt(2), odd / 2, 30.0)
        least = math.ceil((each + 1 - won_ties - odd) / 2)
        found.append(divergence_of(chance(noise, least), chance(noise, least + step)))
    return max(found)


def test_two_classes_are_bounded_by_their_difference(envelope: LabelEnvelope) -> None:
    two = LabelEnvelope(SIGMA, ORDER, two=True, largest=LARGEST)
    exact = [[pair_of(margin, step) for margin in range(LARGEST + 1)] for step in (-1, 1)]
    np.testing.assert_allclose(two._votes, exact, rtol=1e-12)
    found = two.at(np.array([[2], [LARGEST], [99]]))
    assert found.tolist() == pytest.approx([max(each[n] for each in exact) for n in (2, LARGEST, LARGEST)], rel=1e-12)
    assert envelope._product == ORDER * (ORDER - 1)
    assert LabelEnvelope(SIGMA, ORDER, two=True, largest=99)._largest == REACH + FAR


def test_three_classes_are_bounded_by_their_regions(envelope: LabelEnvelope) -> None:
    noise, orders = LatticeNoise(SIGMA, 0.0, 30.0), np.array([ORDER])
    single = float(lattice_bit_values(SIGMA, 0.0, 1, orders)[0])
    counts = float(gaussian_divergence(math.sqrt(2) / SIGMA * (1 + PERIODS), orders)[0])
    both_below = chance(LatticeNoise(SIGMA / math.sqrt(2), 0.0, 30.0), 1 - math.floor(6 * SIGMA / 2))[1]
    for table, step in zip(envelope._votes, (-1, 1), strict=True):
        tail = float(censored_lattice(SIGMA, 0.0, REACH, -step, orders)[0])
        reached = (1 + 4 * UNIT) * sum(
            float(noise.at(np.array(k))) * math.exp(-(ORDER - 1) * -step * (2 * k + step) / (2 * SIGMA**2))
            for k in range(REACH, noise.end + 1)
        )
        alone = [pair_of(gap, step) + both_below * counts for gap in range(LARGEST + 1)]

        def rare(distance: int, step: int = step, tail: float = tail, reached: float = reached) -> float:
            bit = max(divergence_of(chance(noise, t), chance(noise, t - step)) for t in (-distance, 1 - distance))
            return tail + (1 + ORDER * (ORDER - 1) * tail) * bit + reached * single

        values, kinds = np.zeros((LARGEST + 1, REACH + FAR + 1)), set()
        for gap, place in np.ndindex(values.shape):
            leader = place - REACH
            if 2 * leader - gap >= 6 * SIGMA:
                kinds.add("high")
                values[gap, place] = alone[gap]
            elif leader - gap < -REACH:
                kinds.add("low")
                values[gap, place] = rare(leader)
            else:
                kinds.add("middle")
                here, there = (
                    tie_laws(noise, np.array([leader + move]), np.array([leader - gap - move])) for move in (0, step)
                )
                values[gap, place] = max(
                    divergence_of(p[0].tolist(), q[0].tolist()) for p, q in zip(here, there, strict=True)
                )
        values[:, -1] = np.maximum(values[:, -1], np.maximum(alone, rare(FAR)))
        for gap, place in np.ndindex(values.shape):
            assert table[gap, place] == pytest.approx(values[gap:, place:].max(), rel=1e-11)
        assert kinds == {"high", "low", "middle"}


def test_regions_meet_at_their_bounds() -> None:
    """With integer bounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_dependent, "REACH", 2.0)
        patch.setattr(data_dependent, "MAX_SUM", 3.0)
        gaps, leader, rival, low, high = data_dependent.regions(2.0, 9)
    assert leader.shape == (10, 4 + 10 + 1)
    for gap, place in np.ndindex(leader.shape):
        d = place - 4
        assert (gaps[gap, place], leader[gap, place], rival[gap, place]) == (gap, d, d - gap)
        assert high[gap, place] == (2 * d - gap >= 6)
        assert low[gap, place] == (d - gap < -4 and 2 * d - gap < 6)


MARGINS = np.array([[0, 1, 1], [2, 2, 5], [1, 5, 7], [4, 6, 6]])


def test_votes_of_the_leader_and_of_others_are_means_over_the_largest_count(envelope: LabelEnvelope) -> None:
    """With any tables; equal margins have equal means."""
    rng, noise, places = np.random.default_rng(3), LatticeNoise(SIGMA, 0.0, 30.0), range(-REACH, FAR + 1)
    any_votes = float(data_dependent._any_votes(SIGMA, 3).at(np.array([ORDER]))[0])
    charge = 2 * chance(noise, REACH)[0] * any_votes
    assert envelope._charge == pytest.approx(charge, rel=1e-13)
    envelope._votes = [rng.random((LARGEST + 1, len(places))) for _ in range(2)]
    envelope._others = [rng.random(len(places)) for _ in range(2)]
    by_leader, by_others = envelope._with_leader(MARGINS), envelope._between_others(MARGINS[:, :2])
    for row, margins in enumerate(MARGINS.tolist()):
        means = []
        for rival, table in product(range(3), envelope._votes):
            ahead = [math.prod(chance(noise, margins[n] - d + 1)[1] for n in range(3) if n != rival) for d in places]
            masses = [here - beyond for here, beyond in zip(ahead, [*ahead[1:], 0.0], strict=True)]
            means.append(sum(m * t for m, t in zip(masses, table[min(margins[rival], LARGEST)], strict=True)))
        assert by_leader[row] == pytest.approx(max(means) * (1 + 2 * UNIT) + UNIT**3 + 3 * charge, rel=1e-11)
        means = []
        for order in ((0, 1), (1, 0)):
            total = 0.0
            for d in range(-REACH, REACH + 1):
                first, second = (
                    envelope._others[n][min(margins[place] + d, FAR) + REACH] for n, place in enumerate(order)
                )
                mass = float(noise.at(np.array(d)))
                total += mass * (first + second + ORDER * (ORDER - 1) * first * second)
            means.append(total)
        assert by_others[row] == pytest.approx(max(means) * (1 + 2 * UNIT) + charge, rel=1e-11)
    envelope._any = 99.0
    assert envelope.at(MARGINS).tolist() == np.maximum(by_leader, by_others).tolist()
    few = envelope.at(MARGINS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_dependent, "BLOCK", 2 * len(places))
        assert envelope.at(MARGINS).tolist() == pytest.approx(few.tolist(), rel=1e-14)


def test_a_censored_count_is_its_atom_and_the_rest(envelope: LabelEnvelope) -> None:
    noise, orders = LatticeNoise(SIGMA, 0.0, 30.0), np.array([ORDER])

    def term(loss: float) -> float:
        return float(largest_loss_term(np.array(loss - 3 * UNIT), np.array(loss + 3 * UNIT), orders)[0])

    for table, shift in zip(envelope._others, (-1, 1), strict=True):
        for value, d in zip(table.tolist(), range(-REACH, FAR + 1), strict=True):
            below, there = chance(noise, d)[1], chance(noise, d - shift)[1]
            exact = below * term(math.log(there / below))
            for k in range(d, noise.end + 1):
                exact += float(noise.at(np.array(k))) * term(shift * (2 * k - shift) / (2 * SIGMA**2))
            assert value == pytest.approx(exact * (1 + 4 * UNIT), rel=1e-11)


def test_the_losses_of_labels_are_those_of_reachable_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two votes move: a lead of four may become 0, one of five may become 1."""
    asked, order = list[Any](), 3.0

    def at(margins: Any) -> Any:
        asked.append(margins.tolist())
        return np.array([0.5, 0.25])[: len(margins)]

    any_votes: Any = SimpleNamespace(renyi=lambda _: np.array([0.875]))
    monkeypatch.setattr(data_dependent, "ULP", UNIT)
    monkeypatch.setattr(data_dependent, "_any_votes", lambda *_: any_votes)
    monkeypatch.setattr(data_dependent, "label_envelope", lambda *_, **__: SimpleNamespace(at=at))
    loss = UnpublishedLoss(np.array([[9, 5, 0], [9, 4, 1], [9, 4, 1], [10, 4, 0]]), 2.0, order)
    for least, most in ((2.0, 2.0), (2.1, 9.0), (1.0, 1.9)):
        monkeypatch.setattr(data_dependent, "MIN_SIGMA", least)
        monkeypatch.setattr(data_dependent, "MAX_SIGMA", most)
        found = loss._label_losses(2)
        one, two = (math.log1p(6 * h * (1 + 8 * UNIT)) / 2 * (1 + 32 * UNIT) for h in (0.5, 0.25))
        assert found.tolist() == pytest.approx([one, 0.875, two] if least == most else [0.875] * 3, rel=1e-14)
    assert asked == [[[1, 4], [2, 6]]]
    monkeypatch.setattr(UnpublishedLoss, "_label_losses", lambda *_: np.array([1.0, 2.0, 4.0]))
    assert loss.renyi(2) == (2 * 1 + 2 + 4) * (1 + (8 + 3) * UNIT)


def test_checks_are_charged_at_all_reachable_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    order, sigma, tails_of = 3.0, 2.0, list[Any]()
    chances = {k: 1 / (1 + math.exp(0.7 * k + 0.3)) for k in range(-30, 31)}
    law = np.vectorize(lambda k: math.log(chances[int(k)]))
    tails: Any = SimpleNamespace(at_least=law, below=lambda k: np.log1p(-np.exp(law(k))), error=0.125)

    def of(*given: Any) -> Any:
        tails_of.append(given)
        return tails

    monkeypatch.setattr(LogTails, "of", of)
    monkeypatch.setattr(data_dependent, "ULP", UNIT)
    most = 50.0
    bound: Any = SimpleNamespace(renyi=lambda _: np.array([most]))
    monkeypatch.setattr(data_dependent, "VoteRelease", lambda *_: SimpleNamespace(divergence=lambda: bound, sigma=2.0))
    loss = UnpublishedLoss(np.array([[9, 5, 0], [6, 4, 4]]), sigma, order, -6.5, sigma)
    labels = np.array([0.5, 0.25])  # in the order of rows: 6, 4, 4 first
    monkeypatch.setattr(data_dependent, "MAX_TAILS", 14 + 6 + 12 * sigma)
    found = loss._checked(labels, 1)
    assert tails_of == [(sigma, 14 + 6 + 2)]
    for value, largest, label in zip(found.tolist(), (6, 9), (0.5, 0.25), strict=True):
        joint = -math.inf
        for top, near in product(range(largest - 1, largest + 2), (-1, 0, 1)):
            here, there = (chances[-6 - each] for each in (top, top + near))
            powers = here**order / (there * math.exp(-label)) ** (order - 1)
            powers += (1 - here) ** order / (1 - there) ** (order - 1)
            joint = max(joint, math.log(powers))
        assert value == pytest.approx(joint / 2 * (1 + 32 * UNIT) + 7 * 0.125 / 2, rel=1e-12)
    monkeypatch.setattr(data_dependent, "MAX_TAILS", 14 + 6 + 12 * sigma - 1)
    assert loss._checked(labels, 1).tolist() == [50.5, 50.25]


def test_tails_err_by_their_steps_and_exponents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_dependent, "ULP", UNIT)
    for end, steps in ((5, 17), (50, 24)):
        exact = (8 * (steps + 16) + 8 * (end + 12) ** 2 / 2) * UNIT + math.exp(-72)
        assert LogTails(1.0, end).error == pytest.approx(exact, rel=1e-14)
    monkeypatch.setattr(data_dependent, "ULP", 0.0)
    assert LogTails(1.0, 5).error == math.exp(-72)
    with pytest.raises(Exception, match=r"at least 1\.001"):
        UnpublishedLoss(np.array([[3, 1]]), 2.0, 1.0)
