"""Private k nearest neighbours: labels for public digits from private ones, each from a fresh sample of the records.

For every query each of 1,500 private digits is drawn by a coin of its own, and the K nearest of those that were drawn
vote. A digit more or less moves at most one vote, and is in a query with chance q only: so noise of less than a vote or
two hides it over all queries together. Without sampling, as if every digit were in every query, the same total needs
far more noise.

    python examples/private_knn.py            # needs scikit-learn, no network

Only the labels may leave: never the sample, the distances or the votes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from darrm_opt import Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.release import EnsembleSampler, PrivateVote, ReleaseLog, Sample

CLASSES, K = 10, 15
QUERIES, TOTAL = 100, Privacy(3.0, 1e-5)
SAMPLING = Sampling(1500, 225)  # Poisson; neighbours add or remove one record


def nearest_votes(query: Any, images: Any, labels: Any, drawn: Any) -> list[int]:
    """Return the labels of the K nearest of the drawn records; 0 for each of those that are missing."""
    distances = np.linalg.norm(images[drawn] - query, axis=1)
    votes = labels[drawn[np.argsort(distances, kind="stable")[:K]]].tolist()
    return votes + [0] * (K - len(votes))


def main() -> None:
    """Label the queries by plain neighbours, by sampled ones with noise, and by all with the noise that these need."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(images))
    images, labels = images[order], labels[order].astype(int)
    queries, truth = images[1500 : 1500 + QUERIES], labels[1500 : 1500 + QUERIES]
    images, labels = images[:1500], labels[:1500]  # what is private
    everything = np.arange(1500)

    def accuracy(answers: list[int | None]) -> float:
        return float(np.mean([answer == right for answer, right in zip(answers, truth, strict=True)]))

    plain = [int(np.bincount(nearest_votes(query, images, labels, everything)).argmax()) for query in queries]
    print(f"plain kNN, not private               right {accuracy(plain):.3f}")

    gnmax = mechanism_class("gnmax")
    sampled = gnmax.calibrated(K, CLASSES, TOTAL, QUERIES, sampling=SAMPLING)
    sampler = EnsembleSampler(SAMPLING, K)
    with tempfile.TemporaryDirectory() as folder:
        log = ReleaseLog.create(Path(folder) / "log", sampled, budget=TOTAL, queries=QUERIES, sampling=SAMPLING)
        vote = PrivateVote(sampled, log)

        def ask(sample: Sample, query: Any) -> list[int]:
            return nearest_votes(query, images, labels, sample.records)

        answers = [
            vote.release_sampled(sampler, lambda sample, query=query: ask(sample, query), f"query {number}")
            for number, query in enumerate(queries)
        ]
        spent = log.cost(log.spent, TOTAL.delta)
    print(
        f"a fresh sample each, σ = {sampled.value:6.2f}       right {accuracy(answers):.3f}   "
        f"({spent.epsilon:.2f}, {spent.delta:g})-DP"
    )

    unsampled = gnmax.calibrated(K, CLASSES, TOTAL, QUERIES)
    without = PrivateVote(unsampled).release_many([nearest_votes(q, images, labels, everything) for q in queries])
    epsilon = unsampled.epsilon(QUERIES, TOTAL.delta)
    print(
        f"every record each,   σ = {unsampled.value:6.2f}       right {accuracy(without.tolist()):.3f}   "
        f"({epsilon:.2f}, {TOTAL.delta:g})-DP"
    )


if __name__ == "__main__":
    main()
