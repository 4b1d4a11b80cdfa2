"""Responses of the service while its store or its processes fail, and after their recovery.

    PYTHONPATH=tests python -m campaigns.operating_faults [--only "disk full"] [--write docs/faults.md]

Each fault is real, and hits a server with stored answers: a full or failed file system, a deleted or overwritten file,
another process's lock, a stopped PostgreSQL, SIGKILL, SIGSTOP. During the fault and after it five requests are sent:
readiness, an answer that this process has given before, a stored one that it has not given yet, a new problem, a
certificate. Mounts need root on Linux; faults that cannot be produced here are listed as skipped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from support.served import Service, gone, workers_of
from support.waiting import until

from campaigns.driver import publish, read_options, say, table
from darrm_opt import Problem
from solver_cache import cached_solve, open_store

STORED: list[dict[str, Any]] = [{"K": 5, "m": 2, "epsilon": round(0.1 + number / 100, 2)} for number in range(8)]
"""Problems whose answers are stored before a fault."""

VERIFY = {"K": 3, "m": 1, "epsilon": 0.1, "gamma": [0.1, 0.03, 0.03, 0.1]}

PATIENCE = 100.0  # longest time of an answer [s]
RECOVERY = 60.0  # longest time until a new problem is answered after a fault [s]

SETTINGS = {"DARRM_SOLVERS": "1", "DARRM_READY_SECONDS": "0", "DARRM_LEASE_SECONDS": "3", "DARRM_WAIT_SECONDS": "8"}

QUESTIONS = ("readiness", "given before", "stored", "new problem", "certificate")


class Reply(NamedTuple):
    """A reply."""

    status: int  # of HTTP; 0 where there was no reply
    seconds: float  # that it took
    detail: str = ""  # what an error says

    def __str__(self) -> str:
        return f"{self.status or 'none'} ({self.seconds:.1f} s)"


@dataclass
class Finding:
    """Replies under a fault."""

    fault: str  # its name
    during: dict[str, Reply] = field(default_factory=dict)  # replies during the fault, by question
    after: dict[str, Reply] = field(default_factory=dict)  # replies after it
    # time from the end of the fault until a new problem was answered [s]; None if it was not
    recovery: float | None = None
    needs: str = "nothing"  # action of the operator
    told: str = ""  # the detail of readiness
    wrong: list[str] = field(default_factory=list)  # in words


class Site:
    """A server with stored answers, and the place of its store.

    Args:
        folder: of the store and the logs.
        url: of the store; "" for a SQLite file in the folder.
        settings: more of the server's environment.
    """

    def __init__(self, folder: Path, url: str = "", **settings: str) -> None:
        self.folder, self.path = folder, folder / "store.sqlite"
        self.url = url or f"sqlite:///{self.path}"
        self.logs = Path(tempfile.mkdtemp(prefix="darrm-faults-"))
        self.settings = {**SETTINGS, **settings}
        self._stored, self._number = list(STORED), 0
        with contextlib.closing(open_store(self.url)) as store:
            for problem in STORED:
                cached_solve(Problem.from_allowance(**problem), store=store)
        self.service = self._serve()
        self._before = self._stored.pop()
        for _ in range(2):
            self.ask("GET", "/v1/gamma", params=self._before)
        # Processes start, and on a busy machine so slowly that the first answers are jobs.
        until(lambda: self.ask("POST", "/v1/verify", json=VERIFY).status == 200)
        self.ask("GET", "/readyz")
        until(lambda: self.problem().status == 200)

    def _serve(self) -> Service:
        return Service(self.url, self.logs, 0, **self.settings)

    def restart(self) -> None:
        """Restart the server, even if it hangs."""
        if self.service.process.poll() is None:
            try:
                self.service.stop()
            except subprocess.TimeoutExpired:
                self.service.kill()
        self.service = self._serve()

    def ask(self, method: str, path: str, **arguments: Any) -> Reply:
        """Ask once, on a connection of its own; a 202 is not the answer, and counts as a kind of its own."""
        with httpx.Client(base_url=self.service.url, timeout=PATIENCE) as client:
            began = time.monotonic()
            try:
                answer = client.request(method, path, **arguments)
            except httpx.TransportError as err:
                return Reply(0, time.monotonic() - began, repr(err))
        detail = "" if answer.status_code < 300 else str(answer.json().get("detail", ""))
        return Reply(answer.status_code, time.monotonic() - began, detail)

    def problem(self) -> Reply:
        """Request a design that is not stored."""
        self._number += 1
        return self.ask("POST", "/v1/gamma", json={"K": 7, "m": 2, "epsilon": round(0.2 + self._number / 1000, 4)})

    def replies(self) -> dict[str, Reply]:
        """Ask all questions."""
        return {
            "readiness": self.ask("GET", "/readyz"),
            "given before": self.ask("GET", "/v1/gamma", params=self._before),
            "stored": self.ask("POST", "/v1/gamma", json=self._stored.pop()),
            "new problem": self.problem(),
            "certificate": self.ask("POST", "/v1/verify", json=VERIFY),
        }

    def close(self) -> None:
        """End the server."""
        if self.service.process.poll() is None:
            self.service.kill()


Steps = Iterator["Site | None"]

Fault = Callable[[ExitStack, Path], Steps]
"""A fault in three steps, from a stack for clean-up and a folder: it yields the site, then begins, yields, and ends."""

FAULTS: dict[str, tuple[Fault, str]] = {}  # every fault by its name, and what an operator has to do


def named(name: str, needs: str = "nothing") -> Callable[[Fault], Fault]:
    """Enter a fault into `FAULTS`."""

    def enter(fault: Fault) -> Fault:
        FAULTS[name] = fault, needs
        return fault

    return enter


def examine(name: str) -> Finding:
    """Return what is answered under a fault and after it."""
    fault, needs = FAULTS[name]
    finding = Finding(name, needs=needs)
    with ExitStack() as stack:
        steps = fault(stack, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        site = next(steps)
        assert site is not None
        stack.callback(site.close)
        next(steps)
        finding.during = site.replies()
        finding.told = finding.during["readiness"].detail
        next(steps, None)
        began = time.monotonic()
        while time.monotonic() - began < RECOVERY:
            if site.problem().status == 200 and site.ask("GET", "/readyz").status == 200:
                finding.recovery = time.monotonic() - began
                break
            time.sleep(0.1)
        finding.after = site.replies()
    finding.wrong = judge(finding)
    return finding


def judge(finding: Finding) -> list[str]:
    """Return what is wrong: readiness that disagrees with new problems, a lost read, an answer of 500, no recovery."""
    during, faults = finding.during, list[str]()
    is_ready, is_answered = (
        during["readiness"].status == 200,
        during["new problem"].status in {200, 202},
    )  # 202: a job works on it
    if is_ready and not is_answered:
        faults.append("it is ready, and a new problem is not answered")
    for name in ("given before", "certificate"):
        if during[name].status not in {200, 0}:
            faults.append(f"{name}: {during[name]}")
    faults += [f"{name}: {reply.detail}" for name, reply in during.items() if reply.status == 500]
    if finding.recovery is None:
        faults.append("it does not recover")
    faults += [f"afterwards {name}: {reply}" for name, reply in finding.after.items() if reply.status not in {200, 202}]
    return faults


# ------------------------------------------------------------------------------------------------------ the store


@contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    """Mount a file system in the folder."""
    place = folder / "disk"
    place.mkdir()
    subprocess.run(["mount", *arguments, str(place)], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)


@named("disk full", "make room")
def disk_full(stack: ExitStack, folder: Path) -> Steps:
    """A small file system without a free byte."""
    place = stack.enter_context(mounted(folder, "-t", "tmpfs", "-o", "size=12m", "tmpfs"))
    yield Site(place)
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    yield None
    ballast.unlink()


@named("file deleted", "restart")
def file_deleted(_: ExitStack, folder: Path) -> Steps:
    """The file and those beside it are removed."""
    site = Site(folder)
    yield site
    for path in folder.glob("store.sqlite*"):
        path.unlink()
    yield None
    site.restart()


@named("file overwritten", "move the file away, restart")
def file_overwritten(_: ExitStack, folder: Path) -> Steps:
    """Every byte of the file is another one."""
    site = Site(folder)
    yield site
    length = site.path.stat().st_size
    with site.path.open("r+b") as file:
        file.write(b"rubbish " * (length // 8 + 1))
    yield None
    for path in folder.glob("store.sqlite*"):
        path.unlink()
    site.restart()


@named("file locked for 60 s")
def locked(stack: ExitStack, folder: Path) -> Steps:
    """Another process holds the writer's lock of the file."""
    site = Site(folder)
    yield site
    connection = sqlite3.connect(site.path, isolation_level=None)
    stack.callback(connection.close)
    connection.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    yield None
    time.sleep(max(0.0, began + 60 - time.monotonic()))
    connection.execute("ROLLBACK")


