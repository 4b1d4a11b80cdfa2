"""Every composition bound against the exact optimum, over a grid of (ε, δ, k, δ′): sound, or named as unsound."""

from __future__ import annotations

import math
from itertools import product

import pytest

from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.bits.region import privacy_region
from darrm_opt.accounting.composition.closed_forms import (
    basic_composition,
    kov_branches,
    kov_composition,
    kov_composition_at_delta,
    kov_delta,
)
from darrm_opt.accounting.composition.optimal import (
    least_possible_delta,
    optimal_composition,
    optimal_delta,
    optimal_delta_of_sequence,
)
from darrm_opt.accounting.pld import pld_composition
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.problem import Privacy
from darrm_papers.he_wang_tao.printed import (
    composition_i_printed,
    composition_ii_printed,
    composition_v_printed,
)

EPSILONS = [1e-9, 1e-3, 0.05, 0.2676, 1.0, 4.0, 50.0]
DELTAS = [0.0, 1e-10, 1e-5, 1e-2]
COUNTS = [1, 2, 7, 50, 1000]
SLACKS = [1e-15, 1e-6, 1e-3, 1e-1]
GRID = list(product(EPSILONS, DELTAS, COUNTS, SLACKS))
ROUNDED = 1 - 1e-9  # the reference is rounded up by less than this


def totals(epsilon: float, delta: float, k: int, slack: float) -> dict[str, Privacy]:
    events = {Privacy(epsilon, delta): k}
    return {
        "simple": basic_composition(epsilon, delta, k),
        "general": kov_composition(epsilon, delta, k, slack),
        "closed_best_slack": kov_composition_at_delta(events, kov_delta(events, slack)),
        "first branch": Privacy(kov_branches(events, slack)[0], least_possible_delta(delta, k)),
        "second branch": Privacy(kov_branches(events, slack)[1], kov_delta(events, slack)),
        "third branch": Privacy(kov_branches(events, slack)[2], kov_delta(events, slack)),
    }


def test_sound_bounds_are_never_below_the_optimum() -> None:
    wrong = [
        (name, point)
        for point in GRID
        for name, total in totals(*point).items()
        if total.epsilon < math.inf and optimal_delta(*point[:3], total.epsilon) * ROUNDED > total.delta
    ]
    assert not wrong


def test_no_bound_is_below_the_leak_floor() -> None:
    """The mechanism that leaks with probability δ attains 1 − (1−δ)^k."""
    for point in GRID:
        floor = least_possible_delta(*point[1:3])
        assert all(total.delta >= floor for total in totals(*point).values() if total.epsilon < math.inf)


@pytest.mark.parametrize(("epsilon", "delta", "k"), [(0.2676, 3e-4, 50), (1.0, 1e-5, 20), (0.05, 0.0, 300)])
def test_the_optimum_is_the_least_bound_and_agrees_with_pld_and_bits(epsilon: float, delta: float, k: int) -> None:
    total_delta = kov_delta({Privacy(epsilon, delta): k}, 1e-4)
    best = optimal_composition(epsilon, delta, k, total_delta).epsilon
    assert best <= pld_composition(epsilon, delta, k, total_delta).privacy.epsilon <= best + 1e-4
    assert compose_bits([(privacy_region(Privacy(epsilon, delta)), k)]).epsilon(total_delta) <= best + 1e-4
    for name, total in totals(epsilon, delta, k, 1e-4).items():
        if total.delta <= total_delta:
            assert total.epsilon >= best * ROUNDED, name


def test_printed_theorems_fail_on_the_same_grid() -> None:
    """Theorems I, II and V, for reproduction only: the grid refutes each of them."""
    failures = dict.fromkeys(("i", "ii", "v"), 0)
    for epsilon, delta, k, slack in product([0.2676, 1.0, math.log(3)], [1e-5, 1e-3], [50, 1000], [1e-15, 1e-6]):
        events = {Privacy(epsilon, delta): k}
        failures["i"] += composition_i_printed(events, slack, acknowledge_unsound=True).refuted_here
        failures["v"] += composition_v_printed(events, slack, acknowledge_unsound=True).refuted_here
        failures["ii"] += composition_ii_printed(epsilon, delta, k, slack, acknowledge_unsound=True).refuted_here
    assert min(failures.values()) >= 5


def test_sequences_are_sound_in_every_order() -> None:
    events = [Privacy(0.1, 1e-6), Privacy(0.5, 1e-3), Privacy(0.02)] * 5
    for slack in SLACKS:
        total = kov_composition_at_delta(events, kov_delta(events, slack))
        assert optimal_delta_of_sequence(events, total.epsilon) * ROUNDED <= total.delta
        assert kov_composition_at_delta(events[::-1], total.delta) == total


def test_the_best_slack_uses_all_of_the_rest() -> None:
    events = [Privacy(0.2676, 3e-4)] * 50
    best = kov_composition_at_delta(events, 0.015)
    assert best.delta == 0.015
    assert best.epsilon <= min(kov_composition(0.2676, 3e-4, 50, slack).epsilon for slack in (1e-6, 1e-5, 1e-4))
    assert kov_composition_at_delta(events, least_possible_delta(3e-4, 50)).epsilon == pytest.approx(50 * 0.2676)
    with pytest.raises(DeltaTooSmall, match="each mechanism may leak"):
        kov_composition_at_delta(events, 0.01)
