"""Kinds of stored answers: γ of a problem, and tables for votes among any number of classes.

A store keeps text. What the text is of, how it is read and proved again, and what is said of it in lists and table
files, is one `Kind` for each sort of answer; everything else in this package is the same for all. The record says
which kind it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from darrm_opt.design.solution import Solution
from darrm_opt.design_spec import DesignSpec, digest
from darrm_opt.record import FORMAT, problem_record, solution_record
from darrm_opt.reprove import read_solution, reprove
from darrm_opt.tables import record as tables
from darrm_opt.tables.record import TableSpec, objective_record, read_table, reprove_table
from darrm_opt.tables.solver import PluralitySolution

Answer = Solution | PluralitySolution
"""What a row holds."""

Spec = DesignSpec | TableSpec
"""What was asked; its key is that of the row."""

MAX_OBJECTIVE = 500
"""Longest text of a table's objective that lists show and indices hold; of a longer one they have the hash."""


@dataclass(frozen=True)
class Kind:
    """Kind of stored answer.

    Attributes:
        format: version of its records.
        spec_of: what an answer says that it answers; raises InvalidInput where that is nothing.
        record: an answer as plain data; ``timed=False``: without the time that it took.
        read: the answer that a record states, unproved; raises ReproofFailed.
        reprove: the answer under a proof of this process, for a question; raises ReproofFailed or NotPrivate.
        asked: the question and the utility of a record, as the columns of a row name them; anything may be in it.
        columns: the same, the answer and its certificate, as table files name them.
    """

    format: int
    spec_of: Callable[[Any], Any]
    record: Callable[..., dict[str, Any]]
    read: Callable[[Any], Any]
    reprove: Callable[[Any, Any], Any]
    asked: Callable[[dict[str, Any]], dict[str, Any]]
    columns: Callable[[dict[str, Any]], dict[str, Any]]


def kind_of_record(record: Any) -> Kind:
    """Return the kind that a record says it is; that of γ where it says none."""
    return TABLE if isinstance(record, dict) and record.get("kind") == tables.KIND else GAMMA


def kind_of(item: Answer | Spec) -> Kind:
    """Return the kind of an answer or of a question."""
    return TABLE if isinstance(item, PluralitySolution | TableSpec) else GAMMA


def is_shape(text: Any) -> bool:
    """Tell whether a text is the shape of some answer: of a γ, or the classes of a table."""
    return isinstance(text, str) and re.fullmatch(r"free|monotone|\d{1,4} classes( or none)?", text) is not None


def question_record(spec: Spec) -> dict[str, Any]:
    """Return a question as plain data: the problem, the objective, and the shape of a γ."""
    if isinstance(spec, TableSpec):
        return {"problem": tables.problem_record(spec.problem), **objective_record(spec.objective)}
    return {"problem": problem_record(spec.problem), "objective": str(spec.objective), "shape": spec.shape}


def _gamma_record(solution: Solution, *, timed: bool = True) -> dict[str, Any]:
    record = solution_record(solution)
    if not timed:
        record["statistics"]["seconds"] = {}
    return record


def _gamma_asked(record: dict[str, Any]) -> dict[str, Any]:
    problem, shape = record["problem"], record["shape"]
    if shape not in ("free", "monotone"):
        raise ValueError(shape)
    return {
        "voters": problem["K"],
        "voter_epsilon": math.inf if problem["epsilon"] == "inf" else problem["epsilon"],
        "voter_delta": problem["Delta"],
        "affected": problem["affected"],
        "target_epsilon": problem["target_epsilon"],
        "target_delta": problem["delta"],
        "objective": record["objective"],
        "shape": shape,
        "utility": record["utility"],
    }


def _gamma_columns(record: dict[str, Any]) -> dict[str, Any]:
    problem, proof = record["problem"], record["certificate"]
    return {
        **{name: problem[name] for name in ("K", "m", "Delta", "affected", "target_epsilon", "delta")},
        "epsilon": math.inf if problem["epsilon"] == "inf" else problem["epsilon"],
        **{name: record[name] for name in ("objective", "shape", "utility", "upper_bound", "gap", "gamma")},
        "certificate": proof["method"],
        **{name: proof[name] for name in ("bound", "limit", "margin", "error_bound", "worst_value", "version")},
    }


def _table_record(solution: PluralitySolution, *, timed: bool = True) -> dict[str, Any]:  # noqa: ARG001 - it has none
    return {**tables.plurality_record(solution), "version": solution.certificate.version}


def _table_asked(record: dict[str, Any]) -> dict[str, Any]:
    problem = record["problem"]
    objective = f"{record['prior']} {record['ties']} price={float(record['price'])!r}"
    classes, abstention = problem["classes"], problem["abstention"]
    if type(classes) is not int or type(abstention) is not bool:
        raise TypeError(classes)
    return {
        "voters": problem["K"],
        "voter_epsilon": math.inf,
        "voter_delta": 0.0,
        "affected": problem["affected"],
        "target_epsilon": problem["target_epsilon"],
        "target_delta": problem["delta"],
        "objective": objective if len(objective) <= MAX_OBJECTIVE else f"sha256:{digest(objective)}",
        "shape": f"{classes} classes" + (" or none" if abstention else ""),
        "utility": record["utility"],
    }


def _table_columns(record: dict[str, Any]) -> dict[str, Any]:
    asked, proof = _table_asked(record), record["certificate"]
    limit = record["problem"]["delta"]
    bound = limit - proof["margin"]
    return {
        "K": asked["voters"],
        "m": None,
        "epsilon": math.inf,
        "Delta": 0.0,
        "affected": asked["affected"],
        "target_epsilon": asked["target_epsilon"],
        "delta": limit,
        **{name: asked[name] for name in ("objective", "shape", "utility")},
        "upper_bound": record["upper_bound"],
        "gap": max(0.0, record["upper_bound"] - record["utility"]),
        "gamma": record["values"],
        "certificate": "edges",
        "bound": bound,
        "limit": limit,
        "margin": proof["margin"],
        "error_bound": 0.0,
        "worst_value": bound,
        "version": record["version"],
    }


GAMMA = Kind(FORMAT, DesignSpec.of, _gamma_record, read_solution, reprove, _gamma_asked, _gamma_columns)
TABLE = Kind(tables.FORMAT, TableSpec.of, _table_record, read_table, reprove_table, _table_asked, _table_columns)
