"""Folders of the repository: the root, the tests and their data."""

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
DATA = TESTS / "data"

SEARCH_PATH = os.pathsep.join([str(ROOT), str(TESTS)])
"""PYTHONPATH of a process that imports helpers of the tests or a campaign."""
