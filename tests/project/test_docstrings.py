"""Docstrings: complete for everything in the reference; every name in backticks exists."""

from __future__ import annotations

import importlib
import inspect
import re

import docstrings
import pytest
from support.paths import ROOT

REFERENCE = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")


def test_docstrings_of_the_reference_are_complete() -> None:
    found: dict[str, list[str]] = {}
    for path in re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE):
        module, _, name = path.rpartition(".")
        shown = docstrings.public(importlib.import_module(module), (name,))
        found |= {of: list(docstrings.lacks(thing)) for of, thing in shown}
    assert {of: lacks for of, lacks in found.items() if lacks} == {}


PACKAGES = tuple(sorted(docstrings.OURS))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_dotted_name_in_backticks_exists(package: str) -> None:
    files = {path.name for path in (ROOT / ("papers" if package == "darrm_papers" else package)).rglob("*")}
    wrong = {
        (module.__name__, name)
        for module in docstrings.modules(package)
        for name in re.findall(r"(?<!`)`([A-Za-z_]\w*(?:\.\w+)+)(?:\([^`]*\))?`(?!`)", inspect.getsource(module))
        if name not in files and not docstrings.resolves(name, module)
    }
    assert wrong == set()
