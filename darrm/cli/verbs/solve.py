"""Verb ``darrm solve``."""

from __future__ import annotations

from typing import Annotated

from darrm.cli.output import answer, end, exit_code_of, say
from darrm.cli.parameters import PROBLEM, AsJson, DesignOptions, ProblemOptions
from darrm.cli.parser import CommandOption


def solve(
    options: ProblemOptions,
    design: DesignOptions,
    group: Annotated[
        tuple[str, ...],
        CommandOption(
            "--group",
            "Voters that are alike, such as K=5,epsilon=0.5,Delta=1e-4; again for each group, in place of --K.",
            "K=…,epsilon=…",
            PROBLEM,
            "one group",
            several=True,
        ),
    ] = (),
    classes: Annotated[str, CommandOption("--classes", "Number of classes.", "COUNT", PROBLEM)] = "2",
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

    With more classes, or groups of voters with their own ε and Δ, the answer is a table: the chance of each class for
    every vote count. The objective is then truth(a_1,…,a_G), shared(a,b), dirichlet(a), beta(a,b) or favoured(a,…).
    """
    from darrm.cli.cached_solve import cached_solution
    from darrm.cli.report import solution_json, solution_text

    if output is not None or plot is not None:
        from darrm.cli.files import check_plot, check_writable, picture_format, write_json, write_whole

        check_writable(output, "output")
        check_plot(plot)
    if group or classes != "2":
        from darrm.cli.group_design import group_problem, show_group_design

        asked = group_problem(options, group, classes)
        if asked.classes > 2 or len(asked.groups) > 1:
            show_group_design(asked, design, output, plot, json=json)
            return
        from darrm_opt import Problem

        problem = Problem(asked.K, asked.groups[0].voter, asked.target, asked.affected)  # one group of two classes: γ
    else:
        problem = options.problem()
    solution = cached_solution(problem, design)
    if output is not None:
        from darrm_opt.record import solution_record

        write_json(output, solution_record(solution))
    if plot is not None:
        from darrm_opt.figures import comparison_figure, render
        from darrm_opt.planning.baselines import private_baselines

        write_whole(plot, render(comparison_figure(solution, private_baselines(problem)), picture_format(plot)))
    for warning in solution.warnings:
        say(f"Warning: {warning}")
    answer(solution_json(solution) if json else solution_text(solution))
    end(exit_code_of(solution.status))
