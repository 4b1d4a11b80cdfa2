"""Verbs about one γ: ``darrm solve`` and ``darrm verify``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from darrm.cli.output import ExitCode, answer, end, exit_code_of, fail, option_of, say
from darrm.cli.parameters import AsJson, DesignOptions, ProblemOptions
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from darrm_opt import NoiseFunction, Problem


def solve(
    options: ProblemOptions,
    design: DesignOptions,
    output: Annotated[
        str | None, CommandOption("--output", "Write the answer there, as JSON; `darrm verify` reads it.", "FILE")
    ] = None,
    plot: Annotated[
        str | None, CommandOption("--plot", "Draw γ and its error beside the baselines: .png, .svg or .pdf.", "FILE")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Design the best private γ for K voters, and prove it.

    Prints γ(l): when l voters say 1, the majority is kept with probability γ(l), else a fair coin is tossed. The bit is
    the majority with probability (1 + γ(l))/2. It is private exactly as printed with --json or --output.
    """
    from darrm.cli.cached_solve import cached_solution
    from darrm.cli.report import solution_json, solution_text

    if output is not None or plot is not None:
        from darrm.cli.files import check_plot, check_writable, picture_format, write_json, write_whole

        check_writable(output, "output")
        check_plot(plot)
    problem = options.problem()
    solution = cached_solution(problem, design)
    if output is not None:
        from darrm_opt.record import solution_record

        write_json(output, solution_record(solution))
    if plot is not None:
        from darrm_opt.comparison.baselines import private_baselines
        from darrm_opt.figures import comparison_figure, render

        write_whole(plot, render(comparison_figure(solution, private_baselines(problem)), picture_format(plot)))
    for warning in solution.warnings:
        say(f"Warning: {warning}")
    answer(solution_json(solution) if json else solution_text(solution))
    end(exit_code_of(solution.status))


def verify(
    file: Annotated[
        str,
        Argument("FILE", "An answer of `darrm solve` or `darrm plurality`, or a JSON list γ(0), …, γ(K); - is stdin."),
    ],
    options: ProblemOptions,
    arithmetic: Annotated[
        str,
        CommandOption(
            "--arithmetic",
            "Doubles with a proven error bound, or ball arithmetic (slower; the extra `exact`).",
            "float|ball",
        ),
    ] = "float",
    checker: Annotated[
        str,
        CommandOption(
            "--checker",
            "This program's own search, or the checker that is extracted from a Coq proof (`make formal` builds it).",
            "own|formal",
        ),
    ] = "own",
    *,
    json: AsJson = False,
) -> None:
    """Prove from γ alone that a release is private, or show where it is not.

    An answer names its problem; for a bare list give the problem's options (--K follows from the list).
    """
    from darrm.cli.files import read_text
    from darrm.cli.report import as_json, certificate_text, problem_text
    from darrm_opt import NotPrivate, NotProven
    from darrm_opt import verify as prove
    from darrm_opt.errors import InvalidInput
    from darrm_opt.record import problem_record

    content = _parse_json(read_text(file), file)
    if checker not in ("own", "formal"):
        raise InvalidInput("checker", checker, "'own' or 'formal'")
    if checker == "formal" and arithmetic != "float":
        raise InvalidInput("arithmetic", arithmetic, "nothing beside --checker formal, which has its own arithmetic")
    if not isinstance(content, list) and options.given:
        names = ", ".join(map(option_of, options.given))
        fail(f"{file} names its problem itself: leave out {names}, or give a bare list.", ExitCode.BAD_INPUT)
    if isinstance(content, dict) and content.get("kind") == "darrm plurality rule":
        _verify_plurality(file, content, arithmetic, checker, json=json)
        return
    problem, gamma = _question(file, content, options)
    proof: dict[str, Any] = {"private": True, "problem": problem_record(problem)}
    if checker == "formal":
        _verify_formally(problem, gamma, proof, json=json)
        return
    try:
        certificate = prove(problem, gamma, arithmetic=arithmetic)  # type: ignore[arg-type]  # checked there
    except NotPrivate as err:
        if json:
            proof["private"] = None if isinstance(err, NotProven) else False
            answer(as_json(proof | {"message": str(err), "excess": err.excess, "worst_corners": err.worst}))
        fail(str(err), ExitCode.NOT_PRIVATE)
    for warning in problem.warnings(gamma.values):
        say(f"Warning: {warning}")
    if json:
        answer(as_json(proof | {"certificate": asdict(certificate)}))
    else:
        answer(f"{problem_text(problem)}\n\n{certificate_text(certificate)}")


def _verify_plurality(source: str, content: dict[str, Any], arithmetic: str, checker: str, *, json: bool) -> None:
    """Prove a rule of `darrm plurality`, whatever its file says of it."""
    from darrm.cli.report import as_json, guarantee
    from darrm_opt import NotPrivate
    from darrm_opt.errors import DarrmError, InvalidInput
    from darrm_opt.plurality.record import problem_record, rule_from_record

    for name, value, default in (("checker", checker, "own"), ("arithmetic", arithmetic, "float")):
        if value != default:
            raise InvalidInput(name, value, f"nothing or '{default}', as this is a rule for classes")
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
        f"{guarantee(problem.target)}.\n"
        f"private    proved for these very numbers over {certificate.edges:,} neighbouring vote counts"
    )


def _verify_formally(problem: Problem, gamma: NoiseFunction, proof: dict[str, Any], *, json: bool) -> None:
    """Answer with what the formal checker says."""
    from darrm.cli.formal import formally_private
    from darrm.cli.report import as_json, problem_text

    proof |= {"checker": "formal", "private": formally_private(problem, gamma) or None}
    if not proof["private"]:
        message = (
            "The formal checker does not prove gamma private for these very numbers. "
            "Without --checker formal, `darrm verify` says where it fails."
        )
        if json:
            answer(as_json(proof | {"message": message}))
        fail(message, ExitCode.NOT_PRIVATE)
    for warning in problem.warnings(gamma.values):
        say(f"Warning: {warning}")
    sentence = "private    proved by the formal checker (a program extracted from a Coq proof), for these very numbers"
    answer(as_json(proof) if json else f"{problem_text(problem)}\n\n{sentence}")


def _question(source: str, content: Any, options: ProblemOptions) -> tuple[Problem, NoiseFunction]:
    """Return the problem and the γ to be proved private for it."""
    from darrm_opt.errors import DarrmError
    from darrm_opt.noise import NoiseFunction

    if isinstance(content, list):
        problem = options.problem() if options.K is not None else options.problem(K=max(1, len(content) - 1))
    try:
        if isinstance(content, list):
            return problem, NoiseFunction(content, problem.K)
        return _proved_answer(content)
    except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        fail(f"{source}: {err}", ExitCode.BAD_INPUT)  # any step may break on a file that anyone wrote


def _proved_answer(content: Any) -> tuple[Problem, NoiseFunction]:
    from darrm_opt.design_spec import DesignSpec
    from darrm_opt.reprove import check_utility, read_solution

    solution = read_solution(content)
    check_utility(solution.utility, solution.noise, DesignSpec.of(solution))
    return solution.problem, solution.noise


def _parse_json(text: str, source: str) -> Any:
    from json import JSONDecodeError, loads

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number of JSON")

    try:
        return loads(text, parse_constant=refuse)
    except (JSONDecodeError, ValueError, RecursionError) as err:
        fail(f"{source} is not JSON: {err}.", ExitCode.BAD_INPUT)
