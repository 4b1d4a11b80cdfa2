"""The estimators: what scikit-learn asks of them, what they release, and what they charge."""

from __future__ import annotations

import copy
import math
import pickle
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from support.forks import forked

sklearn = pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator  # noqa: E402 — only where scikit-learn is there
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from darrm_opt import Privacy, Problem, solve, verify  # noqa: E402
from darrm_opt.accounting import BudgetUnreadable  # noqa: E402
from darrm_opt.accounting.gaussian import gaussian_delta  # noqa: E402
from darrm_opt.accounting.total import exact_epsilon  # noqa: E402
from darrm_opt.design.solution import Solution  # noqa: E402
from darrm_opt.errors import InvalidInput, SolveFailed  # noqa: E402
from darrm_opt.learning import PrivateLogisticRegression, PrivateMajorityClassifier, voting_plan  # noqa: E402
from darrm_opt.learning.classifier import _plain_majority  # noqa: E402
from darrm_opt.learning.logistic_regression import CLOSE, FINE, minimum, smallest_sigma  # noqa: E402
from darrm_opt.mechanism import BudgetSpent, ReleaseLog  # noqa: E402
from darrm_opt.randomness import SeededRandomnessForTestsOnly  # noqa: E402

RANDOM = "compares two random answers with each other; private answers are drawn anew for each release"
EXEMPT = {
    PrivateMajorityClassifier: {
        "check_estimators_pickle": "predicts with a copy; a copy has nothing left of a budget kept in memory, or it would double it",
        "check_classifier_data_not_an_array": RANDOM,
        "check_supervised_y_2d": RANDOM,
        "check_fit_idempotent": RANDOM,
    },
    PrivateLogisticRegression: {
        "check_classifier_data_not_an_array": RANDOM,
        "check_supervised_y_2d": RANDOM,
        "check_fit_idempotent": RANDOM,
    },
}


@cache
def digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (5, 8))
    return X[chosen] / 16, y[chosen]


