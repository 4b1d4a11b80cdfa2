"""Release log: a file of one mechanism's releases, in which each release is charged exactly once.

A release is one line, written before its answers leave: their number, how many of them are classes and not ⊥, its id
and, with an id, the answers themselves. So no release is ever made without a charge, or charged and lost: a killed job
asks again under the same id and gets the stored answers, or draws them if the line was never written. If every query
has its own sample, the sample is charged before it is seen, by a line without answers: a job killed between the two
pays for another sample.

Everything stored is public once released: the mechanism, the budget, counts, ids, answers. Votes are never stored, nor
anything computed from them except the answers.

A log may be for one *batch* whose total depends on a test of its votes (`accounting.propose_test_release`): its only
release is the outcome of the test and, if it passes, all labels, in one line. So a test is never drawn twice, and its
total is spent whatever the outcome.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from darrm_opt.accounting.calibrate import Quota
from darrm_opt.accounting.freshness import check_fresh
from darrm_opt.accounting.propose_test_release import Proposal
from darrm_opt.accounting.release_profile import Release, Released
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import ReleaseTotal
from darrm_opt.arguments import whole_number
from darrm_opt.errors import (
    BudgetSpent,
    BudgetUnreadable,
    DarrmError,
    InvalidInput,
    ReleaseIdTaken,
    ReleaseLogDamaged,
    SampleUsed,
)
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.mechanisms.table import GroupTableMechanism, TableMechanism
from darrm_opt.problem import Privacy
from darrm_opt.release.journal import Journal, LockedJournal, Record, create
from darrm_opt.release.log_lines import (
    COUNT,
    PTR_ACCOUNT,
    Header,
    Releases,
    checked_id,
    decoded,
    encoded,
    other_document,
    replayed,
)
from darrm_opt.release.sampler import Sample
from darrm_opt.tables.problem import ABSTENTION, Histograms
from darrm_opt.tables.solver import TableSolution
from darrm_opt.tables.votes import Labels

Releasing = VoteMechanism | Release | Released | TableSolution

Draw = Callable[[int], Labels | None]
"""Draws answers, given the number of classes released before; None if the test of a batch fails."""


class BatchWithheld(DarrmError):
    """The noisy test of a batch of votes failed: none of its labels was or will be released.

    Attributes:
        total: (ε, δ) of the test and the labels together, which is charged.
        test: (ε, δ) that holds if only this failure is released from these votes.
    """

    def __init__(self, total: Privacy, test: Privacy) -> None:
        self.total = total
        self.test = test
        super().__init__(
            f"The votes failed the test for (epsilon, delta) = ({total.epsilon:g}, {total.delta:g}): no label was "
            "released, and the test cannot be drawn again. The total is spent; if nothing else is released from these "
            f"votes, they have cost epsilon = {test.epsilon:.4g} at delta = {test.delta:.4g}. Another total, or labels "
            "without a test at their cost for any votes, need a separate release log, and both costs add up."
        )


class ReleaseLog:
    """Durable log of releases: their number, their limit, and the answers of releases with an id.

    Args:
        path: a file made by `create`.
        read_only: open the file for reading only, as for a proof of it: nothing can be released, and a line that a
            crash cut short, which never counted, stays.

    Guarantees:
        However many processes use the file, and however they end, no more releases leave than are charged, no more are
        charged than the budget allows, and releases under one id are charged once. If the mechanism has a cap, no more
        classes leave than that.

    Raises:
        BudgetUnreadable: no such file, or not a release log in this version's format.
        ReleaseLogDamaged: its lines were altered.
        NotPrivate: its γ or table is not private for its problem.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        where = Path(path)
        replay = partial(replayed, path=where)
        self._journal = Journal(path, Releases({}, 0, 0, {}), replay, read_only=read_only)
        try:
            first = self._journal.locked(lambda file: file.state.header)
        except ReleaseLogDamaged as err:
            if (other := other_document(where)) is not None:
                raise BudgetUnreadable(f"{path} is not a release log (it is {other}).") from err
            raise
        self._header = Header.of(first, where)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        mechanism: Releasing,
        *,
        budget: Privacy | None = None,
        queries: int | None = None,
        fresh: bool = False,
        first: int = 0,
        sampling: Sampling | None = None,
        proposal: Proposal | None = None,
    ) -> ReleaseLog:
        """Create a release log for one mechanism, with a total budget, a number of releases, or both.

        Args:
            path: a file that does not exist yet, in a folder that does.
            mechanism: a mechanism, a `Solution`, a `TableSolution`, or a pair (gamma, problem). A γ or table is proved
                private first.
            budget: total (ε, δ) of all releases; the number that fits is proved by the least of all accounts.
            queries: or this many releases, whose total cost the caller must know; with a budget, it is proved that this
                many fit.
            fresh: as for `PrivateVote`. A log of voters trained once is for the releases of one training: use another
                log for other models. It makes no difference for voters that are not private.
            first: number of releases about to be made: a log that allows fewer is not created.
            sampling: how records are sampled for every query; None: no sampling. Such a log only releases for samples
                of an `EnsembleSampler`, each once, and its total is that of such releases.
            proposal: test of one batch (`propose`, `ptr_epsilon`), instead of ``budget`` and ``queries``: the log
                releases all labels of the batch at once if the test passes, and otherwise nothing, ever.

        Returns:
            The log, on disk.

        Raises:
            InvalidInput: neither a budget nor a number, more releases than are proved to fit, a number out of range, a
                proposal for another mechanism, or an existing file.
            NotPrivate: the γ or table is not private for its problem.
            BudgetSpent: fewer than ``first`` releases are allowed; no file is made.
            BudgetUnreadable: the file cannot be written.
        """
        mechanism = mechanism_of(mechanism, fresh=fresh)
        if sampling is not None and not isinstance(sampling, Sampling):
            raise InvalidInput("sampling", sampling, "a Sampling or None")
        # The proposal states the release and its total: a second statement could only contradict it.
        if proposal is not None:
            for name, value in (("budget", budget), ("queries", queries), ("sampling", sampling)):
                if value is not None:
                    raise InvalidInput(name, value, "None with a proposal, which states it")
            check_proposal(proposal, mechanism)
            budget = proposal.total
            quota = Quota(proposal.batch.queries, PTR_ACCOUNT)
        else:
            quota = _quota(mechanism, budget, queries, sampling)
        header = Header(mechanism, budget, quota, sampling, proposal)
        # Before the file: a log that allows too little would remain and be opened by the next run.
        if whole_number(first, "first", COUNT, least=0) > quota.queries:
            raise BudgetSpent(header.in_words, quota.queries, 0, first)
        try:
            # Exclusive: of two concurrent processes one makes the file and the other gets an error.
            create(path, header.record())
        except FileExistsError as err:
            raise InvalidInput("release_log", str(path), "a file that does not exist yet", "Open it instead.") from err
        except OSError as err:
            raise BudgetUnreadable(f"the release log {path} cannot be written: {err.strerror}") from err
        # Read back: the file decides what is released, as after a restart.
        return cls(path)

    @classmethod
    def open_or_create(
        cls,
        path: str | os.PathLike[str],
        mechanism: Releasing,
        *,
        budget: Privacy | None = None,
        queries: int | None = None,
        fresh: bool = False,
        first: int = 0,
        sampling: Sampling | None = None,
        proposal: Proposal | None = None,
    ) -> ReleaseLog:
        """Open the release log of one mechanism, or create it if there is no file; safe in concurrent processes.

        Args:
            path: the file, in an existing folder.
            mechanism: as for `create`; an existing log must be for the same one.
            budget: as for `create`; an existing log must have the same (or, with ``queries``, none). If this and
                ``queries`` are None, its budget is accepted.
            queries: as for `create`; an existing log must allow as many.
            fresh: as for `create`; True requires an existing log with True.
            first: as for `create`; an existing log may have fewer left.
            sampling: as for `create`; an existing log must have the same; None accepts any.
            proposal: as for `create`; an existing log must have the same; None accepts any.

        Returns:
            The log, on disk.

        Raises:
            InvalidInput: an existing log is for another mechanism, another budget, or voters that were trained once; or
                `create` rejects an argument, such as ``budget`` and ``queries`` both None.
            DarrmError: errors of `create` and of opening a log, for the same reasons.
        """
        mechanism = mechanism_of(mechanism, fresh=fresh)
        # The file is made exclusively: of two processes that see none, one makes it and the other opens it.
        if not Path(path).exists():
            try:
                return cls.create(
                    path, mechanism, budget=budget, queries=queries, first=first, sampling=sampling, proposal=proposal
                )
            except InvalidInput as err:
                if not isinstance(err.__cause__, FileExistsError):  # otherwise another process has just created it
                    raise
        log = cls(path)
        # The limit is that of one mechanism's releases.
        log.check_is_for(mechanism)
        stated = log.in_words
        if log.budget is not None:  # with all digits, which have to be given again
            stated = f"epsilon = {log.budget.epsilon!r}, delta = {log.budget.delta!r} in total"
        accepted, advice = f"the budget of {path}: {stated}", "Use that one, or another file."
        if budget is not None and log.budget != budget and (queries is None or log.budget is not None):
            raise InvalidInput("budget", budget, accepted, advice)
        if queries is not None and log.limit != queries:
            raise InvalidInput("queries", queries, accepted, advice)
        if sampling is not None and log.sampling != sampling:
            words = "none" if log.sampling is None else log.sampling.words
            raise InvalidInput("sampling", sampling.words, f"the sampling of {path}: {words}", advice)
        if proposal is not None and log.proposal != proposal:
            raise InvalidInput("proposal", proposal.record(), f"the proposal of {path}, if it has one", advice)
        return log

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._journal.path

    @property
    def mechanism(self) -> VoteMechanism:
        """Mechanism of the releases, proved when the log was opened."""
        return self._header.mechanism

    @property
    def budget(self) -> Privacy | None:
        """Total (ε, δ), or None if only a number of releases was fixed."""
        return self._header.budget

    @property
    def fresh(self) -> bool:
        """Whether its limit assumes fresh voters (`accounting.freshness.FRESH`)."""
        return self.mechanism.fresh

    @property
    def sampling(self) -> Sampling | None:
        """How records are sampled for every query; None: no sampling."""
        return self._header.sampling

    @property
    def proposal(self) -> Proposal | None:
        """Test of its only batch, proved when the log was opened; None: no test."""
        return self._header.proposal

    @property
    def passed(self) -> bool | None:
        """Whether the batch passed its test, in any process; None: not drawn yet, or no test."""
        return self._journal.locked(lambda file: file.state.passed)

    @property
    def limit(self) -> int:
        """Total number of releases that it allows."""
        return self._header.quota.queries

    @property
    def account(self) -> str:
        """Account that proves the limit, see `Quota`; "queries" if it was given."""
        return self._header.quota.account

    @property
    def spent(self) -> int:
        """Releases charged so far, by any process."""
        return self._journal.locked(lambda file: file.state.spent)

    @property
    def labels(self) -> int:
        """Classes released so far, by any process: answers that are not ⊥."""
        return self._journal.locked(lambda file: file.state.labels)

    @property
    def left(self) -> int:
        """Number of remaining releases."""
        return self.limit - self.spent

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the releases made."""
        return self._journal.locked(lambda file: frozenset(file.state.places))

    @property
    def in_words(self) -> str:
        """The budget, in words."""
        return self._header.in_words

    def cost(self, releases: int, delta: float) -> ReleaseTotal:
        """Return the total cost of a number of releases, as `VoteMechanism.cost`.

        Args:
            releases: their number, which must not depend on the answers: a user who stops early because of an answer
                can claim the total of the limit, and no less.
            delta: δ of all together [probability].

        A batch with a test costs its total once, from δ of the total on, whether the test passes or not.
        """
        if self.proposal is not None and releases:
            return ReleaseTotal(delta, {PTR_ACCOUNT: self.proposal.total})
        return self.mechanism.cost(releases, delta, self.sampling)

    def group_costs(self, releases: int, delta: float) -> list[ReleaseTotal]:
        """Return the cost of a number of releases to the records of each group of a table of groups.

        Args:
            releases: their number, as for `cost`.
            delta: δ of all together [probability].

        Returns:
            One cost per group, for neighbours that differ in a record of that group; [] for other mechanisms.
        """
        mechanism = self.mechanism
        if not isinstance(mechanism, GroupTableMechanism):
            return []
        return [mechanism.group_cost(number, releases, delta) for number in range(len(mechanism.problem.groups))]

    def stored(self, release_id: str) -> Labels | None:
        """Return the answers released under an id, or None if there are none, at no cost.

        Raises:
            InvalidInput: not an id.
            BatchWithheld: the release is that the test failed.
        """
        release_id = checked_id(release_id)
        return self._journal.locked(lambda file: self._answers(file, release_id))

    def charge_and_release(
        self, count: int, draw: Draw, release_id: str | None = None, samples: Sequence[Sample] = ()
    ) -> Labels:
        """Release ``count`` answers, or return those that were released under this id.

        Args:
            count: number of answers.
            draw: draws them, given the number of classes released before; called at most once, with the file locked.
            release_id: name of the release, to ask for it again; without one it is charged each time.
            samples: for a log with a sampling, the sample of each answer, each of which is used up; or the one sample
                of all answers, if it serves several labels. Stored answers need none. With an id the samples must be
                charged already (`EnsembleSampler.draw_for`, `charge_samples`): otherwise a process that ended after
                seeing one would draw another for the same charge.

        Returns:
            The answers, shape (count,). They are on the disk, and charged, before they are returned.

        Raises:
            BudgetSpent: fewer are left; nothing was charged.
            BatchWithheld: the test of the batch failed, now or under this id before; all of it is charged.
            BudgetExceeded: this is a child that was forked inside ``draw``; its parent is charged and gets the answers.
            SampleUsed: a sample was used already, or belongs to another process; nothing was charged or released.
            ReleaseIdTaken: the id names a release of another size.
            InvalidInput: not a count or not an id, or, with an id, a sample that is not charged. Or the mechanism drew
                something other than ``count`` classes: it is charged, and nothing was released.
            ReleaseLogDamaged: the file was altered; nothing was released.
            OSError: the file cannot be written. Nothing was released, but it may be charged: asked again under the same
                id, it is charged once.
        """
        count = whole_number(count, "count", COUNT, least=0)
        if release_id is not None:
            release_id = checked_id(release_id)
        return self._journal.locked(partial(self._charge_and_release, count, draw, release_id, samples))

    def charge_samples(self, samples: Sequence[Sample], release_id: str | None = None) -> None:
        """Charge all labels of samples that nobody has seen yet; their releases are not charged again.

        Args:
            samples: of an `EnsembleSampler`, each without a release so far.
            release_id: name of the release for which they were drawn, for readers of the log.

        Guarantees:
            The line is on disk when this returns. It says that samples were drawn, not which records they contain.

        Raises:
            BudgetSpent: fewer labels are left; nothing was charged.
            SampleUsed: one was charged before, or belongs to another process; nothing was charged.
            InvalidInput: the log has no sampling, or a sample has another one.
        """
        if self.sampling is None:
            raise InvalidInput("sample", "a sample", "None", f"{self.path} charges as if without samples.")
        self._check_samples(samples, len(samples))
        if release_id is not None:
            release_id = checked_id(release_id)
        self._journal.locked(partial(self._charge_samples, samples, release_id))

    def _charge_samples(self, samples: Sequence[Sample], release_id: str | None, file: LockedJournal[Releases]) -> None:
        if any(sample.is_charged for sample in samples) or len(set(map(id, samples))) < len(samples):
            raise SampleUsed("it was charged before")
        charged = self._take_samples([(sample, 0) for sample in samples], 0, file)
        record: Record = {"count": 0, "charged": charged, "labels": 0}
        if charged:  # otherwise their round is charged already
            file.append(record if release_id is None else record | {"drawn": release_id})
        for sample in samples:
            sample.pay()

    def _charge_and_release(
        self, count: int, draw: Draw, release_id: str | None, samples: Sequence[Sample], file: LockedJournal[Releases]
    ) -> Labels:
        stored = None if release_id is None else self._answers(file, release_id)
        # Before anything is checked or charged: asking again is free, even if nothing is left.
        if stored is not None:
            if len(stored) != count:
                raise ReleaseIdTaken(
                    f"the release id {release_id!r} was used for {len(stored)} releases, not {count}: choose "
                    "another id. Nothing was charged and nothing was released."
                )
            return stored
        self._check_batch(file, count)
        served = self._check_samples(samples, count)
        # A process may end after seeing a sample and before its line: asked again, it would see another one, uncharged.
        if release_id is not None and not all(sample.is_charged for sample, _ in served):
            accepted = "that of EnsembleSampler.draw_for with this log, charged before it was seen"
            raise InvalidInput("sample", "one that is not charged", accepted, "Otherwise an id could have several.")
        charged = self._take_samples(served, count, file)
        answers = draw(file.state.labels)
        if answers is not None and np.shape(answers) == (count,):
            try:
                answers = self.mechanism.checked_labels(answers, count)
            except InvalidInput:
                # Drawn from the votes, and an error may say so: charged, or to ask again would be free.
                file.append(self._line(count, charged, self._withheld(count, file.state.labels), None))
                for sample, _ in served:
                    sample.pay()
                raise
        # Charge and answers in one line, on disk before either is returned: a killed process has shown nothing.
        file.append(self._line(count, charged, answers, release_id))
        for sample, _ in served:
            # Last: after a failed write the sample is charged in full at its next use.
            sample.pay()
        if answers is None:
            raise withheld(self.proposal)
        return answers

    def _take_samples(self, served: Sequence[tuple[Sample, int]], count: int, file: LockedJournal[Releases]) -> int:
        """Use samples for their numbers of labels; return the charge for them, or for ``count`` answers without any."""
        owner = os.path.realpath(self.path)
        # By charge: the samples of a round are one charge.
        charges = {sample.charged_with: sample.charge(labels, owner) for sample, labels in served}
        charged = count if self.sampling is None else sum(charges.values())
        if charged > self.limit - file.state.spent:
            raise BudgetSpent(self.in_words, self.limit, file.state.spent, charged)
        # Used up before anything is drawn: if the release fails, the samples must serve no other one.
        for sample, labels in served:
            sample.take(labels, owner)
        return charged

    def _withheld(self, count: int, labels: int) -> Labels | None:
        """Return answers that charge as much as any, after ``labels`` classes; None for a batch that is tested."""
        left = count if self.mechanism.cap is None else self.mechanism.cap - labels
        return None if self.proposal is not None else np.where(np.arange(count) < left, 0, ABSTENTION)

    def _line(self, count: int, charged: int, answers: Labels | None, release_id: str | None) -> Record:
        """Return the line of a release; None as answers is a batch that failed its test."""
        if answers is None and self.proposal is None:
            raise InvalidInput("draw", None, "answers")
        if answers is not None and np.shape(answers) != (count,):
            raise InvalidInput("draw", np.shape(answers), f"a draw of shape ({count},)")
        record: Record = {"count": count}
        if self.sampling is not None:
            record["charged"] = charged
        record["labels"] = 0 if answers is None else int(np.count_nonzero(answers != ABSTENTION))
        if self.proposal is not None:
            record["passed"] = answers is not None
        if release_id is not None:
            record["id"] = release_id
            if answers is not None:
                record["answers"] = encoded(answers, self._header.stored_type)
        return record

    def _check_batch(self, file: LockedJournal[Releases], count: int) -> None:
        """Reject a part of a tested batch, and a batch that failed."""
        if self.proposal is None:
            return
        if file.state.passed is False:
            raise withheld(self.proposal)
        if count != self.limit:
            raise InvalidInput("votes", f"{count} rows", f"all {self.limit} rows of the batch that {self.path} is for")

    def _check_samples(self, samples: Sequence[Sample], count: int) -> list[tuple[Sample, int]]:
        """Return the samples of ``count`` answers, each with its number of labels."""
        if self.sampling is None:
            if samples:
                raise InvalidInput("sample", "a sample", "None", f"{self.path} charges as if without samples.")
            return []
        each = 1 if len(samples) == count else count
        if len(samples) not in (count, min(count, 1)) or (each > 1 and self.sampling.labels == 1):
            given = f"{len(samples)} samples for {count} answers"
            raise InvalidInput("sample", given, "one of an EnsembleSampler each")
        for sample in samples:
            # Exactly that class: a subclass could claim that it was not used.
            if type(sample) is not Sample or sample.sampling != self.sampling:
                raise InvalidInput("sample", sample, f"a sample of an EnsembleSampler: {self.sampling.words}")
            if len(sample.shares) != self.mechanism.K:
                raise InvalidInput("sample", f"for {len(sample.shares)} voters", f"one for K = {self.mechanism.K}")
        return [(sample, each) for sample in samples]

    def check_is_for(self, mechanism: Releasing, argument: str = "release_log") -> None:
        """Reject a mechanism other than this log's.

        Args:
            mechanism: the mechanism about to release, as for `create`.
            argument: name of the argument that gave this log.

        Raises:
            InvalidInput: the log is for another mechanism, or for voters that were trained once while these are fresh.
        """
        mechanism = mechanism_of(mechanism)
        if mechanism != self.mechanism:
            raise InvalidInput(
                argument,
                str(self.path),
                "the release log of this mechanism",
                "The limit of a release log is proved for one mechanism, such as a gamma with its problem: "
                "give another mechanism its own log and its own part of the total.",
            )
        if mechanism.fresh and not self.fresh:
            raise InvalidInput("fresh", mechanism.fresh, f"False, as {self.path} is for voters that were trained once")

    def check_answers(self) -> None:
        """Read every stored answer and check it against the counts of its line.

        Raises:
            ReleaseLogDamaged: an answer is not one of the mechanism's, or a line miscounts its classes.
        """

        def check(file: LockedJournal[Releases]) -> None:
            for release_id, (place, count) in file.state.places.items():
                line, what = file.at(place), f"the release {release_id!r} of {self.path}"
                if "answers" not in line:
                    if line.get("passed") is not False and line.get("labels") != 0:
                        raise ReleaseLogDamaged(f"{what} has no answers")
                    continue
                answers = decoded(line["answers"], count, self._header.stored_type)
                classes = answers[answers != ABSTENTION]
                if classes.size and not 0 <= classes.min() <= classes.max() < self.mechanism.classes:
                    raise ReleaseLogDamaged(f"{what} has an invalid class")
                if classes.size != line.get("labels", classes.size):
                    raise ReleaseLogDamaged(f"{what} miscounts its classes")
            if self.mechanism.cap is not None and file.state.labels > self.mechanism.cap:
                raise ReleaseLogDamaged(f"{self.path} holds more classes than the cap of its mechanism")

        self._journal.locked(check)

    def _answers(self, file: LockedJournal[Releases], release_id: str) -> Labels | None:
        if release_id not in file.state.places:
            return None
        place, count = file.state.places[release_id]
        if file.state.passed is False:
            raise withheld(self.proposal)
        return decoded(file.at(place)["answers"], count, self._header.stored_type)


def mechanism_of(releasing: Releasing, *, fresh: bool = False) -> VoteMechanism:
    """Return a mechanism from itself, or from a solution or pair (gamma, problem), which is proved private here."""
    check_fresh(fresh)
    if isinstance(releasing, TableSolution) and isinstance(releasing.table.cells, Histograms):
        return TableMechanism(releasing.problem, releasing.table)
    if isinstance(releasing, TableSolution) or (isinstance(releasing, GroupTableMechanism) and fresh):
        return GroupTableMechanism(releasing.problem, releasing.table, fresh=fresh)
    if isinstance(releasing, CertifiedNoiseFunction) and fresh:
        return CertifiedNoiseFunction(releasing.release, fresh=True)
    if isinstance(releasing, VoteMechanism):
        return releasing
    return CertifiedNoiseFunction(Release.of(releasing), fresh=fresh)


def check_proposal(proposal: Proposal, mechanism: VoteMechanism) -> None:
    """Reject a test of a batch of another mechanism."""
    if not isinstance(proposal, Proposal):
        raise InvalidInput("proposal", proposal, "a Proposal or None")
    if mechanism.batch(proposal.batch.queries) != proposal.batch:
        raise InvalidInput("proposal", proposal.record(), f"the test of a batch of this mechanism: {mechanism.words}")


def withheld(proposal: Proposal | None) -> BatchWithheld:
    """Return the error of a batch that failed its test."""
    assert proposal is not None  # noqa: S101 - for the type checker: without a test every draw has answers
    return BatchWithheld(proposal.total, proposal.failed(proposal.total.delta))


def _quota(mechanism: VoteMechanism, budget: Privacy | None, queries: int | None, sampling: Sampling | None) -> Quota:
    """Return the number of releases that a log allows, and its proof."""
    if budget is None and queries is None:
        raise InvalidInput("budget", budget, "a total (ε, δ), a number of queries, or both")
    if sampling is not None:
        mechanism.cost(0, 0.0, sampling)  # raises an error if no account of samples is known
    if queries is None:
        assert budget is not None  # noqa: S101 - for the type checker
        return mechanism.most_releases(budget, sampling)
    queries = whole_number(queries, "queries", COUNT, least=0)
    if budget is None:
        # Given, not proved: the log says so with its total.
        return Quota(queries, "queries")
    # Stated with a budget, the number is a claim, which is proved here.
    cost = mechanism.cost(queries, budget.delta, sampling)
    if cost.epsilon > budget.epsilon:
        within = f"epsilon = {budget.epsilon!r}, delta = {budget.delta!r}"
        raise InvalidInput("queries", queries, f"a number of releases that fit in {within}")
    return Quota(queries, cost.account)
