"""Verb of the inverse question: ``darrm least``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from api.cli.output import answer, end, exit_code_of, say
from api.cli.parameters import AsJson, DesignOptions, ProblemOptions, number
from api.cli.parser import Option

if TYPE_CHECKING:
    from darrm_opt.design.inverse import LeastParameter


def least(
    asked: ProblemOptions,
    design: DesignOptions,
    parameter: Annotated[
        str,
        Option(
            "--parameter",
            "What is searched for: m; target_epsilon, also for voters that are not private; or epsilon of one voter, given --m.",
            "m|target_epsilon|epsilon",
        ),
    ] = "m",
    utility: Annotated[
        str | None, Option("--utility", "Wanted share of the noiseless utility, in (0, 1].", "SHARE")
    ] = None,
    agreement: Annotated[
        str | None,
        Option(
            "--agreement",
            "Wanted chance that the released bit is the majority that was voted, instead of --utility.",
            "PROBABILITY",
        ),
    ] = None,
    digits: Annotated[str, Option("--digits", "Significant digits of the number, 2 to 10.", "COUNT")] = "3",
    output: Annotated[
        str | None, Option("--output", "Write the γ there, as JSON; `darrm verify` reads it.", "FILE")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Find the least m or ε whose certified γ reaches a wanted utility or agreement.

    The number next below is told as well, with what it reaches: so nobody has to trust the search.
    """
    from api.cli.cached_solve import refuse_slow
    from api.cli.files import check_writable, write_whole
    from api.cli.progress import ProgressDisplay
    from api.cli.report import as_json, solution_json
    from darrm_opt.answers.running_time import inverse_seconds
    from darrm_opt.design.inverse import least_parameter, problem_at
    from darrm_opt.design.objective import as_objective
    from darrm_opt.errors import InvalidInput
    from darrm_opt.record import solution_record

    check_writable(output, "output")
    if asked.target_epsilon is not None:
        raise InvalidInput(
            "target_epsilon", asked.target_epsilon, "nothing", "Search for it: --parameter target_epsilon."
        )
    for name, value, usual in (("method", design.method, "auto"), ("cache", design.cache or None, None)):
        if value != usual:
            raise InvalidInput(name, value, "nothing: the search solves by cuts, each problem anew")
    given: dict[str, Any] = {"K": None} | {name: number(getattr(asked, name)) for name in asked.given}
    limit, count = number(design.time_limit), number(digits)
    if limit is None and isinstance(count, int):
        checked: Any = parameter
        refuse_slow(
            problem_at(checked, 1.0, **given),
            as_objective(design.objective),
            lambda seconds, _: inverse_seconds(seconds, count),
            "Or give --time-limit, for each solve.",
        )
    wanted = {"utility": utility, "agreement": agreement}
    with ProgressDisplay("searching") as display:
        found = least_parameter(
            **given,
            **{name: number(text) for name, text in wanted.items() if text is not None},
            parameter=parameter,  # type: ignore[arg-type]  # checked there
            objective=design.objective,
            shape=design.shape,  # type: ignore[arg-type]  # checked there
            digits=count,
            backend=design.backend,
            time_limit=limit,
            progress=lambda done, of: display.update(f"{done} of about {of} solves done"),
        )
    if output is not None:
        write_whole(output, f"{solution_json(found.solution)}\n".encode())
    for warning in found.solution.warnings:
        say(f"Warning: {warning}")
    named = ("parameter", "value", "measure", "wanted", "reached", "is_least")
    below = found.below
    told = {name: getattr(found, name) for name in named} | {
        "solution": solution_record(found.solution),
        "below": None
        if below is None
        else {name: getattr(below, name) for name in ("value", "reached", "bound")}
        | {"solution": solution_record(below.solution)},
    }
    answer(as_json(told) if json else _text(found))
    end(exit_code_of(found.solution.status))


_NAMES = {"m": "m", "target_epsilon": "target ε", "epsilon": "ε of one voter"}


def _text(found: LeastParameter) -> str:
    from api.cli.report import solution_text

    name, below = _NAMES[found.parameter], found.below
    lines = [f"{name} = {found.value:g} reaches {found.measure} {found.reached:.6f} ({found.wanted:g} was wanted)."]
    if below is None:
        lines.append("It is the smallest number that is tried.")
    else:
        proved = "; no private γ there reaches it, nor at any smaller one" if found.is_least else ""
        lines.append(f"{name} = {below.value:g} reaches {below.reached:.6f}, at most {below.bound:.6f}{proved}.")
    return "\n".join([*lines, "", solution_text(found.solution)])
