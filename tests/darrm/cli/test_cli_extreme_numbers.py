"""Numbers at the far ends of what an option may hold: one message and exit code 2, before any work; or an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.darrm_runner import refused, run

SMALL = ("--K", "5", "--epsilon", "0.1")

CLASSES = ("--K", "5", "--classes", "3", "--affected", "1")
DISJOINT = ("--K", "5", "--bags", "n=10,size=3,draw=disjoint")


@pytest.mark.parametrize(
    "words",
    [
        ("solve", "--m", "3"),
        ("solve", "--least", "m", "--utility", "0.5"),
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("curve", "--over", "epsilon", *SMALL, "--m", "2", "--points", "10000000000"),
            "--points: 10000000000 is not valid",
        ),
        (("curve", *SMALL, "--m", "2", "--points", "99999999999999999"), "--points: 99999999999999999 is not valid"),
        (("cache", "ls", "--K", "9" * 23), f"--K: {'9' * 23} is not valid: expected at most 1000000 voters."),
        (("cost", "gnmax", "--K", "5", "--sigma", "1e-300", "--delta", "1e-5"), "--sigma: 1e-300 is not valid"),
        (("cost", "gnmax", "--K", "5", "--sigma", "1e400", "--delta", "1e-5"), "--sigma: '1e400' is not valid"),
        (("cost", "laplace", "--K", "5", "--scale", "1e300", "--delta", "1e-5"), "--scale: 1e+300 is not valid"),
        (
            ("cost", "gnmax", "--K", "5", "--total-epsilon", "1e-300", "--total-delta", "1e-300"),
            "--total-epsilon: 1e-300 is not valid: expected a total within which 1 releases of gnmax are proved.",
        ),
        (
            ("solve", *SMALL, "--m", "2", "--Delta", "1e-400"),
            "--voter-delta: '1e-400' is not valid: expected a probability in",
        ),
        (("solve", "--K", "5", "--epsilon", "1e400", "--target-epsilon", "1"), "infinity is written inf"),
        (("solve", "--K", "1_1", "--epsilon", "0.1", "--m", "2"), "--K: '1_1' is not valid"),
        (("solve", "--K", "١١", "--epsilon", "0.1", "--m", "2"), "--K: '١١' is not valid"),
        (("curve", *SMALL, "--m", "3", "--at", "1,2"), "--at: 2 is not valid: expected probabilities in [0, 1]."),
        (("curve", *SMALL, "--over", "m", "--at", "1,,3"), "--at: '' is not valid: expected numbers, as in 1,3,5"),
        (
            ("cost", "bagging", "--bags", "n=10000,size=20", "--K", "9" * 23),
            f"--K: {'9' * 23} is not valid",
        ),
        (
            ("cost", "bagging", *DISJOINT),
            "--bags: 3 is not valid: expected at most (n - 1)/5 = 1 for 5 models.",
        ),
        (
            ("solve", *CLASSES, "--target-epsilon", "1", "--prior", "dirichlet(-1)"),
            "--prior: objective = -1.0 is not valid: expected a number from 0.001 to 10000.",
        ),
        (("serve", "--workers", "0"), "--workers: '0' is not valid"),
        (("serve", "--workers", "0", "--show-settings"), "--workers: '0' is not valid"),
        (("serve", "--host", ""), "--host: '' is not valid: expected a name or an address"),
    ],
)
def test_it_is_refused_by_the_name_of_its_option(words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)


def test_a_list_has_a_largest_length(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.sqlite'}"
    assert run("cache", "check", "--migrate", "--url", url).exit_code == 0
    assert "--limit: 9999" in refused("cache", "ls", "--url", url, "--limit", "9" * 23)


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
    assert message.endswith("1e-400 cannot be read. It is not 0, and closer to 0 than every other double.")
