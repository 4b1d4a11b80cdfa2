"""``darrm cache``: list, count, check, prune and migrate."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support import postgres
from support.darrm_runner import refused, run, run_json

from darrm_opt import Privacy, Problem
from darrm_opt.problem import VoterGroup
from darrm_opt.record import digest
from solver_cache import CORE, DesignSpec, Row, cached_solve, cached_table, open_store
from solver_cache.database.schema import MIGRATIONS

PROBLEMS = [
    Problem(11, Privacy(0.1), Privacy(0.3)),
    Problem(7, Privacy(math.inf), Privacy(0.5, 1e-3), affected=1),
    Problem(9, Privacy(0.1, 1e-5), Privacy(0.25, 1e-4)),
]
BAD = Row("0" * 64, CORE, "{}", digest("{}"))
STALE = Row("1" * 64, 0, "{}", digest("{}"))


def rows() -> list[Row]:
    store = open_store("memory")
    for problem in PROBLEMS:
        cached_solve(problem, store=store)
    return list(store.rows())


ROWS = rows()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    place = f"sqlite:///{tmp_path / 'some.sqlite'}" if request.param == "sqlite" else postgres.server().new_store()
    with closing(open_store(place)) as store:
        for row in ROWS:
            store.put(row)
        store.jobs.submit("a", "gamma", "{}")
        store.jobs.submit("b", "gamma", "{}")
        store.jobs.cancel("b")
    return place


def put(url: str, *bad: Row) -> None:
    with closing(open_store(url)) as store:
        for row in bad:
            store.put(row)


def test_ls_shows_epsilon_of_each_group_and_the_prior(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'groups.sqlite'}"
    groups = VoterGroup(3, Privacy(0.1)), VoterGroup(2, Privacy(0.5, 1e-4))
    with closing(open_store(url)) as store:
        cached_table(Problem(groups=groups, target=Privacy(0.4)), store=store)
    [listed] = run_json("cache", "ls", "--url", url)
    assert (listed["epsilon"], listed["objective"].startswith("{")) == (0.5, True)
    _, row = run("cache", "ls", "--url", url).stdout.splitlines()
    cells = re.split(r" {2,}", row.strip())
    assert cells[1:4] == ["5", "0.1, 0.5", "0, 0.0001"]
    assert cells[7:9] == ["dirichlet(1)", "2 classes"]


def test_ls_lists_stored_answers(url: str) -> None:
    found = run_json("cache", "ls", "--url", url)
    assert [each["id"] for each in found] == [row.key for row in ROWS]
    by_voters = {each["K"]: each for each in found}
    assert by_voters[7] == {
        "id": DesignSpec(PROBLEMS[1]).key,
        "core": CORE,
        "K": 7,
        "epsilon": "inf",
        "Delta": 0.0,
        "affected": 1,
        "target_epsilon": 0.5,
        "delta": 0.001,
        "objective": "rectangular",
        "shape": "free",
        "utility": by_voters[7]["utility"],
        "tags": [],
    }
    assert 0 < by_voters[7]["utility"] <= 1
    assert [each["id"] for each in run_json("cache", "ls", "--url", url, "--limit", "2", "--after", ROWS[0].key)] == [
        row.key for row in ROWS[1:3]
    ]
    text = run("cache", "ls", "--url", url).stdout
    assert all(row.key in text for row in ROWS)
    assert "rectangular" in text


def test_stats_counts_answers_and_jobs(url: str) -> None:
    put(url, STALE)
    found = run_json("cache", "ls", "--count", "--url", url)
    assert "secret" not in found["url"]
    assert found["bytes"] > 10_000
    del found["url"], found["bytes"]
    assert found == {
        "rows": 4,
        "stale": 1,
        "schema": len(MIGRATIONS),
        "jobs": {"queued": 1, "running": 0, "done": 0, "failed": 0, "cancelled": 1},
    }
    assert "jobs     1 queued, 0 running" in run("cache", "ls", "--count", "--url", url).stdout


def test_check_verifies_every_answer_and_fails_if_one_is_invalid(url: str) -> None:
    assert run_json("cache", "check", "--url", url) == []
    assert run("cache", "check", "--url", url).stdout == "Nothing is wrong: every answer was proved again.\n"
    put(url, BAD, STALE)
    assert run_json("cache", "check", "--url", url, exit_code=4) == [
        {"key": BAD.key, "trouble": "stale: its record has format None; this program reads 1"},
        {"key": STALE.key, "trouble": f"stale: it was written by version 0 of the answers; this is {CORE}"},
    ]
    result = run("cache", "check", "--url", url)
    assert result.exit_code == 4
    assert f"{STALE.key}: stale: it was written by version 0 of the answers; this is {CORE}" in result.stdout


def test_prune_removes_stale_answers_and_old_jobs(url: str) -> None:
    louder = json.loads(ROWS[0].record)
    louder["gamma"] = [1.0] * len(louder["gamma"])
    unproved = replace(ROWS[0], record=json.dumps(louder), digest=digest(json.dumps(louder)), key="2" * 64)
    put(url, BAD, STALE, unproved)
    assert run_json("cache", "rm", "--defective", "--url", url) == {"answers": 2, "jobs": 0}
    assert run_json("cache", "rm", "--defective", "--url", url, "--prove", "--days", "0") == {"answers": 1, "jobs": 1}
    with closing(open_store(url)) as store:
        assert list(store.rows()) == ROWS
        assert [job.id for job in store.jobs.list()] == ["a"]
    assert run("cache", "rm", "--defective", "--url", url).stdout == "Removed: 0 answers, 0 jobs.\n"


def test_migrate_updates_an_older_file(tmp_path: Path) -> None:
    (tmp_path / "old.sqlite").touch()  # the oldest version, without a table
    url, last = f"sqlite:///{tmp_path / 'old.sqlite'}", len(MIGRATIONS)
    result = run("cache", "ls", "--url", url)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "with `darrm cache check --migrate --url URL`" in result.stderr
    assert run("cache", "check", "--migrate", "--url", url).stderr == f"Schema 0 -> {last}.\n"
    result = run("cache", "check", "--migrate", "--url", url)
    assert (result.exit_code, result.stderr) == (0, f"Schema {last} -> {last}.\n")
    assert result.stdout == "Nothing is wrong: every answer was proved again.\n"
    assert run_json("cache", "ls", "--url", url) == []


@pytest.mark.parametrize("action", ["ls", "ls --count", "check"])
def test_reading_commands_create_no_file(action: str, tmp_path: Path) -> None:
    result = run("cache", *action.split(), "--url", f"sqlite:///{tmp_path / 'deep' / 'cache.sqlite'}")
    assert result.exit_code == 4
    assert "the file does not exist" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("action", ["ls", "ls --count", "check", "rm --defective", "check --migrate"])
def test_stores_without_rows_are_accepted(action: str) -> None:
    for url in ("off", "memory"):
        assert run("cache", *action.split(), "--url", url).exit_code == 0


def test_the_default_store_is_that_of_the_settings(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_CACHE_URL", url)
    assert run_json("cache", "ls", "--count")["rows"] == 3


def test_prune_of_a_read_only_store_is_refused(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path / 'cache.sqlite'}").close()
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as plain, plain:
        plain.execute("INSERT INTO darrm_solutions (key, core, record, digest, created) VALUES ('a', 1, '', '', '')")
    result = run("cache", "rm", "--defective", "--url", f"sqlite:///{tmp_path / 'cache.sqlite'}?mode=ro")
    assert result.exit_code == 4
    assert "it is open for reading only" in result.stderr


def test_tags_are_changed_on_the_command_line(url: str) -> None:
    key = ROWS[0].key
    assert run("cache", "tag", key, "round-2", "--url", url).stdout.strip() == f"{key}: round-2"
    [only] = json.loads(run("cache", "ls", "--url", url, "--tag", "round-2", "--json").stdout)
    assert (only["id"], only["tags"]) == (key, ["round-2"])
    listed = json.loads(run("cache", "ls", "--url", url, "--json").stdout)
    assert {each["id"]: each["tags"] for each in listed} == {row.key: ["round-2"] * (row.key == key) for row in ROWS}
    assert "round-2" in run("cache", "ls", "--url", url).stdout
    newest = json.loads(run("cache", "ls", "--url", url, "--newest", "--json", "--limit", "2").stdout)
    rest = json.loads(run("cache", "ls", "--url", url, "--newest", "--json", "--after", newest[-1]["id"]).stdout)
    assert {each["id"] for each in (*newest, *rest)} == {row.key for row in ROWS}
    assert len(json.loads(run("cache", "ls", "--url", url, "--K", "7", "--epsilon", "inf", "--json").stdout)) == 1
    assert run("cache", "tag", key, "round-2", "--remove", "--url", url).stdout.strip() == f"{key}: no tags"


def test_answers_are_removed_by_name_size_and_age(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'cache.sqlite'}"
    with closing(open_store(url)) as store:
        for K in (3, 5):
            cached_solve(Problem.from_allowance(K=K, m=1, epsilon=0.1), store=store)
    first, _ = (entry["id"] for entry in run_json("cache", "ls", "--url", url))
    assert run_json("cache", "rm", "--url", url, "--days", "1") == {"answers": 0}
    assert run_json("cache", "rm", first, "--url", url) == {"answers": 1}
    assert "'" + first + "' is not valid" in refused("cache", "rm", first, "--url", url)
    assert "One of them" in refused("cache", "rm", first, "--url", url, "--days", "1")
    assert "--megabytes" in refused("cache", "rm", "--url", url, "--megabytes", "nan")
    assert run("cache", "rm", "--url", url, "--megabytes", "0").stdout == "Removed: 1 answers.\n"
    assert run_json("cache", "ls", "--url", url) == []
