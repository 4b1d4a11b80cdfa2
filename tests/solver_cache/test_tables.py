"""Table files: byte-identical round trips; changed rows are refused with their number and the reason."""

from __future__ import annotations

import csv
import json
import math
import os
import random
import re
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.csv  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from support.darrm_runner import run
from support.refusals import refused as refused_input
from support.stores import edited, setting

from darrm_client import AnswerNotFound, DarrmClient
from darrm_opt import Privacy, Problem, verify
from solver_cache import DesignSpec, Row, Store, cached_solve, open_store, table_files, validate_row
from solver_cache.process_pool import ProcessLost, map_in_processes
from solver_cache.table_entries import COLUMNS, Entry, ExportableRows, ImportResult, TableError, columns_of, import_rows
from solver_cache.table_files import FORMATS, format_of, read_table, write_table

PROBLEMS = [
    *(Problem.from_allowance(K=K, m=m, epsilon=0.1, Delta=1e-5) for K in (5, 6) for m in (1, 2)),
    Problem(11, Privacy(float("inf")), Privacy(0.3, 1e-4), affected=2),
    Problem(7, Privacy(0.0, 1e-3), Privacy(0.1, 1e-2)),
]
NAMES = [*FORMATS]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    store = open_store("memory")
    for problem in PROBLEMS:
        for objective, shape in (("rectangular", "free"), ("shared(1,1) agreement", "monotone")):
            cached_solve(problem, objective, shape, store=store)  # type: ignore[arg-type]
    return [*store.rows()]


def imported(path: Path, name: str | None = None) -> tuple[Store, list[ImportResult]]:
    store = open_store("memory")
    return store, [*import_rows(read_table(path, name), store)]


@pytest.mark.parametrize("name", NAMES)
def test_round_trips_are_byte_identical(tmp_path: Path, name: str, rows: list[Row]) -> None:
    first, second = tmp_path / f"first.{name}", tmp_path / f"second.{name}"
    assert write_table(first, rows) == len(rows) == 12
    store, became = imported(first)
    assert {one.became for one in became} == {"new"}
    assert [*store.rows()] == rows
    write_table(second, store.rows())
    assert first.read_bytes() == second.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {first.name, second.name}  # no other file is left
    assert {one.became for one in import_rows(read_table(first), store)} == {"known"}


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_table_round_trips(tmp_path: Path, name: str) -> None:
    assert write_table(tmp_path / "empty", [], name) == 0
    assert [*read_table(tmp_path / "empty", name)] == []


def test_other_programs_can_read_tables(tmp_path: Path, rows: list[Row]) -> None:
    write_table(tmp_path / "table.parquet", rows)
    write_table(tmp_path / "table.sqlite", rows)
    table = pq.read_table(tmp_path / "table.parquet")
    assert table.column_names == [*COLUMNS]
    record = json.loads(rows[0].record)
    assert table.column("gamma")[0].as_py() == record["gamma"]
    assert table.column("margin")[0].as_py() == record["certificate"]["margin"]
    with sqlite3.connect(tmp_path / "table.sqlite") as file:
        K, gamma = file.execute("SELECT K, gamma FROM darrm_answers WHERE id = ?", (rows[0].key,)).fetchone()
    file.close()
    assert (K, json.loads(gamma)) == (record["problem"]["K"], record["gamma"])
    store = open_store(f"sqlite:///{tmp_path / 'table.sqlite'}?mode=ro")  # it is also a store
    assert store.get(rows[0].key) == rows[0]
    store.close()


