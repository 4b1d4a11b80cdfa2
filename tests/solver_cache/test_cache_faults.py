"""Full disks and damaged files: clear messages, never a wrong answer."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from support.paths import ROOT

from darrm_opt import Problem, verify
from solver_cache import CacheError, DesignSpec, cached_solve, check, nearest, open_store
from solver_cache.location import DAMAGED

PROBLEMS = [Problem.from_allowance(K=K, m=2, epsilon=0.1) for K in range(3, 30)]

FILLING = """
import json, resource, sys
from pathlib import Path
from darrm_opt import Problem, verify
from solver_cache import CacheError, Row, cached_solve, check, open_store
from darrm_opt.record import digest
folder, how = Path(sys.argv[1]), sys.argv[2]
url = f"sqlite:///{folder / 'cache.sqlite'}"
store = open_store(url)
problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
other = Problem.from_allowance(K=9, m=3, epsilon=0.1)
cached_solve(problem, store=store)
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (320_000, resource.RLIM_INFINITY))
told = {"refused": ""}
for number in range(2_000):
    text = f"{number} " * 1_000
    try:
        store.put(Row(f"{number:04}", 1, text, digest(text)))
    except CacheError as err:
        told["refused"] = str(err)
        break
told["kept"] = number
answer = cached_solve(other, store=store)
told["other"] = [answer.stored, answer.trouble, verify(other, answer.solution.gamma).margin >= 0]
told["read"] = cached_solve(problem, store=store).decision
told["job"] = ""
try:
    for number in range(2_000):
        store.jobs.submit(f"{number}", "gamma", "x" * 1_000)
except CacheError as err:
    told["job"] = str(err)
told["probe"] = "one page more was written"
try:
    store.health_check()
except CacheError as err:
    told["probe"] = str(err)
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
else:
    (folder / "ballast").unlink()
told["afterwards"] = cached_solve(other, store=store).stored
told["rows"] = len(list(store.rows()))
told["faults"] = store.integrity_errors()
store.close()
store = open_store(url)
told["reopened"] = [cached_solve(each, store=store).decision for each in (problem, other)]
print(json.dumps(told))
"""


@pytest.mark.parametrize("how", ["limit", "disk"])
def test_a_full_disk_loses_only_unstored_answers(how: str, tmp_path: Path) -> None:
    """With the limit of the system on file sizes, and on a real full file system."""
    command = [sys.executable, "-c", FILLING, str(tmp_path), how]
    if how == "disk":
        enter = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c"]
        mounted = f"mount -t tmpfs -o size=700k tmpfs '{tmp_path}'"
        if subprocess.run([*enter, mounted], capture_output=True, check=False).returncode and "CI" not in os.environ:
            pytest.skip("this machine lets nobody mount in a namespace")
        ballast = f"head -c 300000 /dev/zero > '{tmp_path}/ballast'"
        command = [*enter, f"{mounted} && {ballast} && '{sys.executable}' -c \"$0\" '{tmp_path}' {how}", FILLING]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert "Free some disk space." in told["refused"]
    assert told["kept"] >= 3
    kept, trouble, private = told["other"]
    assert private
    assert kept or "Free some disk space." in trouble
    assert told["read"] == "hit"
    assert "Free some disk space." in told["job"]
    assert (
        "Free some disk space." in told["probe"] or told["probe"] == "one page more was written"
    )  # which may still fit
    assert told["afterwards"] is True
    assert told["rows"] >= told["kept"]
    assert told["faults"] == []
    assert told["reopened"] == ["hit", "hit"]


FAILING = """
import json, subprocess, sys
from darrm_opt import Problem
from solver_cache import CacheError, cached_solve, open_store
store = open_store(f"sqlite:///{sys.argv[1]}/cache.sqlite")
problems = [Problem.from_allowance(K=K, m=2, epsilon=0.1) for K in (5, 7)]
cached_solve(problems[0], store=store)
store.health_check()
subprocess.run(["mount", "-o", "remount,abort", sys.argv[1]], check=True)
told = {"probe": "", "read": cached_solve(problems[0], store=store).decision}
try:
    store.health_check()
except CacheError as err:
    told["probe"] = str(err)
