"""Verb ``darrm solve``: the best γ or table for a target."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

from darrm.cli.output import answer, as_json, end, exit_code_of, say
from darrm.cli.parameters import GROUP, PAST, PROBLEM, AsJson, Drawn, declared_option, objectives
from darrm.cli.parser import ADVANCED, CommandOption, Made, Parameter, parameters_of

if TYPE_CHECKING:
    from darrm_opt.design.solution import Solution
    from darrm_opt.design.solver import Shape

_TABLE = {
    **PAST,
    "ties": declared_option("ties", ADVANCED, "excluded", values="excluded|any"),
    "price": declared_option("price", ADVANCED, "0"),
    "group": GROUP,
    "classes": declared_option("classes", PROBLEM, "2"),
    "abstention": CommandOption("--abstention", "Allow the release to withhold the class.", panel=ADVANCED),
}
"""What makes a design a table: groups of voters, more classes, abstention, and what answers are worth."""


_PRIOR = CommandOption(
    "--prior",
    lambda: f"Prior for which γ is optimal: {objectives()}.",
    "TEXT",
    "The design",
    "rectangular",
)


def _design_parameters() -> list[Parameter]:
    """Return the options of a design, whose objective is a prior."""
    from darrm.cli.question_options import PROBLEM_FIELDS, design_parameters

    asked = design_parameters(*PROBLEM_FIELDS, "shape", "method", "backend", "time_limit")
    return [*asked, *parameters_of({"prior": _PRIOR})]


def solve(
    asked: Annotated[dict[str, Any], Made(_design_parameters)],
    table: Annotated[dict[str, Any], Made(lambda: parameters_of(_TABLE))],
    drawn: Drawn,
    cache: Annotated[
        bool | None,
        CommandOption(
            "--cache/--no-cache",
            "Store answers and look them up.",
            panel=ADVANCED,
            otherwise="if DARRM_CACHE_URL is set, or solving takes longer than a lookup",
        ),
    ] = None,
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
    from darrm.cli.question_options import given_fields
    from darrm_opt.questions.design import Design
    from darrm_opt.record import solution_record

    if any(drawn.values()):
        _refuse_sample(asked, table, drawn, output)
    if output is not None or plot is not None:
        from darrm.cli.files import check_plot, check_writable, picture_format, write_json, write_whole

        # Before the solve, which may take minutes.
        check_writable(output, "output")
        check_plot(plot)
    given = {} if asked["prior"] is None else {"objective": asked["prior"]}
    # A γ is the usual question, and loads nothing of tables.
    if not any(table.values()):
        design = Design.of(given_fields(Design, asked) | given)
        problem = design.problem()
    else:
        from darrm.cli.table_design import is_gamma, show_table_design, table_problem
        from darrm_opt.answers import numbers
        from darrm_opt.errors import InvalidInput, Rule

        goal = asked["prior"] or "rectangular"
        problem = table_problem(asked, table, goal)
        if not is_gamma(problem, goal):
            unused = {"plot": plot, **{name: asked[name] for name in ("method", "shape")}}
            show_table_design(problem, asked, table, output, cache=cache, unused=unused, json=json)
            return
        for name, value in {each: table[each] for each in (*PAST, "ties", "price")}.items():
            if value is not None:
                raise InvalidInput(name, value, Rule("is for tables"))
        stated = given_fields(Design, {**asked, "K": str(problem.K)}) | given
        design = Design.of(stated | numbers(problem))  # one group of two classes
    solution = cached_solution(problem, design, cache=cache)
    record = solution_record(solution)
    if output is not None:
        write_json(output, record)
    if plot is not None:
        from darrm_opt.figures import comparison_figure, render
        from darrm_opt.planning.baselines import private_baselines

        write_whole(plot, render(comparison_figure(solution, private_baselines(problem)), picture_format(plot)))
    for warning in solution.warnings:
        say(f"Warning: {warning}")
    answer(as_json(record) if json else str(solution) + _points_text(asked["profile"], solution))
    end(exit_code_of(solution.status))


def _points_text(profile: str | None, solution: Solution) -> str:
    """Return the line that says what more points of a curve could give, where that is quickly found."""
    if profile is None:
        return ""
    from darrm_opt.design.schedule import is_expensive
    from darrm_opt.design.solver import solve as solve_problem
    from darrm_opt.privacy_curves import PrivacyCurve, stated_curve
    from darrm_opt.problem import Problem
    from darrm_opt.voters import PrivacyProfile

    curve, problem = stated_curve(profile), solution.problem
    if not isinstance(curve, PrivacyCurve) or not isinstance(problem.voter, PrivacyProfile) or is_expensive(problem):
        return ""
    inner = Problem(problem.K, curve.inner_profile(problem.voter), problem.target, problem.affected)
    shape = cast("Shape", solution.shape)
    bound = solve_problem(inner, solution.objective, shape, time_limit=POINTS_SECONDS).upper_bound
    most, points = max(bound, solution.utility), f"{len(problem.voter.points)} of {curve.text}"
    return f"\npoints     {points}; with more (--profile-points) the utility is at most {most:.6f}"


POINTS_SECONDS = 10.0  # time that may be spent on the bound of what more points could give [s]


def _refuse_sample(asked: dict[str, Any], table: dict[str, Any], drawn: dict[str, Any], output: str | None) -> NoReturn:
    """Refuse a sample of the records by the command that designs for it."""
    from darrm.cli.question_options import given_fields
    from darrm.cli.table_design import refuse_beside_groups
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.questions.design import Design

    refuse_beside_groups(table["group"], drawn, ("records",))
    # Voters that are private draw for themselves, and are then fresh; others share one sample of the query.
    private = asked["epsilon"] not in (None, "inf")
    target = asked["target_epsilon"]
    if asked["m"] is not None:
        target = repr(Design.of(given_fields(Design, asked)).problem().target.epsilon)
    # What was typed, as `plan` takes it: the command in the message runs as it is.
    given = {
        **{f"--{name}": asked[name] for name in ("K", "epsilon", "Delta", "affected")},
        "--classes": table["classes"],
        "--queries": "1",
        "--total-epsilon": target or "1",
        "--total-delta": asked["delta"] or "1e-5",
        **{f"--{name}": drawn[name] for name in ("records", "sample")},
        "--sampling": drawn["sampling"] or ("each-voter" if private else None),
        "--prior": asked["prior"],
        "--votes": table["votes"],
        **{f"--{name}": table[name] for name in ("ties", "price")},
        "--output": output or "best.json",
    }
    words = [word for name, value in given.items() if value is not None for word in (name, value)]
    command = shlex.join(["darrm", "plan", *words, *(["--fresh"] if private else [])])
    advice = f"The design depends on all queries and their total: {command} (with your --queries)."
    raise InvalidInput("records", drawn["records"], Rule("is for many queries: one release has no sample"), advice)
