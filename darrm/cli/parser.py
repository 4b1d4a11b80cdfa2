"""Command-line parser: how verbs declare their parameters, how words become values, and the help texts.

A verb is a function; each parameter is annotated with a `CommandOption` or an `Argument`, or with the type of a
*group*, a dataclass whose fields are annotated so (``asked: ProblemOptions``). All values are text or truth values:
what the text means is for the core to say, in the same words for every way in.

Why not argparse or Typer: docs/dependencies.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

EVERY_COMMAND = "Every command"
"""Panel of what every command has, and the page about commands says once."""

Text = str | Callable[[], str]
"""A text, or a function that returns it: a registry owns the names in it, and importing that takes long."""


class CommandOption(NamedTuple):
    """Option: ``--name VALUE``, or a flag: ``--name``, or ``--name/--no-name``."""

    flag: str  # how it is typed
    description: Text  # what it is for
    values: Text = ""  # what the value is; none for a flag
    panel: str = "Options"  # heading under which the help shows it
    otherwise: str = ""  # what the help shows as default, if not the default itself
    several: bool = False  # whether it may be typed more than once; its value is then a tuple
    alias: str = ""  # another spelling, which help does not show

    @property
    def help(self) -> str:
        """What it is for."""
        return self.description if isinstance(self.description, str) else self.description()

    @property
    def metavar(self) -> str:
        """What the value is, as the help shows it."""
        return self.values if isinstance(self.values, str) else self.values()


class Argument(NamedTuple):
    """Positional argument; required, unless the parameter has a default."""

    metavar: str
    help: str


class Parameter(NamedTuple):
    """Parameter of a command."""

    name: str  # as in Python
    declared: CommandOption | Argument  # how it is typed
    default: Any  # its value where it is not typed; an argument that is needed has none

    @property
    def flags(self) -> list[str]:
        """How it is typed: of a flag with two, the first means True; none for an argument."""
        if not isinstance(self.declared, CommandOption):
            return []
        return [*self.declared.flag.split("/"), *filter(None, [self.declared.alias])]

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return isinstance(self.declared, CommandOption) and not self.declared.values


class Command(NamedTuple):
    """Verb with its groups of parameters spread out: `call` takes a value for each parameter.

    >>> from darrm.cli import load
    >>> [parameter.name for parameter in Command.of(load("verify")).parameters][:3]
    ['file', 'K', 'epsilon']
    """

    verb: Callable[..., None]
    parameters: tuple[Parameter, ...]
    groups: Mapping[str, Any]

    @classmethod
    def of(cls, verb: Callable[..., None]) -> Command:
        """Return the command of a verb."""
        signature = inspect.signature(verb, eval_str=True).parameters
        groups: dict[str, Any] = {
            name: parameter.annotation for name, parameter in signature.items() if is_dataclass(parameter.annotation)
        }
        parameters = []
        for name, parameter in signature.items():
            members = inspect.signature(groups[name], eval_str=True).parameters if name in groups else {name: parameter}
            parameters += [
                Parameter(member, field.annotation.__metadata__[0], field.default) for member, field in members.items()
            ]
        return cls(verb, tuple(parameters), groups)

    def call(self, values: Mapping[str, Any]) -> None:
        """Run the verb."""
        rest = dict(values)
        groups = {
            name: group(**{field.name: rest.pop(field.name) for field in fields(group)})
            for name, group in self.groups.items()
        }
        self.verb(**groups, **rest)


class UsageError(Exception):
    """The words of a command line cannot be read; the text says why."""


def parse(words: Sequence[str], parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the value of each parameter.

    An option is given in full, with its value in the same word or the next (``--K=11``, ``--K 11``), whatever the value
    begins with; of an option given twice the last one counts, unless it takes several. Behind ``--`` every word is an
    argument.

    >>> count = Parameter("K", CommandOption("--K", "Voters.", "COUNT"), None)
    >>> parse(["--K", "11"], [count])
    {'K': '11'}
    >>> parse(["--k", "11"], [count])
    Traceback (most recent call last):
    darrm.cli.parser.UsageError: No such option: --k. Did you mean --K?
    """
    options = {flag: parameter for parameter in parameters for flag in parameter.flags}
    values = {parameter.name: parameter.default for parameter in parameters}
    arguments = [parameter for parameter in parameters if isinstance(parameter.declared, Argument)]
    rest, only_arguments = list(reversed(words)), False
    while rest:
        word = rest.pop()
        flag, equals, value = word.partition("=")
        # A lone "-" is stdin.
        if only_arguments or word == "-" or not word.startswith("-"):
            if not arguments:
                raise UsageError(f"Got unexpected argument {word!r}.")
            values[arguments.pop(0).name] = word
        elif word == "--":
            only_arguments = True
        elif flag not in options:
            raise UsageError(f"No such option: {flag}.{_suggestion(flag, options)}")
        else:
            option = options[flag]
            typed = _value(option, flag, value if equals else None, rest)
            is_several = isinstance(option.declared, CommandOption) and option.declared.several
            values[option.name] = (*values[option.name], typed) if is_several else typed
    for parameter in arguments:
        if parameter.default is inspect.Parameter.empty:
            raise UsageError(f"Missing argument {parameter.declared.metavar!r}.")
    return values


