"""Federated learning by signs: 51 clients that all hold the same users' records.

Each round, each client reports for every coordinate the sign of its gradient, and randomises that bit with fresh
coins (randomised response), so each answer is ε-DP by itself. The server releases only majorities. One user's record
is at all 51 clients (affected = K), so a plain majority would cost up to 26 times one answer: this is where γ pays.
One γ is designed for all bits of the training within the total, and compared with the alternatives.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from darrm_opt import Privacy, PrivateVote, plan

CLIENTS, COORDINATES, ROUNDS = 51, 2, 6
EPSILON, TOTAL = 0.5, Privacy(20.0, 1e-3)
STEP = 0.9

NEAR_A_HALF = "shared(10,10)"
"""How votes fall: randomised response keeps every client's chance of a 1 between 0.38 and 0.62. That much is public."""

Array = NDArray[np.float64]


def gradients(weights: Array, clients: list[tuple[Array, Array]]) -> Array:
    """Return each client's gradient of the squared error, shape (clients, coordinates)."""
    return np.array([x.T @ (x @ weights - y) / len(y) for x, y in clients])


def randomised(signs: NDArray[np.bool_], chance: np.random.Generator) -> NDArray[np.uint8]:
    """Return the bits as the clients send them: each kept with probability e^ε/(1 + e^ε).

    A real client draws from the operating system's randomness; this generator is seeded so that the example repeats
    itself.
    """
    is_kept = chance.random(signs.shape) < 1 / (1 + math.exp(-EPSILON))
    return np.where(is_kept, signs, ~signs).astype(np.uint8)


def main() -> None:
    """Plan, then train."""
    bits = COORDINATES * ROUNDS
    mechanisms = ("majority", "optimal_sequence", "subsampling", "randomized_response")
    answer = plan(
        CLIENTS,
        Privacy(EPSILON),
        bits,
        TOTAL,
        prior=NEAR_A_HALF,
        fresh=True,
        least_accuracy=0.55,
        mechanisms=mechanisms,
    )
    print(f"{CLIENTS} clients, each answer {EPSILON}-DP; {bits} bits within ({TOTAL.epsilon:g}, {TOTAL.delta:g})")
    for option in answer.options:
        print(f"  {option.name:<19} {option.outcome if option.accuracy is None else f'{option.accuracy:.4f}'}")
    print(answer.advice)
    if answer.best is None or answer.best.release is None:
        raise SystemExit("nothing to release")
    release = PrivateVote(answer.best.release)

    rng = np.random.default_rng(7)
    truth = np.array([2.0, -1.5])
    clients = []
    for _ in range(CLIENTS):  # each client holds features of its own about the same users
        x = rng.normal(size=(40, COORDINATES))
        clients.append((x, x @ truth + 0.3 * rng.normal(size=40)))
    weights = np.zeros(COORDINATES)
    print(f"distance to the truth before {np.linalg.norm(weights - truth):.3f}")
    for number in range(ROUNDS):
        votes = randomised(gradients(weights, clients) > 0, rng)  # clients x coordinates
        up = release.release_many(votes.T)  # a row of votes, and a bit, for each coordinate
        weights -= STEP / (1 + number / 4) * (2.0 * up - 1.0)
    print(f"distance to the truth after  {np.linalg.norm(weights - truth):.3f}")


if __name__ == "__main__":
    main()
