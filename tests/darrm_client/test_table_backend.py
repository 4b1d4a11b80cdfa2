"""The client without a service: the same interface over a table file, with verified answers."""

from __future__ import annotations

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.refusals import refused

from darrm_client import AnswerNotFound, ClientError, DarrmClient, ServiceUnreachable, VerifiedAnswer
from darrm_opt import InvalidInput, NotPrivate, Privacy, Problem, Solution, solve, verify
from darrm_opt.answers import design
from darrm_opt.bagging import Bags
from darrm_opt.planning import plan
from darrm_opt.problem import NOT_PRIVATE
from darrm_opt.questions.cost import Cost
from darrm_opt.questions.least import Least
from darrm_opt.questions.plan import ReleasePlan, plan_record
from darrm_opt.questions.table import Plurality, TableQuestion
from darrm_opt.questions.tradeoff import TradeoffQuestion
from darrm_opt.record import solution_record
from darrm_opt.release import PrivateVote
from darrm_opt.tables.objective import as_table_objective
from darrm_opt.tables.solver import solve_table
from solver_cache import CacheError, DesignSpec, open_store
from solver_cache.model import row_of
from solver_cache.table_files import write_table

PROBLEM = Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4)
ASKED = design(DesignSpec(PROBLEM))
BAGGED: dict[str, Any] = {"K": 3, "epsilon": "inf", "n": 60, "subsample_size": 6, "replacement": False}
PROBLEMS = [Problem.from_allowance(K=11, m=m, epsilon=0.0892, Delta=1e-4) for m in (1, 2, 3)]
SOLUTIONS: dict[Problem, Solution] = {problem: solve(problem) for problem in PROBLEMS}
MISSING = Problem.from_allowance(K=13, m=3, epsilon=0.0892, Delta=1e-4)


def written(folder: Path, kind: str) -> str:
    """Write three solutions as a table; return its URL."""
    path = folder / f"a table{kind}"
    records = [solution_record(SOLUTIONS[problem]) for problem in PROBLEMS]
    if kind in {".sqlite", ".db"}:
        store = open_store(f"sqlite:///{path}")
        for problem in PROBLEMS:
            store.put(row_of(SOLUTIONS[problem]))
        store.close()
    elif kind == ".jsonl":
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    else:
        path.write_text("".join(json.dumps(record, indent=2) for record in records))  # as printed, one after the other
    return path.as_uri()


