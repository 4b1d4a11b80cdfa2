"""Fit the splines of `darrm_opt.answers.running_time` to the records of scans.

    python -m benchmarks --scan --records RECORDS           any number of times, with --drawn or without, in any order
    PYTHONPATH=tests python -m campaigns.cost RECORDS … [--held RECORDS …] [--write]

Prints how often estimates are right within a factor of 3: of the problems themselves; of six parts of them, each by
splines that are fitted to the five others; and of the problems held out, which no spline has seen. Then the tables of
`docs/scale.md`. ``--write`` puts the splines into `running_time.py`. Times are the processor's. Terms are added one by one, each the product of one there
is with a hinge or a mark that lowers the squared error most; the sum is then fitted again with Huber's weights.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scan import ESTIMATE_FACTOR, Point
from darrm_opt.answers import running_time
from darrm_opt.answers.running_time import FEATURES, MARKS, features, schedule_of, solve_seconds
from darrm_opt.problem import Problem
from darrm_opt.record import DesignSpec

TERMS = {"small": 20, "exact": 40, "stages": 40, "not private": 15}
"""Terms of each spline, the constant included."""

MAX_FACTORS = 3
"""Hinges and marks of a term at most."""

KNOTS = 9
"""Knots of a feature, at its quantiles."""

MIN_SUPPORT, MIN_VALUE = 12, 1e-3
"""Problems at least for which a term is more than that: a coefficient of what is hardly ever there may be huge."""

RIDGE, HUBER, PARTS = 1.0, 0.6, 6
"""Weight of the squared coefficients, of columns of variance 1; error beyond which it counts in proportion [ln s]; parts
of a cross-validation."""

Column = np.ndarray[Any, np.dtype[np.floating[Any]]]


@dataclass(frozen=True)
class Factor:
    """A hinge of a feature, or a mark, which is a hinge itself."""

    name: str
    sign: int
    knot: float  # its logarithm

    def __str__(self) -> str:
        return (
            f"{self.name}{'>' if self.sign > 0 else '<'}{np.exp(self.knot):.4g}" if self.name in FEATURES else self.name
        )


class Data:
    """Problems with their times: a column for each feature and mark."""

    def __init__(self, measured: dict[Point, float]) -> None:
        self.schedules = np.array([schedule_of(point.problem) for point in measured])
        self.values = np.array([features(point.problem) for point in measured])
        self.log_seconds = np.log(list(measured.values()))

    def column(self, factor: Factor) -> Column:
        """Return what a factor is for each problem."""
        place = (FEATURES + MARKS).index(factor.name)
        return np.maximum(0.0, factor.sign * (self.values[:, place] - factor.knot))


def factors(data: Data, rows: Column) -> list[Factor]:
    """Return the hinges and marks that terms are made of; knots are rounded as they are written."""
    found = [Factor(name, 1, 0.0) for name in MARKS]
    for place, name in enumerate(FEATURES):
        quantiles = np.quantile(data.values[rows, place], np.linspace(0.03, 0.97, KNOTS))
        knots = {float(np.log(float(f"{np.exp(knot):.4g}"))) for knot in quantiles}
        found += [Factor(name, sign, knot) for knot in sorted(knots) for sign in (1, -1)]
    return found


def spline(data: Data, rows: Column, count: int) -> str:
    """Return a spline of so many terms as text, fitted to some of the problems."""
    target, single = data.log_seconds[rows], factors(data, rows)
    singles = np.column_stack([data.column(factor)[rows] for factor in single])
    terms: list[tuple[Factor, ...]] = [()]
    basis = [np.ones(len(target))]
    orthogonal = basis[0][:, None] / np.sqrt(len(target))
    rest = target - target.mean()
    candidates: list[tuple[Factor, ...]] = [(factor,) for factor in single]
    columns = singles
    while len(terms) < count:
        parts = columns - orthogonal @ (orthogonal.T @ columns)  # what is new of each
        norms = (parts**2).sum(0)
        is_new = (norms > 1e-3 * (columns**2).sum(0) + 1e-9) & ((columns > MIN_VALUE).sum(0) >= MIN_SUPPORT)
        gains = np.where(is_new, (parts.T @ rest) ** 2 / np.maximum(norms, 1e-12), 0.0)
        best = int(np.argmax(gains))
        if gains[best] <= 0:
            break
        term = candidates[best]
        terms.append(term)
        basis.append(columns[:, best])
        direction = parts[:, best] / np.sqrt(norms[best])
        orthogonal = np.column_stack([orthogonal, direction])
        rest = rest - direction * (direction @ rest)
        if len(term) < MAX_FACTORS:
            others = [i for i, factor in enumerate(single) if factor.name not in {one.name for one in term}]
            candidates = candidates + [(*term, single[i]) for i in others]
            columns = np.column_stack([columns, columns[:, [best]] * singles[:, others]])
    coefficients = _coefficients(np.column_stack(basis), target)
    return "; ".join(f"{c:.3g} {' '.join(map(str, term))}".strip() for c, term in zip(coefficients, terms, strict=True))


def _coefficients(basis: Column, target: Column) -> Column:
    """Return coefficients of least Huber loss, with a ridge."""
    scale = np.where(basis.std(axis=0) > 0, basis.std(axis=0), 1.0)
    columns, weights = basis / scale, np.ones(len(target))
    ridge = RIDGE * np.eye(basis.shape[1])
    ridge[0, 0] = 0.0
    for _ in range(6):
        weighted = columns * weights[:, None]
        found: Column = np.linalg.solve(columns.T @ weighted + ridge, weighted.T @ target)
        weights = 1 / np.maximum(1.0, np.abs(target - columns @ found) / HUBER)
    return found / scale


def splines(data: Data, rows: Column) -> dict[str, str]:
    """Return the splines of all schedules, fitted to some of the problems."""
    return {name: spline(data, rows & (data.schedules == name), count) for name, count in TERMS.items()}


def off(found: dict[str, str], points: Iterable[Point], log_seconds: Column) -> Column:
    """Return ln(estimate/time) of problems by such splines."""
    running_time.SPLINES = found
    for cached in (running_time._terms, running_time._spline_seconds):
        cached.cache_clear()
    estimates = [_seconds(point.problem) for point in points]
    return np.asarray(np.log(estimates) - log_seconds)


def shares(name: str, errors: Column) -> str:
    """Return how many are right within a few factors, in words."""
    within = ", ".join(f"{np.mean(np.abs(errors) <= np.log(k)):.1%} within {k:g}" for k in (2, ESTIMATE_FACTOR, 10))
    return f"{name}: {len(errors)} problems, {within}; median ratio {np.exp(np.median(errors)):.2f}\n"


def read(paths: list[Path]) -> dict[Point, float]:
    """Return the processor's time of each problem [s]; the last record of one counts."""
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return {Point(**record["point"]): record["processor_seconds"] for record in records}


