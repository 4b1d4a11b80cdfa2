"""Do knots lose utility? Random problems of 60 to 400 voters, solved with knots and with a program of all coordinates.

The design of many voters gives its solver γ at some coordinates only (`darrm_opt.design.master_program.Knots`) and ends at a
tolerance. For each problem its answer is held against the one of the program of all coordinates: both gaps are within
the tolerance, neither utility exceeds the other's bound, they agree to the tolerance, and every search there is,
compiled and NumPy, verifies both γ.

    PYTHONPATH=tests python -m campaigns.knots --problems 60
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.kernels import PATHS, searched_by

from campaigns.driver import Campaign, Row, Tally
from darrm_opt import Problem, Solution, solve, verify
from darrm_opt.design.master_program import Knots
from darrm_opt.design.solution import Status
from darrm_opt.errors import NotPrivate

TOLERANCE, NEGLIGIBLE = 1e-6, 1e-12


@dataclass(frozen=True)
class Comparison:
    """One problem, with the utility that knots lose (below 0: gain) and what is wrong, in words."""

    problem: Problem
    shape: str
    lost: float
    faults: tuple[str, ...]


@contextmanager
def by_knots_from(K: int) -> Iterator[list[Knots]]:
    """Design with knots from ``K`` voters on, for a while; yield the first knots of each design."""
    knots, initial = list[Knots](), Knots.initial

    def recorded(*args: Any, **options: Any) -> Knots:
        knots.append(initial(*args, **options))
        return knots[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Knots, "initial", recorded)
        for module in ("solver", "schedule"):
            patched.setattr(f"darrm_opt.design.{module}.LARGE_K", K)
        yield knots


def examine(seed: int) -> Comparison:
    """Return the comparison of one random problem."""
    rng = np.random.default_rng((seed, 51))
    K, m = int(rng.integers(60, 401)), int(rng.integers(2, 12))
    Delta = float(rng.choice([0.0, 10.0 ** rng.uniform(-8, -3.5)]))
    affected = None if rng.random() < 0.8 else int(rng.integers(K // 2, K))
    problem = Problem.from_allowance(K, m, float(10.0 ** rng.uniform(-2, -0.3)), Delta, affected=affected)
    shape: Any = "monotone" if rng.random() < 0.3 else "free"
    with by_knots_from(10_000) as full_knots:
        full = solve(problem, shape=shape, tolerance=TOLERANCE)
    with by_knots_from(50) as staged_knots:
        staged = solve(problem, shape=shape, tolerance=TOLERANCE)
    faults = [f"not by {name}" for name, knots in (("all", not full_knots), ("knots", staged_knots)) if not knots]
    for name, answer, reference in (("all", full, staged), ("knots", staged, full)):
        if answer.status is not Status.OPTIMAL or answer.gap > TOLERANCE:
            faults.append(f"{name}: {answer.status}, gap {answer.gap:.2g}")
        if answer.utility > reference.upper_bound + NEGLIGIBLE:
            faults.append(f"{name}: utility above the other bound by {answer.utility - reference.upper_bound:.2g}")
        faults += [f"{name}: refused by {path}" for path in PATHS if not _verifies(answer, path)]
    loss = full.utility - staged.utility
    if abs(loss) > TOLERANCE:
        faults.append(f"knots lose {loss:.2g}")
    return Comparison(problem, shape, loss, tuple(faults))


def _verifies(answer: Solution, path: str) -> bool:
    try:
        with searched_by(path):
            return verify(answer.problem, answer.gamma).margin >= 0
    except NotPrivate:
        return False


def row(_: int, number: int) -> Row:
    found = examine(number)
    return Row([f"{fault}: {found.problem}, {found.shape}" for fault in found.faults], [], {"lost": found.lost})


def lines(tally: Tally) -> Iterator[str]:
    lost = max(tally.values("lost"))
    yield f"{len(tally.rows)} problems, {len(tally.faults)} faults; utility lost by knots: at most {lost:.2g}."


CAMPAIGN = Campaign("knots", __doc__, "problems", 60, row, lines)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
