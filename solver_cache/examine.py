"""Is this row the answer? Decided from the row alone; acting on it is `solve`'s business.

A row was read from a place that others can write, that can be cut short, and that outlives versions of this program.
So nothing in it is believed: its numbers must be those that were asked, its utility is computed again, and its γ is
proved private again. What leaves is the γ of the row under the certificate of *this* proof.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np

from darrm_opt.design.certificate import Certificate, verify
from darrm_opt.design.solution import Solution, Statistics
from darrm_opt.errors import DarrmError, NotPrivate
from darrm_opt.record import FORMAT, solution_from_record
from solver_cache.key import CORE, Request, digest
from solver_cache.row import Row

Decision = Literal["hit", "miss", "damaged", "stale"]

SAME = 1e-9
"""Recorded and recomputed numbers may differ by this: sums in another order, on another machine, are 1e-13 apart."""


@dataclass(frozen=True)
class Found:
    """What a look into the store came to.

    Attributes:
        decision: "hit", "miss" (nothing there), "damaged" (not an answer to this request, or not private) or "stale"
            (written for other versions of record or answers).
        solution: the answer of a hit, proved again; else None.
        reason: what is wrong with the row, in words; empty for a hit and a miss.
    """

    decision: Decision
    solution: Solution | None = None
    reason: str = ""


def examine(row: Row | None, request: Request) -> Found:
    """Decide whether ``row`` answers ``request``. Pure: nothing is written, logged or counted.

    Returns:
        What was found: "hit" with the solution, "miss", "stale" or "damaged".

    Guarantees:
        A hit's γ is private for the problem that was asked, exactly as stored, whatever was done to the row; its
        utility is its own. That it is *optimal* rests on the row having been written by this program.
    """
    if row is None:
        return Found("miss")
    try:
        return Found("hit", _proved(read_row(row), request))
    except WrongRow as wrong:
        return Found(wrong.decision, reason=str(wrong))


def inspect(row: Row) -> Found:
    """Decide whether ``row`` answers the question that its own record states and its key stands for. Pure.

    Returns:
        As `examine`.
    """
    try:
        solution = read_row(row)
        request = Request(solution.problem, solution.objective, "monotone" if solution.shape == "monotone" else "free")
        if request.key != row.key:
            return Found("damaged", reason="it is kept under the key of another question")
        return Found("hit", _proved(solution, request))
    except WrongRow as wrong:
        return Found(wrong.decision, reason=str(wrong))


class WrongRow(Exception):
    """The row is not an answer; the text says why. Never leaves this package."""

    def __init__(self, reason: str, decision: Decision = "damaged") -> None:
        self.decision: Decision = decision
        super().__init__(reason)


def read_row(row: Row) -> Solution:
    """Return the solution that a row's text holds, unproved, or raise `WrongRow`."""
    if row.digest != digest(row.record):
        raise WrongRow("its text does not fit its SHA-256")
    if row.core != CORE:
        raise WrongRow(f"it was written for version {row.core} of the answers, this is {CORE}", "stale")
    try:
        record = json.loads(row.record, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as err:
        raise WrongRow(f"its text is not JSON: {err}") from err
    if isinstance(record, dict) and record.get("format") != FORMAT:
        raise WrongRow(f"its record has format {record.get('format')!r:.80}, this reads {FORMAT}", "stale")
    try:
        solution = solution_from_record(record)
    except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        raise WrongRow(f"its record cannot be read: {err}") from err  # any step may break on data that anyone wrote
    _check_types(solution)
    return solution


def _proved(solution: Solution, request: Request) -> Solution:
    """Return the solution under a new certificate, or raise `WrongRow`."""
    _check_asked(solution, request)
    try:
        proof = verify(request.problem, solution.noise)
    except NotPrivate as err:
        raise WrongRow(str(err)) from err
    _check_certificate(solution.certificate, proof)
    upper = solution.gamma[request.problem.K // 2 + 1 :]
    utility = request.objective.aim(request.problem.K).utility(upper)
    if not math.isclose(utility, solution.utility, rel_tol=SAME, abs_tol=SAME):
        raise WrongRow(f"its utility is {utility!r}, not {solution.utility!r}")
    if not utility - SAME <= solution.upper_bound <= 1 + SAME:
        raise WrongRow(f"its upper bound {solution.upper_bound!r} is not between its utility {utility!r} and 1")
    if request.shape == "monotone" and np.any(np.diff(upper) < 0):
        raise WrongRow("its gamma is not monotone")
    return replace(solution, certificate=proof, utility=utility)


def _check_asked(solution: Solution, request: Request) -> None:
    if (solution.problem, solution.objective, solution.shape) != (request.problem, request.objective, request.shape):
        raise WrongRow("it answers another question")
    if not solution.status.settled:
        raise WrongRow(
            f"its status is '{solution.status.value}', which solving again may better: such answers are not kept"
        )


def _check_types(solution: Solution) -> None:
    """Check what `solution_from_record` takes as it comes."""
    took: Statistics = solution.statistics
    whole = (took.rows, took.rounds, took.iterations)
    real = (solution.utility, solution.upper_bound, *_values(took.seconds))
    if not (
        all(type(number) is int for number in whole)
        and all(type(number) is float and math.isfinite(number) for number in real)
        and {type(solution.method), type(solution.backend)} == {str}
    ):
        raise WrongRow("its record holds values of the wrong type")


def _values(seconds: Any) -> tuple[Any, ...]:
    return tuple(seconds.values()) if isinstance(seconds, dict) else (None,)


def _check_certificate(recorded: Certificate, proof: Certificate) -> None:
    """Check that the recorded certificate is the one that γ has."""
    if recorded.method != proof.method:
        raise WrongRow(
            f"its certificate does not fit its gamma: method is {proof.method!r}, not {recorded.method!r:.80}"
        )
    for name in ("limit", "bound", "margin", "worst_value"):
        value, again = getattr(recorded, name), getattr(proof, name)
        if type(value) is not float or not math.isclose(value, again, rel_tol=SAME, abs_tol=SAME):
            raise WrongRow(f"its certificate does not fit its gamma: {name} is {again!r}, not {value!r:.80}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
