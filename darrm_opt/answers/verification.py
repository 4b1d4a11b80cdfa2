"""Verification of answers: no statement of a service or file about privacy is trusted.

This process proves every γ in an answer private for the caller's problem and compares the answer's other claims with γ
(`darrm_opt.verification`). One claim does not follow from γ and must be trusted: that no private γ is better than
`upper_bound`. So must numbers that the other side computes from several γ (a total, an accuracy).

The functions return an answer given as plain data, or raise `VerificationFailed`, or `NotPrivate` with the
counterexample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from darrm_opt.answers import DRAW, voters_body
from darrm_opt.design.certificate import verify
from darrm_opt.design.solution import Solution
from darrm_opt.errors import DarrmError, InvalidInput, VerificationFailed
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem
from darrm_opt.record import DesignSpec, problem_from_record
from darrm_opt.untrusted import UNREADABLE
from darrm_opt.verification import InvalidSolution, read_solution, verify_solution

if TYPE_CHECKING:
    from darrm_opt.accounting.sampling import Sampling
    from darrm_opt.planning.question import Question


Arguments = ParamSpec("Arguments")

Typed = TypeVar("Typed")


def reads(read: Callable[Arguments, Typed]) -> Callable[Arguments, Typed]:
    """Make a function raise `VerificationFailed` if an answer does not have the expected form."""

    @wraps(read)
    def strictly(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Typed:
        try:
            return read(*args, **kwargs)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
            raise VerificationFailed(f"The answer cannot be read ({type(err).__name__}: {err}).") from err

    return strictly


@dataclass(frozen=True)
class VerifiedAnswer(Solution):
    """Solution from elsewhere that was proved by this process, with its origin.

    Attributes:
        id: content key of the question.
        cached: whether the answer was stored already.
        designed_for: None if γ was designed for this question; else the stricter problem for which it was designed,
            whose guarantee implies the requested one: γ is private as requested but perhaps not the best.
    """

    id: str = ""
    cached: bool = False
    designed_for: Problem | None = None

    @property
    def exact(self) -> bool:
        """Whether γ was designed for this question."""
        return self.designed_for is None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about what to reconsider; usually empty."""
        if self.designed_for is None:
            return super().warnings
        problem = self.designed_for
        sentence = (
            f"This is the nearest stored answer, designed for another question (voters ε = {problem.voter.epsilon:g}, "
            f"Δ = {problem.voter.delta:g}, {problem.affected} affected; release ε = {problem.target.epsilon:g}, "
            f"δ = {problem.target.delta:g}): private as requested, but a γ for this very problem may be more useful."
        )
        return (*super().warnings, sentence)


def verify_answer(content: Any, spec: DesignSpec) -> VerifiedAnswer:
    """Return an answer with a certificate proved by this process.

    Guarantees: The γ returned is private for ``spec.problem``, exactly as stored; its utility is recomputed.
    """
    try:
        solution = read_solution(content)
        # Another problem is accepted only if the answer says so: its guarantee implies the requested one.
        label = _label(content, spec)
        if solution.problem.K != spec.problem.K or solution.problem not in {spec.problem, label}:
            raise VerificationFailed("The answer is for another problem than requested, and does not say so.")
        solution = verify_solution(solution, DesignSpec(solution.problem, spec.objective, spec.shape))
    except InvalidSolution as err:
        raise VerificationFailed(f"The answer is invalid: {err}.") from err
    # Proved for the requested problem as well, because the caller relies on that.
    exact = solution.problem == spec.problem
    return VerifiedAnswer(
        **{
            **solution.__dict__,
            "problem": spec.problem,
            "certificate": solution.certificate if exact else verify(spec.problem, solution.noise),
            "upper_bound": solution.upper_bound if exact else 1.0,  # a bound for a harder problem does not apply
        },
        id=spec.key,
        cached=content.get("cached") is True,
        designed_for=label,
    )


def verify_gamma(gamma: Any, problem: Problem) -> NoiseFunction:
    """Return a γ in an answer, proved private for ``problem``."""
    noise = parse_gamma(gamma, problem.K)
    verify(problem, noise)
    return noise


