"""Profiles of releases: the search, its limits, and the regions."""

from __future__ import annotations

import importlib
import math
from fractions import Fraction
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.refusals import refused
from support.rounded import hardly_above

from darrm_opt.accounting.bits.recursion import compose_bits, compose_bits_any_order
from darrm_opt.accounting.bits.region import inner_region, outer_region, privacy_region
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.accounting.release_profile import NoisyMajority, Release, ReleaseProfile, release_profile
from darrm_opt.accounting.total import total_privacy
from darrm_opt.design.privacy_profile import MIN_IMPROVEMENT
from darrm_opt.design.solver import solve
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import ULP

search = importlib.import_module("darrm_opt.accounting.release_profile")  # the package has a function of that name

KNOWN = {0.5: (0.3, 0.5, 0.12), 1.0: (0.4 - 0.08 * math.e, 0.4, 0.08)}


def profile_of(lines: list[tuple[float, float]]) -> ReleaseProfile:
    epsilons, deltas = np.array(lines).T
    region = outer_region([math.exp(each) * (1 + 2 * ULP) for each in epsilons], deltas)
    return ReleaseProfile(epsilons, deltas, np.zeros((len(lines), 2)), region, region)


def test_the_largest_loss_ignores_vertices_close_to_the_flat_end_only() -> None:
    """Two lines meet at q = share·flat/c, p = flat·(1 + share)."""
    flat, before, last = 0.1, math.e, math.exp(6.0)
    for share, found in ((0.5, 6.0), (1e-4, 6.0), (1e-6, 1.0)):
        q = share * flat / last
        profile = profile_of([(1.0, flat + q * (last - before)), (6.0, flat)])
        assert profile.delta(profile.max_loss) <= flat * (1 + 1.1e-5) + 1e-12
        assert profile.max_loss == pytest.approx(found, abs=2e-3), share


def test_the_least_significant_line_is_dropped_first() -> None:
    slopes = [math.exp(epsilon) for epsilon in (0.0, 0.25, 0.5, 1.0)]
    on_chord = 0.3 + (0.1 - 0.3) * (slopes[1] - slopes[0]) / (slopes[2] - slopes[0])
    lines = [(0.0, 0.3), (0.25, on_chord * (1 - 1e-9)), (0.5, 0.1), (1.0, 0.02)]
    fewer = profile_of(lines).coarser(1e-6)
    expected = outer_region(search._slopes(np.array([0.0, 0.5, 1.0])), [0.3, 0.1, 0.02])
    assert fewer.moves.tolist() == expected.moves.tolist()


def test_a_gap_is_in_units_of_the_tolerance() -> None:
    low, high = math.exp(0.5), math.e
    c = (0.5 - 0.4) / (0.12 - 0.08)
    above = 0.3 + (KNOWN[1.0][0] - 0.3) * (c - low) / (high - low)
    gap = above - (0.5 - c * 0.12)
    q = (0.3 - KNOWN[1.0][0]) / (high - low)
    p = 0.3 + low * q
    expected = -gap / (1e-3 * (p - q)), 0.5, math.log(c), 1.0
    assert search._gap(KNOWN, 0.5, 1.0, 1e-3) == pytest.approx(expected, rel=1e-9)
    assert search._gap(KNOWN, 0.5, 1.0, 0.0)[0] == pytest.approx(-gap / (16 * MIN_IMPROVEMENT * c), rel=1e-9)
    assert search._gap(KNOWN, 0.5, 1.0, gap / (p - q) * 0.99) is not None
    assert search._gap(KNOWN, 0.5, 1.0, gap / (p - q) * 1.01) is None
    assert search._gap(KNOWN | {math.log(c): (0, 0, 0)}, 0.5, 1.0, 1e-3) is None
    for same in ((0.2, 0.5, 0.08), (0.2, 0.4, 0.12)):
        assert search._gap(KNOWN | {1.0: same}, 0.5, 1.0, 1e-3) is None


