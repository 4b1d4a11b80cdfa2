"""``darrm solve`` for groups of voters, more than two classes and abstention: the answer is a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from darrm.cli.output import ProgressDisplay, answer, as_json, end, exit_code_of, say
from darrm.cli.parameters import DISJOINT, PRIOR, DesignOptions, ProblemOptions, TableOptions, number, options_named
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from darrm_opt.planning.table_baselines import Baseline
    from darrm_opt.problem import Problem
    from darrm_opt.tables.objective import TableObjective
    from darrm_opt.tables.priors import Ties
    from darrm_opt.tables.record import TableSpec
    from darrm_opt.tables.solver import TableSolution

DEFAULT_OBJECTIVE = "dirichlet(1)"
"""What is maximised where nothing else is asked: chances of the classes that are uniform on the simplex."""

MAX_ROWS = 40
"""Vote counts that the text shows; --json has them all."""

QUICK = 0.5
"""Expected seconds of a solve up to which the mechanisms that people use are shown beside it."""

LONG = 60.0
"""Seconds from which an expected time is told beforehand."""


def table_problem(options: ProblemOptions, table: TableOptions, objective: str) -> Problem:
    """Return the problem that the options name, voters that are alike, and count alike, in one group."""
    from darrm_opt.arguments import whole_number
    from darrm_opt.problem import Problem, VoterGroup

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
        groups, target, affected = [VoterGroup(one.K, one.voter)], one.target, one.affected
    else:
        table.refuse_others(options, ("K", "epsilon", "m"))
        groups, weights = table.voters()
        # By default a release may fail as often as the least private of its voters.
        target = options.target(max(one.voter.delta for one in groups))
        affected = number(options.affected)
    problem = Problem(groups=groups, target=target, affected=affected, classes=classes, abstention=table.abstention)
    return problem if len(set(weights)) > 1 or objective.startswith("truth(") else problem.merged


def is_gamma(problem: Problem, objective: str) -> bool:
    """Return whether the answer is a γ, and not a table."""
    return problem.is_binary and len(problem.groups) == 1 and not objective.startswith("truth(")


def show_table_design(
    problem: Problem,
    design: DesignOptions,
    table: TableOptions,
    output: str | None,
    *,
    unused: dict[str, tuple[Any, Any]],
    json: bool,
) -> None:
    """Solve, write and print."""
    from darrm.cli.files import write_json
    from darrm_opt.answers.tables import (
        MAX_GROUP_VOTERS,
        shown_baselines,
        table_seconds,
        table_to_dict,
        utilities_to_dict,
    )
    from darrm_opt.design.report import count_text
    from darrm_opt.mechanisms.base import planned_fields
    from darrm_opt.tables.record import KIND, TableSpec, table_solution_record

    of_gamma = {**unused, "shape": (design.shape, "free")}
    objective = _objective(design, table, problem)
    spec = TableSpec(problem, objective)
    alike = spec.kind == KIND
    if alike:
        of_gamma["cache"] = design.cache or None, None
    for name, (value, default) in of_gamma.items():
        if value != default:
            raise InvalidInput(
                name, value, Rule("cannot be combined with groups, classes or abstention: the answer is a table")
            )
    if alike and design.backend != "highs":
        raise InvalidInput("backend", design.backend, "'highs' for voters that are not private")
    limit = None if design.time_limit is None else number(design.time_limit)
    seconds = table_seconds(spec) if alike or problem.K <= MAX_GROUP_VOTERS else 0.0  # else the count takes long
    if seconds > LONG and limit is None:
        minutes = count_text(round(seconds / 60), "minute")
        say(f"About {minutes} expected; --time-limit stops earlier, with a proven gap.")
    with ProgressDisplay("designing the table"), options_named(prior="objective", chances="objective"):
        solution = _solved(spec, design, limit, seconds)
    if output is not None:
        write_json(output, table_solution_record(solution) | (planned_fields(1, problem.target) if alike else {}))
    with ProgressDisplay("comparing mechanisms"):
        baselines = shown_baselines(problem, objective, QUICK)
    if json:
        answer(as_json(table_to_dict(solution) | (utilities_to_dict(spec, baselines) if baselines else {})))
    else:
        answer(_text(solution, baselines))
    end(exit_code_of(solution.status))


def _objective(design: DesignOptions, table: TableOptions, problem: Problem) -> TableObjective:
    from darrm.cli.vote_files import past_votes
    from darrm_opt.tables.objective import as_table_objective

    text: Any = DEFAULT_OBJECTIVE if design.prior == "rectangular" else design.prior
    if table.votes is None and table.missing is not None:
        raise InvalidInput("missing", table.missing, Rule("needs --votes"))
    if table.votes is not None:
        if text != DEFAULT_OBJECTIVE:
            raise InvalidInput(
                "votes", table.votes, Rule("cannot be combined with --prior"), "The votes are the prior."
            )
        text = past_votes(table, problem.K, problem.classes)
    weights = table.voters()[1] or None
    with options_named(**dict.fromkeys(PRIOR, "objective"), prior="objective", weights="group"):
        return as_table_objective(text, number(table.price), cast("Ties", table.ties), weights)


def _solved(spec: TableSpec, design: DesignOptions, limit: Any, seconds: float) -> TableSolution:
    """Return the table, of groups through the store where that pays or is asked for, as `cached_solve`."""
    import os

    from darrm_opt.tables.record import KIND
    from darrm_opt.tables.solver import solve_table

    options: dict[str, Any] = {"backend": design.backend, "time_limit": limit}
    stores = design.cache or os.environ.get("DARRM_CACHE_URL", "").strip() or seconds > 1
    if spec.kind == KIND or design.cache is False or not stores:
        return solve_table(spec.problem, spec.objective, **options)

    from contextlib import closing

    from solver_cache import cache_url, cached_table, open_store

    with closing(open_store(cache_url(os.environ))) as store:
        return cached_table(spec.problem, spec.objective, store=store, **options).solution


def _text(solution: TableSolution, baselines: Sequence[Baseline]) -> str:

    problem = solution.problem
    from darrm_opt.tables.groups import GroupCells

    if isinstance(solution.table.cells, GroupCells):
        return _group_text(solution, problem, baselines)
    return _plurality_text(solution, problem, baselines)


def _plurality_text(solution: TableSolution, problem: Problem, baselines: Sequence[Baseline]) -> str:
    from darrm_opt.design.report import columns, guarantee, slack_text

    rows = [["optimal table", f"{solution.utility:.6f}"]]
    rows += [[one.name.replace("_", " "), f"{one.utility:.6f}"] for one in baselines]
    return (
        f"{problem.K} voters, {problem.classes} classes, one record moves {problem.affected}: "
        f"the released class is {guarantee(problem.target)}.\n"
        f"{columns(['mechanism', 'utility'], rows)}\n"
        f"optimal    no private table has a utility above {solution.upper_bound:.9f} (gap {solution.gap:.1e})\n"
        f"private    proved for these exact numbers over {solution.certificate.checked:,} neighbouring vote counts; "
        f"{slack_text(solution.certificate.margin)}"
    )


def _group_text(solution: TableSolution, problem: Problem, baselines: Sequence[Baseline]) -> str:
    from darrm_opt.design.report import columns, guarantee
    from darrm_opt.tables.groups import group_cells

    cells, chances = group_cells(problem), solution.table.chances
    groups = "; ".join(map(str, problem.groups))
    rows = [[one.name.replace("_", " "), f"{one.utility:.6f}", one.parameter] for one in baselines]
    lines = [
        f"{problem.classes} classes, voters {groups}, affected {problem.affected}.",
        f"the released class is {guarantee(problem.target)}",
        "",
        f"utility    {solution.utility:.6f} ({solution.objective})",
        f"bound      {solution.upper_bound:.6f}: no private table has a larger utility",
        f"private    proved for these exact numbers over {solution.certificate.checked:,} corners",
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
