"""Command line, ``darrm <verb>``.

    parser         how verbs declare their parameters; words to values; help texts
    parameters     the parameters that verbs share, as two small groups
    output         answers and messages; the one place that turns errors and statuses into exit codes
    cached_solve   solve, through the cache where that pays; the release that a verb is about
    files          reading, and writing whole or not at all

A verb is a function in ``darrm.cli.verbs``: it takes options, calls the core and prints.
"""

import gc
import os
import sys
from collections.abc import Callable


def main() -> None:
    """Run ``darrm``: the console script."""
    # Importing makes objects that stay, and the collector walks through them again and again, most of all at the end:
    # a fifth of a small solve. It still runs, at a threshold that a server can live with, and frozen objects it skips.
    gc.set_threshold(100_000)
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:  # before the verb began; from then on `report_errors` says more
        sys.exit(130)
    finally:
        gc.freeze()


def _run(words: list[str]) -> None:
    from darrm.cli.output import EXIT_CODES, ExitCode, answer, fail, prepare_streams, report_errors, say
    from darrm.cli.parser import HELP, Command, UsageError, group_help, parse, parse_verb, program_help, verb_help
    from darrm.cli.verbs import EXAMPLES, GROUPS, RENAMED, VERBS, load

    prepare_streams()
    with report_errors():
        if not words or words[0] in HELP:
            groups = {title: {name: _summary(load(name)) for name in names} for title, names in GROUPS.items()}
            # Help that was asked for is an answer; help in place of an answer goes to stderr, so that a pipe gets
            # nothing.
            (answer if words else say)(program_help(SUMMARY, groups, EXIT_CODES))
            sys.exit(ExitCode.DONE if words else ExitCode.BAD_INPUT)
        if words[0] == "--version":
            from darrm_opt._version import __version__

            answer(f"darrm {__version__}")
            sys.exit(ExitCode.DONE)
        # Before the search for a verb, which would suggest one that is spelled like it.
        if words[0] in RENAMED:
            fail(f"No such command {words[0]!r}: it is now darrm {RENAMED[words[0]]}.", ExitCode.BAD_INPUT)
        try:
            name, rest = parse_verb(words, VERBS)
            if name not in VERBS:
                verbs = {verb: _summary(load(verb)) for verb in VERBS if verb.startswith(f"{name} ")}
                (answer if rest else say)(group_help(name, verbs, EXIT_CODES))
                sys.exit(ExitCode.DONE if rest else ExitCode.BAD_INPUT)
            # Before the verb is loaded, as NumPy reads it on import.
            if name not in MATRIX_VERBS:
                os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            command = Command.of(load(name))
            # Anywhere on the line: who asks for help need not get the options right first.
            if any(word in HELP for word in rest):
                answer(verb_help(name, command, EXIT_CODES, EXAMPLES[name]))
                sys.exit(ExitCode.DONE)
            values = parse(rest, command.parameters)
        except UsageError as err:
            fail(str(err), ExitCode.BAD_INPUT)
        command.call(values)
    sys.exit(ExitCode.DONE)


MATRIX_VERBS = {"reproduce", "teach"}
"""Verbs that multiply large matrices, in as many threads as there are processors.

For the others NumPy should start none: they spin while it loads, on the processors that load it.
"""

SUMMARY = """Design, prove and use the optimal private majority vote.

K voters, each (ε, Δ)-differentially private, answer 0 or 1; one bit is released, as close to their majority as
(mε, δ)-differential privacy allows."""
"""Head of the program's help."""


def _summary(verb: Callable[..., None]) -> str:
    """Return the first paragraph of a verb's docstring, on one line."""
    return " ".join((verb.__doc__ or "").split("\n\n")[0].split())