def test_every_line_of_a_csv_table_is_a_row(tmp_path: Path, rows: list[Row]) -> None:
    path = tmp_path / "table.csv"
    write_table(path, rows)
    assert "#" not in path.read_text()
    table = pa.csv.read_csv(path)  # without an option
    assert table.column_names == [*COLUMNS, "table", "end"]
    assert table["id"].to_pylist() == [row.key for row in rows]
    assert table["K"].to_pylist() == [json.loads(row.record)["problem"]["K"] for row in rows]
    assert [json.loads(gamma) for gamma in table["gamma"].to_pylist()] == [
        json.loads(row.record)["gamma"] for row in rows
    ]
    assert table["utility"].type == table["epsilon"].type == pa.float64()
    assert [len(end) > 0 for end in table["end"].to_pylist()] == [False] * 11 + [True]
    write_table(path, [])
    with path.open(newline="") as file:
        assert next(csv.reader(file)) == [*COLUMNS, "table"]


# ------------------------------------------------------------------------------------------- changed tables


def raised(values: list[float]) -> None:
    at = next(l for l, value in enumerate(values) if value < 0.99)
    values[at] = values[-1 - at] = values[at] + 1e-3


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "gamma, more": (lambda r: raised(r["gamma"]), "private"),
    "utility": (lambda r: r.__setitem__("utility", r["utility"] + 1e-6), "its utility is"),
    "delta": (lambda r: r["problem"].__setitem__("delta", 0.5), "the key of another question"),
    "objective": (
        lambda r: r.__setitem__("objective", "uniform(0.5) tv"),
        "the key of another question|cannot be read",
    ),
    "format": (lambda r: r.__setitem__("format", 99), "format"),
}


@pytest.mark.parametrize("what", FORGERIES)
@pytest.mark.parametrize("name", ["jsonl", "parquet"])
def test_a_forged_row_is_refused_with_its_reason(tmp_path: Path, rows: list[Row], name: str, what: str) -> None:
    change, said = FORGERIES[what]
    at = next(i for i, row in enumerate(rows) if min(json.loads(row.record)["gamma"]) < 0.9)
    mixed = [*rows[:at], edited(rows[at], change), *rows[at + 1 :]]
    write_table(tmp_path / "table", mixed, name)
    store, became = imported(tmp_path / "table", name)
    refused = [one for one in became if one.became == "refused"]
    assert [one.number for one in refused] == [at + 1]
    assert re.search(said, refused[0].reason), refused[0].reason
    assert [*store.rows()] == [*rows[:at], *rows[at + 1 :]]


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing(tmp_path: Path, rows: list[Row], name: str) -> None:
    path, rng = tmp_path / f"table.{name}", random.Random(1)
    write_table(path, rows)
    whole, refused, unread = path.read_bytes(), 0, 0
    for _ in range(60):
        at, bit = rng.randrange(len(whole)), rng.randrange(8)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        try:
            entries = [*read_table(path)]
        except TableError:
            unread += 1
            continue
        refused += any(entry.row is None for entry in entries)
        for entry in entries:
            assert entry.row is None or entry.row in rows or validate_row(entry.row).decision != "hit"
    assert unread + refused > {"sqlite": 5, "parquet": 25}.get(
        name, 50
    )  # else it hit unused bytes, or ones for other readers


def test_invalid_schemas_are_refused(tmp_path: Path, rows: list[Row]) -> None:
    path = tmp_path / "table.sqlite"
    write_table(path, rows)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"tabledarrm_table", b"tabledarrm_tabl\xe2", 1))
    with pytest.raises(TableError, match=r"The table cannot be read after row 0: its schema is damaged\."):
        list(read_table(path))