print(json.dumps(told))
"""


def test_a_failed_file_system_is_unhealthy(tmp_path: Path) -> None:
    """With an ext4 whose journal is aborted, as after a disk error: caches accept writes, nothing is stored."""
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(2**24)
    mount = f"mke2fs -q -t ext4 '{image}' && mount -o loop '{image}' '{place}'"
    enter = ["unshare", "--mount", "sh", "-c"]
    if subprocess.run([*enter, mount], capture_output=True, check=False).returncode and "CI" not in os.environ:
        pytest.skip("this machine lets nobody mount a file system of its own")
    command = [*enter, f"mount -o loop '{image}' '{place}' && '{sys.executable}' -c \"$0\" '{place}'", FAILING]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["read"] == "hit"
    assert "cannot be used" in told["probe"]


# --------------------------------------------------------------------------------------------------- damaged files


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a file with answers and jobs."""
    path = tmp_path_factory.mktemp("whole") / "cache.sqlite"
    with closing(open_store(f"sqlite:///{path}")) as store:
        for problem in PROBLEMS:
            assert cached_solve(problem, store=store).stored
            store.jobs.submit(DesignSpec(problem).key, "gamma", "{}")
    return path.read_bytes()


def used(path: Path) -> Counter[str]:
    """Use a file in every way; return the outcomes. Anything except an answer or a typed error propagates."""
    seen: Counter[str] = Counter()
    for url in (f"sqlite:///{path}?mode=ro", f"sqlite:///{path}"):
        try:
            with closing(open_store(url)) as store:
                for problem in PROBLEMS[::9]:
                    answer = cached_solve(problem, store=store)
                    assert verify(problem, answer.solution.gamma).margin >= 0
                    seen[answer.decision] += 1
                    near = nearest(DesignSpec(problem), store)
                    if near is not None:
                        assert verify(problem, near.solution.gamma).margin >= 0
                        seen["near"] += 1
                for use in (
                    lambda store=store: list(check(store)),
                    lambda store=store: store.stats(),
                    lambda store=store: store.health_check(),
                    lambda store=store: store.jobs.list(),
                    lambda store=store: store.jobs.take("me", 60),
                    lambda store=store: store.jobs.prune(1e18),
                ):
                    try:
                        use()
                    except CacheError as err:
                        seen[f"refused: {err.advice}"] += 1
        except CacheError as err:
            seen[f"refused: {err.advice}"] += 1
    return seen


def test_bytes_overwritten_anywhere_never_give_a_wrong_answer(content: bytes, tmp_path: Path) -> None:
    rng, seen = random.Random(7), Counter[str]()
    for number in range(30):
        length = rng.choice([1, 16, 512, 4096])
        place = rng.randrange(len(content) - length) if number % 5 else rng.randrange(8192)  # the schema is intact
        path = tmp_path / f"{number}.sqlite"
        path.write_bytes(content[:place] + rng.randbytes(length) + content[place + length :])
        seen += used(path)
    assert seen["hit"] > 30
    assert seen[f"refused: {DAMAGED}"] > 0
    path = tmp_path / "all.sqlite"
    path.write_bytes(content.replace(b'"gamma":[', b'"gamma":{'))
    assert used(path)["damaged"] == 2 * len(PROBLEMS[::9])  # read-only, then for writing


def test_a_file_truncated_anywhere_never_gives_a_wrong_answer(content: bytes, tmp_path: Path) -> None:
    rng, seen = random.Random(8), Counter[str]()
    for number in range(15):
        path = tmp_path / f"{number}.sqlite"
        path.write_bytes(content[: rng.randrange(len(content))])
        seen += used(path)
    assert seen[f"refused: {DAMAGED}"] > 5


def test_an_open_connection_takes_no_job_from_an_overwritten_file(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.jobs.submit("a", "gamma", "{}")
        store.health_check()  # all data is in the file, and in the cache of the only connection
        with path.open("r+b") as file:
            file.write(b"not a database any more" * 100)
        for _ in range(2):
            with pytest.raises(CacheError) as refused:
                store.jobs.submit("b", "gamma", "{}")
            assert refused.value.advice == DAMAGED