@named("file system read-only", "repair the file system, restart")
def read_only(stack: ExitStack, folder: Path) -> Steps:
    """The file system fails, and lets nobody write any more: what ext4 does after an error."""

    def run(*command: str, check: bool = True) -> None:
        subprocess.run(command, check=check, capture_output=True)

    image = str(folder / "image")
    with open(image, "wb") as file:  # noqa: PTH123 - the name is an argument of commands
        file.truncate(2**26)
    run("mke2fs", "-q", "-t", "ext4", image)
    place = stack.enter_context(mounted(folder, "-o", "loop", image))
    site = Site(place)
    yield site
    run("mount", "-o", "remount,abort", str(place))
    yield None
    site.service.stop()
    run("umount", str(place))
    run("e2fsck", "-y", image, check=False)
    run("mount", "-o", "loop", image, str(place))
    site.restart()


@named("PostgreSQL gone, and back")
def database_gone(_: ExitStack, folder: Path) -> Steps:
    """PostgreSQL is stopped, and started again."""
    from support.postgres import server

    postgres = server()
    yield Site(folder, postgres.url(postgres.new()))
    postgres.stop()
    yield None
    postgres.start()


@named("queue stalled")
def queue_stalled(_: ExitStack, folder: Path) -> Steps:
    """The table of jobs cannot be read: it was renamed."""
    site = Site(folder)
    yield site

    def rename(old: str, new: str) -> None:
        with contextlib.closing(sqlite3.connect(site.path)) as connection, connection:
            connection.execute(f"ALTER TABLE {old} RENAME TO {new}")

    rename("darrm_jobs", "darrm_jobs_away")
    time.sleep(17)
    yield None
    rename("darrm_jobs_away", "darrm_jobs")


