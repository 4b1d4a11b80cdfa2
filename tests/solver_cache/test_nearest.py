"""The nearest valid answer: the best stored one whose guarantee implies the requested one."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.stores import STORE_URLS, edited, kept_row, query_plan, setting

from darrm_opt import Privacy, Problem, Solution, solve, verify
from darrm_opt.design.solution import Status
from darrm_opt.record import canonical_json, digest, problem_record, solution_from_record
from solver_cache import (
    DesignSpec,
    Nearest,
    Row,
    Store,
    cached_solve,
    nearest,
    open_store,
    recall,
)
from solver_cache.database.store import candidates_query
from solver_cache.model import columns_of, row_of, search_columns

K = 7
VOTERS = [Privacy(0.1), Privacy(0.2), Privacy(0.2, 1e-4), Privacy(math.inf)]
TARGETS = [Privacy(0.2), Privacy(0.3, 1e-3), Privacy(0.5), Privacy(0.5, 1e-3)]
AFFECTED = [1, 3, 7]


def grid() -> list[DesignSpec]:
    """Return the stored problems: some combinations only, so that the nearest is often not close."""
    combinations = [
        DesignSpec(Problem(K, voter, target, affected), objective, shape)  # type: ignore[arg-type]  # literals, in a product
        for (voter, target, affected), objective, shape in product(
            product(VOTERS, TARGETS, AFFECTED), ["rectangular", "uniform"], ["free", "monotone"]
        )
        if not (voter.epsilon == math.inf and affected == K)
    ]
    return combinations[::3]


@cache
def grid_rows() -> list[tuple[Row, Solution]]:
    store = open_store("memory")
    for request in grid():
        assert cached_solve(request.problem, request.objective, request.shape, store=store).stored
    return [(row, solution_from_record(json.loads(row.record))) for row in store.rows()]


ASKED = [
    DesignSpec(Problem(K, voter, target, affected), objective, shape)  # type: ignore[arg-type]
    for voter, target, affected in product(
        [Privacy(0.05), Privacy(0.2), Privacy(0.15, 1e-5), Privacy(0.2, 2e-4), Privacy(1.0)],
        [Privacy(0.1), Privacy(0.25), Privacy(0.3, 1e-3), Privacy(0.7, 0.01)],
        [1, 2, 7],
    )
    for objective, shape in [("rectangular", "free"), ("uniform", "monotone")]
]


@pytest.fixture(params=STORE_URLS, scope="module")
def full(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(open_store(STORE_URLS[request.param](tmp_path_factory.mktemp("full")))) as store:
        for row, _ in grid_rows():
            store.put(row)
        yield store


def implies(kept: Solution, asked: DesignSpec) -> bool:
    """Return whether one solution implies the other, as an oracle."""
    mine, theirs = kept.problem, asked.problem
    return (
        str(kept.objective) == str(asked.objective)
        and (kept.shape == "monotone" or asked.shape == "free")
        and mine.voter.epsilon >= theirs.voter.epsilon
        and mine.voter.delta >= theirs.voter.delta
        and mine.affected >= theirs.affected
        and mine.target.epsilon <= theirs.target.epsilon
        and mine.target.delta <= theirs.target.delta
    )


def find_nearest(request: DesignSpec, store: Store) -> Nearest:
    answer = nearest(request, store)
    assert answer is not None
    return answer


def test_the_best_valid_answer_is_found_and_proved(full: Store) -> None:
    exact = inexact = nothing = 0
    for request in ASKED:
        best = max((kept.utility for _, kept in grid_rows() if implies(kept, request)), default=None)
        answer = nearest(request, full)
        if best is None:
            assert answer is None
            nothing += 1
            continue
        assert answer is not None
        solution = answer.solution
        assert solution.utility == pytest.approx(best, abs=1e-9)
        assert (solution.problem, solution.objective, solution.shape) == (
            request.problem,
            request.objective,
            request.shape,
        )
        assert solution.certificate.bound >= verify(request.problem, solution.gamma).bound
        assert solution.certificate.margin >= 0
        exact, inexact = exact + answer.exact, inexact + (not answer.exact)
    assert min(inexact, nothing) >= 10, (exact, inexact, nothing)


def test_an_exact_answer_is_preferred(full: Store) -> None:
    for row, kept in grid_rows()[::7]:
        request = DesignSpec(kept.problem, kept.objective, kept.shape)  # type: ignore[arg-type]
        answer = find_nearest(request, full)
        assert answer.solution.utility == pytest.approx(kept.utility, abs=1e-9)
        if answer.key == row.key:  # else another one is equally good
            assert answer.exact
            assert answer.solution.gamma.tobytes() == kept.gamma.tobytes()
            assert (answer.solution.status, answer.solution.upper_bound) == (kept.status, kept.upper_bound)
            assert answer.label == "This is the optimal answer to this question."


def test_the_label_names_the_design(store: Store) -> None:
    designed = Problem(11, Privacy(0.2, 1e-4), Privacy(0.5))
    kept = cached_solve(designed, shape="monotone", store=store).solution
    asked = Problem(11, Privacy(0.1), Privacy(0.6, 1e-3), affected=5)
    answer = find_nearest(DesignSpec(asked), store)
    assert (answer.designed_for, answer.designed_shape, answer.exact) == (designed, "monotone", False)
    assert answer.label == (
        "Not solved for this question: it was designed for a stricter one (epsilon = 0.2, Delta = 0.0001, "
        "affected = 11, target_epsilon = 0.5, delta = 0, shape = monotone). It is private as asked; its utility may be "
        "below the best."
    )
    assert answer.solution.gamma.tobytes() == kept.gamma.tobytes()
    assert answer.solution.certificate.margin > kept.certificate.margin
    assert (answer.solution.upper_bound, answer.solution.status.value) == (1.0, "nearest")
    record = json.loads(json.dumps(answer.record, allow_nan=False))
    assert record["problem"] == problem_record(asked)
    assert record["nearest"] == {
        "exact": False,
        "designed_for": problem_record(designed),
        "designed_shape": "monotone",
        "id": DesignSpec(designed, shape="monotone").key,
        "label": answer.label,
    }
    assert recall(DesignSpec(asked), store) is None  # it is not stored as the answer to the requested question


# --------------------------------------------------------------------------------------------------- bad rows

DESIGNED = DesignSpec(Problem(K, Privacy(0.25), Privacy(0.3)))
WANTED = DesignSpec(Problem(K, Privacy(0.2), Privacy(0.35)))
WORSE = DesignSpec(Problem(K, Privacy(0.4), Privacy(0.2)))


def changed(**values: Any) -> Row:
    return edited(kept_row(DESIGNED), setting(**values))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (changed(gamma=[1.0] * (K + 1), utility=1.0), "its utility is 0.*, not 1.0"),
        (changed(utility=0.99), "its utility is 0.*, not 0.99"),
        (replace(changed(), digest=digest("")), "its text does not match its SHA-256"),
        (changed(status="time limit", advice=Status.TIME_LIMIT.advice), "solving again may improve it"),
        (changed(problem__epsilon=0.3), "its record cannot be read: m = 1.2"),
        (changed(shape="monotone", gamma=[1.0, 0.5, 0.6, 0.1, 0.1, 0.6, 0.5, 1.0]), "it is stored under the key of"),
    ],
)
def test_an_invalid_row_is_skipped(store: Store, bad: Row, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    store.put(bad)
    store.put(kept_row(WORSE))
    with caplog.at_level(logging.WARNING):
        answer = find_nearest(WANTED, store)
    assert answer.designed_for == WORSE.problem
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"{store.url}: row {bad.key} is skipped: ")
    with pytest.raises(ValueError, match=reason):
        raise ValueError(message)


def test_false_columns_never_give_a_wrong_answer(lasting_url: str) -> None:
    with closing(open_store(lasting_url)) as store:
        for request in (DESIGNED, WORSE):
            store.put(kept_row(request))
        with store._database.writing() as statements:  # type: ignore[attr-defined]
            statements.rows("UPDATE darrm_solutions SET voter_epsilon = 9, target_epsilon = 0")
        easier = DesignSpec(Problem(K, Privacy(0.3), Privacy(0.25)))  # DESIGNED does not answer it; WORSE does
        assert find_nearest(easier, store).designed_for == WORSE.problem
        assert nearest(DesignSpec(Problem(K, Privacy(2.0), Privacy(0.1))), store) is None


def test_a_search_ends_after_many_invalid_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["solver_cache.nearest"], "MAX_CANDIDATES", 6)
    for number in range(10):
        store.put(replace(changed(), key=f"{number}"))
    assert nearest(WANTED, store) is None


@pytest.mark.parametrize(
    "record",
    [
        *("", "null", "[]", "7", "NaN", "[" * 100_000, "1" * 5000, '{"problem": 1}', "\ud800", canonical_json({})),
        changed(problem__K=2**40).record,
        changed(problem__K=True).record,
        changed(problem__affected=0.5).record,
        changed(problem__epsilon="infinite").record,
        changed(problem__delta=None).record,
        changed(objective="rect\0angular").record,
        changed(objective="\ud800").record,
        changed(shape=["free"]).record,
        changed(utility="1").record,
        changed(utility=10**400).record,
    ],
)
def test_malformed_records_have_no_columns(record: str) -> None:
    assert search_columns(record) is None
    assert set(columns_of(record).values()) == {None}


def test_columns_are_those_of_the_record() -> None:
    request = DesignSpec(
        Problem(11, Privacy(math.inf), Privacy(0.5, 1e-3), affected=2), "uniform(lower=0.6)", "monotone"
    )
    row = row_of(solve(request.problem, request.objective, request.shape), request)
    asked = search_columns(row.record)
    assert asked is not None
    assert asked == row.columns
    assert asked.answers(request)
    assert columns_of(row.record) == {
        "voters": 11,
        "voter_epsilon": math.inf,
        "voter_delta": 0.0,
        "affected": 2,
        "target_epsilon": 0.5,
        "target_delta": 1e-3,
        "objective": "uniform(lower=0.6)",
        "shape": "monotone",
        "utility": json.loads(row.record)["utility"],
    }


# ------------------------------------------------------------------------------------------- found without a scan


def test_rows_are_found_in_an_index(lasting_url: str) -> None:
    with closing(open_store(lasting_url)) as store:
        row = kept_row(DESIGNED)
        store.put(row)
        database = store._database  # type: ignore[attr-defined]
        with database.writing() as statements:
            numbers = (
                "generate_series(1, 5000) n"
                if database.dialect == "postgresql"
                else "(WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000) "
                "SELECT n FROM n) n"
            )
            columns = (
                "core, record, digest, created, voter_epsilon, voter_delta, affected, target_epsilon, target_delta"
            )
            statements.rows(
                f"INSERT INTO darrm_solutions (key, voters, utility, objective, shape, {columns}) SELECT "  # noqa: S608
                f"'k' || n.n, 8, 0.0, objective, shape, {columns} FROM darrm_solutions, {numbers}"
            )
            statements.rows("ANALYZE")
        query, values = candidates_query(WANTED)
        assert "darrm_solutions_asked" in query_plan(store, [query.format(after="")], **values)
        assert find_nearest(WANTED, store).key == row.key


def test_a_monotone_question_is_answered_only_by_a_monotone_gamma(store: Store) -> None:
    request = DesignSpec(Problem.from_allowance(K=11, m=3, epsilon=0.1), shape="monotone")
    cached_solve(request.problem, store=store)  # free, and its optimum is not monotone
    assert nearest(request, store) is None
    monotone = cached_solve(request.problem, shape="monotone", store=store).solution
    answer = find_nearest(request, store)
    assert answer.solution.gamma.tobytes() == monotone.gamma.tobytes()
    assert np.all(np.diff(answer.solution.gamma[6:]) >= 0)


def test_added_and_removed_rows_are_seen(store: Store) -> None:
    """Also after earlier searches: the sorted rows are sorted again."""
    rows = {shape: kept_row(DesignSpec(WANTED.problem, shape=shape)) for shape in ("free", "monotone")}
    stale = replace(rows["free"], core=99)
    assert list(store.candidates(WANTED)) == []
    store.put(rows["monotone"])
    assert list(store.candidates(WANTED)) == [rows["monotone"]]
    store.put(stale)  # of another version
    assert list(store.candidates(WANTED)) == [rows["monotone"]]
    store.put(rows["free"], replacing=stale)
    assert {*store.candidates(WANTED)} == {rows["free"], rows["monotone"]}
    assert store.remove(rows["free"])
    assert not store.remove(rows["free"])
    assert list(store.candidates(WANTED)) == [rows["monotone"]]
    assert list(store.candidates(DesignSpec(WANTED.problem, "uniform"))) == []
