"""Work of `darrm precompute`: its grid, its plan, its workers and its answers, as plain data and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from darrm.cli.output import ExitCode, ProgressDisplay, answer, as_json, end, fail, say
from darrm.cli.verbs.cache import open_cache
from darrm_opt.answers.tables import design_seconds
from darrm_opt.arguments import whole_number
from darrm_opt.design.report import columns, count_text
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.problem import profile_text
from darrm_opt.record import DesignSpec
from solver_cache import Row, Store
from solver_cache.location import MEMORY, OFF, parse_url
from solver_cache.model import Spec, question_record, search_columns
from solver_cache.precompute.grid import Grid, grid_of, read_grid
from solver_cache.precompute.plan import Failure, RunOutcome, RunPlan, RunProgress, estimate_plan, make_plan
from solver_cache.precompute.scheduler import RunOptions, run
from solver_cache.table_entries import ExportableRows
from solver_cache.table_files import format_of, write_table

if TYPE_CHECKING:
    from solver_cache.precompute.executor import Executor


def precompute_grid(
    grid: str | None,
    quantities: dict[str, Any],
    url: str,
    workers: tuple[Any, str | None],
    options: RunOptions,
    output: str | None,
    *,
    dry_run: bool,
    json: bool,
) -> None:
    """Solve and store what is missing of a grid, or say what that would be; ``workers``: processes, and a scheduler."""
    with ExitStack() as stack:
        store = stack.enter_context(closing(_open_target(url, dry_run=dry_run)))
        problems, shown = _read_problems(grid, quantities), _shown(store, url)
        name = grid or "the grid"
        # Each problem would be looked up: of a large grid a sample is enough to decide.
        if dry_run and problems.size > MAX_EXACT_DRY_RUN:
            estimate = _estimated_plan(name, problems, store, shown)
            answer(as_json({"plan": estimate}) if json else estimate["text"])
            return
        if problems.size > MAX_PROBLEMS:
            fail(_too_large(name, problems, store), ExitCode.BAD_INPUT)
        workforce = None
        if not dry_run and workers[1] is None:  # processes start while the plan is made
            workforce = stack.enter_context(closing(_executor(*workers)))
        with _in_file(name), ProgressDisplay(f"planning {problems.size:,} problems"):
            plan = make_plan(problems.specs(), store, design_seconds)
        planned = _plan_record(plan, shown)
        if dry_run:
            answer(as_json({"plan": planned}) if json else _plan_text(planned))
            return
        # To stderr, before hours of work: stdout is for what came of it.
        say(_plan_text(planned))
        outcome: dict[str, Any] | None = None
        if plan.batches:
            if workforce is None:
                workforce = stack.enter_context(closing(_executor(*workers)))
            with ProgressDisplay("solving problems", plan.missing) as display:

                def show(progress: RunProgress) -> None:
                    display.update(_progress_text(progress), progress.over)

                outcome = _outcome_record(run(plan, store, workforce, options, show))
        written, lines = _write_answers(output, problems, store)
    for failure in () if outcome is None else outcome["failures"]:
        say(f"Failed: {failure['text']}")
    record = {"plan": planned, "outcome": outcome, **written}
    text = "Nothing is left to be done." if outcome is None else outcome["text"]
    answer(as_json(record) if json else "\n".join([text, *lines]))
    if outcome is not None and outcome["failures"]:
        end(ExitCode.SOME_FAILED)


MAX_SHOWN = 100  # most answers whose utility is shown in words


def _write_answers(output: str | None, problems: Grid, store: Store) -> tuple[dict[str, Any], list[str]]:
    """Write the stored answers of a grid to a file; return them as plain data and in words, nothing without a file."""
    if output is None:
        return {}, []
    specs = {spec.key: spec for spec in problems.specs()}
    rows = [row for key in specs if (row := store.get(key)) is not None]
    count = write_table(output, ExportableRows(rows), format_of(output, None, "output").name)
    answers = [_answer_record(specs[row.key], row) for row in rows]
    shown = [[str(entry["voters"]), f"{entry['utility']:.4f}", entry["id"]] for entry in answers[:MAX_SHOWN]]
    lines = [columns(["voters", "utility", "id"], shown), f"Written: {count:,} answers to {output}."]
    return {"file": output, "answers": answers}, lines if count <= MAX_SHOWN else lines[1:]


def _answer_record(spec: Spec, row: Row) -> dict[str, Any]:
    """Return who votes, 5 or of groups "2 at 0.1 + 3 at 0.5:1e-5", with the utility of the answer."""
    groups, stored = spec.problem.groups, search_columns(row.record)
    voters: int | str = spec.problem.K
    if not isinstance(spec, DesignSpec) and (len(groups) > 1 or math.isfinite(groups[0].voter.epsilon)):
        voters = " + ".join(f"{group.K} at {profile_text(group.voter).removesuffix(':0.0')}" for group in groups)
    return {"voters": voters, "utility": None if stored is None else stored.utility, "id": row.key}


def _plan_text(record: dict[str, Any]) -> str:
    """Return what would be done, in words."""
    repeats = f", {record['repeated']:,} named twice" if record["repeated"] else ""
    batches = count_text(record["batches"], "batch", "batches")
    stored = "is" if record["stored"] == 1 else "are"
    return (
        f"{count_text(record['problems'], 'problem')}: {record['stored']:,} {stored} stored already{repeats}, "
        f"{record['missing']:,} to be solved in {batches}.\n"
        f"Expected work: {record['work']}. Store: {record['store']}"
    )


def _shown(store: Store, url: str) -> str:
    """Return where answers will be: a dry run holds a store that is not there yet in memory, and reads any other."""
    if store.url == MEMORY and url not in {OFF, MEMORY}:
        return url
    return store.url if "mode=" in url else re.sub("[?&]mode=ro$", "", store.url)


def _open_target(url: str, *, dry_run: bool) -> Store:
    """Open the store; for a dry run one that is not there yet is taken as empty, and is not made."""
    if url in {OFF, MEMORY} and not dry_run:
        raise InvalidInput("url", url, "a store that lasts", "A table needs a persistent store.")
    if dry_run and url not in {OFF, MEMORY}:
        path = parse_url(url).path
        if path is not None and not path.exists():
            return open_cache(MEMORY, reading=False)
    return open_cache(url, reading=dry_run)


MAX_PROBLEMS = 1_000_000
"""Most problems of one run: its plan, which stays in memory, takes a minute and 0.8 GB for as many."""

MAX_EXACT_DRY_RUN = 20_000  # problems up to which a dry run looks at each; beyond it looks at a sample


@contextmanager
def _in_file(grid: str) -> Iterator[None]:
    """End the verb at what is wrong in the grid file, with the place in the file."""
    try:
        yield
    except InvalidInput as err:
        if err.argument == "GRID":  # of the whole file, which it names
            raise
        fail(f"{grid}: {err}", ExitCode.BAD_INPUT)


def _read_problems(grid: str | None, quantities: dict[str, Any]) -> Grid:
    """Return the problems of a grid file, of quantities, or of both; what is wrong in the file ends the verb."""
    if grid is None:
        if not quantities:
            raise InvalidInput("GRID", None, "a grid file, or quantities such as --K and --classes")
        return grid_of(quantities)
    with _in_file(grid):
        return read_grid(grid, quantities)


def _estimated_plan(grid: str, problems: Grid, store: Store, url: str) -> dict[str, Any]:
    """Return about what is to be done, as plain data, from a sample of the grid; what is wrong in it ends the verb."""
    with _in_file(grid), ProgressDisplay("looking at a sample"):
        estimate = estimate_plan(problems, store, design_seconds)
    work = f"{duration(estimate.seconds)} of one processor"
    text = (
        f"About {estimate.problems:,} problems, of which about {estimate.stored:,} are stored already (from a sample "
        f"of {estimate.sampled:,}).\n"
        f"Expected work: {work}. Store: {url}"
    )
    # Said here, and refused where it would be run: an estimate is what helps to divide it.
    if problems.size > MAX_PROBLEMS:
        text += f"\nToo large for one run: at most {MAX_PROBLEMS:,} problems. Divide it, by K for example."
    numbers = {name: getattr(estimate, name) for name in ("problems", "stored", "sampled", "seconds")}
    return {**numbers, "work": work, "store": url, "text": text}


def _too_large(grid: str, problems: Grid, store: Store) -> str:
    estimate = _estimated_plan(grid, problems, store, store.url)
    return (
        f"{grid}: {problems.size:,} combinations, about {estimate['problems']:,} problems and {estimate['work']}: "
        f"expected at most {MAX_PROBLEMS:,} in one run. Divide the grid, by K for example, "
        "or widen its steps; --dry-run estimates each part."
    )


def _executor(workers: Any, scheduler: str | None) -> Executor:
    """Return what solves."""
    processes = None if workers is None else whole_number(workers, "workers", "a whole number of processes, at least 1")
    if scheduler is None:
        from solver_cache.precompute.executor import Processes

        return Processes(processes)
    from solver_cache.precompute.cluster import Cluster

    address, colon, count = scheduler.partition(":")
    if address == "local":
        if colon and not (count.isascii() and count.isdigit() and int(count) > 0):
            raise InvalidInput("scheduler", scheduler, "local, local:COUNT, or an address as tcp://HOST:8786")
        return Cluster(None, int(count) if colon else processes)
    if processes is not None:
        raise InvalidInput("workers", processes, Rule("cannot be combined with --scheduler"), "Its workers solve.")
    return Cluster(scheduler)


def _plan_record(plan: RunPlan, url: str) -> dict[str, Any]:
    """Return what is to be done, as plain data."""
    counts = {name: getattr(plan, name) for name in ("problems", "stored", "repeated", "missing")}
    work = {"seconds": plan.seconds, "work": f"{duration(plan.seconds)} of one processor"}
    return {**counts, "batches": len(plan.batches), **work, "store": url}


def _outcome_record(outcome: RunOutcome) -> dict[str, Any]:
    """Return what came of a run, as plain data, with one text for all of it."""
    progress = outcome.progress
    elsewhere_text = f", {progress.elsewhere:,} by others" if progress.elsewhere else ""
    losses = f", {progress.losses:,} batches lost and tried again" if progress.losses else ""
    failures_text = f", {progress.failed:,} failed" if progress.failed else ""
    limits_text = f" Of {progress.limited:,} nothing better than their gap can be proved." if progress.limited else ""
    text = (
        f"Solved: {progress.solved:,} in {duration(progress.seconds)} ({progress.rate:.3g} a "
        f"second){elsewhere_text}{losses}{failures_text}. Worst gap: {progress.worst_gap:.1e}.{limits_text}"
    )
    names = ("planned", "solved", "elsewhere", "limited", "failed", "losses", "worst_gap", "seconds")
    failures = [_failure_record(failure) for failure in outcome.failures]
    return {**{name: getattr(progress, name) for name in names}, "failures": failures, "text": text}


def _failure_record(failure: Failure) -> dict[str, Any]:

    # The whole question: it can be asked again by `darrm solve`, without the grid.
    problem, asked = failure.spec.problem, question_record(failure.spec)
    if isinstance(failure.spec, DesignSpec):
        voters = (
            f"ε = {problem.voter.epsilon:g}, Δ = {problem.voter.delta:g}"
            if len(problem.voter.points) == 1
            else f"profile {profile_text(problem.voter)}"
        )
    else:
        voters = f"{problem.classes} classes"
    goal = ", ".join(str(asked[name]) for name in ("objective", "shape", "prior") if name in asked)
    question = (
        f"K = {problem.K}, {voters}, affected = {problem.affected}, target ε = {problem.target.epsilon:g}, "
        f"δ = {problem.target.delta:g}, {goal}"
    )
    text = f"{failure.key[:12]}… ({question}): {failure.reason}"
    return {"id": failure.key, **asked, "reason": failure.reason, "text": text}


def duration(seconds: float) -> str:
    """Return a time [s] as people say it.

    >>> duration(0.25), duration(75), duration(9000), duration(1e6), duration(2e9)
    ('0.25 s', '1.2 min', '2.5 h', '12 days', '23,000 days')
    """
    for unit, size, least in (("days", 86400, 172800), ("h", 3600, 5400), ("min", 60, 60)):
        if seconds >= least:
            return f"{float(f'{seconds / size:.2g}'):,g} {unit}"
    return f"{seconds:.2g} s"


def _progress_text(progress: RunProgress) -> str:
    """Return where a run stands, in a few words."""
    remaining = "?" if progress.remaining is None else duration(progress.remaining)
    losses = "".join(
        f", {count:,} {state}" for count, state in ((progress.failed, "failed"), (progress.losses, "lost")) if count
    )
    return f"{progress.rate:.1f} a second, {remaining} left, worst gap {progress.worst_gap:.1e}{losses}"
