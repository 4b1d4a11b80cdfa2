"""Numbers in text, as the command line, queries, JSON bodies and grid files spell them.

A number beyond the range of doubles is refused: as 0, a voter's Δ of 1e-400 would claim a
stronger privacy than was given.
"""

from __future__ import annotations

import math


def number_in(text: str) -> int | float | None:
    """Return the int or float that ``text`` spells in ASCII digits, without underscores; None where it spells none.

    >>> [number_in(text) for text in ("11", "1e-4", "inf", "1_1", "1e-400", "1e400", "one")]
    [11, 0.0001, inf, None, None, None, None]
    """
    if not text.isascii() or "_" in text:
        return None
    for parse in (int, double_in):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


def double_in(text: str) -> float:
    """Return ``float(text)``.

    >>> double_in("1e-400")
    Traceback (most recent call last):
    ValueError: 1e-400 cannot be read. It is not 0, and closer to 0 than every other double.
    """
    if reason := out_of_range(text):
        raise ValueError(f"{text[:40]} cannot be read. {reason}")
    return float(text)


def out_of_range(text: str) -> str:
    """Return the sentence that says why the number in ``text`` is refused; "" for any other text."""
    try:
        number = float(text)
    except ValueError:
        return ""
    if number == 0 and any(digit in text.lower().partition("e")[0] for digit in "123456789"):
        return "It is not 0, and closer to 0 than every other double."
    if math.isinf(number) and any(map(str.isdigit, text)):
        return 'It is beyond the largest double, 1.8e308; infinity is written inf (in JSON "inf").'
    return ""
