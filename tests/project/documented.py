"""Examples of documents and how to run them: fenced blocks, a shell with ``darrm`` of this checkout, a server."""

from __future__ import annotations

import doctest
import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.darrm_runner import PROGRAM
from support.paths import ROOT

HERE = "http://127.0.0.1:8000"  # the address of the service in documents


@dataclass(frozen=True)
class Block:
    """One fenced block; ``left_out`` is the reason not to run it, given in a comment above it."""

    document: str
    line: int
    language: str
    code: str
    left_out: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks_of(document: str, text: str) -> Iterator[Block]:
    """Yield the blocks of a document."""
    fence = re.compile(
        r"(?:<!-- not run: (?P<reason>[^>]+?) -->\n)?^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^ *```$",
        re.MULTILINE | re.DOTALL,
    )
    for match in fence.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(document, line, match["language"], match["code"], match["reason"] or "")


def session(name: str, blocks: list[Block]) -> str:
    """Run the Python sessions of a document as one, and return the deviations from it."""
    test = doctest.DocTestParser().get_doctest("".join(block.code for block in blocks), {}, name, name, 0)
    assert test.examples, f"{name} has no session"
    outcome: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    runner.run(test, out=outcome.append)
    return "".join(outcome) if runner.failures else ""


def shell_in(folder: Path) -> dict[str, str]:
    """Return an environment in which ``darrm`` is this checkout's."""
    command = folder / "bin" / "darrm"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{PROGRAM[-1]}' \"$@\"\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
