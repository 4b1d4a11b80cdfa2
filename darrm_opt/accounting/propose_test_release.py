"""Propose, test, release: an (ε, δ) that the votes earn, stated before anyone looks at them.

Where voters agree, a batch of labels costs far less than any votes could make it cost (`labels.data_dependent`), but
that bound is itself computed from the votes. So the user states (ε, δ); an order λ, a target for the Rényi loss at λ
and a noisy test are chosen without the votes; and labels leave only if the test passes. With k(D) the least number of
voters whose votes must change until the bound exceeds the target, the test is

    k(D) + X ≥ T,    X discrete Gaussian of parameter τ,

one noisy bit, since k changes by at most 1 between neighbours. A batch with k(D) ≥ 1 is within the target; one with
k(D) = 0 passes with probability Pr[X ≥ T], which is part of δ. `smooth_loss` is the other way to publish: a noisy upper
bound on the loss of a batch that was released at its data-independent price. Proofs: docs/proofs.md, "An ε that the
votes earn". Prior art: Dwork, Lei 2009; Nissim, Raskhodnikova, Smith 2007; Redberg, Zhu, Wang 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from darrm_opt.accounting.gaussian import positive_delta
from darrm_opt.accounting.labels.data_dependent import CountRows, UnpublishedLoss
from darrm_opt.accounting.labels.lattice_cells import MASS_ERROR, LatticeNoise
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.labels.vote_cost import VoteReleases, vote_cost
from darrm_opt.accounting.rdp import ORDERS, gaussian_rdp, rdp_delta, rdp_epsilon
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.randomness import RandomSource, SystemRandomness, discrete_gaussian
from darrm_opt.rounding import ULP

TEST_SIGMAS = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0)
"""Noise τ of the test [voters] that is tried."""

TRIED_ORDERS = (4.0, 6.0, 9.0, 13.0, 18.0, 25.0, 35.0, 50.0, 70.0)
"""Orders λ that are tried."""

REFERENCE_ROWS = 24
"""Queries of the reference batch by which a proposal is chosen; its loss is scaled to the number of queries."""

SMOOTHNESS = 0.05
"""β: how much the logarithm of a smooth bound may change between neighbours."""

STEPS = 16
"""Whole numbers to one β: a published logarithm is rounded up to them, so that its noise is drawn exactly."""

PUBLICATION_SIGMA = 5.0
"""Noise of a published bound in units of β: the publication itself costs ε = 0.8 at δ = 1e-5."""

CONFIDENCE = 0.95
"""Chance that a published bound is at least the bound that it stands for."""

AGREEMENT = 0.9
"""Share of the voters with the leader in the reference batch on average, where the user names none."""

ROUNDING = 1 - 2.0**-40
"""Share of a Rényi budget that is used."""


@dataclass(frozen=True)
class VoteBatch:
    """A fixed number of queries to a noisy vote, without the votes.

    Args:
        K: voters, ≥ 1; a record moves the votes of one.
        classes: C ≥ 2.
        queries: Q ≥ 1.
        sigma: σ ≥ 1 of the discrete Gaussian noise on each count [votes].
        threshold: ⊥ is released unless the largest count plus noise is at least this [votes]; None: no check.
        check_sigma: σ₁ ≥ 1 of the check's noise [votes]; with a threshold, and only then.

    Raises:
        InvalidInput: a number is outside its range.
    """

    K: int
    classes: int
    queries: int
    sigma: float
    threshold: float | None = None
    check_sigma: float | None = None

    def __post_init__(self) -> None:
        whole_number(self.K, "K", "a whole number of voters, at least 1")
        whole_number(self.classes, "classes", "a number of classes, at least 2", least=2)
        whole_number(self.queries, "queries", "a whole number of queries, at least 1")
        if (self.threshold is None) != (self.check_sigma is None):
            raise InvalidInput("check_sigma", self.check_sigma, "a number with a threshold, and none without")
        self.releases()  # their ranges

    def releases(self) -> list[VoteReleases]:
        """Return the releases of the batch, as `vote_cost` takes them."""
        labels = [VoteReleases("label", self.sigma, self.queries, "discrete")]
        if self.check_sigma is None:
            return labels
        return [*labels, VoteReleases("check", self.check_sigma, self.queries, "discrete")]

    def epsilon(self, delta: float) -> float:
        """Return ε of the batch at δ for any votes [nats], rounded up: what it costs without a test."""
        return vote_cost(self.releases(), delta, classes=self.classes).epsilon

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of the batch at λ for any votes [nats], rounded up."""
        parts = [(each.divergence(self.classes), each.count) for each in self.releases()]
        return sum(count * float(bound.renyi(np.array([order]))[0]) for bound, count in parts) * (1 + 8 * ULP)

    def loss(self, counts: CountRows, order: float) -> UnpublishedLoss:
        """Return the loss of the batch by its votes: **not for publication**.

        Args:
            counts: votes for each class in each query, shape (Q, C).
            order: λ > 1.

        Raises:
            InvalidInput: another shape, or other numbers of votes.
        """
        counts = np.asarray(counts)
        if counts.shape != (self.queries, self.classes):
            raise InvalidInput("counts", counts.shape, f"shape ({self.queries}, {self.classes})")
        if np.any(counts.sum(axis=1) != self.K):
            raise InvalidInput("counts", "other sums", f"{self.K} votes in each query", "They are not shown here.")
        return UnpublishedLoss(counts, self.sigma, order, self.threshold, self.check_sigma)


