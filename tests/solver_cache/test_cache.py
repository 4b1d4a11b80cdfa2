"""Cached answers: keys, validation of rows, lookups."""

from __future__ import annotations

import json
import logging
import math
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import stores
from support.paths import DATA
from support.stores import kept_row, rehashed

import darrm_opt.record
import solver_cache.solve
from darrm_opt import BackendUnavailable, InvalidInput, Privacy, Problem, Solution, verify
from darrm_opt.design.cutting_planes import CuttingPlanes
from darrm_opt.design.objective import Objective, shared
from darrm_opt.design.scenarios import over_scenarios
from darrm_opt.design.solution import Status
from darrm_opt.design.solver import solve
from darrm_opt.record import solution_record
from solver_cache import (
    CORE,
    CachedSolution,
    CacheError,
    DesignSpec,
    Finding,
    Row,
    Store,
    cache_url,
    cached_solve,
    check,
    keep,
    open_store,
    recall,
    validate_row,
)
from solver_cache.database.store import DatabaseStore

PROBLEM = Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4)
REQUEST = DesignSpec(PROBLEM)
ANSWERS = json.loads((DATA / "cached_answers.json").read_text(encoding="utf-8"))


GOOD = kept_row(REQUEST)


def edited(change: Callable[[dict[str, Any]], object], row: Row = GOOD) -> Row:
    return stores.edited(row, change)


def problem_of(case: dict[str, Any]) -> Problem:
    numbers = dict(case["problem"])
    return Problem.from_allowance(**{**numbers, "epsilon": float(numbers["epsilon"])})


# ------------------------------------------------------------------------------------------------ the key


@pytest.mark.parametrize("case", ANSWERS["answers"], ids=lambda case: str(case["objective"]))
def test_changed_answers_need_another_core_version(case: dict[str, Any]) -> None:
    """If this fails for a good reason, raise CORE and record the new answers: else old caches return the old ones."""
    assert ANSWERS["core"] == solver_cache.CORE
    found = cached_solve(problem_of(case), case["objective"], case["shape"], store=open_store("memory")).solution
    assert found.gamma == pytest.approx(case["gamma"], abs=1e-6)
    assert found.utility == pytest.approx(case["utility"], abs=1e-9)


@pytest.mark.parametrize("case", ANSWERS["answers"], ids=lambda case: str(case["objective"]))
def test_keys_are_stable(case: dict[str, Any]) -> None:
    assert DesignSpec(problem_of(case), case["objective"], case["shape"]).key == case["key"]


def test_every_spelling_of_a_question_has_one_key() -> None:
    keys = {
        DesignSpec(Problem.from_allowance(K=11, m=3, epsilon=0.1)).key,
        DesignSpec(Problem.from_allowance(K=11, m=None, epsilon=0.1, target_epsilon=0.3, affected=11)).key,
        DesignSpec(Problem(K=11, voter=Privacy(0.1), target=Privacy(3 * 0.1))).key,
        DesignSpec(Problem(K=11, voter=Privacy(0.30000000000000004 / 3), target=Privacy(0.3, -0.0))).key,
    }
    assert len(keys) == 1
    texts: list[Objective | str] = ["shared(2,5)", " shared( 2.0 , b=5 ) agreement", shared(2, 5)]
    assert len({DesignSpec(PROBLEM, text).key for text in texts}) == 1


