"""`darrm` as a process: streams, signals, imports and threads."""

from __future__ import annotations

import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.darrm_runner import PROGRAM, SMALL, run, start
from support.paths import ROOT
from support.waiting import until

from api.server.run import ListenError, listen
from darrm.cli import all_verbs
from darrm.cli.output import ExitCode
from darrm.cli.verbs.question import question_verbs
from darrm_opt import Problem, __version__, verify
from darrm_opt.errors import InvalidInput
from darrm_opt.questions.registry import QUESTIONS
from solver_cache import open_store

VERBS = all_verbs()

Begin = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start programs in ``tmp_path``; none outlives the test or five minutes."""
    started: list[tuple[subprocess.Popen[str], threading.Timer]] = []

    def go(*arguments: str, **how: Any) -> subprocess.Popen[str]:
        process = start(*arguments, cwd=tmp_path, **how)
        started.append((process, threading.Timer(300, process.kill)))
        started[-1][1].start()
        return process

    yield go
    for process, timer in started:
        timer.cancel()
        with process:
            process.kill()


def finished(process: subprocess.Popen[str], given: str | None = None) -> tuple[int, str, str]:
    stdout, stderr = process.communicate(given)
    return process.returncode, stdout, stderr


def fetched(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=300) as answer:  # noqa: S310 — a server of this test
        return json.load(answer)


# ------------------------------------------------------------------------------------------ a solve


def test_the_answer_is_on_stdout_and_all_else_on_stderr(begin: Begin, tmp_path: Path) -> None:
    suspicious = ("--m", "1", "--epsilon", "0.1", "--Delta", "0.4", "--delta", "1e-6", "--no-cache")
    code, stdout, stderr = finished(begin("solve", *SMALL, *suspicious, "--json"))
    assert code == 0
    assert stderr.startswith("Warning: delta = 1e-06 is below Delta = 0.4")
    record = json.loads(stdout)
    assert record["gamma"] == record["gamma"][::-1]
    code, stdout, stderr = finished(begin("verify", "-", "--json"), given=stdout)
    assert (code, json.loads(stdout)["certificate"]["limit"]) == (0, record["certificate"]["limit"])
    assert list(tmp_path.iterdir()) == []


def told_at_exit(expression: str, place: Path, words: list[str], more: dict[str, str] | None = None) -> str:
    """Run a verb; return the value of an expression at its end."""
    report = f"import atexit, os, sys; atexit.register(lambda: print({expression}, file=sys.stderr))"
    program = [*PROGRAM[:2], f"{report}\n{PROGRAM[2]}", *words]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "PYTHONIOENCODING": "utf-8", "XDG_CACHE_HOME": str(place)}
    environment |= more or {}
    result = subprocess.run(program, env=environment, capture_output=True, text=True, encoding="utf-8", check=True)
    return result.stderr.strip()


def test_a_small_solve_loads_only_the_modules_it_uses(tmp_path: Path) -> None:
    # A small solve takes as long as its imports: each of these would take longer than the solve.
    loaded = set(told_at_exit("*{n.split('.')[0] for n in sys.modules}", tmp_path, ["solve", *SMALL]).split())
    assert {"numpy", "highspy", "darrm_opt"} <= loaded
    slow = {
        "scipy",
        "sqlalchemy",
        "pydantic",
        "fastapi",
        "rich",
        "typer",
        "matplotlib",
        "cvxpy",
        "gurobipy",
        "numba",
        "tempfile",
        "fractions",
    }
    assert not loaded & (slow | {"platformdirs", "solver_cache"})


def test_an_answer_is_stored_and_found_without_unneeded_imports(tmp_path: Path) -> None:
    place = {"DARRM_CACHE_URL": f"sqlite:///{tmp_path / 'cache.sqlite'}"}
    loaded = told_at_exit("*sys.modules", tmp_path, ["solve", *SMALL], place).split()
    assert {"sqlite3", "highspy"} <= {*loaded}
    loaded += told_at_exit("*sys.modules", tmp_path, ["solve", *SMALL], place).split()  # the file now exists
    assert not {name.split(".")[0] for name in loaded} & {"sqlalchemy", "platformdirs", "psycopg"}
    assert not [name for name in loaded if name.startswith("darrm_opt.tables.")]
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as plain:
        assert plain.execute("SELECT count(*) FROM darrm_solutions").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("words", "given", "expected"),
    [
        (["solve", *SMALL], {}, "1"),
        (["solve", *SMALL], {"OPENBLAS_NUM_THREADS": "2"}, "2"),
        (["reproduce", "--help"], {}, ""),
    ],
    ids=["a solve", "a solve, told how many", "matrices"],
)
def test_numpy_starts_threads_only_for_large_matrices(
    tmp_path: Path, words: list[str], given: dict[str, str], expected: str
) -> None:
    # They spin while NumPy loads, a fifth of the time of a small solve.
    assert told_at_exit("os.environ.get('OPENBLAS_NUM_THREADS', '')", tmp_path, words, given) == expected


def test_an_interrupted_solve_leaves_no_partial_file(begin: Begin, tmp_path: Path) -> None:
    store = tmp_path / "cache.sqlite"
    url = f"sqlite:///{store}"
    process = begin(
        *("solve", "--K", "1001", "--m", "20", "--epsilon", "0.1", "--Delta", "1e-2"),
        *("--output", "gamma.json", "--plot", "gamma.png"),
        DARRM_CACHE_URL=url,
    )
    until(lambda: store.exists() or process.poll() is not None)  # it is opened just before the solve starts
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    code, stdout, stderr = finished(process)
    assert (code, stdout) == (ExitCode.INTERRUPTED, "")
    assert stderr.splitlines()[-1] == "Interrupted: no partial output is left."
    assert not list(tmp_path.glob("*gamma*"))
    opened = open_store(url)
    assert (list(opened.rows()), opened.integrity_errors()) == ([], [])
    opened.close()


def test_a_closed_pipe_is_not_an_error(begin: Begin) -> None:
    process = begin("error-curve", "--K", "11", "--m", "3", "--epsilon", "0.1", "--points", "1000")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == ExitCode.PIPE_CLOSED == 128 + signal.SIGPIPE


# ------------------------------------------------------------------------------------------ the group


def test_version_is_printed() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"darrm {__version__}\n")


def test_help_lists_every_verb_with_a_summary() -> None:
    def flowing(text: str) -> str:  # for any width of the terminal
        return " ".join(text.split())

    text = flowing(run("--help").stdout)
    for verb in VERBS:
        first = re.split(r"\n\s*\n", run(*verb.split(), "--help").stdout.split("\n\n", 1)[1].strip())[0]
        assert f"{verb} {flowing(first)}" in text
    assert "questions." in text.rpartition("Topics:")[2]
    others = flowing(run("help", "questions").stdout)
    assert {"tradeoff", "compose", "plurality"} < set(question_verbs(VERBS))
    for path in question_verbs(VERBS):
        assert f" {path} {flowing((QUESTIONS[path].__doc__ or '').partition(chr(10) * 2)[0])}" in others


def test_without_a_verb_the_help_is_shown() -> None:
    result = run()
    assert result.exit_code == 2
    assert "usage: darrm COMMAND [OPTIONS] [ARGUMENTS]" in result.stdout + result.stderr


# ------------------------------------------------------------------------------------------ serving


def stopped(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    process.send_signal(signal.SIGINT)
    return finished(process)


def test_serve_answers_until_it_is_interrupted(begin: Begin) -> None:
    process = begin("serve", "--port", "0", "--json", DARRM_WAIT_SECONDS="60")
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    answer = fetched(f"{url}/v1/gamma?K=5&m=2&epsilon=0.5")
    verify(Problem.from_allowance(K=5, m=2, epsilon=0.5), answer["gamma"])
    code, stdout, log = stopped(process)
    assert (code, stdout) == (0, "")
    [line] = [line for line in log.splitlines() if "[api.requests]" in line]
    assert {"method=GET", "path=/v1/gamma", "status=200"} <= {*line.split()}
    assert "epsilon" not in log


def test_the_error_of_a_port_in_use_is_clear() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", str(port))
    assert (result.exit_code, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert result.stderr == (
        f"Error: 127.0.0.1:{port} is already in use: choose another port with --port, such as --port {port + 1}.\n"
    )


@pytest.mark.parametrize("port", ["a", "-1", "65536", "2.5"])
def test_invalid_ports_are_refused(port: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape("is not valid: expected a port from 0 (any free one) to 65535.")):
        listen("127.0.0.1", port if port == "a" else float(port) if "." in port else int(port))
    assert run("serve", "--port", port).exit_code == ExitCode.BAD_INPUT


def test_the_error_of_a_foreign_address_is_clear() -> None:
    with pytest.raises(
        ListenError, match=r"Cannot listen at 192\.0\.2\.1:0 \(.*\): choose another address with --host"
    ):
        listen("192.0.2.1", 0)


def test_serve_refuses_an_unusable_cache_before_it_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DARRM_CACHE_URL", f"sqlite:///{tmp_path}/file/cache.sqlite")
    result = run("serve", "--port", "0")
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert result.stderr.startswith("Error: The cache at sqlite:///")


def test_serve_refuses_an_invalid_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_MAX_VOTERS", "many")
    result = run("serve", "--port", "0")
    assert result.exit_code == ExitCode.BAD_INPUT
    assert result.stderr.startswith("Error: DARRM_MAX_VOTERS: 'many' is not valid: expected ")


# ------------------------------------------------------------------------------------------ make run


def test_make_run_solves_plots_and_serves_the_settings_of_the_paper(begin: Begin, tmp_path: Path) -> None:
    process = begin("--port", "0", program=[sys.executable, "-m", "tools.first_run"])
    assert process.stderr is not None
    url = process.stderr.readline().split()[4].rstrip(",")
    assert process.stderr.readline().strip() == f"curl '{url}/v1/gamma?K=11&m=3&epsilon=0.0892&Delta=1e-4'"
    for epsilon, utility in ((0.0892, 0.909096778), (0.0852, 0.909139182)):
        answer = fetched(f"{url}/v1/gamma?K=11&m=3&epsilon={epsilon}&Delta=1e-4")
        assert answer["cached"] is True
        assert answer["utility"] == pytest.approx(utility, abs=1e-9)
        verify(Problem.from_allowance(K=11, m=3, epsilon=epsilon, Delta=1e-4), answer["gamma"])
    code, text, _ = stopped(process)
    assert code == 0
    for name in ("MNIST", "Fashion-MNIST"):
        assert f"{name}: 11 voters, each (0.08" in text
        assert (tmp_path / "output" / f"{name.lower()}.png").read_bytes().startswith(b"\x89PNG")
    assert text.count("private    proved for these exact numbers") == 2


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_make_run_has_help(begin: Begin, flag: str, tmp_path: Path) -> None:
    code, stdout, stderr = finished(begin(flag, program=[sys.executable, "-m", "tools.first_run"]))
    assert (code, stderr) == (ExitCode.DONE, "")
    assert stdout.startswith("usage: python -m tools.first_run [OPTIONS]\n")
    assert "--port PORT" in stdout
    assert list(tmp_path.iterdir()) == []


def test_make_run_detects_a_port_in_use_before_any_work(begin: Begin, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = begin("--port", port, program=[sys.executable, "-m", "tools.first_run"])
        code, stdout, stderr = finished(process)
    assert (code, stdout) == (ExitCode.UNAVAILABLE, "")
    assert f"127.0.0.1:{port} is already in use" in stderr
    assert list(tmp_path.iterdir()) == []
