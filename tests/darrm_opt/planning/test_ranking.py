"""Ranking: the mechanisms evaluated, reported and kept."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.cases import for_each

from darrm_opt import Privacy
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.mechanisms import calibrated_names
from darrm_opt.mechanisms.base import CONFIDENT
from darrm_opt.planning import design_within_total, plan, ranking
from darrm_opt.planning.option import MECHANISMS, Option
from darrm_opt.planning.question import Question
from darrm_opt.planning.ranking import FRESH, NO_DELTA, ranked_options

TOTAL = Privacy(2.0, 1e-5)
BETWEEN_TWO = {"fewer_voters", "optimal_sequence"}


def option_names(question: Question) -> set[str]:
    """Return the names of the options for a question."""
    return {option.name for option in ranked_options(question)}


def test_with_sampling_tables_and_calibrated_mechanisms_are_ranked() -> None:
    question = Question.of(3, None, 2, TOTAL, 1, None, classes=3, sampling=Sampling(100, 10))
    assert option_names(question) == {"optimal", *calibrated_names()}


def test_mechanisms_for_two_classes_are_not_ranked_for_three() -> None:
    assert option_names(Question.of(3, None, 1, TOTAL, 1, None, classes=3)) == set(MECHANISMS) - BETWEEN_TWO - {
        CONFIDENT
    }
    assert option_names(Question.of(3, None, 1, TOTAL, 1, None)) == set(MECHANISMS) - {CONFIDENT}


@pytest.mark.parametrize(("price", "delta"), [(1.0, 1e-5), (0.0, 1e-5), (1.0, 0.0)])
def test_a_checked_maximum_is_ranked_if_wrong_answers_cost_and_the_total_has_a_delta(
    price: float, delta: float
) -> None:
    names = option_names(Question.of(3, None, 1, Privacy(2.0, delta), 1, None, classes=3, price=price))
    assert (CONFIDENT in names) == (price > 0 and delta > 0)


@pytest.mark.parametrize("queries", [1, 2])
def test_a_total_without_delta_causes_a_warning_for_several_queries(queries: int) -> None:
    found = plan(3, None, queries, Privacy(1.0), 1, mechanisms=("randomized_response",))
    assert (NO_DELTA in found.warnings) == (queries > 1)


def test_a_cached_design_is_returned_without_calling_progress() -> None:
    ranking._best_option.cache_clear()  # other tests ask the same
    told: list[Option] = []
    first = design_within_total(3, 2, Privacy(1.25), 1, progress=told.append)
    assert first.utility == pytest.approx(max(option.utility or 0.0 for option in told if option.fits), abs=1e-6)
    again = design_within_total(3, 2, Privacy(1.25), 1, progress=told.remove)
    assert again is first
    assert told


@pytest.mark.parametrize("queries", [1, 2])
def test_fresh_voters_cause_a_warning_for_several_queries(queries: int) -> None:
    found = plan(3, Privacy(0.5), queries, TOTAL, 3, fresh=True, mechanisms=("optimal",), time_limit=60.0)
    assert found.warnings == ((FRESH,) if queries > 1 else ())  # and none about the time limit


@for_each("places", [(0, 1), (1, 0)])
def test_the_better_of_a_mechanism_and_its_table_is_kept(places: tuple[int, int]) -> None:
    question = Question.of(3, None, 1, TOTAL, 1, None, classes=3)
    pair = [
        Option(name="laplace", voters=3, why="", right=right, wrong=0.1, utility=right, spent=TOTAL)
        for right in (0.5, 0.7)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "calibrated_option", lambda *_: pair[places[0]])
        patch.setattr(ranking, "table_options", lambda *_: [pair[places[1]]])
        assert ranking._option("laplace", question, []) is pair[1]


def test_an_option_is_useful_if_it_is_accurate_enough_and_worth_more_than_no_answer() -> None:
    option = Option(name="laplace", voters=3, why="", right=0.75, wrong=0.25, utility=0.5)
    for least, price, utility, is_useful in (
        (0.75, 0.0, 0.5, True),
        (math.nextafter(0.75, 1.0), 0.0, 0.5, False),
        (0.75, 0.0, 0.0, True),
        (0.75, 1.0, 0.0, False),
        (0.75, 1.0, 0.5, True),
    ):
        question = Question.of(3, None, 1, TOTAL, 1, None, classes=3, price=price, least_accuracy=least)
        assert ranking._is_useful(replace(option, utility=utility), question) == is_useful
    assert not ranking._is_useful(Option.unfit("laplace", question, ""), question)


def test_the_default_price_of_a_wrong_answer_is_0() -> None:
    assert design_within_total(3, 2, Privacy(1.25), 1) is design_within_total(3, 2, Privacy(1.25), 1, price=0.0)


def test_the_advice_contains_the_reason_and_the_accuracy_of_the_best_option() -> None:
    found = plan(3, None, 1, TOTAL, 1, mechanisms=("gnmax", "randomized_response"))
    assert found.best is not None
    assert found.verdict == "noisy majority"
    assert found.best.why in found.advice
    assert f"{found.best.accuracy:.4f}" in found.advice
