"""Votes among classes: `darrm solve`, `plan` and `compare` with classes, and `darrm label` for class votes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vote_files
from support.darrm_runner import refused, run, run_json
from vote_files import written

from darrm.cli.output import ExitCode
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.plurality import ABSTENTION
from darrm_opt.tables.record import table_from_record

VOTERS = ("--K", "5", "--classes", "3", "--affected", "1")
SMALL = ("solve", *VOTERS, "--target-epsilon", "1", "--delta", "1e-3")
TOTAL = ("plan", *VOTERS, "--total-epsilon", "1", "--total-delta", "1e-3")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_is_verified_whatever_its_file_claims() -> None:
    run_json(*SMALL, "--output", "rule.json")
    told = run_json("verify", "rule.json")
    assert (told["private"], told["problem"]["classes"]) == (True, 3)
    assert "proved for these exact numbers" in run("verify", "rule.json").stdout
    record = json.loads(Path("rule.json").read_text())
    record["problem"]["target_epsilon"] = 0.5
    Path("rule.json").write_text(json.dumps(record))
    result = run("verify", "rule.json", "--json")
    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert json.loads(result.stdout)["excess"] > 0
    for values in ([], "text", [[0.1]], None, [*map(str, record["values"])], [True, *record["values"][1:]]):
        Path("rule.json").write_text(json.dumps(record | {"values": values}))
        assert "values" in refused("verify", "rule.json")
    Path("rule.json").write_text(json.dumps(record | {"values": [math.inf]}).replace("Infinity", "1e400"))
    assert "1e400 cannot be read" in refused("verify", "rule.json")
    record["problem"] |= {"K": 10**6, "classes": 1000}
    Path("rule.json").write_text(json.dumps(record))
    assert "20,000 partitions" in refused("verify", "rule.json")


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (
            ("--target-epsilon", "0.01"),
            "Error: rule.json states its own problem: omit --target-epsilon, or give",
        ),
        (("--K", "5", "--epsilon", "0.1", "--m", "1"), "omit --K, --epsilon, --m, or give a bare list."),
        (("--checker", "formal"), "--checker needs a γ, not"),
        (("--arithmetic", "ball"), "--arithmetic needs a γ, not"),
        (("--checker", "any"), "--checker: 'any' is not valid: expected 'own' or 'formal'"),
    ],
)
def test_options_that_do_not_apply_to_a_table_are_refused(option: tuple[str, ...], text: str) -> None:
    run_json(*SMALL, "--output", "rule.json")
    assert text in refused("verify", "rule.json", *option)


def test_every_option_is_within_a_total_and_rated_by_past_votes() -> None:
    table = np.repeat(np.array([[0, 0, 0, 0, 1], [2, 2, 2, 2, 2], [1, 1, 0, 2, 1]]), (5, 10, 3), axis=0)
    written("past.csv", table)
    asked = (*TOTAL, "--queries", "2", "--price", "1", "--votes", "past.csv", "--output", "best.json")
    found = run_json(*asked)
    assert [found["queries"], found["price"], found["prior"]] == [2, 1, "PastVotes"]
    assert {each["name"] for each in found["options"]} >= {"optimal", "permute_and_flip", "gnmax", "confident_gnmax"}
    for each in found["options"]:
        assert each["epsilon"] <= 1
        assert each["right"] + each["wrong"] + each["abstained"] == pytest.approx(1)
        assert each["utility"] == pytest.approx(each["right"] - each["wrong"])
    assert found["options"][0]["name"] == "optimal"
    problem, rule, _ = table_from_record(json.loads(Path("best.json").read_text()))
    assert (problem.K, rule.cells.abstention) == (5, True)
    told = run(*asked).stdout
    assert "2 queries, (1, 0.001)-DP in all" in told
    assert "gap        no table of the same (ε, δ) each has a utility above" in told
    assert "confident_gnmax" in told
    assert "written    optimal" in told
    written("bad.csv", np.array([[0, 0, 0, 3, 1]]))
    assert "Line 1" in refused(*SMALL, "--votes", "bad.csv")


def test_beyond_the_limits_of_tables_other_mechanisms_are_planned() -> None:
    for K, classes in ((100, 5), (2000, 12)):
        asked = ("--K", str(K), "--classes", str(classes), "--affected", "1")
        assert "partitions" in refused("solve", *asked, "--target-epsilon", "1")
        found = run_json("plan", *asked, "--total-epsilon", "1", "--total-delta", "1e-5")
        assert {each["name"] for each in found["options"]} >= {"permute_and_flip", "exponential", "gnmax"}
        assert all(1 / classes < each["utility"] <= 1 for each in found["options"])
        assert found["samples"] == 2000


# ------------------------------------------------------------------------------------------ plan, compare

THREE = ("--K", "5", "--classes", "3", "--total-epsilon", "1", "--total-delta", "1e-3", "--price", "1")


def test_plan_and_compare_agree_for_three_or_more_classes() -> None:
    asked = (*THREE, "--affected", "1", "--prior", "favoured(0.5,0.9)")
    found = run_json("plan", *asked)
    assert found == run_json("plan", "--compare", *asked)
    assert {"right", "wrong", "abstained"} <= set(found["options"][0])
    told = run("plan", "--compare", *asked).stdout
    assert "abstained" in told
    assert "confident_gnmax" in told


def test_two_classes_may_have_a_price() -> None:
    asked = ("plan", "--K", "5", "--epsilon", "inf", "--affected", "1", "--total-epsilon", "1", "--total-delta", "1e-3")
    assert run_json(*asked, "--classes", "2") == run_json(*asked)
    priced = run_json(*asked, "--price", "1")
    assert priced["price"] == 1
    for each in priced["options"]:
        assert each["utility"] == pytest.approx(each["right"] - each["wrong"])


def test_past_votes_are_the_prior_of_a_comparison_of_classes() -> None:
    written("past.csv", np.repeat(np.array([[0, 0, 0, 0, 1], [2, 2, 2, 2, 2]]), (5, 10), axis=0))
    found = run_json("plan", "--compare", *THREE, "--affected", "1", "--votes", "past.csv")
    assert found["prior"] == "PastVotes"
    assert "cannot be combined with --votes" in refused(
        "plan", "--compare", *THREE, "--affected", "1", "--votes", "past.csv", "--prior", "beta(2,1)"
    )


# ------------------------------------------------------------------------------------------ darrm label


def test_a_cap_on_labels_holds_across_jobs() -> None:
    capped = NoisyMaximum(4, 12, 1.0, threshold=-100.0, check_sigma=1.0, cap=5)
    Path("capped.json").write_text(json.dumps(capped.record()))
    written("votes.npy", votes(4))
    asked = ("label", "votes.npy", "--solution", "capped.json", "--release-log", "log", "--queries", "12")
    told = [run_json(*asked, "--output", f"{job}.npy") for job in range(3)]
    assert told[-1]["left"] == 0
    answers = [each for job in range(3) for each in labels(f"{job}.npy")]
    assert [each != ABSTENTION for each in answers] == [True] * 5 + [False] * 7


def votes(rows: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, 12, (rows, 4))


def labels(name: str) -> list[int]:
    return vote_files.labels(name, np.int16)


@pytest.fixture
def rule() -> str:
    """A table that releases the plurality of twelve classes almost always, or ⊥."""
    arguments = ("--K", "4", "--classes", "12", "--target-epsilon", "30", "--abstention", "--price", "1")
    run_json("solve", *arguments, "--affected", "1", "--output", "rule.json", "--ties", "any")
    return "rule.json"


@pytest.mark.parametrize("suffix", ["csv", "npy", "parquet"])
def test_class_votes_of_every_format_are_read(suffix: str, rule: str) -> None:
    table = np.repeat(np.arange(12)[:, None], 4, axis=1)
    name = written(f"votes.{suffix}", table)
    told = run_json(
        "label", name, "--solution", rule, "--release-log", "log", "--queries", "20", "--output", f"out.{suffix}"
    )
    assert labels(f"out.{suffix}") == list(range(12))
    assert (told["spent"], told["left"], told["problem"]["classes"]) == (12, 8, 12)
    again = run("label", name, "--solution", rule, "--release-log", "log", "--output", f"more.{suffix}")
    assert again.exit_code == ExitCode.UNAVAILABLE
    assert "8 are left" in again.stderr


def test_noisy_counts_are_released_within_a_total() -> None:
    run_json("cost", "gnmax", "--K", "4", "--classes", "12", "--total-epsilon", "5", "--total-delta", "1e-5",
             "--queries", "8", "--output", "noise.json")  # fmt: skip
    written("votes.csv", votes(6))
    told = run_json("label", "votes.csv", "--solution", "noise.json", "--release-log", "log", "--total-epsilon", "5",
                    "--total-delta", "1e-5", "--output", "out.csv")  # fmt: skip
    assert told["limit"] >= 8
    assert set(labels("out.csv")) <= set(range(12))


@pytest.mark.parametrize("bad", ["0,1,2,12", "0,1,2,-1", "0,1,2,x", "0,1,2", "0,1,2,1.5"])
def test_invalid_classes_are_refused_with_their_line(bad: str, rule: str) -> None:
    Path("votes.csv").write_text(f"0,1,2,2\n{bad}\n")
    told = refused(
        "label", "votes.csv", "--solution", rule, "--release-log", "log", "--queries", "9", "--output", "out.csv"
    )  # fmt: skip
    assert "Line 2" in told
    assert not Path("out.csv").exists()