@pytest.mark.parametrize("column", [name for name in COLUMNS if name not in {"id", "record", "core"}])
def test_a_column_that_differs_from_the_record_is_refused(tmp_path: Path, rows: list[Row], column: str) -> None:
    told = [columns_of(row) for row in rows[:3]]
    value = told[1][column]
    if isinstance(value, list):
        other: Any = [*value[:-1], value[-1] + 2**-40]
    elif isinstance(value, float | int):
        other = value + 1 if math.isfinite(value) else 1.0
    else:
        other = "x" if value is not None else 1.0
    told[1][column] = other
    write_table(tmp_path / "good.parquet", rows[:3])
    schema = pq.read_schema(tmp_path / "good.parquet")
    pq.write_table(pa.Table.from_pylist(told, schema=schema), tmp_path / "bad.parquet")
    _, became = imported(tmp_path / "bad.parquet")
    assert [one.became for one in became] == ["new", "refused", "new"]
    assert f"'{column}'" in became[1].reason or "SHA-256" in became[1].reason


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.999])
def test_truncation_is_detected(tmp_path: Path, rows: list[Row], name: str, share: float) -> None:
    path = tmp_path / f"table.{name}"
    write_table(path, rows)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(TableError):
        [*read_table(path)]


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_missing_or_moved_lines_are_detected(tmp_path: Path, rows: list[Row], name: str) -> None:
    path = tmp_path / f"table.{name}"
    write_table(path, rows)
    lines = path.read_text().splitlines(keepends=True)
    for changed in (lines[:3] + lines[4:], [*lines[:3], lines[4], lines[3], *lines[5:]], [*lines[:3], *lines[2:]]):
        path.write_text("".join(changed))
        with pytest.raises(TableError, match="was changed"):
            [*read_table(path)]


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_truncation_between_rows_and_other_versions_are_detected(tmp_path: Path, rows: list[Row], name: str) -> None:
    path = tmp_path / f"table.{name}"
    write_table(path, rows[:3])
    lines = path.read_text().splitlines(keepends=True)
    for count in range(4):
        path.write_text("".join(lines[:count]))
        with pytest.raises(TableError, match="is truncated" if count else "not a table of darrm-opt"):
            [*read_table(path)]
    path.write_text("".join(lines).replace(",1,\n", ",2,\n").replace('"table":1', '"table":2'))
    with pytest.raises(TableError, match=r"has version 2; this program reads 1"):
        [*read_table(path)]


def test_formats_follow_from_file_names() -> None:
    assert [format_of(f"a.{suffix}").name for suffix in ("pq", "CSV", "ndjson", "db")] == [
        "parquet",
        "csv",
        "jsonl",
        "sqlite",
    ]
    with refused_input("output", "'table.txt'"):
        format_of("table.txt", argument="output")
    with refused_input("format", "'xml'"):
        format_of("table.csv", "xml")


