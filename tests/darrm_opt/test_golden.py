"""Optimal utilities of an independent program (tests/data/README.md), reached by every method."""

from __future__ import annotations

from typing import Literal

import pytest
from support.cases import for_each
from support.golden import GOLDEN, Row, problem_of

from darrm_opt import solve, verify
from darrm_opt.design.constraint import ConstraintGenerator
from darrm_opt.design.solution import Status

ENUMERATED = 200_000  # most rows of a program that is built whole
HEAVY = 100_000  # rows from which building it whole takes seconds


def meets(row: Row, method: Literal["auto", "cuts", "enumerate"], backend: str = "highs") -> None:
    problem = problem_of(row)
    assert problem.target.epsilon == pytest.approx(float(row["target_epsilon"]), rel=1e-11)
    solution = solve(problem, row["objective"], method=method, backend=backend)
    optimum = float(row["utility"])
    assert solution.status is Status.OPTIMAL
    assert solution.utility == pytest.approx(optimum, abs=1e-7)
    assert solution.upper_bound >= optimum - 1e-8
    assert 0 <= solution.gap <= 1e-8
    assert solution.utility <= optimum + 1e-8
    assert solution.certificate.margin >= 0
    assert verify(problem, solution.gamma).margin >= 0
    assert solution.method == ("enumerate" if method == "enumerate" else "cuts")
    if method == "enumerate":
        assert solution.statistics.rows == ConstraintGenerator(problem).size


@for_each("row", GOLDEN)
def test_cuts_reach_the_optimum(row: Row) -> None:
    meets(row, "cuts")


SIZES = [ConstraintGenerator(problem_of(row)).size for row in GOLDEN]


def of_size(least: int, most: int) -> list[Row]:
    return [row for row, size in zip(GOLDEN, SIZES, strict=True) if least < size <= most]


@for_each("row", of_size(0, HEAVY))
def test_enumeration_reaches_the_optimum(row: Row) -> None:
    meets(row, "enumerate")


@pytest.mark.slow
@for_each("row", of_size(HEAVY, ENUMERATED))
def test_enumeration_of_many_rows_reaches_the_optimum(row: Row) -> None:
    meets(row, "enumerate")


@for_each("row", GOLDEN[::9])
@for_each("backend", ["gurobi", "cvxpy"])
def test_other_solvers_reach_the_optimum(row: Row, backend: str) -> None:
    meets(row, "cuts", backend)


def test_the_file_covers_all_kinds_of_problems() -> None:
    assert len(GOLDEN) == 56
    assert {"inf"} < {row["epsilon"] for row in GOLDEN}
    assert any(int(row["K"]) % 2 == 0 for row in GOLDEN)
    assert any(0 < int(row["affected"]) < int(row["K"]) for row in GOLDEN)
    assert len(of_size(0, ENUMERATED)) >= 50
