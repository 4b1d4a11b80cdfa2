"""Systems other than Linux: features without POSIX, and the platform tags of wheels."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.darrm_runner import SMALL
from support.paths import ROOT

# ------------------------------------------------------------------------------------------ without POSIX

WITHOUT_POSIX = """
import importlib, json, os, sys

OURS = ("darrm", "darrm_client", "darrm_opt", "solver_cache")
for name in MODULES:
    importlib.import_module(name)  # and with them what they import of others
for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
    del sys.modules[name]
fork = os.fork
for name in ABSENT:
    vars(os).pop(name, None)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in MODULES:
    importlib.import_module(name)
codes = {}
for name, code in CODES.items():
    if not fork():
        for number, stream in enumerate(("out", "err"), 1):
            os.dup2(os.open(name + "." + stream, os.O_WRONLY | os.O_CREAT), number)
        exec(code, {"sys": sys})
        sys.exit()
    codes[name] = os.waitstatus_to_exitcode(os.wait()[1])
print(json.dumps(codes))
"""

ABSENT = (
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "chown", "fchown", "fork", "forkpty", "geteuid", "getrandom", "getuid"),
    *("killpg", "mkfifo", "nice", "pread", "pwrite", "register_at_fork", "sched_getaffinity", "setsid", "sysconf"),
)
"""Names of `os` that Windows lacks; macOS lacks some of them."""


def module_names() -> list[str]:
    """Return all modules except those of the service and those that run on import."""
    folders = ("darrm", "darrm_client", "darrm_opt", "solver_cache")
    paths = [path.relative_to(ROOT).with_suffix("") for name in folders for path in (ROOT / name).rglob("*.py")]
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in paths if path.name != "__main__")


LIBRARY = """
from darrm_opt import PrivateVote, Problem, Solution, solve, verify
solution = solve(Problem.from_allowance(K=11, m=3, epsilon=0.1))
solution.save("library.json")
solution.save("library.json")  # over another file
verify(solution.problem, Solution.load("library.json").gamma)
print(PrivateVote(solution).release([1] * 11))
"""

COMMAND = f"""
from darrm import main
sys.argv = {["darrm", "solve", *SMALL, "--json", "--cache", "--output", "command.json"]!r}
main()
"""

NEEDS_POSIX = (
    ("A release log", "from darrm_opt.release.journal import create; create('log', {})"),
    (
        "A pool of solver processes",
        "from solver_cache.process_pool import PoolThread; PoolThread(1)",
    ),
    ("A pool of solver processes", "from solver_cache.precompute.executor import Processes; Processes()"),
    ("The service", "from darrm.cli.verbs.serve import serve; serve()"),
)

REFUSED = f"""
from darrm_opt.errors import BackendUnavailable
for code in {[code for _, code in NEEDS_POSIX]!r}:
    try:
        exec(code)
    except BackendUnavailable as err:
        print(err)
"""

Told = dict[str, tuple[int, str, str]]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Run programs without POSIX, as forks of a process with all modules; return exit codes and output."""
    folder = tmp_path_factory.mktemp("elsewhere")
    programs = {"library": LIBRARY, "command": COMMAND, "refused": REFUSED}
    script = f"MODULES, ABSENT, CODES = {module_names()!r}, {ABSENT!r}, {programs!r}\n{WITHOUT_POSIX}"
    cache = {"DARRM_CACHE_URL": f"sqlite:///{folder}/cache.sqlite"}
    environment = {**os.environ, **cache, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    codes = json.loads(done.stdout)
    return {
        name: (codes[name], *(Path(folder, f"{name}.{stream}").read_text("utf-8") for stream in ("out", "err")))
        for name in programs
    }


def test_the_library_works_without_posix(elsewhere: Told) -> None:
    code, out, err = elsewhere["library"]
    assert (code, err) == (0, "")
    assert out.strip() in {"0", "1"}


def test_the_command_works_without_posix(elsewhere: Told) -> None:
    code, out, err = elsewhere["command"]
    assert (code, err) == (0, "")
    assert len(json.loads(out)["gamma"]) == 6


def test_features_that_need_posix_are_refused_clearly(elsewhere: Told) -> None:
    code, out, _ = elsewhere["refused"]
    said = [f"{feature} needs a POSIX system, such as Linux or macOS." for feature, _ in NEEDS_POSIX]
    assert (code, out.splitlines()) == (0, said)


# ------------------------------------------------------------------------------------------ wheel tags

HOOK = ROOT / "hatch_build.py"


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    if not HOOK.exists():
        pytest.skip("not in this tree")
    spec = importlib.util.spec_from_file_location("hatch_build", HOOK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DEBIAN = ("linux_x86_64", "manylinux_2_36_x86_64", "manylinux_2_35_x86_64")
ALPINE = ("linux_aarch64", "musllinux_1_2_aarch64", "musllinux_1_1_aarch64")


@pytest.mark.parametrize(
    ("system", "content", "tag"),
    [
        (DEBIAN, b"\0GLIBC_2.2.5\0GLIBC_2.14\0", "manylinux_2_17_x86_64"),
        (DEBIAN, b"\0GLIBC_2.34\0GLIBC_2.4\0libc.so.6\0", "manylinux_2_34_x86_64"),
        (DEBIAN, b"\0GLIBC_2.2.5\0GLIBC_ABI_DT_RELR\0", "manylinux_2_36_x86_64"),
        (ALPINE, b"\0libc.musl-aarch64.so.1\0", "musllinux_1_2_aarch64"),
        (("linux_riscv64",), b"\0", "linux_riscv64"),
    ],
)
def test_a_wheel_names_the_oldest_systems_that_can_load_its_kernel(
    system: tuple[str, ...], content: bytes, tag: str, hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "platform_tags", lambda: iter(system))
    (tmp_path / "library").write_bytes(content)
    assert hook.platform_tag(tmp_path / "library") == tag


def test_the_kernel_needs_only_the_c_library(hook: ModuleType) -> None:
    library = ROOT / hook.LIBRARY
    if not library.exists():
        pytest.skip("no kernel was compiled here")
    needed = {name for name in library.read_bytes().split(b"\0") if b".so" in name}
    assert needed <= {b"libc.so.6", b"libm.so.6", b"libc.musl-x86_64.so.1"}
