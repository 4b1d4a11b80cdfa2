"""Problems too large are refused before any work, with an estimate and the limit; extreme numbers."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from support.darrm_runner import refused, run

from darrm_opt.answers.tables import design_seconds
from solver_cache import open_store
from solver_cache.precompute.grid import grid_of
from solver_cache.precompute.plan import estimate_plan, make_plan

HUGE = """
K = { from = 1, to = 1999, step = 2 }
epsilon = { from = 0.01, to = 1, points = 2000 }
m = { from = 1, to = 3, points = 1000 }
"""


TOTAL = ("--total-epsilon", "1", "--total-delta", "1e-3")

FRESH = ("--epsilon", "0.1", "--fresh", "--queries", "5", *TOTAL)


@pytest.mark.parametrize(
    "words",
    [
        ("solve", "--m", "3", "--epsilon", "0.1"),
        ("error-curve", "--m", "3", "--epsilon", "0.1"),
        ("plan", *FRESH),
        ("plan", "--compare", *FRESH),
    ],
)
def test_too_many_voters_are_refused_with_the_largest_number_that_fits(words: tuple[str, ...]) -> None:
    message = refused(*words, "--K", "100000")
    assert message.startswith("Error: --K = 100,000 would take about ")
    assert " minutes; the limit is 10 minutes." in message
    fits = message.split("At most K = ")[1].split(" ")[0]
    assert 100 < int(fits.replace(",", "")) < 100_000


@pytest.mark.parametrize("verb", ["solve --m 3", "least --utility 0.5", "plan", "plan --compare"])
@pytest.mark.parametrize("K", ["10000000000", "20000000"])
def test_very_many_voters_are_refused_before_any_array_of_that_size(verb: str, K: str) -> None:
    words = (*verb.split(), *(TOTAL if "plan" in verb else ()), "--epsilon", "0.1", "--K", K)
    assert refused(*words) == f"Error: --K: {K} is not valid: expected at most 1000000 voters."


def test_a_grid_of_two_billion_problems_is_refused(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(HUGE)
    message = refused("precompute", str(tmp_path / "grid.toml"), "--url", f"sqlite:///{tmp_path / 'a.sqlite'}")
    assert "2,000,000,000 combinations" in message
    assert "expected at most 1,000,000 in one run. Divide the grid" in message


def test_a_dry_run_of_many_problems_uses_a_sample(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(HUGE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run("precompute", str(tmp_path / "grid.toml"), "--dry-run", "--url", f"sqlite:///{tmp_path / 'a.sqlite'}")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "About 2,000,000,000 problems, of which about 0 are stored already (from a sample of 500)."
    )
    assert "Too large for one run: at most 1,000,000 problems." in result.stdout
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_a_sample_estimates_the_counts_of_a_plan() -> None:
    grid = grid_of(
        {
            "K": {"from": 1, "to": 59, "step": 2},
            "epsilon": [0.1, 0.2],
            "Delta": "epsilon/1000",
            "m": {"from": 1, "to": 20, "points": 40},
            "where": "m < (K+1)/2",
            "objective": ["rectangular", "shared(1,1) agreement"],
        }
    )
    plan, about = (
        make_plan(grid.specs(), open_store("memory"), design_seconds),
        estimate_plan(grid, open_store("memory"), design_seconds),
    )
    assert grid.size == 30 * 2 * 40 * 2
    assert about.problems == pytest.approx(plan.problems, rel=0.05)
    assert about.seconds == pytest.approx(plan.seconds, rel=0.1)  # 500 of 4,800; times vary more than counts


def test_a_sample_of_all_problems_is_exact() -> None:
    (part,) = grid_of({"K": [3, 5], "epsilon": [0.1, 0.2], "m": "K/2", "shape": ["free", "monotone"]}).parts
    assert {spec.key for spec in part.sample(100)} == {spec.key for spec in part.specs()}
    assert len(list(part.sample(100))) == part.size == 8


def test_voters_of_the_largest_epsilon_are_compared() -> None:
    asked = ("plan", "--compare", "--K", "5", "--epsilon", "1e308", "--total-epsilon", "1", "--total-delta", "0.01")
    result = run(*asked, "--json")
    assert (result.exit_code, json.loads(result.stdout)["voters"]["epsilon"]) == (0, 1e308)
    assert result.stderr.startswith("Warning: epsilon = 1e+308 nats")


def test_a_release_at_delta_near_1_needs_almost_no_noise() -> None:
    asked = (
        "plan",
        "--K",
        "5",
        "--classes",
        "3",
        "--affected",
        "1",
        "--total-epsilon",
        "1",
        "--total-delta",
        "0.999999999999",
    )
    assert run(*asked).exit_code == 0


@pytest.mark.parametrize("written", ["1e-400", '"1e-400"'])
def test_a_grid_file_does_not_turn_a_delta_into_0(tmp_path: Path, written: str) -> None:
    (tmp_path / "grid.toml").write_text(f"K = 5\nm = 2\nepsilon = 0.1\nDelta = {written}\n")
    url = f"sqlite:///{tmp_path / 'a.sqlite'}"
    message = refused("precompute", str(tmp_path / "grid.toml"), "--dry-run", "--url", url)
    assert message.endswith("1e-400 cannot be read. It is not 0, but closer to 0 than any other double.")
