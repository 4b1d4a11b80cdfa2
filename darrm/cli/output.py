"""Output and error boundary: answers on stdout, messages on stderr, and the exit code of every error and status."""

from __future__ import annotations

import enum
import io
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TextIO

if TYPE_CHECKING:
    from darrm_opt.design.solution import Status
    from darrm_opt.errors import InvalidInput


class ExitCode(enum.IntEnum):
    """Exit code of a verb."""

    DONE = 0
    NOT_PRIVATE = 1
    BAD_INPUT = 2
    NOT_OPTIMAL = 3
    UNAVAILABLE = 4
    SOME_FAILED = 5
    INTERNAL_ERROR = 70
    INTERRUPTED = 130
    PIPE_CLOSED = 141

    @property
    def meaning(self) -> str:
        """What it says, in words."""
        return _MEANING[self]


_MEANING = {
    ExitCode.DONE: "done",
    ExitCode.NOT_PRIVATE: "the γ is not private, or its privacy cannot be proved",
    ExitCode.BAD_INPUT: "an option or a file is invalid",
    ExitCode.NOT_OPTIMAL: "the answer is private, but the solve stopped before the optimum (the gap bounds the "
    "difference)",
    ExitCode.UNAVAILABLE: "a solver, the cache, a file or a port is not available, a budget is spent, or a plan "
    "has nothing to write",
    ExitCode.SOME_FAILED: "some problems were not solved, or some rows were rejected; the output lists them",
    ExitCode.INTERNAL_ERROR: "an error in darrm itself; please report it, with the lines on stderr",
    ExitCode.INTERRUPTED: "interrupted; `label` can be resumed, other commands leave no output",
    ExitCode.PIPE_CLOSED: "the reader closed the pipe early, as `head` and `grep -q` do",
}

EXIT_CODES = "\n".join(["Exit codes:", *(f"  {code:>3d}  {code.meaning}" for code in ExitCode)])
"""Last paragraph of every help text."""

_OF_THE_PRIOR = ("objective", "counts", "scenarios", "lower", "measure")


def option_of(argument: str) -> str:
    """Return the option through which ``argument`` came.

    >>> option_of("K"), option_of("target_epsilon"), option_of("counts"), option_of("groups")
    ('--K', '--target-epsilon', '--prior', '--group')
    """
    if len(argument) > 1 and argument.isupper():
        return argument  # FILE, or a setting from the environment
    if argument.startswith("groups"):
        return "--group"  # given once for each
    if argument.startswith("profile."):
        return f"--profile: {argument.rpartition('.')[2]}"  # a number of its curve
    if argument == "Delta":
        return "--voter-delta"  # --delta is that of the release
    return "--prior" if argument in _OF_THE_PRIOR else "--" + argument.replace("_", "-")


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error into one message on stderr and the verb's exit code; an unforeseen one into its traceback."""
    try:
        yield
    except KeyboardInterrupt as err:  # whose text says what is left
        say(f"Interrupted. {err}" if str(err) else "Interrupted: no partial output is left.")
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as err:  # noqa: BLE001 — the last line of defence
        if isinstance(err, BrokenPipeError) and not err.filename:  # whoever read the answer has seen enough
            _discard(sys.stdout, sys.stderr)
            sys.exit(ExitCode.PIPE_CLOSED)
        from darrm_opt.errors import DarrmError, InvalidInput, NotPrivate
        from darrm_opt.optional_packages import missing_package

        if isinstance(err, InvalidInput):
            fail(_of_input(err), ExitCode.BAD_INPUT)
        if isinstance(err, NotPrivate):
            fail(str(err), ExitCode.NOT_PRIVATE)
        # Before `DarrmError | OSError`: the system's own text names the file, and ours is about its contents.
        if isinstance(err, OSError) and err.filename and err.strerror:
            fail(f"{err.filename}: {err.strerror}", ExitCode.UNAVAILABLE)
        if isinstance(err, DarrmError | OSError):
            fail(str(err), ExitCode.UNAVAILABLE)
        if isinstance(err, ImportError) and (missing := missing_package(err, "This verb")) is not None:
            fail(str(missing), ExitCode.UNAVAILABLE)
        if isinstance(err, MemoryError):
            fail(f"this machine does not have enough memory. {err}".rstrip(), ExitCode.UNAVAILABLE)
        import traceback

        say("".join(traceback.format_exception(err)).rstrip())
        fail(f"this is an error in {_place_of(err)}, with the lines above.", ExitCode.INTERNAL_ERROR)


