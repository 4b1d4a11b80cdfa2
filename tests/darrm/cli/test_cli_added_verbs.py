"""Verbs of installed packages: listed, with help, completed and run like built-in ones, which they cannot replace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Annotated

import pytest

from darrm import cli
from darrm.cli.output import answer
from darrm.cli.parser import Argument


def count(word: Annotated[str, Argument("WORD", "A word.")]) -> None:
    """Count the letters of a word."""
    answer(str(len(word)))


POINTS = {
    "count": "their_verbs:COUNT",
    "solve": "their_verbs:COUNT",  # built-in
    "gone": "no_such_module:COUNT",
    "odd": "their_verbs:__name__",  # not a verb
}


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    theirs = ModuleType("their_verbs")
    theirs.__dict__["COUNT"] = cli.AddedVerb(count, "Theirs", ("darrm count γ",))
    monkeypatch.setitem(sys.modules, "their_verbs", theirs)
    points = [EntryPoint(name, value, cli.ENTRY_POINTS) for name, value in POINTS.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: points if group == cli.ENTRY_POINTS else ())
    cli.added_verbs.cache_clear()
    yield
    cli.added_verbs.cache_clear()


def ran(*words: str) -> int | str | None:
    with pytest.raises(SystemExit) as end:
        cli._run(list(words))
    return end.value.code


@pytest.mark.usefixtures("added")
def test_an_added_verb_works_like_a_built_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.all_verbs() == (*cli.VERBS, "count")
    assert ran("count", "four") == 0
    assert capsys.readouterr().out == "4\n"
    for words, shown in {
        ("--help",): "Theirs:",
        ("count", "--help"): "darrm count γ",
        ("--print-completion", "bash"): "count",
    }.items():
        assert ran(*words) == 0
        assert shown in capsys.readouterr().out, words
    assert ran("count") == 2
    assert "WORD" in capsys.readouterr().err
    assert ran("gone") == ran("odd") == 2
    assert cli.load("solve").__module__ == "darrm.cli.verbs.solve"