@pytest.fixture(params=[".sqlite", ".jsonl", ".json"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return written(tmp_path, request.param)


def test_an_answer_of_the_table_is_that_of_the_solver(table: str) -> None:
    with DarrmClient(table) as client:
        for problem in PROBLEMS:
            found = client.gamma(problem)
            assert found.gamma.tolist() == SOLUTIONS[problem].gamma.tolist()
            assert (found.exact, found.cached, found.id) == (True, True, DesignSpec(problem).key)
            assert found.certificate.bound >= verify(problem, found.gamma).bound


def test_the_environment_selects_the_table(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_URL", table)
    with DarrmClient() as client:
        assert client.gamma(PROBLEM).utility == SOLUTIONS[PROBLEM].utility


def test_the_error_of_a_missing_answer_names_the_table_and_its_contents(table: str) -> None:
    with DarrmClient(table) as client:
        said = r"a table\.[a-z?=]+ has no answer to this problem.* The table has answers for K = 11\.$"
        with pytest.raises(AnswerNotFound, match=said):
            client.gamma(MISSING)
        near = (
            "The nearest in the table: K = 11, epsilon = 0.0892, Delta = 0.0001, affected = 11, target_epsilon = 0.26"
        )
        with pytest.raises(AnswerNotFound, match=near):
            client.gamma(Problem.from_allowance(K=11, m=2.9, epsilon=0.0895, Delta=1e-4))
        found = client.batch([PROBLEM, MISSING, DesignSpec(PROBLEM, "uniform")])
        assert [type(one) for one in found] == [VerifiedAnswer, AnswerNotFound, AnswerNotFound]
        with pytest.raises(AnswerNotFound):
            client.jobs.submit(MISSING)
        with pytest.raises(AnswerNotFound, match="no answer with the id"):
            client.jobs.get("0" * 64)


def test_the_nearest_answer_is_returned_and_labelled(table: str) -> None:
    between = Problem.from_allowance(K=11, m=2.5, epsilon=0.0892, Delta=1e-4)
    with DarrmClient(table) as client:
        found = client.gamma(between)
        assert (found.exact, found.designed_for, found.problem) == (False, PROBLEMS[1], between)
        assert found.utility == pytest.approx(SOLUTIONS[PROBLEMS[1]].utility, abs=1e-9)
        assert found.certificate.bound >= verify(between, found.gamma).bound
        assert found.upper_bound == 1
        assert any("nearest stored answer" in text for text in found.warnings)
        weaker = Problem.from_allowance(K=11, m=2.5, epsilon=0.08, Delta=1e-4)
        assert client.gamma(weaker).designed_for in PROBLEMS
        with pytest.raises(AnswerNotFound):  # no stored answer is as private
            client.gamma(Problem.from_allowance(K=11, m=0.5, epsilon=0.0892, Delta=1e-4))
        traded = client.ask(TradeoffQuestion.of(ASKED | {"delta": None, "ms": [2.0, 2.5]}))
        assert traded.points[0].utility == pytest.approx(traded.points[1].utility)


def test_a_monotone_answer_is_returned_for_a_free_question(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text(json.dumps(solution_record(solve(PROBLEM, shape="monotone"))))
    with DarrmClient(path.as_uri()) as client:
        assert client.gamma(PROBLEM, shape="monotone").exact
        found = client.gamma(PROBLEM)
        assert (found.exact, found.designed_for) == (False, PROBLEM)


def test_the_table_has_the_whole_interface_of_the_service(table: str) -> None:
    with DarrmClient(table) as client:
        traded = client.ask(TradeoffQuestion.of(ASKED | {"delta": None, "ms": [1.0, 2.0, 3.0]}))
        assert [point.utility for point in traded.points] == [SOLUTIONS[problem].utility for problem in PROBLEMS]
        assert [point.problem for point in traded.points] == PROBLEMS
        assert client.verify(PROBLEM, SOLUTIONS[PROBLEM].gamma).margin >= 0
        with pytest.raises(NotPrivate):
            client.verify(PROBLEM, [1.0] * 12)
        estimate = client.estimate(PROBLEM)
        assert (estimate.stored, estimate.seconds, estimate.allowed) == (True, 0, False)
        assert client.estimate(MISSING).seconds > 0
        job = client.jobs.submit(PROBLEM)
        assert job.over
        assert client.jobs.get(job.id) == client.jobs.cancel(job.id) == job
        assert client.jobs.wait(PROBLEM).utility == SOLUTIONS[PROBLEM].utility
        assert {seen.id for seen in client.jobs.list()} == {DesignSpec(problem).key for problem in PROBLEMS}
        assert [name for name, _ in client.jobs.events(job.id)] == ["done"]


def test_a_plan_of_bagged_voters_needs_no_table(tmp_path: Path) -> None:
    """It equals that of `plan`; at a very short time limit the quick options remain, with a warning."""
    total, bags = Privacy(2.0, 0.01), Bags(60, 6, replacement=False)
    asked = BAGGED | {"total_epsilon": 2.0, "total_delta": 0.01}
    with DarrmClient(written(tmp_path, ".jsonl")) as client:
        told = client.ask(ReleasePlan.of(asked | {"queries": 2, "least_accuracy": 0.55}))
        hurried = client.ask(ReleasePlan.of(asked | {"queries": 50, "time_limit": 1e-6}))
    own = plan(3, None, 2, total, bags=bags, least_accuracy=0.55)
    assert plan_record(told) == plan_record(own)
    assert told.question == own.question
    assert any("time limit of 1e-06 s was reached" in warning for warning in hurried.warnings)
    assert not any(option.fits for option in hurried.options)


def test_a_read_only_table_is_read(tmp_path: Path) -> None:
    url = written(tmp_path, ".sqlite")
    before = sorted(path.name for path in tmp_path.iterdir())
    tmp_path.chmod(0o500)
    try:
        with DarrmClient(url) as client:
            assert client.gamma(PROBLEM).exact
        assert sorted(path.name for path in tmp_path.iterdir()) == before
    finally:
        tmp_path.chmod(0o700)


def test_an_altered_row_is_not_used(tmp_path: Path) -> None:
    record = solution_record(SOLUTIONS[PROBLEM])
    record["gamma"] = [1.0] * 12
    record["utility"] = record["upper_bound"] = 1.0
    path = tmp_path / "table.jsonl"
    path.write_text(json.dumps(record))
    with DarrmClient(path.as_uri()) as client, pytest.raises(AnswerNotFound):
        client.gamma(PROBLEM)
    url = written(tmp_path, ".sqlite")
    with sqlite3.connect(tmp_path / "a table.sqlite") as database:
        database.execute("UPDATE darrm_solutions SET record = replace(record, '0.', '0.1')")
    database.close()
    with DarrmClient(url) as client, pytest.raises(AnswerNotFound):
        client.gamma(PROBLEM)


def test_invalid_lines_are_skipped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "table.jsonl"
    good = json.dumps(solution_record(SOLUTIONS[PROBLEM]))
    other: Any = {**solution_record(SOLUTIONS[PROBLEM]), "format": 99}
    path.write_text(f'{{"votes": 3}}\n\n{good}\n[]\n{json.dumps(other)}\n')
    with caplog.at_level(logging.WARNING), DarrmClient(path.as_uri()) as client:
        assert client.gamma(PROBLEM).exact
    assert [line for line in (1, 4, 5) if f"line {line}: skipped, because it is not a record" not in caplog.text] == []


@pytest.mark.parametrize(
    ("name", "content", "error", "text"),
    [
        ("table.txt", b"", InvalidInput, r"ends in \.sqlite"),
        ("gone.jsonl", None, InvalidInput, "a table file that exists"),
        ("gone.sqlite", None, InvalidInput, "a table file that exists"),
        ("cut.jsonl", b'{"format": 1, "prob', InvalidInput, r"Line 1: Unterminated"),
        ("bytes.jsonl", b"\xff\xfe", InvalidInput, "in UTF-8"),
        ("deep.jsonl", b"[" * 100_000, InvalidInput, "Line 1"),
        ("text.sqlite", b"this is no database, and long enough to be read" * 9, CacheError, "not a database"),
    ],
)
def test_invalid_table_files_are_refused(
    tmp_path: Path, name: str, content: bytes | None, error: type[Exception], text: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=text):
        DarrmClient(path.as_uri())


def test_an_empty_table_has_no_answers(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    with DarrmClient(path.as_uri()) as client:
        with pytest.raises(ClientError):
            client.gamma(PROBLEM)
        assert list(client.jobs.list()) == []


def test_the_error_of_an_unsupported_call_names_it(tmp_path: Path) -> None:
    place = tmp_path / "table.jsonl"
    place.write_text(json.dumps(solution_record(solve(Problem.from_allowance(K=3, m=1, epsilon=0.1)))))
    with DarrmClient(place.as_uri()) as client:
        with pytest.raises(AnswerNotFound, match="least_parameter to search locally"):
            client.ask(Least(K=3, epsilon=0.1, utility=0.5))
        with pytest.raises(AnswerNotFound, match="A table has neither tags"):
            list(client.designs.list())


CLASSES = Problem(3, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3)
OF_CLASSES = Plurality(K=3, classes=3, affected=1, target_epsilon=1.0, delta=1e-3, prior="dirichlet(2)")
GROUPS = Problem(groups=[(2, 0.1), (1, 0.7)], target=Privacy(0.6))
WEIGHTED = [{"K": 2, "epsilon": 0.1}, {"K": 1, "epsilon": 0.7, "weight": 2.0}]
OF_GROUPS = TableQuestion.of({"groups": WEIGHTED, "target_epsilon": 0.6, "objective": "dirichlet(2)"})


@pytest.mark.parametrize(
    ("problem", "objective", "asked", "whose"),
    [
        (CLASSES, "dirichlet(2)", OF_CLASSES, "this problem"),
        (GROUPS, as_table_objective("dirichlet(2)", weights=[1.0, 2.0]), OF_GROUPS, "these groups"),
    ],
)
def test_a_table_file_answers_for_classes_and_for_groups(
    problem: Problem, objective: Any, asked: Any, whose: str, tmp_path: Path
) -> None:
    place, own = tmp_path / "tables.jsonl", solve_table(problem, objective)
    write_table(place, [row_of(own)])
    with DarrmClient(place.as_uri()) as client:
        told = client.ask(asked)
        assert told.cached
        assert (told.table, told.utility, told.certificate) == (own.table, own.utility, own.certificate)
        assert PrivateVote(told).mechanism.fits(problem.target, 1)
        with pytest.raises(AnswerNotFound, match=f"has no table for {whose}"):
            client.ask(type(asked).of(asked.record() | {"prior": "dirichlet(3)", "objective": "dirichlet(3)"}))
        cost = client.ask(Cost(mechanism="laplace", K=11, queries=20, total_epsilon=1.0, total_delta=1e-5))
        assert cost.mechanism.epsilon(20, 1e-5) == cost.epsilon <= 1.0


def test_a_table_answers_if_the_service_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    away, table = "http://127.0.0.1:1", written(tmp_path, ".jsonl")
    with DarrmClient(away, retries=0, fallback=table) as client, caplog.at_level(logging.WARNING, "darrm_client"):
        answer = client.gamma(PROBLEM)
        assert (answer.exact, answer.gamma.tolist()) == (True, SOLUTIONS[PROBLEM].gamma.tolist())
        assert "The answer to gamma comes from the table" in caplog.text
        with pytest.raises(ServiceUnreachable):
            client.gamma(MISSING)
        with pytest.raises(ServiceUnreachable):
            client.jobs.submit(PROBLEM)
    for url, fallback in ((table, table), (away, away), (away, "file:///no/such/table.csv"), (away, table + "x")):
        with refused("fallback"):
            DarrmClient(url, fallback=fallback)
