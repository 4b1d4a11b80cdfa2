"""Data-dependent bounds against every vote count of small problems, by laws that are enumerated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.cases import for_each
from support.label_laws import checked_law, label_law, renyi
from support.plurality_exact import neighbours, vote_counts
from support.refusals import refused, refuses

from darrm_opt.accounting.labels.data_dependent import UnpublishedLoss, label_envelope
from darrm_opt.accounting.labels.vote_release import VoteRelease
from darrm_papers.pate import sensitive_rdp


def largest_within(values: dict[tuple[int, ...], float], moved: int) -> dict[tuple[int, ...], float]:
    """Largest value at each vote count over all that ``moved`` voters can make of it."""
    for _ in range(moved):
        values = {n: max(values[n], *(values[m] for m in neighbours(n, 1))) for n in values}
    return values


@for_each("moved", [0, 1, 2])
@for_each("order", [1.5, 3.0, 8.0])
@for_each(("K", "classes", "sigma"), [(6, 2, 1.5), (6, 3, 1.0), (12, 3, 1.3), (9, 4, 2.0)])
def test_no_vote_count_within_reach_reveals_more(K: int, classes: int, sigma: float, order: float, moved: int) -> None:
    counts = list(vote_counts(K, classes))
    local = {n: max(renyi(label_law(n, sigma), label_law(m, sigma), order) for m in neighbours(n, 1)) for n in counts}
    for n, true in largest_within(local, moved).items():
        assert true <= UnpublishedLoss(np.array([n]), sigma, order).renyi(moved) * (1 + 1e-9) + 1e-12, n


@for_each("moved", [0, 1])
@for_each("threshold", [3, 5.5])
def test_checks_are_included(threshold: float, moved: int) -> None:
    sigma, check_sigma, order = 1.2, 1.5, 4.0
    counts = list(vote_counts(6, 3))
    laws = {n: checked_law(n, sigma, threshold, check_sigma) for n in counts}
    local = {n: max(renyi(laws[n], laws[m], order) for m in neighbours(n, 1)) for n in counts}
    for n, true in largest_within(local, moved).items():
        loss = UnpublishedLoss(np.array([n]), sigma, order, threshold, check_sigma)
        assert true <= loss.renyi(moved) * (1 + 1e-9) + 1e-12, n


@for_each("threshold", [30.0, 38.0, 44.0])
def test_a_check_alone_is_bounded_in_both_directions(threshold: float) -> None:
    """Unanimous voters but two: the label shows nothing, so all is the check of a count of one more or less."""
    x = np.arange(-60, 61)
    masses = np.exp(-x * x / 8.0)
    passes = {top: float(masses[top + x >= threshold].sum() / masses.sum()) for top in (37, 38, 39)}
    laws = {top: np.array([each, 1 - each]) for top, each in passes.items()}
    found = UnpublishedLoss(np.array([[38, 1, 1]]), 2.0, 4.0, threshold, 2.0).renyi()
    largest = max(renyi(laws[38], laws[top], 4.0) for top in (37, 39))
    assert largest <= found * (1 + 1e-9)
    assert found <= 1.01 * largest


@for_each("step", [-3, -1, 1, 3])
@for_each("leader", [20, 30, 37])
def test_a_check_is_charged_for_every_count_that_voters_may_move_to(leader: int, step: int) -> None:
    """Below the threshold a vote more shows most, above it one less."""
    here, there = (
        UnpublishedLoss(np.array([[n, 40 - n]]), 30.0, 4.0, threshold=29.0, check_sigma=2.0)
        for n in (leader, leader + step)
    )
    assert here.renyi(abs(step)) >= there.renyi() * (1 - 1e-12)


@for_each("order", [1.5, 4.0])
@for_each("counts", [(5, 4, 3), (4, 4, 4), (7, 3, 2), (6, 5, 1)])
def test_a_vote_that_moves_behind_the_leader_is_bounded_by_itself(counts: tuple[int, int, int], order: float) -> None:
    envelope, law = label_envelope(1.5, order, two=False, largest=12), label_law(counts, 1.5)
    margins = np.array([[counts[0] - count for count in counts[1:]]])
    bound = float(envelope._between_others(margins)[0])
    first, second, third = counts
    for moved in ((first, second + 1, third - 1), (first, second - 1, third + 1)):
        true = math.expm1((order - 1) * renyi(law, label_law(moved, 1.5), order)) / (order * (order - 1))
        assert true <= bound * (1 + 1e-9)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_it_is_close_to_the_truth_where_the_leader_is_ahead(classes: int) -> None:
    sigma, order, K = 20.0, 12.0, 150
    for leader in (105, 125, 145):
        rest, left = divmod(K - leader, classes - 1)
        n = (leader, *(rest + (c < left) for c in range(classes - 1)))
        true = max(renyi(label_law(n, sigma), label_law(m, sigma), order) for m in neighbours(n, 1))
        assert true <= UnpublishedLoss(np.array([n]), sigma, order).renyi() <= 1.2 * true


def test_it_grows_with_the_voters_moved_and_reaches_the_price_of_any_votes() -> None:
    counts = np.random.default_rng(5).multinomial(60, [0.7, 0.2, 0.1], size=30)
    loss = UnpublishedLoss(counts, 5.0, 8.0)
    values = [loss.renyi(moved) for moved in range(61)]
    assert values == sorted(values)
    any_votes = float(VoteRelease("label", 5.0, "discrete").divergence(3).renyi(np.array([8.0]))[0])
    assert values[-1] == pytest.approx(30 * any_votes, rel=1e-9)


def test_a_neighbour_is_within_one_more_voter() -> None:
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
def test_it_is_at_most_four_fifths_of_the_authors_algorithm(agreement: float) -> None:
    sigma, order, K = 40.0, 20.0, 250
    shares = [agreement, *[(1 - agreement) / 9] * 9]
    counts = np.random.default_rng(7).multinomial(K, shares, size=20)
    published = sum(sensitive_rdp(row, sigma, order, kind="continuous").value for row in counts)
    assert UnpublishedLoss(counts, sigma, order).renyi() <= 0.8 * published


def test_no_query_reveals_nothing() -> None:
    assert UnpublishedLoss(np.zeros((0, 3), dtype=int), 2.0, 4.0).renyi() == 0.0


def test_bad_input_is_named() -> None:
    counts = [np.array(wrong) for wrong in ([[1.5, 2.5]], [[3], [3]], [[2, 1], [2, 2]], [[0, 0]])]
    valid = {"counts": np.array([[3, 1]]), "sigma": 2.0, "order": 4.0}
    refuses(UnpublishedLoss, valid, counts=counts, sigma=[0.5], order=[1.0, math.inf])
    with refused("check_sigma"):
        UnpublishedLoss(np.array([[3, 1]]), 2.0, 4.0, threshold=2.0)


def test_a_negative_number_of_voters_is_refused() -> None:
    with refused("moved"):
        UnpublishedLoss(np.array([[3, 1]]), 2.0, 4.0).renyi(-1)
