"""A private voter: logistic regression with output perturbation, with integer arithmetic where privacy is decided.

The objective J(w) = mean log(1 + e^(−y·w·x)) + (λ/2)|w|², with every |x| ≤ 1, is λ-strongly convex and the loss
1-Lipschitz, so replacing one of n records moves its minimiser by at most 2/(nλ) (Chaudhuri, Monteleoni, Sarwate 2011,
Corollary 8). A point where |∇J| ≤ λτ is within τ of it, so the computed point moves by at most s = 2/(nλ) + 2τ.

The weights are then rounded to a grid of step g, which moves the d integers by at most s/g + √d, and an exactly drawn
discrete Gaussian of parameter σ is added to each: (s/g + √d)²/(2σ²)-zCDP (Canonne, Kamath, Steinke 2020, Theorem 14).
Its Rényi curve is that of the Gaussian, and gives (ε, δ). The noise is never a float, so no last bits leak anything.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from darrm_opt.accounting.rdp import gaussian_rdp_epsilon
from darrm_opt.arguments import real_number
from darrm_opt.errors import InvalidInput, SolveFailed
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource, SystemRandomness, discrete_gaussian
from darrm_opt.search import least_fitting

Array = NDArray[np.float64]

CLOSE = 1e-3  # τ as a share of 2/(nλ): the extra noise for an inexact minimum
FINE = 2.0**-10  # grid step as a share of s: the extra noise for rounding
MAX_STEPS = 200  # maximum number of Newton steps; a strongly convex problem needs some ten


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Binary logistic regression whose weights are (ε, δ)-DP for the replacement of one record.

    Args:
        epsilon: ε [nats], > 0.
        delta: δ [probability], in (0, 1).
        regularization: λ > 0; more of it needs less noise.
        data_norm: longer rows (Euclidean norm) are shortened to it; a public number.
        classes: the two classes, public; None: those in the labels, assumed to be public.
        source: source of randomness; None for the operating system.

    Guarantees:
        ``coef_``, ``intercept_`` and all predictions together are (ε, δ)-DP; the number of records is public.

    Source: see the module.

    >>> X, y = np.array([[0.0], [1.0]] * 500), np.array([0, 1] * 500)
    >>> PrivateLogisticRegression(epsilon=5.0, delta=1e-5).fit(X, y).privacy_
    Privacy(epsilon=5.0, delta=1e-05)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        regularization: float = 0.01,
        data_norm: float = 1.0,
        classes: Any = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.regularization = regularization
        self.data_norm = data_norm
        self.classes = classes
        self.source = source

    def fit(self, X: Any, y: Any) -> Self:
        """Train.

        Args:
            X: records, shape (n, features); longer ones are shortened to ``data_norm``.
            y: labels of two classes, shape (n,).

        Raises:
            InvalidInput: a parameter is outside its range, or there are not two classes.
            SolveFailed: the minimum was not found to the precision that the proof needs; nothing is released.
        """
        privacy = Privacy(_positive(self.epsilon, "epsilon"), _positive(self.delta, "delta"))
        strength = _positive(self.regularization, "regularization")
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes = two_classes(y, self.classes)
        signs = np.where(y == classes[1], 1.0, -1.0)
        n, rows = len(X), self._rows(X)
        sensitivity = 2 / (n * strength)
        weights = minimum(rows, signs, strength, CLOSE * sensitivity)
        sensitivity *= (1 + 2 * CLOSE) * (1 + 1e-9)  # the last factor: rounding in these few lines
        # Integers from here on: the last bits of noise in doubles would reveal what it hides.
        step = FINE * sensitivity
        shift = (1 / FINE + math.sqrt(rows.shape[1])) * (1 + 1e-9)
        # Before the noise is drawn, and from public numbers alone.
        sigma = smallest_sigma(privacy, shift)
        source = SystemRandomness() if self.source is None else self.source
        noise = [discrete_gaussian(Fraction(sigma) ** 2, source) for _ in range(rows.shape[1])]
        noisy_numbers = [round(weight / step) + sample for weight, sample in zip(weights.tolist(), noise, strict=True)]
        private_weights = np.array([float(number) for number in noisy_numbers]) * step
        self.classes_ = classes
        self.coef_, self.intercept_ = private_weights[None, :-1], private_weights[-1:]
        self.privacy_ = privacy
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the signed distance of each row to the side of the second class."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        distances: Array = self._rows(X) @ np.append(self.coef_[0], self.intercept_)
        return distances

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row, any number of times at no further cost."""
        check_is_fitted(self)
        predictions: NDArray[Any] = self.classes_.take((self.decision_function(X) > 0).astype(np.intp))
        return predictions

    def _rows(self, X: Array) -> Array:
        """Return rows (x, 1)/√2 with |x| ≤ 1: of norm at most 1, also after rounding."""
        norm = _positive(self.data_norm, "data_norm")
        lengths = np.linalg.norm(X, axis=1)
        scaled = X / np.maximum(lengths, norm)[:, None]
        rows: Array = np.column_stack([scaled, np.ones(len(X))]) * (math.sqrt(0.5) * (1 - 1e-9))
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # on the small sets of the checks noise dominates
        tags.non_deterministic = True
        return tags


