"""Numbers in text: a number that no double represents is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt import Privacy, Problem
from darrm_opt.decimals import double_in, number_in, out_of_range
from darrm_opt.problem import MAX_VOTERS


@for_each(
    ("text", "number"),
    [("11", 11), ("-3", -3), ("+.5", 0.5), ("1e-4", 1e-4), ("inf", math.inf), ("0e-999", 0.0), ("3e-324", 5e-324)],
)
def test_a_number_is_read(text: str, number: float) -> None:
    found = number_in(text)
    assert found == number
    assert type(found) is type(number)


@for_each("text", ["", "a", "1_1", "0_1.5", "١١", ".٣", "1e400", "-1e400", "1e-400", "-2e-324", "9" * 5000])
def test_invalid_or_inexact_numbers_are_not_read(text: str) -> None:
    assert number_in(text) is None


@for_each("text", ["1e-400", "-1e-400", "0.0001e-399", "1E-400"])
def test_underflow_to_0_is_explained(text: str) -> None:
    assert out_of_range(text) == "It is not 0, but closer to 0 than any other double."
    with pytest.raises(ValueError, match=f"^{text} cannot be read. It is not 0"):
        double_in(text)


def test_overflow_to_infinity_is_explained() -> None:
    assert "infinity is written inf" in out_of_range("1e400")
    assert [out_of_range(text) for text in ("inf", "-Infinity", "nan", "0", "0e5", "1e-310", "word")] == [""] * 7


@pytest.mark.parametrize("value", ["1e-400", Decimal("1e-400"), Fraction(1, 10**400)])
def test_a_probability_above_0_never_becomes_0(value: object) -> None:
    with refused("delta"):
        Privacy(1.0, value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["1e400", Decimal("1e400"), 10**400])
def test_a_finite_epsilon_never_becomes_infinite(value: object) -> None:
    with refused("epsilon"):
        Privacy(value)  # type: ignore[arg-type]


def test_infinity_and_decimals_are_numbers() -> None:
    assert Privacy(Decimal("Infinity")).epsilon == math.inf  # type: ignore[arg-type]
    assert Privacy(Decimal("0.5"), Decimal(0)) == Privacy(0.5)  # type: ignore[arg-type]


def test_the_number_of_voters_is_limited() -> None:
    assert Problem.from_allowance(MAX_VOTERS, 1, 0.1).K == MAX_VOTERS
    with refused("K", "1000001"):
        Problem(MAX_VOTERS + 1, Privacy(0.1), Privacy(0.1))
