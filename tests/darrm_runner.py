"""`darrm` in this process, for the many small cases, and as a process of its own, for the few that need one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from api.cli.app import app

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = [sys.executable, "-c", "from api.cli import main; main()"]
"""What the console script does."""

SMALL = ("--K", "5", "--m", "2", "--epsilon", "0.5")
"""A problem that is solved in milliseconds."""


def run(*arguments: str, given: str | None = None) -> Result:
    """Run `darrm` here; its exit code, stdout and stderr are in the result."""
    result = CliRunner().invoke(app, [*arguments], input=given, prog_name="darrm")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(*arguments: str, given: str | None = None) -> str:
    """Return the one message with which `darrm` refuses bad input: exit code 2, nothing on stdout."""
    result = run(*arguments, given=given)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    return lines[0]


def start(*arguments: str, cwd: Path, program: Sequence[str] = PROGRAM, **settings: str) -> subprocess.Popen[str]:
    """Start a program, `darrm` itself if none is named, in ``cwd``, with ``settings`` in its environment."""
    ours = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": ""}
    environment = {**os.environ, **ours, **settings}
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*program, *arguments], cwd=cwd, env=environment, text=True, encoding="utf-8", **streams)
