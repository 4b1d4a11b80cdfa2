"""The strategy for Flower: with the records of Flower if installed, and its error otherwise."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.refusals import refused

from darrm_opt import Privacy, PrivateVote, Problem, solve
from darrm_opt.accounting import PrivacyBudget
from darrm_opt.errors import BackendUnavailable
from darrm_opt.release.signs import private_signs

HAS_FLOWER = importlib.util.find_spec("flwr") is not None
needs_flower = pytest.mark.skipif(not HAS_FLOWER, reason="Flower (flwr) is not installed")

CERTAIN = {K: solve(Problem(K, Privacy(0.5), Privacy(3.0))) for K in (2, 3)}
"""The plain majority: γ = 1 is private for this large target."""

ANSWERS = [([[1, -1], [1, 1]], [-1]), ([[1, 1], [-1, -1]], [-1]), ([[-1, -1], [1, -1]], [1])]
MOVED = [[[0.5, -0.5], [0.5, -0.5]], [-0.5]]


def test_without_flower_the_error_names_the_extra() -> None:
    with refused("step"):
        private_signs(PrivateVote(CERTAIN[3]), step=0.0)
    with refused("votes"):
        private_signs({4: PrivateVote(CERTAIN[3])}, step=0.5)
    if not HAS_FLOWER:
        with pytest.raises(BackendUnavailable, match=r"pip install 'darrm-opt\[flower\]'"):
            private_signs(PrivateVote(CERTAIN[3]), step=0.5)


class Reply:
    """A message of Flower, which cannot be created without a run."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def has_error(self) -> bool:
        return self.content is None


def replies(answers: Sequence[Any]) -> list[Any]:
    """Return the messages of clients, with metrics that are not private."""
    app = pytest.importorskip("flwr.app")
    sent = []
    for answer in answers:
        arrays = {str(place): app.Array(np.array(part, dtype=np.int8)) for place, part in enumerate(answer)}
        content = app.RecordDict(
            {"arrays": app.ArrayRecord(arrays), "metrics": app.MetricRecord({"num-examples": 7, "loss": 0.3})}
        )
        sent.append(Reply(content))
    return sent


@needs_flower
def test_every_weight_moves_by_the_sign_of_its_majority() -> None:
    app = pytest.importorskip("flwr.app")
    budget = PrivacyBudget(Privacy(60.0))
    votes = {K: PrivateVote(solution, budget, fresh=True) for K, solution in CERTAIN.items()}
    strategy = private_signs(votes, step=0.5)
    arrays = app.ArrayRecord({"0": app.Array(np.zeros((2, 2))), "1": app.Array(np.zeros(1, np.float32))})
    strategy.arrays = arrays
    moved, told = strategy.aggregate_train(1, replies(ANSWERS))
    assert dict(told) == {"released": 5}
    assert [array.numpy().tolist() for array in moved.values()] == MOVED
    assert [array.numpy().dtype for array in moved.values()] == [np.float64, np.float32]
    assert strategy.aggregate_train(1, replies(ANSWERS[:2]))[1]["released"] == 5  # by γ for two voters
    spent = budget.spent.epsilon
    for wrong in (ANSWERS[:1], [*ANSWERS[:2], ([[1, 1], [1, 0]], [1])], [*ANSWERS[:2], ([[1, 1]], [1])]):
        kept, told = strategy.aggregate_train(1, replies(wrong))
        assert (kept is arrays, dict(told)) == (True, {"released": 0})
    assert strategy.aggregate_train(1, [Reply(None), *replies(ANSWERS)])[1]["released"] == 5
    assert budget.spent.epsilon > spent
