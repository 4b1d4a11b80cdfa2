"""Answers of another process: each equals that of the core and is verified, and false claims are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from darrm_opt import NotPrivate, Privacy, Problem, least_parameter, verify
from darrm_opt.accounting import Sampling
from darrm_opt.answers.decode import table_plan_of
from darrm_opt.answers.tables import verified_table, verify_table_answer
from darrm_opt.answers.verification import verify_options
from darrm_opt.errors import VerificationFailed
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.planning import plan
from darrm_opt.plurality import PluralityObjective, parse_prior
from darrm_opt.problem import NOT_PRIVATE
from darrm_opt.questions.cost import Cost
from darrm_opt.questions.plan import plan_record
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.record import problem_from_record
from darrm_opt.tables.record import TableSpec, table_solution_record
from darrm_opt.tables.solver import solve_table

TOTAL: dict[str, Any] = {"total_epsilon": 3.0, "total_delta": 1e-5}
GNMAX: dict[str, Any] = {"mechanism": "gnmax", "K": 11, "queries": 20, "parameter": 20.0, "delta": 1e-5}
CALIBRATED: dict[str, Any] = {**TOTAL, "mechanism": "laplace", "K": 25, "classes": 10, "queries": 100}
SAMPLED: dict[str, Any] = {**TOTAL, "K": 10, "classes": 4, "queries": 500, "records": 5452, "sample": 40}
LEAST: dict[str, Any] = {"K": 7, "epsilon": 0.2, "Delta": 1e-4, "utility": 0.9}
CLASSES: dict[str, Any] = {"K": 5, "classes": 3, "target_epsilon": 1.0, "delta": 1e-3, "prior": "favoured(0.5,0.9)"}
GROUPS: dict[str, Any] = {
    "classes": 3,
    "groups": [{"K": 2, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}],
    "target_epsilon": 0.6,
}
OPTIONS: dict[str, Any] = {"K": 3, "classes": 3, "prior": "favoured(0.5,0.9)", "queries": 1, "price": 1.0} | {
    "total_epsilon": 2.0,
    "total_delta": 1e-3,
}
TABLES = {
    "plurality": Problem(5, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3),
    "table": Problem(groups=[(2, 0.1), (2, 0.5)], target=Privacy(0.6), classes=3),
}


def answer_of(path: str, fields: dict[str, Any]) -> Any:
    """Return the answer of a service as plain data that the caller may change."""
    return json.loads(_answer(path, json.dumps(fields)))


@cache
def _answer(path: str, fields: str) -> str:
    asked = QUESTIONS[path].of(json.loads(fields)).canonical()
    found = [table_solution_record(solve_table(spec.problem, spec.objective)) for spec in asked.designs()]
    asked = replace(asked, found=found) if found else asked
    return json.dumps(asked.record_of(asked.answer(lambda _: None)))


def spec_of(path: str, asked: dict[str, Any]) -> Any:
    """Return the only design of a question."""
    [spec] = QUESTIONS[path].of(asked).designs()
    return spec


# ------------------------------------------------------------------------------------------------------------- costs


def test_a_total_is_that_of_the_mechanism_at_every_point_of_its_curve() -> None:
    told, mechanism = answer_of("cost", {**GNMAX, "curve": True}), mechanism_class("gnmax").of(11, 2, 20.0)
    assert told["zcdp"] == 20 * 2 / (2 * 20.0**2)
    points = {(point["queries"], point["delta"]) for point in told["curve"]}
    assert points >= {(20, 1e-12), (20, 1e-2), (60, 1e-5)}
    for point in (*told["curve"], {**told, "queries": 20}):
        cost = mechanism.cost(point["queries"], point["delta"])
        assert (point["epsilon"], point["account"]) == (cost.epsilon, cost.account)
    at_delta = [point["epsilon"] for point in told["curve"] if point["queries"] == 20]
    assert at_delta == sorted(at_delta, reverse=True)
    assert Cost.of(GNMAX).verify(told).epsilon == told["epsilon"]


def test_the_parameter_for_a_total_is_calibrated() -> None:
    told = answer_of("cost", CALIBRATED)
    expected = mechanism_class("laplace").calibrated(25, 10, Privacy(3.0, 1e-5), 100)
    assert told["parameter"] == expected.value
    assert told["epsilon"] <= 3.0
    assert Cost.of(CALIBRATED).verify(told).mechanism == expected


@pytest.mark.parametrize("scheme", [{}, {"sampling": "without-replacement", "neighbours": "replace-one"}])
def test_sampled_records_cost_less(scheme: dict[str, str]) -> None:
    asked = {**SAMPLED, "mechanism": "gnmax", **scheme}
    told, sampling = answer_of("cost", asked), Sampling(5452, 40, scheme=scheme.get("sampling", "poisson"))  # type: ignore[arg-type]
    assert told["sampling"] == sampling.record()
    expected = mechanism_class("gnmax").calibrated(10, 4, Privacy(3.0, 1e-5), 500, sampling=sampling)
    assert told["parameter"] == expected.value < 1
    proved = Cost.of(asked).verify(told)
    assert (proved.sampling, proved.epsilon) == (sampling, told["epsilon"])
    for other in ({"records": 5000}, {"records": None, "sample": None}, {"labels": 2}):
        with pytest.raises(VerificationFailed):
            Cost.of({**asked, "sampling": None, "neighbours": None, **scheme, **other}).verify(told)


def test_a_less_noisy_check_costs_more() -> None:
    plain, checked = (Cost.of(GNMAX | check).answer() for check in ({}, {"check_sigma": 10.0, "threshold": 8.0}))
    assert checked.epsilon > plain.epsilon


@pytest.mark.parametrize("lie", [{"parameter": 40.0}, {"delta": 1e-4}, {"mechanism": "laplace"}])
def test_a_false_total_is_refused(lie: dict[str, Any]) -> None:
    with pytest.raises(VerificationFailed):
        Cost.of(GNMAX).verify(answer_of("cost", GNMAX) | lie)


def test_a_parameter_that_exceeds_the_total_is_refused() -> None:
    told = answer_of("cost", CALIBRATED)
    with pytest.raises(VerificationFailed, match="beyond the total"):
        Cost.of(CALIBRATED).verify(told | {"parameter": told["parameter"] / 2, "epsilon": None})


# --------------------------------------------------------------------------------------------------- least parameters


def test_a_least_parameter_is_that_of_the_search() -> None:
    told, own = answer_of("least", LEAST), least_parameter(**LEAST)
    assert own.below is not None
    for said, found in ((told, own), (told["below"], own.below)):
        assert said["value"] == found.value
        assert said["design"]["gamma"] == found.solution.gamma.tolist()
        assert verify(problem_from_record(said["design"]["problem"]), said["design"]["gamma"]).margin >= 0
    assert (told["reached"], told["is_least"], told["measure"], told["wanted"]) == (own.reached, True, "utility", 0.9)
    assert told["below"]["bound"] < 0.9 <= told["reached"]


LIES: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a γ that is not private": (lambda told: told["design"].update(gamma=[1.0] * 8), NotPrivate, "not private"),
    "another number": (lambda told: told.update(value=1.0), VerificationFailed, "another problem"),
    "no number": (lambda told: told.update(value="2"), VerificationFailed, "number is invalid"),
    "more than it reaches": (lambda told: told.update(reached=0.99), VerificationFailed, "reaches 0.9"),
    "a γ that falls short": (
        lambda told: told.update({**told["below"], "below": None}),
        VerificationFailed,
        "not the end of a search",
    ),
    "a neighbour that reaches it": (
        lambda told: told.update(below={**told["below"], **{k: told[k] for k in ("value", "reached", "design")}}),
        VerificationFailed,
        "not the end of a search",
    ),
    "another question": (lambda told: told.update(parameter="epsilon"), VerificationFailed, "another question"),
    "nothing of the neighbour": (lambda told: told.pop("below"), VerificationFailed, "lacks below"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_least_parameter_is_refused(lie: str) -> None:
    told, question = answer_of("least", LEAST), QUESTIONS["least"].of(LEAST)
    assert question.verify(told).value == told["value"]
    change, error, text = LIES[lie]
    change(told)
    with pytest.raises(error, match=text):
        question.verify(told)


def test_a_stored_result_is_verified() -> None:
    stored, question = answer_of("least", LEAST), QUESTIONS["least"].of(QUESTIONS["least"].of(LEAST).argument())
    question.verify_stored(stored)
    stored["design"]["gamma"] = [1.0] * 8
    with pytest.raises(NotPrivate):
        question.verify_stored(stored)


# ------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(("path", "asked"), [("plurality", CLASSES), ("table", GROUPS)])
def test_a_table_is_verified(path: str, asked: dict[str, Any]) -> None:
    told, problem, spec = answer_of(path, asked), TABLES[path], spec_of(path, asked)
    expected = solve_table(problem, spec.objective)
    assert verify_table_answer(told, problem) == told
    read = verified_table(told, spec)
    assert (read.problem, read.status, read.certificate) == (problem, expected.status, expected.certificate)
    assert (read.utility, read.upper_bound) == pytest.approx((expected.utility, expected.upper_bound), abs=1e-12)
    assert (read.id, read.utilities) == (spec.key, told["utilities"])
    assert read.table.values.tolist() == expected.table.values.tolist() == told["record"]["values"]
    with pytest.raises(VerificationFailed, match="another problem"):
        verify_table_answer(told, replace(problem, target=Privacy(0.5, problem.target.delta)))
    stricter = {**told["record"], "problem": {**told["record"]["problem"], "target_epsilon": 0.3}}
    with pytest.raises(NotPrivate):
        verify_table_answer({**told, "record": stricter}, problem)
    with pytest.raises(VerificationFailed, match="table is invalid"):
        verify_table_answer({**told, "record": {}}, problem)


def test_an_answer_shows_the_verified_table() -> None:
    told = answer_of("table", GROUPS)
    with pytest.raises(VerificationFailed, match="another table"):
        verify_table_answer({**told, "table": told["table"][1:]}, TABLES["table"])


def test_a_table_must_be_that_of_the_question_with_true_claims() -> None:
    told, problem = answer_of("plurality", CLASSES), TABLES["plurality"]
    assert set(told["utilities"]) == {"permute_and_flip", "exponential", "laplace", "gnmax"}
    with pytest.raises(VerificationFailed, match="another question"):
        verified_table(told, TableSpec(problem, PluralityObjective(parse_prior("favoured(0.5,0.8)"))))
    for claim in ("utility", "upper_bound"):
        with pytest.raises(VerificationFailed, match="claims fit its table"):
            verified_table({**told, "record": {**told["record"], claim: 0.01}}, spec_of("plurality", CLASSES))
    values = [0.0] * (len(told["record"]["values"]) - 2) + [1.0, 0.0]
    with pytest.raises(NotPrivate):
        verify_table_answer({**told, "record": {**told["record"], "values": values}}, problem)


# ------------------------------------------------------------------------------------------------------------ options


def test_options_are_verified_for_the_voters_and_queries_of_the_question() -> None:
    told, problem = answer_of("plurality/options", OPTIONS), Problem(3, NOT_PRIVATE, Privacy(2.0, 1e-3), 1, classes=3)
    goal = PluralityObjective(parse_prior("favoured(0.5,0.9)"), price=1.0)
    expected = plan(3, None, 1, Privacy(2.0, 1e-3), 1, goal, classes=3)
    assert verify_options(told, problem, 1) == told
    assert told["options"] == plan_record(expected)["options"]
    read = table_plan_of(told, expected.question)
    assert read.options[0].mechanism == expected.options[0].mechanism
    assert (read.verdict, read.advice) == (expected.verdict, expected.advice)
    assert [(option.name, option.right, option.spent) for option in read.options] == [
        (option.name, option.right, option.spent) for option in expected.options if option.spent is not None
    ]
    with pytest.raises(VerificationFailed, match="20 answers of this mechanism"):
        verify_options(told, problem, 20)
    with pytest.raises(VerificationFailed, match="other voters or classes"):
        verify_options(told, replace(problem, affected=2), 1)
    with pytest.raises(VerificationFailed, match="mechanism is invalid"):
        verify_options({**told, "mechanism": {"kind": "nothing"}}, problem, 1)
    # The plain vote would fit for private models; these voters are not private.
    with pytest.raises(VerificationFailed, match="private themselves"):
        verify_options({**told, "mechanism": PlainVote(3, 3, Privacy(0.0)).record()}, problem, 1)


def test_options_with_samples_are_verified_for_that_sampling() -> None:
    asked = {**SAMPLED, "K": 4, "classes": 3, "queries": 40, "sampling": "without-replacement"}
    told, sampling = answer_of("plurality/options", asked), Sampling(5452, 40, scheme="without-replacement")
    problem = Problem(4, NOT_PRIVATE, Privacy(3.0, 1e-5), 1, classes=3)
    assert told["sampling"] == told["mechanism"]["sampling"] == sampling.record()
    expected = plan(4, None, 40, problem.target, 1, classes=3, sampling=sampling)
    assert told["options"] == plan_record(expected)["options"]
    assert verify_options(told, problem, 40, sampling) == told
    for other in (None, Sampling(5452, 40)):
        with pytest.raises(VerificationFailed, match="another sampling"):
            verify_options(told, problem, 40, other)
    with pytest.raises(VerificationFailed, match="40 answers of this mechanism"):
        verify_options({**told, "sampling": None}, problem, 40)
