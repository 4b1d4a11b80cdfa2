"""The cache in a SQLite file: creation, sharing by processes, damage, unusable locations."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from support.paths import ROOT

import solver_cache.database.connection
from darrm_opt import Problem
from darrm_opt.record import digest
from solver_cache import CORE, CacheError, Row, Store, cached_solve, open_store

PROBLEM = Problem.from_allowance(K=11, m=3, epsilon=0.1)


@contextmanager
def python(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a script in another process, wait for "ready"; it continues after a line of input."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line == "ready\n", line + process.communicate(timeout=60)[1]
            yield process
        finally:
            process.kill()


def go(*processes: subprocess.Popen[str]) -> list[str]:
    """Let waiting processes continue together; return their output, and check that they succeed."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), told
    return [out for out, _ in told]


# ---------------------------------------------------------------------------------------- unusable locations


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("nonsense", r"'nonsense' cannot be used: it is not a database URL\. Set DARRM_CACHE_URL to sqlite:///FILE"),
        ("sqlite://", r"it does not name a file\. For a cache in memory set DARRM_CACHE_URL to 'memory'"),
        ("sqlite:///:memory:", "it does not name a file"),
        ("sqlite:///file:here?mode=ro&uri=true", r"the file: notation of SQLite is not supported"),
        (
            "mysql://someone:secret@host/name",
            r"mysql://someone:\*\*\*@host/name cannot be used: mysql is not supported",
        ),
        ("postgresql+nodriver://host/name", "cannot be used"),
    ],
)
def test_invalid_urls_are_refused(url: str, text: str) -> None:
    with pytest.raises(CacheError, match=text) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_the_error_of_a_missing_driver_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        CacheError, match=r"its driver is not installed .*For PostgreSQL: pip install 'darrm-opt\[postgres\]'"
    ):
        open_store("postgresql+psycopg://someone:secret@host/name")


def test_an_unwritable_location_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    before = sorted(tmp_path.rglob("*"))
    url = f"sqlite:///{tmp_path / 'file' / 'cache.sqlite'}"
    with pytest.raises(CacheError, match=r"it cannot be created or written \(.*\)\. Set DARRM_CACHE_URL to") as caught:
        open_store(url)
    assert caught.value.url == url
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_is_refused_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="unable to open database file"):
        open_store(f"sqlite:///{tmp_path}")


def test_invalid_databases_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"these are my notes\n" * 500)
    with pytest.raises(CacheError, match=r"file is not a database\. The file is damaged: move it away"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == b"these are my notes\n" * 500


def test_a_read_only_database_fails_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'cache.sqlite'}"
    open_store(url).close()

    def configure(connection: sqlite3.Connection) -> None:
        real(connection)
        connection.execute("PRAGMA query_only = ON")  # permissions would not stop root

    real = solver_cache.database.connection._configure
    monkeypatch.setattr(solver_cache.database.connection, "_configure", configure)
    with pytest.raises(CacheError, match=r"attempt to write a readonly database\. Append \?mode=ro to its URL"):
        open_store(url)


def test_relative_and_home_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for url, path in (("sqlite:///here.sqlite", "here.sqlite"), ("sqlite:///~/there.sqlite", "home/there.sqlite")):
        with closing(open_store(url)) as store:
            assert store.url == f"sqlite:///{tmp_path / path}"
        assert (tmp_path / path).exists()


# ------------------------------------------------------------------------------------------------- the schema


@pytest.mark.parametrize("options", ["?timeout=9", "?mode=ro&timeout=9"])
def test_a_file_url_accepts_only_mode(options: str, tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="a SQLite URL accepts only the option mode"):
        open_store(f"sqlite:///{tmp_path / 'cache.sqlite'}{options}")


def test_an_interrupted_creation_is_completed(tmp_path: Path) -> None:
    empty, without_tables = tmp_path / "empty.sqlite", tmp_path / "cache.sqlite"
    empty.touch()
    with closing(sqlite3.connect(without_tables)) as plain:
        plain.execute("PRAGMA journal_mode = WAL")  # then the process was killed
    for path in (empty, without_tables):
        with closing(open_store(f"sqlite:///{path}")) as store:
            assert list(store.rows()) == []


