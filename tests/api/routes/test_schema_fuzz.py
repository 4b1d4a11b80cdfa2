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
    report = run(3, ("fuzzing",))  # the examples of the description are asked by test_openapi.py
    assert report.passed, report.text
    assert report.operations >= 20
    assert report.cases >= 100
    assert report.log == ""


def test_the_page_says_what_was_found() -> None:
    reports = [Report(7, 5123, 26, passed=True, text="", log=""), Report(8, 99, 26, passed=False, text="", log="")]
    told = page(reports, "--examples 60")
    command = "PYTHONPATH=tests python -m campaigns.schema_fuzz --examples 60 --seed"
    assert f"| `{command} 7` | 26 | 5,123 | none |" in told
    assert f"| `{command} 8` | 26 | 99 | failures |" in told


def test_the_page_keeps_the_rows_of_other_runs_and_replaces_that_of_the_same() -> None:
    failed, passed = (Report(7, 99, 26, passed=found, text="", log="") for found in (False, True))
    first = page([failed], "--examples 4 --phases fuzzing", day="2026-01-01")
    other = page([passed], "--examples 60", first, day="2026-01-01")
    later = page([passed], "--examples 60", other, day="2026-01-02")
    assert [line.split("|")[1].strip() for line in later.splitlines() if "--seed 7" in line] == [
        "2026-01-01",
        "2026-01-01",
        "2026-01-02",
    ]
    again = page([passed], "--examples 4 --phases fuzzing", later, day="2026-01-01")
    assert again == later.replace("failures", "none")
    assert again.count("--seed 7") == 3
