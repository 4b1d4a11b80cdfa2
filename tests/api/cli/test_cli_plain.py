"""Plain command lines mean the same to the plain reader as to Typer, and what is not plain is left to Typer."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer import BadParameter

from api.cli import app as typer_app
from api.cli.declared import Argument, Command, Option
from api.cli.options import AsJson, DesignOptions, ProblemOptions
from api.cli.plain import read
from api.cli.verbs import VERBS, load

# Typer's own, wherever it keeps it.
ClickException: Any = next(each for each in BadParameter.__mro__ if each.__name__ == "ClickException")

taken: dict[str, Any] = {}


def verb(
    file: Annotated[str, Argument("FILE", "A file.")],
    asked: ProblemOptions,
    design: DesignOptions,
    output: Annotated[str | None, Option("--output", "Another file.", "FILE")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Take everything there is to take."""
    taken.update(file=file, asked=asked, design=design, output=output, json=json)


COMMAND = Command.of(verb)


def through_typer(words: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    """Return what the verb is called with, or None where Typer refuses."""
    taken.clear()
    monkeypatch.setattr(typer_app, "load", lambda _: verb)
    command = typer_app._command.__wrapped__("verb")
    try:
        command.main(words, prog_name="darrm", standalone_mode=False)
    except ClickException:
        return None
    return dict(taken)


def through_reader(words: list[str]) -> dict[str, Any] | None:
    taken.clear()
    values = read(words, COMMAND.parameters)
    if values is None:
        return None
    COMMAND.call(values)
    return dict(taken)


WORDS = [
    "-",
    "file",
    "a b",
    "--json",
    "--cache",
    "--no-cache",
    "--K",
    "--K=11",
    "--m",
    "3",
    "--Delta",
    "-1e-9",
    "--delta=",
]
WORDS += [
    "--output",
    "--objective=shared(2, 5)",
    "--target-epsilon",
    "=",
    "--unknown",
    "-x",
    "--k",
    "--",
    "",
    "--json=1",
]


@given(words=st.lists(st.sampled_from(WORDS), max_size=7))
def test_what_the_reader_reads_typer_reads_too(words: list[str]) -> None:
    read_here = through_reader(words)
    if read_here is not None:
        with pytest.MonkeyPatch.context() as patch:
            assert through_typer(words, patch) == read_here


@pytest.mark.parametrize("name", VERBS)
def test_every_option_of_every_verb_is_plain(name: str) -> None:
    parameters = Command.of(load(name)).parameters
    words: list[str] = []
    expected: dict[str, str | bool] = {}
    for each in parameters:
        if isinstance(each.declared, Argument):
            words.append("word")
            expected[each.name] = "word"
        elif each.is_flag:
            words.append(each.declared.flag.partition("/")[0])
            expected[each.name] = True
        else:
            words += [each.declared.flag, f"value of {each.name}"]
            expected[each.name] = f"value of {each.name}"
    assert read(words, parameters) == expected


def test_what_is_not_typed_has_its_default() -> None:
    assert through_reader(["file"]) == {
        "file": "file",
        "asked": ProblemOptions(),
        "design": DesignOptions(),
        "output": None,
        "json": False,
    }


@pytest.mark.parametrize(
    "words",
    [
        "",
        "file another",
        "file --help",
        "file --unknown",
        "file --K",
        "file -K 11",
        "file --k 11",
        "-- file",
        "file --js",
        "file --json=1",
    ],
)
def test_what_is_not_plain_is_left_alone(words: str) -> None:
    assert read(words.split(), COMMAND.parameters) is None
