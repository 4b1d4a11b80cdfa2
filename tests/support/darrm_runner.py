"""`darrm` in this process, for many small cases, or in a separate process, for those that need one."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from darrm.cli import main, output
from support.paths import ROOT

PROGRAM = [sys.executable, "-c", "from darrm.cli import main; main()"]  # as in the console script
SMALL = ("--K", "5", "--m", "2", "--epsilon", "0.5")  # a problem solved in milliseconds


@dataclass(frozen=True)
class Result:
    """The result of a run."""

    exit_code: int
    stdout: str
    stderr: str


def run(*arguments: str, given: str = "") -> Result:
    """Run `darrm` in this process by its entry point, with ``given`` on stdin."""
    code: object = 0
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        patch.setattr(sys, "argv", ["darrm", *arguments])
        patch.setattr(output, "LOG_DELAY_SECONDS", 3600.0)  # no progress lines on a slow machine
        patch.setattr(sys, "stdin", io.StringIO(given))
        patch.setattr(gc, "freeze", lambda: None)  # since this process continues, and frozen objects are never freed
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return Result(int(code), stdout.getvalue(), stderr.getvalue())


def run_json(*arguments: str, given: str = "", exit_code: int = 0) -> Any:
    """Return the JSON of `darrm … --json` in this process; stderr must be empty."""
    result = run(*arguments, "--json", given=given)
    assert (result.exit_code, result.stderr) == (exit_code, "")
    return json.loads(result.stdout)


def refused(*arguments: str, given: str = "") -> str:
    """Return the message with which `darrm` refuses invalid input: exit code 2, an empty stdout."""
    result = run(*arguments, given=given)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    return lines[0]


def start(
    *arguments: str, cwd: Path, program: Sequence[str] = PROGRAM, stderr: Any = subprocess.PIPE, **settings: str
) -> subprocess.Popen[str]:
    """Start a program, by default `darrm`, in ``cwd``, with ``settings`` in its environment."""
    ours = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    environment = {**os.environ, **ours, **settings}
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr}
    return subprocess.Popen([*program, *arguments], cwd=cwd, env=environment, text=True, encoding="utf-8", **streams)
