"""Table backend: a service's answers from a table file, without solving.

What needs only stored designs (curves, profiles, proofs) is computed here, by the functions that the service uses.
"""

from __future__ import annotations

import json
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from darrm_client.errors import (
    AnswerNotFound,
    ClientError,
    Deadline,
    DeadlineExceeded,
    ServiceBusy,
    ServiceFailed,
    ServiceUnreachable,
)
from darrm_client.http_backend import HttpBackend, Transport
from darrm_client.jobs import job_path
from darrm_opt.answers.tables import stored_table
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.record import (
    CORE,
    DesignSpec,
    problem_from_record,
    solution_from_record,
    solution_record,
)
from darrm_opt.tables.record import KIND, TableSpec, table_solution_record
from darrm_opt.tables.solver import TableSolution
from solver_cache.model import SHAPES, Row, SearchColumns, row_of, search_columns
from solver_cache.nearest import nearest
from solver_cache.solve import recall
from solver_cache.store import NoStore, Store, open_store
from solver_cache.table_entries import TableError
from solver_cache.validate import validate_row

if TYPE_CHECKING:
    from darrm_opt.questions.question import Question

_LOG = logging.getLogger("darrm_client")


class TableRows(NoStore):
    """Rows of a file, in memory; read-only, and without a database, which a training job need not have."""

    def __init__(self, path: Path, rows: Iterable[Row]) -> None:
        super().__init__()
        self.url = str(path)
        self._rows: dict[str, Row] = {}
        for row in rows:
            self._rows.setdefault(row.key, row)

    def get(self, key: str) -> Row | None:
        return self._rows.get(key)

    def rows(self, after: str = "") -> Iterator[Row]:
        return (self._rows[key] for key in sorted(self._rows) if key > after)

    def candidates(self, spec: DesignSpec, client: str | None = None) -> Iterator[Row]:  # noqa: ARG002 — of a store
        asked = self._questions.get((spec.problem.K, str(spec.objective)), ())
        fits = [(columns.utility, row.key) for columns, row in asked if columns.answers(spec)]
        return (self._rows[key] for _, key in sorted(fits, reverse=True))

    @cached_property
    def _questions(self) -> dict[tuple[int, str], list[tuple[SearchColumns, Row]]]:
        """Rows of this version and their questions, by voters and objective."""
        found = defaultdict(list)
        for row in self._rows.values():
            if row.core == CORE and (columns := row.columns or search_columns(row.record)) is not None:
                found[columns.voters, columns.objective].append((columns, row))
        return found


MAX_LOOKED_AT = 10_000  # rows searched for the nearest one, for an error message


def _near(spec: DesignSpec, store: Store) -> str:
    """Return, in words, the row of a table for as many voters that differs least from the question."""
    asked = {
        "epsilon": spec.problem.voter.epsilon,
        "Delta": spec.problem.voter.delta,
        "affected": spec.problem.affected,
        "target_epsilon": spec.problem.target.epsilon,
        "delta": spec.problem.target.delta,
    }

    def numbers(one: SearchColumns) -> dict[str, float]:
        values = (one.voter_epsilon, one.voter_delta, one.affected, one.target_epsilon, one.target_delta)
        return dict(zip(asked, values, strict=True))

    def differences(one: SearchColumns) -> tuple[int, float]:
        pairs = [(asked[name], value) for name, value in numbers(one).items() if asked[name] != value]
        # Scales differ, so the ratio counts; 0 counts as 1e-12.
        ratios = [abs(math.log(max(value, 1e-12) / max(number, 1e-12))) for number, value in pairs]
        return len(pairs) + (one.objective != str(spec.objective)) + (one.shape != spec.shape), sum(ratios)

    # bounds the time for a large table
    rows = (row.columns or search_columns(row.record) for row in islice(store.rows(), MAX_LOOKED_AT))
    designs = [one for one in rows if one is not None and one.shape in SHAPES]
    alike = [one for one in designs if one.voters == spec.problem.K]
    if not alike:
        voters = sorted({one.voters for one in designs})
        return f"The table has answers for K = {', '.join(map(str, voters[:10]))}{', …' * (len(voters) > 10)}."
    nearest_one = min(alike, key=differences)
    text = ", ".join(f"{name} = {value:g}" for name, value in numbers(nearest_one).items())
    return f"The nearest in the table: K = {spec.problem.K}, {text}, {nearest_one.objective}, {nearest_one.shape}."


