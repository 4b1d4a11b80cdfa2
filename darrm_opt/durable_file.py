"""Durable files: written beside their place, flushed to the disk, and moved there in one step.

A reader meets the old file or the new one, never a part, also after a crash; what fails leaves nothing behind. Only
a device or a FIFO is written as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int | None = None) -> Iterator[Path]:
    """Yield the path of a draft, readable by its owner alone; when the block ends well, it replaces ``path``.

    Links are followed: the file that they lead to is replaced, and keeps its permissions and, where the system
    allows it, its owner. A device, a FIFO, and whatever stdout or stderr is, are written through: they are
    given the draft's content.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "answer")) as draft:
    ...         _ = draft.write_text("42")
    ...     [(file.name, file.read_text()) for file in Path(folder).iterdir()]
    [('answer', '42')]
    """
    import tempfile

    target = regular_target(path)
    if target is None:
        with tempfile.TemporaryDirectory() as private:
            draft = Path(private, "draft")
            draft.touch(0o600)
            yield draft
            _write_through(draft, path)
        return
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    draft = Path(name)
    try:
        os.close(descriptor)
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        _set_permissions(draft, target, mode)
        draft.replace(target)
    except BaseException:  # ctrl-C too must leave nothing behind
        draft.unlink(missing_ok=True)
        raise
    flush_folder(target.parent)


@contextmanager
def errors_naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let an OSError that names no file name this one: an error of writing does not say where.

    >>> with errors_naming("/data/labels.csv"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
        ...
    OSError: [Errno 28] No space left on device: '/data/labels.csv'
    """
    try:
        yield
    except OSError as err:
        if err.filename is not None:
            raise
        raise OSError(err.errno or errno.EIO, err.strerror or str(err), str(path)) from err


def regular_target(path: str | os.PathLike[str]) -> Path | None:
    """Return the regular file to which a path leads through links; None where it is written through.

    The file may not exist yet.
    """
    target = Path(os.path.realpath(path))
    try:
        status = Path(path).stat()
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise
        return target
    # A link of /proc to a file that was removed, or to memory, leads to no path.
    replaceable = stat.S_ISREG(status.st_mode) and target.exists() and _stream(status) is None
    return target if replaceable or stat.S_ISDIR(status.st_mode) else None


def _stream(status: os.stat_result) -> int | None:
    """Return the descriptor, 1 or 2, of stdout or stderr if the file with this status is one of them; else None."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


def _write_through(draft: Path, path: str | os.PathLike[str]) -> None:
    import shutil

    stream = _stream(Path(path).stat())  # opened once more, a file would be written from its start
    place: BinaryIO
    with draft.open("rb") as file, open(path if stream is None else os.dup(stream), "wb") as place:  # noqa: PTH123
        shutil.copyfileobj(file, place)


def _set_permissions(draft: Path, target: Path, mode: int | None) -> None:
    """Give a draft the permissions and the owner of the file that it replaces; else ``mode``."""
    try:
        status = target.stat()
    except FileNotFoundError:
        os.umask(mask := os.umask(0o077))  # it can only be read by setting it
        draft.chmod(0o666 & ~mask if mode is None else mode)  # mkstemp makes files for their owner alone
        return
    with contextlib.suppress(OSError, AttributeError):  # only root may give files away, and on Windows nobody
        os.chown(draft, status.st_uid, status.st_gid)
    draft.chmod(stat.S_IMODE(status.st_mode))


def flush_folder(folder: Path) -> None:
    """Make what was created or renamed in a folder durable, where the system lets a folder be flushed."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
