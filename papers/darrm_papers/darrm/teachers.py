"""The teachers of the knowledge-transfer tables, and how they vote: fives against eights, K teachers on disjoint parts.

The pictures of the *other* classes are taken as public. Their mean and their main directions make features of every
picture, which are scaled to length 1, the bound that private training needs. A teacher is a logistic regression: not
private, or by `PrivateLogisticRegression`, whose weights are (ε, Δ)-DP.

MNIST and Fashion-MNIST are read from IDX files as they are published, packed by gzip or not: two zero bytes, a type
(0x08: bytes), the number of dimensions, each dimension as a big-endian 32-bit number, then the values.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.optional_packages import require
from darrm_opt.problem import Privacy
from darrm_opt.randomness import SeededRandomnessForTestsOnly
from darrm_papers.darrm.printed import CLASSES, K

Bytes = NDArray[np.uint8]

FILES = {"train": ("train-images", "train-labels"), "test": ("t10k-images", "t10k-labels")}
"""First part of the names of a dataset's four files."""

DATASETS = {"mnist": ("mnist", "MNIST"), "fashion-mnist": ("fashion-mnist", "fashion_mnist", "FashionMNIST", "fashion")}
"""Names of the folder that holds a dataset."""


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled pictures in two parts."""

    name: str
    train: Bytes  # shape (n, pixels), uint8
    train_labels: Bytes  # shape (n,), uint8
    test: Bytes  # shape (n_test, pixels), uint8
    test_labels: Bytes  # shape (n_test,), uint8


def read_idx(path: str | Path) -> Bytes:
    """Return the bytes of an IDX file in their shape."""
    path = Path(path)
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as err:
        raise InvalidInput("data", str(path), "a readable IDX file", f"{err}.") from err
    if len(content) < 4 or content[:3] != b"\x00\x00\x08" or len(content) < 4 + 4 * content[3]:
        raise InvalidInput("data", str(path), "an IDX file of bytes", "It begins otherwise.")
    shape = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3])
    if values.size != math.prod(shape):
        raise InvalidInput(
            "data", str(path), f"{math.prod(shape)} values, as it says itself", f"It holds {values.size}."
        )
    return values.reshape(shape)


def find_images(folder: str | Path) -> list[Images]:
    """Return the datasets in a folder: in folders of their names (and ``raw`` below, as torchvision has it), or itself.

    Files that lie in ``folder`` itself are taken for MNIST, or Fashion-MNIST if the folder's name says so.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidInput("data", str(folder), "a folder", "There is none.")
    datasets = []
    for name, folders in DATASETS.items():
        places = [folder / folder_name / below for folder_name in folders for below in ("", "raw")]
        # Both datasets have files of the same names: only the folder tells which they are.
        if ("fashion" in folder.name.lower()) == (name == "fashion-mnist"):
            places.append(folder)
        place = next((place for place in places if _file(place, FILES["train"][0])), None)
        if place is not None:
            datasets.append(_images(name, place))
    if not datasets:
        accepted = "a folder with the IDX files of MNIST or Fashion-MNIST"
        advice = "Such as mnist/train-images-idx3-ubyte.gz; there are none."
        raise InvalidInput("data", str(folder), accepted, advice)
    return datasets


def _images(name: str, folder: Path) -> Images:
    parts: list[Bytes] = []
    for images_name, labels_name in FILES.values():
        images, labels = (read_idx(_required_file(folder, name_start)) for name_start in (images_name, labels_name))
        if images.ndim != 3 or labels.shape != images.shape[:1] or not images.size:
            advice = f"Shapes {images.shape} and {labels.shape}."
            raise InvalidInput("data", str(folder), "pictures of shape (n, rows, columns) and n labels", advice)
        parts += [images.reshape(len(images), -1), labels]
    if parts[0].shape[1] != parts[2].shape[1]:
        raise InvalidInput("data", str(folder), "pictures of one size in both parts")
    return Images(name, *parts)


def _required_file(folder: Path, begin: str) -> Path:
    path = _file(folder, begin)
    if path is None:
        raise InvalidInput("data", str(folder), f"a file {begin}-idx…-ubyte, or with .gz behind", "It is missing.")
    return path


def _file(folder: Path, begin: str) -> Path | None:
    """Return the file of that name; both ways of writing it are in use: -idx3-ubyte and .idx3-ubyte."""
    return next(iter(sorted(folder.glob(f"{begin}[-.]idx?-ubyte*"))), None) if folder.is_dir() else None


Votes = NDArray[np.uint8]

FEATURES = 20  # main directions of the public pictures
HELD_OUT = 100  # digits held out of each draw, as many as the largest Q: scikit-learn has 356 fives and eights in all

REGULARIZATION = 1.0
"""λ of the private teachers: a compromise found on these very data, which are public; elsewhere choose it otherwise."""


_WHAT = "training teachers"


