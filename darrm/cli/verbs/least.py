"""Verb of the inverse question: ``darrm least``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

from darrm.cli.output import answer, as_json, end, exit_code_of, say
from darrm.cli.parameters import AsJson, ProblemOptions, SearchOptions, number
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt.design.solver import Shape
    from darrm_opt.design.sweep import LeastParameter, Parameter


def least(
    options: ProblemOptions,
    design: SearchOptions,
    parameter: Annotated[
        str,
        CommandOption(
            "--parameter",
            "What is searched for: m; target_epsilon, also for voters that are not private; "
            "or epsilon of one voter, given --m.",
            "m|target_epsilon|epsilon",
        ),
    ] = "m",
    utility: Annotated[
        str | None, CommandOption("--utility", "Wanted share of the noiseless utility, in (0, 1].", "SHARE")
    ] = None,
    agreement: Annotated[
        str | None,
        CommandOption(
            "--agreement",
            "Wanted chance that the released bit is the majority that was voted, instead of --utility.",
            "PROBABILITY",
        ),
    ] = None,
    digits: Annotated[str, CommandOption("--digits", "Significant digits of the number, 2 to 10.", "COUNT")] = "3",
    output: Annotated[
        str | None, CommandOption("--output", "Write the γ there, as JSON; `darrm verify` reads it.", "FILE")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Find the least m or ε whose certified γ reaches a wanted utility or agreement.

    The number next below is told as well, with what it reaches: so nobody has to trust the search.
    """
    from darrm.cli.cached_solve import refuse_slow
    from darrm.cli.files import check_writable, write_json
    from darrm.cli.output import ProgressDisplay
    from darrm_opt.answers.running_time import inverse_seconds
    from darrm_opt.design.objective import as_objective
    from darrm_opt.design.sweep import least_parameter, problem_at
    from darrm_opt.errors import InvalidInput
    from darrm_opt.record import solution_record

    check_writable(output, "output")
    if options.target_epsilon is not None:
        raise InvalidInput(
            "target_epsilon", options.target_epsilon, "nothing", "Search for it: --parameter target_epsilon."
        )
    arguments: dict[str, Any] = {"K": None} | {name: number(getattr(options, name)) for name in options.given}
    limit, count = number(design.time_limit), number(digits)
    if limit is None and isinstance(count, int):
        refuse_slow(
            problem_at(cast("Parameter", parameter), 1.0, **arguments),
            as_objective(design.objective),
            lambda seconds, _: inverse_seconds(seconds, count),
            "Or give --time-limit, for each solve.",
        )
    goals = {"utility": utility, "agreement": agreement}
    with ProgressDisplay("searching") as display:
        result = least_parameter(
            **arguments,
            **{name: number(text) for name, text in goals.items() if text is not None},
            parameter=cast("Parameter", parameter),  # checked there
            objective=design.objective,
            shape=cast("Shape", design.shape),  # checked there
            digits=count,
            backend=design.backend,
            time_limit=limit,
            progress=lambda solves, total: display.update(f"{solves} of about {total} solves done"),
        )
    if output is not None:
        write_json(output, solution_record(result.solution))
    for warning in result.solution.warnings:
        say(f"Warning: {warning}")
    names = ("parameter", "value", "measure", "wanted", "reached", "is_least")
    neighbour = result.below
    record = {name: getattr(result, name) for name in names} | {
        "solution": solution_record(result.solution),
        "below": None
        if neighbour is None
        else {name: getattr(neighbour, name) for name in ("value", "reached", "bound")}
        | {"solution": solution_record(neighbour.solution)},
    }
    answer(as_json(record) if json else _text(result))
    end(exit_code_of(result.solution.status))


_NAMES = {"m": "m", "target_epsilon": "target ε", "epsilon": "ε of one voter"}


def _text(result: LeastParameter) -> str:
    from darrm_opt.design.report import solution_text

    name, neighbour = _NAMES[result.parameter], result.below
    lines = [f"{name} = {result.value:g} reaches {result.measure} {result.reached:.6f} ({result.wanted:g} was wanted)."]
    if neighbour is None:
        lines.append("It is the smallest number that is tried.")
    else:
        proof = "; no private γ there reaches it, nor at any smaller one" if result.is_least else ""
        lines.append(
            f"{name} = {neighbour.value:g} reaches {neighbour.reached:.6f}, at most {neighbour.bound:.6f}{proof}."
        )
    return "\n".join([*lines, "", solution_text(result.solution)])
