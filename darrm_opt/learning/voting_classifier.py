"""`PrivateVotingClassifier`: what the two classifiers share, from the records to the votes."""

from __future__ import annotations

import math
import secrets
from abc import ABC, abstractmethod
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from darrm_opt.bagging.teacher_layout import slot_partition
from darrm_opt.bagging.teachers import ConstantVote, random_states
from darrm_opt.errors import InvalidInput
from darrm_opt.learning.release_budgets import ReleaseCounter, ReopenedLog
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.randomness import SeededRandomnessForTestsOnly, SystemRandomness


class PrivateVotingClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is untyped
    """Base of the classifiers that train K voters and release what they say together.

    A subclass has the parameters ``estimator``, ``n_voters``, ``overlap``, ``classes`` and ``random_state``, chooses
    the classes (`_public_classes`) and releases answers to votes (`_release`).

    Attributes:
        classes_: the classes.
        voters_: the trained voters. Never publish.
        plan_: how they release: the mechanism, the number of predictions, the total.
    """

    classes_: NDArray[Any]
    plan_: Any
    _budget: ReopenedLog | ReleaseCounter

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a private class for each row, and charge each.

        Raises:
            BudgetSpent: fewer predictions are left than rows; none was made.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        votes = np.column_stack([np.asarray(voter.predict(X), dtype=np.int64) for voter in self.voters_])
        predictions: NDArray[Any] = self.classes_.take(self._release(votes))
        return predictions

    @property
    def queries_left_(self) -> float:
        """Predictions that are left; inf where the plan has no limit."""
        check_is_fitted(self)
        return math.inf if self.plan_.queries is None else self._budget.left

    @property
    def privacy_spent_(self) -> Privacy:
        """(ε, δ) of all predictions, and, with a release log, of all fits that share it.

        The total, once anything is charged: nothing less is proved, as the answers may decide how many predictions are
        asked for.
        """
        return Privacy(0.0) if self.queries_left_ == self.plan_.queries else self.plan_.total

    @abstractmethod
    def _public_classes(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the classes of the labels."""

    @abstractmethod
    def _release(self, votes: NDArray[np.int64]) -> NDArray[Any]:
        """Return the numbers of the classes released for votes, shape (rows, voters), and charge them."""

    def _training_data(self, X: Any, y: Any) -> tuple[Any, NDArray[np.int64], int, int]:
        """Return checked records, the numbers of their classes, K and the overlap; sets ``classes_``."""
        K = whole_number(self.n_voters, "n_voters", "a whole number of voters, at least 1")
        overlap = whole_number(self.overlap, "overlap", f"a divisor of n_voters = {K}")
        if K % overlap:
            raise InvalidInput("overlap", overlap, f"a divisor of n_voters = {K}")
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_ = self._public_classes(y)
        if len(X) < K // overlap:
            raise InvalidInput(
                "n_voters", K, f"at most {overlap * len(X)}", f"n_samples = {len(X)}: a part would be empty."
            )
        return X, np.searchsorted(self.classes_, y), K, overlap

    def _fit_voters(self, X: Any, y: NDArray[Any], parts: int, overlap: int) -> list[Any]:
        """Return ``overlap`` voters for each record, each trained on one of ``parts`` parts."""
        random_state = self.random_state
        if isinstance(random_state, np.random.RandomState):
            random_state = int(random_state.randint(2**31 - 1))
        # Privacy does not rest on who sees which record, nor on the seeds, only on their not depending on the records.
        source = SystemRandomness() if random_state is None else SeededRandomnessForTestsOnly(int(random_state))
        seed = secrets.randbits(64) if random_state is None else int(random_state)
        partition = slot_partition(len(X), parts, overlap, source=source)
        voters = []
        for j, i in product(range(overlap), range(parts)):
            members = partition.members(j, i)
            voters.append(self._fit_voter(X[members], y[members], (seed, j, i)))
        return voters

    def _fit_voter(self, X: Any, y: NDArray[Any], place: tuple[int, int, int]) -> Any:
        """Train one voter on its part, with randomness that depends on its place alone."""
        if (y == y[0]).all():
            return ConstantVote(y[0])  # many classifiers refuse a single class
        voter = self._new_voter()
        return voter.set_params(**random_states(voter, place)).fit(X, y)

    def _new_voter(self) -> Any:
        return clone(LogisticRegression() if self.estimator is None else self.estimator)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # small sets and small budgets: noise is all there is
        tags.non_deterministic = True
        return tags
