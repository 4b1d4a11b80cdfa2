"""A small grid, its table, and the file in which workers count."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns import counted_work

from solver_cache import Row


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Count in a file, which is returned."""
    monkeypatch.setenv("COUNTED", str(tmp_path / "counted"))
    return tmp_path / "counted"


@pytest.fixture(scope="session")
def undisturbed() -> list[Row]:
    """Return the table of the grid, made by this process alone."""
    return counted_work.undisturbed(counted_work.GRID)
