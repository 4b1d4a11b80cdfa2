"""`darrm plan`: from the plan to the labels, and the same verdict as `darrm plan --compare`."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import numpy as np
import pytest
from support.darrm_runner import run, run_json

from darrm_opt import Privacy, PrivateVote, Problem, plan
from darrm_opt.accuracy import disagreement
from darrm_opt.design.objective import as_objective
from darrm_opt.planning.compare import compare
from darrm_opt.record import solution_from_record
from darrm_opt.voters import PrivacyProfile

TOTAL = ("--total-epsilon", "3", "--total-delta", "1e-3")

FIRST_STEPS = ("--K", "5", "--epsilon", "0.5", "--fresh", "--queries", "5", *TOTAL)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The file of the plan of docs/start.md, the plan, and its last command."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    result = run("plan", *FIRST_STEPS, "--output", str(path))
    assert result.exit_code == 0
    promise = result.stdout.split("Right with probability ")[1].split()[0]
    return path, promise, result.stdout.split("Next:\n")[1].replace("\\\n", " ")


def test_the_released_labels_have_the_accuracy_of_the_plan(planned: tuple[Path, str, str]) -> None:
    path, promise, _ = planned
    solution = solution_from_record(json.loads(path.read_text("utf-8")))
    prior = as_objective("rectangular").prior  # type: ignore[union-attr]  # of the plan
    assert f"{1 - disagreement(solution.noise, prior):.4f}" == promise

    draw, chances = np.random.default_rng(7), prior.folded(5)  # for majorities of 3, 4 and 5
    sizes = draw.choice([3, 4, 5], size=40_000, p=chances / chances.sum())
    votes = (np.arange(5) < sizes[:, None]) ^ (draw.random((40_000, 1)) < 0.5)  # for both answers
    bits = PrivateVote(solution, fresh=True).release_many(votes)
    right = float(np.mean(bits == (votes.sum(axis=1) > 2)))
    assert right == pytest.approx(float(promise), abs=5 * math.sqrt(0.25 / 40_000))


def test_a_plan_beats_randomised_response(planned: tuple[Path, str, str]) -> None:
    _, promise, _ = planned
    simple = plan(5, Privacy(0.5), 5, Privacy(3.0, 1e-3), fresh=True, mechanisms=("randomized_response",)).best
    assert simple is not None
    assert simple.accuracy is not None
    assert float(promise) > simple.accuracy


def test_the_last_command_of_a_plan_releases_all_its_queries(
    planned: tuple[Path, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _, command = planned
    assert run("verify", str(path)).exit_code == 0
    monkeypatch.chdir(tmp_path)
    Path("votes.csv").write_text("1,1,1,1,0\n" * 5, encoding="utf-8")
    words = shlex.split(command)
    assert words[:2] == ["darrm", "label"]
    result = run(*words[1:])
    assert result.exit_code == 0, result.stderr
    assert "5 labels in labels.csv. 5 of 5 releases are spent" in result.stdout


def test_a_gamma_for_many_releases_is_a_solution() -> None:
    found = plan(3, None, 4, Privacy(2.0, 1e-3), affected=1, mechanisms=("gnmax",))
    assert found.best is not None
    solution = found.best.to_solution(found.question.gamma_objective)
    assert np.array_equal(solution.gamma, found.best.noise.values)  # type: ignore[union-attr]  # gnmax has a γ
    assert (solution.status.value, solution.upper_bound, solution.certificate.margin >= 0) == ("planned", 1.0, True)


@pytest.mark.parametrize(
    ("voters", "affected", "total", "spent"),
    [
        (("--epsilon", "0.5"), 1, ("1", "0"), (0.5, 0.0)),
        (("--epsilon", "0.1", "--voter-delta", "1e-5"), 1, ("0.5", "1e-4"), (0.1, 1e-5)),
        (("--epsilon", "0.1"), 3, ("0.5", "0"), (0.3, 0.0)),
        (("--profile", "0:0.02,0.1:1e-5"), 1, ("0.5", "1e-4"), (0.0995714623491, 1e-4)),
    ],
)
def test_a_plain_majority_is_written_as_a_gamma(
    voters: tuple[str, ...],
    affected: int,
    total: tuple[str, str],
    spent: tuple[float, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ("--K", "11", *voters, "--affected", str(affected), "--queries", "500")
    budget = ("--total-epsilon", total[0], "--total-delta", total[1])
    result = run("plan", *asked, *budget, "--output", "plan.json")
    assert "You do not need this mechanism" in result.stdout
    assert (result.exit_code, result.stderr) == (0, "")
    written = json.loads(Path("plan.json").read_text())
    assert min(written["gamma"]) > 1 - 1e-9
    assert written["queries"] == 500
    assert (written["total_epsilon"], written["total_delta"]) == pytest.approx(spent, rel=1e-9)
    proved = run_json("verify", "plan.json")
    assert proved["private"] is True
    assert proved["total"]["epsilon"] == pytest.approx(spent[0], rel=1e-9)
    # The command that the plan ends with releases the plain majority, within that total.
    Path("votes.csv").write_text("1,1,1,1,1,1,1,1,0,0,0\n" * 5, encoding="utf-8")
    command = result.stdout[result.stdout.rindex("darrm label") :].replace("\\\n", " ")
    released = run(*shlex.split(command)[1:])
    assert released.exit_code == 0, released.stderr
    assert Path("labels.csv").read_text().split() == ["label", *"11111"]
    log = run_json("label", "--status", "releases.log")
    assert (log["total_epsilon"], log["total_delta"]) == pytest.approx(spent, rel=1e-9)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--epsilon", "0.5", "--affected", "5", "--total-epsilon", "1.6"), "Keep 3 of the models, and release"),
        (("--epsilon", "0.5", "--affected", "1", "--total-epsilon", "1", "--classes", "3"), "The plain majority draws"),
    ],
)
def test_a_plan_without_a_file_tells_what_to_release(asked: tuple[str, ...], words: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    result = run("plan", "--K", "11", *asked, "--queries", "100", "--output", str(path))
    assert (result.exit_code, path.exists()) == (4, False), result.stdout
    assert f"{path} is not written. {words}" in result.stderr


def test_a_plan_without_a_useful_option_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    total = ("--queries", "50", "--total-epsilon", "0.05", "--total-delta", "1e-5")
    voters = ("--K", "11", "--epsilon", "0.1", "--voter-delta", "1e-5", "--affected", "1")
    result = run("plan", *voters, *total, "--output", str(path))
    message = f"Error: {path} is not written: no option is useful (verdict none).\n"
    assert (result.exit_code, result.stderr, path.exists()) == (4, message, False)


@pytest.mark.parametrize(
    ("K", "voter", "queries", "total", "affected", "fresh"),
    [
        (11, Privacy(0.0892, 1e-4), 1, Privacy(0.2676, 3e-4), 1, False),  # MNIST as in the paper: disjoint data
        (5, Privacy(0.3), 4, Privacy(1.0, 1e-3), 5, True),
        (5, Privacy(0.01), 4, Privacy(1.0, 1e-3), 5, True),
        (5, Privacy(0.3), 4, Privacy(1.0, 1e-3), 5, False),
        (5, Privacy(0.15), 4, Privacy(1.0, 1e-3), 5, False),
        (3, Privacy(math.inf), 2, Privacy(1.0, 1e-3), 1, False),
        (7, Privacy(0.2), 1, Privacy(0.5, 1e-3), 7, False),
        (7, Privacy(0.2), 1, Privacy(1.0, 1e-3), 7, False),
    ],
)
def test_compare_and_plan_agree_on_whether_noise_is_needed(
    K: int, voter: Privacy, queries: int, total: Privacy, affected: int, *, fresh: bool
) -> None:
    planned = plan(K, voter, queries, total, affected, fresh=fresh, mechanisms=("majority", "fewer_voters"))
    table = compare(Problem(K, voter, Privacy(1.0), affected), queries, total, fresh=fresh)
    majority = next(row for row in table.rows if row.name == "majority")
    plain = planned.verdict == "plain majority"
    assert (majority.noise is not None) == plain
    assert table.without_noise.startswith("The plain majority is within this total") == plain
    fewer = next((each for each in planned.options if each.name == "fewer_voters" and each.fits), None)
    assert ("fewer_voters" in table.without_noise) == (fewer is not None and not plain)
    if plain:
        assert table.rows[0].utility == pytest.approx(1.0)
    elif fewer is not None:
        assert f"with probability {fewer.accuracy:.4f}" in table.without_noise


def test_a_plan_among_classes_states_its_prior_and_useless_options() -> None:
    voters = ("--K", "20", "--classes", "5", "--affected", "1")
    useless = run("plan", *voters, "--queries", "200", "--total-epsilon", "1").stdout
    assert "the prior dirichlet(1.0)" in useless
    assert "below --least-accuracy 0.36 (a class at random: 0.2)" in useless
    assert "gnmax" in useless
    assert "the prior dirichlet(1.0)" in useless.splitlines()[0]
    useful = run("plan", *voters, "--queries", "1", "--total-epsilon", "3", "--total-delta", "1e-5").stdout
    assert "useless" not in useful
    # The only criterion is --least-accuracy: 0.71 for two classes is useful unless more is required.
    shape = ("--K", "10", "--affected", "1", "--queries", "50", "--total-epsilon", "4", "--total-delta", "1e-5")
    two = ("plan", *shape, "--price", "0.5")
    right = run_json(*two)["options"][0]["right"]
    assert 0.6 < right < 0.75
    assert "useless" not in run(*two).stdout
    assert f"below --least-accuracy {right + 0.1:.2f}" in run(*two, "--least-accuracy", f"{right + 0.1:.2f}").stdout


PROFILE = ("--K", "5", "--queries", "3", "--total-epsilon", "2", "--total-delta", "1e-3", "--profile")


def test_fresh_voters_with_a_profile_are_planned_as_in_python() -> None:
    points = "0:0.1,0.3:0.001"
    told = run_json("plan", *PROFILE, points, "--fresh")
    found = plan(5, PrivacyProfile([(0, 0.1), (0.3, 0.001)]), 3, Privacy(2.0, 1e-3), fresh=True)
    assert {row["mechanism"]: row["accuracy"] for row in told["options"]} == {
        option.name: option.accuracy for option in found.options
    }
    alone = run_json("plan", *PROFILE, "0.3:0.001", "--fresh")
    assert told["options"][0]["accuracy"] > alone["options"][0]["accuracy"] + 0.015
    compared = run_json("plan", "--compare", *PROFILE, points, "--fresh")
    assert compared["rows"][0]["utility"] > 0.97
    assert compared["rows"][0]["epsilon"] <= 2


@pytest.mark.parametrize(("K", "most"), [(11, 0.26), (35, 0.41)])
def test_models_of_dp_sgd_trained_once_need_no_noise_within_their_composition(K: int, most: float) -> None:
    pytest.importorskip("dp_accounting")
    asked = ("--K", str(K), "--profile", "dp_sgd(13.7,0.05,100)", "--queries", "1000", "--total-epsilon", str(most))
    told = run_json("plan", *asked, "--total-delta", str(K * 1e-4))
    best = told["options"][0]
    assert (best["mechanism"], best["account"], best["queries"]) == ("majority", "post-processing", None)
    assert best["spent"]["epsilon"] <= most
    assert "needs neither noise nor a limit on queries" in told["advice"]


def test_a_plan_for_private_voters_among_classes_names_the_design_that_uses_their_privacy() -> None:
    total = ("--queries", "2", "--total-epsilon", "2", "--total-delta", "0")
    asked = ("--classes", "3", "--affected", "3", "--fresh", *total)
    alike = run_json("plan", "--K", "3", "--epsilon", "0.5", *asked)
    assert any("State them as one group" in warning for warning in alike["warnings"])
    grouped = run_json("plan", "--group", "K=3,epsilon=0.5", *asked)
    assert grouped["options"][0]["right"] > alike["options"][0]["right"]
