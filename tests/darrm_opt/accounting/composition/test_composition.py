"""Closed-form composition: the paper's printed numbers, and the formula in sixty digits, just below."""

from __future__ import annotations

import csv
import json
import math
from decimal import Decimal, localcontext
from typing import Any

import pytest
from support.cases import for_each
from support.paths import DATA
from support.refusals import refused, refuses

from darrm_opt.accounting.composition import closed_forms, evaluate, optimal
from darrm_opt.accounting.composition.closed_forms import (
    MAX_MECHANISMS,
    basic_composition,
    kov_branches,
    kov_composition,
    kov_composition_at_delta,
    kov_delta,
)
from darrm_opt.accounting.composition.optimal import add_leak
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.problem import Privacy

ROWS = list(csv.DictReader((DATA / "paper_tables.csv").read_text(encoding="utf-8").splitlines()))


DIGITS = 200  # holds the doubles below and their small multiples exactly


def rows(table: str) -> list[tuple[str, dict[str, Any], str, int]]:
    chosen = [
        (row["quantity"], json.loads(row["inputs"]), row["expected"], int(row["printed_decimals"]))
        for row in ROWS
        if row["table"] == table
    ]
    assert chosen
    return chosen


@for_each(("quantity", "inputs", "expected", "decimals"), rows("Table 2"))
def test_table_2(quantity: str, inputs: dict[str, Any], expected: str, decimals: int) -> None:
    if quantity == "general_composition_total":
        value = kov_composition(inputs["epsilon"], inputs["delta"], inputs["Q"], inputs["delta_prime"]).epsilon
    else:
        assert quantity == "general_composition_total_delta_simple"
        value = basic_composition(0.2676, inputs["delta"], inputs["Q"]).delta
    assert round(value, decimals) == float(expected)


@for_each(("quantity", "inputs", "expected", "decimals"), rows("Table 3"))
def test_table_3(quantity: str, inputs: dict[str, Any], expected: str, decimals: int) -> None:
    count = inputs["K"] if quantity.startswith(("tau", "lambda")) else inputs["M"]
    total = kov_composition(inputs["epsilon"], inputs["Delta"], count, inputs["delta_prime"])
    if quantity.endswith("divided by epsilon"):
        value = total.epsilon / inputs["epsilon"]
    elif quantity == "m * epsilon":
        value = total.epsilon
    else:
        assert quantity.startswith(("delta = ", "lambda = "))
        value = total.delta
    assert round(value, decimals) == float(expected)


SETTINGS = [
    (epsilon, delta, k, slack)
    for epsilon in (1e-9, 0.0892, 1.0, 30.0)
    for delta in (0.0, 1e-12, 3e-4, 0.2)
    for k in (1, 2, 50, 5000)
    for slack in (0.0, 1e-15, 1e-4, 0.1, 0.99)
]


def test_basic_composition_rounds_up_by_at_most_one_step() -> None:
    for epsilon, delta, k, _ in SETTINGS:
        total = basic_composition(epsilon, delta, k)
        with localcontext() as context:
            context.prec = DIGITS
            if k * Decimal(delta) >= 1:
                assert total == Privacy(math.inf)
                continue
            assert Decimal(math.nextafter(total.epsilon, 0)) < k * Decimal(epsilon) <= Decimal(total.epsilon)
            assert Decimal(total.delta) >= k * Decimal(delta)
            assert delta == 0 or Decimal(math.nextafter(total.delta, 0)) < k * Decimal(delta)


def test_voters_without_privacy_have_no_guarantee() -> None:
    assert basic_composition(math.inf, 0.1, 2) == kov_composition(math.inf, 0.1, 2, 0.1) == Privacy(math.inf)
    assert basic_composition(1e308, 0.0, 10) == Privacy(math.inf)
    assert kov_composition(1.0, 0.9, 1000, 0.0) == Privacy(math.inf)


def test_invalid_arguments_are_refused() -> None:
    valid = {"epsilon": 0.1, "delta": 0.0, "k": 2, "slack": 0.1}
    refuses(kov_composition, valid, epsilon=[-1.0], delta=[1.0], k=[0, 2**60, 2.0], slack=[1.0, math.nan, "much"])


# ------------------------------------------------------------------------------------------- several accounts


def failing(error: Exception) -> Privacy:
    raise error


ERRORS = {
    "delta": DeltaTooSmall(0.0, 0.1, "leak"),
    "work": TooMuchWork("too long"),
    "library": BackendUnavailable("dp_accounting", "accounting"),
}


def test_inapplicable_accounts_are_reported_and_skipped() -> None:
    accounts = {name: (lambda error=error: failing(error)) for name, error in ERRORS.items()}
    totals, errors = evaluate({**accounts, "sum": lambda: Privacy(3.0, 0.1), "best": lambda: Privacy(2.0, 0.1)})
    assert totals == {"sum": Privacy(3.0, 0.1), "best": Privacy(2.0, 0.1)}
    assert errors == ERRORS


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(InvalidInput):
        evaluate({"bad": lambda: failing(InvalidInput("k", 0, "at least 1")), "good": lambda: Privacy(1.0)})


# ------------------------------------------------------------------------------------------- sequences, against sixty digits


SEQUENCES: tuple[dict[Privacy, int], ...] = (
    {Privacy(0.3, 1e-4): 5},
    {Privacy(0.05, 0.0): 300},
    {Privacy(0.01, 1e-7): 1000, Privacy(0.3, 1e-3): 2, Privacy(1.5, 0.0): 1},
    {Privacy(2.0, 0.02): 3, Privacy(1e-6, 0.3): 7},
    {Privacy(0.0, 0.1): 4},
)
SLACKS = (1e-12, 1e-3, 0.2, 1.0)
CLOSE = Decimal("1e-13")


