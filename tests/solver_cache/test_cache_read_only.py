"""Read-only stores: nothing is written, neither to the file system nor to the database."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support import postgres
from support.paths import ROOT

from darrm_opt import Problem
from darrm_opt.record import digest
from solver_cache import CacheError, ReadOnlyCache, Row, cached_solve, check, open_store

KEPT = Problem.from_allowance(K=11, m=3, epsilon=0.1)
OTHER = Problem.from_allowance(K=9, m=2, epsilon=0.1)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the files of a folder with their contents and times."""
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.iterdir())}


def tight(path: Path) -> str:
    """Write a table in a folder of its own; return the URL for reading it."""
    path.parent.mkdir(exist_ok=True)
    with closing(open_store(f"sqlite:///{path}")) as store:
        assert cached_solve(KEPT, store=store).stored
    Path(f"{path}.lock").unlink(missing_ok=True)
    return f"sqlite:///{path}?mode=ro"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the read-only URL of a store with one answer."""
    if request.param == "sqlite":
        return tight(tmp_path / "tables" / "cache.sqlite")
    place = postgres.server().url(postgres.server().new())
    with closing(open_store(place)) as store:
        assert cached_solve(KEPT, store=store).stored
    return f"{place}&mode=ro"


def test_a_read_only_store_reads_and_never_writes(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with closing(open_store(url)) as store:
        assert store.url.endswith("mode=ro")
        assert cached_solve(KEPT, store=store).hit
        with caplog.at_level(logging.WARNING):
            answer = cached_solve(OTHER, store=store)
        assert caplog.records == []
        assert (answer.decision, answer.stored) == ("miss", False)
        assert answer.trouble.endswith("it is open for reading only. Remove ?mode=ro from its URL to write to it.")
        with pytest.raises(ReadOnlyCache, match="it is open for reading only"):
            store.put(Row("a", 1, "{}", ""))
        with pytest.raises(ReadOnlyCache, match="it is open for reading only"):
            store.complete("me", [])
        assert list(check(store)) == []
        assert len(list(store.rows())) == 1


def test_jobs_of_a_read_only_store_are_in_memory(url: str) -> None:
    with closing(open_store(url)) as store:
        assert store.jobs.database.in_memory
        assert store.jobs.submit("a", "gamma", "{}").state == "queued"


def test_an_invalid_row_of_a_read_only_store_is_a_miss(tmp_path: Path) -> None:
    url = tight(tmp_path / "tables" / "cache.sqlite")
    with closing(sqlite3.connect(tmp_path / "tables" / "cache.sqlite")) as plain, plain:
        plain.execute("UPDATE darrm_solutions SET digest = 'x'")
    with closing(open_store(url)) as store:
        answer = cached_solve(KEPT, store=store)
        assert (answer.decision, answer.stored) == ("damaged", False)
        assert len(list(check(store))) == 1


def test_reading_a_file_leaves_no_trace(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    url = tight(folder / "cache.sqlite")
    before = snapshot(folder)
    assert list(before) == ["cache.sqlite"]
    with closing(open_store(url)) as store:
        assert cached_solve(KEPT, store=store).hit
        assert not cached_solve(OTHER, store=store).stored
        assert snapshot(folder) == before
    assert snapshot(folder) == before


def test_a_growing_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tables" / "cache.sqlite"
    url = tight(path)
    with closing(open_store(f"sqlite:///{path}")) as writer:
        writer.put(Row("a", 1, "{}", digest("{}")))
        with closing(open_store(url)) as reader:
            assert reader.get("a") is not None
            writer.put(Row("b", 1, "{}", digest("{}")))
            assert reader.get("b") is not None


def test_missing_files_are_not_created(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"the file does not exist\. Check the path in its URL\."):
        open_store(f"sqlite:///{tmp_path / 'deep' / 'cache.sqlite'}?mode=ro")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CacheError, match="does not exist"):
        open_store(postgres.server().url("nowhere") + "&mode=ro")


def test_invalid_modes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"its mode is neither rw nor ro\. Use \?mode=ro to read only\."):
        open_store(f"sqlite:///{tmp_path / 'cache.sqlite'}?mode=memory")
    open_store(f"sqlite:///{tmp_path / 'cache.sqlite'}?mode=rw").close()


def test_a_file_without_a_schema_gives_advice(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    path.touch()
    with pytest.raises(CacheError, match="its schema has version 0"):
        open_store(f"sqlite:///{path}?mode=ro")
    assert path.read_bytes() == b""


def test_a_read_only_role_gets_advice(tmp_path: Path) -> None:  # noqa: ARG001 — for its environment
    server = postgres.server()
    name = server.new()
    with closing(open_store(server.url(name))) as store:
        assert cached_solve(KEPT, store=store).stored
    server.sql(name, f"CREATE ROLE reader_{name} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader_{name}")
    url = server.url(name, f"reader_{name}")
    with pytest.raises(CacheError, match=r"permission denied.*Append \?mode=ro to its URL to read only\."):
        open_store(url)
    with closing(open_store(f"{url}&mode=ro")) as store:
        assert cached_solve(KEPT, store=store).hit


READER = """
import json, os, sys
from darrm_opt import Problem
from solver_cache import CacheError, cached_solve, open_store
if sys.argv[2] != "-":
    import tempfile
    with tempfile.TemporaryDirectory() as folder:  # loads all that is needed: the other user may not be able to
        store = open_store(f"sqlite:///{folder}/cache.sqlite")
        cached_solve(Problem.from_allowance(K=11, m=3, epsilon=0.1), store=store)
        store.close()
    os.setuid(int(sys.argv[2]))