def test_everything_that_changes_the_answer_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    voter, target = Privacy(0.1, 1e-5), Privacy(0.3, 3e-5)
    requests = [
        DesignSpec(Problem(11, voter, target)),
        DesignSpec(Problem(12, voter, target)),
        DesignSpec(Problem(11, Privacy(0.100001, 1e-5), target)),
        DesignSpec(Problem(11, Privacy(0.1, 1.00001e-5), target)),
        DesignSpec(Problem(11, voter, Privacy(0.300001, 3e-5))),
        DesignSpec(Problem(11, voter, Privacy(0.3, 3.00001e-5))),
        DesignSpec(Problem(11, voter, target, affected=10)),
        DesignSpec(Problem(11, voter, target), "uniform"),
        DesignSpec(Problem(11, voter, target), "rectangular agreement"),
        DesignSpec(Problem(11, voter, target), "rectangular(tau=51)"),
        DesignSpec(Problem(11, voter, target), shape="monotone"),
    ]
    keys = {request.key for request in requests}
    monkeypatch.setattr(darrm_opt.record, "CORE", solver_cache.CORE + 1)
    keys.add(DesignSpec(Problem(11, voter, target)).key)
    monkeypatch.setattr(darrm_opt.record, "FORMAT", 2)
    keys.add(DesignSpec(Problem(11, voter, target)).key)
    assert len(keys) == len(requests) + 2
    assert all(len(key) == 64 and set(key) <= set("0123456789abcdef") for key in keys)


def test_a_key_draws_no_scenarios() -> None:
    problem = Problem(5001, Privacy(0.1), Privacy(0.3))  # drawing and weighing these would take hours
    request = DesignSpec(problem, "expected_error(scenarios=10000)")
    assert request.key != DesignSpec(problem, "expected_error(scenarios=9999)").key
    with pytest.raises(InvalidInput, match=r"scenarios = '3 voters' is not valid: expected K = 11 probabilities"):
        DesignSpec(PROBLEM, over_scenarios(np.array([[0.1, 0.2, 0.9]])))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("no problem",), r"problem = 'no problem' is not valid: expected a Problem\."),
        ((PROBLEM, "rectangle"), "objective = 'rectangle' is not valid"),
        ((PROBLEM, "histogram(1,2,3)"), r"counts = .* is not valid: expected K\+1 = 12 counts"),
        ((PROBLEM, "uniform", "round"), "shape = 'round' is not valid: expected 'free' or 'monotone'"),
        ((PROBLEM, "uniform", ["free"]), r"shape = \['free'\] is not valid"),
    ],
)
def test_invalid_questions_have_no_key(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        DesignSpec(*arguments)


# ------------------------------------------------------------------------------------- validation of a row


def test_a_row_is_read_bit_for_bit_and_verified() -> None:
    assert validate_row(None, REQUEST) == solver_cache.Validation("miss")
    found = validate_row(GOOD, REQUEST)
    assert found.decision == "hit"
    assert found.reason == ""
    assert found.solution is not None
    assert found.solution.gamma.tolist() == json.loads(GOOD.record)["gamma"]
    assert solution_record(found.solution) == json.loads(GOOD.record)
    assert found.solution.certificate.bound >= verify(PROBLEM, found.solution.gamma).bound
    assert validate_row(GOOD) == found


def scaled_gamma(record: dict[str, Any]) -> None:
    record["gamma"] = [min(1.0, value * (1 + 1e-6)) for value in record["gamma"]]


def uneven_gamma(record: dict[str, Any]) -> None:
    record["gamma"][0] = math.nextafter(record["gamma"][0], 0)


def quieter_gamma(record: dict[str, Any]) -> None:
    record["gamma"] = [value / 2 for value in record["gamma"]]  # private, but not the optimum


def at(record: Any, path: Sequence[Any]) -> Any:
    """Return the parent of the last name of a path."""
    return reduce(operator.getitem, path[:-1], record)


def setter(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    return lambda record: at(record, path).__setitem__(path[-1], to)


def without(*path: str) -> Callable[[dict[str, Any]], None]:
    return lambda record: at(record, path).__delitem__(path[-1])


def bound_beyond_1(record: Any) -> None:
    record.update(upper_bound=2.0, gap=2.0 - record["utility"])


def stopped(record: Any) -> None:
    record.update(status="time limit", advice=Status.TIME_LIMIT.advice)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (scaled_gamma, r"gamma is not private\. Counterexample: .*; δ would have to be .* larger"),
        (uneven_gamma, r"gamma\[0\] = gamma\[11\]"),
        (quieter_gamma, "its certificate does not fit its gamma: bound is"),
        (setter("gamma", to=[1.0] * 12), "gamma is not private"),
        (setter("gamma", to=[0.5] * 11), r"K\+1 = 12 numbers"),
        (setter("gamma", to="0.5"), "its record cannot be read"),
        (setter("gamma", to=None), "its record cannot be read"),
        (setter("gamma", to=[[0.5]] * 12), r"gamma = \[0.5\] is not valid: expected a finite number"),
        (setter("utility", to=0.95), "its utility is 0.9"),
        (setter("utility", to=1), "its utility is 0.9"),
        (setter("upper_bound", to=0.5), "its upper bound 0.5 is not between its utility 0.9"),
        (bound_beyond_1, "its upper bound 2.0 is not between"),
        (setter("upper_bound", to="inf"), "upper_bound = 'inf' is not valid: expected a finite number"),
        (setter("gap", to=-3.0), "gap = -3.0 is not valid: expected .*, to agree with the rest of the record"),
        (setter("approved", to=True), "approved = True is not valid: expected no field of this name"),
        (setter("certificate", "margin", to=0.25), "its certificate does not fit its gamma: margin is"),
        (setter("certificate", "margin", to=[]), r"margin = \[\] is not valid: expected a finite number"),
        (setter("certificate", "bound", to=0.1), "its certificate does not fit its gamma: bound is"),
        (setter("certificate", "limit", to=0.9), "its certificate does not fit its gamma: limit is"),
        (setter("certificate", "method", to="faith"), "its certificate does not fit its gamma: method is"),
        (without("certificate", "worst_corners"), "its record cannot be read"),
        (setter("certificate", to=[]), "its record cannot be read"),
        (setter("problem", "K", to=12), "its record cannot be read"),
        (setter("problem", "epsilon", to=0.05), "its record cannot be read: m = "),
        (setter("problem", "Delta", to=0.0), "it answers another question"),
        (setter("problem", "target_epsilon", to=0.3), "its record cannot be read: m = "),
        (setter("problem", "delta", to=0.5), "it answers another question"),
        (setter("problem", "affected", to=10), "it answers another question"),
        (setter("problem", to=None), "its record cannot be read"),
        (setter("objective", to="uniform"), "it answers another question"),
        (setter("objective", to="nonsense"), "its record cannot be read: objective = 'nonsense'"),
        (setter("shape", to="monotone"), "it answers another question"),
        (setter("shape", to={}), "shape = {} is not valid"),
        (stopped, "its status is 'time limit': solving again may improve it"),
        (setter("status", to="time limit"), "advice = .* is not valid"),
        (setter("status", to="perfect"), "its record cannot be read"),
        (setter("method", to=7), "method = 7 is not valid: expected a text"),
        (setter("statistics", "rows", to=True), "rows = True is not valid"),
        (setter("statistics", "seconds", to=[1.0]), r"seconds = \[1\.0\] is not valid: expected an object"),
        (without("backend"), "The record lacks this field"),
    ],
)
def test_a_tampered_record_is_damaged_even_if_its_hash_fits(change: Callable[[Any], None], reason: str) -> None:
    found = validate_row(edited(change), REQUEST)
    assert found.decision == "damaged"
    assert found.solution is None
    with pytest.raises(ValueError, match=reason):
        raise ValueError(found.reason)