class TableBackend:
    """Answers of a store, as a `ClientBackend`. It never waits: a job is done or does not exist."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "gamma": self._gamma,
            "gamma/batch": self._batch,
            "estimate": self._estimate,
        }

    def ask(self, verb: str, body: dict[str, Any], deadline: Deadline) -> Any:
        from darrm_opt.questions.registry import QUESTIONS

        deadline.check()
        return self._answer(QUESTIONS[verb].of(body)) if verb in QUESTIONS else self._answers[verb](body)

    def _answer(self, asked: Question) -> dict[str, Any]:
        """Return the answer to a question, computed here from the designs in the table."""
        from darrm_opt.questions.design import FOUND, Design

        if asked.solves and not asked.designs():
            raise AnswerNotFound("A table cannot solve: use darrm_opt.least_parameter to search locally.")
        if isinstance(needed := asked.needs(), Design):
            answer = self._look_up(needed.spec())
            asked = replace(asked, found={name: answer[name] for name in FOUND})
        elif specs := asked.designs():
            asked = replace(asked, found=[self._look_up(spec) for spec in specs])
        record = asked.record_of(asked.answer(lambda _: None))
        for spec, part in asked.parts(record):
            part |= {"id": spec.key, "cached": True}
        return record

    def call(self, method: str, path: str, body: Any, deadline: Deadline) -> Any:
        deadline.check()
        path, _, query = path.partition("?")
        match [method, *map(unquote, path.split("/")[2:])]:
            case [_, "designs", *_]:
                raise AnswerNotFound("A table has neither tags nor a list of designs: use a service.")
            case [_, "jobs", _, "webhooks"]:
                raise ClientError("A table has no webhooks: every job in it is done.")
            case [_, "jobs", id]:
                return self._job_record(self.result(id, deadline)["id"])
            case ["POST", "jobs"]:
                return self._job_record(self._gamma(body)["id"])
        # the stored answers as finished jobs, on one page
        listed = dict(parse_qsl(query)) in ({}, {"state": "done"})
        return {"jobs": [self._job_record(row.key) for row in self._store.rows()] if listed else [], "next": None}

    def result(self, id: str, deadline: Deadline) -> Any:
        deadline.check()
        row = self._store.get(id)
        solution = None if row is None else validate_row(row).solution
        if solution is None:
            raise AnswerNotFound(f"The table {self._store.url} has no answer with the id {id}.")
        if isinstance(solution, TableSolution):
            return stored_table(id, table_solution_record(solution))
        return {"id": id, "cached": True, "nearest": None, **solution_record(solution)}

    def events(self, id: str, deadline: Deadline) -> Iterator[tuple[str, Any]]:
        yield "done", self.call("GET", job_path(id), None, deadline)

    def close(self) -> None:
        self._store.close()

    def _gamma(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._look_up(_spec(body))

    def _look_up(self, spec: DesignSpec | TableSpec) -> dict[str, Any]:
        """Return the stored answer to a question, or the nearest one that implies it, labelled."""
        solution = recall(spec, self._store)
        if isinstance(solution, TableSolution):
            return table_solution_record(solution)
        if isinstance(spec, TableSpec):
            asked = "this problem" if spec.kind == KIND else "these groups"
            raise AnswerNotFound(
                f"The file {self._store.url} has no table for {asked}: design it locally with darrm_opt.tables.solver."
            )
        if solution is not None:
            return {"id": spec.key, "cached": True, "nearest": None, **solution_record(solution)}
        match = nearest(spec, self._store)
        if match is None:
            fault = f"The table {self._store.url} has no answer to this problem, nor one that implies it."
            raise AnswerNotFound(f"{fault} {_near(spec, self._store)}")
        return {"id": spec.key, "cached": True, **match.record}

    def _batch(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"results": [self._item(problem) for problem in body["problems"]]}

    def _item(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"status": 200, "answer": self._gamma(body), "pending": None, "problem": None}
        except ClientError as err:
            details = {"type": "urn:darrm-opt:problem:not-stored", "status": 404, "detail": str(err)}
            return {"status": 404, "answer": None, "pending": None, "problem": details}

    def _estimate(self, body: dict[str, Any]) -> dict[str, Any]:
        from darrm_opt.answers.running_time import estimate_running_time, estimate_to_dict

        spec = _spec(body)
        stored = self._store.get(spec.key) is not None
        return {**estimate_to_dict(spec, estimate_running_time(spec, body["method"]), stored=stored), "allowed": False}

    @staticmethod
    def _job_record(id: str) -> dict[str, Any]:
        return {"id": id, "state": "done", "progress": None, "reason": ""}


def _spec(body: dict[str, Any]) -> DesignSpec:
    return DesignSpec(problem_from_record(body), body["objective"], body["shape"])


def open_table(path: Path, argument: str = "url") -> Store:
    """Return the rows of a table file, which ``argument`` named."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidInput(argument, path.name, "a file whose name ends in " + ", ".join(READERS))
    if not path.is_file():
        raise InvalidInput(argument, str(path), "a table file that exists")
    return reader(path)


