"""Designs of tables, for voters that are alike or in groups: expected times, and results as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from darrm_opt.answers.filed import filed
from darrm_opt.answers.running_time import clip, fitted_seconds, solve_seconds
from darrm_opt.answers.verification import member, members
from darrm_opt.errors import InvalidInput, VerificationFailed
from darrm_opt.mechanisms.table import GroupTableMechanism, TableMechanism
from darrm_opt.planning.table_baselines import Baseline, table_baselines
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import DesignSpec, planned_fields
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
"""Time limit of the measured designs [s], and the power of the fitted time by which estimates grow beyond it: the fit
lacks the slowest designs, and larger programs grow faster, so these estimates err on the high side."""


def _extrapolated_seconds(program: str, features: Sequence[float]) -> float:
    seconds = fitted_seconds(program, features)
    return seconds * math.pow(max(1.0, seconds / MAX_MEASURED_SECONDS), GROWTH - 1)


def plurality_seconds(problem: Problem) -> float:
    """Return the approximate time of a design [s]."""
    if not has_table(problem.K, problem.classes):
        return 0.0  # rejected at once, with the reason
    return _extrapolated_seconds("plurality", plurality_features(problem))


def plurality_features(problem: Problem) -> tuple[float, ...]:
    """Return the features of the regression of tables for voters that are not private."""
    target = problem.target
    size = math.log(partition_count(problem.K, problem.classes) * min(problem.classes, MEAN_VALUES))
    epsilon = math.log(clip(target.epsilon, 0.05, 3.0))
    more, two, three = math.log(problem.affected), float(problem.classes == 2), float(problem.classes == 3)
    large = max(0.0, size - 5)  # beyond it the program dominates the time
    return (
        *(1.0, size, size**2, large, large * three, more, more * large, math.log(problem.K), two, three),
        *(epsilon, epsilon * large, float(target.delta == 0), large * (target.delta == 0), float(problem.abstention)),
    )


MEAN_VALUES = 4.5  # approximate largest number of different counts in a partition
MAX_GROUP_VOTERS = 200  # maximum number of voters, of all groups, whose corners are counted before a service answers


def group_seconds(problem: Problem) -> float:
    """Return the approximate time of a design [s]; `InvalidInput` if out of reach."""
    if problem.K > MAX_GROUP_VOTERS:
        raise InvalidInput("groups", f"{problem.K} voters", f"at most {MAX_GROUP_VOTERS} voters in all groups")
    cells = len(group_cells(problem).owners)
    if cells > MAX_CELLS:
        raise InvalidInput("groups", f"{cells:,} cells", f"at most {MAX_CELLS:,} cells of a table")
    return _extrapolated_seconds("groups", group_features(problem))


def group_features(problem: Problem) -> tuple[float, ...]:
    """Return the features of the regression of tables of groups; `InvalidInput` if out of reach."""
    reach, size = check_reach(problem), math.log(len(group_cells(problem).owners))
    return (
        *(1.0, size, size**2, math.log(problem.K), float(problem.classes == 2), float(problem.abstention)),
        *(math.log1p(reach.steps), math.log1p(reach.probabilities), math.log1p(reach.keys), float(reach.completed)),
        *(float(any(group.voter.delta > 0 for group in problem.groups)), float(len(problem.groups))),
    )


def table_seconds(spec: TableSpec) -> float:
    """Return the approximate time of a design [s]; `InvalidInput` if out of reach."""
    return plurality_seconds(spec.problem) if spec.kind == KIND else group_seconds(spec.problem)


def design_seconds(spec: DesignSpec | TableSpec) -> float:
    """Return the approximate time of the design of a γ or table [s]; `InvalidInput` for a table out of reach."""
    return solve_seconds(spec) if isinstance(spec, DesignSpec) else table_seconds(spec)


MAX_COMPARED_SECONDS = 0.15
"""Longest expected solve for groups at which an answer compares its table with common mechanisms [s]."""

COMPARISON_SECONDS, COMPARISON_SOLVES = 0.1, 6
"""Approximate time of that comparison [s], and its number of further solves."""


def shown_baselines(
    problem: Problem, objective: TableObjective, most: float = MAX_COMPARED_SECONDS
) -> tuple[Baseline, ...]:
    """Return common mechanisms at the same privacy; () if a solve for groups takes longer than ``most`` [s]."""
    is_group_table = not is_plurality(problem, objective)
    if is_group_table and (problem.K > MAX_GROUP_VOTERS or group_seconds(problem) > most):
        return ()
    return table_baselines(problem, objective)


def group_answer_seconds(problem: Problem, *, stored: bool) -> float:
    """Return the approximate time of a table of groups and its comparison [s]; `InvalidInput` if out of reach."""
    solve = group_seconds(problem)
    others = COMPARISON_SECONDS + COMPARISON_SOLVES * solve if solve <= MAX_COMPARED_SECONDS else 0.0
    return others + (0.0 if stored else solve)


def table_to_dict(solution: TableSolution) -> dict[str, Any]:
    """Return a table as all interfaces show it; for groups with the probability of each output by counts."""
    problem, certificate, kind = solution.problem, solution.certificate, kind_of(solution.table.cells)
    objective, asked = objective_record(kind, solution.objective), problem_record(problem, kind)
    asked |= {"target_epsilon": problem.target.epsilon, "delta": problem.target.delta}  # the first of several
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
        # One count of each orbit: a table treats the classes alike, so renaming gives the others.
        for place in cells.first.tolist()
    ]


def utilities_to_dict(spec: TableSpec, baselines: Sequence[Baseline]) -> dict[str, Any]:
    """Return the utility of each mechanism by name, and its rate if voters are not private."""
    utilities = {"utilities": {one.name: one.utility for one in baselines}}
    rates = {"rates": {one.name: one.rate for one in baselines}}
    return utilities | rates if spec.kind == KIND else utilities


def table_record(solution: TableSolution, id: str, *, cached: bool) -> dict[str, Any]:
    """Return a table as plain data, as the answer to its id."""
    return {"id": id, "cached": cached, **table_to_dict(solution), "record": table_solution_record(solution)}


def stored_table(id: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return a stored table from its proved record, as the answer to its id, without other mechanisms."""
    beside: dict[str, Any] = {"utilities": {}} if record["kind"] == GROUP_KIND else {}
    return table_record(read_table(record), id, cached=True) | beside


