"""Convolutional teachers trained by DP-SGD (PyTorch and Opacus), in a private majority: fives against eights of MNIST.

    pip install 'darrm-opt[sklearn]' torch opacus
    python examples/opacus_teachers.py FOLDER      # with the IDX files of MNIST or Fashion-MNIST in it

`OpacusTeacher` is a scikit-learn classifier, so it goes wherever one does, here into `PrivateMajorityClassifier`. Its
privacy is stated for the *replacement* of one record, as everywhere in this package. Opacus counts for a record that is added or
removed, which is weaker: replacing is one removal and one addition. So a teacher that is to be (ε, δ)-DP is trained to
(ε/2, δ/(1 + e^(ε/2))), and group privacy for two steps does the rest.

The teachers' parts are disjoint. So all models together are as private as one of them, and the plain majority of all costs
nothing more, however often it is asked: the classifier finds that out by itself (`plan_.why`).

Opacus draws its noise from PyTorch's generator, which is not cryptographic: for real secrets use ``secure_mode=True``.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from darrm_opt import Privacy
from darrm_opt.learning import PrivateMajorityClassifier
from darrm_opt.paper.idx import find_images

VOTER = Privacy(1.0, 1e-5)
"""Privacy of one teacher, and so of all of them together."""


def added_or_removed(wanted: Privacy) -> Privacy:
    """Return what training must reach for a record added or removed, so that replacing one is (ε, δ)-DP."""
    return Privacy(wanted.epsilon / 2, wanted.delta / (1 + math.exp(wanted.epsilon / 2)))


class OpacusTeacher(ClassifierMixin, BaseEstimator):
    """A small convolutional network trained by DP-SGD.

    Args:
        epsilon: ε of the trained weights, for the replacement of one record [nats].
        delta: δ likewise [probability].
        epochs: passes over the records.
        batch: expected size of a batch.
        clip: norm to which each record's gradient is clipped.
        rate: learning rate.
        classes: the two classes, public.
        secure_mode: noise from a cryptographic generator (needs torchcsprng).
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        epochs: int = 5,
        batch: int = 64,
        clip: float = 1.0,
        rate: float = 0.5,
        classes: Any = (0, 1),
        secure_mode: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.epochs = epochs
        self.batch = batch
        self.clip = clip
        self.rate = rate
        self.classes = classes
        self.secure_mode = secure_mode

    def fit(self, X: Any, y: Any) -> Self:
        """Train on pictures, shape (n, side²), values in [0, 1]."""
        import torch
        from opacus import PrivacyEngine

        self.classes_ = np.asarray(self.classes)
        pictures = self._tensor(X)
        labels = torch.as_tensor(np.asarray(y) == self.classes_[1]).long()
        model = self._network(pictures.shape[-1])
        optimizer = torch.optim.SGD(model.parameters(), lr=self.rate / self.batch)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(pictures, labels), batch_size=min(self.batch, len(labels))
        )
        target = added_or_removed(Privacy(self.epsilon, self.delta))
        engine = PrivacyEngine(accountant="rdp", secure_mode=self.secure_mode)  # a bound, where "prv" is an estimate
        model, optimizer, loader = engine.make_private_with_epsilon(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            epochs=self.epochs,
            target_epsilon=target.epsilon,
            target_delta=target.delta,
            max_grad_norm=self.clip,
            loss_reduction="sum",  # batches are drawn by coins and may be empty: a mean would then be 0/0
        )
        loss = torch.nn.CrossEntropyLoss(reduction="sum")
        model.train()
        for _ in range(self.epochs):
            for some, right in loader:
                optimizer.zero_grad()
                loss(model(some), right).backward()
                optimizer.step()
        spent = engine.get_epsilon(target.delta)
        if spent > target.epsilon:
            raise RuntimeError(f"training cost ε = {spent:.6g}, more than {target.epsilon:.6g}: nothing is released.")
        self.model_ = model.eval()
        return self

    def predict(self, X: Any) -> Any:
        """Return the class of each picture; any number of times, at no further cost."""
        import torch

        check_is_fitted(self)
        with torch.no_grad():
            return self.classes_.take(self.model_(self._tensor(X)).argmax(dim=1).numpy())

    @staticmethod
    def _tensor(X: Any) -> Any:
        import torch

        array = np.asarray(X, dtype=np.float32)
        side = math.isqrt(array.shape[1])
        return torch.from_numpy(array.reshape(len(array), 1, side, side))

    @staticmethod
    def _network(side: int) -> Any:
        from torch import nn

        kept = (side // 2) // 2
        return nn.Sequential(
            *(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(16 * kept * kept, 2)),
        )


def fives_and_eights(folder: str) -> list[tuple[str, Any, Any, Any, Any]]:
    """Return (name, X, y, X_test, y_test) of each dataset in the folder: pixels in [0, 1], eights are 1."""
    found = []
    for images in find_images(folder):
        parts: list[Any] = []
        for pixels, labels in ((images.train, images.train_labels), (images.test, images.test_labels)):
            chosen = np.isin(labels, (5, 8))
            parts += [pixels[chosen] / 255.0, (labels[chosen] == 8).astype(np.int64)]
        found.append((images.name, *parts))
    return found


def main(folder: str) -> None:
    """Train K = 11 teachers on disjoint parts and say how often their majority is right."""
    for name, X, y, X_test, y_test in fives_and_eights(folder):
        model = PrivateMajorityClassifier(
            OpacusTeacher(VOTER.epsilon, VOTER.delta),
            n_voters=11,
            voter_privacy=VOTER,
            epsilon=VOTER.epsilon,
            delta=VOTER.delta,
            queries=len(y_test),
            classes=[0, 1],
        ).fit(X, y)
        right = np.mean(model.predict(X_test) == y_test)
        total = model.privacy_spent_
        print(
            f"{name}: right on {right:.3f} of {len(y_test)} pictures, ({total.epsilon:g}, {total.delta:g})-DP in all."
        )
        print(f"  {model.plan_.method}: {model.plan_.why}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/opacus_teachers.py FOLDER")
    main(sys.argv[1])
