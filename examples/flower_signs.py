"""Flower: a strategy that releases only private majorities of the clients' signs.

Each round, each client answers for every coordinate whether its weight should grow, and randomises that bit with fresh
coins (`randomised`), so each answer is ε-DP by itself. The server keeps no answer: it releases the majority of each
coordinate through one proved γ, charges it to a budget, and moves every weight by one step. One record may be at every
client.

    strategy = private_sign_strategy(release, weights, step=0.1)      # needs flwr
    flwr.server.ServerAppComponents(strategy=strategy, config=...)

`majority_step` is the whole of it and needs NumPy alone; run as a program this file trains with it, without Flower.
"""

from __future__ import annotations

import math
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt import Privacy, PrivateVote, plan
from darrm_opt.release import ReleaseLog

CLIENTS, ROUNDS, EPSILON, TOTAL = 15, 6, 0.8, Privacy(8.0, 1e-3)

Array = NDArray[np.float64]


def randomised(signs: NDArray[np.bool_], chance: np.random.Generator) -> NDArray[np.uint8]:
    """Return the bits as a client sends them: each kept with probability e^ε/(1 + e^ε).

    A real client draws from the operating system's randomness; this generator is seeded so that the example repeats
    itself.
    """
    is_kept = chance.random(signs.shape) < 1 / (1 + math.exp(-EPSILON))
    return np.where(is_kept, signs, ~signs).astype(np.uint8)


def majority_step(weights: list[Array], answers: list[list[Array]], release: PrivateVote, step: float) -> list[Array]:
    """Return the weights, each moved by one step in the direction of its private majority.

    ``answers`` has, for each of exactly K clients, 0 or 1 for every weight.
    """
    if len(answers) != release.mechanism.K:
        raise ValueError(f"{len(answers)} clients answered; γ was designed for {release.mechanism.K}")
    votes = np.stack([np.concatenate([part.ravel() for part in answer]) for answer in answers], axis=1)
    up = iter(np.asarray(release.release_many(votes), dtype=np.float64))  # a row of votes, and a bit, for each weight
    return [w + step * (2.0 * np.array([next(up) for _ in range(w.size)]).reshape(w.shape) - 1.0) for w in weights]


def private_sign_strategy(release: PrivateVote, weights: list[Array], *, step: float, **options: Any) -> Any:
    """Return a Flower strategy; a round in which not exactly K clients answer releases nothing and changes nothing."""
    from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server.strategy import FedAvg

    class PrivateSigns(FedAvg):  # type: ignore[misc,unused-ignore]  # flwr may be missing
        weights: list[Array]

        def aggregate_fit(self, _round: int, results: list[Any], failures: list[Any]) -> tuple[Any, dict[str, Any]]:
            if failures or len(results) != release.mechanism.K:
                return ndarrays_to_parameters(self.weights), {"released": 0}
            answers = [parameters_to_ndarrays(result.parameters) for _, result in results]
            self.weights = majority_step(self.weights, answers, release, step)
            return ndarrays_to_parameters(self.weights), {"released": sum(w.size for w in self.weights)}

    K = release.mechanism.K
    settings = {"fraction_fit": 1.0, "min_fit_clients": K, "min_available_clients": K, **options}
    strategy = PrivateSigns(initial_parameters=ndarrays_to_parameters(weights), **settings)
    strategy.weights = weights
    return strategy


def main() -> None:
    """Plan, then train a linear model of two weights."""
    truth = np.array([1.5, -1.0])
    bits = truth.size * ROUNDS
    best = plan(CLIENTS, Privacy(EPSILON), bits, TOTAL, fresh=True, mechanisms=("majority", "optimal")).best
    if best is None or best.release is None:
        raise SystemExit("nothing to release")
    print(f"{best.mechanism}: each of {bits} bits is the majority with probability {best.accuracy:.3f}")
    with tempfile.TemporaryDirectory() as folder:  # a real server keeps its release log: it survives restarts
        log = ReleaseLog.create(f"{folder}/releases.log", best.release, budget=TOTAL, fresh=True)
        train(PrivateVote(best.release, log), truth)
        print(f"{log.spent} of {log.limit} releases are spent, within ({TOTAL.epsilon:g}, {TOTAL.delta:g})")


def train(release: PrivateVote, truth: Array) -> None:
    """Train, and say how far the weights are from the truth."""
    rng, weights = np.random.default_rng(3), [np.zeros(2)]
    features = rng.normal(size=(CLIENTS, 40, 2))
    for number in range(ROUNDS):
        gradients = [x.T @ (x @ weights[0] - x @ truth) for x in features]
        answers = [[randomised(gradient < 0, rng).astype(np.float64)] for gradient in gradients]
        weights = majority_step(weights, answers, release, 0.6 / (1 + number / 3))
    print(f"distance to the truth: {np.linalg.norm(truth):.2f} before, {np.linalg.norm(weights[0] - truth):.2f} after")


if __name__ == "__main__":
    main()
