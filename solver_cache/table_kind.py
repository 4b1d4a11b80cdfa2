"""Tables as a kind of stored answer."""

from __future__ import annotations

import math
from typing import Any

from darrm_opt.record import canonical_json, digest
from darrm_opt.tables import record as tables
from darrm_opt.tables.record import TableSpec, read_table, table_solution_record, verify_table_solution
from darrm_opt.tables.solver import TableSolution
from solver_cache.kind import Kind

MAX_OBJECTIVE = 500  # longest objective in lists and indices; a longer one is replaced by its hash


def _table_record(solution: TableSolution, *, timed: bool = True) -> dict[str, Any]:  # noqa: ARG001 - it has none
    return table_solution_record(solution)


def _table_asked(record: dict[str, Any]) -> dict[str, Any]:
    problem = tables.problem_from_record(record["problem"])
    goal = tables.objective_record(record["kind"], tables.objective_from_record(record["kind"], record))
    if record["kind"] == tables.GROUP_KIND:
        objective = f"{canonical_json(goal)} groups {' '.join(map(str, problem.groups))}"
        # an upper bound of every group, coordinate by coordinate
        voter = max(g.voter.epsilon for g in problem.groups), max(g.voter.delta for g in problem.groups)
    else:
        objective, voter = f"{goal['prior']} {goal['ties']} price={goal['price']!r}", (math.inf, 0.0)
    return {
        "voters": problem.K,
        "voter_epsilon": voter[0],
        "voter_delta": voter[1],
        "affected": int(problem.affected),
        "target_epsilon": problem.target.epsilon,
        "target_delta": problem.target.delta,
        "objective": objective if len(objective) <= MAX_OBJECTIVE else f"sha256:{digest(objective)}",
        "shape": f"{problem.classes} classes" + (" or none" if problem.abstention else ""),
        "utility": record["utility"],
    }


def _table_columns(record: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a table's record, named as for γ."""
    asked, proof = _table_asked(record), record["certificate"]
    limit, margin = asked["target_delta"], proof["margin"]
    # Edges are proved in integers, without a rounding error.
    error = proof.get("error", 0.0)
    return {
        "K": asked["voters"],
        "m": None,
        "epsilon": asked["voter_epsilon"],
        "Delta": asked["voter_delta"],
        "affected": asked["affected"],
        "target_epsilon": asked["target_epsilon"],
        "delta": limit,
        **{name: asked[name] for name in ("objective", "shape", "utility")},
        "upper_bound": record["upper_bound"],
        "gap": max(0.0, record["upper_bound"] - record["utility"]),
        "gamma": record["values"],
        "certificate": "corners" if "corners" in proof else "edges",
        # As for γ: bound = worst value + rounding error, and margin = limit − bound.
        "bound": limit - margin,
        "limit": limit,
        "margin": margin,
        "error_bound": error,
        "worst_value": limit - margin - error,
        "version": record["version"],
    }


TABLE = Kind(
    tables.FORMAT, TableSpec.of, _table_record, read_table, verify_table_solution, _table_asked, _table_columns
)
