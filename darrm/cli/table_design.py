"""``darrm solve`` for groups of voters, more than two classes and abstention: the answer is a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from darrm.cli.output import ProgressDisplay, answer, as_json, end, exit_code_of, say
from darrm.cli.parameters import DISJOINT, PRIOR, group_fields, number, options_named
from darrm.cli.question_options import DESIGN_DEFAULTS, given_fields
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.problem import Privacy, Problem, VoterGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from darrm_opt.planning.table_baselines import Baseline
    from darrm_opt.tables.objective import TableObjective
    from darrm_opt.tables.record import TableSpec
    from darrm_opt.tables.solver import TableSolution

DEFAULT_OBJECTIVE = "dirichlet(1)"
"""What is maximised where nothing else is asked: chances of the classes that are uniform on the simplex."""

MAX_ROWS = 40  # vote counts that the text shows; --json has them all
QUICK = 0.5  # expected seconds of a solve up to which the mechanisms that people use are shown beside it
LONG = 60.0  # expected seconds from which a solve announces its time


def refuse_beside_groups(groups: Sequence[str], typed: dict[str, Any], names: Sequence[str]) -> None:
    """Refuse what names voters beside the groups, where there are any."""
    for name in names if groups else ():
        if typed[name] not in (None, "inf"):
            rule = Rule("cannot be combined with --group, which states its own voters")
            raise InvalidInput(name, typed[name], rule)


def _groups(table: dict[str, Any]) -> tuple[list[VoterGroup], list[float]]:
    """Return the groups, and what one vote of each is worth."""
    from darrm_opt.questions.voters import GroupFields, voter_groups

    groups = [GroupFields.of(each) for each in group_fields(table["group"])]
    return voter_groups(groups), [group.weight for group in groups]


def _target(asked: dict[str, Any], delta: float) -> Privacy:
    """Return the target of groups, which leave m without meaning; ``delta`` where none is typed."""
    from darrm_opt.privacy_curves import stated_targets

    if asked["targets"] is not None:
        for name in ("target_epsilon", "delta"):
            if asked[name] is not None:
                raise InvalidInput(name, asked[name], Rule("cannot be combined with --targets"))
        return stated_targets(asked["targets"])
    if asked["target_epsilon"] is None:
        advice = "--m is not defined for groups."
        raise InvalidInput("target_epsilon", None, "a number of nats, at least 0", advice)
    return Privacy(number(asked["target_epsilon"]), delta if asked["delta"] is None else number(asked["delta"]))


def table_problem(asked: dict[str, Any], table: dict[str, Any], objective: str) -> Problem:
    """Return the problem that the options name, voters that are alike, and count alike, in one group."""
    from darrm_opt.arguments import whole_number
    from darrm_opt.questions.design import Design

    accepted = "a whole number of classes, at least 2"
    classes = whole_number(number(table["classes"] or "2"), "classes", accepted, least=2)
    shape: dict[str, Any] = {"classes": classes, "abstention": bool(table["abstention"])}
    if not table["group"]:
        private = asked["profile"] is not None or asked["epsilon"] not in (None, "inf")
        # Of a γ all voters are the default; of classes that would be useless, and 1 is a claim about the data.
        if classes > 2 and asked["affected"] is None and not private:
            raise InvalidInput("affected", None, "the number of votes that one record can influence", DISJOINT)
        given = given_fields(Design, asked)
        return replace(Design.of(given if private else given | {"epsilon": "inf"}).problem(), **shape)
    refuse_beside_groups(table["group"], asked, ("K", "epsilon", "m"))
    groups, weights = _groups(table)
    # By default a release may fail as often as the least private of its voters.
    target = _target(asked, max(one.voter.delta for one in groups))
    problem = Problem(groups=groups, target=target, affected=number(asked["affected"]), **shape)
    return problem if len(set(weights)) > 1 or objective.startswith("truth(") else problem.merged


def is_gamma(problem: Problem, objective: str) -> bool:
    """Return whether the answer is a γ, and not a table."""
    return problem.is_binary and len(problem.groups) == 1 and not objective.startswith("truth(")


def show_table_design(
    problem: Problem,
    asked: dict[str, Any],
    table: dict[str, Any],
    output: str | None,
    *,
    cache: bool | None,
    unused: dict[str, Any],
    json: bool,
) -> None:
    """Solve, write and print; ``unused`` are options that only a γ has."""
    from darrm.cli.files import write_json
    from darrm_opt.answers.tables import (
        MAX_GROUP_VOTERS,
        shown_baselines,
        table_seconds,
        table_to_dict,
        utilities_to_dict,
    )
    from darrm_opt.design.report import count_text
    from darrm_opt.record import planned_fields
    from darrm_opt.tables.record import KIND, TableSpec, table_solution_record

    objective = _objective(asked["prior"], table, problem)
    spec = TableSpec(problem, objective)
    alike = spec.kind == KIND
    for name, value in (unused | ({"cache": cache or None} if alike else {})).items():
        if value is not None and value != DESIGN_DEFAULTS.get(name):
            rule = Rule("cannot be combined with groups, classes or abstention: the answer is a table")
            raise InvalidInput(name, value, rule)
    backend = asked["backend"] or "highs"
    if alike and backend != "highs":
        raise InvalidInput("backend", backend, "'highs' for voters that are not private")
    limit = None if asked["time_limit"] is None else number(asked["time_limit"])
    seconds = table_seconds(spec) if alike or problem.K <= MAX_GROUP_VOTERS else 0.0  # else the count takes long
    if seconds > LONG and limit is None:
        minutes = count_text(round(seconds / 60), "minute")
        say(f"About {minutes} expected; --time-limit stops earlier, with a proven gap.")
    with ProgressDisplay("designing the table"), options_named(prior="objective", chances="objective"):
        solution = _solved(spec, backend, limit, seconds, cache=cache)
    if output is not None:
        write_json(output, table_solution_record(solution) | (planned_fields(1, problem.target) if alike else {}))
    with ProgressDisplay("comparing mechanisms"):
        baselines = shown_baselines(problem, objective, QUICK)
    if json:
        answer(as_json(table_to_dict(solution) | (utilities_to_dict(spec, baselines) if baselines else {})))
    else:
        answer((_plurality_text if alike else _group_text)(solution, baselines))
    end(exit_code_of(solution.status))


def _objective(prior: str | None, table: dict[str, Any], problem: Problem) -> TableObjective:
    from darrm.cli.vote_files import past_votes
    from darrm_opt.tables.objective import as_table_objective

    text: Any = DEFAULT_OBJECTIVE if prior in (None, "rectangular") else prior
    if table["votes"] is None and table["missing"] is not None:
        raise InvalidInput("missing", table["missing"], Rule("needs --votes"))
    if table["votes"] is not None:
        if text != DEFAULT_OBJECTIVE:
            rule = Rule("cannot be combined with --prior")
            raise InvalidInput("votes", table["votes"], rule, "The votes are the prior.")
        text = past_votes(table, problem.K, problem.classes)
    weights = _groups(table)[1] or None
    with options_named(**dict.fromkeys(PRIOR, "objective"), prior="objective", weights="group"):
        return as_table_objective(text, number(table["price"] or "0"), table["ties"] or "excluded", weights)


def _solved(spec: TableSpec, backend: str, limit: Any, seconds: float, *, cache: bool | None) -> TableSolution:
    """Return the table, of groups through the store where that pays or is asked for, as `cached_solve`."""
    import os

    from darrm_opt.tables.record import KIND
    from darrm_opt.tables.solver import solve_table

    options: dict[str, Any] = {"backend": backend, "time_limit": limit}
    stores = cache or os.environ.get("DARRM_CACHE_URL", "").strip() or seconds > 1
    if spec.kind == KIND or cache is False or not stores:
        return solve_table(spec.problem, spec.objective, **options)

    from contextlib import closing

    from solver_cache import cache_url, cached_table, open_store

    with closing(open_store(cache_url(os.environ))) as store:
        return cached_table(spec.problem, spec.objective, store=store, **options).solution


def _plurality_text(solution: TableSolution, baselines: Sequence[Baseline]) -> str:
    from darrm_opt.design.report import columns, guarantee, slack_text

    problem = solution.problem
    rows = [["optimal table", f"{solution.utility:.6f}"]]
    rows += [[one.name, f"{one.utility:.6f}"] for one in baselines]
    return (
        f"{problem.K} voters, {problem.classes} classes, one record moves {problem.affected}: "
        f"the released class is {guarantee(problem.target)}.\n"
        f"{columns(['mechanism', 'utility'], rows)}\n"
        f"optimal    no private table has a utility above {solution.upper_bound:.9f} (gap {solution.gap:.1e})\n"
        f"private    proved for these exact numbers over {solution.certificate.checked:,} neighbouring vote counts; "
        f"{slack_text(solution.certificate.margin)}"
    )


def _group_text(solution: TableSolution, baselines: Sequence[Baseline]) -> str:
    from darrm_opt.design.report import columns, guarantee
    from darrm_opt.tables.groups import group_cells

    problem, chances = solution.problem, solution.table.chances
    cells = group_cells(problem)
    groups = "; ".join(map(str, problem.groups))
    rows = [[one.name, f"{one.utility:.6f}", one.parameter] for one in baselines]
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
