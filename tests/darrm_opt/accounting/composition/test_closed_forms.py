"""Closed forms of sequences and the tail that replaces their slack, against sixty digits: above the formula, and hardly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from typing import Any

import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.accounting.composition import closed_forms
from darrm_opt.accounting.composition.closed_forms import (
    MAX_MECHANISMS,
    basic_composition,
    kov_branches,
    kov_composition,
    kov_composition_at_delta,
    kov_composition_of_sequence,
    kov_delta,
    loss_tail,
    tail_composition,
)
from darrm_opt.accounting.composition.optimal import add_leak, least_epsilon
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.problem import Privacy

SEQUENCES: tuple[dict[Privacy, int], ...] = (
    {Privacy(0.3, 1e-4): 5},
    {Privacy(0.05, 0.0): 300},
    {Privacy(0.01, 1e-7): 1000, Privacy(0.3, 1e-3): 2, Privacy(1.5, 0.0): 1},
    {Privacy(2.0, 0.02): 3, Privacy(1e-6, 0.3): 7},
    {Privacy(0.0, 0.1): 4},
)
SLACKS = (1e-12, 1e-3, 0.2, 1.0)
EACH = 1e-8
"""δ of each mechanism whose tail is taken."""

CLOSE = Decimal("1e-13")


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 60
        yield


def hardly_above(value: float, exact: Decimal) -> bool:
    return exact <= Decimal(value) <= exact * (1 + CLOSE)


def tanh_of_half(epsilon: Decimal) -> Decimal:
    return (epsilon.exp() - 1) / (epsilon.exp() + 1)


def branches(counts: dict[Privacy, int], slack: float) -> tuple[Decimal, Decimal, Decimal]:
    s, parts = Decimal(slack), [(Decimal(event.epsilon), k) for event, k in counts.items()]
    mean = sum((k * e * tanh_of_half(e) for e, k in parts), Decimal(0))
    squares = sum((k * e * e for e, k in parts), Decimal(0))
    first = mean + (2 * squares * (Decimal(1).exp() + squares.sqrt() / s).ln()).sqrt()
    return sum((k * e for e, k in parts), Decimal(0)), first, mean + (2 * squares * -s.ln()).sqrt()


def kept(counts: dict[Privacy, int]) -> Decimal:
    return math.prod(((1 - Decimal(event.delta)) ** k for event, k in counts.items()), start=Decimal(1))


@for_each("slack", SLACKS)
@for_each("counts", SEQUENCES)
def test_sequences_have_the_three_branches_and_the_delta_of_the_formula(
    counts: dict[Privacy, int], slack: float
) -> None:
    exact, delta = branches(counts, slack), 1 - (1 - Decimal(slack)) * kept(counts)
    assert all(hardly_above(*pair) for pair in zip(kov_branches(counts, slack), exact, strict=True))
    assert hardly_above(kov_delta(counts, slack), delta)
    assert hardly_above(kov_delta(counts, 0), 1 - kept(counts))
    total = kov_composition_of_sequence(counts, slack)
    if exact[0] <= min(exact[1:]):  # no slack is charged
        assert hardly_above(total.epsilon, exact[0])
        assert hardly_above(total.delta, 1 - kept(counts))
    elif delta == 1:
        assert total == Privacy(math.inf)
    else:
        assert hardly_above(total.epsilon, min(exact))
        assert hardly_above(total.delta, delta)


@for_each("counts", SEQUENCES)
def test_all_of_a_total_delta_that_leaks_leave_is_slack(counts: dict[Privacy, int]) -> None:
    floor = 1 - kept(counts)
    assert kov_composition_at_delta(counts, kov_delta(counts, 0)).epsilon == kov_branches(counts, 1.0)[0]
    for share in (1e-9, 1e-3, 0.5, 0.99):
        total_delta = float(floor + Decimal(share) * kept(counts))
        found = kov_composition_at_delta(counts, total_delta)
        assert found.delta == total_delta
        slack = (Decimal(total_delta) - floor) / kept(counts)
        exact = min(branches(counts, float(slack)))
        assert exact * (1 - Decimal("1e-9")) <= Decimal(found.epsilon) <= exact * (1 + Decimal("1e-6"))
        assert kov_delta(counts, float(slack) * (1 - 1e-6)) <= total_delta * (1 + 1e-15)
    if floor > 0:
        with pytest.raises(DeltaTooSmall):
            kov_composition_at_delta(counts, float(floor) * (1 - 1e-12))


@for_each(("epsilon", "k"), [(0.3, 1), (0.3, 7), (0.05, 400), (2.0, 3), (1e-6, 10**6)])
def test_tail_is_chernoffs_bound_hardly_rounded_up(epsilon: float, k: int) -> None:
    e, most = Decimal(epsilon), k * Decimal(epsilon)
    mean = most * tanh_of_half(e)
    p = e.exp() / (1 + e.exp())
    assert loss_tail(epsilon, k, float(mean) * (1 - 1e-12)) == 1.0
    assert loss_tail(epsilon, k, float(mean) * 0.9) == loss_tail(epsilon, k, 0.0) == 1.0  # no bound below the mean
    assert loss_tail(epsilon, k, float(mean) * (1 + 1e-14)) == 1.0  # at it, rounding gives no more than a probability
    assert loss_tail(epsilon, k, float(most) * (1 + 1e-15)) == 0.0
    for share in (1e-3, 0.1, 0.5, 0.9, 1 - 1e-9):
        total = float(mean + Decimal(share) * (most - mean))
        a = (1 + Decimal(total) / most) / 2
        exact = (-k * (a * (a / p).ln() + (1 - a) * ((1 - a) / (1 - p)).ln())).exp()
        found = loss_tail(epsilon, k, total)
        most_above = exact * (1 + Decimal(k) * Decimal("1e-13") + CLOSE) + Decimal("5e-324")
        assert exact <= Decimal(found) <= min(Decimal(1), most_above)
        slack = 0.3
        by_tail = tail_composition(epsilon, EACH, k, slack)
        assert by_tail.epsilon == kov_branches({Privacy(epsilon, EACH): k}, slack)[2]
        least, leak = min(slack, loss_tail(epsilon, k, by_tail.epsilon)), Decimal(EACH)
        assert hardly_above(by_tail.delta, 1 - (1 - leak) ** k * (1 - Decimal(least)))


@for_each(("name", "wrong"), [("epsilon", -0.1), ("delta", 1.5), ("k", 2.0), ("k", -1)])
def test_a_tail_of_invalid_mechanisms_is_refused(name: str, wrong: float) -> None:
    given: dict[str, Any] = {"epsilon": 0.1, "delta": 1e-9, "k": 2} | {name: wrong}
    with refused(name):
        tail_composition(**given, slack=0.5)


def test_a_tail_at_its_ends() -> None:
    assert loss_tail(0.5, 2, 1.0) == 0.0  # no loss is larger
    assert 0 < loss_tail(0.5, 2, math.nextafter(1.0, 0.0)) < 1
    assert loss_tail(0.0, 3, 0.0) == loss_tail(0.3, 0, 0.0) == 0.0
    assert loss_tail(0.3, 2, 0.0) == 1.0
    for wrong in ((-0.1, 2, 0.1), (0.1, -1, 0.1), (0.1, 2, -0.1), (math.inf, 2, 0.1)):
        with pytest.raises(InvalidInput):
            loss_tail(*wrong)
    with refused("total_epsilon"):
        loss_tail(0.1, 2, -0.1)


def test_the_largest_number_of_mechanisms_is_that_of_whole_doubles() -> None:
    assert MAX_MECHANISMS == 2**53
    assert basic_composition(2.0**-60, 0.0, 2**53).epsilon == 2.0**-7
    for wrong in (2**53 + 1, 0):
        with pytest.raises(InvalidInput, match=rf"k = {wrong} .*expected a whole number of mechanisms, at least 1"):
            kov_composition(0.1, 0.0, wrong, 0.1)


def test_rounding_covers_what_its_derivation_counts() -> None:
    """12 operations of two units each, with room; a sum, two roots, a logarithm and a sum of sums of 6 operations each."""
    assert closed_forms.CLOSED_FORM_ULPS >= 24
    assert closed_forms.BRANCH_ULPS >= 2 * (6 + 5) * 2


@for_each("slack", [0.0, 1.0 + 1e-15, -1e-9, math.nan, "much", True])
@for_each("form", [kov_branches, kov_composition_of_sequence])
def test_a_slack_of_a_sequence_is_above_0_and_at_most_1(form: object, slack: object) -> None:
    with refused("slack"):
        form({Privacy(0.1): 2}, slack)  # type: ignore[operator]


def test_a_slack_of_the_closed_form_may_be_0_and_not_1() -> None:
    assert kov_composition(0.1, 0.0, 2, 0) == basic_composition(0.1, 0.0, 2)
    assert kov_composition(0.01, 0.0, 10**6, 1 - 1e-9).epsilon < 10**4
    for wrong in (1.0, -1e-300):
        with refused("slack"):
            kov_composition(0.1, 0.0, 2, wrong)


@for_each("kept_log", [0.0, -1e-9, -0.3, -20.0])
@for_each("pure", [1e-300, 1e-9, 0.4, 1.0])
def test_a_leak_and_what_is_lost_without_one_add_up_rounded_up(kept_log: float, pure: float) -> None:
    for floor in (0.0, 1e-5, 0.5):
        exact = min(Decimal(1), Decimal(floor) + Decimal(kept_log).exp() * Decimal(pure))
        assert exact <= Decimal(add_leak(floor, kept_log, pure)) <= exact * (1 + CLOSE)
    assert add_leak(0.25, kept_log, 0.0) == 0.25


def test_the_least_epsilon_is_0_where_nothing_is_needed() -> None:
    assert least_epsilon(lambda epsilon: 0.1 - epsilon, 0.1, 5.0) == 0.0
    assert least_epsilon(lambda epsilon: 0.2 - epsilon, 0.1, 5.0) == pytest.approx(0.1, rel=1e-12)
