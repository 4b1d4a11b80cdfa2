"""Words of the code, which a name in a text must be among."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.paths import ROOT

FOLDERS = (
    "darrm",
    "darrm_opt",
    "solver_cache",
    "darrm_client",
    "api",
    "papers",
    "tests",
    "tools",
    "benchmarks",
    "examples",
    "formal",
)
"""Folders with Python files."""

OTHER_SOURCES = ("api/page/*.js", "darrm_opt/**/*.c", "formal/**/*.v", "formal/**/*.ml", "deploy/**/*.yaml")


def texts_of(path: Path) -> Iterator[str]:
    """Yield the identifiers and strings of a Python file, without docstrings and comments; of another its whole text."""
    if path.suffix != ".py":
        yield path.read_text(encoding="utf-8")
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        else:
            yield from (text for _, text in ast.iter_fields(node) if isinstance(text, str))


@cache
def python_files() -> tuple[Path, ...]:
    """Return the Python files of the repository."""
    return tuple(path for at in ("*.py", *(f"{folder}/**/*.py" for folder in FOLDERS)) for path in ROOT.glob(at))


@cache
def words() -> frozenset[str]:
    """Return the words of all identifiers and strings, and the names of the Python files."""
    paths = [*python_files(), *(path for at in OTHER_SOURCES for path in ROOT.glob(at))]
    found = {word for path in paths for text in texts_of(path) for word in re.findall(r"\w+", text)}
    return frozenset(found | {path.stem for path in python_files()})


def unknown(text: str) -> list[str]:
    """Return the names in single backticks, with an underscore, a capital within or arguments, that no code has.
    Settings (``DARRM_…``) are left to the test of the documentation.
    """
    names = re.findall(r"(?<!`)`([A-Za-z_]\w*)(\([^`]*\))?`(?!`)", text)
    stated = [name for name, call in names if call or re.search(r"\w_\w|[a-z][A-Z]", name)]
    return [name for name in stated if name not in words() and not name.startswith("DARRM_")]
