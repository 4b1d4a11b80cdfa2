"""The Flower example: its step everywhere; its strategy where Flower is installed."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from support.paths import ROOT

from darrm_opt import Privacy, PrivateVote, Problem, solve


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flower_signs", ROOT / "examples" / "flower_signs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def certain() -> PrivateVote:
    """The plain majority of three: γ = 1 is private for so large a target."""
    solution = solve(Problem(3, Privacy(0.5), Privacy(3.0)))
    assert np.all(solution.gamma > 1.0 - 1e-9)
    return PrivateVote(solution, fresh=True)


WEIGHTS = [np.zeros((2, 2)), np.zeros(1)]
ANSWERS = [
    [np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0.0])],
    [np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.0])],
    [np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([1.0])],
]
MOVED = [np.array([[0.5, -0.5], [0.5, -0.5]]), np.array([-0.5])]


def test_every_weight_moves_with_its_majority(example: ModuleType, certain: PrivateVote) -> None:
    found = example.majority_step(WEIGHTS, ANSWERS, certain, 0.5)
    for after, expected in zip(found, MOVED, strict=True):
        np.testing.assert_array_equal(after, expected)
    with pytest.raises(ValueError, match="2 clients answered; γ was designed for 3"):
        example.majority_step(WEIGHTS, ANSWERS[:2], certain, 0.5)


def test_it_trains_within_its_budget(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    out = capsys.readouterr().out
    assert re.search(r"each of 12 bits is the majority with probability 0\.\d{3}", out)
    assert "12 of 12 releases are spent, within (8, 0.001)" in out


def test_the_strategy_aggregates_as_flower_asks(example: ModuleType, certain: PrivateVote) -> None:
    common = pytest.importorskip("flwr.common", reason="Flower is not installed")
    strategy = example.private_sign_strategy(certain, WEIGHTS, step=0.5)
    results = [(None, SimpleNamespace(parameters=common.ndarrays_to_parameters(answer))) for answer in ANSWERS]
    unchanged, told = strategy.aggregate_fit(1, results[:2], [])
    assert told == {"released": 0}
    assert all(not part.any() for part in common.parameters_to_ndarrays(unchanged))
    moved, told = strategy.aggregate_fit(1, results, [])
    assert told == {"released": 5}
    for after, expected in zip(common.parameters_to_ndarrays(moved), MOVED, strict=True):
        np.testing.assert_array_equal(after, expected)
