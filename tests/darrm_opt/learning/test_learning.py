"""The estimators: the contract of scikit-learn, releases and charges."""

from __future__ import annotations

import copy
import math
import pickle
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from support.cases import for_each

sklearn = pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator, clone  # noqa: E402 — only where scikit-learn is there
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402
from sklearn.utils import get_tags  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402
from support.refusals import refused, refuses  # noqa: E402
from support.waiting import until  # noqa: E402

from darrm_opt import Privacy, Problem, solve  # noqa: E402
from darrm_opt.accounting import BudgetUnreadable, Sampling  # noqa: E402
from darrm_opt.accounting.gaussian import gaussian_delta  # noqa: E402
from darrm_opt.accounting.total import exact_epsilon  # noqa: E402
from darrm_opt.design.objective import as_objective  # noqa: E402
from darrm_opt.design.solution import Solution, Status  # noqa: E402
from darrm_opt.errors import InvalidInput, SolveFailed  # noqa: E402
from darrm_opt.learning import (  # noqa: E402
    PrivateLogisticRegression,
    PrivateVotingClassifier,
    VotingPlan,
    release_plan,
    voting_plan,
)
from darrm_opt.learning.logistic_regression import CLOSE, FINE, minimum, smallest_sigma  # noqa: E402
from darrm_opt.learning.release_plan import SampledVoters  # noqa: E402
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction  # noqa: E402
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum  # noqa: E402
from darrm_opt.mechanisms.plain_vote import PlainVote  # noqa: E402
from darrm_opt.mechanisms.table import GroupTableMechanism  # noqa: E402
from darrm_opt.privacy_curves import dp_sgd  # noqa: E402
from darrm_opt.problem import VoterGroup  # noqa: E402
from darrm_opt.randomness import SeededRandomnessForTestsOnly, SystemRandomness  # noqa: E402
from darrm_opt.release import BudgetSpent, EnsembleSampler, ReleaseLog, Sample  # noqa: E402
from darrm_opt.tables.problem import ABSTENTION  # noqa: E402
from darrm_opt.tables.solver import solve_table  # noqa: E402
from darrm_opt.voters import PrivacyProfile  # noqa: E402

