"""Numbers, picture and citation of the README. Its blocks are run like those of all pages."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import pytest
from support.darrm_runner import run
from support.paths import ROOT

from api.settings import Settings
from darrm_opt import Privacy, Problem, solve
from darrm_opt.planning import best_target
from darrm_opt.planning.baselines import private_baselines
from darrm_opt.planning.compare import compare

README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURE = "docs/images/mnist.svg"


def test_the_table_of_utilities_is_reproduced() -> None:
    problem = Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4)
    solution = solve(problem)
    aim = solution.objective.linear_goal(problem.K)
    noises = {"optimal": solution.noise, **private_baselines(problem)}
    kept = [f"{100 * aim.utility(noise.values[6:]):.1f} %" for noise in noises.values()]
    assert [*noises] == ["optimal", "double_subsampling", "subsampling", "randomized_response"]
    sentence = (
        "γ_opt keeps {} of the utility, double subsampling {}, subsampling {}, randomised response {} "
        "by the paper's formulas."
    )
    assert sentence.format(*kept) in " ".join(README.split())
    exact = compare(problem, 1, problem.target)
    others = [row for row in exact.rows if not row.name.startswith("optimal")]
    best = max(others, key=lambda row: row.utility or 0)
    assert best.name == "permute_and_flip"
    assert f"permute-and-flip keeps {100 * (best.utility or 0):.1f} %" in README


@pytest.mark.slow
def test_the_headline_is_reproduced() -> None:
    found = compare(Problem(35, Privacy(0.1, 1e-5), Privacy(1.0)), 100, Privacy(3.0, 0.01), fresh=True)
    kept = {row.name: row.utility for row in found.rows}
    names = ("optimal_sequence", "subsampling", "gnmax", "laplace", "randomized_response")
    first = re.findall(r"^\| [^|]+ \| ([\d.]+) \| [\d.]+ \|$", README, re.MULTILINE)
    assert first == [f"{100 * kept[name]:.1f}" for name in names]  # type: ignore[operator]
    assert kept["majority"] is None
    one = best_target(35, Privacy(0.1, 1e-5), queries=100, total=Privacy(3.0, 0.01), fresh=True)
    assert f"γ_opt of one target keeps {100 * one.solution.utility:.1f} %" in README
    assert found.without_noise == ""


def test_the_picture_is_that_of_its_command(tmp_path: Path) -> None:
    command = next(line for line in README.splitlines() if line.startswith("darrm solve") and "--plot" in line)
    drawn = tmp_path / "mnist.svg"
    arguments = command.removeprefix("darrm ").replace("mnist.json", str(tmp_path / "mnist.json"))
    assert run(*arguments.replace("mnist.svg", str(drawn)).split()).exit_code == 0
    shown, fresh = ((path.read_text(encoding="utf-8")) for path in (ROOT / PICTURE, drawn))
    assert PICTURE in README
    if f"Matplotlib v{mpl.__version__}," not in shown:
        pytest.skip("the picture was drawn by another version of matplotlib, which may place things otherwise")
    number = re.compile(r"-?\d+\.\d+")
    assert number.sub("", shown) == number.sub("", fresh)
    assert [float(x) for x in number.findall(shown)] == pytest.approx(
        [float(x) for x in number.findall(fresh)], abs=0.01
    )


def test_the_column_of_profiles_is_that_of_its_page() -> None:
    """test_docs runs that page, which designs γ and computes each total by the exact recursion."""
    page = (ROOT / "docs" / "voters.md").read_text(encoding="utf-8")
    printed = re.findall(r"^\w+ ([\d.]+) %, total \(([\d.]+), 0\.01\)$", page, re.MULTILINE)
    assert all(float(total) <= 3 for _, total in printed)
    column = re.findall(r"^\| [^|]+ \| [\d.]+ \| ([\d.]+) \|$", README, re.MULTILINE)
    assert column == [kept for kept, _ in printed]
    assert len(column) == 5


def test_the_limits_of_the_service_are_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DARRM_CACHE_URL")
    settings = Settings()
    assert (settings.max_voters, settings.time_limit) == (101, 60.0)
    assert "Default limits: 101 voters, one minute per solve" in " ".join(README.split())
