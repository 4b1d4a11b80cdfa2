"""Records of tables, and the specification of a table: its content key and verification.

Records are plain data that `darrm solve` writes and every reader proves again. As for γ (`darrm_opt.record`,
`darrm_opt.verification`), nothing in a record is trusted: the table is proved private again, exactly as stored, and all
other claims are compared with the table. One claim cannot be checked: that no private table is better than
`TableSolution.upper_bound`.

There are two kinds, for voters that are not private and for groups. They differ only in the form of the problem, the
objective and the worst place of the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from darrm_opt._version import __version__
from darrm_opt.design.solution import Status
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import NOT_PRIVATE, Privacy, Problem, TargetProfile, VoterGroup
from darrm_opt.record import PLANNED_FIELDS, content_key
from darrm_opt.tables.certificate import Corner, Edge, TableCertificate, place_chances, verify_table
from darrm_opt.tables.groups import AnyCells, cells_of, group_cells
from darrm_opt.tables.objective import (
    PluralityObjective,
    TableObjective,
    Worth,
    as_table_objective,
    is_plurality,
    objective_for,
    plurality_of,
    utility,
)
from darrm_opt.tables.priors import PluralityPrior, parse_prior
from darrm_opt.tables.problem import Histograms
from darrm_opt.tables.solver import TableSolution, TableStatistics
from darrm_opt.tables.table import Table
from darrm_opt.untrusted import TOLERANCE, UNREADABLE, check_written, field, typed
from darrm_opt.verification import InvalidSolution, check_claim, check_upper_bound
from darrm_opt.voters import PrivacyProfile

KIND, GROUP_KIND = "darrm table", "darrm group table"

KINDS = (KIND, GROUP_KIND)

FORMAT = 1


def kind_of(cells: AnyCells) -> str:
    """Return the kind of records of tables over these cells."""
    return KIND if isinstance(cells, Histograms) else GROUP_KIND


def problem_record(problem: Problem, kind: str | None = None) -> dict[str, Any]:
    """Return a problem as plain data, in the form of a kind; by default of groups unless voters are not private."""
    if kind is None:
        kind = KIND if problem.is_public else GROUP_KIND
    voters: dict[str, Any] = {"K": problem.K, "classes": problem.classes}
    if kind == GROUP_KIND:
        voters = {"classes": problem.classes, "groups": group_records(problem.groups)}
    return {
        **voters,
        **target_record(problem.target),
        "affected": int(problem.affected),
        "abstention": problem.abstention,
    }


def target_record(target: Privacy) -> dict[str, Any]:
    """Return a target as plain data."""
    if len(target.points) > 1:
        return {"targets": [list(point) for point in target.points]}
    return {"target_epsilon": target.epsilon, "delta": target.delta}


def _target_of(record: Any) -> Privacy:
    if "targets" not in record:
        return Privacy(record["target_epsilon"], record["delta"])
    if {"target_epsilon", "delta"} & record.keys():
        raise InvalidInput("targets", sorted(record), "targets, or target_epsilon and delta, of a problem")
    return TargetProfile(record["targets"])


def group_records(groups: Sequence[VoterGroup]) -> list[dict[str, Any]]:
    """Return groups as plain data: the points of a privacy profile, or one (ε, Δ)."""
    return [{"K": group.K, **_voter_record(group.voter)} for group in groups]


def _voter_record(voter: Privacy) -> dict[str, Any]:
    if len(voter.points) > 1:
        return {"profile": [list(point) for point in voter.points]}
    return {"epsilon": "inf" if voter.epsilon == math.inf else voter.epsilon, "Delta": voter.delta}


def group_of_record(record: Any) -> VoterGroup:
    """Return the group of a record."""
    if "profile" in record:
        if {"epsilon", "Delta"} & record.keys():
            raise InvalidInput("profile", sorted(record), "a profile, or epsilon and Delta, of a group")
        return VoterGroup(record["K"], PrivacyProfile(record["profile"]))
    epsilon = math.inf if record["epsilon"] == "inf" else record["epsilon"]
    return VoterGroup(record["K"], Privacy(epsilon, record.get("Delta", 0.0)))


def problem_from_record(record: Any) -> Problem:
    """Return the problem of a record; of groups if it names them."""
    try:
        target = _target_of(record)
        classes, affected, abstention = record["classes"], record["affected"], record["abstention"]
        if "groups" in record:
            groups = [group_of_record(group) for group in record["groups"]]
            return Problem(groups=groups, target=target, affected=affected, classes=classes, abstention=abstention)
        return Problem(record["K"], NOT_PRIVATE, target, affected, classes=classes, abstention=abstention)
    except (AttributeError, KeyError, TypeError) as err:
        raise InvalidInput("problem", type(record).__name__, "the problem of a table as plain data") from err


def objective_record(kind: str, objective: TableObjective) -> dict[str, Any]:
    """Return an objective as plain data; for groups, ties and weights only if they are not the defaults."""
    if kind == KIND:
        goal = plurality_of(objective)
        return {"prior": str(goal.prior), "ties": goal.ties, "price": float(goal.price)}
    if isinstance(objective, Worth):  # it has no key either: all of them have one text
        raise InvalidInput("objective", str(objective), "an objective that a text names, for a record")
    record: dict[str, Any] = {"objective": str(objective), "price": objective.price}
    if isinstance(objective, PluralityObjective):
        if objective.ties != "excluded":
            record["ties"] = objective.ties
        if objective.weights is not None:
            record["weights"] = list(objective.weights)
    return record


def objective_from_record(kind: str, record: Any) -> TableObjective:
    """Return the objective of a record of a kind."""
    if kind == KIND:
        return PluralityObjective(parse_prior(record["prior"]), record["ties"], record["price"])
    ties, weights = record.get("ties", "excluded"), record.get("weights")
    return as_table_objective(record["objective"], record.get("price", 0.0), ties, weights)


def table_record(problem: Problem, table: Table) -> dict[str, Any]:
    """Return a problem and a table as plain data; doubles survive exactly."""
    return {
        "kind": kind_of(table.cells),
        "format": FORMAT,
        "version": __version__,
        "problem": problem_record(problem, kind_of(table.cells)),
        "values": table.values.tolist(),
    }


def table_solution_record(solution: TableSolution) -> dict[str, Any]:
    """Return a solution as plain data that `table_from_record` reads and proves again."""
    gap = {"gap": solution.gap} if kind_of(solution.table.cells) == GROUP_KIND else {}
    return {
        **table_record(solution.problem, solution.table),
        "version": solution.certificate.version,
        **objective_record(kind_of(solution.table.cells), solution.objective),
        "utility": solution.utility,
        "upper_bound": solution.upper_bound,
        **gap,
        "status": solution.status.value,
        "certificate": _certificate_record(solution.certificate),
    }


CLAIMS = (
    *("objective", "prior", "ties", "price", "weights"),
    *("utility", "upper_bound", "gap", "status", "certificate"),
)
"""Fields of a solution that a mechanism's record, a table alone, lacks: all or none of them are present."""

