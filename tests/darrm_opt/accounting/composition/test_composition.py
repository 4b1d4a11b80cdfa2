"""Closed-form composition: the paper's printed numbers, and never below the exact value."""

from __future__ import annotations

import csv
import json
import math
from decimal import Decimal, localcontext
from typing import Any

import pytest
from support.cases import for_each
from support.paths import DATA
from support.refusals import refuses

from darrm_opt.accounting.composition import evaluate
from darrm_opt.accounting.composition.closed_forms import basic_composition, kov_composition
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.problem import Privacy

ROWS = list(csv.DictReader((DATA / "paper_tables.csv").read_text(encoding="utf-8").splitlines()))


DIGITS = 200  # holds each double below, and its small multiples, exactly


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


def test_bad_input_is_named() -> None:
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


def test_accounts_that_do_not_apply_are_reported_and_skipped() -> None:
    accounts = {name: (lambda error=error: failing(error)) for name, error in ERRORS.items()}
    totals, errors = evaluate({**accounts, "sum": lambda: Privacy(3.0, 0.1), "best": lambda: Privacy(2.0, 0.1)})
    assert totals == {"sum": Privacy(3.0, 0.1), "best": Privacy(2.0, 0.1)}
    assert errors == ERRORS


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(InvalidInput):
        evaluate({"bad": lambda: failing(InvalidInput("k", 0, "at least 1")), "good": lambda: Privacy(1.0)})