def minimum(rows: Array, signs: Array, strength: float, distance: float) -> Array:
    """Return a point within ``distance`` of the minimiser of J, by damped Newton steps."""
    n, d = rows.shape
    weights = np.zeros(d)

    def gradient(point: Array) -> Array:
        margins = signs * (rows @ point)
        value: Array = strength * point - (signs * expit(-margins)) @ rows / n
        return value

    slope = gradient(weights)
    for _ in range(MAX_STEPS):
        size = float(np.linalg.norm(slope))
        # Rounding: sums of n and d terms, each at most 1 + |w| in absolute value, and √d of them in the norm.
        rounding = (n + d + 100) * 2.0**-50 * (2 + float(np.linalg.norm(weights))) * math.sqrt(d)
        # J is λ-strongly convex: a point with |∇J| ≤ λτ is within τ of the minimiser, which the noise covers.
        if size + rounding <= strength * distance:
            return weights
        chances = expit(rows @ weights)
        curvature = (rows * (chances * (1 - chances))[:, None]).T @ rows / n + strength * np.eye(d)
        direction, length = np.linalg.solve(curvature, slope), 1.0
        while length > 1e-6:
            candidate = weights - length * direction
            candidate_slope = gradient(candidate)
            # Damped until the gradient falls: a full step may overshoot far from the minimum.
            if float(np.linalg.norm(candidate_slope)) < (1 - length / 4) * size:
                break
            length /= 2
        weights, slope = candidate, candidate_slope
    raise SolveFailed(
        "the minimum was not found to the precision that privacy needs: raise regularization; nothing is released."
    )


def smallest_sigma(privacy: Privacy, shift: float) -> float:
    """Return a σ for which a shift of that size is (ε, δ)-DP, at most a millionth too large."""

    def fits(sigma: float) -> bool:
        return gaussian_rdp_epsilon(sigma, 1, privacy.delta, shift) <= privacy.epsilon

    low, high = 0.0, shift
    while not fits(high):
        low, high = high, 2 * high
    return least_fitting(fits, low, high, 1e-6)


def two_classes(y: NDArray[Any], public: Any) -> NDArray[Any]:
    """Return the two classes, sorted."""
    classes: NDArray[Any] = np.unique(y if public is None else public)
    if len(classes) > 2:
        # scikit-learn's own checks look for these words.
        raise InvalidInput(
            "y",
            f"{len(classes)} classes",
            "two classes",
            "Only binary classification is supported. The type of the target is multiclass. One release is one bit: "
            "for more classes train one such classifier for each, and divide the budget among them.",
        )
    if len(classes) < 2:
        raise InvalidInput("y", "one class", "two classes", "There is nothing to learn from one class: give classes.")
    if not np.isin(y, classes).all():
        raise InvalidInput("classes", classes.tolist(), "two classes that include every label")
    return classes


def _positive(value: Any, argument: str) -> float:
    return real_number(value, argument, "a finite number above 0", above=0, below=math.inf)