def _place_of(err: BaseException) -> str:
    """Return where an error arose, and to whom it is reported: a mechanism of an installed package may be at work."""
    import inspect
    import traceback

    from darrm_opt.mechanisms.base import is_brought, mechanism_classes

    brought = {found: name for name, found in mechanism_classes().items() if is_brought(name)}
    for frame, _ in reversed([*traceback.walk_tb(err.__traceback__)]):
        subject = frame.f_locals.get("self", frame.f_locals.get("cls"))
        kind = subject if inspect.isclass(subject) else type(subject)
        if kind in brought:
            return f"{brought[kind]}, a mechanism of an installed package. Please report it to its authors"
    return "darrm itself. Please report it"


def fail(message: str, code: ExitCode) -> NoReturn:
    """Say ``message`` on stderr and end the verb."""
    say(f"Error: {message}")
    sys.exit(code)


def end(code: ExitCode) -> None:
    """End the verb with ``code``, if it says more than that it is done."""
    if code is not ExitCode.DONE:
        sys.exit(code)


def answer(text: str) -> None:
    """Print the answer, on stdout."""
    try:
        print(text, flush=True)  # noqa: T201 — this is what prints
    except BrokenPipeError:
        raise
    except OSError as err:
        _discard(sys.stdout)
        raise OSError(err.errno, err.strerror, "standard output") from err


def say(line: str) -> None:
    """Print a line on stderr: whatever is not the answer. A stderr that takes none changes no exit code."""
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 — this is what prints
    except OSError:
        _discard(sys.stderr)


def _discard(*streams: TextIO) -> None:
    """Let streams that cannot be written lead nowhere, or Python complains when it flushes them."""
    for stream in streams:
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


PLAIN = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "Δ": "Delta", "ε": "epsilon", "λ": "lambda", "σ": "sigma",
    "Σ": "Sigma", "τ": "tau", "Γ": "Gamma", "μ": "mu", "ρ": "rho", "η": "eta", "θ": "theta", "π": "pi", "ω": "omega",
    "−": "-", "–": "-", "—": "-", "…": "...", "→": "->", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "∝": "~", "·": "*",
    "×": "x", "′": "'", "’": "'", "“": '"', "”": '"', "∞": "inf", "∈": "in", "√": "sqrt", "½": "1/2",
}  # fmt: skip
"""Characters of our texts in ASCII, for a terminal that cannot show them."""


