"""Progress display of a long solve, on stderr."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from api.cli.output import say

if TYPE_CHECKING:
    from darrm_opt.design.solution import Progress

PATIENCE = 0.5
"""Seconds that a terminal shows nothing: most solves are over by then, and Rich takes 0.1 s to import."""

FIRST_LINE = 1.0
"""Seconds after which a log (stderr is no terminal) gets its first line; each next one at twice the time."""


def has_moving_display() -> bool:
    """Return whether stderr is a terminal and Rich (the extra ``cli``) is installed; without it a terminal gets a log's lines."""
    return sys.stderr.isatty() and find_spec("rich") is not None


class Display:
    """A `Watcher` of one solve: a moving line on a terminal, ever rarer lines in a log, nothing for a short solve.

    Args:
        long: the solve is expected to take long, so a terminal shows at once that it goes on.
    """

    def __init__(self, *, long: bool = False) -> None:
        self._terminal = has_moving_display()
        self._after = PATIENCE if self._terminal else FIRST_LINE
        self._long = long
        self._status: Any = None

    def __enter__(self) -> Self:
        if self._terminal and self._long:
            self._show("solving")
        return self

    def __call__(self, progress: Progress) -> None:
        """Show where the solve stands, if it is time to."""
        if progress.seconds < self._after:
            return
        if self._terminal:
            self._show(line(progress))
        else:
            say(line(progress))
            self._after = max(2 * self._after, progress.seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def _show(self, text: str) -> None:
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()
        else:
            self._status.update(text)


def line(progress: Progress) -> str:
    """Return where a solve stands, in one line."""
    gap = max(0.0, progress.upper_bound - progress.utility)
    return (
        f"round {progress.round}: {progress.rows:,} rows, utility {progress.utility:.6f}, "
        f"bound {progress.upper_bound:.6f}, gap {gap:.1e}, {progress.seconds:.1f} s"
    )
