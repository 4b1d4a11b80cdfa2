"""What the tests of labels share."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what sets names of a module, such as CHUNK=3, for the rest of a test."""

    def set_all(module: ModuleType, **values: Any) -> None:
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)

    return set_all
