"""The verbs as a Typer application: help, suggestions, and messages about what cannot be parsed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from api.cli.declared import Argument, Command, Parameter
from api.cli.outcome import EXIT_CODES, reported
from api.cli.verbs import VERBS, load


@cache
def _command(name: str) -> Any:
    """Return the Typer command of a verb."""
    verb = Command.of(load(name))

    def run(**given: Any) -> None:
        with reported():
            verb.call(given)

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what Typer reads
        [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for each in verb.parameters
            for default, annotation in [_typer_parameter(each)]
        ]
    )
    holder = typer.Typer(add_completion=False)
    holder.command(name, help=unwrapped(inspect.getdoc(verb.verb) or ""), epilog=EXIT_CODES)(run)
    return typer.main.get_command(holder)


def _typer_parameter(parameter: Parameter) -> tuple[Any, Any]:
    """Return default and annotation: a text or a truth value, and how Typer shows it."""
    declared = parameter.declared
    if isinstance(declared, Argument):
        return parameter.default, Annotated[str, typer.Argument(metavar=declared.metavar, help=declared.help)]
    kind: Any = bool if parameter.is_flag else str
    shown = typer.Option(
        declared.flag,
        help=declared.help,
        metavar=declared.metavar or None,
        show_default=declared.otherwise or not parameter.is_flag,
        rich_help_panel=declared.panel,
    )
    return parameter.default, Annotated[kind | None if parameter.default is None else kind, shown]


class _Commands(Mapping[str, Any]):
    """The commands by name, each built when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if name not in VERBS:
            raise KeyError(name)
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class _Darrm(TyperGroup):
    """The group of all verbs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": _Commands()})


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


def unwrapped(text: str) -> str:
    r"""Return each paragraph on one line: the terminal, not the source, decides where lines break.

    >>> unwrapped("One sentence\n    here.\n\n    Another.")
    'One sentence here.\n\nAnother.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
