"""Law of votes by which options are judged: vote counts of any number of classes with their masses.

Where vote counts are too many to list, they are drawn from the prior, always the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import VoteMechanism
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.priors import Prior
from darrm_opt.tables.priors import PastVotes, PluralityObjective, sample_counts
from darrm_opt.tables.problem import Histograms, PluralityProblem, has_table
from darrm_opt.tables.rule import PluralityRule

SAMPLES, MIN_SAMPLES, SAMPLED_NUMBERS = 2000, 100, 100_000
"""Most and fewest vote counts drawn from a prior that cannot be listed, and numbers of votes in all of them."""


@dataclass(frozen=True)
class TwoClassVotes:
    """A prior of votes between two classes that are not told apart, as a `PluralityPrior`."""

    prior: Prior  # how many of K voters choose the one

    def masses(self, cells: Histograms) -> Array:
        """Return the probability of each partition, shape (partitions,)."""
        folded = self.prior.folded(cells.K)
        ahead = {cells.K // 2 + 1 + place: mass for place, mass in enumerate(folded)}
        tie = max(0.0, 1.0 - float(folded.sum()))
        return np.array([ahead.get(partition[0], tie) for partition in cells.partitions])

    def __str__(self) -> str:
        return str(self.prior)


class VoteLaw:
    """Vote counts with their masses: all that can occur, and those that are judged (ties may be left out)."""

    def __init__(self, objective: PluralityObjective, problem: PluralityProblem) -> None:
        # Counts are decreasing, shape (N, C); ``samples`` says how many were drawn from the prior, where they are too
        # many to list: None for the whole law, or past votes.
        self.objective, self.samples = objective, None
        K, classes = problem.K, problem.classes
        prior = objective.prior
        if isinstance(prior, PastVotes):
            prior.check_shape(K, classes)
            self.counts = np.array([partition for partition, _ in prior.counts], dtype=np.intp)
            masses = np.array([times for _, times in prior.counts], dtype=np.float64)
        elif has_table(K, classes):
            cells = PluralityProblem(K, classes, problem.target).histograms
            self.counts, masses = np.array(cells.partitions, dtype=np.intp), prior.masses(cells)
        else:
            self.samples = min(SAMPLES, max(MIN_SAMPLES, SAMPLED_NUMBERS // classes))
            self.counts, masses = sample_counts(prior, K, classes, self.samples), np.ones(self.samples)
        self.masses = masses / masses.sum()  # probability of each, shape (N,)
        strict = self.counts[:, 0] > self.counts[:, 1]
        judged = np.where(strict, self.masses, 0.0) if objective.ties == "excluded" else self.masses
        if not judged.sum() > 0:
            raise InvalidInput("prior", str(prior), "a prior under which one class can lead alone")
        self.judged = judged / judged.sum()  # the same where ties are left out, if they are, shape (N,)

    def utility(self, shares: tuple[float, float]) -> float:
        """Return right − price·wrong."""
        return shares[0] - self.objective.price * (shares[1] - shares[0])

    def leader_shares(self, mechanism: VoteMechanism) -> tuple[float, float]:
        """Return the shares of right answers and of answers of a mechanism that always answers."""
        return float(self.judged @ mechanism.leader_chances(self.counts)), 1.0

    def rule_shares(self, rule: PluralityRule) -> tuple[float, float]:
        """Return the shares of right answers and of answers of a table."""
        cells = rule.cells
        places = [cells.numbers[tuple(partition)] for partition in self.counts.tolist()]
        leaders = cells.starts[places]
        right = float(self.judged @ (rule.nearest[leaders] * cells.multiplicities[leaders]))
        if not rule.abstention:
            return right, 1.0
        silent = np.append(cells.starts[1:], cells.values.size)[places] - 1
        return right, 1.0 - float(self.judged @ rule.nearest[silent])

    def checked_shares(self, leads: Array, passes: Array, queries: int, cap: int) -> tuple[float, float]:
        """Return the shares of right answers and of answers where each label is checked, and ``cap`` are allowed."""
        chance = float(self.masses @ passes)
        released = _released_labels(queries, min(chance, 1.0), cap) / (queries * chance) if chance > 0 else 0.0
        return released * float(self.judged @ (leads * passes)), released * float(self.judged @ passes)


def _released_labels(queries: int, chance: float, cap: int) -> float:
    """Return E[min(N, cap)], N ~ Binomial(queries, chance)."""
    with needed_by("A vote among several classes"):
        from scipy.special import bdtr, bdtrc

    if cap >= queries:
        return queries * chance
    # Σ_{j ≤ cap} j·Pr[N = j] = Q·p·Pr[Binomial(Q − 1, p) ≤ cap − 1]
    return float(queries * chance * bdtr(cap - 1, queries - 1, chance) + cap * bdtrc(cap, queries, chance))
