"""A solution as text, HTML, plot and file, and the repr of its release."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from support.darrm_runner import run

from darrm_opt import NotPrivate, Privacy, PrivateVote, Problem, Solution, solve
from darrm_opt.accounting import PrivacyBudget
from darrm_opt.verification import InvalidSolution

SOLUTION = solve(Problem.from_allowance(K=4, m=1, epsilon=1))


def test_the_text_is_that_of_the_command_line() -> None:
    said = run("solve", "--K", "4", "--m", "1", "--epsilon", "1").stdout
    assert str(SOLUTION).splitlines()[:8] == said.splitlines()[:8]


def test_the_html_is_well_formed_and_shows_gamma() -> None:
    page = ET.fromstring(SOLUTION._repr_html_())  # noqa: S314 — our output
    cells = ["".join(cell.itertext()) for cell in page.iter("td")]
    assert cells == ["0, 4", "1.000000", "1.0000", "1, 3", "0.500000", "0.7500", "2", "0.000000", "a tie"]
    assert "1-DP" in "".join(page.itertext())


def test_a_solution_is_shown_as_its_plot() -> None:
    pytest.importorskip("matplotlib")
    figure: Any = SOLUTION.plot()
    assert figure._repr_svg_().startswith("<?xml")
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_saved_solution_is_loaded_bit_for_bit_and_verified(tmp_path: Path) -> None:
    path = tmp_path / "gamma.json"
    SOLUTION.save(path)
    again = Solution.load(path)
    assert np.array_equal(again.gamma, SOLUTION.gamma)
    assert (again.problem, again.utility, again.status) == (SOLUTION.problem, SOLUTION.utility, SOLUTION.status)
    assert run("verify", str(path)).exit_code == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"gamma": [1.0] * 5}, NotPrivate),
        ({"utility": 0.9}, InvalidSolution),
        ({"format": 99}, InvalidSolution),
        (None, InvalidSolution),
    ],
)
def test_a_loaded_file_is_verified(change: dict[str, object] | None, error: type[Exception], tmp_path: Path) -> None:
    path = tmp_path / "gamma.json"
    SOLUTION.save(path)
    record = json.loads(path.read_text("utf-8"))
    path.write_text("{" if change is None else json.dumps(record | change), encoding="utf-8")
    with pytest.raises(error):
        Solution.load(path)


def test_unverified_claims_of_a_file_are_documented(tmp_path: Path) -> None:
    """The upper bound and the status do not follow from γ: a file may overstate them, as documented."""
    path = tmp_path / "gamma.json"
    SOLUTION.save(path)
    record = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(record | {"upper_bound": 1.0, "gap": 1.0 - record["utility"]}), encoding="utf-8")
    loaded = Solution.load(path)
    assert (loaded.upper_bound, loaded.utility) == (1.0, SOLUTION.utility)
    assert Solution.load.__doc__ is not None
    assert all(name in Solution.load.__doc__ for name in ("`upper_bound`", "`status`"))


def test_the_repr_of_a_private_majority_states_its_guarantee() -> None:
    said = repr(PrivateVote(SOLUTION))
    assert said.startswith("PrivateVote(K=4, classes=2, the majority of 4 votes or a fair coin")
    assert said.endswith("each release 1-DP, affected=4, budget=None)")
    assert "budget=" in repr(PrivateVote(SOLUTION, PrivacyBudget(Privacy(2.0))))
    assert math.isfinite(SOLUTION.utility)
