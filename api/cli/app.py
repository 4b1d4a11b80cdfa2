"""The verbs of ``darrm``, each imported when it is asked for: what a verb does not use, it does not wait for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any

import typer

from api.cli.options import with_groups
from api.cli.outcome import EXIT_CODES, reported
from api.cli.text import Verb, Verbs

VERBS = ("solve", "verify", "curve", "serve")
"""Names of the verbs, in the order of the help; each is the function of that name in ``api.cli.verbs.<name>``."""


@cache
def _command(name: str) -> Any:
    verb = getattr(importlib.import_module(f"api.cli.verbs.{name}"), name)
    holder = typer.Typer(add_completion=False)
    holder.command(name, cls=Verb, epilog=EXIT_CODES)(with_groups(verb))
    return typer.main.get_command(holder)


class _LazyCommands(Mapping[str, Any]):
    """The commands by name, built one at a time."""

    def __getitem__(self, name: str) -> Any:
        if name not in VERBS:
            raise KeyError(name)
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class _Darrm(Verbs):
    """The group of all verbs; what goes wrong in one becomes a message and an exit code here."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": _LazyCommands()})

    def invoke(self, ctx: Any) -> Any:
        with reported():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Darrm,
    help="Design, prove and use the optimal private majority vote.\n\n"
    "K voters, each (ε, Δ)-differentially private, answer 0 or 1; one bit is released, as close to their majority as "
    "(mε, δ)-differential privacy allows.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 — Typer calls it with the flag's value
    if asked:
        from darrm_opt._version import __version__

        typer.echo(f"darrm {__version__}")
        raise typer.Exit


@app.callback()
def darrm(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Take what concerns no verb in particular."""
