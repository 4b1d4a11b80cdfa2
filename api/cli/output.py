"""Output and error boundary: answers on stdout, messages on stderr, and the exit code of every error and status."""

from __future__ import annotations

import enum
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from darrm_opt.design.program import Status
    from darrm_opt.errors import InvalidInput


class ExitCode(enum.IntEnum):
    """Exit code of a verb."""

    DONE = 0
    NOT_PRIVATE = 1
    BAD_INPUT = 2
    NOT_OPTIMAL = 3
    UNAVAILABLE = 4
    SOME_FAILED = 5
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """What it says, in words."""
        return _MEANING[self]


_MEANING = {
    ExitCode.DONE: "done",
    ExitCode.NOT_PRIVATE: "the γ given is not private, or cannot be shown to be",
    ExitCode.BAD_INPUT: "an option or a file is not what is accepted",
    ExitCode.NOT_OPTIMAL: "the answer is private, but the solve stopped short of the optimum (its gap says how far)",
    ExitCode.UNAVAILABLE: "a solver, the cache, a file or a port cannot be used here, or a budget is spent",
    ExitCode.SOME_FAILED: "some problems could not be solved, or some rows were refused: they are listed",
    ExitCode.INTERRUPTED: "interrupted; nothing half-written is left",
}

EXIT_CODES = "\n".join(["Exit codes:", *(f"  {code:>3d}  {code.meaning}" for code in ExitCode)])
"""Last paragraph of every help text."""

_OF_THE_OBJECTIVE = ("objective", "counts", "scenarios", "lower", "measure")


def option_of(argument: str) -> str:
    """Return the option through which ``argument`` came.

    >>> option_of("K"), option_of("target_epsilon"), option_of("counts")
    ('--K', '--target-epsilon', '--objective')
    """
    if len(argument) > 1 and argument.isupper():
        return argument  # FILE, or a setting from the environment
    return "--objective" if argument in _OF_THE_OBJECTIVE else "--" + argument.replace("_", "-")


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error into one message on stderr and the verb's exit code; an unforeseen one passes through.

    Raises:
        SystemExit: with the code.
    """
    try:
        yield
    except KeyboardInterrupt:
        say("Interrupted: nothing half-written is left.")
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:  # whoever read the answer has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes
        sys.exit(1)
    except Exception as err:
        from darrm_opt.errors import DarrmError, InvalidInput, NotPrivate
        from darrm_opt.optional_packages import missing_package

        if isinstance(err, InvalidInput):
            fail(_of_input(err), ExitCode.BAD_INPUT)
        if isinstance(err, NotPrivate):
            fail(str(err), ExitCode.NOT_PRIVATE)
        if isinstance(err, OSError) and err.filename and err.strerror:
            fail(f"{err.filename}: {err.strerror}", ExitCode.UNAVAILABLE)
        if isinstance(err, DarrmError | OSError):
            fail(str(err), ExitCode.UNAVAILABLE)
        if isinstance(err, ImportError) and (missing := missing_package(err, "This verb")) is not None:
            fail(str(missing), ExitCode.UNAVAILABLE)
        raise


def fail(message: str, code: ExitCode) -> NoReturn:
    """Say ``message`` on stderr and end the verb.

    Raises:
        SystemExit: always.
    """
    say(f"Error: {message}")
    sys.exit(code)


def end(code: ExitCode) -> None:
    """End the verb with ``code``, if it says more than that it is done.

    Raises:
        SystemExit: unless done.
    """
    if code is not ExitCode.DONE:
        sys.exit(code)


def answer(text: str) -> None:
    """Print the answer, on stdout."""
    print(text, flush=True)  # noqa: T201 — this is what prints


def say(line: str) -> None:
    """Print a line on stderr: whatever is not the answer."""
    print(line, file=sys.stderr)  # noqa: T201 — this is what prints


PLAIN = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "Δ": "Delta", "ε": "epsilon", "λ": "lambda", "σ": "sigma",
    "Σ": "Sigma", "τ": "tau", "Γ": "Gamma", "μ": "mu", "ρ": "rho", "η": "eta", "θ": "theta", "π": "pi", "ω": "omega",
    "−": "-", "–": "-", "—": "-", "…": "...", "→": "->", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "∝": "~", "·": "*", "×": "x",
    "′": "'", "’": "'", "“": '"', "”": '"', "∞": "inf", "∈": "in", "√": "sqrt", "½": "1/2",
}  # fmt: skip
"""Characters of our texts in ASCII, for a terminal that cannot show them."""


def tolerate_encodings() -> None:
    """Let stdout and stderr write what their encoding lacks in ASCII (`PLAIN`, else a question mark)."""
    import codecs

    def plainly(err: UnicodeError) -> tuple[str, int]:
        if not isinstance(err, UnicodeEncodeError):
            raise err
        return "".join(PLAIN.get(each, "?") for each in err.object[err.start : err.end]), err.end

    codecs.register_error("darrm-plain", plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="darrm-plain")


def exit_code_of(status: Status) -> ExitCode:
    """Return the exit code of a solve that ended with ``status``."""
    return ExitCode.DONE if status.value == "optimal" else ExitCode.NOT_OPTIMAL


def _of_input(err: InvalidInput) -> str:
    """Return the message with the option's name in place of the argument's."""
    option = option_of(err.argument)
    if err.value is None:
        text = f"{option} is missing: expected {err.accepted}."
        return f"{text} {err.advice}" if err.advice else text
    text = str(err)
    return f"{option}: " + (text if option == "--objective" else text.removeprefix(f"{err.argument} = "))
