"""Sampled voters: for every query K voters of records that are drawn anew, secretly, and of no others.

Without an estimator they are the K nearest neighbours among all records that were drawn, as private kNN has it: a
record more, fewer or another moves one vote, since at least K − 1 of the K nearest stay, and ties go by the order of
the records, which no other record changes. With an estimator each voter is a copy of it, trained on its own share. Who
lacks a record, or a share, votes for the first class, which depends on no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from darrm_opt.accounting.sampling import EACH_VOTER, Sampling
from darrm_opt.bagging.teachers import ConstantVote, random_states
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.release import EnsembleSampler, PrivateVote, ReleaseCounter, ReleaseLog, Sample
from darrm_opt.tables.votes import Labels


def check_sampling(sampling: Any, estimator: Any, alone: dict[str, tuple[Any, Any]]) -> None:
    """Refuse what no account of sampled voters covers; ``alone``: arguments and the only value of each beside it."""
    if not isinstance(sampling, Sampling):
        raise InvalidInput("sampling", sampling, "a Sampling, or None")
    for name, (value, only) in alone.items():
        if value != only:
            raise InvalidInput(name, value, f"{only!r} with sampling", "Its voters are made anew for every query.")
    if sampling.labels > 1:
        raise InvalidInput("sampling", sampling, "a sample for each prediction: labels = 1")
    if estimator is None and sampling.scheme in EACH_VOTER:
        advice = "The nearest neighbours share one sample; give an estimator, which each voter trains on its own."
        raise InvalidInput("sampling", sampling.scheme, "poisson or without-replacement without an estimator", advice)


class SampledVoters:
    """K voters of one row each time, made of the records of a sample; the records are kept, and never published."""

    def __init__(
        self, X: NDArray[Any], y: NDArray[np.int64], K: int, sampling: Sampling, estimator: Any, seed: int
    ) -> None:
        self._made_of = X, y, K, sampling, estimator, seed
        self._sampler = EnsembleSampler(sampling, K, records=len(X))

    def __reduce__(self) -> Any:
        return SampledVoters, self._made_of  # a copy draws for itself

    def release(self, mechanism: VoteMechanism, budget: ReleaseLog | ReleaseCounter, rows: NDArray[Any]) -> Labels:
        """Return a private class for each row, numbers of classes, of a sample each, which is charged before."""
        if isinstance(budget, ReleaseLog):
            samples = self.samples(len(rows))
            budget.charge_samples(samples)
            return PrivateVote(mechanism, budget).release_many(self._all_votes(samples, rows), samples=samples)
        # A counter knows no rounds: what was drawn is always charged, and so in as few rounds as the total is for.
        return budget.charge_and_release(
            len(rows),
            lambda _: PrivateVote(mechanism).release_many(self._all_votes(self.samples(len(rows)), rows)),
        )

    def _all_votes(self, samples: Sequence[Sample], rows: NDArray[Any]) -> NDArray[np.int64]:
        return np.array([self.votes(sample, row) for sample, row in zip(samples, rows, strict=True)])

    def samples(self, count: int) -> list[Sample]:
        """Return a fresh sample for each of so many rows."""
        return [self._sampler.draw() for _ in range(count)]

    def votes(self, sample: Sample, row: NDArray[Any]) -> NDArray[np.int64]:
        """Return the K votes on a row, numbers of classes."""
        X, y, K, _, estimator, _ = self._made_of
        votes = np.zeros(K, dtype=np.int64)
        if estimator is None:
            drawn = sample.records
            nearest = drawn[np.argsort(np.linalg.norm(X[drawn] - row, axis=1), kind="stable")[:K]]
            votes[: nearest.size] = y[nearest]
            return votes
        for number, share in enumerate(sample.shares):
            if share.size:
                votes[number] = self._trained(share, number).predict(row[None, :])[0]
        return votes

    def _trained(self, share: NDArray[np.int64], number: int) -> Any:
        X, y, _, _, estimator, seed = self._made_of
        labels = y[share]
        if (labels == labels[0]).all():
            return ConstantVote(labels[0])  # many classifiers refuse a single class
        voter = clone(estimator)
        return voter.set_params(**random_states(voter, (seed, number, 0))).fit(X[share], labels)