def _value(option: Parameter, flag: str, inline: str | None, rest: list[str]) -> str | bool:
    """Return the value of an option: that of its own word (``inline``), or else the next word, taken from ``rest``."""
    if option.is_flag:
        if inline is not None:
            raise UsageError(f"Option {flag} takes no value.")
        return flag == option.flags[0]
    if inline is None and not rest:
        raise UsageError(f"Option {flag} needs a value.")
    return rest.pop() if inline is None else inline


HELP = ("--help", "-h")


def parse_verb(words: Sequence[str], verbs: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the verb that the first words name, of one word or of two, and the words behind it.

    ``words`` is not empty. For the name of a group of subcommands alone, or with a request for help, it is that name.
    """
    word, *rest = words
    if word.startswith("-"):
        raise UsageError(f"No such option: {word}.")
    if word in verbs:
        return word, rest
    subcommands = [verb.split()[1] for verb in verbs if verb.startswith(f"{word} ")]
    if not subcommands:
        raise UsageError(f"No such command {word!r}.{_suggestion(word, {verb.split()[0]: None for verb in verbs})}")
    if not rest or rest[0] in HELP:
        return word, rest
    if rest[0] not in subcommands:
        raise UsageError(f"No such command '{word} {rest[0]}'. There are {', '.join(subcommands)}.")
    return f"{word} {rest[0]}", rest[1:]


def verb_help(name: str, command: Command, epilog: str, examples: Sequence[str] = (), *, program: str = "darrm") -> str:
    """Return the help text of a verb, as wide as the terminal but for its examples."""
    arguments = [parameter for parameter in command.parameters if isinstance(parameter.declared, Argument)]
    usage = " ".join([f"Usage: {program}", name, "[OPTIONS]", *(_usage(parameter) for parameter in arguments)])
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in arguments:
        panels.setdefault("Arguments", []).append((parameter.declared.metavar, parameter.declared.help))
    for parameter in command.parameters:
        if isinstance(parameter.declared, CommandOption):
            panels.setdefault(parameter.declared.panel, []).append(
                (f"{parameter.declared.flag} {parameter.declared.metavar}".rstrip(), _option_help(parameter))
            )
    panels[EVERY_COMMAND] = [*panels.pop(EVERY_COMMAND, []), ("-h, --help", "Show this message and exit.")]
    example_text = ["\n".join(["Examples:", *(f"  {example}" for example in examples)])] if examples else []
    description = _fill(inspect.getdoc(command.verb) or "")
    return "\n\n".join([usage, description, *example_text, *_panels(panels), epilog]) + "\n"


def program_help(summary: str, groups: Mapping[str, Mapping[str, str]], epilog: str) -> str:
    """Return the help text of the program: the verbs of each group, each with the first paragraph of its own."""
    options = [("--version", "Print the version and exit."), ("-h, --help", "Show this message and exit.")]
    panels = {title: list(verbs.items()) for title, verbs in groups.items()}
    usage = "Usage: darrm COMMAND [OPTIONS] [ARGUMENTS]\n       darrm COMMAND --help"
    return "\n\n".join([usage, _fill(summary), *_panels({**panels, "Options": options}), epilog]) + "\n"


def group_help(name: str, verbs: Mapping[str, str], epilog: str) -> str:
    """Return the help text of a group of subcommands."""
    usage = f"Usage: darrm {name} COMMAND [OPTIONS]"
    return "\n\n".join([usage, *_panels({"Commands": list(verbs.items())}), epilog]) + "\n"


_DELTAS = ({"--delta", "--Delta"}, {"--delta", "--voter-delta"})
"""The δ of a release is no other spelling of the Δ of a voter."""

RENAMED_OPTIONS = {"--objective": "--prior", "--parameter": "--least"}
"""What to type in place of earlier options."""


def _suggestion(word: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    known = list(names)
    if RENAMED_OPTIONS.get(word) in known:
        return f" It is now {RENAMED_OPTIONS[word]}."
    matches = [name for name in get_close_matches(word, known) if {word, name} not in _DELTAS]
    return f" Did you mean {', '.join(matches)}?" if matches else ""


def _usage(argument: Parameter) -> str:
    metavar = argument.declared.metavar
    return metavar if argument.default is inspect.Parameter.empty else f"[{metavar}]"


def _option_help(parameter: Parameter) -> str:
    """Return an option's help with its default."""
    option = parameter.declared
    default = option.otherwise if isinstance(option, CommandOption) else ""
    if not default and not parameter.is_flag and parameter.default not in {None, ""}:
        default = parameter.default
    return f"{option.help} [default: {default}]" if default else option.help


def _panels(panels: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[str]:
    """Yield each panel: its title, and two columns."""
    import textwrap

    for title, rows in panels.items():
        indent = min(28, 4 + max(len(name) for name, _ in rows))
        lines = [f"{title}:"]
        for name, text in rows:
            label = f"  {name}".ljust(indent)
            if len(label) > indent:
                lines.append(label)
                label = " " * indent
            lines.append(
                textwrap.fill(
                    text, _width(), initial_indent=label, subsequent_indent=" " * indent, break_on_hyphens=False
                )
            )
        yield "\n".join(lines)


def _fill(text: str) -> str:
    """Return paragraphs as wide as the terminal: it, not the source, decides where lines break."""
    import textwrap

    return "\n\n".join(
        textwrap.fill(" ".join(paragraph.split()), _width(), break_on_hyphens=False, break_long_words=False)
        for paragraph in text.split("\n\n")
    )


def _width() -> int:
    import shutil

    return max(60, min(110, shutil.get_terminal_size().columns))
