"""Propose, test, release: an (ε, δ) that depends on agreement in the votes but is stated before they are examined.

If voters agree, a batch of labels costs far less than for arbitrary votes (`labels.data_dependent`), but that bound
itself depends on the votes. So the user states (ε, δ); an order λ, a target for the Rényi loss at λ and a noisy test
are chosen without the votes; and labels are released only if the test passes. With k(D) the least number of voters
whose votes must change until the bound exceeds the target, the test is

    k(D) + X ≥ T,    X discrete Gaussian of parameter τ,

one noisy bit, since k changes by at most 1 between neighbours. A batch with k(D) ≥ 1 is within the target; one with
k(D) = 0 passes with probability Pr[X ≥ T], which is part of δ. The alternative is `published_loss`. Proofs:
docs/proofs.md, "An ε that the votes earn". Prior art: Dwork, Lei 2009; Redberg, Zhu, Wang 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from darrm_opt.accounting.accounts import Accountable
from darrm_opt.accounting.bounds import is_within
from darrm_opt.accounting.gaussian import positive_delta
from darrm_opt.accounting.labels.data_dependent import CountRows, UnpublishedLoss, check_noise
from darrm_opt.accounting.labels.discrete_gaussian_argmax import MASS_ERROR, LatticeNoise
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.labels.vote_release import VoteRelease
from darrm_opt.accounting.rdp import ORDERS, rdp_delta, rdp_epsilon
from darrm_opt.accounting.total import cost, renyi_divergences
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource, SystemRandomness, discrete_gaussian
from darrm_opt.rounding import ULP
from darrm_opt.search import largest_count_between, least_fitting

TEST_SIGMAS = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0)  # candidates for the noise τ of the test [voters]
TRIED_ORDERS = (4.0, 6.0, 9.0, 13.0, 18.0, 25.0, 35.0, 50.0, 70.0)  # candidates for the order λ

REFERENCE_ROWS = 24
"""Number of queries of the reference batch that selects a proposal; its loss is scaled to the number of queries."""

LEADER_SHARE = 0.9  # default mean share of the voters with the leader in the reference batch
PASS_CHANCE = 0.99  # probability with which the reference batch passes the test of `ptr_epsilon`
FIELDS = ("order", "test_sigma", "test_threshold", "target")  # fields of the record of a proposal
ROUNDING = 2.0**-40  # part of 1 + ε that is left for rounding [nats]


class NoisyVote(Accountable, Protocol):
    """The largest count after discrete Gaussian noise (`mechanisms.noisy_maximum.NoisyMaximum`)."""

    classes: int
    sigma: float  # of the noise on each count [votes]
    threshold: float | None  # ⊥ is released unless the largest noisy count is at least this [votes]; None: no check
    check_sigma: float | None  # of the check's noise [votes]; with a threshold, and only then


@dataclass(frozen=True)
class VoteBatch:
    """A fixed number of queries to a noisy vote, without the votes."""

    mechanism: NoisyVote  # σ ≥ 1 vote, of which a record moves one
    queries: int

    def __post_init__(self) -> None:
        whole_number(self.queries, "queries", "a whole number of queries, at least 1")
        for name in ("sigma", "check_sigma"):
            check_noise(getattr(self.mechanism, name), name)

    @property
    def K(self) -> int:
        """Voters."""
        return self.mechanism.K

    def epsilon(self, delta: float) -> float:
        """Return ε of the batch at δ for any votes [nats], rounded up: its cost without a test."""
        return cost(self.mechanism, self.queries, delta).epsilon

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of the batch at λ for any votes [nats], rounded up."""
        divergences = renyi_divergences(self.mechanism.bounds(self.queries), np.array([order]))
        return math.inf if divergences is None else float(divergences[0])

    def loss(self, counts: CountRows, order: float) -> UnpublishedLoss:
        """Return the loss of the batch given its votes: **not for publication**."""
        counts, vote = np.asarray(counts), self.mechanism
        if counts.shape != (self.queries, vote.classes):
            raise InvalidInput("counts", counts.shape, f"shape ({self.queries}, {vote.classes})")
        if np.any(counts.sum(axis=1) != vote.K):
            raise InvalidInput("counts", "other sums", f"{vote.K} votes in each query", "The counts are omitted here.")
        return UnpublishedLoss(counts, vote.sigma, order, vote.threshold, vote.check_sigma, self.renyi(order))


