"""Command-line parser: how verbs declare their parameters, how words become values, and the help texts.

A verb is a function; each parameter is annotated with a `CommandOption` or an `Argument`, or with options that are
`Made` of a table or a question, which it gets by name. All values are text or truth values: what the text means is for
the core to say, in the same words for every way in.

argparse writes the help texts, and shtab the completion from it; it does not read the words: docs/dependencies.md.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser

ADVANCED = "Advanced"  # panel of options that few need: last, and by their names alone in the short help
EVERY_COMMAND = "Every command"  # panel of what every command has, and the page about commands says once

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
    field: Any = None  # the declared field that it is, as a question narrows it

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
    check: Callable[[str], object] | None = None  # refuses a value on which the options depend, before unknown ones are


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


class Made(NamedTuple):
    """Options that are made from a registry, which takes long to import; the verb gets what was typed, by name."""

    parameters: Callable[[], list[Parameter]]


def parameters_of(options: Mapping[str, CommandOption]) -> list[Parameter]:
    """Return options by their names, each without a value where it is not typed."""
    return [Parameter(name, option, () if option.several else None) for name, option in options.items()]


class Command(NamedTuple):
    """Verb with its groups of parameters spread out: `call` takes a value for each parameter.

    >>> from darrm.cli import load
    >>> [parameter.name for parameter in Command.of(load("verify")).parameters][:3]
    ['file', 'K', 'epsilon']
    """

    verb: Callable[..., None]
    parameters: tuple[Parameter, ...]
    groups: Mapping[str, tuple[str, ...]]  # names of the options that are made, by the parameter that takes them

    @classmethod
    def of(cls, verb: Callable[..., None]) -> Command:
        """Return the command of a verb."""
        groups: dict[str, tuple[str, ...]] = {}
        parameters = []
        for name, parameter in inspect.signature(verb, eval_str=True).parameters.items():
            declared = parameter.annotation.__metadata__[0]
            if not isinstance(declared, Made):
                parameters.append(Parameter(name, declared, parameter.default))
                continue
            found = declared.parameters()
            groups[name] = tuple(each.name for each in found)
            parameters += found
        return cls(verb, tuple(parameters), groups)

    def call(self, values: Mapping[str, Any]) -> None:
        """Run the verb."""
        rest = dict(values)
        groups = {name: {each: rest.pop(each) for each in names} for name, names in self.groups.items()}
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
        # a lone "-" is stdin.
        if only_arguments or word == "-" or not word.startswith("-"):
            if not arguments:
                raise UsageError(f"Got unexpected argument {word!r}.")
            values[arguments.pop(0).name] = word
        elif word == "--":
            only_arguments = True
        elif flag not in options:
            for each in parameters:
                typed = values[each.name]
                if isinstance(each.declared, Argument) and each.declared.check is not None and isinstance(typed, str):
                    each.declared.check(typed)
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


def verb_help(
    name: str, command: Command, examples: Sequence[str] = (), *, full: bool = False, program: str = "darrm"
) -> str:
    """Return the help text of a verb: in short, or with all that is said of it and of its options."""
    text = inspect.getdoc(command.verb) or ""
    shown = [_fill(text if full else text.partition("\n\n")[0])]
    if examples:
        shown.append("\n".join(["examples:", *(f"  {example}" for example in examples)]))
    more = [] if full or program != "darrm" else [f"darrm help {name}: all of this in full. {MORE}"]
    return help_parser(
        name, command, "\n\n".join(shown), _fill("".join(more)), full=full, program=program
    ).format_help()


MORE = "Topics: exit-codes, sampling, questions."  # last line of the help


def help_parser(
    name: str, command: Command, text: str = "", more: str = "", *, full: bool = True, program: str = "darrm"
) -> ArgumentParser:
    """Return a verb as argparse has it, for help and completion."""
    arguments = [parameter for parameter in command.parameters if isinstance(parameter.declared, Argument)]
    usage = " ".join([program, name, "[OPTIONS]", *(_usage(parameter) for parameter in arguments)])
    parser = _parser(usage, text, more)
    panels: dict[str, list[Parameter]] = {}
    for parameter in (*arguments, *command.parameters):
        declared = parameter.declared
        panel = declared.panel if isinstance(declared, CommandOption) else "Arguments"
        if isinstance(declared, CommandOption) or panel not in panels or parameter not in panels[panel]:
            panels.setdefault(panel, []).append(parameter)
    last = [panel for panel in (ADVANCED, EVERY_COMMAND) if panel in panels]
    for panel in (*(panel for panel in panels if panel not in last), *last):
        if panel == ADVANCED and not full:
            parser.add_argument_group(panel, _fill(", ".join(each.flags[0] for each in panels[panel])))
            continue
        group = parser.add_argument_group(panel)
        for parameter in panels[panel]:
            _add(group, parameter, full=full)
    (group if last else parser).add_argument("-h", "--help", action="help", help="Show this message and exit.")
    return parser


def completion_script(words: Sequence[str], commands: Mapping[str, Command], topics: Sequence[str]) -> str:
    """Return the script that completes commands, options, choices and files for the shell that ``words`` name."""
    from argparse import ArgumentParser

    from darrm_opt.optional_packages import require

    shtab = require("shtab", "Shell completion")
    if len(words) != 1 or words[0] not in shtab.SUPPORTED_SHELLS:
        raise UsageError(f"Option --print-completion needs one of {', '.join(shtab.SUPPORTED_SHELLS)}.")
    program = ArgumentParser("darrm")
    program.add_argument("--version", action="store_true", help="Print the version and exit.")
    program.add_argument("--print-completion", choices=shtab.SUPPORTED_SHELLS, help="Print a script for completion.")
    verbs = program.add_subparsers()
    first_words = dict.fromkeys(name.split()[0] for name in commands)
    everything = verbs.add_parser("help", help="Say all of a command.")
    everything.add_argument("command", nargs="?", choices=[*first_words, *topics])
    groups: dict[str, Any] = {}
    for name, command in commands.items():
        first, _, second = name.partition(" ")
        if second and first not in groups:
            groups[first] = verbs.add_parser(first, help=f"Commands about {first}.").add_subparsers()
        made = (groups[first] if second else verbs).add_parser(
            second or first,
            parents=[help_parser(name, command)],
            add_help=False,
            help=(command.verb.__doc__ or "").partition("\n")[0],
        )
        for action in made._actions:  # noqa: SLF001 - argparse has no other way to its arguments
            if (completed := _COMPLETED.get(str(action.metavar))) is not None:
                vars(action)["complete"] = getattr(shtab, completed)
    written: str = shtab.complete(program, words[0])
    return written


_COMPLETED = {"FILE": "FILE", "GRID": "FILE", "VOTES": "FILE", "DIR": "DIRECTORY"}  # by metavar: what shtab completes


def listing_help(usage: str, text: str, panels: Mapping[str, Mapping[str, str]], more: str) -> str:
    """Return a help text that lists commands: the names of each panel, each with what it is."""
    parser = _parser(usage, _fill(text), more)
    for title, rows in panels.items():
        group = parser.add_argument_group(title)
        for row, words in rows.items():
            group.add_argument(row.strip("-"), metavar=row, help=words.replace("%", "%%"))
    return parser.format_help()


def _parser(usage: str, text: str, more: str) -> ArgumentParser:
    from argparse import ArgumentParser, RawDescriptionHelpFormatter

    class Formatter(RawDescriptionHelpFormatter):
        def _split_lines(self, text: str, width: int) -> list[str]:
            import textwrap

            return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def formatter(prog: str) -> Formatter:
        return Formatter(prog, max_help_position=28, width=_width())

    made = ArgumentParser("darrm", usage, text, more, formatter_class=formatter, add_help=False)
    if sys.version_info >= (3, 14):
        made.color = False
    return made


def _add(group: Any, parameter: Parameter, *, full: bool) -> None:
    declared = parameter.declared
    text = _option_help(parameter, full=full).replace("%", "%%")
    if isinstance(declared, Argument):
        group.add_argument(parameter.name, metavar=declared.metavar, help=text, nargs="?")
        return
    flags = [flag for flag in parameter.flags if flag != declared.alias]
    if parameter.is_flag:
        group.add_argument(*flags, dest=parameter.name, action="store_true", help=text)
    else:
        group.add_argument(*flags, dest=parameter.name, metavar=declared.metavar, help=text, choices=choices(declared))


def choices(option: CommandOption) -> list[str] | None:
    """Return the values of an option that takes one of a few words; None for any other."""
    metavar = option.metavar
    return metavar.split("|") if "|" in metavar and metavar == metavar.lower() else None


_CURVE_NUMBERS = ("--noise-multiplier", "--sampling-probability", "--steps")
"""Numbers of DP-SGD, which a curve of --profile states."""


def _suggestion(word: str, names: Iterable[str]) -> str:
    """Return the names that a word may stand for, in a sentence."""
    from darrm_opt.errors import similar_names

    names = list(names)
    if word in _CURVE_NUMBERS and "--profile" in names:
        return ' Give --profile "dp_sgd(σ, q, T)": the noise multiplier, the sampling probability and the steps.'
    matches = similar_names(word, names)
    if word.lower() == "--delta":  # δ of a release and Δ of a voter are not two spellings of one name
        matches = [name for name in matches if name.lower() != word.lower()]
        matches = [] if matches == ["--voter-delta"] else matches
    return f" Did you mean {', '.join(matches)}?" if matches else ""


def _usage(argument: Parameter) -> str:
    metavar = argument.declared.metavar
    return metavar if argument.default is inspect.Parameter.empty else f"[{metavar}]"


def _option_help(parameter: Parameter, *, full: bool) -> str:
    """Return an option's help with its default; in short, the first clause, and a default of a word or two."""
    option = parameter.declared
    default = option.otherwise if isinstance(option, CommandOption) else ""
    if not default and not parameter.is_flag and parameter.default not in {None, "", inspect.Parameter.empty}:
        default = str(parameter.default or "")
    text = option.help
    if not full:
        text = re.split(r"[.;:](?:\s|$)", text, maxsplit=1)[0]
        default = default if len(default) <= MAX_SHORT_DEFAULT else ""
    return f"{text} [default: {default}]" if default else text


MAX_SHORT_DEFAULT = 12  # longest default that the short help shows [characters]


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
