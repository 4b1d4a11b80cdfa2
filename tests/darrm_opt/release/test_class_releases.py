"""Releases of a class: the sampler, exactly and at a stated power, the log, and refusals."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from support.cases import for_each
from support.noisy_votes import vote_total
from support.refusals import refused, refuses

from darrm_opt import NotPrivate, Privacy, Problem
from darrm_opt.accounting import PrivacyBudget, Sampling
from darrm_opt.accounting.calibrate import release_target
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism, mechanism_class, mechanism_from_record
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.mechanisms.selection import PermuteAndFlip
from darrm_opt.noise import NoiseFunction
from darrm_opt.plurality import ABSTENTION, Table, TableMechanism, count_votes, solve_table
from darrm_opt.problem import NOT_PRIVATE
from darrm_opt.randomness import RandomSource, SeededRandomnessForTestsOnly
from darrm_opt.release import (
    BudgetSpent,
    EnsembleSampler,
    PrivateVote,
    ReleaseCounter,
    ReleaseLog,
    ReleaseLogDamaged,
)
from darrm_opt.release.journal import Journal
from darrm_opt.tables.problem import partition_cells

PROBLEM = Problem(7, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3, abstention=True)
SOLUTION = solve_table(PROBLEM, "dirichlet(1)")


class Fixed(RandomSource):
    """A source of a given number."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.asked: list[int] = []

    def octets(self, count: int) -> bytes:
        raise AssertionError(f"{count} bytes were asked for, not a number")

    def below(self, n: int) -> int:
        self.asked.append(n)
        return self._number


# ---------------------------------------------------------------------------------------- the sampler


@pytest.mark.parametrize("abstention", [False, True])
def test_over_all_numbers_the_probabilities_are_exact(abstention: bool) -> None:
    rng = np.random.default_rng(5)
    problem = Problem(3, NOT_PRIVATE, Privacy(20.0, 0.9), 1, classes=3, abstention=abstention)
    cells = partition_cells(problem)
    values = (
        np.floor(rng.uniform(0.05, 0.25, cells.values.size) * 64) / 64
    )  # multiples of 1/64, so there are few numbers
    mechanism = TableMechanism(problem, Table(partition_cells(problem), values))
    for counts in [(3, 0, 0), (0, 2, 1), (1, 1, 1), (1, 0, 2)]:
        many = mechanism.table.denominator
        seen = Counter(mechanism.draw(counts, Fixed(number)) for number in range(many))
        expected = mechanism.table.probabilities(counts)
        assert [Fraction(seen[each], many) for each in range(3)] == expected[:3]
        assert Fraction(seen[ABSTENTION], many) == (expected[3] if abstention else 0)


def test_one_number_is_drawn_for_any_votes() -> None:
    mechanism = TableMechanism(PROBLEM, SOLUTION.table)
    asked = set()
    for counts in [(7, 0, 0), (3, 2, 2), (0, 3, 4)]:
        fixed = Fixed(0)
        mechanism.draw(counts, fixed)
        asked.add(tuple(fixed.asked))
    assert asked == {(mechanism.table.denominator,)}


def test_a_failed_check_releases_no_class() -> None:
    votes = [[0, 0, 0, 0, 0, 0, 0]]
    never = NoisyMaximum(7, 3, 1.0, threshold=1000.0, check_sigma=1.0)
    always = NoisyMaximum(7, 3, 1.0, threshold=-1000.0, check_sigma=1.0)
    assert PrivateVote(never).release(votes[0]) is None
    assert PrivateVote(never).release_many(votes).tolist() == [ABSTENTION]
    assert PrivateVote(always).release(votes[0]) in {0, 1, 2}


# ------------------------------------------------------------------------------------- accounts and logs


