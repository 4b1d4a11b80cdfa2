"""Designs of tables, of voters that are alike or of groups: their task, expected times, and results as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from darrm_opt.answers.filed import filed
from darrm_opt.answers.running_time import clip, fitted_seconds, solve_seconds
from darrm_opt.answers.verification import member, members
from darrm_opt.errors import InvalidInput, VerificationFailed
from darrm_opt.mechanisms.base import planned_fields
from darrm_opt.mechanisms.table import GroupTableMechanism, TableMechanism
from darrm_opt.planning.table_baselines import Baseline, table_baselines
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import DesignSpec
from darrm_opt.tables.corners import check_reach
from darrm_opt.tables.groups import MAX_CELLS, GroupCells, group_cells
from darrm_opt.tables.objective import TableObjective, is_plurality
from darrm_opt.tables.problem import Histograms, has_table, partition_count
from darrm_opt.tables.record import (
    GROUP_KIND,
    KIND,
    TableSpec,
    kind_of,
    objective_record,
    problem_record,
    read_table,
    table_from_record,
    table_solution_record,
    verify_table_solution,
)
from darrm_opt.tables.solver import TableSolution
from darrm_opt.tables.table import Table
from darrm_opt.verification import InvalidSolution

MAX_MEASURED_SECONDS, GROWTH = 12.0, 2.0
"""Time limit of the designs that were measured [s], and the power of the fitted time by which estimates grow beyond it:
the slowest designs are missing from the fit, and larger programs grow faster, so these estimates err on the high side.
"""


def _extrapolated_seconds(program: str, features: Sequence[float]) -> float:
    seconds = fitted_seconds(program, features)
    return seconds * math.pow(max(1.0, seconds / MAX_MEASURED_SECONDS), GROWTH - 1)


def plurality_seconds(problem: Problem) -> float:
    """Return about how long a design takes [s]."""
    if not has_table(problem.K, problem.classes):
        return 0.0  # refused at once, with the reason
    return _extrapolated_seconds("plurality", plurality_features(problem))


def plurality_features(problem: Problem) -> tuple[float, ...]:
    """Return what the regression of tables of voters that are not private multiplies."""
    target = problem.target
    size = math.log(partition_count(problem.K, problem.classes) * min(problem.classes, MEAN_VALUES))
    epsilon = math.log(clip(target.epsilon, 0.05, 3.0))
    more, two, three = math.log(problem.affected), float(problem.classes == 2), float(problem.classes == 3)
    large = max(0.0, size - 5)  # from where the program takes longer than all else
    return (
        *(1.0, size, size**2, large, large * three, more, more * large, math.log(problem.K), two, three),
        *(epsilon, epsilon * large, float(target.delta == 0), large * (target.delta == 0), float(problem.abstention)),
    )


MEAN_VALUES = 4.5
"""About how many different counts a partition has, at most."""

MAX_GROUP_VOTERS = 200
"""Most voters, of all groups, whose corners are counted before a service answers."""


def group_seconds(problem: Problem) -> float:
    """Return about how long a design takes [s]; refuse what is out of reach."""
    if problem.K > MAX_GROUP_VOTERS:
        raise InvalidInput("groups", f"{problem.K} voters", f"at most {MAX_GROUP_VOTERS} voters in all groups")
    cells = len(group_cells(problem).owners)
    if cells > MAX_CELLS:
        raise InvalidInput("groups", f"{cells:,} cells", f"at most {MAX_CELLS:,} cells of a table")
    return _extrapolated_seconds("groups", group_features(problem))


def group_features(problem: Problem) -> tuple[float, ...]:
    """Return what the regression of tables of groups multiplies; refuse what is out of reach."""
    reach, size = check_reach(problem), math.log(len(group_cells(problem).owners))
    return (
        *(1.0, size, size**2, math.log(problem.K), float(problem.classes == 2), float(problem.abstention)),
        *(math.log1p(reach.steps), math.log1p(reach.probabilities), math.log1p(reach.keys), float(reach.completed)),
        *(float(any(group.voter.delta > 0 for group in problem.groups)), float(len(problem.groups))),
    )


def table_seconds(spec: TableSpec) -> float:
    """Return about how long a design takes [s]; refuse what is out of reach."""
    return plurality_seconds(spec.problem) if spec.kind == KIND else group_seconds(spec.problem)


def design_seconds(spec: DesignSpec | TableSpec) -> float:
    """Return about how long the design of a γ or a table takes [s]; refuse a table that is out of reach."""
    return solve_seconds(spec) if isinstance(spec, DesignSpec) else table_seconds(spec)


MAX_COMPARED_SECONDS = 0.15
"""Expected seconds of a solve for groups up to which an answer compares its table with the mechanisms people use."""

COMPARISON_SECONDS, COMPARISON_SOLVES = 0.1, 6
"""About how long that comparison takes [s], and how many solves more."""


def shown_baselines(
    problem: Problem, objective: TableObjective, most: float = MAX_COMPARED_SECONDS
) -> tuple[Baseline, ...]:
    """Return what else people release at the same privacy; nothing where a solve for groups takes ``most`` [s]."""
    is_group_table = not is_plurality(problem, objective)
    if is_group_table and (problem.K > MAX_GROUP_VOTERS or group_seconds(problem) > most):
        return ()
    return table_baselines(problem, objective)


def group_answer_seconds(problem: Problem, *, stored: bool) -> float:
    """Return about how long the table of groups takes, with what is compared [s]; refuse what is out of reach."""
    solve = group_seconds(problem)
    others = COMPARISON_SECONDS + COMPARISON_SOLVES * solve if solve <= MAX_COMPARED_SECONDS else 0.0
    return others + (0.0 if stored else solve)


def table_to_dict(solution: TableSolution) -> dict[str, Any]:
    """Return what the doors show of a table: the answer, and of groups the counts with the chance of each output."""
    problem, certificate, kind = solution.problem, solution.certificate, kind_of(solution.table.cells)
    objective, asked = objective_record(kind, solution.objective), problem_record(problem, kind)
    asked |= {"target_epsilon": problem.target.epsilon, "delta": problem.target.delta}  # of several, the first
    answer = {
        "utility": solution.utility,
        "upper_bound": solution.upper_bound,
        "gap": solution.gap,
        "status": solution.status.value,
    }
    mechanism = (TableMechanism if kind == KIND else GroupTableMechanism)(problem, solution.table)
    answer |= filed(mechanism, problem.target, 1)
    if kind == KIND:
        return {"problem": asked, **objective, **answer, "margin": certificate.margin}
    return {
        **asked,
        **objective,
        **answer,
        "table": _shown_chances(solution.table),
        "certificate": table_solution_record(solution)["certificate"],
        "corners": certificate.checked,
        "seconds": solution.statistics.seconds,
    }


def _shown_chances(table: Table) -> list[dict[str, Any]]:
    chances, cells = table.chances, table.cells
    assert isinstance(cells, GroupCells)  # noqa: S101 - for the type checker
    return [
        {"counts": cells.counts[place].tolist(), "probabilities": chances[place].tolist()}
        # One count of each orbit: a table treats the classes alike, so the others follow by renaming.
        for place in cells.first.tolist()
    ]


def utilities_to_dict(spec: TableSpec, baselines: Sequence[Baseline]) -> dict[str, Any]:
    """Return the utility of each mechanism by name, and of voters that are not private its rate."""
    utilities = {"utilities": {one.name: one.utility for one in baselines}}
    rates = {"rates": {one.name: one.rate for one in baselines}}
    return utilities | rates if spec.kind == KIND else utilities


def table_record(solution: TableSolution, id: str, *, cached: bool) -> dict[str, Any]:
    """Return a table as plain data, as the answer to its id."""
    return {"id": id, "cached": cached, **table_to_dict(solution), "record": table_solution_record(solution)}


def stored_table(id: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return a stored table, given its proved record, as the answer to its id: without mechanisms beside it."""
    beside: dict[str, Any] = {"utilities": {}} if record["kind"] == GROUP_KIND else {}
    return table_record(read_table(record), id, cached=True) | beside