# ------------------------------------------------------------------------------------------ scikit-learn


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        PrivateMajorityClassifier(n_voters=3, queries=3000, epsilon=50.0, delta=1e-3),
        PrivateLogisticRegression(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_it_is_a_scikit_learn_estimator(estimator: Any) -> None:
    exempt = EXEMPT[type(estimator)]
    found = check_estimator(estimator, expected_failed_checks=exempt, on_skip=None, on_fail=None)
    by_status: dict[str, set[str]] = {}
    for check in found:
        by_status.setdefault(check["status"], set()).add(check["check_name"])
    assert "failed" not in by_status, by_status["failed"]
    assert by_status.get("xfail", set()) <= set(exempt)
    skipped = {check["check_name"]: str(check["exception"]) for check in found if check["status"] == "skipped"}
    assert set(skipped) <= {"check_pipeline_consistency", "check_array_api_input", *exempt}, skipped
    assert len(by_status["passed"]) > 40


# ------------------------------------------------------------------------------------------ the plan


def test_a_plan_for_many_queries_is_within_the_total() -> None:
    total = Privacy(2.0, 1e-5)
    plan = voting_plan(11, voter=None, affected=1, queries=30, total=total)
    assert plan.solution is not None
    problem = plan.solution.problem
    assert (problem.voter.epsilon, problem.affected, plan.queries) == (math.inf, 1, 30)
    verify(problem, plan.solution.gamma)
    assert exact_epsilon(plan.solution.noise, problem, 30, total.delta) <= total.epsilon
    # It knows the γ, so it is more useful than the best γ of an equal share.
    share = Problem(11, Privacy(math.inf), Privacy(total.epsilon / 30, total.delta / 30), 1)
    assert plan.solution.utility > solve(share).utility


@pytest.mark.parametrize("queries", [1, 40])
def test_a_gamma_may_be_fetched(queries: int) -> None:
    """Then the target is that of optimal composition, and whoever answers another question is found out."""
    asked: list[Problem] = []

    def fetch(problem: Problem) -> Solution:
        asked.append(problem)
        return solve(problem)

    total = Privacy(2.0, 1e-5)
    plan = voting_plan(9, voter=None, affected=1, queries=queries, total=total, design=fetch)
    assert plan.solution is not None
    assert plan.solution.problem in asked
    assert exact_epsilon(plan.solution.noise, plan.solution.problem, queries, total.delta) <= total.epsilon
    elsewhere = solve(Problem(9, Privacy(math.inf), Privacy(5.0), 1))
    with pytest.raises(InvalidInput, match=r"^design = Problem.* It answered another question\.$"):
        voting_plan(9, voter=None, affected=1, queries=queries, total=total, design=lambda _: elsewhere)


def test_fewer_queries_and_less_overlap_are_better() -> None:
    def utility(affected: int, queries: int) -> float:
        plan = voting_plan(9, voter=None, affected=affected, queries=queries, total=Privacy(2.0, 1e-5))
        assert plan.solution is not None
        return plan.solution.utility

    assert utility(1, 1) > utility(1, 10) > utility(1, 2000) > 0
    assert utility(1, 10) > utility(3, 10)


def test_private_voters_on_parts_of_their_own_need_no_noise() -> None:
    plan = voting_plan(11, voter=Privacy(1.0, 1e-5), affected=1, queries=10**6, total=Privacy(1.0, 1e-5))
    assert (plan.method, plan.queries, plan.total) == ("plain majority", None, Privacy(1.0, 1e-5))
    assert "needs no noise and no limit" in plan.why
    three = voting_plan(9, voter=Privacy(0.5, 1e-6), affected=3, queries=7, total=Privacy(1.6, 1e-5))
    assert three.method == "plain majority"
    assert 1.4 < three.total.epsilon <= 1.6


def test_one_query_of_private_voters_takes_the_gamma_for_them() -> None:
    voter, total = Privacy(0.5), Privacy(1.0)
    one = voting_plan(11, voter=voter, affected=11, queries=1, total=total)
    assert one.solution is not None
    assert one.solution.problem == Problem(11, voter, total, 11)
    # Trained voters that are asked twice are not fresh ones: they are taken as they are, not private.
    two = voting_plan(11, voter=voter, affected=11, queries=2, total=total)
    assert two.solution is not None
    assert two.solution.problem.voter.epsilon == math.inf


def test_a_voter_that_is_not_private_is_no_claim() -> None:
    plan = voting_plan(5, voter=Privacy(math.inf), affected=1, queries=1, total=Privacy(1.0))
    assert plan.method == "noisy majority"


# ------------------------------------------------------------------------------------------ the classifier


@pytest.mark.slow
def test_digits_are_told_apart_by_private_predictions() -> None:
    X, y = digits()
    model = PrivateMajorityClassifier(n_voters=11, epsilon=30.0, delta=1e-3, queries=60, random_state=3)
    model.fit(X[:250], y[:250])
    predicted = model.predict(X[250:310])
    # With the γ of the plan each answer keeps its majority often enough; a coin gets 44 of 60 or more once in 5,000.
    assert set(np.unique(predicted)) <= {5, 8}
    assert int((predicted == y[250:310]).sum()) >= 44
    assert model.queries_left_ == 0
    assert 0 < model.privacy_spent_.epsilon <= 30.0


def test_predictions_are_charged_and_refused_when_spent() -> None:
    X, y = digits()
    model = PrivateMajorityClassifier(n_voters=3, epsilon=2.0, queries=5, random_state=0).fit(X, y)
    assert model.privacy_spent_ == Privacy(0.0)
    model.predict(X[:2])
    # the answers may decide how many there are, so nothing less is proved
    assert model.privacy_spent_ == Privacy(2.0, 1e-5)
    with pytest.raises(BudgetSpent, match="4 releases were asked and 3 are left: the budget, 5 predictions"):
        model.predict(X[:4])
    model.predict(X[:2])  # the same rows again cost again
    assert model.queries_left_ == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])  # noqa: S301 — our own
def test_a_copy_has_nothing_left(copied: Any) -> None:
    X, y = digits()
    model = PrivateMajorityClassifier(n_voters=3, queries=5, random_state=0).fit(X, y)
    again = copied(model)
    assert (model.queries_left_, again.queries_left_) == (5, 0)
    with pytest.raises(BudgetSpent):
        again.predict(X[:1])


