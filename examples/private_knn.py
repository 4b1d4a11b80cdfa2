"""Private k nearest neighbours: labels for public digits from private ones, each from a fresh sample of the records.

For every query a coin decides for each of 1,500 private digits whether it is sampled, and the K nearest sampled ones
vote. Adding or removing a digit moves at most one vote, and the digit is in a query only with probability q, so
little noise suffices. Without sampling the same total needs far more.

    python examples/private_knn.py            # needs scikit-learn, no network

Release only the labels: never the sample, the distances or the votes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from darrm_opt import Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.learning import PrivateVotingClassifier
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.release import PrivateVote, ReleaseLog

CLASSES, K = 10, 11
QUERIES, TOTAL = 100, Privacy(3.0, 1e-5)
SAMPLING = Sampling(1500, 225)  # Poisson; neighbours add or remove one record


def main() -> None:
    """Label the queries by plain neighbours, by sampled ones, and by all with the noise that these need."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(images))
    images, labels = images[order], labels[order].astype(int)
    queries, truth = images[1500 : 1500 + QUERIES], labels[1500 : 1500 + QUERIES]
    images, labels = images[:1500], labels[:1500]  # what is private

    neighbours = KNeighborsClassifier(K).fit(images, labels)
    print(f"plain kNN, not private       right {neighbours.score(queries, truth):.3f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        model = PrivateVotingClassifier(
            n_voters=K,
            epsilon=TOTAL.epsilon,
            delta=TOTAL.delta,
            queries=QUERIES,
            sampling=SAMPLING,
            release_log=path,
        )
        right = np.mean(model.fit(images, labels).predict(queries) == truth)
        log = ReleaseLog(path)
        spent = log.cost(log.spent, TOTAL.delta)
    print(f"a fresh sample each          right {right:.3f}   ({spent.epsilon:.2f}, {spent.delta:g})-DP")
    print(f"  by {log.mechanism.description}")

    gnmax = mechanism_class("gnmax").calibrated(K, CLASSES, TOTAL, QUERIES)
    votes = labels[neighbours.kneighbors(queries, return_distance=False)]
    right = np.mean(PrivateVote(gnmax).release_many(votes) == truth)
    epsilon = gnmax.epsilon(QUERIES, TOTAL.delta)
    print(f"every record each            right {right:.3f}   ({epsilon:.2f}, {TOTAL.delta:g})-DP")
    print(f"  by {gnmax.description}")


if __name__ == "__main__":
    main()
