"""`darrm verify`: a proof, a counterexample, or a refusal of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.darrm_runner import SMALL, refused, run, run_json
from support.paths import DATA

from darrm.cli.output import ExitCode
from darrm.cli.proofs import MINIMAL_FILE
from darrm_opt import __version__
from darrm_opt.release.journal import create

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
def test_an_answer_is_verified(answer: Path, arithmetic: str) -> None:
    result = run("verify", str(answer), "--arithmetic", arithmetic)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("5 voters, each 0.5-DP; the release of one bit is 1-DP (m = 2).\n")
    assert "private    proved for these exact numbers: every way in which a record can move the voters" in result.stdout


def test_an_answer_on_stdin_is_verified_as_json(answer: Path) -> None:
    result = run("verify", "-", "--json", given=answer.read_text())
    assert (result.exit_code, result.stderr) == (0, "")
    proof = json.loads(result.stdout)
    assert proof["private"] is True
    assert proof["problem"] == record()["problem"]
    assert proof["certificate"]["limit"] == record()["certificate"]["limit"]
    assert proof["certificate"]["bound"] == pytest.approx(record()["certificate"]["bound"], rel=1e-12)
    assert proof["certificate"]["margin"] >= 0


def test_a_bare_list_is_verified_for_the_problem_of_the_options(answer: Path) -> None:
    gamma = json.dumps(json.loads(answer.read_text())["gamma"])
    for numbers in (gamma, f'{{"gamma": {gamma}}}'):
        assert run("verify", "-", *PROBLEM, given=numbers).exit_code == 0
    assert run("verify", "-", *PROBLEM, "--K", "5", "--affected", "3", given=gamma).exit_code == 0
    assert run("verify", "-", "--m", "2", "--epsilon", "0.49", given=gamma).exit_code == ExitCode.NOT_PRIVATE


def test_a_gamma_that_is_not_private_has_a_counterexample() -> None:
    result = run("verify", "-", *PROBLEM, "--json", given="[1, 1, 1, 1, 1, 1]")
    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert result.stderr.startswith("Error: gamma is not private. Counterexample: ")
    answer = json.loads(result.stdout)
    assert answer["private"] is False
    assert answer["excess"] > 0
    assert sum(answer["worst_corners"].values()) == 5
    assert f"Error: {answer['message']}\n" == result.stderr
    plain = run("verify", "-", *PROBLEM, given="[1, 1, 1, 1, 1, 1]")
    assert (plain.exit_code, plain.stdout, plain.stderr) == (ExitCode.NOT_PRIVATE, "", result.stderr)


def test_a_gamma_too_close_to_the_limit_is_neither_proved_nor_refuted() -> None:
    options = ("--K", "11", "--epsilon", "inf", "--target-epsilon", "1")
    answer = json.loads(run("solve", *options, "--no-cache", "--json").stdout)
    certificate = answer["certificate"]
    grow = 1 + (certificate["error_bound"] / 2 + 2 * certificate["margin"]) / certificate["worst_value"]
    gamma = json.dumps([value * grow for value in answer["gamma"]])  # beyond the proof by half of the rounding error
    result = run("verify", "-", *options, "--json", given=gamma)
    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert json.loads(result.stdout)["private"] is None
    assert result.stderr.startswith("Error: gamma cannot be shown to be private in floating point")


def test_a_suspicious_problem_has_a_warning() -> None:
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
        ('[1, 1, "a", "a", 1, 1]', "-: gamma = 'a' is not valid: expected a finite number."),
        ('[1, 1, "0.5", "0.5", 1, 1]', "-: gamma = '0.5' is not valid: expected a finite number."),
        ("[true, 1, 0.5, 0.5, 1, true]", "-: gamma = True is not valid: expected a finite number."),
        ("[1, 1, 1e-400, 1e-400, 1, 1]", "- is not JSON: 1e-400 cannot be read. It is not 0, but closer to 0"),
        ("[1, 1, 1e400, 1e400, 1, 1]", "- is not JSON: 1e400 cannot be read. It is beyond the largest double"),
        (f"[{'9' * 5000}, 1]", "- is not JSON: a number of 5000 digits cannot be read"),
        (f"[1{'0' * 390}, 1]", "-: gamma = 1000"),
        ("[[1, 1], [1, 1]]", "-: gamma = [[1.0, 1.0], [1.0, 1.0]] is not valid: expected a flat list of K+1 numbers"),
        ("[]", "-: gamma = [] is not valid: expected a flat list of K+1 numbers γ(0), …, γ(K)."),
        ("[1, 1, NaN, NaN, 1, 1]", "- is not JSON: NaN is not a JSON number."),
        ("1, 1", "- is not JSON: Expecting value"),
        ("", "- is not JSON: it is empty."),
        ("[" * 100_000, "- is not JSON: "),
    ],
)
def test_invalid_noise_functions_are_refused(gamma: str, message: str) -> None:
    assert refused("verify", "-", *PROBLEM, "--K", "5", given=gamma).startswith(f"Error: {message}")


def test_options_of_the_problem_are_refused_for_a_complete_answer(answer: Path) -> None:
    message = refused("verify", str(answer), *PROBLEM, "--target-epsilon", "1")
    assert message == (
        f"Error: {answer} states its own problem: omit --epsilon, --m, --target-epsilon, or give a bare list."
    )


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a long path is abbreviated
    assert refused("verify", "absent.json") == (
        "Error: FILE: 'absent.json' is not valid: expected a readable file, or - for stdin. No such file or directory."
    )
    Path("binary").write_bytes(b"\xff\xfe")
    assert refused("verify", "binary").endswith("It is not UTF-8 text.")


def test_an_unknown_arithmetic_is_refused() -> None:
    message = refused("verify", "-", *PROBLEM, "--arithmetic", "decimal", given="[0, 0]")
    assert message == "Error: --arithmetic: 'decimal' is not valid: expected 'float' or 'ball'."


# ------------------------------------------------------------------------------------------ every kind of file

BARE = {"K": 5, "m": 2, "epsilon": 0.5, "Delta": 0, "gamma": [0.5, 0.4, 0.3, 0.3, 0.4, 0.5]}


@pytest.mark.parametrize(
    ("K", "classes", "queries", "total", "options", "kind"),
    [
        (25, 10, 20, 2.0, ("plan", "--price", "1", "--affected", "1"), "darrm noisy maximum"),
        (25, 10, 20, 2.0, ("cost", "gnmax"), "darrm noisy maximum"),
        (60, 10, 1, 3.0, ("plan", "--total-delta", "0", "--affected", "1"), "darrm selection mechanism"),
        (5, 3, 1, 2.0, ("plan", "--affected", "1"), "darrm table"),
        (5, 3, 20, 2.0, ("cost", "exponential"), "darrm selection mechanism"),
    ],
)
def test_every_mechanism_is_verified_with_the_total_of_its_file(
    K: int, classes: int, queries: int, total: float, options: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "design.json"
    numbers = {"K": K, "classes": classes, "queries": queries, "total-epsilon": total}
    delta = 0.0 if "--total-delta" in options else 1e-5
    words = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
    words += [] if "--total-delta" in options else ["--total-delta", "1e-5"]
    assert run(*options, *words, "--output", str(path)).exit_code == 0
    content = json.loads(path.read_text())
    assert content["kind"] == kind
    assert (content["queries"], content["total_epsilon"], content["total_delta"]) == (queries, total, delta)
    result = run("verify", str(path), "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["private"] is True
    assert json.loads(result.stdout)["total"] == {"queries": queries, "epsilon": total, "delta": delta}
    assert "computed again" in run("verify", str(path)).stdout
    path.write_text(json.dumps(content | {"queries": 1000 * queries, "total_epsilon": 1e-3}))
    false = run("verify", str(path), "--json")
    assert false.exit_code == ExitCode.NOT_PRIVATE
    assert json.loads(false.stdout)["private"] is None
    path.write_text(json.dumps(content | {"total_epsilon": "much"}))
    assert "total_epsilon = 'much' is not valid" in refused("verify", str(path))
    for name in ("queries", "total_epsilon", "total_delta"):
        del content[name]
    path.write_text(json.dumps(content))
    assert run("verify", str(path)).exit_code == 0
    assert "--K" in refused("verify", str(path), "--K", "5")


def test_noise_without_a_total_is_stated_by_one_answer() -> None:
    record = {"kind": "darrm noisy maximum", "format": 1, "K": 25, "classes": 10, "sigma": 40.0, "threshold": None}
    record |= {"check_sigma": None, "affected": 1, "cap": None}
    answer = json.loads(run("verify", "-", "--json", given=json.dumps(record)).stdout)
    assert answer["private"] is True
    assert 0 < answer["one"]["epsilon"] < 0.5
    assert "sigma" in refused("verify", "-", given=json.dumps(record | {"sigma": 0.1}))


@pytest.mark.parametrize(
    ("change", "left_out", "target"),
    [
        ({}, (), 1.0),
        ({}, ("K", "Delta"), 1.0),
        ({"target_epsilon": 1.0}, ("m",), 1.0),
        ({"target_epsilon": 1.0, "delta": 1e-6, "affected": 2}, (), 1.0),
        ({"epsilon": "inf", "target_epsilon": 3.0}, ("m",), 3.0),
        ({"m": None, "target_epsilon": 1.0}, (), 1.0),
    ],
)
def test_a_gamma_with_its_problem_is_verified(change: dict[str, Any], left_out: tuple[str, ...], target: float) -> None:
    content = {name: value for name, value in (BARE | change).items() if name not in left_out}
    result = run("verify", "-", "--json", given=json.dumps(content))
    assert (result.exit_code, result.stderr) == (0, "")
    proof = json.loads(result.stdout)
    assert proof["private"] is True
    assert (proof["problem"]["K"], proof["problem"]["target_epsilon"]) == (5, target)


@pytest.mark.parametrize(
    ("change", "left_out", "argument"),
    [
        ({}, ("epsilon",), "epsilon is missing"),
        ({}, ("m",), "m is missing"),
        ({"Epsilon": 0.5}, (), "'Epsilon' is not valid"),
        ({"target_epsilon": 1.5}, (), "m = 2 is not valid"),
        ({"K": 6}, (), "gamma"),
        ({"epsilon": "inf"}, (), "m = 2 is not valid"),
    ],
)
def test_the_refusal_of_an_incomplete_file_shows_a_minimal_one(
    change: dict[str, Any], left_out: tuple[str, ...], argument: str
) -> None:
    content = {name: value for name, value in (BARE | change).items() if name not in left_out}
    assert argument in refused("verify", "-", given=json.dumps(content))


def test_the_minimal_file_is_valid() -> None:
    assert MINIMAL_FILE in refused("verify", "-", given='{"what": 1}')
    assert run("verify", "-", given=MINIMAL_FILE).exit_code == 0


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        (("plan", "--K", "5", "--epsilon", "0.5", "--affected", "1", "--total-epsilon", "2"), "plan"),
        (
            ("plan", "--compare", "--K", "3", "--affected", "1", "--total-epsilon", "1", "--total-delta", "1e-5"),
            "plan --compare",
        ),
        (("cost", "laplace", "--K", "5", "--total-epsilon", "1"), "cost"),
    ],
)
def test_an_answer_without_proof_is_refused_with_the_file_that_has_one(words: tuple[str, ...], verb: str) -> None:
    told = refused("verify", "-", given=run(*words, "--json").stdout)
    assert told.startswith(f"Error: -: it is what `darrm {verb} --json` prints")
    assert told.endswith(f"Give the file that `darrm {words[0]} --output FILE` writes.")


def test_the_mechanism_of_a_printed_plan_is_verified() -> None:
    printed = run("plan", "--K", "5", "--classes", "3", "--affected", "1", "--total-epsilon", "2", "--json").stdout
    proof = run_json("verify", "-", given=printed)
    assert proof["private"] is True
    assert proof["problem"]["target_epsilon"] <= 2


def test_cost_of_a_file_suggests_its_option(answer: Path) -> None:
    assert refused("cost", str(answer)).endswith(f"and not a file. For a γ: darrm compose --solution {answer}.")


@pytest.mark.parametrize("name", ["gamma", "problem", "utility"])
def test_a_duplicate_name_is_refused(name: str, tmp_path: Path) -> None:
    """Readers differ in which value they use, so the verified and the released one could differ."""
    content = record()
    text = json.dumps(content)[:-1] + f", {json.dumps(name)}: {json.dumps(content[name])}}}"
    assert f"'{name}' occurs twice in one object" in refused("verify", "-", given=text)
    (tmp_path / "twice.json").write_text(text)
    (tmp_path / "votes.csv").write_text("1,0,1,1,0\n")
    words = ("--solution", str(tmp_path / "twice.json"), "--release-log", str(tmp_path / "log"), "--queries", "1")
    assert "occurs twice" in refused("label", str(tmp_path / "votes.csv"), *words, "--output", str(tmp_path / "o.csv"))
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("m", [7, 1.999, "two"])
def test_an_m_that_contradicts_the_target_is_refused(m: Any) -> None:
    content = record()
    content["problem"]["m"] = m
    assert f"m = {m!r} is not valid" in refused("verify", "-", given=json.dumps(content))
    not_private = json.loads(
        run("solve", "--K", "3", "--epsilon", "inf", "--target-epsilon", "1", "--affected", "1", "--json").stdout
    )
    not_private["problem"]["m"] = 1.0
    assert "m = 1.0 is not valid" in refused("verify", "-", given=json.dumps(not_private))


@pytest.mark.slow
def test_totals_of_a_plan_are_verified_from_the_start_of_its_search() -> None:
    """From the target of one release, the profile proves 2.999314 for what the plan states as 2.999307."""
    voters = ("--K", "35", "--epsilon", "0.1", "--voter-delta", "1e-5", "--fresh")
    plan = run("plan", *voters, "--queries", "100", "--total-epsilon", "3", "--total-delta", "0.01", "--json").stdout
    assert json.loads(run("verify", "-", "--json", given=plan).stdout)["private"] is True


def test_every_gamma_of_a_plan_and_of_a_search_is_verified() -> None:
    options = ("--K", "3", "--affected", "1", "--queries", "2", "--total-epsilon", "2", "--total-delta", "1e-5")
    plan = run("plan", *options, "--json").stdout
    count = sum(option["gamma"] is not None for option in json.loads(plan)["options"])
    assert count > 3
    result = run("verify", "-", given=plan)
    assert result.stdout.startswith(f"{count} releases, each proved private")
    assert len(result.stdout.splitlines()) == count + 2
    assert result.stdout.count("answers are (") == count
    assert "\nunproved   not checked: mechanism, fits, outcome, accuracy, " in result.stdout
    cheap = json.loads(plan)
    next(option for option in cheap["options"] if option["gamma"])["spent"]["epsilon"] = 0.5
    false = run("verify", "-", "--json", given=json.dumps(cheap))
    assert (false.exit_code, json.loads(false.stdout)["private"]) == (ExitCode.NOT_PRIVATE, None)
    next(option for option in cheap["options"] if option["gamma"])["spent"]["epsilon"] = 700.0  # above any target
    assert run_json("verify", "-", given=json.dumps(cheap))["private"] is True
    wrong = json.loads(plan)
    next(option for option in wrong["options"] if option["gamma"])["gamma"] = [1.0] * 4
    assert run("verify", "-", given=json.dumps(wrong)).exit_code == ExitCode.NOT_PRIVATE
    least = run("least", "--K", "3", "--epsilon", "0.5", "--utility", "0.9", "--json").stdout
    assert len(json.loads(run("verify", "-", "--json", given=least).stdout)["proofs"]) == 2


def test_each_of_several_answers_in_a_file_is_verified() -> None:
    line = json.dumps(record())
    lines = f"{line}\n{line}\n{json.dumps(BARE)}\n"
    assert run("verify", "-", given=lines).stdout.startswith("3 releases, each proved private")
    wrong = json.dumps(BARE | {"gamma": [1.0] * 6})
    result = run("verify", "-", "--json", given=f"{lines}{wrong}\n")
    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert [proof["private"] for proof in json.loads(result.stdout)["proofs"]] == [True, True, True, False]
    assert "value 2" in refused("verify", "-", given=f'{line}\n{{"gamma": 1}}\n')


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "sqlite"])
def test_every_row_of_a_table_is_verified(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_CACHE_URL", f"sqlite:///{tmp_path}/store.sqlite")
    for m in ("1", "2"):
        assert run("solve", "--K", "3", "--m", m, "--epsilon", "0.5").exit_code == 0
    table = tmp_path / f"answers.{suffix}"
    assert run("export", "--output", str(table)).exit_code == 0
    assert run("verify", str(table)).stdout.startswith("2 answers, each proved private")
    assert json.loads(run("verify", str(table), "--json").stdout) == {"private": True, "rows": 2}
    assert "--K" in refused("verify", str(table), "--K", "3")
    if suffix == "jsonl":
        lines = table.read_text().splitlines()
        table.write_text("\n".join([lines[0], lines[1].replace('"gamma":[', '"gamma":[1.0,'), *lines[2:], ""]))
        assert run("verify", str(table)).exit_code == ExitCode.NOT_PRIVATE


@pytest.mark.parametrize("total", [(), ("--total-delta", "1e-3")])
def test_a_release_log_is_verified(total: tuple[str, ...], answer: Path, tmp_path: Path) -> None:
    votes, log = tmp_path / "votes.csv", tmp_path / "log"
    votes.write_text("1,0,1,1,0\n" * 3)
    words = ("--release-log", str(log), "--queries", "4", *total, "--output", str(tmp_path / "labels.csv"))
    assert run("label", str(votes), "--solution", str(answer), *words).exit_code == 0
    result = run("verify", str(log))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "private    proved for these exact numbers\n" in result.stdout
    assert "log        3 of 4 releases are spent" in result.stdout
    assert ("total      4 answers are " in result.stdout) == bool(total)
    proof = json.loads(run("verify", str(log), "--json").stdout)
    assert (proof["private"], proof["spent"], proof["mechanism"]["gamma"]) == (True, 3, record()["gamma"])
    assert ("total" in proof) == bool(total)
    assert "--m" in refused("verify", str(log), "--m", "3")
    log.write_bytes(log.read_bytes().replace(b'"limit":4', b'"limit":5'))
    assert run("verify", str(log)).exit_code == ExitCode.UNAVAILABLE


@pytest.mark.parametrize("kind", ["gamma_private_voters", "table", "gnmax"])
def test_a_log_whose_total_is_too_small_is_refused(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = (DATA / "contracts" / f"{kind}.log").read_bytes().splitlines()
    header = json.loads(lines[0].partition(b" ")[2])
    create(log, header | {"limit": 2 * header["limit"], "version": __version__})
    result = run("verify", str(log))
    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert "are not proved to be" in result.stderr


def test_a_mechanism_for_fresh_samples_is_verified_with_them(tmp_path: Path) -> None:
    path = tmp_path / "noise.json"
    words = ("--K", "10", "--classes", "4", "--queries", "100", "--total-epsilon", "3", "--total-delta", "1e-5")
    assert run("cost", "gnmax", *words, "--records", "5452", "--sample", "40", "--output", str(path)).exit_code == 0
    result = run("verify", str(path))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "sampled    40 of 5,452 records drawn anew" in result.stdout
    assert "total      100 answers are (3, 1e-05)-DP together" in result.stdout
    noise = json.loads(path.read_text())
    noise["sampling"]["sample"] = 400
    assert run("verify", "-", given=json.dumps(noise)).exit_code == ExitCode.NOT_PRIVATE
    noise["sampling"]["sample"] = 6000
    assert "sample = 6000 is not valid" in refused("verify", "-", given=json.dumps(noise))


def test_a_file_of_labels_is_refused(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("label\n1\n0\n")
    result = run("verify", str(labels))
    assert (result.exit_code, result.stderr.startswith(f"Error: {labels}: ")) == (ExitCode.BAD_INPUT, True)
