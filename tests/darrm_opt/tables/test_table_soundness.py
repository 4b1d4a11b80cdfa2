"""The campaign that holds plurality certificates against exact enumeration, in short, and that it can fail."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from campaigns.plurality import Tally, campaign, report


def test_certified_rules_hold_exactly() -> None:
    tally = Tally()
    for finding in campaign(30, seed=1):
        tally.add(finding)
        assert finding.holds, finding
        assert finding.solution.gap <= 1e-6
    assert "| 30 | 0 |" in report(tally, "short form")


def test_a_breach_would_be_counted() -> None:
    finding = next(campaign(1))
    assert not replace(finding, excess=Fraction(1, 10**12)).holds
    assert not replace(finding, same=False).holds
    tally = Tally()
    tally.add(replace(finding, same=False))
    assert "| 1 | 1 |" in report(tally, "short form")