@dataclass(frozen=True)
class VerifiedTable(TableSolution):
    """A table from elsewhere that was proved by this process, with its origin."""

    id: str  # content key of the question
    cached: bool  # whether it was stored already
    utilities: dict[str, float]  # of every mechanism at the same privacy, by name; claims of the other side
    rates: dict[str, float] = field(default_factory=dict)  # likewise, if voters are not private


def verified_table(answer: Any, spec: TableSpec) -> VerifiedTable:
    """Return the table of an answer with a certificate proved by this process and its utility recomputed.

    Guarantees: The table is private for ``spec.problem``, exactly as stored.
    """
    verify_table_answer(answer, spec.problem)
    try:
        solution = verify_table_solution(read_table(answer["record"]), spec)
    except InvalidSolution as err:
        raise VerificationFailed(f"The answer is invalid: {err}.") from err
    utilities = answer.get("utilities", {})
    members(utilities, dict)
    return VerifiedTable(**solution.__dict__, id=spec.key, cached=answer.get("cached") is True, utilities=utilities)


def verify_table_answer(answer: Any, problem: Problem) -> dict[str, Any]:
    """Return an answer after proving that its table is private for ``problem`` and is the one shown."""
    try:
        its_problem, table, _ = table_from_record(member(answer, "record"))
    except InvalidInput as err:
        raise VerificationFailed(f"The answer's table is invalid: {err}") from err
    if its_problem != problem:
        raise VerificationFailed("The answer has a table for another problem than requested.")
    if isinstance(table.cells, Histograms):
        member(answer, "utilities")
    elif answer.get("table") != _shown_chances(table):
        raise VerificationFailed("The answer shows another table than its record.")
    return dict(answer)


SHOWN = (
    *("problem", "classes", "groups", "target_epsilon", "delta", "affected", "abstention", "objective", "prior"),
    *("ties", "price", "weights", "utility", "upper_bound", "table"),
)


def record_in_answer(answer: Any) -> Any:
    """Return the unproved record of the table or mechanism in a service's answer; anything else unchanged.

    A stored design contains its answer. The mechanism of a plan gets the plan's queries and total.
    """
    if isinstance(answer, dict) and "tags" in answer and isinstance(answer.get("design"), dict):
        answer = answer["design"]
    if not isinstance(answer, dict) or "kind" in answer:
        return answer
    record, mechanism = answer.get("record"), answer.get("mechanism")
    try:
        if isinstance(record, dict):
            shown = table_to_dict(read_table(record))
            # Readers trust what is shown, but only the record is proved: both must be the same table.
            other = [name for name in SHOWN if name in shown and answer.get(name, shown[name]) != shown[name]]
            if other:
                raise VerificationFailed(f"The answer shows another {other[0]} than its record.")
            return record
        if isinstance(mechanism, dict) and isinstance(answer.get("options"), list):
            # The proof of a mechanism depends on how records are sampled.
            if answer.get("sampling") != mechanism.get("sampling"):
                raise VerificationFailed("The answer shows another sampling than its mechanism's.")
            total = Privacy(answer["total"]["epsilon"], answer["total"]["delta"])
            return mechanism | planned_fields(answer["queries"], total)
    except (LookupError, TypeError, InvalidSolution) as err:
        raise VerificationFailed("The answer's table or mechanism is invalid.") from err
    return answer
