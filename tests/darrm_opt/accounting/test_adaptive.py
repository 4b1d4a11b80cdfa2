"""The adaptive recursion: all transcripts of a few releases, and each step by its formula with large rounding units."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from campaigns.enumerated import attained

from darrm_opt.accounting import adaptive
from darrm_opt.accounting.adaptive import adaptive_epsilon
from darrm_opt.accounting.bits.backward_step import chord_weight
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.noise import Array

UNIT = 2.0**-20


def test_the_recursion_is_that_of_all_transcripts() -> None:
    rng = np.random.default_rng(7)
    p, q = (rng.dirichlet(np.ones(3), 5) + 0.02 for _ in range(2))
    p, q = (law / law.sum(axis=1, keepdims=True) for law in (p, q))
    p[0], q[0] = (0.5, 0.499, 0.001), (0.6, 0.4, 0.0)  # answers possible on one side only
    for queries in (2, 3):
        delta = attained(p, q, queries, math.exp(1.0))
        found = adaptive_epsilon([LawPairs(p, q)], queries, delta)
        assert 1.0 <= found <= 1.005
        halves = [LawPairs(p[:2], q[:2]), LawPairs(p[2:], q[2:])]
        assert adaptive_epsilon(halves, queries, delta) == pytest.approx(found, rel=1e-9)
    assert adaptive_epsilon([LawPairs(p, q)], 1, 0.01) == LawPairs(p, q).epsilon(0.01)  # exact: no grid


def test_an_answer_possible_on_one_side_only_counts_in_every_step() -> None:
    """Two releases give it with probability 1 − 0.9²: below that δ there is no total, above it a small one."""
    p, q = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[1.0, 0.0], [0.5, 0.5]])
    with pytest.raises(DeltaTooSmall):
        adaptive_epsilon([LawPairs(p, q)], 2, 0.18)
    assert adaptive_epsilon([LawPairs(p, q)], 2, 0.2) <= 0.01
    delta = attained(p, q, 2, math.exp(-1.0))
    assert delta > 0.19
    losing = LawPairs(np.array([[0.6, 0.3, 0.1]]), np.array([[0.3, 0.7, 0.0]]))
    delta = attained(losing.on_data, losing.on_neighbour, 2, math.exp(0.8))
    assert 0.8 <= adaptive_epsilon([losing], 2, delta) <= 0.805


def test_a_recursion_that_takes_too_long_is_not_started() -> None:
    laws = LawPairs(np.full((10_000, 4), 0.25), np.full((10_000, 4), 0.25))
    with pytest.raises(TooMuchWork):
        adaptive_epsilon([laws], 2, 1e-5)


def test_a_step_follows_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive, "ULP", UNIT)
    step, values = 0.25, np.linspace(0.75, 0.125, 9) ** 2
    p = np.array([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 0.0, 0.0]])
    q = np.array([[0.3, 0.3, 0.0, 0.4], [0.8, 0.1, 0.09, 0.01], [0.01, 0.99, 0.0, 0.0]])
    moves, every = adaptive._moves(p, q, step), []
    for (constant, cells), laws in zip(moves, zip(p.tolist(), q.tolist(), strict=True), strict=True):
        answers = [*zip(*laws, strict=True)]
        assert constant == pytest.approx(sum(a for a, b in answers if not b) * (1 + 16 * UNIT), rel=1e-14)
        exact = []
        for a, b in answers:
            if a and b:
                place = (math.log(b / a) - 32 * UNIT * (1 - math.log(a) - math.log(b))) / step
                place -= 4 * UNIT * abs(place)
                share = chord_weight(place - math.floor(place), step)
                weight = a * (1 + 16 * UNIT)
                exact += [math.floor(place), weight * (1 - share), weight * share]
        assert np.ravel(cells).tolist() == pytest.approx(exact, rel=1e-11)
        every.append((constant, cells))

    def before(place: int) -> float:
        if place < 0:
            return float(1 - (1 - values[0]) * math.exp(step * place) * (1 - 8 * UNIT))
        return float(values[min(place, 8)])

    found = adaptive._backward_step(values, [moves[:1], moves[1:]], step)
    for place, value in enumerate(found.tolist()):
        sums = [c + sum(near * before(place + n) + far * before(place + n + 1) for n, near, far in t) for c, t in every]
        assert value == pytest.approx(min(1.0, max(sums) * (1 + 64 * UNIT)), rel=1e-13)


def test_the_grid_of_a_total_covers_the_losses(move: Callable[..., None]) -> None:
    p, q = np.array([[0.5, 0.5], [0.75, 0.25], [0.5, 0.5]]), np.array([[0.25, 0.75], [0.25, 0.75], [0.5, 0.5]])
    family = [LawPairs(p[:1], q[:1]), LawPairs(p[1:], q[1:])]
    asked: dict[str, Any] = {}

    def values(_: object, losses: Array) -> Array:
        asked["losses"] = losses
        return np.exp(-np.arange(losses.size) / 4)

    def read(curve: Callable[[float], float], *others: object) -> float:
        asked["curve"], asked["reach"] = curve, others[1]
        return 1.0

    move(adaptive, ULP=UNIT, STEP=0.5, MAX_STEP=9.0, largest_deltas=values, epsilon_at_delta=read)
    move(adaptive, _backward_step=lambda values, *_: values)
    reach = 2 * math.log(3) + 0.5
    for least, most, points in ((9, 99, 9), (4, 99, 6), (4, 5, 5)):
        move(adaptive, POINTS=least, MAX_POINTS=most)
        adaptive_epsilon(family, 2, 0.5)
        step = reach / points
        assert asked["reach"] == pytest.approx(reach, rel=1e-14)
        assert asked["losses"].tolist() == pytest.approx((np.arange(-points, points + 1) * step).tolist(), rel=1e-14)
        for epsilon in (0.0, 0.3 * step, step, 2.6 * step, 3 * step, reach, reach + step):
            place = min(int(epsilon / step * (1 - 4 * UNIT)), points)
            share = chord_weight(min(1.0, epsilon / step * (1 - 4 * UNIT) - place), step)
            near, far = (math.exp(-(points + min(n, points)) / 4) for n in (place, place + 1))
            expected = ((1 - share) * near + share * far) * (1 + 8 * UNIT)
            assert asked["curve"](epsilon) == pytest.approx(expected, rel=1e-12)
    # Just within the limits: 5 points, 6 answers, 2 releases.
    move(adaptive, MAX_STEP=asked["reach"] / 5, MAX_WORK=11 * 6 * 2)
    assert adaptive_epsilon(family, 2, 0.5) == 1.0
    for limit in ({"MAX_STEP": asked["reach"] / 5.001}, {"MAX_STEP": 9.0, "MAX_WORK": 11 * 6 * 2 - 1}):
        move(adaptive, **limit)
        with pytest.raises(TooMuchWork):
            adaptive_epsilon(family, 2, 0.5)
    assert adaptive_epsilon(family, 1, 0.125) == max(laws.epsilon(0.125) for laws in family)  # one release: no grid
    one_side = np.array([[0.0, 0.5, 0.5]]), np.array([[0.25, 0.25, 0.5]])
    assert adaptive._largest_loss(*one_side) == adaptive._largest_loss(*one_side[::-1]) == math.log(2)
