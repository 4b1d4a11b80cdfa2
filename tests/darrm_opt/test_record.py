"""A solution as plain data: exact round trips, and a refusal of every malformed record."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.cases import for_each
from support.refusals import refused
from support.strategies import ProblemCase, problem_cases, random_case

from darrm_opt import NotPrivate, Privacy, Problem, Solution, solve, verify
from darrm_opt.design.solution import Status
from darrm_opt.record import FORMAT, problem_from_record, problem_record, solution_from_record, solution_record

ASKED: list[tuple[Problem, dict[str, Any]]] = [
    (Problem.from_allowance(K=5, m=2, epsilon=0.1, Delta=1e-5), {}),
    (Problem.from_allowance(K=4, m=1.5, epsilon=0.3), {"objective": "shared(2,5) agreement", "shape": "monotone"}),
    (Problem(3, Privacy(math.inf), Privacy(0.5, 1e-5), 2), {"objective": "histogram(5,1,2,9)", "method": "enumerate"}),
    (Problem(3, Privacy(0.0, 0.01), Privacy(0.0, 0.02)), {"objective": "uniform(lower=0.7)"}),
    (Problem.from_allowance(K=21, m=2, epsilon=0.3, Delta=1e-3), {"time_limit": 1e-9}),
    *[(random_case(np.random.default_rng((seed, 51)), (1, 2, 5, 8)).problem, {}) for seed in range(12)],
]


@cache
def solution(number: int = 0) -> Solution:
    """Return the answer to one of `ASKED`."""
    problem, options = ASKED[number]
    found: Solution = solve(problem, **options)
    return found


def through_json(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record after a round trip through strict JSON, which has no infinity and no NaN."""
    parsed: dict[str, Any] = json.loads(json.dumps(record, allow_nan=False))
    return parsed


@given(problem_cases())
def test_problems_round_trip(case: ProblemCase) -> None:
    problem = case.problem
    assert problem_from_record(through_json(problem_record(problem))) == problem


def test_a_problem_uses_the_names_of_the_glossary() -> None:
    assert problem_record(Problem.from_allowance(K=11, m=3, epsilon=0.1, Delta=1e-5, delta=3e-5)) == {
        "K": 11,
        "m": 3.0,
        "epsilon": 0.1,
        "Delta": 1e-5,
        "target_epsilon": 0.3,
        "delta": 3e-5,
        "affected": 11,
    }
    assert problem_record(Problem(3, Privacy(math.inf), Privacy(0.5)))["epsilon"] == "inf"
    assert problem_record(Problem(3, Privacy(math.inf), Privacy(0.5)))["m"] is None


@for_each("number", range(len(ASKED)))
def test_solutions_round_trip_bit_for_bit(number: int) -> None:
    given = solution(number)
    record = through_json(solution_record(given))
    again = solution_from_record(record)
    assert again == given
    assert np.array_equal(again.gamma, given.gamma)
    assert again.gamma.dtype == np.float64
    assert not again.gamma.flags.writeable
    assert again.statistics.seconds == given.statistics.seconds
    assert (again.gap, again.warnings, again.status.advice) == (given.gap, given.warnings, given.status.advice)
    assert solution_record(again) == solution_record(given)
    assert verify(again.problem, again.gamma).margin >= 0


def test_a_record_has_these_fields() -> None:
    record = solution_record(solution())
    assert [*record] == [
        *("format", "problem", "objective", "shape", "gamma", "utility", "upper_bound", "gap", "status", "advice"),
        *("certificate", "method", "backend", "statistics", "warnings"),
    ]
    assert record["format"] == FORMAT
    assert record["gap"] == solution().gap
    assert record["advice"] == Status.OPTIMAL.advice
    assert set(record["certificate"]) == {field.name for field in dataclasses.fields(solution().certificate)}
    assert set(record["statistics"]) == {field.name for field in dataclasses.fields(solution().statistics)}


def test_reading_a_record_proves_nothing() -> None:
    """A tampered γ is read unchanged; only `verify` refuses it."""
    record = through_json(solution_record(solution()))
    record["gamma"] = [1.0] * 6
    with pytest.raises(NotPrivate):
        verify(solution().problem, solution_from_record(record).gamma)


Change = Callable[[dict[str, Any]], Any]


def without(name: str, inside: str | None = None) -> Change:
    def change(record: dict[str, Any]) -> None:
        del (record if inside is None else record[inside])[name]

    return change


def with_(name: str, value: Any, inside: str | None = None) -> Change:
    def change(record: dict[str, Any]) -> None:
        (record if inside is None else record[inside])[name] = value

    return change


MALFORMED: list[tuple[str, Change]] = [  # the refused argument, and the change
    *((name, without(name)) for name in ("format", "problem", "objective", "shape", "gamma", "utility", "upper_bound")),
    *((name, without(name)) for name in ("certificate", "statistics", "method", "backend")),
    *((name, without(name, "problem")) for name in ("K", "epsilon", "Delta", "target_epsilon", "delta", "affected")),
    *(("format", with_("format", value)) for value in (FORMAT + 1, "1")),
    *(("K", change) for change in (with_("problem", 3), with_("K", 0, "problem"), with_("K", 5.0, "problem"))),
    *(("epsilon", with_("epsilon", value, "problem")) for value in ("x", None)),
    *(
        (name, with_(name, value, "problem"))
        for name, value in (("delta", 1.0), ("target_epsilon", "inf"), ("affected", 6))
    ),
    *(("objective", with_("objective", value)) for value in ("happiness", 3)),
    *(("gamma", with_("gamma", value)) for value in ([1.0, 1.0], "text", None)),
    ("gamma[2]", with_("gamma", [1.0, 0.5, 0.2, 0.3, 0.5, 1.0])),
    ("gamma[0]", with_("gamma", [1.5] * 6)),
    *(("status", change) for change in (without("status"), with_("status", "splendid"))),
    ("certificate.trust", with_("trust", 1, "certificate")),
    ("margin", without("margin", "certificate")),
    ("rows", without("rows", "statistics")),
    ("certificate", with_("certificate", 7)),
    *(("gap", change) for change in (without("gap"), with_("gap", -3.0), with_("utility", 0.25))),
    ("advice", with_("advice", "Trust it.")),
    ("approved", with_("approved", value=True)),
    *((name, with_(name, value=True)) for name in ("utility", "upper_bound", "method")),
    *(("utility", with_("utility", value)) for value in ("much", None)),
    *(("shape", with_("shape", value)) for value in ("round", 3)),
    ("upper_bound", with_("upper_bound", [1])),
    ("method", with_("method", None)),
    ("backend", with_("backend", {})),
    ("margin", with_("margin", "wide", "certificate")),
    ("worst_corners", with_("worst_corners", 3, "certificate")),
    ("seconds", with_("seconds", None, "statistics")),
]


@for_each(("argument", "change"), MALFORMED)
def test_a_malformed_record_is_refused(argument: str, change: Change) -> None:
    record = copy.deepcopy(through_json(solution_record(solution())))
    change(record)
    with refused(argument):
        solution_from_record(record)


@for_each("value", [None, [], "text", 3])
def test_a_value_other_than_a_record_is_refused(value: Any) -> None:
    with refused("record"):
        solution_from_record(value)
