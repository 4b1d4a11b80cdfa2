"""``darrm solve`` and ``darrm verify`` for groups of voters and more than two classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.darrm_runner import run, run_json


def test_a_table_of_classes_is_designed_and_printed() -> None:
    result = run("solve", "--classes", "3", "--K", "5", "--epsilon", "0.5", "--target-epsilon", "1", "--json")
    answer = json.loads(result.stdout)
    assert answer["utility"] == pytest.approx(0.9488, abs=5e-5)
    assert answer["utility"] <= answer["upper_bound"]
    assert answer["classes"] == 3
    assert answer["groups"] == [{"K": 5, "epsilon": 0.5, "Delta": 0.0}]
    for row in answer["table"]:
        assert sum(row["probabilities"]) == pytest.approx(1.0)


def test_labels_are_charged_and_each_group_has_its_total(tmp_path: Path) -> None:
    table, votes, log = tmp_path / "table.json", tmp_path / "votes.csv", tmp_path / "releases.log"
    groups = ("--group", "K=1,epsilon=0.7", "--group", "K=2,epsilon=0.1")
    run("solve", *groups, "--classes", "3", "--target-epsilon", "0.6", "--output", str(table))
    votes.write_text("0,2,2\n1,1,0\n")
    budget = ("--queries", "5", "--total-delta", "0", "--fresh")
    files = ("--solution", str(table), "--release-log", str(log), "--output", str(tmp_path / "labels.csv"))
    assert run("label", str(votes), *files, *budget).exit_code == 0
    status = run_json("label", "--status", str(log))
    assert status["spent"] == 2
    assert status["epsilon"] == pytest.approx(1.2)
    assert [group["K"] for group in status["groups"]] == [1, 2]  # in the given order
    first, second = (group["spent_epsilon"] for group in status["groups"])
    assert second < first <= 1.2
    assert "group 2" in run("label", "--status", str(log)).stdout
    proof = run_json("verify", str(log))
    assert (proof["private"], proof["certificate"]["corners"] > 0) == (True, True)


def test_one_group_of_two_classes_is_a_gamma() -> None:
    options = ("--target-epsilon", "0.9")
    one = run_json("solve", "--group", "K=11,epsilon=0.3", *options)
    other = run_json("solve", "--K", "11", "--epsilon", "0.3", *options)
    assert one["gamma"] == other["gamma"]


def test_a_plan_of_groups_is_written_and_released(tmp_path: Path) -> None:
    file, votes = tmp_path / "plan.json", tmp_path / "votes.csv"
    groups = ("--group", "K=2,epsilon=0.1", "--group", "K=2,epsilon=0.5")
    total = ("--queries", "2", "--total-epsilon", "0.8", "--fresh")
    answer = json.loads(run("plan", *groups, *total, "--json", "--output", str(file)).stdout)
    assert answer["groups"] == [{"K": 2, "epsilon": 0.1, "Delta": 0.0}, {"K": 2, "epsilon": 0.5, "Delta": 0.0}]
    assert (answer["options"][0]["name"], answer["verdict"]) == ("optimal", "noisy majority")
    shown = run("plan", *groups, *total)
    assert "best_subset" in shown.stdout
    assert "Warning: fresh" in shown.stderr
    votes.write_text("0,1,1,1\n")
    files = ("--solution", str(file), "--release-log", str(tmp_path / "log"), "--output", str(tmp_path / "labels.csv"))
    assert run("label", str(votes), *files, "--queries", "2", "--fresh").exit_code == 0
    for words, option in (
        (("--K", "3"), "--K"),
        (("--Delta", "0.1"), "--voter-delta"),
        (("--bags", "n=9,size=3"), "--bags"),
        (("--records", "9", "--sample", "3"), "--records"),
    ):
        result = run("plan", *groups, *total, *words)
        assert (result.exit_code, option in result.stderr) == (2, True)


def test_a_group_may_have_points_of_a_profile() -> None:
    options = ("--target-epsilon", "0.9", "--classes", "3")
    stated = run_json("solve", "--group", "K=3,weight=2,profile=0:0.15,0.6:0", *options)
    alone = run_json("solve", "--group", "K=3,profile=0.6:0", *options)
    assert round(stated["utility"], 6) == 0.969465
    assert stated["groups"] == [{"K": 3, "profile": [[0.0, 0.15], [0.6, 0.0]]}]
    assert alone["groups"] == [{"K": 3, "epsilon": 0.6, "Delta": 0.0}]
    alike = run_json("solve", "--K", "3", "--profile", "0:0.15,0.6:0", *options)  # one group, without its syntax
    assert (alike["groups"], alike["utility"]) == (stated["groups"], stated["utility"])
    curve = run_json("solve", "--group", "K=3,profile=laplace(2)", *options)
    assert len(curve["groups"][0]["profile"]) == 3
    assert curve["utility"] > run_json("solve", "--group", "K=3,profile=0.5:0", *options)["utility"]
