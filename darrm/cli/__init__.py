"""Command line, ``darrm <verb>``.

    parser            how verbs declare their parameters; words to values; help texts
    parameters        the options that verbs share, and the readers of what was typed
    question_options  options made from the fields of a question; `verbs.question` asks and shows
    output            answers and messages; the one place that turns errors and statuses into exit codes
    cached_solve      solve, through the cache where that pays; the answer in a file
    files             reading, and atomic writing

A verb is a function in ``darrm.cli.verbs``: it takes options, calls the core and prints. Work of some length has a
module of its own, which may import what it needs: `proofs`, `table_design`, `label_job`, `precomputing`.
"""

import gc
import importlib
import keyword
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from darrm.cli.parser import (
    HELP,
    MORE,
    Command,
    UsageError,
    completion_script,
    listing_help,
    parse,
    parse_verb,
    verb_help,
)


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
    from darrm.cli.output import ExitCode, answer, fail, prepare_streams, report_errors, say

    prepare_streams()
    with report_errors():
        if not words:  # so that a pipe gets nothing in place of an answer
            say(_help_of_all())
            sys.exit(ExitCode.BAD_INPUT)
        try:
            if (page := _page(words)) is not None:
                answer(page.rstrip())
                sys.exit(ExitCode.DONE)
            name, rest, command = _command_of(words)
            if command is None:
                say(_help_of_group(name))
                sys.exit(ExitCode.BAD_INPUT)
            values = parse(rest, command.parameters)
        except UsageError as err:
            fail(str(err), ExitCode.BAD_INPUT)
        command.call(values)
    sys.exit(ExitCode.DONE)


def _command_of(words: Sequence[str]) -> tuple[str, Sequence[str], Command | None]:
    """Return the name of a verb, the words behind it, and the verb; None for a group of verbs."""
    # For a word that begins none of the verbs of this package, all: which takes longer to find.
    known = VERBS if any(verb.split()[0] == words[0] for verb in VERBS) else all_verbs()
    added = None if known is VERBS else added_verbs().get(words[0])
    # Before the verb is loaded, as NumPy reads it on import. For most verbs it should start no threads: they spin while
    # it loads, on the processors that load it.
    if added is None or not added.uses_threads:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    names: Sequence[str] = known
    if words[0].replace("-", "_").isidentifier() and words[0] not in {verb.split()[0] for verb in known}:
        from darrm.cli.verbs.question import question_command, question_verbs

        if (command := question_command(words[0])) is not None:
            return words[0], words[1:], command
        names = [*known, *question_verbs(known)]  # all that an error may suggest
    name, rest = parse_verb(words, names)
    return name, rest, Command.of(load(name)) if name in known else None


def _page(words: list[str]) -> str | None:
    """Return what is printed where no verb is to run: help, the version, or a script for completion."""
    if words[0] == "--version":
        from darrm_opt._version import __version__

        return f"darrm {__version__}"
    if words[0] == "--print-completion":
        commands = {name: Command.of(load(name)) for name in all_verbs()}
        return completion_script(words[1:], commands | question_commands(), TOPICS)
    if words == ["help"] or words[0] in HELP:
        return _help_of_all()
    # Anywhere on the line: who asks for help need not get the options right first.
    return _help_of(words) if words[0] == "help" or any(word in HELP for word in words) else None


def _help_of(words: list[str]) -> str:
    """Return the help of a verb, in full behind ``help``, of a group of verbs, or a topic."""
    full = words[0] == "help"
    if full and words[1] in TOPICS:
        return _topic(words[1])
    name, _, command = _command_of(words[full:])
    return _help_of_group(name) if command is None else verb_help(name, command, examples_of(name), full=full)


def _help_of_all() -> str:

    panels = {title: {name: _summary(load(name)) for name in names} for title, names in verbs_by_topic().items()}
    panels["Ask"] = {"help questions": "List further commands: totals of a γ, error curves, trade-offs, the least m."}
    panels["Options"] = {
        "--version": "Print the version and exit.",
        "--print-completion SHELL": "Print a script for completion in bash, zsh, tcsh, fish or powershell.",
        "-h, --help": "Show this message, or the help of a command.",
    }
    usage = "darrm COMMAND [OPTIONS] [ARGUMENTS]\n       darrm COMMAND --help\n       darrm help [COMMAND|TOPIC]"
    return listing_help(usage, SUMMARY, panels, MORE).rstrip()


