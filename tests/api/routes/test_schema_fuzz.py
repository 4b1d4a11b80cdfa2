"""Schemathesis against the running service, in short; `campaigns/schema_fuzz.py` is the long form."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from campaigns.schema_fuzz import run

SCRIPT = Path(sys.executable).with_name("schemathesis")


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPT.exists() and "CI" not in os.environ, reason="schemathesis is not installed")
def test_the_service_conforms_to_its_description() -> None:
    report = run(2, ("fuzzing",))  # test_openapi.py sends the examples of the description
    assert report.passed, report.text
    assert report.operations >= 20
    assert report.cases > report.operations
    assert report.log == ""
