"""Records of plurality rules, and what a table depends on: its specification, content key and re-proof.

Records are plain data that `darrm solve --classes` writes and every reader proves again. As for γ
(`darrm_opt.record`, `darrm_opt.reprove`): nothing that stands in a record is believed. The rule is proved private
again, exactly as its bits are, and what the record claims beside it is held against the rule. One claim rests on
whoever solved it: that no private rule is better than `PluralitySolution.upper_bound`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from darrm_opt._version import __version__
from darrm_opt.design.solution import Status
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.record import content_key
from darrm_opt.reprove import TOLERANCE, ReproofFailed
from darrm_opt.tables.certificate import PluralityCertificate, verify_rule
from darrm_opt.tables.priors import PluralityObjective, PluralityPrior, parse_prior
from darrm_opt.tables.problem import PluralityProblem
from darrm_opt.tables.rule import PluralityRule
from darrm_opt.tables.solver import PluralitySolution, PluralityStatistics, as_objective, weighted_sum

if TYPE_CHECKING:
    from darrm_opt.tables.group_solver import GroupSolution

KIND = "darrm plurality rule"
"""What a record says it is."""

FORMAT = 1
"""Version of the record."""


def problem_record(problem: PluralityProblem) -> dict[str, Any]:
    """Return a problem as plain data."""
    return {
        "K": problem.K,
        "classes": problem.classes,
        "target_epsilon": problem.target.epsilon,
        "delta": problem.target.delta,
        "affected": problem.affected,
        "abstention": problem.abstention,
    }


def problem_from_record(record: Any) -> PluralityProblem:
    """Return the problem of a record."""
    try:
        return PluralityProblem(
            record["K"],
            record["classes"],
            Privacy(record["target_epsilon"], record["delta"]),
            record["affected"],
            abstention=record["abstention"],
        )
    except (KeyError, TypeError) as err:
        raise InvalidInput("problem", type(record).__name__, "a plurality problem as plain data") from err


def rule_record(problem: PluralityProblem, rule: PluralityRule) -> dict[str, Any]:
    """Return a problem and a rule as plain data; the doubles read back as they are."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "version": __version__,
        "problem": problem_record(problem),
        "values": rule.values.tolist(),
    }


def plurality_record(solution: PluralitySolution) -> dict[str, Any]:
    """Return a solution as plain data."""
    certificate = solution.certificate
    return {
        **rule_record(solution.problem, solution.rule),
        "prior": str(solution.objective.prior),
        "ties": solution.objective.ties,
        "price": solution.objective.price,
        "utility": solution.utility,
        "upper_bound": solution.upper_bound,
        "status": solution.status.value,
        "certificate": {
            "margin": certificate.margin,
            "before": list(certificate.before),
            "after": list(certificate.after),
            "released": list(certificate.released),
            "edges": certificate.edges,
        },
    }


def rule_from_record(record: Any) -> tuple[PluralityProblem, PluralityRule, PluralityCertificate]:
    """Return the problem and rule of a record, proved here; what the record claims of them is not believed."""
    accepted = f"a record of kind {KIND!r} and format {FORMAT}"
    if not isinstance(record, dict) or record.get("kind") != KIND or record.get("format") != FORMAT:
        raise InvalidInput("rule", type(record).__name__, accepted)
    problem = problem_from_record(record.get("problem"))
    rule = PluralityRule.of(problem, record.get("values"))
    return problem, rule, verify_rule(problem, rule)


@dataclass(frozen=True)
class TableSpec:
    """Everything an optimal table depends on, and nothing else.

    Guarantees: Equal specifications have equal keys.
    """

    problem: PluralityProblem
    objective: PluralityObjective

    def __init__(
        self, problem: PluralityProblem, objective: PluralityObjective | PluralityPrior | str = "dirichlet(1)"
    ) -> None:
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "objective", as_objective(objective))

    @classmethod
    def of(cls, solution: PluralitySolution) -> TableSpec:
        """Return the specification that ``solution`` says it answers."""
        return cls(solution.problem, solution.objective)

    @cached_property
    def key(self) -> str:
        """The content key: 64 hexadecimal digits.

        >>> from darrm_opt import Privacy
        >>> keys = {TableSpec(PluralityProblem(5, 3, Privacy(target))).key for target in (3 * 0.1, 0.3)}
        >>> len(keys)
        1
        """
        asked = {"problem": problem_record(self.problem), **objective_record(self.objective)}
        return content_key(kind=KIND, format=FORMAT, **asked)


