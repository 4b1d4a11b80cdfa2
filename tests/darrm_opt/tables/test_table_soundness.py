"""Table certificates against exact enumeration: the campaign in short, and that it can fail."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from campaigns.plurality import finding, row


def test_certified_tables_hold_exactly() -> None:
    for number in range(30):
        found = finding(1, number)
        assert found.holds, found
        assert found.solution.gap <= 1e-6
        assert row(found).faults == []


def test_a_violation_is_reported() -> None:
    found = finding(0, 0)
    for wrong in (replace(found, excess=Fraction(1, 10**12)), replace(found, same=False)):
        assert not wrong.holds
        assert row(wrong).faults
