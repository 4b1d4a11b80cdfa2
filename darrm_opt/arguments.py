"""Arguments: validation of numbers from callers, converted to Python's own types."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from typing import Any

from darrm_opt.decimals import number_in, out_of_range
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS
from darrm_opt.rounding import check_arithmetic


def whole_number(
    value: Any, argument: str, accepted: str, *, least: int = 1, most: float = math.inf, advice: str = ""
) -> int:
    """Return ``value`` as an int in ``least``..``most``; booleans, floats and text are rejected.

    A zero-dimensional array counts as its number. ``advice`` is added to the error for a number outside the range.
    """
    if type(value) is int and least <= value <= most:
        return value
    number = _number_of(value)
    if isinstance(number, bool) or not isinstance(number, numbers.Integral):
        raise InvalidInput(argument, number, accepted, text_advice(number))
    whole = int(number)
    if not least <= whole <= most:
        raise InvalidInput(argument, number, accepted, advice)
    return whole


def real_number(
    value: Any,
    argument: str,
    accepted: str,
    *,
    least: float = -math.inf,
    above: float | None = None,
    most: float = math.inf,
    below: float | None = None,
    advice: str = "",
) -> float:
    """Return ``value``, a real number or a ``Decimal``, as a float in [least, most], above ``above``, below ``below``.

    Booleans, NaN, text, and numbers that would become 0 or infinite are rejected. All accounts take their numbers from
    here, so unsafe arithmetic of this thread is noticed (`check_arithmetic`). ``advice`` is added to the error for a
    number outside the range.
    """
    check_arithmetic()
    number = value if type(value) is float else _as_float(value, argument, accepted)  # abstract classes are slow
    if math.isnan(number):
        raise InvalidInput(argument, value, accepted)
    at_an_open_end = (above is not None and number <= above) or (below is not None and number >= below)
    if at_an_open_end or not least <= number <= most:
        raise InvalidInput(argument, value, accepted, advice)
    return number


def field_number(value: Any, name: str, **changes: Any) -> Any:
    """Return a number in the range of a declared field (`darrm_opt.fields`); ``changes`` narrow it (`Field.of`)."""
    field = FIELDS[name].of(**changes)
    check: Any = whole_number if field.kind == "whole" else real_number
    return check(value, name, field.accepted, **field.limits)


def _as_float(value: Any, argument: str, accepted: str) -> float:
    """Return a number of another type as a float, unless that would make it 0 or infinite."""
    value = _number_of(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise InvalidInput(argument, value, accepted, text_advice(value))
    try:
        number = float(value)
    except (OverflowError, ValueError) as err:  # an integer beyond every double; a signalling NaN
        raise InvalidInput(argument, value, accepted) from err
    if number in {0.0, math.inf, -math.inf} and number != value:
        raise InvalidInput(argument, value, accepted)
    return number


def text_advice(value: Any) -> str:
    """Return the advice for a number that is given as text; nothing for any other value.

    >>> text_advice("11"), text_advice("eleven"), text_advice(11)
    ('It is text: give the number itself, without quotes.', '', '')
    """
    if not isinstance(value, str):
        return ""
    return out_of_range(value) or ("" if number_in(value) is None else _AS_TEXT)


_AS_TEXT = "It is text: give the number itself, without quotes."


def _number_of(value: Any) -> Any:
    """Return the number in a zero-dimensional array; any other value unchanged."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value
