"""Progress display of long work, on stderr."""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from time import monotonic
from types import TracebackType
from typing import Self

from darrm.cli.output import say

DELAY_SECONDS = 1.0
"""Time before a line moves: most work is over by then, and Rich takes 0.1 s to import."""

LOG_DELAY_SECONDS = 5.0
"""Time before the first line in a log; each next one comes after twice the time."""

REFRESH_SECONDS = 0.1
"""Time between two updates of the moving line."""


class ProgressDisplay:
    """Progress display: what is being done, how far it is, and since when; nothing for short work.

    A moving line if stderr is a terminal and Rich (the extra ``cli``) is installed, else ever rarer lines.

    Args:
        text: what is being done, in a few words.
        total: units of work, where their number is known.
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
        moving = sys.stderr.isatty() and find_spec("rich") is not None
        if not self._end_event.wait(DELAY_SECONDS if moving else LOG_DELAY_SECONDS):
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
