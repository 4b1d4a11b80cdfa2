"""Numbers at the far ends of what an option may hold: one message and exit code 2, before any work; or an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.darrm_runner import refused, run

CLASSES = ("--K", "5", "--classes", "3", "--affected", "1")


@pytest.mark.parametrize(
    "words",
    [
        ("solve", "--m", "3"),
        ("least", "--utility", "0.5"),
        ("plan", "--total-epsilon", "1", "--total-delta", "0.01"),
        ("plan", "--compare", "--total-epsilon", "1", "--total-delta", "0.01"),
    ],
)
@pytest.mark.parametrize("K", ["10000000000", "20000000"])
def test_very_many_voters_are_refused_before_any_array_of_that_size(words: tuple[str, ...], K: str) -> None:
    assert (
        refused(*words, "--epsilon", "0.1", "--K", K)
        == f"Error: --K: {K} is not valid: expected at most 1000000 voters."
    )


def test_voters_of_the_largest_epsilon_are_compared() -> None:
    asked = ("plan", "--compare", "--K", "5", "--epsilon", "1e308", "--total-epsilon", "1", "--total-delta", "0.01")
    result = run(*asked, "--json")
    assert (result.exit_code, json.loads(result.stdout)["voters"]["epsilon"]) == (0, 1e308)
    assert result.stderr.startswith("Warning: epsilon = 1e+308 nats")


def test_a_release_at_nearly_every_delta_needs_hardly_any_noise() -> None:
    asked = ("plan", *CLASSES, "--total-epsilon", "1", "--total-delta", "0.999999999999")
    assert run(*asked).exit_code == 0


@pytest.mark.parametrize("written", ["1e-400", '"1e-400"'])
def test_a_grid_file_does_not_turn_a_delta_into_0(tmp_path: Path, written: str) -> None:
    (tmp_path / "grid.toml").write_text(f"K = 5\nm = 2\nepsilon = 0.1\nDelta = {written}\n")
    url = f"sqlite:///{tmp_path / 'a.sqlite'}"
    message = refused("precompute", str(tmp_path / "grid.toml"), "--dry-run", "--url", url)
    assert message.endswith("1e-400 cannot be read. It is not 0, but closer to 0 than any other double.")
