"""Releases converted for other libraries: never optimistic, and composed with the libraries' own mechanisms."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from numpy.typing import NDArray
from support.cases import for_each
from support.enumeration import exp_fraction
from support.label_laws import checked_law, label_law, renyi
from support.plurality_exact import neighbours, vote_counts
from support.refusals import refused

from darrm_opt import NoiseFunction, Privacy, Problem, solve
from darrm_opt.accounting import Sampling, interop
from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.guarantee import ReleaseGuarantee
from darrm_opt.accounting.interop import (
    DISCRETISATION,
    as_event,
    as_pld,
    pld_accountant,
    privacy_map,
    rdp_accountant,
    renyi_divergences,
)
from darrm_opt.accounting.labels.composition import MAX_RANGE
from darrm_opt.accounting.labels.sampled_argmax import counts_of_any_votes
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.release_profile import Release, ReleaseProfile, release_profile
from darrm_opt.errors import BackendUnavailable
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum, NoisyMaximum
from darrm_opt.rounding import ULP

SOLUTION = solve(Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4))
PROFILE = release_profile(SOLUTION.gamma, SOLUTION.problem)


def attained(queries: int, epsilon: float) -> float:
    """Return a δ that pairs of neighbours attain up to the grid of the recursion (one release needs no grid)."""
    if queries == 1:
        p, p_rest, q, q_rest = PROFILE.inner.moves.T
        return float(max(0.0, *(p - math.exp(epsilon) * q), *(p_rest - math.exp(epsilon) * q_rest)))
    return compose_bits([(PROFILE.inner, queries)]).delta(epsilon) * (1 - 1e-4)


EPSILONS = (0.0, 0.1, 0.2676, 1.0, 3.0)


@pytest.mark.parametrize("queries", [1, 20])
def test_the_pld_is_above_the_exact_account_and_close_for_one_release(queries: int) -> None:
    handed = as_pld(SOLUTION, queries=queries, discretisation=1e-3, fresh=True)
    for epsilon in EPSILONS:
        assert handed.get_delta_for_epsilon(epsilon) >= attained(queries, epsilon) - 1e-12
        if queries == 1:
            assert handed.get_delta_for_epsilon(epsilon) <= PROFILE.delta(epsilon) + 1e-4


def test_the_guard_is_part_of_the_converted_distribution() -> None:
    own = PROFILE.pld(1e-3, count=5)
    handed = as_pld(SOLUTION, queries=5, discretisation=1e-3, fresh=True)
    for epsilon in EPSILONS:
        guarded = own._delta(epsilon) + own.guard
        assert handed.get_delta_for_epsilon(epsilon) >= guarded * (
            1 - 2.0**-51
        )  # the library adds in a different order


def test_composition_with_dp_sgd_in_the_librarys_accountant() -> None:
    sgd = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)), 100)
    votes = dp_event.SelfComposedDpEvent(as_event(SOLUTION, fresh=True), 20)
    alone, both = pld_accountant(1e-3).compose(sgd), pld_accountant(1e-3).compose(sgd).compose(votes)
    only_votes = pld_accountant(1e-3).compose(as_event(SOLUTION, fresh=True), 20)
    delta = 0.01
    assert max(alone.get_epsilon(delta), only_votes.get_epsilon(delta)) < both.get_epsilon(delta)
    assert both.get_epsilon(2 * delta) <= alone.get_epsilon(delta) + only_votes.get_epsilon(delta)
    assert only_votes.get_epsilon(0.00608) == pytest.approx(2.563, rel=5e-3)
    assert both.ledger == dp_event.ComposedDpEvent([sgd, votes])
    direct = as_pld(SOLUTION, queries=20, discretisation=1e-3, fresh=True).compose(
        privacy_loss_distribution.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3)
    )
    assert direct.get_delta_for_epsilon(3.0) > as_pld(
        SOLUTION, queries=20, discretisation=1e-3, fresh=True
    ).get_delta_for_epsilon(3.0)


@pytest.mark.parametrize("neighbours", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
def test_releases_compose_with_mechanisms_for_the_same_neighbours(neighbours: str) -> None:
    votes, noise = as_event(SOLUTION, fresh=True), dp_event.GaussianDpEvent(5.0)
    both = pld_accountant(1e-3, neighbours).compose(noise).compose(votes)
    assert both.neighboring_relation.name == neighbours
    assert both.get_epsilon(0.01) > pld_accountant(1e-3, neighbours).compose(votes).get_epsilon(0.01)


def test_an_accountant_without_support_for_releases_refuses_them() -> None:
    assert pld_accountant().supports(as_event(SOLUTION, fresh=True))
    assert pld_accountant().supports(dp_event.ComposedDpEvent([as_event(SOLUTION, fresh=True), dp_event.NoOpDpEvent()]))
    assert not super(type(pld_accountant()), pld_accountant()).supports(dp_event.UnsupportedDpEvent())


@pytest.mark.parametrize("queries", [0, 1, 10])
def test_the_privacy_map_is_group_privacy(queries: int) -> None:
    to_profile = privacy_map(SOLUTION, queries=queries, fresh=True)
    for epsilon in EPSILONS:
        assert to_profile(0)(epsilon) == 0.0
        assert to_profile(1)(epsilon) >= attained(queries, epsilon) - 1e-12
        assert to_profile(1)(epsilon) <= to_profile(2)(epsilon) <= to_profile(3)(epsilon)
        group = to_profile(1)(epsilon / 2) * (1 + math.exp(epsilon / 2))
        assert to_profile(2)(epsilon) == pytest.approx(min(1.0, group), rel=1e-9)


def test_group_privacy_holds_to_the_last_unit() -> None:
    """The rounding of 3·share, near 33, lowers e^(3·share) by 16 units; 8 were once charged for everything."""
    leak = NoiseFunction(np.full(12, 0.05), 11), Problem(11, Privacy(0.0892, 1e-13), Privacy(3.0, 1e-9))
    to_profile = privacy_map(leak, fresh=True)
    for epsilon in (43.99925088175103, 44.2, 43.1, 8.0):
        share = Fraction(epsilon) / 4
        each, found = Fraction(to_profile(1)(float(share) * (1 - 2.0**-52))), to_profile(4)(epsilon)
        exact = each * sum(exp_fraction(float(share) * (1 - 2.0**-52)) ** i for i in range(4))
        assert exact <= Fraction(found) <= exact * (1 + Fraction(60, 2**52))
        assert found < 1
    assert to_profile(4)(43.99925088175103) == pytest.approx(0.3810757970872876, rel=3e-15)


def test_a_share_of_epsilon_never_exceeds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def recorded(_profile: ReleaseProfile, epsilon: float) -> float:
        asked.append(epsilon)
        return 1e-9

    monkeypatch.setattr(ReleaseProfile, "delta", recorded)
    to_profile = privacy_map(SOLUTION)
    for records in (2, 3, 7):
        for epsilon in np.random.default_rng(records).uniform(0, 3, 40).tolist():
            to_profile(records)(epsilon)
            assert (
                Fraction(epsilon) * (1 - 3 * Fraction(2.0**-52)) <= Fraction(asked[-1]) * records <= Fraction(epsilon)
            )


def test_extreme_group_sizes_are_covered() -> None:
    nothing = privacy_map((NoiseFunction(np.zeros(4), 3), Problem(3, Privacy(0.5), Privacy(0.5))), queries=2)
    open_vote = privacy_map((NoiseFunction(np.ones(2), 1), Problem(1, Privacy(0.5, 0.1), Privacy(0.6, 0.11))))
    assert open_vote(10**9)(0.1) == 1.0  # not by one term per record
    for records in (1, 2, 5):
        for epsilon in (20.0, 3000.0, math.inf):
            assert nothing(records)(epsilon) == 0.0
            assert open_vote(records)(epsilon) == (1.0 if records > 1 else open_vote(1)(4.0))
    assert open_vote(1)(4.0) == pytest.approx(0.1)
    assert nothing(2)(0.0) > 0
    one = Problem(1, Privacy(0.5, 0.1), Privacy(0.6, 0.11))
    exact = release_profile(np.ones(2), one)
    assert [open_vote(1)(epsilon) for epsilon in EPSILONS] == [exact.delta(epsilon) for epsilon in EPSILONS]


def test_the_defaults() -> None:
    """One release of voters trained once, on the grid of the library."""
    theirs = inspect.signature(privacy_loss_distribution.from_gaussian_mechanism).parameters
    assert theirs["value_discretization_interval"].default == DISCRETISATION
    assert as_event(SOLUTION).fresh is False
    taken, said, other = (
        made.get_delta_for_epsilon(0.1)
        for made in (
            as_pld(SOLUTION, discretisation=0.01),
            as_pld(SOLUTION, queries=1, fresh=False, discretisation=0.01),
            as_pld(SOLUTION, fresh=True, discretisation=0.01),
        )
    )
    assert taken == said > other
    assert inspect.signature(as_pld).parameters["discretisation"].default == DISCRETISATION
    for epsilon in EPSILONS[:3]:
        assert privacy_map(SOLUTION)(1)(epsilon) == privacy_map(SOLUTION, queries=1)(1)(epsilon)
    twice, fresh = privacy_map(SOLUTION, queries=2), privacy_map(SOLUTION, queries=2, fresh=True)
    assert twice(1)(0.1) == privacy_map(SOLUTION, queries=2, fresh=False)(1)(0.1) > fresh(1)(0.1)


def test_an_infinite_loss_has_at_most_probability_1() -> None:
    leaking = Problem(1, Privacy(0.5, 0.999), Privacy(0.6, 0.9991))
    certain = as_pld((NoiseFunction(np.ones(2), 1), leaking), queries=9, discretisation=0.1, fresh=True)
    assert certain._pmf_remove._infinity_mass == certain.get_delta_for_epsilon(50.0) == 1.0


@for_each("queries", [-1, 1.5, True, "2"])
def test_invalid_numbers_of_releases_are_refused(queries: Any) -> None:
    with refused("queries"):
        privacy_map(SOLUTION, queries=queries)


def test_invalid_arguments_are_refused() -> None:
    with refused("d_in", "-1"):
        privacy_map(SOLUTION, fresh=True)(-1)
    with refused("queries", "0"):
        as_pld(SOLUTION, queries=0, fresh=True)
    with refused("epsilon", "-1"):
        privacy_map(SOLUTION, fresh=True)(1)(-1)


def test_the_error_of_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.privacy_accountant", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'darrm-opt\[accounting\]'"):
        pld_accountant()


# ------------------------------------------------------------------------------------------ any mechanism

SMALL = NoisyMaximum(4, 3, 1.5)
CHECKED = NoisyMaximum(4, 3, 1.5, threshold=2.5, check_sigma=1.2)
SELECTION = mechanism_class("permute_and_flip").of(4, 3, 0.6)


def law(mechanism: VoteMechanism, counts: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the law of one answer, by independent code."""
    if isinstance(mechanism, NoisyMaximum):
        if mechanism.threshold is None or mechanism.check_sigma is None:
            return label_law(counts, mechanism.sigma)
        return checked_law(counts, mechanism.sigma, mechanism.threshold, mechanism.check_sigma)
    lags = np.array(counts) - max(counts)
    chances = np.zeros(len(counts))
    for order in permutations(range(len(counts))):  # permute-and-flip, in all orders
        left = 1.0
        for label in order:
            chances[label] += left * math.exp(0.6 * lags[label])
            left *= 1 - math.exp(0.6 * lags[label])
    return chances / math.factorial(len(counts))


