"""Durable files: through symbolic links, with existing permissions, and on paths that are not regular files."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from darrm_opt.durable_file import regular_target, replacing


def write(path: str | os.PathLike[str], text: str, mode: int | None = None) -> None:
    with replacing(path, mode) as draft:
        draft.write_text(text)


@pytest.mark.parametrize("there", [True, False])
def test_a_linked_file_is_replaced_at_its_target(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    target, link = folder / "target", tmp_path / "link"
    if there:
        target.write_text("old")
    (tmp_path / "between").symlink_to(target)
    link.symlink_to("between")
    with replacing(link) as draft:
        assert draft.parent == folder
        draft.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert not target.is_symlink()
    assert [*folder.iterdir()] == [target]


def test_circular_links_are_an_error(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write(link, "new")
    assert [*tmp_path.iterdir()] == [link]
    assert link.is_symlink()


@pytest.mark.parametrize("mode", [None, 0o600, 0o644])
@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o444])
def test_an_existing_file_keeps_its_permissions(tmp_path: Path, permissions: int, mode: int | None) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(permissions)
    write(path, "new", mode)
    assert stat.S_IMODE(path.stat().st_mode) == permissions


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the owner")
def test_an_existing_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.chown(path, 12_345, 12_346)
    write(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12_345, 12_346)


def test_a_fifo_is_written_through(tmp_path: Path) -> None:
    path, read = tmp_path / "fifo", list[bytes]()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()), daemon=True)
    reader.start()
    write(path, "new")
    reader.join(60)
    assert read == [b"new"]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert [*tmp_path.iterdir()] == [path]


def test_a_fifo_without_a_reader_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    threading.Thread(target=lambda: path.open("rb").close(), daemon=True).start()
    with pytest.raises(BrokenPipeError):
        write(path, "new" * 100_000)  # exceeds the buffer of a pipe


def test_a_terminal_is_written_through() -> None:
    ours, theirs = os.openpty()
    try:
        write(os.ttyname(theirs), "new\n")
        assert os.read(ours, 100) == b"new\r\n"
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_descriptor_is_written_through(tmp_path: Path) -> None:
    receiver, sender = os.pipe()
    try:
        write(f"/proc/self/fd/{sender}", "new")
        assert os.read(receiver, 100) == b"new"
    finally:
        os.close(receiver)
        os.close(sender)
    with (tmp_path / "removed").open("w+") as file:
        (tmp_path / "removed").unlink()
        write(f"/proc/self/fd/{file.fileno()}", "new")
        assert file.read() == "new"
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("how", ["wb", "ab"])
def test_a_redirected_stdout_is_continued(tmp_path: Path, how: str) -> None:
    path = tmp_path / "stdout"
    path.write_text("before\n")
    program = (
        "from darrm_opt.durable_file import replacing\n"
        "print('one', flush=True)\n"
        "with replacing('/proc/self/fd/1') as draft: draft.write_text('two\\n')\n"
        "print('three')"
    )
    with path.open(how) as file:
        subprocess.run([sys.executable, "-c", program], stdout=file, check=True, timeout=60)
    assert path.read_text() == ("before\n" if how == "ab" else "") + "one\ntwo\nthree\n"


def test_a_failed_draft_is_not_written_to_a_fifo(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(ZeroDivisionError), replacing(path):
        raise ZeroDivisionError  # opening the FIFO would wait for a reader, forever
    assert regular_target(path) is None
    assert regular_target(tmp_path / "none") == tmp_path / "none"
