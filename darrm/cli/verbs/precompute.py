"""Verb ``darrm precompute``: the γ of a whole grid, on this machine or a cluster."""

from __future__ import annotations

import re
from typing import Annotated, Any

from darrm.cli.parameters import AsJson, StoreUrl, backends, declared_option, named_values, number, options_named
from darrm.cli.parser import Argument, CommandOption, Made, parameters_of

_WHERE, _WHAT = "Where", "What"


_VOTER = "Privacy profile of one voter, instead of --epsilon and --voter-delta."


def _axis(name: str, further: str = "") -> CommandOption:
    """Return a declared field as an option with several values."""
    option = declared_option(name, _WHAT)
    return option._replace(
        description=lambda: f"{option.help.removesuffix('.')}{further}.", values=lambda: f"{option.metavar},…"
    )


_QUANTITIES = {
    "K": CommandOption("--K", "Numbers of voters, such as 11,35 or 20..35.", "COUNT,…|FROM..TO", _WHAT),
    "group": CommandOption(
        "--group",
        "A group of identical voters, with a number or range of attendees: K=0..5,epsilon=0.5,Delta=1e-4 or "
        "K=0..5,profile=0:0.02,0.1:1e-5; repeat for each group, instead of --K: tables for every attendance.",
        "K=…,epsilon=…",
        _WHAT,
        "none",
        several=True,
    ),
    "where": CommandOption(
        "--where",
        "Filter of combinations, such as 'm < (K+1)/2'; K1, K2, … are the sizes of the groups.",
        "FORMULA",
        _WHAT,
        "all of them",
    ),
    "classes": _axis("classes", ": tables for voters that are not private"),
    "epsilon": _axis("epsilon"),
    "Delta": _axis("Delta"),
    "profile": declared_option("profile", _WHAT, words=_VOTER),
    **{name: _axis(name) for name in ("affected", "m", "target_epsilon", "delta")},
    "prior": declared_option("prior", _WHAT),
}
"""Quantities of a grid, each one value, several with commas, a range or a formula; in place of the grid file's."""


def _content(typed: dict[str, Any]) -> dict[str, Any]:
    """Return the quantities that were typed, as a grid file has them."""
    groups = typed.pop("group")
    content = {
        name: text if name in ("prior", "profile", "where") else _values(text)
        for name, text in typed.items()
        if text is not None
    }
    if groups:
        names = (f"K{i}" for i in range(1, len(groups) + 1))
        content = {"where": f"{' + '.join(names)} >= 1", "groups": [_group(text) for text in groups], **content}
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
    quantities: Annotated[dict[str, Any], Made(lambda: parameters_of(_QUANTITIES))],
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
    from darrm.cli.precomputing import precompute_grid
    from solver_cache import cache_url
    from solver_cache.precompute.scheduler import RunOptions

    check_writable(output, "output")
    store_url = url or cache_url(os.environ)
    with options_named(store_url="direct"):
        written_by_workers = store_url if direct else ""
        options = RunOptions(backend, number(time_limit), number(lease), number(attempts), written_by_workers)
    who = number(workers), scheduler
    precompute_grid(grid, _content(quantities), store_url, who, options, output, dry_run=dry_run, json=json)
