"""Records of tables for groups of voters, and what such a table depends on: specification, content key, re-proof.

As for γ and for the tables of `darrm_opt.tables.record`: nothing that stands in a record is believed but that no
private table is better than its ``upper_bound``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from darrm_opt.design.solution import Status
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.problem import real_number, whole_number
from darrm_opt.record import content_key
from darrm_opt.reprove import ReproofFailed
from darrm_opt.tables.group_solver import (
    AnyGroupObjective,
    GroupObjective,
    GroupSolution,
    GroupStatistics,
    as_group_objective,
)
from darrm_opt.tables.group_table import (
    FORMAT,
    KIND,
    GroupCertificate,
    GroupCorner,
    GroupTable,
    problem_from_record,
    problem_record,
    table_record,
    verify_groups,
)
from darrm_opt.tables.groups import GroupProblem
from darrm_opt.tables.priors import PluralityPrior
from darrm_opt.tables.record import check_claims, values_of


def objective_record(objective: AnyGroupObjective) -> dict[str, Any]:
    """Return an objective as plain data; ties and weights are there where they are not the usual ones."""
    record: dict[str, Any] = {"objective": str(objective), "price": objective.price}
    if isinstance(objective, GroupObjective):
        if objective.ties != "excluded":
            record["ties"] = objective.ties
        if objective.weights is not None:
            record["weights"] = list(objective.weights)
    return record


def objective_from_record(record: Any) -> AnyGroupObjective:
    """Return the objective of a record."""
    return as_group_objective(
        record["objective"], record.get("price", 0.0), record.get("ties", "excluded"), record.get("weights")
    )


def solution_record(solution: GroupSolution) -> dict[str, Any]:
    """Return a solution as plain data that `table_from_record` reads and proves again."""
    certificate = solution.certificate
    return {
        **table_record(solution.problem, solution.table),
        **objective_record(solution.objective),
        "utility": solution.utility,
        "upper_bound": solution.upper_bound,
        "gap": solution.gap,
        "status": solution.status.value,
        "certificate": {
            "margin": certificate.margin,
            "error": certificate.error,
            "worst": _corner_record(certificate.worst),
            "corners": certificate.corners,
        },
    }


def shown_table(table: GroupTable) -> list[dict[str, Any]]:
    """Return a table as counts with the chance of each output."""
    chances, cells = table.chances, table.cells
    return [
        {"counts": cells.counts[place].tolist(), "probabilities": chances[place].tolist()}
        # One count of each orbit: a table treats the classes alike, so the others follow by renaming.
        for place in cells.first.tolist()
    ]


def solution_json(solution: GroupSolution) -> dict[str, Any]:
    """Return what the doors show: the answer, and the table as counts with the chance of each output."""
    asked = problem_record(solution.problem)
    return {
        "classes": asked["classes"],
        "groups": asked["groups"],
        "target_epsilon": asked["target_epsilon"],
        "delta": asked["delta"],
        "affected": asked["affected"],
        "abstention": asked["abstention"],
        **objective_record(solution.objective),
        "utility": solution.utility,
        "upper_bound": solution.upper_bound,
        "gap": solution.gap,
        "status": solution.status.value,
        "table": shown_table(solution.table),
        "certificate": solution_record(solution)["certificate"],
        "corners": solution.certificate.corners,
        "seconds": solution.statistics.seconds,
    }


@dataclass(frozen=True)
class GroupSpec:
    """Everything an optimal table for groups depends on, and nothing else; the order of the groups included.

    Guarantees: Equal specifications have equal keys.
    """

    problem: GroupProblem
    objective: AnyGroupObjective

    def __init__(
        self, problem: GroupProblem, objective: AnyGroupObjective | PluralityPrior | str = "dirichlet(1)"
    ) -> None:
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "objective", as_group_objective(objective))

    @classmethod
    def of(cls, solution: GroupSolution) -> GroupSpec:
        """Return the specification that ``solution`` says it answers."""
        return cls(solution.problem, solution.objective)

    @cached_property
    def key(self) -> str:
        """The content key: 64 hexadecimal digits."""
        asked = {"problem": problem_record(self.problem), **objective_record(self.objective)}
        return content_key(kind=KIND, format=FORMAT, **asked)


def _corner_record(corner: GroupCorner) -> dict[str, Any]:
    maps = [["".join(map(str, chosen)) for chosen in group] for group in corner.maps]
    return {"maps": maps, "released": list(corner.released), "before": corner.before, "after": corner.after}


def _corner_of(record: Any) -> GroupCorner:
    """Return the corner of a record; none where it is a text, as in files of an earlier version: it is found again."""
    if isinstance(record, str):
        return GroupCorner((), (), 0.0, 0.0)
    maps = tuple(tuple(tuple(map(int, chosen)) for chosen in group) for group in record["maps"])
    before, after = (real_number(record[side], side, "a finite number") for side in ("before", "after"))
    return GroupCorner(maps, tuple(map(int, record["released"])), before, after)


def read_groups(record: Any) -> GroupSolution:
    """Return the solution that plain data states, unproved; anything may be in ``record``."""
    try:
        if record.get("kind") != KIND or record.get("format") != FORMAT:
            raise InvalidInput("record", record.get("kind"), f"a record of kind {KIND!r} and format {FORMAT}")
        problem, claim = problem_from_record(record["problem"]), record["certificate"]
        certificate = GroupCertificate(
            real_number(claim["margin"], "margin", "a finite number"),
            real_number(claim["error"], "error", "a finite number"),
            _corner_of(claim["worst"]),
            whole_number(claim["corners"], "corners", "a whole number", least=0),
            str(record["version"]),
        )
        return GroupSolution(
            problem,
            objective_from_record(record),
            GroupTable(problem, values_of(record)),
            real_number(record["utility"], "utility", "a finite number"),
            real_number(record["upper_bound"], "upper_bound", "a finite number"),
            Status(record["status"]),
            certificate,
            # A record does not keep the effort of its solve.
            GroupStatistics(certificate.corners, 0, 0, 0, 0.0),
        )
    # Whatever is wrong with data from elsewhere is one error, which a store takes for a miss.
    except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        raise ReproofFailed("record", f"its record cannot be read: {err}") from err


def reprove_groups(solution: GroupSolution, spec: GroupSpec) -> GroupSolution:
    """Return ``solution`` under a certificate that this process proved, with its utility recomputed.

    Guarantees: The table returned is that of ``solution``, bit for bit, and private for ``spec.problem``.
    """
    if (solution.problem, solution.objective) != (spec.problem, spec.objective):
        raise ReproofFailed("question", "it answers another question")
    try:
        worth = spec.objective.worth(spec.problem.cells)
    except InvalidInput as err:  # a prior of other voters or classes
        raise ReproofFailed("question", str(err)) from err
    proof = verify_groups(spec.problem, solution.table)
    check_claims(solution, proof.margin, math.fsum((worth * solution.table.chances).ravel().tolist()))
    return replace(solution, certificate=replace(proof, version=solution.certificate.version))
