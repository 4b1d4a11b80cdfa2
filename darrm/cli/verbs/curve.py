"""Verb ``darrm curve``: errors of a release, and its privacy profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ProgressDisplay, answer, as_json, end, exit_code_of, say
from darrm.cli.parameters import AsJson, DesignOptions, ProblemOptions, number, options_named
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from darrm_opt import Solution


MAX_ALLOWANCES = 25
"""Allowances that ``--over m`` tries unless told which."""


def curve(
    options: ProblemOptions,
    design: DesignOptions,
    over: Annotated[
        str,
        CommandOption(
            "--over",
            "p: the chance of 1 that all voters share. m: the allowance; errors are averages over the objective's "
            "prior. epsilon: the privacy of one release.",
            "p|m|epsilon",
        ),
    ] = "p",
    points: Annotated[
        str | None,
        CommandOption(
            "--points",
            "Values of p from 0.5 to 1 (the same below 0.5), or of ε from 0 to beyond the target.",
            "COUNT",
            otherwise="21 of p, 16 of ε",
        ),
    ] = None,
    at: Annotated[
        str | None,
        CommandOption(
            "--at", "Values of p, m or ε, as in 1,3,5.", "NUMBERS", otherwise="--points; m: 1, 2, … up to (K+1)/2"
        ),
    ] = None,
    solution: Annotated[
        str | None,
        CommandOption("--solution", "With --over epsilon, an answer of `darrm solve`, or - for stdin.", "FILE"),
    ] = None,
    plot: Annotated[str | None, CommandOption("--plot", "Plot the curves: .png, .svg or .pdf.", "FILE")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Tabulate γ_opt: its error and the baselines' over p or m, or its privacy profile over ε.

    tv error: how far the released bit's distribution is from the majority's. Disagreement: how often the bit is not
    the majority that was voted. Every curve has the same privacy.

    The profile is the least δ that is proved, at each ε; the problem's target is one point of it. Many releases are
    accounted for by all of it: see `darrm cost`.
    """
    from darrm.cli.files import check_plot, picture_format, write_whole
    from darrm_opt.errors import InvalidInput, Rule

    # Before the solves: a missing library or folder should not cost their time.
    check_plot(plot)
    if over not in {"p", "m", "epsilon"}:
        raise InvalidInput("over", over, "p, m or epsilon")
    if points is not None and (at is not None or over == "m"):
        raise InvalidInput("points", points, Rule("cannot be combined with --at or --over m"))
    values = None if at is None else _values(at)
    if over == "epsilon":
        if plot is not None:
            raise InvalidInput("plot", plot, Rule("cannot be combined with --over epsilon"))
        _show_profile(options, design, solution, points or "16", values, json=json)
        return
    if solution is not None:
        raise InvalidInput("solution", solution, Rule("needs --over epsilon"))
    answered = _over_p(options, design, points or "21", values) if over == "p" else _over_m(options, design, values)
    solutions, curves = answered
    if plot is not None:
        from darrm_opt.figures import render

        write_whole(plot, render(_figure(solutions, curves), picture_format(plot)))
    # Each once: many γ of one curve have the same reasons.
    for warning in dict.fromkeys(warning for found in solutions for warning in found.warnings):
        say(f"Warning: {warning}")
    answer(as_json(curves) if json else _text(solutions, curves))
    # The worst of them: a program must not take a curve with one bad point for a good one.
    end(max(exit_code_of(found.status) for found in solutions))


def _values(text: str) -> list[float]:
    from darrm_opt.arguments import real_number

    values = [number(word) for word in text.split(",")]
    for value in values:
        real_number(value, "at", "numbers, as in 1,3,5")
    return values


_Answer = tuple[list["Solution"], dict[str, Any]]


def _over_p(options: ProblemOptions, design: DesignOptions, points: str, values: list[float] | None) -> _Answer:
    from darrm.cli.cached_solve import cached_solution
    from darrm_opt.errors import InvalidInput
    from darrm_opt.questions.curve import ErrorCurves, p_grid

    p = p_grid(number(points)) if values is None else values
    if not all(0 <= each <= 1 for each in p):
        raise InvalidInput("at", max(p, key=abs), "probabilities in [0, 1]")
    solution = cached_solution(options.problem(), design)
    with ProgressDisplay("computing curves"):
        curves = ErrorCurves.of(solution.problem, solution.noise, p)
    return [solution], curves.record() | {"objective": str(solution.objective)}