def objective_record(objective: PluralityObjective) -> dict[str, Any]:
    """Return an objective as plain data."""
    return {"prior": str(objective.prior), "ties": objective.ties, "price": float(objective.price)}


def read_table(record: Any) -> PluralitySolution:
    """Return the solution that plain data states, unproved; anything may be in ``record``.

    It says nothing of the effort: of the statistics only the number of partitions is known.
    """
    try:
        if record.get("kind") != KIND or record.get("format") != FORMAT:
            raise InvalidInput("record", record.get("kind"), f"a record of kind {KIND!r} and format {FORMAT}")
        problem = problem_from_record(record["problem"])
        price = real_number(record["price"], "price", "a finite number")
        objective = PluralityObjective(parse_prior(record["prior"]), record["ties"], price)
        claim = record["certificate"]
        certificate = PluralityCertificate(
            real_number(claim["margin"], "margin", "a finite number"),
            tuple(map(int, claim["before"])),
            tuple(map(int, claim["after"])),
            tuple(map(int, claim["released"])),
            whole_number(claim["edges"], "edges", "a whole number", least=0),
            str(record["version"]),
        )
        return PluralitySolution(
            problem,
            objective,
            PluralityRule.of(problem, values_of(record)),
            real_number(record["utility"], "utility", "a finite number"),
            real_number(record["upper_bound"], "upper_bound", "a finite number"),
            Status(record["status"]),
            certificate,
            # A record does not keep the effort of its solve.
            PluralityStatistics(len(problem.histograms.partitions), 0, 0, 0, 0.0),
        )
    # Whatever is wrong with data from elsewhere is one error, which a store takes for a miss.
    except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        raise ReproofFailed("record", f"its record cannot be read: {err}") from err


def reprove_table(solution: PluralitySolution, spec: TableSpec) -> PluralitySolution:
    """Return ``solution`` under a certificate that this process proved, with its utility recomputed.

    Guarantees: The rule returned is that of ``solution``, bit for bit, and private for ``spec.problem``.
    """
    if (solution.problem, solution.objective) != (spec.problem, spec.objective):
        raise ReproofFailed("question", "it answers another question")
    proof = verify_rule(spec.problem, solution.rule)
    try:
        weights, constant = spec.objective.weights(spec.problem.histograms)
    except InvalidInput as err:  # a prior of other voters or classes
        raise ReproofFailed("question", str(err)) from err
    check_claims(solution, proof.margin, weighted_sum(solution.rule, weights) + constant)
    return replace(solution, certificate=replace(proof, version=solution.certificate.version))


def values_of(record: Any) -> list[float]:
    """Return the values of a table's record, all of them numbers."""
    values = record["values"]
    if type(values) is not list or not all(type(value) in {int, float} for value in values):
        raise InvalidInput("values", "values of another type", "a list of numbers")
    return values


def check_claims(solution: PluralitySolution | GroupSolution, margin: float, utility: float) -> None:
    """Hold what the solution of a record claims against the margin that was proved and the utility as recomputed."""
    _check("certificate", "its margin", solution.certificate.margin, margin)
    _check("utility", "its utility", solution.utility, utility)
    if not utility - TOLERANCE <= solution.upper_bound <= 1 + TOLERANCE:
        bound = f"its upper bound {solution.upper_bound!r} is not between its utility {utility!r} and 1"
        raise ReproofFailed("bound", bound)


def _check(reason: Any, name: str, claim: float, value: float) -> None:
    if not math.isclose(claim, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise ReproofFailed(reason, f"{name} is {value!r}, not {claim!r}")
