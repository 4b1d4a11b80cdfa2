"""Does any neighbour show more of a tested batch than its total, or more of its labels than their unpublished loss?

Random batches of two queries to up to five voters among up to three classes, with a check or without, at every order
that is tried and small ones. The oracle shares no code with the product: it lists all data sets, all neighbours of
each, the law of every transcript from the definition of the noise, and the law of the test at the distance that is
found. Held against it are the total (ε, δ) of test and labels, at the largest target and the least threshold that a
proposal accepts; the Rényi loss by the votes, against every neighbour; and that neighbours' losses, with voters moved,
follow each other, on which the test rests.

    PYTHONPATH=tests python -m campaigns.earned_enumerated --batches 5000
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from random import Random
from typing import Any

import numpy as np

from campaigns.driver import Campaign, Row, Tally, listed
from campaigns.enumerated import Law, checked_law, gaussian_masses, noisy_law
from darrm_opt.accounting.propose_test_release import TRIED_ORDERS, Proposal, VoteBatch
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy

QUERIES = 2

ORDERS = (1.1, 1.5, 2.0, 2.5, 3.0, *TRIED_ORDERS)

ROUNDING = 1e-9  # share of a loss by which the oracle's own sums may miss it
DELTA_ERROR = 1e-13  # the same of δ [probability]
Votes = tuple[tuple[int, ...], ...]  # what each voter answers to each query: a data set, in any order of the voters


@dataclass(frozen=True)
class Case:
    """A proposal that leaves nothing in hand, and the law of one answer."""

    proposal: Proposal
    law: Law

    def __str__(self) -> str:
        return str(self.proposal)


def random_case(rng: Random) -> Case:
    """Return a random case, whose data sets can be listed."""
    K, classes = rng.choice([(2, 2), (3, 2), (4, 2), (5, 2), (2, 3), (3, 3), (4, 3), (5, 3)])
    sigma, order = rng.uniform(1.0, 2.5), rng.choice(ORDERS)
    check: dict[str, Any] = {}
    law = noisy_law(gaussian_masses(sigma))
    if rng.random() < 0.5:
        check = {"threshold": rng.uniform(-1, K + 1), "check_sigma": rng.uniform(1.0, 3.0)}
        law = checked_law(law, check["threshold"], gaussian_masses(check["check_sigma"]))
    batch = NoisyMaximum(K, classes, sigma, **check).batch(QUERIES)
    while True:
        total, test_sigma = Privacy(rng.uniform(0.5, 6.0), 10 ** rng.uniform(-3, -0.3)), rng.uniform(1.5, 4.0)
        if (proposal := extreme_proposal(batch, total, order, test_sigma)) is not None:
            return Case(proposal, law)


def extreme_proposal(batch: VoteBatch, total: Privacy, order: float, test_sigma: float) -> Proposal | None:
    """Return the proposal of the largest target, to 1e-6, and the least threshold that is accepted; None: there is none."""

    def accepted(threshold: int, target: float) -> Proposal | None:
        try:
            return Proposal(batch, total, order, test_sigma, threshold, target)
        except InvalidInput:
            return None

    low, high = 0.0, total.epsilon
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if accepted(10**6, middle) is None else (middle, high)
    return next((found for T in range(1, 100) if low and (found := accepted(T, low)) is not None), None)


def pass_chance(proposal: Proposal, distance: int) -> float:
    """Pr[k + X ≥ T], by sums over the noise."""
    masses = gaussian_masses(proposal.test_sigma)
    passing = math.fsum(mass for x, mass in masses.items() if distance + x >= proposal.test_threshold)
    return passing / math.fsum(masses.values())


def counted(votes: Votes, classes: int) -> tuple[tuple[int, ...], ...]:
    """The votes for each class in each query."""
    return tuple(tuple(query.count(c) for c in range(classes)) for query in zip(*votes, strict=True))


def neighbours(votes: Votes, classes: int) -> set[Votes]:
    """All data sets with one voter's answers changed."""
    answers = list(product(range(classes), repeat=QUERIES))
    return {
        tuple(sorted((*votes[:voter], *votes[voter + 1 :], answer)))
        for voter in range(len(votes))
        for answer in answers
    } - {votes}


def divergence(p: Array, q: Array, order: float) -> float:
    kept = p > 0
    logs = order * np.log(p[kept]) - (order - 1) * np.log(q[kept])
    return float(np.logaddexp.reduce(logs)) / (order - 1)


def examine(case: Case) -> list[str]:
    """Return what is wrong with a proposal."""
    proposal, batch = case.proposal, case.proposal.batch
    total, order, K = proposal.total, proposal.order, batch.K
    labels, tested, losses, found = {}, {}, {}, []
    all_votes = list(combinations_with_replacement(product(range(batch.mechanism.classes), repeat=QUERIES), K))
    known: dict[tuple[tuple[int, ...], ...], tuple[list[float], float]] = {}
    for votes in all_votes:
        counts = counted(votes, batch.mechanism.classes)
        if counts not in known:
            rows = np.array(counts)
            loss = batch.loss(rows, order)
            passes = pass_chance(proposal, proposal.unpublished_distance(rows))
            known[counts] = [loss.renyi(moved) for moved in range(K + 1)], passes
        losses[votes], passes = known[counts]
        labels[votes] = np.outer(*(case.law(each) for each in counts)).ravel()
        tested[votes] = np.append(passes * labels[votes], 1 - passes)
    for votes in all_votes:
        around = neighbours(votes, batch.mechanism.classes)
        delta = max(float(np.maximum(tested[votes] - math.exp(total.epsilon) * tested[n], 0).sum()) for n in around)
        if not delta <= total.delta + DELTA_ERROR:
            found.append(f"total: {delta} of {votes}")
        exact = max(divergence(labels[votes], labels[other], order) for other in around)
        if not exact <= losses[votes][0] * (1 + ROUNDING):
            found.append(f"loss: {losses[votes][0]}, exact {exact}, of {votes}")
        most = [loss * (1 + ROUNDING) for loss in losses[votes][1:]]
        found += [
            f"moved: {losses[other]}, then {losses[votes]}, of {votes}"
            for other in around
            if any(a > b for a, b in zip(losses[other], most, strict=False))
        ]
    return found


def row(seed: int, number: int) -> Row:
    case = random_case(Random(f"{seed} {number}"))
    batch = case.proposal.batch
    size = f"K={batch.K} C={batch.mechanism.classes}{' checked' if batch.mechanism.check_sigma else ''}"
    return Row([f"{each}: {case}" for each in examine(case)], [f"size: {size}"], {"order": case.proposal.order})


def lines(tally: Tally) -> Iterator[str]:
    orders = {*tally.values("order")}
    yield (
        f"{len(tally.rows)} batches at {len(orders)} orders from {min(orders)} to {max(orders)}: "
        f"{len(tally.faults)} wrong. By size: {listed(tally.kinds('size'))}"
    )


CAMPAIGN = Campaign("earned_enumerated", __doc__, "batches", 5000, row, lines, verb="earned-enumerated")

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
