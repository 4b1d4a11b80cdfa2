"""The command line, ``darrm <verb>``.

    app        the verbs, each imported when it is asked for
    options    the options that verbs share, as two small nouns
    text       why options stay text until the core reads them
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
        from api.cli.app import app

        app(prog_name="darrm")
    except KeyboardInterrupt:  # before the verb began; from then on `reported` says more
        sys.exit(130)
    finally:
        gc.freeze()
