"""How verbs declare their parameters: once, for the reader of plain command lines and for Typer.

A verb is a function; each parameter is annotated with an `Option` or an `Argument`, or with the type of a *group*, a
dataclass whose fields are annotated so (``asked: ProblemOptions``). All values are text or truth values: what the text
means is for the core to say, in the same words for every way in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple


class Option(NamedTuple):
    """``--name VALUE``, or a flag: ``--name``, or ``--name/--no-name``.

    Args:
        flag: how it is typed.
        help: what it is for.
        metavar: what the value is; none for a flag.
        panel: heading under which the help shows it.
        otherwise: what the help shows as default, if not the default itself.
    """

    flag: str
    help: str
    metavar: str = ""
    panel: str = "Options"
    otherwise: str = ""


class Argument(NamedTuple):
    """A word without a name before it; needed, unless the parameter has a default."""

    metavar: str
    help: str


class Parameter(NamedTuple):
    """One parameter of a command.

    Attributes:
        name: as in Python.
        declared: how it is typed.
        default: its value where it is not typed; an argument that is needed has none.
    """

    name: str
    declared: Option | Argument
    default: Any

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return isinstance(self.declared, Option) and not self.declared.metavar


class Command(NamedTuple):
    """A verb with its groups spread out: `call` takes a value for each of the parameters.

    >>> from api.cli.verbs import load
    >>> [parameter.name for parameter in Command.of(load("verify")).parameters][:3]
    ['file', 'K', 'm']
    """

    verb: Callable[..., None]
    parameters: tuple[Parameter, ...]
    groups: Mapping[str, Any]

    @classmethod
    def of(cls, verb: Callable[..., None]) -> Command:
        """Return the command of a verb."""
        own = inspect.signature(verb, eval_str=True).parameters
        groups: dict[str, Any] = {name: at.annotation for name, at in own.items() if is_dataclass(at.annotation)}
        parameters = []
        for name, each in own.items():
            spread = inspect.signature(groups[name], eval_str=True).parameters if name in groups else {name: each}
            parameters += [Parameter(one, at.annotation.__metadata__[0], at.default) for one, at in spread.items()]
        return cls(verb, tuple(parameters), groups)

    def call(self, given: Mapping[str, Any]) -> None:
        """Run the verb."""
        left = dict(given)
        built = {
            name: group(**{field.name: left.pop(field.name) for field in fields(group)})
            for name, group in self.groups.items()
        }
        self.verb(**built, **left)