outcomes = []
for url in (f"sqlite:///{sys.argv[1]}", f"sqlite:///{sys.argv[1]}?mode=ro"):
    try:
        store = open_store(url)
        outcomes.append(cached_solve(Problem.from_allowance(K=11, m=3, epsilon=0.1), store=store).decision)
        store.close()
    except CacheError as err:
        outcomes.append(str(err))
print(json.dumps(outcomes))
"""


def outcomes(*command: str) -> list[str]:
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert told.returncode == 0, told.stderr
    found: list[str] = json.loads(told.stdout.splitlines()[-1])
    return found


@pytest.fixture
def readable() -> Iterator[Path]:
    """Return a folder that all users may read; those of pytest are private."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "tables"


def test_a_file_and_a_folder_of_another_owner_are_read(readable: Path) -> None:
    """As a user with read access only: root becomes one, others remove their own write access."""
    tight(readable / "cache.sqlite")
    (readable / "cache.sqlite").chmod(0o444)
    readable.chmod(0o555)
    try:
        who = "65534" if os.geteuid() == 0 else "-"
        writing, reading = outcomes(sys.executable, "-c", READER, str(readable / "cache.sqlite"), who)
    finally:
        readable.chmod(0o755)
    assert "cannot be used" in writing
    assert reading == "hit"
    assert [path.name for path in readable.iterdir()] == ["cache.sqlite"]


def test_a_read_only_file_system_is_read(tmp_path: Path) -> None:
    """A real one: the folder is mounted read-only in a separate mount namespace."""
    folder = tmp_path / "tables"
    tight(folder / "cache.sqlite")
    enter = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c"]
    mounted = f"mount --bind '{folder}' '{folder}' && mount -o remount,bind,ro '{folder}'"
    if subprocess.run([*enter, mounted], capture_output=True, check=False).returncode and "CI" not in os.environ:
        pytest.skip("this machine lets nobody mount in a namespace")
    command = f"{mounted} && '{sys.executable}' -c \"$0\" '{folder / 'cache.sqlite'}' -"
    writing, reading = outcomes(*enter, command, READER)
    assert "cannot be used" in writing
    assert reading == "hit"
    assert [path.name for path in folder.iterdir()] == ["cache.sqlite"]
