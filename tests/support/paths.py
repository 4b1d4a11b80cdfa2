"""Folders of the repository that tests read: the root, the tests themselves and their data."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
DATA = TESTS / "data"
