"""Fresh voters and voters that were trained once: what many releases may suppose of them.

Releases of a γ compose at the voters' own (ε, Δ) only if every answer is given with new randomness. Models that were trained
once answer every query from the same training, so an earlier bit says something of each later one, and "Q times (mε, δ)" is
false (`docs/proofs.md`, "Voters that were trained once"). For their releases two accounts hold, and the cheaper one counts:

* the voters taken as not private (ε = inf), of which a record changes at most ``affected``: γ itself is what protects;
* the models together: r of them composed, and everything computed from them, for any number of queries.

One release has no earlier one, and voters that are not private have no randomness to share: there the word changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

from darrm_opt.accounting.optimal import optimal
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.sequence import optimal_sequence
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import FRESH, Privacy, Problem
from darrm_opt.rounding import as_written

__all__ = ["FRESH", "checked_fresh", "counted_voters", "models_together", "models_total"]


def checked_fresh(fresh: Any) -> bool:
    """Return ``fresh``, or raise `InvalidInput` if it is no truth value."""
    if not isinstance(fresh, bool):
        raise InvalidInput("fresh", fresh, "True (fresh randomness in every answer) or False (trained once)")
    return fresh


def counted_voters(problem: Problem, queries: int, *, fresh: bool) -> Problem:
    """Return the voters as each of ``queries`` releases may count them, so that the releases compose.

    Args:
        problem: K, the voters' privacy, and ``affected``; its target stays as it is, and says nothing of other voters.
        queries: Q ≥ 0 releases in all.
        fresh: see `FRESH`.

    Returns:
        ``problem`` itself, or, for private voters that were trained once and answer more than one query, the same voters taken
        as not private.

    Raises:
        InvalidInput: ``fresh`` is no truth value.

    >>> voters = Problem(5, Privacy(0.3), Privacy(0.1))
    >>> [counted_voters(voters, Q, fresh=fresh).voter.epsilon for Q, fresh in ((1, False), (2, True), (2, False))]
    [0.3, 0.3, inf]
    """
    if checked_fresh(fresh) or queries <= 1 or problem.voter.epsilon == math.inf:
        return problem
    return Problem(problem.K, Privacy(math.inf), problem.target, problem.affected)


def models_together(models: Mapping[Privacy, int], total_delta: float) -> Privacy:
    """Return the privacy of independent models together, and so of everything computed from them.

    Args:
        models: how many of each privacy one record reaches, ≥ 1 in all.
        total_delta: δ of all together [probability], in [0, 1).

    Returns:
        (ε, δ); ε = inf where nothing is proved at that δ. A single model costs its own (ε, Δ).

    Guarantees:
        Sound for models that are independent given the data, by basic or by optimal composition.

    >>> models_together({Privacy(0.5, 1e-6): 1}, 1e-5), models_together({Privacy(0.1): 3}, 0.0).epsilon
    (Privacy(epsilon=0.5, delta=1e-06), 0.3)
    """
    if any(model.epsilon == math.inf for model in models):
        return Privacy(math.inf, total_delta)
    if sum(models.values()) == 1:
        (model,) = models
        if model.delta <= total_delta:
            return model
    found = []
    if sum(count * as_written(model.delta) for model, count in models.items()) <= as_written(total_delta):
        epsilon = sum((count * as_written(model.epsilon) for model, count in models.items()), Fraction(0))
        found.append(Privacy(_at_least(epsilon), total_delta))
    with suppress(BelowLeakFloor, TooMuchWork):
        if len(models) == 1:
            ((model, count),) = models.items()
            found.append(optimal(model.epsilon, model.delta, count, total_delta))
        else:
            found.append(optimal_sequence(models, total_delta))
    return min(found, key=lambda privacy: privacy.epsilon, default=Privacy(math.inf, total_delta))


def models_total(problem: Problem, queries: int, total_delta: float, *, fresh: bool) -> Privacy:
    """Return what the models of a problem cost together, where that is an account of the releases; ε = inf where it is none.

    Args:
        problem: its voters count.
        queries: Q ≥ 0 releases in all.
        total_delta: δ of all together [probability], in [0, 1).
        fresh: see `FRESH`; fresh voters pay for every answer, so their models together are no account.
    """
    if counted_voters(problem, queries, fresh=fresh) is problem:
        return Privacy(math.inf, total_delta)
    return models_together({problem.voter: problem.affected}, total_delta)


def _at_least(value: Fraction) -> float:
    """Return a double that, as it is written, is at least ``value``: 3·0.1 is 0.3."""
    nearest = value.numerator / value.denominator
    return nearest if as_written(nearest) >= value else math.nextafter(nearest, math.inf)
