"""Reports: answers as JSON for programs, and in words and columns for people (`darrm_opt.design.report`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from darrm.cli.parameters import FRESH
from darrm_opt.design.report import (
    CORNERS,
    certificate_text,
    columns,
    count_text,
    guarantee,
    problem_text,
    solution_text,
    text_above,
    voters_text,
)

if TYPE_CHECKING:
    from darrm_opt import Problem, Solution

__all__ = [
    "CORNERS",
    "as_json",
    "certificate_text",
    "columns",
    "count_text",
    "guarantee",
    "problem_text",
    "solution_json",
    "solution_text",
    "text_above",
    "trained_text",
    "voters_text",
]


def as_json(content: Any) -> str:
    """Return JSON text that reads back as the same doubles, on one line: answers in one file are JSON Lines."""
    import json

    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def solution_json(solution: Solution) -> str:
    """Return the answer as the record that `darrm verify` reads."""
    from darrm_opt.record import solution_record

    return as_json(solution_record(solution))


def trained_text(problem: Problem, *, fresh: bool) -> str:
    """Return whether private voters are fresh, to be put behind them; nothing where they are not private."""
    if problem.voter.epsilon == math.inf:
        return ""
    return " (fresh in every answer)" if fresh else " (trained once)"


def assumed_text(problem: Problem, queries: int, *, fresh: bool) -> str:
    """Return what a total assumes of its voters, in sentences; nothing where that makes no difference.

    >>> from darrm_opt import Privacy, Problem
    >>> print(assumed_text(Problem(3, Privacy(0.1), Privacy(0.3)), 2, fresh=False).partition(". ")[0])
    The voters were taken to have been trained once
    >>> assumed_text(Problem(3, Privacy(0.1), Privacy(0.3)), 1, fresh=False)
    ''
    """
    if problem.voter.epsilon == math.inf or queries <= 1:
        return ""
    return f"The voters were taken to {'be fresh' if fresh else 'have been trained once'}. {FRESH}"
