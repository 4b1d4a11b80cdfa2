"""Measure solves and fit the cost model of `darrm_opt.answers.running_time`.

    PYTHONPATH=tests python -m campaigns.cost

Prints one line a solve, then the coefficients of

    ln seconds = a + b·ln(K/101) + c·ln max(m/3, 1) + (d + e·ln(K/101))·ln(1 + 30·K·Δ)

for voters without and with Δ, and the factors by which measurements are off. Time is the processor's, not the wall's,
so that other work on the machine matters little.
"""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np

from darrm_opt import Problem, solve

KS = (11, 21, 35, 61, 101, 151, 201)
MS = (1.5, 3.0, 10.0)
DELTAS = (0.0, 1e-6, 1e-5, 1e-3, 1e-2, 3e-2, 0.1, 0.3)
OBJECTIVES = ("rectangular", "shared(1,1)")
MAX_FAILING = 10.1
"""Largest K·Δ: beyond, a solve may take minutes."""


def measured() -> list[tuple[int, float, float, str, float]]:
    """Return (K, m, Δ, objective, processor seconds) of each solve."""
    solve(Problem.from_allowance(K=7, m=2, epsilon=0.1))  # imports
    rows = []
    for K, m, Delta, objective in itertools.product(KS, MS, DELTAS, OBJECTIVES):
        if m >= (K + 1) / 2 or K * Delta > MAX_FAILING:
            continue
        problem = Problem.from_allowance(K=K, m=m, epsilon=0.1, Delta=Delta)
        begun = time.process_time()
        solution = solve(problem, objective)
        rows.append((K, m, Delta, objective, time.process_time() - begun))
        sys.stdout.write(f"{rows[-1]} {solution.status.value}\n")
        sys.stdout.flush()
    return rows


def fitted(rows: list[tuple[int, float, float, str, float]]) -> None:
    """Print the least-squares coefficients, by whether voters have a Δ."""
    for name, part in (("Δ = 0", [row for row in rows if row[2] == 0]), ("Δ > 0", [row for row in rows if row[2] > 0])):
        size = np.log([K / 101 for K, *_ in part])
        failing = np.log1p([30 * K * Delta for K, _, Delta, _, _ in part])
        allowance = np.log([max(m / 3, 1) for _, m, *_ in part])
        design = np.stack([np.ones(len(part)), size, allowance, failing, failing * size], axis=1)
        seconds = np.log([row[-1] for row in part])
        coefficients = np.linalg.lstsq(design, seconds, rcond=None)[0]
        off = np.exp(np.abs(design @ coefficients - seconds))
        summary = f"off by {np.median(off):.2f} in the middle, {off.max():.1f} at most, {len(part)} solves"
        sys.stdout.write(f"{name}: {coefficients.round(3).tolist()}, {summary}\n")


if __name__ == "__main__":
    fitted(measured())
