"""Verbs about stored answers: ``darrm cache …``, ``darrm export`` and ``darrm import``."""

from __future__ import annotations

import itertools
import time
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ExitCode, ProgressDisplay, answer, as_json, end, say
from darrm.cli.parameters import AsJson, StoreUrl, TableFormat, number
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from solver_cache import Row, Store
    from solver_cache.database.designs import DesignFilter


def cache_ls(
    url: StoreUrl = None,
    limit: Annotated[str, CommandOption("--limit", "Maximum number of answers.", "COUNT")] = "50",
    after: Annotated[str, CommandOption("--after", "Start after this id.", "ID", otherwise="the start")] = "",
    K: Annotated[str | None, CommandOption("--K", "Only answers for this number of voters.", "COUNT")] = None,
    epsilon: Annotated[str | None, CommandOption("--epsilon", "Only answers for voters with this ε.", "NATS")] = None,
    m: Annotated[str | None, CommandOption("--m", "Only answers with this allowance.", "NUMBER")] = None,
    tag: Annotated[str | None, CommandOption("--tag", "Only answers with this tag.", "TAG")] = None,
    *,
    newest: Annotated[bool, CommandOption("--newest", "Newest first, instead of in the order of ids.")] = False,
    count: Annotated[
        bool, CommandOption("--count", "Print the numbers of answers and jobs, and their size, instead.")
    ] = False,
    json: AsJson = False,
) -> None:
    """List or count stored answers, without verifying or changing them.

    With --newest or any filter, lists answers of this version only, newest first.
    """
    from darrm_opt.errors import InvalidInput, Rule
    from solver_cache.database.designs import DesignFilter

    criteria = {name: number(text) for name, text in (("K", K), ("epsilon", epsilon), ("m", m)) if text is not None}
    for name, value in criteria.items():
        if isinstance(value, str):
            raise InvalidInput(name, value, "a number")
    # Only with a choice: the index knows rows of this version alone, and a list by id shows all of them.
    filter_ = DesignFilter(**criteria, tag=tag) if criteria or tag is not None or newest else None
    if count:
        if filter_ is not None or after:
            raise InvalidInput("count", "--count", Rule("cannot be combined with a choice of answers"))
        with closing(open_cache(url, reading=True)) as store:
            counts = {"url": store.url, **asdict(store.stats())}
        answer(as_json(counts) if json else "\n".join(f"{name:8s} {_plain(value)}" for name, value in counts.items()))
        return
    with closing(open_cache(url, reading=True)) as store:
        answers = list_answers(store, number(limit), after, filter_)
    answer(as_json(answers) if json else _rows(answers))


def cache_tag(
    id: Annotated[str, Argument("ID", "Id of an answer, as listed by `darrm cache ls`.")],
    tag: Annotated[str, Argument("TAG", "1 to 64 letters, digits, dots, hyphens and underscores.")],
    url: StoreUrl = None,
    *,
    remove: Annotated[bool, CommandOption("--remove", "Remove the tag.")] = False,
    json: AsJson = False,
) -> None:
    """Tag a stored answer, for all users of the store. The answer itself does not change."""
    from darrm_opt.errors import InvalidInput

    with closing(open_cache(url, reading=False)) as store:
        design = store.designs.untag(id, tag) if remove else store.designs.tag(id, tag)
    if design is None:
        raise InvalidInput("id", id, "the id of a stored answer", "`darrm cache ls` lists them.")
    answer(as_json({"id": id, "tags": list(design.tags)}) if json else f"{id}: {', '.join(design.tags) or 'no tags'}")


