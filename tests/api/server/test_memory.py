"""Memory and processors of a container, and what its solver processes may take of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.errors.exceptions import WorkLimitExceeded
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
from api.service.work_limits import check_design
from api.settings import Settings, read_settings
from darrm_opt import InvalidInput, Problem
from darrm_opt.design_spec import DesignSpec

MEMINFO = "MemTotal:       16384000 kB\nMemFree: 1 kB\n"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"sys/fs/cgroup/memory.max": "1073741824\n", "proc/meminfo": MEMINFO}, 1024),
        ({"sys/fs/cgroup/memory.max": "max\n", "proc/meminfo": MEMINFO}, 16000),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n", "proc/meminfo": MEMINFO}, 512),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "proc/meminfo": MEMINFO}, 16000),
        ({"sys/fs/cgroup/memory.max": "not a number"}, None),
        ({}, None),
    ],
)
def test_the_limit_is_the_containers_or_the_machines(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="ascii")
    assert memory_limit(tmp_path) == limit


@pytest.mark.parametrize(
    ("text", "count"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", None), ("", None)]
)
def test_processors_are_those_of_the_quota(tmp_path: Path, text: str, count: int | None) -> None:
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text(text, encoding="ascii")
    assert processor_count(tmp_path) == min(processor_count(tmp_path / "nowhere"), count or 10**6)


@pytest.mark.parametrize("limit", [512, 768, 1024, 2048, 4096, 65_536])
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("solvers", [1, 2, 4, 8])
def test_all_processes_together_stay_within_the_limit(limit: int, workers: int, solvers: int) -> None:
    if workers * (WORKER_MEMORY + process_count(solvers) * MIN_MEMORY) > limit:
        with pytest.raises(InvalidInput, match="DARRM_SOLVERS"):
            solver_memory(None, workers, solvers, limit)
        return
    each = solver_memory(None, workers, solvers, limit)
    assert MIN_MEMORY <= each <= MAX_MEMORY
    assert workers * (WORKER_MEMORY + process_count(solvers) * each) <= limit


@pytest.mark.parametrize("limit", [512, 1024, 2048, 8192, None])
def test_the_default_fits_however_many_processors_there_are(limit: int | None) -> None:
    for processors in (1, 2, 8, 64):
        solvers = default_solvers(limit, processors)
        assert 1 <= solvers <= processors
        if limit is not None and limit > WORKER_MEMORY + 2 * MIN_MEMORY:
            assert solver_memory(None, 1, solvers, limit) >= MIN_MEMORY


def test_the_least_memory_of_a_solver_process_solves_small_problems() -> None:
    spec = DesignSpec(Problem.from_allowance(K=11, m=3, epsilon=0.1))
    check_design(spec, "cuts", read_settings(max_solver_memory=MIN_MEMORY))
    with pytest.raises(InvalidInput, match="DARRM_MAX_SOLVER_MEMORY = 159 is not valid"):
        read_settings(max_solver_memory=MIN_MEMORY - 1)


def test_what_needs_more_memory_is_refused_by_estimate() -> None:
    spec = DesignSpec(Problem.from_allowance(K=101, m=3, epsilon=0.1))
    with pytest.raises(WorkLimitExceeded, match=r"by enumerate is expected to need \d+ MiB, .* 512 MiB") as refused:
        check_design(spec, "enumerate", Settings(max_solver_memory=512))
    assert refused.value.field == "method"
    check_design(spec, "cuts", Settings(max_solver_memory=512))
    check_design(spec, "enumerate", Settings(max_solver_memory=2048))