def prepare_streams() -> None:
    """Let stdout and stderr write what their encoding lacks in ASCII (`PLAIN`, else a question mark, or an escape).

    A stderr that is closed leads nowhere: without one, Python prints its messages on stdout. A stdout that is closed
    takes no answer, and its number no file that is opened later.
    """
    import codecs

    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 — until the end

    def replace_characters(err: UnicodeError) -> tuple[str, int]:
        if not isinstance(err, UnicodeEncodeError):
            raise err
        return "".join(PLAIN.get(character, "?") for character in err.object[err.start : err.end]), err.end

    codecs.register_error("darrm-plain", replace_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            ascii_only = stream.encoding.lower().replace("-", "") != "utf8"
            stream.reconfigure(errors="darrm-plain" if ascii_only else "backslashreplace")


def exit_code_of(status: Status) -> ExitCode:
    """Return the exit code of a solve that ended with ``status``."""
    return ExitCode.DONE if status.value == "optimal" else ExitCode.NOT_OPTIMAL


_DECIMAL_COMMA = re.compile(r"\d+,\d+")
_GROUPED_DIGITS = re.compile(r"\d{1,3}([,_' ]\d{3})+")


def _comma_advice(err: InvalidInput) -> str:
    """Return how to write a number that was typed with commas; nothing for any other value."""
    value = err.value
    if not isinstance(value, str) or "comma" in err.accepted:
        return ""
    if "whole number" in err.accepted:
        is_grouped = _GROUPED_DIGITS.fullmatch(value)
        return f"Write {re.sub('[^0-9]', '', value)}, without separators." if is_grouped else ""
    return f"Write a decimal point: {value.replace(',', '.')}." if _DECIMAL_COMMA.fullmatch(value) else ""


def _of_input(err: InvalidInput) -> str:
    """Return the message with the option's name in place of the argument's."""
    from darrm_opt.errors import InvalidInput, Rule

    option = option_of(err.argument)
    if advice := _comma_advice(err):
        err = InvalidInput(err.argument, err.value, err.accepted, advice)
    if isinstance(err.accepted, Rule):
        from darrm_opt.fields import FIELDS

        def as_option(found: re.Match[str]) -> str:
            return f"{found[1]} {option_of(found[2]) if found[2] in FIELDS and found[2] != 'parameter' else found[2]}"

        return f"{option} {re.sub(r'(with|needs) ([A-Za-z_]+)', as_option, err.accepted)}. {err.advice}".rstrip()
    if err.value is None:
        return f"{option} is missing: expected {err.accepted}. {err.advice}".rstrip()
    text = str(err)
    return f"{option}: " + (text if err.argument in _OF_THE_PRIOR else text.removeprefix(f"{err.argument} = "))


DELAY_SECONDS = 1.0  # time before a terminal shows a line: most work is over by then, and Rich takes 0.1 s to import
LOG_DELAY_SECONDS = 5.0  # time before the first line in a log; each next one comes after twice the time
REFRESH_SECONDS = 0.1  # time between two updates of the moving line


class ProgressDisplay:
    """Progress display: what is being done, how far it is, and since when; nothing for short work.

    A moving line if stderr is a terminal and Rich (the extra ``cli``) is installed, else ever rarer lines.
    """

    def __init__(self, text: str, total: int | None = None) -> None:
        self._text, self._total = text, total
        self._state = ("", 0)
        self._start_time = monotonic()
        self._end_event = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def update(self, text: str = "", done: int = 0) -> None:
        """Show how far the work is, in a few words; ``done`` of the ``total`` units are over."""
        self._state = text, done

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_event.set()
        self._thread.join()

    def _show(self) -> None:
        if self._end_event.wait(DELAY_SECONDS if sys.stderr.isatty() else LOG_DELAY_SECONDS):
            return
        from importlib.util import find_spec

        moving = sys.stderr.isatty() and find_spec("rich") is not None
        (self._show_moving if moving else self._show_lines)()

    def _show_lines(self) -> None:
        while True:
            say(self._line())
            if self._end_event.wait(monotonic() - self._start_time):
                return

    def _show_moving(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
        from rich.table import Column

        console = Console(stderr=True)
        if console.is_dumb_terminal:
            self._show_lines()
            return
        mark = SpinnerColumn() if self._total is None else BarColumn(20)
        text = TextColumn("{task.description}", markup=False, table_column=Column())  # wraps
        with Progress(
            mark, text, console=console, transient=True, auto_refresh=False, redirect_stdout=False
        ) as display:
            task = display.add_task("", total=self._total)
            while True:
                line = self._line("; ctrl-C stops it")
                display.update(task, description=line, completed=self._state[1], refresh=True)
                if self._end_event.wait(REFRESH_SECONDS):
                    return

    def _line(self, hint: str = "") -> str:
        from datetime import timedelta

        text, done = self._state
        count = "" if self._total is None else f"{done:,} of {self._total:,}"
        state = ", ".join(filter(None, (count, text)))
        elapsed = timedelta(seconds=int(monotonic() - self._start_time))
        return f"{self._text}{state and f': {state}'} ({elapsed}{hint})"


def as_json(content: object, indent: int | None = None) -> str:
    """Return JSON text that reads back as the same doubles, on one line: answers in one file are JSON Lines.

    ``indent`` makes it one for people, of many lines.
    """
    import json

    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent)
