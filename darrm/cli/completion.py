"""Shell completion by shtab, from the declared verbs and options."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from darrm.cli.parser import Command, UsageError, help_parser


def script(words: Sequence[str], commands: Mapping[str, Command], topics: Sequence[str]) -> str:
    """Return the script that completes commands, options, choices and files for the shell that ``words`` name."""
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


_COMPLETED = {"FILE": "FILE", "GRID": "FILE", "VOTES": "FILE", "DIR": "DIRECTORY"}
"""By metavar: what shtab completes."""
