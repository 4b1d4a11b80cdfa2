"""Cheapest account: accounts that do not apply are skipped, other errors are not."""

from __future__ import annotations

import pytest

from darrm_opt.accounting.composition import evaluate
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.problem import Privacy


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
