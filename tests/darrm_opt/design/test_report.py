"""Report: a printed bound is never below the proved number."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from darrm_opt.design.report import guarantee, text_above
from darrm_opt.problem import Privacy
from darrm_opt.rounding import as_written


@given(st.floats(0, 1e12), st.sampled_from([".4g", ".6g", ".6f", ".6e"]))
def test_a_bound_is_printed_rounded_up(value: float, form: str) -> None:
    shown = text_above(value, form)
    assert as_written(float(shown)) >= as_written(value)
    assert len(shown) <= len(format(value, f"#{form}")) + 1  # with its zeros: 1.0000000001 in four digits is 1.001
    assert shown in {format(value, form), text_above(math.nextafter(value, math.inf), form)}
    if form[-1] == "g" and value > 1e-300:
        assert float(shown) <= value * (1 + 10.0 ** (1 - int(form[1])))
    assert text_above(math.inf, form) == "inf"


def test_a_guarantee_is_rounded_up_and_short_if_possible() -> None:
    assert guarantee(Privacy(0.2676, 0.000299970001)) == "(0.2676, 0.000299971)-DP"
    assert guarantee(Privacy(0.3)) == "0.3-DP"