def test_a_gamma_that_is_not_monotone_is_refused_as_monotone() -> None:
    problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)  # its free optimum is not monotone
    free = kept_row(DesignSpec(problem))
    found = validate_row(edited(setter("shape", to="monotone"), free), DesignSpec(problem, shape="monotone"))
    assert (found.decision, found.reason) == ("damaged", "its gamma is not monotone")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (edited(setter("format", to=0)), "its record has format 0; this program reads 1"),
        (edited(without("format")), "its record has format None; this program reads 1"),
        (replace(GOOD, core=0), f"it was written by version 0 of the answers; this is {CORE}"),
        (replace(GOOD, core=CORE + 1), f"it was written by version {CORE + 1} of the answers; this is {CORE}"),
    ],
)
def test_another_version_is_stale(row: Row, reason: str) -> None:
    found = validate_row(row, REQUEST)
    assert (found.decision, found.reason) == ("stale", reason)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("hashed", [False, True])
def test_a_truncated_record_is_damaged(share: float, hashed: bool) -> None:
    short = GOOD.record[: int(share * len(GOOD.record))]
    row = rehashed(GOOD, short) if hashed else replace(GOOD, record=short)
    found = validate_row(row, REQUEST)
    assert found.decision == "damaged"
    assert ("its text is not JSON" if hashed else "its text does not match its SHA-256") in found.reason


