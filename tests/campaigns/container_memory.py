"""Do the examples of deployment stay within their memory, whatever is asked?

    PYTHONPATH=tests python -m campaigns.container_memory [--seconds 60] [--write docs/faults.md]

Each example's server runs in a control group with the example's memory limit, which it sees as a container does, with
the settings of the example. Every solver process gets the largest enumeration that is admitted, and K = 101 by
enumeration is asked for as well; comparisons, accounts and designs of 101 voters come beside them. The kernel counts
what it kills (`memory.oom_control`) and the most memory that was in use. Needs root, and version 1 of the memory
controller.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from support.paths import SEARCH_PATH
from support.service import Service

from api.server.container_limits import solver_memory
from campaigns.driver import publish, read_options, table
from darrm_opt import Problem
from darrm_opt.answers.running_time import design_memory
from darrm_opt.record import DesignSpec

CONTROLLER = Path("/sys/fs/cgroup/memory")


@dataclass(frozen=True)
class Example:
    """An example of deployment."""

    name: str  # where it stands
    memory: int  # limit [MiB]
    workers: int  # processes that answer
    solvers: int  # jobs that each does at once

    @property
    def bound(self) -> int:
        """Memory that a solver process may take [MiB]."""
        return solver_memory(None, self.workers, self.solvers, self.memory)


EXAMPLES = (
    Example("compose.yaml, service", 4096, 2, 2),
    Example("compose.yaml, stored answers", 1024, 1, 1),
    Example("examples/kubernetes/service.yaml", 2048, 1, 2),
    Example("examples/kubernetes/training-job.yaml", 768, 1, 1),
    Example("docs/deploy.md", 2048, 1, 2),
    Example("--memory 1g", 1024, 1, 1),
)


def largest(bound: int) -> int:
    """Return the most voters whose enumeration is admitted."""
    return max(K for K in range(3, 102, 2) if design_memory(_spec(K), "enumerate") <= bound)


def _spec(K: int) -> DesignSpec:
    return DesignSpec(Problem.from_allowance(K=K, m=min(K - 1, 3), epsilon=0.1))


def work(example: Example) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield what is asked, again and again: a name, the path and the body."""
    K, number = largest(example.bound), 0
    while True:
        number += 1
        epsilon = round(0.1 + number / 10_000, 4)
        yield f"enumerate, K = {K}", "/v1/gamma", {"K": K, "m": 3, "epsilon": epsilon, "method": "enumerate"}
        yield "enumerate, K = 101", "/v1/gamma", {"K": 101, "m": 3, "epsilon": epsilon, "method": "enumerate"}
        yield "cuts, K = 101", "/v1/gamma", {"K": 101, "m": 4, "epsilon": epsilon, "Delta": 1e-5}
        yield "account", "/v1/compose", {"epsilon": epsilon, "delta": 1e-6, "queries": 10}
        budget = {"queries": 100 + number, "total_epsilon": 1.0, "total_delta": 1e-4, "fresh": True}
        yield "comparison, K = 101", "/v1/compare", {"K": 101, "epsilon": 0.1, "Delta": 1e-5, **budget}


def load(example: Example, seconds: float) -> dict[str, Any]:
    """Run the example's server in the control group of this process, ask for so long, and return what came of it."""
    settings = {"DARRM_WORKERS": str(example.workers), "DARRM_SOLVERS": str(example.solvers), "DARRM_JOB_RATE": "0"}
    statuses: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.sqlite"
        server = Service(url, Path(folder), 0, DARRM_WAIT_SECONDS="60", DARRM_LOG_FORMAT="json", **settings)
        outer = Path(os.environ["OUTER_GROUP"])
        (outer / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")  # the client is not in the container
        items, end = work(example), time.monotonic() + seconds

        def ask(item: tuple[str, str, dict[str, Any]]) -> None:
            name, path, body = item
            with httpx.Client(base_url=server.url, timeout=300) as client:
                try:
                    status = str(client.post(path, json=body).status_code)
                except httpx.TransportError:
                    status = "broken"
            statuses[f"{name}: {status}"] += 1

        count = 2 * example.workers * example.solvers + 2
        with ThreadPoolExecutor(count) as pool:
            waiting = [pool.submit(ask, next(items)) for _ in range(count)]
            while time.monotonic() < end:
                time.sleep(0.05)
                waiting = [future if not future.done() else pool.submit(ask, next(items)) for future in waiting]
        readiness = server.client.get("/readyz").status_code
        server.kill()
    peak = int((CONTROLLER / "memory.max_usage_in_bytes").read_text(encoding="ascii")) / 2**20
    control = (CONTROLLER / "memory.oom_control").read_text(encoding="ascii").splitlines()
    killed = next(int(line.split()[1]) for line in control if line.startswith("oom_kill "))
    return {"statuses": dict(statuses), "ready": readiness, "used": peak, "killed": killed}


def contained(example: Example, seconds: float) -> dict[str, Any]:
    """Return what `load` finds in a control group with the example's limit, mounted where a container sees its own."""
    group = CONTROLLER / f"darrm-memory-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(f"{example.memory}M", encoding="ascii")
        with tempfile.TemporaryDirectory() as outer:
            script = (
                f"mount --bind {CONTROLLER} {outer} && echo $$ > {group}/cgroup.procs && "
                f"mount --bind {group} {CONTROLLER} && exec '{sys.executable}' -m campaigns.container_memory "
                f"--inside '{example.name}' --seconds {seconds:g}"
            )
            run = subprocess.run(
                ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
                env={**os.environ, "OUTER_GROUP": outer, "PYTHONPATH": SEARCH_PATH},
                capture_output=True,
                text=True,
                check=False,
            )
        if run.returncode:
            raise RuntimeError(run.stderr[-2000:])
        result: dict[str, Any] = eval(run.stdout)  # noqa: S307 — our own dictionary
        return result
    finally:
        time.sleep(1)
        for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
            (CONTROLLER / "cgroup.procs").write_text(pid, encoding="ascii")
        group.rmdir()


HEAD = (
    *("example", "limit [MiB]", "workers × solvers", "each solver process [MiB]", "most in use [MiB]"),
    *("killed by the kernel", "ready", "answers"),
)


def row(example: Example, result: dict[str, Any]) -> tuple[object, ...]:
    """Return a finding as a row of the table."""
    statuses = "; ".join(f"{count} × {name}" for name, count in sorted(result["statuses"].items()))
    shape = (example.name, example.memory, f"{example.workers} × {example.solvers}", example.bound)
    return (*shape, f"{result['used']:.0f}", result["killed"], result["ready"], statuses)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 if the kernel killed a process, or an answer was a 5xx."""
    options = read_options(
        __doc__,
        arguments,
        seconds=(60.0, "load of each example [s]"),
        only=("", "part of the names of examples"),
        write=Path,
        inside=(str, argparse.SUPPRESS),
    )
    if options.inside:
        example = next(candidate for candidate in EXAMPLES if candidate.name == options.inside)
        sys.stdout.write(repr(load(example, options.seconds)))
        return 0
    findings = []
    for example in EXAMPLES:
        if options.only in example.name:
            findings.append((example, contained(example, options.seconds)))
            sys.stderr.write(f"{findings[-1]}\n")
    publish("container_memory", table(HEAD, [row(*found) for found in findings]), options.write)
    failures = [name for _, result in findings for name in result["statuses"] if name.rpartition(": ")[2][0] in "5b"]
    return int(any(result["killed"] for _, result in findings) or bool(failures))


if __name__ == "__main__":
    sys.exit(main())
