"""Samples: the law of their scheme, one query each, and no gain from retries."""

from __future__ import annotations

import copy
import json
import pickle
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns.sampled import drawn_law
from campaigns.sampled_ensembles import allocations, question_pairs, shares, shown, worst_delta
from scipy import stats
from support.cases import for_each
from support.enumeration import exp_fraction
from support.forks import forked
from support.refusals import refused as refused_input

from darrm_opt import Privacy
from darrm_opt.accounting.sampling import Sampling, Scheme
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.randomness import SeededRandomnessForTestsOnly
from darrm_opt.release import BudgetSpent, EnsembleSampler, PrivateVote, ReleaseCounter, ReleaseLog, Sample, SampleUsed
from darrm_opt.tables.problem import ABSTENTION
from darrm_opt.tables.votes import Labels

RARE = Sampling(1000, 20)
DEALT = Sampling(1000, scheme="random-allocation", among=4, times=2)
TOTAL = Privacy(1.0, 1e-5)


def vote_of(K: int = 5, classes: int = 3, rate: float = 1.0) -> VoteMechanism:
    return mechanism_class("permute_and_flip").of(K, classes, rate)


def begun(folder: Path, sampling: Sampling = RARE, **budget: Any) -> ReleaseLog:
    return ReleaseLog.create(folder / "log", vote_of(), sampling=sampling, **(budget or {"queries": 100}))


@for_each(
    ("scheme", "size"),
    [("poisson", 1), ("without-replacement", 2), ("each-voter", 2), ("each-voter-with-replacement", 2)],
)
def test_samples_have_the_law_of_every_draw_and_assignment(scheme: Scheme, size: int) -> None:
    sampler = EnsembleSampler(Sampling(4, size, scheme=scheme), K=2, source=SeededRandomnessForTestsOnly(3))
    draws = 4000
    seen = Counter(tuple(tuple(sorted(share.tolist())) for share in sampler.draw().shares) for _ in range(draws))
    law: dict[Any, Fraction] = defaultdict(Fraction)
    for chance, each in shares(scheme, range(4), 2, size, Fraction(size, 4)):
        law[each] += chance
    assert sum(law.values()) == 1
    assert seen.keys() <= law.keys()
    expected = [float(law[each]) * draws for each in law]
    assert stats.chisquare([seen[each] for each in law], expected).pvalue > 1e-6


def test_a_large_sample_is_uniform_over_all_records() -> None:
    sampler = EnsembleSampler(Sampling(10**6, 400), K=10, source=SeededRandomnessForTestsOnly(4))
    samples = [sampler.draw() for _ in range(300)]
    sizes = [sample.records.size for sample in samples]
    assert sizes == [sum(share.size for share in sample.shares) for sample in samples]  # disjoint
    variance = 400 * (1 - 400 / 10**6)
    assert abs(np.mean(sizes) - 400) < 5 * np.sqrt(variance / 300)
    assert 0.7 * variance < np.var(sizes) < 1.4 * variance
    everything = np.concatenate([sample.records for sample in samples])
    assert stats.kstest(everything / 10**6, "uniform").pvalue > 1e-6
    by_voter = np.sum([[share.size for share in sample.shares] for sample in samples], axis=0)
    assert stats.chisquare(by_voter).pvalue > 1e-6


def test_only_a_poisson_sample_may_be_of_another_number_of_records() -> None:
    assert EnsembleSampler(RARE, 5, records=0).draw().records.size == 0
    assert EnsembleSampler(Sampling(10, rate=1.0), 5, records=2000).draw().records.tolist() == list(range(2000))
    with refused_input("records", "-1"):
        EnsembleSampler(RARE, 5, records=-1)
    with refused_input("records", "11"):
        EnsembleSampler(Sampling(10, 5, scheme="without-replacement"), 5, records=11)


def test_a_record_may_be_drawn_by_all_voters() -> None:
    sampler = EnsembleSampler(Sampling(50, 50, scheme="each-voter"), 3, source=SeededRandomnessForTestsOnly(5))
    assert all(sorted(share.tolist()) == list(range(50)) for share in sampler.draw().shares)


