"""`darrm solve --least`: the inverse question on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from support.darrm_runner import run

from darrm_opt import Solution, least_parameter


def test_it_prints_what_the_core_finds_and_the_number_below(tmp_path: Path) -> None:
    file = tmp_path / "gamma.json"
    result = run("solve", "--least", "m", "--K", "7", "--epsilon", "0.2", "--utility", "0.9", "--output", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    own = least_parameter(7, epsilon=0.2, utility=0.9)
    assert own.below is not None
    assert f"m = {own.value:g} reaches utility {own.reached:.6f} (0.9 was wanted)." in result.stdout
    assert f"m = {own.below.value:g} reaches {own.below.reached:.6f}, at most" in result.stdout
    assert "nor at any smaller one" in result.stdout
    assert Solution.load(file).gamma.tolist() == own.solution.gamma.tolist()


def test_json_holds_both_designs() -> None:
    asked = ("--K", "5", "--m", "2", "--least", "epsilon", "--agreement", "0.98", "--digits", "2", "--json")
    told = json.loads(run("solve", *asked).stdout)
    own = least_parameter(5, m=2, parameter="epsilon", agreement=0.98, digits=2)
    assert own.below is not None
    assert (told["value"], told["below"]["value"]) == (own.value, own.below.value)
    assert told["solution"]["gamma"] == own.solution.gamma.tolist()
    assert told["below"]["solution"]["gamma"] == own.below.solution.gamma.tolist()
    assert told["is_least"] is False
