"""The command line, ``darrm <verb>``.

    declared   how verbs declare their parameters
    plain      plain command lines, read without Typer
    app        the verbs as a Typer application: help, suggestions, messages
    options    the options that verbs share, as two small nouns
    outcome    one place that turns errors and statuses into a message and an exit code
    obtaining  solve, through the cache where that pays
    progress   what a long solve shows
    report     answers in words, and as JSON
    files      reading, and writing whole or not at all

A verb is a function in ``api.cli.verbs``: it takes options, calls the core and prints.
"""

import gc
import sys


def main() -> None:
    """Run ``darrm``: the console script.

    Raises:
        SystemExit: always, with a code of `api.cli.outcome.ExitCode`.
    """
    # Importing makes objects that stay, and the collector walks through them again and again, most of all at the end:
    # a fifth of a small solve. It still runs, at a threshold that a server can live with, and frozen objects it skips.
    gc.set_threshold(100_000)
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:  # before the verb began; from then on `reported` says more
        sys.exit(130)
    finally:
        gc.freeze()


def _run(words: list[str]) -> None:
    from api.cli.verbs import VERBS, load

    if words and words[0] in VERBS:
        from api.cli.declared import Command
        from api.cli.outcome import reported
        from api.cli.plain import read

        command = Command.of(load(words[0]))
        given = read(words[1:], command.parameters)
        if given is not None:
            with reported():
                command.call(given)
            sys.exit(0)
    from api.cli.app import app

    app(words, prog_name="darrm")
