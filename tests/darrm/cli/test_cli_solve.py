"""`darrm solve`: output, files, cache, refusals and exit codes."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.darrm_runner import SMALL, refused, run, run_json

import solver_cache
from darrm.cli.cached_solve import MAX_QUICK_K
from darrm.cli.output import ExitCode, exit_code_of
from darrm_opt import Problem, least_parameter, solve, verify
from darrm_opt.design.solution import Status
from darrm_opt.record import solution_from_record

MNIST = ("--K", "11", "--m", "3", "--epsilon", "0.0892", "--Delta", "1e-4")


def solved(*arguments: str) -> dict[str, Any]:
    return dict(run_json("solve", *arguments))


def test_json_is_the_record_of_the_same_answer_as_in_python() -> None:
    record = solved(*MNIST)
    expected = solve(Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4))
    assert solution_from_record(record) == expected
    assert np.array_equal(solution_from_record(record).gamma, expected.gamma)
    verify(expected.problem, record["gamma"])


def test_the_text_shows_every_value_of_gamma_and_its_certificate() -> None:
    result = run("solve", *MNIST)
    assert (result.exit_code, result.stderr) == (0, "")
    assert (
        "11 voters, each (0.0892, 0.0001)-DP; the release of one bit is (0.2676, 0.000299971)-DP (m = 3)."
        in result.stdout
    )
    solution = solve(Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4))
    gamma = solution.gamma
    for l in range(6):
        assert f"{l}, {11 - l}  {gamma[l]:.9f}" in result.stdout
    assert "utility    0.909096778 of the plain majority's, under rectangular" in result.stdout
    assert "optimal    no private γ has more than 0.909096778 (gap " in result.stdout
    assert "private    proved for these exact numbers: every way in which a record can move the voters" in result.stdout
    tightest = ", ".join(f"{count} at {name} (" for name, count in solution.certificate.worst_corners.items())
    assert tightest.split(",")[0] in result.stdout


def test_only_a_gamma_that_is_not_monotone_is_explained() -> None:
    question = ("--K", "11", "--m", "3", "--epsilon", "0.1")
    free = run("solve", *question).stdout
    assert "γ falls at l = 7, 10 although the majority grows" in free
    assert "--shape monotone" in free
    assert "although the majority grows" not in run("solve", *question, "--shape", "monotone").stdout


def test_the_table_has_a_row_for_ties_and_the_probability_of_the_majority() -> None:
    # the majority with weight γ, else a fair coin: right with probability (1 + γ)/2
    lines = run("solve", "--K", "4", "--m", "1", "--epsilon", "1").stdout.splitlines()
    assert {"     2  0.000000000               a tie", "  1, 3  0.500000000            0.750000"} <= {*lines}


def test_every_option_reaches_the_solver() -> None:
    record = solved(
        *("--K", "7", "--target-epsilon", "0.4", "--epsilon", "0.3", "--Delta", "1e-3", "--delta", "2e-3"),
        *("--affected", "4", "--prior", "shared(2,5)", "--shape", "monotone", "--method", "enumerate"),
        *("--backend", "highs", "--time-limit", "60", "--no-cache"),
    )
    assert record["problem"] == {
        "K": 7,
        "m": pytest.approx(4 / 3),
        "epsilon": 0.3,
        "Delta": 0.001,
        "target_epsilon": 0.4,
        "delta": 0.002,
        "affected": 4,
    }
    assert (record["objective"], record["shape"]) == ("shared(2,5) agreement", "monotone")
    assert (record["method"], record["backend"]) == ("enumerate", "highs")


def test_a_suspicious_question_has_a_warning() -> None:
    result = run("solve", "--K", "5", "--m", "1", "--epsilon", "0.1", "--Delta", "0.5", "--delta", "1e-6", "--json")
    assert result.exit_code == 0
    warning = "delta = 1e-06 is below Delta = 0.5, and the release is hardly more than a fair coin"
    assert result.stderr.startswith(f"Warning: {warning}")
    assert json.loads(result.stdout)["warnings"][0].startswith(warning)


# ------------------------------------------------------------------------------------------- files


def test_output_is_the_record_and_replaces_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "gamma.json"
    path.write_text("old")
    result = run("solve", *SMALL, "--output", str(path), "--json")
    assert result.exit_code == 0
    assert json.loads(path.read_text(encoding="utf-8")) == json.loads(result.stdout)
    assert [each.name for each in tmp_path.iterdir() if "cache" not in each.name] == ["gamma.json"]


def test_a_new_file_has_default_permissions(tmp_path: Path) -> None:
    (tmp_path / "touched").touch()
    run("solve", *SMALL, "--output", str(tmp_path / "gamma.json"))
    assert (tmp_path / "gamma.json").stat().st_mode == (tmp_path / "touched").stat().st_mode


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "gamma.json"
    path.write_text("old")
    monkeypatch.setattr(Path, "replace", full)
    result = run("solve", *SMALL, "--no-cache", "--output", str(path))
    assert (result.exit_code, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert result.stderr == f"Error: {path}: No space left on device\n"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "SVG"])
def test_the_format_of_a_plot_follows_its_file_name(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"gamma.{ending}"
    assert run("solve", *SMALL, "--plot", str(path)).exit_code == 0
    magic = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending.lower()]
    assert path.read_bytes().startswith(magic)


# ------------------------------------------------------------------------------------------- cache


def counted_stores(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the URLs of the stores that are opened from now on."""
    opened: list[str] = []
    really = solver_cache.open_store

    def open_store(url: str) -> Any:
        opened.append(url)
        return really("memory")

    monkeypatch.setattr(solver_cache, "open_store", open_store)
    return opened


