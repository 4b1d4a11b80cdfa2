"""A solution as plain data: exact round trips, and words for every record that is none."""

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

from darrm_opt import InvalidInput, NotPrivate, Privacy, Problem, Solution, solve, verify
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
    return solve(problem, **options)


def through_json(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record as another program would read it: JSON knows no infinity and no NaN."""
    parsed: dict[str, Any] = json.loads(json.dumps(record, allow_nan=False))
    return parsed


@given(problem_cases())
def test_problems_come_back_equal(case: ProblemCase) -> None:
    problem = case.problem
    assert problem_from_record(through_json(problem_record(problem))) == problem


def test_a_problem_in_the_words_of_the_dictionary() -> None:
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
def test_solutions_come_back_to_the_last_bit(number: int) -> None:
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


def test_the_records_fields() -> None:
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


def test_reading_is_not_proving() -> None:
    """A tampered γ is read as it stands; only `verify` says that it is not private."""
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


LACKING = r"is missing: expected a value\. The record lacks this field\.$"
INCOMPLETE = r"is not valid: expected a complete record as written by darrm-opt\."

MALFORMED: list[Any] = [
    *[(without(name), rf"^{name} {LACKING}") for name in ("format", "problem", "objective", "shape", "gamma")],
    *[(without(name), rf"^{name} {LACKING}") for name in ("utility", "upper_bound", "certificate", "statistics")],
    *[(without(name), rf"^{name} {LACKING}") for name in ("method", "backend")],
    (without("status"), "status is missing.* lacks this field"),
    *[
        (without(name, "problem"), rf"^{name} {LACKING}")
        for name in ("K", "epsilon", "Delta", "target_epsilon", "delta", "affected")
    ],
    (
        with_("format", FORMAT + 1),
        rf"^format = {FORMAT + 1} is not valid: expected {FORMAT}\. Written by another version of darrm-opt; solve again\.$",
    ),
    (with_("format", "1"), r"^format = '1' is not valid: expected 1\."),
    (with_("problem", 3), rf"^K {LACKING}"),
    (with_("K", 0, "problem"), "^K = 0 is not valid: expected a whole number of voters, at least 1"),
    (with_("K", 5.0, "problem"), r"^K = 5\.0 is not valid: expected a whole number of voters, at least 1"),
    (with_("epsilon", "x", "problem"), "^epsilon = 'x' is not valid: expected a number of nats"),
    (with_("epsilon", None, "problem"), "^epsilon is missing: expected a number of nats"),
    (with_("delta", 1.0, "problem"), r"^delta = 1\.0 is not valid: expected a probability in \[0, 1\)"),
    (with_("target_epsilon", "inf", "problem"), "^target_epsilon = inf is not valid: expected at most 500 nats"),
    (with_("affected", 6, "problem"), "^affected = 6 is not valid: expected at most K = 5 voters"),
    (with_("objective", "happiness"), r"^objective = 'happiness' is not valid: expected rectangular\("),
    (with_("objective", 3), r"^objective = 3 is not valid: expected rectangular\("),
    (with_("gamma", [1.0, 1.0]), r"^gamma = .* is not valid: expected K\+1 = 6 numbers\. Received 2\.$"),
    (
        with_("gamma", [1.0, 0.5, 0.2, 0.3, 0.5, 1.0]),
        r"^gamma\[2\] = 0\.2 is not valid: .* must treat both answers alike",
    ),
    (with_("gamma", [1.5] * 6), r"^gamma\[0\] = 1\.5 is not valid: expected a probability in \[0, 1\]\.$"),
    (with_("gamma", "text"), r"^gamma = 'text' is not valid: expected numbers γ\(0\), …, γ\(K\)\.$"),
    (with_("gamma", None), r"^gamma is missing: expected a flat list of K\+1 numbers"),
    (with_("status", "splendid"), rf"^record = .* {INCOMPLETE} 'splendid' is not a valid Status$"),
    (without("margin", "certificate"), rf"^record = .* {INCOMPLETE} .*'margin'"),
    (with_("trust", 1, "certificate"), rf"^record = .* {INCOMPLETE} .*'trust'"),
    (without("rows", "statistics"), rf"^record = .* {INCOMPLETE} .*'rows'"),
    (with_("certificate", 7), rf"^record = .* {INCOMPLETE}"),
]


@for_each(("change", "text"), MALFORMED)
def test_a_malformed_record_is_refused_in_these_words(change: Change, text: str) -> None:
    record = copy.deepcopy(through_json(solution_record(solution())))
    change(record)
    with pytest.raises(InvalidInput, match=text):
        solution_from_record(record)


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_no_record_at_all(value: Any) -> None:
    with refused("record"):
        solution_from_record(value)


UNCHECKED = [
    with_("utility", "much"),
    with_("utility", None),
    with_("upper_bound", [1]),
    with_("shape", "round"),
    with_("shape", 3),
    with_("method", None),
    with_("backend", {}),
    with_("margin", "wide", "certificate"),
    with_("worst_corners", 3, "certificate"),
    with_("seconds", None, "statistics"),
]


@for_each("change", UNCHECKED)
def test_fields_of_the_wrong_kind_are_refused(change: Change) -> None:
    record = copy.deepcopy(through_json(solution_record(solution())))
    change(record)
    with pytest.raises(InvalidInput):
        solution_from_record(record)
