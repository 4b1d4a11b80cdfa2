"""Signs: a server that learns only from private majorities of its clients' signs, as with Flower.

Each round, each client reports for every coordinate whether its weight should grow, and randomises that sign with
fresh coins, so each answer is ε-DP by itself. The server keeps no answer: it releases the majority of each coordinate
through one proved γ, charges it to a budget, and moves every weight by one step. One record may be at every client.

With Flower, the server's part is a strategy, `darrm_opt.release.signs.private_signs`; as a program this file trains
the same way without Flower.
"""

from __future__ import annotations

import tempfile

import numpy as np
from numpy.typing import NDArray

from darrm_opt import Privacy, PrivateVote, plan
from darrm_opt.release import ReleaseLog, SeededRandomnessForTestsOnly, randomised_signs, release_signs

CLIENTS, ROUNDS, EPSILON, TOTAL = 15, 6, 0.8, Privacy(8.0, 1e-3)

REPEATED = SeededRandomnessForTestsOnly(5)
"""So that the example repeats itself; clients and servers leave it out, and use the operating system's."""

Array = NDArray[np.float64]


def main() -> None:
    """Plan, then train a linear model of two weights."""
    truth = np.array([1.5, -1.0])
    bits = truth.size * ROUNDS
    best = plan(CLIENTS, Privacy(EPSILON), bits, TOTAL, fresh=True, mechanisms=("majority", "optimal")).best
    if best is None or best.release is None:
        raise SystemExit("nothing to release")
    print(f"{best.name}: each of {bits} bits is the majority with probability {best.accuracy:.3f}")
    with tempfile.TemporaryDirectory() as folder:  # a real server keeps its release log: it survives restarts
        log = ReleaseLog.create(f"{folder}/releases.log", best.release, budget=TOTAL, fresh=True)
        train(PrivateVote(best.release, log, source=REPEATED), truth)
        print(f"{log.spent} of {log.limit} releases are spent, within ({TOTAL.epsilon:g}, {TOTAL.delta:g})")


def train(release: PrivateVote, truth: Array) -> None:
    """Train, and say how far the weights are from the truth."""
    rng, weights = np.random.default_rng(3), np.zeros(2)
    features = rng.normal(size=(CLIENTS, 40, 2))
    for number in range(ROUNDS):
        gradients = [x.T @ (x @ weights - x @ truth) for x in features]
        answers = [randomised_signs(-gradient, EPSILON, REPEATED) for gradient in gradients]  # at each client
        weights = weights + 0.6 / (1 + number / 3) * release_signs(release, answers)
    print(f"distance to the truth: {np.linalg.norm(truth):.2f} before, {np.linalg.norm(weights - truth):.2f} after")


if __name__ == "__main__":
    main()
