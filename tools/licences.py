"""The page about licences, from the lock files and the metadata of installed packages."""

from __future__ import annotations

from collections import Counter

from tools.locked import DEV, RUNTIME, Pinned, direct, licence, pinned

HEAD = """\
# Licences

darrm-opt is Apache-2.0 ([LICENSE](../LICENSE)). It is installed together with the packages below, and neither copies
nor bundles any of them; the container image contains them. This page lists what the packages state in their own
metadata, at the versions of the lock files; the text of each licence is authoritative.

Check these before you redistribute an image:

- `gurobipy` is proprietary; it is optional (extra `gurobi`), and not in the image. - `psycopg` and `psycopg-binary`
(extra `postgres`) and a part of `python-flint` (extra `exact`) are LGPL: use them as they are, replaceable, which a
Python installation is. The image has the first two. - `certifi` is MPL-2.0: a change of *its files* must be offered.
"""

ABSENT = "(not installed here)"  # for a package that a marker of the lock excludes


def page() -> str:
    """Return the page."""
    runtime = pinned(RUNTIME)
    names = {package.name for package in runtime}
    tools = [package for package in pinned(DEV) if package.name not in names]
    return "\n".join(
        [
            HEAD,
            "## What a user installs",
            "",
            f"With all extras. {_count(runtime)}",
            "",
            *_table(runtime, direct(RUNTIME)),
            "",
            "## Development tools",
            "",
            *_table(tools, direct(DEV)),
            "",
        ]
    )


def row(package: Pinned, asked_for: set[str]) -> str:
    """Return a package's row of the table."""
    requesters = "darrm-opt" if package.name in asked_for else ", ".join(package.wanted_by)
    marker = f" ({package.marker})" if package.marker else ""
    return f"| `{package.name}` | {package.version} | {licence(package.name) or ABSENT} | {requesters}{marker} |"


def _table(packages: list[Pinned], asked_for: set[str]) -> list[str]:
    return ["| package | version | licence | asked for by |", "|---|---|---|---|"] + [
        row(package, asked_for) for package in packages
    ]


def _count(packages: list[Pinned]) -> str:
    counts = Counter(licence(package.name) or ABSENT for package in packages)
    summary = ", ".join(
        f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    return f"{len(packages)} packages: {summary}."