def test_the_search_ends_if_the_profile_falls_by_rounding_only() -> None:
    c, q = math.exp(2.0), 0.01
    for units, goes_on in ((15.5, False), (16.5, True)):
        p = c * (q + units * MIN_IMPROVEMENT)
        assert (search._next_epsilon({2.0: (0.3, p, q)}) is not None) is goes_on


def test_the_widest_gap_is_refined_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the profile of Gaussian noise, where every slope has another pair."""

    def at(epsilon: float) -> tuple[float, float, float]:
        p, q = (NormalDist().cdf(sign * 0.5 - epsilon) for sign in (1, -1))
        return p - math.exp(epsilon) * q, p, q

    monkeypatch.setattr(search, "MAX_LINES", 0)
    first = search._search_profile(at, 0.01, 1e-6)
    gaps = [search._gap(first, low, high, 1e-6) for low, high in zip(sorted(first), sorted(first)[1:], strict=False)]
    found = [gap for gap in gaps if gap is not None]
    assert len(found) > 2
    assert min(found) != found[0]
    monkeypatch.setattr(search, "MAX_LINES", len(first) + 1)
    (added,) = set(search._search_profile(at, 0.01, 1e-6)) - set(first)
    assert added == min(found)[2]


def test_the_region_of_voters_that_are_not_private_is_exact() -> None:
    """It is that of the pairs of votes, not of searched lines, up to `MAX_LINES` voters."""
    problem, noise = (
        Problem(7, Privacy(math.inf), Privacy(1.0), 2),
        NoiseFunction(np.linspace(0.7, 0.1, 8)[[0, 1, 2, 3, 3, 2, 1, 0]]),
    )
    votes, profile = BitPairs.of_gamma(noise, 2), release_profile(noise, problem)
    assert profile.outer.moves.tolist() == votes.region.moves.tolist()
    assert profile.inner.moves.tolist() == votes.inner.moves.tolist()


def test_the_majority_of_many_voters_has_a_profile_and_totals() -> None:
    """Its δ at 0 is 1, which outward rounding exceeds by four units; 301 voters have more pairs than lines."""
    problem = Problem(301, Privacy(math.inf), Privacy(0.5, 1e-3), affected=1)
    profile = release_profile(np.ones(302), problem)
    assert profile.delta(0.0) == profile.deltas.max() == 1.0
    trained_once = solve(Problem.from_allowance(K=301, m=5, epsilon=0.1, Delta=1e-5, affected=1))
    total = total_privacy(trained_once, 30, 0.1)  # a record may change their models arbitrarily
    assert total.totals["models"] == Privacy(0.1, 1e-5)


def test_a_release_is_a_solution_or_a_pair() -> None:
    problem, gamma = Problem(3, Privacy(0.3), Privacy(0.3)), np.full(4, 0.1)
    assert Release.of((gamma, problem)) == Release(NoiseFunction(gamma), problem)
    for wrong in ((gamma,), (gamma, problem, problem), (gamma, "problem"), [gamma, problem], "release"):
        with refused("release"):
            Release.of(wrong)  # type: ignore[arg-type]


def test_one_unproved_region_leaves_no_guarantee() -> None:
    outer, inner = privacy_region(Privacy(0.3)), inner_region([(0.5, 0.4)])
    assert compose_bits([(outer, 1)], points=11).guaranteed
    for parts in ([(outer, 1), (inner, 1)], [(inner, 2), (outer, 1)]):
        assert not compose_bits(parts, points=11).guaranteed
        assert not compose_bits_any_order(parts, points=11).guaranteed


def test_a_line_is_proved_above_the_largest_loss_larger_than_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mirror image (½, ¼) of the first pair, then (½, ⅕), then rounding errors, each with ten times the step."""
    found = iter(
        [(0.01, 0.5, 0.2), (1e-3, 0.3, 0.3), (1e-3, 0.1, 0.2), (1e-3, 0.3, 0.0), (1e-3, 0.25, 0.2), (0.0, 0, 0)]
    )
    asked: list[float] = []

    def at(epsilon: float) -> tuple[float, float, float]:
        asked.append(epsilon)
        return next(found)

    lines = np.array([0.0, 0.5]), np.array([0.25, 0.125])
    region = outer_region([1.0], [0.5])
    pairs = np.array([[0.75, 0.5], [0.25, 0.0], [0.5, 0.5]])
    profile = ReleaseProfile(*lines, pairs, region, region, lambda: SimpleNamespace(at=at))  # type: ignore[arg-type,return-value]
    expected = [math.log(2) * (1 + 1e-6), *(math.log(2.5) * (1 + margin) for margin in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2))]
    moves = profile.lean.moves.tolist()
    assert asked == pytest.approx(expected, rel=1e-14)
    slopes = [*search._slopes(lines[0]), *search._slopes(np.array(asked[-1:]))]
    assert moves == outer_region(slopes, [0.25, 0.125, 0.0]).moves.tolist()
    equal = ReleaseProfile(*lines, pairs[2:], region, region, lambda: SimpleNamespace(at=at))  # type: ignore[arg-type,return-value]
    assert equal.lean is region
    certain = ReleaseProfile(lines[0], np.array([0.5, 1.0]), pairs, region, region)
    assert [line.delta for line in certain.lines] == [0.5 * (1 + 1e-12), 1 - 1e-9]
    assert certain.lean is region
    monkeypatch.setattr(search, "pld_from_profile", lambda *_, **of: SimpleNamespace(repeated=lambda n: (n, of)))
    of_steps: list[Any] = [certain.pld(0.25, count=3), certain.pld(count=3)]
    assert [of["discretisation"] for _, of in of_steps] == [0.25, certain.discretisation(3)]


