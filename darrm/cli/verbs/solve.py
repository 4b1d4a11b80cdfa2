"""Verb ``darrm solve``: the best γ or table for a target."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

from darrm.cli.output import answer, as_json, end, exit_code_of, say
from darrm.cli.parameters import (
    AsJson,
    DesignOptions,
    Method,
    ProblemOptions,
    SampleOptions,
    TableOptions,
)
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt.design.solution import Solution
    from darrm_opt.design.solver import Shape


def solve(
    options: ProblemOptions,
    design: DesignOptions,
    table: TableOptions,
    drawn: SampleOptions,
    method: Method = "auto",
    output: Annotated[
        str | None, CommandOption("--output", "Write the answer as JSON, for `darrm verify`.", "FILE")
    ] = None,
    plot: Annotated[str | None, CommandOption("--plot", "Plot γ and its error: .png, .svg or .pdf.", "FILE")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Design the best private γ for K voters, and prove it.

    Prints γ(l): when l voters say 1, the majority is kept with probability γ(l), else a fair coin is tossed. The bit is
    the majority with probability (1 + γ(l))/2. It is private exactly as printed with --json or --output.

    With more classes, abstention, or groups of voters with their own ε and Δ, the answer is a table: the chance of each
    class for every vote count. The objective is then truth(a_1,…,a_G), shared(a,b), dirichlet(a), beta(a,b),
    favoured(a,…) or histogram(…), and a price of wrong answers counts. For voters that are not private (no --epsilon,
    or inf), the table is compared with common mechanisms, each calibrated for the released label alone.

    If every query uses a fresh sample of the records (--records), the design depends on the queries and their total;
    use `darrm plan`, whose command is shown.
    """
    from darrm.cli.cached_solve import cached_solution
    from darrm_opt.record import solution_record

    if drawn != SampleOptions():
        _refuse_sample(options, design, table, drawn, output)
    if output is not None or plot is not None:
        from darrm.cli.files import check_plot, check_writable, picture_format, write_json, write_whole

        # Before the solve, which may take minutes.
        check_writable(output, "output")
        check_plot(plot)
    # A γ is the usual question, and loads nothing of tables.
    if table == TableOptions():
        problem = options.problem()
    else:
        from darrm.cli.table_design import is_gamma, show_table_design, table_problem
        from darrm_opt.errors import InvalidInput, Rule

        asked = table_problem(options, table, design.prior)
        if not is_gamma(asked, design.prior):
            of_gamma = {"plot": (plot, None), "method": (method, "auto")}
            show_table_design(asked, design, table, output, unused=of_gamma, json=json)
            return
        for name, default in (("votes", None), ("missing", None), ("ties", "excluded"), ("price", "0")):
            if (value := getattr(table, name)) != default:
                raise InvalidInput(name, value, Rule("is for tables"))
        problem = asked  # one group of two classes
    solution = cached_solution(problem, design, method)
    record = solution_record(solution)
    if output is not None:
        write_json(output, record)
    if plot is not None:
        from darrm_opt.figures import comparison_figure, render
        from darrm_opt.planning.baselines import private_baselines

        write_whole(plot, render(comparison_figure(solution, private_baselines(problem)), picture_format(plot)))
    for warning in solution.warnings:
        say(f"Warning: {warning}")
    answer(as_json(record) if json else str(solution) + _points_text(options, solution))
    end(exit_code_of(solution.status))


def _points_text(options: ProblemOptions, solution: Solution) -> str:
    """Return the line that says what more points of a curve could give, where that is quickly found."""
    if options.profile is None:
        return ""
    from darrm_opt.design.schedule import is_expensive
    from darrm_opt.design.solver import solve as solve_problem
    from darrm_opt.privacy_curves import PrivacyCurve, stated_curve
    from darrm_opt.problem import Problem
    from darrm_opt.voters import PrivacyProfile

    curve, problem = stated_curve(options.profile), solution.problem
    if not isinstance(curve, PrivacyCurve) or not isinstance(problem.voter, PrivacyProfile) or is_expensive(problem):
        return ""
    inner = Problem(problem.K, curve.inner_profile(problem.voter), problem.target, problem.affected)
    shape = cast("Shape", solution.shape)
    bound = solve_problem(inner, solution.objective, shape, time_limit=POINTS_SECONDS).upper_bound
    most, points = max(bound, solution.utility), f"{len(problem.voter.points)} of {curve.text}"
    return f"\npoints     {points}; with more (--profile-points) the utility is at most {most:.6f}"


POINTS_SECONDS = 10.0
"""Time that may be spent on the bound of what more points could give [s]."""


def _refuse_sample(
    options: ProblemOptions, design: DesignOptions, table: TableOptions, drawn: SampleOptions, output: str | None
) -> NoReturn:
    """Refuse a sample of the records by the command that designs for it."""
    from darrm_opt.errors import InvalidInput, Rule

    table.refuse_others(drawn, ("records",))
    # Voters that are private draw for themselves, and are then fresh; others share one sample of the query.
    private = options.epsilon not in (None, "inf")
    target = options.target_epsilon if options.m is None else repr(options.problem().target.epsilon)
    # What was typed, as `plan` takes it: the command in the message runs as it is.
    given = {
        "--K": options.K,
        "--epsilon": options.epsilon,
        "--Delta": None if options.Delta == "0" else options.Delta,
        "--affected": options.affected,
        "--classes": table.classes,
        "--queries": "1",
        "--total-epsilon": target or "1",
        "--total-delta": options.delta or "1e-5",
        "--records": drawn.records,
        "--sample": drawn.sample,
        "--sampling": drawn.sampling or ("each-voter" if private else None),
        "--prior": None if design.prior == "rectangular" else design.prior,
        "--votes": table.votes,
        "--ties": None if table.ties == "excluded" else table.ties,
        "--price": None if table.price == "0" else table.price,
        "--output": output or "best.json",
    }
    words = [word for name, value in given.items() if value is not None for word in (name, value)]
    command = shlex.join(["darrm", "plan", *words, *(["--fresh"] if private else [])])
    advice = f"The design depends on all queries and their total: {command} (with your --queries)."
    raise InvalidInput("records", drawn.records, Rule("is for many queries: one release has no sample"), advice)