@dataclass(frozen=True)
class VerifiedTable(TableSolution):
    """Table that came from elsewhere and was proved by this process, with its origin."""

    id: str  # content key of what was asked
    cached: bool  # whether the other side had it before
    utilities: dict[str, float]  # of every mechanism at the same privacy, by name: the other side's word
    rates: dict[str, float] = field(default_factory=dict)  # of the same, where voters are not private


def verified_table(answer: Any, spec: TableSpec) -> VerifiedTable:
    """Return the table of an answer under a certificate of this process, with its utility recomputed.

    Guarantees: The table is private for ``spec.problem``, exactly as its bits are.
    """
    verify_table_answer(answer, spec.problem)
    try:
        solution = verify_table_solution(read_table(answer["record"]), spec)
    except InvalidSolution as err:
        raise VerificationFailed(f"The answer does not hold: {err}.") from err
    utilities = answer.get("utilities", {})
    members(utilities, dict)
    return VerifiedTable(**solution.__dict__, id=spec.key, cached=answer.get("cached") is True, utilities=utilities)


def verify_table_answer(answer: Any, problem: Problem) -> dict[str, Any]:
    """Return an answer whose table is proved private, here, for the problem that was asked, and is the one shown."""
    try:
        its_problem, table, _ = table_from_record(member(answer, "record"))
    except InvalidInput as err:
        raise VerificationFailed(f"The answer's table is invalid: {err}") from err
    if its_problem != problem:
        raise VerificationFailed("The answer has a table for another problem than the one that was asked.")
    if isinstance(table.cells, Histograms):
        member(answer, "utilities")
    elif answer.get("table") != _shown_chances(table):
        raise VerificationFailed("The answer shows another table than its record.")
    return dict(answer)


SHOWN = (
    *("problem", "classes", "groups", "target_epsilon", "delta", "affected", "abstention", "objective", "prior"),
    *("ties", "price", "weights", "utility", "upper_bound", "table"),
)
"""What an answer shows of its record, as far as it has these fields."""


def record_in_answer(answer: Any) -> Any:
    """Return the record of the table or mechanism in a service's answer, unproved; anything else as it is.

    A stored design has that of its design. The mechanism of a plan names the plan's queries and total beside it.
    """
    if isinstance(answer, dict) and "tags" in answer and isinstance(answer.get("design"), dict):
        answer = answer["design"]
    if not isinstance(answer, dict) or "kind" in answer:
        return answer
    record, mechanism = answer.get("record"), answer.get("mechanism")
    try:
        if isinstance(record, dict):
            shown = table_to_dict(read_table(record))
            # A reader trusts what is shown, and only the record is proved: both must be the same table.
            other = [name for name in SHOWN if name in shown and answer.get(name, shown[name]) != shown[name]]
            if other:
                raise VerificationFailed(f"The answer shows another {other[0]} than its record.")
            return record
        if isinstance(mechanism, dict) and isinstance(answer.get("options"), list):
            # What is proved of a mechanism depends on how records are drawn.
            if answer.get("sampling") != mechanism.get("sampling"):
                raise VerificationFailed("The answer shows another sampling than that of its mechanism.")
            total = Privacy(answer["total"]["epsilon"], answer["total"]["delta"])
            return mechanism | planned_fields(answer["queries"], total)
    except (LookupError, TypeError, InvalidSolution) as err:
        raise VerificationFailed("The answer's table or mechanism is invalid.") from err
    return answer
