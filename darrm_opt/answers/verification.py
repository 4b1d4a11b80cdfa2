"""Verification of answers: nothing that a service or a file says about privacy is believed.

Every γ in an answer is proved private by this process, for the problem that the caller asked about, and what the answer
claims beside it is held against γ (`darrm_opt.verification`). One claim does not follow from γ and has to be believed:
that no private γ is better than `upper_bound`. What the other side adds up from several γ (a total, an accuracy) is
its own word.

A function takes an answer as plain data and returns it, or raises `VerificationFailed`, or `NotPrivate` with the
counterexample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from darrm_opt.accounting.freshness import effective_voters
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
    """Have a function raise `VerificationFailed` where an answer has something else than its type has."""

    @wraps(read)
    def strictly(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Typed:
        try:
            return read(*args, **kwargs)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
            raise VerificationFailed(f"The answer cannot be read ({type(err).__name__}: {err}).") from err

    return strictly


@dataclass(frozen=True)
class VerifiedAnswer(Solution):
    """Solution that came from elsewhere and was proved by this process, with its origin.

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
        problem = self.designed_for
        sentence = (
            f"This is the nearest stored answer, designed for another question (voters ε = {problem.voter.epsilon:g}, "
            f"Δ = {problem.voter.delta:g}, {problem.affected} affected; release ε = {problem.target.epsilon:g}, "
            f"δ = {problem.target.delta:g}): private as asked, but a γ for the very problem may keep more utility."
        )
        return (*super().warnings, sentence)


def verify_answer(content: Any, spec: DesignSpec) -> VerifiedAnswer:
    """Return an answer under a certificate of this process.

    Guarantees: The γ returned is private for ``spec.problem``, exactly as its bits are; its utility is its own.
    """
    try:
        solution = read_solution(content)
        # Another problem is an answer only if it says so: one whose guarantee implies the one that was asked.
        label = _label(content, spec)
        if solution.problem.K != spec.problem.K or solution.problem not in {spec.problem, label}:
            raise VerificationFailed(
                "The answer is for another problem than the one that was asked, and does not say so."
            )
        solution = verify_solution(solution, DesignSpec(solution.problem, spec.objective, spec.shape))
    except InvalidSolution as err:
        raise VerificationFailed(f"The answer does not hold: {err}.") from err
    # Proved for the problem that was asked, too: that is what the caller will say of it.
    exact = solution.problem == spec.problem
    return VerifiedAnswer(
        **{
            **solution.__dict__,
            "problem": spec.problem,
            "certificate": solution.certificate if exact else verify(spec.problem, solution.noise),
            "upper_bound": solution.upper_bound if exact else 1.0,  # a bound for a harder problem is none for this one
        },
        id=spec.key,
        cached=content.get("cached") is True,
        designed_for=label,
    )


def verify_gamma(gamma: Any, problem: Problem) -> NoiseFunction:
    """Return a γ that stands in an answer, proved private for ``problem``."""
    noise = parse_gamma(gamma, problem.K)
    verify(problem, noise)
    return noise


def parse_gamma(gamma: Any, K: int) -> NoiseFunction:
    """Return a γ that stands in an answer."""
    if not isinstance(gamma, list) or not all(isinstance(value, int | float) for value in gamma):
        raise VerificationFailed("The answer's γ is invalid.")
    try:
        return NoiseFunction(gamma, K)
    except DarrmError as err:
        raise VerificationFailed(f"The answer's γ is invalid: {err}") from err


def parse_problem(record: Any) -> Problem:
    """Return a problem that stands in an answer."""
    try:
        return problem_from_record(record)
    except UNREADABLE as err:
        raise VerificationFailed(f"The answer's problem is invalid: {err}") from err


def member(record: Any, name: str) -> Any:
    """Return a member of an answer, or of a record in it."""
    if not isinstance(record, dict) or name not in record:
        raise VerificationFailed(f"The answer lacks {name}: is this a darrm-opt service of this version?")
    return record[name]


def members(value: Any, kind: type[dict[str, Any] | list[Any]]) -> Collection[Any]:
    """Return the values of an object, or the items of a list, in an answer."""
    if not isinstance(value, kind):
        raise VerificationFailed(f"The answer has {type(value).__name__} where {kind.__name__} should be.")
    return list(value.values()) if isinstance(value, dict) else value


def verify_budget(answer: Any, question: Question) -> None:
    """Refuse an answer about other voters, another budget or another draw than those of the question."""
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
        # A total may come back on the decimal grid; everything else is compared as it is, types included.
        close = isinstance(value, int | float) and math.isclose(value, wanted, rel_tol=1e-9)
        pairs[f"total {name}"] = (wanted, wanted if close else value)
    for name, (expected, claim) in pairs.items():
        if type(expected) is not type(claim) or expected != claim:
            raise VerificationFailed(f"The answer is for {name} = {claim!r}, and {expected!r} was asked.")


def verify_comparison(answer: Any, question: Question) -> dict[str, Any]:
    """Return a comparison for the question, each γ in it a noise function for K voters.

    Its totals are the other side's.
    """
    for row in members(member(answer, "rows"), list):
        if member(row, "gamma") is not None:
            parse_gamma(row["gamma"], question.K)
    verify_budget(answer, question)
    return dict(answer)


def verify_plan(answer: Any, question: Question) -> dict[str, Any]:
    """Return a plan, each γ in it private for the target that its option names."""
    verify_budget(answer, question)
    # Of models that answer many queries with the same randomness, their own privacy does not count.
    voters = effective_voters(question.voters, question.queries, fresh=question.fresh)
    for option in members(member(answer, "options"), list):
        if member(option, "gamma") is not None:
            target = parse_problem(member(option, "problem"))
            if (target.K, target.voter, target.affected) != (voters.K, voters.voter, voters.affected):
                raise VerificationFailed("The plan has a γ for other voters than those that were asked.")
            verify_gamma(option["gamma"], target)
    member(answer, "advice")
    return dict(answer)


def verify_options(answer: Any, problem: Problem, queries: int, sampling: Sampling | None = None) -> dict[str, Any]:
    """Return the options for queries, the mechanism of the best one proved to fit in the total."""
    from darrm_opt.mechanisms import mechanism_from_record

    try:
        mechanism = mechanism_from_record(member(answer, "mechanism"))
    except InvalidInput as err:
        raise VerificationFailed(f"The answer's mechanism is invalid: {err}") from err
    # A mechanism that fits, of a question with fewer votes moved, proves nothing of this one.
    if (mechanism.K, mechanism.classes, mechanism.affected) != (problem.K, problem.classes, problem.affected):
        raise VerificationFailed("The answer has a mechanism for other voters or classes than those that were asked.")
    # What fits because the voters are private proves nothing of these, which are not.
    if mechanism.private_voters:
        raise VerificationFailed("The answer has a mechanism for voters that are private themselves.")
    if answer.get("sampling") != (None if sampling is None else sampling.record()):
        raise VerificationFailed("The answer is for another sampling than was asked.")
    if not mechanism.fits(problem.target, queries, sampling):
        raise VerificationFailed(f"{queries} answers of this mechanism are not proved to be within the total.")
    member(answer, "options")
    return dict(answer)


def _label(answer: dict[str, Any], spec: DesignSpec) -> Problem | None:
    """Return the problem for which an answer says that it was designed; None if that is the problem asked."""
    label = answer.get("nearest")
    if label is None:
        return None
    problem = parse_problem(label.get("designed_for") if isinstance(label, dict) else label)
    shape = label.get("designed_shape", spec.shape)
    return None if (problem, shape) == (spec.problem, spec.shape) else problem
