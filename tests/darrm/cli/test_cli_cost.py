"""`darrm cost`: a published setting, calibration, written files and refusals."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from support.darrm_runner import refused, run, run_json
from support.packages import installed

from darrm.cli.output import ExitCode
from darrm_opt.mechanisms import calibrated_names, mechanism_class, mechanism_from_record
from examples.own_mechanism import RandomVoter

SMALL = ("--K", "11", "--queries", "20")
TOTAL = ("--total-epsilon", "1", "--total-delta", "1e-5")


def test_the_total_of_a_published_setting() -> None:
    checked = ("--sigma", "40", "--check", "sigma=150,threshold=200,cap=286", "--queries", "640", "--delta", "1e-5")
    found = run_json("cost", "gnmax", "--K", "250", "--classes", "10", *checked)
    assert set(found) == {"mechanism", "parameter", "epsilon", "delta", "affected", "account", "design_hash", "zcdp"}
    assert (found["parameter"], found["delta"], found["account"]) == (40.0, 1e-5, "gaussian")
    assert 1.98 < found["epsilon"] <= 2.05  # noisy counts by Rényi divergences: 2.76


def test_a_check_needs_its_threshold() -> None:
    """For few voters the total depends on it, so there is no default."""
    shape = ("cost", "gnmax", "--K", "3", "--classes", "3", "--sigma", "1.2", "--delta", "1e-5", "--check")
    assert "a number with a threshold" in refused(*shape, "sigma=1")
    costs = [run_json(*shape, f"sigma=1,threshold={votes}")["epsilon"] for votes in (0, 2)]
    assert costs[0] > 1.5 * costs[1]


@pytest.mark.parametrize("name", calibrated_names())
def test_a_calibrated_mechanism_has_the_stated_total(name: str, tmp_path: Path) -> None:
    found = run_json("cost", name, *SMALL, *TOTAL, "--output", str(tmp_path / "mechanism.json"))
    parameter, value = mechanism_class(name).parameter, found["parameter"]
    assert found["epsilon"] <= 1.0
    back = run_json("cost", name, *SMALL, f"--{parameter}", repr(value), "--delta", "1e-5")
    assert back | {"design_hash": found["design_hash"]} == found  # a design is for the requested total
    mechanism = mechanism_from_record(json.loads((tmp_path / "mechanism.json").read_text(encoding="utf-8")))
    assert mechanism.epsilon(20, 1e-5) == found["epsilon"]
    less_private = value * (1.01 if mechanism_class(name).increases else 1 / 1.01)
    assert run_json("cost", name, *SMALL, f"--{parameter}", repr(less_private), "--delta", "1e-5")["epsilon"] > 1.0


@pytest.mark.parametrize(("affected", "words"), [(1, "at most 1 vote."), (3, "at most 3 votes.")])
def test_a_total_states_how_many_votes_a_record_moves(affected: int, words: str) -> None:
    given = () if affected == 1 else ("--affected", str(affected))
    for asked in (("--sigma", "10", "--delta", "1e-5"), ("--sigma", "10", "--delta", "0"), TOTAL):
        assert f"One record moves {words}" in run("cost", "gnmax", *SMALL, *asked, *given).stdout
        assert run_json("cost", "gnmax", *SMALL, *asked, *given)["affected"] == affected
    problem = ("--K", "11", "--m", "3", "--epsilon", "0.1", "--queries", "5", *given)
    reached = 11 if affected == 1 else affected  # for a γ a record affects all voters by default
    assert f"; one record reaches at most {reached} voters:" in run("compose", *problem).stdout
    assert run_json("compose", *problem)["problem"]["affected"] == reached


def test_the_account_is_named_and_without_one_there_is_no_total() -> None:
    shape = ("--K", "11", "--classes", "3", "--sigma", "9", "--delta", "0", "--check")
    listed, none = (("gnmax", *shape, f"threshold={votes},sigma=9") for votes in (5, 100_000))
    assert run("cost", *listed).stdout.endswith("by the account laws.\n")
    assert run_json("cost", "laplace", *SMALL, "--scale", "10", "--delta", "1e-5")["account"] == "bits"
    assert "No account proves a finite ε at δ = 0." in run("cost", *none).stdout


def test_the_curve_is_written_as_csv_of_the_same_accounts(tmp_path: Path) -> None:
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


SMALL_GNMAX = ("gnmax", "--K", "5", "--classes", "3", "--sigma", "3", "--delta", "1e-3")


def test_a_file_with_the_name_of_a_mechanism_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gnmax").write_text("{}", encoding="utf-8")
    assert run_json("cost", *SMALL_GNMAX)["parameter"] == 3.0


@pytest.mark.parametrize("verb", ["cost", "audit"])
def test_a_mechanism_that_cannot_be_imported_is_named_before_its_option(verb: str) -> None:
    with installed(own="no_such_module:Own"):
        for more in (("--strength", "1"), ("--total-epsilon", "1")):
            said = refused(verb, "own", *more)
            assert "'own' is not valid" in said
            assert "No module named 'no_such_module'" in said
        assert "No such option: --strength" in refused(verb, "laplace", "--strength", "1")


def test_an_unknown_mechanism_is_named_before_its_option() -> None:
    assert "NAME: 'lapalce' is not valid: expected one of " in refused("cost", "lapalce", "--strength", "1")
    assert "No such option: --strength" in refused("cost", "bagging", "--strength", "1")


def test_help_says_what_an_option_means_to_each_mechanism() -> None:
    own = {"name": "own", "kind": "own", "meaning": "Share of votes kept"}
    alike = {"name": "alike", "kind": "alike", "meaning": "γ, the same for all votes"}
    with installed(own=type("Own", (RandomVoter,), own), alike=type("Alike", (RandomVoter,), alike)):
        for words in (("cost", "--help"), ("help", "cost")):
            said = " ".join(run(*words).stdout.split())
            assert "γ, the same for all votes (randomized_response, alike), or Share of votes kept (own)" in said
    said = " ".join(run("help", "cost").stdout.split())
    assert "γ, the same for all votes: the parameter of randomized_response." in said


def test_an_error_of_a_mechanism_of_a_package_names_it() -> None:
    def fails(*_: object) -> None:
        raise ValueError("no bounds")

    def made(self: object, K: int, classes: int, share: float) -> None:
        """Take no ``affected``."""

    for part in ({"bounds": fails}, {"__init__": made}):
        with installed(own=type("Own", (RandomVoter,), {"name": "own", "kind": "own", **part})):
            result = run("cost", "own", "--K", "5", "--share", "0.5", "--delta", "0")
        assert (result.exit_code, result.stdout) == (ExitCode.INTERNAL_ERROR, "")
        said = result.stderr.splitlines()[-1]
        assert said.startswith("Error: this is an error in own, a mechanism of an installed package.")
