"""Signs: vectors of ±1 that clients randomise, and that a server releases as the majority of each coordinate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.problem import real_number
from darrm_opt.randomness import ExactCoins, RandomSource, SystemRandomness
from darrm_opt.release.vote import PrivateVote
from darrm_opt.rounding import down

Signs = NDArray[np.int8]


def randomised_signs(signs: Any, epsilon: float, source: RandomSource | None = None) -> Signs:
    """Return signs as a client sends them: each kept with chance e^ε/(1 + e^ε), else turned round.

    Args:
        signs: of any shape, each a number: above 0 or not.
        epsilon: ε > 0 of one sign [nats]. Of N signs of one client that a record moves together it is N times that.
        source: where chance comes from; None for the operating system, which privacy requires.

    Returns:
        −1 or 1 in the same shape, each from a coin of its own with exactly the chance of a double at most
        e^ε/(1 + e^ε): so each sign is ε-DP by itself, and fresh.

    Raises:
        InvalidInput: ε is outside its range.

    >>> sorted({*randomised_signs([0.3, -2.0, 0.0], 1.0).tolist()} | {-1, 1})
    [-1, 1]
    """
    epsilon = real_number(epsilon, "epsilon", "a finite number of nats above 0", above=0, below=math.inf)
    kept = down(1 / (1 + math.exp(-epsilon)), 8)
    up = np.asarray(signs) > 0
    is_kept, _ = ExactCoins([kept]).toss(np.zeros(up.size, dtype=np.intp), source or SystemRandomness())
    return np.where(up == is_kept.reshape(up.shape).astype(bool), 1, -1).astype(np.int8)


def release_signs(vote: PrivateVote, signs: Any) -> Signs:
    """Return the private majority of each coordinate of the clients' signs.

    Args:
        vote: of two classes; it is charged one release a coordinate.
        signs: −1 or 1, shape (K, N): a row for each client.

    Returns:
        −1 or 1, shape (N,).

    Raises:
        InvalidInput: another shape, or something else than −1 and 1.
        BudgetExceeded: the budget does not allow N more releases; none is made.
        DarrmError: what `PrivateVote.release_many` raises beside, for the same reasons.

    >>> from darrm_opt import Privacy, Problem, solve
    >>> vote = PrivateVote(solve(Problem(3, Privacy(0.5), Privacy(3.0))), fresh=True)
    >>> release_signs(vote, [[1, -1], [1, -1], [1, 1]]).tolist()
    [1, -1]
    """
    table, K = np.asarray(signs), vote.mechanism.K
    accepted = f"-1 or 1 in the shape ({K}, N), a row for each client"
    if vote.mechanism.classes != 2:
        raise InvalidInput("vote", f"{vote.mechanism.classes} classes", "a vote of two classes")
    if table.ndim != 2 or table.shape[0] != K:
        raise InvalidInput("signs", table.shape, accepted)
    if not np.all((table == 1) | (table == -1)):
        raise InvalidInput("signs", "values that are not shown here", accepted)
    # Coordinates that are neighbours in memory stay so: each client's votes are a row.
    released = vote.release_many((table > 0).view(np.uint8).T)
    return np.where(released > 0, 1, -1).astype(np.int8)
