"""Verb ``darrm reproduce``: figures and tables of papers, and their experiments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from darrm.cli import AddedVerb
from darrm.cli.output import ProgressDisplay, answer, as_json, say
from darrm.cli.parameters import AsJson, number
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from darrm_papers.darrm.printed import Reproduction


def reproduce(
    name: Annotated[
        str | None,
        Argument(
            "NAME",
            "A figure or table of the paper, such as figure-2 or table-1, or of a companion, such as dpbag-labels.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        CommandOption(
            "--output", "Write a .json of each, and its picture as .png, into this folder.", "DIR", otherwise="none"
        ),
    ] = None,
    data: Annotated[
        str | None,
        CommandOption(
            "--data",
            "Folder with the IDX files of MNIST or Fashion-MNIST, for the experiments beside scikit-learn's digits; or "
            "with adult.data, for bagging-figures and sign-sgd.",
            "DIR",
            otherwise="digits alone",
        ),
    ] = None,
    seed: Annotated[str, CommandOption("--seed", "Seed of all random draws.", "NUMBER")] = "0",
    *,
    every: Annotated[bool, CommandOption("--all", "Reproduce all items.")] = False,
    listed: Annotated[bool, CommandOption("--list", "List the items and how each is reproduced.")] = False,
    quick: Annotated[bool, CommandOption("--quick", "Run a small part, as a quick test.")] = False,
    json: AsJson = False,
) -> None:
    """Recompute figures and tables of the DaRRM paper and its companions, and compare the numbers.

    Numbers of the paper that are not at hand are marked "not printed here". Experiments use public data and seeded
    noise: they measure accuracy and release nothing.
    """
    from darrm_opt.design.report import columns
    from darrm_opt.errors import InvalidInput
    from darrm_papers.darrm import REPRODUCTIONS, canonical
    from darrm_papers.darrm import reproduce as reproduced

    if listed:
        answer(as_json(REPRODUCTIONS) if json else columns_left(list(REPRODUCTIONS.items())))
        return
    if every == (name is not None):
        raise InvalidInput("NAME", name, "a figure or a table, or --all, or --list", "One of them.")
    names = tuple(REPRODUCTIONS) if every else (canonical(str(name)),)
    # Before the first of them: all take hours.
    folder = None if output is None else _folder(output)
    contents = []
    for i, canonical_name in enumerate(names):
        if every:
            say(f"{canonical_name} ({i + 1} of {len(names)})")
        with ProgressDisplay(f"computing {canonical_name}"):
            reproduction = reproduced(canonical_name, data=data, quick=quick, seed=number(seed))
        record = reproduction.content()
        if folder is not None:
            record["files"] = _write_files(folder, reproduction)
        contents.append(record)
        # Each as soon as it is there; JSON is one value, at the end.
        if not json:
            visible_tables = [table for table in reproduction.tables if table.shown]
            tables = [
                f"{table.title}\n{columns([head for head, _ in table.heads], table.written())}"
                for table in visible_tables
            ]
            files = [f"Written: {', '.join(record['files'])}"] if folder is not None else []
            answer("\n\n".join([reproduction.title, *tables, *reproduction.notes, *files]) + ("\n" if every else ""))
    if json:
        answer(as_json(contents if every else contents[0]))


def columns_left(rows: list[tuple[str, str]]) -> str:
    """Return names and what they are, one a line."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name.ljust(width)}  {description}" for name, description in rows)


def _folder(output: str) -> Path:
    """Return the folder, made if it is not there."""
    from darrm.cli.files import check_writable
    from darrm_opt.errors import InvalidInput
    from darrm_opt.figures import check_drawable

    check_drawable("png")
    if output == "-":
        check_writable(output, "output")
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise InvalidInput("output", output, "a folder that can be written", f"{err.strerror}.") from err
    check_writable(str(folder / "x.json"), "output")
    return folder


def _write_files(folder: Path, reproduction: Reproduction) -> list[str]:
    from darrm.cli.files import write_json, write_whole
    from darrm_opt.figures import render

    files = [folder / f"{reproduction.name}.json"]
    write_json(files[0], reproduction.content())
    if reproduction.draw is not None:
        files.append(folder / f"{reproduction.name}.png")
        write_whole(files[1], render(reproduction.draw(), "png"))
    return [str(file) for file in files]


REPRODUCE = AddedVerb(
    reproduce,
    "Reproduce the papers",
    ("darrm reproduce --list", "darrm reproduce table-1 --quick --output figures"),
    uses_threads=True,
)
