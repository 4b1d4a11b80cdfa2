"""Files: read and written whole or not at all, and checked before the work rather than after it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from darrm.cli.output import as_json
from darrm_opt.errors import InvalidInput


def check_writable(path: str | None, option: str) -> None:
    """Refuse a path that cannot be written, before any work."""
    if path is None:
        return
    if path == "-":
        reason = (
            "It is no stream here: answers go to stdout by themselves, with --json as JSON. A file of this name is ./-."
        )
    else:
        reason = _obstacle(path)
    if reason:
        raise InvalidInput(option, path, "a file that can be written", reason)


def _obstacle(path: str) -> str:
    """Return why no file can be written to a path; empty if one can."""
    from tempfile import TemporaryFile

    from darrm_opt.durable_file import regular_target

    try:
        if Path(path).is_dir():  # an error where a folder on the way cannot be searched
            return "It is a folder."
        target = regular_target(path)
    except OSError as err:
        return f"{err.strerror}."
    if target is None:
        return "" if os.access(path, os.W_OK) else "It cannot be written."
    if not target.parent.is_dir():
        return f"There is no folder {target.parent}."
    try:
        with TemporaryFile(dir=target.parent):  # what permissions say is not all: a file system may refuse
            return ""
    except OSError:
        return f"The folder {target.parent} cannot be written."


def check_plot(path: str | None) -> None:
    """Refuse a picture that cannot be written or drawn, before any work."""
    check_writable(path, "plot")
    if path is not None:
        import logging

        logging.getLogger("matplotlib").setLevel(logging.ERROR)  # such as that it builds its list of fonts
        from darrm_opt.figures import FORMATS, check_drawable

        if picture_format(path) not in FORMATS:
            raise InvalidInput("plot", path, "a name ending in " + ", ".join(f".{name}" for name in FORMATS))
        check_drawable(picture_format(path))


def picture_format(path: str) -> str:
    """Return the format that a file's name asks for.

    >>> picture_format("output/MNIST.SVG")
    'svg'
    """
    return Path(path).suffix.lower().removeprefix(".")


def write_whole(path: str | Path, content: bytes) -> None:
    """Write ``content`` beside ``path`` and move it there in one step (`replacing`).

    A reader sees the old file or the new one.
    """
    from darrm_opt.durable_file import replacing

    try:
        with replacing(path) as draft:
            draft.write_bytes(content)
    except OSError as err:  # a full disk is told without any name, and ours is not that of the file beside it
        raise OSError(err.errno, err.strerror, str(path)) from err


def write_json(path: str | Path, content: object) -> None:
    """Write ``content`` as JSON for readers and programs, indented; the rest as `write_whole`."""
    write_whole(path, f"{as_json(content, indent=2)}\n".encode())


def read_text(source: str, argument: str = "FILE") -> str:
    """Return what is in the file ``source``, or on stdin for ``-``; ``argument`` is what named it."""
    if source == "-" and sys.stdin is None:
        raise InvalidInput(argument, source, "a readable file, or - for stdin", "Stdin is closed.")
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else "It is not UTF-8 text"
        raise InvalidInput(argument, source, "a readable file, or - for stdin", f"{reason}.") from err


def is_release_log(file: str) -> bool:
    """Return whether a file begins as a release log does: a checksum, and a record that says so."""
    try:
        with Path(file).open("rb") as log:
            head = log.read(256)
    except OSError:
        return False
    if b' {"kind":"' not in head:  # the rest takes long to import, and most files are no log
        return False
    from darrm_opt.release.journal import CHECKSUM
    from darrm_opt.release.log_lines import KIND

    return head[CHECKSUM:].startswith(f' {{"kind":"{KIND}"'.encode())
