"""Propose-test-release: its (ε, δ) on every data set of small problems, and its utility."""

from __future__ import annotations

import json
import math
from copy import copy
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from campaigns import earned, earned_enumerated, enumerated
from support.cases import for_each
from support.label_laws import label_law
from support.paths import ROOT
from support.refusals import refused as refused_input

from darrm_opt.accounting import propose_test_release as ptr
from darrm_opt.accounting import published_loss
from darrm_opt.accounting.labels.data_dependent import UnpublishedLoss
from darrm_opt.accounting.labels.discrete_gaussian_argmax import MASS_ERROR, LatticeNoise
from darrm_opt.accounting.labels.vote_release import VoteRelease
from darrm_opt.accounting.propose_test_release import (
    Proposal,
    Reference,
    _least_threshold,
    check_that_it_pays,
    propose,
    ptr_epsilon,
)
from darrm_opt.accounting.published_loss import CONFIDENCE, SMOOTHNESS, publish_loss, smooth_loss, unpublished_epsilon
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.problem import Privacy
from darrm_opt.randomness import SeededRandomnessForTestsOnly
from darrm_opt.rounding import ULP


@for_each("number", range(8))
def test_it_is_private_on_every_data_set_and_neighbour(number: int) -> None:
    """A short form of `make earned-enumerated`: on no data set and neighbour is the loss above the total."""
    assert not earned_enumerated.examine(earned_enumerated.random_case(Random(f"suite {number}")))


def test_an_unsound_test_is_detected() -> None:
    proposal = earned_enumerated.extreme_proposal(NoisyMaximum(3, 2, 1.0).batch(2), Privacy(1.5, 0.05), 3.0, 3.0)
    assert proposal is not None
    law = enumerated.noisy_law(enumerated.gaussian_masses(1.0))
    assert not earned_enumerated.examine(earned_enumerated.Case(proposal, law))
    for name, value in (("test_threshold", 0), ("target", 50.0)):
        wrong = copy(proposal)
        object.__setattr__(wrong, name, value)
        assert any("total" in each for each in earned_enumerated.examine(earned_enumerated.Case(wrong, law)))


@for_each("total", [Privacy(2.0, 0.3), Privacy(2.6, 0.15), Privacy(4.0, 0.05), Privacy(9.0, 1e-4)])
def test_the_least_threshold_is_found(total: Privacy) -> None:
    for test_sigma in (2.0, 3.0, 5.5):
        proposal = earned_enumerated.extreme_proposal(NoisyMaximum(4, 2, 2.0).batch(1), total, 4.0, test_sigma)
        assert proposal is not None
        assert _least_threshold(total, test_sigma) == proposal.test_threshold


def test_the_loss_of_any_votes_is_the_sum_over_labels_and_checks() -> None:
    batch = NoisyMaximum(20, 3, 3.0, threshold=10.0, check_sigma=5.0).batch(7)
    parts = VoteRelease("label", 3.0, "discrete"), VoteRelease("check", 5.0, "discrete")
    each = [Fraction(float(part.divergence(3).renyi(np.array([4.0]))[0])) for part in parts]
    assert 7 * sum(each) <= Fraction(batch.renyi(4.0)) <= 7 * sum(each) * (1 + Fraction(1, 2**47))


def test_a_total_of_0_or_infinity_is_refused() -> None:
    for epsilon in (0.0, math.inf):
        with refused_input("epsilon", repr(epsilon)):
            propose(NoisyMaximum(60, 3, 5.0).batch(30), Privacy(epsilon, 1e-4))


