"""Without the packages of an extra, a feature that needs them names the extra; everything else works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.darrm_runner import SMALL
from support.paths import ROOT

from darrm_opt.errors import BackendUnavailable
from darrm_opt.optional_packages import EXTRAS, missing_package, needed_by, require

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED: dict[str, list[str]] = PROJECT["optional-dependencies"]

PROBLEM = "from darrm_opt import Problem, solve\nproblem = Problem.from_allowance(K=5, m=2, epsilon=0.5)\n"

USES = {
    # extra: a program that uses it, and the start of the error
    "accounting": (
        f"{PROBLEM}from darrm_opt.accounting import interop\ninterop.as_pld(solve(problem))",
        "The conversion needs the package dp-accounting",
    ),
    "client": (
        "from darrm_client import DarrmClient\nDarrmClient('http://127.0.0.1:1')",
        "A client that speaks HTTP needs the package httpx",
    ),
    "cvxpy": (f"{PROBLEM}solve(problem, backend='cvxpy')", "backend = 'cvxpy' needs the package cvxpy"),
    "dask": (
        "from solver_cache.precompute.cluster import Cluster\nCluster()",
        "A run on Dask needs the package distributed",
    ),
    "exact": (
        f"{PROBLEM}from darrm_opt import verify\nverify(problem, [0.0] * 6, arithmetic='ball')",
        "arithmetic = 'ball' needs the package python-flint",
    ),
    "flower": (
        f"{PROBLEM}import darrm_opt.release.signs as f\nf.private_signs(__import__('darrm_opt').PrivateVote(solve(problem)), 1)",
        "A strategy for Flower needs the package flwr",
    ),
    "gurobi": (f"{PROBLEM}solve(problem, backend='gurobi')", "backend = 'gurobi' needs the package gurobipy"),
    "mcp": ("from darrm.cli.verbs.mcp import mcp\nmcp()", "darrm mcp needs the package mcp"),
    "parquet": (
        "from solver_cache.table_files import write_table\nwrite_table('x.parquet', [])",
        "A table in Parquet needs the package pyarrow",
    ),
    "plot": ("from darrm_opt.figures import render\nrender(None, 'png')", "Drawing needs the package matplotlib"),
    "plurality": (
        (
            f"{PROBLEM}from darrm_opt.plurality import *\nfrom darrm_opt.problem import NOT_PRIVATE\n"
            "solve_table(Problem(5, NOT_PRIVATE, problem.target, 1, classes=3))"
        ),
        "The linear program of several classes needs the package scipy",
    ),
    "serve": ("import darrm\ndarrm.create_app()", "The service needs the package fastapi"),
    "sklearn": ("import darrm_opt.learning", "darrm_opt.learning needs the package scikit-learn"),
    "store": (
        "from solver_cache import open_store\nopen_store('sqlite:///x.sqlite')",
        "The store of answers needs the package filelock",
    ),
}

SHOWN_ELSEWHERE = {
    "all": "the others",
    "cli": "lines instead of a moving display: test_the_core_alone_solves_and_verifies",
    "otel": "traces where an endpoint is configured: tests/api/observability/test_traces.py",
    "postgres": "an error of the store: tests/solver_cache/test_cache_database.py",
}


def run_without(packages: Collection[str], folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that cannot import the packages."""
    absent = folder / "absent"
    absent.mkdir(exist_ok=True)
    for name in packages:
        (absent / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}', name={name!r})\n")
    environment = {**os.environ, "PYTHONPATH": f"{absent}{os.pathsep}{ROOT}"}
    del environment["DARRM_CACHE_URL"]
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_extra_is_tested() -> None:
    assert {*USES, *SHOWN_ELSEWHERE} == set(DECLARED)


@pytest.mark.parametrize("extra", USES)
def test_a_missing_extra_is_named(extra: str, tmp_path: Path) -> None:
    code, begin = USES[extra]
    done = run_without([module for module, (_, its) in EXTRAS.items() if its == extra], tmp_path, "-c", code)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"darrm_opt.errors.BackendUnavailable: {begin}, which is not installed: pip install "), said
    assert f"'darrm-opt[{extra}]'" in said


def test_an_extra_installs_the_documented_packages() -> None:
    for package, extra in filter(lambda entry: entry[1], EXTRAS.values()):
        assert canonicalize_name(package) in {canonicalize_name(Requirement(each).name) for each in DECLARED[extra]}


def test_the_core_alone_solves_and_verifies(tmp_path: Path) -> None:
    darrm = ("-m", "darrm")
    solved = run_without(EXTRAS, tmp_path, *darrm, "solve", *SMALL, "--output", "solution.json")
    assert (solved.returncode, solved.stderr) == (0, "")
    assert len(json.loads((tmp_path / "solution.json").read_text(encoding="utf-8"))["gamma"]) == 6
    assert run_without(EXTRAS, tmp_path, *darrm, "verify", "solution.json").returncode == 0
    large = run_without(EXTRAS, tmp_path, *darrm, "solve", "--K", "63", "--m", "3", "--epsilon", "0.1")
    assert large.returncode == 0
    store = (
        "The store of answers needs the package platformdirs, which is not installed: pip install 'darrm-opt[store]'."
    )
    assert large.stderr == f"Warning: {store}\n"
    asked = run_without(EXTRAS, tmp_path, *darrm, "solve", *SMALL, "--cache")
    assert (asked.returncode, asked.stderr) == (4, f"Error: {store}\n")
    served = run_without(EXTRAS, tmp_path, *darrm, "serve", "--port", "0")
    needed = "This verb needs the package pydantic, which is not installed: pip install 'darrm-opt[serve]'."
    assert (served.returncode, served.stderr) == (4, f"Error: {needed}\n")


def test_only_a_missing_optional_package_is_translated() -> None:
    with pytest.raises(BackendUnavailable, match=r"^It needs the package scikit-learn, .*'darrm-opt\[sklearn\]'\.$"):
        require("sklearn.of_no_such_name", "It")
    with pytest.raises(ModuleNotFoundError, match="of_no_such_name"), needed_by("It"):
        import of_no_such_name  # type: ignore[import-not-found]  # noqa: F401
    assert missing_package(ImportError("without a name"), "It") is None