def test_a_valid_row_replaces_a_damaged_one(rows: list[Row], tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv", rows)
    store = open_store("memory")
    store.put(replace(rows[0], digest="0" * 64))
    assert [one.became for one in import_rows(read_table(tmp_path / "table.csv"), store)] == ["new"] * 12
    assert [*store.rows()] == rows


@pytest.mark.parametrize("processes", [1, 2])
def test_rows_verified_in_processes_are_the_same(
    rows: list[Row], processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solver_cache.table_entries.IMPORTED_AT_ONCE", 4)
    wrong = edited(rows[5], setting(utility=1.25 * json.loads(rows[5].record)["utility"]))
    others = [*rows[:5], wrong, *rows[6:], rows[0]]
    store = open_store("memory")
    store.put(rows[7])
    became = [*import_rows([Entry(number, row) for number, row in enumerate(others, 1)], store, processes)]
    expected = ["new"] * 5 + ["refused", "new", "known"] + ["new"] * 4 + ["known"]
    assert [one.became for one in became] == expected
    assert [one.number for one in became] == [*range(1, 14)]
    assert became[5].reason
    assert {row.key for row in store.rows()} == {row.key for row in rows} - {rows[5].key}


def ends(_: object, __: object) -> None:
    os._exit(3)


def test_a_lost_process_is_reported() -> None:
    with pytest.raises(ProcessLost, match="ended by itself with exit code 3"):
        list(map_in_processes(ends, [1, 2, 3], 2))


def test_other_versions_are_not_exported(rows: list[Row]) -> None:
    assert [*ExportableRows([rows[0], replace(rows[1], core=99), replace(rows[2], digest="")])] == rows[:1]


# ------------------------------------------------------------------------------------- the client, the commands


@pytest.mark.parametrize("name", NAMES)
def test_the_client_reads_a_table_offline(tmp_path: Path, rows: list[Row], name: str) -> None:
    path = tmp_path / f"a table.{name}"
    write_table(path, rows)
    with DarrmClient(path.as_uri()) as client:
        for problem in PROBLEMS:
            found = client.gamma(problem)
            assert (found.exact, found.id) == (True, DesignSpec(problem).key)
            assert found.certificate.bound >= verify(problem, found.gamma).bound
        between = Problem.from_allowance(K=5, m=1.7, epsilon=0.1, Delta=1e-5)
        near = client.gamma(between)
        assert (near.exact, near.designed_for) == (False, PROBLEMS[0])
        assert near.certificate.bound >= verify(between, near.gamma).bound
        with pytest.raises(AnswerNotFound):
            client.gamma(Problem.from_allowance(K=13, m=1, epsilon=0.1))


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_the_client_skips_changed_rows(tmp_path: Path, rows: list[Row], name: str) -> None:
    path = tmp_path / f"table.{name}"
    write_table(path, rows)
    told = '""K"":11' if name == "csv" else '"K":11'
    path.write_text(path.read_text().replace(told, told.replace("11", "12"), 1))
    with DarrmClient(path.as_uri()) as client:
        assert sum(job.state == "done" for job in client.jobs.list()) == len(rows) - 1
    path.write_text(path.read_text()[:-200])
    with refused_input("url"):
        DarrmClient(path.as_uri())


@pytest.mark.parametrize("name", NAMES)
def test_export_and_import_from_the_command_line(tmp_path: Path, rows: list[Row], name: str) -> None:
    here, there = (f"sqlite:///{tmp_path / place}.db" for place in ("here", "there"))
    store = open_store(here)
    for row in rows:
        store.put(row)
    store.close()
    path, again = tmp_path / f"table.{name}", tmp_path / f"again.{name}"
    told = run("export", "--output", str(path), "--url", here, "--json")
    assert json.loads(told.stdout) == {"file": str(path), "format": name, "rows": 12, "left_out": 0}
    told = run("import", str(path), "--url", there, "--json")
    assert (told.exit_code, json.loads(told.stdout)["new"]) == (0, 12)
    assert run("export", "--output", str(again), "--url", there).exit_code == 0
    assert path.read_bytes() == again.read_bytes()


def test_export_counts_skipped_rows(tmp_path: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = open_store(url)
    for row in (replace(rows[0], core=-1), *rows[1:6]):
        store.put(row)

    def written(path: Path, given: Iterable[Row], name: str) -> int:
        many = write_table(path, given, name)
        for row in rows[6:]:  # a concurrent precomputation continues
            store.put(row)
        return many

    monkeypatch.setattr(table_files, "write_table", written)
    told = run("export", "--output", str(tmp_path / "table.csv"), "--url", url, "--json")
    store.close()
    assert (json.loads(told.stdout)["rows"], json.loads(told.stdout)["left_out"]) == (5, 1)
    assert told.stderr.startswith("Warning: 1 rows are of another version or damaged, and left out")


def test_import_lists_refused_rows(tmp_path: Path, rows: list[Row]) -> None:
    path, url = tmp_path / "table.jsonl", f"sqlite:///{tmp_path / 'store.db'}"
    write_table(path, rows)
    path.write_text(path.read_text().replace('"affected":2', '"affected":1', 1))
    told = run("import", str(path), "--url", url)
    assert told.exit_code == 5
    assert "refused: its record does not match its SHA-256" in told.stderr
    assert told.stdout.strip() == "New: 11; known already: 0; refused: 1."
    assert run("import", str(tmp_path / "none.csv")).exit_code == 2
    assert run("export", "--output", str(tmp_path / "no" / "table.csv"), "--url", url).exit_code == 2
    assert run("export", "--url", url).exit_code == 2
