"""Verb ``darrm precompute``: the γ of a whole grid, on this machine or a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from darrm.cli.output import ExitCode, ProgressDisplay, answer, as_json, end, fail, say
from darrm.cli.parameters import AsJson, StoreUrl, backends, declared_option, named_values, number, options_named
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from solver_cache import Row, Store
    from solver_cache.model import Spec
    from solver_cache.precompute.executor import Executor
    from solver_cache.precompute.grid import Grid
    from solver_cache.precompute.plan import Failure, RunOutcome, RunPlan, RunProgress


_WHERE, _WHAT = "Where", "What"


_VOTER = "Privacy profile of one voter, instead of --epsilon and --voter-delta."


def _axis(name: str, further: str = "") -> CommandOption:
    """Return a declared field as an option with several values."""
    option = declared_option(name, _WHAT)
    return option._replace(
        description=lambda: f"{option.help.removesuffix('.')}{further}.", values=lambda: f"{option.metavar},…"
    )


@dataclass(frozen=True)
class Quantities:
    """Quantities of a grid, each one value, several with commas, a range or a formula; in place of the grid file's."""

    K: Annotated[
        str | None, CommandOption("--K", "Numbers of voters, such as 11,35 or 20..35.", "COUNT,…|FROM..TO", _WHAT)
    ] = None
    group: Annotated[
        tuple[str, ...],
        CommandOption(
            "--group",
            "A group of identical voters, with a number or range of attendees: K=0..5,epsilon=0.5,Delta=1e-4 or "
            "K=0..5,profile=0:0.02,0.1:1e-5; repeat for each group, instead of --K: tables for every attendance.",
            "K=…,epsilon=…",
            _WHAT,
            "none",
            several=True,
        ),
    ] = ()
    where: Annotated[
        str | None,
        CommandOption(
            "--where",
            "Filter of combinations, such as 'm < (K+1)/2'; K1, K2, … are the sizes of the groups.",
            "FORMULA",
            _WHAT,
            "all of them",
        ),
    ] = None
    classes: Annotated[str | None, _axis("classes", ": tables for voters that are not private")] = None
    epsilon: Annotated[str | None, _axis("epsilon")] = None
    Delta: Annotated[str | None, _axis("Delta")] = None
    profile: Annotated[str | None, declared_option("profile", _WHAT, words=_VOTER)] = None
    affected: Annotated[str | None, _axis("affected")] = None
    m: Annotated[str | None, _axis("m")] = None
    target_epsilon: Annotated[str | None, _axis("target_epsilon")] = None
    delta: Annotated[str | None, _axis("delta")] = None
    prior: Annotated[str | None, declared_option("prior", _WHAT)] = None

    def content(self) -> dict[str, Any]:
        """Return those that were typed, as a grid file has them."""
        typed = {option.name: getattr(self, option.name) for option in fields(self) if option.name != "group"}
        content = {
            name: text if name in ("prior", "profile", "where") else _values(text)
            for name, text in typed.items()
            if text is not None
        }
        if self.group:
            names = (f"K{i}" for i in range(1, len(self.group) + 1))
            content = {"where": f"{' + '.join(names)} >= 1", "groups": [_group(text) for text in self.group], **content}
        return content


def _group(text: str) -> dict[str, Any]:
    """Return a group as a grid file has it."""
    alike, has_profile, profile = text.partition(",profile=")
    accepted = "K=COUNT or FROM..TO, and epsilon=NATS, perhaps with Delta=PROBABILITY, or profile=… last; weight=VOTES"
    given = named_values("group", alike, ("K", "epsilon", "Delta", "weight"), accepted)
    values = {name: _values(value) for name, value in given.items()}
    return {**values, "profile": profile} if has_profile else values


def _values(text: str) -> Any:
    if ends := re.fullmatch(r"\s*(\d+)\.\.(\d+)\s*", text):
        return {"from": int(ends[1]), "to": int(ends[2]), "step": 1}
    parts = [number(part.strip()) for part in text.split(",")]
    is_list = len(parts) > 1 and not any(isinstance(part, str) for part in parts)
    return parts if is_list else number(text)


