"""`darrm error-curve` and `darrm tradeoff`, and their comparison with baselines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.darrm_runner import refused, run, run_json

from darrm.cli.output import ExitCode
from darrm_opt import Problem, solve, verify
from darrm_opt.accuracy import disagreement, tv_error
from darrm_opt.baselines import double_subsampling, subsampling
from darrm_opt.design.objective import Objective
from darrm_opt.errors import InvalidInput
from darrm_opt.planning.baselines import BASELINES, private_baselines
from darrm_opt.questions.curve import p_grid
from darrm_opt.questions.tradeoff import allowance_grid

VOTERS = ("--K", "5", "--epsilon", "0.5")


# ------------------------------------------------------------------------------------- over p


def test_errors_over_p_contain_both_errors_of_each_noise_function() -> None:
    answer = run_json("error-curve", *VOTERS, "--m", "2", "--points", "5")
    assert (answer["over"], answer["p"]) == ("p", [0.5, 0.625, 0.75, 0.875, 1.0])
    assert set(answer["curves"]) == {"optimal", *BASELINES}
    problem = Problem.from_allowance(K=5, m=2, epsilon=0.5)
    assert answer["curves"]["optimal"]["gamma"] == solve(problem).gamma.tolist()
    for each in answer["curves"].values():
        verify(problem, each["gamma"])
        for i, p in enumerate(answer["p"]):
            assert each["tv_error"][i] == pytest.approx(tv_error(each["gamma"], p), abs=1e-15)
            assert each["disagreement"][i] == pytest.approx(disagreement(each["gamma"], p), abs=1e-15)


def test_errors_over_p_as_text_are_two_tables() -> None:
    result = run("error-curve", *VOTERS, "--m", "2", "--points", "3")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "5 voters, each 0.5-DP; the release of one bit is 1-DP (m = 2)."
    assert [line for line in lines if not line.startswith(" ")] == [lines[0], "", "tv error", "", "disagreement"]
    expected = run_json("error-curve", *VOTERS, "--m", "2", "--points", "3")["curves"]
    assert f"0.75  {expected['optimal']['tv_error'][1]:.6f}" in lines[5]
    assert "optimal  double_subsampling  subsampling  randomized_response" in lines[3]


# ------------------------------------------------------------------------------------- over m


def test_errors_over_m_solves_each_allowance() -> None:
    answer = run_json("tradeoff", *VOTERS, "--ms", "0.5,1,3", "--prior", "shared(2,3)")
    assert (answer["over"], answer["m"], answer["objective"]) == ("m", [0.5, 1.0, 3.0], "shared(2,3) agreement")
    assert [each["problem"]["target_epsilon"] for each in answer["points"]] == [0.25, 0.5, 1.5]
    optimal = answer["curves"]["optimal"]
    for i, m in enumerate(answer["m"]):
        solution = solve(Problem.from_allowance(K=5, m=m, epsilon=0.5), objective="shared(2,3)")
        assert isinstance(solution.objective, Objective)
        prior: Any = solution.objective.prior
        assert optimal["tv_error"][i] == pytest.approx(tv_error(solution.noise, prior), abs=1e-12)
        assert optimal["disagreement"][i] == pytest.approx(disagreement(solution.noise, prior), abs=1e-12)
    assert answer["curves"]["subsampling"]["tv_error"][0] is None  # half a voter cannot be drawn
    assert answer["curves"]["subsampling"]["tv_error"][1] is not None


def test_errors_over_m_extend_by_default_as_far_as_noise_is_needed() -> None:
    answer = run_json("tradeoff", *VOTERS)
    assert answer["m"] == [1.0, 2.0, 3.0]
    errors = answer["curves"]["optimal"]["tv_error"]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == pytest.approx(0, abs=1e-12)  # the plain majority of 5 costs 3ε


def test_errors_over_m_as_text_have_a_dash_if_undefined() -> None:
    result = run("tradeoff", *VOTERS, "--ms", "0.5,1", "--prior", "uniform(lower=0.2) agreement")
    assert result.exit_code == 0
    assert result.stdout.startswith("5 voters, each 0.5-DP\n")
    assert "tv error, averaged over the prior uniform(lower=0.2) agreement" in result.stdout
    first, second = (line.split() for line in result.stdout.splitlines() if line.strip().startswith("0.5"))
    assert first == ["0.5", "-", *("-" for _ in BASELINES)]  # below lower = 0.5 the tv error has no closed form
    assert [entry == "-" for entry in second][:5] == [False, False, True, True, False]  # half a voter cannot be drawn


@pytest.mark.parametrize("words", [("error-curve", "--m", "2"), ("tradeoff",)])
def test_curves_are_plotted_and_written(words: tuple[str, ...], tmp_path: Path) -> None:
    picture, table = tmp_path / "curves.svg", tmp_path / "curves.csv"
    assert run(*words, *VOTERS, "--plot", str(picture), "--output", str(table)).exit_code == 0
    assert picture.read_bytes().startswith(b"<?xml")
    assert "tv_error" in table.read_text(encoding="utf-8").splitlines()[0]


def test_a_saved_answer_gives_the_same_curve_and_the_least_one_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "gamma.json"
    assert run("least", *VOTERS, "--utility", "0.9", "--digits", "2", "--output", str(path)).exit_code == 0
    problem = json.loads(path.read_text(encoding="utf-8"))["problem"]
    saved, designed = (
        run_json("error-curve", "--points", "3", *words)
        for words in (("--solution", str(path)), (*VOTERS, "--m", str(problem["m"])))
    )
    assert saved == designed
    assert "states its own problem: omit --K, --epsilon" in refused("profile", "--solution", str(path), *VOTERS)


def test_a_stopped_search_is_reported() -> None:
    stopped = run("tradeoff", "--K", "41", "--epsilon", "0.1", "--Delta", "1e-5", "--ms", "3", "--time-limit", "1e-9")
    assert stopped.exit_code == ExitCode.NOT_OPTIMAL


# ------------------------------------------------------------------------------------- baselines


def test_every_baseline_is_private_for_the_problem() -> None:
    for K, m, Delta, affected in [(5, 2, 0.0, 5), (11, 3, 1e-4, 11), (8, 2.5, 0.01, 3), (7, 9, 0.0, 7)]:
        problem = Problem.from_allowance(K=K, m=m, epsilon=0.3, Delta=Delta, affected=affected)
        baselines = private_baselines(problem)
        assert set(baselines) == set(BASELINES)
        for noise in baselines.values():
            assert verify(problem, noise).margin >= 0


def test_a_certified_baseline_loses_no_more_than_rounding() -> None:
    problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
    baselines = private_baselines(problem)
    for name, plain in (("subsampling", subsampling(11, 3)), ("double_subsampling", double_subsampling(11, 3))):
        assert np.all(baselines[name].values <= plain.values)
        assert baselines[name].values == pytest.approx(plain.values, rel=1e-11)


@pytest.mark.parametrize(
    "stated",
    [
        {"m": 2, "epsilon": 0.3, "Delta": 0.01, "delta": 0.001},  # γ_Sub needs δ = 1 − (1−Δ)^m
        {"m": None, "epsilon": float("inf"), "target_epsilon": 1, "affected": 1},  # no m
        {"m": 0.5, "epsilon": 0.3},  # half a voter
    ],
)
def test_a_baseline_that_is_not_private_or_undefined_is_omitted(stated: dict[str, Any]) -> None:
    assert set(private_baselines(Problem.from_allowance(K=5, **stated))) == {"randomized_response"}


def test_the_default_points_and_allowances_of_a_curve() -> None:
    assert p_grid(2) == [0.5, 1.0]
    assert allowance_grid(1, 25) == [1.0]
    assert allowance_grid(12, 25) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    many = allowance_grid(1001, 25)
    assert (len(many), many[0], many[-1]) == (25, 1.0, 501.0)
    with pytest.raises(
        InvalidInput, match="points = True is not valid: expected a whole number of points, from 2 to 100001"
    ):
        p_grid(True)