USE_FIELDS = (*PLANNED_FIELDS, "sampling")
"""Fields of a table's file about its releases, and the sampling of records. Readers prove the total."""


def table_from_record(record: Any) -> tuple[Problem, Table, TableCertificate]:
    """Return the problem and table of a record after proving the table and checking all claims.

    Raises:
        InvalidInput: not such a record, or one whose claims do not fit its table.
        NotPrivate: its table is not private for its problem.
    """
    problem = _checked_problem(record)
    if record.keys().isdisjoint(CLAIMS):
        table = Table(_cells(problem, record["kind"]), typed(list[float], field(record, "values"), "values"))
        version = typed(str, field(record, "version"), "version")
        check_written(record, table_record(problem, table) | {"version": version}, USE_FIELDS)
        return problem, table, verify_table(problem, table)
    try:
        claim = read_table(record)
        solution = verify_table_solution(claim, TableSpec.of(claim))
    except InvalidSolution as err:
        raise InvalidInput("table", record["kind"], "a record whose claims fit its table", f"{err}.") from err
    return problem, solution.table, solution.certificate


@dataclass(frozen=True)
class TableSpec:
    """Everything that an optimal table depends on, including the order of groups.

    Guarantees: Equal specifications have equal keys.
    """

    problem: Problem
    objective: TableObjective

    def __init__(self, problem: Problem, objective: TableObjective | PluralityPrior | str = "dirichlet(1)") -> None:
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "objective", objective_for(problem, objective))

    @classmethod
    def of(cls, solution: TableSolution) -> TableSpec:
        """Return the specification of a solution."""
        return cls(solution.problem, solution.objective)

    @property
    def record(self) -> dict[str, Any]:
        """The question as plain data."""
        return {
            "problem": problem_record(self.problem, self.kind),
            **objective_record(self.kind, self.objective),
        }

    @property
    def kind(self) -> str:
        """Kind of the records of its answer."""
        return KIND if is_plurality(self.problem, self.objective) else GROUP_KIND

    @cached_property
    def key(self) -> str:
        """The content key: 64 hexadecimal digits."""
        return content_key(kind=self.kind, format=FORMAT, **self.record)


def read_table(record: Any) -> TableSolution:
    """Return the solution in a record of arbitrary data, without a proof and without its effort."""
    try:
        problem = _checked_problem(record)
        solution = TableSolution(
            problem,
            objective_from_record(record["kind"], record),
            Table(_cells(problem, record["kind"]), typed(list[float], field(record, "values"), "values")),
            typed(float, field(record, "utility"), "utility"),
            typed(float, field(record, "upper_bound"), "upper_bound"),
            typed(Status, field(record, "status"), "status"),
            _certificate_of(
                record["kind"], field(record, "certificate"), typed(str, field(record, "version"), "version")
            ),
            TableStatistics(),
        )
        check_written(record, table_solution_record(solution), USE_FIELDS)
    # Any fault of untrusted data is one error, which a store counts as a miss.
    except UNREADABLE as err:
        raise InvalidSolution("record", f"its record cannot be read: {err}") from err
    return solution