@dataclass(frozen=True, eq=False)
class Pictures:
    """Fives and eights as features of length 1."""

    dataset: str
    X: Array  # records to train on, shape (n, features)
    y: Votes  # whether they are eights, shape (n,)
    pool: Array | None = None  # pictures to ask about
    truth: Votes | None = None  # whether they are eights


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw: records in the order in which the teachers share them out, and the queries."""

    X: Array
    y: Votes
    queries: Array
    truth: Votes


@dataclass(frozen=True, eq=False)
class TeacherVotes:
    """All draws of one dataset."""

    dataset: str
    draws: tuple[Draw, ...]  # each with its own teachers and queries
    seed: int  # decides the draws and, this being a test on public data, the noise of the private training
    _votes: dict[Privacy | None, Votes] = field(default_factory=dict)  # made when they are asked for

    @property
    def truth(self) -> Votes:
        """What is right, shape (draws, queries)."""
        return np.stack([draw.truth for draw in self.draws])

    @property
    def part(self) -> int:
        """Records of the smallest part."""
        return len(self.draws[0].y) // K

    def votes(self, voter: Privacy | None) -> Votes:
        """Return the votes of teachers, shape (draws, queries, K)."""
        if voter not in self._votes:
            self._votes[voter] = np.stack([self._votes_of_draw(place, voter) for place in range(len(self.draws))])
        return self._votes[voter]

    def _votes_of_draw(self, place: int, voter: Privacy | None) -> Votes:
        draw, votes = self.draws[place], []
        for i in range(K):
            X, y = draw.X[i::K], draw.y[i::K]
            if voter is None and (y == y[0]).all():
                votes.append(np.full(len(draw.queries), y[0], dtype=np.uint8))
                continue
            teacher = _teacher(voter, (self.seed, place, i)).fit(X, y)
            votes.append(np.asarray(teacher.predict(draw.queries), dtype=np.uint8))
        return np.stack(votes, axis=1)


@lru_cache(maxsize=4)
def load_teacher_votes(folder: str | None, draws: int, queries: int, seed: int) -> tuple[TeacherVotes, ...]:
    """Return the votes on digits and, if a folder is given, on the pictures that it holds."""
    datasets = [digits()]
    if folder is not None:
        for images in find_images(folder):
            labels, test_labels = images.train_labels, images.test_labels
            features = public_features(images.train / 255.0, labels)
            in_training, in_test = (np.isin(numbers, CLASSES) for numbers in (labels, test_labels))
            pictures = Pictures(
                images.name,
                features(images.train[in_training] / 255.0),
                (labels[in_training] == CLASSES[1]).astype(np.uint8),
                features(images.test[in_test] / 255.0),
                (test_labels[in_test] == CLASSES[1]).astype(np.uint8),
            )
            datasets.append(pictures)
    return tuple(TeacherVotes(pictures.dataset, _draws(pictures, draws, queries, seed), seed) for pictures in datasets)


def digits() -> Pictures:
    """Return scikit-learn's fives and eights: 356 pictures of 8 × 8 pixels."""
    pixels, labels = require("sklearn.datasets", _WHAT).load_digits(return_X_y=True)
    rows = np.isin(labels, CLASSES)
    features = public_features(pixels / 16.0, labels)
    return Pictures("digits", features(pixels[rows] / 16.0), (labels[rows] == CLASSES[1]).astype(np.uint8))


def public_features(pixels: Array, labels: NDArray[Any]) -> Any:
    """Return the function from pixels to features that the pictures of all other classes decide."""
    public = pixels[~np.isin(labels, CLASSES)]
    if len(public) < 2:
        raise InvalidInput("data", f"{len(public)} pictures of other classes", "some, which serve as public data")
    centre = public.mean(axis=0)
    directions = np.linalg.eigh(np.cov(public, rowvar=False))[1][:, ::-1][:, :FEATURES]
    # an eigenvector has two signs, and which one comes out is the library's choice: make it ours, for the seed's sake.
    largest = np.abs(directions).argmax(axis=0)
    directions *= np.sign(directions[largest, np.arange(directions.shape[1])])

    def features(of: Array) -> Array:
        projected = (of - centre) @ directions
        lengths = np.linalg.norm(projected, axis=1, keepdims=True)
        return np.asarray(projected / np.where(lengths > 0, lengths, 1.0))

    return features


def _draws(pictures: Pictures, draws: int, queries: int, seed: int) -> tuple[Draw, ...]:
    all_draws = []
    for place in range(draws):
        generator = np.random.default_rng((seed, place))
        order = generator.permutation(len(pictures.y))
        if pictures.pool is None or pictures.truth is None:
            pool_order, order = order[:HELD_OUT], order[HELD_OUT:]
            pool, truth = pictures.X[pool_order], pictures.y[pool_order]
        else:
            pool_order = generator.permutation(len(pictures.truth))
            pool, truth = pictures.pool[pool_order], pictures.truth[pool_order]
        if len(order) < K or len(truth) < queries:
            found = f"{len(order)} and {len(truth)} pictures of the two classes"
            raise InvalidInput("data", found, f"at least {K} to train on and {queries} to ask about")
        all_draws.append(Draw(pictures.X[order], pictures.y[order], pool[:queries], truth[:queries]))
    return tuple(all_draws)


def _teacher(voter: Privacy | None, place: tuple[int, int, int]) -> Any:
    if voter is None:
        return require("sklearn.linear_model", _WHAT).LogisticRegression(C=10.0)
    require("sklearn.base", _WHAT)  # says what to install
    from darrm_opt.learning import PrivateLogisticRegression

    source = SeededRandomnessForTestsOnly(int(np.random.SeedSequence(place).generate_state(1)[0]))
    return PrivateLogisticRegression(
        voter.epsilon, voter.delta, regularization=REGULARIZATION, classes=[0, 1], source=source
    )
