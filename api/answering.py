"""What is done apart from the event loop for the answers that are more than one γ.

Each is a task: a function at the top of this module, ``task(argument, report)``, plain data in and plain data out, so that
a solver process can do it. The heavy libraries are imported there, not here. γ comes in as the record of its solution, or
as a list with its problem; a listed γ is proved private before anything is said of it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from api.solver_process import Report
from darrm_opt.problem import Privacy
from darrm_opt.record import problem_from_record, solution_from_record, solution_record
from solver_cache.key import Request

WIDER = 1.5
"""A profile reaches this far beyond the target ε, unless told which ε to show."""

MIN_WIDTH = 1e-3
"""And at least to this [nats], where the target is (nearly) 0."""


def error_curve(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the errors of ``solution`` and of the ``baselines`` (None: the usual ones) at ``points`` values of p."""
    from api.curves import over_p, shared_p
    from darrm_opt.comparison.baselines import reasons_left_out

    report(None)
    solution = solution_from_record(argument["solution"])
    drawn = over_p(solution, shared_p(argument["points"]), argument["baselines"])
    return {**drawn, "left_out": reasons_left_out(solution.problem, argument["baselines"] or (), drawn["curves"])}


def profile(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the profile of ``gamma`` for ``problem`` at ``epsilons``, or at ``points`` of them (where None)."""
    import numpy as np

    from darrm_opt.design.profile import privacy_profile

    report(None)
    problem, gamma = problem_from_record(argument["problem"]), argument["gamma"]
    wanted = argument["epsilons"]
    if wanted is None:
        furthest = WIDER * max(problem.target.epsilon, MIN_WIDTH)
        wanted = np.linspace(0.0, min(furthest, 500.0), argument["points"]).tolist()
    found = privacy_profile(gamma, problem, wanted)
    return {"epsilon": list(wanted), "delta": found.deltas.tolist(), "attained": found.attained.tolist()}


def certificate(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the certificate of ``gamma`` for ``problem``, by ``arithmetic``; raises where it is not private."""
    from darrm_opt.design.certificate import verify

    report(None)
    problem = problem_from_record(argument["problem"])
    return asdict(verify(problem, argument["gamma"], arithmetic=argument["arithmetic"]))


def tradeoff(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return solutions for the ``problems`` that have none in ``known`` (a record or None each), and the averages.

    "doubts" says of each why the store would not believe it: empty unless something is wrong with this program.

    They differ in their target only, so each solve starts from the rows of the one before it (`design.tradeoff`); the
    time limit is that of all together.
    """
    import time

    from api.curves import over_m
    from api.work import examined
    from darrm_opt.design.objective import Objective, as_objective
    from darrm_opt.design.solver import solve_warm

    problems = [problem_from_record(record) for record in argument["problems"]]
    doubts = [""] * len(problems)
    solutions = [None if record is None else solution_from_record(record) for record in argument["known"]]
    goal, rows = as_objective(argument["objective"]), None
    ends = time.monotonic() + argument["time_limit"]
    for i in sorted(range(len(problems)), key=lambda i: problems[i].target.epsilon):
        report({"done": sum(solution is not None for solution in solutions), "of": len(problems)})
        if solutions[i] is None:
            left = max(ends - time.monotonic(), 1e-3)
            solved, rows = solve_warm(
                problems[i], goal, argument["shape"], rows=rows, backend=argument["backend"], time_limit=left
            )
            solutions[i], doubts[i] = solved, examined(solved, Request(problems[i], goal, argument["shape"]))[1]
    found = [solution for solution in solutions if solution is not None]
    averages = over_m(found, argument["baselines"])["curves"] if isinstance(goal, Objective) else None
    return {"solutions": [solution_record(solution) for solution in found], "doubts": doubts, "curves": averages}


def comparison(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return every way of releasing for ``voters`` within ``total_epsilon`` and ``total_delta`` over ``queries``."""
    from api.comparing import compared
    from darrm_opt.comparison.compare import compare
    from darrm_opt.design.objective import Objective, as_objective

    report(None)
    prior: Any = None if argument["prior"] is None else as_objective(argument["prior"])
    return compared(
        compare(
            problem_from_record(argument["problem"]),
            argument["queries"],
            Privacy(argument["total_epsilon"], argument["total_delta"]),
            objective=argument["objective"],
            prior=prior.prior if isinstance(prior, Objective) else None,
            **{
                name: argument[name]
                for name in ("n", "subsample_size", "replacement", "sampling", "fresh")
                if name in argument
            },
        )
    )


def composition(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the total privacy of ``queries`` releases, each (``epsilon``, ``delta``), or of ``gamma`` for ``problem``."""
    from api.composing import composed
    from darrm_opt.accounting.release import Release

    report(None)
    release = None
    if argument["problem"] is not None:
        release = Release.of((argument["gamma"], problem_from_record(argument["problem"])))
    each = Privacy(argument["epsilon"], argument["delta"])
    return composed(
        each, argument["queries"], argument["slack"], argument["total_delta"], release, fresh=argument["fresh"]
    )
