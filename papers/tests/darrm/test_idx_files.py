"""MNIST's files: read as they are published, refused with a reason; teachers learn from them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from support.idx_files import SIDE, dataset, idx, pictures

from darrm_opt.errors import InvalidInput
from darrm_papers.darrm.knowledge_transfer import transfer
from darrm_papers.darrm.printed import K
from darrm_papers.darrm.teachers import FEATURES, find_images, load_teacher_votes, public_features, read_idx

pytest.importorskip("sklearn")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dotted", [False, True])
@pytest.mark.parametrize("place", ["mnist", "MNIST/raw", "FashionMNIST/raw", "fashion-mnist", "."])
def test_files_as_they_are_published(tmp_path: Path, place: str, *, packed: bool, dotted: bool) -> None:
    dataset(tmp_path / "here" / place, packed=packed, dotted=dotted, train=30, test=20)
    (found,) = find_images(tmp_path / "here")
    images, labels = pictures(30, 1)
    assert found.name == ("fashion-mnist" if "ashion" in place else "mnist")
    assert (found.train == images.reshape(30, -1)).all()
    assert (found.train_labels == labels).all()
    assert found.test.shape == (20, SIDE * SIDE)
    assert (found.test_labels == pictures(20, 2)[1]).all()


def test_both_datasets_are_found(tmp_path: Path) -> None:
    dataset(tmp_path / "mnist", train=30, test=20)
    dataset(tmp_path / "fashion", train=30, test=20)
    assert [found.name for found in find_images(tmp_path)] == ["mnist", "fashion-mnist"]


def test_a_folder_named_for_fashion_is_not_mnist(tmp_path: Path) -> None:
    (found,) = find_images(dataset(tmp_path / "fashion-mnist", train=30, test=20))
    assert found.name == "fashion-mnist"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "It begins otherwise"),
        (b"\x00\x00\x08", "It begins otherwise"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01\x00", "It begins otherwise"),  # floats
        (b"\x00\x00\x08\x03\x00\x00\x00\x01", "It begins otherwise"),  # the header is cut short
        (idx(np.zeros((3, 2), dtype=np.uint8))[:-1], "6 values, as it says itself.*holds 5"),
        (idx(np.zeros((3, 2), dtype=np.uint8)) + b"x", "6 values, as it says itself.*holds 7"),
    ],
)
def test_invalid_idx_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=words):
        read_idx(path)


@pytest.mark.parametrize("cut", [0, 5, 30])
def test_a_damaged_archive_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.arange(200, dtype=np.uint8)))[:cut] or b"no archive")
    with pytest.raises(InvalidInput, match="a readable IDX file"):
        read_idx(path)
    with pytest.raises(InvalidInput, match="a readable IDX file"):
        read_idx(tmp_path / "nowhere")


def test_folders_that_lack_something_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="There is none"):
        find_images(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match=r"Such as mnist/train-images-idx3-ubyte\.gz"):
        find_images(tmp_path)
    folder = dataset(tmp_path / "mnist", train=30, test=20)
    labels = folder / "t10k-labels-idx1-ubyte"
    content = labels.read_bytes()
    labels.unlink()
    with pytest.raises(InvalidInput, match=r"t10k-labels-idx…-ubyte.*It is missing"):
        find_images(tmp_path)
    labels.write_bytes(idx(np.zeros(19, dtype=np.uint8)))
    with pytest.raises(InvalidInput, match=r"Shapes \(20, 6, 6\) and \(19,\)"):
        find_images(tmp_path)
    labels.write_bytes(content)
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(np.zeros((20, 2, 2), dtype=np.uint8)))
    with pytest.raises(InvalidInput, match="pictures of one size in both parts"):
        find_images(tmp_path)


def test_teachers_learn_from_files(tmp_path: Path) -> None:
    dataset(tmp_path / "mnist", packed=True)
    of_datasets = load_teacher_votes(str(tmp_path), 2, 20, 0)
    assert [teacher_votes.dataset for teacher_votes in of_datasets] == ["digits", "mnist"]
    teacher_votes = of_datasets[1]
    assert teacher_votes.part == 240 // K
    assert teacher_votes.truth.shape == (2, 20)
    votes = teacher_votes.votes(None)
    assert votes.shape == (2, 20, K)
    assert ((votes.sum(axis=2) > K / 2) == teacher_votes.truth).mean() > 0.9  # the classes light pixels of their own


def test_a_table_has_the_rows_of_the_files(tmp_path: Path) -> None:
    dataset(tmp_path / "fashion")
    found = transfer(1, data=str(tmp_path), quick=True)
    accuracies = found.content()["tables"][0]["rows"]
    papers = {(row["data"], row["noise"], row["teachers"]): row["paper"] for row in accuracies}
    assert papers["digits", "γ_opt", "private"] == "0.79 (0.09)"  # MNIST's
    assert papers["fashion-mnist", "γ_opt", "private"] == "0.96 (0.03)"
    sound = {(row["data"], row["teachers"]): row["sound total ε"] for row in accuracies if row["noise"] == "γ_opt"}
    assert (sound["digits", "private"], sound["fashion-mnist", "private"]) == (0.0892, 0.0852)


def test_too_few_pictures_are_refused(tmp_path: Path) -> None:
    dataset(tmp_path / "mnist", train=40, test=400)
    with pytest.raises(InvalidInput, match="at least 11 to train on and 20 to ask about"):
        load_teacher_votes(str(tmp_path), 1, 20, 0)


def test_features_see_other_classes_alone_and_have_length_one() -> None:
    images, labels = pictures(300, 3)
    pixels = images.reshape(300, -1) / 255.0
    features = public_features(pixels, labels)(pixels)
    assert features.shape == (300, FEATURES)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, rtol=1e-12)
    private = (labels == 5) | (labels == 8)
    moved = pixels.copy()
    moved[private] = 1 - moved[private]
    assert (public_features(moved, labels)(pixels) == features).all()  # the private pictures decide nothing
    with pytest.raises(InvalidInput, match="some, which serve as public data"):
        public_features(pixels[private], labels[private])
