"""Durable files: written to a draft, flushed to disk, and moved into place in one step.

A reader sees the old file or the new one, never a part, also after a crash; a failure leaves nothing behind. Only
devices and FIFOs are written in place.
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
    """Yield the path of a draft, readable by its owner alone, that replaces ``path`` when the block succeeds.

    Links are followed: the file that they lead to is replaced and keeps its permissions and, if the system allows it,
    its owner. A device, a FIFO, stdout and stderr are not replaced: the draft's content is written to them.
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
    except BaseException:  # Ctrl-C too must leave nothing behind
        draft.unlink(missing_ok=True)
        raise
    flush_folder(target.parent)


@contextmanager
def errors_naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add ``path`` to an OSError that names no file, as errors of writing do.

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
    """Return the regular file, perhaps yet to be made, to which a path leads; None if it must be written in place."""
    target = Path(os.path.realpath(path))
    try:
        status = Path(path).stat()
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise
        return target
    # A link in /proc to a deleted file, or to memory, leads to no path.
    replaceable = stat.S_ISREG(status.st_mode) and target.exists() and _stream(status) is None
    return target if replaceable or stat.S_ISDIR(status.st_mode) else None


def _stream(status: os.stat_result) -> int | None:
    """Return the descriptor of stdout (1) or stderr (2) if one of them is the file with this status."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


def _write_through(draft: Path, path: str | os.PathLike[str]) -> None:
    import shutil

    stream = _stream(Path(path).stat())  # reopened, a file would be overwritten from its start
    place: BinaryIO
    with draft.open("rb") as file, open(path if stream is None else os.dup(stream), "wb") as place:  # noqa: PTH123
        shutil.copyfileobj(file, place)


def _set_permissions(draft: Path, target: Path, mode: int | None) -> None:
    """Give a draft the permissions and owner of the file that it replaces; else ``mode``."""
    try:
        status = target.stat()
    except FileNotFoundError:
        os.umask(mask := os.umask(0o077))  # reading it requires setting it
        draft.chmod(0o666 & ~mask if mode is None else mode)  # mkstemp gives access to the owner alone
        return
    with contextlib.suppress(OSError, AttributeError):  # only root may change owners, and Windows cannot
        os.chown(draft, status.st_uid, status.st_gid)
    draft.chmod(stat.S_IMODE(status.st_mode))


def flush_folder(folder: Path) -> None:
    """Make file creations and renames in a folder durable, on systems that can flush a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