def moves(K: int, classes: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(here, there) for here in vote_counts(K, classes) for there in neighbours(here, 1)]


def same_voter(K: int, classes: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Return the counts if one voter votes a, b and c in three queries."""
    for rest in vote_counts(K - 1, classes):
        for votes in product(range(classes), repeat=3):
            yield tuple(tuple(n + (c == vote) for c, n in enumerate(rest)) for vote in votes)


def excess(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("mechanism", [SMALL, CHECKED, SELECTION], ids=["labels", "checked", "permute and flip"])
def test_a_converted_mechanism_is_above_all_pairs_of_votes(mechanism: VoteMechanism) -> None:
    laws = {counts: law(mechanism, counts) for counts in vote_counts(4, 3)}
    one, two = (as_pld(mechanism, queries=queries, discretisation=1e-3) for queries in (1, 2))
    for epsilon in (0.0, 0.2, 0.5, 1.0):
        worst = max(excess(laws[here], laws[there], epsilon) for here, there in moves(4, 3))
        assert worst <= one.get_delta_for_epsilon(epsilon) * (1 + 1e-9)
        twice = max(
            excess(np.outer(laws[a], laws[b]).ravel(), np.outer(laws[x], laws[y]).ravel(), epsilon)
            for (a, x), (b, y) in product(moves(4, 3)[::7], repeat=2)
        )
        assert twice <= two.get_delta_for_epsilon(epsilon) * (1 + 1e-9)
        if mechanism is SMALL:  # and close: other votes are not much worse
            assert one.get_delta_for_epsilon(epsilon) <= worst + 0.08


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("mechanism", [SMALL, SELECTION])
def test_a_converted_sampled_mechanism_is_above_its_pairs(mechanism: VoteMechanism, neighbours: str) -> None:
    scheme = "poisson" if neighbours == "add-remove" else "without-replacement"
    sampling, rate = Sampling(20, 5, scheme=scheme), 0.25  # type: ignore[arg-type]  # both are schemes
    laws = {counts: law(mechanism, counts) for counts in vote_counts(4, 3)}
    one = as_pld(mechanism, discretisation=1e-3, sampling=sampling)
    for epsilon in (0.0, 0.1, 0.4):
        for off, *in_sample in same_voter(4, 3):
            mixed = [(1 - rate) * laws[off] + rate * laws[on] for on in in_sample]
            pairs = [(laws[off], mixed[0]), (mixed[0], laws[off])] if neighbours == "add-remove" else [mixed]
            worst = max(excess(p, q, epsilon) for p, q in pairs)
            assert worst <= one.get_delta_for_epsilon(epsilon) * (1 + 1e-9)
            if neighbours == "add-remove":
                for pmf, (p, q) in zip((one._pmf_add, one._pmf_remove), pairs, strict=True):
                    assert excess(p, q, epsilon) <= pmf.get_delta_for_epsilon(epsilon) * (1 + 1e-9)
    removed, added = (each.get_delta_for_epsilon(0.4) for each in (one._pmf_remove, one._pmf_add))
    assert removed > added if neighbours == "add-remove" else removed == added
    many = as_pld(mechanism, queries=50, discretisation=1e-3, sampling=sampling)
    assert many.get_epsilon_for_delta(1e-5) < as_pld(mechanism, queries=50).get_epsilon_for_delta(1e-5)


@pytest.mark.parametrize("mechanism", [SMALL, CHECKED, SELECTION], ids=["labels", "checked", "permute and flip"])
def test_the_rdp_of_a_mechanism_is_above_that_of_its_pairs(mechanism: VoteMechanism) -> None:
    orders = np.array([1.5, 2.0, 6.0, 30.0])
    bound = renyi_divergences(mechanism, None, orders)
    laws = {counts: law(mechanism, counts) for counts in vote_counts(4, 3)}
    for place, order in enumerate(orders.tolist()):
        worst = max(renyi(laws[here], laws[there], order) for here, there in moves(4, 3))
        assert worst <= bound[place] * (1 + 1e-9)


def test_the_rdp_of_a_sampled_mechanism_is_above_that_of_its_pairs() -> None:
    orders = np.array([1.5, 2.0, 6.0, 30.0])
    bound = renyi_divergences(SELECTION, Sampling(20, 5), orders)
    laws = {counts: law(SELECTION, counts) for counts in vote_counts(4, 3)}
    for place, order in enumerate(orders.tolist()):
        mixed = [(laws[off], 0.75 * laws[off] + 0.25 * laws[on]) for off, on, _ in same_voter(4, 3)]
        worst = max(renyi(*pair, order) for p, q in mixed for pair in ((p, q), (q, p)))
        assert worst <= bound[place] * (1 + 1e-9)
        assert bound[place] <= 1.5 * worst


def test_rdp_is_rounded_up() -> None:
    orders = np.array([1.5, 2.0, 6.0])
    ((bounds, count),) = SMALL.bounds(1)
    divergence = bounds.bound()
    assert count == 1
    assert divergence is not None
    ratios = renyi_divergences(SMALL, None, orders) / divergence.renyi(orders)
    assert np.all((ratios > 1 + 6 * ULP) & (ratios < 1 + 10 * ULP))


@for_each("epsilon", [1.0, 30.0, 50.0, 100.0])
def test_the_rdp_of_a_pure_epsilon_is_that_of_randomised_response(epsilon: float) -> None:
    orders = np.array([1.5, 2.0, 6.0])
    bound = renyi_divergences(LaplaceMaximum(4, 3, 2 / epsilon), None, orders)
    log_sums = np.logaddexp((orders - 1) * epsilon, -orders * epsilon) - math.log1p(math.exp(-epsilon))
    assert np.all(bound >= log_sums / (orders - 1) * (1 - 1e-12))
    assert np.all(bound[:2] <= log_sums[:2] / (orders[:2] - 1) * 1.1)


def test_the_rdp_of_a_gamma_is_above_that_of_random_voters_and_close_to_the_worst() -> None:
    """Fresh ε-DP voters at random corners; the PLD gives nearly the same."""
    voter = 0.4
    solution = solve(Problem(5, Privacy(voter), Privacy(0.35), 1))
    orders, largest = np.array([1.5, 3.0, 20.0]), np.zeros(3)
    bound = renyi_divergences(Release.of(solution), None, orders, fresh=True)
    rng = np.random.default_rng(7)
    end = 1 / (1 + math.exp(voter))  # randomised response
    for row in (*rng.uniform(0, 1, (20, 4)), *product((0.0, end, 1 - end, 1.0), repeat=4)):
        for moved in (end, float(rng.uniform(0, math.exp(-voter)))):
            pairs = []
            for chance in (moved, min(moved * math.exp(voter), 1 - math.exp(-voter) * (1 - moved))):
                ones = np.array([1.0])
                for each in (*row, chance):
                    ones = np.convolve(ones, [1 - each, each])
                released = float(ones @ (1 + solution.noise.signed) / 2)
                pairs.append(np.array([released, 1 - released]))
            for p, q in (pairs, pairs[::-1]):
                found = [math.log(float(np.sum(p**a * q ** (1 - a)))) / (a - 1) for a in orders]
                largest = np.maximum(largest, found)
    assert np.all(largest <= bound)
    assert np.all(bound <= 1.5 * largest)
    both = [
        accountant.compose(as_event(solution, fresh=True), 20) for accountant in (rdp_accountant(), pld_accountant())
    ]
    by_rdp, by_pld = (each.get_epsilon(1e-4) for each in both)
    assert by_pld <= by_rdp * (1 + 1e-3) <= 1.3 * by_pld


def test_labels_join_dp_sgd_in_the_librarys_accountants() -> None:
    labels, step = (
        as_event(NoisyMaximum(250, 10, 40.0)),
        dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.5)),
    )
    makers: tuple[Callable[[], Any], ...] = (rdp_accountant, lambda: pld_accountant(1e-3))
    for make in makers:
        alone, both = make().compose(step, 500), make().compose(step, 500).compose(labels, 286)
        only = make().compose(labels, 286)
        assert max(alone.get_epsilon(1e-5), only.get_epsilon(1e-5)) < both.get_epsilon(1e-5)
        assert both.get_epsilon(1e-5) < alone.get_epsilon(5e-6) + only.get_epsilon(5e-6)
    labels_cost = rdp_accountant().compose(labels, 286).get_epsilon(1e-5)
    counts_cost = rdp_accountant().compose(dp_event.GaussianDpEvent(40 / math.sqrt(2)), 286).get_epsilon(1e-5)
    assert labels_cost < 0.8 * counts_cost


def test_invalid_conversions_are_refused() -> None:
    with refused("sampling"):
        as_pld(SMALL, sampling=Sampling(20, 5, labels=3))
    with refused("sampling"):
        as_pld(SOLUTION, sampling=Sampling(20, 5))
    with refused("neighbours"):
        pld_accountant(1e-3, "REPLACE_ONE").compose(as_event(SMALL, sampling=Sampling(20, 5)))
    fixed_size = as_event(SMALL, sampling=Sampling(20, 5, scheme="without-replacement"))
    with refused("neighbours"):
        pld_accountant(1e-3).compose(fixed_size)
    assert pld_accountant(1e-2, "REPLACE_ONE").compose(fixed_size).get_epsilon(0.01) > 0
    with refused("sampling"):
        renyi_divergences(SELECTION, Sampling(20, 5, labels=3), np.array([2.0]))
    with refused("released"):
        as_pld(NoisyMaximum(250, 10, 40.0, threshold=200.0, check_sigma=150.0), sampling=Sampling(2000, 500))


def test_the_loss_of_several_counts_is_that_of_one_sum() -> None:
    """Three votes move to two or three counts: the sum of the noisy counts has the loss of their joint law."""
    sigma, k = 1.3, np.arange(-16, 17)
    noise = np.exp(-(k**2) / (2 * sigma**2)) / np.exp(-(k**2) / (2 * sigma**2)).sum()
    known, epsilons = counts_of_any_votes(sigma, 4, 3), np.array([0.0, 0.5, 1.5, 3.0])
    assert (known.times, known.pairs.on_data.shape[0]) == (2, 6)
    for row, gains in enumerate(((3, 0, 0), (2, 1, 0), (1, 1, 1))):
        q = np.einsum("i,j,k->ijk", noise, noise, noise)
        p = np.roll(q, gains, axis=(0, 1, 2))
        exact = [np.maximum(p - math.exp(epsilon) * q, 0).sum() for epsilon in epsilons]
        for each in (2 * row, 2 * row + 1):
            pairs = LawPairs(known.pairs.on_data[[each]], known.pairs.on_neighbour[[each]])
            assert pairs.deltas(epsilons) == pytest.approx(exact, rel=1e-6, abs=1e-13)
    # between two classes all votes move to one count
    assert counts_of_any_votes(sigma, 2, 3).pairs.on_data.shape[0] == 2


def test_several_votes_among_many_classes_have_no_pld_if_the_laws_are_too_large() -> None:
    one, four = (
        as_pld(NoisyMaximum(250, 10, 40.0, affected=r), queries=20).get_epsilon_for_delta(1e-5) for r in (1, 4)
    )
    assert 3.5 * one < four < math.inf
    with refused("released"):
        as_pld(NoisyMaximum(2500, 10, 400.0, affected=9), queries=20)


def test_sampled_conversions_charge_truncated_noise_and_voters_trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Voters trained once reveal less in one release; the largest probability of truncated noise; e^700."""
    asked = list[int]()

    def bounds(least: int) -> Any:
        asked.append(least)
        return [("bounds", 3)]

    fixed: Any = SimpleNamespace(is_fixed=True, bounds=bounds)
    of_parts: list[Any] = [interop._releases(fixed, queries, fresh=False) for queries in (1, 4)]
    assert of_parts == [[("bounds", -(-3 // interop.COMPOSED_QUERIES))], [("bounds", 3)]]
    assert asked == [interop.COMPOSED_QUERIES, 4]
    families = [SimpleNamespace(missing=missing, pairs=lambda _: ["added", "removed"]) for missing in (0.1, 0.3, 0.2)]
    monkeypatch.setattr(interop, "_checked_sampling", lambda *_: SimpleNamespace(sampled_laws=lambda _: families))
    monkeypatch.setattr(interop, "direction_pld", lambda each, missing, *_: (each[0], missing))
    found: Any = interop._sampled(SMALL, 4, Sampling(20, 5), 0.1)
    assert found == [("removed", 0.3), ("added", 0.3)]
    event = ReleaseGuarantee(Privacy(MAX_RANGE))
    monkeypatch.setattr(interop, "_releases", lambda *_, **__: [(event, 1)])
    assert np.isfinite(renyi_divergences(SMALL, None, np.array([2.0]))).all()
