"""The tables of papers/results.md are those that its commands print today."""

from __future__ import annotations

import re

import pytest

from darrm_papers.darrm.printed import ACCURACY_TABLES
from tools import results

pytest.importorskip("sklearn")

NUMBER = re.compile(r"\d+\.\d+")

TOLERANCE = 0.011
"""Another release of scikit-learn may train a teacher that answers a question differently: one in a thousand."""


@pytest.fixture
def one_table(monkeypatch: pytest.MonkeyPatch, m: int) -> None:
    """Compute one of the four experiments only."""
    monkeypatch.setattr(results, "settings", lambda: [(m, queries) for queries in (20, 50, 100)])


@pytest.mark.usefixtures("one_table")
@pytest.mark.parametrize("m", [3, pytest.param(max(ACCURACY_TABLES.values()), marks=pytest.mark.slow)])
def test_every_row_of_the_page_is_what_is_computed(m: int) -> None:
    page = results.PAGE.read_text(encoding="utf-8").splitlines()
    made = [*results.summary()[2:], *results.equal_totals()[2:], *(results.accuracy()[2:] if m == 3 else ())]
    assert len(made) == 6 + 27 * (m == 3)
    for row in made:
        shape = NUMBER.sub("0", row)
        alike = [line for line in page if NUMBER.sub("0", line) == shape]
        numbers = [float(number) for number in NUMBER.findall(row)]
        assert any(
            [float(each) for each in NUMBER.findall(line)] == pytest.approx(numbers, abs=TOLERANCE) for line in alike
        ), row
