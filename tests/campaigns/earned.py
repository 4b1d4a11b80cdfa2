"""Savings at the scale of PATE: labels by their data-dependent loss, and the ε that a test may state for them.

For votes of 250 teachers on ten classes at four levels of agreement, and for votes of teachers that learned
scikit-learn's digits, the campaign computes

- ε for any votes, and by the votes: that of the counts (the algorithm of PATE's authors) and that of the labels. Both
  are computed from the votes: made-up votes and public digits may be shown, votes of private records may not. Checked
  rows are of Confident-GNMax: a class leaves only if the largest noisy count reaches a threshold;
- how often `propose` passes with a stated total: a share of the ε for any votes. The test is chosen before the votes
  are drawn, and serves all levels. The chance of passing is exact for each set of votes, and its mean is shown.

    PYTHONPATH=tests python -m campaigns.earned --write docs/scale.md
"""

from __future__ import annotations

import math
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm

from campaigns.driver import origin, publish, read_options, table
from darrm_opt import Privacy
from darrm_opt.accounting.labels.data_dependent import CountRows
from darrm_opt.accounting.propose_test_release import TRIED_ORDERS, VoteBatch, propose
from darrm_opt.accounting.published_loss import unpublished_epsilon
from darrm_opt.accounting.rdp import rdp_epsilon
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_papers.pate import sensitive_check_rdp, sensitive_rdp

LEVELS = (0.75, 0.85, 0.92, 0.96)  # share of the teachers with the leader of a query, on average

STATED = {286: 0.8, 1000: 0.5, 3098: 0.5}
"""Labels, and the total that is stated for them, as a share of ε for any votes."""

ORDERS = sorted({*TRIED_ORDERS, *map(float, range(4, 32, 2)), 40.0, 60.0, 80.0})  # orders of the authors' bound

CLASSES, DELTA = 10, 1e-5
TEACHERS, SIGMA = 250, 40.0
DIGIT_TEACHERS, DIGIT_SIGMA = 120, 20.0
CHECKED_QUERIES, THRESHOLD, CHECK_SIGMA = 640, 200.0, 150.0
CHECKED_SHARE = 0.8


MIN_PASSES = 0.5  # chance of passing below which a test does not pay

FEW_RECORDS = (
    (
        "On the digits the test does not pay: the teachers learned from a dozen records each and agree too little. "
        "Such labels are released without a test, at the ε of any votes."
    ),
    "",
)
"""Said where the test fails on the digits."""

HEAD = (
    *("votes", "labels", "any votes", "counts", "counts, converted as labels", "labels by the votes"),
    *("labels / counts", "stated ε (share of any votes)", "passes", "seconds"),
)


@dataclass(frozen=True)
class Row:
    votes: str  # whose
    batch: VoteBatch  # how many labels, and at which noise
    any_votes: float  # ε for any votes [nats]
    counts: float  # ε of the counts by the votes, as PATE's authors compute it [nats]
    counts_converted: float  # the same by the conversion of Rényi divergences that the labels are given [nats]
    labels: float  # ε of the labels by the votes [nats]
    stated: float  # ε of the test and the labels [nats]
    passes: float  # mean chance of passing the test
    seconds: float  # of the last two, for one set of votes

    @property
    def cells(self) -> tuple[object, ...]:
        """Return the cells of its row in the table."""
        return (
            *(self.votes, self.batch.queries),
            *(f"{value:.3f}" for value in (self.any_votes, self.counts, self.counts_converted, self.labels)),
            f"{self.labels / self.counts:.2f}, {self.labels / self.counts_converted:.2f}",
            f"{self.stated:.3f} ({self.stated / self.any_votes:.2f})",
            *(f"{self.passes:.4f}", f"{self.seconds:.1f}"),
        )


def drawn_votes(level: float, queries: int, seed: int) -> CountRows:
    """Return votes in which each teacher answers with the leader with chance ``level``, shape (queries, C)."""
    shares = [level, *[(1 - level) / (CLASSES - 1)] * (CLASSES - 1)]
    return np.random.default_rng([seed, round(1000 * level)]).multinomial(TEACHERS, shares, size=queries)


