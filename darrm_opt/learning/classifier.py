"""`PrivateVotingClassifier`: split the records, train K voters, release their vote within a budget."""

from __future__ import annotations

import math
import os
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from darrm_opt.accounting.propose_test_release import LEADER_SHARE
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.arguments import whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.learning.release_plan import (
    Design,
    SampledVoters,
    VotingPlan,
    check_classifier,
    check_sampling,
    class_votes,
    voting_plan,
)
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.problem import Privacy, Problem, VoterGroup
from darrm_opt.randomness import SeededRandomnessForTestsOnly, SystemRandomness
from darrm_opt.release import PrivateVote, ReleaseCounter, ReleaseLog
from darrm_opt.search import largest_count_between
from darrm_opt.tables.problem import ABSTENTION
from darrm_opt.tables.votes import count_votes
from darrm_opt.teachers import slot_partition, trained

MAX_FITS = 1000  # maximum number of fits of one release log if private models are charged as a whole
SILENCE = 2.0  # seconds after which `PrivateVotingClassifier.fit` reports its progress


class PrivateVotingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A classifier whose predictions, all together, are (ε, δ)-DP for the replacement of one training record.

    Args:
        estimator: any scikit-learn classifier, copied for each voter; None: `LogisticRegression`. Scaling, feature
            selection and the like belong inside it, in a pipeline.
        n_voters: K ≥ 1 voters; between two classes an odd number has no ties.
        overlap: voters that see a given record, 1..K, a divisor of K: 1 for disjoint parts, K if all see all.
        epsilon: total ε of all predictions [nats].
        delta: total δ of all predictions [probability].
        queries: number of predictions; fewer predictions are more accurate.
        voter_privacy: `Privacy` of one voter's training, if ``estimator`` is private itself (such as
            `PrivateLogisticRegression`), or a `PrivacyProfile` computed by its accountant, with which several models
            cost far less together; None: not private. A false claim invalidates this classifier's guarantee.
        groups: voters of different privacy, a list of (voters, privacy, estimator), instead of ``n_voters``,
            ``voter_privacy`` and ``estimator``: their number, the `Privacy` of the training of each (ε = inf: not
            private) and their estimator, None as for ``estimator``. If all models together are not within the total,
            one query is released by the best table for their privacy (up to six classes, if it is found in a minute),
            and more queries as if no voter were private.
        sampling: how records are sampled for every prediction (`accounting.Sampling`): the voters are then the
            ``n_voters`` nearest neighbours among the drawn records (private kNN; scale features by public numbers
            only), or, with an ``estimator``, copies of it, each trained on its share. Neighbours are those of the
            sampling; predictions cost far less. None: the voters are trained once, on parts of all records.
        prior: expected distribution of votes, for accuracy only, not privacy, see `voting_plan`; None: a usual one.
        ptr: the total of propose-test-release, below (``epsilon``, ``delta``). The noise is then that of any votes
            within (``epsilon``, ``delta``); `predict` is called once, with all ``queries`` rows, and answers only if a
            noisy test of their votes passes, all of it within ``ptr`` (`accounting.propose_test_release`).
        leader_share: with ``ptr``: expected mean share of the voters that agree.
        price: cost of a wrong class, when a right one is worth 1. Above 0 a prediction may be ``abstention`` if the
            vote is close; the number of released classes may then have a cap, which is kept.
        abstention: predicted value of an abstention; not one of the classes.
        design: source of γ for two classes, as a function of the problem: ``DarrmClient(url).gamma`` fetches it from
            the service or a table; None: the best mechanism is searched here.
        release_log: a file that counts the predictions across processes and restarts, created if it does not exist
            (`ReleaseLog`); None: this object counts them, and copies of it (pickle, deepcopy, fork) have nothing left.
            Only a release log remembers earlier fits on the same records: it is charged for each prediction, or, if the
            plan is the plain vote, for each fit. The mechanism of an existing log is used.
        classes: the classes, public; None: those in ``y``, assumed to be public.
        random_state: for the parts and the training of voters that are not private, never for releases. An int, a NumPy
            RandomState, or None for the operating system's randomness.
        verbose: whether a fit that takes longer than `SILENCE` reports its progress on standard error: the compared
            mechanism and the trained voter; then each time after twice the time.

    Attributes:
        classes_: the classes.
        plan_: the release and its reason (`VotingPlan`).
        voters_: the trained voters, or `SampledVoters`, which contain the records. Not private except as stated by
            ``voter_privacy``: never publish.

    Guarantees:
        All results of `predict`, over all calls, are (``epsilon``, ``delta``)-DP, each row being chosen freely in view
        of earlier predictions; with ``ptr``, the single batch of them is ``ptr``-DP. The number of records is public. A
        repeated row is charged again. There are no class probabilities, since they would reveal how the votes fell.
        With a ``release_log`` this holds over all fits that share it, on the same records.
        Errors and time of training are not covered: train where the records may be seen. With ``sampling`` that holds
        for predicting too, as it draws and trains, and an observer of the estimator's memory sees samples. A release
        log is charged before the samples are examined.

    Source: `darrm_opt.learning.release_plan`; the partition and its neighbours: `darrm_opt.teachers`.

    >>> X = np.repeat(np.eye(3), 60, axis=0)
    >>> model = PrivateVotingClassifier(n_voters=12, epsilon=4.0, delta=0.0, queries=2, random_state=0)
    >>> model.fit(X, np.repeat(["a", "b", "c"], 60)).predict([[1, 0, 0]]).shape, model.queries_left_
    ((1,), 1)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_voters: int = 11,
        overlap: int = 1,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        queries: int = 100,
        voter_privacy: Privacy | None = None,
        groups: Sequence[tuple[int, Privacy, Any]] | None = None,
        sampling: Sampling | None = None,
        prior: str | None = None,
        price: float = 0.0,
        abstention: Any = -1,
        ptr: Privacy | None = None,
        leader_share: float = LEADER_SHARE,
        design: Design | None = None,
        release_log: str | os.PathLike[str] | None = None,
        classes: Any = None,
        random_state: Any = None,
        verbose: bool = True,
    ) -> None:
        # Stored as given and checked in `fit`, as scikit-learn's clone and set_params require.
        self.estimator = estimator
        self.n_voters = n_voters
        self.overlap = overlap
        self.epsilon = epsilon
        self.delta = delta
        self.queries = queries
        self.voter_privacy = voter_privacy
        self.groups = groups
        self.sampling = sampling
        self.prior = prior
        self.price = price
        self.abstention = abstention
        self.ptr = ptr
        self.leader_share = leader_share
        self.design = design
        self.release_log = release_log
        self.classes = classes
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train the voters and plan their release.

        Args:
            X: records, shape (n, features), n ≥ K/overlap.
            y: labels of at least two classes, shape (n,).

        Raises:
            InvalidInput: a parameter is outside its range, a label outside the classes, or a release log of other
                voters, of another total or number of predictions.
            BudgetSpent: the plan is the plain vote, and the release log allows no more fits.
        """
        X, numbers, K, overlap = self._training_data(X, y)
        with _Progress(verbose=self.verbose) as progress:
            self.plan_ = self._plan(K, overlap, progress)
            self._log_path = None if self.release_log is None else Path(self.release_log)
            self._counter = ReleaseCounter(self.plan_.queries or 0, self.plan_.proposal)
            if self._log_path is not None:
                self._begin_log(self._log_path)
            self.voters_: Any = (
                self._fit_voters(X, numbers, K // overlap, overlap, progress)
                if self.sampling is None
                else SampledVoters(X, numbers, K, self.sampling, self.estimator, self._seed(), len(self.classes_))
            )
            if isinstance(self.voters_, SampledVoters):
                self.voters_.try_voter()
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a private class for each row, or ``abstention``, and charge each.

        Raises:
            BudgetSpent: fewer predictions are left than rows; none was made.
            BatchWithheld: with ``ptr``, the votes failed the test: none was made, and the total is spent.
            InvalidInput: with ``ptr``, not all rows at once.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        mechanism, voters = self.plan_.mechanism, self.voters_
        if isinstance(voters, SampledVoters):
            labels = voters.release(mechanism, self._budget, X)
        else:
            votes = np.column_stack([class_votes(voter.predict(X), len(X), len(self.classes_)) for voter in voters])
            if self.plan_.queries is None:  # the plain vote: the training was charged
                counts = count_votes(votes, mechanism.K, mechanism.classes)
                labels = mechanism.draw_many(counts, SystemRandomness())
            else:
                labels = PrivateVote(mechanism, self._budget).release_many(votes)
        if not self.price:
            return np.asarray(self.classes_.take(labels))
        # a name among numbers, or a number among names, keeps its type.
        is_number = self.classes_.dtype.kind in "biuf" and isinstance(self.abstention, int | float)
        kind = np.result_type(self.classes_, self.abstention) if is_number else object
        predictions = self.classes_.astype(kind).take(np.maximum(labels, 0))
        predictions[labels == ABSTENTION] = self.abstention
        return np.asarray(predictions)

    @property
    def queries_left_(self) -> float:
        """Number of remaining predictions; inf if the plan has no limit."""
        check_is_fitted(self)
        return math.inf if self.plan_.queries is None else self._budget.left

    @property
    def privacy_spent_(self) -> Privacy:
        """(ε, δ) of all predictions, and, with a release log, of all fits that share it.

        The total, once anything is charged: nothing less is proved, as the number of predictions may depend on the
        answers. For a plain vote with a release log, the total of all fits.
        """
        if self.queries_left_ == self.plan_.queries:
            return Privacy(0.0)
        is_shared = self.plan_.queries is None and self._log_path is not None
        return Privacy(self.epsilon, self.delta) if is_shared else self.plan_.total

    @property
    def _budget(self) -> ReleaseLog | ReleaseCounter:
        """Budget of predictions; a log is opened anew, so that copies and forked processes share it."""
        return self._counter if self._log_path is None else ReleaseLog(self._log_path)

    def _plan(self, K: int, overlap: int, progress: _Progress) -> VotingPlan:
        total, classes = Privacy(self.epsilon, self.delta), len(self.classes_)
        if self.ptr is not None and not isinstance(self.ptr, Privacy):
            raise InvalidInput("ptr", self.ptr, "a Privacy or None")
        progress.state = doing = f"designing the release of {self.queries} predictions"

        # a design may take a minute: report the mechanism compared last.
        def compared(name: str) -> None:
            progress.state = f"{doing} after {name}"

        # an existing log was charged for one mechanism, which is used whatever a new search would find. It must be for
        # the requested total (`ptr` if given).
        path = None if self.release_log is None else Path(self.release_log)
        if (
            path is not None
            and path.exists()
            and (plan := self._logged_plan(path, K, overlap, self.ptr or total)) is not None
        ):
            return plan
        return voting_plan(
            K,
            classes,
            queries=self.queries,
            total=total,
            affected=overlap,
            voter=self.voter_privacy,
            groups=None if self.groups is None else self._voter_groups,
            sampling=self.sampling,
            prior=self.prior,
            price=self.price,
            design=self.design,
            ptr=self.ptr,
            leader_share=self.leader_share,
            progress=compared,
        )

    @property
    def _ensemble(self) -> list[tuple[int, Privacy | None, Any]]:
        """Number, privacy and estimator of the voters, in the order of their training."""
        return [(self.n_voters, self.voter_privacy, self.estimator)] if self.groups is None else list(self.groups)

    @property
    def _voter_groups(self) -> list[VoterGroup]:
        return [VoterGroup(voters, privacy or Privacy(math.inf)) for voters, privacy, _ in self._ensemble]

    def _logged_plan(self, path: Path, K: int, overlap: int, total: Privacy) -> VotingPlan | None:
        """Return the plan of an existing log; None if it counts fits."""
        log = ReleaseLog(path)
        if isinstance(log.mechanism, PlainVote):
            return None
        mechanism = log.mechanism
        shape = (mechanism.K, mechanism.classes, mechanism.affected)
        accepted = f"the release log of {K} voters, {len(self.classes_)} classes and overlap = {overlap}"
        if shape != (K, len(self.classes_), overlap):
            raise InvalidInput("release_log", str(path), accepted)
        # Its assumptions on private voters must hold for these, and, as they are trained once, for one release only.
        supposed: Any = getattr(mechanism, "problem", None)
        if mechanism.private_voters:
            shown = {"classes": mechanism.classes, "affected": overlap}
            abstains = getattr(supposed, "abstention", False)
            ours = Problem(groups=self._voter_groups, target=supposed.target, abstention=abstains, **shown).merged
            if ours != supposed or log.limit > 1:
                raise InvalidInput("release_log", str(path), f"{accepted}, of their privacy, for one prediction")
        if (log.proposal is None) != (self.ptr is None):
            raise InvalidInput("ptr", self.ptr, "None, unless the release log is for a batch that is tested")
        if log.sampling != self.sampling:
            raise InvalidInput("sampling", self.sampling, f"that of the release log {path}: {log.sampling}")
        if log.limit != self.queries:
            raise InvalidInput("queries", self.queries, f"the budget of {path}: {log.limit} releases")
        if log.budget != total and not (log.budget is None and mechanism.fits(total, log.limit, log.sampling)):
            raise InvalidInput("release_log", str(path), f"a release log within {total}", f"It has {log.in_words}.")
        why = f"The existing release log {path} is for this mechanism: {mechanism.description}."
        return VotingPlan(mechanism, self.queries, total, why, log.proposal)

    def _begin_log(self, path: Path) -> None:
        """Create or open the log of the predictions; for the plain vote, charge this fit."""
        plan, total = self.plan_, Privacy(self.epsilon, self.delta)
        if plan.proposal is not None:
            ReleaseLog.open_or_create(path, plan.mechanism, proposal=plan.proposal)
            return
        if plan.queries is not None:
            ReleaseLog.open_or_create(path, plan.mechanism, budget=total, queries=plan.queries, sampling=self.sampling)
            return
        # The plain vote is post-processing of the models, so each fit is charged: this many fit together.
        fits = largest_count_between(lambda count: plan.mechanism.fits(total, count), 0, MAX_FITS + 1)
        log = ReleaseLog.open_or_create(path, plan.mechanism, budget=total, queries=fits)
        # Before the training: an uncharged fit could be used for predictions.
        log.charge_and_release(1, lambda _: np.zeros(1, dtype=np.int16))

    def _training_data(self, X: Any, y: Any) -> tuple[Any, NDArray[np.int64], int, int]:
        """Return checked records, the numbers of their classes, K and the overlap; set ``classes_``."""
        self._check_groups()
        for *_, estimator in self._ensemble:
            check_classifier(estimator)
        K = self.n_voters if self.groups is None else sum(voters for voters, _, _ in self.groups)
        K = whole_number(K, "n_voters", "a whole number of voters, at least 1")
        overlap = whole_number(self.overlap, "overlap", f"a divisor of n_voters = {K}")
        if K % overlap:
            raise InvalidInput("overlap", overlap, f"a divisor of n_voters = {K}")
        # Sampled voters hold every record, unsplit, so arguments about parts or their training would be ignored.
        if self.sampling is not None:
            names = ("voter_privacy", "groups", "design", "ptr")
            alone = {name: (getattr(self, name), None) for name in names} | {"overlap": (overlap, 1)}
            check_sampling(self.sampling, self.estimator, alone)
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        # Classes taken from `y` are assumed to be public: private data must not decide what can be released.
        classes = np.unique(y if self.classes is None else np.asarray(self.classes))
        if len(classes) < 2:
            raise InvalidInput("y", f"{len(classes)} class", "labels of at least two classes", "Or give classes.")
        if not np.isin(y, classes).all():
            raise InvalidInput("y", "a label outside the classes", f"labels among {list(classes)}")
        if self.price and self.abstention in classes.tolist():
            raise InvalidInput("abstention", self.abstention, "a value that is not a class")
        # K/overlap parts, each seen by `overlap` voters; n is public, so an error reveals nothing.
        if len(X) < K // overlap and self.sampling is None:
            raise InvalidInput(
                "n_voters", K, f"at most {overlap * len(X)}", f"n_samples = {len(X)}: a part would be empty."
            )
        self.classes_ = classes
        return X, np.searchsorted(classes, y), K, overlap

    def _check_groups(self) -> None:
        if self.groups is None:
            return
        accepted = "None, or a list of (voters, Privacy, estimator)"
        if not isinstance(self.groups, list | tuple) or not self.groups:
            raise InvalidInput("groups", self.groups, accepted)
        for group in self.groups:
            if not isinstance(group, list | tuple) or len(group) != 3 or not isinstance(group[1], Privacy):
                raise InvalidInput("groups", group, accepted)
            whole_number(group[0], "groups", "a whole number of voters in each, at least 1")
        for argument in ("estimator", "voter_privacy"):
            if (value := getattr(self, argument)) is not None:
                raise InvalidInput(argument, value, "None with groups", "Each group has its own.")

    def _fit_voters(self, X: Any, y: NDArray[Any], parts: int, overlap: int, progress: _Progress) -> list[Any]:
        """Return ``overlap`` voters per record, each trained on one of ``parts`` parts."""
        # Privacy does not depend on the assignment of records or on the seeds, but both must not depend on the records.
        seed = self._seed()
        source = SystemRandomness() if self.random_state is None else SeededRandomnessForTestsOnly(seed)
        partition = slot_partition(len(X), parts, overlap, source=source)
        kinds = [(privacy, estimator) for number, privacy, estimator in self._ensemble for _ in range(number)]
        voters: list[Any] = []
        for j, i in product(range(overlap), range(parts)):
            progress.state = f"training voter {len(voters) + 1} of {parts * overlap}"
            members = partition.members(j, i)
            voters.append(self._fit_voter(X[members], y[members], (seed, j, i), *kinds[len(voters)]))
        return voters

    def _seed(self) -> int:
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31 - 1))
        return secrets.randbits(64) if self.random_state is None else int(self.random_state)

    def _fit_voter(
        self, X: Any, y: NDArray[Any], place: tuple[int, int, int], privacy: Privacy | None, estimator: Any
    ) -> Any:
        """Train one voter on its part; if it is not private, its randomness depends on its place alone."""
        template = LogisticRegression() if estimator is None else estimator
        if privacy is None or (self.groups is not None and privacy.epsilon == math.inf):
            return trained(partial(clone, template), X, y, place)
        # a constant vote for a part with one class would reveal that.
        voter = clone(template)
        names = {"classes": list(range(len(self.classes_)))} if "classes" in voter.get_params() else {}
        return voter.set_params(**names).fit(X, y)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags  # since 1.6, which alone asks for tags in this way

        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # small sets and small budgets: noise dominates
        tags.non_deterministic = True
        models = [estimator for *_, estimator in self._ensemble]
        theirs = [
            get_tags(m).classifier_tags for m in models if hasattr(m, "__sklearn_tags__") and not isinstance(m, type)
        ]
        tags.classifier_tags.multi_class = all(each is None or each.multi_class for each in theirs)
        return tags


class _Progress:
    """Reports the progress of a fit on standard error: after `SILENCE`, then each time after twice the time."""

    def __init__(self, *, verbose: bool) -> None:
        self.state = ""
        self._verbose, self._over = verbose, Event()
        self._thread = Thread(target=self._say, daemon=True)

    def __enter__(self) -> Self:
        if self._verbose:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._verbose:
            self._thread.join()

    def _say(self) -> None:
        start, wait = monotonic(), SILENCE
        while not self._over.wait(wait):
            wait = monotonic() - start
            sys.stderr.write(f"PrivateVotingClassifier: {self.state} …\n")
