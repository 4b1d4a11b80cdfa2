"""Walks of requests through the files of the product: how many files, and how often from one to another."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.paths import ROOT

WALKS: dict[str, tuple[tuple[str, ...], set[str], int, int]] = {
    # words; files that must be there; most files; most calls from one into another
    "POST /v1/gamma": ((), {"api/tasks/design.py"}, 38, 185),
    "darrm solve": (
        ("solve", "--K", "5", "--m", "2", "--epsilon", "0.1", "--no-cache"),
        {"darrm/cli/parser.py", "darrm/cli/verbs/solve.py", "darrm_opt/design/certificate.py"},
        35,  # three declare the question, of which the options are made
        350,
    ),
}
"""Of a γ that nobody stored. The solver's process is another: its walk is that of the command."""


@pytest.mark.parametrize("name", WALKS)
def test_a_request_walks_through_so_many_files(name: str) -> None:
    words, needed, most_files, most_moves = WALKS[name]
    command = [sys.executable, "-m", "tools.walk", *words]
    head, *files = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.splitlines()
    count, moves = (int(part.split()[0]) for part in head.split(", "))
    assert needed <= set(files)
    assert not any(file.startswith(("/", "tests/", "tools/")) for file in files)
    assert count == len(files) <= most_files, files
    assert count - 1 <= moves <= most_moves
