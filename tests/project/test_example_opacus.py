"""The Opacus example: data and arithmetic; training if PyTorch and Opacus are installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support.idx_files import dataset, pictures
from support.paths import ROOT

from darrm_opt import Privacy
from darrm_papers.darrm.teachers import find_images
from darrm_papers.he_wang_tao.training import as_replace_one

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = ROOT / "examples" / "opacus_teachers.py"
    spec = importlib.util.spec_from_file_location("opacus_teachers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_reads_the_same_data_as_the_package(example: ModuleType, tmp_path: Path) -> None:
    dataset(tmp_path / "MNIST" / "raw", packed=True, train=100, test=50)
    (found,) = find_images(tmp_path)
    images, labels = pictures(100, 1)
    chosen = (labels == 5) | (labels == 8)
    X, y = example.fives_and_eights(found.train, found.train_labels)
    np.testing.assert_array_equal(X, images[chosen].reshape(20, -1) / 255.0)
    assert y.tolist() == (labels[chosen] == 8).tolist()
    assert len(example.fives_and_eights(found.test, found.test_labels)[1]) == 10


@pytest.mark.parametrize("wanted", [Privacy(1.0, 1e-5), Privacy(8.0, 1e-3)])
def test_replacing_a_record_costs_the_stated_epsilon(example: ModuleType, wanted: Privacy) -> None:
    replaced = as_replace_one(example.added_or_removed(wanted))
    assert replaced.epsilon == wanted.epsilon
    assert replaced.delta == pytest.approx(wanted.delta, rel=1e-12)


def test_it_is_a_scikit_learn_estimator(example: ModuleType) -> None:
    from sklearn.base import clone

    teacher = clone(example.OpacusTeacher(0.5, 1e-6, epochs=2))
    assert (teacher.epsilon, teacher.delta, teacher.epochs) == (0.5, 1e-6, 2)


def test_teachers_learn(example: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("opacus", reason="Opacus is not installed")
    dataset(tmp_path / "mnist", train=2000, test=200)
    (found,) = find_images(tmp_path)
    X, y = example.fives_and_eights(found.train, found.train_labels)
    X_test, y_test = example.fives_and_eights(found.test, found.test_labels)
    teacher = example.OpacusTeacher(50.0, 1e-3, epochs=10, batch=32).fit(X, y)
    assert np.mean(teacher.predict(X_test) == y_test) > 0.7