pytestmark = pytest.mark.usefixtures("sixty_digits")


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


def probability_of_no_leak(counts: dict[Privacy, int]) -> Decimal:
    return math.prod(((1 - Decimal(event.delta)) ** k for event, k in counts.items()), start=Decimal(1))


@for_each("slack", SLACKS)
@for_each("counts", SEQUENCES)
def test_sequences_have_the_branches_and_the_delta_of_the_formula(counts: dict[Privacy, int], slack: float) -> None:
    exact, delta = branches(counts, slack), 1 - (1 - Decimal(slack)) * probability_of_no_leak(counts)
    assert all(hardly_above(*pair) for pair in zip(kov_branches(counts, slack), exact, strict=True))
    assert hardly_above(kov_delta(counts, slack), delta)
    assert hardly_above(kov_delta(counts, 0), 1 - probability_of_no_leak(counts))


@for_each("counts", SEQUENCES)
def test_the_rest_of_a_total_delta_after_leaks_is_slack(counts: dict[Privacy, int]) -> None:
    floor = 1 - probability_of_no_leak(counts)
    assert kov_composition_at_delta(counts, kov_delta(counts, 0)).epsilon == kov_branches(counts, 1.0)[0]
    for share in (1e-9, 1e-3, 0.5, 0.99):
        total_delta = float(floor + Decimal(share) * probability_of_no_leak(counts))
        found = kov_composition_at_delta(counts, total_delta)
        assert found.delta == total_delta
        slack = (Decimal(total_delta) - floor) / probability_of_no_leak(counts)
        exact = min(branches(counts, float(slack)))
        assert exact * (1 - Decimal("1e-9")) <= Decimal(found.epsilon) <= exact * (1 + Decimal("1e-6"))
        assert kov_delta(counts, float(slack) * (1 - 1e-6)) <= total_delta * (1 + 1e-15)
    if floor > 0:
        with pytest.raises(DeltaTooSmall):
            kov_composition_at_delta(counts, float(floor) * (1 - 1e-12))


def test_the_largest_number_of_mechanisms_is_that_of_exact_doubles() -> None:
    assert MAX_MECHANISMS == 2**53
    assert basic_composition(2.0**-60, 0.0, 2**53).epsilon == 2.0**-7
    for wrong in (2**53 + 1, 0):
        with pytest.raises(InvalidInput, match=rf"k = {wrong} .*expected a whole number of mechanisms, at least 1"):
            kov_composition(0.1, 0.0, wrong, 0.1)


def test_the_charge_for_rounding_covers_its_derivation() -> None:
    """A sum, two roots, a logarithm and a sum of sums of 6 operations each."""
    assert closed_forms.BRANCH_ULPS >= 2 * (6 + 5) * 2


@for_each("slack", [0.0, 1.0 + 1e-15, -1e-9, math.nan, "much", True])
def test_the_slack_of_a_sequence_is_above_0_and_at_most_1(slack: Any) -> None:
    with refused("slack"):
        kov_branches({Privacy(0.1): 2}, slack)


def test_the_closed_form_of_one_kind_is_the_least_branch() -> None:
    least: list[int] = []
    for epsilon, k, slack in ((0.01, 50, 1e-6), (0.01, 50, 0.9), (0.3, 2000, 1e-6), (3.0, 2, 1e-3)):
        branches = kov_branches({Privacy(epsilon, 1e-5): k}, slack)
        found = kov_composition(epsilon, 1e-5, k, slack)
        least.append(branches.index(min(branches)))
        assert found == Privacy(min(branches), kov_delta({Privacy(epsilon, 1e-5): k}, slack if least[-1] else 0.0))
    assert {*least} == {0, 1, 2}
    assert kov_composition(0.1, 0.5, 2000, 0.1) == Privacy(math.inf)  # δ rounds to 1


def test_the_slack_of_the_closed_form_is_at_least_0_and_below_1() -> None:
    assert kov_composition(0.1, 0.0, 2, 0) == basic_composition(0.1, 0.0, 2)
    assert kov_composition(0.01, 0.0, 10**6, 1 - 1e-9).epsilon < 10**4
    for wrong in (1.0, -1e-300):
        with refused("slack"):
            kov_composition(0.1, 0.0, 2, wrong)


@for_each("kept_log", [0.0, -1e-9, -0.3, -20.0])
@for_each("pure", [1e-300, 1e-9, 0.4, 1.0])
def test_a_leak_and_the_loss_without_it_add_up_rounded_up(kept_log: float, pure: float) -> None:
    for floor in (0.0, 1e-5, 0.5):
        exact = min(Decimal(1), Decimal(floor) + Decimal(kept_log).exp() * Decimal(pure))
        assert exact <= Decimal(add_leak(floor, kept_log, pure)) <= exact * (1 + CLOSE)
    assert add_leak(0.25, kept_log, 0.0) == 0.25


@for_each("epsilon", [1e150, 1e160, 1e200, 1.7e308])
@for_each("slack", [1e-320, 1e-6, 0.5])
def test_the_largest_epsilons_add_up(epsilon: float, slack: float) -> None:
    total = kov_composition_at_delta({Privacy(epsilon): 5}, slack).epsilon
    assert total == kov_composition(epsilon, 0.0, 5, slack).epsilon == optimal.total_loss({Privacy(epsilon): 5})
