"""Pages that several campaigns write, a part each."""

from __future__ import annotations

import re
from pathlib import Path


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