@pytest.mark.slow
def test_calibrated_noise_uses_almost_the_whole_total() -> None:
    total = Privacy(2.0, 1e-5)
    found = NoisyMaximum.calibrated(50, 10, total, 40)
    assert found.epsilon(40, 1e-5) <= 2.0
    assert NoisyMaximum(50, 10, found.sigma / 1.0002).epsilon(40, 1e-5) > 2.0
    most = found.most_releases(total)
    assert 0.98 * 40 - 1 <= most.queries <= 41
    assert most.account in {"gaussian", "renyi"}  # to one part in a thousand here


@for_each("total", [Privacy(8.0, 1e-3), Privacy(2.0, 1e-5), Privacy(3.0, 7e-8), Privacy(1.0)])
def test_a_problem_for_many_releases_keeps_its_target(total: Privacy) -> None:
    assert release_target(total, 1) == total
    for queries in (2, 3, 7, 12, 50):
        each = Problem(15, Privacy(0.8), release_target(total, queries)).target
        assert each == release_target(total, queries)
        assert PrivacyBudget(total).affordable(each) == queries
        assert not PrivacyBudget(total).fits(Privacy(each.epsilon * 1.01, each.delta), queries)


def test_a_log_allows_the_releases_within_a_total(tmp_path: Path) -> None:
    total = Privacy(4.0, 0.02)
    log = ReleaseLog.create(tmp_path / "log", TableMechanism(PROBLEM, SOLUTION.table), budget=total)
    assert log.limit >= PrivacyBudget(total).affordable(PROBLEM.target) >= 4
    assert (log.account, log.budget) == ("laws", total)
    noisy = NoisyMaximum(7, 3, 20.0)
    assert ReleaseLog.create(tmp_path / "noisy", noisy, budget=Privacy(1.0, 1e-6)).limit >= 1
    assert ReleaseLog(tmp_path / "noisy").mechanism == noisy
    assert noisy.most_releases(Privacy(1.0, 0.0)).queries == math.floor(1.0 / noisy.epsilon(1, 0.0))
    checked = NoisyMaximum(7, 3, 20.0, threshold=4.0, check_sigma=20.0)
    assert checked.most_releases(Privacy(1.0, 0.0)).queries == math.floor(1.0 / checked.epsilon(1, 0.0))
    many = NoisyMaximum(1000, 10, 20.0, threshold=4.0, check_sigma=20.0)  # too many votes to list
    assert many.most_releases(Privacy(1.0, 0.0)).queries == 0


# ------------------------------------------------------------------------------------- a cap on labels

CAPPED = NoisyMaximum(7, 3, 4.0, threshold=5.0, check_sigma=4.0, cap=3)
"""Checks of a unanimous vote pass about half of the time."""


def test_a_cap_holds_over_releases_and_restarts(tmp_path: Path) -> None:
    always = NoisyMaximum(7, 3, 2.0, threshold=-1000.0, check_sigma=2.0, cap=3)
    ReleaseLog.create(tmp_path / "log", always, queries=8)
    votes = [[1] * 7] * 2
    answers = []
    for _ in range(4):  # reopened each time, as by another process
        log = ReleaseLog(tmp_path / "log")
        answers += PrivateVote(log.mechanism, log).release_many(votes).tolist()
    assert [each != ABSTENTION for each in answers] == [True] * 3 + [False] * 5
    assert (log.labels, log.spent, log.left) == (3, 8, 0)  # every query is charged, also without a label
    with pytest.raises(BudgetSpent):
        PrivateVote(log.mechanism, log).release(votes[0])