@dataclass(frozen=True)
class Proposal:
    """A test for a batch, chosen without its votes."""

    batch: VoteBatch  # released if the test passes
    total: Privacy  # (ε, δ) of the test and the batch together
    order: float  # λ at which the batch is bounded
    test_sigma: float  # τ of the noise on the distance k [voters]
    test_threshold: int  # T, the least noisy distance that passes the test [voters]
    target: float  # largest D_λ of the batch for a release [nats]

    def __post_init__(self) -> None:
        least = _target(self.total, self.order, self.test_sigma)
        if least is None or not 0 < self.target <= least:
            raise InvalidInput("target", self.target, f"a Rényi divergence from 0 to {least}")
        if self.test_threshold < _least_threshold(self.total, self.test_sigma):
            raise InvalidInput("test_threshold", self.test_threshold, "a threshold that keeps the test within δ")

    def unpublished_distance(self, counts: CountRows) -> int:
        """Return k(D), the number of voters who must change until the loss exceeds the target, at most K.

        **Not for publication**: it depends on the votes.
        """
        loss = self.batch.loss(counts, self.order)
        if not is_within(loss.renyi(), self.target):
            return 0
        return 1 + largest_count_between(lambda moved: is_within(loss.renyi(moved), self.target), 0, self.batch.K)

    def passes(self, counts: CountRows, source: RandomSource | None = None) -> bool:
        """Draw the test, once: whether the batch may be released.

        The output is this bit and, if it is True, the labels. Charge it to a budget before drawing it, and never draw
        it again for the same votes.
        """
        noise = discrete_gaussian(Fraction(self.test_sigma) ** 2, source or SystemRandomness())
        return self.unpublished_distance(counts) + noise >= self.test_threshold

    def pass_chance(self, distance: int) -> float:
        """Return the probability that the test passes at a distance k [voters]."""
        return float(LatticeNoise(self.test_sigma, 0.0).at_least(np.array(self.test_threshold - distance)))

    def record(self) -> dict[str, Any]:
        """Return the test as plain data, without the batch and the total."""
        return {field: getattr(self, field) for field in FIELDS}

    @classmethod
    def from_record(cls, batch: VoteBatch, total: Privacy, record: dict[str, Any]) -> Proposal:
        """Return the test of a record, proved here."""
        try:
            numbers = {field: real_number(record[field], field, "a finite number", below=math.inf) for field in FIELDS}
        except (KeyError, TypeError) as err:
            raise InvalidInput("proposal", type(record).__name__, "an order, a test and a target") from err
        threshold = whole_number(record["test_threshold"], "test_threshold", "a whole number of voters")
        return cls(batch, total, numbers["order"], numbers["test_sigma"], threshold, numbers["target"])

    def failed(self, delta: float) -> Privacy:
        """Return the cost of a failed test if nothing else is released: ε at ``delta``, plus the stated δ.

        Later releases add to it; the δ of the proposal stays spent (docs/proofs.md).
        """
        epsilon = rdp_epsilon(_test(self.test_sigma).renyi(ORDERS), delta)[0]
        return Privacy(epsilon, min(self.total.delta + positive_delta(delta), 1 - ULP))


def propose(batch: VoteBatch, total: Privacy, *, leader_share: float = LEADER_SHARE) -> Proposal:
    """Return the test for a batch within a total (ε, δ) that a reference batch passes with the largest probability.

    The votes are not examined. In the reference batch, which stands for them, the leader's share of the votes is spread
    evenly about ``leader_share``, and the other classes share the rest.

    ``leader_share``: expected mean share of the voters with the leader; public knowledge.
    """
    return Reference(batch, leader_share).proposal(total)[0]


def ptr_epsilon(
    batch: VoteBatch, delta: float, *, leader_share: float = LEADER_SHARE, chance: float = PASS_CHANCE
) -> Proposal:
    """Return the test of the least total ε, to 1 %, that the reference batch passes with a given probability.

    The votes are not examined; if they are like the reference batch, the test passes as often.
    """
    chance = real_number(chance, "chance", "a probability in (0, 1)", above=0, below=1)
    delta = positive_delta(delta)
    reference = Reference(batch, leader_share)

    def attempt(epsilon: float) -> Proposal | None:
        try:
            proposal, passes = reference.proposal(Privacy(epsilon, delta))
        except InvalidInput:  # nothing is left after the test
            return None
        return proposal if passes >= chance else None

    high = batch.epsilon(delta)
    if attempt(high) is None:
        accepted = "voters that agree more, more of them, or more queries"
        raise InvalidInput("leader_share", leader_share, accepted, _does_not_pay(batch, high))
    found = attempt(least_fitting(lambda epsilon: attempt(epsilon) is not None, 0.0, high, 0.01))
    assert found is not None  # noqa: S101 - for the type checker: a total that fits was returned
    return found


def check_that_it_pays(proposal: Proposal, leader_share: float = LEADER_SHARE) -> float:
    """Return the probability with which the reference batch passes a test."""
    total, batch = proposal.total, proposal.batch
    any_votes = batch.epsilon(total.delta)
    # The account for any votes needs no test and never withholds the batch: if it fits, it is better.
    if total.epsilon >= any_votes:
        raise InvalidInput(
            "epsilon",
            total.epsilon,
            f"an ε below {any_votes:.4g}",
            f"These labels cost that for any votes at δ = {total.delta:g}: release them without a test.",
        )
    # The votes must not be examined here: a rejection that depends on them would reveal something before any charge.
    reference = Reference(batch, leader_share)
    chance = proposal.pass_chance(max(0, reference.distance(proposal.order, proposal.target)))
    # a failed test spends its ε and the whole δ without a label: below one half that is the likelier outcome.
    if chance < 0.5:
        expected = f"If {leader_share:.0%} of the voters agree on average, the test has pass probability {chance:.2g}."
        raise InvalidInput(
            "epsilon",
            total.epsilon,
            "a total that the test is expected to pass with such votes",
            f"{expected} {_does_not_pay(batch, any_votes)}",
        )
    return chance