def question_commands() -> dict[str, Command]:
    """Return the verbs of questions that no verb of this package, or of another, answers."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in `_command_of`
    from darrm.cli.verbs.question import question_command, question_verbs

    commands = {name: question_command(name) for name in question_verbs(all_verbs())}
    return {name: command for name, command in commands.items() if command is not None}


def _help_of_group(name: str) -> str:

    verbs = {verb: _summary(load(verb)) for verb in VERBS if verb.startswith(f"{name} ")}
    return listing_help(f"darrm {name} COMMAND [OPTIONS]", "", {"Commands": verbs}, MORE).rstrip()


TOPICS = ("exit-codes", "sampling", "questions")  # pages of the help that are about no verb


def _topic(name: str) -> str:
    if name == "exit-codes":
        from darrm.cli.output import EXIT_CODES

        return EXIT_CODES
    if name == "questions":
        questions = {verb: _summary(command.verb) for verb, command in question_commands().items()}
        return listing_help("darrm COMMAND [OPTIONS]", "", {"Questions": questions}, "").rstrip()
    from darrm.cli.parameters import sampling_page

    return sampling_page()


GROUPS = {
    "Decide": ("plan",),
    "Design and verify": ("solve", "verify"),
    "Release": ("label",),
    "Account": ("cost", "audit", "statement"),
    "Serve": ("serve", "mcp", "keys add", "keys ls", "keys revoke"),
    "Store": (
        "precompute",
        "cache ls",
        "cache tag",
        "cache check",
        "cache rm",
        "export",
        "import",
    ),
}
"""Names of the verbs by topic, in the order of the help. A name of two words is a subcommand."""

VERBS = tuple(name for names in GROUPS.values() for name in names)  # names of the verbs of this package

ENTRY_POINTS = "darrm.verbs"
"""Group of entry points by which installed packages add verbs: the name of each, and an `AddedVerb`."""


class AddedVerb(NamedTuple):
    """A verb of another package."""

    verb: Callable[..., None]  # declared as those of `darrm.cli.verbs`
    topic: str  # under which the help lists it
    examples: tuple[str, ...] = ()  # commands that its help shows
    uses_threads: bool = False  # it multiplies large matrices, in as many threads as there are processors


@cache
def added_verbs() -> dict[str, AddedVerb]:
    """Return the verbs that installed packages add, without those that replace ours or that cannot be loaded."""
    from importlib.metadata import entry_points

    added = dict[str, AddedVerb]()
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        with suppress(ImportError, AttributeError):
            if point.name not in VERBS and isinstance(verb := point.load(), AddedVerb):
                added[point.name] = verb
    return added


def all_verbs() -> tuple[str, ...]:
    """Return the names of all verbs: of this package, and added ones."""
    return (*VERBS, *added_verbs())


def verbs_by_topic() -> dict[str, tuple[str, ...]]:
    """Return the names of all verbs by topic, in the order of the help."""
    topics = dict(GROUPS)
    for name, added in added_verbs().items():
        topics[added.topic] = (*topics.get(added.topic, ()), name)
    return topics


def examples_of(name: str) -> tuple[str, ...]:
    """Return the commands that the help of a verb shows."""
    added = added_verbs().get(name) if name not in EXAMPLES else None
    return EXAMPLES.get(name, ()) if added is None else added.examples


EXAMPLES = {
    "plan": (
        "darrm plan --K 5 --epsilon 0.5 --fresh --queries 5 --total-epsilon 3 --total-delta 1e-3 --output plan.json",
        "darrm plan --K 11 --epsilon inf --affected 1 --queries 5 --total-epsilon 4 --total-delta 1e-5",
        "darrm plan --compare --K 11 --epsilon 0.1 --queries 20 --total-epsilon 2 --total-delta 0.01 --fresh",
    ),
    "solve": (
        "darrm solve --K 11 --m 3 --epsilon 0.1",
        "darrm solve --K 11 --classes 3 --affected 1 --target-epsilon 1 --delta 1e-5 --output rule.json",
        "darrm solve --K 11 --epsilon inf --affected 1 --target-epsilon 1 --output gamma.json --plot gamma.svg",
    ),
    "verify": ("darrm verify gamma.json", "darrm verify gamma.json --arithmetic ball"),
    "label": (
        (
            "darrm label votes.csv --solution plan.json --release-log releases.log --total-epsilon "
            "3 --total-delta 1e-3 --fresh --output labels.csv"
        ),
    ),
    "cost": (
        "darrm cost laplace --K 250 --classes 10 --scale 40 --queries 286 --delta 1e-5",
        "darrm cost bagging --K 5 --bags n=10000,size=20",
        "darrm cost laplace --K 11 --queries 20 --total-epsilon 1 --total-delta 1e-5 --output mechanism.json",
    ),
    "audit": (
        "darrm audit exponential --K 11 --classes 3 --rate 0.5 --total-epsilon 1",
        "darrm audit table.csv --total-epsilon 1.2 --queries 2",
    ),
    "compose": (
        "darrm compose --solution gamma.json --queries 100 --total-delta 1e-5 --fresh",
        "darrm compose --epsilon 0.1 --delta 1e-6 --queries 100 --total-delta 1e-5",
    ),
    "error-curve": ("darrm error-curve --K 11 --m 3 --epsilon 0.1 --points 6 --plot errors.svg",),
    "least": ("darrm least --K 11 --epsilon 0.1 --parameter m --utility 0.95",),
    "profile": ("darrm profile --solution gamma.json --epsilons 0,0.1,0.3",),
    "tradeoff": ("darrm tradeoff --K 11 --epsilon 0.1 --ms 1,3,5 --plot errors.svg",),
    "statement": ("darrm statement releases.log", "darrm statement mechanism.json --json"),
    "serve": ("darrm serve --port 9000", "DARRM_KEYS=keys.json darrm serve --host 0.0.0.0"),
    "mcp": ("darrm mcp",),
    "keys add": (
        "darrm keys add 'training cluster' --file keys.json",
        "darrm keys add dashboard --file keys.json --role reader --expires 90d",
    ),
    "keys ls": ("darrm keys ls --file keys.json",),
    "keys revoke": ("darrm keys revoke 1a2b3c4d --file keys.json",),
    "precompute": ("darrm precompute grid.toml --dry-run", "darrm precompute grid.toml --workers 8"),
    "cache ls": ("darrm cache ls --K 11 --tag round-2", "darrm cache ls --count"),
    "cache tag": ("darrm cache tag ID round-2", "darrm cache tag ID round-2 --remove"),
    "cache check": ("darrm cache check --url sqlite:///answers.sqlite",),
    "cache rm": ("darrm cache rm --megabytes 500 --days 365", "darrm cache rm --defective --prove"),
    "export": ("darrm export --output answers.parquet",),
    "import": ("darrm import answers.parquet",),
}
"""Commands that a verb's help shows."""

_MODULES = {
    "statement": "audit",
    "keys add": "serve",
    "keys ls": "serve",
    "keys revoke": "serve",
    "export": "cache",
    "import": "cache",
    **{name: "cache" for name in VERBS if name.startswith("cache ")},
}
"""Modules of the verbs that share one with another."""


def load(name: str) -> Callable[..., None]:
    """Return a verb, importing what it declares; what it uses it imports itself, when it runs."""
    if name not in VERBS:
        return added_verbs()[name].verb
    word = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_").replace(" ", "_")
    verb: Callable[..., None] = getattr(importlib.import_module(f"{__name__}.verbs.{_MODULES.get(name, word)}"), word)
    return verb


SUMMARY = """Design, prove and use the optimal private majority vote.

K voters, each (ε, Δ)-differentially private, answer 0 or 1; one bit is released, as close to their majority as
(mε, δ)-differential privacy allows."""
"""Head of the program's help."""


def _summary(verb: Callable[..., None]) -> str:
    """Return the first paragraph of a verb's docstring, on one line."""
    return " ".join((verb.__doc__ or "").split("\n\n")[0].split())
