"""`PrivateMajorityClassifier`: split the records, train K voters, release their majority within a budget."""

from __future__ import annotations

import math
import os
import secrets
import threading
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from darrm_opt.accounting import BelowLeakFloor, TooMuchWork, exact_epsilon
from darrm_opt.ensembles.partition import slot_partition
from darrm_opt.ensembles.randomness import SeededBitsForTestsOnly, SystemBits
from darrm_opt.ensembles.teachers import ConstantVote
from darrm_opt.errors import InvalidInput
from darrm_opt.learning.logistic import two_classes
from darrm_opt.learning.voting import Design, VotingPlan, voting_plan
from darrm_opt.mechanism import BudgetSpent, PrivateMajority, ReleaseLedger, SystemWords
from darrm_opt.problem import Privacy, whole_number


class PrivateMajorityClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
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
        design: where γ comes from, as a function of the problem: ``DarrmClient(url).gamma`` fetches it from the service or
            a table; None: it is made here.
        ledger: a file that keeps the account across processes and restarts; None: this object keeps it, and copies
            made of it (pickle, deepcopy) have nothing left. Fitted again on the same records, only a ledger remembers.
        classes: the two classes, public; None: those that occur in ``y``, taken to be public.
        random_state: for the parts and the training of voters that are not private, never for what is released. An int,
            a NumPy RandomState, or None for the operating system's.

    Attributes:
        classes_: the two classes.
        plan_: what is released and why (`VotingPlan`).
        voters_: the trained voters. Not private unless ``voter_privacy`` says so: never publish.

    Guarantees:
        Everything that `predict` returns, over all calls, is (``epsilon``, ``delta``)-DP, each row being chosen freely in
        view of earlier predictions; the number of records is public. A row that is asked twice is charged twice. There are
        no probabilities to ask for, since they would tell how the votes fell.
        Errors while training, and the time it takes, are not covered: train where the records may be seen.

    Source: `darrm_opt.learning.voting`; the partition and its neighbours: `darrm_opt.ensembles.partition`.

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
        ledger: str | os.PathLike[str] | None = None,
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
        self.ledger = ledger
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the voters and decide how they will release.

        Args:
            X: records, shape (n, features), n ≥ K/overlap.
            y: labels of two classes, shape (n,).

        Raises:
            InvalidInput: a parameter is outside its range; more than two classes.
        """
        K = whole_number(self.n_voters, "n_voters", "a whole number of voters, at least 1")
        overlap = whole_number(self.overlap, "overlap", f"a divisor of n_voters = {K}")
        if K % overlap:
            raise InvalidInput("overlap", overlap, f"a divisor of n_voters = {K}")
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_ = two_classes(y, self.classes)
        numbers = np.searchsorted(self.classes_, y)
        if len(X) < K // overlap:
            raise InvalidInput(
                "n_voters", K, f"at most {overlap * len(X)}", f"n_samples = {len(X)}: a part would be empty."
            )
        self.plan_: VotingPlan = voting_plan(
            K,
            voter=self.voter_privacy,
            affected=overlap,
            queries=self.queries,
            total=Privacy(self.epsilon, self.delta),
            design=self.design,
        )
        self.voters_ = self._trained(X, numbers, K // overlap, overlap)
        self._budget = self._account()
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a private class for each row, and charge each.

        Raises:
            BudgetSpent: fewer predictions are left than rows; none was made.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        votes = np.column_stack([np.asarray(voter.predict(X), dtype=np.uint8) for voter in self.voters_])
        bits = self._released(votes)
        predicted: NDArray[Any] = self.classes_.take(bits)
        return predicted

    @property
    def queries_left_(self) -> float:
        """Predictions that are left; inf where the plan has no limit."""
        check_is_fitted(self)
        if self.plan_.queries is None:
            return math.inf
        return (ReleaseLedger(self._budget) if isinstance(self._budget, Path) else self._budget).left

    @property
    def privacy_spent_(self) -> Privacy:
        """(ε, δ) of all predictions made so far, proved: at most the total."""
        check_is_fitted(self)
        total, solution = self.plan_.total, self.plan_.solution
        if solution is None or self.plan_.queries is None:
            return total  # paid in full by the first prediction, and never more
        spent = int(self.plan_.queries - self.queries_left_)
        if not spent:
            return Privacy(0.0)
        try:
            epsilon = exact_epsilon(solution.noise, solution.problem, spent, total.delta)
        except (BelowLeakFloor, TooMuchWork):
            epsilon = total.epsilon
        return Privacy(min(epsilon, total.epsilon), total.delta)

    def _released(self, votes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        solution = self.plan_.solution
        if solution is None:
            return _plain(votes)
        if isinstance(self._budget, Path):
            return PrivateMajority(solution, ReleaseLedger(self._budget)).release_many(votes)
        mechanism = PrivateMajority(solution)
        self._budget.charge(len(votes))
        return mechanism.release_many(votes)

    def _account(self) -> InMemory | Path:
        queries, solution = self.plan_.queries, self.plan_.solution
        if queries is None or solution is None:
            return InMemory(0)
        if self.ledger is None:
            return InMemory(queries)
        path = Path(self.ledger)
        released = (solution.noise, solution.problem)
        found = ReleaseLedger(path) if path.exists() else ReleaseLedger.create(path, released, queries=queries)
        PrivateMajority(released, found)  # refuses the ledger of another γ
        if found.limit != queries:
            raise InvalidInput("ledger", str(path), f"a ledger of {queries} releases", f"This one has {found.limit}.")
        return path

    def _trained(self, X: Any, y: NDArray[Any], parts: int, overlap: int) -> list[Any]:
        given = self.random_state
        if isinstance(given, np.random.RandomState):
            given = int(given.randint(2**31 - 1))
        # Privacy does not rest on who sees which record, nor on the seeds, only on their not depending on the records.
        bits = SystemBits() if given is None else SeededBitsForTestsOnly(int(given))
        seed = secrets.randbits(64) if given is None else int(given)
        partition = slot_partition(len(X), parts, overlap, bits=bits)
        voters = []
        for j, i in product(range(overlap), range(parts)):
            members = partition.members(j, i)
            voters.append(self._one(X[members], y[members], (seed, j, i)))
        return voters

    def _one(self, X: Any, y: NDArray[Any], place: tuple[int, int, int]) -> Any:
        """Train one voter on its part, with randomness that depends on its place alone."""
        private = self.voter_privacy is not None
        if not private and (y == y[0]).all():
            return ConstantVote(y[0])  # many classifiers refuse a single class; a private one may not be asked
        voter = clone(LogisticRegression() if self.estimator is None else self.estimator)
        given = voter.get_params()
        settings: dict[str, Any] = {}
        if not private:
            state = int(np.random.SeedSequence(place).generate_state(1)[0])
            settings = {
                name: state for name, value in given.items() if name.split("__")[-1] == "random_state" and value is None
            }
        if private and "classes" in given:
            settings["classes"] = [0, 1]
        return voter.set_params(**settings).fit(X, y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # small sets and small budgets: noise is all there is
        tags.non_deterministic = True
        return tags


class InMemory:
    """An account in this process: so many releases and no more. Copies have nothing left, or they would be free."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spent = 0
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """Releases that are left."""
        return self.limit - self._spent

    def charge(self, count: int) -> None:
        """Charge releases, or refuse and charge nothing.

        Raises:
            BudgetSpent: fewer are left.
        """
        with self._lock:
            if count > self.left:
                raise BudgetSpent(f"{self.limit} predictions", self.limit, self._spent, count)
            self._spent += count

    def __getstate__(self) -> dict[str, int]:
        return {"limit": self.limit}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__init__(state["limit"])  # type: ignore[misc]  # on a new object
        self._spent = self.limit


def _plain(votes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the majority of each row, a fair coin where there is a tie."""
    K = votes.shape[1]
    twice = 2 * votes.sum(axis=1, dtype=np.int64)
    fair = SystemWords().words(len(votes), 1).astype(np.uint8)
    return np.where(twice == K, fair, twice > K).astype(np.uint8)
