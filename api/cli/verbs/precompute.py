"""``darrm precompute``."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

from api.cli.declared import Argument, Option
from api.cli.options import AsJson, StoreUrl, number
from api.cli.outcome import ExitCode, answer, end, say

_WHERE = "Where"


def precompute(
    grid: Annotated[str, Argument("GRID", "The grid file, .toml or .json: see docs/scale.md.")],
    url: StoreUrl = None,
    workers: Annotated[
        str | None, Option("--workers", "Processes on this machine.", "COUNT", _WHERE, "one for each processor")
    ] = None,
    scheduler: Annotated[
        str | None,
        Option("--scheduler", "A Dask scheduler whose workers solve, as tcp://HOST:8786.", "ADDRESS", _WHERE),
    ] = None,
    dask: Annotated[
        str | None, Option("--dask", "Start a Dask scheduler and workers on this machine.", "local[:COUNT]", _WHERE)
    ] = None,
    backend: Annotated[str, Option("--backend", "The LP solver.", "highs|gurobi|cvxpy")] = "highs",
    time_limit: Annotated[
        str | None, Option("--time-limit", "For one problem; what it cuts short has failed.", "SECONDS")
    ] = None,
    attempts: Annotated[str, Option("--attempts", "Give a problem up after so many losses.", "COUNT")] = "5",
    lease: Annotated[
        str, Option("--lease", "What a run that was killed had claimed comes free after this.", "SECONDS")
    ] = "30",
    *,
    direct: Annotated[
        bool, Option("--direct", "Workers write to the store themselves; they must reach its URL.", panel=_WHERE)
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", "Say what would be done, and stop.")] = False,
    json: AsJson = False,
) -> None:
    """Design every γ of a grid, on this machine's processors or on a Dask cluster, and keep them.

    Says first what there is to do. The store is the state: whatever ends a run, running it again continues, and several
    runs at once share the work. A problem that keeps failing is listed at the end, with the reason, and the exit code
    says so.
    """
    import os

    from api.cli.precomputing import described_plan, display, executor, options, outcome_text, planned, store_of
    from api.cli.report import as_json
    from darrm_opt.answers.cost_model import solve_seconds
    from solver_cache import cache_url
    from solver_cache.precompute.scheduler import run

    place = url or cache_url(os.environ)
    how = options(backend, number(time_limit), number(attempts), number(lease), place if direct else "")
    with closing(store_of(place, dry_run=dry_run)) as store:
        plan = planned(grid, store)
        said = described_plan(plan, store.url)
        if dry_run:
            answer(as_json({"plan": said}) if json else plan_text(said))
            return
        say(plan_text(said))
        if not plan.batches:
            answer(as_json({"plan": said, "outcome": None}) if json else "Nothing is left to be done.")
            return
        with (
            closing(executor(number(workers), scheduler, dask)) as workforce,
            display() as watcher,
        ):
            outcome = run(plan, store, workforce, solve_seconds, how, watcher)
    told = outcome_text(outcome)
    for line in told["failures"]:
        say(f"Failed: {line['text']}")
    answer(as_json({"plan": said, "outcome": told}) if json else told["text"])
    if outcome.failures:
        end(ExitCode.SOME_FAILED)


def plan_text(said: dict[str, Any]) -> str:
    """Return what would be done, in words."""
    again = f", {said['repeated']:,} named twice" if said["repeated"] else ""
    return (
        f"{said['problems']:,} problems: {said['kept']:,} are kept already{again}, {said['missing']:,} to be solved in "
        f"{said['batches']:,} batches.\nExpected work: {said['work']}. Store: {said['store']}"
    )
