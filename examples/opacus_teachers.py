"""Convolutional teachers trained by DP-SGD (PyTorch and Opacus) in a private majority: fives against eights of MNIST.

    pip install 'darrm-opt[sklearn]' torch opacus
    python examples/opacus_teachers.py FOLDER      # with the IDX files of MNIST or Fashion-MNIST; default: here

`OpacusTeacher` is a scikit-learn classifier. Its privacy is stated for *replacing* one record. Opacus counts for
adding or removing a record, and a replacement does both: an (ε, δ)-DP teacher is trained to (ε/2, δ/(1 + e^(ε/2))).
Noise comes from PyTorch's generator; real secrets need Opacus's ``secure_mode``. The parts are disjoint, so all
models together are as private as one, and so is their plain majority, however often it is released.
"""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from darrm_opt import Privacy
from darrm_opt.learning import PrivateVotingClassifier
from darrm_papers.darrm.teachers import find_images

VOTER = Privacy(1.0, 1e-5)


def added_or_removed(privacy: Privacy) -> Privacy:
    """Return what training must reach for a record added or removed, so that replacing one is (ε, δ)-DP."""
    return Privacy(privacy.epsilon / 2, privacy.delta / (1 + math.exp(privacy.epsilon / 2)))


class OpacusTeacher(ClassifierMixin, BaseEstimator):
    """A small convolutional network on square pictures, (ε, δ)-DP for the replacement of one record."""

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-5, epochs: int = 5, batch: int = 64) -> None:
        self.epsilon, self.delta, self.epochs, self.batch = epsilon, delta, epochs, batch

    def fit(self, X: Any, y: Any) -> Self:
        """Train on pictures, shape (n, side²), values in [0, 1], and labels 0 or 1."""
        with warnings.catch_warnings():  # that the generator is no secure one is said at the top; the rest is tightness
            warnings.filterwarnings("ignore", module="opacus")
            warnings.filterwarnings("ignore", message="Full backward hook")  # Opacus's own hook, on the first layer
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> Self:
        import torch
        from opacus import PrivacyEngine
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        self.classes_, pictures = np.array([0, 1]), _tensor(X)
        side = pictures.shape[-1] // 2 // 2
        first_layers = (nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        second_layers = (nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        model: Any = nn.Sequential(*first_layers, *second_layers, nn.Flatten(), nn.Linear(16 * side * side, 2))
        target = added_or_removed(Privacy(self.epsilon, self.delta))
        engine = PrivacyEngine(accountant="rdp")  # a bound, where "prv" is an estimate
        model, optimizer, loader = engine.make_private_with_epsilon(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.5 / self.batch),
            data_loader=DataLoader(TensorDataset(pictures, torch.as_tensor(np.array(y)).long()), self.batch),
            epochs=self.epochs,
            max_grad_norm=1.0,
            target_epsilon=target.epsilon,
            target_delta=target.delta,
            loss_reduction="sum",  # batches are drawn by coins and may be empty: a mean would be 0/0
        )
        for batch, targets in (pair for _ in range(self.epochs) for pair in loader):
            optimizer.zero_grad()
            nn.CrossEntropyLoss(reduction="sum")(model(batch), targets).backward()
            optimizer.step()
        if engine.get_epsilon(target.delta) > target.epsilon:
            raise RuntimeError("training cost more than it was to cost: nothing is released.")
        self.model_ = model.eval()
        return self

    def predict(self, X: Any) -> Any:
        """Return the class of each picture; any number of times, at no further cost."""
        return self.classes_.take(self.model_(_tensor(X)).argmax(dim=1).numpy())


def _tensor(X: Any) -> Any:
    import torch

    array = np.asarray(X, dtype=np.float32)
    return torch.from_numpy(array.reshape(len(array), 1, math.isqrt(array.shape[1]), -1))


def fives_and_eights(pixels: Any, labels: Any) -> tuple[Any, Any]:
    """Return pictures of the two classes, pixels in [0, 1], and whether each is an eight."""
    is_chosen = np.isin(labels, (5, 8))
    return pixels[is_chosen] / 255.0, (labels[is_chosen] == 8).astype(np.int64)


if __name__ == "__main__":
    for images in find_images(sys.argv[1] if len(sys.argv) > 1 else "."):
        X_test, y_test = fives_and_eights(images.test, images.test_labels)
        settings = {"epsilon": VOTER.epsilon, "delta": VOTER.delta, "queries": len(y_test), "classes": [0, 1]}
        model = PrivateVotingClassifier(
            OpacusTeacher(VOTER.epsilon, VOTER.delta), n_voters=11, voter_privacy=VOTER, **settings
        )
        model.fit(*fives_and_eights(images.train, images.train_labels))
        print(f"{images.name}: right on {np.mean(model.predict(X_test) == y_test):.3f}, {model.privacy_spent_} in all")
        print(f"{model.plan_.method}: {model.plan_.why}")
