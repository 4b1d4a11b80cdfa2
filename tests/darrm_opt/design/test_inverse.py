"""The inverse question: the least m, target ε or voter's ε for a required utility or agreement."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt import InvalidInput, Privacy, Problem, solve, verify
from darrm_opt.accuracy import disagreement
from darrm_opt.design import sweep
from darrm_opt.design.objective import rectangular
from darrm_opt.design.sweep import LeastParameter, least_m, least_parameter, tradeoff

QUESTIONS: dict[str, dict[str, Any]] = {
    "m": {"K": 11, "epsilon": 0.1, "utility": 0.95},
    "m with Δ": {"K": 12, "epsilon": 0.2, "Delta": 1e-3, "utility": 0.8, "shape": "monotone"},
    "m by agreement": {"K": 11, "epsilon": 0.1, "agreement": 0.95, "affected": 4},
    "target ε": {
        "K": 9,
        "parameter": "target_epsilon",
        "epsilon": math.inf,
        "affected": 1,
        "delta": 1e-5,
        "utility": 0.9,
    },
    "voter's ε": {"K": 11, "parameter": "epsilon", "m": 3, "Delta": 1e-6, "utility": 0.97, "objective": "shared(2,2)"},
}


def asked_at(question: dict[str, Any], value: float) -> Problem:
    """Return the problem of a question at a value, without the search."""
    unknown = question.get("parameter", "m")
    given: dict[str, Any] = {"m": question.get("m"), "epsilon": question.get("epsilon"), "target_epsilon": None} | {
        unknown: value
    }
    rest: dict[str, Any] = {
        name: question.get(name, usual) for name, usual in (("Delta", 0.0), ("delta", None), ("affected", None))
    }
    return Problem.from_allowance(question["K"], **given, **rest)


def worth(gamma: Any, found: LeastParameter) -> float:
    objective: Any = found.solution.objective
    if found.measure == "agreement":
        return 1 - disagreement(gamma, objective.prior)
    K = found.solution.problem.K
    return float(objective.weights(K) @ gamma[K // 2 + 1 :])


@for_each("name", QUESTIONS)
def test_the_value_suffices_and_the_next_smaller_one_provably_does_not(name: str) -> None:
    question = QUESTIONS[name]
    found = least_parameter(**question)
    assert found.solution.problem == asked_at(question, found.value)
    assert verify(found.solution.problem, found.solution.gamma).margin >= 0
    assert found.reached == pytest.approx(worth(found.solution.gamma, found), abs=1e-12)
    assert found.reached >= found.wanted == question.get("utility", question.get("agreement"))
    below = found.below
    assert below is not None
    assert below.solution.problem == asked_at(question, below.value)
    assert found.value - below.value == pytest.approx(10.0 ** (math.floor(math.log10(below.value)) - 2))
    assert below.reached <= below.bound < found.wanted
    assert found.is_least == (name != "voter's ε")
    again = solve(below.solution.problem, found.solution.objective, question.get("shape", "free"))
    assert worth(again.gamma, found) == pytest.approx(below.reached, abs=1e-8)


def test_a_sweep_over_neighbouring_values_finds_no_smaller_one() -> None:
    found = least_parameter(11, epsilon=0.1, utility=0.9, digits=2)
    line = tradeoff(asked_at({"K": 11, "epsilon": 0.1}, 1), [tenths / 10 for tenths in range(10, 61)])
    assert found.value == next(m / 10 for m, got in zip(range(10, 61), line.utilities, strict=True) if got >= 0.9)


def test_the_bound_of_an_agreement_is_that_of_the_optimum() -> None:
    found = least_parameter(11, epsilon=0.1, agreement=0.9)
    assert found.below is not None
    best = solve(found.below.solution.problem, rectangular(measure="agreement"))
    assert 1 - disagreement(best.noise, rectangular().prior) <= found.below.bound
    assert found.below.bound == pytest.approx(found.below.reached, abs=1e-8)


def test_a_bound_that_rounds_to_the_requirement_excludes_nothing() -> None:
    """A requirement of 1 is met up to rounding, so a neighbour whose bound is that close is not excluded."""
    found = least_parameter(5, epsilon=0.5, utility=0.9)
    assert found.below is not None
    almost = replace(found, wanted=1.0, below=replace(found.below, bound=1.0 - 1e-13))
    assert found.is_least
    assert not almost.is_least


def test_more_digits_give_a_smaller_value() -> None:
    values = [least_parameter(7, epsilon=0.3, utility=0.7, digits=digits).value for digits in (2, 3, 6, 10)]
    assert values == sorted(values, reverse=True)
    assert values[0] - values[-1] < 0.1


def test_below_0_there_is_no_smaller_value() -> None:
    found = least_parameter(3, parameter="target_epsilon", epsilon=0.1, delta=0.9, utility=0.5)
    assert (found.value, found.below, found.is_least) == (0.0, None, True)


@pytest.mark.parametrize(
    "question",
    [{"epsilon": 0.1, "delta": 0.9}, {"parameter": "epsilon", "m": 2.0, "delta": 0.9}],
    ids=["m", "voter's ε"],
)
def test_the_smallest_positive_value_is_not_proved_to_be_the_least(question: dict[str, Any]) -> None:
    found = least_parameter(3, utility=0.5, digits=2, **question)
    assert found.value in (1e-3, 1e-4)
    assert found.below is None
    assert not found.is_least


def test_progress_counts_the_solves() -> None:
    reported: list[tuple[int, int]] = []
    least_parameter(5, epsilon=0.5, utility=0.6, progress=lambda done, of: reported.append((done, of)))
    assert [done for done, _ in reported] == list(range(len(reported)))
    assert len(reported) <= reported[0][1] <= 14


@for_each(
    ("question", "text"),
    [
        ({}, "an agreement in"),
        ({"utility": 0.9, "agreement": 0.9}, "and not both"),
        ({"agreement": 0.5}, r"agreement = 0.5 .* a probability in \(0.5, 1\]"),
        ({"utility": 0.9, "m": 2}, "m cannot be given: the search is for m"),
        (
            {"utility": 0.9, "parameter": "epsilon", "m": 1},
            "epsilon is the quantity to find: omit it",
        ),
        ({"utility": 0.9, "parameter": "epsilon", "epsilon": None}, "m is missing: expected a privacy allowance"),
        ({"utility": 0.9, "parameter": "delta"}, "parameter = 'delta' .* 'm', 'target_epsilon' or 'epsilon'"),
        ({"utility": 0.9, "digits": 1}, "digits = 1 .* 2 to 10"),
        ({"utility": 0.9, "digits": 11}, "digits = 11 .* 2 to 10"),
        ({"utility": 0.9, "epsilon": math.inf}, "parameter = 'm' .*'target_epsilon' for epsilon = inf"),
        ({"agreement": 0.9, "objective": "minimax"}, "an objective with a prior"),
        ({"utility": 0.9, "epsilon": None}, "epsilon is missing"),
    ],
)
def test_an_invalid_question_is_refused(question: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        least_parameter(5, **{"epsilon": 0.1} | question)


@for_each("Delta", [0.0, 1e-4])
@for_each("utility", [0.3, 0.9, 1.0])
def test_the_least_allowance_gives_the_utility_and_a_smaller_one_does_not(utility: float, Delta: float) -> None:
    problem = Problem.from_allowance(11, 2, 0.2, Delta)
    found = least_m(problem, utility)
    assert found.utility >= utility - 2e-12
    assert verify(found.problem, found.gamma).margin >= 0
    smaller = Privacy(found.problem.target.epsilon * (1 - 1e-6), found.problem.target.delta)
    assert solve(Problem(11, problem.voter, smaller)).upper_bound < utility


@for_each("utility", [0.0, -1.0, 1.5, math.nan])
def test_invalid_shares_are_refused(utility: float) -> None:
    with pytest.raises(InvalidInput, match=r"expected a share in \(0, 1\]"):
        least_m(Problem.from_allowance(5, 1, 0.1), utility)


def test_an_unreachable_utility_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("utility"):
        least_parameter(5, epsilon=0.1, Delta=0.1, delta=0.0, utility=0.99)
    monkeypatch.setattr(sweep, "MAX_SEARCHED_EPSILON", 4.0)
    with refused("utility", "1.0"):
        least_m(Problem(3, Privacy(math.inf), Privacy(1.0)), 1.0)
