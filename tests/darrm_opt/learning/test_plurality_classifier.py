"""`PrivatePluralityClassifier`: scikit-learn's checks, what it answers, and its budget."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from darrm_opt import Privacy
from darrm_opt.errors import InvalidInput
from darrm_opt.learning import PrivatePluralityClassifier
from darrm_opt.mechanism import BudgetSpent
from darrm_opt.plurality import RuleMechanism, plurality_plan

RANDOM = "compares two random answers with each other; private answers are drawn anew for each release"
EXEMPT = {
    "check_estimators_pickle": "predicts with a copy; a copy has nothing left of a budget kept in memory, or it would double it",
    "check_classifier_data_not_an_array": RANDOM,
    "check_supervised_y_2d": RANDOM,
    "check_fit_idempotent": RANDOM,
}


@pytest.mark.slow
def test_it_is_a_scikit_learn_estimator() -> None:
    estimator = PrivatePluralityClassifier(n_voters=3, queries=3000, epsilon=400.0, delta=0.0)
    found = check_estimator(estimator, expected_failed_checks=EXEMPT, on_skip=None, on_fail=None)
    failed = {check["check_name"]: str(check["exception"]) for check in found if check["status"] == "failed"}
    assert not failed
    assert sum(check["status"] == "passed" for check in found) > 40


def test_digits_of_ten_classes_are_recognised() -> None:
    X, y = load_digits(return_X_y=True)
    model = PrivatePluralityClassifier(
        DecisionTreeClassifier(), n_voters=15, epsilon=6.0, delta=1e-5, queries=1, prior="beta(6,2)", random_state=0
    )
    model.fit(X[:1500], y[:1500])
    assert isinstance(model.plan_.mechanism, RuleMechanism)
    assert model.plan_.utility is not None
    assert model.plan_.utility > 0.9
    with pytest.raises(BudgetSpent):
        model.predict(X[1500:1502])
    assert model.predict(X[1500:1501])[0] in range(10)
    assert model.queries_left_ == 0
    assert model.privacy_spent_ == Privacy(6.0, 1e-5)


def test_classes_keep_their_names_and_copies_have_nothing_left(tmp_path: Path) -> None:
    X = np.repeat(np.eye(4), 40, axis=0)
    y = np.repeat(np.array(["ash", "elm", "fir", "oak"]), 40)
    model = PrivatePluralityClassifier(
        DecisionTreeClassifier(), n_voters=8, epsilon=60.0, delta=0.0, queries=4, random_state=1
    )
    assert model.fit(X, y).predict(np.eye(4)).tolist() == ["ash", "elm", "fir", "oak"]
    other = copy.deepcopy(model.fit(X, y))
    assert (model.queries_left_, other.queries_left_) == (4, 0)
    kept = PrivatePluralityClassifier(
        DecisionTreeClassifier(),
        n_voters=8,
        epsilon=60.0,
        delta=0.0,
        queries=4,
        release_log=tmp_path / "log",
        random_state=1,
    )
    kept.fit(X, y).predict(np.eye(4)[:3])
    assert kept.fit(X, y).queries_left_ == 1
    with pytest.raises(InvalidInput, match=r"the release log of this plurality mechanism|: 4 releases"):
        kept.set_params(queries=5).fit(X, y)


def test_what_is_refused() -> None:
    X, y = np.repeat(np.eye(3), 5, axis=0), np.repeat([0, 1, 2], 5)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"n_voters": 20}, "n_voters = 20"),
        ({"overlap": 2, "n_voters": 5}, "overlap = 2"),
        ({"classes": [0, 1]}, "none of the classes"),
        ({"queries": 0}, "queries = 0"),
        ({"prior": "x"}, "prior = 'x'"),
    ]
    for change, message in changes:
        model = PrivatePluralityClassifier(**{"n_voters": 5, "queries": 1} | change)
        with pytest.raises(InvalidInput, match=message):
            model.fit(X, y)
    with pytest.raises(InvalidInput, match="at least two classes"):
        PrivatePluralityClassifier(n_voters=5, queries=1).fit(X, np.zeros(15))


def test_a_plan_is_within_its_total() -> None:
    total = Privacy(3.0, 1e-5)
    plan = plurality_plan(8, 3, total, 3)
    assert plan.mechanism.epsilon(3, 1e-5) <= 3.0
    pure = plurality_plan(60, 8, Privacy(1.0), 2)  # no table, and no δ
    assert pure.mechanism.epsilon(2, 0.0) <= 1.0
