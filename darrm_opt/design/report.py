"""Text of a solution: its γ, proof and problem in words and columns, as printed by the command line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import TYPE_CHECKING

from darrm_opt.design.profile_vertices import profile_vertices
from darrm_opt.problem import FRESH, Privacy, TargetProfile

if TYPE_CHECKING:
    from darrm_opt.design.certificate import Certificate
    from darrm_opt.problem import Problem

FRESH_MEANING = "each draws new independent randomness for every query"

TRAINED_MEANING = "(ε, Δ) is the privacy of the whole voter"

CORNERS = {
    "zero": "(0, 0)",
    "one": "(1, 1)",
    "xy": "(x, y)",
    "yx": "(y, x)",
    "up": "(0, Δ)",
    "down": "(Δ, 0)",
    "up_to_one": "(1−Δ, 1)",
    "down_from_one": "(1, 1−Δ)",
}
"""Corners in text: the pair (p, p′) of a voter's probabilities on the two neighbouring datasets."""

_COVERED = {
    "complete": "every way in which a record can move the voters was searched",
    "first-order": "every way in which a record can move the voters was searched or bounded",
    "monotone": "every way in which a record can move the voters that can be worst for a monotone γ was searched",
    "ball": "every way in which a record can move the voters was enclosed in ball arithmetic",
}


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return lines with right-aligned columns."""
    table = [heads, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    return "\n".join(
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table
    )


def problem_text(problem: Problem) -> str:
    """Return the problem as a sentence.

    >>> from darrm_opt import Problem
    >>> print(problem_text(Problem.from_allowance(K=11, m=3, epsilon=0.1)))
    11 voters, each 0.1-DP; the release of one bit is 0.3-DP (m = 3).
    """
    allowance = "" if problem.m is None else f" (m = {problem.m:g})"
    return f"{voters_text(problem)}; the release of one bit is {guarantee(problem.target)}{allowance}."


def voters_text(problem: Problem, stated: object = None) -> str:
    """Return the voters in words, and the influence of one record; ``stated``: the curve of their profile, if any."""
    voter = problem.voter  # an assumption, so with all digits: rounding up would weaken it
    exact = f"({voter.epsilon:.12g}, {voter.delta:.12g})-DP" if voter.delta else f"{voter.epsilon:.12g}-DP"
    kind = "not private" if voter.epsilon == math.inf else exact
    if len(voter.points) > 1:
        points = ", ".join(f"({e:.12g}, {d:.12g})" for e, d in voter.points)
        curve = getattr(stated, "text", None)
        kind = f"with the privacy profile {(curve and f'{curve}, by {len(voter.points)} of its points') or points}"
    influence = (
        "" if problem.affected == problem.K else f"; one record reaches at most {count_text(problem.affected, 'voter')}"
    )
    return f"{count_text(problem.K, 'voter')}, each {kind}{influence}"


def trained_text(problem: Problem, *, fresh: bool) -> str:
    """Return whether private voters are fresh, to be put behind them; nothing where they are not private."""
    if problem.is_public:
        return ""
    return " (fresh in every answer)" if fresh else " (trained once)"


def assumed_text(voters: Sequence[Privacy], queries: int, *, fresh: bool, brief: bool = False) -> str:
    """Return what a total assumes of its voters, in sentences; nothing where that makes no difference.

    ``brief``: without the definition of fresh voters, which otherwise follows if they are not.

    >>> print(assumed_text([Privacy(0.1)], 2, fresh=False).partition(". ")[0])
    The voters were taken to have been trained once
    >>> assumed_text([Privacy(0.1)], 1, fresh=False)
    ''
    """
    if queries <= 1 or all(voter.epsilon == math.inf for voter in voters):
        return ""
    if fresh:
        return f"The voters were taken to be fresh: {FRESH_MEANING}."
    if brief:
        return f"The voters were taken to have been trained once: {TRAINED_MEANING}."
    return f"The voters were taken to have been trained once. {FRESH}"


def text_above(value: float, form: str = ".6g") -> str:
    """Return a proved bound in fewer digits, never below the number as written.

    >>> text_above(2.0954840001), text_above(0.12344, ".4g"), text_above(0.1), text_above(3.98844929, ".4f")
    ('2.09549', '0.1235', '0.1', '3.9885')
    """
    with localcontext() as context:
        context.rounding = ROUND_CEILING
        return format(float(format(Decimal(repr(float(value))), form)), form)


def guarantee(privacy: Privacy, form: str = ".6g") -> str:
    """Return (ε, δ)-DP as text, never rounded down; ``form`` as in `text_above`."""
    if isinstance(privacy, TargetProfile):
        return " and ".join(guarantee(Privacy(*point), form) for point in privacy.points)
    epsilon = text_above(privacy.epsilon, form)
    return f"({epsilon}, {text_above(privacy.delta, form)})-DP" if privacy.delta else f"{epsilon}-DP"


def certificate_text(certificate: Certificate, problem: Problem | None = None) -> str:
    """Return the proof that γ is private, in words; ``problem`` gives the positions of a profile's vertices."""
    vertices = None if problem is None else profile_vertices(problem.strictest.voter)
    if vertices is None:
        worst = ", ".join(f"{count} at {_corner(label)}" for label, count in certificate.worst_corners.items())
        where = "           x = (e^ε + Δ)/(e^ε + 1), y = (1 − Δ)/(e^ε + 1)"
    else:
        worst = vertices.text(certificate.worst_corners)
        where = "           upper and lower vertices of the profile's region are numbered from (0, 0)"
    return "\n".join(
        [
            f"private    proved for these exact numbers: {_COVERED.get(certificate.method, certificate.method)};",
            f"           {slack_text(certificate.margin, certificate.error_bound)}",
            f"tightest   {worst}: (p, p′) is a voter's probability of voting 1 on the data and on its neighbour;",
            where,
        ]
    )


def slack_text(margin: float, error_bound: float | None = None) -> str:
    """Return the slack of a certificate in words."""
    charged = "after rounding" if error_bound is None else f"after charging up to {error_bound:.1e} for rounding"
    return f"worst-case slack: {margin:.1e} of probability, {charged}"


def _corner(label: str) -> str:
    """Return a corner's name, as in JSON and in docs/certificate.md, with its pair."""
    return f"{label} {CORNERS[label]}" if label in CORNERS else label


def count_text(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: 1 release, 2 releases."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
