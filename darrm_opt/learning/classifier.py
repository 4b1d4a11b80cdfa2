"""`PrivateMajorityClassifier`: split the records, train K voters, release their majority within a budget."""

from __future__ import annotations

import math
import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from darrm_opt.accounting import Release, compose_models
from darrm_opt.design.certificate import certify
from darrm_opt.learning.logistic_regression import two_classes
from darrm_opt.learning.release_budgets import ReleaseCounter, ReopenedLog
from darrm_opt.learning.release_plan import Design, VotingPlan, voting_plan
from darrm_opt.learning.voting_classifier import PrivateVotingClassifier
from darrm_opt.mechanism import PrivateMajority, ReleaseLog
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.randomness import SystemRandomness
from darrm_opt.search import largest_count_between

MAX_FITS = 1000
"""Most fits that one release log allows where private models are charged as a whole."""


class PrivateMajorityClassifier(PrivateVotingClassifier):
    """A classifier whose predictions, all together, are (ε, δ)-DP for the replacement of one training record.

    Args:
        estimator: any scikit-learn classifier, copied for each voter; None: `LogisticRegression`. Scaling, selection of
            features and the like belong inside it, in a pipeline.
        n_voters: K ≥ 1 voters; an odd number has no ties.
        overlap: voters that see a given record, 1..K, a divisor of K: 1 for disjoint parts, K if all see all.
        epsilon: total ε of all predictions [nats].
        delta: total δ of all predictions [probability].
        queries: predictions wanted; fewer and the answers are better.
        voter_privacy: `Privacy` of one voter's training, if ``estimator`` is private itself (such as
            `PrivateLogisticRegression`); None: it is not. A claim that is not true makes this one untrue.
        design: where γ comes from, as a function of the problem: ``DarrmClient(url).gamma`` fetches it from the service
            or a table; None: it is made here.
        release_log: a file that counts the predictions across processes and restarts, created if there is none
            (`ReleaseLog`); None: this object counts them, and copies made of it (pickle, deepcopy, fork) have nothing
            left. Fitted again on the same records, only a release log remembers: it is charged for each prediction, or,
            where the plan is the plain majority, for each fit.
        classes: the two classes, public; None: those that occur in ``y``, taken to be public.
        random_state: for the parts and the training of voters that are not private, never for what is released. An int,
            a NumPy RandomState, or None for the operating system's.

    Attributes:
        classes_: the two classes.
        plan_: what is released and why (`VotingPlan`).
        voters_: the trained voters. Not private unless ``voter_privacy`` says so: never publish.

    Guarantees:
        Everything that `predict` returns, over all calls, is (``epsilon``, ``delta``)-DP, each row being chosen freely
        in view of earlier predictions; the number of records is public. A row that is asked twice is charged twice.
        There are no probabilities to ask for, since they would tell how the votes fell.
        With a ``release_log`` that holds over all fits that share it, on the same records.
        Errors while training, and the time it takes, are not covered: train where the records may be seen.

    Source: `darrm_opt.learning.release_plan`; the partition and its neighbours: `darrm_opt.bagging.teacher_layout`.

    >>> X, y = np.arange(200.0)[:, None], np.arange(200) >= 100
    >>> model = PrivateMajorityClassifier(n_voters=11, epsilon=4.0, queries=2, random_state=0).fit(X, y)
    >>> model.predict([[0.0]]).shape, model.plan_.method, model.queries_left_
    ((1,), 'noisy majority', 1)
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
        design: Design | None = None,
        release_log: str | os.PathLike[str] | None = None,
        classes: Any = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_voters = n_voters
        self.overlap = overlap
        self.epsilon = epsilon
        self.delta = delta
        self.queries = queries
        self.voter_privacy = voter_privacy
        self.design = design
        self.release_log = release_log
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the voters and decide how they will release.

        Args:
            X: records, shape (n, features), n ≥ K/overlap.
            y: labels of two classes, shape (n,).

        Raises:
            InvalidInput: a parameter is outside its range, more than two classes, or a release log of another γ or
                another number of predictions.
            BudgetSpent: the plan is the plain majority, and the release log allows no more fits.
        """
        X, numbers, K, overlap = self._training_data(X, y)
        self.plan_: VotingPlan = voting_plan(
            K,
            voter=self.voter_privacy,
            affected=overlap,
            queries=self.queries,
            total=Privacy(self.epsilon, self.delta),
            design=self.design,
        )
        self._budget = self._open_budget(self.plan_)
        self.voters_ = self._fit_voters(X, numbers, K // overlap, overlap)
        return self

    @property
    def privacy_spent_(self) -> Privacy:
        """(ε, δ) of all predictions; of a plain majority with a release log, the total of all fits."""
        check_is_fitted(self)
        if self.plan_.queries is None and self.release_log is not None:
            return Privacy(self.epsilon, self.delta)
        return super().privacy_spent_

    def _public_classes(self, y: NDArray[Any]) -> NDArray[Any]:
        return two_classes(y, self.classes)

    def _release(self, votes: NDArray[np.int64]) -> NDArray[Any]:
        solution, bits = self.plan_.solution, votes.astype(np.uint8)
        if solution is None:
            return _plain_majority(bits)
        mechanism = PrivateMajority(solution)
        return self._budget.charge_and_release(len(bits), lambda: mechanism.release_many(bits))

    def _open_budget(self, plan: VotingPlan) -> ReopenedLog | ReleaseCounter:
        """Return what the predictions are charged to: nothing is charged there where the plan is the plain majority."""
        queries, solution = plan.queries, plan.solution
        if queries is None or solution is None:
            if self.release_log is not None:
                self._charge_fit(self.release_log)
            return ReleaseCounter(0)
        if self.release_log is None:
            return ReleaseCounter(queries)
        release = Release.of(solution)
        return ReopenedLog(ReleaseLog.open_or_create(self.release_log, release, queries=queries), release)

    def _charge_fit(self, path: str | os.PathLike[str]) -> None:
        """Charge one training of private models, of which the log allows as many as are within the total together."""
        voter, total = self.voter_privacy, Privacy(self.epsilon, self.delta)
        assert voter is not None  # noqa: S101 - for the type checker: the plan is the plain majority of private voters

        # A release log is for a γ. Here it is that of the plain majority, and one training counts as one release of it.
        problem = Problem(self.n_voters, voter, total, self.overlap)
        plain, _ = certify(problem, NoiseFunction(np.ones(self.n_voters + 1)))
        fits = largest_count_between(lambda count: self._cost_of_fits(count).epsilon <= total.epsilon, 0, MAX_FITS + 1)
        log = ReleaseLog.open_or_create(path, Release(plain, problem), queries=fits)
        log.charge_and_release(1, lambda: np.ones(1, dtype=np.uint8))

    def _cost_of_fits(self, count: int) -> Privacy:
        """Return what the models of so many fits on the same records cost together."""
        voter = Privacy(math.inf) if self.voter_privacy is None else self.voter_privacy
        return compose_models({voter: count * self.overlap}, self.delta)

    def _fit_voter(self, X: Any, y: NDArray[Any], place: tuple[int, int, int]) -> Any:
        if self.voter_privacy is None:
            return super()._fit_voter(X, y, place)
        # To answer for it without training, where its part has one class, would tell so.
        voter = self._new_voter()
        parameters = {"classes": [0, 1]} if "classes" in voter.get_params() else {}
        return voter.set_params(**parameters).fit(X, y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _plain_majority(votes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the majority of each row, a fair coin where there is a tie."""
    K = votes.shape[1]
    twice = 2 * votes.sum(axis=1, dtype=np.int64)
    fair = SystemRandomness().words(len(votes), 1).astype(np.uint8)
    return np.where(twice == K, fair, twice > K).astype(np.uint8)
