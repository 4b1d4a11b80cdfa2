"""Lines on their way to stderr, written by a thread of their own: whoever logs never waits for whoever reads.

A pipe that nobody reads is full after 64 KiB, and the next write to it waits until somebody does: in the event loop that
would be the end of all answers, for the sake of a log. So lines are put in a queue, which costs a microsecond, and a thread
writes them out some milliseconds later, many at once. The queue is bounded: when it is full lines are dropped and counted,
and the count is the next line that comes through. A process that is killed loses the lines of its last `TOGETHER` seconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable

MAX_LINES = 10_000
"""Lines that may wait, a few megabytes; beyond them they are dropped."""

TOGETHER = 0.02
"""How long lines are collected before they are written [s]: a thread that woke for each would slow every answer."""

ATOMIC = 4096
"""Bytes that a pipe takes from one process in one piece (PIPE_BUF): lines of several processes do not run into each other."""

LEAVING = 1.0
"""How long the end of a process waits for its last lines to be taken [s]."""


class Lines:
    """A stream for text, line by line, that never blocks and never fails.

    Args:
        descriptor: where the lines go. Written to directly: a buffered file would be locked by the thread that waits in
            it, and the end of the process would wait for that lock.
        dropped: makes the line that tells of lines that were dropped, from their number.
        most: how many lines may wait.
    """

    def __init__(self, descriptor: int, dropped: Callable[[int], str], most: int = MAX_LINES) -> None:
        self._descriptor, self._dropped, self._most = descriptor, dropped, most
        self._waiting: deque[str] = deque()
        self._lost = 0
        self._counting = threading.Lock()
        self._there, self._written = threading.Event(), threading.Event()
        self._written.set()
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def write(self, line: str) -> int:
        """Take a line, its end included, to be written soon; return its length."""
        if len(self._waiting) >= self._most:
            with self._counting:
                self._lost += 1
        else:
            self._waiting.append(line)
        if not self._there.is_set():
            self._written.clear()
            self._there.set()
        return len(line)

    def flush(self) -> None:
        """Do nothing: lines are written soon in any case, and whoever logs must not wait."""

    def drain(self, seconds: float = LEAVING) -> bool:
        """Wait until every line is written, so long at most [s]; return whether they are."""
        deadline = time.monotonic() + seconds
        while not (self._written.is_set() and not self._waiting):  # the one may be set just before the other grows
            if time.monotonic() > deadline:
                return False
            time.sleep(TOGETHER / 4)
        return True

    def _write_on(self) -> None:
        while True:
            self._there.wait()
            time.sleep(TOGETHER)
            self._there.clear()
            while piece := self._piece():
                self._put(piece)
            if not self._there.is_set():
                self._written.set()

    def _piece(self) -> bytes:
        """Return the next lines, as many as go in one piece; one that is longer goes alone. Empty: none is left."""
        piece = b""
        while self._waiting:
            line = self._waiting[0].encode("utf-8", "backslashreplace")
            if piece and len(piece) + len(line) > ATOMIC:
                return piece
            self._waiting.popleft()
            piece += line
        with self._counting:
            lost, self._lost = self._lost, 0
        return piece + self._dropped(lost).encode() if lost else piece

    def _put(self, piece: bytes) -> None:
        try:
            while piece:
                piece = piece[os.write(self._descriptor, piece) :]
        except OSError:  # whoever read it is gone, and there is nobody to tell
            return
