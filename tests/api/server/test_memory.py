"""Memory and processors of a container, and the share of its solver processes."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from support.refusals import refused as refused_input

from api.errors.problem_details import WorkLimitExceeded
from api.server.container_limits import (
    MAX_MEMORY,
    MIN_MEMORY,
    WORKER_MEMORY,
    default_solvers,
    memory_limit,
    process_count,
    processor_count,
    solver_memory,
)
from api.settings import Settings, read_settings
from api.tasks.design import DesignTask
from darrm_opt import Problem
from darrm_opt.record import DesignSpec

MEMINFO = "MemTotal:       16384000 kB\nMemFree: 1 kB\n"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"sys/fs/cgroup/memory.max": "1073741824\n", "proc/meminfo": MEMINFO}, 1024),
        ({"sys/fs/cgroup/memory.max": "max\n", "proc/meminfo": MEMINFO}, 16000),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n", "proc/meminfo": MEMINFO}, 512),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "proc/meminfo": MEMINFO}, 16000),
        ({"sys/fs/cgroup/memory.max": "not a number"}, None),
        (  # systemd and Slurm limit a group above the innermost one
            {
                "proc/self/cgroup": "0::/system.slice/job_7/step_0\n",
                "sys/fs/cgroup/system.slice/job_7/memory.max": "268435456\n",
                "sys/fs/cgroup/system.slice/job_7/step_0/memory.max": "max\n",
                "sys/fs/cgroup/other.slice/memory.max": "1048576\n",
                "proc/meminfo": MEMINFO,
            },
            256,
        ),
        (
            {
                "proc/self/cgroup": "9:name=systemd:/x\n4:memory:/slurm/job_7/step_0\n",
                "sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes": "268435456\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "proc/meminfo": MEMINFO,
            },
            256,
        ),
        (  # a container that sees the path of its group on the host, and only the group itself
            {"proc/self/cgroup": "4:memory:/docker/ab\n0::/../..\n", "sys/fs/cgroup/memory.max": "536870912\n"},
            512,
        ),
        ({"proc/self/cgroup": "nonsense", "sys/fs/cgroup/memory.max": "536870912\n"}, 512),
        ({}, None),
    ],
)
def test_the_limit_is_that_of_container_or_machine(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    _write(tmp_path, files)
    assert memory_limit(tmp_path) == limit


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"sys/fs/cgroup/cpu.max": "150000 100000"}, 2),
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"sys/fs/cgroup/cpu.max": ""}, None),
        (
            {
                "proc/self/cgroup": "0::/job/step\n",
                "sys/fs/cgroup/job/cpu.max": "100000 100000",
                "sys/fs/cgroup/job/step/cpu.max": "max 100000",
            },
            1,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/job/step\n",
                "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "50000",
                "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu/job/step/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/job/step/cpu.cfs_period_us": "100000",
            },
            1,
        ),
    ],
)
def test_the_smallest_processor_quota_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], count: int | None
) -> None:
    monkeypatch.setattr("api.server.container_limits.usable_processors", lambda: 16)
    _write(tmp_path, files)
    assert processor_count(tmp_path) == (count or 16)


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="ascii")


def test_all_processes_together_stay_within_the_limit() -> None:
    for limit, workers, solvers in product((512, 768, 1024, 2048, 4096, 65_536), (1, 2, 4), (1, 2, 4, 8)):
        if workers * (WORKER_MEMORY + process_count(solvers) * MIN_MEMORY) > limit:
            with refused_input("DARRM_SOLVERS"):
                solver_memory(None, workers, solvers, limit)
            continue
        each = solver_memory(None, workers, solvers, limit)
        assert MIN_MEMORY <= each <= MAX_MEMORY
        assert workers * (WORKER_MEMORY + process_count(solvers) * each) <= limit


@pytest.mark.parametrize("limit", [512, 1024, 2048, 8192, None])
def test_the_default_fits_any_number_of_processors(limit: int | None) -> None:
    for processors in (1, 2, 8, 64):
        solvers = default_solvers(limit, processors)
        assert 1 <= solvers <= processors
        if limit is not None and limit > WORKER_MEMORY + 2 * MIN_MEMORY:
            assert solver_memory(None, 1, solvers, limit) >= MIN_MEMORY


def test_the_least_memory_of_a_solver_process_solves_small_problems() -> None:
    spec = DesignSpec(Problem.from_allowance(K=11, m=3, epsilon=0.1))
    DesignTask(spec, "cuts", "highs").check(read_settings(max_solver_memory=MIN_MEMORY))
    with refused_input("DARRM_MAX_SOLVER_MEMORY", "159"):
        read_settings(max_solver_memory=MIN_MEMORY - 1)


def test_excess_memory_is_refused_by_estimate() -> None:
    spec = DesignSpec(Problem.from_allowance(K=101, m=3, epsilon=0.1))
    with pytest.raises(WorkLimitExceeded, match=r"by enumerate needs about \d+ MiB; .* 512 MiB") as refused:
        DesignTask(spec, "enumerate", "highs").check(Settings(max_solver_memory=512))
    assert refused.value.field == "method"
    DesignTask(spec, "cuts", "highs").check(Settings(max_solver_memory=512))
    DesignTask(spec, "enumerate", "highs").check(Settings(max_solver_memory=2048))
