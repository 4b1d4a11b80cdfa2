"""The command-line parser: values, error messages and help texts."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.darrm_runner import refused, run

from darrm.cli import TOPICS, all_verbs, load
from darrm.cli.output import ExitCode
from darrm.cli.parameters import AsJson
from darrm.cli.parser import (
    ADVANCED,
    EVERY_COMMAND,
    Argument,
    Command,
    CommandOption,
    Made,
    Parameter,
    UsageError,
    parameters_of,
    parse,
    parse_verb,
    verb_help,
)
from darrm.cli.question_options import PROBLEM_FIELDS, design_parameters, question_parameters
from darrm_opt.accounting.sampling import Scheme
from darrm_opt.questions.design import Design
from darrm_opt.questions.registry import QUESTIONS

VERBS = all_verbs()

DESIGN_FIELDS = *PROBLEM_FIELDS, "shape", "method", "backend", "time_limit", "gap"

taken: dict[str, Any] = {}


GROUP = {
    "prior": CommandOption("--prior", "Distribution of votes.", "TEXT", ADVANCED, "rectangular"),
    "cache": CommandOption("--cache/--no-cache", "Store answers, and look them up."),
}


def verb(
    file: Annotated[str, Argument("FILE", "A file.")],
    asked: Annotated[dict[str, Any], Made(lambda: design_parameters(*DESIGN_FIELDS))],
    design: Annotated[dict[str, Any], Made(lambda: parameters_of(GROUP))],
    output: Annotated[str | None, CommandOption("--output", "Another file.", "FILE")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Accept all kinds of options.

    And say so.
    """
    taken.update(file=file, asked=asked, design=design, output=output, json=json)


COMMAND = Command.of(verb)
VALUED = [each for each in COMMAND.parameters if isinstance(each.declared, CommandOption) and not each.is_flag]


def called_with(*words: str) -> dict[str, Any]:
    taken.clear()
    COMMAND.call(parse(words, COMMAND.parameters))
    return dict(taken)


def test_options_of_a_design_are_those_of_its_question() -> None:
    def shown(parameters: list[Parameter]) -> list[Any]:
        declared = [each.declared for each in parameters if isinstance(each.declared, CommandOption)]
        return [(each.flag, each.help, each.metavar, each.panel, each.otherwise, each.alias) for each in declared]

    of_question = [each for each in question_parameters(Design) if each.name != "objective"]
    assert shown(design_parameters(*DESIGN_FIELDS)) == shown(of_question)


@pytest.mark.parametrize("name", VERBS)
def test_every_option_of_every_verb_is_read(name: str) -> None:
    parameters = Command.of(load(name)).parameters
    words: list[str] = []
    expected: dict[str, str | bool | tuple[str, ...]] = {}
    for each in parameters:
        if isinstance(each.declared, Argument):
            words.append("word")
            expected[each.name] = "word"
        elif each.is_flag:
            words.append(each.flags[0])
            expected[each.name] = True
        else:
            words += [each.declared.flag, f"value of {each.name}"]
            value = f"value of {each.name}"
            expected[each.name] = (value,) if each.declared.several else value
    assert parse(words, parameters) == expected


def test_omitted_options_have_their_defaults() -> None:
    assert called_with("file") == {
        "file": "file",
        "asked": dict.fromkeys(each.name for each in COMMAND.parameters[1:-4]),
        "design": {"prior": None, "cache": None},
        "output": None,
        "json": False,
    }


@given(
    given_=st.lists(st.tuples(st.sampled_from(VALUED), st.text(max_size=4), st.booleans()), max_size=6),
    file=st.sampled_from(["file", "-", "a b", ""]),
    place=st.integers(0, 6),
)
def test_values_of_any_form_are_read_at_any_position(
    given_: list[tuple[Any, str, bool]], file: str, place: int
) -> None:
    groups = [[f"{each.flags[0]}={text}"] if joined else [each.flags[0], text] for each, text, joined in given_]
    groups.insert(min(place, len(groups)), [file])
    values = parse([word for group in groups for word in group], COMMAND.parameters)
    expected = {each.name: each.default for each in COMMAND.parameters} | {"file": file}
    assert values == expected | {each.name: text for each, text, _ in given_}  # the last of several


def test_the_delta_of_a_release_is_never_suggested_for_that_of_a_voter() -> None:
    for typed, left in (("--Delta", "delta"), ("--delta", "Delta")):
        with pytest.raises(UsageError, match=rf"No such option: {typed}\.$"):
            parse([typed, "0.1"], [each for each in COMMAND.parameters if each.name == left])
    assert parse(["--Delta", "0,1e-5"], Command.of(load("precompute")).parameters)["Delta"] == "0,1e-5"


