"""Averages over affected voters, part by part: laws and groups at their limits, and the effort that each recursion is given."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.refusals import refused

from darrm_opt.accounting import mixture
from darrm_opt.accounting.bits.recursion import BitTotal, compose_bits
from darrm_opt.accounting.bits.region import BitRegion
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.accounting.mixture import (
    AffectedDistribution,
    CountGroup,
    DrawnMajority,
    MixtureTotal,
    mixture_total,
)
from darrm_opt.accounting.release_profile import ReleaseProfile
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import up

OPEN = Problem(3, Privacy(math.inf), Privacy(1.0))
PRIVATE = Problem(3, Privacy(0.3), Privacy(1.0))
GAMMA = NoiseFunction.from_upper_half(np.array([0.1, 0.3]), 3)
LAW = AffectedDistribution.binomial(3, 0.4)


def counts_of(groups: list[CountGroup]) -> list[int]:
    return [group.count for group in groups]


def test_one_voter_has_a_law_of_two_chances() -> None:
    assert AffectedDistribution((0.5, 0.5)).K == 1
    for voters in (0, 2.0):
        with pytest.raises(InvalidInput, match=f"K = {voters} .* a whole number of voters, at least 1"):
            AffectedDistribution.exactly(0, voters)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=f"K = {voters} .* a whole number of voters, at least 1"):
            AffectedDistribution.binomial(voters, 0.5)  # type: ignore[arg-type]
    tiny = AffectedDistribution.binomial(3, Fraction(1, 10**20))
    assert tiny.chances[0] == 1.0  # rounded up, and a probability


def test_the_far_end_is_left_out_up_to_what_is_spared_and_no_further() -> None:
    law = AffectedDistribution((0.5, 0.25, 0.125, 0.0625, 0.0625))
    assert counts_of(law.parts(up(0.0625, 1))[0]) == [1, 2, 3]
    assert counts_of(law.parts(math.nextafter(up(0.0625, 1), 0.0))[0]) == [1, 2, 3, 4]
    assert AffectedDistribution((1 - 2.0**-10, 2.0**-10)).parts(0.01) == ([], up(2.0**-10, 1))


def test_the_near_end_is_taken_together_where_groups_are_few() -> None:
    rare = AffectedDistribution((0.9, 0.005, 0.004, 0.05, 0.05))
    assert counts_of(rare.parts(0.0, 4)[0]) == [1, 2, 3, 4]
    assert counts_of(rare.parts(0.0, 3)[0]) == [2, 3, 4]
    law = AffectedDistribution((0.9, 0.001, 0.002, 0.003, 0.03, 0.02, 0.02, 0.02, 0.02))
    assert counts_of(law.parts(0.0, 2)[0]) == [4, 8]
    assert law.parts(0.0, 2)[0][0].chance == pytest.approx(0.036, rel=1e-12)


def test_the_chance_of_a_group_is_a_probability() -> None:
    assert AffectedDistribution((0.0, 0.75, 0.75)).parts(0.0, 1)[0] == [CountGroup(2, 1.0)]


def test_the_heaviest_part_is_one_that_weighs_anything() -> None:
    parts = (CountGroup(1, 0.5), CountGroup(3, 0.25))
    average = MixtureTotal(parts, (lambda _: 0.0, lambda _: 0.6), 0.0, 2.0)
    assert average.heaviest(0.0) == parts[1]
    assert MixtureTotal(parts, (lambda _: 0.0, lambda _: 0.0), 0.0, 2.0).heaviest(0.0) is None


def test_an_average_has_an_epsilon_from_its_floor_on() -> None:
    average = MixtureTotal((CountGroup(1, 0.5),), (lambda epsilon: math.exp(-epsilon),), 0.01, 2.0)
    assert average.epsilon(average.delta(2.0)) == pytest.approx(2.0, rel=1e-9)
    for wrong in (1.0, "0.5"):
        with refused("delta"):
            average.epsilon(wrong)  # type: ignore[arg-type]


def test_voters_are_trained_once_unless_said_otherwise() -> None:
    epsilons = [mixture_total(GAMMA, PRIVATE, 4, LAW, fresh=fresh, points=101).epsilon(0.05) for fresh in (False, True)]
    assert epsilons[0] > epsilons[1]
    assert mixture_total(GAMMA, PRIVATE, 4, LAW, points=101).epsilon(0.05) == epsilons[0]
    assert DrawnMajority(GAMMA, PRIVATE, LAW).epsilon(4, 0.05) > DrawnMajority(GAMMA, PRIVATE, LAW, True).epsilon(
        4, 0.05
    )


def test_a_law_of_other_voters_is_refused() -> None:
    with refused("distribution"):
        mixture_total(GAMMA, PRIVATE, 4, AffectedDistribution.binomial(5, 0.4))


def test_one_release_needs_no_grid() -> None:
    """Its average is that of the exact profiles, to the last few bits."""
    total = mixture_total(GAMMA, OPEN, 1, LAW, points=3)
    for epsilon in np.linspace(0.0, 0.6, 25).tolist():
        exact = sum(chance * BitPairs.of_gamma(GAMMA, r).delta(epsilon) for r, chance in enumerate(LAW.chances) if r)
        assert total.delta(epsilon) == pytest.approx(exact, rel=1e-13, abs=1e-14)
    assert mixture_total(GAMMA, OPEN, 1, AffectedDistribution.exactly(0, 3)).max_loss == 0.0


def test_a_recursion_has_as_many_points_as_its_updates_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    made: list[BitTotal] = []

    def composed(parts: list[tuple[BitRegion, int]], *, points: int) -> BitTotal:
        asked.append((parts[0][1], points))
        made.append(compose_bits([(parts[0][0], 2)], points=31))
        return made[-1]

    monkeypatch.setattr(mixture, "compose_bits", composed)
    for queries, points in ((2, 2001), (1500, 1111), (10**5, 501)):
        asked.clear()
        made.clear()
        total = mixture_total(GAMMA, OPEN, queries, LAW)
        assert asked == [(queries, points)] * 3  # 5e6 updates, of so many releases for each of three counts
        assert total.max_loss == max(up((each.values.size - 1) * each.step, 4) for each in made)


def test_many_releases_share_what_their_regions_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[float, float]] = []

    def coarser(profile: ReleaseProfile, share: float, spare: float = 0.0) -> BitRegion:
        given.append((share, spare))
        return profile.outer

    monkeypatch.setattr(ReleaseProfile, "coarser", coarser)
    for queries, share in ((10, 2e-4), (3000, 2e-2)):
        given.clear()
        one = AffectedDistribution.exactly(1, 3)
        mixture_total(GAMMA, PRIVATE, queries, one, fresh=True, total_delta=0.01, points=5)
        assert given == [pytest.approx((share, 4e-5 / queries))]


def test_groups_are_fewer_for_private_voters_and_many_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_GROUPS", 7), ("MAX_PRIVATE_GROUPS", 5), ("MIN_GROUPS", 2), ("MAX_STEPS", 12)):
        monkeypatch.setattr(mixture, name, value)
    monkeypatch.setattr(AffectedDistribution, "parts", lambda *of: ([], of[2]))
    found = [[mixture.count_groups(voters, n, LAW, 0.0)[1] for n in (1, 4, 99)] for voters in (OPEN, PRIVATE)]
    assert found == [[7, 3, 2], [5, 3, 2]]
    assert LAW.mean == pytest.approx(1.2, rel=1e-12)


def test_voters_that_are_not_private_are_pairs_of_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose region is taken if it has few vertices, and one of fewer lines otherwise."""
    votes = BitPairs.of_gamma(GAMMA, OPEN.affected)
    delta, _ = mixture._profile_at_count(GAMMA, OPEN, 1, 9, (0.0, 0.0))
    assert delta(0.1) == votes.delta(0.1)
    asked: list[Any] = []
    total = SimpleNamespace(delta=None, values=np.zeros(3), step=0.5)

    def compose(parts: Any, **_: object) -> Any:
        asked.append(parts)
        return total

    few: Any = SimpleNamespace(coarser=lambda *_: "fewer lines")
    monkeypatch.setattr(mixture, "compose_bits", compose)
    monkeypatch.setattr(mixture, "release_profile", lambda *_, **__: few)
    for most in (3, 2):
        monkeypatch.setattr(mixture, "MAX_EXACT_VOTERS", most)
        mixture._profile_at_count(GAMMA, OPEN, 4, 9, (0.0, 0.0))
    (((region, _),), ((fewer, _),)) = asked
    assert region.moves.tolist() == votes.region.moves.tolist()
    assert fewer == "fewer lines"
