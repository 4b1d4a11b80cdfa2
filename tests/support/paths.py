"""Folders of the repository that tests read: the root, the tests themselves and their data."""

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
DATA = TESTS / "data"

SEARCH_PATH = os.pathsep.join([str(ROOT), str(TESTS)])
"""PYTHONPATH of a process that imports the tests' helpers or a campaign."""
