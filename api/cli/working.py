"""Elapsed-time display of work that takes more than two seconds, on a terminal's stderr."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

FIRST = 2.0
"""Seconds before anything is shown."""

EVERY = 0.5
"""Seconds between two updates."""


class Working:
    """What is being done, how far it is, and since when: a moving line on a terminal, nothing elsewhere.

    Args:
        what: in a few words.
    """

    def __init__(self, what: str) -> None:
        self._what, self._note = what, ""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, text: str) -> None:
        """Show how far the work is."""
        self._note = f": {text}"

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        began, shown = time.monotonic(), False
        wait = FIRST
        while not self._over.wait(wait):
            wait, shown = EVERY, True
            self._write(f"{self._what}{self._note} ({time.monotonic() - began:.0f} s; ctrl-C stops it)")
        if shown:
            self._write("")

    @staticmethod
    def _write(text: str) -> None:
        import shutil

        width = shutil.get_terminal_size().columns
        print(f"\r\x1b[K{text[: width - 1]}", end="", file=sys.stderr, flush=True)  # noqa: T201 — a line that moves