def _does_not_pay(batch: VoteBatch, any_votes: float) -> str:
    return (
        f"A test does not pay for {batch.K} voters at this total: {batch.queries} labels cost "
        f"{any_votes:.4g} for any votes, without a test."
    )


class Reference:
    """Losses of a reference batch, which stands for the votes."""

    def __init__(self, batch: VoteBatch, leader_share: float) -> None:
        self._batch = batch
        self._counts = _reference(batch, leader_share)
        rows = len(self._counts)
        self._few = VoteBatch(batch.mechanism, rows)
        self._losses: dict[float, tuple[UnpublishedLoss, dict[int, float]]] = {}

    def renyi(self, order: float, moved: int) -> float:
        """Return the loss of the batch's queries at λ [nats], with voters moved."""
        if order not in self._losses:
            self._losses[order] = (self._few.loss(self._counts, order), {})
        loss, known = self._losses[order]
        if moved not in known:
            known[moved] = self._batch.queries / len(self._counts) * loss.renyi(moved)
        return known[moved]

    def distance(self, order: float, target: float) -> int:
        """Return the number of voters who must move until the loss exceeds a target; 0 if it does so unmoved."""
        return 1 + largest_count_between(lambda moved: is_within(self.renyi(order, moved), target), -1, self._batch.K)

    def proposal(self, total: Privacy) -> tuple[Proposal, float]:
        """Return the test within a total that the reference passes most probably, and that probability."""
        delta = positive_delta(total.delta)
        if not 0 < total.epsilon < math.inf:
            raise InvalidInput("epsilon", total.epsilon, "a finite number of nats above 0")
        best: tuple[float, Proposal, int] | None = None
        thresholds = {sigma: _least_threshold(total, sigma) for sigma in TEST_SIGMAS}
        for order in TRIED_ORDERS:
            for sigma, threshold in thresholds.items():
                if (target := _target(total, order, sigma)) is None:
                    continue
                distance = self.distance(order, target)
                # Standard deviations by which the reference exceeds the threshold: the probability of passing grows
                # with it.
                score = (distance - threshold) / sigma
                if best is None or score > best[0]:
                    best = (score, Proposal(self._batch, total, order, sigma, threshold, target), distance)
        if best is None:
            accepted = "a total larger than the cost of the test"
            raise InvalidInput("epsilon", total.epsilon, accepted, f"At δ = {delta:g} the test alone needs more.")
        return best[1], best[1].pass_chance(max(0, best[2]))


def _test(sigma: float) -> PowerDivergence:
    check_noise(sigma, "test_sigma")
    return VoteRelease("check", sigma, "discrete").divergence()


def _target(total: Privacy, order: float, sigma: float) -> float | None:
    """Return the largest Rényi loss at λ with which a batch and the test's bit are (ε, δ)-DP; None if there is none."""
    test = float(_test(sigma).renyi(np.array([order]))[0])
    conversion = math.log1p(-1 / order) - math.log(total.delta * order) / (order - 1)
    target = total.epsilon - conversion - test - ROUNDING * (1 + total.epsilon)
    holds = target > 0 and is_within(rdp_epsilon([target + test], total.delta, [order])[0], total.epsilon)
    return target if holds else None


def _least_threshold(total: Privacy, sigma: float) -> int:
    """Return the least T at which a batch beyond the target passes within δ: Pr[X ≥ T] + δ of the test at ε ≤ δ."""
    noise = LatticeNoise(sigma, 0.0)
    rest = total.delta - rdp_delta(_test(sigma).renyi(ORDERS), total.epsilon)[0]
    chances = noise.at_least(np.arange(noise.end + 2)) * (1 + MASS_ERROR)
    return int(np.argmax(chances <= rest)) if rest > chances[-1] else noise.end + 2


def _reference(batch: VoteBatch, leader_share: float) -> CountRows:
    """Return counts of a batch in which the leader's share is spread about ``leader_share``, shape (rows, C)."""
    K, classes = batch.K, batch.mechanism.classes
    leader_share = real_number(leader_share, "leader_share", _SHARE, above=1 / classes, most=1)
    rows = min(REFERENCE_ROWS, batch.queries)
    spread = min(1 - leader_share, leader_share - 1 / classes) / 2
    shares = leader_share + spread * np.linspace(-1, 1, rows)
    leaders = np.clip(np.round(K * shares).astype(np.int64), 0, K)
    counts = np.zeros((rows, classes), dtype=np.int64)
    counts[:, 0] = leaders
    each, left = np.divmod(K - leaders, classes - 1)
    counts[:, 1:] = each[:, np.newaxis] + (np.arange(classes - 1) < left[:, np.newaxis])
    return counts


_SHARE = "a share of the voters above 1/C, up to 1"
