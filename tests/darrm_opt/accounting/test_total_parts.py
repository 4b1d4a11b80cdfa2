"""Parts of totals, with few voters: the grid of the recursion, the choice of accounts, and refusals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt import NoiseFunction, Privacy, Problem
from darrm_opt.accounting import accounts, total
from darrm_opt.accounting.accounts import STATED, Effort
from darrm_opt.accounting.bits.adversary import POINTS as ADVERSARY_POINTS
from darrm_opt.accounting.bits.recursion import MIN_POINTS, BitTotal, compose_bits_any_order
from darrm_opt.accounting.composition import NotApplicable
from darrm_opt.accounting.guarantee import ReleaseGuarantee, Releases
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.release_profile import NoisyMajority, Release
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.voters import PrivacyProfile

VOTERS = Problem(3, Privacy(0.3), Privacy(0.3))
RELEASE = Release(NoiseFunction(np.full(4, 0.1)), VOTERS)
OTHER = Release(NoiseFunction(np.full(4, 0.05)), VOTERS)


def leaking(delta: float, Delta: float = 0.0) -> Release:
    return Release(NoiseFunction(np.full(4, 0.1)), Problem(3, Privacy(0.3, Delta), Privacy(0.3, delta)))


def parts(release: NoisyMajority, count: int, other: int = 0) -> Releases:
    return [(release.guarantee, count), (OTHER.guarantee, other)]


def by(account: str, of: Releases, delta: float, effort: Effort = STATED) -> Privacy:
    """Return the total of one account, or raise its refusal."""
    found = total.total_of(of, delta, effort=effort, skip=accounts.NAMES - {account})
    if account in found.refused:
        raise found.refused[account]
    return found.totals[account]


def test_deltas_that_add_up_to_1_guarantee_nothing() -> None:
    quarter = leaking(0.25)
    assert by("simple", parts(quarter, 3), 0.9) == Privacy(0.9, 0.75)
    with pytest.raises(DeltaTooSmall, match="the deltas of the releases add up to 1 or more") as refused:
        by("simple", parts(quarter, 4), 0.9)
    assert refused.value.floor == 1.0


def test_a_sequence_leaks_at_least_as_much_as_each_release() -> None:
    """If all three voters agree the answer is certain; after one changed vote it is wrong with probability (1 − γ)/2."""
    voters = Problem(3, Privacy(math.inf), Privacy(1.0), 1)
    little, much = (
        NoisyMajority(NoiseFunction.from_upper_half(np.array([gamma, 1.0]), 3), voters) for gamma in (0.9, 0.5)
    )
    floors = [release.profile.delta(release.profile.max_loss) for release in (little, much)]
    assert floors == pytest.approx([0.05, 0.25])
    for order in ((little, much), (much, little)):
        for account, delta in (("profile", floors[0]), ("bits", 0.0)):
            with pytest.raises(DeltaTooSmall, match="one release may leak") as refused:
                by(account, [(each.guarantee, 1) for each in order], delta)
            assert refused.value.floor == floors[1]


@dataclass
class Curve:
    """The result of a recursion, with a given total."""

    value: float

    def epsilon(self, _delta: float) -> float:
        if self.value == math.inf:
            raise DeltaTooSmall(0.1, 0.2, "why")
        return self.value


STEP = 2.0**-20


@pytest.mark.parametrize(
    ("most", "found", "asked"),
    [
        (40_000, [1.0, 1.0], [5000, 10_000]),
        (40_000, [1.0 + STEP, 1.0], [5000, 10_000]),
        (40_000, [1.0 + 1.01 * STEP, 1.0, 0.9], [5000, 10_000, 40_000]),
        (40_000, [math.inf, 1.0, 0.9], [5000, 10_000, 40_000]),
        (8008, [1.0, 1.0], [1001, 2002]),
        (8007, [1.0], [8007]),
    ],
)
def test_a_finer_grid_is_used_if_it_gains_more_than_the_precision(
    monkeypatch: pytest.MonkeyPatch, most: int, found: list[float], asked: list[int]
) -> None:
    points, values = list[int](), iter(found)

    def composed(_parts: object, *, points: int, made: list[int] = points, values: Iterator[float] = values) -> Curve:
        made.append(points)
        return Curve(next(values))

    monkeypatch.setattr(accounts, "compose_bits_any_order", composed)
    monkeypatch.setattr(accounts, "GRID_PRECISION", STEP)
    assert by("bits", parts(RELEASE, 6), 0.1, STATED._replace(points=most)) == Privacy(found[-1], 0.1)
    assert points == asked


def test_at_a_given_epsilon_the_optimum_only_decides() -> None:
    of, delta = parts(RELEASE, 20), 1e-3
    optimum = by("optimal", of, delta).epsilon
    for share, holds in ((0.9999, False), (1.0001, True), (5.0, True)):
        effort = accounts.DECIDED._replace(only_within=share * optimum)
        found = total.total_of(of, delta, effort=effort, skip=accounts.NAMES - {"optimal"})
        assert found.totals == ({"optimal": Privacy(share * optimum, delta)} if holds else {})


def test_the_work_of_two_kinds_is_that_of_all_states() -> None:
    moves = sum(release.profile.outer.moves.shape[0] for release in (RELEASE, OTHER))
    work = 3 * 2 * moves * MIN_POINTS  # 0 to 2 of one kind, 0 or 1 of the other
    assert by("bits", parts(RELEASE, 2, 1), 1e-6, STATED._replace(updates=work)).epsilon > 0
    with pytest.raises(TooMuchWork):
        by("bits", parts(RELEASE, 2, 1), 1e-6, STATED._replace(updates=work - 1))


def test_other_accounts_compete_if_the_recursion_takes_too_long() -> None:
    of = parts(RELEASE, 5)
    short = STATED._replace(updates=0.0, convolved=4)
    found = total.total_of(of, 1e-3, effort=short)
    assert {"simple", "optimal", "points", "renyi", "gaussian"} == found.totals.keys()
    assert isinstance(found.refused["bits"], TooMuchWork)
    assert isinstance(found.refused["profile"], TooMuchWork)
    assert found.epsilon == min(found.epsilons.values()) == found.epsilons[found.account]
    assert "profile" in total.total_of(of, 1e-3, effort=short._replace(convolved=5)).totals
    enough = total.total_of(of, 1e-3, effort=short, enough=math.inf)
    assert enough.totals.keys() == {"simple"}


@for_each("found", [math.nan, math.inf])
def test_an_account_with_a_nan_epsilon_is_ignored(found: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounts, "compose_bits_any_order", lambda *_, **__: SimpleNamespace(epsilon=lambda _: found))
        stated = total.total_of(parts(RELEASE, 5), 1e-3)
    assert "bits" not in stated.totals
    assert isinstance(stated.refused["bits"], DeltaTooSmall)
    assert stated.epsilon < math.inf
    assert total.ReleaseTotal(0.1, {}).or_less({"bits": found}).epsilon == math.inf


def test_the_grid_of_a_search_depends_on_the_number_of_releases() -> None:
    points = {0: 40_001, 999: 40_001, 1000: 40_000, 20_000: 2001}
    assert {count: STATED.for_search(count).points for count in points} == points
    assert STATED.for_search(20_000).updates == STATED.for_search(100, quick=True).updates == STATED.updates
    for effort in (STATED.for_search(20_001), STATED.for_search(101, quick=True)):
        assert effort == Effort(40_001, 0.0, 0)


def test_limits_of_a_total_are_those_of_the_documentation() -> None:
    assert (accounts.MAX_RELEASES, total.MAX_FOUND, accounts.SEARCHED.convolved) == (10**9, 10**7, 100_000)
    assert STATED.updates == 2e9
    assert total.MAX_ADVERSARY_WORK == 2e8
    assert total.ReleaseTotal(0.1, {"bits": Privacy(1.0)}).best == Privacy(1.0)
    assert total.ReleaseTotal(0.1, {}).fresh is False


def test_the_number_of_releases_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(total, "MAX_RELEASES", 3)
    assert total.total_privacy(RELEASE, 3, 0.0, fresh=True).totals["simple"].epsilon > 0
    with refused("queries"):
        total.total_privacy(RELEASE, 4, 0.0, fresh=True)


@pytest.mark.parametrize("delta", [1e-300, 1e-50, 1e-16])
def test_a_total_at_delta_0_holds_at_every_delta(delta: float) -> None:
    """Grids and Rényi divergences once gave up to 37 times as much for a γ with δ > 0."""
    voters = Problem(5, Privacy(math.inf), Privacy(0.5, 1e-3))
    release = Release(NoiseFunction.from_upper_half(np.array([0.02, 0.06, 0.1]), 5), voters)
    for queries in (1, 2, 7):
        pure, some = (total.total_privacy(release, queries, each) for each in (0.0, delta))
        assert some.epsilon <= pure.epsilon < 2
        assert "losses" in some.totals.keys() - pure.totals.keys()  # at δ = 0 the account of bits adds them up
    # A table with more than two answers has no account of bits, and the sum of its (ε, δ) has δ > 0.
    laws = LawPairs(np.array([[0.4, 0.3, 0.3]]), np.array([[0.3, 0.4, 0.3]]))
    table = ReleaseGuarantee(Privacy(0.2, 0.01), lambda: laws)
    assert total.total_of([(table, 3)], 0.0).epsilon == pytest.approx(3 * math.log(4 / 3))


def test_without_a_total_by_bits_the_models_give_one_or_none_exists() -> None:
    certain = NoiseFunction.from_upper_half(np.array([0.9, 1.0]), 3)
    assert total.exact_epsilon(certain, VOTERS, 2, 0.0) == 0.9  # three models, each with ε = 0.3
    for fresh in (False, True):
        with pytest.raises(DeltaTooSmall):
            total.exact_epsilon(certain, Problem(3, Privacy(math.inf), Privacy(1.0)), 2, 0.01, fresh=fresh)


@for_each("queries", [0, 3])
@for_each("wrong", [1.0, -1e-9, "0.1"])
def test_the_total_delta_must_be_a_probability(queries: int, wrong: float) -> None:
    for ask in (total.total_privacy, lambda release, *rest: total.exact_epsilon(release.noise, release.problem, *rest)):
        with refused("total_delta"):
            ask(RELEASE, queries, wrong)


@pytest.mark.parametrize("wrong", [-1, 1.0, True])
def test_the_number_of_releases_must_be_an_integer(wrong: int) -> None:
    with refused("queries"):
        total.total_privacy(RELEASE, wrong, 0.1)
    with refused("queries"):
        total.exact_epsilon(RELEASE.noise, VOTERS, wrong, 0.1)
    with refused("queries"):
        total.total_delta_of(Privacy(0.3), wrong, 0.1)


def test_the_delta_of_a_slack() -> None:
    assert total.total_delta_of(Privacy(0.3, 0.5), 0, 0.0) == 0.0
    assert total.total_delta_of(Privacy(0.3, 0.5), 2, 0.0) == 0.75
    assert total.total_delta_of(Privacy(0.3, 0.5), 1, 0.5) == pytest.approx(0.75, rel=1e-14)
    exact = 1 - (1 - 3e-4) ** 100 * (1 - 1e-4)
    assert total.total_delta_of(Privacy(0.1, 3e-4), 100, 1e-4) == pytest.approx(exact, rel=1e-12)
    for wrong in (1.0, -0.1, "0.1"):
        with refused("slack"):
            total.total_delta_of(Privacy(0.3), 0, wrong)  # type: ignore[arg-type]
    with refused("queries"):
        total.total_delta_of(Privacy(0.3, 0.5), 2000, 0.0)


def test_only_voters_trained_once_are_accounted_as_models() -> None:
    once = total.total_privacy(RELEASE, 3, 0.0)
    assert once.totals["models"] == Privacy(0.9, 0.0)  # a record affects all three, each (0.3, 0)-DP
    assert once.epsilon_at_least is None
    fresh = total.total_privacy(RELEASE, 3, 0.0, fresh=True)
    assert "models" not in fresh.totals | fresh.refused
    assert fresh.epsilon_at_least is not None
    assert total.total_privacy(RELEASE, 1, 0.0).totals == total.total_privacy(RELEASE, 1, 0.0, fresh=True).totals
    unprotected = Problem(3, Privacy(math.inf), Privacy(0.3))
    mixed = total.total_privacy_of_sequence([(RELEASE, 2), ((np.zeros(4), unprotected), 1)], 0.0)
    assert "models" not in mixed.totals | mixed.refused
    leak = total.total_privacy(leaking(0.25, 0.01), 3, 0.02)
    assert str(leak.refused["models"]).startswith("no finite epsilon exists at delta = 0.02: each model")


# ------------------------------------------------------------------------------------------- accounts one by one


def test_listed_laws_are_exact_for_one_release_and_composed_adaptively(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "adaptive_epsilon", lambda *_: 7.0)
    laws = LawPairs(np.array([[0.5, 0.25, 0.25]]), np.array([[0.25, 0.5, 0.25]]))
    found = [accounts._of_one_law([(laws, count)], 0.125, STATED) for count in (1, 3)]
    assert found == [Privacy(laws.epsilon(0.125), 0.125), Privacy(7.0, 0.125)]


def test_points_without_a_total_report_the_least_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    floors = iter([0.5, 0.25, 0.75, *[0.9] * 99])

    def optimum(*_: object) -> Privacy:
        raise DeltaTooSmall(0.1, next(floors), "it leaks")

    monkeypatch.setattr(accounts, "optimal_composition", optimum)
    with pytest.raises(DeltaTooSmall) as caught:
        accounts._by_points([(RELEASE.profile, 3)], 0.1, STATED)
    assert caught.value.floor == 0.25


def test_each_point_of_a_single_model_is_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([5.0, 3.0, 5.0])
    monkeypatch.setattr(accounts, "_least", lambda *_: next(found))
    models = [PrivacyProfile([(0.5, 1e-3), (1.0, 1e-6)]), PrivacyProfile([(0.25, 1e-3), (2.0, 1e-6)])]
    one = accounts._by_model_profiles([(models[0], 2)], 0.125, STATED)
    two = accounts._by_model_profiles([(models[0], 2), (models[1], 2)], 0.125, STATED)
    assert (one, two) == (Privacy(3.0, 0.125), Privacy(5.0, 0.125))


# ------------------------------------------------------------------------------------------- the choice of accounts


def replaced(monkeypatch: pytest.MonkeyPatch, **found: Any) -> list[tuple[Any, ...]]:
    """Replace functions of `total` by constants; list their arguments."""
    asked: list[tuple[Any, ...]] = []

    def stand_in(name: str) -> Any:
        def function(*of: Any, **options: Any) -> Any:
            asked.append((name, *of, options))
            return found[name]

        return function

    for name in found:
        monkeypatch.setattr(total, name, stand_in(name))
    return asked


def test_a_total_keeps_the_smaller_epsilon() -> None:
    assert total.ReleaseTotal(0.1, {"bits": Privacy(math.inf)}).account == "none"
    for known, epsilon, expected in (
        (Privacy(1.0, 0.5), 2.0, Privacy(2.0, 0.1)),  # with a larger δ than the total
        (Privacy(1.0, 0.1), 2.0, Privacy(1.0, 0.1)),
        (Privacy(1.0), 1.0, Privacy(1.0)),
        (Privacy(1.0), 0.5, Privacy(0.5, 0.1)),
    ):
        assert total.ReleaseTotal(0.1, {"bits": known}).or_less({"bits": epsilon}).totals["bits"] == expected


def test_accounts_are_evaluated_until_one_suffices_or_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    def account(name: str, *finer: str, found: Privacy | None = None) -> Any:
        def of(*_: object) -> Privacy:
            if found is None:
                raise DeltaTooSmall(0.1, 0.5, "it leaks")
            return found

        needs = {"needs_delta": False, "needs": lambda bounds: bounds, "is_exact": lambda *_: False}
        return SimpleNamespace(name=name, finer=finer, total=of, **needs)

    def asked(*listed: Any, enough: float = -math.inf) -> set[str]:
        monkeypatch.setattr(total, "ACCOUNTS", listed)
        found = total.total_of(parts(RELEASE, 3), 0.1, enough=enough)
        return {*found.totals, *found.refused}

    last = account("last", found=Privacy(1.0))
    assert asked(account("optimal"), account("points", "optimal"), last) == {"optimal", "last"}
    assert asked(account("bits"), account("points", "bits"), last) == {"bits", "points", "last"}
    for each, names in (
        (Privacy(2.0, 0.1), {"first"}),
        (Privacy(2.0, 0.2), {"first", "last"}),
        (Privacy(2.1, 0.1), {"first", "last"}),
    ):
        assert asked(account("first", found=each), last, enough=2.0) == names


@for_each(
    ("listed", "releases", "enough", "names"),
    [
        (False, 3, -math.inf, ["bounds"]),
        (True, 1, -math.inf, ["laws"]),
        (True, 3, 1.0, ["laws"]),
        (True, 3, 0.9, ["laws", "bounds"]),
        (True, 3, -math.inf, ["laws", "bounds"]),
    ],
)
def test_listed_laws_are_evaluated_first(listed: bool, releases: int, enough: float, names: list[str]) -> None:
    laws = LawPairs(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])) if listed else None
    bounds = ReleaseGuarantee(Privacy(9.0))
    for effort in (STATED, accounts.SEARCHED):
        with pytest.MonkeyPatch.context() as patch:
            asked = replaced(patch, total_of=total.ReleaseTotal(0.1, {"bits": Privacy(1.0)}))
            mechanism: Any = SimpleNamespace(effort=effort, bounds=lambda n: [(bounds, n)], listed=lambda: laws)
            assert total.cost(mechanism, releases, 0.1, enough=enough).epsilon == 1.0
        assert ["bounds" if of[1][0][0] is bounds else "laws" for of in asked] == names
        searched = effort is STATED and enough > -math.inf
        assert {of[-1]["effort"] for of in asked} == {STATED.for_search(releases) if searched else effort}


def test_unsampled_accounts_compete_if_most_records_are_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling, found = Sampling(10, 5), total.ReleaseTotal(0.1, {"pld": Privacy(1.0, 0.1)})
    mechanism: Any = SimpleNamespace(
        takes_samples=True, at_sensitivity=None, sampled_laws=list, K=3, affected=1, effort=STATED
    )
    for chance, times in ((0.5, 2), (0.51, 1)):
        asked = replaced(monkeypatch, sampled_accounts=([], {}), _with_unsampled=found)
        monkeypatch.setattr(total, "HIGH_CHANCE", chance)
        assert total.cost(mechanism, 3, 0.1, sampling) is found
        assert sum(of[0] == "_with_unsampled" for of in asked) == times


def test_divergences_of_releases_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(total, "ULP", 2.0**-9)
    releases: Any = [
        (SimpleNamespace(bound=lambda value=value: SimpleNamespace(renyi=lambda _: value)), count)
        for value, count in ((np.array([0.5, 1.0]), 2), (np.array([0.25, 0.5]), 4), (np.array([9.0, 9.0]), 0))
    ]
    found = total.renyi_divergences(releases, np.array([2.0, 3.0]))
    assert found is not None
    assert found.tolist() == [2.0 * (1 + 8 * 4 * 2.0**-9), 4.0 * (1 + 8 * 4 * 2.0**-9)]


def test_an_estimate_follows_from_the_stated_guarantees(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = SimpleNamespace(epsilon=lambda _: 2.0)
    asked = replaced(
        monkeypatch, compose_bits_any_order=curve, composed_epsilon=3.0, gaussian_epsilon=4.0, estimated_shift=0.5
    )
    drawn: Any = SimpleNamespace(bagged=SimpleNamespace(estimate=lambda *_: 1.0), likely=None, estimate=None)
    likely: Any = SimpleNamespace(bagged=None, likely=lambda: None, estimate=lambda: "bound")
    stated: Any = SimpleNamespace(bagged=None, likely=None, estimate=lambda: "bound")
    none: Any = SimpleNamespace(bagged=None, likely=None, estimate=lambda: None)
    most, work = total.ESTIMATE_POINTS, total.MAX_ESTIMATE_WORK
    for points, expected in ((most // 4, 2.0), (most // 4 - 1, None), (2 * most, 2.0)):
        monkeypatch.setattr(total, "updates_of", lambda _, points=points: work / (points + 0.5))
        assert total.estimated_epsilon([(likely, 3)], 0.1) == expected
    assert [of[-1]["points"] for of in asked] == [most // 4, most]
    assert total.estimated_epsilon([(drawn, 3), (none, 0)], 0.1) == 1.0
    assert total.estimated_epsilon([(stated, 3), (likely, 2)], 0.1) == 3.0
    assert total.estimated_epsilon([(stated, 3), (none, 2)], 0.1) == 4.0
    assert total.estimated_epsilon([(drawn, 3), (none, 2)], 0.1) == 4.0
    for shift in (0.0, math.inf, None):
        replaced(monkeypatch, estimated_shift=shift)
        assert total.estimated_epsilon([(none, 3)], 0.1) is None


def test_the_lower_bound_is_computed_within_the_limit_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced(monkeypatch, attained_epsilon=2.0)
    region: Any = SimpleNamespace(moves=np.zeros((5, 4)))
    for work, expected in ((5 * 3 * ADVERSARY_POINTS, 2.0), (5 * 3 * ADVERSARY_POINTS - 1, None)):
        monkeypatch.setattr(total, "MAX_ADVERSARY_WORK", work)
        assert total.attained_by_adversary([(region, 3)], 0.1) == expected


@for_each("kind", ["γ", "mechanism"])
def test_a_number_of_releases_is_searched_from_an_estimate(kind: str) -> None:
    most = accounts.MAX_RELEASES if kind == "γ" else total.MAX_FOUND
    mechanism: Any = SimpleNamespace(effort=accounts.SEARCHED, bounds=lambda n: [("bounds", n)])
    released: Any = RELEASE if kind == "γ" else mechanism
    for models, guess in ((2.0, None), (2.1, 5), (2.1, 0)):
        searched: list[Any] = []

        def quota(*of: Any, searched: list[Any] = searched, **options: Any) -> Any:
            searched.append((*of, options))
            return "quota"

        def largest(near: Any, most: int, guess: int | None = guess) -> int | None:
            assert most == accounts.MAX_RELEASES
            with pytest.MonkeyPatch.context() as estimates:
                for estimate, expected in ((2.0, True), (2.1, False), (None, False)):
                    estimates.setattr(total, "estimated_epsilon", lambda *_, estimate=estimate: estimate)
                    assert near(3) == expected
            return guess

        with pytest.MonkeyPatch.context() as patch:
            asked = replaced(
                patch, total_of=total.ReleaseTotal(0.1, {"m": Privacy(models)}), cost=total.ReleaseTotal(0.1, {})
            )
            patch.setattr(total, "largest_quota", quota)
            patch.setattr(total, "largest_count", largest)
            found: Any = total.most_releases(released, Privacy(2.0, 0.1))
            if models == 2.0:
                assert (found.queries, found.account) == (most, "models")
                continue
            assert found == "quota"
            ((spent, epsilon, upto, options),) = searched
            assert (epsilon, upto, options["guess"]) == (2.0, most, max(1, guess or 0) if kind == "γ" else 1)
            asked.clear()
            spent(7)
            ((name, *_, given),) = asked
            assert name == ("total_of" if kind == "γ" else "cost")
            assert given.get("effort") == (STATED.for_search(7) if kind == "γ" else None)


def test_totals_of_no_releases_are_0() -> None:
    nothing = total.total_privacy(RELEASE, 0, 0.0, fresh=True)
    assert {each.epsilon for each in nothing.totals.values()} == {0.0}
    assert (nothing.epsilon_at_least, nothing.refused, nothing.fresh) == (0.0, {}, True)
    assert total.exact_epsilon(RELEASE.noise, RELEASE.problem, 0, 0.0) == 0.0
    assert total.total_privacy(RELEASE, 2, 1e-6).fresh is False


def test_the_grid_of_a_total_is_the_finest_within_the_limit_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def composed(parts: object, *, points: int) -> BitTotal:
        asked.append(points)
        return compose_bits_any_order(parts, points=101)  # type: ignore[arg-type]

    monkeypatch.setattr(accounts, "compose_bits_any_order", composed)
    monkeypatch.setattr(accounts, "GRID_PRECISION", -1.0)  # no coarser grid suffices
    vertices = RELEASE.profile.outer.moves.shape[0]
    bits = accounts.NAMES - {"bits"}
    for limit, points in ((1e12, 40_001), (vertices * 6 * 2000.5, 2000), (vertices * 6 * 1001, 1001)):
        total.total_of([(RELEASE.guarantee, 6)], 1e-6, effort=accounts.STATED._replace(updates=limit), skip=bits)
        assert asked[-1] == points
    short = accounts.STATED._replace(updates=vertices * 6 * 1001 - 1)
    refusal = total.total_of([(RELEASE.guarantee, 6)], 1e-6, effort=short, skip=bits).refused["bits"]
    assert "each on at least 1001 points, take too long" in str(refusal)


def test_the_least_total_within_delta_counts_and_the_least_floor_is_reported() -> None:
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
        "laws": DeltaTooSmall(0.1, 0.4, "why"),
        "long": TooMuchWork("long"),
    }
    with pytest.raises(DeltaTooSmall) as refused:
        _ = total.ReleaseTotal(0.1, {"simple": Privacy(1.0, 0.2)}, floors).best
    assert refused.value.floor == 0.2
    with pytest.raises(TooMuchWork):
        _ = total.ReleaseTotal(0.1, {}, {"long": floors["long"]}).method


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("queries", [1, 2, 7])
def test_a_delta_below_rounding_costs_no_more_than_0(queries: int, fresh: bool) -> None:
    noise, voters = NoiseFunction(np.full(3, 0.43)), Problem(2, Privacy(1.7e-12), Privacy(1.0), 1)
    none = total.exact_epsilon(noise, voters, queries, 0.0, fresh=fresh)
    for delta in (1e-300, 1e-18, 8e-14):
        assert total.exact_epsilon(noise, voters, queries, delta, fresh=fresh) <= none < 1e-11
