"""Fresh voters and voters trained once: which account of their releases holds.

Releases of a γ compose at the voters' own (ε, Δ) only if every answer uses new randomness. Models trained once answer
every query from the same training, so an earlier bit carries information about each later one, and "Q times (mε, δ)" is
false (`docs/proofs.md`, "Voters that were trained once"). Two accounts hold for their releases, and the cheaper one
counts:

* the voters taken as not private (ε = inf), of which a record changes at most ``affected``: γ itself protects;
* the models together: r of them composed, and everything computed from them, for any number of queries.

A single release has no earlier one, and voters that are not private share no randomness: freshness is irrelevant there.
"""

from __future__ import annotations

import math
from typing import Any

from darrm_opt.errors import InvalidInput
from darrm_opt.problem import FRESH, Privacy, Problem

__all__ = ["FRESH", "check_fresh", "effective_voters"]


def check_fresh(fresh: Any) -> bool:
    """Return ``fresh``, or raise `InvalidInput` if it is not a bool."""
    if not isinstance(fresh, bool):
        raise InvalidInput("fresh", fresh, "True (fresh randomness in every answer) or False (trained once)")
    return fresh


def effective_voters(problem: Problem, queries: int, *, fresh: bool) -> Problem:
    """Return the voters whose (ε, Δ) holds in each release given the earlier ones, so that the releases compose.

    ``problem`` itself, or, for private voters trained once with more than one query, the same voters taken as not
    private. Its target is not a guarantee for the voters returned.

    >>> voters = Problem(5, Privacy(0.3), Privacy(0.1))
    >>> [effective_voters(voters, Q, fresh=fresh).voter.epsilon for Q, fresh in ((1, False), (2, True), (2, False))]
    [0.3, 0.3, inf]
    """
    if check_fresh(fresh) or queries <= 1 or problem.voter.epsilon == math.inf:
        return problem
    return Problem(problem.K, Privacy(math.inf), problem.target, problem.affected)
