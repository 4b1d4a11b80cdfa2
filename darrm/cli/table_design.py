"""``darrm solve`` for groups of voters, more than two classes and abstention: the answer is a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from darrm.cli.output import ProgressDisplay, answer, as_json, end, exit_code_of, say
from darrm.cli.parameters import DesignOptions, ProblemOptions, TableOptions, number, options_named
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, Problem

if TYPE_CHECKING:
    from darrm_opt.planning.baselines import MechanismComparison
    from darrm_opt.planning.group_baselines import GroupBaseline
    from darrm_opt.tables.group_solver import GroupSolution
    from darrm_opt.tables.groups import GroupProblem
    from darrm_opt.tables.priors import Ties
    from darrm_opt.tables.problem import PluralityProblem

DEFAULT_OBJECTIVE = "dirichlet(1)"
"""What is maximised where nothing else is asked: chances of the classes that are uniform on the simplex."""

MAX_ROWS = 40
"""Vote counts that the text shows; --json has them all."""

QUICK = 0.5
"""Expected seconds of a solve up to which the mechanisms that people use are shown beside it."""

LONG = 60.0
"""Seconds from which an expected time is told beforehand."""


def table_problem(
    options: ProblemOptions, table: TableOptions, objective: str
) -> Problem | PluralityProblem | GroupProblem:
    """Return the problem that the options name, as the special case that it is: of one group and two classes, a γ's."""
    from darrm.cli.ranking import DISJOINT
    from darrm_opt.problem import whole_number
    from darrm_opt.tables.groups import GroupProblem, group_of, simplest_problem

    classes = whole_number(number(table.classes), "classes", "a whole number of classes, at least 2", least=2)
    if not table.group:
        private = options.epsilon not in (None, "inf")
        # Of a γ all voters are the default; of classes that would be useless, and 1 is a claim about the data.
        if classes > 2 and options.affected is None and not private:
            raise InvalidInput("affected", None, "how many votes one record can move", DISJOINT)
        typed: dict[str, Any] = {} if private else {"epsilon": float("inf")}
        one = options.problem(**typed)
        if classes == 2 and not table.abstention:
            return one
        weights: list[float] = []
        groups, target, affected = [group_of(one.K, one.voter.epsilon, one.voter.delta)], one.target, one.affected
    else:
        table.refuse_others(options, ("K", "epsilon", "m"))
        if options.target_epsilon is None:
            raise InvalidInput(
                "target_epsilon", None, "a number of nats, at least 0", "Groups leave m without meaning."
            )
        groups, weights = table.voters()
        # By default a release may fail as often as the least private of its voters.
        delta = max(one.voter.delta for one in groups) if options.delta is None else number(options.delta)
        target, affected = Privacy(number(options.target_epsilon), delta), number(options.affected)
    if len(set(weights)) > 1 or objective.startswith("truth("):  # they are not alike
        return GroupProblem(classes, groups, target, affected, abstention=table.abstention)
    return simplest_problem(groups, target, classes=classes, affected=affected, abstention=table.abstention)


def show_table_design(
    problem: PluralityProblem | GroupProblem,
    design: DesignOptions,
    table: TableOptions,
    output: str | None,
    *,
    unused: dict[str, tuple[Any, Any]],
    json: bool,
) -> None:
    """Solve, write and print."""
    from darrm_opt.tables.problem import PluralityProblem

    of_gamma = {**unused, "shape": (design.shape, "free")}
    if isinstance(problem, PluralityProblem):
        of_gamma["cache"] = design.cache or None, None
    for name, (value, default) in of_gamma.items():
        if value != default:
            raise InvalidInput(name, value, "nothing beside groups, classes or abstention: the answer is a table")
    if isinstance(problem, PluralityProblem):
        if design.backend != "highs":
            raise InvalidInput("backend", design.backend, "'highs' for voters that are not private")
        _show_rule(problem, design, table, output, json=json)
    else:
        _show_groups(problem, design, table, output, json=json)


def _objective(design: DesignOptions, table: TableOptions, problem: PluralityProblem | GroupProblem) -> Any:
    """Return the objective; of voters that are not private, the prior in one."""
    from darrm.cli.ranking import PRIOR, past_votes
    from darrm_opt.tables.group_solver import as_group_objective

    text: Any = DEFAULT_OBJECTIVE if design.objective == "rectangular" else design.objective
    if table.votes is not None:
        if text != DEFAULT_OBJECTIVE:
            raise InvalidInput("votes", table.votes, "nothing beside --objective", "The votes are the prior.")
        text = past_votes(table, str(problem.K), problem.classes)
    weights = table.voters()[1] or None
    with options_named(**dict.fromkeys(PRIOR, "objective"), prior="objective", weights="group"):
        return as_group_objective(text, number(table.price), cast("Ties", table.ties), weights)


