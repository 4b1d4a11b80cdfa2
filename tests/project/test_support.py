"""What runs many tests fails where one of them should: cases in a loop, and a `darrm` that is a copy."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from support import forkserver
from support.cases import for_each
from support.documented import shell_in
from support.refusals import refuses
from support.service import service

from darrm_opt.errors import InvalidInput


def test_every_case_is_run_and_one_that_fails_is_named() -> None:
    seen: list[tuple[int, str]] = []

    @for_each("number", [1, 2])
    @for_each("letter", "ab")
    def check(number: int, letter: str) -> None:
        seen.append((number, letter))
        assert (number, letter) != (2, "b")

    with pytest.raises(AssertionError) as caught:
        check()
    assert seen == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert caught.value.__notes__ == ["where letter = 'b'", "where number = 2"]


def test_no_case_is_skipped_and_there_are_some() -> None:
    with pytest.raises(AssertionError, match="a case was skipped"):
        for_each("case", [pytest.skip])(lambda case: case())()
    with pytest.raises(AssertionError):
        for_each("case", [])


def test_a_refusal_is_of_the_value_that_is_wrong() -> None:
    def call(size: int) -> None:
        raise InvalidInput("size", 2, f"nothing, and not {size}")

    refuses(call, {}, size=[2])
    wrong: dict[str, Any]
    for wrong in ({"count": [2]}, {"size": [3]}, {"size": []}):
        with pytest.raises((AssertionError, TypeError)):
            refuses(call, {}, **wrong)


needs_copies = pytest.mark.skipif(not forkserver.IS_SUPPORTED, reason="nothing begins as a copy")


@needs_copies
def test_a_server_begins_as_a_copy(tmp_path: Path) -> None:
    with service("memory", tmp_path, DARRM_SOLVE="off") as opened:
        assert Path(f"/proc/{opened.process.pid}/comm").read_text(encoding="ascii").strip() == "darrm"


@needs_copies
def test_a_shell_sees_how_its_darrm_ended(tmp_path: Path) -> None:
    shell = shell_in(tmp_path)

    def code(command: str) -> int:
        return subprocess.run(
            ["sh", "-euc", command], cwd=tmp_path, env=shell, capture_output=True, check=False
        ).returncode

    assert (code("darrm --version"), code("darrm nothing"), code("darrm nothing; true")) == (0, 2, 2)
    ours, theirs = socket.socketpair()
    folder = tempfile.TemporaryDirectory(prefix="darrm-")
    with ours, theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        server = forkserver.ForkServer(ours, folder)
        (tmp_path / "bin" / "darrm").write_text(server.stand_in)
        listener.bind(f"{folder.name}/socket")
        listener.listen()
        process = subprocess.Popen([tmp_path / "bin" / "darrm", "--version"], stderr=subprocess.DEVNULL)
        with process, listener.accept()[0] as connection:
            connection.recv(1)  # and no more, as one that is killed
            connection.close()
        assert process.returncode != 0
        server.close()
