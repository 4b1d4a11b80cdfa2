"""``darrm verify``."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from api.cli.declared import Argument, Option
from api.cli.options import AsJson, ProblemOptions
from api.cli.outcome import ExitCode, answer, fail, option_of, say

if TYPE_CHECKING:
    from darrm_opt import NoiseFunction, Problem

SAME = 1e-9
"""A recorded utility may differ from the recomputed one by this: sums in another order are 1e-13 apart."""


def verify(
    file: Annotated[
        str,
        Argument("FILE", "An answer of `darrm solve` or `darrm plurality`, or a JSON list γ(0), …, γ(K); - is stdin."),
    ],
    asked: ProblemOptions,
    arithmetic: Annotated[
        str,
        Option(
            "--arithmetic",
            "Doubles with a proven error bound, or ball arithmetic (slower; the extra `exact`).",
            "float|ball",
        ),
    ] = "float",
    *,
    json: AsJson = False,
) -> None:
    """Prove from γ alone that a release is private, or show where it is not.

    An answer names its problem; for a bare list give the problem's options (--K follows from the list).
    """
    from api.cli.files import read_text
    from api.cli.report import as_json, certificate_text, problem_text
    from darrm_opt import NotPrivate, NotProven
    from darrm_opt import verify as prove
    from darrm_opt.record import problem_record

    content = _parsed(read_text(file), file)
    if isinstance(content, dict) and content.get("kind") == "darrm plurality rule":
        _verify_plurality(file, content, json=json)
        return
    problem, gamma = _question(file, content, asked)
    proof: dict[str, Any] = {"private": True, "problem": problem_record(problem)}
    try:
        certificate = prove(problem, gamma, arithmetic=arithmetic)  # type: ignore[arg-type]  # checked there
    except NotPrivate as err:
        if json:
            proof["private"] = None if isinstance(err, NotProven) else False
            answer(as_json(proof | {"message": str(err), "excess": err.excess, "worst_corners": err.worst}))
        fail(str(err), ExitCode.NOT_PRIVATE)
    for warning in problem.warnings:
        say(f"Warning: {warning}")
    if json:
        answer(as_json(proof | {"certificate": asdict(certificate)}))
    else:
        answer(f"{problem_text(problem)}\n\n{certificate_text(certificate)}")


def _verify_plurality(source: str, content: dict[str, Any], *, json: bool) -> None:
    """Prove a rule of `darrm plurality`, whatever its file says of it."""
    from api.cli.report import as_json
    from darrm_opt import NotPrivate
    from darrm_opt.errors import DarrmError
    from darrm_opt.plurality.record import problem_record, rule_from_record

    try:
        problem, _, certificate = rule_from_record(content)
    except NotPrivate as err:
        if json:
            answer(as_json({"private": False, "message": str(err), "excess": err.excess}))
        fail(str(err), ExitCode.NOT_PRIVATE)
    except DarrmError as err:
        fail(f"{source}: {err}", ExitCode.BAD_INPUT)
    if json:
        answer(as_json({"private": True, "problem": problem_record(problem), "certificate": asdict(certificate)}))
        return
    answer(
        f"{problem.K} voters, {problem.classes} classes, one record moves {problem.affected}: the released class is "
        f"({problem.target.epsilon:g}, {problem.target.delta:g})-DP.\n"
        f"private    proved for these very numbers over {certificate.edges:,} neighbouring vote counts"
    )


def _question(source: str, content: Any, asked: ProblemOptions) -> tuple[Problem, NoiseFunction]:
    """Return the problem and the γ to be proved private for it."""
    from darrm_opt.errors import DarrmError
    from darrm_opt.noise import NoiseFunction

    if isinstance(content, list):
        problem = asked.problem() if asked.K is not None else asked.problem(K=max(1, len(content) - 1))
    elif asked.given:
        options = ", ".join(map(option_of, asked.given))
        fail(f"{source} names its problem itself: leave out {options}, or give a bare list.", ExitCode.BAD_INPUT)
    try:
        if isinstance(content, list):
            return problem, NoiseFunction(content, problem.K)
        return _recorded(content)
    except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        fail(f"{source}: {err}", ExitCode.BAD_INPUT)  # any step may break on a file that anyone wrote


def _recorded(content: Any) -> tuple[Problem, NoiseFunction]:
    from darrm_opt.errors import InvalidInput
    from darrm_opt.record import solution_from_record

    solution = solution_from_record(content)
    K = solution.problem.K
    utility = solution.objective.aim(K).utility(solution.gamma[K // 2 + 1 :])
    if not math.isclose(utility, solution.utility, rel_tol=SAME, abs_tol=SAME):
        raise InvalidInput("utility", solution.utility, f"{utility!r}, the utility of the gamma beside it")
    return solution.problem, solution.noise


def _parsed(text: str, source: str) -> Any:
    from json import JSONDecodeError, loads

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number of JSON")

    try:
        return loads(text, parse_constant=refuse)
    except (JSONDecodeError, ValueError, RecursionError) as err:
        fail(f"{source} is not JSON: {err}.", ExitCode.BAD_INPUT)