RANDOM = "compares two random answers with each other; private answers are drawn anew for each release"
EXEMPT = {
    PrivateVotingClassifier: {
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


@cache
def planned(asked: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> VotingPlan:
    return voting_plan(*asked, **dict(options))


@pytest.fixture(autouse=True)
def each_plan_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache plans: hundreds of fits ask few questions."""

    def plan(*asked: Any, progress: Any, **options: Any) -> VotingPlan:
        assert callable(progress)
        if options["groups"] is not None:
            options["groups"] = tuple(options["groups"])
        return planned(asked, tuple(options.items()))

    monkeypatch.setattr("darrm_opt.learning.classifier.voting_plan", plan)


# ------------------------------------------------------------------------------------------ scikit-learn


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        PrivateVotingClassifier(n_voters=3, queries=3000, epsilon=400.0, delta=0.0),
        PrivateVotingClassifier(n_voters=3, queries=400, epsilon=400.0, delta=0.0, sampling=Sampling(100, 30)),
        PrivateVotingClassifier(
            groups=[
                (1, Privacy(30.0), PrivateLogisticRegression(epsilon=30.0)),
                (2, Privacy(50.0), PrivateLogisticRegression(epsilon=50.0)),
            ],
            epsilon=60.0,
        ),
        PrivateLogisticRegression(),
    ],
    ids=["trained once", "sampled", "groups", "logistic regression"],
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


# ------------------------------------------------------------------------------------------ samples


RARE = Sampling(200, 20)


def points() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return 200 records of three separated classes."""
    y = np.arange(200) % 3
    return np.random.default_rng(0).normal(size=(200, 2)) + 8.0 * np.eye(3)[y][:, :2], y


def test_sampled_predictions_are_planned_and_charged_with_amplification(tmp_path: Path) -> None:
    X, y = points()
    total, log = Privacy(6.0), tmp_path / "log"
    model = PrivateVotingClassifier(
        n_voters=5, epsilon=total.epsilon, delta=total.delta, queries=30, sampling=RARE, release_log=log
    ).fit(X, y)
    mechanism = model.plan_.mechanism
    assert mechanism.fits(total, 30, RARE)
    assert not mechanism.fits(total, 30)  # so the samples are accounted for
    assert np.mean(model.predict(X[:20]) == y[:20]) > 0.6  # one in three at random
    assert (model.queries_left_, ReleaseLog(log).labels) == (10, 20)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 - pickled here
    assert again.fit(X, y).queries_left_ == 10
    with pytest.raises(BudgetSpent):
        again.predict(X[:11])
    assert again.predict(X[:10]).shape == (10,)
    assert model.queries_left_ == 0
    for other in (None, Sampling(200, 21)):
        with refused("sampling"):
            PrivateVotingClassifier(
                n_voters=5, epsilon=total.epsilon, delta=total.delta, queries=30, sampling=other, release_log=log
            ).fit(X, y)


ROUNDS = Sampling(200, scheme="random-allocation", among=10)


@pytest.mark.parametrize(
    "sampling", [RARE, Sampling(200, 20, scheme="without-replacement"), ROUNDS], ids=lambda one: one.scheme
)
def test_a_record_moves_one_vote_of_the_nearest(sampling: Sampling) -> None:
    X, y = points()
    for estimator in (None, KNeighborsClassifier(n_neighbors=1)):
        for record in range(0, 200, 80):
            both: list[Any] = []
            for label in (0, 1):
                labels = y.copy()
                labels[record] = label
                voters = SampledVoters(X, labels, 5, sampling, estimator, 0)
                sample = voters.samples(1)[0] if not both else both[0][0]
                both.append((sample, voters.votes(sample, X[record])))
            assert np.count_nonzero(both[0][1] != both[1][1]) == (record in both[0][0].records)


def test_a_copy_in_the_middle_of_a_round_draws_another_round(tmp_path: Path) -> None:
    X, y = points()
    log = tmp_path / "log"
    model = PrivateVotingClassifier(
        n_voters=5, epsilon=20.0, delta=0.0, queries=30, sampling=ROUNDS, release_log=log
    ).fit(X, y)
    model.predict(X[:3])
    assert model.queries_left_ == 20  # a round of ten is charged at once
    model.predict(X[:7])
    assert (model.queries_left_, ReleaseLog(log).labels) == (20, 10)
    model.predict(X[:1])
    copy.deepcopy(model).predict(X[:1])
    with pytest.raises(BudgetSpent):
        copy.deepcopy(model).predict(X[:1])
    assert model.predict(X[:9]).shape == (9,)


@pytest.mark.parametrize("fault", ["too many rows", "training"])
def test_lost_samples_do_not_start_an_uncharged_round(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten queries are charged as one round: after a failure none of them may belong to a second round."""
    X, y = points()
    rounds, draw = set[Any](), EnsembleSampler.draw

    def seen(sampler: EnsembleSampler) -> Sample:
        sample = draw(sampler)
        rounds.add(sample.charged_with)
        return sample

    monkeypatch.setattr(EnsembleSampler, "draw", seen)
    model = PrivateVotingClassifier(n_voters=5, epsilon=20.0, delta=0.0, queries=10, sampling=ROUNDS).fit(X, y)
    model.predict(X[:6])
    if fault == "too many rows":
        with pytest.raises(BudgetSpent):
            model.predict(X[:5])
    else:
        with monkeypatch.context() as patch:
            patch.setattr(SampledVoters, "votes", Mock(side_effect=MemoryError))
            with pytest.raises(MemoryError):
                model.predict(X[:2])
        assert model.queries_left_ == 2  # the samples were drawn and are spent
    model.predict(X[: int(model.queries_left_)])
    assert len(rounds) == 1


def test_voters_without_records_vote_for_the_first_class() -> None:
    X, y = points()
    for estimator in (None, LogisticRegression()):
        voters = SampledVoters(X, y + 1, 5, Sampling(200, 1), estimator, 0)
        samples = voters.samples(30)
        for sample in samples:
            shares = sum(share.size > 0 for share in sample.shares)  # a voter may have two records
            votes = min(sample.records.size, 5) if estimator is None else shares
            assert np.count_nonzero(voters.votes(sample, X[0])) == votes
    model = PrivateVotingClassifier(
        LogisticRegression(), n_voters=5, epsilon=50.0, delta=0.0, queries=5, sampling=Sampling(200, 100)
    )
    assert np.mean(model.fit(X, y).predict(X[:5]) == y[:5]) >= 0.6
    assert model.queries_left_ == 0


@for_each(
    ("argument", "change"),
    [
        ("sampling", {"sampling": "poisson"}),
        ("overlap", {"overlap": 5}),
        ("voter_privacy", {"voter_privacy": Privacy(1.0)}),
        ("groups", {"groups": [(5, Privacy(1.0), LogisticRegression())]}),
        ("design", {"design": solve}),
        ("ptr", {"ptr": Privacy(0.5, 1e-6)}),
        ("sampling", {"sampling": Sampling(200, 20, labels=2)}),
        ("sampling", {"sampling": Sampling(200, 20, scheme="each-voter")}),
        ("records", {"sampling": Sampling(201, 20, scheme="without-replacement")}),
    ],
)
def test_invalid_combinations_with_samples_are_refused(argument: str, change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"n_voters": 5, "queries": 2, "sampling": RARE} | change
    with refused(argument):
        PrivateVotingClassifier(**given).fit(*points())
    if argument in ("groups", "design", "ptr"):
        asked: dict[str, Any] = {"groups": [VoterGroup(5, Privacy(1.0))]} if argument == "groups" else change
        with refused(argument):
            voting_plan(5, 2, queries=2, total=Privacy(1.0, 1e-5), sampling=RARE, **asked)


# ------------------------------------------------------------------------------------------ the plan


def test_a_plan_for_many_queries_is_within_the_total() -> None:
    total = Privacy(2.0, 1e-5)
    plan = voting_plan(11, voter=None, affected=1, queries=30, total=total)
    mechanism = plan.mechanism
    assert (mechanism.affected, mechanism.models, plan.queries) == (1, None, 30)
    problem = Problem(11, Privacy(math.inf), Privacy(total.epsilon / 30, total.delta / 30), 1)
    assert exact_epsilon(mechanism.gamma, problem, 30, total.delta) <= total.epsilon
    assert mechanism.fits(total, 30)
    # The account of this γ allows more utility than an equal share of the total.
    share, goal = solve(problem), as_objective("rectangular").linear_goal(11)
    assert goal.utility(mechanism.gamma.values[6:]) > share.utility


@pytest.mark.parametrize("queries", [1, 40])
def test_a_gamma_may_be_fetched_and_is_verified(queries: int) -> None:
    """The target is then that of optimal composition, and an answer to another question is refused."""
    asked: list[Problem] = []

    def fetch(problem: Problem) -> Solution:
        asked.append(problem)
        found: Solution = solve(problem)
        return found

    total = Privacy(2.0, 1e-5)
    plan = voting_plan(9, voter=None, affected=1, queries=queries, total=total, design=fetch)
    assert isinstance(plan.mechanism, CertifiedNoiseFunction)
    assert plan.mechanism.problem in asked
    assert exact_epsilon(plan.mechanism.gamma, plan.mechanism.problem, queries, total.delta) <= total.epsilon
    elsewhere = solve(Problem(9, Privacy(math.inf), Privacy(5.0), 1))
    with refused("design"):
        voting_plan(9, voter=None, affected=1, queries=queries, total=total, design=lambda _: elsewhere)


def test_private_voters_on_disjoint_parts_need_no_noise() -> None:
    plan = voting_plan(11, voter=Privacy(1.0, 1e-5), affected=1, queries=10**6, total=Privacy(1.0, 1e-5))
    assert plan.mechanism == PlainVote(11, 2, Privacy(1.0, 1e-5))
    assert (plan.queries, plan.total) == (None, Privacy(1.0, 1e-5))
    assert "needs no noise and no limit" in plan.why
    three = voting_plan(9, voter=Privacy(0.5, 1e-6), affected=3, queries=7, total=Privacy(1.6, 1e-5))
    assert three.mechanism == PlainVote(9, 2, Privacy(0.5, 1e-6), affected=3)
    assert 1.4 < three.total.epsilon <= 1.6
    classes = voting_plan(9, 5, voter=Privacy(0.5, 1e-6), affected=3, queries=7, total=Privacy(1.6, 1e-5))
    assert (classes.mechanism.classes, classes.queries, classes.total) == (5, None, three.total)


@pytest.fixture(scope="module")
def dp_sgd_voter() -> PrivacyProfile:
    """Return nine points of a model by DP-SGD: rate 0.05, 100 steps, noise 13.7."""
    return dp_sgd(13.7, 0.05, 100).profile(Privacy(0.0, 1e-5), points=9)


def test_models_with_a_profile_need_no_noise_within_their_composition(dp_sgd_voter: PrivacyProfile) -> None:
    total = Privacy(0.26, 11e-4)
    plan = voting_plan(11, voter=dp_sgd_voter, affected=11, queries=100, total=total)
    assert (type(plan.mechanism), plan.queries) == (PlainVote, None)
    assert plan.total.delta == total.delta
    assert 0.24 < plan.total.epsilon <= total.epsilon
    # By the last point only, eleven of them compose to more.
    point = Privacy(dp_sgd_voter.epsilon, dp_sgd_voter.delta)
    noisy = voting_plan(11, voter=point, affected=11, queries=100, total=total)
    assert noisy.queries == 100
    assert noisy.mechanism.fits(total, 100)


def test_one_model_is_charged_at_the_delta_of_the_total(dp_sgd_voter: PrivacyProfile) -> None:
    total = Privacy(0.03, 5e-3)  # the point at δ = 0.0046 fits, the last one does not
    plan = voting_plan(11, voter=dp_sgd_voter, affected=1, queries=100, total=total)
    assert (type(plan.mechanism), plan.queries) == (PlainVote, None)
    assert plan.total.epsilon <= total.epsilon
    assert plan.total.delta <= total.delta


def test_one_query_of_private_voters_uses_their_gamma() -> None:
    voter, total = Privacy(0.5), Privacy(1.0)
    for each, within in ((PrivacyProfile([(0, 0.013), (0.1, 1e-5)]), Privacy(0.1, 1e-5)), (voter, total)):
        one = voting_plan(11, voter=each, affected=11, queries=1, total=within)
        assert isinstance(one.mechanism, CertifiedNoiseFunction)
        assert one.mechanism.problem == Problem(11, each, within, 11)
    # Voters trained once that answer twice count as not private.
    two = voting_plan(11, voter=voter, affected=11, queries=2, total=total)
    assert two.mechanism.models is None
    assert two.mechanism.fits(total, 2)


# ------------------------------------------------------------------------------------------ the classifier


@pytest.mark.slow
def test_private_predictions_classify_digits() -> None:
    X, y = digits()
    model = PrivateVotingClassifier(n_voters=11, epsilon=30.0, delta=1e-3, queries=60, random_state=3)
    model.fit(X[:250], y[:250])
    predicted = model.predict(X[250:310])
    # Fair coins would get at least 44 of 60 with probability 1/5,000.
    assert set(np.unique(predicted)) <= {5, 8}
    assert int((predicted == y[250:310]).sum()) >= 44
    assert model.queries_left_ == 0
    assert 0 < model.privacy_spent_.epsilon <= 30.0


def test_predictions_are_charged_and_refused_when_spent() -> None:
    X, y = digits()
    model = PrivateVotingClassifier(n_voters=3, epsilon=2.0, queries=5, random_state=0).fit(X, y)
    assert model.privacy_spent_ == Privacy(0.0)
    model.predict(X[:2])
    # the number of answers may depend on them, so the whole total counts
    assert model.privacy_spent_ == Privacy(2.0, 1e-5)
    with pytest.raises(BudgetSpent, match="4 releases were requested and 3 are left: the budget, 5 predictions"):
        model.predict(X[:4])
    model.predict(X[:2])  # the same rows again cost again
    assert model.queries_left_ == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])  # noqa: S301 — our own
def test_a_copy_has_no_queries_left(copied: Any) -> None:
    X, y = digits()
    model = PrivateVotingClassifier(n_voters=3, queries=5, random_state=0).fit(X, y)
    again = copied(model)
    assert (model.queries_left_, again.queries_left_) == (5, 0)
    with pytest.raises(BudgetSpent, match=r"a copy .* has none.*release log") as error:
        again.predict(X[:1])
    assert "are spent" not in str(error.value)


def test_a_release_log_remembers_across_fits_and_copies(tmp_path: Path) -> None:
    X, y = digits()
    model = PrivateVotingClassifier(n_voters=3, queries=5, release_log=tmp_path / "log", random_state=0).fit(X, y)
    model.predict(X[:2])
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 — our own
    again.predict(X[:1])
    model.fit(X, y)
    assert model.queries_left_ == again.queries_left_ == 2
    assert ReleaseLog(tmp_path / "log").spent == 3
    with pytest.raises(InvalidInput, match="the release log of 5 voters, 2 classes and overlap = 1"):
        PrivateVotingClassifier(n_voters=5, queries=5, release_log=tmp_path / "log").fit(X, y)
    with refused("release_log"):
        PrivateVotingClassifier(n_voters=3, queries=5, epsilon=0.5, release_log=tmp_path / "log").fit(X, y)
    with refused("queries", "6"):
        PrivateVotingClassifier(n_voters=3, queries=6, release_log=tmp_path / "log").fit(X, y)


@pytest.mark.parametrize(("sigma", "is_within"), [(2.0, False), (200.0, True)])
def test_a_log_with_a_limit_of_queries_is_used_if_they_fit_in_the_total(
    tmp_path: Path, sigma: float, is_within: bool
) -> None:
    X, y = digits()
    path = tmp_path / str(sigma)
    ReleaseLog.create(path, NoisyMaximum.of(3, 2, sigma), queries=5)
    model = PrivateVotingClassifier(n_voters=3, queries=5, epsilon=1.0, delta=1e-5, release_log=path, random_state=0)
    if is_within:
        assert model.fit(X, y).plan_.queries == 5
    else:
        with refused("release_log"):
            model.fit(X, y)


def test_a_release_log_that_was_replaced_is_not_charged(tmp_path: Path) -> None:
    X, y = digits()
    asked: dict[str, Any] = {"n_voters": 3, "queries": 5, "random_state": 0}
    model = PrivateVotingClassifier(release_log=tmp_path / "log", **asked).fit(X, y)
    PrivateVotingClassifier(release_log=tmp_path / "other", epsilon=2.0, **asked).fit(X, y)
    (tmp_path / "other").replace(tmp_path / "log")
    with refused("budget"):
        model.predict(X[:1])
    assert ReleaseLog(tmp_path / "log").spent == 0
    (tmp_path / "log").unlink()
    with pytest.raises(BudgetUnreadable, match="cannot be opened"):  # and no new one is created
        model.predict(X[:1])


@pytest.fixture
def private_model(tmp_path: Path) -> Any:
    voter = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=4.0, regularization=0.02)

    def made(**given: Any) -> PrivateVotingClassifier:
        asked = {"epsilon": 3.5, "delta": 1e-5, "n_voters": 3, "random_state": 0, "release_log": tmp_path / "log"}
        return PrivateVotingClassifier(voter, voter_privacy=Privacy(1.0, 1e-6), **{**asked, **given})

    return made


def test_fits_of_a_plain_majority_are_charged_to_a_release_log(tmp_path: Path, private_model: Any) -> None:
    X, y = digits()
    for _ in range(3):
        model = private_model().fit(X, y)
        assert isinstance(model.plan_.mechanism, PlainVote)
        model.predict(X[:2])
        assert model.privacy_spent_ == Privacy(3.5, 1e-5)
    log = ReleaseLog(tmp_path / "log")
    assert (log.limit, log.spent) == (3, 3)
    again = private_model()
    with pytest.raises(BudgetSpent, match="3 are spent"):
        again.fit(X, y)
    assert not hasattr(again, "voters_")
    assert model.predict(X[:5]).shape == (5,)  # a fit that was charged is continued


def test_a_classifier_of_models_that_state_a_profile_predicts_without_limit(
    dp_sgd_voter: PrivacyProfile, tmp_path: Path
) -> None:
    X, y = digits()
    asked = PrivateVotingClassifier(
        PrivateLogisticRegression(epsilon=0.1, delta=1e-5, data_norm=4.0, regularization=0.02),
        n_voters=11, overlap=11, epsilon=0.26, delta=11e-4, voter_privacy=dp_sgd_voter, random_state=0,
        release_log=tmp_path / "log",
    )  # fmt: skip
    model = clone(asked).fit(X, y)
    assert model.queries_left_ == math.inf
    assert model.predict(X[:200]).shape == (200,)
    log = ReleaseLog(tmp_path / "log")
    assert isinstance(log.mechanism, PlainVote)
    assert (log.mechanism.model, log.limit, log.spent) == (dp_sgd_voter, 1, 1)
    with pytest.raises(BudgetSpent):
        clone(asked).fit(X, y)


def test_a_release_log_of_fits_is_for_one_ensemble_and_one_total(private_model: Any) -> None:
    X, y = digits()
    private_model().fit(X, y)
    with refused("release_log"):
        private_model(n_voters=5).fit(X, y)
    with refused("budget"):
        private_model(epsilon=2.5).fit(X, y)


def test_fits_without_a_release_log_are_unlimited(private_model: Any, tmp_path: Path) -> None:
    X, y = digits()
    model = private_model(release_log=None)
    assert model.fit(X, y).fit(X, y).privacy_spent_ == Privacy(1.0, 1e-6)
    assert not list(tmp_path.iterdir())


class Remembers(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A voter that stores its records, numbered by their first feature."""

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Remembers:
        self.saw_ = X[:, 0].astype(int).tolist()
        self.said_ = y.tolist()
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        return np.ones(len(X), dtype=np.int64)


@pytest.mark.parametrize("overlap", [1, 3])
def test_a_record_reaches_exactly_overlap_voters(overlap: int) -> None:
    n = 60
    X, y = np.arange(n)[:, None].astype(float), np.arange(n) % 2
    voting: dict[str, Any] = {"n_voters": 9, "overlap": overlap, "queries": 20, "random_state": 1}
    model = PrivateVotingClassifier(Remembers(), **voting).fit(X, y)
    seen = Counter(record for voter in model.voters_ for record in getattr(voter, "saw_", []))
    assert set(seen.values()) == {overlap}
    assert len(seen) == n
    assert model.plan_.mechanism.affected == overlap
    # A changed record changes only the voters that have it: parts and seeds do not depend on records.
    changed = X.copy()
    changed[7] = 1000.0
    other = PrivateVotingClassifier(Remembers(), **voting).fit(changed, y)
    moved = sum(a.saw_ != b.saw_ for a, b in zip(model.voters_, other.voters_, strict=True))
    assert moved == overlap
    assert [a.random_state for a in model.voters_] == [b.random_state for b in other.voters_]
    assert len({voter.random_state for voter in model.voters_}) == 9


def test_a_private_voter_with_one_class_is_still_trained() -> None:
    # A constant answer without training would reveal that its part has one class.
    X, y = np.zeros((40, 1)), np.zeros(40)
    voter = PrivateLogisticRegression(epsilon=1.0, delta=1e-5)
    model = PrivateVotingClassifier(
        voter, n_voters=4, epsilon=1.0, voter_privacy=Privacy(1.0, 1e-5), classes=[0, 1], random_state=0
    ).fit(X, y)
    assert {type(voter) for voter in model.voters_} == {PrivateLogisticRegression}
    public = PrivateVotingClassifier(n_voters=4, classes=[0, 1], queries=20, random_state=0).fit(X, y)
    assert {type(voter).__name__ for voter in public.voters_} == {"ConstantVote"}


def test_with_a_price_it_may_abstain_and_the_cap_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    capped = NoisyMaximum(8, 4, 1.0, threshold=0.0, check_sigma=1.0, cap=3)
    plan = VotingPlan(capped, 12, Privacy(60.0, 1e-5), "")
    monkeypatch.setattr("darrm_opt.learning.classifier.voting_plan", lambda *_, **__: plan)
    X, trees = np.repeat(np.eye(4), 40, axis=0), np.repeat(np.array(["ash", "elm", "fir", "oak"]), 40)
    asked: dict[str, Any] = {"n_voters": 8, "epsilon": 60.0, "queries": 12, "price": 1.0, "random_state": 1}
    for log in (None, tmp_path / "log"):
        model = PrivateVotingClassifier(DecisionTreeClassifier(), release_log=log, **asked).fit(X, trees)
        said = [*model.predict(np.eye(4)[:2]), *model.predict(np.eye(4)), *model.predict(np.eye(4))]
        assert sum(each != -1 for each in said) == 3
        assert set(said[:2]) <= set(trees) | {-1}
        assert model.queries_left_ == 2
    numbers = PrivateVotingClassifier(DecisionTreeClassifier(), abstention=-7, **asked).fit(X, np.repeat(range(4), 40))
    predicted = numbers.predict(X[:12])
    assert predicted.dtype.kind == "i"
    assert np.count_nonzero(predicted != -7) == 3
    with refused("abstention", "2"):
        PrivateVotingClassifier(abstention=2, **asked).fit(X, np.repeat(range(4), 40))


def test_a_price_chooses_a_mechanism_that_may_abstain() -> None:
    plan = voting_plan(6, 3, queries=4, total=Privacy(6.0), price=2.0, prior="dirichlet(1)")
    assert plan.mechanism.fits(Privacy(6.0), 4)
    votes = np.array([[2, 2, 2]] * 400)
    assert (plan.mechanism.draw_many(votes, SystemRandomness()) == ABSTENTION).any()
    with refused("design"):
        voting_plan(12, 3, queries=4, total=Privacy(6.0, 1e-5), design=solve)


def test_a_batch_of_predictions_passes_a_test_for_its_total(tmp_path: Path) -> None:
    X = np.repeat(np.eye(3), 400, axis=0)
    y = np.repeat(["a", "b", "c"], 400)
    earned = Privacy(4.5, 1e-4)
    settings: dict[str, Any] = {"n_voters": 50, "epsilon": 10.0, "delta": 1e-4, "queries": 40, "random_state": 0}
    asked = np.eye(3)[np.arange(40) % 3]
    path = tmp_path / "log"
    for _ in range(2):  # fitted again, the same log is used
        model = PrivateVotingClassifier(**settings, ptr=earned, release_log=path).fit(X, y)
    assert model.plan_.total == earned
    assert isinstance(model.plan_.mechanism, NoisyMaximum)
    assert model.plan_.mechanism.epsilon(40, 1e-4) <= 10.0
    with refused("votes"):
        model.predict(asked[:39])
    assert (model.predict(asked) == np.array(["a", "b", "c"])[np.arange(40) % 3]).mean() > 0.9
    assert (model.queries_left_, model.privacy_spent_, ReleaseLog(path).passed) == (0, earned, True)
    with pytest.raises(BudgetSpent):
        model.predict(asked)
    with refused("ptr"):
        PrivateVotingClassifier(**settings, release_log=path).fit(X, y)
    for argument, change in (
        ("ptr", {"ptr": Privacy(0.5, 1e-4)}),
        ("ptr", {"ptr": Privacy(11.0, 1e-4)}),
        ("ptr", {"ptr": 4.5}),
        ("ptr", {"ptr": earned, "price": 0.1}),
        ("affected", {"ptr": earned, "overlap": 2}),
        ("leader_share", {"ptr": earned, "leader_share": 0.2}),
    ):
        with refused(argument):
            PrivateVotingClassifier(**settings | change).fit(X, y)


def said(text: str, capsys: pytest.CaptureFixture[str]) -> Callable[[], bool]:
    """Return a function that checks whether a text was written to standard error."""
    seen: list[str] = []

    def look() -> bool:
        seen.append(capsys.readouterr().err)
        return text in "".join(seen)

    return look


@pytest.mark.parametrize("verbose", [False, True])
def test_a_long_search_is_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verbose: bool
) -> None:
    told = said("designing the release of 100 predictions", capsys)

    def slow(*_: Any, **__: Any) -> VotingPlan:
        until(told) if verbose else time.sleep(0.2)
        return VotingPlan(PlainVote(3, 2, Privacy(1.0)), None, Privacy(1.0), "")

    monkeypatch.setattr("darrm_opt.learning.classifier.voting_plan", slow)
    monkeypatch.setattr("darrm_opt.learning.classifier.SILENCE", 0.05)
    PrivateVotingClassifier(n_voters=3, verbose=verbose).fit(*digits())
    assert told() is verbose


def test_predictions_have_the_names_of_the_classes() -> None:
    X = np.repeat(np.eye(4), 40, axis=0)
    y = np.repeat(np.array(["ash", "elm", "fir", "oak"]), 40)
    model = PrivateVotingClassifier(
        DecisionTreeClassifier(), n_voters=8, epsilon=60.0, delta=0.0, queries=4, random_state=1
    )
    assert model.fit(X, y).predict(np.eye(4)).tolist() == ["ash", "elm", "fir", "oak"]


@for_each(
    ("given", "said"),
    [
        ({"n_voters": 0}, "n_voters = 0 is not valid: expected a whole number of voters"),
        ({"n_voters": 9, "overlap": 2}, "overlap = 2 is not valid: expected a divisor of n_voters = 9"),
        ({"n_voters": 401}, "a part would be empty"),
        ({"queries": 0}, "queries = 0 is not valid"),
        ({"epsilon": -1.0}, "epsilon = -1.0 is not valid"),
        ({"classes": [5, 6]}, "a label outside the classes"),
        ({"classes": [5]}, "at least two classes"),
        ({"price": math.nan}, "price"),
    ],
)
def test_invalid_parameters_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        PrivateVotingClassifier(**given).fit(*digits())


def test_a_table_is_used_only_if_it_fits_the_total_and_was_solved_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def table() -> object:
        return release_plan._single_release([VoterGroup(3, Privacy(0.2))], 3, Privacy(1.0), 1, None, 0.0, solve)

    assert isinstance(table(), GroupTableMechanism)
    with monkeypatch.context() as patch:
        patch.setattr(GroupTableMechanism, "fits", lambda *_: False)
        assert table() is None
    solution = solve_table(Problem(groups=[VoterGroup(3, Privacy(0.2))], target=Privacy(1.0), classes=3))
    monkeypatch.setattr(release_plan, "solve_table", lambda *_, **__: replace(solution, status=Status.TIME_LIMIT))
    assert table() is None


# ------------------------------------------------------------------------------------------ the private voter


def test_replacing_a_record_moves_the_minimum_within_the_proved_bound() -> None:
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


def test_the_minimum_is_within_the_stated_distance() -> None:
    rng = np.random.default_rng(1)
    rows, signs = rng.normal(size=(30, 3)) / 5, rng.choice([-1.0, 1.0], 30)
    exact = minimum(rows, signs, 0.1, 1e-11)
    for within in (1e-2, 1e-4, 1e-6):
        assert np.linalg.norm(minimum(rows, signs, 0.1, within) - exact) <= within
    with pytest.raises(SolveFailed, match="raise regularization; nothing is released"):
        minimum(rows, signs, 0.1, 1e-20)


def test_a_minimum_that_rounding_may_have_moved_is_refused() -> None:
    """The charge covers sums of n and of d terms of size at most 2 + |w|, with up to 100 roundings each, and √d in the norm."""
    rng, strength = np.random.default_rng(2), 0.1
    for n, d in ((16, 16), (200, 4)):
        rows, signs = rng.normal(size=(n, d)) / 5, rng.choice([-1.0, 1.0], n)
        size = float(np.linalg.norm(minimum(rows, signs, strength, 1e-9)))
        rounding = (n + d + 100) * 2.0**-50 * (2 + size) * math.sqrt(d)
        with pytest.raises(SolveFailed):
            minimum(rows, signs, strength, 0.9 * rounding / strength)
        minimum(rows, signs, strength, 1.5 * rounding / strength)


def test_the_noise_is_just_sufficient_for_privacy() -> None:
    for epsilon, delta, shift in ((1.0, 1e-5, 1100.0), (8.0, 1e-6, 1030.0), (0.1, 1e-9, 2000.0)):
        sigma = smallest_sigma(Privacy(epsilon, delta), shift)
        # The exact profile of the continuous Gaussian: within at that σ, not within at four fifths of it.
        assert gaussian_delta(shift / sigma, epsilon) <= delta
        assert gaussian_delta(shift / (0.5 * sigma), epsilon) > delta


def test_released_weights_are_the_minimum_plus_the_noise() -> None:
    X, y = digits()
    n, strength, norm = len(X), 0.1, 8.0
    rows = np.column_stack([X / np.maximum(np.linalg.norm(X, axis=1), norm)[:, None], np.ones(n)]) / math.sqrt(2)
    center = minimum(rows, np.where(y == 8, 1.0, -1.0), strength, 1e-6)
    drawn = []
    for seed in range(14):
        model = PrivateLogisticRegression(
            4.0, 1e-5, regularization=strength, data_norm=norm, source=SeededRandomnessForTestsOnly(seed)
        )
        assert model.fit(X, y).privacy_ == Privacy(4.0, 1e-5)
        drawn.append(np.append(model.coef_[0], model.intercept_) - center)
    step = FINE * 2 / (n * strength)
    sigma = smallest_sigma(Privacy(4.0, 1e-5), 1 / FINE + math.sqrt(65)) * step * (1 + 2 * CLOSE)
    values = np.concatenate(drawn) / sigma
    assert stats.kstest(values, "norm").pvalue > 1e-6
    n = values.size
    low, high = stats.chi2.ppf(5e-7, n), stats.chi2.isf(5e-7, n)
    assert low < float(values @ values) < high
    assert stats.chi2.cdf(low / 0.64, n) > 0.999  # power: noise of four fifths of that σ would be detected


def test_invalid_labels_and_numbers_are_refused() -> None:
    X, y = digits()
    for given, said in (
        ({"epsilon": 0.0}, "epsilon = 0.0 is not valid: expected a finite number above 0"),
        ({"delta": 0.0}, "delta = 0.0"),
        ({"regularization": math.inf}, "regularization = inf"),
        ({"data_norm": -1.0}, "data_norm = -1.0"),
        ({"classes": [1, 2]}, "two classes that include every label"),
    ):
        with pytest.raises(InvalidInput, match=said):
            PrivateLogisticRegression(**given).fit(X, y)
    for labels in (np.arange(len(X)) % 3, np.zeros(len(X))):
        with refused("y"):
            PrivateLogisticRegression().fit(X, labels)
    with pytest.raises(NotFittedError):
        PrivateLogisticRegression().decision_function(X)
    tags = get_tags(PrivateLogisticRegression())
    assert (tags.non_deterministic, tags.classifier_tags.poor_score, tags.classifier_tags.multi_class) == (1, 1, 0)


def test_a_long_fit_logs_the_voter_in_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = VotingPlan(PlainVote(3, 2, Privacy(1.0)), None, Privacy(1.0), "")
    monkeypatch.setattr("darrm_opt.learning.classifier.voting_plan", lambda *_, **__: plan)
    monkeypatch.setattr("darrm_opt.learning.classifier.SILENCE", 0.01)

    told = said("training voter 1 of 3", capsys)

    class Slow(LogisticRegression):  # type: ignore[misc]  # scikit-learn is untyped
        def fit(self, X: Any, y: Any) -> Any:
            until(told)
            return super().fit(X, y)

    X, y = np.arange(40.0).reshape(-1, 1), np.arange(40) % 2
    PrivateVotingClassifier(Slow(), n_voters=3, epsilon=2.0, queries=2, random_state=0).fit(X, y)
    assert told()


# ------------------------------------------------------------------------------------------ groups of voters


class Private(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Replaces a private voter: always predicts one class, and records its training."""

    def __init__(self, says: int = 0) -> None:
        self.says = says

    def fit(self, *_: Any) -> Private:
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        return np.full(len(X), self.says)


GROUPS = [(4, Privacy(0.3), Private(2)), (3, Privacy(1.0), Private(1))]
RECORDS = np.arange(60.0)[:, None], np.arange(60) % 3


@pytest.mark.parametrize("classes", [2, 3])
def test_one_query_of_groups_uses_their_table(classes: int) -> None:
    groups, total = [VoterGroup(4, Privacy(0.3)), VoterGroup(3, Privacy(1.0))], Privacy(0.8, 1e-6)
    plan = voting_plan(7, classes, queries=1, total=total, groups=groups, prior="dirichlet(1)")
    assert isinstance(plan.mechanism, GroupTableMechanism)
    assert plan.mechanism == GroupTableMechanism(
        plan.mechanism.problem, solve_table(Problem(groups=groups, target=total, affected=1, classes=classes)).table
    )
    assert (plan.mechanism.fresh, plan.queries, plan.mechanism.fits(total, 1)) == (False, 1, True)
    # It is better than the best table for fixed votes if five voters of seven agree.
    fixed = voting_plan(7, classes, queries=1, total=total, prior="dirichlet(1)" if classes > 2 else None).mechanism
    votes = np.array([[0, 0, 0, 0, 0, 1, 1]])
    best, usual = (one.leader_chances(one.count(votes))[0] for one in (plan.mechanism, fixed))
    assert best > usual


def test_groups_within_the_total_need_no_noise_and_more_queries_use_fixed_votes() -> None:
    groups = [VoterGroup(4, Privacy(0.3, 1e-7)), VoterGroup(3, Privacy(1.0))]
    free = voting_plan(7, 9, queries=10**6, total=Privacy(1.0, 1e-6), groups=groups)
    assert (free.mechanism, free.queries) == (PlainVote(7, 9, Privacy(1.0, 1e-7)), None)
    total = Privacy(0.8, 1e-6)
    plan = voting_plan(7, queries=2, total=total, groups=groups)
    assert plan.mechanism == voting_plan(7, queries=2, total=total).mechanism
    assert plan.mechanism.fits(total, 2)
    seven = voting_plan(7, 7, queries=1, total=total, groups=groups)  # no table of groups has this many classes
    assert not isinstance(seven.mechanism, GroupTableMechanism)
    abstains = voting_plan(7, 2, queries=1, total=total, groups=groups, price=2.0)
    assert isinstance(abstains.mechanism, GroupTableMechanism)
    assert abstains.mechanism.problem.abstention
    assert isinstance(voting_plan(5, 3, queries=1, total=total, voter=Privacy(1.0)).mechanism, GroupTableMechanism)
    alike = voting_plan(7, queries=1, total=total, groups=[VoterGroup(4, Privacy(1.0)), VoterGroup(3, Privacy(1.0))])
    assert alike.mechanism == voting_plan(7, queries=1, total=total, voter=Privacy(1.0)).mechanism


def test_groups_are_trained_in_order_and_a_log_is_continued(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"epsilon": 0.8, "queries": 1, "random_state": 0, "release_log": tmp_path / "log"}
    model = sklearn.clone(PrivateVotingClassifier(groups=GROUPS, **asked)).fit(*RECORDS)
    assert [voter.says for voter in model.voters_] == [2, 2, 2, 2, 1, 1, 1]
    assert isinstance(model.plan_.mechanism, GroupTableMechanism)
    assert model.fit(*RECORDS).queries_left_ == 1
    assert model.predict([[0.0]])[0] in (0, 1, 2)
    again = PrivateVotingClassifier(groups=GROUPS, **asked).fit(*RECORDS)
    assert (again.queries_left_, again.privacy_spent_) == (0, Privacy(0.8, 1e-5))
    with pytest.raises(BudgetSpent):
        again.predict([[0.0]])
    # The assumptions of the table must hold for these voters.
    for other in ([(4, Privacy(1.0), None), (3, Privacy(0.3), None)], [(7, Privacy(math.inf), None)], None):
        with refused("release_log"):
            PrivateVotingClassifier(groups=other, n_voters=7, **asked).fit(*RECORDS)


@pytest.mark.parametrize("queries", [1, 3])
def test_a_log_of_other_or_fresh_voters_is_refused(tmp_path: Path, queries: int) -> None:
    X, y = digits()
    solution = solve(Problem(5, Privacy(0.3), Privacy(0.2), 1))
    ReleaseLog.create(tmp_path / "log", solution, budget=Privacy(1.0), queries=queries, fresh=True)
    voter = Privacy(0.3) if queries > 1 else None
    with refused("release_log"):
        PrivateVotingClassifier(
            n_voters=5, epsilon=1.0, delta=0.0, queries=queries, voter_privacy=voter, release_log=tmp_path / "log"
        ).fit(X, y)


def test_invalid_groups_are_refused() -> None:
    refuses(
        lambda **asked: PrivateVotingClassifier(**asked).fit(*RECORDS),
        {"groups": GROUPS, "epsilon": 0.8, "queries": 1},
        groups=[[], 7, [(4, 0.3, None)], [(0, Privacy(0.3), None)], [(4, Privacy(0.3))]],
        estimator=[Private()],
        voter_privacy=[Privacy(1.0)],
        overlap=[2],
    )
    with refused("design"):
        PrivateVotingClassifier(groups=GROUPS, epsilon=0.8, queries=1, design=solve, classes=[0, 1, 2]).fit(*RECORDS)


def test_a_plan_of_groups_requires_all_voters() -> None:
    groups = [VoterGroup(4, Privacy(0.3))]
    for K, voter in ((5, None), (4, Privacy(0.3))):
        with refused("groups"):
            voting_plan(K, queries=1, total=Privacy(1.0), groups=groups, voter=voter)
    with refused("design"):
        voting_plan(4, queries=1, total=Privacy(1.0), groups=groups, design=solve)


class _Predicts(LogisticRegression):  # type: ignore[misc]  # scikit-learn is untyped
    """A classifier whose predictions have another shape, like some wrapped neural networks."""

    def __init__(self, form: str = "probabilities") -> None:
        self.form = form
        super().__init__()

    def predict(self, X: Any) -> Any:
        classes = super().predict(X)
        chances = self.predict_proba(X)
        return {
            "probabilities": chances,
            "chance": chances[:, -1],
            "column": classes[:, None],
            "names": classes.astype(str),
            "masked": np.ma.array(classes, mask=np.arange(len(classes)) == 0),
            "high": classes + 2,
        }[self.form]


@pytest.mark.parametrize("form", ["probabilities", "chance", "names", "masked", "high"])
@pytest.mark.parametrize("sampled", [False, True])
def test_invalid_predictions_are_refused_before_they_are_charged(form: str, sampled: bool, tmp_path: Path) -> None:
    X, y = digits()
    drawn: dict[str, Any] = {"sampling": Sampling(len(X), 60), "delta": 1e-5} if sampled else {}
    log = tmp_path / "log"
    model = PrivateVotingClassifier(
        _Predicts(form), n_voters=3, queries=20, epsilon=4.0, release_log=log, random_state=0, **drawn
    )
    with refused("estimator"):
        model.fit(X, y).predict(X[:5])
    assert ReleaseLog(log).spent == 0
    column = PrivateVotingClassifier(_Predicts("column"), n_voters=3, queries=20, epsilon=40.0, random_state=0)
    assert set(column.fit(X, y).predict(X[:5])) <= {5, 8}


def test_only_classifiers_vote() -> None:
    from sklearn.cluster import KMeans
    from sklearn.ensemble import IsolationForest
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = digits()
    for wrong in (
        LinearRegression(),
        KMeans(2),
        IsolationForest(),
        make_pipeline(StandardScaler(), LinearRegression()),
        [LogisticRegression()],
        LogisticRegression,
        "logistic",
    ):
        with refused("estimator"):
            PrivateVotingClassifier(wrong, n_voters=3).fit(X, y)
        with refused("estimator"):
            PrivateVotingClassifier(groups=[(3, Privacy(math.inf), wrong)]).fit(X, y)
    made = make_pipeline(StandardScaler(), LogisticRegression())
    assert PrivateVotingClassifier(made, n_voters=3, queries=2).fit(X, y).queries_left_ == 2
