"""`PrivateVote`: votes in, private answers out, by any mechanism, with each release charged before it leaves.

Releases are counted by a `ReleaseLog`, which is durable, or a `ReleaseCounter`, in the memory of one process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting import BudgetExceeded, PrivacyBudget
from darrm_opt.accounting.propose_test_release import Proposal
from darrm_opt.errors import BudgetSpent, InvalidInput
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.noise import check_unmasked
from darrm_opt.problem import Privacy
from darrm_opt.process import process_identity
from darrm_opt.randomness import RandomSource, SystemRandomness
from darrm_opt.release.log import Draw, ReleaseLog, Releasing, check_proposal, mechanism_of, withheld
from darrm_opt.release.sampler import EnsembleSampler, Sample
from darrm_opt.tables.problem import ABSTENTION
from darrm_opt.tables.votes import Labels, checked_for, label_type

MAX_COUNTS = 2**22

_COPY = (
    "a copy (loaded, copied or forked) has none, as its releases would be free: "
    "release by the original, or count releases in a file, a release log"
)


class PrivateVote:
    """Release the vote of K voters among C classes, two or more, through a private mechanism.

    Args:
        mechanism: a `Solution` (Algorithm 1 of the paper), a pair (gamma, problem), a `TableSolution` (of groups:
            columns of the first group first), or any mechanism (`darrm_opt.mechanisms`). A γ or table is proved private
            here, again, from its doubles.
        budget: charged before an answer leaves. A `ReleaseLog` (a file; resumable by release ids), a `ReleaseCounter`
            or a `PrivacyBudget` (in memory), or None: the caller keeps the account. A mechanism with a cap needs one
            that counts its labels: a log or a counter. One with a proposal releases one batch, if its noisy test
            passes.
        fresh: True if every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer;
            False if the voters were trained once, and (ε, Δ) is the privacy of the whole voter
            (`accounting.freshness.FRESH`). It decides what a `PrivacyBudget` is charged: each release, if voters are
            fresh or not private; otherwise the models that one record reaches, once, before the first release through
            this object, which is then for the votes of these models only. A `ReleaseLog` has its own setting, and must
            not be asked for more than that.
        source: source of randomness; None for the operating system, which privacy requires.

    Guarantees:
        Each answer has exactly the probability that the mechanism states; for a γ, with l ones among the votes, 1 with
        probability exactly (1 + g(l))/2, g(l) = sign(l − K/2)·γ(l), for the doubles in γ. Answers leave only after they
        are charged, and only if each is a class or ⊥; an error charges and releases nothing, except that other answers
        of a mechanism are charged.
        With a γ, the amount of randomness read and the steps taken do not depend on the votes; for other mechanisms,
        time is not covered.

        Not covered, so do not let others observe it: reading the votes and rejecting malformed ones; the time of single
        machine instructions, caches (a table of K+1 words is looked up at the number of ones) and the internals of
        NumPy; copies of votes and of unreleased randomness that stay in memory, in a swap file or in a core dump.
        Voters must answer independently of each other, given the data, and nothing but the answer may leave.

    Raises:
        NotPrivate: γ or the table is not private for its problem, or cannot be proved to be.
        InvalidInput: not a mechanism, a release log of another one, or one for voters that were trained once with
            ``fresh=True``.

    Source: Algorithm 1 and Lemma 3.4 of the paper; each mechanism has its own.

    >>> from darrm_opt import Problem, solve
    >>> vote = PrivateVote(solve(Problem.from_allowance(K=3, m=2, epsilon=0.5)))
    >>> vote.release([1, 1, 1]) in (0, 1)
    True
    """

    def __init__(
        self,
        mechanism: Releasing,
        budget: ReleaseLog | ReleaseCounter | PrivacyBudget | None = None,
        *,
        fresh: bool = False,
        source: RandomSource | None = None,
    ) -> None:
        self._mechanism = mechanism_of(mechanism, fresh=fresh)
        if isinstance(budget, ReleaseLog):
            budget.check_is_for(self._mechanism, "budget")
        elif isinstance(budget, PrivacyBudget):
            # A budget adds up (ε, δ): it can neither count labels up to a cap nor charge a mechanism with laws only.
            mechanism = self._mechanism
            if (self._event is None and mechanism.models is None) or mechanism.cap is not None:
                raise InvalidInput("budget", "a PrivacyBudget", "a ReleaseLog or None, if one release has no (ε, δ)")
        elif budget is not None and not isinstance(budget, ReleaseCounter):
            raise InvalidInput("budget", budget, "a ReleaseLog, a ReleaseCounter, a PrivacyBudget, or None")
        # A cap is over all releases, so it needs a count.
        elif budget is None and self._mechanism.cap is not None:
            raise InvalidInput("budget", budget, "a ReleaseLog, which counts the labels up to the cap")
        self._proposal = budget.proposal if isinstance(budget, ReleaseLog | ReleaseCounter) else None
        if self._proposal is not None:
            check_proposal(self._proposal, self._mechanism)
        self._budget, self._models_charged = budget, False
        self._source = SystemRandomness() if source is None else source

    def __repr__(self) -> str:
        mechanism = self._mechanism
        return (
            f"PrivateVote(K={mechanism.K}, classes={mechanism.classes}, {mechanism.description}, "
            f"affected={mechanism.affected}, budget={self._budget!r})"
        )

    @property
    def mechanism(self) -> VoteMechanism:
        """The mechanism that releases."""
        return self._mechanism

    def release(self, votes: Any, release_id: str | None = None, *, sample: Sample | None = None) -> int | None:
        """Return one private class, or None for ⊥.

        Args:
            votes: K votes, each a class 0..C−1.
            release_id: as in `release_many`.
            sample: the sample of these votes, for a log with a sampling.

        Returns:
            The class; written and charged before it is returned.

        Raises:
            DarrmError: as for `release_many`.
        """
        check_unmasked(votes, "votes")
        row = np.asarray(votes)
        if row.shape != (self._mechanism.K,):
            raise InvalidInput("votes", row.shape, f"shape ({self._mechanism.K},), one vote of each voter")
        label = int(self.release_many(row[None, :], release_id, samples=() if sample is None else (sample,))[0])
        return None if label == ABSTENTION else label

    def release_sampled(
        self, sampler: EnsembleSampler, ask: Callable[[Sample], Any], release_id: str | None = None
    ) -> int | None:
        """Draw a sample, ask the voters, and return one private class, or None for ⊥.

        Args:
            sampler: draws the sample, for one label.
            ask: returns the K votes, each a class 0..C−1, of voters that look at the sample's shares and no other data.
                If it raises, the same sample is kept for the next call under this id.
            release_id: as in `release_many`: if its class is stored, nobody is asked and no sample is drawn.

        Returns:
            The class; written before it is returned, and charged before the voters are asked.

        Raises:
            InvalidInput: the sampler's samples serve several labels: use `release_text`.
            DarrmError: as for `release_text`.

        >>> from darrm_opt.accounting import Sampling
        >>> from darrm_opt.mechanisms import mechanism_class
        >>> from darrm_opt.release import EnsembleSampler
        >>> sampler = EnsembleSampler(Sampling(1000, 30), K=10)
        >>> vote = PrivateVote(mechanism_class("permute_and_flip").of(10, 4, 50.0))
        >>> vote.release_sampled(sampler, lambda sample: [2 for share in sample.shares])
        2
        """
        if sampler.sampling.labels != 1:
            raise InvalidInput("sampler", sampler, "one whose samples serve one label each", "Use release_text.")
        label = int(self.release_text(sampler, lambda sample, _: ask(sample), release_id)[0])
        return None if label == ABSTENTION else label

    def release_text(
        self, sampler: EnsembleSampler, ask: Callable[[Sample, Sequence[int]], Any], release_id: str | None = None
    ) -> Labels:
        """Draw a sample, ask the voters T times, and return a text of T private classes: one release of T labels.

        Args:
            sampler: draws the sample, which serves T labels (`Sampling.labels`).
            ask: returns the K votes for the next label, each a class 0..C−1, given the sample and the labels so far;
                they may depend on the sample's shares and those labels only. After the end of a text let voters repeat
                it: all T are charged. If it raises, the sample and its labels are kept for the next call under this id.
            release_id: as in `release_many`: if its text is stored, nobody is asked and no sample is drawn.

        Returns:
            Classes, shape (T,), `ABSTENTION` (−1) for ⊥; written before they are returned. A log with a sampling is
            charged T labels before the voters are asked, and so is a counter, which stays charged if ``ask`` raises.

        Guarantees:
            The labels cost as much as T labels of one sample: composed as if every record were in it, then sampled. A
            process that ends before its text is released has spent that sample: under the same id another one is
            drawn, and charged as another text.

        Raises:
            InvalidInput: a mechanism whose batch is tested; a log of another sampling or number of voters; invalid
                votes.
            DarrmError: as for `release_many`.
        """
        budget, T = self._budget, sampler.sampling.labels
        log = budget if isinstance(budget, ReleaseLog) else None
        if self._proposal is not None:
            raise InvalidInput("budget", budget, "one without a test of a batch")
        if release_id is not None:
            if log is None:
                raise InvalidInput("release_id", release_id, "None", "Only a ReleaseLog knows releases by name.")
            # Before the draw: a stored text needs no sample, and a drawn sample is spent.
            if (stored := log.stored(release_id)) is not None:
                return log.charge_and_release(T, lambda _: stored, release_id)  # or rejects an id of another size
        samples_log = log if log is not None and log.sampling is not None else None
        if isinstance(budget, ReleaseCounter):
            text = budget.charge_and_release(T, lambda before: self._capped(self._text(sampler.draw(), ask), before))
            return self._mechanism.checked_labels(text, T)
        sample = sampler.draw_for(release_id, samples_log)
        # The voters are asked outside the log's lock: they may take minutes.
        labels = text = self._text(sample, ask)
        if log is not None:
            samples = () if samples_log is None else (sample,)
            labels = log.charge_and_release(T, lambda before: self._capped(text, before), release_id, samples)
        elif isinstance(budget, PrivacyBudget):
            self._charge(budget, T)
        labels = self._mechanism.checked_labels(labels, T)
        # Last: if the release fails, the same sample serves the next call under this id.
        sampler.forget(release_id, samples_log)
        return labels

    def _text(self, sample: Sample, ask: Callable[[Sample, Sequence[int]], Any]) -> Labels:
        """Return all labels of a sample: those drawn already and those drawn now."""
        while len(sample.drawn) < sample.sampling.labels:
            votes = checked_for([ask(sample, tuple(sample.drawn))], self._mechanism.K, self._mechanism.classes)
            sample.drawn += self._draw(votes).tolist()
        return np.array(sample.drawn)

    def release_many(self, votes: Any, release_id: str | None = None, *, samples: Sequence[Sample] = ()) -> Labels:
        """Return a private class for each row of votes, `ABSTENTION` (−1) for ⊥. Repeated votes are charged again.

        Args:
            votes: class of each voter, 0..C−1 (whole numbers, or floats equal to them; for two classes also truth
                values), shape (N, K).
            release_id: with a `ReleaseLog`: a name for this release. Under the same name the same classes are returned
                at no cost, for any votes: so a job can continue after a crash.
            samples: for a log with a sampling, the sample of each row of votes, each used once; or the one sample of
                all rows, if it serves the labels of a text.

        Returns:
            Classes, shape (N,), int16, or int32 for more than 32,768 classes; written and charged before they are
            returned.

        Raises:
            InvalidInput: another shape, or an invalid class; messages never show votes. Or the mechanism drew something
                that is no class (`VoteMechanism.checked_labels`): it is charged, and nothing leaves.
            BudgetExceeded: the budget does not allow N more (`BudgetSpent` for a log or a counter).
            BatchWithheld: the test of the batch failed: no label leaves, and its total is spent.
            ReleaseIdTaken: the name was used for another number of releases.
            SampleUsed: a sample was used already.
        """
        votes, budget = checked_for(votes, self._mechanism.K, self._mechanism.classes), self._budget

        def draw(before: int) -> Labels | None:
            # The test is drawn inside the charge, once: repeated draws would pass in the end.
            if self._proposal is not None and not self._proposal.passes(self._mechanism.count(votes), self._source):
                return None
            return self._draw(votes, before)

        if isinstance(budget, ReleaseLog):
            return budget.charge_and_release(len(votes), draw, release_id, samples)
        if samples:
            raise InvalidInput("sample", "a sample", "None", "Only a ReleaseLog with a sampling charges for samples.")
        if release_id is not None:
            raise InvalidInput("release_id", release_id, "None", "Only a ReleaseLog knows releases by name.")
        if isinstance(budget, ReleaseCounter):
            labels = budget.charge_and_release(len(votes), draw)
        else:
            if budget is not None:
                # Before the draw: a process that ends in between has paid and shown nothing.
                self._charge(budget, len(votes))
            labels = self._draw(votes)
        # After the charge: whether there is a fault may depend on the votes.
        return self._mechanism.checked_labels(labels, len(votes))

    @property
    def _event(self) -> tuple[Privacy, int] | None:
        """(ε, δ) of one of several releases and the number of such events it counts as, if there is one."""
        # For two releases: if voters were trained once, each may cost more than a single release.
        parts = self._mechanism.bounds(2)
        if len(parts) != 1:
            return None
        bounds, count = parts[0]
        # Proved without laws, if possible, so that a saved budget continues with events of the same kind.
        privacy = bounds.privacy if isinstance(bounds.privacy, Privacy) else bounds.event()
        return None if privacy is None else (privacy, count // 2)

    def _charge(self, budget: PrivacyBudget, count: int) -> None:
        event, models = self._event, self._mechanism.models
        if models is None and event is not None:
            budget.charge(event[0], count * event[1])
        elif models is not None and count and not self._models_charged:
            try:  # two threads at once charge twice, which errs on the private side
                budget.charge(*models)
            except BudgetExceeded as err:
                raise BudgetExceeded(
                    f"{err} These are the models that one record reaches, charged once for all releases because fresh "
                    "is False. Voters counted as not private (epsilon = inf) are charged release by release."
                ) from err
            self._models_charged = True

    def _draw(self, votes: NDArray[Any], before: int = 0) -> Labels:
        """Return an answer for each row of votes, with ``before`` classes released already."""
        cap, classes = self._mechanism.cap, self._mechanism.classes
        if cap is not None and before >= cap:
            return np.full(len(votes), ABSTENTION, dtype=label_type(classes))
        rows = max(1, MAX_COUNTS // classes)  # a row of counts of a vocabulary takes megabytes
        drawn = [
            self._mechanism.draw_many(self._mechanism.count(votes[start : start + rows]), self._source)
            for start in range(0, len(votes), rows)
        ]
        return self._capped(np.concatenate(drawn) if drawn else np.empty(0, dtype=label_type(classes)), before)

    def _capped(self, labels: Labels, before: int) -> Labels:
        """Return labels with ⊥ beyond the cap, whatever the votes are."""
        cap = self._mechanism.cap
        if cap is None:
            return labels
        return np.where(before + np.cumsum(labels != ABSTENTION) > cap, ABSTENTION, labels).astype(labels.dtype)


class ReleaseCounter:
    """Counter of releases in this process. Copies have nothing left, as their releases would be free.

    Args:
        limit: total number of releases, ≥ 0.
        proposal: test of the one batch of ``limit`` releases, as in `ReleaseLog.create`; None: no test.

    Guarantees:
        No more answers leave than ``limit``, for any threads and forks; each is charged before it is drawn.
    """

    def __init__(self, limit: int, proposal: Proposal | None = None) -> None:
        if proposal is not None and limit != proposal.batch.queries:
            raise InvalidInput("limit", limit, f"{proposal.batch.queries}, the queries of the batch")
        self.limit, self.proposal = limit, proposal
        self._spent = self._labels = 0
        self._reason = ""
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._process = process_identity()

    @property
    def left(self) -> int:
        """Number of remaining releases; 0 in a forked process."""
        return self.limit - self._spent if self._process == process_identity() else 0

    def charge_and_release(self, count: int, draw: Draw) -> Labels:
        """Charge ``count`` releases, then draw and return them, as `ReleaseLog.charge_and_release`.

        Args:
            count: number of answers.
            draw: draws them, given the number of classes released before.

        Raises:
            BudgetSpent: fewer are left; nothing was charged or drawn.
            BatchWithheld: the test of the batch failed; all of it is charged.
            InvalidInput: not the whole tested batch; nothing was charged.
            RuntimeError: called from within one of its own releases.
        """
        # before the lock, which another thread may have held at the fork
        self._refuse_fork(count)
        if self._holder == threading.get_ident():  # it would wait for itself for ever
            raise RuntimeError("a release counter cannot be used from within one of its own releases")
        with self._lock:
            if self.proposal is not None and count != self.limit:
                raise InvalidInput("votes", f"{count} rows", f"all {self.limit} rows of the batch")
            if count > self.left:
                raise BudgetSpent(f"{self.limit} predictions", self.limit, self._spent, count, self._reason)
            self._spent += count
            self._holder = threading.get_ident()
            try:
                labels = draw(self._labels)
            finally:
                self._holder = None
            if labels is None:
                raise withheld(self.proposal)
            self._refuse_fork(count)  # a child forked meanwhile: one charge, one answer
            self._labels += int(np.count_nonzero(labels != ABSTENTION))
        return labels

    def _refuse_fork(self, count: int) -> None:
        if self._process != process_identity():
            raise BudgetSpent(f"{self.limit} predictions", self.limit, self.limit, count, _COPY)

    def __getstate__(self) -> dict[str, Any]:
        return {"limit": self.limit, "proposal": self.proposal}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # on a new object
        self._spent, self._reason = self.limit, _COPY
