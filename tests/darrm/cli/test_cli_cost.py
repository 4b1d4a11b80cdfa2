"""`darrm cost`: a published setting, the way back from a total, what is written, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from support.darrm_runner import refused, run, run_json

from darrm_opt.mechanisms import calibrated_names, mechanism_class, mechanism_from_record

SMALL = ("--K", "11", "--queries", "20")
TOTAL = ("--total-epsilon", "1", "--total-delta", "1e-5")


def test_a_published_setting() -> None:
    checked = ("--sigma", "40", "--check", "sigma=150,cap=286", "--queries", "640", "--delta", "1e-5")
    found = run_json("cost", "gnmax", "--K", "250", "--classes", "10", *checked)
    assert set(found) == {"mechanism", "parameter", "epsilon", "delta", "account", "design_hash", "zcdp"}
    assert (found["parameter"], found["delta"], found["account"]) == (40.0, 1e-5, "gaussian")
    assert 1.98 < found["epsilon"] <= 2.05  # noisy counts by Rényi divergences: 2.76


@pytest.mark.parametrize("name", calibrated_names())
def test_what_is_calibrated_costs_what_it_says(name: str, tmp_path: Path) -> None:
    found = run_json("cost", name, *SMALL, *TOTAL, "--output", str(tmp_path / "mechanism.json"))
    parameter, value = mechanism_class(name).parameter, found["parameter"]
    assert found["epsilon"] <= 1.0
    back = run_json("cost", name, *SMALL, f"--{parameter}", repr(value), "--delta", "1e-5")
    assert back | {"design_hash": found["design_hash"]} == found  # a design is for the total that was asked
    mechanism = mechanism_from_record(json.loads((tmp_path / "mechanism.json").read_text(encoding="utf-8")))
    assert mechanism.epsilon(20, 1e-5) == found["epsilon"]
    less_private = value * (1.01 if mechanism_class(name).increases else 1 / 1.01)
    assert run_json("cost", name, *SMALL, f"--{parameter}", repr(less_private), "--delta", "1e-5")["epsilon"] > 1.0


def test_the_answer_in_words() -> None:
    told = run("cost", "laplace", "--K", "11", "--scale", "10", "--queries", "20", "--delta", "1e-5").stdout
    assert told.startswith("Laplace noise of scale 10 votes on each of 2 counts. 20 releases are together (1.690")
    assert told.endswith("by the account bits.\n")
    three = run("cost", "permute_and_flip", "--K", "11", "--classes", "3", "--rate", "0.1", "--delta", "1e-5").stdout
    assert three.startswith("Permute-and-flip at 0.1 nats a vote. ")
    checked = ("--sigma", "9", "--check", "threshold=5,sigma=9", "--delta", "0")
    listed = run("cost", "gnmax", "--K", "11", "--classes", "3", *checked).stdout
    assert listed.endswith("by the account laws.\n")
    none = run("cost", "gnmax", "--K", "1000", "--classes", "10", *checked).stdout
    assert "No account proves a finite ε at δ = 0. None holds for every threshold of a check." in none


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("noise", *SMALL), "NAME: 'noise' is not valid: expected one of permute_and_flip"),
        (("gnmax", *SMALL), "--total-epsilon is missing"),
        (("gnmax", *SMALL, "--rate", "1"), "--rate is not a parameter of gnmax"),
        (
            ("gnmax", *SMALL, "--sigma", "9", *TOTAL),
            "--total-epsilon cannot be combined with a parameter. Give --delta.",
        ),
        (("gnmax", *SMALL, "--sigma", "9"), "--delta is missing"),
        (("gnmax", *SMALL, "--sigma", "-9", "--delta", "1e-5"), "--sigma: -9 is not valid"),
        (("gnmax", *SMALL, "--check", "sigma=9", *TOTAL), "--check needs a parameter of a mechanism that has a check"),
        (
            ("laplace", *SMALL, "--check", "cap=9", "--scale", "2", "--delta", "0"),
            "--check needs a parameter of a mechanism that has a check",
        ),
        (("laplace", "--K", "5", "--classes", "1", *TOTAL), "--classes: 1 is not valid"),
        (("laplace", "--K", "5", "--queries", "0", *TOTAL), "--queries: 0 is not valid"),
        (("subsampling", "--K", "5", "--classes", "3", "--voters", "2", "--delta", "0"), "--classes: 3 is not valid"),
        (("gnmax", "--K", "5", "--sigma", "1e300", "--delta", "0"), "--sigma: 1e+300 is not valid"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("cost", *arguments)


def test_the_curve_is_a_csv_of_the_same_accounts(tmp_path: Path) -> None:
    output = tmp_path / "curve.csv"
    words = ("cost", "gnmax", "--K", "11", "--sigma", "20", "--queries", "20", "--delta", "1e-5")
    told = run_json(*words, "--output", str(output))
    with output.open(encoding="utf-8") as file:
        points = list(csv.DictReader(file))
    assert list(points[0]) == ["queries", "delta", "epsilon", "account"]
    mechanism = mechanism_class("gnmax").of(11, 2, 20.0)
    for point in points:
        assert float(point["epsilon"]) == mechanism.cost(int(point["queries"]), float(point["delta"])).epsilon
    asked = next(point for point in points if (point["queries"], point["delta"]) == ("20", "1e-05"))
    assert (float(asked["epsilon"]), asked["account"]) == (told["epsilon"], told["account"])


def test_numbers_are_read_and_bounded_by_their_own_option() -> None:
    assert (
        "--queries: 99999999999999999999 is not valid: expected a whole number of releases from 1 to 1,000,000,000."
        in refused("cost", *SMALL_GNMAX, "--queries", "99999999999999999999")
    )
    written, again = (run_json("cost", *SMALL_GNMAX, "--queries", text) for text in ("20", "2e1"))
    assert written == again


def test_a_cap_is_refused_by_name_where_votes_are_given(tmp_path: Path) -> None:
    file = tmp_path / "votes.csv"
    file.write_text("a,b,c,d,e\n0,1,2,0,1\n")
    checked = ("--check", "sigma=2,threshold=3,cap=20", "--votes", str(file))
    assert "--check cannot be combined with an account by the votes. Drop cap." in refused(
        "cost", *SMALL_GNMAX, *checked
    )


def test_a_file_that_nobody_can_create_is_refused_before_any_work() -> None:
    if Path("/proc").is_dir():  # a folder in which nobody may create files, whatever its permissions say
        assert "The folder /proc cannot be written" in refused("cost", *SMALL_GNMAX, "--output", "/proc/x.json")


SMALL_GNMAX = ("gnmax", "--K", "5", "--classes", "3", "--sigma", "3", "--delta", "1e-3")
