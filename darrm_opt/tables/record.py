"""Records of plurality rules: plain data that `darrm solve --classes` writes and every reader proves again."""

from __future__ import annotations

from typing import Any

from darrm_opt._version import __version__
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.tables.certificate import PluralityCertificate, verify_rule
from darrm_opt.tables.problem import PluralityProblem
from darrm_opt.tables.rule import PluralityRule
from darrm_opt.tables.solver import PluralitySolution

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