def digit_votes(queries: int, seed: int) -> CountRows:
    """Return the votes of teachers that learned disjoint parts of the digits, on digits that none of them saw."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order] / 16, y[order]
    private, public = slice(0, len(y) - queries), slice(len(y) - queries, None)
    counts = np.zeros((queries, CLASSES), dtype=np.int64)
    for teacher in range(DIGIT_TEACHERS):
        records = np.arange(private.stop)[teacher::DIGIT_TEACHERS]
        model = LogisticRegression(C=10, max_iter=200).fit(X[records], y[records])
        counts[np.arange(queries), model.predict(X[public])] += 1
    return counts


def measure(votes: str, batch: VoteBatch, share: float, sets: Sequence[CountRows]) -> Row:
    """Return the line of votes of one kind, by the first set; the chance of passing by all."""
    any_votes = batch.epsilon(DELTA)
    proposal = propose(batch, Privacy(share * any_votes, DELTA))  # before any votes
    counts = sets[0]
    start = time.perf_counter()
    labels = unpublished_epsilon(batch, counts, DELTA).epsilon
    chances = [proposal.pass_chance(proposal.unpublished_distance(counts))]
    seconds = time.perf_counter() - start
    chances += [proposal.pass_chance(proposal.unpublished_distance(each)) for each in sets[1:]]
    rows, repeats = np.unique(np.sort(counts, axis=1), axis=0, return_counts=True)
    divergences = [
        sum(n * authors_rdp(row, batch, order) for row, n in zip(rows, repeats, strict=True)) for order in ORDERS
    ]
    plain = min(
        divergence - math.log(DELTA) / (order - 1) for order, divergence in zip(ORDERS, divergences, strict=True)
    )
    return Row(
        votes,
        batch,
        any_votes,
        plain,
        rdp_epsilon(divergences, DELTA, ORDERS)[0],
        labels,
        proposal.total.epsilon,
        float(np.mean(chances)),
        seconds,
    )


def authors_rdp(counts: CountRows, batch: VoteBatch, order: float) -> float:
    """Return the Rényi bound of one query's counts by the authors' algorithm; a check is charged as they charge it."""
    label = sensitive_rdp(counts, batch.mechanism.sigma, order, kind="continuous").value
    if batch.mechanism.threshold is None or batch.mechanism.check_sigma is None:
        return label
    pass_chance = float(norm.sf(batch.mechanism.threshold, counts.max(), batch.mechanism.check_sigma))
    check = sensitive_check_rdp(pass_chance, batch.mechanism.check_sigma, order)
    return check + pass_chance * label


def report(rows: Sequence[Row], options: Namespace) -> Iterator[str]:
    yield from table(HEAD, (row.cells for row in rows))
    yield ""
    yield f"Chances of passing are means over {options.sets} sets of votes, exact for each."
    yield ""
    yield from (line for row in rows if row.votes == "digits" and row.passes < MIN_PASSES for line in FEW_RECORDS)
    labels = "" if options.labels == [*STATED] else f" --labels {' '.join(map(str, options.labels))}"
    yield origin(f"make earned ARGS='--sets {options.sets} --seed {options.seed}{labels}'")


def main(arguments: Sequence[str] | None = None) -> int:
    sets_ = (3, "sets of votes at each level")
    options = read_options(__doc__, arguments, sets=sets_, seed=0, labels=[*STATED], write=Path)
    rows = []
    for queries in options.labels:
        batch = NoisyMaximum(TEACHERS, CLASSES, SIGMA).batch(queries)
        for level in LEVELS:
            sets = [drawn_votes(level, queries, options.seed + n) for n in range(options.sets)]
            rows.append(measure(f"{level:.0%} agree", batch, STATED[queries], sets))
    few = min(STATED)
    if few in options.labels:
        batch = NoisyMaximum(DIGIT_TEACHERS, CLASSES, DIGIT_SIGMA).batch(few)
        sets = [digit_votes(few, options.seed + n) for n in range(options.sets)]
        rows.append(measure("digits", batch, STATED[few], sets))
    if few in options.labels:
        batch = NoisyMaximum(TEACHERS, CLASSES, SIGMA, threshold=THRESHOLD, check_sigma=CHECK_SIGMA).batch(
            CHECKED_QUERIES
        )
        for level in LEVELS:
            sets = [drawn_votes(level, CHECKED_QUERIES, options.seed + n) for n in range(options.sets)]
            rows.append(measure(f"{level:.0%} agree, checked", batch, CHECKED_SHARE, sets))
    publish("earned", report(rows, options), options.write)
    return int(any(row.labels > row.any_votes for row in rows))


if __name__ == "__main__":
    sys.exit(main())
