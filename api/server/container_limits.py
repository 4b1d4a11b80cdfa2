"""Memory and processors of the container or machine, and the number and memory of solver processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from darrm_opt.errors import InvalidInput
from darrm_opt.process import usable_processors

MEBIBYTE = 2**20

WORKER_MEMORY = 256  # memory of a worker process with its response cache [MiB]
USUAL_MEMORY = 512  # memory of a solver process for most problems [MiB]; with less, fewer are started
MIN_MEMORY = 160  # minimum memory of a solver process [MiB]: its libraries take some 110
MAX_MEMORY = 2048  # default maximum memory of a solver process [MiB]


@cache  # needed for every new problem
def memory_limit(root: Path = Path("/")) -> int | None:
    """Return the smallest memory limit of control groups and machine [MiB]; None if unknown."""
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
    """Return the number of usable processors: the smallest quota, rounded up, or the CPU affinity."""
    count = usable_processors()
    for group in _control_groups("cpu", root):
        try:
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            quota, period = str(_number(group / "cpu.cfs_quota_us")), str(_number(group / "cpu.cfs_period_us"))
        with suppress(ValueError, ZeroDivisionError):  # "max", or None without a quota
            count = min(count, math.ceil(int(quota) / int(period)))
    return max(1, count)


def process_count(solvers: int) -> int:
    """Return the number of solver processes of a worker: for jobs, small γ, and other short work.

    >>> [process_count(solvers) for solvers in (1, 2, 4)]
    [3, 4, 8]
    """
    return solvers + 2 * max(1, solvers // 2)


def default_solvers(limit: int | None, processors: int) -> int:
    """Return the number of concurrent jobs of a worker: one per processor, while each has enough memory.

    >>> default_solvers(None, 8), default_solvers(1024, 8), default_solvers(16_384, 8)
    (8, 1, 8)
    """
    solvers = processors
    while solvers > 1 and limit is not None and process_count(solvers) * USUAL_MEMORY > limit - WORKER_MEMORY:
        solvers -= 1
    return solvers


def solver_memory(setting: int | None, workers: int, solvers: int, limit: int | None) -> int:
    """Return the maximum memory of one solver process [MiB], so that all together stay within the limit.

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
            f"a number that leaves each of the {workers * process_count(solvers)} solver processes {MIN_MEMORY} MiB "
            f"of the available {limit} MiB",
            "Set fewer DARRM_SOLVERS or DARRM_WORKERS, give the container more memory, or set DARRM_MAX_SOLVER_MEMORY.",
        )
    return min(MAX_MEMORY, share)


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups, versions 2 and 1, up to their mounts."""
    # Limits of all ancestors apply: systemd and Slurm set theirs above the innermost. A container may see the path of
    # its group outside, of which only the mount exists inside.
    paths = {"": "/", controller: "/"}  # without /proc
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
    """Return the number in a file; None for none, for "max", and for the value of older kernels."""
    try:
        number = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return number if 0 < number < 2**60 else None
