"""``darrm cache``."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

from api.cli.declared import Argument, Option
from api.cli.options import AsJson, StoreUrl, number
from api.cli.outcome import ExitCode, answer, end

ACTIONS = ("ls", "stats", "check", "prune", "migrate")


def cache(
    action: Annotated[str, Argument("|".join(ACTIONS), "What to do.")],
    url: StoreUrl = None,
    limit: Annotated[str, Option("--limit", "ls: at most so many.", "COUNT")] = "50",
    after: Annotated[str, Option("--after", "ls: continue behind this id.", "ID", otherwise="the start")] = "",
    days: Annotated[str, Option("--days", "prune: jobs that were over so long ago.", "DAYS")] = "30",
    *,
    prove: Annotated[bool, Option("--prove", "prune: prove every answer again, to find those that fail.")] = False,
    json: AsJson = False,
) -> None:
    """List, count, check, prune or migrate the answers that are kept.

    ls, stats and check only read: they make no file and change none. check proves every answer again, and fails if
    anything is wrong. prune forgets answers that would be misses anyway, and old jobs. migrate brings the tables of an
    earlier release up to date; every other use that may write does so too.
    """
    from api.cli import caching
    from api.cli.report import as_json
    from darrm_opt.errors import InvalidInput

    if action not in ACTIONS:
        raise InvalidInput("ACTION", action, "one of " + ", ".join(ACTIONS))
    found: Any
    reading = action in {"ls", "stats", "check"}
    with closing(caching.opened(url, reading=reading)) as store:
        if action == "ls":
            found = caching.listed(store, number(limit), after)
            text = _rows(found)
        elif action == "stats":
            found = caching.counted(store)
            text = "\n".join(f"{name:8s} {_plain(value)}" for name, value in found.items())
        elif action == "check":
            found = caching.checked(store)
            text = "\n".join(f"{each['key'] or store.url}: {each['trouble']}" for each in found)
            text = text or "Nothing is wrong: every answer was proved again."
        elif action == "prune":
            found = caching.pruned(store, number(days), prove=prove)
            text = f"Forgotten: {found['answers']:,} answers, {found['jobs']:,} jobs."
        else:
            found = caching.migrated(store)
            text = f"Schema {found['from']} -> {found['to']}; {found['filled']:,} rows filled in."
    answer(as_json(found) if json else text)
    if action == "check" and found:
        end(ExitCode.UNAVAILABLE)


def _rows(found: list[dict[str, Any]]) -> str:
    from api.cli.report import columns

    heads = ["id", "K", "ε", "Δ", "affected", "target ε", "δ", "objective", "shape", "utility"]
    names = ["K", "epsilon", "Delta", "affected", "target_epsilon", "delta", "objective", "shape", "utility"]
    rows = [[each["id"], *(_cell(each[name]) for name in names)] for each in found]
    return columns(heads, rows) if rows else "Nothing is kept here."


def _cell(value: Any) -> str:
    if value is None:
        return "?"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{number} {state}" for state, number in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