@pytest.mark.parametrize("record", ["null", "[]", "7", '"text"', "[" * 100_000, "NaN", '{"format": 1}', "1" * 5000])
def test_any_other_json_is_damaged(record: str) -> None:
    assert validate_row(rehashed(GOOD, record), REQUEST).decision == "damaged"


def leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for name, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from leaves(child, (*path, name))


PATHS = [path for path in leaves(json.loads(GOOD.record)) if path]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(PATHS), VALUES)
def test_any_hit_is_private(path: tuple[Any, ...], value: Any) -> None:
    record = json.loads(GOOD.record)
    at(record, path)[path[-1]] = value
    found = validate_row(rehashed(GOOD, json.dumps(record)), REQUEST)
    if found.decision == "hit":
        assert found.solution is not None
        assert found.solution.problem == PROBLEM
        assert verify(PROBLEM, found.solution.gamma).margin >= 0
        json.dumps(solution_record(found.solution), allow_nan=False)


@given(st.integers(0, len(GOOD.record) - 1), st.characters(codec="utf-8"))
def test_any_changed_letter_is_detected(place: int, letter: str) -> None:
    record = GOOD.record[:place] + letter + GOOD.record[place + 1 :]
    assert validate_row(replace(GOOD, record=record), REQUEST).decision == (
        "hit" if record == GOOD.record else "damaged"
    )


# ------------------------------------------------------------------------------------------- lookup, solve, store


def test_the_second_answer_is_the_first_bit_for_bit(store: Store) -> None:
    first = cached_solve(PROBLEM, store=store)
    second = cached_solve(PROBLEM, store=store, method="enumerate", backend="cvxpy")
    assert (first.decision, first.hit, first.stored, first.trouble) == ("miss", False, True, "")
    assert (second.decision, second.hit, second.stored, second.trouble) == ("hit", True, True, "")
    assert second.solution.gamma.tobytes() == first.solution.gamma.tobytes()
    assert second.solution == replace(first.solution, certificate=second.solution.certificate)
    assert store.hits.counts == {"hit": 1, "miss": 1, "damaged": 0, "stale": 0}
    assert list(check(store)) == []


@pytest.mark.parametrize(
    "problem",
    [
        Problem(11, Privacy(math.inf), Privacy(0.2676, 0.0003), affected=1),
        Problem(7, Privacy(0.0, 0.1), Privacy(0.0, 0.05)),
        Problem(8, Privacy(1 / 3, 1e-7), Privacy(1 / 7, 1e-9)),
        Problem(1, Privacy(1.0), Privacy(1e-300)),
    ],
)
def test_extreme_problems_are_stored(problem: Problem, store: Store) -> None:
    first, second = (cached_solve(problem, "shared(0.5,0.5)", "monotone", store=store) for _ in range(2))
    assert (first.decision, second.decision) == ("miss", "hit")
    assert second.solution.gamma.tobytes() == first.solution.gamma.tobytes()
    assert second.solution.warnings == first.solution.warnings


BAD_ROWS = [(edited(scaled_gamma), "damaged"), (replace(GOOD, record="{"), "damaged"), (replace(GOOD, core=0), "stale")]


@pytest.mark.parametrize(("bad", "decision"), BAD_ROWS)
def test_a_bad_row_is_reported_and_replaced(
    store: Store, bad: Row, decision: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(bad)
    assert [finding.key for finding in check(store)] == [REQUEST.key]
    with caplog.at_level(logging.WARNING, logger="solver_cache"):
        answer = cached_solve(PROBLEM, store=store)
    assert (answer.decision, answer.hit, answer.stored) == (decision, False, True)
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"{store.url}: row {REQUEST.key} is {decision} and counts as a miss: ")
    assert store.get(REQUEST.key) != bad
    assert cached_solve(PROBLEM, store=store).hit
    assert list(check(store)) == []
    assert store.hits.counts == {"hit": 1, "miss": 0, "damaged": 0, "stale": 0} | {decision: 1}


