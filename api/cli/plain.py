"""Plain command lines, read without Typer.

Typer takes 25 ms to import, a fifth of the time that `darrm solve` has for a small problem. Nothing of what it is good
for (help, suggestions, messages about what it cannot parse) is needed to read ``--K 11 --m 3 --json``. So what is
plain is read here, and everything else goes to `api.cli.app`, unread: there are no messages in this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.cli.declared import Argument, Parameter


def read(words: Sequence[str], parameters: Sequence[Parameter]) -> dict[str, Any] | None:
    """Return the value of each parameter, or None where the words are not plain.

    Plain are known options in full, with their values (``--K 11``, ``--K=11``), flags, and as many other words as there
    are arguments. Of an option given twice the last one counts, as with Typer.

    >>> from api.cli.declared import Option
    >>> count = Parameter("K", Option("--K", "Voters.", metavar="COUNT"), None)
    >>> read(["--K", "11"], [count]), read(["--Q", "11"], [count]), read(["--help"], [count])
    ({'K': '11'}, None, None)
    """
    valued: dict[str, str] = {}
    flags: dict[str, tuple[str, bool]] = {}
    arguments = []
    given: dict[str, Any] = {}
    for parameter in parameters:
        if isinstance(parameter.declared, Argument):
            arguments.append(parameter.name)
            continue
        given[parameter.name] = parameter.default
        if parameter.is_flag:
            for flag, truth in zip(parameter.declared.flag.split("/"), (True, False), strict=False):
                flags[flag] = (parameter.name, truth)
        else:
            valued[parameter.declared.flag] = parameter.name
    left = list(reversed(words))
    while left:
        word = left.pop()
        name, equals, value = word.partition("=")
        if word in flags:
            key, given_value = flags[word]
            given[key] = given_value
        elif name in valued and (equals or left):
            given[valued[name]] = value if equals else left.pop()
        elif arguments and (word == "-" or not word.startswith("-")):
            given[arguments.pop(0)] = word
        else:
            return None
    return None if arguments else given