def test_a_search_starts_at_the_target_or_its_limit_and_proves_its_points(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[float] = []

    def profile(_: object, start: float, __: float) -> dict[float, tuple[float, float, float]]:
        starts.append(start)
        return {0.0: (0.5, 0.75, 0.25), 1.0: (0.25, 0.5, 0.125)}

    monkeypatch.setattr(search, "_search_profile", profile)
    for target in (1.0, 99.0):
        release_profile(np.full(4, 0.5), Problem(3, Privacy(math.inf), Privacy(target)))
    assert starts == [1.0, search.MAX_EPSILON]
    asked: list[list[float]] = []

    def at_each(epsilons: list[float]) -> dict[float, tuple[float, float, float]]:
        asked.append(epsilons)
        return dict.fromkeys(epsilons, (0.125, 0.5, 0.25))

    joint: Any = SimpleNamespace(known=None, at_each=at_each)
    assert search._joint_search(joint, 1.0, 0.0) == dict.fromkeys((0.0, 1.0), (0.125, 0.5, 0.25))
    assert asked == [[0.0, 1.0]]
    new: dict[float, tuple[float, float, float]] = {}

    def always_more(*_: object) -> dict[float, tuple[float, float, float]]:
        new[float(len(new))] = (0.5, 0.75, 0.25)
        return new

    monkeypatch.setattr(search, "_search_profile", always_more)
    assert search._joint_search(joint, 1.0, 0.0) == dict.fromkeys(new, (0.125, 0.5, 0.25))
    assert len(new) == search.MAX_JOINT_ROUNDS


def test_an_uncertified_majority_states_its_profile() -> None:
    """One vote of three moves Pr[1] from 0.45 to 0.55."""
    noise, voters = NoiseFunction(np.full(4, 0.1)), Problem(3, Privacy(math.inf), Privacy(1e-3, 0.01), 1)
    event = NoisyMajority(noise, voters).guarantee.event()
    assert event is not None
    assert event.delta == 0.01
    assert 0 <= event.epsilon - math.log(0.54 / 0.45) < 1e-9
    pure = NoisyMajority(noise, Problem(3, Privacy(math.inf), Privacy(1e-3), 1)).guarantee
    assert pure.privacy is None


LINES = [(0.0, 0.3), (0.5, 0.1), (1.0, 0.02)]


def test_a_profile_is_the_maximum_over_the_vertices_rounded_up() -> None:
    profile = profile_of(LINES)
    corners = [(Fraction(p), Fraction(q)) for row in profile.outer.moves.tolist() for p, q in (row[::2], row[1::2])]
    for epsilon in (-3.0, -0.2, 0.0, 0.3, 0.5, 0.77, 1.0, 2.0, 30.0):
        c = Fraction(math.exp(epsilon))
        exact = min(Fraction(1), max(Fraction(0), *(p - c * q for p, q in corners)))
        assert hardly_above(profile.delta(epsilon), exact, 1e-14), epsilon
    assert profile(np.zeros((2, 3))).shape == (2, 3)
    assert profile.delta(-700.0) == 1.0
    for epsilon, delta in LINES:
        assert hardly_above(profile.delta(epsilon), delta, 1e-14)


def test_a_profile_is_flat_above_its_largest_finite_loss() -> None:
    leaks = profile_of(LINES)
    flat = leaks.delta(30.0)
    assert leaks.delta(leaks.max_loss) <= flat * (1 + 1e-5) + 1e-12
    assert leaks.delta(0.99 * leaks.max_loss) > flat * (1 + 1e-4)
    pure = profile_of([(0.4, 0.0)])
    assert hardly_above(pure.max_loss, 0.4, 1e-14)
    assert pure.discretisation(1) == pure.max_loss / 2000
    assert pure.discretisation(10**6) == pure.max_loss / (search.MAX_DEFAULT_CELLS // (40 * 10**3))
    assert pure.discretisation(10**18) == pure.max_loss
    assert profile_of([(0.0, 0.0)]).discretisation(5) == 1.0
    with pytest.raises(DeltaTooSmall, match=r"one release may leak with that probability, rounding included"):
        leaks.epsilon(flat * (1 - 1e-9))
    assert leaks.epsilon(flat) <= leaks.max_loss


def test_lines_are_dropped_while_delta_rises_within_the_tolerance() -> None:
    profile = profile_of(LINES)
    slopes = [math.exp(epsilon) for epsilon, _ in LINES]
    between = 0.3 + (0.02 - 0.3) * (slopes[1] - slopes[0]) / (slopes[2] - slopes[0])
    rise = between / 0.1 - 1
    assert profile.coarser(rise * (1 - 1e-9)).moves.shape == profile.outer.moves.shape
    fewer = profile.coarser(rise * (1 + 1e-9))
    assert np.allclose(fewer.moves, profile_of([LINES[0], LINES[2]]).outer.moves, rtol=1e-12, atol=1e-15)
    assert profile.coarser(0.0, 0.1 * rise * (1 + 1e-9)).moves.tolist() == fewer.moves.tolist()
    assert profile.coarser(0.0).moves.shape == profile.outer.moves.shape
    assert profile.coarser(1e9).moves.shape[0] >= 2  # both ends remain


def test_the_search_continues_while_the_profile_may_fall() -> None:
    following = search._next_epsilon
    assert following({0.0: (0.3, 0.5, 0.2)}) == pytest.approx(math.log(2.5) + 1e-5, rel=1e-12)
    assert following({1.0: (0.0, 0.5, 0.16)}) == pytest.approx(1.25 + 1e-5, rel=1e-12)
    assert following({20.0: (0.0, 1.0, 9e-14)}) == 30.0
    for over in ({30.0: (0.1, 1.0, 1e-15)}, {1.0: (0.5, 0.5, 1e-6 / math.e)}, {1.0: (0.0, 0.5, 0.5 / math.e)}):
        assert following(over) is None


def test_slopes_are_rounded_up() -> None:
    (slope,) = search._slopes(np.array([0.3]))
    assert hardly_above(slope, math.exp(0.3), 1e-15)
    assert slope > math.exp(0.3)


def test_the_distribution_of_a_profile_is_that_of_one_release_by_default() -> None:
    profile = profile_of(LINES)
    assert profile.pld(0.1).delta(0.2) == profile.pld(0.1, count=1).delta(0.2) < profile.pld(0.1, count=2).delta(0.2)
