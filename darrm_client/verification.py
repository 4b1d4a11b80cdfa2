"""Verification of answers: nothing that a service or a file says about privacy is believed.

Every γ in an answer is proved private by this process, for the problem that the caller asked about, and what the answer
claims beside it is held against γ (`darrm_opt.reprove`). One claim does not follow from γ and has to be believed: that no
private γ is better than `upper_bound`. What the other side adds up from several γ (a total, an accuracy) is its own word.

A function takes an answer as plain data and returns it, or raises `VerificationFailed`, or `NotPrivate` with the
counterexample.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from darrm_client.errors import VerificationFailed
from darrm_client.requests import DRAW
from darrm_opt.design.certificate import verify
from darrm_opt.design.solution import Solution
from darrm_opt.design_spec import DesignSpec
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import problem_from_record
from darrm_opt.reprove import TOLERANCE, ReproofFailed, read_solution, reprove

if TYPE_CHECKING:
    from darrm_opt.plurality.problem import PluralityProblem


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
        other = self.designed_for
        told = (
            f"This is the nearest stored answer, designed for another question (voters ε = {other.voter.epsilon:g}, "
            f"Δ = {other.voter.delta:g}, {other.affected} affected; release ε = {other.target.epsilon:g}, "
            f"δ = {other.target.delta:g}): private as asked, but a γ for the very problem may keep more utility."
        )
        return (*super().warnings, told)


def verify_answer(content: Any, spec: DesignSpec) -> VerifiedAnswer:
    """Return an answer under a certificate of this process.

    Args:
        content: the answer as plain data, a record with ``id``, ``cached`` and ``nearest``; anything may be in it.
        spec: what was asked.

    Guarantees:
        The γ returned is private for ``spec.problem``, exactly as its bits are; its utility is its own.

    Raises:
        NotPrivate: γ is not private for the problem that was asked.
        VerificationFailed: anything else does not hold.
    """
    try:
        solution = read_solution(content)
        label = _label(content, spec)
        if solution.problem.K != spec.problem.K or solution.problem not in {spec.problem, label}:
            raise VerificationFailed(
                "The answer is for another problem than the one that was asked, and does not say so."
            )
        solution = reprove(solution, DesignSpec(solution.problem, spec.objective, spec.shape))
    except ReproofFailed as err:
        raise VerificationFailed(f"The answer does not hold: {err}.") from err
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
    """Return a γ that stands in an answer, proved private for ``problem``.

    Raises:
        NotPrivate: it is not.
        VerificationFailed: it is no γ.
    """
    noise = parse_gamma(gamma, problem.K)
    verify(problem, noise)
    return noise


def parse_gamma(gamma: Any, K: int) -> NoiseFunction:
    """Return a γ that stands in an answer.

    Raises:
        VerificationFailed: it is no γ for K voters.
    """
    if not isinstance(gamma, list) or not all(isinstance(value, int | float) for value in gamma):
        raise VerificationFailed("The answer has something else where a γ should be.")
    try:
        return NoiseFunction(gamma, K)
    except DarrmError as err:
        raise VerificationFailed(f"The answer has something else where a γ should be: {err}") from err


def parse_problem(record: Any) -> Problem:
    """Return a problem that stands in an answer.

    Raises:
        VerificationFailed: it is none.
    """
    try:
        return problem_from_record(record)
    except (DarrmError, ArithmeticError, TypeError, ValueError) as err:
        raise VerificationFailed(f"The answer has something else where a problem should be: {err}") from err


def member(told: Any, name: str) -> Any:
    """Return a member of an answer.

    Raises:
        VerificationFailed: it has none of that name.
    """
    if not isinstance(told, dict) or name not in told:
        raise VerificationFailed(f"The answer lacks {name}: is this a darrm-opt service of this version?")
    return told[name]


def members(told: Any, kind: type[dict[str, Any] | list[Any]]) -> Collection[Any]:
    """Return the values of an object, or the items of a list, in an answer.

    Raises:
        VerificationFailed: it is none.
    """
    if not isinstance(told, kind):
        raise VerificationFailed(f"The answer has {type(told).__name__} where {kind.__name__} should be.")
    return list(told.values()) if isinstance(told, dict) else told


def verify_curves(told: Any, problem: Problem) -> dict[str, Any]:
    """Return error curves, each of a γ that is private for the problem."""
    for curve in members(member(told, "curves"), dict):
        verify_gamma(member(curve, "gamma"), problem)
    return dict(told)


def verify_tradeoff(told: Any, wanted: Sequence[Problem]) -> dict[str, Any]:
    """Return a trade-off, one point for each problem, in order, with a γ that is private for it.

    Raises:
        VerificationFailed: there are others.
        NotPrivate: a γ is not.
    """
    points = members(member(told, "points"), list)
    if len(points) != len(wanted):
        raise VerificationFailed("The answer does not have one point for each allowance.")
    for problem, point in zip(wanted, points, strict=True):
        if parse_problem(member(point, "problem")) != problem:
            raise VerificationFailed(
                f"The point for target_epsilon = {problem.target.epsilon:g} is for another problem."
            )
        verify_gamma(member(point, "gamma"), problem)
    return dict(told)


def verify_least(told: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to the inverse question: each γ private for the problem at its number, and worth what is said.

    Args:
        told: the answer.
        asked: the request: the arguments of `darrm_opt.design.inverse.least_parameter`, ``epsilon`` perhaps "inf".

    Raises:
        VerificationFailed: it answers another question, or its γ does not reach what was wanted.
        NotPrivate: a γ in it is not.
    """
    from darrm_opt.design.inverse import FULL_SLACK, problem_at, utility_of
    from darrm_opt.design.objective import as_objective

    measure: Literal["utility", "agreement"] = "utility" if asked.get("agreement") is None else "agreement"
    if (member(told, "parameter"), member(told, "measure")) != (asked["parameter"], measure):
        raise VerificationFailed("The answer is to another question than the one that was asked.")
    voters: dict[str, Any] = {name: asked.get(name) for name in ("K", "m", "epsilon", "delta", "affected")}
    voters |= {"epsilon": math.inf} if asked.get("epsilon") == "inf" else {}
    objective, below = as_objective(asked["objective"]), member(told, "below")
    wanted = min(asked[measure], 1.0 - FULL_SLACK)
    for here in [told] if below is None else [told, below]:
        value, stated = member(here, "value"), member(here, "reached")
        if not isinstance(value, int | float) or not isinstance(stated, int | float):
            raise VerificationFailed("The answer has something else where a number should be.")
        problem = problem_at(asked["parameter"], value, **voters, Delta=asked["Delta"])
        if parse_problem(member(member(here, "design"), "problem")) != problem:
            raise VerificationFailed(f"The γ at {asked['parameter']} = {value:g} is for another problem.")
        reached = utility_of(verify_gamma(member(here["design"], "gamma"), problem), objective, measure)
        if not math.isclose(reached, stated, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            raise VerificationFailed(f"The γ at {asked['parameter']} = {value:g} reaches {reached!r}, not {stated!r}.")
        if (stated >= wanted) != (here is told):
            raise VerificationFailed(f"{asked['parameter']} = {value:g} is not the end of a search for {wanted:g}.")
    return dict(told)


def verify_profile(
    told: Any, problem: Problem, given: NoiseFunction | None, epsilons: Sequence[float] | None
) -> dict[str, Any]:
    """Return a profile with its δ computed here.

    Args:
        told: the answer.
        problem: what was asked.
        given: the γ that was sent, private or not; None where γ_opt was asked for.
        epsilons: where it was asked [nats]; None where that was left to the other side.

    Raises:
        VerificationFailed: it is for another γ, or at other ε.
        NotPrivate: γ_opt is not.
    """
    from darrm_opt.design.privacy_profile import privacy_profile

    noise = parse_gamma(member(told, "gamma"), problem.K)
    if given is None:
        verify(problem, noise)
    elif noise != given:
        raise VerificationFailed("The profile is that of another γ than the one that was sent.")
    at = member(told, "epsilon")
    if not isinstance(at, list) or (epsilons is not None and at != epsilons):
        raise VerificationFailed("The profile is at other ε than those that were asked.")
    own = privacy_profile(noise, problem, at)
    return {**told, "delta": own.deltas.tolist(), "attained": own.attained.tolist()}


def verify_certificate(told: Any, problem: Problem) -> None:
    """Refuse an answer that is no certificate for the problem.

    Raises:
        VerificationFailed: it is none.
    """
    if member(told, "private") is not True or parse_problem(member(told, "problem")) != problem:
        raise VerificationFailed("The answer is no proof of what was asked.")


def verify_budget(told: Any, body: dict[str, Any]) -> None:
    """Refuse an answer about other voters, another budget or another draw than were asked about, or voters fresh that are not.

    Args:
        told: a comparison or a plan.
        body: the request, as `darrm_client.requests.budget_body` and `draw_body` state it.

    Raises:
        VerificationFailed: it is such an answer, or does not say what it is about.
    """
    voters = {name: body[name] for name in ("K", "epsilon", "Delta", "affected")}
    draw = {name: body[name] for name in DRAW} if "n" in body else None
    said = member(told, "draw")
    about = {
        "fresh": (body["fresh"], member(told, "fresh")),
        "queries": (body["queries"], member(told, "queries")),
        "voters": (voters, member(told, "voters")),
        "draw": (draw, {name: member(said, name) for name in DRAW} if said is not None else None),
    }
    total = member(told, "total")
    for name in ("epsilon", "delta"):
        value = member(total, name)
        close = isinstance(value, int | float) and math.isclose(value, body[f"total_{name}"], rel_tol=1e-9)
        about[f"total {name}"] = (body[f"total_{name}"], body[f"total_{name}"] if close else value)
    for name, (asked, answered) in about.items():
        if type(asked) is not type(answered) or asked != answered:
            raise VerificationFailed(f"The answer is for {name} = {answered!r}, and {asked!r} was asked.")


def verify_comparison(told: Any, problem: Problem, body: dict[str, Any]) -> dict[str, Any]:
    """Return a comparison of what was asked, its γ noise functions for as many voters; the totals are the other side's."""
    for row in members(member(told, "rows"), list):
        if member(row, "gamma") is not None:
            parse_gamma(row["gamma"], problem.K)
    verify_budget(told, body)
    return dict(told)


def verify_plan(told: Any, problem: Problem, body: dict[str, Any], *, trained_once: bool) -> dict[str, Any]:
    """Return a plan, each γ in it private for the target that its option names.

    Args:
        told: the answer.
        problem: the voters that were asked about.
        body: the request, as in `verify_budget`.
        trained_once: whether they answer many queries with the same randomness: then their own privacy does not count.

    Raises:
        VerificationFailed: a γ in it is for other voters, or it answers another question.
        NotPrivate: a γ in it is not.
    """
    verify_budget(told, body)
    voter = Privacy(math.inf) if trained_once else problem.voter
    for option in members(member(told, "options"), list):
        if member(option, "gamma") is not None:
            wanted = parse_problem(member(option, "problem"))
            if (wanted.K, wanted.voter, wanted.affected) != (problem.K, voter, problem.affected):
                raise VerificationFailed("The plan has a γ for other voters than those that were asked.")
            verify_gamma(option["gamma"], wanted)
    member(told, "advice")
    return dict(told)


def verify_plurality(told: Any, problem: PluralityProblem) -> dict[str, Any]:
    """Return a plurality rule, private for the problem that was asked.

    Raises:
        VerificationFailed: it is for another problem, or no rule.
        NotPrivate: it is not.
    """
    from darrm_opt.plurality.record import rule_from_record

    try:
        found, _, _ = rule_from_record(member(told, "rule"))
    except InvalidInput as err:
        raise VerificationFailed(f"The answer has something else where a rule should be: {err}") from err
    if found != problem:
        raise VerificationFailed("The answer has a rule for another problem than the one that was asked.")
    member(told, "utilities")
    return dict(told)


def verify_options(told: Any, problem: PluralityProblem, queries: int) -> dict[str, Any]:
    """Return the options for queries, the mechanism of the best one proved to fit in the total.

    Raises:
        VerificationFailed: it is for other voters or classes, no mechanism, or so many answers of it are not within the total.
        NotPrivate: it is a rule that is not private for its problem.
    """
    from darrm_opt.plurality.vote_mechanisms import mechanism_from_record

    try:
        found = mechanism_from_record(member(told, "mechanism"))
    except InvalidInput as err:
        raise VerificationFailed(f"The answer has something else where a mechanism should be: {err}") from err
    if (found.K, found.classes, found.affected) != (problem.K, problem.classes, problem.affected):
        raise VerificationFailed("The answer has a mechanism for other voters or classes than those that were asked.")
    if not found.fits(problem.target, queries):
        raise VerificationFailed(f"{queries} answers of this mechanism are not proved to be within the total.")
    member(told, "options")
    return dict(told)


def _label(told: dict[str, Any], spec: DesignSpec) -> Problem | None:
    """Return the problem for which an answer says that it was designed; None where it says that it is the very answer."""
    label = told.get("nearest")
    if label is None:
        return None
    designed = parse_problem(label.get("designed_for") if isinstance(label, dict) else label)
    shape = label.get("designed_shape", spec.shape)
    return None if (designed, shape) == (spec.problem, spec.shape) else designed