def test_after_the_cap_answers_do_not_depend_on_the_votes(tmp_path: Path) -> None:
    class Counting(SeededRandomnessForTestsOnly):
        drawn = 0

        def octets(self, count: int) -> bytes:
            self.drawn += count
            return super().octets(count)

    source = Counting(3)
    log = ReleaseLog.create(tmp_path / "log", CAPPED, queries=200)
    release = PrivateVote(CAPPED, log, source=source)
    first = release.release_many([[0] * 7] * 100, "a")
    assert np.count_nonzero(first != ABSTENTION) == log.labels == 3
    before = source.drawn
    assert release.release_many([[0] * 7] * 50).tolist() == [ABSTENTION] * 50
    assert source.drawn == before  # no check is made, no noise is drawn
    assert (
        release.release_many([[2] * 7] * 100, "a").tolist() == first.tolist()
    )  # again: the same answer, without a charge
    assert (log.labels, log.spent) == (3, 150)


@pytest.mark.slow
def test_a_cap_is_charged_as_designed(tmp_path: Path) -> None:
    capped = NoisyMaximum(50, 10, 12.0, threshold=30.0, check_sigma=60.0, cap=20)
    made = [("label", 12.0, 20, "discrete"), ("check", 60.0, 500, "discrete")]
    assert capped.epsilon(500, 1e-5) == vote_total(made, 1e-5, classes=10).epsilon
    uncapped = NoisyMaximum(50, 10, 12.0, threshold=30.0, check_sigma=60.0)
    assert capped.epsilon(15, 1e-5) == uncapped.epsilon(15, 1e-5)
    total = Privacy(4.0, 1e-5)
    fitting = capped.most_releases(total).queries
    assert capped.epsilon(fitting, 1e-5) <= 4.0 < capped.epsilon(math.ceil(1.02 * fitting), 1e-5)
    assert fitting > 5 * uncapped.most_releases(total).queries
    log = ReleaseLog.create(tmp_path / "log", capped, budget=total)
    assert (log.limit, log.mechanism) == (fitting, capped)


def test_invalid_caps_are_refused(tmp_path: Path) -> None:
    for cap in (0, -1, 2.5, True):
        with refused("cap"):
            NoisyMaximum(7, 3, 4.0, threshold=5.0, check_sigma=4.0, cap=cap)  # type: ignore[arg-type]
    with refused("cap", "3"):
        NoisyMaximum(7, 3, 4.0, cap=3)
    with refused("budget"):
        PrivateVote(CAPPED)
    uncapped = NoisyMaximum(7, 3, 4.0, threshold=5.0, check_sigma=4.0)
    log = ReleaseLog.create(tmp_path / "log", CAPPED, queries=5)
    with refused("budget"):
        PrivateVote(uncapped, log)
    record = json.loads(json.dumps(CAPPED.record()))
    assert mechanism_from_record(record) == CAPPED != uncapped
    for broken in ({**record, "format": 2}, {key: each for key, each in record.items() if key != "cap"}):
        with pytest.raises(InvalidInput):
            mechanism_from_record(broken)


@pytest.mark.parametrize("labels", [None, 2, -1, 1.0, True, "1"])
def test_a_line_with_a_wrong_number_of_labels_is_damage(tmp_path: Path, labels: object) -> None:
    ReleaseLog.create(tmp_path / "log", CAPPED, queries=5)
    journal = Journal(tmp_path / "log", None, lambda *_: None)
    journal.locked(lambda file: file.append({"count": 1} | ({} if labels is None else {"labels": labels})))
    with pytest.raises(ReleaseLogDamaged, match="count its classes"):
        ReleaseLog(tmp_path / "log")


def test_a_record_of_a_table_is_verified() -> None:
    values = np.zeros(SOLUTION.table.values.size)
    values[partition_cells(PROBLEM).starts[partition_cells(PROBLEM).strict]] = 1.0
    record = {**TableMechanism(PROBLEM, SOLUTION.table).record(), "values": values.tolist()}
    with pytest.raises(NotPrivate):
        mechanism_from_record(json.loads(json.dumps(record)))


def test_a_budget_in_memory_is_charged_the_target_of_a_table() -> None:
    budget = PrivacyBudget(Privacy(2.0, 0.01))
    PrivateVote(SOLUTION, budget).release([1] * 7)
    assert budget.events == {PROBLEM.target: 1}
    with refused("budget"):
        PrivateVote(NoisyMaximum(7, 3, 5.0, threshold=4.0, check_sigma=5.0), budget)


