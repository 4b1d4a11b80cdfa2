"""Propose-test-release step by step: thresholds, targets and the search for a test by their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.accounting import propose_test_release as ptr
from darrm_opt.accounting.propose_test_release import Proposal, Reference, VoteBatch
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP

UNIT = 2.0**-9


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what sets names of the module, such as ULP."""

    def set_all(**values: Any) -> None:
        for name, value in values.items():
            monkeypatch.setattr(ptr, name, value)

    return set_all


def divergence(value: float) -> Any:
    return SimpleNamespace(renyi=lambda _: np.array([value]))


def test_a_test_passes_from_its_threshold_on(move: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    move(_target=lambda *_: 0.5, _least_threshold=lambda *_: 7)
    batch = VoteBatch(NoisyMaximum(9, 3, 2.0), 4)
    proposal = Proposal(batch, Privacy(1.0, 1e-3), 4.0, 2.0, 7, 0.5)
    with refused("target"):
        Proposal(batch, Privacy(1.0, 1e-3), 4.0, 2.0, 7, 0.0)
    monkeypatch.setattr(Proposal, "unpublished_distance", lambda *_: 4)
    for noise, passes in ((3, True), (2, False), (-3, False)):
        move(discrete_gaussian=lambda *_, noise=noise: noise)
        assert proposal.passes(np.zeros((4, 3), dtype=np.int64)) == passes
    failing: Any = SimpleNamespace(total=Privacy(1.0, 0.6), test_sigma=2.0)
    assert Proposal.failed(failing, 0.9).delta == 1 - ULP
    assert ptr.ROUNDING < 1


@for_each(
    ("rest", "expected"),
    [(0.75, 0), (0.5, 1), (0.49, 2), (0.126, 3), (0.02, 4), (0.01, 5)],
)
def test_the_least_threshold_is_the_first_within_delta(rest: float, expected: int) -> None:
    """Of noise up to 3: its chances are charged a quarter more, and δ pays for the test first."""
    chances = np.array([0.6, 0.4, 0.2, 0.1, 0.008])
    noise: Any = SimpleNamespace(end=3, at_least=lambda k: chances[k])
    with pytest.MonkeyPatch.context() as patch:
        changes = {"LatticeNoise": lambda *_: noise, "MASS_ERROR": 0.25, "_test": lambda _: divergence(0.0)}
        for name, value in {**changes, "rdp_delta": lambda *_: (0.0625, 2.0)}.items():
            patch.setattr(ptr, name, value)
        assert ptr._least_threshold(Privacy(1.0, rest + 0.0625), 2.0) == expected


def test_a_target_is_lowered_until_the_total_holds(move: Callable[..., None]) -> None:
    order, total, test = 4.0, Privacy(2.0, 0.125), 0.25
    conversion = math.log1p(-1 / order) - math.log(0.125 * order) / (order - 1)
    target = (2.0 - conversion) * ptr.ROUNDING - test
    asked: list[float] = []

    def epsilon(found: list[float]) -> Callable[..., tuple[float, float]]:
        left = iter(found)

        def of(divergences: Any, *_: object) -> tuple[float, float]:
            asked.append(float(divergences[0]))
            return next(left), order

        return of

    move(ULP=UNIT, _test=lambda _: divergence(test), rdp_epsilon=epsilon([2.5, 2.25, 2.0]))  # 2 is within the total
    found = ptr._target(total, order, 3.0)
    step = 3 * 2.0**-40
    assert found == pytest.approx(target - 2 * step, abs=1e-15)
    exact = [(target - n * step + test) * (1 + 4 * UNIT) for n in range(3)]
    assert asked == pytest.approx(exact, abs=1e-14)
    move(_test=lambda _: divergence(target + test), rdp_epsilon=epsilon([1.0, 1.0]))
    assert ptr._target(total, order, 3.0) is None  # nothing is left


def test_the_test_is_the_one_that_the_reference_passes_most(
    move: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By standard deviations above the threshold, of equal ones the first."""
    batch = VoteBatch(NoisyMaximum(9, 3, 2.0), 4)
    reference = Reference(batch, 0.8)
    distances = {2.0: 5, 3.0: 9, 4.0: 9}
    move(TRIED_ORDERS=(2.0, 3.0, 4.0), TEST_SIGMAS=(2.0, 4.0), _target=lambda *_: 0.5)
    move(_least_threshold=lambda _, sigma: {2.0: 5, 4.0: 1}[sigma])
    monkeypatch.setattr(Reference, "distance", lambda _, order, __: distances[order])
    monkeypatch.setattr(Proposal, "pass_chance", lambda _, distance: distance / 100)
    found, chance = reference.proposal(Privacy(1.0, 1e-3))
    assert (found.order, found.test_sigma, chance) == (3.0, 2.0, 0.09)
    for wrong in (0.0, math.inf):
        with refused("epsilon"):
            reference.proposal(Privacy(wrong, 1e-3))
    monkeypatch.undo()
    move_on: list[Any] = []
    monkeypatch.setattr(ptr, "largest_count_between", lambda *of: move_on.append(of[1:]))
    with pytest.raises(TypeError):
        reference.distance(3.0, 0.5)
    assert move_on == [(-1, 9)]


def test_an_epsilon_is_searched_down_to_what_passes_often_enough(move: Callable[..., None]) -> None:
    batch: Any = SimpleNamespace(epsilon=lambda _: 8.0, K=9, queries=4)
    reference = SimpleNamespace(
        proposal=lambda total: (total.epsilon, 0.75 if total.epsilon >= 3.0 else 0.5), distance=lambda *_: 2
    )
    move(Reference=lambda *_: reference)
    found: Any = ptr.ptr_epsilon(batch, 1e-3, chance=0.75)
    assert 3.0 <= found <= 3.03
    proposal: Any = SimpleNamespace(
        total=Privacy(1.0, 1e-3), batch=batch, order=3.0, target=0.5, pass_chance=lambda distance: distance / 4
    )
    assert ptr.check_that_it_pays(proposal) == 0.5


@for_each(
    ("queries", "share", "rows"),
    [(9, 0.8, 3), (2, 0.5, 2), (9, 0.5, 3)],
)
def test_the_reference_spreads_the_leaders_share(queries: int, share: float, rows: int) -> None:
    """By half of what is left on either side, in at most three rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ptr, "REFERENCE_ROWS", 3)
        batch = VoteBatch(NoisyMaximum(20, 3, 2.0), queries)
        counts = ptr._reference(batch, share)
    spread = min(1 - share, share - 1 / 3) / 2
    exact = [round(20 * (share + spread * at)) for at in np.linspace(-1, 1, rows)]
    assert counts[:, 0].tolist() == exact
    assert np.all(counts.sum(axis=1) == 20)
    assert np.all(np.abs(counts[:, 1] - counts[:, 2]) <= 1)
    assert sorted(exact) == exact