def _database(path: Path) -> Store:
    return open_store(f"sqlite:///{path.absolute()}?mode=ro")


def _export(path: Path) -> Store:
    """Return a table written by ``darrm export``, without inconsistent rows."""
    from solver_cache.table_files import read_table

    def rows() -> Iterator[Row]:
        for entry in read_table(path):
            if entry.row is None:
                _LOG.warning("%s, row %d is skipped: %s", path, entry.number, entry.trouble)
            else:
                yield entry.row

    try:
        return TableRows(path, rows())
    except TableError as err:
        raise InvalidInput("url", str(path), "a table written by darrm export", str(err)) from err


def _lines(path: Path) -> Store:
    """Return a table in JSON Lines, or a file of records."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return _records(path)
    return _export(path) if isinstance(head, dict) and "table" in head else _records(path)


def _records(path: Path) -> Store:
    """Return records printed by ``darrm solve --json``, one after another, each on one or several lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as err:
        raise InvalidInput("url", str(path), "a file of records in UTF-8", str(err)) from err

    def rows() -> Iterator[Row]:
        for line, record in _documents(text, path):
            try:
                yield row_of(solution_from_record(record))
            except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
                _LOG.warning("%s, line %d: skipped, because it is not a record of a solution: %s", path, line, err)

    return TableRows(path, rows())


def _documents(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the JSON documents of a text, with their first line numbers."""
    decoder, position, line, line_position = json.JSONDecoder(), 0, 1, 0
    while True:
        position = next((i for i in range(position, len(text)) if not text[i].isspace()), len(text))
        if position == len(text):
            return
        line, line_position = line + text.count("\n", line_position, position), position
        try:
            document, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as err:
            raise InvalidInput(
                "url", str(path), "JSON records printed by darrm solve --json", f"Line {line}: {err}."
            ) from err
        yield line, document


READERS: dict[str, Callable[[Path], Store]] = {
    **dict.fromkeys((".sqlite", ".sqlite3", ".db"), _database),
    **dict.fromkeys((".parquet", ".pq", ".csv"), _export),
    **dict.fromkeys((".jsonl", ".ndjson"), _lines),
    ".json": _records,
}
"""Readers by file name extension."""


class FallbackBackend(HttpBackend):
    """A service, with a table for when the service fails; the client proves both alike."""

    def __init__(self, transport: Transport, store: Store) -> None:
        super().__init__(transport)
        self._table = TableBackend(store)

    def ask(self, verb: str, body: dict[str, Any], deadline: Deadline) -> Any:
        """Return the service's answer, or the table's if the service is unreachable, busy, late or failing."""
        try:
            return super().ask(verb, body, deadline)
        except (ServiceUnreachable, ServiceBusy, ServiceFailed, DeadlineExceeded) as err:
            try:
                answer = self._table.ask(verb, body, deadline)
            except ClientError as missing:
                raise err from missing  # the caller can act on the service's error
            _LOG.warning("%s The answer to %s comes from the table.", err, verb)
            return answer

    def close(self) -> None:
        super().close()
        self._table.close()