def test_a_release_log_remembers_across_fits_and_copies(tmp_path: Path) -> None:
    X, y = digits()
    model = PrivateMajorityClassifier(n_voters=3, queries=5, release_log=tmp_path / "log", random_state=0).fit(X, y)
    model.predict(X[:2])
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 — our own
    again.predict(X[:1])
    model.fit(X, y)
    assert model.queries_left_ == again.queries_left_ == 2
    assert ReleaseLog(tmp_path / "log").spent == 3
    with pytest.raises(InvalidInput, match="the release log of this gamma"):
        PrivateMajorityClassifier(n_voters=5, queries=5, release_log=tmp_path / "log").fit(X, y)


def test_a_release_log_that_was_replaced_is_not_charged(tmp_path: Path) -> None:
    X, y = digits()
    asked: dict[str, Any] = {"n_voters": 3, "queries": 5, "random_state": 0}
    model = PrivateMajorityClassifier(release_log=tmp_path / "log", **asked).fit(X, y)
    PrivateMajorityClassifier(release_log=tmp_path / "other", epsilon=2.0, **asked).fit(X, y)
    (tmp_path / "other").replace(tmp_path / "log")
    with pytest.raises(InvalidInput, match="the release log of this gamma"):
        model.predict(X[:1])
    assert ReleaseLog(tmp_path / "log").spent == 0
    (tmp_path / "log").unlink()
    with pytest.raises(BudgetUnreadable, match="cannot be opened"):  # and none is created in its place
        model.predict(X[:1])


def test_forked_children_have_nothing_left() -> None:
    X, y = digits()
    model = PrivateMajorityClassifier(n_voters=3, queries=3, random_state=0).fit(X, y)

    def asked() -> str:
        with pytest.raises(BudgetSpent):
            model.predict(X[:1])
        return str(model.queries_left_)

    assert [forked(asked) for _ in range(4)] == ["0"] * 4
    assert len(model.predict(X[:3])) == 3


@pytest.fixture
def private_model(tmp_path: Path) -> Any:
    voter = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=4.0, regularization=0.02)

    def made(**given: Any) -> PrivateMajorityClassifier:
        asked = {"epsilon": 3.5, "delta": 1e-5, "n_voters": 3, "random_state": 0, "release_log": tmp_path / "log"}
        return PrivateMajorityClassifier(voter, voter_privacy=Privacy(1.0, 1e-6), **{**asked, **given})

    return made


def test_fits_of_a_plain_majority_are_charged_to_a_release_log(tmp_path: Path, private_model: Any) -> None:
    X, y = digits()
    for _ in range(3):
        model = private_model().fit(X, y)
        assert model.plan_.method == "plain majority"
        model.predict(X[:2])
        assert model.privacy_spent_ == Privacy(3.5, 1e-5)
    log = ReleaseLog(tmp_path / "log")
    assert (log.limit, log.spent) == (3, 3)
    again = private_model()
    with pytest.raises(BudgetSpent, match="3 are spent"):
        again.fit(X, y)
    assert not hasattr(again, "voters_")
    assert model.predict(X[:5]).shape == (5,)  # what is paid for goes on


def test_a_release_log_of_fits_is_for_one_ensemble_and_one_total(private_model: Any) -> None:
    X, y = digits()
    private_model().fit(X, y)
    with pytest.raises(InvalidInput, match="the release log of this gamma"):
        private_model(n_voters=5).fit(X, y)
    with pytest.raises(InvalidInput, match="the release log of this gamma"):
        private_model(epsilon=2.5).fit(X, y)


def test_fits_without_a_release_log_are_as_many_as_one_likes(private_model: Any, tmp_path: Path) -> None:
    X, y = digits()
    model = private_model(release_log=None)
    assert model.fit(X, y).fit(X, y).privacy_spent_ == Privacy(1.0, 1e-6)
    assert not list(tmp_path.iterdir())