@dataclass(frozen=True)
class Proposal:
    """A test for a batch, chosen without its votes.

    Attributes:
        batch: what is released if the test passes.
        total: (ε, δ) of the test and the batch together.
        order: λ at which the batch is bounded.
        test_sigma: τ of the noise on the distance k [voters].
        test_threshold: T, the least noisy distance with which the test passes [voters].
        target: largest D_λ of the batch [nats] with which it may be released.
    """

    batch: VoteBatch
    total: Privacy
    order: float
    test_sigma: float
    test_threshold: int
    target: float

    def __post_init__(self) -> None:
        least = _target(self.total, self.order, self.test_sigma)
        if least is None or not 0 < self.target <= least:
            raise InvalidInput("target", self.target, f"a Rényi divergence from 0 to {least}")
        if self.test_threshold < _least_threshold(self.total, self.test_sigma):
            raise InvalidInput("test_threshold", self.test_threshold, "a threshold that keeps the test within δ")

    def unpublished_distance(self, counts: CountRows) -> int:
        """Return k(D), how many voters must change until the loss exceeds the target, at most K.

        **Not for publication**: it is computed from the votes.

        Args:
            counts: votes for each class in each query, shape (Q, C).
        """
        loss = self.batch.loss(counts, self.order)
        if loss.renyi() > self.target:
            return 0
        within, beyond = 0, self.batch.K
        while beyond - within > 1:
            middle = (within + beyond) // 2
            within, beyond = (middle, beyond) if loss.renyi(middle) <= self.target else (within, middle)
        return beyond

    def passes(self, counts: CountRows, source: RandomSource | None = None) -> bool:
        """Draw the test, once: whether the batch may be released.

        What leaves is this bit, and, where it is True, the labels. It must be charged to a budget before it is drawn,
        and never be drawn again for the same votes.

        Args:
            counts: votes for each class in each query, shape (Q, C).
            source: random bits; None for the operating system.
        """
        noise = discrete_gaussian(Fraction(self.test_sigma) ** 2, source or SystemRandomness())
        return self.unpublished_distance(counts) + noise >= self.test_threshold

    def pass_chance(self, distance: int) -> float:
        """Return the chance that the test passes at a distance k [voters]."""
        return float(LatticeNoise(self.test_sigma, 0.0).at_least(np.array(self.test_threshold - distance)))

    def failed(self, delta: float) -> Privacy:
        """Return what a test that failed has cost, where nothing else leaves: ε at ``delta``, plus the δ that stands.

        Whatever is released afterwards adds to it; the δ of the proposal stays spent (docs/proofs.md).

        Args:
            delta: δ of the test's own (ε, δ) [probability], in (0, 1).
        """
        epsilon = rdp_epsilon(_test(self.test_sigma).renyi(ORDERS), delta)[0]
        return Privacy(epsilon, min(self.total.delta + positive_delta(delta), 1 - ULP))


