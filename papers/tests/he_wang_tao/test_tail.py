"""The corrected tail of composition III, against sixty digits and the exact losses of randomised response."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.accounting.composition.closed_forms import kov_branches
from darrm_opt.accounting.composition.optimal import response_losses
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_papers.he_wang_tao.tail import loss_tail, tail_composition

EACH = 1e-8  # δ of each mechanism whose tail is taken

CLOSE = Decimal("1e-13")


pytestmark = pytest.mark.usefixtures("sixty_digits")


@for_each(("epsilon", "k"), [(0.3, 1), (0.3, 7), (0.05, 400), (2.0, 3), (1e-6, 10**6)])
def test_tail_is_chernoffs_bound_hardly_rounded_up(epsilon: float, k: int) -> None:
    e, most = Decimal(epsilon), k * Decimal(epsilon)
    mean = most * (e.exp() - 1) / (e.exp() + 1)
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
        assert (
            0 <= Decimal(by_tail.delta) - (1 - (1 - leak) ** k * (1 - Decimal(least))) <= CLOSE * Decimal(by_tail.delta)
        )


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


def test_corrected_tail_is_above_the_exact_one_and_below_the_slack() -> None:
    for epsilon, k, slack in product([0.01, 0.2676, 1.0], [50, 500], [1e-6, 1e-4]):
        total = kov_branches({Privacy(epsilon): k}, slack)[2]
        losses = response_losses(epsilon, k)
        tail = float(losses.masses[losses.losses > total].sum())
        assert tail * (1 - 1e-9) <= loss_tail(epsilon, k, total) <= slack
    assert loss_tail(0.1, 10, 1.01) == 0.0
    assert loss_tail(0.1, 10, 0.0) == 1.0
