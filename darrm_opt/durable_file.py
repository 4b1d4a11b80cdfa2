"""Durable files: written beside their place, flushed to the disk, and moved there in one step.

A reader meets the old file or the new one, never a part, also after a crash; what fails leaves nothing behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int | None = None) -> Iterator[Path]:
    """Yield the path of a draft, readable by its owner alone; when the block ends well, it replaces ``path``.

    Args:
        path: the file to be written; its folder must exist.
        mode: permissions of the new file; None: the usual ones (the umask's).

    Raises:
        OSError: it cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "answer")) as draft:
    ...         _ = draft.write_text("42")
    ...     [(each.name, each.read_text()) for each in Path(folder).iterdir()]
    [('answer', '42')]
    """
    import tempfile

    target = Path(path)
    folder = target.absolute().parent
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=folder)
    draft = Path(name)
    try:
        os.close(descriptor)
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.chmod(0o666 & ~_umask() if mode is None else mode)  # mkstemp makes files for their owner alone
        draft.replace(target)
    except BaseException:  # ctrl-C too must leave nothing behind
        draft.unlink(missing_ok=True)
        raise
    flush_folder(folder)


def flush_folder(folder: Path) -> None:
    """Make what was created or renamed in a folder durable, where the system lets a folder be flushed."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