def votes(sample: Sample) -> list[int]:
    return [share.size % 3 for share in sample.shares]


def test_a_sampled_log_charges_the_amplified_total_and_records_the_sampling(tmp_path: Path) -> None:
    log = begun(tmp_path, budget=TOTAL)
    sampled = vote_of().most_releases(TOTAL, RARE).queries
    assert log.limit == sampled > 10 * vote_of().most_releases(TOTAL).queries
    assert log.cost(40, 1e-5) == log.cost(40, 1e-5)
    assert log.cost(40, 1e-5).epsilon == vote_of().cost(40, 1e-5, RARE).epsilon < vote_of().cost(40, 1e-5).epsilon
    again = ReleaseLog.open_or_create(log.path, vote_of(), budget=TOTAL, sampling=RARE)
    assert again.sampling == RARE
    with refused_input("sampling"):
        ReleaseLog.open_or_create(log.path, vote_of(), sampling=Sampling(1000, 10))


def test_every_release_needs_an_unused_sample(tmp_path: Path) -> None:
    log = begun(tmp_path)
    vote, sampler = PrivateVote(vote_of(), log), EnsembleSampler(RARE, 5)
    with refused_input("sample", "'0 samples for 1 answers'"):
        vote.release([0] * 5)
    first, second = sampler.draw(), sampler.draw()
    vote.release_many([votes(first), votes(second)], samples=(first, second))
    for samples in ((first,), (first, sampler.draw()), (second, second)):
        with pytest.raises((SampleUsed, InvalidInput)):
            vote.release_many([[0] * 5] * len(samples), samples=samples)
    once = sampler.draw()
    with pytest.raises(SampleUsed):
        vote.release_many([[0] * 5] * 2, samples=(once, once))
    assert log.spent == 2


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (EnsembleSampler(Sampling(1000, 21), 5).draw(), "a sample of an EnsembleSampler"),
        (EnsembleSampler(RARE, 6).draw(), "one for K = 5"),
        (object(), "a sample of an EnsembleSampler"),
    ],
)
def test_samples_of_other_samplings_are_refused(tmp_path: Path, sample: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        PrivateVote(vote_of(), begun(tmp_path)).release([0] * 5, sample=sample)


def test_samples_are_refused_by_an_unsampled_log_or_without_one(tmp_path: Path) -> None:
    sample = EnsembleSampler(RARE, 5).draw()
    unsampled = ReleaseLog.create(tmp_path / "log", vote_of(), queries=5)
    for budget in (unsampled, None):
        with refused_input("sample", "'a sample'") as caught:
            PrivateVote(vote_of(), budget).release([0] * 5, sample=sample)
        assert caught.value.accepted == "None"
    assert (unsampled.spent, sample.left) == (0, 1)


def test_the_same_id_gives_the_same_label_and_draws_no_sample(tmp_path: Path) -> None:
    log = begun(tmp_path)
    labels = [
        PrivateVote(vote_of(), ReleaseLog(log.path)).release_sampled(EnsembleSampler(RARE, 5), votes, "question")
        for _ in range(20)
    ]
    assert len(set(labels)) == 1
    assert log.spent == 1
    vote = PrivateVote(vote_of(), log)

    def never(sample: Sample) -> list[int]:
        raise AssertionError(sample)

    assert vote.release_sampled(EnsembleSampler(RARE, 5), never, "question") == labels[0]
    # By hand: the stored label needs no sample and does not use a given one.
    sample = EnsembleSampler(RARE, 5).draw()
    assert vote.release([1] * 5, "question", sample=sample) == labels[0]
    assert (log.spent, sample.left) == (1, 1)


def test_all_labels_of_a_text_are_charged_with_the_first(tmp_path: Path) -> None:
    sampling = Sampling(1000, 20, labels=3)
    log = begun(tmp_path, sampling, queries=7)
    vote, sampler = PrivateVote(vote_of(), log), EnsembleSampler(sampling, 5)
    uncharged = sampler.draw()
    with refused_input("sample"):  # else a process that ended here could get another sample for the same id and charge
        vote.release(votes(uncharged), "0", sample=uncharged)
    assert (log.spent, uncharged.left) == (0, 3)
    sample = sampler.draw_for("0", log)
    assert json.loads(log.path.read_bytes().splitlines()[-1].split(b" ", 1)[1])["drawn"] == "0"
    vote.release(votes(sample), "0", sample=sample)
    assert (log.spent, sample.left) == (3, 2)
    vote.release_many([votes(sample)] * 2, "1", samples=(sample,))
    assert (log.spent, ReleaseLog(log.path).spent, sample.left) == (3, 3, 0)
    with pytest.raises(SampleUsed, match="serves 3 labels"):
        vote.release(votes(sample), sample=sample)
    vote.release(votes(second := sampler.draw()), sample=second)
    other = ReleaseLog.create(tmp_path / "other", vote_of(), queries=7, sampling=sampling)
    with pytest.raises(SampleUsed, match="it was charged to"):
        PrivateVote(vote_of(), other).release(votes(second), sample=second)
    with pytest.raises(BudgetSpent):  # one label is left, and a text has three
        vote.release(votes(third := sampler.draw()), sample=third)
    assert third.left == 3


TEXTS = Sampling(1000, 20, labels=3)


def test_a_text_of_labels_is_one_release_of_one_sample(tmp_path: Path) -> None:
    log, asked = begun(tmp_path, TEXTS, queries=7), list[tuple[int, ...]]()
    vote, sampler = PrivateVote(vote_of(rate=40.0), None), EnsembleSampler(TEXTS, 5)

    def ask(_: Sample, labels: Sequence[int]) -> list[int]:
        asked.append(tuple(labels))
        return [len(labels)] * 5

    assert vote.release_text(sampler, ask).tolist() == [0, 1, 2]
    assert asked == [(), (0,), (0, 1)]
    logged = PrivateVote(vote_of(), log)
    text = logged.release_text(sampler, ask, "text")
    assert (log.spent, log.labels) == (3, 3)
    assert logged.release_text(EnsembleSampler(TEXTS, 5), ask, "text").tolist() == text.tolist()  # and asks no voter
    assert len(asked) == 6
    with refused_input("sampler"):
        logged.release_sampled(sampler, votes)
    with refused_input("release_id", "'text'"):
        vote.release_text(sampler, ask, "text")
    logged.release_text(sampler, ask)
    with pytest.raises(BudgetSpent):
        logged.release_text(sampler, ask)  # before any voter is asked
    assert (log.spent, len(asked)) == (6, 9)


def test_a_failed_text_continues_with_its_labels(tmp_path: Path) -> None:
    """Else a caller could fail after an undesired label to draw it again."""
    log, sampler, seen = begun(tmp_path, TEXTS, queries=3), EnsembleSampler(TEXTS, 5), list[tuple[int, ...]]()

    def ask(_: Sample, labels: Sequence[int]) -> list[int]:
        if len(labels) == 2 and len(seen) < 20:
            seen.append(tuple(labels))
            raise RuntimeError
        return [0, 1, 2, 0, 1]

    for _ in range(20):
        with pytest.raises(RuntimeError):
            PrivateVote(vote_of(), log).release_text(sampler, ask, "text")
    text = PrivateVote(vote_of(), log).release_text(sampler, ask, "text")
    assert set(seen) == {tuple(text[:2].tolist())}
    assert log.spent == 3


def test_a_counter_is_charged_before_a_sample_is_drawn() -> None:
    """Else lost samples would spread the queries of a total over more rounds."""
    counter, sampler = ReleaseCounter(4), EnsembleSampler(DEALT, 5)
    vote, asked = PrivateVote(vote_of(), counter), list[Sample]()

    def ask(sample: Sample) -> list[int]:
        asked.append(sample)
        if len(asked) == 2:
            raise RuntimeError
        return [0] * 5

    failures = {1: RuntimeError, 4: BudgetSpent}
    for number in range(5):
        with pytest.raises(failures[number]) if number in failures else nullcontext():
            vote.release_sampled(sampler, ask)
    assert (len(asked), len({sample.charged_with for sample in asked}), counter.left) == (4, 1, 0)


def test_a_counter_cannot_be_used_within_one_of_its_releases() -> None:
    """This would be a deadlock."""
    counter, sampler = ReleaseCounter(6), EnsembleSampler(Sampling(60, 20), 5)
    vote = PrivateVote(vote_of(), counter)

    def ask(_: Sample) -> list[int]:
        vote.release([0] * 5)
        return [0] * 5

    for left in (5, 4):
        with pytest.raises(RuntimeError):
            vote.release_sampled(sampler, ask)
        assert counter.left == left
    assert vote.release([0] * 5) is not None


def test_a_child_forked_while_the_counter_is_in_use_is_refused() -> None:
    """The child has a copy of the lock that no thread of it releases."""
    counter = ReleaseCounter(6)

    def act() -> str:
        signal.alarm(10)
        try:
            PrivateVote(vote_of(), counter).release([0] * 5)
        except BudgetSpent:
            return "refused"
        return "released"

    with counter._lock:
        assert forked(act) == "refused"


def test_a_cap_holds_within_a_text_and_includes_its_first_label() -> None:
    always = NoisyMaximum(5, 3, 2.0, threshold=-1000.0, check_sigma=2.0, cap=1)
    vote = PrivateVote(always, ReleaseCounter(6))
    sampler = EnsembleSampler(TEXTS, 5)
    first, second = (vote.release_text(sampler, lambda *_: [0] * 5) for _ in range(2))
    assert (first != ABSTENTION).tolist() == [True, False, False]
    assert second.tolist() == [ABSTENTION] * 3


def test_a_log_does_not_count_the_labels_of_a_text_as_separate_samples(tmp_path: Path) -> None:
    """All labels show the same record: with separate samples δ would be 0 at this ε; it is 0.061."""
    mechanism, T = vote_of(1, 2, 1.5), 4
    naive = Privacy(mechanism.cost(T, 0.0, Sampling(1, rate=0.1)).epsilon, 0.05)
    pairs = question_pairs(
        "poisson", [9], [None], [[shown(9, 1)] * T], 1, 2, drawn_law(mechanism), rate=Fraction(1, 10)
    )
    pairs += [(q, p) for p, q in pairs]
    assert worst_delta(pairs, 1, exp_fraction(naive.epsilon)) > Fraction(6, 100)
    for labels, fits in ((1, True), (T, False)):
        sampling = Sampling(1, rate=0.1, labels=labels)
        log = ReleaseLog.create(tmp_path / str(labels), mechanism, budget=naive, sampling=sampling)
        assert (log.limit >= T) == fits


KILLED = """
import os, signal, sys
from darrm_opt.accounting import Sampling
from darrm_opt.release import EnsembleSampler, PrivateVote, ReleaseLog

log = ReleaseLog(sys.argv[1])

def ask(sample, labels):
    if len(labels) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return [0] * 5

PrivateVote(log.mechanism, log).release_text(EnsembleSampler(log.sampling, 5), ask, "question")
"""


@pytest.mark.parametrize("sampling", [RARE, TEXTS], ids=["label", "text"])
def test_a_sample_of_a_killed_process_is_spent(tmp_path: Path, sampling: Sampling) -> None:
    log, T = begun(tmp_path, sampling, queries=3 * sampling.labels), sampling.labels
    for killed in (1, 2):
        ended = subprocess.run([sys.executable, "-c", KILLED, str(log.path), str(T - 1)], check=False)
        assert ended.returncode == -signal.SIGKILL
        assert (log.spent, log.labels, log.ids) == (killed * T, 0, frozenset())
    text = PrivateVote(vote_of(), log).release_text(EnsembleSampler(sampling, 5), lambda *_: [0] * 5, "question")
    assert (log.spent, log.labels) == (3 * T, T)

    def never(*_: Any) -> list[int]:
        raise AssertionError

    again = PrivateVote(vote_of(), ReleaseLog(log.path))
    assert again.release_text(EnsembleSampler(sampling, 5), never, "question").tolist() == text.tolist()
    with pytest.raises(BudgetSpent):
        again.release_text(EnsembleSampler(sampling, 5), never, "another")


def test_a_sample_is_charged_once_before_it_is_returned(tmp_path: Path) -> None:
    log, sampler = begun(tmp_path), EnsembleSampler(RARE, 5)
    sample = sampler.draw_for("question", log)
    assert sampler.draw_for("question", log) is sample
    assert log.spent == 1
    for samples in ((sample,), (twice := sampler.draw(), twice)):
        with pytest.raises(SampleUsed):
            log.charge_samples(samples)
    PrivateVote(vote_of(), log).release(votes(sample), "question", sample=sample)
    assert (log.spent, log.labels) == (1, 1)
    for other in (EnsembleSampler(Sampling(1000, 21), 5), EnsembleSampler(RARE, 6)):
        with refused_input("sample"):
            other.draw_for("other", log)
    with refused_input("sample"):
        sampler.draw_for("other", ReleaseLog.create(tmp_path / "unsampled", vote_of(), queries=5))
    assert log.spent == 1


def reuse(sample: Sample, log: ReleaseLog) -> None:
    PrivateVote(vote_of(), log).release([0] * 5, sample=sample)


def other_log(sample: Sample, log: ReleaseLog) -> None:
    other = ReleaseLog.create(log.path.with_name("another"), vote_of(), queries=5, sampling=RARE)
    PrivateVote(vote_of(), other).release([0] * 5, sample=sample)


def copied(sample: Sample, log: ReleaseLog) -> None:
    reuse(copy.copy(sample), log)


def deeply_copied(sample: Sample, log: ReleaseLog) -> None:
    reuse(copy.deepcopy(sample), log)


def pickled(sample: Sample, log: ReleaseLog) -> None:
    reuse(pickle.loads(pickle.dumps(sample)), log)  # noqa: S301 - pickling is refused


def in_a_child(sample: Sample, log: ReleaseLog) -> None:
    def act() -> str:
        try:
            reuse(sample, log)
        except SampleUsed:
            return "refused"
        return "released"

    assert forked(act) == "refused"
    raise SampleUsed("in the child")


@pytest.mark.parametrize("trick", [reuse, other_log, copied, deeply_copied, pickled, in_a_child])
def test_a_sample_cannot_be_used_for_a_second_label(
    tmp_path: Path, trick: Callable[[Sample, ReleaseLog], None]
) -> None:
    log, sample = begun(tmp_path), EnsembleSampler(RARE, 5).draw()
    if trick is not in_a_child:  # a copy of an unused sample is not a second one either
        reuse(sample, log)
    before = log.spent
    with pytest.raises((SampleUsed, TypeError)):
        trick(sample, log)
    assert log.spent == before


def test_retrying_until_a_record_is_drawn_gains_nothing(tmp_path: Path) -> None:
    """An attacker lets voters fail unless record 0 is drawn, and asks again with the same id, six times."""
    sampling = Sampling(10, 3)
    vote = PrivateVote(vote_of(), begun(tmp_path, sampling, queries=1000))
    sampler = EnsembleSampler(sampling, 5, source=SeededRandomnessForTestsOnly(8))
    games, in_sample = 200, 0
    for game in range(games):
        tries = 0

        def ask(sample: Sample) -> list[int]:
            nonlocal tries, in_sample
            tries += 1
            is_drawn = 0 in sample.records
            if not is_drawn and tries < 6:
                raise RuntimeError
            in_sample += is_drawn
            return [0] * 5

        while True:
            try:
                vote.release_sampled(sampler, ask, f"game {game}")
            except RuntimeError:
                continue
            break
    # With new samples it would be drawn with probability 1 − 0.7⁶ = 88 %.
    assert stats.binomtest(in_sample, games, 0.3).pvalue > 1e-6


def test_indices_are_not_shown() -> None:
    sampler = EnsembleSampler(Sampling(10**6, 400), 10)
    sample = sampler.draw()
    shown = repr(sample) + str(sample) + repr(sampler)
    assert not any(str(index) in shown for index in sample.records.tolist() if index >= 10_000 and index != 10**6)
    with pytest.raises(ValueError, match="read-only"):
        sample.shares[0][:] = 0


@pytest.mark.parametrize("times", [1, 2])
def test_a_round_has_the_law_of_every_allocation(times: int) -> None:
    sampling = Sampling(2, scheme="random-allocation", among=3, times=times)
    sampler, rounds = EnsembleSampler(sampling, K=2, source=SeededRandomnessForTestsOnly(6)), 4000
    seen = Counter(
        tuple(tuple(tuple(sorted(share.tolist())) for share in sampler.draw().shares) for _ in range(3))
        for _ in range(rounds)
    )
    law: dict[Any, Fraction] = defaultdict(Fraction)
    for chance, each in allocations(range(2), 2, 3, times):
        law[each] += chance
    assert seen.keys() <= law.keys()
    expected = [float(law[each]) * rounds for each in law]
    assert stats.chisquare([seen[each] for each in law], expected).pvalue > 1e-6


def test_a_round_is_charged_with_its_first_label(tmp_path: Path) -> None:
    log = begun(tmp_path, DEALT, queries=9)
    vote, sampler = PrivateVote(vote_of(), log), EnsembleSampler(DEALT, 5)
    first, second = sampler.draw(), sampler.draw()
    vote.release_many([votes(first), votes(second)], samples=(first, second))
    assert (log.spent, first.left, second.left) == (4, 0, 0)
    other = ReleaseLog.create(tmp_path / "other", vote_of(), queries=9, sampling=DEALT)
    third = sampler.draw()
    with pytest.raises(SampleUsed, match="it was charged to"):
        PrivateVote(vote_of(), other).release(votes(third), sample=third)
    vote.release(votes(third), sample=third)
    vote.release_sampled(sampler, votes, "fourth")
    assert (log.spent, ReleaseLog(log.path).spent) == (4, 4)
    vote.release_sampled(sampler, votes, "fifth")
    assert log.spent == 8
    lost = EnsembleSampler(DEALT, 5)  # a round without its sampler is not continued
    with pytest.raises(BudgetSpent):
        vote.release_sampled(lost, votes, "sixth")


@pytest.mark.parametrize(("sampling", "charged"), [(DEALT, 4), (TEXTS, 3)])
def test_an_uncharged_round_is_charged_with_the_next_label(tmp_path: Path, sampling: Sampling, charged: int) -> None:
    """A failed release once left its round, and the other labels of its text, marked as charged."""
    log, sampler = begun(tmp_path, sampling, queries=100), EnsembleSampler(sampling, 5)

    def fails(_: int) -> Labels:
        raise RuntimeError

    lost = sampler.draw()
    with pytest.raises(RuntimeError):
        log.charge_and_release(1, fails, samples=(lost,))
    assert (log.spent, lost.left) == (0, sampling.labels - 1)
    PrivateVote(vote_of(), log).release([0] * 5, sample=lost if lost.left else sampler.draw())
    assert log.spent == charged


def test_a_child_draws_another_round(tmp_path: Path) -> None:
    log = begun(tmp_path, DEALT, queries=100)
    vote, sampler = PrivateVote(vote_of(), log), EnsembleSampler(DEALT, 5)
    vote.release_sampled(sampler, votes, "0")

    def act() -> str:
        PrivateVote(vote_of(), ReleaseLog(log.path)).release_sampled(sampler, votes, "1")
        return str(ReleaseLog(log.path).spent)

    assert forked(act) == "8"
    vote.release_sampled(sampler, votes, "2")
    assert log.spent == 8


def test_every_record_is_in_the_stated_number_of_queries_of_a_round() -> None:
    sampling = Sampling(10, scheme="random-allocation", among=7, times=3)
    sampler = EnsembleSampler(sampling, 4, records=500)
    for _ in range(2):
        counts = np.bincount(np.concatenate([sampler.draw().records for _ in range(7)]), minlength=500)
        assert counts.tolist() == [3] * 500
