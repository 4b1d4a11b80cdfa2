"""Composition of (ε, δ)-DP releases: closed forms, the exact optimum, and the least of all accounts that apply.

Each account is a theorem about the same releases, so whichever gives the least ε is a proof too. An account
may not apply: no finite ε exists at that δ, the computation is too long, or an optional library is not
installed. Then the others decide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from functools import partial

from darrm_opt.accounting.composition.optimal import optimal_composition_of_sequence
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, TooMuchWork
from darrm_opt.problem import Privacy
from darrm_opt.rounding import as_written, check_arithmetic, decimal_above

Accounts = Mapping[str, Callable[[], Privacy]]
"""Accounts by name; each computes its total (ε, δ) when it is called."""

NotApplicable = DeltaTooSmall | TooMuchWork | BackendUnavailable
"""Errors of an account that does not apply."""


def evaluate(accounts: Accounts, skip: Collection[str] = ()) -> tuple[dict[str, Privacy], dict[str, NotApplicable]]:
    """Return the total of each account that applies, and the error of each that does not; ``skip``: not asked."""
    check_arithmetic()
    totals: dict[str, Privacy] = {}
    errors: dict[str, NotApplicable] = {}
    for name in (name for name in accounts if name not in skip):
        try:
            totals[name] = accounts[name]()
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


def event_accounts(events: Iterable[tuple[Privacy, int]], delta: float) -> dict[str, Callable[[], Privacy]]:
    """Return the accounts of (ε, δ)-DP releases, a number of each kind: by sums, and optimal."""
    counts: Counter[Privacy] = Counter()
    for privacy, count in events:
        counts[privacy] += count
    return {
        "simple": partial(simple_composition, counts, delta),
        "optimal": partial(optimal_composition_of_sequence, counts, delta),
    }


def simple_composition(counts: Mapping[Privacy, int], delta: float) -> Privacy:
    """Return the sums of ε and δ, of the numbers as written."""
    epsilon, total_delta = sums_as_written(counts)
    if total_delta > as_written(delta):
        raise DeltaTooSmall(delta, float(total_delta), "the deltas of the releases add up")
    return Privacy(decimal_above(epsilon), delta)


def sums_as_written(events: Mapping[Privacy, int]) -> tuple[Fraction, Fraction]:
    """Return (Σε, Σδ), exactly, of the numbers as written."""
    return (
        sum((count * as_written(event.epsilon) for event, count in events.items()), Fraction(0)),
        sum((count * as_written(event.delta) for event, count in events.items()), Fraction(0)),
    )
