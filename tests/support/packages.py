"""Mechanisms of installed packages: entry points for this process, without a package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from darrm_opt.mechanisms import base


@contextmanager
def installed(**named: type | str) -> Iterator[None]:
    """Give names of mechanisms an entry point each: to a class, or to what a text states (``module:Class``)."""
    module = ModuleType("darrm_installed")
    vars(module).update({name: found for name, found in named.items() if isinstance(found, type)})
    points = [
        EntryPoint(name, found if isinstance(found, str) else f"{module.__name__}:{name}", base.ENTRY_POINTS)
        for name, found in named.items()
    ]
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(base, "entry_points", lambda *, group: points if group == base.ENTRY_POINTS else ())
            patch.setitem(sys.modules, module.__name__, module)
            _forget()
            yield
    finally:
        _forget()


def _forget() -> None:
    for found in (base.mechanism_names, base.mechanism_classes, base.mechanism_class, base.mechanism_kinds):
        found.cache_clear()
