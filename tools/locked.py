"""Pinned packages of a lock file, and licences of installed packages."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RUNTIME, DEV = "requirements.lock", "requirements-dev.lock"
"""Packages of all extras; the same and the development tools."""


@dataclass(frozen=True)
class Pinned:
    """Entry of a lock file.

    Attributes:
        name: normalised name.
        version: exact version.
        hashes: SHA-256 of each file that may be installed, in order.
        marker: environment marker; empty for all environments.
        wanted_by: packages that require it; the project itself is "darrm-opt".
    """

    name: str
    version: str
    hashes: tuple[str, ...]
    marker: str
    wanted_by: tuple[str, ...]


def pinned(lock: str = RUNTIME) -> list[Pinned]:
    """Return the packages that a lock file pins, by name."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    packages = []
    for entry in re.split(r"\n(?=[a-z0-9])", text):
        head = re.match(r"([a-z0-9.-]+)==(\S+)(?: ; (.+?))? \\\n", entry)
        if head is None:
            continue  # header of the file
        via = re.sub(r"\(.*?\)|via|#", " ", entry[entry.find("# via") :]).split()
        hashes = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
        packages.append(Pinned(head[1], head[2], hashes, head[3] or "", tuple(via)))
    return packages


def direct(lock: str = RUNTIME) -> set[str]:
    """Return the names of the direct dependencies."""
    return {package.name for package in pinned(lock) if "darrm-opt" in package.wanted_by}


SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD (unspecified)",
    "BSD License": "BSD (unspecified)",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Proprietary": "proprietary",
    "Python Software Foundation License": "PSF-2.0",
}
"""SPDX names of licences."""

LONGEST = 60  # length of a licence field; a longer one is the licence's text


def licence(name: str) -> str | None:
    """Return the licence that an installed package states, or None if it is not installed.

    This is its SPDX expression, else a short licence field, else its classifiers.
    """
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    expression, field = (
        str(metadata[key] or "").strip() if key in metadata else "" for key in ("License-Expression", "License")
    )
    if expression:
        return expression
    classifiers = [c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier") or () if c.startswith("License ::")]
    if field and len(field) <= LONGEST and "\n" not in field and field != "UNKNOWN":
        return SPDX.get(field, field)
    return " OR ".join(sorted(SPDX.get(c, c) for c in classifiers)) or "not stated"