def test_the_campaign_writes_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short form of `make earned`: few labels, at the agreement where the test passes least often."""
    batch = NoisyMaximum(250, 10, 20.0).batch(60)
    row = earned.measure("85% agree", batch, 0.6, [earned.drawn_votes(0.85, 60, seed=0)])
    assert row.stated == pytest.approx(0.6 * batch.epsilon(1e-5))
    assert row.passes >= 0.95
    assert row.labels < row.stated < row.any_votes
    page = tmp_path / "page.md"
    monkeypatch.setattr(earned, "measure", lambda votes, *_: replace(row, votes=votes))
    monkeypatch.setattr(earned, "digit_votes", lambda *_: [])  # would train 120 teachers
    assert earned.main(["--sets", "1", "--labels", "286", "--write", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert [line.split(" |")[0] for line in text.splitlines() if line.endswith(f"{row.seconds:.1f} |")] == [
        *("| 75% agree", "| 85% agree", "| 92% agree", "| 96% agree", "| digits"),
        *("| 75% agree, checked", "| 85% agree, checked", "| 92% agree, checked", "| 96% agree, checked"),
    ]
    assert "`make earned ARGS='--sets 1 --seed 0 --labels 286'`" in text


def test_the_documentation_states_rows_of_the_campaign() -> None:
    page = " ".join((ROOT / "docs" / "label_accounting.md").read_text(encoding="utf-8").split())
    rows = {
        cells[0]: cells
        for line in (ROOT / "docs" / "scale.md").read_text(encoding="utf-8").splitlines()
        if (cells := [cell.strip() for cell in line.strip("|").split("|")])[1:2] == ["1000"]
    }
    (any_votes, stated, passes), (*_, others) = (
        (cells[2], cells[7].split()[0], cells[8]) for cells in (rows["85% agree"], rows["75% agree"])
    )
    assert f"the labels cost {any_votes} for any votes. If 85 % of the teachers agree" in page
    assert f"a test that states {stated} passes with probability {passes}; if 75 % agree, with {others} (" in page


@pytest.mark.parametrize("check", [(), (18.5, 3.0)], ids=["labels", "checked"])
def test_a_smooth_bound_changes_by_at_most_its_smoothness(check: tuple[float, ...]) -> None:
    random = np.random.default_rng(8)
    for _ in range(12):
        votes = random.choice(3, p=[0.8, 0.1, 0.1], size=(6, 25))
        changed = votes.copy()
        changed[:, random.integers(25)] = random.integers(3, size=6)
        losses = [
            UnpublishedLoss(np.stack([(v == c).sum(axis=1) for c in range(3)], axis=1), 2.0, 5.0, *check)
            for v in (votes, changed)
        ]
        here, there = (math.log(smooth_loss(loss, SMOOTHNESS)) for loss in losses)
        assert abs(here - there) <= SMOOTHNESS * (1 + 1e-9)
        assert smooth_loss(losses[0], SMOOTHNESS) >= losses[0].renyi()


@pytest.mark.parametrize("check", [{}, {"threshold": 14.0, "check_sigma": 3.0}], ids=["labels", "checked"])
def test_a_published_bound_holds_with_the_stated_confidence(check: dict[str, Any]) -> None:
    batch = NoisyMaximum(20, 3, 3.0, **check).batch(10)
    counts = np.tile([18, 1, 1], (10, 1))
    source = SeededRandomnessForTestsOnly(9)
    published = [publish_loss(batch, counts, 1e-3, source=source) for _ in range(8)]
    true = batch.loss(counts, published[0].order).renyi()
    holds = sum(each.renyi >= true for each in published)
    assert holds >= 8 * CONFIDENCE - 3 * math.sqrt(8 * CONFIDENCE * (1 - CONFIDENCE))
    assert len({each.renyi for each in published}) > 5
    assert all(each.epsilon <= batch.epsilon(1e-3) for each in published)
    assert published[0].spent.epsilon < 1


PATE = NoisyMaximum(150, 3, 20.0).batch(400)


def test_the_least_total_is_the_least_at_which_the_reference_passes() -> None:
    least, reference = ptr_epsilon(PATE, 1e-5), Reference(PATE, 0.9)
    assert least.total.epsilon < 0.5 * PATE.epsilon(1e-5)
    again, chance = reference.proposal(least.total)
    assert (again, chance >= 0.99) == (least, True)
    assert reference.proposal(Privacy(least.total.epsilon / 1.02, 1e-5))[1] < 0.99
    assert check_that_it_pays(least) >= 0.99
    # Votes like the reference batch pass, and their unpublished loss is below the stated total.
    counts = np.tile([135, 8, 7], (400, 1))
    assert least.pass_chance(least.unpublished_distance(counts)) > 0.95
    assert unpublished_epsilon(PATE, counts, 1e-5).epsilon < least.total.epsilon
    assert ptr_epsilon(PATE, 1e-5, leader_share=0.95).total.epsilon < least.total.epsilon


def test_a_proposal_without_benefit_is_refused() -> None:
    few = NoisyMaximum(20, 2, 5.0).batch(10)
    with pytest.raises(InvalidInput, match="does not pay for 20 voters") as refused:
        ptr_epsilon(few, 1e-5)
    assert refused.value.argument == "leader_share"
    dear = Privacy(PATE.epsilon(1e-5), 1e-5)
    with refused_input("epsilon"):
        check_that_it_pays(propose(PATE, dear))
    with refused_input("epsilon", "0.6"):
        check_that_it_pays(propose(PATE, Privacy(0.6, 1e-5)))


def test_the_record_of_a_proposal_is_verified() -> None:
    made = propose(PATE, Privacy(2.5, 1e-5))
    record = json.loads(json.dumps(made.record()))
    assert Proposal.from_record(PATE, made.total, record) == made
    for change in ({"test_threshold": made.test_threshold - 1}, {"target": made.target * 1.01}, {"order": None}):
        with pytest.raises(InvalidInput):
            Proposal.from_record(PATE, made.total, {**record, **change})
    with refused_input("proposal"):
        Proposal.from_record(PATE, made.total, {name: record[name] for name in record if name != "order"})


def test_the_unpublished_epsilon_is_at_least_the_exact_loss() -> None:
    """For all neighbours and labels: no event exceeds its (ε, δ)."""
    batch, sigma = NoisyMaximum(5, 2, 2.0).batch(2), 2.0
    counts = np.array([[4, 1], [5, 0]])
    found = unpublished_epsilon(batch, counts, 1e-2)
    here = np.outer(*(label_law(tuple(map(int, row)), sigma) for row in counts)).ravel()
    for moves in product((-1, 0, 1), repeat=2):
        there = counts + np.array([[move, -move] for move in moves])
        if np.any(there < 0):
            continue
        law = np.outer(*(label_law(tuple(map(int, row)), sigma) for row in there)).ravel()
        assert np.maximum(here - math.exp(found.epsilon) * law, 0.0).sum() <= 1e-2


@for_each(
    ("make", "argument"),
    [
        (lambda: ptr_epsilon(PATE, 1e-5, chance=1.0), "chance"),
        (lambda: ptr_epsilon(PATE, 0.0), "delta"),
        (lambda: unpublished_epsilon(NoisyMaximum(5, 2, 2.0).batch(1), np.array([[3, 2]]), 1.0), "delta"),
        (lambda: NoisyMaximum(5, 2, 2.0).batch(0), "queries"),
        (lambda: NoisyMaximum(5, 2, 0.5).batch(1), "sigma"),
        (lambda: NoisyMaximum(5, 2, 2.0).batch(1).loss(np.array([[3, 2], [4, 1]]), 4.0), "counts"),
        (lambda: NoisyMaximum(5, 2, 2.0).batch(1).loss(np.array([[3, 1]]), 4.0), "counts"),
        (lambda: propose(NoisyMaximum(5, 2, 2.0).batch(1), Privacy(1.0, 0.0)), "delta"),
        (lambda: propose(NoisyMaximum(5, 2, 2.0).batch(1), Privacy(0.0, 1e-5)), "epsilon"),
        (lambda: propose(NoisyMaximum(5, 2, 2.0).batch(1), Privacy(1e-3, 1e-9)), "epsilon"),
        (lambda: propose(NoisyMaximum(5, 2, 2.0).batch(1), Privacy(1.0, 1e-5), leader_share=0.5), "leader_share"),
        (lambda: Proposal(NoisyMaximum(5, 2, 2.0).batch(1), Privacy(1.0, 1e-5), 20.0, 5.0, 3, 0.1), "test_threshold"),
        (lambda: Proposal(NoisyMaximum(5, 2, 2.0).batch(1), Privacy(1.0, 1e-5), 20.0, 5.0, 40, 1.0), "target"),
        (lambda: smooth_loss(UnpublishedLoss(np.array([[3, 2]]), 2.0, 4.0), 0.0), "smoothness"),
        (lambda: publish_loss(NoisyMaximum(5, 2, 2.0).batch(1), np.array([[3, 2]]), 1e-5, sigma=0.5), "sigma"),
    ],
)
def test_invalid_arguments_are_refused(make: object, argument: str) -> None:
    with refused_input(argument):
        make()  # type: ignore[operator]  # a function without arguments


# ------------------------------------------------------------------------------------------- each step by its definition


def test_a_target_is_the_rest_of_the_total() -> None:
    """ε − ln(1 − 1/λ) + ln(δλ)/(λ − 1) − D_λ(test), up to rounding."""
    total, order, sigma = Privacy(3.0, 1e-4), 9.0, 4.0
    test = float(VoteRelease("check", sigma, "discrete").divergence().renyi(np.array([order]))[0])
    exact = 3 - math.log(8 / 9) + math.log(9e-4) / 8 - test
    target = ptr._target(total, order, sigma)
    assert target == pytest.approx(exact - 4 * 2.0**-40, abs=1e-14)
    with refused_input("target", "0.0"):
        Proposal(NoisyMaximum(5, 2, 2.0).batch(1), total, order, sigma, 40, 0.0)


def test_there_is_no_target_if_rounding_exceeds_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    total = Privacy(3.0, 1e-4)
    for epsilon, holds in ((3.0, True), (math.nextafter(3.0, 4.0), False), (math.nan, False)):
        monkeypatch.setattr(ptr, "rdp_epsilon", lambda *_, epsilon=epsilon: (epsilon, 9.0))
        assert (ptr._target(total, 9.0, 4.0) is not None) == holds
    monkeypatch.setattr(ptr, "rdp_epsilon", lambda *_: (0.0, 9.0))
    left = ptr._target(Privacy(50.0, 1e-4), 9.0, 4.0)
    assert left is not None
    assert ptr._target(Privacy(50.0 - left - 1e-9, 1e-4), 9.0, 4.0) is None


def test_a_threshold_is_the_first_whose_tail_is_within_the_rest_of_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptr, "rdp_delta", lambda *_: (1e-40, 2.0))
    noise = LatticeNoise(2.0, 0.0)
    tails = (noise.at_least(np.arange(noise.end + 2)) * (1 + MASS_ERROR)).tolist()
    for place in (3, 5, noise.end - 1, noise.end):
        least = tails[place] + 1e-40
        assert _least_threshold(Privacy(1.0, least), 2.0) == place
        assert _least_threshold(Privacy(1.0, least * (1 - MASS_ERROR / 4)), 2.0) == place + 1
    assert _least_threshold(Privacy(1.0, tails[-1] + 1e-40), 2.0) == noise.end + 2
    monkeypatch.setattr(ptr, "rdp_delta", lambda *_: (tails[3], 2.0))  # the test itself uses δ
    assert _least_threshold(Privacy(1.0, 1.5 * tails[3]), 2.0) > 3


def test_a_noisy_distance_passes_at_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    proposal = propose(NoisyMaximum(60, 3, 10.0).batch(20), Privacy(3.0, 1e-3))
    monkeypatch.setattr(Proposal, "unpublished_distance", lambda *_: 7)
    for noise, passes in ((-1, False), (0, True), (1, True)):
        drawn = proposal.test_threshold - 7 + noise
        monkeypatch.setattr(ptr, "discrete_gaussian", lambda *_, drawn=drawn: drawn)
        assert proposal.passes(np.zeros((20, 3), np.int64)) == passes


def test_a_failed_test_spends_a_delta_below_1() -> None:
    proposal = propose(NoisyMaximum(60, 3, 10.0).batch(20), Privacy(3.0, 0.5))
    assert proposal.failed(0.75).delta == math.nextafter(1.0, 0.0) or proposal.failed(0.75).delta == 1 - 2.0**-52
    assert proposal.failed(0.25).delta == 0.75


def test_reference_votes_are_spread_evenly_around_their_share() -> None:
    few = Reference(NoisyMaximum(40, 4, 3.0).batch(3), 0.7)._counts.tolist()
    assert few == [[22, 6, 6, 6], [28, 4, 4, 4], [34, 2, 2, 2]]
    assert Reference(NoisyMaximum(40, 2, 3.0).batch(3), 0.6)._counts.tolist() == [[22, 18], [24, 16], [26, 14]]
    assert len(Reference(NoisyMaximum(40, 2, 3.0).batch(1000), 0.6)._counts) == ptr.REFERENCE_ROWS
    assert Reference(NoisyMaximum(41, 4, 3.0).batch(1), 0.5)._counts.sum() == 41


def test_the_proposal_has_the_largest_margin_of_the_reference() -> None:
    batch, total = NoisyMaximum(60, 3, 10.0).batch(20), Privacy(1.0, 1e-4)
    reference = Reference(batch, 0.9)
    scores = {}
    for order, sigma in product(ptr.TRIED_ORDERS, ptr.TEST_SIGMAS):
        if (target := ptr._target(total, order, sigma)) is not None:
            scores[order, sigma] = (reference.distance(order, target) - _least_threshold(total, sigma)) / sigma
    found, chance = reference.proposal(total)
    assert (found.order, found.test_sigma) == max(scores, key=scores.__getitem__)
    assert reference.distance(4.0, 1e-9) == 0
    assert chance == found.pass_chance(reference.distance(found.order, found.target))
    for epsilon in (0.0, math.inf):
        with pytest.raises(InvalidInput, match="a finite number of nats above 0"):
            reference.proposal(Privacy(epsilon, 1e-3))


def test_a_probability_of_passing_equal_to_the_required_one_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = NoisyMaximum(40, 2, 4.0).batch(100)
    _, chance = Reference(batch, 0.8).proposal(Privacy(batch.epsilon(1e-5), 1e-5))
    assert ptr_epsilon(batch, 1e-5, leader_share=0.8, chance=chance).total.epsilon <= batch.epsilon(1e-5)
    proposal = propose(NoisyMaximum(60, 3, 5.0).batch(200), Privacy(3.0, 1e-5))
    monkeypatch.setattr(Proposal, "pass_chance", lambda *_: 0.5)
    assert check_that_it_pays(proposal) == 0.5


@for_each("jump", [0, 1, 17, 39, 40])
def test_a_smooth_bound_is_the_maximum_and_evaluates_few(jump: int) -> None:
    asked: list[int] = []

    def bound(moved: int) -> float:
        asked.append(moved)
        return 3.0 + moved / 50 if moved >= jump else 1.0

    for smoothness in (0.01, 0.05, 0.4):
        largest = max(math.exp(-smoothness * moved) * bound(moved) for moved in range(41))
        asked.clear()
        assert largest <= published_loss._smooth(bound, 40, smoothness) <= largest * (1 + 1e-14)
        assert len(asked) <= 11


def test_a_published_loss_is_the_noisy_logarithm_of_its_smooth_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, counts = NoisyMaximum(20, 3, 3.0).batch(10), np.tile([15, 3, 2], (10, 1))
    steps, sigma = published_loss.STEPS, published_loss.STEPS * published_loss.PUBLICATION_SIGMA
    masses = np.exp(-(np.arange(-1000, 1001) ** 2) / (2 * sigma**2))
    above = np.cumsum(masses[::-1])[::-1] / masses.sum()  # Pr[X ≥ k], k from −1000
    margin = next(m for m in range(1000) if above[1000 - m] >= CONFIDENCE)
    for wanted in (-2972, -2608, 2601, 2993):
        smooth = math.exp(SMOOTHNESS * wanted / steps)
        exact = steps * math.log(smooth) / SMOOTHNESS
        assert abs(exact - wanted) <= 4 * ULP * abs(wanted)  # so close that only rounding up bounds it
        monkeypatch.setattr(published_loss, "smooth_loss", lambda *_, smooth=smooth: smooth)
        monkeypatch.setattr(published_loss, "discrete_gaussian", lambda *_, wanted=wanted: -wanted - 3000)
        found = publish_loss(batch, counts, 1e-5).renyi
        with localcontext(prec=40):
            least = (Decimal(SMOOTHNESS) * (1 + margin - 3000) / steps).exp()
            units = (Decimal(found) / least - 1) / Decimal(ULP)
        assert 8 < units < 24
