"""Totals of many releases: never below adaptive adversaries, the least of all accounts, and their inverse."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.enumeration import adaptive_bits_delta, vote_pairs
from support.refusals import refused

from darrm_opt import Privacy, Problem, solve
from darrm_opt.accounting.accounts import CHEAP, SEARCHED
from darrm_opt.accounting.guarantee import ReleaseGuarantee, estimated_shift
from darrm_opt.accounting.labels.composition import bounded_range_divergence
from darrm_opt.accounting.law_pairs import BitPairs, LawPairs
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import cost, most_releases, refuse_samples, total_of
from darrm_opt.errors import TooMuchWork
from darrm_opt.mechanisms import calibrated_names, mechanism_class
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum

PARAMETERS = {
    "permute_and_flip": 0.3,
    "exponential": 0.4,
    "laplace": 4.0,
    "gnmax": 3.0,
    "subsampling": 0.8,
    "randomized_response": 0.4,
}


@for_each("name", PARAMETERS)
@for_each(("K", "affected", "queries"), [(3, 1, 3), (4, 2, 2)])
def test_never_below_any_adaptive_strategy(name: str, K: int, affected: int, queries: int) -> None:
    mechanism = mechanism_class(name).of(K, 2, PARAMETERS[name], affected)
    shown = [vote_pairs(mechanism.gamma, affected)] * queries
    for delta in (1e-4, 1e-2):
        found = cost(mechanism, queries, delta)
        assert adaptive_bits_delta(shown, found.epsilon) <= Fraction(delta)
        if found.epsilon > 0.01:  # and close to it
            assert adaptive_bits_delta(shown, 0.998 * found.epsilon - 1e-3) > Fraction(delta)


def test_every_calibrated_mechanism_is_tested() -> None:
    assert set(PARAMETERS) == set(calibrated_names()), "add it to PARAMETERS"


def test_the_least_account_is_named() -> None:
    pure = ReleaseGuarantee(Privacy(0.1))
    one = total_of([(pure, 20)], 0.0)
    assert (one.epsilon, one.account) == (2.0, "simple")  # as written: 20 · 0.1
    many = total_of([(pure, 200)], 1e-6)
    assert many.account == "optimal"
    assert many.epsilon == min(many.epsilons.values())
    ranged = total_of([(ReleaseGuarantee(Privacy(0.1), divergence=lambda: bounded_range_divergence(0.1)), 200)], 1e-6)
    assert ranged.account in ("renyi", "gaussian")
    assert ranged.epsilon < many.epsilon
    assert total_of([], 0.0).epsilon == 0.0
    leaks = LawPairs(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    nothing = total_of([(ReleaseGuarantee(laws=lambda: leaks), 3)], 1e-6)
    assert (nothing.epsilon, nothing.account) == (math.inf, "none")
    assert total_of([(ReleaseGuarantee(laws=lambda: leaks), 1)], 0.6).account == "laws"


@for_each("name", PARAMETERS)
@for_each("total", [Privacy(1.0, 1e-5), Privacy(2.0)])
def test_most_releases_fit_and_one_percent_more_do_not(name: str, total: Privacy) -> None:
    mechanism = mechanism_class(name).of(7, 2, PARAMETERS[name] if name != "gnmax" else 20.0)
    most = most_releases(mechanism, total)
    assert mechanism.fits(total, most.queries)
    assert not mechanism.fits(total, math.ceil(1.011 * most.queries) + 1)
    assert most.account in ("bits", "laws", "simple", "optimal", "none")


@pytest.mark.parametrize(
    ("releases", "delta", "argument"), [(-1, 0.1, "releases"), (1.5, 0.1, "releases"), (1, 1.0, "delta")]
)
def test_invalid_arguments_are_refused(releases: Any, delta: float, argument: str) -> None:
    with refused(argument):
        cost(mechanism_class("laplace").of(3, 2, 1.0), releases, delta)


@for_each("rate", [0.11, 0.2, 0.25, 0.4, 0.77])
def test_without_delta_releases_cost_their_largest_losses(rate: float) -> None:
    """Exactly, for any number of releases: every release may have the same pair of votes, and its losses add up."""
    chances = [1 / (1 + math.exp(rate * lead)) for lead in (3, 1, -1, -3)]  # of a class that trails by this many votes
    largest = max(abs(math.log(p / q)) for p, q in pairwise(chances))
    mechanism = mechanism_class("exponential").of(3, 2, rate)
    for queries in range(1, 8):
        assert mechanism.epsilon(queries, 0.0) == pytest.approx(queries * largest, rel=1e-9)
        assert mechanism.epsilon(queries, 0.0) >= queries * largest * (1 - 1e-13)


def test_only_the_models_account_for_a_plain_majority() -> None:
    mechanism = CertifiedNoiseFunction(Release.of(solve(Problem(3, Privacy(0.1, 0.01), Privacy(1.5, 0.02), 1))))
    assert (mechanism.gamma.values == 1).all()  # an answer may be certain on one side only
    assert mechanism.most_releases(Privacy(0.11, 0.01)).account == "models"
    assert mechanism.most_releases(Privacy(0.05, 1e-3)).queries == 0
    assert mechanism.cost(2, 1e-3).account == "none"


def test_an_estimated_shift_is_that_of_the_same_hellinger_distances() -> None:
    """The affinity of a Gaussian mechanism is e^(−μ²/8), and those of releases multiply."""
    laws = LawPairs(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]]))
    known, unknown = ReleaseGuarantee(laws=lambda: laws), ReleaseGuarantee(Privacy(0.1))
    bounded = ReleaseGuarantee(divergence=lambda: bounded_range_divergence(0.5))
    distance = float(bounded_range_divergence(0.5).at(np.array([0.5]))[0])  # 4·(1 − affinity)
    logs = [math.log(math.sqrt(1 / 8) + math.sqrt(3 / 8)), math.log(1 - distance / 4)]
    assert estimated_shift([(known, 3)]) == pytest.approx(math.sqrt(-24 * logs[0]))
    assert estimated_shift([(known, 3), (bounded, 2)]) == pytest.approx(math.sqrt(-24 * logs[0] - 16 * logs[1]))
    assert estimated_shift([(known, 3), (unknown, 1)]) is None


def test_divergences_compete_if_the_grid_is_coarse() -> None:
    bits = BitPairs([Fraction(2, 5), Fraction(1, 2), Fraction(3, 5)], 1)
    parts, vertices = [(ReleaseGuarantee(laws=lambda: bits), 30)], bits.region.moves.shape[0]
    full = SEARCHED.points * 30.0 * vertices
    assert "gaussian" not in total_of(parts, 1e-3, effort=SEARCHED._replace(updates=full)).totals
    coarse = total_of(parts, 1e-3, effort=SEARCHED._replace(updates=full - 1)).totals
    assert {"bits", "profile", "moments", "renyi", "gaussian"} <= coarse.keys()
    assert "bits" in total_of(parts, 1e-3, effort=SEARCHED._replace(updates=full), skip=("laws",)).totals
    refused = total_of(parts, 1e-3, effort=SEARCHED._replace(updates=1000.0 * 30 * vertices)).refused
    assert isinstance(refused["bits"], TooMuchWork)


def test_samples_are_refused_with_private_voters_and_cost_nothing_without_releases() -> None:
    sampling = Sampling(20, 5)
    solution = solve(Problem(3, Privacy(0.5, 0.01), Privacy(0.6, 0.02)))
    private = CertifiedNoiseFunction(Release.of(solution))
    with refused("sampling"):
        cost(private, 2, 1e-3, sampling)
    with refused("sampling"):
        most_releases(solution, Privacy(1.0, 0.1), sampling)
    refuse_samples(private, None)
    mechanism = mechanism_class("permute_and_flip").of(3, 2, 0.5)
    refuse_samples(mechanism, sampling)
    nothing = cost(mechanism, 0, 1e-3, sampling)
    assert (nothing.epsilon, nothing.account, nothing.epsilons) == (
        0.0,
        "nothing is released",
        {"nothing is released": 0.0},
    )


def test_the_number_of_releases_within_a_sum_is_exact() -> None:
    mechanism: Any = SimpleNamespace(
        bounds=lambda releases: [(ReleaseGuarantee(Privacy(2.0**-10)), releases)], listed=lambda: None, effort=SEARCHED
    )
    most = most_releases(mechanism, Privacy(300.5 * 2.0**-10))
    assert (most.queries, most.account in CHEAP) == (300, True)


def test_the_total_of_two_kinds_is_at_least_that_of_one() -> None:
    """With listed laws, in both orders: the kind with the larger loss alone costs no more."""
    pairs = [LawPairs(np.array([p, p[::-1]]), np.array([p[::-1], p])) for p in ((0.34, 0.33, 0.33), (0.6, 0.3, 0.1))]
    cheap, dear = (ReleaseGuarantee(laws=partial(LawPairs, laws.on_data, laws.on_neighbour)) for laws in pairs)
    alone = total_of([(dear, 5)], 1e-4).epsilon
    for parts in ([(cheap, 2), (dear, 5)], [(dear, 5), (cheap, 2)]):
        both = total_of(parts, 1e-4)
        assert both.epsilons
        assert all(epsilon >= alone for epsilon in both.epsilons.values()), both.epsilons


@for_each("scheme", ["each-voter", "each-voter-with-replacement"])
@for_each("sample", [1, 50])
def test_if_each_voter_draws_there_is_no_unsampled_account(scheme: Any, sample: int) -> None:
    """A record may reach all voters then, and without samples only one."""
    found = cost(NoisyMaximum(4, 3, 2.0), 3, 1e-4, Sampling(100, sample, scheme=scheme))
    assert found.epsilons
    assert not any(name.endswith("unsampled") for name in found.epsilons)
    one = cost(NoisyMaximum(4, 3, 2.0), 3, 1e-4).epsilon
    assert found.epsilon > one or sample == 1