# ------------------------------------------------------------------------------------------- labels


class Foreign(PermuteAndFlip):
    """A mechanism of a package whose draws may be no classes."""

    drawn: ClassVar[Any] = 0
    draw_many = VoteMechanism.draw_many

    def draw(self, *_: object) -> Any:
        return self.drawn


FOREIGN = Foreign(3, 3, 0.5)
AGREED = [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("drawn", [3, -2, 2**16, 2**80, 0.5, 1.0, math.nan, None, True, "1"])
def test_what_is_no_class_is_charged_and_not_released(
    drawn: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = ReleaseLog.create(tmp_path / "log", FOREIGN, queries=9)
    counter, budget = ReleaseCounter(9), PrivacyBudget(Privacy(9.0, 1e-3))
    with monkeypatch.context() as patch:
        patch.setattr(Foreign, "drawn", drawn)
        for account, name in ((log, "monday"), (log, None), (counter, None), (budget, None), (None, None)):
            with refused("mechanism", repr(FOREIGN.name)) as caught:
                PrivateVote(FOREIGN, account).release_many(AGREED, name)
            assert caught.value.accepted == "one that draws a class of 0 to 2, or -1 for none, for each vote"
            assert "neither released nor shown" in caught.value.advice
    assert (log.spent, log.ids, counter.left, sum(budget.events.values())) == (4, frozenset(), 7, 2)
    log.check_answers()
    assert PrivateVote(FOREIGN, log).release_many(AGREED, "monday").tolist() == [0, 0]  # its id was not used up
    assert ReleaseLog(tmp_path / "log").spent == 6


def test_a_text_of_what_is_no_class_is_charged_and_not_released(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sampling = Sampling(100, 10, labels=2)
    logs = [
        ReleaseLog.create(tmp_path / "all", FOREIGN, queries=9),
        ReleaseLog.create(tmp_path / "drawn", FOREIGN, queries=9, sampling=sampling),
    ]
    counter, budget = ReleaseCounter(9), PrivacyBudget(Privacy(9.0, 1e-3))
    monkeypatch.setattr(Foreign, "drawn", 3)
    for account in (*logs, counter, budget, None):
        with refused("mechanism", repr(FOREIGN.name)):
            PrivateVote(FOREIGN, account).release_text(EnsembleSampler(sampling, 3), lambda *_: [0, 1, 1])
    assert ([log.spent for log in logs], counter.left, sum(budget.events.values())) == ([2, 2], 7, 2)


def test_what_is_no_class_counts_for_the_cap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mechanism = NoisyMaximum(3, 3, 0.5, threshold=1.0, check_sigma=0.5, cap=3)
    log = ReleaseLog.create(tmp_path / "log", mechanism, queries=9)
    with monkeypatch.context() as patch:
        patch.setattr(NoisyMaximum, "draw_many", lambda *_: np.array([3, 3]))
        for _ in range(2):
            with refused("mechanism", "'gnmax'"):
                PrivateVote(mechanism, log).release_many(AGREED)
    log.check_answers()
    assert PrivateVote(mechanism, log).release_many(AGREED).tolist() == [ABSTENTION, ABSTENTION]


def test_no_vote_between_two_classes_by_a_noise_function_is_no_class(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mechanism = NoiseFunctionMechanism(NoiseFunction([0.5] * 4))  # a log stores its answers as bits
    monkeypatch.setattr(type(mechanism), "draw_many", lambda *_: np.array([ABSTENTION, 1]))
    with refused("mechanism", "'gamma'") as caught:
        PrivateVote(mechanism, ReleaseLog.create(tmp_path / "log", mechanism, queries=9)).release_many(AGREED)
    assert caught.value.accepted == "one that draws a class of 0 to 1 for each vote"


# -------------------------------------------------------------------------------------------- votes


def test_votes_are_counted() -> None:
    assert count_votes([[0, 2, 2, 1], [3, 3, 3, 3]], 4, 4).tolist() == [[1, 1, 2, 0], [0, 0, 0, 4]]
    assert count_votes(np.array([[0.0, 2.0]]), None, 3).tolist() == [[1, 0, 1]]


@for_each(
    ("votes", "message"),
    [
        ([[0, 1, 3]], "classes 0 to 2"),
        ([[0, 1, -1]], "classes 0 to 2"),
        ([[0, 1, 0.5]], "classes 0 to 2"),
        ([[0, 1, math.nan]], "classes 0 to 2"),
        ([["0", "1", "2"]], "classes 0 to 2"),
        ([[0, 1]], r"shape \(N, 3\)"),
        ([0, 1, 2], r"shape \(N, 3\)"),
        ([[0, 1, 2], [0]], "different lengths"),
    ],
)
def test_invalid_votes_are_refused_without_being_shown(votes: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        count_votes(votes, 3, 3)
    assert "0.5" not in str(caught.value)


def test_invalid_noise_is_refused() -> None:
    valid = {"K": 7, "classes": 3, "sigma": 5.0}
    refuses(NoisyMaximum, valid, sigma=[0.1, math.inf], check_sigma=[5.0], affected=[8], classes=[2**20 + 1])
    refuses(NoisyMaximum, {**valid, "check_sigma": 5.0}, threshold=[math.inf])
    with refused("check_sigma"):
        NoisyMaximum(7, 3, 5.0, threshold=5.0)


def test_labels_of_a_vocabulary_are_released(tmp_path: Path) -> None:
    vocabulary = 50_257
    mechanism = NoisyMaximum(11, vocabulary, 0.5)
    log = ReleaseLog.create(tmp_path / "log", mechanism, queries=300)
    wanted = np.array([0, 32_767, 32_768, 40_000, vocabulary - 1] * 50)
    votes = np.repeat(wanted[:, None], 11, axis=1)
    labels = PrivateVote(mechanism, log).release_many(votes, "texts")  # 12.6 million counts, in blocks
    assert labels.dtype == np.int32
    assert labels.tolist() == wanted.tolist()  # all 11 voters agree: 22 standard deviations of noise
    stored = ReleaseLog(tmp_path / "log").stored("texts")
    assert stored is not None
    assert stored.dtype == np.int32
    assert stored.tolist() == wanted.tolist()
    assert log.spent == 250


@pytest.mark.parametrize("name", ["permute_and_flip", "exponential"])
def test_every_class_of_a_vocabulary_can_be_drawn(name: str) -> None:
    mechanism = mechanism_class(name).of(11, 50_257, 1e-4)  # nearly uniform
    labels = mechanism.draw_many(np.zeros((12, 50_257), dtype=np.int64), SeededRandomnessForTestsOnly(1))
    assert labels.dtype == np.int32
    assert 0 <= labels.min() < 32_768 <= labels.max() < 50_257


@for_each("name", ["gnmax", "laplace", "permute_and_flip", "exponential"])
def test_the_account_of_any_votes_does_not_depend_on_the_number_of_classes(name: str) -> None:
    few, many, most = (
        mechanism_class(name).of_information(11, classes, 0.1).epsilon(20, 1e-5) for classes in (3, 1000, 2**20)
    )
    assert 0 < few <= many == most  # for few classes the votes are listed


def test_many_releases_are_calibrated_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    with_scipy = mechanism_class("permute_and_flip").calibrated(11, 2, Privacy(1.0, 1e-5), 1000)
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    without = mechanism_class("permute_and_flip").calibrated(11, 2, Privacy(1.0, 1e-5), 1000)
    assert 0 < without.value <= 1.001 * with_scipy.value
