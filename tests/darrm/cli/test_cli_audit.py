"""``darrm audit``: arguments, answers and exit codes."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from support.darrm_runner import refused, run, run_json

FLIP = ("permute_and_flip", "--K", "7", "--classes", "3", "--rate", "0.5")
BOX = """
import random, sys
source = random.Random(7)
def vote(counts):
    return int(source.random() < 0.1 + 0.5 * (counts[0] > 1))
if __name__ == "__main__":
    for line in sys.stdin:
        print(vote(tuple(map(int, line.strip("[]\\n").split(",")))))
"""


def test_the_exit_code_tells_whether_a_claim_is_proved_or_refuted() -> None:
    assert run_json("audit", *FLIP, "--total-epsilon", "1")["verdict"] == "proved"
    result = run("audit", *FLIP, "--total-epsilon", "0.9", "--json")
    assert (result.exit_code, '"private": false' in result.stdout) == (1, True)
    text = run("audit", *FLIP, "--total-epsilon", "0.9").stderr
    assert "Refuted: one release is not 0.9-DP (neighbours: replace one record)" in text
    assert "epsilon = 1." in text or "epsilon = 0.99" in text
    assert "Proved: one release is 1-DP" in run("audit", *FLIP, "--total-epsilon", "1").stdout


def test_a_proof_states_the_least_epsilon_and_not_the_claim(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("votes_0,votes_1,chance_0,chance_1\n0,1,1/3,2/3\n1,0,2/3,1/3\n", encoding="utf-8")
    found = run_json("audit", str(table), "--total-epsilon", "0.7")
    assert found["verdict"] == "proved"
    assert found["epsilon"] == pytest.approx(math.log(2), abs=1e-6)
    assert "gives epsilon = 0.6932." in run("audit", str(table), "--total-epsilon", "0.7").stdout


def test_the_error_of_an_unknown_mechanism_names_it() -> None:
    said = refused("audit", "random_voter", "--share", "0.5", "--K", "7", "--total-epsilon", "0.3")
    assert "'random_voter'" in said
    assert "gnmax" in said  # an existing one


def test_the_voters_are_those_of_the_file(tmp_path: Path) -> None:
    table = tmp_path / "vote.csv"
    table.write_text("votes_0,votes_1,chance_0,chance_1\n1,0,0.6,0.4\n0,1,0.4,0.6\n", encoding="utf-8")
    found = run_json("audit", str(table), "--total-epsilon", "0.41")
    assert (found["private"], found["claim"]["K"], found["account"]) == (True, 1, "laws")
    assert "--K: 3" in refused("audit", str(table), "--total-epsilon", "1", "--K", "3")
    given = run_json("audit", "-", "--total-epsilon", "0.41", given=table.read_text(encoding="utf-8"))
    assert given == found
    record = tmp_path / "mechanism.json"
    words = ("--K", "5", "--queries", "3", "--total-epsilon", "1", "--output", str(record))
    assert run("cost", "laplace", *words).exit_code == 0
    claim = ("--queries", "3", "--total-epsilon", "1")
    assert run_json("audit", str(record), *claim)["private"] is True
    assert run("audit", str(record), "--queries", "4", "--total-epsilon", "1").exit_code == 1


def test_commands_are_audited_as_black_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("strange_vote.py").write_text(BOX, encoding="utf-8")
    words = ("--K", "2", "--samples", "4000", "--total-epsilon")
    found = run("audit", "strange_vote:vote", *words, "0.5")
    assert (found.exit_code, "With confidence 0.99" in found.stderr) == (1, True)
    passed = run("audit", "strange_vote:vote", *words, "3")
    assert (passed.exit_code, "no proof" in passed.stdout) == (0, True)
    command = f"{sys.executable} strange_vote.py"
    assert run("audit", "--command", command, *words, "0.5").exit_code == 1
    Path("pairs.json").write_text("[[[2, 0], [1, 1]]]", encoding="utf-8")
    assert run("audit", "--command", command, *words, "0.5", "--pairs", "pairs.json").exit_code == 1
    for wrong in ("true", "yes 1"):  # too few answers, and endless ones
        assert "It must write one line" in run("audit", "--command", wrong, *words, "1").stderr