def precompute(
    quantities: Quantities,
    grid: Annotated[
        str | None, Argument("GRID", "The grid file, .toml or .json: see docs/tables.md. Or use the options below.")
    ] = None,
    url: StoreUrl = None,
    output: Annotated[
        str | None,
        CommandOption(
            "--output",
            "Also export these answers to one file, like `darrm export`, and print the utility of each.",
            "FILE",
            otherwise="not written",
        ),
    ] = None,
    workers: Annotated[
        str | None, CommandOption("--workers", "Processes on this machine.", "COUNT", _WHERE, "one for each processor")
    ] = None,
    scheduler: Annotated[
        str | None,
        CommandOption(
            "--scheduler",
            "Dask scheduler whose workers solve, as in tcp://HOST:8786; local:COUNT starts one here, "
            "with COUNT workers.",
            "ADDRESS|local[:COUNT]",
            _WHERE,
        ),
    ] = None,
    backend: Annotated[str, declared_option("backend", values=backends)] = "highs",
    time_limit: Annotated[
        str | None,
        CommandOption("--time-limit", "Time limit of one problem; a problem that exceeds it has failed.", "SECONDS"),
    ] = None,
    attempts: Annotated[str, CommandOption("--attempts", "Attempts per problem.", "COUNT")] = "5",
    lease: Annotated[
        str, CommandOption("--lease", "Seconds until the claims of a killed run expire.", "SECONDS")
    ] = "30",
    *,
    direct: Annotated[
        bool,
        CommandOption(
            "--direct", "Let workers write to the store themselves; they must be able to reach its URL.", panel=_WHERE
        ),
    ] = False,
    dry_run: Annotated[bool, CommandOption("--dry-run", "Print what would be done, and exit.")] = False,
    json: AsJson = False,
) -> None:
    """Design and store every γ or table of a grid, on this machine or on a Dask cluster.

    For a table by attendance, use --K 20..35, or --group K=0..5,… for each group, with --output. Prints the work to
    do first. Progress is kept in the store: an interrupted run continues when it is started again, and concurrent
    runs share the work. Problems that keep failing are listed at the end with the reason, and the exit code is 5.
    """
    import os

    from darrm.cli.files import check_writable
    from solver_cache import cache_url
    from solver_cache.precompute.scheduler import RunOptions, run

    if output is not None:
        check_writable(output, "output")
    store_url = url or cache_url(os.environ)
    with options_named(store_url="direct"):
        run_options = RunOptions(
            backend, number(time_limit), number(lease), number(attempts), store_url if direct else ""
        )
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_target(store_url, dry_run=dry_run)))
        problems = read_problems(grid, quantities.content())
        grid = grid or "the grid"
        # Each problem would be looked up: of a large grid a sample is enough to decide.
        if dry_run and problems.size > MAX_EXACT_DRY_RUN:
            estimate = estimated_plan(grid, problems, store, _shown(store, store_url))
            answer(as_json({"plan": estimate}) if json else estimate["text"])
            return
        if problems.size > MAX_PROBLEMS:
            fail(_too_large(grid, problems, store), ExitCode.BAD_INPUT)
        workforce = None
        if not dry_run and scheduler is None:  # processes start while the plan is made
            workforce = stack.enter_context(closing(make_executor(number(workers), None)))
        plan = read_plan(grid, problems, store)
        plan_record = plan_to_dict(plan, _shown(store, store_url))
        if dry_run:
            answer(as_json({"plan": plan_record}) if json else plan_text(plan_record))
            return
        # To stderr, before hours of work: stdout is for what came of it.
        say(plan_text(plan_record))
        if not plan.batches:
            written = write_answers(output, problems, store)
            record = {"plan": plan_record, "outcome": None, **written.record}
            answer(as_json(record) if json else "\n".join(["Nothing is left to be done.", *written.lines]))
            return
        if workforce is None:
            workforce = stack.enter_context(closing(make_executor(number(workers), scheduler)))
        with ProgressDisplay("solving problems", plan.missing) as display:
            outcome = run(
                plan,
                store,
                workforce,
                run_options,
                lambda progress: display.update(progress_text(progress), progress.over),
            )
        written = write_answers(output, problems, store)
    outcome_record = outcome_to_dict(outcome)
    for line in outcome_record["failures"]:
        say(f"Failed: {line['text']}")
    record = {"plan": plan_record, "outcome": outcome_record, **written.record}
    answer(as_json(record) if json else "\n".join([outcome_record["text"], *written.lines]))
    if outcome.failures:
        end(ExitCode.SOME_FAILED)


class Written(NamedTuple):
    """What was written to a file, as plain data and in words; nothing without a file."""

    record: dict[str, Any]
    lines: list[str]


MAX_SHOWN = 100
"""Most answers whose utility is shown in words."""


def write_answers(output: str | None, problems: Grid, store: Store) -> Written:
    """Write the stored answers of a grid to a file, and return them."""
    from darrm_opt.design.report import columns
    from solver_cache.table_entries import ExportableRows
    from solver_cache.table_files import format_of, write_table

    if output is None:
        return Written({}, [])
    specs = {spec.key: spec for spec in problems.specs()}
    rows = [row for key in specs if (row := store.get(key)) is not None]
    count = write_table(output, ExportableRows(rows), format_of(output, None).name)
    answers = [_answer_record(specs[row.key], row) for row in rows]
    shown = [[str(entry["voters"]), f"{entry['utility']:.4f}", entry["id"]] for entry in answers[:MAX_SHOWN]]
    lines = [columns(["voters", "utility", "id"], shown), f"Written: {count:,} answers to {output}."]
    return Written({"file": output, "answers": answers}, lines if count <= MAX_SHOWN else lines[1:])


