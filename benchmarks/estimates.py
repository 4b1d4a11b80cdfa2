"""Measure designs, tables and plans at random, and fit the estimates of running time to them.

    make estimates                                   measures for ten minutes, and fits
    make estimates ARGS="--minutes 0"                fits again to what was measured
    python -m benchmarks.estimates [--records FILE] [--minutes MINUTES] [--seed SEED]

A program has a regression of a few terms (`darrm_opt.answers.running_time`): the logarithm of the processor's seconds
is a sum of coefficients times features, fitted by Huber's loss. Printed for each: how many of the problems are within a
factor of three of the estimate, by coefficients fitted to the other four fifths. The coefficients are written to
`darrm_opt/answers/coefficients.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from darrm_opt.answers import class_plans, coefficients, running_time, tables
from darrm_opt.answers.coefficients import COEFFICIENTS
from darrm_opt.record import DesignSpec

RECORDS = Path("build/estimates.jsonl")

MAX_SECONDS = tables.MAX_MEASURED_SECONDS  # time limit of one design [s]; one that reaches it is left out


def between(rng: random.Random, low: float, high: float) -> float:
    """Draw a number by its logarithm."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def gamma(rng: random.Random) -> dict[str, Any]:
    """Draw a γ between two classes: half of them with fewer affected voters than all, half of more than 60 voters."""
    K = round(between(rng, *rng.choice(((5, 601), (60, 601)))))
    if rng.random() < 0.15:
        affected = rng.choice((1, round(between(rng, 1, K))))
        delta = rng.choice((0.0, between(rng, 1e-7, 1e-3)))
        return {"K": K, "epsilon": "inf", "target": (between(rng, 0.01, 3), delta), "affected": affected}
    Delta = rng.choice((0.0, between(rng, 1e-6, 0.3), between(rng, 1e-6, 0.3)))
    epsilon, m = between(rng, 0.01, 3), between(rng, 1.05, max(1.1, K / 2))
    allowed = 0.0 if Delta and rng.random() < 0.4 else None
    affected = K if rng.random() < 0.5 else round(between(rng, 1, K))
    return {
        "K": K,
        "epsilon": epsilon,
        "Delta": Delta,
        "m": min(m, 500 / epsilon),
        "delta": allowed,
        "affected": affected,
    }


def plurality(rng: random.Random) -> dict[str, Any]:
    """Draw a table of voters that are not private."""
    from darrm_opt.tables.problem import partition_count

    classes = rng.choice((2, 3, 3, 4, 5, 6, 7, 8))
    most = between(rng, 5, 14_000 if classes == 3 else 4000)  # larger ones of more classes take minutes
    while True:
        K, affected = round(between(rng, 2, 400)), rng.choice((1, 1, 2, 3))
        if partition_count(K, classes) <= most and affected <= K:
            delta = rng.choice((0.0, between(rng, 1e-7, 1e-3)))
            return {
                "K": K,
                "classes": classes,
                "affected": affected,
                "target": (between(rng, 0.05, 3), delta),
                "abstention": rng.random() < 0.2,
            }