# -------------------------------------------------------------------------------------------------- the processes


@named("worker killed")
def worker_killed(_: ExitStack, folder: Path) -> Steps:
    """SIGKILL to one of two workers."""
    site = Site(folder, DARRM_WORKERS="2")
    yield site
    own = workers_of(site.service.process.pid)
    os.kill(own[0], signal.SIGKILL)
    gone(own[:1])
    yield None


@named("server killed", "restart (a supervisor does)")
def server_killed(_: ExitStack, folder: Path) -> Steps:
    """SIGKILL to the server and its workers, while a job runs."""
    site = Site(folder)
    yield site
    site.service.client.post("/v1/jobs", json={"K": 51, "m": 5, "epsilon": 0.1, "Delta": 1e-3}).raise_for_status()
    site.service.kill()
    yield None
    site.restart()


@named("solver killed")
def solver_killed(_: ExitStack, folder: Path) -> Steps:
    """SIGKILL to every solver process."""
    site = Site(folder)
    yield site
    pids = site.service.solvers
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    gone(pids)
    yield None


@named("solver stuck")
def solver_stuck(stack: ExitStack, folder: Path) -> Steps:
    """SIGSTOP to every solver process: alive, and doing nothing for ever. In the end every job must be done."""
    site = Site(folder, DARRM_TIME_LIMIT="1")
    yield site
    for pid in site.service.solvers:
        os.kill(pid, signal.SIGSTOP)
        stack.callback(_kill, pid)
    yield None
    client, end = site.service.client, time.monotonic() + PATIENCE
    while any(client.get("/v1/jobs", params={"state": state}).json()["jobs"] for state in ("queued", "running")):
        if time.monotonic() > end:
            raise RuntimeError("a job of a stuck process is never done")
        time.sleep(0.2)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def report(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings."""
    rows = []
    for found in findings:
        back = "never" if found.recovery is None else f"after {found.recovery:.1f} s"
        replies = [found.during[name] for name in QUESTIONS]
        rows.append((found.fault, *replies, back, found.needs, "; ".join(found.wrong) or "nothing"))
    yield from table(("fault", *QUESTIONS, "afterwards a new problem", "the operator", "wrong"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 if anything was wrong."""
    options = read_options(__doc__, arguments, only=("", "part of the names of faults"), write=Path)
    findings, skipped = list[Finding](), list[str]()
    for name in FAULTS:
        if options.only not in name:
            continue
        try:
            findings.append(examine(name))
        except (OSError, subprocess.CalledProcessError) as err:
            skipped.append(f"{name}: {err}")
            continue
        sys.stderr.write(f"{findings[-1]}\n")
    publish("operating_faults", report(findings), options.write)
    say(*(f"skipped: {fault}" for fault in skipped))
    return int(any(finding.wrong for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
