"""Denial of service: every attack of `campaigns.attackers` on a real server, naked and behind the proxy.

    PYTHONPATH=tests python -m campaigns.denial [--seconds 15] [--only NAME …] [--door naked] [--write docs/faults.md]

For each attack a new server, which takes all its limits from its defaults and has keys. Meanwhile a polite client with
a key, from an address of its own, asks for certificates, on a connection that it keeps and on new ones, and the
orchestrator for /healthz. What is measured: resident memory of the service, at its peak and ten seconds after; the
times of the polite client, and its failures.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import product
from pathlib import Path
from typing import Literal

from support.paths import SEARCH_PATH
from support.postgres import Postgres
from support.postgres import server as postgresql_server
from support.served import Service, children, service

from api.access.keys import create_key
from campaigns.attackers import ATTACKS, Attack, Tally, Target
from campaigns.driver import origin, publish, read_options, say, table
from campaigns.proxy import Proxy, proxying
from darrm_opt.process import usable_processors

Door = Literal["naked", "proxy"]

DOORS: tuple[Door, ...] = ("naked", "proxy")

MAX_MEMORY = 400  # largest resident memory of the service [MiB]
MAX_VERIFY = 0.5  # largest 99th percentile of a certificate [s], naked

MAX_RATIO = 5.0
"""Largest 99th percentile behind the proxy, as a multiple of that on the idle server, unless it is unnoticed."""

UNNOTICED = 0.1  # the same behind the proxy [s], unless `MAX_RATIO` times that on the idle server is more
MAX_HEALTH = 1.0  # longest time of /healthz [s]

MAX_HANG = 16.0
"""Longest time of an answer of 503 while the store hangs [s]: its deadline, and a second for a busy machine."""

HANG_SECONDS = 25.0  # least time for which the store hangs [s]: longer than any answer may take
IDLE = 3.0  # time of the polite client alone, before an attack and after it [s]
RECOVERY = 10.0  # time after an attack until everything must be as before [s]
PATIENCE = 30.0  # longest time of a polite request [s]; it counts as a failure after that
PAUSE = 0.02  # time between two polite requests [s]

CERTIFICATE = json.dumps({"K": 3, "m": 1, "epsilon": 0.1, "gamma": [0.1, 0.03, 0.03, 0.1]})
"""What the polite client sends to /v1/verify."""

HANG = "store that hangs"  # the attack for which PostgreSQL is stopped


@dataclass
class Polite:
    """What the polite client met: times of certificates and of /healthz [s], and what failed, in words."""

    verify: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def ask(self, times: list[float], connection: HTTPConnection, path: str, body: str | None, key: str) -> None:
        """Ask once, and note the time, or the failure; again if the connection had been kept and was closed meanwhile."""
        headers = {"Content-Type": "application/json", "X-API-Key": key, "Host": "localhost"}
        began, was_kept = time.perf_counter(), connection.sock is not None
        for is_last in (not was_kept, True):
            try:
                connection.request("GET" if body is None else "POST", path, body, headers)
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException) as err:
                connection.close()
                if is_last:
                    self.failures.append(f"{path}: {err!r}")
                    break
            else:
                if answer.status != 200:
                    self.failures.append(f"{path}: {answer.status}")
                break
        times.append(time.perf_counter() - began)


@dataclass(frozen=True)
class Finding:
    """What an attack did."""

    attack: str  # its name
    door: Door  # naked, or behind the proxy
    idle: Polite  # the polite client before it
    during: Polite  # the polite client meanwhile
    after: Polite  # the polite client ten seconds after
    peak: int  # largest resident memory of the service [MiB]
    left: int  # its resident memory ten seconds after [MiB]
    proxy: int  # largest resident memory of the proxy, over its processes [MiB]; 0 where there is none
    errors: int  # what the proxy wrote meanwhile, to both logs [bytes]
    attackers: Tally  # what the attackers did

    def wrong(self) -> list[str]:
        """Return what should not be, in words."""
        slow = MAX_VERIFY if self.door == "naked" else max(UNNOTICED, MAX_RATIO * p99(self.idle.verify))
        limits = {
            f"memory {self.peak} MiB": self.peak > MAX_MEMORY,
            f"memory {self.left} MiB afterwards": self.left > MAX_MEMORY,
            f"verify {p99(self.during.verify):.2f} s": p99(self.during.verify) > slow,
            f"health {max(self.during.health):.2f} s": max(self.during.health) > MAX_HEALTH,
            f"verify {p99(self.after.verify):.2f} s afterwards": p99(self.after.verify) > slow,
            f"failures {self.during.failures[:3]}": bool(self.during.failures),
            f"failures {self.after.failures[:3]} afterwards": bool(self.after.failures),
            f"the attackers waited {self.attackers.longest:.1f} s": self.attack == HANG
            and self.attackers.longest > MAX_HANG,
            "no attacker got through": self.attackers.opened == 0,
        }
        return [text for text, is_wrong in limits.items() if is_wrong]


class Site:
    """A server under attack: its process, its door, and keys of an attacker and of a polite client.

    Args:
        server: the server.
        proxy: the proxy before it, if any.
        keys: of an attacker and of the polite client.
        postgres: its store, unless that is a file.
    """

    def __init__(self, server: Service, proxy: Proxy | None, keys: list[str], postgres: Postgres | None) -> None:
        self.server, self.proxy, self._postgres = server, proxy, postgres
        self.idle = Polite()  # what the polite client met before any attack
        self.key, self._polite_key = keys
        self._own = (server.client.base_url.host, server.client.base_url.port or 0)
        self._kept = self._connection()

    def close(self) -> None:
        """Close the connection that was kept."""
        self._kept.close()

    def target(self) -> Target:
        """Return where an attack goes."""
        if self.proxy is None:
            return Target(*self._own, "", self.key)
        return Target(*self.proxy.address, str(self.proxy.certificate), self.key)

    def ask_politely(self, seconds: float) -> Polite:
        """Ask for certificates and for /healthz for a time."""
        polite = Polite()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.closing(self._connection()) as new:
                polite.ask(polite.verify, new, "/v1/verify", CERTIFICATE, self._polite_key)
            time.sleep(PAUSE)
            polite.ask(polite.verify, self._kept, "/v1/verify", CERTIFICATE, self._polite_key)
            time.sleep(PAUSE)
            with contextlib.closing(HTTPConnection(*self._own, timeout=PATIENCE)) as inside:
                polite.ask(polite.health, inside, "/healthz", None, self._polite_key)
            time.sleep(PAUSE)
        return polite

    def memory(self, name: str, pid: int | None = None) -> int:
        """Return a figure of a process's memory, as /proc names it [MiB]; of the server, unless another is named."""
        status = Path(f"/proc/{pid or self.server.process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:")) // 1024

    def proxy_memory(self) -> int:
        """Return the largest resident memory of the proxy's processes, added up [MiB]."""
        if self.proxy is None:
            return 0
        pids = [self.proxy.process.pid, *children().get(self.proxy.process.pid, [])]
        return sum(self.memory("VmHWM", pid) for pid in pids)

    def hanging(self, attack: Attack) -> contextlib.AbstractContextManager[None]:
        """Return the block within which the store hangs, if that is part of an attack."""
        if attack.name != HANG:
            return contextlib.nullcontext()
        assert self._postgres is not None
        return self._postgres.hanging()

    def reset(self) -> None:
        """Forget the peak of before."""
        Path(f"/proc/{self.server.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def _connection(self) -> HTTPConnection:
        if self.proxy is None:
            return HTTPConnection(*self._own, timeout=PATIENCE)
        return HTTPSConnection(*self.proxy.address, timeout=PATIENCE, context=self.proxy.trust)


@contextlib.contextmanager
def site(door: Door, idle: float, *, postgresql: bool = False) -> Iterator[Site]:
    """Run a server with its default limits, idle for a time [s], behind the proxy or not; its store may be PostgreSQL."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        keys = [create_key(folder / "keys.json", name)[1] for name in ("greedy", "polite")]
        settings = {"DARRM_KEYS": str(folder / "keys.json"), "DARRM_LOG_LEVEL": "info"}
        settings |= {"DARRM_RATE": "100", "DARRM_BURST": "200"}
        if door == "proxy":
            settings["DARRM_TRUSTED_PROXIES"] = "127.0.0.1"
        postgres = postgresql_server() if postgresql else None
        url = f"sqlite:///{folder / 'store.sqlite'}" if postgres is None else postgres.url(postgres.new())
        running = stack.enter_context(service(url, folder, **settings))
        proxy = stack.enter_context(proxying(running.url)) if door == "proxy" else None
        under = Site(running, proxy, keys, postgres)
        stack.callback(under.close)
        under.ask_politely(1.0)  # processes start
        under.idle = under.ask_politely(idle)
        yield under


@contextlib.contextmanager
def attacked(attack: Attack, target: Target, scale: float, seconds: float) -> Iterator[Tally]:
    """Attack within the block, from a process of its own; yield what will hold its tally after it."""
    command = [sys.executable, "-m", "campaigns.attackers", attack.name, str(scale), str(seconds + 60)]
    environment = {**os.environ, "PYTHONPATH": SEARCH_PATH}
    tally = Tally()
    with subprocess.Popen(
        [*command, json.dumps(vars(target))], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            yield tally
            assert process.poll() is None, "the attack ended before it should"
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=60)
        tally.add(output)


def measure(under: Site, attack: Attack, scale: float, seconds: float, recovery: float) -> Finding:
    """Attack a server for a time, and return what came of it.

    Args:
        under: the server under attack.
        attack: what is done.
        scale: multiple of the attack's connections.
        seconds: time of the attack [s].
        recovery: time between its end and the last measurement [s].
    """
    under.reset()
    with under.hanging(attack), attacked(attack, under.target(), scale, seconds) as tally:
        during = under.ask_politely(seconds)
    peak = under.memory("VmHWM")
    time.sleep(recovery)
    after = under.ask_politely(min(IDLE, seconds / 2))
    logs = [] if under.proxy is None else [under.proxy.errors, under.proxy.log]
    return Finding(
        attack.name,
        "naked" if under.proxy is None else "proxy",
        under.idle,
        during,
        after,
        peak,
        under.memory("VmRSS"),
        under.proxy_memory(),
        sum(path.stat().st_size for path in logs),
        tally,
    )


HEAD = (
    *("attack", "door", "memory (10 s after) [MiB]", "verify p50 [ms]", "p99 [ms]"),
    *("slowest health [ms]", "failed", "proxy [MiB]", "connections, answers", "limits kept"),
)


def p99(times: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(times)[min(len(times) - 1, int(0.99 * len(times)))]


def row(found: Finding) -> tuple[object, ...]:
    """Return a finding as a row of the table."""
    verify, health, attackers = found.during.verify, found.during.health, found.attackers
    answers = [f"{number} × {status}" for status, number in sorted(attackers.statuses.items())]
    return (
        *(found.attack, found.door, f"{found.peak} ({found.left})"),
        *(f"{1000 * value:.0f}" for value in (statistics.median(verify), p99(verify), max(health))),
        *(f"{len(found.during.failures)} of {len(verify) + len(health)}", found.proxy or ""),
        *(", ".join([str(attackers.opened), *answers]), "; ".join(found.wrong()) or "yes"),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return 1 where a limit was not kept."""
    only, doors = ([each.name for each in ATTACKS], "attacks"), ([*DOORS], "doors")
    options = read_options(__doc__, arguments, seconds=15.0, scale=1.0, only=only, door=doors, write=Path)
    findings, before = list[Finding](), os.getloadavg()[0]
    for attack, door in product(ATTACKS, DOORS):
        if attack.name not in options.only or door not in options.door:
            continue
        seconds = max(options.seconds, HANG_SECONDS) if attack.name == HANG else options.seconds
        with site(door, IDLE, postgresql=attack.name == HANG) as under:
            findings.append(measure(under, attack, options.scale, seconds, RECOVERY))
        say(*[*table(HEAD, [row(findings[-1])])][2:])
    load = f"load average {before:.0f} before and {os.getloadavg()[0]:.0f} after"
    made = origin(f"make attack ARGS='--seconds {options.seconds:g}'")
    lines = [*table(HEAD, map(row, findings)), "", f"{usable_processors()} processors, {load}.", "", made]
    publish("denial", lines, options.write)
    return int(any(finding.wrong() for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
