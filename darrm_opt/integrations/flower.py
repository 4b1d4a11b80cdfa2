"""Flower: a strategy that learns from nothing of the clients but private majorities of their signs.

Each round, each client answers −1 or 1 for every weight, randomised by coins of its own
(`darrm_opt.release.randomised_signs`); the strategy releases the majority of each weight by a proved γ, charges it, and
moves the weight by one step. What else clients send, such as their number of examples and their loss, is not private,
and is not looked at; clients evaluate nothing.

The extra `flower` installs Flower; `all` leaves it out, because it pins versions of what the service runs on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.optional_packages import require
from darrm_opt.problem import real_number
from darrm_opt.release.signs import release_signs

if TYPE_CHECKING:
    from darrm_opt.release import PrivateVote

_FEATURE = "A strategy for Flower"


def private_signs(votes: PrivateVote | Mapping[int, PrivateVote], step: float, **options: Any) -> Any:
    """Return a strategy for the message API of Flower that releases majorities of signs.

    Args:
        votes: what releases the majority of K clients; or one for each K that may answer, each designed for the same
            (ε, δ) of one release and all with one `PrivacyBudget`: then whoever answers in a round is counted by the
            γ made for so many. How many answer must not depend on their data.
        step: by which a weight moves in a round, > 0.
        **options: of Flower's `FedAvg`, such as ``fraction_train`` and ``arrayrecord_key``. By default all available
            clients are asked, at least the least K, and none evaluates.

    Returns:
        The strategy. A client's reply has one `ArrayRecord` under ``arrayrecord_key`` with −1 or 1 for each weight.
        A round in which another number of clients answer, or one of them something else, releases nothing and moves
        nothing; the metric ``released`` says how many weights were moved. Where the budget is not enough,
        `BudgetExceeded`, and nothing of the round leaves.
    """
    by_clients = dict(votes) if isinstance(votes, Mapping) else {votes.mechanism.K: votes}
    step = real_number(step, "step", "a number above 0", above=0)
    for K, vote in by_clients.items():
        if vote.mechanism.K != K or vote.mechanism.classes != 2:
            raise InvalidInput("votes", K, "a vote of two classes for each number of clients")
    app, strategies = require("flwr.app", _FEATURE), require("flwr.serverapp.strategy", _FEATURE)

    class PrivateSigns(strategies.FedAvg):  # type: ignore[misc,name-defined,unused-ignore]  # flwr may be missing
        arrays: Any = None

        # The weights of a round are needed again when its answers are there; Flower does not pass them on.
        def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
            self.arrays = arrays
            return super().configure_train(server_round, arrays, config, grid)

        def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:  # noqa: ARG002
            answers = [reply.content[self.arrayrecord_key] for reply in replies if not reply.has_error()]
            moved = _moved(app, self.arrays, answers, by_clients, step)
            count = 0 if moved is None else sum(array.numpy().size for array in moved.values())
            return (self.arrays if moved is None else moved), app.MetricRecord({"released": count})

    # Fewer could release nothing; who answers beyond that is counted by the γ for so many.
    least = min(by_clients)
    settings = {"fraction_evaluate": 0.0, "min_train_nodes": least, "min_available_nodes": least, **options}
    return PrivateSigns(**settings)


def _moved(app: Any, arrays: Any, answers: list[Any], votes: Mapping[int, PrivateVote], step: float) -> Any:
    """Return the arrays, each weight moved by its majority; None where these answers release nothing."""
    # A γ is proved for its K: another number of voters has another constraint set.
    if len(answers) not in votes:
        return None
    weights = {name: array.numpy() for name, array in arrays.items()}
    signs = [{name: array.numpy() for name, array in answer.items()} for answer in answers]
    shapes = {name: weight.shape for name, weight in weights.items()}
    if any({name: sign.shape for name, sign in each.items()} != shapes for each in signs):
        return None
    table = np.stack([np.concatenate([each[name].ravel() for name in weights]) for each in signs])
    # Before anything is charged: a zero or a float is no vote, and a client may send whatever it wants.
    if not np.all((table == 1) | (table == -1)):
        return None
    steps = np.split(
        # One call for all weights, so that the round is charged as a whole or not at all.
        step * release_signs(votes[len(answers)], table),
        np.cumsum([w.size for w in weights.values()])[:-1],
    )
    return app.ArrayRecord(
        {
            name: app.Array((weight + by.reshape(weight.shape)).astype(weight.dtype))
            for (name, weight), by in zip(weights.items(), steps, strict=True)
        }
    )
