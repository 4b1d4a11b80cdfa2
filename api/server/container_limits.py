"""Memory and processors of the container or the machine: how many solver processes run, and what each may take."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from darrm_opt.errors import InvalidInput
from darrm_opt.process import usable_processors

MEBIBYTE = 2**20

WORKER_MEMORY = 256
"""Memory of a worker process itself, and of its response cache [MiB]."""

USUAL_MEMORY = 512
"""Memory that suffices a solver process for most problems [MiB]; fewer are started where there is less for each."""

MIN_MEMORY = 160
"""Least memory of a solver process [MiB]: the libraries that it loads take some 110."""

MAX_MEMORY = 2048
"""Most memory of a solver process unless the operator says otherwise [MiB]."""


@cache  # asked for every new problem
def memory_limit(root: Path = Path("/")) -> int | None:
    """Return the least memory that a control group or the machine sets [MiB]; None if the system does not say."""
    limits = [
        _number(group / name)
        for group in _control_groups("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
        limits += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")]
    except (OSError, ValueError, IndexError):
        pass
    values = [number for number in limits if number is not None]
    return min(values) // MEBIBYTE if values else None


def processor_count(root: Path = Path("/")) -> int:
    """Return how many processors this process may use: the least quota, rounded up, or those that it is bound to."""
    count = usable_processors()
    for group in _control_groups("cpu", root):
        try:
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            quota, period = str(_number(group / "cpu.cfs_quota_us")), str(_number(group / "cpu.cfs_period_us"))
        with suppress(ValueError, ZeroDivisionError):  # "max", or None where there is no quota
            count = min(count, math.ceil(int(quota) / int(period)))
    return max(1, count)


def process_count(solvers: int) -> int:
    """Return the solver processes of a worker: those of jobs, of small γ, and of other short work.

    >>> [process_count(solvers) for solvers in (1, 2, 4)]
    [3, 4, 8]
    """
    return solvers + 2 * max(1, solvers // 2)


def default_solvers(limit: int | None, processors: int) -> int:
    """Return how many jobs a worker does at once: one for each processor, as long as each has memory.

    >>> default_solvers(None, 8), default_solvers(1024, 8), default_solvers(16_384, 8)
    (8, 1, 8)
    """
    solvers = processors
    while solvers > 1 and limit is not None and process_count(solvers) * USUAL_MEMORY > limit - WORKER_MEMORY:
        solvers -= 1
    return solvers


def solver_memory(setting: int | None, workers: int, solvers: int, limit: int | None) -> int:
    """Return the most memory of one solver process [MiB], so that all of them together stay within the limit.

    ``setting`` is the operator's [MiB]; None derives it from ``limit``, the memory of the container, None if unknown.

    >>> solver_memory(None, 1, 2, 2048), solver_memory(None, 1, 1, 65_536), solver_memory(300, 1, 1, 1024)
    (448, 2048, 300)
    """
    if setting is not None:
        return setting
    if limit is None:
        return MAX_MEMORY
    share = (limit - workers * WORKER_MEMORY) // (workers * process_count(solvers))
    if share < MIN_MEMORY:
        raise InvalidInput(
            "DARRM_SOLVERS",
            solvers,
            f"so many that each of the {workers * process_count(solvers)} solver processes has "
            f"{MIN_MEMORY} MiB of the {limit} MiB that there are",
            "Set fewer DARRM_SOLVERS or DARRM_WORKERS, give the container more memory, or set DARRM_MAX_SOLVER_MEMORY.",
        )
    return min(MAX_MEMORY, share)


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups, of versions 2 and 1, up to where each is mounted."""
    # A limit of any of them holds: systemd and Slurm set theirs above the innermost. A container may see the path that
    # its group has outside, where it has none of these folders but the mount itself.
    paths = {"": "/", controller: "/"}  # of a process about which /proc says nothing
    try:
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            paths |= {name: path for name in controllers.split(",") if name in paths}
    except (OSError, ValueError):
        pass
    for mount, name in (("", ""), ("unified", ""), (controller, controller)):
        parts = [part for part in paths[name].split("/") if part not in {"", ".."}]
        for length in range(len(parts), -1, -1):
            yield root.joinpath("sys/fs/cgroup", mount, *parts[:length])


def _number(path: Path) -> int | None:
    """Return the number in a file; None for none, for "max", and for what older kernels write for it."""
    try:
        number = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return number if 0 < number < 2**60 else None
