"""Which comparisons of ways to release are within reach, known before any of the work is done."""

from __future__ import annotations

import math

from darrm_opt.accounting.reach import Reach, counts_of
from darrm_opt.accounting.refusals import TooMuchWork
from darrm_opt.accounting.sequence_design import MOST_QUERIES
from darrm_opt.problem import Privacy, Problem

MOST_DRAWN_STEPS = 15_000
"""Releases times numbers of voters that a record may reach, in one account: about a minute for the whole comparison."""

PRIVATE_STEPS = 25
"""Voters for which a step takes as long again where they are private, as the region of what they show then has more sides."""


def drawn_steps(problem: Problem, queries: int, total: Privacy, reach: Reach) -> float:
    """Return what one account of a draw is made of: releases times numbers of voters, as `MOST_DRAWN_STEPS` counts them."""
    counts = max(1, len(counts_of(problem, queries, reach, total.delta)[0]))
    return queries * counts * (1.0 if problem.voter.epsilon == math.inf else max(1.0, problem.K / PRIVATE_STEPS))


def check_comparable(problem: Problem, queries: int, total: Privacy, reach: Reach | None) -> None:
    """Refuse a comparison that would take much longer than a minute, before any of it is done.

    Raises:
        TooMuchWork: with what can be asked instead.
    """
    if queries > MOST_QUERIES:
        raise TooMuchWork(
            f"{queries} releases are more than the {MOST_QUERIES} that are compared by the exact account of their bits. "
            "Compare fewer queries, or account for one way by itself: darrm compose, /v1/compose."
        )
    if reach is None or (steps := drawn_steps(problem, queries, total, reach)) <= MOST_DRAWN_STEPS:
        return
    fewer = int(queries * MOST_DRAWN_STEPS / steps)
    raise TooMuchWork(
        f"{queries} releases of {problem.K} voters, averaged over the draw of their subsamples, would take minutes. Ask for "
        f"about {fewer} queries at most, for fewer voters, or leave out n and subsample_size: affected = {problem.K} is then "
        "accounted for, which is as safe and less useful."
    )
