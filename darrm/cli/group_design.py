"""``darrm solve`` for groups of voters and more than two classes: what is asked, and how the answer is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from darrm.cli.output import ProgressDisplay, answer, end, exit_code_of
from darrm.cli.parameters import DesignOptions, ProblemOptions, number
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy

if TYPE_CHECKING:
    from darrm_opt.tables.group_solver import GroupSolution
    from darrm_opt.tables.groups import GroupProblem, VoterGroup

DEFAULT_OBJECTIVE = "dirichlet(1)"
"""What is maximised where nothing else is asked: chances of the classes that are uniform on the simplex."""

MAX_ROWS = 40
"""Vote counts that the text shows; --json has them all."""


def group_problem(options: ProblemOptions, group: tuple[str, ...], classes: str) -> GroupProblem:
    """Return the problem that the options name.

    Raises:
        InvalidInput: naming the option, its value and what is accepted.
    """
    from darrm_opt.tables.groups import GroupProblem, group_of

    affected = None if options.affected is None else number(options.affected)
    if not group:
        one = options.problem(affected=None)
        voters = group_of(one.K, one.voter.epsilon, one.voter.delta)
        return GroupProblem(number(classes), [voters], one.target, affected)
    for name in ("K", "epsilon", "m"):
        if getattr(options, name) is not None:
            raise InvalidInput(name, getattr(options, name), "nothing beside --group, which names its voters itself")
    if options.target_epsilon is None:
        raise InvalidInput("target_epsilon", None, "a number of nats, at least 0", "Groups leave m without meaning.")
    groups = [_group(text) for text in group]
    delta = max(one.voter.delta for one in groups) if options.delta is None else number(options.delta)
    return GroupProblem(number(classes), groups, Privacy(number(options.target_epsilon), delta), affected)


def _group(text: str) -> VoterGroup:
    """Return the group that ``K=5,epsilon=0.5,Delta=1e-4`` names."""
    from darrm_opt.tables.groups import group_of

    accepted = "K=COUNT,epsilon=NATS and perhaps Delta=PROBABILITY, separated by commas"
    typed: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip() not in ("K", "epsilon", "Delta") or name.strip() in typed:
            raise InvalidInput("group", text, accepted)
        typed[name.strip()] = number(value.strip())
    if not {"K", "epsilon"} <= typed.keys():
        raise InvalidInput("group", text, accepted)
    return group_of(**typed)


def show_group_design(
    problem: GroupProblem, design: DesignOptions, output: str | None, plot: str | None, *, json: bool
) -> None:
    """Solve, write and print.

    Raises:
        InvalidInput: an option that only a γ has.
    """
    from darrm.cli.files import write_json
    from darrm.cli.report import as_json
    from darrm_opt.tables.group_solver import solution_json, solution_record, solve_groups

    for name, value, default in (
        ("plot", plot, None),
        ("shape", design.shape, "free"),
        ("method", design.method, "auto"),
        ("cache", design.cache, None),
    ):
        if value != default:
            raise InvalidInput(name, value, "nothing beside --group or --classes, whose answer is a table")
    objective = DEFAULT_OBJECTIVE if design.objective == "rectangular" else design.objective
    time_limit = None if design.time_limit is None else number(design.time_limit)
    with ProgressDisplay("solving"):
        solution = solve_groups(problem, objective, backend=design.backend, time_limit=time_limit)
    if output is not None:
        write_json(output, solution_record(solution))
    answer(as_json(solution_json(solution)) if json else _text(solution))
    end(exit_code_of(solution.status))


def _text(solution: GroupSolution) -> str:
    problem, cells, chances = solution.problem, solution.problem.cells, solution.table.chances
    groups = "; ".join(map(str, problem.groups))
    lines = [
        f"{problem.classes} classes, voters {groups}, affected {problem.affected}.",
        f"the released class is ({problem.target.epsilon:g}, {problem.target.delta:g})-private",
        "",
        f"utility    {solution.utility:.6f} ({solution.objective})",
        f"bound      {solution.upper_bound:.6f}: no private table has a larger utility",
        f"private    proved for these very numbers over {solution.certificate.corners:,} corners",
        f"status     {solution.status.value}: {solution.status.advice}",
        "",
        "votes of each class, group by group, and the chance of each class (other orders follow by symmetry):",
    ]
    for place in cells.first[:MAX_ROWS].tolist():
        votes = " | ".join(" ".join(map(str, row)) for row in cells.counts[place].tolist())
        lines.append(f"  {votes}    " + "  ".join(f"{chance:.4f}" for chance in chances[place].tolist()))
    if len(cells.first) > MAX_ROWS:
        lines.append(f"  and {len(cells.first) - MAX_ROWS} more: --json or --output has them all")
    return "\n".join(lines)