def _show_groups(
    problem: GroupProblem, design: DesignOptions, table: TableOptions, output: str | None, *, json: bool
) -> None:
    from darrm.cli.files import write_json
    from darrm_opt.answers.plurality import MAX_GROUP_VOTERS, group_seconds, shown_baselines
    from darrm_opt.tables.group_record import solution_json, solution_record

    objective = _objective(design, table, problem)
    limit = None if design.time_limit is None else number(design.time_limit)
    seconds = group_seconds(problem) if problem.K <= MAX_GROUP_VOTERS else 0.0  # else the count itself takes long
    _say_if_long(seconds, limit)
    with ProgressDisplay("solving"):
        solution = _solved_groups(problem, objective, design, limit, seconds)
    if output is not None:
        write_json(output, solution_record(solution))
    with ProgressDisplay("comparing mechanisms"):
        baselines = shown_baselines(problem, objective, QUICK)
    if json:
        utilities = {one.name: one.utility for one in baselines}
        answer(as_json(solution_json(solution) | ({"utilities": utilities} if baselines else {})))
    else:
        answer(_text(solution, baselines))
    end(exit_code_of(solution.status))


def _say_if_long(seconds: float, limit: Any) -> None:
    if seconds > LONG and limit is None:
        say(f"About {seconds / 60:,.0f} minutes are expected; --time-limit stops earlier, with a proven gap.")


def _solved_groups(
    problem: GroupProblem, objective: Any, design: DesignOptions, limit: Any, seconds: float
) -> GroupSolution:
    """Return the table, through the store where that pays or is asked for, as `cached_solve.cached_solution`."""
    import os

    from darrm_opt.tables.group_solver import solve_groups

    if design.cache is False or not (design.cache or os.environ.get("DARRM_CACHE_URL", "").strip() or seconds > 1):
        return solve_groups(problem, objective, backend=design.backend, time_limit=limit)

    from contextlib import closing

    from solver_cache import cache_url, open_store
    from solver_cache.solve import cached_groups

    with closing(open_store(cache_url(os.environ))) as store:
        options: dict[str, Any] = {"backend": design.backend, "time_limit": limit}
        return cached_groups(problem, objective, store=store, **options).solution


def _show_rule(
    problem: PluralityProblem, design: DesignOptions, table: TableOptions, output: str | None, *, json: bool
) -> None:
    """Design the table of voters that are not private, beside the mechanisms that people use."""
    from darrm.cli.files import write_json
    from darrm_opt.answers.plurality import plurality_seconds
    from darrm_opt.mechanisms.base import planned_fields
    from darrm_opt.planning.baselines import compare_mechanisms
    from darrm_opt.tables.priors import PluralityObjective
    from darrm_opt.tables.record import plurality_record

    found = _objective(design, table, problem)
    objective = PluralityObjective(found.prior, found.ties, found.price)
    _say_if_long(plurality_seconds(problem), design.time_limit)
    limit = None if design.time_limit is None else number(design.time_limit)
    with ProgressDisplay("designing the table"), options_named(prior="objective", chances="objective"):
        comparison = compare_mechanisms(problem, objective, time_limit=limit)
    solution = comparison.solution
    if output is not None:
        write_json(output, plurality_record(solution) | planned_fields(1, problem.target))
    answer(as_json(comparison.as_dict()) if json else _rule_text(comparison))
    end(exit_code_of(solution.status))


def _rule_text(comparison: MechanismComparison) -> str:
    from darrm_opt.design.report import columns, guarantee

    solution, problem = comparison.solution, comparison.solution.problem
    rows = [["optimal rule", f"{solution.utility:.6f}"]]
    rows += [[name.replace("_", " "), f"{utility:.6f}"] for name, utility in comparison.utilities.items()]
    return (
        f"{problem.K} voters, {problem.classes} classes, one record moves {problem.affected}: "
        f"the released class is {guarantee(problem.target)}.\n"
        f"{columns(['mechanism', 'utility'], rows)}\n"
        f"optimal    no private rule has a utility above {solution.upper_bound:.9f} (gap {solution.gap:.1e})\n"
        f"private    proved for these very numbers over {solution.certificate.edges:,} neighbouring vote counts; "
        f"at the tightest, {solution.certificate.margin:.1e} of probability is to spare"
    )


def _text(solution: GroupSolution, baselines: tuple[GroupBaseline, ...]) -> str:
    from darrm_opt.design.report import columns

    problem, cells, chances = solution.problem, solution.problem.cells, solution.table.chances
    groups = "; ".join(map(str, problem.groups))
    rows = [[one.name.replace("_", " "), f"{one.utility:.6f}", one.parameter] for one in baselines]
    lines = [
        f"{problem.classes} classes, voters {groups}, affected {problem.affected}.",
        f"the released class is ({problem.target.epsilon:g}, {problem.target.delta:g})-private",
        "",
        f"utility    {solution.utility:.6f} ({solution.objective})",
        f"bound      {solution.upper_bound:.6f}: no private table has a larger utility",
        f"private    proved for these very numbers over {solution.certificate.corners:,} corners",
        f"status     {solution.status.value}: {solution.status.advice}",
        "",
        *([columns(["at the same privacy", "utility", ""], rows), ""] if rows else []),
        "votes of each class, group by group, and the chance of each class (other orders follow by symmetry):",
    ]
    # One count of each orbit: renaming the classes renames the chances.
    for place in cells.first[:MAX_ROWS].tolist():
        votes = " | ".join(" ".join(map(str, row)) for row in cells.counts[place].tolist())
        lines.append(f"  {votes}    " + "  ".join(f"{chance:.4f}" for chance in chances[place].tolist()))
    if len(cells.first) > MAX_ROWS:
        lines.append(f"  and {len(cells.first) - MAX_ROWS} more: --json or --output has them all")
    return "\n".join(lines)
