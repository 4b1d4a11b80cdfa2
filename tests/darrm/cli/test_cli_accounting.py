"""`darrm compose`, the profile of a release, and bagging: the printed tables of the paper, and refusals."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any, Literal

import pytest
from support.darrm_runner import SMALL, run, run_json
from support.paths import DATA

from darrm.cli.output import ExitCode
from darrm_opt.design.report import FRESH_MEANING
from darrm_opt.problem import FRESH
from darrm_papers.pate import gnmax_sigma

ROWS = list(csv.DictReader((DATA / "paper_tables.csv").read_text(encoding="utf-8").splitlines()))
MNIST = ("--K", "11", "--m", "3", "--epsilon", "0.0892", "--Delta", "1e-4")


def accounts(*arguments: str, given: str = "") -> Any:
    found = run_json("compose", *arguments, given=given)
    assert found["fresh"] == ("--fresh" in arguments)
    return found["accounts"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['table']} {row['quantity']} {row['inputs']}")
def test_the_tables_of_the_paper_are_reproduced_as_printed(row: dict[str, str]) -> None:
    inputs, decimals = json.loads(row["inputs"]), int(row["printed_decimals"])
    if row["table"] == "Table 4":
        searches: tuple[Literal["continuous", "grid"], ...] = ("continuous", "grid")
        sigmas = [gnmax_sigma(inputs["epsilon"], inputs["delta"], search=search).sigma for search in searches]
        assert {f"sigma={round(sigma, decimals)}" for sigma in sigmas} == {row["expected"]}
        return
    queries = inputs.get("Q", inputs.get("M", inputs.get("K")))
    if "lambda" in row["quantity"] or "tau" in row["quantity"]:
        queries = inputs["K"]
    each = inputs.get("epsilon", 0.2676), inputs.get("delta", inputs.get("Delta"))
    table = accounts(
        *("--epsilon", str(each[0]), "--delta", str(each[1])),
        *("--queries", str(queries), "--slack", str(inputs.get("delta_prime", 0))),
    )
    quantity = row["quantity"]
    if quantity.endswith("delta_simple"):
        value = table["simple"]["delta"]
    elif quantity.startswith(("delta = ", "lambda = ")) or quantity.endswith("total_delta"):
        value = table["general"]["delta"]
    elif quantity.endswith("divided by epsilon"):
        value = table["general"]["epsilon"] / each[0]
    else:
        assert quantity in {"general_composition_total", "m * epsilon"}
        value = table["general"]["epsilon"]
    assert round(value, decimals) == float(row["expected"])


def test_every_table_is_tested() -> None:
    assert {row["table"] for row in ROWS} == {f"Table {number}" for number in (2, 3, 4, 5, 7, 9)}


def test_a_problem_is_designed_and_accounted_exactly() -> None:
    table = accounts(*MNIST, "--queries", "100", "--slack", "1e-4", "--fresh")
    assert list(table) == ["simple", "general", "optimal", "pld", "profile", "bits", "best"]
    assert round(table["general"]["epsilon"], 2) == 15.04
    assert table["best"]["epsilon"] <= 5.4
    assert table["best"]["method"] == "bits"
    assert table["best"]["epsilon"] == min(total["epsilon"] for total in table.values())


def test_voters_trained_once_have_another_account() -> None:
    table = accounts(*MNIST, "--queries", "100", "--slack", "1e-4")
    assert list(table) == ["simple", "general", "optimal", "pld", "profile", "bits", "models", "best"]
    assert (
        table["simple"]["epsilon"] > 1000
    )  # 100·(mε, δ) is false, and γ reveals nearly all of the votes, which are not private
    assert table["best"] == table["models"] | {"method": "models"}
    assert table["models"]["epsilon"] < 11 * 0.0892
    text = run("compose", *MNIST, "--queries", "100", "--slack", "1e-4").stdout
    assert text.startswith(
        "100 releases, each (0.2676, 0.000299971)-DP (trained once); one record reaches at most 11 voters:"
    )
    assert "  best: models  " in text
    assert text.endswith(f"The voters were taken to have been trained once. {FRESH}\n")


def test_a_saved_answer_gives_the_same_totals(tmp_path: Path) -> None:
    path = tmp_path / "gamma.json"
    assert run("solve", *MNIST, "--no-cache", "--output", str(path)).exit_code == 0
    options = ("--queries", "20", "--total-delta", "0.006", "--fresh")
    assert accounts("--solution", str(path), *options) == accounts(*MNIST, *options)
    table = run("compose", "--solution", str(path), *options)
    assert table.stdout.startswith(
        "20 releases, each (0.2676, 0.000299971)-DP (fresh in every answer); one record reaches at most 11 voters:"
    )
    assert table.stdout.endswith(f"The voters were taken to be fresh: {FRESH_MEANING}.\n")
    saved = accounts("--solution", "-", *options, given=path.read_text())
    assert saved["best"]["delta"] == 0.006


def test_a_refusal_is_part_of_the_answer() -> None:
    table = accounts("--epsilon", "0.1", "--delta", "0.01", "--queries", "100", "--total-delta", "0.1")
    assert table["optimal"]["epsilon"] is None
    assert table["optimal"]["refused"].startswith("no finite epsilon exists at delta = 0.1")
    assert table["simple"]["refused"].startswith("nothing is promised")
    text = run("compose", "--epsilon", "0.1", "--delta", "0.01", "--queries", "100", "--total-delta", "0.1").stdout
    assert "optimal: no finite epsilon exists at delta = 0.1" in text


@pytest.mark.parametrize(
    ("each", "delta"), [("1e-9", 0.0), ("0.1", 1e-12), ("0.1", 0.0), ("0", 0.0)], ids=["tiny", "leaks", "usual", "none"]
)
def test_a_billion_releases_have_the_accounts_that_scale(each: str, delta: float) -> None:
    table = accounts("--epsilon", each, "--delta", str(delta), "--queries", str(10**9), "--slack", "1e-5")
    simple, general, best = (table[name]["epsilon"] for name in ("simple", "general", "optimal"))
    assert 10**9 * float(each) == pytest.approx(simple, rel=1e-12)
    assert best <= general <= simple
    if float(each):
        assert best >= 10**9 * float(each) * math.tanh(float(each) / 2)  # no slack reduces the mean loss
        assert table["pld"]["epsilon"] is None  # rounding alone exceeds δ, as the answer states
        assert "rounding" in table["pld"]["refused"]


def test_a_saved_gamma_that_is_not_private_is_not_accounted(tmp_path: Path) -> None:
    record = json.loads(run("solve", *SMALL, "--no-cache", "--json").stdout)
    record["gamma"] = [1.0] * 6
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(record))
    assert run("compose", "--solution", str(path)).exit_code == ExitCode.NOT_PRIVATE


def test_a_profile_and_a_draw_of_records_are_shown_as_tables() -> None:
    profile = run("profile", *MNIST, "--points", "3").stdout.splitlines()
    assert profile[0].startswith("11 voters, each (0.0892, 0.0001)-DP")
    assert len(profile) == 6
    drawn = run("cost", "bagging", "--K", "11", "--bags", "n=60000,size=300").stdout.splitlines()
    assert [line.strip().split("  ")[0] for line in drawn[-3:]] == [
        "all models",
        "all models, pure δ (ε = 0)",
        "one model",
    ]