def _over_m(options: ProblemOptions, design: DesignOptions, values: list[float] | None) -> _Answer:
    from darrm.cli.cached_solve import cached_solution
    from darrm_opt.errors import InvalidInput
    from darrm_opt.questions.tradeoff import allowance_grid, average_errors, errors_record
    from darrm_opt.record import problem_record

    for name in ("m", "target_epsilon"):
        if (value := getattr(options, name)) is not None:
            raise InvalidInput(name, value, "no single target with --over m", "Give the allowances with --at.")
    template = options.problem(m=1)  # says what is wrong with the other options
    allowances = allowance_grid(template.K, MAX_ALLOWANCES) if values is None else values
    with options_named(m="at"):
        problems = [options.problem(m=m) for m in allowances]
    solutions = [cached_solution(problem, design) for problem in problems]
    with ProgressDisplay("computing curves"):
        curves = errors_record(average_errors(solutions))
    if curves is None:
        accepted = "an objective with a prior, such as rectangular or shared(2,5)"
        advice = "Only under a prior is there one error for each m."
        raise InvalidInput("objective", str(solutions[0].objective), accepted, advice)
    records = [problem_record(problem) for problem in problems]
    about = {"over": "m", "problems": records, "objective": str(solutions[0].objective)}
    return solutions, about | {"m": [record["m"] for record in records], "curves": curves}


def _figure(solutions: list[Solution], curves: dict[str, Any]) -> Figure:
    from darrm_opt.figures import allowance_figure, errors_figure
    from darrm_opt.planning.baselines import private_baselines

    problem = solutions[0].problem
    if curves["over"] == "p":
        return errors_figure(solutions[0], private_baselines(problem))
    return allowance_figure(problem, curves["m"], curves["curves"])


def _text(solutions: list[Solution], curves: dict[str, Any]) -> str:
    from darrm_opt.design.report import columns, problem_text, voters_text

    over, errors = curves["over"], curves["curves"]
    lines = [problem_text(solutions[0].problem) if over == "p" else voters_text(solutions[0].problem)]
    for measure, name in (("tv_error", "tv error"), ("disagreement", "disagreement")):
        rows = [
            [f"{value:g}", *(_number(curve[measure][i]) for curve in errors.values())]
            for i, value in enumerate(curves[over])
        ]
        average = "" if over == "p" else f", averaged over the prior of {curves['objective']}"
        lines += ["", f"{name}{average}", columns([over, *errors], rows)]
    return "\n".join(lines)


def _number(error: float | None) -> str:
    return "-" if error is None else f"{error:.6f}"


def _show_profile(
    options: ProblemOptions,
    design: DesignOptions,
    solution: str | None,
    points: str,
    grid: list[float] | None,
    *,
    json: bool,
) -> None:
    """Print the privacy profile of one release."""
    from darrm.cli.cached_solve import release_of
    from darrm_opt.design.privacy_profile import privacy_profile
    from darrm_opt.design.report import columns, problem_text, text_above
    from darrm_opt.questions.profile import epsilon_grid
    from darrm_opt.record import problem_record

    epsilon_grid(0.0, number(points))  # refuses an invalid number of points before any work
    release = release_of(options, design, solution)
    if grid is None:
        grid = epsilon_grid(release.privacy.epsilon, number(points))
    with ProgressDisplay("computing the profile"):
        curve = privacy_profile(release.noise, release.problem, grid)
    if json:
        record = {"problem": problem_record(release.problem), "gamma": release.noise.values.tolist(), "epsilon": grid}
        answer(as_json(record | {"delta": curve.deltas.tolist(), "attained": curve.attained.tolist()}))
        return
    rows = [
        [f"{epsilon:.6g}", text_above(delta, ".6e")] for epsilon, delta in zip(grid, curve.deltas.tolist(), strict=True)
    ]
    answer("\n".join([problem_text(release.problem), "", columns(["ε", "δ"], rows)]))