def cache_check(
    url: StoreUrl = None,
    *,
    migrate: Annotated[
        bool,
        CommandOption("--migrate", "First migrate the tables of an earlier version, as any writing command does."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Verify every stored answer; the exit code is 0 only if all of them pass."""
    from solver_cache import check

    with closing(open_cache(url, reading=not migrate)) as store, ProgressDisplay("proving stored answers"):
        if migrate:
            schema = store.stats().schema
            say(f"Schema {getattr(store, 'found_schema', schema)} -> {schema}.")
        problems = [asdict(finding) for finding in check(store)]
    text = "\n".join(f"{problem['key'] or store.url}: {problem['trouble']}" for problem in problems)
    answer(as_json(problems) if json else text or "Nothing is wrong: every answer was proved again.")
    if problems:
        end(ExitCode.UNAVAILABLE)


def cache_rm(
    id: Annotated[str | None, Argument("ID", "Id of an answer, as listed by `darrm cache ls`.")] = None,
    url: StoreUrl = None,
    megabytes: Annotated[
        str | None,
        CommandOption(
            "--megabytes", "Remove the least recently read answers until the records take at most this.", "MB"
        ),
    ] = None,
    days: Annotated[
        str | None,
        CommandOption(
            "--days", "Remove answers not read for this many days; with --defective, jobs that ended before.", "DAYS"
        ),
    ] = None,
    *,
    defective: Annotated[
        bool,
        CommandOption(
            "--defective", "Remove answers that a lookup would reject, and jobs older than 30 or --days days."
        ),
    ] = False,
    prove: Annotated[
        bool, CommandOption("--prove", "With --defective: verify every answer, to find those that fail.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Remove stored answers: one, defective ones, or the least recently read beyond a size or an age.

    Limits of size and age keep tagged answers; storing counts as reading. A service does the same with
    DARRM_MAX_STORED_BYTES and DARRM_MAX_STORED_DAYS. Removed answers can be solved again. A SQLite file keeps its
    size and reuses the space.
    """
    from darrm_opt.errors import InvalidInput, Rule
    from solver_cache.database.designs import not_since

    def bound(name: str, text: str | None, largest: float) -> float | None:
        value = None if text is None else number(text)
        if value is not None and (not isinstance(value, int | float) or not 0 <= value <= largest):
            raise InvalidInput(name, value, f"a number from 0 to {largest:g}")
        return value

    size, age = bound("megabytes", megabytes, 1e9), bound("days", days, 36_500)
    if prove and not defective:
        raise InvalidInput("prove", "--prove", Rule("needs --defective"))
    if (id is None) == (size is None and age is None and not defective) or (defective and size is not None):
        raise InvalidInput("ID", id, "the id of one answer, --defective, or --megabytes or --days", "One of them.")
    with closing(open_cache(url, reading=False)) as store:
        if defective:
            removed = _remove_defective(store, 30.0 if age is None else age, prove=prove)
        elif id is None:
            before = None if age is None else not_since(age)
            removed = {"answers": store.designs.evict(None if size is None else int(size * 1e6), before)}
        else:
            row = store.get(id)
            if row is None:
                raise InvalidInput("ID", id, "the id of an answer that is stored", "`darrm cache ls` lists them.")
            removed = {"answers": int(store.remove(row))}
    text = ", ".join(f"{count:,} {name}" for name, count in removed.items())
    answer(as_json(removed) if json else f"Removed: {text}.")


def _remove_defective(store: Store, days: float, *, prove: bool) -> dict[str, int]:
    """Remove answers that would be misses, and jobs that ended longer ago; return how many."""
    from solver_cache import validate_row
    from solver_cache.validate import InvalidRow, read_row

    def is_answer(row: Row) -> bool:
        if prove:
            return validate_row(row).decision == "hit"
        try:
            read_row(row)  # its hash, version and form
        except InvalidRow:
            return False
        return True

    with ProgressDisplay("looking for defects"):
        answers = sum(store.remove(row) for row in store.rows() if not is_answer(row))
        return {"answers": answers, "jobs": store.jobs.prune(time.time() - days * DAY)}


def _rows(answers: list[dict[str, Any]]) -> str:
    from darrm_opt.design.report import columns
    from solver_cache.model import FIELD_NAMES

    heads = ["id", "K", "ε", "Δ", "affected", "target ε", "δ", "objective", "shape", "utility", "tags"]
    rows = []
    for entry in answers:
        shown = entry | _shown_groups(entry["objective"])
        rows.append([entry["id"], *(_cell(shown[name]) for name in FIELD_NAMES), " ".join(entry["tags"])])
    for name in ("profile", "targets"):  # columns of their own where an answer has any: ε:δ of each point
        if any(name in entry for entry in answers):
            heads = [*heads, name]
            for row, entry in zip(rows, answers, strict=True):
                row.append(",".join(f"{epsilon:g}:{delta:g}" for epsilon, delta in entry.get(name, ())))
    return columns(heads, rows) if rows else "Nothing is stored here."


def _shown_groups(objective: str | None) -> dict[str, str]:
    """Return the prior of a table for groups, and ε and Δ of each group, as a list shows them; else nothing."""
    from json import loads

    from darrm_opt.questions.question import plain_spelling
    from darrm_opt.untrusted import UNREADABLE

    goal, is_of_groups, groups = (objective or "").partition(" groups ")
    if not is_of_groups:
        return {}
    values = dict[str, list[str]](epsilon=[], Delta=[])
    try:
        stated = loads(goal)
        price = f", price {stated['price']:g}" if stated["price"] else ""
        prior = f"{plain_spelling(stated['objective'])}{price}"
        for group in groups.split():
            fields = dict(part.split("=", 1) for part in group.partition(",profile=")[0].split(","))
            is_curve = "epsilon" not in fields
            values["epsilon"].append("profile" if is_curve else f"{float(fields['epsilon']):g}")
            values["Delta"].append("profile" if is_curve else f"{float(fields.get('Delta', 0)):g}")
    except UNREADABLE:  # a damaged row
        return {}
    shown = {name: ", ".join(texts if len({*texts}) > 1 else texts[:1]) for name, texts in values.items()}
    return shown | {"objective": prior}


def _cell(value: Any) -> str:
    if value is None:
        return "?"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{number} {state}" for state, number in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def export(
    output: Annotated[str | None, CommandOption("--output", "The output file.", "FILE")] = None,
    format: TableFormat = None,  # noqa: A002 — the option's name
    url: StoreUrl = None,
    *,
    json: AsJson = False,
) -> None:
    """Export every stored answer, with its certificate, to one file that jobs can read offline.

    The same answers produce the same file, byte for byte. A job reads it with DarrmClient("file:///…"), which
    verifies each answer on use; `darrm import` loads it into another store. Rows of another version are left out.
    """
    from darrm.cli.files import check_writable
    from darrm_opt.errors import InvalidInput
    from solver_cache.table_entries import ExportableRows
    from solver_cache.table_files import format_of, write_table

    if output is None:
        raise InvalidInput("output", None, "a file to be written")
    check_writable(output, "output")
    table_format = format_of(output, format, "output")
    with closing(open_cache(url, reading=True)) as store:
        # One row at a time: a store may be larger than memory.
        rows = ExportableRows(store.rows())
        count = write_table(output, rows, table_format.name)
    left_out = rows.left_out
    if left_out:
        say(
            f"Warning: {left_out:,} rows are of another version or damaged, "
            "and left out (`darrm cache check` names them)."
        )
    record = {"file": output, "format": table_format.name, "rows": count, "left_out": left_out}
    answer(as_json(record) if json else f"Written: {count:,} answers to {output} ({table_format.name}).")


def import_(
    file: Annotated[str, Argument("FILE", "A file written by `darrm export`.")],
    format: TableFormat = None,  # noqa: A002 — the option's name
    url: StoreUrl = None,
    *,
    json: AsJson = False,
) -> None:
    """Import a table into the store. Every row is verified; rejected rows are listed with the reason.

    Answers that are already stored are kept. If a row is rejected, the others are stored and the exit code is 5.
    """
    import os

    from darrm_opt.process import usable_processors
    from solver_cache.table_entries import import_rows
    from solver_cache.table_files import format_of, read_table

    table_format = format_of(file, format, "FILE")
    counts = {"new": 0, "known": 0, "refused": 0}
    refusals = []
    with closing(open_cache(url, reading=False)) as store:
        processes = usable_processors() if os.name == "posix" else 1
        for row in import_rows(read_table(file, table_format.name), store, processes):
            counts[row.became] += 1
            if row.became == "refused":
                refusals.append({"row": row.number, "id": row.key, "reason": row.reason})
                # As it comes: a table may take hours, and stdout is for the answer.
                say(f"Row {row.number} is refused: {row.reason}")
    record = {"file": file, "format": table_format.name, **counts, "rows_refused": refusals}
    text = f"New: {counts['new']:,}; known already: {counts['known']:,}; refused: {counts['refused']:,}."
    answer(as_json(record) if json else text)
    if refusals:
        end(ExitCode.SOME_FAILED)


DAY = 86_400  # seconds in a day


def open_cache(url: str | None, *, reading: bool) -> Store:
    """Open a store; to look at a database, for reading only: so that looking makes and migrates nothing."""
    import os

    from solver_cache import cache_url, open_store

    url = url or cache_url(os.environ)
    if reading and "://" in url and "mode=" not in url:
        url += ("&" if "?" in url else "?") + "mode=ro"
    return open_store(url)


MAX_ROWS = 10**9  # most stored answers of one list by id


def list_answers(store: Store, limit: Any, after: str, filter_: DesignFilter | None = None) -> list[dict[str, Any]]:
    """Return stored answers as their records describe them, with their tags; nothing is proved.

    At most ``limit``, behind the id ``after`` ("": from the start). Without a filter all are listed, by id; else
    those of this version that fit, the newest first.
    """
    from darrm_opt.errors import InvalidInput
    from solver_cache import CORE
    from solver_cache.model import FIELD_NAMES, search_columns

    if not isinstance(limit, int) or not 1 <= limit <= MAX_ROWS:
        raise InvalidInput("limit", limit, f"a whole number from 1 to {MAX_ROWS}")
    if filter_ is None:
        # Whatever is stored is listed, damaged rows too: a list is where one looks for them.
        rows = itertools.islice(store.rows(after), limit)
        entries = ((row.key, row.core, search_columns(row.record), store.designs.get(row.key)) for row in rows)
    else:
        entries = (
            (design.key, CORE, design.about, design) for design in store.designs.list(filter_, limit, after or None)
        )
    answers = []
    for key, core, description, design in entries:
        columns = dict.fromkeys(FIELD_NAMES) if description is None else description.fields()
        tags = [] if design is None else list(design.tags)
        points = {} if design is None else design.points
        answers.append({"id": key, "core": core, **columns, **points, "tags": tags})
    return answers
