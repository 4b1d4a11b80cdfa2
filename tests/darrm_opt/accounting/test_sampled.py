"""Sampled releases: totals are never below the enumeration of samples, assignments and transcripts; naive ones are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from campaigns.sampled import CASES, drawn_law, examine, small_mechanisms, table
from campaigns.sampled_ensembles import Vote, question_pairs, random_vote, shares, shown, worst_delta
from support.cases import for_each
from support.enumeration import exp_fraction
from support.refusals import refused, refuses

from darrm_opt import NoiseFunction, Privacy
from darrm_opt.accounting import PrivacyBudget, sampled
from darrm_opt.accounting.accounts import SEARCHED, Accountable
from darrm_opt.accounting.guarantee import LawTriples, ReleaseGuarantee, Releases
from darrm_opt.accounting.labels import sampled_argmax
from darrm_opt.accounting.labels.sampled_argmax import sampled_label_laws
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.sampled import SLACK_SHARE, direction_pld, log_moments
from darrm_opt.accounting.sampling import EACH_VOTER, NOT_COVERED, Sampling
from darrm_opt.accounting.total import cost, most_releases
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.release import PrivateVote

HALF = Fraction(1, 2)


MECHANISMS = {
    **small_mechanisms(3, 3, 2.0, permute_and_flip=0.7, exponential=0.6, laplace=2.0, gnmax=1.5),
    "gamma": NoiseFunctionMechanism(NoiseFunction([1.0, 0.6, 0.6, 1.0])),
}


class KnownBy:
    """The guarantees of a mechanism with given sampled laws, or none."""

    takes_samples = True
    effort = SEARCHED

    def __init__(self, mechanism: Accountable, triples: Sequence[LawTriples] | None) -> None:
        self.K, self.affected, self.at_sensitivity = mechanism.K, mechanism.affected, mechanism.at_sensitivity
        self.known, self.mechanism, self.asked = triples, mechanism, 0

    def bounds(self, releases: int) -> Releases:
        self.asked += 1
        return self.mechanism.bounds(releases)

    def listed(self) -> None:
        """Return None: only the given laws are known."""

    def sampled_laws(self, sampling: Sampling, cut: float = 0.0) -> Sequence[LawTriples] | None:
        del sampling, cut
        return self.known


@for_each("name", MECHANISMS)
@for_each("case", [n for n, case in enumerate(CASES) if case[0] != "random-allocation"])
def test_never_below_any_sample_assignment_and_transcript(name: str, case: int) -> None:
    scheme, neighbours, data, neighbour, drawn = CASES[case]
    mechanism = MECHANISMS[name]
    rng = Random(f"{name} {case}")
    sampling = Sampling(len(data), scheme=scheme, neighbours=neighbours, **drawn)
    questions = [[random_vote(rng, mechanism.classes)] for _ in range(2)]
    questions += [[shown(9, 1)], [lambda _, share: 1 if 9 in share else mechanism.classes - 1 if 8 in share else 0]]
    pairs = question_pairs(
        scheme, data, neighbour, questions, mechanism.K, mechanism.classes, drawn_law(mechanism),
        sample=drawn.get("sample", 1), rate=Fraction(drawn.get("rate", 0.5)),
    )  # fmt: skip
    for queries in (1, 2):
        for delta in (0.0, 1e-3, 3e-2):
            found = cost(mechanism, queries, delta, sampling)
            for account, epsilon in found.epsilons.items():
                assert worst_delta(pairs, queries, exp_fraction(min(epsilon, 50.0))) <= Fraction(delta), account


def test_without_a_proof_there_is_no_total() -> None:
    with pytest.raises(DeltaTooSmall) as caught:
        sampled._convolution_of_points(lambda _: math.inf, None, 0.1, 5, 1e-5)
    assert caught.value.floor == 0.5  # the probability to be in any of five samples
    with pytest.raises(DeltaTooSmall) as caught:
        sampled._reached(lambda _: ReleaseGuarantee(), 0.1, 0.2, 3, 1, 5, 1e-5)
    assert caught.value.floor == 1.0


def test_if_each_voter_draws_there_is_a_total_at_delta_0() -> None:
    """The loss of all voters, amplified by the probability that some voter has the record."""
    mechanism = mechanism_class("permute_and_flip").of(3, 2, 0.5)
    found = cost(mechanism, 1, 0.0, Sampling(20, 2, scheme="each-voter")).epsilon
    release = mechanism.at_sensitivity(3)
    assert release is not None
    event = release.event()
    assert event is not None
    exact = math.log1p((1 - 0.9**3) * math.expm1(event.epsilon))
    assert exact <= found <= exact * (1 + 1e-9)


def test_random_totals_are_sound() -> None:
    """A short form of `campaigns.sampled`."""
    assert [fault for number in range(40) for fault in examine(1, number).faults] == []


LINEAR = NoiseFunctionMechanism(NoiseFunction([1.0, 1 / 3, 1 / 3, 1.0]))
"""The answer of a random one of three voters: each moved vote moves a third."""


def one_voter(counts: tuple[int, ...]) -> list[Fraction]:
    return [Fraction(count, sum(counts)) for count in counts]


def one_release(mechanism: VoteMechanism, sampling: Sampling, epsilon: float = 0.0) -> float:
    """Return δ of one release by the sampled pairs, rounded up."""
    triples = mechanism.sampled_laws(sampling)
    assert triples is not None
    laws = [laws for family in triples for laws in family.pairs(sampling.chance)]
    return max(float(each.deltas(np.array([epsilon]))[0]) for each in laws)


def distinguishing(scheme: str, data: Sequence[int | None], neighbour: Sequence[int | None], **drawn: Any) -> Vote:
    """Return the question that best distinguishes two data sets if all votes count equally."""
    weights: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for values, sign in ((data, 1), (neighbour, -1)):
        for chance, each in shares(scheme, values, 3, drawn.get("sample", 1), drawn.get("rate", HALF)):
            for place in enumerate(each):
                weights[place] += sign * chance  # type: ignore[assignment] # a Counter of fractions
    return lambda voter, share: int(weights[voter, share] > 0)


def shown_by(scheme: str, data: Sequence[int | None], neighbour: Sequence[int | None], **drawn: Any) -> Fraction:
    """Return δ at ε = 0 of one answer to that question."""
    question = distinguishing(scheme, data, neighbour, **drawn)
    pairs = question_pairs(scheme, data, neighbour, [[question]], 3, 2, one_voter, **drawn)
    return worst_delta(pairs, 1, Fraction(1))


@pytest.mark.parametrize(("scheme", "truth"), [("poisson-by-position", 0.813), ("poisson-dealt-evenly", 0.462)])
def test_shares_cut_by_position_or_dealt_evenly_move_more_than_one_vote(scheme: Any, truth: float) -> None:
    rate, data, neighbour = Fraction(9, 10), [9, 1, 2], [None, 1, 2]
    claimed = one_release(LINEAR, Sampling(3, rate=0.9))
    assert claimed == pytest.approx(0.3)
    assert shown_by("poisson", data, neighbour, rate=rate) == Fraction(3, 10)
    assert float(shown_by(scheme, data, neighbour, rate=rate)) == pytest.approx(truth)
    assert scheme in NOT_COVERED
    with pytest.raises(InvalidInput) as refused:
        Sampling(3, rate=0.9, scheme=scheme)
    assert refused.value.argument == "sampling"
    assert NOT_COVERED[scheme] in str(refused.value)


@pytest.mark.parametrize("scheme", EACH_VOTER)
def test_if_each_voter_draws_more_than_one_vote_moves(scheme: Any) -> None:
    data, neighbour = [8, 1, 2], [9, 1, 2]
    sampling = Sampling(3, 1, scheme=scheme)
    true = shown_by(scheme, data, neighbour, sample=1)
    assert true > 2 * sampling.chance * Fraction(1, 3)  # one vote, by the probability that a voter has the record
    mechanism = mechanism_class("permute_and_flip").of(3, 2, 0.7)
    question, law = distinguishing(scheme, data, neighbour), drawn_law(mechanism)
    pairs = question_pairs(scheme, data, neighbour, [[question]], 3, 2, law)
    naive = Sampling(3, 1, scheme="without-replacement")
    for delta in (0.0, 1e-3, 1e-2):
        found = cost(mechanism, 2, delta, sampling)
        for account, epsilon in found.epsilons.items():
            assert worst_delta(pairs, 2, exp_fraction(epsilon)) <= Fraction(delta), account
        assert found.epsilon > cost(mechanism, 2, delta, naive).epsilon


@for_each("classes", [2, 3])
@for_each("delta", [0.0, 1e-6])
def test_if_each_voter_draws_checks_are_charged(classes: int, delta: float) -> None:
    drawn = Sampling(1000, 5, scheme="each-voter")
    checked = NoisyMaximum(250, classes, 4.0, threshold=3.0, check_sigma=0.5)  # a check with very little noise
    assert [checked.at_sensitivity(votes) for votes in (1, 2, 5)] == [None] * 3
    for mechanism in (checked, PlainVote(5, classes, Privacy(0.5))):  # nothing is stated of other models either
        assert cost(mechanism, 10, delta, drawn).epsilon == math.inf
    few = NoisyMaximum(5, classes, 4.0, threshold=3.0, check_sigma=1.5)
    for votes in (1, 2, 5):
        moved = few.at_sensitivity(votes)
        assert moved is not None
        assert isinstance(moved.shown, LawPairs)
        assert moved.shown.on_data.shape[1] == classes + 1  # ⊥ too
    label = NoisyMaximum(5, classes, 4.0)
    assert cost(label, 10, delta, drawn).epsilon < cost(few, 10, delta, drawn).epsilon < math.inf


def test_the_probability_of_a_large_sample_with_replacement_is_rounded_up() -> None:
    """Integers of ten million digits would take minutes."""
    chance = Sampling(10**6, 600_000, scheme="each-voter-with-replacement").chance
    exact = 1 - (1 - Decimal(1) / 10**6) ** 600_000
    assert exact <= Decimal(chance) <= exact * (1 + Decimal(2) ** -52)


def test_a_sample_of_all_records_gives_no_amplification() -> None:
    """For a mechanism without listed laws."""
    mechanism = mechanism_class("laplace").of(300, 3, 60.0, 2)
    sampled, every = (cost(mechanism, 20, 1e-5, sampling) for sampling in (Sampling(100, 100), None))
    assert sampled.epsilons["pld"] >= sampled.epsilon == every.epsilon


FULL_SAMPLES = Sampling(10, rate=1.0), Sampling(10, 10, scheme="without-replacement")


@for_each("queries", [1, 30])
@for_each(
    "mechanism",
    [
        mechanism_class("laplace").of(4, 3, 4.0),
        mechanism_class("permute_and_flip").of(4, 3, 0.3),
        NoisyMaximum(4, 3, 2.0, threshold=3.0, check_sigma=2.0),
        table(5, 3, 1),
    ],
)
def test_samples_of_all_records_cost_as_much_as_no_samples(mechanism: VoteMechanism, queries: int) -> None:
    """For noise, checks and tables, with laws listed in both cases."""
    unsampled = cost(mechanism, queries, 1e-5).epsilon
    assert [cost(mechanism, queries, 1e-5, full).epsilon for full in FULL_SAMPLES] == pytest.approx(
        [unsampled] * 2, rel=1e-9
    )


def test_all_models_that_a_record_reaches_are_charged() -> None:
    vote, every = PlainVote(11, 3, Privacy(0.5), affected=2), Sampling(1000, 1000)
    assert cost(vote, 1, 0.0, every).epsilon == cost(vote, 1, 0.0).epsilon == 1.0
    budget = PrivacyBudget(Privacy(1.2))
    PrivateVote(vote, budget).release([0] * 11)
    assert budget.events == {Privacy(0.5): 2}


def test_the_labels_of_one_sample_are_one_release() -> None:
    mechanism = mechanism_class("permute_and_flip").of(1, 2, 1.5)
    data, neighbour, rate, texts = [9], [None], Fraction(1, 10), 4
    pairs = question_pairs("poisson", data, neighbour, [[shown(9, 1)] * texts], 1, 2, drawn_law(mechanism), rate=rate)
    pairs += [(q, p) for p, q in pairs]
    for delta in (0.0, 1e-4, 1e-2):
        apart = cost(mechanism, texts, delta, Sampling(1, rate=0.1))
        assert worst_delta(pairs, 1, exp_fraction(apart.epsilon)) > Fraction(delta)  # as if each label had a sample
        together = cost(mechanism, texts, delta, Sampling(1, rate=0.1, labels=texts))
        for account, epsilon in together.epsilons.items():
            assert worst_delta(pairs, 1, exp_fraction(epsilon)) <= Fraction(delta), account
    with pytest.raises(InvalidInput):
        Sampling(10, 2, scheme="each-voter", labels=2)


def test_more_voters_may_draw_than_binomial_coefficients_fit_doubles() -> None:
    sampling, laplace = Sampling(100_000, 20, scheme="each-voter"), mechanism_class("laplace")
    fewer, more = (laplace.of(K, 3, 40.0).epsilon(10, 1e-5, sampling) for K in (1000, 1100))
    assert fewer < more < 1.2 * fewer


@pytest.mark.parametrize("rate", [0.5, 0.95])
def test_truncated_noise_is_charged_at_any_epsilon(rate: float) -> None:
    k, sigma, delta = np.arange(-14, 15), 0.7, 1e-3
    drawn = np.exp(-(k * k) / (2 * sigma * sigma))
    drawn /= drawn.sum()
    kept = np.abs(k) <= 3
    missing, cut = float(drawn[~kept].sum()) * (1 + 1e-9), np.where(kept, drawn, 0.0)[10:19] / drawn[kept].sum()
    triple = LawTriples(cut[np.newaxis], np.roll(cut, 1)[np.newaxis], error=1e-12, missing=missing)
    off, on = np.append(drawn, 0.0), np.append(0.0, drawn)
    mixed = (1 - rate) * off + rate * on
    known = KnownBy(NoisyMaximum(3, 3, 1.0), [triple])
    epsilons = cost(known, 2, delta, Sampling(10, rate=rate)).epsilons
    found = [epsilons["pld"]]
    found += [max(direction_pld([laws], missing, 2, 0.01).epsilon(delta) for laws in triple.pairs(rate))]
    for epsilon in found:
        assert 2 * missing * math.exp(epsilon) > SLACK_SHARE * delta  # a share of δ would not cover it
        for p, q in ((mixed, off), (off, mixed)):
            excess = np.outer(p, p) - math.exp(epsilon) * np.outer(q, q)
            assert np.maximum(excess, 0.0).sum() <= delta


@for_each("sigma", [2.0, 40.0])
def test_merged_leads_have_at_least_the_loss_of_each(sigma: float) -> None:
    """Merging raises δ at each loss slightly, in both orders, also with sampling."""
    d = np.arange(-600, 601)
    off, on = (np.exp(-((d - mean) ** 2) / (4 * sigma * sigma)) for mean in (0, 6))
    off, on = off / off.sum(), on / off.sum()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sampled_argmax, "ATOMS", 301)
        few = sampled_argmax._joined_atoms(off, on, 3 / (sigma * sigma))
    assert few[0].size == 301
    assert [law.sum() for law in few] == pytest.approx([off.sum(), on.sum()], rel=1e-12)
    losses = np.linspace(-1, 1, 41)
    for rate in (1.0, 0.1):
        exact, bound = (LawTriples(a[np.newaxis], b[np.newaxis]).pairs(rate) for a, b in ((off, on), few))
        for each, other in zip(exact, bound, strict=True):
            assert np.all(other.deltas(losses) >= each.deltas(losses) * (1 - 1e-12))
            if sigma > 10:
                assert other.deltas(losses) == pytest.approx(each.deltas(losses), rel=0.02, abs=1e-6)


@for_each("rate", [0.02, 0.3, 0.9])
@for_each("replace", [False, True])
def test_sampled_divergences_are_never_below_those_of_sampled_pairs(rate: float, replace: bool) -> None:
    rng = np.random.default_rng(5)
    laws = rng.dirichlet(np.ones(4), (40, 3)) + 0.05
    laws /= laws.sum(axis=2, keepdims=True)
    off, on, other = laws.transpose(1, 0, 2)
    every = [(a, b) for a in (off, on, other) for b in (off, on, other) if a is not b]
    known = np.max(
        [log_moments(np.log(a), np.log(b), sampled.WHOLE_ORDERS) / (sampled.WHOLE_ORDERS - 1) for a, b in every], axis=0
    )
    orders, bounds = sampled.sampled_divergences(known, rate, replace=replace)
    pairs = LawTriples(off, on, other if replace else None).pairs(rate)
    exact = np.max([log_moments(np.log(p.on_data), np.log(p.on_neighbour), orders) for p in pairs], axis=0)
    assert np.all(bounds >= exact / (orders - 1) - 1e-12)
    if rate < 0.1 and not replace:
        assert bounds[0] < 2 * exact[0] / (orders[0] - 1)


def test_the_truncation_of_noise_depends_on_delta() -> None:
    """ε grows with ln(1/δ) without a jump, for σ of cells and of counts, by Poisson sampling and by allocation."""
    coins, allocated = Sampling(750_000, 250), Sampling(750_000, scheme="random-allocation", among=3000)
    two, four, wide = NoisyMaximum(250, 2, 4.0), NoisyMaximum(250, 4, 6.0), NoisyMaximum(3000, 4, 700.0)
    for mechanism, sampling in ((two, coins), (two, allocated), (four, coins), (wide, coins)):
        found = [cost(mechanism, 9000, delta, sampling, skip=("pld",)).epsilon for delta in (1e-9, 1e-12, 1e-24)]
        assert 0 < found[0] < found[1] < found[2] < 5 * found[0]


def test_every_voter_with_the_record_moves_its_votes() -> None:
    """If each voter draws and casts r votes, k voters with the record move k·r votes."""
    sampling, K, share = Sampling(100, 5, scheme="each-voter"), 5, Fraction(1, 20)
    found = []
    for affected in (1, 2, 3):
        mechanism = NoisyMaximum(K, 2, 2.0, affected=affected)
        found.append(cost(mechanism, 1, 1e-3, sampling).epsilon)
        law = drawn_law(mechanism)
        moved = [min(K, k * affected) for k in range(K + 1)]
        chances = [math.comb(K, k) * share**k * (1 - share) ** (K - k) for k in range(K + 1)]
        shown_laws = [
            [sum(chance * law((K - m, m))[c] for chance, m in zip(chances, moved, strict=True)) for c in (0, 1)],
            law((K, 0)),
        ]
        for p, q in (shown_laws, shown_laws[::-1]):
            excess = sum(max(a - exp_fraction(found[-1]) * b, Fraction(0)) for a, b in zip(p, q, strict=True))
            assert excess <= Fraction(1e-3)
    assert found[2] > found[1] > 1.5 * found[0]


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("classes", [3, 4, 10])
def test_laws_for_any_votes_cover_those_of_each_vote_count(classes: int, neighbours: Any) -> None:
    mechanism = NoisyMaximum(6, classes, 0.9)
    sampling = Sampling(1000, 20, neighbours=neighbours)
    cells = sampled_label_laws(0.9, classes, neighbours)
    assert cells is not None
    knots = np.array([-0.5, 0.0, 0.01, 0.3, 1.0])
    listed = VoteMechanism.sampled_laws(mechanism, sampling)
    assert listed is not None
    for direction, laws in enumerate(listed[0].pairs(sampling.chance)):
        exact = laws.deltas(knots)
        found = np.max([family.pairs(sampling.chance)[direction].deltas(knots) for family in cells], axis=0)
        assert np.all(found >= exact * (1 - 1e-9) - 1e-15)
        assert np.all(found <= exact * 1.2)


SETTINGS = [  # n, Q, ε, and the σ of Rényi sums over two cells
    (67_349, 10_000, 3.0, 0.772),
    (120_000, 10_000, 1.0, 1.094),
    (5_452, 500, 3.0, 0.940),
    (5_452, 10_000, 3.0, 1.495),
    (1_561, 1_000, 4.0, 1.382),
]


@for_each(("records", "queries", "epsilon", "most"), SETTINGS)
def test_the_noise_of_typical_settings(records: int, queries: int, epsilon: float, most: float) -> None:
    sampling, total = Sampling(records, 40), Privacy(epsilon, 1e-5)
    assert NoisyMaximum(10, 4, most).fits(total, queries, sampling)
    if queries <= 1000:
        found = mechanism_class("gnmax").calibrated(10, 4, total, queries, sampling=sampling)
        assert 0.9 * most < found.value <= most
        assert found.fits(total, queries, sampling)


@for_each("scale", [0.06, 0.2, 0.45])
@for_each("counts", [(10, 0, 0), (4, 3, 3), (9, 1), (6, 4, 0, 0)])
def test_probabilities_of_small_laplace_noise(scale: float, counts: tuple[int, ...]) -> None:
    """By all noise of non-negligible probability and all ties, to 60 digits."""
    chances = mechanism_class("laplace").of(10, len(counts), scale).class_chances(np.array([counts]))
    assert chances is not None
    with localcontext(prec=60):
        q, end = (-1 / Decimal(scale)).exp(), 20 + math.ceil(60 * scale)
        for place, chance in enumerate(chances[0]):
            exact = Decimal(0)
            for x in range(-end, max(counts) + end + 1):
                ties = [(1 - q) / (1 + q) * q ** abs(x - counts[place])]
                for k in (x - other for other in (*counts[:place], *counts[place + 1 :])):
                    below = q ** (1 - k) / (1 + q) if k <= 0 else 1 - q**k / (1 + q)
                    same = (1 - q) / (1 + q) * q ** abs(k)
                    ties = [a * below + b * same for a, b in zip([*ties, Decimal(0)], [Decimal(0), *ties], strict=True)]
                exact += sum(weight / (number + 1) for number, weight in enumerate(ties))
            assert abs(Decimal(float(chance)) / exact - 1) < Decimal("1e-12")


def test_most_releases_and_calibration_agree() -> None:
    sampling, total = Sampling(5452, 40), Privacy(3.0, 1e-5)
    for name in ("permute_and_flip", "gnmax"):
        found = mechanism_class(name).calibrated(10, 4, total, 500, sampling=sampling)
        assert most_releases(found, total, sampling).queries >= 490  # to 1 %, from below
        assert found.epsilon(500, 1e-5, sampling) <= 3.0
        unsampled = mechanism_class(name).calibrated(10, 4, total, 500)
        assert (found.value > unsampled.value) == found.increases


def test_records_with_other_fields_are_refused() -> None:
    for broken in ({}, None, {**Sampling(10, 3).record(), "more": 1}):
        with pytest.raises(InvalidInput):
            Sampling.from_record(broken)


def test_invalid_arguments_are_refused() -> None:
    refuses(Sampling, {"records": 10, "sample": 1}, records=[0], sample=[11, None], neighbours=["both"], labels=[0])
    refuses(Sampling, {"records": 10, "sample": None, "rate": 0.2}, rate=[0.0], sample=[2])
    refuses(Sampling, {"records": 10, "scheme": "without-replacement"}, rate=[0.5])
    refuses(Sampling, {"records": 10, "sample": 2, "scheme": "each-voter"}, neighbours=["add-remove"])
    for scheme in ("similarity", "?"):
        with refused("sampling"):
            Sampling(10, 2, scheme=scheme)  # type: ignore[arg-type]


SMALL_SAMPLE = Sampling(1000, 50)
REPLACED = Sampling(1000, 50, scheme="without-replacement")


@for_each("sampling", [SMALL_SAMPLE, REPLACED])
@for_each("sigma", [2.0, 6.0])
def test_points_of_one_label_bound_the_profile_of_its_laws(sigma: float, sampling: Sampling) -> None:
    mechanism = NoisyMaximum(12, 3, sigma)
    exact = cost(mechanism, 300, 1e-6, sampling)
    bound = cost(KnownBy(mechanism, None), 300, 1e-6, sampling).epsilon
    assert exact.epsilon <= bound <= 2 * exact.epsilon


@for_each(("name", "neighbours"), [("permute_and_flip", "add-remove"), ("exponential", "replace-one")])
def test_the_points_of_an_epsilon_are_never_below_any_transcript(name: str, neighbours: Any) -> None:
    mechanism, rate, data = MECHANISMS[name], Fraction(1, 4), [9, 8]
    questions = [[shown(9, 1)], [lambda _, share: 1 if 9 in share else 2 if 7 in share else 0]]
    pairs = question_pairs(
        "poisson",
        data,
        [7 if neighbours == "replace-one" else None, 8],
        questions,
        mechanism.K,
        3,
        drawn_law(mechanism),
        rate=rate,
    )
    pairs += [(q, p) for p, q in pairs]
    for delta in (1e-3, 3e-2):
        found = cost(KnownBy(mechanism, None), 2, delta, Sampling(2, rate=0.25, neighbours=neighbours)).epsilons
        assert {"simple", "optimal", "pld"} <= found.keys()
        for account, epsilon in found.items():
            assert worst_delta(pairs, 2, exp_fraction(epsilon)) <= Fraction(delta), account


def test_an_epsilon_without_laws_is_composed_by_its_points() -> None:
    """With a small probability a sample is (ε, 0)-DP with the full ε, which its amplified ε does not reflect."""
    two = mechanism_class("exponential").of(40, 6, 1.0, affected=2)
    sampling = Sampling(5452, 40)
    assert two.sampled_laws(sampling) is None
    found = cost(two, 500, 1e-5, sampling).epsilons
    assert found["pld"] < 0.1 * min(found["simple"], found["optimal"])


def test_skipped_points_are_not_computed() -> None:
    known = KnownBy(mechanism_class("exponential").of(40, 6, 0.5, affected=2), None)
    found = cost(known, 100, 1e-5, Sampling(5452, 40, labels=4), skip=("pld",))
    assert found.epsilons.keys() == {"simple", "optimal", "renyi"}
    assert known.asked == 2  # once for ε of all labels of a sample, once for their divergences


@for_each("queries", [1, 5])
@for_each(
    "sampling",
    [
        Sampling(10, rate=1.0),
        Sampling(10, rate=0.5),
        Sampling(10, 10, scheme="without-replacement"),
        Sampling(10, 10, scheme="each-voter"),
        Sampling(10, scheme="random-allocation", among=4, times=2),
    ],
)
def test_a_vote_without_noise_has_no_total(sampling: Sampling, queries: int) -> None:
    assert cost(NoiseFunctionMechanism(NoiseFunction([1.0, 1.0])), queries, 1e-5, sampling).epsilon == math.inf
