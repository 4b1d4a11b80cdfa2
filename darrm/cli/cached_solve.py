"""Cached solve: a solution through the cache where that pays, or the one in a file."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from darrm.cli.output import ExitCode, ProgressDisplay, fail, say
from darrm_opt import solve
from darrm_opt.design.objective import as_objective
from darrm_opt.errors import BackendUnavailable, InvalidInput, Rule

if TYPE_CHECKING:
    from darrm_opt import Problem, Solution
    from darrm_opt.design.solution import Progress
    from darrm_opt.questions.design import Design

MAX_QUICK_K = 61
"""Up to this K a solve by cuts with HiGHS mostly takes less time (0.01 s) than opening the store and looking the answer
up (0.03 s), so the store is asked only where someone asked for it."""

MAX_SECONDS = 600.0  # longest expected work that is begun without a time limit [s]
MAX_UNCHECKED_K = 201  # up to this K everything is expected to take less than that, so no estimate is made


def cached_solution(problem: Problem, design: Design, *, cache: bool | None = None) -> Solution:
    """Return the certified γ_opt of the problem of a design, from the cache if it pays to look there.

    A long solve shows its progress. ``cache``: whether to look; None: where somebody set a cache, or it pays.
    """
    try:
        objective = as_objective(design.objective)
    except InvalidInput as err:  # which names a parameter of the objective, and that is no option
        fail(f"--prior: {err}", ExitCode.BAD_INPUT)
    if design.time_limit is None:
        refuse_slow(design, "Or give --time-limit: the best private γ so far is then returned.")
    with ProgressDisplay("solving") as display:
        names = ("shape", "method", "backend", "time_limit")
        settings: dict[str, Any] = {name: getattr(design, name) for name in names}
        settings |= {"objective": objective, "progress": lambda progress: display.update(progress_text(progress))}
        return _cached_solution(problem, settings, cache=cache)


def _cached_solution(problem: Problem, settings: dict[str, Any], *, cache: bool | None) -> Solution:
    # Of a store that somebody asked for, an error is one; of the usual one it is a warning, and the solve goes on.
    explicit = cache or (cache is None and bool(os.environ.get("DARRM_CACHE_URL", "").strip()))
    takes_long = problem.K > MAX_QUICK_K or settings["method"] == "enumerate" or settings["backend"] == "cvxpy"
    if cache is False or not (explicit or takes_long):
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


def refuse_slow(asked: Any, advice: str) -> None:
    """Refuse, before any work, a question about K voters that is expected to take longer than `MAX_SECONDS`."""
    if asked.K <= MAX_UNCHECKED_K:
        return
    from darrm_opt.search import largest_count_between

    affected = None if asked.affected in (None, asked.K) else asked.affected

    def expected_seconds(K: int) -> float:
        seconds: float = replace(asked, K=K, affected=affected and min(K, affected)).seconds
        return seconds

    if (estimate := expected_seconds(asked.K)) <= MAX_SECONDS:
        return
    # What would fit is worth more to who is refused than the reason.
    largest = largest_count_between(lambda fewer: expected_seconds(fewer) <= MAX_SECONDS, 1, asked.K)
    would_fit = f"At most K = {_two_digits(largest):,} would fit."
    minutes = f"= {asked.K:,} would take about {estimate / 60:,.0f} minutes; the limit is {MAX_SECONDS / 60:g} minutes"
    raise InvalidInput("K", asked.K, Rule(minutes), f"{would_fit} {advice}".rstrip())


def _two_digits(count: int) -> int:
    """Return a whole number of two digits and zeros, at most ``count``.

    >>> _two_digits(57_341), _two_digits(7)
    (57000, 7)
    """
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return count // unit * unit


def solution_in(source: str) -> Solution:
    """Return the answer of `darrm solve` in a file, its γ proved private; its other claims are not."""
    from json import JSONDecodeError

    from darrm.cli.files import read_text
    from darrm_opt.accounting.release_profile import Release
    from darrm_opt.untrusted import json_value
    from darrm_opt.verification import InvalidSolution, read_solution

    text = read_text(source, "solution")
    try:
        content = json_value(text)
    except JSONDecodeError:  # whose place in a file of another kind says nothing
        fail(f"{source} is not JSON; expected a file of `darrm solve`, `plan` or `cost`.", ExitCode.BAD_INPUT)
    except ValueError as err:
        fail(f"{source} is not an answer of `darrm solve`: {err}", ExitCode.BAD_INPUT)
    try:
        solution = read_solution(content)
    except (InvalidSolution, ValueError) as err:
        fail(f"{source} is not an answer of `darrm solve`: {err}", ExitCode.BAD_INPUT)  # anyone may have written it
    for warning in Release.of(solution).problem.warnings(solution.gamma):
        say(f"Warning: {warning}")
    return solution
