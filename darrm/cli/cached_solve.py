"""Cached solve: a solution through the cache where that pays, or the one in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from darrm.cli.output import ExitCode, ProgressDisplay, fail, say
from darrm.cli.parameters import DesignOptions, number
from darrm_opt import solve
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.errors import BackendUnavailable, InvalidInput, Rule

if TYPE_CHECKING:
    from darrm_opt import Problem, Solution
    from darrm_opt.design.solution import Progress, Watcher

MAX_QUICK_K = 61
"""Up to this K a solve by cuts with HiGHS mostly takes less time (0.01 s) than opening the store and looking the answer
up (0.03 s), so the store is asked only where someone asked for it."""

MAX_SECONDS = 600.0
"""Longest expected work that is begun without a time limit [s]."""

MAX_UNCHECKED_K = 201
"""Up to this K everything is expected to take less than that, so no estimate is made."""


def cached_solution(problem: Problem, design: DesignOptions, method: str = "auto") -> Solution:
    """Return the certified γ_opt, from the cache if it pays to look there; a long solve shows its progress."""
    if design.time_limit is None:
        advice = "Or give --time-limit: the best private γ so far is then returned."
        refuse_slow(problem, _objective(design.prior), advice)
    with ProgressDisplay("solving") as display:
        return _cached_solution(problem, design, method, lambda progress: display.update(progress_text(progress)))


def _cached_solution(problem: Problem, design: DesignOptions, method: str, progress: Watcher) -> Solution:
    settings: dict[str, Any] = {
        "objective": _objective(design.prior),
        "shape": design.shape,
        "method": method,
        "backend": design.backend,
        "time_limit": _seconds(design.time_limit),
        "progress": progress,
    }
    # Of a store that somebody asked for, an error is one; of the usual one it is a warning, and the solve goes on.
    explicit = design.cache or (design.cache is None and bool(os.environ.get("DARRM_CACHE_URL", "").strip()))
    takes_long = problem.K > MAX_QUICK_K or method == "enumerate" or design.backend == "cvxpy"
    if design.cache is False or not (explicit or takes_long):
        found: Solution = solve(problem, **settings)
        return found

    from solver_cache import CacheError, NoStore, cache_url, cached_solve, open_store

    try:
        store = open_store(cache_url(os.environ))
    except (BackendUnavailable, CacheError) as err:
        if explicit:
            raise
        say(f"Warning: {err}")
        store = NoStore()
    try:
        return cached_solve(problem, store=store, **settings).solution
    finally:
        store.close()


def progress_text(progress: Progress) -> str:
    """Return where a solve stands, in a few words."""
    gap = max(0.0, progress.upper_bound - progress.utility)
    return (
        f"round {progress.round}: {progress.rows:,} rows, utility {progress.utility:.6f}, "
        f"bound {progress.upper_bound:.6f}, gap {gap:.1e}"
    )


def refuse_slow(problem: Problem, objective: AnyObjective, advice: str) -> None:
    """Refuse, before any work, a solve that is expected to take longer than `MAX_SECONDS`."""
    if problem.K <= MAX_UNCHECKED_K:
        return
    from darrm_opt.answers.running_time import solve_seconds
    from darrm_opt.problem import Problem
    from darrm_opt.record import DesignSpec

    def expected_seconds(K: int) -> float:
        # A record that reaches all voters reaches all of fewer, too.
        affected = K if problem.affected == problem.K else min(K, problem.affected)
        return solve_seconds(DesignSpec(Problem(K, problem.voter, problem.target, affected), objective))

    _refuse_slow(problem.K, expected_seconds, advice)


def refuse_slow_question(asked: Any, advice: str) -> None:
    """Refuse a question about K voters by its own estimate; the rest as `refuse_slow`."""
    if asked.K > MAX_UNCHECKED_K:
        affected = None if asked.affected in (None, asked.K) else asked.affected
        _refuse_slow(asked.K, lambda K: replace(asked, K=K, affected=affected and min(K, affected)).seconds, advice)


def _refuse_slow(K: int, expected_seconds: Callable[[int], float], advice: str) -> None:
    from darrm_opt.search import largest_count_between

    if (estimate := expected_seconds(K)) <= MAX_SECONDS:
        return
    # What would fit is worth more to who is refused than the reason.
    largest = largest_count_between(lambda fewer: expected_seconds(fewer) <= MAX_SECONDS, 1, K)
    would_fit = f"At most K = {_two_digits(largest):,} would fit."
    minutes = f"= {K:,} would take about {estimate / 60:,.0f} minutes; the limit is {MAX_SECONDS / 60:g} minutes"
    raise InvalidInput("K", K, Rule(minutes), f"{would_fit} {advice}".rstrip())


def _two_digits(count: int) -> int:
    """Return a whole number of two digits and zeros, at most ``count``.

    >>> _two_digits(57_341), _two_digits(7)
    (57000, 7)
    """
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return count // unit * unit


def _objective(text: str) -> AnyObjective:
    try:
        return as_objective(text)
    except InvalidInput as err:  # which names a parameter of the objective, and that is no option
        fail(f"--prior: {err}", ExitCode.BAD_INPUT)


def _seconds(text: str | None) -> float | None:
    value = number(text)
    if isinstance(value, str):
        raise InvalidInput("time_limit", value, "seconds above 0")
    return value if value is None else float(value)


def solution_in(source: str) -> Solution:
    """Return the answer of `darrm solve` in a file, its γ proved private; its other claims are not."""
    from darrm.cli.files import read_text
    from darrm_opt.accounting.release_profile import Release
    from darrm_opt.untrusted import json_value
    from darrm_opt.verification import InvalidSolution, read_solution

    text = read_text(source)
    try:
        solution = read_solution(json_value(text))
    except (InvalidSolution, ValueError) as err:
        fail(f"{source} is not an answer of `darrm solve`: {err}", ExitCode.BAD_INPUT)  # anyone may have written it
    for warning in Release.of(solution).problem.warnings(solution.gamma):
        say(f"Warning: {warning}")
    return solution
