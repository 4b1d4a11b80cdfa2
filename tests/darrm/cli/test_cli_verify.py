"""`darrm verify`: a proof, a counterexample, or a reason why the file says nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.darrm_runner import SMALL, refused, run

from darrm.cli.output import ExitCode

PROBLEM = ("--m", "2", "--epsilon", "0.5")


def record() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(run("solve", *SMALL, "--no-cache", "--json").stdout)
    return content


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    path = tmp_path / "gamma.json"
    assert run("solve", *SMALL, "--no-cache", "--output", str(path)).exit_code == 0
    return path


@pytest.mark.parametrize("arithmetic", ["float", "ball"])
def test_an_answer_is_proved_again(answer: Path, arithmetic: str) -> None:
    result = run("verify", str(answer), "--arithmetic", arithmetic)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("5 voters, each 0.5-DP; the release of one bit is 1-DP (m = 2).\n")
    assert "private    proved for these very numbers: every way in which a record can move the voters" in result.stdout


def test_an_answer_on_stdin_is_proved_as_json(answer: Path) -> None:
    result = run("verify", "-", "--json", given=answer.read_text())
    assert (result.exit_code, result.stderr) == (0, "")
    proof = json.loads(result.stdout)
    assert proof["private"] is True
    assert proof["problem"] == record()["problem"]
    assert proof["certificate"]["limit"] == record()["certificate"]["limit"]
    assert proof["certificate"]["bound"] == pytest.approx(record()["certificate"]["bound"], rel=1e-12)
    assert proof["certificate"]["margin"] >= 0


def test_a_bare_list_is_proved_for_the_options_problem(answer: Path) -> None:
    gamma = json.dumps(json.loads(answer.read_text())["gamma"])
    assert run("verify", "-", *PROBLEM, given=gamma).exit_code == 0
    assert run("verify", "-", *PROBLEM, "--K", "5", "--affected", "3", given=gamma).exit_code == 0
    assert run("verify", "-", "--m", "2", "--epsilon", "0.49", given=gamma).exit_code == ExitCode.NOT_PRIVATE


def test_a_gamma_that_is_not_private_is_shown_its_counterexample() -> None:
    result = run("verify", "-", *PROBLEM, "--json", given="[1, 1, 1, 1, 1, 1]")
    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert result.stderr.startswith("Error: gamma is not private: with voters ")
    answer = json.loads(result.stdout)
    assert answer["private"] is False
    assert answer["excess"] > 0
    assert sum(answer["worst_corners"].values()) == 5
    assert f"Error: {answer['message']}\n" == result.stderr
    plain = run("verify", "-", *PROBLEM, given="[1, 1, 1, 1, 1, 1]")
    assert (plain.exit_code, plain.stdout, plain.stderr) == (ExitCode.NOT_PRIVATE, "", result.stderr)


def test_a_gamma_too_near_the_limit_is_neither_called_private_nor_refuted() -> None:
    options = ("--K", "11", "--epsilon", "inf", "--target-epsilon", "1")
    answer = json.loads(run("solve", *options, "--no-cache", "--json").stdout)
    certificate = answer["certificate"]
    grow = 1 + (certificate["error_bound"] / 2 + 2 * certificate["margin"]) / certificate["worst_value"]
    gamma = json.dumps([value * grow for value in answer["gamma"]])  # past the proof by half of what rounding may hide
    result = run("verify", "-", *options, "--json", given=gamma)
    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert json.loads(result.stdout)["private"] is None
    assert result.stderr.startswith("Error: gamma cannot be shown to be private in floating point")


def test_a_suspicious_problem_is_pointed_out() -> None:
    result = run("verify", "-", *PROBLEM, "--Delta", "0.1", "--delta", "0.01", given="[0, 0, 0]")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: delta = 0.01 is below Delta = 0.1")


@pytest.mark.parametrize(
    ("gamma", "message"),
    [
        ("[1, 1, 1]", "-: gamma = [1.0, 1.0, 1.0] is not valid: expected K+1 = 6 numbers. Received 3."),
        ("[1, 0.5, 0.5, 0.5, 0.4, 1]", "-: gamma[1] = 0.5 is not valid: expected gamma[1] = gamma[4] = "),
        ("[1, 1, 1.5, 1.5, 1, 1]", "-: gamma[2] = 1.5 is not valid: expected a probability in [0, 1]."),
        ("[1, 1, -0.1, -0.1, 1, 1]", "-: gamma[2] = -0.1 is not valid: expected a probability in [0, 1]."),
        ('[1, 1, "a", "a", 1, 1]', "-: gamma = [1, 1, 'a', 'a', 1, 1] is not valid: expected numbers γ(0), …, γ(K)."),
        ("[[1, 1], [1, 1]]", "-: gamma = [[1.0, 1.0], [1.0, 1.0]] is not valid: expected a flat list of K+1 numbers"),
        ("[]", "-: gamma = [] is not valid: expected a flat list of K+1 numbers γ(0), …, γ(K)."),
        ("[1, 1, NaN, NaN, 1, 1]", "- is not JSON: NaN is not a number of JSON."),
        ("1, 1", "- is not JSON: Extra data"),
        ("", "- is not JSON: Expecting value"),
        ("[" * 100_000, "- is not JSON: "),
    ],
)
def test_a_list_that_is_no_noise_function_is_refused(gamma: str, message: str) -> None:
    assert refused("verify", "-", *PROBLEM, "--K", "5", given=gamma).startswith(f"Error: {message}")


@pytest.mark.parametrize("content", ["3", '"text"', "null", "true", "{}", '{"format": 99}', '{"gamma": [1, 1]}'])
def test_a_file_that_is_no_answer_is_refused(content: str) -> None:
    assert refused("verify", "-", given=content).startswith("Error: -: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format = 2 is not valid: expected 1. Written by another version of darrm-opt; solve again."),
        ({"utility": 0.99}, "its utility is 0.901"),
        ({"utility": "high"}, "utility = 'high' is not valid: expected a number."),
        ({"gamma": [1.0, 1.0]}, "gamma = [1.0, 1.0] is not valid: expected K+1 = 6 numbers. Received 2."),
        ({"problem": {"K": "5"}}, "epsilon is missing: expected a value. The record lacks this field."),
        ({"objective": "fun"}, "objective = 'fun' is not valid: expected rectangular"),
        ({"status": "splendid"}, "is not valid: expected a complete record as written by darrm-opt."),
        ({"certificate": None}, "argument after ** must be a mapping"),
    ],
)
def test_an_answer_that_was_changed_is_refused(change: dict[str, Any], message: str) -> None:
    text = refused("verify", "-", given=json.dumps(record() | change))
    assert text.startswith("Error: -: ")
    assert message in text


def test_an_answer_with_another_gamma_is_not_taken_for_private() -> None:
    changed = record()
    changed["gamma"] = [1.0] * 6
    changed["utility"] = 1.0
    assert run("verify", "-", given=json.dumps(changed)).exit_code == ExitCode.NOT_PRIVATE


def test_an_answer_names_its_problem_itself(answer: Path) -> None:
    message = refused("verify", str(answer), *PROBLEM, "--target-epsilon", "1")
    assert message == (
        f"Error: {answer} names its problem itself: leave out --epsilon, --m, --target-epsilon, or give a bare list."
    )


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a long path is shown in part
    assert refused("verify", "absent.json") == (
        "Error: FILE: 'absent.json' is not valid: expected a readable file, or - for stdin. No such file or directory."
    )
    Path("binary").write_bytes(b"\xff\xfe")
    assert refused("verify", "binary").endswith("It is not UTF-8 text.")


def test_another_arithmetic_is_refused() -> None:
    message = refused("verify", "-", *PROBLEM, "--arithmetic", "decimal", given="[0, 0]")
    assert message == "Error: --arithmetic: 'decimal' is not valid: expected 'float' or 'ball'."


def test_the_file_is_needed() -> None:
    result = run("verify")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Missing argument 'FILE'" in result.stderr
