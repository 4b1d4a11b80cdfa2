"""`PrivatePluralityClassifier`: split the records, train K voters, release the class that most of them choose."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.learning.release_budgets import ReleaseCounter, ReopenedLog
from darrm_opt.learning.voting_classifier import PrivateVotingClassifier
from darrm_opt.plurality import PluralityLog, PluralityPlan, PrivatePlurality, plurality_plan
from darrm_opt.problem import Privacy


class PrivatePluralityClassifier(PrivateVotingClassifier):
    """A classifier of C classes whose predictions, all together, are (ε, δ)-DP for the replacement of one record.

    Args:
        estimator: any scikit-learn classifier, copied for each voter; None: `LogisticRegression`.
        n_voters: K ≥ 1 voters.
        overlap: voters that see a given record, 1..K, a divisor of K: 1 for disjoint parts.
        epsilon: total ε of all predictions [nats].
        delta: total δ of all predictions [probability].
        queries: predictions wanted; fewer and the answers are better.
        prior: how votes are expected to fall (`darrm_opt.plurality.parse_prior`): for accuracy alone, not privacy.
        release_log: a file that counts the predictions across processes and restarts, created if there is none
            (`PluralityLog`); None: this object counts them, and copies made of it (pickle, deepcopy, fork) have nothing
            left.
        classes: the classes, public; None: those that occur in ``y``, taken to be public.
        random_state: for the parts and the training of voters, never for what is released.

    Attributes:
        classes_: the classes.
        plan_: what is released and why (`PluralityPlan`).
        voters_: the trained voters. Not private: never publish.

    Guarantees:
        As `PrivateMajorityClassifier`: everything that `predict` returns, over all calls, is (``epsilon``,
        ``delta``)-DP. The voters are not private and need not be: what is accounted for is that a record changes
        ``overlap`` of them.

    >>> X = np.repeat(np.eye(3), 60, axis=0)
    >>> model = PrivatePluralityClassifier(n_voters=12, epsilon=4.0, queries=2, random_state=0)
    >>> model.fit(X, np.repeat(["a", "b", "c"], 60)).predict([[1, 0, 0]]).shape, model.queries_left_
    ((1,), 1)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_voters: int = 25,
        overlap: int = 1,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        queries: int = 100,
        prior: str = "dirichlet(0.2)",
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
        self.prior = prior
        self.release_log = release_log
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the voters and decide how they will release.

        Args:
            X: records, shape (n, features), n ≥ K/overlap.
            y: labels, shape (n,).

        Raises:
            InvalidInput: a parameter is outside its range, fewer than two classes, a label that is no class, or a
                release log of another mechanism or another number of predictions.
        """
        X, numbers, K, overlap = self._training_data(X, y)
        self.plan_: PluralityPlan = plurality_plan(
            K,
            len(self.classes_),
            Privacy(self.epsilon, self.delta),
            self.queries,
            affected=overlap,
            objective=self.prior,
        )
        self.voters_ = self._fit_voters(X, numbers, K // overlap, overlap)
        self._budget = self._open_budget(self.plan_)
        return self

    def _public_classes(self, y: NDArray[Any]) -> NDArray[Any]:
        classes = np.unique(y if self.classes is None else np.asarray(self.classes))
        if len(classes) < 2:
            raise InvalidInput("y", f"{len(classes)} class", "labels of at least two classes")
        if not np.isin(y, classes).all():
            raise InvalidInput("y", "a label that is none of the classes", f"labels among {list(classes)}")
        return classes

    def _open_budget(self, plan: PluralityPlan) -> ReopenedLog | ReleaseCounter:
        """Return what the predictions are charged to."""
        if self.release_log is None:
            return ReleaseCounter(plan.queries)
        log = PluralityLog.open_or_create(self.release_log, plan.mechanism, queries=plan.queries)
        return ReopenedLog(log, plan.mechanism)

    def _release(self, votes: NDArray[np.int64]) -> NDArray[Any]:
        mechanism = PrivatePlurality(self.plan_.mechanism)
        return self._budget.charge_and_release(len(votes), lambda: mechanism.release_many(votes))
