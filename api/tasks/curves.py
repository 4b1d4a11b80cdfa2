"""Answers with several γ: trade-offs and the inverse question, in a process of the pool.

Each γ is proved once more as the store does when it reads, and the parent stores it like any other. What a process
finds is plain data: the ``solutions``, and of each a doubt, empty unless something is wrong with this program.
"""

from __future__ import annotations

from typing import Any

from api.tasks.design import recheck
from darrm_opt.answers.curves import POINT_FIELDS, tradeoff_answer
from darrm_opt.answers.verification import verify_least
from darrm_opt.record import DesignSpec, problem_from_record, solution_from_record, solution_record
from solver_cache.task_loop import Report


def compute_tradeoff(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return solutions for the ``problems`` that have none in ``known`` (a record or None each), and the averages.

    "doubts" says of each why the store would not believe it: empty unless something is wrong with this program.

    They differ in their target only; the time limit is that of all together.
    """
    from darrm_opt.answers.curves import error_curves_over_m
    from darrm_opt.design.objective import Objective, as_objective
    from darrm_opt.design.sweep import solve_sweep

    problems = [problem_from_record(record) for record in argument["problems"]]
    doubts = [""] * len(problems)
    solutions = [None if record is None else solution_from_record(record) for record in argument["known"]]
    goal, shape = as_objective(argument["objective"]), argument["shape"]
    # What is stored is not solved again; the others are one sweep, whose neighbours share rows.
    missing = [i for i, solution in enumerate(solutions) if solution is None]
    stored_count = len(problems) - len(missing)
    report({"done": stored_count, "of": len(problems)})
    sweep = solve_sweep(
        [problems[i] for i in missing],
        goal,
        shape,
        backend=argument["backend"],
        total_time_limit=argument["time_limit"],
    )
    for done, (index, solution) in enumerate(sweep, stored_count + 1):
        i = missing[index]
        # Proved again as the store will prove it, here and not in the process that answers requests.
        solutions[i], doubts[i] = solution, recheck(solution, DesignSpec(problems[i], goal, shape))[1]
        report({"done": done, "of": len(problems)})
    all_solutions = [solution for solution in solutions if solution is not None]
    averages = (
        # Averages are over the prior of an objective; scenarios have none.
        error_curves_over_m(all_solutions, argument["baselines"])["curves"] if isinstance(goal, Objective) else None
    )
    return {
        "solutions": [solution_record(solution) for solution in all_solutions],
        "doubts": doubts,
        "curves": averages,
    }


def compute_least(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the answer to the inverse question, its γ and the one next below proved again as the store does.

    "doubts" is as in `compute_tradeoff`.
    """
    from darrm_opt.answers.curves import find_least

    result = find_least(argument, report)
    solutions = [solution_from_record(record) for record in result["solutions"]]
    return {**result, "doubts": [recheck(solution, DesignSpec.of(solution))[1] for solution in solutions]}


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


def recheck_tradeoff(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove every γ of a stored trade-off again."""
    for spec, answer in zip(tradeoff_designs(argument, None), result["solutions"], strict=True):
        solution, trouble = recheck(solution_from_record(answer), spec)
        if solution is None:
            raise ValueError(trouble)


def recheck_least(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove both γ of a stored answer to the inverse question again; raises as `verify_least`."""
    verify_least(least_to_dict(argument, result), argument)


def tradeoff_to_dict(argument: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return a trade-off with each γ beside its numbers."""
    answers = [
        {"id": spec.key, "cached": cached, **record}
        for spec, cached, record in zip(
            tradeoff_designs(argument, None), result["cached"], result["solutions"], strict=True
        )
    ]
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
