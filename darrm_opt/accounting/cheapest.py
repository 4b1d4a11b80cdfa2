"""Cheapest account: the least total ε among several sound accounts of the same releases.

Each account is a theorem about the same releases, so whichever gives the least ε is a proof too. An account
may not apply: no finite ε exists at that δ, the computation is too long, or an optional library is not
installed. Then the others decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial

from darrm_opt.accounting.composition.optimal import optimal_composition, optimal_composition_of_sequence
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, TooMuchWork
from darrm_opt.problem import Privacy, check_arithmetic
from darrm_opt.rounding import as_written, decimal_above

Accounts = Mapping[str, Callable[[], Privacy]]
"""Accounts by name; each computes its total (ε, δ) when it is called."""

NotApplicable = DeltaTooSmall | TooMuchWork | BackendUnavailable
"""Errors of an account that does not apply."""


def evaluate(accounts: Accounts) -> tuple[dict[str, Privacy], dict[str, NotApplicable]]:
    """Return the total of each account that applies, and the error of each that does not."""
    check_arithmetic()
    totals: dict[str, Privacy] = {}
    errors: dict[str, NotApplicable] = {}
    for name, account in accounts.items():
        try:
            totals[name] = account()
        except (DeltaTooSmall, TooMuchWork, BackendUnavailable) as err:
            errors[name] = err
    return totals, errors


def cheapest(accounts: Accounts) -> tuple[float, str]:
    """Return the least total ε [nats] and the name of its account; (inf, "none") if none applies.

    >>> cheapest({"a": lambda: Privacy(2.0), "b": lambda: Privacy(1.0)}), cheapest({})
    ((1.0, 'b'), (inf, 'none'))
    """
    totals, _ = evaluate(accounts)
    return min(((total.epsilon, name) for name, total in totals.items()), default=(math.inf, "none"))


def event_accounts(events: Sequence[tuple[Privacy, int]], delta: float) -> dict[str, Callable[[], Privacy]]:
    """Return the accounts of releases of which each is (ε, δ)-DP, and so many of each kind: by sums, and optimal."""
    return {"simple": partial(_simple, events, delta), "optimal": partial(_optimal, events, delta)}


def _simple(privacies: Sequence[tuple[Privacy, int]], delta: float) -> Privacy:
    """Return the sums of ε and δ, of the numbers as written."""
    total_delta = sum((count * as_written(privacy.delta) for privacy, count in privacies), Fraction(0))
    if total_delta > as_written(delta):
        raise DeltaTooSmall(delta, float(total_delta), "the deltas of the releases add up")
    epsilon = sum((count * as_written(privacy.epsilon) for privacy, count in privacies), Fraction(0))
    return Privacy(decimal_above(epsilon), delta)


def _optimal(privacies: Sequence[tuple[Privacy, int]], delta: float) -> Privacy:
    if len(privacies) == 1:
        ((privacy, count),) = privacies
        return optimal_composition(privacy.epsilon, privacy.delta, count, delta)
    counts: dict[Privacy, int] = {}
    for privacy, count in privacies:
        counts[privacy] = counts.get(privacy, 0) + count
    return optimal_composition_of_sequence(counts, delta)