def test_a_file_needs_no_sqlalchemy(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom solver_cache import open_store\nstore = open_store(sys.argv[1])\n"
        "store.jobs.submit('1', 'gamma', '{}')\nstore.designs.list()\nstore.stats()\nstore.close()\n"
        "assert 'sqlalchemy' not in sys.modules\n"
    )
    url = f"sqlite:///{tmp_path / 'cache.sqlite'}"
    subprocess.run([sys.executable, "-c", script, url], cwd=ROOT, check=True, timeout=60)


# ------------------------------------------------------------------------------------------------ many processes


def test_one_process_at_a_time_creates_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cache.sqlite"
    opened: list[Store] = []
    waiting = threading.Thread(target=lambda: opened.append(open_store(f"sqlite:///{path}")))
    with FileLock(f"{path}.lock"):
        with monkeypatch.context() as hasty:
            hasty.setattr(solver_cache.database.connection, "OPENING_SECONDS", 0.1)
            with pytest.raises(
                CacheError,
                match=r"another process has held .*\.lock for 0\.1 s\. Wait if it is migrating .* end it\.",
            ):
                open_store(f"sqlite:///{path}")
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert not path.exists()
    waiting.join(300)
    opened[0].close()
    assert path.exists()


OPENER = """
import sys, time
from solver_cache import Row, open_store
print("ready", flush=True)
sys.stdin.readline()
start = time.time() // 1 + 2
for number in range(20):
    while time.time() < start + number * 0.05:  # all at the same instant, again and again
        pass
    store = open_store(f"sqlite:///{sys.argv[1]}/new/{number}.sqlite")
    store.put(Row(sys.argv[2], 1, "{}", ""))
    store.close()
"""


def test_concurrent_creation_succeeds(tmp_path: Path) -> None:
    with ExitStack() as stack:
        go(*(stack.enter_context(python(OPENER, str(tmp_path), key)) for key in "abc"))
    for number in range(20):
        with closing(open_store(f"sqlite:///{tmp_path}/new/{number}.sqlite")) as store:
            assert [row.key for row in store.rows()] == ["a", "b", "c"]


# --------------------------------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize("value", ["NULL", "7", "x'00ff'", "'text'", "1e999"])
@pytest.mark.parametrize("column", ["core", "record", "digest"])
def test_a_row_with_a_value_of_another_type_is_replaced(tmp_path: Path, column: str, value: str) -> None:
    path = tmp_path / "cache.sqlite"
    url = f"sqlite:///{path}"
    with closing(open_store(url)) as store:
        cached_solve(PROBLEM, store=store)
    with closing(sqlite3.connect(path)) as plain, plain:
        plain.execute("CREATE TABLE loose AS SELECT * FROM darrm_solutions")
        plain.execute("DROP TABLE darrm_solutions")
        names = ", ".join(line[1] for line in plain.execute("PRAGMA table_info(loose)"))
        plain.execute(f"CREATE TABLE darrm_solutions ({names}, PRIMARY KEY (key))")
        plain.execute("INSERT INTO darrm_solutions SELECT * FROM loose")
        plain.execute(f"UPDATE darrm_solutions SET {column} = {value}")  # noqa: S608 — values of this test
    with closing(open_store(url)) as store:
        answer = cached_solve(PROBLEM, store=store)
        assert answer.decision in {"damaged", "stale"}
        assert answer.stored
        assert cached_solve(PROBLEM, store=store).hit


def test_a_new_file_is_private(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'cache.sqlite3'}")
    store.jobs.submit("1", "gamma", "{}")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("cache.sqlite3*")}
    store.close()
    assert {name.removeprefix("cache.sqlite3") for name in modes} >= {"", "-wal", "-shm"}
    assert {mode for name, mode in modes.items() if not name.endswith(".lock")} == {0o600}


@pytest.mark.parametrize(
    ("table", "use"),
    [
        ("darrm_solutions", lambda store: cached_solve(PROBLEM, store=store)),
        ("darrm_jobs", lambda store: store.jobs.list()),
        ("darrm_jobs", lambda store: store.jobs.counts()),
        ("darrm_jobs", lambda store: store.jobs.take("me", 60)),
        ("darrm_design_tags", lambda store: store.designs.tag("a", "b")),
    ],
)
def test_the_error_of_a_missing_table_names_it(table: str, use: Callable[[Store], object], tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.put(Row("a", CORE, "{}", digest("{}")))
        with closing(sqlite3.connect(path)) as plain, plain:
            plain.execute(f"DROP TABLE {table}")
        with pytest.raises(CacheError, match=f"no such table: {table}") as caught:
            use(store)
    assert str(path) in str(caught.value)