def main(words: list[str]) -> None:
    """Fit, and print what it is worth."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.cost", description=__doc__)
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--held", nargs="*", type=Path, default=[], help="records of problems that are not fitted")
    parser.add_argument("--write", action="store_true", help="put the splines into running_time.py")
    options = parser.parse_args(words)
    held = read(options.held)
    measured = {point: seconds for point, seconds in read(options.records).items() if point not in held}
    data, points = Data(measured), list(measured)
    part = np.random.default_rng(0).permutation(len(points)) % PARTS
    crossed = np.zeros(len(points))
    for number in range(PARTS):
        chosen = part == number
        left_out = [point for point, is_left_out in zip(points, chosen, strict=True) if is_left_out]
        crossed[chosen] = off(splines(data, ~chosen), left_out, data.log_seconds[chosen])
    sys.stdout.write(shares("cross-validated", crossed))
    for name in TERMS:
        sys.stdout.write("  " + shares(name, crossed[data.schedules == name]))
    found = splines(data, np.ones(len(points), dtype=bool))
    sys.stdout.write(shares("fitted", off(found, points, data.log_seconds)))
    if held:
        errors = off(found, held, np.log(list(held.values())))
        sys.stdout.write(shares("held out", errors))
        for point, error in sorted(zip(held, errors, strict=True), key=lambda one: one[1]):
            if abs(error) > np.log(ESTIMATE_FACTOR):
                sys.stdout.write(f"  {np.exp(error):.2f}×  {point}: {held[point]:.3g} s\n")
    off(found, (), np.zeros(0))  # these estimate from here on
    sys.stdout.writelines(tables())
    if options.write:
        write(found)


def tables() -> Iterator[str]:
    """Yield the lines of the tables of `docs/scale.md`: estimates at ε = 0.1, and the work for a million problems."""
    means = {}
    for Delta in (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
        single = [_seconds(Problem.from_allowance(K, 3, 0.1, Delta)) for K in (11, 35, 101, 201, 401)]
        grid = [(K, (K + 1) / 200 * place) for K in range(3, 202, 2) for place in range(1, 101)]
        means[Delta] = float(np.mean([_seconds(Problem.from_allowance(K, m, 0.1, Delta)) for K, m in grid]))
        yield f"| Δ = {Delta:g} | {' | '.join(_text(seconds) for seconds in (*single, means[Delta]))} |\n"
    for Deltas in ((0.0, 1e-5), (0.0, 1e-6, 1e-5, 1e-4, 1e-3), (1e-2,), (1e-1,)):
        work = 1e6 * float(np.mean([means[Delta] for Delta in Deltas]))
        yield f"| {Deltas} | {work:.2g} s | {work / 3600:.2g} h | {work / 960:.2g} min | {work / 256:.2g} s |\n"
    for K, m in ((1001, 3), (5001, 3)):
        yield f"K = {K}, m = {m}, Δ = 1e-6: {_text(_seconds(Problem.from_allowance(K, m, 0.1, 1e-6)))}\n"


def _seconds(problem: Problem) -> float:
    return solve_seconds(DesignSpec(problem))


def _text(seconds: float) -> str:
    return f"{1e3 * seconds:.2g} ms" if seconds < 1 else f"{seconds:.2g} s"


def write(found: dict[str, str]) -> None:
    """Put splines into `running_time.py`."""
    path = Path(running_time.__file__)
    lines = ["SPLINES = {"]
    for name, text in found.items():
        pieces = textwrap.wrap(text, 108, break_long_words=False)
        lines += [f'    "{name}": (', *(f'        "{piece} "' for piece in pieces), "    ),"]
    old = path.read_text(encoding="utf-8")
    block = re.compile(r"^SPLINES = \{\n.*?^\}$", re.MULTILINE | re.DOTALL)
    path.write_text(block.sub(lambda _: "\n".join([*lines, "}"]), old), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
