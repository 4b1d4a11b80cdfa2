"""The command line on terminals: other encodings, short help, examples, subcommands, completion, elapsed time."""

from __future__ import annotations

import io
import shlex
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest
from support.darrm_runner import SMALL, run, start

from api.cli import plurality_options, working
from api.cli.parser import Command, parse
from api.cli.verbs import EXAMPLES, GROUPS, VERBS, bagging, load, plurality, vote_cost
from api.cli.working import Working


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("words", [("solve", *SMALL), ("--help",), ("solve", "--help"), ("solve", "--K", "x")])
def test_a_terminal_without_greek_gets_the_names_of_letters(
    words: tuple[str, ...], encoding: str, tmp_path: Path
) -> None:
    process = start(*words, cwd=tmp_path, PYTHONIOENCODING=encoding)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode in {0, 2}
    assert "Traceback" not in stderr
    assert "?" not in stdout + stderr
    assert "gamma" in stdout or words == ("solve", "--K", "x")


def test_help_is_short_for_help() -> None:
    assert run("-h").stdout == run("--help").stdout
    assert run("solve", "-h").stdout == run("solve", "--help").stdout


def test_verbs_stand_in_groups() -> None:
    text = run("--help").stdout
    places = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_examples_that_can_be_read(name: str) -> None:
    text = run(*name.split(), "--help").stdout
    for example in EXAMPLES[name]:
        assert example in text
        words = shlex.split(example.replace('eval "$(', "").replace(')"', "").partition(" > ")[0])
        words = words[words.index("darrm") + 1 + len(name.split()) :]
        parse(words, Command.of(load(name)).parameters)


@pytest.mark.parametrize(("group", "seconds"), [("cache", "ls"), ("keys", "add")])
def test_a_group_of_subcommands_lists_them(group: str, seconds: str) -> None:
    assert f"  {group} {seconds}" in run(group, "--help").stdout
    bare = run(group)
    assert bare.exit_code == 2
    assert f"Usage: darrm {group} COMMAND" in bare.stderr


def completed(*words: str) -> list[str]:
    typed = " ".join(shlex.quote(word) for word in ("darrm", *words))
    script = f'{run("completion", "bash").stdout}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words)}; _darrm; echo "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("so",), ["solve"]),
        (("cache", "m"), ["migrate"]),
        (("cache", "prune", "--d"), ["--days"]),
        (("solve", "--target"), ["--target-epsilon"]),
        (("solve", "--shape", ""), ["free", "monotone"]),
        (("vote-cost", "--noise", "d"), ["discrete"]),
    ],
)
def test_bash_completes(words: tuple[str, ...], expected: list[str]) -> None:
    assert completed(*words) == expected


def test_bash_completes_files(tmp_path: Path) -> None:
    (tmp_path / "gamma.json").touch()
    assert completed("verify", f"{tmp_path}/g") == [f"{tmp_path}/gamma.json"]


def test_other_shells_have_the_same_options() -> None:
    assert "bashcompinit" in run("completion", "zsh").stdout
    fish = run("completion", "fish").stdout
    assert all(f"-l {flag}" in fish for flag in ("target-epsilon", "time-limit", "prove"))
    assert run("completion", "tcsh").exit_code == 2


class Terminal(io.StringIO):
    """A terminal that remembers what was written to it."""

    def isatty(self) -> bool:
        return True


def test_long_work_shows_itself_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(working, "FIRST", 0.01)
    monkeypatch.setattr(working, "EVERY", 0.01)
    with Working("planning") as shown:
        shown.note("gnmax does not fit")
        while "gnmax" not in terminal.getvalue():
            time.sleep(0.01)
    assert "\x1b[Kplanning: gnmax does not fit (0 s; ctrl-C stops it)" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")  # nothing of it is left


@pytest.mark.parametrize(
    "words",
    [
        ("gnmax", "--total-epsilon", "1", "--total-delta", "1e-5"),
        ("vote-cost", "--labels", "5", "--label-sigma", "40", "--delta", "1e-5"),
        ("vote-cost", "--labels", "5", "--total-epsilon", "1", "--delta", "1e-5"),
        ("plurality", "--K", "5", "--classes", "3", "--target-epsilon", "1"),
        ("plurality", "--K", "5", "--classes", "3", "--target-epsilon", "1", "--delta", "1e-5", "--mechanism", "noise"),
        ("plurality", "--K", "5", "--classes", "3", "--total-epsilon", "1", "--total-delta", "1e-5", "--compare"),
        ("plan", "--K", "5", "--classes", "3", "--total-epsilon", "1", "--total-delta", "1e-5", "--affected", "1"),
    ],
)
def test_verbs_that_can_take_long_show_that_they_work(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Seen(Working):
        def __enter__(self) -> Self:
            shown.append(self._what)
            return super().__enter__()

    for module in (bagging, plurality_options, plurality, vote_cost):
        monkeypatch.setattr(module, "Working", Seen)
    assert run(*words).exit_code == 0
    assert len(shown) == 1


def test_short_work_and_logs_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", stream)
        with Working("planning"):
            pass
        assert stream.getvalue() == ""
