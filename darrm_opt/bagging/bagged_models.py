"""Bagged models: a trainer and a predictor by majority, with the certificate of what the draw alone guarantees.

Draw subsamples, train one model on each, predict by their majority; no noise is added. Everything that is predicted is
computed from the draw and from coins that look at no record, so the models, and any number of predictions, are private
as a whole, by the probability that a record is not drawn. That holds because the estimator sees its own subsample and
nothing else: scaling, feature selection or early stopping belong inside it.

Source: Liu, Jia, Gong, "On the intrinsic differential privacy of bagging", Definition 2 and Theorems 2 to 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.aggregators.guarantee import Guarantee
from darrm_opt.aggregators.teachers import Estimator, checked_classes, class_numbers, train_one
from darrm_opt.bagging.bags import draw_subsamples
from darrm_opt.bagging.guarantee import Draws, Form, Sampling, bagging_guarantee
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import whole_number
from darrm_opt.randomness.source import RandomSource


@dataclass(frozen=True)
class BaggingCertificate:
    """The guarantee of bagged models, and the draw that it is computed from: enough to compute it again.

    Attributes:
        draws: how many records, drawn how.
        form: which of the two forms of the guarantee.
        guarantee: of all models together, and so of any number of predictions.
    """

    draws: Draws
    form: Form
    guarantee: Guarantee

    @classmethod
    def of(cls, draws: Draws, form: Form = "zero") -> BaggingCertificate:
        """Return the certificate of a draw.

        Raises:
            InvalidInput: as `bagging_guarantee`.
        """
        return cls(draws, form, _guarantee(draws, form))

    def verify(self) -> Guarantee:
        """Return the guarantee, computed again from the draw.

        Raises:
            InvalidInput: the draw does not give the guarantee that is written down.
        """
        guarantee = _guarantee(self.draws, self.form)
        if self.guarantee.epsilon < guarantee.epsilon or self.guarantee.delta < guarantee.delta:
            raise InvalidInput(
                "guarantee",
                self.guarantee,
                f"at least ({guarantee.epsilon!r}, {guarantee.delta!r}), which is what the draw gives",
            )
        return guarantee


@dataclass(frozen=True, eq=False)
class BaggedModels:
    """Models on subsamples, and their majority vote.

    Attributes:
        models: one for each subsample. Which records a model saw is not kept, and must stay secret.
        classes: all classes, in the order in which ties are decided.
        certificate: the privacy of the models together, and so of all predictions together, however many.
    """

    models: tuple[Any, ...]
    classes: tuple[Any, ...]
    certificate: BaggingCertificate

    @property
    def guarantee(self) -> Guarantee:
        """(ε, δ) of the models together, for adding, removing or replacing a record."""
        return self.certificate.guarantee

    def votes(self, X: Any) -> NDArray[np.int64]:
        """Return how many models vote for each class, shape (n_points, n_classes); as private as the models.

        Raises:
            InvalidInput: a model predicts what is no class.
        """
        predictions = [class_numbers(np.asarray(model.predict(X)), self.classes, "prediction") for model in self.models]
        return np.stack([np.bincount(labels, minlength=len(self.classes)) for labels in np.transpose(predictions)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with most votes for each row of X; of several, the first in ``classes``.

        Raises:
            InvalidInput: a model predicts what is no class.
        """
        winners: NDArray[Any] = np.asarray(self.classes)[self.votes(X).argmax(axis=1)]
        return winners


def train_bagged(
    estimator: Estimator | Callable[[], Estimator],
    X: Any,
    y: Any,
    subsample_size: int,
    n_models: int,
    *,
    replacement: bool = True,
    sampling: Sampling = "independent",
    form: Form = "zero",
    classes: Sequence[Any] = (0, 1),
    seed: int = 0,
    source: RandomSource | None = None,
) -> BaggedModels:
    """Return models trained on subsamples that are drawn by the operating system's randomness.

    Args:
        estimator: an untrained estimator, copied for each model; or a function that makes one.
        X: records, first axis n ≥ 2.
        y: labels, each one of ``classes``, shape (n,).
        subsample_size: records drawn for one model, k ≥ 1 [records].
        n_models: models, N ≥ 1.
        replacement: whether a record can be drawn twice within a subsample.
        sampling: without replacement, ``independent`` or ``disjoint`` subsamples.
        form: ``zero`` for (0, δ), ``paper`` for the published (ε, δ).
        classes: all classes, a public list: taken from the data it would tell which classes occur.
        seed: public; with the model's place it sets every ``random_state`` of the estimator that is None.
        source: source of the draw; None for the operating system.

    Guarantees:
        ``certificate.guarantee`` holds for the models together, if the estimator uses its subsample alone.

    Raises:
        InvalidInput: shapes that disagree, a label that is no class, or a draw that `bagging_guarantee` refuses.

    Source: Liu, Jia, Gong, Definition 2; the guarantee is that of `bagging_guarantee`.
    """
    classes = checked_classes(classes)
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim < 1 or y.shape != X.shape[:1]:
        raise InvalidInput("y", y.shape, f"one label for each of the {X.shape[0] if X.ndim else 0} records")
    class_numbers(y, classes, "y")
    seed = whole_number(seed, "seed", "a whole number, at least 0", least=0)
    draws = Draws(len(y), subsample_size, n_models, replacement, sampling)
    certificate = BaggingCertificate.of(draws, form)
    subsamples = draw_subsamples(
        len(y), subsample_size, n_models, replacement=replacement, sampling=sampling, source=source
    )
    models = [train_one(estimator, X, y, members, classes, (seed, 0, i)) for i, members in enumerate(subsamples)]
    return BaggedModels(tuple(models), classes, certificate)


def _guarantee(draws: Draws, form: Form) -> Guarantee:
    return bagging_guarantee(
        draws.n,
        draws.subsample_size,
        draws.n_models,
        replacement=draws.replacement,
        sampling=draws.sampling,
        form=form,
    )
