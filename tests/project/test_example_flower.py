"""The example of signs: it trains within its budget."""

from __future__ import annotations

import re
import runpy

import pytest
from support.paths import ROOT


def test_it_trains_within_its_budget(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "flower_signs.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert re.search(r"each of 12 bits is the majority with probability 0\.\d{3}", out)
    assert "12 of 12 releases are spent, within (8, 0.001)" in out