def propose(batch: VoteBatch, total: Privacy, *, agreement: float = AGREEMENT) -> Proposal:
    """Return the test for a batch within a total (ε, δ) that a batch of the expected agreement passes most surely.

    The votes are not looked at: a reference batch stands for them, in which the leader has a share of the votes spread
    evenly about ``agreement``, and the other classes share the rest.

    Args:
        batch: what is to be released.
        total: (ε, δ) of test and batch together, both above 0.
        agreement: mean share of the voters with the leader that is expected, in (1/C, 1]; public knowledge.

    Raises:
        InvalidInput: a number is outside its range, or no test fits in the total.
    """
    delta = positive_delta(total.delta)
    if not 0 < total.epsilon < math.inf:
        raise InvalidInput("epsilon", total.epsilon, "a finite number of nats above 0")
    counts = _reference(batch, agreement)
    scale = batch.queries / len(counts)
    best: tuple[float, Proposal] | None = None
    for order in TRIED_ORDERS:
        targets = {sigma: _target(total, order, sigma) for sigma in TEST_SIGMAS}
        if all(target is None for target in targets.values()):
            continue
        reference = VoteBatch(batch.K, batch.classes, len(counts), batch.sigma, batch.threshold, batch.check_sigma)
        loss, losses = reference.loss(counts, order), dict[int, float]()
        for sigma, target in targets.items():
            if target is None:
                continue
            threshold = _least_threshold(total, sigma)
            within, beyond = -1, batch.K
            while beyond - within > 1:
                middle = (within + beyond) // 2
                losses.setdefault(middle, scale * loss.renyi(middle))
                within, beyond = (middle, beyond) if losses[middle] <= target else (within, middle)
            score = (beyond - threshold) / sigma
            if best is None or score > best[0]:
                best = (score, Proposal(batch, total, order, sigma, threshold, target))
    if best is None:
        accepted = "a total that leaves something beside the test"
        raise InvalidInput("epsilon", total.epsilon, accepted, f"At δ = {delta:g} the test alone needs more.")
    return best[1]


@dataclass(frozen=True)
class PublishedLoss:
    """An upper bound on the Rényi loss of a batch of votes, made private: it may be published.

    It describes how much these labels reveal about any one voter beside *these* votes, in one direction; it is no
    (ε, δ)-guarantee, which the batch has at its data-independent price.

    Attributes:
        epsilon: ε at ``delta`` that follows from the loss [nats].
        delta: [probability].
        order: λ.
        renyi: D_λ of the batch is at most this with the stated confidence [nats].
        confidence: chance that it is [probability].
        spent: (ε, δ) of the publication itself.
    """

    epsilon: float
    delta: float
    order: float
    renyi: float
    confidence: float
    spent: Privacy


def smooth_loss(loss: UnpublishedLoss, smoothness: float) -> float:
    """Return max over k of e^(−βk)·B_k, B_k the bound with k voters moved: **not for publication**.

    It is at least the bound itself, and its logarithm changes by at most β between neighbours, since B_k of one is at
    most B_(k+1) of the other.

    Args:
        loss: of the batch.
        smoothness: β > 0.
    """
    smoothness = real_number(smoothness, "smoothness", "a finite number above 0")
    if not 0 < smoothness < math.inf:
        raise InvalidInput("smoothness", smoothness, "a finite number above 0")
    most, largest = 0.0, loss.renyi(loss.voters)
    for moved in range(loss.voters + 1):
        if math.exp(-smoothness * moved) * largest <= most:
            break  # no later one can be larger
        most = max(most, math.exp(-smoothness * moved) * loss.renyi(moved))
    return most * (1 + 8 * ULP)