def parse_gamma(gamma: Any, K: int) -> NoiseFunction:
    """Return a γ in an answer."""
    if not isinstance(gamma, list) or not all(isinstance(value, int | float) for value in gamma):
        raise VerificationFailed("The answer's γ is invalid.")
    try:
        return NoiseFunction(gamma, K)
    except DarrmError as err:
        raise VerificationFailed(f"The answer's γ is invalid: {err}") from err


def parse_problem(record: Any) -> Problem:
    """Return a problem in an answer."""
    try:
        return problem_from_record(record)
    except UNREADABLE as err:
        raise VerificationFailed(f"The answer's problem is invalid: {err}") from err


def member(record: Any, name: str) -> Any:
    """Return a field of an answer, or of a record in it."""
    if not isinstance(record, dict) or name not in record:
        raise VerificationFailed(f"The answer lacks {name}: is this a darrm-opt service of this version?")
    return record[name]


def members(value: Any, kind: type[dict[str, Any] | list[Any]]) -> Collection[Any]:
    """Return the values of an object, or the items of a list, in an answer."""
    if not isinstance(value, kind):
        raise VerificationFailed(f"The answer has {type(value).__name__} in place of {kind.__name__}.")
    return list(value.values()) if isinstance(value, dict) else value


def verify_budget(answer: Any, question: Question) -> None:
    """Reject an answer for other voters, another budget or another draw than the question's."""
    draw = None if question.bags is None else asdict(question.bags)
    draw_record = member(answer, "draw")
    pairs = {
        "fresh": (question.fresh, member(answer, "fresh")),
        "queries": (question.queries, member(answer, "queries")),
        "voters": (voters_body(question.voters), member(answer, "voters")),
        "draw": (draw, {name: member(draw_record, name) for name in DRAW} if draw_record is not None else None),
    }
    total = member(answer, "total")
    for name, wanted in asdict(question.total).items():
        value = member(total, name)
        # A total may come back on the decimal grid; everything else must be equal, including its type.
        close = isinstance(value, int | float) and math.isclose(value, wanted, rel_tol=1e-9)
        pairs[f"total {name}"] = (wanted, wanted if close else value)
    for name, (expected, claim) in pairs.items():
        if type(expected) is not type(claim) or expected != claim:
            raise VerificationFailed(f"The answer is for {name} = {claim!r}, but the request was for {expected!r}.")


def verify_options(answer: Any, problem: Problem, queries: int, sampling: Sampling | None = None) -> dict[str, Any]:
    """Return an answer of options after proving that the best one's mechanism fits in the total."""
    from darrm_opt.mechanisms import mechanism_from_record

    try:
        mechanism = mechanism_from_record(member(answer, "mechanism"))
    except InvalidInput as err:
        raise VerificationFailed(f"The answer's mechanism is invalid: {err}") from err
    # A mechanism that fits when fewer votes move proves nothing here.
    if (mechanism.K, mechanism.classes, mechanism.affected) != (problem.K, problem.classes, problem.affected):
        raise VerificationFailed("The answer has a mechanism for other voters or classes than requested.")
    # A mechanism that relies on private voters proves nothing for these, which are not.
    if mechanism.private_voters:
        raise VerificationFailed("The answer has a mechanism for voters that are private themselves.")
    if answer.get("sampling") != (None if sampling is None else sampling.record()):
        raise VerificationFailed("The answer is for another sampling than requested.")
    if not mechanism.fits(problem.target, queries, sampling):
        raise VerificationFailed(f"{queries} answers of this mechanism are not proved to be within the total.")
    member(answer, "options")
    return dict(answer)


def _label(answer: dict[str, Any], spec: DesignSpec) -> Problem | None:
    """Return the problem for which an answer says that it was designed; None if it is the requested one."""
    label = answer.get("nearest")
    if label is None:
        return None
    problem = parse_problem(label.get("designed_for") if isinstance(label, dict) else label)
    shape = label.get("designed_shape", spec.shape)
    return None if (problem, shape) == (spec.problem, spec.shape) else problem
