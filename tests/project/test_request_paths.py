"""The path of requests through the files of the product: the number of files and of calls between them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.paths import ROOT

WALKS: dict[str, tuple[tuple[str, ...], set[str], int, int]] = {
    # arguments; required files; maximum number of files; maximum number of calls between files
    "POST /v1/gamma": ((), {"api/tasks/design.py"}, 38, 185),
    "darrm solve": (
        ("solve", "--K", "5", "--m", "2", "--epsilon", "0.1", "--no-cache"),
        {"darrm/cli/parser.py", "darrm/cli/verbs/solve.py", "darrm_opt/design/certificate.py"},
        35,  # three declare the question, which defines the options
        350,
    ),
}
"""For a γ that is not stored. The solver process is separate: its path is that of the command."""


@pytest.mark.parametrize("name", WALKS)
def test_a_request_passes_a_limited_number_of_files(name: str) -> None:
    words, needed, most_files, most_moves = WALKS[name]
    command = [sys.executable, "-m", "tools.walk", *words]
    head, *files = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.splitlines()
    count, moves = (int(part.split()[0]) for part in head.split(", "))
    assert needed <= set(files)
    assert not any(file.startswith(("/", "tests/", "tools/")) for file in files)
    assert count == len(files) <= most_files, files
    assert count - 1 <= moves <= most_moves
