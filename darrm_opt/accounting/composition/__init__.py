"""Composition of (ε, δ)-DP releases: closed forms, the exact optimum, and their sums.

An account may not apply: no finite ε exists at that δ, the computation is too long, or an optional library is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction

from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, TooMuchWork
from darrm_opt.problem import Privacy
from darrm_opt.rounding import as_written, check_arithmetic

Accounts = Mapping[str, Callable[[], Privacy]]  # accounts by name; each computes its total (ε, δ) when it is called
NotApplicable = DeltaTooSmall | TooMuchWork | BackendUnavailable  # errors of an account that does not apply


def evaluate(accounts: Accounts, skip: Collection[str] = ()) -> tuple[dict[str, Privacy], dict[str, NotApplicable]]:
    """Return the total of each account that applies, and the error of each that does not, except those in ``skip``."""
    check_arithmetic()
    totals: dict[str, Privacy] = {}
    errors: dict[str, NotApplicable] = {}
    for name in (name for name in accounts if name not in skip):
        try:
            totals[name] = accounts[name]()
        except (DeltaTooSmall, TooMuchWork, BackendUnavailable) as err:
            errors[name] = err
    return totals, errors


def sums_as_written(events: Mapping[Privacy, int]) -> tuple[Fraction, Fraction]:
    """Return (Σε, Σδ), exactly, of the numbers as written."""
    return (
        sum((count * as_written(event.epsilon) for event, count in events.items()), Fraction(0)),
        sum((count * as_written(event.delta) for event, count in events.items()), Fraction(0)),
    )
