"""What campaigns share: their options, the pages that several write a part of, and how a page says where it is from."""

from __future__ import annotations

import argparse
import datetime as dt
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from darrm_opt import __version__


def read_options(doc: str | None, arguments: Sequence[str] | None, **options: Any) -> argparse.Namespace:
    """Read a campaign's options, each given by its default, or by its type if it has none, alone or with a help text."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, option in options.items():
        value, text = option if isinstance(option, tuple) else (option, None)
        kind, default = (value, None) if isinstance(value, type) else (type(value), value)
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    return parser.parse_args(arguments)


CASES: dict[str, Any] = {"seed": 1, "minutes": (math.inf, "time after which it ends"), "write": (Path, "page")}
"""Options of a campaign of numbered cases."""


def numbered(count: int, minutes: float) -> Iterator[int]:
    """Yield the numbers of a campaign's cases, from 0 on, until all are done or the time is over."""
    end = time.monotonic() + 60 * minutes
    for number in range(count):
        if time.monotonic() >= end:
            return
        yield number


def origin(command: str, *packages: str) -> str:
    """Return the last line of a page: what made it, when, and with which versions."""
    versions = [f"darrm-opt {__version__}", *(f"{package} {version(package)}" for package in packages)]
    return f"`{command}`, {dt.datetime.now(tz=dt.UTC):%Y-%m-%d}; {', '.join(versions)}."


def listed(counts: Counter[str]) -> str:
    """Return counts as the end of a sentence, the most frequent first."""
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) + "."


def show_finding(text: str) -> None:
    """Print what is wrong with a case at once: a campaign may run for hours."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def publish_cases(lines: Sequence[str], command: str, path: Path | None, heading: str) -> None:
    """Publish what a campaign of numbered cases found, and the ``command`` that repeats it."""
    publish("\n".join([heading, "", *lines, "", origin(command), ""]), path, heading)


def publish(text: str, path: Path | None, heading: str) -> None:
    """Print ``text``, which begins with ``heading``, and write it into a page, if one is given."""
    sys.stdout.write(text)
    if path:
        write_part(path, heading, text)


def write_part(path: Path, heading: str, text: str) -> None:
    """Write ``text``, which begins with ``heading``, into a page: in place of the part of that heading, or at the end.

    A part ends where the next heading of its level or above begins; a first-level heading owns all that precedes the
    first ``##``.
    """
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = [part for part in re.split(r"^(?=##? )", page, flags=re.MULTILINE) if part.strip()]
    rewritten = [part.rstrip("\n") + "\n" for part in parts]
    place = next((n for n, part in enumerate(parts) if part.startswith(f"{heading}\n")), len(parts))
    rewritten[place : place + 1] = [text.rstrip("\n") + "\n"]
    path.write_text("\n".join(rewritten), encoding="utf-8")
