"""Bagged models: trained on their draw alone, a majority by hand, and the certificate of the draw."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from darrm_opt.aggregators.guarantee import Guarantee
from darrm_opt.bagging.bagged_models import BaggedModels, BaggingCertificate, train_bagged
from darrm_opt.bagging.guarantee import Draws, bagging_guarantee
from darrm_opt.errors import InvalidInput
from darrm_opt.randomness.source import RandomSource, SeededRandomnessForTestsOnly


class Memory:
    """The learner that hides least: its model is its subsample, and it votes 1 on the records that it saw."""

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Memory:
        assert len(set(y.tolist())) == 2
        self.seen = {tuple(row) for row in X.tolist()}
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[np.int64]:
        return np.array([int(tuple(row) in self.seen) for row in X.tolist()])


class Scripted(RandomSource):
    """The draw that is told."""

    def __init__(self, drawn: tuple[int, ...]) -> None:
        self._left = list(drawn)

    def octets(self, count: int) -> bytes:
        raise AssertionError(f"{count} bytes were asked for, not a number")

    def below(self, n: int) -> int:
        number = self._left.pop(0)
        assert number < n
        return number


RECORDS = np.arange(4.0).reshape(-1, 1)
LABELS = np.array([0, 1, 0, 1])


def test_each_model_learns_from_its_subsample_and_the_majority_decides() -> None:
    models = train_bagged(Memory, RECORDS, LABELS, 2, 3, source=Scripted((0, 1, 1, 2, 3, 0)))
    assert models.votes(RECORDS).tolist() == [[1, 2], [1, 2], [2, 1], [2, 1]]  # 0 and 1 were seen by two models
    assert models.predict(RECORDS).tolist() == [1, 1, 0, 0]
    # A subsample of one class makes a constant model; a tie goes to the first class, whichever it is.
    tied = train_bagged(Memory(), RECORDS, LABELS, 2, 2, source=Scripted((0, 2, 1, 3)))
    assert tied.votes(RECORDS[:1]).tolist() == [[1, 1]]
    assert tied.predict(RECORDS[:1]).tolist() == [0]
    names = np.array(["no", "yes", "no", "yes"])
    named = train_bagged(Memory, RECORDS, names, 2, 1, classes=("yes", "no"), source=Scripted((0, 2)))
    assert named.predict(RECORDS).tolist() == ["no"] * 4


def test_the_certificate_by_hand() -> None:
    # 2 models of 2 records of 4, with replacement: a record is in none of four draws with chance (3/4)^4 = 81/256.
    models = train_bagged(Memory, RECORDS, LABELS, 2, 2)
    assert models.guarantee == Guarantee(0.0, 175 / 256, "both", "bagging, total variation of the draw")
    assert models.certificate.verify() == models.guarantee
    assert models.guarantee == bagging_guarantee(4, 2, 2, form="zero")
    apart = train_bagged(Memory, RECORDS, LABELS, 1, 2, replacement=False, sampling="disjoint", form="paper")
    assert apart.guarantee.delta == 0.5
    assert apart.guarantee.epsilon == pytest.approx(0.5108256237659907)  # ln(5/3)
    assert apart.certificate.verify() == apart.guarantee


def test_the_certificate_is_the_worst_over_all_draws() -> None:
    """Every draw of two models; whoever sees them sees the record with the certificate's chance, and never without it."""
    shown = Fraction(0)
    for drawn in product(range(4), repeat=4):
        models = train_bagged(Memory, RECORDS, LABELS, 2, 2, source=Scripted(drawn))
        seen = set().union(*(getattr(model, "seen", set()) for model in models.models))
        shown += Fraction(3 in drawn, 4**4)
        assert ((3.0,) in seen) <= (3 in drawn)
    assert shown == Fraction(models.guarantee.delta)


def test_a_certificate_that_claims_more_is_refused() -> None:
    certificate = BaggingCertificate.of(Draws(60_000, 300, 1, True, "independent"))
    assert certificate.guarantee.delta == 0.004987562266630783
    less = replace(certificate, guarantee=replace(certificate.guarantee, delta=0.004987562266630782))
    with pytest.raises(InvalidInput, match=r"^guarantee = .*expected at least \(0\.0, 0\.004987562266630783\)"):
        less.verify()
    other = replace(certificate, draws=replace(certificate.draws, n_models=2))
    with pytest.raises(InvalidInput, match=r"^guarantee = "):
        other.verify()
    weaker = replace(certificate, guarantee=replace(certificate.guarantee, delta=0.01))
    assert weaker.verify() == certificate.guarantee


def test_models_of_scikit_learn_on_real_data() -> None:
    datasets, tree = pytest.importorskip("sklearn.datasets"), pytest.importorskip("sklearn.tree")
    X, y = datasets.load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    private, public = order[:400], order[400:]

    def bagged(seed: int) -> BaggedModels:
        return train_bagged(
            tree.DecisionTreeClassifier(max_depth=3),
            X[private],
            y[private],
            40,
            11,
            seed=seed,
            source=SeededRandomnessForTestsOnly(1),
        )

    models = bagged(0)
    assert np.mean(models.predict(X[public]) == y[public]) > 0.9
    assert models.guarantee.delta == bagging_guarantee(400, 40, 11, form="zero").delta
    assert models.votes(X[public]).sum(axis=1).tolist() == [11] * len(public)
    assert models.predict(X[public]).tolist() == bagged(0).predict(X[public]).tolist()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"y": LABELS[:3]}, r"^y = \(3,\) is not valid: expected one label for each of the 4 records"),
        ({"y": np.array([0, 1, 2, 1])}, r"^y = 2 is not valid: expected one of the classes \(0, 1\)"),
        ({"X": np.float64(1.0), "y": np.float64(0.0)}, r"^n = 0|^y = "),
        ({"subsample_size": 0}, "^subsample_size = 0"),
        ({"n_models": 0}, "^n_models = 0"),
        ({"subsample_size": 4, "replacement": False}, r"^subsample_size = 4 .*at most n - 1 = 3"),
        ({"form": "other"}, "^form = 'other'"),
        ({"classes": (0,)}, "^classes = "),
        ({"seed": -1}, "^seed = -1"),
    ],
)
def test_bad_training_is_named(changed: dict[str, Any], text: str) -> None:
    asked: dict[str, Any] = {"X": RECORDS, "y": LABELS, "subsample_size": 2, "n_models": 2} | changed
    with pytest.raises(InvalidInput, match=text):
        train_bagged(Memory, **asked)
