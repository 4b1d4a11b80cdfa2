"""Parts of the accounts one at a time, on objects made by hand: values by their formula, from above, and what is refused at each limit."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support.refusals import refused

from darrm_opt import NoiseFunction, Privacy, Problem
from darrm_opt.accounting import accounts, mixture, pld, total
from darrm_opt.accounting.bits import recursion
from darrm_opt.accounting.bits.recursion import BitTotal, compose_bits, compose_bits_any_order
from darrm_opt.accounting.bits.region import outer_region, privacy_region
from darrm_opt.accounting.composition import NotApplicable
from darrm_opt.accounting.mixture import AffectedDistribution, CountGroup, MixtureTotal, count_groups, mixture_total
from darrm_opt.accounting.pld import common_discretisation, pld_from_profile, pld_of, symmetric_profile
from darrm_opt.accounting.release_profile import Release, ReleaseProfile
from darrm_opt.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP

release_profile = importlib.import_module(
    "darrm_opt.accounting.release_profile"
)  # the package has a function of that name

TIGHT = 1e-13


def hardly_above(value: float, exact: float | Fraction, room: float = TIGHT) -> bool:
    least = Fraction(exact)
    return least <= Fraction(value) <= least + Fraction(room) * max(Fraction(1), least)


# ----------------------------------------------------------------------------------------------- the recursion on bits

CURVE = BitTotal(0.5, np.array([0.5, 0.2, 0.1]), guaranteed=True)


def test_between_grid_points_a_total_is_the_chord_in_the_odds() -> None:
    for epsilon, exact in ((0.0, 0.5), (0.5, 0.2), (1.0, 0.1), (7.0, 0.1), (math.inf, 0.1)):
        assert hardly_above(CURVE.delta(epsilon), exact), epsilon
    for cell, (left, right) in enumerate([(0.5, 0.2), (0.2, 0.1)]):
        for inside in (0.1, 0.25, 0.4):
            share = math.expm1(inside) / math.expm1(0.5)
            assert hardly_above(CURVE.delta(0.5 * cell + inside), left + share * (right - left) - 1e-15)
    assert BitTotal(0.5, np.zeros(3), guaranteed=True).delta(0.2) == 0.0
    assert BitTotal(0.5, np.full(3, 1.0), guaranteed=True).delta(0.2) == 1.0
    with refused("epsilon"):
        CURVE.delta(-0.1)


def test_a_total_epsilon_is_where_the_curve_meets_delta() -> None:
    assert CURVE.epsilon(0.6) == 0.0
    assert hardly_above(CURVE.epsilon(0.2), 0.5)
    assert hardly_above(CURVE.epsilon(0.1 + 1e-12), 1.0 - 1e-10, 1e-9)
    assert hardly_above(BitTotal(2.0, CURVE.values, guaranteed=True).epsilon(0.1 + 1e-12), 4.0 - 1e-9, 1e-8)
    with pytest.raises(DeltaTooSmall) as refused:
        CURVE.epsilon(0.0999)
    assert hardly_above(refused.value.floor, 0.1)
    assert "that is the probability of an infinite loss, rounding included" in str(refused.value)


def test_the_work_of_a_recursion_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    region = privacy_region(Privacy(0.3))
    updates = region.moves.shape[0] * 3 * 11
    monkeypatch.setattr(recursion, "MAX_WORK", updates)
    assert compose_bits([(region, 3)], points=11).values.size == 11
    monkeypatch.setattr(recursion, "MAX_WORK", updates - 1)
    with pytest.raises(TooMuchWork, match=r"updates exceed the limit of"):
        compose_bits([(region, 3)], points=11)
    with pytest.raises(TooMuchWork):  # of one kind there is one order
        compose_bits_any_order([(region, 3)], points=11)
    monkeypatch.setattr(recursion, "MAX_WORK", updates)
    assert compose_bits_any_order([(region, 3)], points=11).values.size == 11
    other = privacy_region(Privacy(0.4))
    states = (region.moves.shape[0] + other.moves.shape[0]) * (3 + 1) * (2 + 1)  # 0 to 3 and 0 to 2 of them done
    monkeypatch.setattr(recursion, "MAX_WORK", states * 11)
    assert compose_bits_any_order([(region, 3), (other, 2)], points=11).values.size == 11
    monkeypatch.setattr(recursion, "MAX_WORK", states * 11 - 1)
    with pytest.raises(TooMuchWork):
        compose_bits_any_order([(region, 3), (other, 2)], points=11)


def test_releases_that_are_not_made_cost_nothing() -> None:
    region = privacy_region(Privacy(0.3))
    assert compose_bits([(region, 0)], points=3).epsilon(0.0) == 0.0
    assert not compose_bits([(region, 1)], points=3).values.flags.writeable


# ------------------------------------------------------------------------------------------------- profiles of releases


def profile_of(lines: list[tuple[float, float]]) -> ReleaseProfile:
    epsilons, deltas = np.array(lines).T
    region = outer_region([math.exp(each) * (1 + 2 * ULP) for each in epsilons], deltas)
    return ReleaseProfile(epsilons, deltas, np.zeros((len(lines), 2)), region, region)


LINES = [(0.0, 0.3), (0.5, 0.1), (1.0, 0.02)]


def test_a_profile_is_the_largest_over_the_vertices_rounded_up() -> None:
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


def test_a_profile_is_flat_from_its_largest_finite_loss_on() -> None:
    leaks = profile_of(LINES)
    flat = leaks.delta(30.0)
    assert leaks.delta(leaks.max_loss) <= flat * (1 + 1e-5) + 1e-12
    assert leaks.delta(0.99 * leaks.max_loss) > flat * (1 + 1e-4)
    pure = profile_of([(0.4, 0.0)])
    assert hardly_above(pure.max_loss, 0.4, 1e-14)
    assert pure.discretisation(1) == pure.max_loss / 2000
    assert pure.discretisation(10**6) == pure.max_loss / (release_profile.MAX_DEFAULT_CELLS // (40 * 10**3))
    assert pure.discretisation(10**18) == pure.max_loss
    assert profile_of([(0.0, 0.0)]).discretisation(5) == 1.0
    with pytest.raises(DeltaTooSmall, match=r"one release may leak with that probability, rounding included"):
        leaks.epsilon(flat * (1 - 1e-9))
    assert leaks.epsilon(flat) <= leaks.max_loss


def test_lines_are_left_out_while_delta_rises_by_no_more_than_its_share() -> None:
    profile = profile_of(LINES)
    slopes = [math.exp(epsilon) for epsilon, _ in LINES]
    between = 0.3 + (0.02 - 0.3) * (slopes[1] - slopes[0]) / (slopes[2] - slopes[0])
    rise = between / 0.1 - 1
    assert profile.coarser(rise * (1 - 1e-9)).moves.shape == profile.outer.moves.shape
    fewer = profile.coarser(rise * (1 + 1e-9))
    assert np.allclose(fewer.moves, profile_of([LINES[0], LINES[2]]).outer.moves, rtol=1e-12, atol=1e-15)
    assert profile.coarser(0.0, 0.1 * rise * (1 + 1e-9)).moves.tolist() == fewer.moves.tolist()
    assert profile.coarser(0.0).moves.shape == profile.outer.moves.shape
    assert profile.coarser(1e9).moves.shape[0] >= 2  # the two at the ends stay


def test_the_gap_of_two_lines_is_what_the_outer_region_has_beyond_the_inner_one() -> None:
    """Pairs (0.5, 0.2) at slope 1 and (0.4, 0.1) at slope e: the tangents cross at slope 1 + e^…, by hand."""
    known = {0.0: (0.3, 0.5, 0.2), 1.0: (0.4 - 0.11 * math.e, 0.36, 0.11)}
    c = (0.5 - 0.36) / (0.2 - 0.11)
    above = 0.3 + (known[1.0][0] - 0.3) * (c - 1) / (math.e - 1)
    q = (0.3 - known[1.0][0]) / (math.e - 1)
    gap = (above - (0.5 - c * 0.2)) / (1e-3 * (0.3 + q - q))
    found = release_profile._gap(known, 0.0, 1.0, 1e-3)
    assert found == pytest.approx((-gap, 0.0, math.log(c), 1.0), rel=1e-9)
    assert release_profile._gap(known, 0.0, 1.0, 1e3) is None
    assert release_profile._gap(known | {math.log(c): (0, 0, 0)}, 0.0, 1.0, 1e-3) is None
    for same in ((0.2, 0.5, 0.11), (0.2, 0.36, 0.2)):
        assert release_profile._gap({0.0: known[0.0], 1.0: same}, 0.0, 1.0, 1e-3) is None


def test_the_search_goes_on_where_a_profile_may_still_fall() -> None:
    following = release_profile._next_epsilon
    assert following({0.0: (0.3, 0.5, 0.2)}) == pytest.approx(math.log(2.5) + 1e-5, rel=1e-12)
    assert following({1.0: (0.0, 0.5, 0.16)}) == pytest.approx(1.25 + 1e-5, rel=1e-12)
    assert following({20.0: (0.0, 1.0, 9e-14)}) == 30.0
    for over in ({30.0: (0.1, 1.0, 1e-15)}, {1.0: (0.5, 0.5, 1e-6 / math.e)}, {1.0: (0.0, 0.5, 0.5 / math.e)}):
        assert following(over) is None


def test_slopes_are_rounded_up() -> None:
    (slope,) = release_profile._slopes(np.array([0.3]))
    assert hardly_above(slope, math.exp(0.3), 1e-15)
    assert slope > math.exp(0.3)


# ------------------------------------------------------------------------------------------- privacy loss distributions


def test_the_guard_is_that_of_its_derivation() -> None:
    one = pld_of(Privacy(0.25, 1e-3), 0.25)
    assert one.mass_error == pld.MASS_ERROR
    assert hardly_above(one.guard, one.mass_error + (one.masses.size + 4 * one.max_loss + 8) * ULP, 1e-29)
    many = one.repeated(7)
    points = 2 * max(3, many.masses.size)
    eta = 4 * ULP * math.log2(points)
    fourier = math.sqrt(points) * (8 * eta + 7 * 8 * ULP)
    assert many.mass_error == pytest.approx(math.expm1(7 * one.mass_error) + fourier, rel=1e-12, abs=0)
    assert hardly_above(many.max_loss, 1.75, 1e-15)
    both = one.then(many)
    points = 2 * (3 + many.masses.size)
    error = one.mass_error + many.mass_error * (1 + one.mass_error)
    error += 3 * math.sqrt(points) * 4 * ULP * math.log2(points)
    assert both.mass_error == pytest.approx(error, rel=1e-12, abs=0)
    assert hardly_above(both.max_loss, 2.0, 1e-15)
    assert one.repeated(1) is one


def test_profiles_compose_on_the_grid_of_the_longest() -> None:
    voters = Problem(3, Privacy(0.3), Privacy(0.3))
    short, long = (Release(NoiseFunction(np.full(4, gamma)), voters) for gamma in (0.05, 0.1))
    assert short.profile.max_loss < long.profile.max_loss
    composed = accounts.compose_profiles([(short.profile, 1), (long.profile, 2)])
    assert composed.discretisation == long.profile.discretisation(3)


def test_the_distribution_of_a_profile_is_of_one_release_unless_said_otherwise() -> None:
    profile = profile_of(LINES)
    assert profile.pld(0.1).delta(0.2) == profile.pld(0.1, count=1).delta(0.2) < profile.pld(0.1, count=2).delta(0.2)


def test_lengths_of_distributions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    one = pld_of(Privacy(0.25, 1e-3), 0.25)
    whole = one.repeated(9)
    monkeypatch.setattr(pld, "MAX_CELLS", whole.masses.size)
    assert one.repeated(9).masses.size == whole.masses.size
    monkeypatch.setattr(pld, "MAX_CELLS", whole.masses.size - 1)
    with pytest.raises(TooMuchWork, match=r"a PLD at discretisation 0.25 would need 19 cells; the limit is 18"):
        one.repeated(9)
    monkeypatch.setattr(pld, "MAX_CELLS", 11)
    with pytest.raises(TooMuchWork, match=r"would need 12 cells; the limit is 11"):
        one.then(one)
    with refused("discretisation"):
        one.then(pld_of(Privacy(0.5), 0.5))


def test_no_mechanism_costs_nothing() -> None:
    nothing = pld.pld_composition_of_sequence({}, 0.1)
    assert (nothing.privacy, nothing.guard) == (Privacy(0.0, 0.1), 0.0)


def test_a_common_discretisation_divides_what_is_written() -> None:
    assert common_discretisation([0.3, 0.2]) == pytest.approx(0.1, rel=1e-15)
    assert common_discretisation([0.0, 0.0]) == 1.0
    assert common_discretisation([0.0], 0.25) == 0.25
    assert common_discretisation([0.7]) == 0.7
    assert common_discretisation([1.0], 0.3) == pytest.approx(1 / 3, rel=1e-15)
    assert common_discretisation([1.0, 0.5], 0.3) == 0.3
    cells = pld.DEFAULT_CELLS
    assert common_discretisation([1.0, 1.0 + 1e-12]) == (1.0 + 1e-12) / cells
    for bad in (0.0, -1.0, math.inf):
        with refused("discretisation"):
            common_discretisation([1.0], bad)


def test_the_profile_of_a_mechanism_is_that_of_randomised_response_rounded_up() -> None:
    profile = pld.profile_of_event(Privacy(0.7, 0.01))
    p = Fraction(1) / (1 + Fraction(math.exp(-0.7)))
    at = np.array([-3.0, -0.7, -0.2, 0.0, 0.3, 0.7, 2.0])
    for epsilon, found in zip(at.tolist(), profile(at).tolist(), strict=True):
        behind, before = (max(Fraction(0), 1 - Fraction(math.exp(epsilon - loss))) for loss in (0.7, -0.7))
        exact = Fraction(0.01) + (1 - Fraction(0.01)) * (p * behind + (1 - p) * before)
        assert exact - Fraction(1, 10**16) <= Fraction(found) <= exact * (1 + Fraction(1, 10**14)), epsilon
    assert profile(np.array([0.7]))[0] <= 0.01 * (1 + 20 * ULP)


def test_a_symmetric_profile_holds_at_every_epsilon() -> None:
    def half(epsilons: Array) -> Array:
        return np.asarray(np.maximum(0.0, 0.3 - epsilons))

    everywhere = symmetric_profile(half)
    assert everywhere(np.array([0.1])).tolist() == half(np.array([0.1])).tolist()
    (found,) = everywhere(np.array([-0.1]))
    assert hardly_above(found, 1 - math.exp(-0.1) * (1 - 0.2) - 1e-16, 2e-15)
    assert everywhere(np.array([-50.0])).tolist() == [1.0]


def test_a_profile_that_would_take_too_many_cells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    profile: Callable[..., object] = lambda at: np.where(at < 0, 1.0, 0.0)  # noqa: E731
    monkeypatch.setattr(pld, "MAX_CELLS", 8)
    assert pld_from_profile(profile, discretisation=0.25, max_loss=1.0).max_loss == 1.0  # type: ignore[arg-type]
    with pytest.raises(TooMuchWork, match=r"max_loss = 1.01 at discretisation 0.25 needs more than 8 cells"):
        pld_from_profile(profile, discretisation=0.25, max_loss=1.01)  # type: ignore[arg-type]
    for wrong in (lambda at: at[:-1], lambda at: 0 * at - 1e-9, lambda at: 0 * at + 1.0 + 1e-9):
        with refused("profile"):
            pld_from_profile(wrong, discretisation=0.25, max_loss=1.0)
    assert pld_from_profile(lambda at: 0 * at, discretisation=0.25, max_loss=0.0).max_loss == 0.25


# ------------------------------------------------------------------------------------------- averages over affected voters


def mixed(shares: list[tuple[int, float, float]], beyond: float = 0.01) -> MixtureTotal:
    parts = tuple(CountGroup(count, chance) for count, chance, _ in shares)
    curves = tuple((lambda epsilon, delta=delta: delta * math.exp(-epsilon)) for _, _, delta in shares)
    return MixtureTotal(parts, curves, beyond, 2.0)


def test_an_average_is_the_sum_of_its_parts_rounded_up() -> None:
    average = mixed([(1, 0.5, 0.1), (3, 0.25, 0.6)])
    for epsilon in (0.0, 1.0):
        exact = Fraction(0.01) + sum(
            Fraction(chance) * Fraction(delta * math.exp(-epsilon)) for chance, delta in ((0.5, 0.1), (0.25, 0.6))
        )
        assert hardly_above(average.delta(epsilon), exact, 1e-15)
    heaviest = average.heaviest(1.0)
    assert heaviest is not None
    assert heaviest.count == 3
    assert mixed([(1, 0.5, 0.0)]).heaviest(0.0) is None
    assert mixed([]).heaviest(0.0) is None
    assert mixed([], 0.0).delta(0.0) == 0.0
    assert mixed([(1, 1.0, 1.0), (2, 1.0, 1.0)]).delta(0.0) == 1.0
    assert average.epsilon(0.3) == 0.0
    assert average.epsilon(0.11) == pytest.approx(math.log(0.2 / 0.1), rel=1e-9)
    with pytest.raises(DeltaTooSmall, match=r"the probability of an infinite loss, over draws and answers"):
        average.epsilon(0.0)


def test_groups_leave_out_no_more_than_is_spared() -> None:
    law = AffectedDistribution((0.5, 0.25, 0.125, 0.0625, 0.0625))
    assert law.K == 4
    assert law.mean == pytest.approx(0.25 + 0.25 + 3 * 0.0625 + 4 * 0.0625)
    groups, beyond = law.parts(0.0)
    assert ([(group.count, group.chance) for group in groups], beyond) == (
        [(1, 0.25), (2, 0.125), (3, 0.0625), (4, 0.0625)],
        0.0,
    )
    groups, beyond = law.parts(0.0626)
    assert [group.count for group in groups] == [1, 2, 3]
    assert hardly_above(beyond, 0.0625, 1e-16)
    groups, beyond = law.parts(0.2)
    assert [group.count for group in groups] == [1, 2]
    groups, _ = law.parts(0.0, 2)
    assert [(group.count, group.chance) for group in groups] == [(1, 0.25), (4, 0.25)]
    assert AffectedDistribution.exactly(0, 3).parts(0.0) == ([], 0.0)
    rare = AffectedDistribution((0.9, 0.005, 0.004, 0.05, 0.05))
    assert [group.count for group in rare.parts(0.0, 2)[0]] == [3, 4]  # the near end costs next to nothing
    assert rare.parts(0.0, 2)[0][0].chance == pytest.approx(0.059)


def test_laws_of_affected_voters_are_checked() -> None:
    assert AffectedDistribution.exactly(2, 3).chances == (0.0, 0.0, 1.0, 0.0)
    assert AffectedDistribution.binomial(3, 0).chances == (1.0, 0.0, 0.0, 0.0)
    assert AffectedDistribution.binomial(3, 1).chances == (0.0, 0.0, 0.0, 1.0)
    exact = [math.comb(30, r) * Fraction(1, 7) ** r * Fraction(6, 7) ** (30 - r) for r in range(31)]
    for found, share in zip(AffectedDistribution.binomial(30, Fraction(1, 7)).chances, exact, strict=True):
        assert share <= Fraction(found) <= share * (1 + Fraction(1, 10**15))
    for bad in ((1.0,), (0.5, 0.4), (1.5, 0.0), (-0.1, 1.1)):
        with refused("chances"):
            AffectedDistribution(bad)
    for count, K in ((4, 3), (-1, 3)):
        with refused("count"):
            AffectedDistribution.exactly(count, K)
    for chance in (-0.1, 1.1):
        with refused("chance"):
            AffectedDistribution.binomial(3, chance)


def test_few_counts_where_each_is_dear() -> None:
    law, voters = AffectedDistribution.binomial(60, 0.4), Problem(60, Privacy(math.inf), Privacy(1.0))
    private = Problem(60, Privacy(0.3), Privacy(1.0))
    assert len(count_groups(voters, 1, law, 0.0)[0]) == mixture.MAX_GROUPS == 24
    assert len(count_groups(private, 1, law, 0.0)[0]) == mixture.MAX_PRIVATE_GROUPS == 8
    assert len(count_groups(voters, 300, law, 0.0)[0]) == 10  # 3000 steps
    assert len(count_groups(voters, 5000, law, 0.0)[0]) == mixture.MIN_GROUPS == 6
    assert count_groups(voters, 1, law, 0.1)[1] <= 4e-4
    with refused("distribution", "60"):
        mixture_total(np.zeros(6), Problem(5, Privacy(0.3), Privacy(1.0)), 2, law)
    with refused("queries"):
        mixture_total(np.zeros(61), voters, 0, law)


# ------------------------------------------------------------------------------------------------------------- totals


def test_totals_of_nothing() -> None:
    release = Release(NoiseFunction(np.full(4, 0.1)), Problem(3, Privacy(0.3), Privacy(0.3)))
    nothing = total.total_privacy(release, 0, 0.0, fresh=True)
    assert {each.epsilon for each in nothing.totals.values()} == {0.0}
    assert (nothing.epsilon_at_least, nothing.refused, nothing.fresh) == (0.0, {}, True)
    assert total.exact_epsilon(release.noise, release.problem, 0, 0.0) == 0.0
    assert total.total_privacy(release, 2, 1e-6).fresh is False


def test_the_recursion_of_a_total_takes_the_points_that_it_can_afford(monkeypatch: pytest.MonkeyPatch) -> None:
    release = Release(NoiseFunction(np.full(4, 0.1)), Problem(3, Privacy(0.3), Privacy(0.3)))
    asked: list[int] = []

    def composed(parts: object, *, points: int) -> BitTotal:
        asked.append(points)
        return compose_bits_any_order(parts, points=101)  # type: ignore[arg-type]

    monkeypatch.setattr(accounts, "compose_bits_any_order", composed)
    monkeypatch.setattr(accounts, "GRID_PRECISION", -1.0)  # no coarser grid will do
    vertices = release.profile.outer.moves.shape[0]
    bits = accounts.NAMES - {"bits"}
    for limit, points in ((1e12, 40_001), (vertices * 6 * 2000.5, 2000), (vertices * 6 * 1001, 1001)):
        total.total_of([(release.guarantee, 6)], 1e-6, effort=accounts.STATED._replace(updates=limit), skip=bits)
        assert asked[-1] == points
    short = accounts.STATED._replace(updates=vertices * 6 * 1001 - 1)
    refusal = total.total_of([(release.guarantee, 6)], 1e-6, effort=short, skip=bits).refused["bits"]
    assert "each on at least 1001 points, take too long" in str(refusal)


def test_the_least_total_within_delta_counts_and_the_least_floor_is_told() -> None:
    totals = {
        "simple": Privacy(1.0, 0.2),
        "pld": Privacy(3.0, 0.1),
        "bits": Privacy(2.0, 0.1),
        "models": Privacy(9.0, 0.0),
    }
    found = total.ReleaseTotal(0.1, totals, {})
    assert (found.method, found.best) == ("bits", Privacy(2.0, 0.1))
    floors: dict[str, NotApplicable] = {
        "bits": DeltaTooSmall(0.1, 0.3, "why"),
        "pld": DeltaTooSmall(0.1, 0.2, "why"),
        "long": TooMuchWork("long"),
    }
    with pytest.raises(DeltaTooSmall) as refused:
        _ = total.ReleaseTotal(0.1, {"simple": Privacy(1.0, 0.2)}, floors).best
    assert refused.value.floor == 0.2
    with pytest.raises(TooMuchWork):
        _ = total.ReleaseTotal(0.1, {}, {"long": floors["long"]}).method


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("queries", [1, 2, 7])
def test_a_delta_below_rounding_costs_no_more_than_none(queries: int, fresh: bool) -> None:
    noise, voters = NoiseFunction(np.full(3, 0.43)), Problem(2, Privacy(1.7e-12), Privacy(1.0), 1)
    none = total.exact_epsilon(noise, voters, queries, 0.0, fresh=fresh)
    for delta in (1e-300, 1e-18, 8e-14):
        assert total.exact_epsilon(noise, voters, queries, delta, fresh=fresh) <= none < 1e-11
