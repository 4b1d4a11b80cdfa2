"""Signs: vectors of ±1 that clients randomise and a server releases as the majority of each coordinate.

`private_signs` is a strategy for Flower that learns from clients through these majorities only. In each round, each
client answers −1 or 1 for every weight, randomised by its own coins; the strategy releases the majority of each weight
by a proved γ, charges it, and moves the weight by one step. Other data that clients send, such as their number of
examples and their loss, are not private and are ignored; clients evaluate nothing. The extra `flower` installs Flower;
`all` excludes it, because it pins versions of the service's dependencies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.arguments import real_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import check_unmasked
from darrm_opt.optional_packages import require
from darrm_opt.randomness import ExactCoins, RandomSource, SystemRandomness
from darrm_opt.release.vote import PrivateVote
from darrm_opt.rounding import down

Signs = NDArray[np.int8]

_FEATURE = "A strategy for Flower"


def randomised_signs(signs: Any, epsilon: float, source: RandomSource | None = None) -> Signs:
    """Return signs as a client sends them: each kept with probability e^ε/(1 + e^ε), else flipped.

    Args:
        signs: of any shape; each number counts as above 0 or not.
        epsilon: ε > 0 of one sign [nats]; N times that for N signs of one client that a record changes together.
        source: source of randomness; None for the operating system, which privacy requires.

    Returns:
        −1 or 1 in the same shape, each from its own coin with exactly the probability of a double at most
        e^ε/(1 + e^ε): so each sign is ε-DP by itself, and fresh.

    Raises:
        InvalidInput: ε is outside its range.

    >>> sorted({*randomised_signs([0.3, -2.0, 0.0], 1.0).tolist()} | {-1, 1})
    [-1, 1]
    """
    epsilon = real_number(epsilon, "epsilon", "a finite number of nats above 0", above=0, below=math.inf)
    kept = down(1 / (1 + math.exp(-epsilon)), 8)
    check_unmasked(signs, "signs")
    up = np.asarray(signs) > 0
    is_kept, _ = ExactCoins([kept]).toss(np.zeros(up.size, dtype=np.intp), source or SystemRandomness())
    return np.where(up == is_kept.reshape(up.shape).astype(bool), 1, -1).astype(np.int8)


def release_signs(vote: PrivateVote, signs: Any) -> Signs:
    """Return the private majority of each coordinate of the clients' signs.

    Args:
        vote: of two classes; it is charged one release per coordinate.
        signs: −1 or 1, shape (K, N): a row per client.

    Returns:
        −1 or 1, shape (N,).

    Raises:
        InvalidInput: another shape, or values other than −1 and 1.
        BudgetExceeded: the budget does not allow N more releases; none is made.
        DarrmError: other errors of `PrivateVote.release_many`, for the same reasons.

    >>> from darrm_opt import Privacy, Problem, solve
    >>> vote = PrivateVote(solve(Problem(3, Privacy(0.5), Privacy(3.0))), fresh=True)
    >>> release_signs(vote, [[1, -1], [1, -1], [1, 1]]).tolist()
    [1, -1]
    """
    check_unmasked(signs, "signs")
    table, K = np.asarray(signs), vote.mechanism.K
    accepted = f"-1 or 1 in the shape ({K}, N), a row per client"
    if vote.mechanism.classes != 2:
        raise InvalidInput("vote", f"{vote.mechanism.classes} classes", "a vote of two classes")
    if table.ndim != 2 or table.shape[0] != K:
        raise InvalidInput("signs", table.shape, accepted)
    if not np.all((table == 1) | (table == -1)):
        raise InvalidInput("signs", "values that are not shown here", accepted)
    # Keeps coordinates contiguous: each client's votes are a row.
    released = vote.release_many((table > 0).view(np.uint8).T)
    return np.where(released > 0, 1, -1).astype(np.int8)


def private_signs(votes: PrivateVote | Mapping[int, PrivateVote], step: float, **options: Any) -> Any:
    """Return a strategy for the message API of Flower that releases majorities of signs.

    ``votes`` releases the majority of K clients; or give one for each K that may answer, each designed for the same
    (ε, δ) of one release and all with one `PrivacyBudget`: then the clients that answer in a round are counted by the γ
    for their number, which must not depend on their data. ``step`` > 0 is the move of a weight in a round. ``options``
    are those of Flower's `FedAvg`, such as ``fraction_train`` and ``arrayrecord_key``; by default all available clients
    are asked, at least the least K, and none evaluates.

    A client's reply has one `ArrayRecord` under ``arrayrecord_key`` with −1 or 1 for each weight. A round with another
    number of clients, or an invalid answer, releases and moves nothing; the metric ``released`` is the number of moved
    weights. If the budget is too small, `BudgetExceeded` is raised and nothing of the round leaves.
    """
    by_clients = dict(votes) if isinstance(votes, Mapping) else {votes.mechanism.K: votes}
    step = real_number(step, "step", "a number above 0", above=0)
    for K, vote in by_clients.items():
        if vote.mechanism.K != K or vote.mechanism.classes != 2:
            raise InvalidInput("votes", K, "a vote of two classes for each number of clients")
    app, strategies = require("flwr.app", _FEATURE), require("flwr.serverapp.strategy", _FEATURE)

    class PrivateSigns(strategies.FedAvg):  # type: ignore[misc,name-defined,unused-ignore]  # flwr may be missing
        arrays: Any = None

        # The weights of a round are needed with its answers, but Flower does not pass them on.
        def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
            self.arrays = arrays
            return super().configure_train(server_round, arrays, config, grid)

        def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:  # noqa: ARG002
            answers = [reply.content[self.arrayrecord_key] for reply in replies if not reply.has_error()]
            moved = _moved(app, self.arrays, answers, by_clients, step)
            count = 0 if moved is None else sum(array.numpy().size for array in moved.values())
            return (self.arrays if moved is None else moved), app.MetricRecord({"released": count})

    # Fewer clients could release nothing; more are counted by the γ for their number.
    least = min(by_clients)
    settings = {"fraction_evaluate": 0.0, "min_train_nodes": least, "min_available_nodes": least, **options}
    return PrivateSigns(**settings)


def _moved(app: Any, arrays: Any, answers: list[Any], votes: Mapping[int, PrivateVote], step: float) -> Any:
    """Return the arrays with each weight moved by its majority; None if these answers release nothing."""
    # A γ is proved for its K: another number of voters has another constraint set.
    if len(answers) not in votes:
        return None
    weights = {name: array.numpy() for name, array in arrays.items()}
    signs = [{name: array.numpy() for name, array in answer.items()} for answer in answers]
    shapes = {name: weight.shape for name, weight in weights.items()}
    if any({name: sign.shape for name, sign in each.items()} != shapes for each in signs):
        return None
    table = np.stack([np.concatenate([each[name].ravel() for name in weights]) for each in signs])
    # Before anything is charged: clients may send any value.
    if not np.all((table == 1) | (table == -1)):
        return None
    steps = np.split(
        # One call for all weights, so that the round is charged completely or not at all.
        step * release_signs(votes[len(answers)], table),
        np.cumsum([w.size for w in weights.values()])[:-1],
    )
    return app.ArrayRecord(
        {
            name: app.Array((weight + by.reshape(weight.shape)).astype(weight.dtype))
            for (name, weight), by in zip(weights.items(), steps, strict=True)
        }
    )