def _answer_record(spec: Spec, row: Row) -> dict[str, Any]:
    """Return who votes, 5 or of groups "2 at 0.1 + 3 at 0.5:1e-5", with the utility of the answer."""
    import math

    from darrm_opt.problem import profile_text
    from darrm_opt.record import DesignSpec
    from solver_cache.model import search_columns

    groups, stored = spec.problem.groups, search_columns(row.record)
    voters: int | str = spec.problem.K
    if not isinstance(spec, DesignSpec) and (len(groups) > 1 or math.isfinite(groups[0].voter.epsilon)):
        voters = " + ".join(f"{group.K} at {profile_text(group.voter).removesuffix(':0.0')}" for group in groups)
    return {"voters": voters, "utility": None if stored is None else stored.utility, "id": row.key}


def plan_text(record: dict[str, Any]) -> str:
    """Return what would be done, in words."""
    from darrm_opt.design.report import count_text

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
    from solver_cache.location import MEMORY, OFF

    if store.url == MEMORY and url not in {OFF, MEMORY}:
        return url
    return store.url if "mode=" in url else re.sub("[?&]mode=ro$", "", store.url)


def open_target(url: str, *, dry_run: bool) -> Store:
    """Open the store; for a dry run one that is not there yet is taken as empty, and is not made."""
    from darrm.cli.verbs.cache import open_cache
    from darrm_opt.errors import InvalidInput
    from solver_cache.location import MEMORY, OFF, parse_url

    if url in {OFF, MEMORY} and not dry_run:
        raise InvalidInput("url", url, "a store that lasts", "A table needs a persistent store.")
    if dry_run and url not in {OFF, MEMORY}:
        path = parse_url(url).path
        if path is not None and not path.exists():
            return open_cache(MEMORY, reading=False)
    return open_cache(url, reading=dry_run)


MAX_PROBLEMS = 1_000_000
"""Most problems of one run: its plan, which stays in memory, takes a minute and 0.8 GB for as many."""

MAX_EXACT_DRY_RUN = 20_000
"""Problems up to which a dry run looks at each; beyond it looks at a sample."""


@contextmanager
def _in_file(grid: str) -> Iterator[None]:
    """End the verb at what is wrong in the grid file, with the place in the file."""
    from darrm_opt.errors import InvalidInput

    try:
        yield
    except InvalidInput as err:
        fail(f"{grid}: {err}", ExitCode.BAD_INPUT)


def read_problems(grid: str | None, quantities: dict[str, Any]) -> Grid:
    """Return the problems of a grid file, of quantities, or of both; what is wrong in the file ends the verb."""
    from darrm_opt.errors import InvalidInput
    from solver_cache.precompute.grid import grid_of, read_grid

    if grid is None:
        if not quantities:
            raise InvalidInput("GRID", None, "a grid file, or quantities such as --K and --classes")
        return grid_of(quantities)
    with _in_file(grid):
        return read_grid(grid, quantities)


def read_plan(grid: str, problems: Grid, store: Store) -> RunPlan:
    """Return the plan for the problems of a grid file; what is wrong in the file ends the verb."""
    from darrm_opt.answers.tables import design_seconds
    from solver_cache.precompute.plan import make_plan

    with _in_file(grid), ProgressDisplay(f"planning {problems.size:,} problems"):
        return make_plan(problems.specs(), store, design_seconds)


def estimated_plan(grid: str, problems: Grid, store: Store, url: str) -> dict[str, Any]:
    """Return about what is to be done, as plain data, from a sample of the grid; what is wrong in it ends the verb."""
    from darrm_opt.answers.tables import design_seconds
    from solver_cache.precompute.plan import estimate_plan

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
    estimate = estimated_plan(grid, problems, store, store.url)
    return (
        f"{grid}: {problems.size:,} combinations, about {estimate['problems']:,} problems and {estimate['work']}: "
        f"expected at most {MAX_PROBLEMS:,} in one run. Divide the grid, by K for example, "
        "or widen its steps; --dry-run estimates each part."
    )


def make_executor(workers: Any, scheduler: str | None) -> Executor:
    """Return what solves."""
    from darrm_opt.arguments import whole_number
    from darrm_opt.errors import InvalidInput, Rule

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


def plan_to_dict(plan: RunPlan, url: str) -> dict[str, Any]:
    """Return what is to be done, as plain data."""
    counts = {name: getattr(plan, name) for name in ("problems", "stored", "repeated", "missing")}
    work = {"seconds": plan.seconds, "work": f"{duration(plan.seconds)} of one processor"}
    return {**counts, "batches": len(plan.batches), **work, "store": url}


def outcome_to_dict(outcome: RunOutcome) -> dict[str, Any]:
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
    failures = [_failure_to_dict(failure) for failure in outcome.failures]
    return {**{name: getattr(progress, name) for name in names}, "failures": failures, "text": text}


def _failure_to_dict(failure: Failure) -> dict[str, Any]:
    from darrm_opt.problem import profile_text
    from darrm_opt.record import DesignSpec
    from solver_cache.model import question_record

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


def progress_text(progress: RunProgress) -> str:
    """Return where a run stands, in a few words."""
    remaining = "?" if progress.remaining is None else duration(progress.remaining)
    losses = "".join(
        f", {count:,} {state}" for count, state in ((progress.failed, "failed"), (progress.losses, "lost")) if count
    )
    return f"{progress.rate:.1f} a second, {remaining} left, worst gap {progress.worst_gap:.1e}{losses}"
