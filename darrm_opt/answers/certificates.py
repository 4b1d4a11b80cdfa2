"""Certificates of a γ that anyone supplies: the task, its re-check, and the answer as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from darrm_opt.answers import Report
from darrm_opt.design.certificate import verify
from darrm_opt.record import problem_from_record


def certify(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the certificate of ``gamma`` for ``problem``, by ``arithmetic``; raises if it is not private."""
    report(None)
    problem = problem_from_record(argument["problem"])
    return asdict(verify(problem, argument["gamma"], arithmetic=argument["arithmetic"]))


def recheck_certificate(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove a stored certificate again.

    Raises:
        ValueError: it is no proof.
        NotPrivate: the γ is not private.
    """
    if result["bound"] > result["limit"]:
        raise ValueError("it is no proof")
    verify(problem_from_record(argument["problem"]), argument["gamma"])


def certificate_to_dict(argument: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return the certificate with its problem, and what the person who asked should reconsider."""
    record = argument["problem"]
    warnings = list(problem_from_record(record).warnings(argument["gamma"]))
    return {"private": True, "problem": record, "certificate": result, "warnings": warnings}
