"""Schemathesis against the running service, in short; `campaigns/schema_fuzz.py` is the long form."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from campaigns.schema_fuzz import Report, page, run

SCRIPT = Path(sys.executable).with_name("schemathesis")


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPT.exists() and "CI" not in os.environ, reason="schemathesis is not installed")
def test_the_service_keeps_to_its_description() -> None:
    report = run(2, ("examples", "fuzzing"))
    assert report.passed, report.text
    assert report.operations >= 20
    assert report.cases >= 100
    assert report.log == ""


def test_the_page_says_what_was_found() -> None:
    told = page(Report(5123, 26, passed=True, text="", log=""), "the command")
    assert "| `the command` | 26 | 5,123 | none |" in told
    assert "failures" in page(Report(5123, 26, passed=False, text="", log=""), "the command")
