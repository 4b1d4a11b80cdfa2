"""Verification of answers that were read: each test changes one claim."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt import InvalidInput, NoiseFunction, NotPrivate, NotProven, Privacy, Problem, Solution, solve, verify
from darrm_opt._version import __version__
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.solution import Status
from darrm_opt.errors import BackendUnavailable, DarrmError, Rule
from darrm_opt.record import DesignSpec, solution_record
from darrm_opt.untrusted import TOLERANCE
from darrm_opt.verification import InvalidSolution, check_utility, read_solution, verify_implied, verify_solution
from solver_cache import CacheError, ReadOnlyCache

PROBLEM = Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4)
SPEC = DesignSpec(PROBLEM)
SOLUTION = solve(PROBLEM)
RECORD = json.loads(json.dumps(solution_record(SOLUTION)))


def edited(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(json.dumps(RECORD))
    before = record["upper_bound"], record["utility"]
    change(record)
    if (record["upper_bound"], record["utility"]) != before and "gap" in record:  # else the gap would be refused first
        record["gap"] = max(0.0, record["upper_bound"] - record["utility"])
    return record


def test_a_valid_answer_is_returned_bit_for_bit_with_a_new_proof() -> None:
    again = verify_solution(read_solution(RECORD), SPEC)
    assert again.gamma.tobytes() == SOLUTION.gamma.tobytes()
    assert again.certificate == SOLUTION.certificate
    assert again.certificate.bound >= verify(PROBLEM, SOLUTION.noise).bound
    assert (again.utility, again.upper_bound, again.status) == (SOLUTION.utility, SOLUTION.upper_bound, SOLUTION.status)


def test_an_integer_is_read_as_a_real_number() -> None:
    """A proxy in another language may write 1.0 as 1."""
    again = verify_solution(read_solution(edited(lambda record: record.update(upper_bound=1))), SPEC)
    assert type(again.upper_bound) is float
    assert again.upper_bound == 1.0


def beyond(value: float) -> float:
    return value + 3 * TOLERANCE * max(1.0, abs(value))


@for_each(
    ("change", "reason"),
    [
        (lambda record: record.update(utility=beyond(record["utility"])), "utility"),
        (lambda record: record.update(utility=record["utility"] - 3 * TOLERANCE), "utility"),
        (lambda record: record.update(upper_bound=record["utility"] - 3 * TOLERANCE), "bound"),
        (lambda record: record.update(upper_bound=1 + 3 * TOLERANCE), "bound"),
        (lambda record: record["certificate"].update(limit=beyond(record["certificate"]["limit"])), "certificate"),
        (lambda record: record["certificate"].update(bound=beyond(record["certificate"]["bound"])), "certificate"),
        (lambda record: record["certificate"].update(margin=beyond(record["certificate"]["margin"])), "certificate"),
        (lambda record: record["certificate"].update(worst_value=9.0), "certificate"),
        (lambda record: record["certificate"].update(method="ball"), "certificate"),
        (lambda record: record["certificate"].update(version="0.0", limit=0.5), "certificate"),
        (lambda record: record["problem"].update(delta=record["problem"]["delta"] * 2), "question"),
        (lambda record: record.update(objective="uniform"), "question"),
        (lambda record: record.update(shape="monotone"), "question"),
        (lambda record: record.update(utility=math.inf), "record"),
        (lambda record: record["statistics"].update(seconds={"total": math.inf}), "record"),
        (lambda record: record["statistics"].update(rows=1.5), "record"),
        (lambda record: record.update(gamma=[str(value) for value in record["gamma"]]), "record"),
        (lambda record: record.update(gamma=[True, *record["gamma"][1:-1], True]), "record"),
        (lambda record: record.update(gamma=record["gamma"][:-1]), "record"),
    ],
)
def test_one_wrong_claim_is_refused(change: Callable[[dict[str, Any]], Any], reason: str) -> None:
    with pytest.raises(InvalidSolution) as failed:
        verify_solution(read_solution(edited(change)), SPEC)
    assert failed.value.reason == reason


@for_each("content", [None, [], "text", {}, {"format": 1}, 3.0])
def test_invalid_records_are_refused(content: Any) -> None:
    with pytest.raises(InvalidSolution, match="its record cannot be read"):
        read_solution(content)


def test_a_looser_certificate_of_another_version_is_replaced() -> None:
    def change(record: dict[str, Any]) -> None:
        assert record["certificate"]["version"] == __version__
        record["certificate"].update(version="0.0", method="another", bound=0.5, margin=0.25, worst_value=0.125)

    again = verify_solution(read_solution(edited(change)), SPEC)
    assert again.certificate == verify(PROBLEM, SOLUTION.noise)


def test_a_gamma_that_is_not_private_is_refused_with_its_counterexample() -> None:
    record = edited(lambda record: record.update(gamma=[1.0] * 12, utility=1.0, upper_bound=1.0))
    with pytest.raises(NotPrivate) as refused:
        verify_solution(read_solution(record), SPEC)
    assert refused.value.excess > 0
    assert refused.value.worst


@for_each("check", [verify_solution, verify_implied])
def test_dents_are_refused_if_the_shape_is_monotone(check: Callable[[Solution, DesignSpec], Solution]) -> None:
    noise = NoiseFunction([0.1, 0.2, 0.3, 0.2, 0.1, 0.0, 0.0, 0.1, 0.2, 0.3, 0.2, 0.1])
    spec = DesignSpec(PROBLEM, shape="monotone")
    utility = spec.objective.linear_goal(11).utility(noise.upper_half)
    dented = replace(SOLUTION, shape="monotone", noise=noise, utility=utility, upper_bound=1.0)
    with pytest.raises(InvalidSolution, match="not monotone"):
        check(replace(dented, certificate=verify(PROBLEM, noise)), spec)


def test_the_answer_to_a_stricter_question_is_accepted_without_a_claim_of_optimality() -> None:
    looser = DesignSpec(Problem(11, Privacy(0.08, 1e-5), Privacy(0.3, 1e-3), affected=5))
    again = verify_implied(SOLUTION, looser)
    assert (again.problem, again.upper_bound, again.status) == (looser.problem, 1.0, Status.NEAREST)
    assert verify(looser.problem, again.noise).margin >= 0
    assert again.utility == pytest.approx(SOLUTION.utility, abs=TOLERANCE)


def test_the_answer_to_a_looser_question_is_refused() -> None:
    stricter = DesignSpec(Problem(11, Privacy(0.5), Privacy(0.1)))
    with pytest.raises(InvalidSolution, match="its utility is"):  # γ had to be scaled down
        verify_implied(SOLUTION, stricter)
    with pytest.raises(InvalidSolution, match="another question"):
        verify_implied(SOLUTION, DesignSpec(Problem(13, Privacy(0.1), Privacy(0.3))))


def test_a_utility_may_differ_by_rounding_only() -> None:
    assert TOLERANCE == 1e-9
    stated = edited(lambda record: record.update(utility=record["utility"] + TOLERANCE / 2))
    assert verify_solution(read_solution(stated), SPEC).utility == SOLUTION.utility  # computed, not as stated
    assert check_utility(SOLUTION.utility + TOLERANCE / 2, SOLUTION.noise, SPEC) == pytest.approx(SOLUTION.utility)
    with pytest.raises(InvalidSolution, match="its utility is"):
        check_utility(SOLUTION.utility + 3 * TOLERANCE, SOLUTION.noise, SPEC)


@for_each(
    "error",
    [
        InvalidInput("K", 0, "at least 1", "Count again."),
        InvalidInput("sample", 4, Rule("needs records")),
        NotPrivate("No.", {"xy": 3}, 0.25),
        NotProven("Perhaps.", {}, 0.0),
        BackendUnavailable("Not here."),
        InvalidSolution("utility", "It differs."),
        CacheError("memory", "it is full", "Make room."),
        ReadOnlyCache("memory"),
    ],
)
def test_errors_are_pickled_with_their_fields(error: DarrmError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 — pickled here
    assert (type(again), str(again), again.args, vars(again)) == (type(error), str(error), error.args, vars(error))


def test_the_message_of_a_rule_omits_the_value() -> None:
    error = InvalidInput("sample", 4, Rule("cannot be combined with bags"), "Drop one.")
    assert str(error) == "sample cannot be combined with bags. Drop one."
    assert (error.argument, error.value, error.accepted) == ("sample", 4, "cannot be combined with bags")


def test_another_worst_multiset_is_accepted_only_with_its_value() -> None:
    """Two searches with the same bound may return different multisets."""
    spec = DesignSpec(Problem.from_allowance(K=5, m=2, epsilon=0.3, Delta=1e-3))
    solution = solve(spec.problem)
    constraint = PrivacyConstraint.of(spec.problem)
    counts = np.array([5, 0, 0, 0, 0, 0, 0, 0])
    value = float(constraint.values(solution.noise.signed, counts[None, :])[0])
    assert value < solution.certificate.worst_value
    other = replace(solution.certificate, worst_value=value, worst_corners=constraint.corners.named(counts))
    assert verify_solution(replace(solution, certificate=other), spec).noise == solution.noise
    for wrong in (
        replace(other, worst_value=value + 1e-6),
        replace(other, worst_corners={**other.worst_corners, "down": 1}),
        replace(other, worst_corners={"elsewhere": 5}),
    ):
        with pytest.raises(InvalidSolution, match="worst_value"):
            verify_solution(replace(solution, certificate=wrong), spec)
