"""Verbs that tabulate: ``darrm curve``, errors of a release, and ``darrm profile``, its privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import answer, end, exit_code_of, say
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
            "p: the chance of 1 that all voters share. m: the allowance; "
            "errors are averages over the objective's prior.",
            "p|m",
        ),
    ] = "p",
    points: Annotated[
        str, CommandOption("--points", "Values of p, from 0.5 to 1 (the same below 0.5).", "COUNT")
    ] = "21",
    ms: Annotated[
        str | None,
        CommandOption("--ms", "Allowances, as in 1,3,5.", "NUMBERS", otherwise="whole numbers up to (K+1)/2"),
    ] = None,
    plot: Annotated[str | None, CommandOption("--plot", "Draw the curves: .png, .svg or .pdf.", "FILE")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Tabulate the error of γ_opt beside the baselines, over p or over m.

    tv error: how far the released bit's distribution is from the majority's. Disagreement: how often the bit is not
    the majority that was voted. Every curve has the same privacy.
    """
    from darrm.cli.files import check_plot, picture_format, write_whole
    from darrm.cli.report import as_json
    from darrm_opt.errors import InvalidInput

    check_plot(plot)
    if over not in {"p", "m"}:
        raise InvalidInput("over", over, "p or m")
    if over == "p" and ms is not None:
        raise InvalidInput("ms", ms, "nothing without --over m", "Give the one allowance with --m.")
    solutions, curves = _over_p(options, design, points) if over == "p" else _over_m(options, design, ms)
    if plot is not None:
        from darrm_opt.figures import render

        write_whole(plot, render(_figure(solutions, curves), picture_format(plot)))
    for warning in dict.fromkeys(warning for solution in solutions for warning in solution.warnings):
        say(f"Warning: {warning}")
    answer(as_json(curves) if json else _text(solutions, curves))
    end(max(exit_code_of(solution.status) for solution in solutions))


_Answer = tuple[list["Solution"], dict[str, Any]]


def _over_p(options: ProblemOptions, design: DesignOptions, points: str) -> _Answer:
    from darrm.cli.cached_solve import cached_solution
    from darrm_opt.answers.curves import error_curves_over_p, p_grid

    p = p_grid(number(points))
    solution = cached_solution(options.problem(), design)
    return [solution], error_curves_over_p(solution, p)


def _over_m(options: ProblemOptions, design: DesignOptions, ms: str | None) -> _Answer:
    from darrm.cli.cached_solve import cached_solution
    from darrm_opt.answers.curves import allowance_grid, error_curves_over_m
    from darrm_opt.errors import InvalidInput

    for name in ("m", "target_epsilon"):
        if (value := getattr(options, name)) is not None:
            raise InvalidInput(name, value, "no single target with --over m", "Give the allowances with --ms.")
    template = options.problem(m=1)  # says what is wrong with the other options
    allowances = allowance_grid(template.K, MAX_ALLOWANCES) if ms is None else [number(m) for m in ms.split(",")]
    with options_named(m="ms"):
        problems = [options.problem(m=m) for m in allowances]
    solutions = [cached_solution(problem, design) for problem in problems]
    return solutions, error_curves_over_m(solutions)


def _figure(solutions: list[Solution], curves: dict[str, Any]) -> Figure:
    from darrm_opt.figures import allowance_figure, errors_figure
    from darrm_opt.planning.baselines import private_baselines

    problem = solutions[0].problem
    if curves["over"] == "p":
        return errors_figure(solutions[0], private_baselines(problem))
    return allowance_figure(problem, curves["m"], curves["curves"])


def _text(solutions: list[Solution], curves: dict[str, Any]) -> str:
    from darrm.cli.report import columns, problem_text, voters_text

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


def profile(
    options: ProblemOptions,
    design: DesignOptions,
    solution: Annotated[
        str | None, CommandOption("--solution", "An answer of `darrm solve`, instead of a problem; - is stdin.", "FILE")
    ] = None,
    points: Annotated[str, CommandOption("--points", "Values of ε, from 0 to beyond the target.", "COUNT")] = "16",
    epsilons: Annotated[
        str | None, CommandOption("--epsilons", "Values of ε, as in 0,0.1,0.3, instead of --points.", "NATS")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Tabulate the privacy profile of one release: the least δ that is proved, at each ε.

    The problem's target is one point of that curve. Many releases are accounted by all of it: see `darrm compose`.
    """
    from darrm.cli.cached_solve import release_of
    from darrm.cli.report import as_json, columns, problem_text, text_above
    from darrm_opt.answers.curves import epsilon_grid
    from darrm_opt.design.privacy_profile import privacy_profile
    from darrm_opt.problem import real_number
    from darrm_opt.record import problem_record

    epsilon_grid(0.0, number(points))  # refuses what is no number of points, before any work
    grid = (
        None
        if epsilons is None
        else [real_number(number(text), "epsilons", "numbers of nats, as in 0,0.1") for text in epsilons.split(",")]
    )
    release = release_of(options, design, solution)
    if grid is None:
        grid = epsilon_grid(release.privacy.epsilon, number(points))
    curve = privacy_profile(release.noise, release.problem, grid)
    if json:
        answer(
            as_json(
                {
                    "problem": problem_record(release.problem),
                    "gamma": release.noise.values.tolist(),
                    "epsilon": grid,
                    "delta": curve.deltas.tolist(),
                    "attained": curve.attained.tolist(),
                }
            )
        )
        return
    rows = [
        [f"{epsilon:.6g}", text_above(delta, ".6e")] for epsilon, delta in zip(grid, curve.deltas.tolist(), strict=True)
    ]
    answer("\n".join([problem_text(release.problem), "", columns(["ε", "δ"], rows)]))