@pytest.mark.parametrize(("bad", "decision"), BAD_ROWS[::2])
def test_answers_solved_elsewhere_replace_invalid_rows(store: Store, bad: Row, decision: str) -> None:
    store.put(bad)
    answer = keep(solve(PROBLEM), store)
    assert (answer.decision, answer.stored) == (decision, True)
    assert cached_solve(PROBLEM, store=store).hit


@pytest.mark.parametrize("status", [Status.SEARCH_LIMIT, Status.ROUNDING_LIMIT])
def test_an_answer_at_the_provable_limit_is_stored(
    store: Store, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Solving again would stop at the same limit, with any time."""
    monkeypatch.setattr(
        solver_cache.solve, "solve", lambda *asked, **choices: replace(solve(*asked, **choices), status=status)
    )
    first, second = cached_solve(PROBLEM, store=store), cached_solve(PROBLEM, store=store)
    assert (first.stored, first.solution.status, first.decision) == (True, status, "miss")
    assert (second.decision, solution_record(second.solution)) == ("hit", solution_record(first.solution))


def test_a_monotone_answer_at_a_time_limit_is_not_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """K > 120 with a mean of more than 64 voters away from the ends: no other stage would detect the time limit."""
    problem = Problem.from_allowance(121, 3, 0.1, 0.55)
    with monkeypatch.context() as patched:
        patched.setattr(CuttingPlanes, "_maximise", lambda self, *_: (Status.TIME_LIMIT, self.incumbent, 1.0))
        cut_short = cached_solve(problem, store=store, time_limit=1.0)
    assert (cut_short.solution.status, cut_short.stored) == (Status.TIME_LIMIT, False)
    assert store.get(DesignSpec(problem, "rectangular", "free").key) is None


@pytest.mark.parametrize(
    "answered", [partial(cached_solve, PROBLEM, time_limit=1e-9), partial(keep, solve(PROBLEM, time_limit=1e-9))]
)
def test_an_answer_at_a_time_limit_is_returned_but_not_stored(
    store: Store, answered: Callable[..., CachedSolution[Solution]]
) -> None:
    answer = answered(store=store)
    assert answer.solution.status is Status.TIME_LIMIT
    assert (answer.decision, answer.stored) == ("miss", False)
    assert verify(PROBLEM, answer.solution.gamma).margin >= 0
    assert list(store.rows()) == []
    assert cached_solve(PROBLEM, store=store).stored


def test_an_interrupted_solve_stores_nothing(store: Store) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_solve(PROBLEM, store=store, progress=interrupt)
    assert list(store.rows()) == []


def test_recall_solves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert recall(REQUEST, store) is None
    kept = cached_solve(PROBLEM, store=store).solution
    monkeypatch.setattr(solver_cache.solve, "solve", None)
    recalled = recall(REQUEST, store)
    assert recalled is not None
    assert recalled.gamma.tobytes() == kept.gamma.tobytes()


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"method": "guess"}, "method = 'guess' is not valid: expected 'auto', 'enumerate' or 'cuts'"),
        ({"backend": "abacus"}, "backend = 'abacus' is not valid: expected one of highs, gurobi, "),
        ({"time_limit": 0.0}, "time_limit = 0.0 is not valid: expected seconds above 0"),
        ({"time_limit": math.nan}, "time_limit = nan is not valid"),
        ({"time_limit": "1"}, "time_limit = '1' is not valid: expected seconds above 0"),
        ({"shape": "round"}, "shape = 'round' is not valid"),
        ({"objective": "histogram(1,2)"}, "counts = .* is not valid"),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_invalid_choices_are_refused_even_for_stored_answers(choice: dict[str, Any], text: str, kept: bool) -> None:
    store = open_store("memory")
    if kept:
        store.put(GOOD)
    with pytest.raises(InvalidInput, match=text):
        cached_solve(PROBLEM, store=store, **choice)


def test_a_missing_solver_is_an_error_and_stores_nothing(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gurobipy", None)
    with pytest.raises(BackendUnavailable, match="gurobi"):
        cached_solve(PROBLEM, backend="gurobi", store=store)
    assert list(store.rows()) == []


class FullStore(DatabaseStore):
    """A store on a full disk."""

    def put(self, row: Row, replacing: Row | None = None, clients: Collection[str] = ()) -> Row:  # noqa: ARG002 — all fail
        raise CacheError(self.url, "database or disk is full", "Make room there.")


@pytest.mark.parametrize("answered", [partial(cached_solve, PROBLEM), partial(keep, solve(PROBLEM))])
def test_an_answer_that_cannot_be_stored_is_returned(
    answered: Callable[..., CachedSolution[Solution]], caplog: pytest.LogCaptureFixture
) -> None:
    answer = answered(store=FullStore("memory"))
    assert not answer.stored
    assert answer.trouble == "The cache at memory cannot be used: database or disk is full. Make room there."
    assert "is not stored: The cache at memory cannot be used" in caplog.text
    assert answer.solution.certificate.margin >= 0


class CrowdedStore(DatabaseStore):
    """A store in which another process is always slightly faster."""

    def __init__(self, theirs: Row) -> None:
        super().__init__("memory")
        self.theirs = theirs

    def get(self, key: str) -> Row | None:  # noqa: ARG002 — empty at each look-up
        return None

    def put(self, row: Row, replacing: Row | None = None, clients: Collection[str] = ()) -> Row:  # noqa: ARG002 — the first
        return self.theirs


def test_concurrent_solves_return_the_first_valid_answer() -> None:
    theirs = edited(setter("backend", to="gurobi"))
    answer = cached_solve(PROBLEM, store=CrowdedStore(theirs))
    assert (answer.solution.backend, answer.decision, answer.stored) == ("gurobi", "miss", True)
    answer = cached_solve(PROBLEM, store=CrowdedStore(edited(scaled_gamma)))
    assert not answer.stored
    assert verify(PROBLEM, answer.solution.gamma).margin >= 0


def test_an_answer_that_fails_validation_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def boastful(*arguments: Any, **options: Any) -> Any:
        return replace(solve(*arguments, **options), utility=0.99)

    monkeypatch.setattr(solver_cache.solve, "solve", boastful)
    store = open_store("memory")
    answer = cached_solve(PROBLEM, store=store)
    assert not answer.stored
    assert answer.trouble.startswith("it fails its own validation: its utility is 0.9")
    assert list(store.rows()) == []


def test_check_lists_every_defect() -> None:
    store = open_store("memory")
    store.put(GOOD)
    other = DesignSpec(PROBLEM, "uniform")
    store.put(replace(GOOD, key="0" * 64))
    store.put(replace(kept_row(other), digest=""))
    assert list(check(store)) == sorted(
        [
            Finding("0" * 64, "damaged: it is stored under the key of another question"),
            Finding(other.key, "damaged: its text does not match its SHA-256"),
        ],
        key=lambda finding: finding.key,
    )


def test_the_default_location_is_the_users_cache() -> None:
    assert cache_url({"DARRM_CACHE_URL": "postgresql+psycopg://host/name"}) == "postgresql+psycopg://host/name"
    assert cache_url({}) == cache_url({"DARRM_CACHE_URL": "  "})
    assert cache_url({}).startswith("sqlite:////")
    assert cache_url({}).endswith("/darrm-opt/cache.sqlite")


def test_answers_solved_elsewhere_are_stored(store: Store) -> None:
    mine = solve(PROBLEM)
    answer = keep(mine, store)
    assert (answer.decision, answer.stored, answer.trouble) == ("miss", True, "")
    assert keep(replace(mine, backend="gurobi"), store).solution.backend == mine.backend  # the first one stays
    assert keep(mine, store).decision == "hit"
    assert set(store.hits.counts.values()) == {0}
    assert cached_solve(PROBLEM, store=store).hit