def test_flags_have_opposites() -> None:
    assert called_with("--json", "file", "--no-cache")["design"]["cache"] is False
    assert called_with("--no-cache", "file", "--cache")["design"]["cache"] is True
    assert called_with("file", "--json")["json"] is True
    assert called_with("--", "--json")["file"] == "--json"
    assert called_with("-", "--output", "--json") == called_with("-") | {"output": "--json"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", r"Missing argument 'FILE'\."),
        ("file another", r"Got unexpected argument 'another'\."),
        ("file --unknown", r"No such option: --unknown\.$"),
        ("file --epsillon 3", r"No such option: --epsillon\. Did you mean --epsilon"),
        ("file --K", r"Option --K needs a value\."),
        ("file -K 11", r"No such option: -K\."),
        ("file --k 11", r"No such option: --k\. Did you mean .*--K"),
        ("file --js", r"No such option: --js\. Did you mean --json"),
        ("file --json=1", r"Option --json takes no value\."),
        ("-- file --K", r"Got unexpected argument '--K'\."),
    ],
)
def test_invalid_words_are_refused(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(words.split(), COMMAND.parameters)


@pytest.mark.parametrize(
    ("word", "said"),
    [("slove", r"No such command 'slove'\. Did you mean solve, serve\?"), ("--x", "No such option: --x")],
)
def test_an_unknown_verb_is_refused(word: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_verb([word], VERBS)
    assert parse_verb(["import", "x"], VERBS) == ("import", ["x"])


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_the_help_names_all_options_within_the_width_of_the_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = verb_help("verb", COMMAND, full=True)
    assert text.startswith("usage: darrm verb [OPTIONS] FILE\n\nAccept all kinds of options.\n\nAnd say so.\n\n")
    flowing = " ".join(text.split())
    for each in COMMAND.parameters:
        assert " ".join(each.declared.help.split()) in flowing
        if isinstance(each.declared, CommandOption):
            flags = [flag for flag in each.flags if flag != each.declared.alias]
            assert ", ".join(f"{flag} {each.declared.metavar}".strip() for flag in flags) in flowing
            assert f"{each.declared.panel}:" in text
        elif each.default is inspect.Parameter.empty:
            assert each.declared.metavar in text
    assert "[default: rectangular]" in flowing
    assert max(map(len, text.splitlines())) <= max(60, min(110, int(columns)))


@pytest.mark.parametrize("name", VERBS)
def test_the_short_help_names_every_option_in_sixty_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text, command = run(*name.split(), "--help").stdout, Command.of(load(name))
    assert len(text.splitlines()) <= 60
    assert all(re.search(rf"(^|\s){each.flags[0]}\b", text) for each in command.parameters if each.flags)
    last = re.findall(r"^[A-Za-z ]+:$", text, re.MULTILINE)
    assert last[-1] in {"Every command:", "options:"}
    assert ADVANCED + ":" not in last or last[-2] == ADVANCED + ":"
    full = run("help", *name.split()).stdout
    assert all(" ".join(each.declared.help.split()) in " ".join(full.split()) for each in command.parameters)


def test_exit_codes_and_samples_have_help_pages() -> None:
    codes, samples = run("help", "exit-codes").stdout, run("help", "sampling").stdout
    for name in (*get_args(Scheme), "neighbours", "labels", "among,times"):
        assert sum(line.split()[:1] == [name] for line in samples.splitlines()) == 1, name
    assert all(f"{code:>3d}  {code.meaning}" in codes for code in ExitCode)
    assert all(scheme in samples for scheme in get_args(Scheme))
    for text in (run("solve", "--help").stdout, run("--help").stdout):
        assert set(TOPICS) <= {*re.findall(r"[a-z-]+", text.rpartition("Topics:")[2])}
    assert run("help").stdout == run("--help").stdout
    assert "No such command 'nothing'" in refused("help", "nothing")


def test_the_numbers_of_verbs_and_options_are_limited() -> None:
    """An option counts once for every verb that has it; `--json`, which all commands have, once in all."""
    options = [
        parameter.declared
        for verb in VERBS
        for parameter in Command.of(load(verb)).parameters
        if isinstance(parameter.declared, CommandOption)
    ]
    everywhere = {option for option in options if option.panel == EVERY_COMMAND}
    assert [option.flag for option in everywhere] == ["--json"]
    assert sum(option in everywhere for option in options) == len(VERBS) - 1  # the help of `mcp` is for programs
    assert len(VERBS) <= 22
    assert sum(option not in everywhere for option in options) + len(everywhere) <= 270
    assert len({option.flag for option in options}) <= 100


@pytest.mark.parametrize("path", [path for path in QUESTIONS if "/" not in path])
def test_every_question_is_a_verb_with_one_screen_of_help(path: str) -> None:
    result = run(path, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) <= 60


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", "--eps", "1"), "No such option: --eps. Did you mean --epsilon"),
        (("plan", "--delta", "1e-6"), "--voter-delta"),
        (("plan", "--delta", "1e-6"), "--total-delta"),
        (("plan", "--noise-multiplier", "1"), 'Give --profile "dp_sgd(σ, q, T)"'),
        (("plan", "--K", "11", "--epsilon", "0,5", "--total-epsilon", "1"), "Write a decimal point: 0.5."),
        (("plan", "--K", "11", "--queries", "1,000", "--total-epsilon", "1"), "Write 1000, without separators."),
        (("cost", "plain_vote", "--K", "11"), "NAME: 'plain_vote' is not valid: expected one of permute_and_flip, "),
        (("cost", "majority", "--K", "11"), "gnmax, randomized_response, subsampling, bagging. For a γ or a table, "),
        (
            ("cost", "gnmax", "--K", "250", "--total-epsilon", "3", "--delta", "1e-5"),
            "--delta goes with a parameter of the mechanism. With --total-epsilon, give --total-delta.",
        ),
        (("plan",), "--K is missing: expected a whole number of voters, at least 1. --total-epsilon is missing, too."),
        (("label",), "--solution is missing: expected a file. --output, --release-log and --votes are missing, too."),
        (("label", "votes.csv", "--output", "l.csv"), "a file. --release-log is missing, too."),
    ],
)
def test_the_error_of_an_invalid_command_has_a_suggestion(words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)
