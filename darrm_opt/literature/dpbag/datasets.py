"""Data sets shipped with scikit-learn, split into private records and a public pool.

Source: the optical recognition of handwritten digits and the breast cancer (Wisconsin, diagnostic) data sets of the UCI
repository, as bundled with scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from darrm_opt.bagging.teachers import Estimator
from darrm_opt.errors import InvalidInput
from darrm_opt.optional_packages import require
from darrm_opt.problem import whole_number

DATASETS = ("digits", "breast-cancer")
"""Handwritten fives against eights; malign against benign."""

MODELS = ("naive-bayes", "logistic", "tree")
"""Teachers, each untrained and with whatever scaling it needs inside."""


_WHAT = "learning from bundled data"


@dataclass(frozen=True, eq=False)
class BundledData:
    """Private records and public points.

    Attributes:
        name: which data.
        X: private records, shape (n_records, features).
        y: their labels, 0 or 1, shape (n_records,).
        pool: public points, shape (n_points, features).
        truth: what they are, 0 or 1: for the accuracy alone.
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    pool: NDArray[np.float64]
    truth: NDArray[np.int64]


def load_dataset(name: str, held_out: int, *, seed: int = 0) -> BundledData:
    """Return bundled data with ``held_out`` points for the pool, the split drawn by a public seed.

    Args:
        name: one of `DATASETS`.
        held_out: points of the pool, at least 1 and fewer than there are records.
        seed: ≥ 0.

    Raises:
        InvalidInput: a name or number that is not accepted.
        BackendUnavailable: scikit-learn (the extra ``sklearn``) is not installed.
    """
    if name not in DATASETS:
        raise InvalidInput("data", name, "one of " + ", ".join(DATASETS))
    held_out = whole_number(held_out, "labels", "a whole number of points to label, at least 1")
    seed = whole_number(seed, "seed", "a whole number, at least 0", least=0)
    datasets = require("sklearn.datasets", _WHAT)
    if name == "digits":
        X, y = datasets.load_digits(return_X_y=True)
        rows = (y == 5) | (y == 8)
        X, y = X[rows], (y[rows] == 8).astype(np.int64)
    else:
        X, y = datasets.load_breast_cancer(return_X_y=True)
    if held_out >= len(y):
        raise InvalidInput("labels", held_out, f"fewer than the {len(y)} records of {name}")
    order = np.random.default_rng(seed).permutation(len(y))
    private, public = order[held_out:], order[:held_out]
    return BundledData(name, X[private], y[private].astype(np.int64), X[public], y[public].astype(np.int64))


def teacher(model: str) -> Estimator:
    """Return an untrained teacher.

    Raises:
        InvalidInput: not one of `MODELS`.
        BackendUnavailable: scikit-learn (the extra ``sklearn``) is not installed.
    """
    estimator: Estimator
    if model == "naive-bayes":
        estimator = require("sklearn.naive_bayes", _WHAT).GaussianNB(var_smoothing=1e-2)
    elif model == "logistic":
        scaler = require("sklearn.preprocessing", _WHAT).StandardScaler()
        estimator = require("sklearn.pipeline", _WHAT).make_pipeline(
            scaler, require("sklearn.linear_model", _WHAT).LogisticRegression(max_iter=1000)
        )
    elif model == "tree":
        estimator = require("sklearn.tree", _WHAT).DecisionTreeClassifier(max_depth=3)
    else:
        raise InvalidInput("model", model, "one of " + ", ".join(MODELS))
    return estimator
