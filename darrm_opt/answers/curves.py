"""Curves as plain data: errors over p or m, privacy profiles, the inverse of a trade-off; and their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from darrm_opt.accuracy import disagreement, error_curve, tv_error
from darrm_opt.answers import Report
from darrm_opt.answers.verification import verify_least
from darrm_opt.arguments import whole_number
from darrm_opt.design.objective import AnyObjective, Objective
from darrm_opt.design.privacy_profile import privacy_profile
from darrm_opt.design.solution import Solution
from darrm_opt.design.sweep import least_parameter
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.baselines import BASELINES, OTHER_BASELINES, private_baselines, reasons_left_out
from darrm_opt.problem import MAX_TARGET_EPSILON, number_of_voters
from darrm_opt.record import DesignSpec, problem_from_record, problem_record, solution_from_record, solution_record
from darrm_opt.voters import PrivacyProfile

MEASURES = ("tv_error", "disagreement")


def compared_noise(solution: Solution, baselines: Sequence[str] | None = None) -> dict[str, NoiseFunction]:
    """Return the solution's γ as "optimal", and the baselines that are private for its problem: those named, or all."""
    return {"optimal": solution.noise, **private_baselines(solution.problem, baselines)}


MAX_POINTS = 100_001
"""Most points of a curve."""


def p_grid(points: Any) -> list[float]:
    """Return ``points`` probabilities from 0.5 to 1, evenly spaced; below 0.5 the errors are the same.

    >>> p_grid(3)
    [0.5, 0.75, 1.0]
    """
    return [float(p) for p in np.linspace(0.5, 1.0, _number_of_points(points))]


def epsilon_grid(target_epsilon: float, points: Any) -> list[float]:
    """Return ``points`` values of ε from 0 to beyond the target, evenly spaced [nats]; raises as `p_grid`."""
    furthest = PROFILE_WIDTH * max(target_epsilon, MIN_PROFILE_EPSILON)
    grid: list[float] = np.linspace(0.0, min(furthest, MAX_TARGET_EPSILON), _number_of_points(points)).tolist()
    return grid


def _number_of_points(points: Any) -> int:
    accepted = f"a whole number of points, from 2 to {MAX_POINTS}"
    return whole_number(points, "points", accepted, least=2, most=MAX_POINTS)


def allowance_grid(K: int, most: int) -> list[float]:
    """Return whole allowances from 1 to ⌈(K+1)/2⌉, where pure-DP voters need no noise, at most ``most`` of them.

    >>> allowance_grid(11, 25), allowance_grid(101, 4)
    ([1, 2, 3, 4, 5, 6], [1, 18, 34, 51])
    """
    last = (number_of_voters(K) + 2) // 2
    return sorted({round(float(m)) for m in np.linspace(1, last, min(most, last))})


