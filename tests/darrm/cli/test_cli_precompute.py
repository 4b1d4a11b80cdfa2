"""``darrm precompute``: dry runs, progress and exit codes."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.darrm_runner import refused, run, run_json

from solver_cache import open_store
from solver_cache.solve import load_record
from solver_cache.table_entries import import_rows
from solver_cache.table_files import read_table

GRID = 'K = [5, 7]\nepsilon = 0.1\nm = [1, 2]\ndelta = "1-(1-Delta)^m"\nDelta = 1e-5\n'


@pytest.fixture
def grid(tmp_path: Path) -> str:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return str(path)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'table.sqlite'}"


def test_a_dry_run_prints_the_plan_and_solves_nothing(grid: str, url: str, tmp_path: Path) -> None:
    told = run("precompute", grid, "--url", url, "--dry-run")
    assert told.exit_code == 0
    assert "4 problems: 0 are stored already, 4 to be solved in 1 batch." in told.stdout
    assert "Expected work: 0.0" in told.stdout
    assert not (tmp_path / "table.sqlite").exists()
    plan = json.loads(run("precompute", grid, "--url", url, "--dry-run", "--json").stdout)["plan"]
    assert (plan["problems"], plan["missing"], plan["batches"]) == (4, 4, 1)


def test_a_run_stores_the_grid_and_the_next_one_solves_nothing(grid: str, url: str) -> None:
    told = run("precompute", grid, "--url", url, "--workers", "1")
    assert told.exit_code == 0
    assert "4 to be solved" in told.stderr
    assert told.stdout.startswith("Solved: 4 in ")
    again = run("precompute", grid, "--url", url, "--dry-run", "--json")
    assert json.loads(again.stdout)["plan"]["stored"] == 4
    assert run("precompute", grid, "--url", url).stdout.strip() == "Nothing is left to be done."
    with closing(open_store(url)) as store:
        assert store.stats().rows == 4


def test_failures_are_listed_and_change_the_exit_code(tmp_path: Path, url: str) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text("K = [5, 301]\nepsilon = 0.1\nm = 2\nDelta = 1e-5\n")
    told = run("precompute", str(grid), "--url", url, "--workers", "1", "--time-limit", "1e-9", "--json")
    assert told.exit_code == 5
    failures = json.loads(told.stdout)["outcome"]["failures"]
    assert {failure["problem"]["K"] for failure in failures} == {5, 301}
    assert "time" in failures[0]["reason"]
    assert told.stderr.count("Failed: ") == 2
    assert "K = 301, ε = 0.1" in told.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workers", "0"], "--workers: 0 is not valid"),
        (["--workers", "two"], "--workers: 'two' is not valid"),
        (["--scheduler", "local:two"], "--scheduler: 'local:two' is not valid: expected local, local:COUNT"),
        (["--scheduler", "local:0"], "--scheduler: 'local:0'"),
        (
            ["--scheduler", "tcp://h:1", "--workers", "2"],
            "--workers cannot be combined with --scheduler. Its workers solve.",
        ),
        (["--backend", "simplex"], "--backend: 'simplex'"),
        (["--time-limit", "0"], "--time-limit: 0"),
        (["--lease", "1e9"], "--lease: 1000000000 "),
        (["--attempts", "0"], "--attempts: 0"),
        (["--url", "memory"], "--url: 'memory' is not valid: expected a store that lasts"),
        (["--url", "memory", "--direct"], "--direct: 'memory'"),
    ],
)
def test_invalid_options_are_refused(grid: str, words: list[str], said: str) -> None:
    assert run("precompute", grid, *words).stderr.splitlines()[-1].startswith(f"Error: {said}")
    assert run("precompute", grid, *words).exit_code == 2


def test_an_error_in_a_grid_file_is_reported_with_its_position(tmp_path: Path, url: str) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text("[[grid]]\nK = 5\nepsilon = 0.1\nm = { from = 1, to = 5, step = 0 }\n")
    said = refused("precompute", str(grid), "--url", url)
    assert said == f"Error: {grid}: grid[0].m.step = 0 is not valid: expected a finite number above 0."


def test_the_options_of_a_grid_are_its_quantities() -> None:
    shape = ("--K", "3,5", "--epsilon", "0.5", "--m", "2", "--Delta", "0,1e-5", "--affected", "1")
    found = run_json("precompute", *shape, "--dry-run")
    assert found["plan"]["problems"] == 4


def test_a_dry_run_names_the_store_of_the_run(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'answers.sqlite'}"
    asked = ("precompute", "--K", "3", "--epsilon", "0.5", "--m", "2", "--url", store)
    assert run_json(*asked, "--dry-run")["plan"]["store"] == store
    assert not (tmp_path / "answers.sqlite").exists()
    assert run(*asked).exit_code == 0
    found = run_json(*asked, "--dry-run")["plan"]  # reads the store, which now exists
    assert (found["store"], found["stored"]) == (store, 1)


def test_a_grid_of_profiles_is_stored_exported_and_read(tmp_path: Path, url: str) -> None:
    asked = ("--K", "5,7", "--profile", "gaussian(0.0325)", "--target-epsilon", "0.1", "--delta", "1e-5")
    assert json.loads(run("precompute", *asked, "--url", url, "--dry-run", "--json").stdout)["plan"]["missing"] == 2
    assert run("precompute", *asked, "--url", url, "--workers", "1").stdout.startswith("Solved: 2 in ")
    table, other = tmp_path / "table.jsonl", f"sqlite:///{tmp_path / 'other.sqlite'}"
    assert run("export", "--output", str(table), "--url", url).exit_code == 0
    assert run("import", str(table), "--url", other).exit_code == 0
    again = run("precompute", *asked, "--url", other, "--dry-run", "--json")
    assert json.loads(again.stdout)["plan"]["stored"] == 2
    assert "profile" in refused("precompute", *asked, "--epsilon", "0.1", "--url", url, "--dry-run")


def precomputed(*options: str) -> Any:
    """Return the JSON of a run; its plan is on stderr."""
    return json.loads(run("precompute", *options, "--json").stdout)


def test_a_grid_of_attendance_is_computed_by_one_command(tmp_path: Path, url: str) -> None:
    file = tmp_path / "attendance.jsonl"
    options = ("--epsilon", "0.1", "--m", "2", "--url", url, "--workers", "1", "--output", str(file))
    first = precomputed("--K", "5..8", *options)
    assert [answer["voters"] for answer in first["answers"]] == [5, 6, 7, 8]
    with closing(open_store("memory")) as empty, closing(open_store(url)) as store:
        assert {row.became for row in import_rows(read_table(file), empty)} == {"new"}  # each is verified
        for answer in first["answers"]:
            record = load_record(answer["id"], empty)
            assert record == load_record(answer["id"], store)
            assert record is not None
            assert (record["problem"]["K"], record["utility"]) == (answer["voters"], answer["utility"])
    again = precomputed("--K", "5,6,7,8", *options)  # nothing remains to be solved
    assert (again["outcome"], again["answers"]) == (None, first["answers"])
    shown = run("precompute", "--K", "5..5", *options).stdout.splitlines()
    assert shown[0] == "Nothing is left to be done."
    assert shown[2].split() == ["5", f"{first['answers'][0]['utility']:.4f}", first["answers"][0]["id"]]
    assert shown[3] == f"Written: 1 answers to {file}."


def test_a_grid_has_all_combinations_of_attending_groups(tmp_path: Path, url: str) -> None:
    file = tmp_path / "groups.jsonl"
    groups = ("--group", "K=0..1,epsilon=0.1", "--group", "K=0..2,profile=0:0.2,0.5:1e-5")
    options = ("--target-epsilon", "0.6", "--delta", "1e-4", "--url", url, "--workers", "1", "--output", str(file))
    answers = precomputed(*groups, *options)["answers"]
    both = [f"1 at 0.1 + {count} at 0.0:0.2,0.5:1e-05" for count in (1, 2)]
    assert {answer["voters"] for answer in answers} == {*both, *(text for pair in both for text in pair.split(" + "))}
    fewer = precomputed(*groups, "--where", "K1 + K2 >= 3", *options)["answers"]
    assert [answer["voters"] for answer in fewer] == ["1 at 0.1 + 2 at 0.0:0.2,0.5:1e-05"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--K", "8..5", "--epsilon", "0.1", "--m", "2"), "--K.to: 5 is not valid: expected at least 8"),
        (("--group", "K=0..3,eps=1", "--target-epsilon", "1"), "--group: 'K=0..3,eps=1' is not valid"),
        (("--group", "K=0..3,epsilon=1"), "--target-epsilon"),
    ],
)
def test_invalid_attendances_are_refused(options: tuple[str, ...], said: str, url: str) -> None:
    assert said in refused("precompute", *options, "--url", url)