def test_the_cache_is_used_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = counted_stores(monkeypatch)
    run("solve", *SMALL)
    assert len(opened) == 1  # DARRM_CACHE_URL is set in tests
    run("solve", *SMALL, "--no-cache")
    assert len(opened) == 1
    monkeypatch.delenv("DARRM_CACHE_URL")
    run("solve", *SMALL)
    assert len(opened) == 1
    run("solve", *SMALL, "--cache")
    assert len(opened) == 2


def test_the_cache_is_used_if_a_solve_takes_longer_than_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DARRM_CACHE_URL")
    opened = counted_stores(monkeypatch)
    run("solve", "--K", str(MAX_QUICK_K), "--m", "3", "--epsilon", "0.1")
    assert opened == []
    run("solve", "--K", str(MAX_QUICK_K + 1), "--m", "3", "--epsilon", "0.1")
    run("solve", *SMALL, "--method", "enumerate")
    assert len(opened) == 2


def test_the_second_answer_is_the_first_from_the_cache() -> None:
    first, second = (json.loads(run("solve", *SMALL, "--cache", "--json").stdout) for _ in range(2))
    assert first == second  # including the seconds of the solve


def test_a_failure_of_a_requested_cache_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DARRM_CACHE_URL", f"sqlite:///{tmp_path}/file/cache.sqlite")
    result = run("solve", *SMALL)
    assert (result.exit_code, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert result.stderr.startswith("Error: The cache at sqlite:///")
    assert "Set DARRM_CACHE_URL to another location" in result.stderr


def test_a_failure_of_the_default_cache_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("DARRM_CACHE_URL")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    result = run("solve", *SMALL, "--method", "enumerate")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: The cache at sqlite:///")
    assert "5 voters" in result.stdout


# ---------------------------------------------------------------------------------------- invalid input


@pytest.mark.parametrize("option", ["--output", "--plot"])
def test_an_unwritable_output_is_refused_before_any_work(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a long path is abbreviated
    Path("folder.png").mkdir()
    expected = (
        f"Error: {option}: 'none/gamma.png' is not valid: expected a file that can be written. There is no folder "
    )
    assert refused("solve", option, "none/gamma.png").startswith(expected)
    assert refused("solve", option, "folder.png").endswith("It is a folder.")

    def denied(path: Path) -> bool:  # as in a folder without search permission, which root always has
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(Path, "is_dir", denied)
    assert refused("solve", option, "hidden/gamma.png").endswith("Permission denied.")


def test_the_error_of_a_missing_solver_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "darrm_opt.design.backends.gurobi", raising=False)
    monkeypatch.setitem(sys.modules, "gurobipy", None)
    result = run("solve", *SMALL, "--backend", "gurobi", "--no-cache")
    assert (result.exit_code, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert "pip install 'darrm-opt[gurobi]', or use backend = 'highs'." in result.stderr


def test_the_error_of_plotting_without_matplotlib_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("solve", *SMALL, "--plot", str(tmp_path / "gamma.png"))
    assert (result.exit_code, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert result.stderr == (
        "Error: Drawing needs the package matplotlib, which is not installed: pip install 'darrm-opt[plot]'.\n"
    )


# ---------------------------------------------------------------------------------------- exit codes


def test_an_answer_below_the_optimum_is_printed_with_its_exit_code() -> None:
    result = run("solve", "--K", "61", "--m", "3", "--epsilon", "0.1", "--time-limit", "1e-9", "--no-cache", "--json")
    assert result.exit_code == ExitCode.NOT_OPTIMAL
    record = json.loads(result.stdout)
    assert record["status"] == "time limit"
    verify(solution_from_record(record).problem, record["gamma"])
    text = run("solve", "--K", "61", "--m", "3", "--epsilon", "0.1", "--time-limit", "1e-9", "--no-cache").stdout
    assert "status     time limit. The time limit was reached: the answer is private" in text


def test_an_internal_error_has_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("darrm.cli.cached_solve.cached_solution", broken)
    result = run("solve", *SMALL)
    assert (result.exit_code, result.stdout) == (ExitCode.INTERNAL_ERROR, "")
    assert "Traceback (most recent call last):" in result.stderr
    assert result.stderr.splitlines()[-2:] == [
        "ZeroDivisionError: a fault",
        "Error: this is an error in darrm itself. Please report it, with the lines above.",
    ]


def test_running_out_of_memory_is_not_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 8.00 TiB")

    monkeypatch.setattr("darrm.cli.cached_solve.cached_solution", hungry)
    result = run("solve", *SMALL)
    assert (result.exit_code, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert result.stderr == "Error: this machine does not have enough memory. Unable to allocate 8.00 TiB\n"


def test_every_status_has_an_exit_code() -> None:
    codes = {status: exit_code_of(status) for status in Status}
    assert codes.pop(Status.OPTIMAL) is ExitCode.DONE
    assert set(codes.values()) == {ExitCode.NOT_OPTIMAL}


def test_an_epsilon_that_may_be_a_percentage_has_a_warning() -> None:
    asked = ("solve", "--K", "3", "--m", "2")
    told = run(*asked, "--epsilon", "10")
    assert told.exit_code == 0
    assert "Warning: epsilon = 10 nats makes an answer up to 2.203e+04 times likelier" in told.stderr
    assert "Warning" not in run(*asked, "--epsilon", "3").stderr


def test_the_profile_of_voters_is_read_from_a_file(tmp_path: Path) -> None:
    options, points, answer = (
        ("--K", "5", "--target-epsilon", "0.25"),
        tmp_path / "points.csv",
        tmp_path / "answer.json",
    )
    points.write_text("0,0.02\n0.1,0.004\n0.3,0\n", encoding="utf-8")
    assert solved(*options, "--profile", str(points), "--output", str(answer))["problem"]["profile"] == [
        *([0.0, 0.02], [0.1, 0.004], [0.3, 0.0])
    ]
    assert "at upper_2 (0." in run("verify", str(answer)).stdout
    gamma = tmp_path / "gamma.json"
    gamma.write_text(json.dumps(json.loads(answer.read_text(encoding="utf-8"))["gamma"]), encoding="utf-8")
    assert run("verify", str(gamma), *options[2:], "--profile", "0:0.02,0.1:0.004,0.3:0").exit_code == 0
    broken = run("verify", str(gamma), *options[2:], "--profile", "0:0.05,0.3:0")
    assert (broken.exit_code, "voters answer 1 with probability 0." in broken.stderr) == (ExitCode.NOT_PRIVATE, True)
    spread = ("--delta", "0.01", "--queries", "3", "--fresh", "--total-delta", "0.1")
    assert run("compose", *options, "--profile", "0:0.1,0.2:0.01", *spread).exit_code == 0


def test_points_are_chosen_from_a_curve() -> None:
    options = ("--K", "11", "--target-epsilon", "0.1", "--delta", "1e-5", "--profile", "gaussian(0.0325)")
    few, more = (solved(*options, "--profile-points", points) for points in ("2", "4"))
    assert few["utility"] == pytest.approx(0.846, abs=5e-4)
    assert more["utility"] > few["utility"]
    assert len(more["problem"]["profile"]) == 4
    line = run("solve", *options, "--profile-points", "4").stdout.splitlines()[-1]
    assert line.startswith("points     4 of gaussian(0.0325); with more (--profile-points) the utility is at most 0.9")


def test_the_least_allowance_is_shown_with_the_next_smaller_one() -> None:
    text = run("least", "--K", "7", "--epsilon", "0.2", "--utility", "0.9").stdout
    own = least_parameter(7, epsilon=0.2, utility=0.9)
    assert own.below is not None
    assert f"m = {own.value:g} reaches utility {own.reached:.6f} (0.9 was wanted)." in text
    assert f"m = {own.below.value:g} reaches {own.below.reached:.6f}, at most" in text
    assert "nor at any smaller one" in text