def publish_loss(
    batch: VoteBatch,
    counts: CountRows,
    delta: float,
    *,
    agreement: float = AGREEMENT,
    sigma: float = PUBLICATION_SIGMA,
    source: RandomSource | None = None,
) -> PublishedLoss:
    """Return a private upper bound on what a batch reveals by its votes; the labels are charged as for any votes.

    What is drawn is ln(smooth bound)/β, rounded up to whole `STEPS`, plus discrete Gaussian noise: a mechanism of
    sensitivity `STEPS`. Each call draws anew, and costs ``spent``.

    Args:
        batch: what was released, or is.
        counts: votes for each class in each query, shape (Q, C).
        delta: δ at which ε is stated, of the batch and of the publication [probability], in (0, 1).
        agreement: mean share of the voters with the leader that is expected: it chooses λ, without the votes.
        sigma: noise in units of β, at least 1.
        source: random bits; None for the operating system.

    Raises:
        InvalidInput: a number is outside its range.
    """
    delta = positive_delta(delta)
    sigma = real_number(sigma, "sigma", "a finite number, at least 1")
    if not 1 <= sigma < math.inf:
        raise InvalidInput("sigma", sigma, "a finite number, at least 1")
    order = _order_for(batch, delta, agreement)
    smooth = smooth_loss(batch.loss(counts, order), SMOOTHNESS)
    steps = math.ceil(STEPS * math.log(smooth) / SMOOTHNESS * (1 + math.copysign(8 * ULP, math.log(smooth))))
    noise = LatticeNoise(STEPS * sigma, 0.0)
    margin = int(np.argmax(noise.at_least(-np.arange(noise.end)) >= CONFIDENCE))
    noisy = steps + margin + discrete_gaussian(Fraction(STEPS * sigma) ** 2, source or SystemRandomness())
    renyi = min(math.exp(SMOOTHNESS * noisy / STEPS) * (1 + 16 * ULP), batch.renyi(order))
    epsilon = min(rdp_epsilon([renyi], delta, [order])[0], batch.epsilon(delta))
    spent = Privacy(rdp_epsilon(gaussian_rdp(STEPS * sigma, ORDERS, STEPS), delta)[0], delta)
    return PublishedLoss(epsilon, delta, order, renyi, CONFIDENCE, spent)


def _order_for(batch: VoteBatch, delta: float, agreement: float) -> float:
    """Return the order at which the reference batch has the least ε."""
    counts = _reference(batch, agreement)
    reference = VoteBatch(batch.K, batch.classes, len(counts), batch.sigma, batch.threshold, batch.check_sigma)
    scale = batch.queries / len(counts)

    def epsilon(order: float) -> float:
        return rdp_epsilon([scale * smooth_loss(reference.loss(counts, order), SMOOTHNESS)], delta, [order])[0]

    return min(TRIED_ORDERS, key=epsilon)


def _test(sigma: float) -> PowerDivergence:
    return VoteReleases("check", sigma, 1, "discrete").divergence()


def _target(total: Privacy, order: float, sigma: float) -> float | None:
    """Return the largest Rényi loss at λ with which a batch and the test's bit are (ε, δ)-DP; None if there is none."""
    test = float(_test(sigma).renyi(np.array([order]))[0])
    conversion = math.log1p(-1 / order) - math.log(total.delta * order) / (order - 1)
    target = (total.epsilon - conversion) * ROUNDING - test
    while target > 0 and rdp_epsilon([(target + test) * (1 + 4 * ULP)], total.delta, [order])[0] > total.epsilon:
        target -= 2.0**-40 * (1 + total.epsilon)
    return target if target > 0 else None


def _least_threshold(total: Privacy, sigma: float) -> int:
    """Return the least T at which a batch beyond the target passes within δ: Pr[X ≥ T] + δ of the test at ε ≤ δ."""
    noise = LatticeNoise(sigma, 0.0)
    rest = total.delta - rdp_delta(_test(sigma).renyi(ORDERS), total.epsilon)[0]
    chances = noise.at_least(np.arange(noise.end + 2)) * (1 + MASS_ERROR)
    return int(np.argmax(chances <= rest)) if rest > chances[-1] else noise.end + 2


def _reference(batch: VoteBatch, agreement: float) -> CountRows:
    """Return counts of a batch in which the leader's share is spread about ``agreement``, shape (rows, C)."""
    agreement = real_number(agreement, "agreement", _AGREEMENT)
    if not 1 / batch.classes < agreement <= 1:
        raise InvalidInput("agreement", agreement, _AGREEMENT)
    rows = min(REFERENCE_ROWS, batch.queries)
    spread = min(1 - agreement, agreement - 1 / batch.classes) / 2
    shares = agreement + spread * np.linspace(-1, 1, rows)
    leaders = np.clip(np.round(batch.K * shares).astype(np.int64), 0, batch.K)
    counts = np.zeros((rows, batch.classes), dtype=np.int64)
    counts[:, 0] = leaders
    each, left = np.divmod(batch.K - leaders, batch.classes - 1)
    counts[:, 1:] = each[:, np.newaxis] + (np.arange(batch.classes - 1) < left[:, np.newaxis])
    return counts


_AGREEMENT = "a share of the voters above 1/C, up to 1"