def verify_table_solution(solution: TableSolution, spec: TableSpec) -> TableSolution:
    """Return ``solution`` with a certificate proved by this process and its utility recomputed.

    Guarantees: The table returned is that of ``solution``, bit for bit, and private for ``spec.problem``.
    """
    if (solution.problem, solution.objective) != (spec.problem, spec.objective):
        raise InvalidSolution("question", "it answers another question")
    proof, claim = verify_table(spec.problem, solution.table), solution.certificate
    try:
        worth = utility(solution.table, spec.objective)
    except InvalidInput as err:  # a prior of other voters or classes
        raise InvalidSolution("question", str(err)) from err
    check_claim("certificate", "its margin", claim.margin, proof.margin)
    if claim.version == __version__:  # another version may examine other places
        check_claim("certificate", "its number of places", claim.checked, proof.checked)
        check_claim("certificate", "its error", claim.error, proof.error)
        # Of two equally bad places another processor may find the other: compare their values.
        check_claim(
            "certificate", "its worst place", _value_at(claim.worst, solution), _value_at(proof.worst, solution)
        )
    check_claim("utility", "its utility", solution.utility, worth)
    check_upper_bound(solution.upper_bound, worth)
    return replace(solution, certificate=replace(proof, version=claim.version))


def _value_at(worst: Edge | Corner, solution: TableSolution) -> float:
    """Return Pr[S | before] − e^ε·Pr[S | after] at a certificate's place; NaN if it is invalid."""
    try:
        before, after = place_chances(solution.problem, solution.table, worst)
    except UNREADABLE:
        return math.nan
    if isinstance(worst, Corner) and not (
        math.isclose(worst.before, before, rel_tol=TOLERANCE) and math.isclose(worst.after, after, rel_tol=TOLERANCE)
    ):
        return math.nan
    points = solution.problem.target.points
    if len(points) == 1:
        return float(before) - math.exp(points[0][0]) * float(after)
    return max(math.exp(-epsilon) * (float(before) - delta) - float(after) for epsilon, delta in points)


_ACCEPTED = f"a record of kind {KIND!r} or {GROUP_KIND!r} and format {FORMAT}"


def _checked_problem(record: Any) -> Problem:
    """Return the problem of a record, checked against its kind."""
    if not isinstance(record, dict):
        raise InvalidInput("table", type(record).__name__, _ACCEPTED)
    if record.get("kind") not in KINDS or record.get("format") != FORMAT:
        raise InvalidInput("table", record.get("kind"), _ACCEPTED)
    problem = problem_from_record(record.get("problem"))
    if (record["kind"] == GROUP_KIND) != ("groups" in record["problem"]):
        raise InvalidInput("problem", record["kind"], f"the problem of a {record['kind']}")
    return problem


def _cells(problem: Problem, kind: str) -> AnyCells:
    return group_cells(problem) if kind == GROUP_KIND else cells_of(problem)


def _certificate_record(certificate: TableCertificate) -> dict[str, Any]:
    fields = certificate.as_dict()
    del fields["version"]  # the record's own
    worst = certificate.worst
    if isinstance(worst, Edge):
        return fields | {name: list(fields[name]) for name in ("before", "after", "released")}
    maps = [["".join(map(str, chosen)) for chosen in group] for group in worst.maps]
    fields["worst"] |= {"maps": maps, "released": list(worst.released)}
    return fields


def _certificate_of(kind: str, claim: Any, version: str) -> TableCertificate:
    """Return the certificate claimed by a record."""
    margin = typed(float, field(claim, "margin"), "margin")
    if kind == KIND:
        worst: Edge | Corner = Edge(*(_whole_numbers(claim, name) for name in ("before", "after", "released")))
        return TableCertificate(margin, worst, typed(int, field(claim, "edges"), "edges"), version=version)
    place = field(claim, "worst")
    groups = typed(list[list[str]], field(place, "maps"), "maps")
    maps = tuple(tuple(tuple(map(int, chosen)) for chosen in group) for group in groups)
    before, after = (typed(float, field(place, side), side) for side in ("before", "after"))
    worst = Corner(maps, _whole_numbers(place, "released"), before, after)
    corners, error = typed(int, field(claim, "corners"), "corners"), typed(float, field(claim, "error"), "error")
    return TableCertificate(margin, worst, corners, error, version)


def _whole_numbers(record: Any, name: str) -> tuple[int, ...]:
    """Return a record's list of integers, which may contain `ABSTENTION` (negative)."""
    items = typed(list[float], field(record, name), name)
    if any(item != int(item) for item in items):
        raise InvalidInput(name, record[name], "a list of integers")
    return tuple(map(int, items))