def error_curves_over_p(
    solution: Solution, p: Sequence[float], baselines: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return both errors of the solution and of the baselines (None: the usual) at each p that all voters share."""
    curves = {}
    for name, noise in compared_noise(solution, baselines).items():
        errors = error_curve(noise, p)
        curves[name] = {"gamma": noise.values.tolist()} | {
            measure: getattr(errors, measure).tolist() for measure in MEASURES
        }
    return {
        "over": "p",
        "problem": problem_record(solution.problem),
        "objective": str(solution.objective),
        "p": list(p),
        "curves": curves,
    }


def error_curves_over_m(solutions: Sequence[Solution], baselines: Sequence[str] | None = None) -> dict[str, Any]:
    """Return both errors of each solution and of the baselines (None: the usual), averaged over the objective's prior.

    A tv error that has no closed form under the prior is None, and so is a baseline where it has no meaning.
    """
    tables = [
        {
            name: _average_errors(noise, solution.objective)
            for name, noise in compared_noise(solution, baselines).items()
        }
        for solution in solutions
    ]
    # In the order of the registries: a baseline that has no meaning at one m must not move the others.
    names = [name for name in ("optimal", *BASELINES, *OTHER_BASELINES) if any(name in table for table in tables)]
    problems = [problem_record(solution.problem) for solution in solutions]
    return {
        "over": "m",
        "problems": problems,
        "objective": str(solutions[0].objective),
        "m": [problem["m"] for problem in problems],
        "curves": {
            name: {measure: [table.get(name, {}).get(measure) for table in tables] for measure in MEASURES}
            for name in names
        },
    }


def _average_errors(noise: NoiseFunction, objective: AnyObjective) -> dict[str, float | None]:
    if not isinstance(objective, Objective):
        accepted = "an objective with a prior, such as rectangular or shared(2,5)"
        raise InvalidInput("objective", str(objective), accepted, "Only under a prior is there one error for each m.")
    prior: Any = objective.prior
    try:
        tv: float | None = tv_error(noise, prior)
    except InvalidInput:
        tv = None
    return {"tv_error": tv, "disagreement": disagreement(noise, prior)}


PROFILE_WIDTH = 1.5
"""Largest ε of a profile as a multiple of the target ε, by default."""

MIN_PROFILE_EPSILON = 1e-3
"""Least target ε that this multiple is taken of [nats], where the target is (nearly) 0."""


def compute_error_curve(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the errors of ``solution`` and of the ``baselines`` (None: the usual ones) at ``points`` values of p."""
    report(None)
    solution = solution_from_record(argument["solution"])
    answer = error_curves_over_p(solution, p_grid(argument["points"]), argument["baselines"])
    return {**answer, "left_out": reasons_left_out(solution.problem, argument["baselines"] or (), answer["curves"])}


def compute_profile(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the profile of ``gamma`` for ``problem`` at ``epsilons``, or at ``points`` of them (where None)."""
    report(None)
    problem, gamma = problem_from_record(argument["problem"]), argument["gamma"]
    epsilons = argument["epsilons"]
    if epsilons is None:
        epsilons = epsilon_grid(problem.target.epsilon, argument["points"])
    profile = privacy_profile(gamma, problem, epsilons)
    return {"epsilon": list(epsilons), "delta": profile.deltas.tolist(), "attained": profile.attained.tolist()}


POINT_FIELDS = ("problem", "gamma", "utility", "upper_bound", "gap", "status", "warnings")
"""What an answer with several γ says of each, beside its id and whether it was stored."""


def tradeoff_answer(
    over: str, answers: Sequence[dict[str, Any]], curves: dict[str, dict[str, list[float | None]]] | None
) -> dict[str, Any]:
    """Return a trade-off as plain data: over what, the answer to each design in order, and the average errors."""
    problems = [answer["problem"] for answer in answers]
    return {
        "over": over,
        **{name: answers[0][name] for name in ("objective", "shape")},
        **{name: [problem[name] for problem in problems] for name in ("m", "target_epsilon", "delta")},
        "utility": [answer["utility"] for answer in answers],
        "points": [{name: answer[name] for name in ("id", "cached", *POINT_FIELDS)} for answer in answers],
        "curves": curves,
    }


def find_least(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the result of `least_parameter`, ``epsilon`` perhaps "inf"; reports how many solves are done."""
    epsilon = argument["epsilon"]
    arguments = {**argument, "epsilon": float("inf") if epsilon == "inf" else epsilon}
    if (points := arguments.pop("profile", None)) is not None:
        arguments["profile"] = PrivacyProfile(points)
    least = least_parameter(**arguments, progress=lambda done, of: report({"done": done, "of": of}))
    below = least.below
    return {
        **{name: getattr(least, name) for name in ("parameter", "value", "measure", "wanted", "reached", "is_least")},
        "below": None if below is None else {name: getattr(below, name) for name in ("value", "reached", "bound")},
        "solutions": [solution_record(point.solution) for point in (least, below) if point is not None],
    }


def tradeoff_designs(argument: dict[str, Any], _: dict[str, Any] | None) -> list[DesignSpec]:
    """Return the designs of a trade-off, in order: known before it is computed."""
    return [
        DesignSpec(problem_from_record(record), argument["objective"], argument["shape"])
        for record in argument["problems"]
    ]


def least_designs(_: dict[str, Any], result: dict[str, Any] | None) -> list[DesignSpec]:
    """Return the designs that the inverse question came to; none are known before."""
    solutions = [] if result is None else result["solutions"]
    return [DesignSpec(problem_from_record(item["problem"]), item["objective"], item["shape"]) for item in solutions]


def recheck_least(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove both γ of a stored answer to the inverse question again; raises as `verify_least`."""
    verify_least(least_to_dict(argument, result), argument)


def tradeoff_to_dict(argument: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return a trade-off with each γ beside its numbers."""
    points = zip(tradeoff_designs(argument, None), result["cached"], result["solutions"], strict=True)
    answers = [{"id": spec.key, "cached": cached, **record} for spec, cached, record in points]
    return tradeoff_answer(argument["over"], answers, result["curves"])


def least_to_dict(argument: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to the inverse question with each γ beside its number."""
    records = result["solutions"]
    cached = result.get("cached", [False] * len(records))
    designs = [
        {"id": spec.key, "cached": was_cached, **{name: record[name] for name in POINT_FIELDS}}
        for spec, record, was_cached in zip(least_designs(argument, result), records, cached, strict=True)
    ]
    fields = {name: result[name] for name in ("parameter", "value", "measure", "wanted", "reached", "is_least")}
    neighbour = None if result["below"] is None else {**result["below"], "design": designs[1]}
    shape = {name: records[0][name] for name in ("objective", "shape")}
    return {**fields, **shape, "design": designs[0], "below": neighbour}
