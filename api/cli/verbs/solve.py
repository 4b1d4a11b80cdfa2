"""``darrm solve``."""

from __future__ import annotations

from typing import Annotated

from api.cli.declared import Option
from api.cli.options import AsJson, DesignOptions, ProblemOptions
from api.cli.outcome import answer, end, ended, say


def solve(
    asked: ProblemOptions,
    design: DesignOptions,
    output: Annotated[
        str | None, Option("--output", "Write the answer there, as JSON; `darrm verify` reads it.", "FILE")
    ] = None,
    plot: Annotated[
        str | None, Option("--plot", "Draw γ and its error beside the baselines: .png, .svg or .pdf.", "FILE")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Design the best private γ for K voters, and prove it.

    Prints γ(l), the probability of releasing the true majority when l voters say 1; otherwise a fair coin is
    released. It is private exactly as printed with --json or --output.
    """
    from api.cli.obtaining import obtain, takes_long
    from api.cli.progress import Display
    from api.cli.report import solution_json, solution_text

    if output is not None or plot is not None:
        from api.cli.files import check_plot, check_writable, picture_format, write_whole

        check_writable(output, "output")
        check_plot(plot)
    problem = asked.problem()
    with Display(long=takes_long(problem, design)) as display:
        solution = obtain(problem, design, display)
    if output is not None:
        write_whole(output, f"{solution_json(solution)}\n".encode())
    if plot is not None:
        from darrm_opt.comparison.baselines import private_baselines
        from darrm_opt.figures import comparison_figure, render

        write_whole(plot, render(comparison_figure(solution, private_baselines(problem)), picture_format(plot)))
    for warning in solution.warnings:
        say(f"Warning: {warning}")
    answer(solution_json(solution) if json else solution_text(solution))
    end(ended(solution.status))
