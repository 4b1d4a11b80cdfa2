"""The command line on terminals: encodings, short help, examples, subcommands, completion, progress."""

from __future__ import annotations

import io
import itertools
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from support.darrm_runner import SMALL, refused, run, start
from support.waiting import until

from darrm.cli import all_verbs, cached_solve, examples_of, load, output
from darrm.cli.cached_solve import progress_text
from darrm.cli.output import ProgressDisplay
from darrm.cli.parser import Command, parse
from darrm_opt.design.solution import Progress
from darrm_opt.questions.design import Design

VERBS = all_verbs()


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("words", [("solve", *SMALL), ("--help",), ("solve", "--help"), ("solve", "--K", "x")])
def test_a_terminal_without_greek_shows_names_of_letters(words: tuple[str, ...], encoding: str, tmp_path: Path) -> None:
    process = start(*words, cwd=tmp_path, PYTHONIOENCODING=encoding)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode in {0, 2}
    assert "Traceback" not in stderr
    assert "?" not in stdout + stderr
    assert "gamma" in stdout or words == ("solve", "--K", "x")


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_valid_examples(name: str) -> None:
    text = run(*name.split(), "--help").stdout
    for example in examples_of(name):
        assert example in text
        words = shlex.split(example)
        words = words[words.index("darrm") + 1 + len(name.split()) :]
        parse(words, Command.of(load(name)).parameters)


@pytest.mark.parametrize(("group", "seconds"), [("cache", "ls"), ("keys", "add")])
def test_a_group_of_subcommands_lists_them(group: str, seconds: str) -> None:
    assert f"  {group} {seconds}" in run(group, "--help").stdout
    bare = run(group)
    assert bare.exit_code == 2
    assert f"usage: darrm {group} COMMAND" in bare.stderr


def completed(*words: str) -> list[str]:
    typed = " ".join(shlex.quote(word) for word in ("darrm", *words))
    script = run("--print-completion", "bash").stdout
    asked = f'COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _shtab_darrm; echo "${{COMPREPLY[@]}}"'
    return subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("so",), ["solve"]),
        (("cache", "t"), ["tag"]),
        (("cache", "rm", "--d"), ["--days", "--defective"]),
        (("solve", "--target"), ["--target-epsilon", "--targets"]),
        (("solve", "--shape", ""), ["free", "monotone"]),
        (("cost", "--total-e"), ["--total-epsilon"]),
    ],
)
def test_bash_completes(words: tuple[str, ...], expected: list[str]) -> None:
    pytest.importorskip("shtab")
    assert sorted(completed(*words)) == expected


def test_bash_completes_files(tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    (tmp_path / "gamma.json").touch()
    assert completed("verify", f"{tmp_path}/g") == [f"{tmp_path}/gamma.json"]


def test_other_shells_complete_the_same_options() -> None:
    for shell in pytest.importorskip("shtab").SUPPORTED_SHELLS:
        script = run("--print-completion", shell).stdout
        assert all(flag in script for flag in ("target-epsilon", "time-limit", "prove")), shell
    assert "needs one of bash" in refused("--print-completion", "none")


def test_without_shtab_the_error_tells_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    result = run("--print-completion", "bash")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "pip install 'darrm-opt[cli]'" in result.stderr


class Terminal(io.StringIO):
    """A terminal that records its output."""

    def isatty(self) -> bool:
        return True


def written_to(stream: io.StringIO, total: int | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the output of work that ends once ``expected`` was written."""
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(output, "DELAY_SECONDS", 0.01)
    monkeypatch.setattr(output, "LOG_DELAY_SECONDS", 0.01)
    clock = itertools.chain([0.0], itertools.repeat(0.05))  # less than a second on any machine
    monkeypatch.setattr(output, "monotonic", lambda: next(clock))
    display = ProgressDisplay("planning", total)
    display.update("gnmax [does not fit]", 600)
    with display:
        until(lambda: expected in stream.getvalue())
    return stream.getvalue()


@pytest.mark.parametrize(("total", "done"), [(None, ""), (1000, "600 of 1,000, ")])
def test_long_work_updates_a_line_on_a_terminal(total: int | None, done: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = f"planning: {done}gnmax [does not fit] (0:00:00; ctrl-C stops it)"
    written = written_to(Terminal(), total, expected, monkeypatch)
    assert ("━" in written) == (total is not None)  # a progress bar
    assert written.endswith("\x1b[2K")  # it is erased


@pytest.mark.parametrize("why", ["log", "no Rich", "dumb"])
def test_long_work_writes_lines_if_none_can_be_overwritten(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "no Rich":
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    stream = io.StringIO() if why == "log" else Terminal()
    monkeypatch.setattr(Console, "is_dumb_terminal", why == "dumb")
    expected = "planning: 600 of 1,000, gnmax [does not fit] (0:00:00)\n"
    written = written_to(stream, 1000, expected, monkeypatch)
    assert written == expected * (len(written) // len(expected))


def test_each_line_is_written_after_twice_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, times = [0.0], [5.0, 10.0, 20.0, 40.0]

    def wait(seconds: float) -> bool:
        clock[0] += seconds
        return clock[0] > times[-1]

    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(output, "monotonic", lambda: clock[0])
    display = ProgressDisplay("planning")
    monkeypatch.setattr(display._end_event, "wait", wait)
    with display:
        pass
    assert stream.getvalue().splitlines() == [f"planning (0:00:{time:02.0f})" for time in times]


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", stream)
        with ProgressDisplay("planning"):
            pass
        assert stream.getvalue() == ""


def test_a_long_solve_shows_its_progress(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "LOG_DELAY_SECONDS", 0.0)
    asked = Design(K=41, m=11, epsilon=0.1)
    cached_solve.cached_solution(asked.problem(), asked, cache=False)
    assert "solving" in capsys.readouterr().err
    at = Progress(round=3, rows=1234, utility=0.5, upper_bound=0.75, violation=0.1, seconds=2.0)
    assert progress_text(at) == "round 3: 1,234 rows, utility 0.500000, bound 0.750000, gap 2.5e-01"