class Remembers(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A voter that says which records it saw: they are numbered by their first feature."""

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Remembers:
        self.saw_ = X[:, 0].astype(int).tolist()
        self.said_ = y.tolist()
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        return np.ones(len(X), dtype=np.int64)


@pytest.mark.parametrize("overlap", [1, 3, 9])
def test_a_record_reaches_as_many_voters_as_is_said(overlap: int) -> None:
    n = 60
    X, y = np.arange(n)[:, None].astype(float), np.arange(n) % 2
    voting: dict[str, Any] = {"n_voters": 9, "overlap": overlap, "queries": 2000, "random_state": 1}
    model = PrivateMajorityClassifier(Remembers(), **voting).fit(X, y)
    seen = Counter(record for voter in model.voters_ for record in getattr(voter, "saw_", []))
    assert set(seen.values()) == {overlap}
    assert len(seen) == n
    assert model.plan_.solution is not None
    assert model.plan_.solution.problem.affected == overlap
    # Another record in one place changes the voters that saw it, and no others: parts and seeds do not look at records.
    changed = X.copy()
    changed[7] = 1000.0
    other = PrivateMajorityClassifier(Remembers(), **voting).fit(changed, y)
    moved = sum(a.saw_ != b.saw_ for a, b in zip(model.voters_, other.voters_, strict=True))
    assert moved == overlap
    assert [a.random_state for a in model.voters_] == [b.random_state for b in other.voters_]
    assert len({voter.random_state for voter in model.voters_}) == 9


def test_private_voters_are_asked_without_limit() -> None:
    X, y = digits()
    voter = PrivateLogisticRegression(epsilon=8.0, delta=1e-5, data_norm=4.0, regularization=0.02)
    model = PrivateMajorityClassifier(
        voter, n_voters=3, epsilon=8.0, delta=1e-5, queries=1, voter_privacy=Privacy(8.0, 1e-5), random_state=0
    ).fit(X, y)
    assert model.plan_.method == "plain majority"
    assert model.queries_left_ == math.inf
    for _ in range(3):
        assert (model.predict(X) == model.predict(X)).all()  # an odd number of fixed models
    assert model.privacy_spent_ == Privacy(8.0, 1e-5)


def test_a_private_voter_with_one_class_is_trained_all_the_same() -> None:
    # To answer for it without training would tell that its part has one class.
    X, y = np.zeros((40, 1)), np.zeros(40)
    voter = PrivateLogisticRegression(epsilon=1.0, delta=1e-5)
    model = PrivateMajorityClassifier(
        voter, n_voters=4, epsilon=1.0, voter_privacy=Privacy(1.0, 1e-5), classes=[0, 1], random_state=0
    ).fit(X, y)
    assert {type(voter) for voter in model.voters_} == {PrivateLogisticRegression}
    public = PrivateMajorityClassifier(n_voters=4, classes=[0, 1], queries=2000, random_state=0).fit(X, y)
    assert {type(voter).__name__ for voter in public.voters_} == {"ConstantVote"}


def test_ties_of_a_plain_majority_are_a_fair_coin() -> None:
    n = 20_000
    votes = np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 1, 0]], dtype=np.uint8).repeat(n, axis=0)
    first, second, third = _plain_majority(votes).reshape(3, n)
    assert second.all()
    assert not third.any()
    assert stats.binom.ppf(5e-13, n, 0.5) <= int(first.sum()) <= stats.binom.isf(5e-13, n, 0.5)


def test_any_base_estimator_will_do() -> None:
    X, y = digits()
    for base in (DecisionTreeClassifier(max_depth=3), LogisticRegression(C=0.1)):
        model = PrivateMajorityClassifier(base, n_voters=3, queries=2000, random_state=np.random.RandomState(0))
        names = np.where(y == 5, "five", "eight")
        assert set(model.fit(X, names).predict(X[:20])) <= {"five", "eight"}
        assert {type(voter) for voter in model.voters_} == {type(base)}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n_voters": 0}, "n_voters = 0 is not valid: expected a whole number of voters"),
        ({"n_voters": 9, "overlap": 2}, "overlap = 2 is not valid: expected a divisor of n_voters = 9"),
        ({"n_voters": 401}, "a part would be empty"),
        ({"queries": 0}, "queries = 0 is not valid"),
        ({"epsilon": -1.0}, "epsilon = -1.0 is not valid"),
        ({"classes": [5, 6]}, "two classes, which hold every label"),
        ({"classes": [5, 6, 8]}, r"Only binary classification is supported\. .* train one such classifier for each"),
    ],
)
def test_bad_parameters_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        PrivateMajorityClassifier(**given).fit(*digits())


# ------------------------------------------------------------------------------------------ the private voter


def test_replacing_a_record_moves_the_minimum_by_less_than_the_proof_says() -> None:
    rng, n, strength = np.random.default_rng(0), 50, 0.05
    rows = rng.normal(size=(n, 4))
    rows /= np.linalg.norm(rows, axis=1)[:, None] * 1.000001
    signs = rng.choice([-1.0, 1.0], n)
    base = minimum(rows, signs, strength, 1e-9)
    for _ in range(50):
        other, flipped = rows.copy(), signs.copy()
        other[0] = -rows[0] if rng.random() < 0.3 else rows[int(rng.integers(1, n))]
        flipped[0] = rng.choice([-1.0, 1.0])
        assert np.linalg.norm(minimum(other, flipped, strength, 1e-9) - base) <= 2 / (n * strength) + 2e-9


def test_the_minimum_is_as_near_as_is_said() -> None:
    rng = np.random.default_rng(1)
    rows, signs = rng.normal(size=(30, 3)) / 5, rng.choice([-1.0, 1.0], 30)
    exact = minimum(rows, signs, 0.1, 1e-11)
    for within in (1e-2, 1e-4, 1e-6):
        assert np.linalg.norm(minimum(rows, signs, 0.1, within) - exact) <= within
    with pytest.raises(SolveFailed, match="raise regularization; nothing is released"):
        minimum(rows, signs, 0.1, 1e-20)


def test_the_noise_is_what_privacy_needs_and_little_more() -> None:
    for epsilon, delta, shift in ((1.0, 1e-5, 1100.0), (8.0, 1e-6, 1030.0), (0.1, 1e-9, 2000.0)):
        sigma = smallest_sigma(Privacy(epsilon, delta), shift)
        # The continuous Gaussian of that σ, by its exact profile: well within, and not with four fifths of the noise.
        assert gaussian_delta(shift / sigma, epsilon) <= delta
        assert gaussian_delta(shift / (0.5 * sigma), epsilon) > delta


def test_released_weights_are_the_minimum_plus_that_noise() -> None:
    X, y = digits()
    n, strength, norm = len(X), 0.1, 8.0
    rows = np.column_stack([X / np.maximum(np.linalg.norm(X, axis=1), norm)[:, None], np.ones(n)]) / math.sqrt(2)
    center = minimum(rows, np.where(y == 8, 1.0, -1.0), strength, 1e-6)
    drawn = []
    for seed in range(14):
        model = PrivateLogisticRegression(
            4.0, 1e-5, regularization=strength, data_norm=norm, source=SeededRandomnessForTestsOnly(seed)
        )
        model.fit(X, y)
        drawn.append(np.append(model.coef_[0], model.intercept_) - center)
    step = FINE * 2 / (n * strength)
    sigma = smallest_sigma(Privacy(4.0, 1e-5), 1 / FINE + math.sqrt(65)) * step * (1 + 2 * CLOSE)
    values = np.concatenate(drawn) / sigma
    assert stats.kstest(values, "norm").pvalue > 1e-6
    n = values.size
    low, high = stats.chi2.ppf(5e-7, n), stats.chi2.isf(5e-7, n)
    assert low < float(values @ values) < high
    assert stats.chi2.cdf(low / 0.64, n) > 0.999  # power: noise of four fifths of that σ would be found


def test_its_labels_and_numbers_are_checked() -> None:
    X, y = digits()
    for given, said in (
        ({"epsilon": 0.0}, "epsilon = 0.0 is not valid: expected a finite number above 0"),
        ({"delta": 0.0}, "delta = 0.0"),
        ({"regularization": math.inf}, "regularization = inf"),
        ({"data_norm": -1.0}, "data_norm = -1.0"),
        ({"classes": [1, 2]}, "two classes, which hold every label"),
    ):
        with pytest.raises(InvalidInput, match=said):
            PrivateLogisticRegression(**given).fit(X, y)
