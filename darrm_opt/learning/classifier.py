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

from darrm_opt.accounting import DeltaTooSmall, Release, TooMuchWork, compose_models, exact_epsilon
from darrm_opt.aggregators.teacher_layout import slot_partition
from darrm_opt.aggregators.teachers import ConstantVote
from darrm_opt.design.certificate import certify
from darrm_opt.errors import InvalidInput
from darrm_opt.fork_identity import process_identity
from darrm_opt.learning.logistic_regression import two_classes
from darrm_opt.learning.release_plan import Design, VotingPlan, voting_plan
from darrm_opt.mechanism import BudgetSpent, PrivateMajority, ReleaseLog
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem, whole_number
from darrm_opt.randomness.source import SeededRandomnessForTestsOnly, SystemRandomness
from darrm_opt.search import largest_count_between

MAX_FITS = 1000
"""Most fits that one ledger allows where private models are charged as a whole."""


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
            made of it (pickle, deepcopy, fork) have nothing left. Fitted again on the same records, only a ledger remembers: it
            is charged for each prediction, or, where the plan is the plain majority, for each fit.
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
        With a ``ledger`` that holds over all fits that share it, on the same records.
        Errors while training, and the time it takes, are not covered: train where the records may be seen.

    Source: `darrm_opt.learning.release_plan`; the partition and its neighbours: `darrm_opt.aggregators.teacher_layout`.

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
            BudgetSpent: the plan is the plain majority, and the ledger allows no more fits.
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
        self._budget = self._account()
        self.voters_ = self._trained(X, numbers, K // overlap, overlap)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a private class for each row, and charge each.

        Raises:
            BudgetSpent: fewer predictions are left than rows; none was made.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        votes = np.column_stack([np.asarray(voter.predict(X), dtype=np.int64) for voter in self.voters_])
        predicted: NDArray[Any] = self.classes_.take(self._released(votes))
        return predicted

    @property
    def queries_left_(self) -> float:
        """Predictions that are left; inf where the plan has no limit."""
        check_is_fitted(self)
        if self.plan_.queries is None:
            return math.inf
        return (ReleaseLog(self._budget) if isinstance(self._budget, Path) else self._budget).left

    @property
    def privacy_spent_(self) -> Privacy:
        """(ε, δ) of all predictions made so far, proved: at most the total. With a ledger, of all fits that share it."""
        check_is_fitted(self)
        total, solution = self.plan_.total, self.plan_.solution
        if solution is None or self.plan_.queries is None:  # paid in full by the fit, and never more
            return total if self.ledger is None else self._of_fits(ReleaseLog(self.ledger).spent)
        spent = int(self.plan_.queries - self.queries_left_)
        if not spent:
            return Privacy(0.0)
        try:
            epsilon = exact_epsilon(solution.noise, solution.problem, spent, total.delta)  # not private, or one release
        except (DeltaTooSmall, TooMuchWork):
            epsilon = total.epsilon
        return Privacy(min(epsilon, total.epsilon), total.delta)

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

    def _public_classes(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the classes of the labels."""
        return two_classes(y, self.classes)

    def _released(self, votes: NDArray[np.int64]) -> NDArray[Any]:
        """Return the numbers of the classes released for votes, shape (rows, voters), and charge them."""
        solution, bits = self.plan_.solution, votes.astype(np.uint8)
        if solution is None:
            return _plain(bits)
        if isinstance(self._budget, Path):
            return PrivateMajority(solution, ReleaseLog(self._budget)).release_many(bits)
        mechanism = PrivateMajority(solution)
        self._budget.charge(len(bits))
        return mechanism.release_many(bits)

    def _account(self) -> InMemory | Path:
        queries, solution = self.plan_.queries, self.plan_.solution
        if queries is None or solution is None:
            if self.ledger is not None:
                self._charge_models(Path(self.ledger))
            return InMemory(0)
        if self.ledger is None:
            return InMemory(queries)
        _opened(Path(self.ledger), Release.of(solution), queries)
        return Path(self.ledger)

    def _charge_models(self, path: Path) -> None:
        """Charge one training of private models, of which the ledger allows as many as are within the total together."""
        voter, total = self.voter_privacy, Privacy(self.epsilon, self.delta)
        assert voter is not None  # noqa: S101 - for the type checker: the plan is the plain majority of private voters

        # A ledger is for a γ. Here it is that of the plain majority, and one training counts as one release of it.
        problem = Problem(self.n_voters, voter, total, self.overlap)
        plain, _ = certify(problem, NoiseFunction(np.ones(self.n_voters + 1)))
        ledger = _opened(
            path,
            Release(plain, problem),
            largest_count_between(lambda count: self._of_fits(count).epsilon <= total.epsilon, 0, MAX_FITS + 1),
        )
        ledger.charge_and_release(1, lambda: np.ones(1, dtype=np.uint8))

    def _of_fits(self, count: int) -> Privacy:
        """Return what the models of so many fits on the same records cost together."""
        voter = Privacy(math.inf) if self.voter_privacy is None else self.voter_privacy
        return compose_models({voter: count * self.overlap}, self.delta)

    def _trained(self, X: Any, y: NDArray[Any], parts: int, overlap: int) -> list[Any]:
        given = self.random_state
        if isinstance(given, np.random.RandomState):
            given = int(given.randint(2**31 - 1))
        # Privacy does not rest on who sees which record, nor on the seeds, only on their not depending on the records.
        source = SystemRandomness() if given is None else SeededRandomnessForTestsOnly(int(given))
        seed = secrets.randbits(64) if given is None else int(given)
        partition = slot_partition(len(X), parts, overlap, source=source)
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


def _opened(path: Path, release: Release, limit: int) -> ReleaseLog:
    """Return the ledger of that γ and that many releases, begun if there is none.

    Raises:
        InvalidInput: it is the ledger of another γ, or of another number of releases.
    """
    found = ReleaseLog(path) if path.exists() else ReleaseLog.create(path, release, queries=limit)
    PrivateMajority(release, found)  # refuses the ledger of another γ
    if found.limit != limit:
        raise InvalidInput("ledger", str(path), f"a ledger of {limit} releases", f"This one has {found.limit}.")
    return found


class InMemory:
    """An account in this process: so many releases and no more. Copies have nothing left, or they would be free."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spent = 0
        self._lock = threading.Lock()
        self._process = process_identity()

    @property
    def left(self) -> int:
        """Releases that are left; none in a process that was forked from the one that made it."""
        return self.limit - self._spent if self._process == process_identity() else 0

    def charge(self, count: int) -> None:
        """Charge releases, or refuse and charge nothing.

        Raises:
            BudgetSpent: fewer are left.
        """
        if (
            self._process != process_identity()
        ):  # before the lock, which another thread may have held when it was copied
            raise BudgetSpent(f"{self.limit} predictions of the process that was forked", self.limit, self.limit, count)
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
    fair = SystemRandomness().words(len(votes), 1).astype(np.uint8)
    return np.where(twice == K, fair, twice > K).astype(np.uint8)
