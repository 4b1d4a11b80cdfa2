"""PATE with ten classes: teachers that are not private label digits for a student, within one budget.

The records of scikit-learn's digits are split among disjoint teachers, so one record changes one vote. GNMax is
charged for what it releases, the label, not the counts. A student then learns from the labels alone.

    python examples/pate_digits.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from darrm_opt import Privacy
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.release import PrivateVote
from darrm_papers.pate import gnmax_sigma

TEACHERS, QUERIES = 120, 150
TOTAL = Privacy(5.0, 1e-5)


def main() -> None:
    """Train teachers, label queries, train the student."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    private, queries, test = slice(0, 1300), slice(1300, 1300 + QUERIES), slice(1300 + QUERIES, None)

    votes = np.empty((QUERIES, TEACHERS), dtype=int)
    for teacher in range(TEACHERS):
        records = np.arange(private.start, private.stop)[teacher::TEACHERS]  # disjoint: decided before data are seen
        model = LogisticRegression(C=10, max_iter=200).fit(X[records], y[records])
        votes[:, teacher] = model.predict(X[queries])

    mechanism = NoisyMaximum.calibrated(TEACHERS, 10, TOTAL, QUERIES)
    published = gnmax_sigma(TOTAL.epsilon, TOTAL.delta, queries=QUERIES).sigma
    print(f"{QUERIES} labels within ({TOTAL.epsilon:g}, {TOTAL.delta:g}): σ = {mechanism.sigma:.2f} votes;")
    print(f"charged as noisy counts by Rényi privacy it would have to be {published:.2f}.")

    labels = PrivateVote(mechanism).release_many(votes)
    student = LogisticRegression(max_iter=500).fit(X[queries], labels)
    right, score = np.mean(labels == y[queries]), student.score(X[test], y[test])
    print(f"{right:.0%} of the labels are right; a student trained on them: {score:.0%}.")


if __name__ == "__main__":
    main()
