"""One job in a process of its own: how long it took, and how much memory at most."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.cases import Command, Job

ROOT = Path(__file__).resolve().parent.parent

CONSOLE_SCRIPT = Path(sys.executable).with_name("darrm")

REASON_CHARACTERS = 200  # longest piece of a failed process's last words that the table repeats


@dataclass(frozen=True)
class Measurement:
    """What one run showed; None where the job has no such thing.

    Attributes:
        seconds: time [s].
        peak: largest resident memory of the process [bytes].
        gap, certificate, status, rows, rounds: of the solution.
    """

    seconds: float
    peak: int | None = None
    gap: float | None = None
    certificate: str | None = None
    status: str | None = None
    rows: int | None = None
    rounds: int | None = None


@dataclass(frozen=True)
class Failure:
    """Why there is no measurement.

    Attributes:
        reason: in words, for the table.
        at_least: the job is known to take longer than this [s]; None if it did not end for being slow.
    """

    reason: str
    at_least: float | None = None


Outcome = Measurement | Failure


def measure(job: Job, seconds: float, scratch: Path) -> Outcome:
    """Run a job once.

    Args:
        job: what to run.
        seconds: when to stop it [s].
        scratch: folder that takes the place of the user's caches.
    """
    began = time.monotonic()
    try:
        process = subprocess.run(
            _arguments(job),
            cwd=ROOT,
            env=environment(scratch),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        start = began if isinstance(job, Command) else _began(err.stdout)
        return Failure(f"stopped after {seconds:.0f} s", None if start is None else time.monotonic() - start)
    except OSError as err:
        return Failure(f"could not be started: {err}")
    took = time.monotonic() - began
    if process.returncode != 0:
        return Failure(_last_words(process.returncode, process.stderr))
    if isinstance(job, Command):
        return Measurement(took)
    try:
        return Measurement(**json.loads(process.stdout.splitlines()[-1]))
    except (ValueError, TypeError, IndexError):
        return Failure(f"said nothing that could be read: {_shorten(process.stdout)}")


def _arguments(job: Job) -> list[str]:
    if not isinstance(job, Command):
        return [sys.executable, "-m", "benchmarks.worker", json.dumps({"task": type(job).__name__, **asdict(job)})]
    program, *arguments = job.arguments
    if program == "darrm":
        # a checkout that is not installed has no console script: this is what it would run
        script = [str(CONSOLE_SCRIPT)] if CONSOLE_SCRIPT.exists() else [sys.executable, "-c", _MAIN]
        return [*script, *arguments]
    return [sys.executable if program == "python" else program, *arguments]


_MAIN = "from darrm.cli import main; main()"


def environment(scratch: Path) -> dict[str, str]:
    """Return the surroundings of a job: no settings of this machine's user, and no file outside ``scratch``."""
    # what is installed has its bytecode, as numpy has: a checkout gets it in the first turn
    prefixes = ("DARRM_", "PYTHONDONTWRITEBYTECODE")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return {**variables, "XDG_CACHE_HOME": str(scratch)}


def _began(output: bytes | None) -> float | None:
    """Return when the timed part of a stopped job began, if it came so far."""
    try:
        return float(json.loads((output or b"").splitlines()[0])["began"])
    except (ValueError, KeyError, IndexError):
        return None


def _last_words(code: int, errors: bytes) -> str:
    ending = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    lines = errors.strip().splitlines()
    return f"{ending}: {_shorten(lines[-1])}" if lines else ending


def _shorten(text: bytes) -> str:
    return " ".join(text.decode(errors="replace").split())[:REASON_CHARACTERS]
