"""What came in, proved again: nothing that a service or a file says about privacy is believed.

From an answer the client takes γ, and proves it private for the problem that *it* asked, by its own arithmetic. What else
the answer claims is held against γ: its utility is computed again, and a certificate, an objective or a shape that does
not fit is a reason to trust nothing of it. Only one claim has to be believed, because it does not follow from γ: that no
private γ is better than `upper_bound`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from api.client.errors import Distrusted
from darrm_opt._version import __version__
from darrm_opt.design.certificate import Certificate, verify
from darrm_opt.design.solution import Solution
from darrm_opt.design_spec import DesignSpec
from darrm_opt.errors import DarrmError
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem
from darrm_opt.record import problem_from_record, solution_from_record

SAME = 1e-9
"""Told and recomputed numbers may differ by this, as in `solver_cache.validate`: other machines sum in another order."""


@dataclass(frozen=True)
class Received(Solution):
    """A solution that came from elsewhere and was proved here, with where it came from.

    Attributes:
        id: content key of what was asked.
        cached: whether the other side had it before.
        designed_for: None where γ is the answer to the very question that was asked; else the problem for which it was
            designed, whose guarantee implies the one asked: γ is private as asked, though not the best.
    """

    id: str = ""
    cached: bool = False
    designed_for: Problem | None = None

    @property
    def exact(self) -> bool:
        """Whether γ is the answer to the very question that was asked."""
        return self.designed_for is None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the person who asked should reconsider, in sentences; usually empty."""
        if self.designed_for is None:
            return super().warnings
        other = self.designed_for
        told = (
            f"This is the nearest kept answer, designed for another question (voters ε = {other.voter.epsilon:g}, "
            f"Δ = {other.voter.delta:g}, {other.affected} affected; release ε = {other.target.epsilon:g}, "
            f"δ = {other.target.delta:g}): private as asked, but a γ for the very problem may keep more utility."
        )
        return (*super().warnings, told)


def proved(told: Any, request: DesignSpec) -> Received:
    """Return an answer under a certificate of this process.

    Args:
        told: the answer as plain data, a record with ``id``, ``cached`` and ``nearest``; anything may be in it.
        request: what was asked.

    Guarantees:
        The γ that returns is private for ``request.problem``, exactly as its bits are; its utility is its own.

    Raises:
        NotPrivate: γ is not private for the problem that was asked.
        Distrusted: anything else does not fit.
    """
    solution, label = _read(told), _label(told, request)
    problem = request.problem
    if (str(solution.objective), solution.shape) != (str(request.objective), request.shape):
        raise Distrusted(f"The answer maximises {solution.objective}, {solution.shape}, which was not asked.")
    if solution.problem.K != problem.K or solution.problem not in {problem, label}:
        raise Distrusted("The answer is for another problem than the one that was asked, and does not say so.")
    proof = verify(problem, solution.noise)
    described = proof if solution.problem == problem else verify(solution.problem, solution.noise)
    _check_certificate(solution.certificate, described)
    utility = checked_utility(solution, request)
    return Received(
        **{
            **solution.__dict__,
            "problem": problem,
            "certificate": proof,
            "utility": utility,
            # A bound for a harder problem is none for this one.
            "upper_bound": solution.upper_bound if solution.problem == problem else 1.0,
        },
        id=request.key,
        cached=told.get("cached") is True,
        designed_for=label,
    )


def private(gamma: Any, problem: Problem) -> NoiseFunction:
    """Return a γ that stands in an answer, proved private for ``problem``.

    Raises:
        NotPrivate: it is not.
        Distrusted: it is no γ.
    """
    noise = noise_of(gamma, problem.K)
    verify(problem, noise)
    return noise


def noise_of(gamma: Any, K: int) -> NoiseFunction:
    """Return a γ that stands in an answer.

    Raises:
        Distrusted: it is no γ for K voters.
    """
    if not isinstance(gamma, list) or not all(isinstance(value, int | float) for value in gamma):
        raise Distrusted("The answer has something else where a γ should be.")
    try:
        return NoiseFunction(gamma, K)
    except DarrmError as err:
        raise Distrusted(f"The answer has something else where a γ should be: {err}") from err


def problem_told(record: Any) -> Problem:
    """Return a problem that stands in an answer.

    Raises:
        Distrusted: it is none.
    """
    try:
        return problem_from_record(record)
    except (DarrmError, ArithmeticError, TypeError, ValueError) as err:
        raise Distrusted(f"The answer has something else where a problem should be: {err}") from err


def checked_utility(solution: Solution, request: DesignSpec) -> float:
    """Return the utility of γ by the objective that was asked, which the answer must have told too.

    Raises:
        Distrusted: it has told another, or a bound that is none, or γ is not of the shape that was asked.
    """
    upper = solution.gamma[request.problem.K // 2 + 1 :]
    utility = request.objective.aim(request.problem.K).utility(upper)
    if not math.isclose(utility, solution.utility, rel_tol=SAME, abs_tol=SAME):
        raise Distrusted(f"The answer says that γ has utility {solution.utility!r}; it has {utility!r}.")
    if not utility - SAME <= solution.upper_bound <= 1 + SAME:
        raise Distrusted(f"The answer's upper bound {solution.upper_bound!r} is not between {utility!r} and 1.")
    if request.shape == "monotone" and np.any(np.diff(upper) < 0):
        raise Distrusted("A monotone γ was asked for, and the answer is not monotone.")
    return utility


def _read(told: Any) -> Solution:
    """Return the solution that an answer states, unproved."""
    try:
        solution = solution_from_record(told)
        numbers = (solution.utility, solution.upper_bound, *solution.statistics.seconds.values())
        whole = (solution.statistics.rows, solution.statistics.rounds, solution.statistics.iterations)
    except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        raise Distrusted(f"The answer is no record of a solution: {err}") from err  # anything may be in it
    fine = all(type(number) in {int, float} and math.isfinite(number) for number in numbers)
    fine = fine and all(type(number) is int for number in whole)
    if not fine or {type(solution.method), type(solution.backend), type(solution.shape)} != {str}:
        raise Distrusted("The answer is no record of a solution: a number or a word in it is of the wrong type.")
    noise_of(told["gamma"], solution.problem.K)  # of numbers, not of what can be read as numbers
    took = replace(solution.statistics, seconds=dict(solution.statistics.seconds))
    return replace(solution, statistics=took, utility=float(solution.utility), upper_bound=float(solution.upper_bound))


def _label(told: dict[str, Any], request: DesignSpec) -> Problem | None:
    """Return the problem for which an answer says that it was designed; None where it says that it is the very answer."""
    label = told.get("nearest")
    if label is None:
        return None
    designed = problem_told(label.get("designed_for") if isinstance(label, dict) else label)
    shape = label.get("designed_shape", request.shape)
    return None if (designed, shape) == (request.problem, request.shape) else designed


def _check_certificate(told: Certificate, proof: Certificate) -> None:
    """Check that the certificate is the one that γ has; another version may have bounded the same thing less tightly."""
    names = ("limit", "bound", "margin", "worst_value") if told.version == __version__ else ("limit",)
    for name in names:
        value, again = getattr(told, name), getattr(proof, name)
        if type(value) not in {int, float} or not math.isclose(value, again, rel_tol=SAME, abs_tol=SAME):
            raise Distrusted(f"The certificate does not fit γ: its {name} is {again!r}, not {value!r:.80}.")
    if told.version == __version__ and told.method != proof.method:
        raise Distrusted(f"The certificate does not fit γ: its method is {proof.method!r}, not {told.method!r:.80}.")