def groups(rng: random.Random) -> dict[str, Any]:
    """Draw a table of groups of private voters."""
    classes = rng.randint(2, 4)
    sizes = [rng.randint(1, max(1, 20 // classes**2)) for _ in range(rng.randint(1, 3))]
    voters = [
        (size, between(rng, 0.1, 2), 0.0 if rng.random() < 0.8 or classes > 2 else between(rng, 1e-6, 0.01))
        for size in sizes
    ]
    target = (between(rng, 0.1, 3), rng.choice((0.0, between(rng, 1e-6, 1e-3))))
    return {"classes": classes, "groups": voters, "target": target, "abstention": rng.random() < 0.1}


def plan(rng: random.Random) -> dict[str, Any]:
    """Draw a plan between two classes."""
    K, epsilon = round(between(rng, 3, 101)), rng.choice((math.inf, between(rng, 0.05, 2)))
    return {
        "K": K,
        "epsilon": "inf" if epsilon == math.inf else epsilon,
        "Delta": 0.0 if epsilon == math.inf else rng.choice((0.0, between(rng, 1e-7, 1e-3))),
        "queries": round(between(rng, 1, 2000)),
        "total": (between(rng, 0.3, 8), between(rng, 1e-7, 1e-4)),
        "affected": 1 if epsilon == math.inf else K,
    }


def options(rng: random.Random) -> dict[str, Any]:
    """Draw a plan among several classes."""
    from darrm_opt.tables.problem import partition_count

    most = between(rng, 5, 500)
    while True:
        classes, K = rng.randint(3, 6), round(between(rng, 3, 101))
        if partition_count(K, classes) <= most:
            total = (between(rng, 0.3, 8), between(rng, 1e-7, 1e-4))
            return {"K": K, "classes": classes, "queries": round(between(rng, 1, 2000)), "total": total}


def _privacy(pair: Any) -> Any:
    from darrm_opt.problem import Privacy

    return Privacy(float(pair[0]), float(pair[1]))


def problem_of(program: str, asked: dict[str, Any]) -> Any:
    """Return the problem of a record."""
    from darrm_opt.problem import NOT_PRIVATE, Problem

    if program == "gamma":
        if asked["epsilon"] == "inf":
            return Problem(asked["K"], _privacy((math.inf, 0.0)), _privacy(asked["target"]), asked["affected"])
        names = ("K", "m", "epsilon", "Delta", "delta", "affected")
        return Problem.from_allowance(**{name: asked[name] for name in names})
    if program == "plan":
        voter = _privacy((asked["epsilon"], asked["Delta"]))
        return Problem(asked["K"], voter, _privacy(asked["total"]), asked["affected"])
    if program == "groups":
        voters = [(size, _privacy((epsilon, delta))) for size, epsilon, delta in asked["groups"]]
        target, abstention = _privacy(asked["target"]), asked["abstention"]
        return Problem(groups=voters, target=target, classes=asked["classes"], abstention=abstention)
    target = _privacy(asked.get("target") or asked["total"])
    abstention = asked.get("abstention", False)
    return Problem(
        *(asked["K"], NOT_PRIVATE, target, asked.get("affected", 1)), classes=asked["classes"], abstention=abstention
    )


def run(program: str, asked: dict[str, Any]) -> bool:
    """Do the work of a record; return whether it ended before its limit."""
    problem = problem_of(program, asked)
    if program == "gamma":
        from darrm_opt import solve

        return bool(solve(problem, time_limit=MAX_SECONDS).status.value != "time limit")
    if program in {"plurality", "groups"}:
        from darrm_opt.tables.solver import solve_table

        return solve_table(problem, time_limit=MAX_SECONDS).status.value != "time limit"
    from darrm_opt.planning import plan as plan_releases

    voter = problem.voter if program == "plan" else None
    classes = asked.get("classes", 2)
    plan_releases(problem.K, voter, asked["queries"], problem.target, problem.affected, classes=classes)
    return True


DRAWS: dict[str, tuple[Callable[[random.Random], dict[str, Any]], float]] = {
    "gamma": (gamma, 0.45),
    "plurality": (plurality, 0.15),
    "groups": (groups, 0.15),
    "plan": (plan, 0.125),
    "options": (options, 0.125),
}
"""What is drawn for each program, and its share of the time."""


def measure(minutes: float, seed: int) -> Iterator[dict[str, Any]]:
    """Yield records until the processor's time is used up: of the program that has had the least of its share."""
    from darrm_opt.errors import DarrmError

    rng, used = random.Random(seed), dict.fromkeys(DRAWS, 0.0)  # noqa: S311 - seeded on purpose
    while sum(used.values()) < 60 * minutes:
        program = min(used, key=lambda name: used[name] / DRAWS[name][1])
        asked = DRAWS[program][0](rng)
        start = time.process_time()
        try:
            ended = run(program, asked)
        except DarrmError as err:
            ended = False
            sys.stderr.write(f"{program} {asked}: {err}\n")
        seconds = time.process_time() - start
        used[program] += seconds + 0.002
        yield {"program": program, "asked": asked, "seconds": seconds, "ended": ended}


FIT_ORDER = ("gamma", "plurality", "groups", "plan", "options")
"""Programs in the order in which they are fitted: a plan's estimate rests on that of its solves."""

PARTS, RIDGE, HUBER, FACTOR = 5, 1.0, 0.5, 3.0
"""Parts of the problems, each left out in turn; weight of the squared coefficients, of columns of variance 1; error
beyond which it counts in proportion [ln s]; factor within which an estimate should be right."""

Column = np.ndarray[Any, np.dtype[np.floating[Any]]]


def features_of(program: str, asked: dict[str, Any]) -> tuple[str, tuple[float, ...]]:
    """Return the regression of a problem, and what it multiplies."""
    problem = problem_of(program, asked)
    match program:
        case "gamma":
            return running_time.schedule_of(problem), running_time.features(problem)
        case "plurality":
            return program, tables.plurality_features(problem)
        case "groups":
            return program, tables.group_features(problem)
        case "plan":
            solve = running_time.solve_seconds(DesignSpec(problem))
            return program, running_time.plan_features(solve, asked["queries"])
    return program, class_plans.options_features(problem, asked["queries"])


def fit(rows: Column, target: Column) -> Column:
    """Return coefficients of least Huber loss, with a ridge."""
    means, scale = rows.mean(axis=0), rows.std(axis=0)
    means[0], scale[scale == 0] = 0.0, 1.0
    columns, weights = (rows - means) / scale, np.ones(len(target))
    ridge = RIDGE * np.eye(rows.shape[1])
    ridge[0, 0] = 0.0
    found = np.zeros(rows.shape[1])
    for _ in range(8):
        weighted = columns * weights[:, None]
        found = np.linalg.solve(columns.T @ weighted + ridge, weighted.T @ target)
        weights = 1 / np.maximum(1.0, np.abs(target - columns @ found) / HUBER)
    found /= scale
    found[0] -= means @ found
    return found


def unseen_errors(rows: Column, target: Column) -> Column:
    """Return ln(estimate/time) of each problem by coefficients that were fitted without it."""
    part = np.random.default_rng(0).permutation(len(target)) % PARTS
    errors = np.zeros(len(target))
    for number in range(PARTS):
        errors[part == number] = rows[part == number] @ fit(rows[part != number], target[part != number])
    return errors - target


def share(errors: Column, factor: float = FACTOR) -> float:
    """Return the share of errors that are within a factor."""
    return float(np.mean(np.abs(errors) <= math.log(factor)))


def fit_all(records: list[dict[str, Any]]) -> tuple[dict[str, tuple[float, ...]], list[str]]:
    """Fit every regression, each estimating from then on; return the coefficients, and their worth, in lines."""
    found, lines, partly = dict[str, tuple[float, ...]](), [], list[tuple[bool, float]]()
    for program in FIT_ORDER:
        data: dict[str, list[tuple[tuple[float, ...], float, bool]]] = {}
        for record in records:
            if record["program"] == program and record["ended"]:
                name, values = features_of(program, record["asked"])
                is_partly = program == "gamma" and record["asked"]["affected"] < record["asked"]["K"]
                data.setdefault(name, []).append((values, math.log(record["seconds"]), is_partly))
        for name, items in data.items():
            rows, target = np.array([values for values, *_ in items]), np.array([seconds for _, seconds, _ in items])
            errors = unseen_errors(rows, target)
            found[name] = tuple(float(f"{c:.6g}") for c in fit(rows, target))
            within = ", ".join(f"{share(errors, factor):.1%} within {factor:g}" for factor in (2.0, FACTOR, 10.0))
            lines.append(f"{name}: {len(items)} problems, unseen {within}")
            partly += [(is_partly, float(error)) for (*_, is_partly), error in zip(items, errors, strict=True)]
        COEFFICIENTS.update(found)
        if program == "gamma":
            errors, some = np.array([error for _, error in partly]), np.array([is_partly for is_partly, _ in partly])
            lines.append(f"γ: {len(errors)} problems, unseen {share(errors):.1%} within {FACTOR:g}")
            lines.append(f"γ, affected < K: {some.sum()} problems, unseen {share(errors[some]):.1%} within {FACTOR:g}")
    return found, lines


def text_of(found: dict[str, tuple[float, ...]], lines: list[str]) -> str:
    """Return the module with the coefficients."""
    head = '"""Coefficients of the regressions of running time, by `benchmarks/estimates.py` (do not edit).\n\n'
    worth = "\n".join(lines)
    body = "".join(
        f'    "{name}": (\n'
        + "".join(f'        "{line} "\n' for line in textwrap.wrap(" ".join(map(repr, values)), 100))
        + "    ),\n"
        for name, values in found.items()
    )
    parsed = "{name: tuple(map(float, numbers.split())) for name, numbers in _NUMBERS.items()}"
    return f'{head}{worth}\n"""\n\n_NUMBERS = {{\n{body}}}\n\nCOEFFICIENTS: dict[str, tuple[float, ...]] = {parsed}\n'


def main(words: list[str]) -> None:
    """Measure, fit, print what the fit is worth, and write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimates", description=__doc__)
    parser.add_argument("--records", type=Path, nargs="*", default=[RECORDS], help="the first one is added to")
    parser.add_argument("--minutes", type=float, default=10.0, help="processor time to measure for")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    options.records[0].parent.mkdir(parents=True, exist_ok=True)
    with options.records[0].open("a", encoding="utf-8") as file:
        for record in measure(options.minutes, options.seed):
            file.write(json.dumps(record) + "\n")
    texts = [path.read_text(encoding="utf-8") for path in options.records]
    found, lines = fit_all([json.loads(line) for text in texts for line in text.splitlines()])
    sys.stdout.write("\n".join(lines) + "\n")
    Path(coefficients.__file__).write_text(text_of(found, lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
