"""Fresh voters and voters that were trained once: which account of their releases holds.

Releases of a γ compose at the voters' own (ε, Δ) only if every answer uses new randomness. Models that were trained
once answer every query from the same training, so an earlier bit carries information about each later one, and "Q
times (mε, δ)" is false (`docs/proofs.md`, "Voters that were trained once"). Two accounts hold for their releases,
and the cheaper one counts:

* the voters taken as not private (ε = inf), of which a record changes at most ``affected``: γ itself protects;
* the models together: r of them composed, and everything computed from them, for any number of queries.

A single release has no earlier one, and voters that are not private have no randomness to share:
freshness changes nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from darrm_opt.accounting.composition import cheapest, event_accounts
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import FRESH, Privacy, Problem

__all__ = ["FRESH", "check_fresh", "compose_models", "effective_voters", "models_account"]


def check_fresh(fresh: Any) -> bool:
    """Return ``fresh``, or raise `InvalidInput` if it is not a bool."""
    if not isinstance(fresh, bool):
        raise InvalidInput("fresh", fresh, "True (fresh randomness in every answer) or False (trained once)")
    return fresh


def effective_voters(problem: Problem, queries: int, *, fresh: bool) -> Problem:
    """Return the voters whose (ε, Δ) holds in each release given the earlier ones, so that the releases compose.

    ``problem`` itself, or, for private voters that were trained once and answer more than one query, the same voters
    taken as not private. Its target is no guarantee for the voters returned.

    >>> voters = Problem(5, Privacy(0.3), Privacy(0.1))
    >>> [effective_voters(voters, Q, fresh=fresh).voter.epsilon for Q, fresh in ((1, False), (2, True), (2, False))]
    [0.3, 0.3, inf]
    """
    if check_fresh(fresh) or queries <= 1 or problem.voter.epsilon == math.inf:
        return problem
    return Problem(problem.K, Privacy(math.inf), problem.target, problem.affected)


def compose_models(models: Mapping[Privacy, int], total_delta: float) -> Privacy:
    """Return the privacy of independent models together, and so of everything computed from them.

    Args:
        models: how many models of each privacy one record affects, ≥ 1 in all.
        total_delta: δ of all together [probability], in [0, 1).

    Returns:
        (ε, δ); ε = inf where nothing is proved at that δ. A single model costs its own (ε, Δ).

    Guarantees:
        Sound for models that are independent given the data, by basic or by optimal composition, and of models that
        state a privacy profile by the composition of their pairs of laws. Basic composition adds the numbers as
        written: three times 0.1 is 0.3, though as doubles it is 3e-17 more.

    >>> compose_models({Privacy(0.5, 1e-6): 1}, 1e-5), compose_models({Privacy(0.1): 3}, 0.0).epsilon
    (Privacy(epsilon=0.5, delta=1e-06), 0.3)
    """
    if any(model.epsilon == math.inf for model in models):
        return Privacy(math.inf, total_delta)
    # Its own numbers, untouched: an account would round them up.
    if any(len(model.points) > 1 for model in models):
        # Loaded where models state profiles: few do.
        from darrm_opt.accounting.model_profiles import profile_accounts

        return Privacy(
            cheapest(profile_accounts(models, total_delta) | event_accounts(models.items(), total_delta))[0],
            total_delta,
        )
    if sum(models.values()) == 1:
        (model,) = models
        if model.delta <= total_delta:
            return model
    return Privacy(cheapest(event_accounts(models.items(), total_delta))[0], total_delta)


def models_account(problem: Problem, queries: int, total_delta: float, *, fresh: bool) -> Privacy:
    """Return the account of the releases by the privacy of the models together; ε = inf if it does not apply.

    Fresh voters pay for every answer, so this account does not apply to them.
    """
    if effective_voters(problem, queries, fresh=fresh) is problem:
        return Privacy(math.inf, total_delta)
    return compose_models({problem.voter: problem.affected}, total_delta)
