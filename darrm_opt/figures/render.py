"""Rendering of figures: the file formats, and a figure as bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from darrm_opt.errors import InvalidInput
from darrm_opt.optional_packages import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
"""What `render` can write."""


def render(figure: Figure, file_format: str) -> bytes:
    """Return a figure as the bytes of a file.

    Args:
        figure: from a function of this package.
        file_format: one of `FORMATS`.

    Guarantees:
        The same figure gives the same bytes: no dates, no random identifiers.

    Raises:
        InvalidInput: another format.
    """
    check_drawable(file_format)
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "darrm-opt", "svg.fonttype": "path"}):
        figure.savefig(buffer, format=file_format, dpi=160, metadata=metadata[file_format])
    return buffer.getvalue()


def check_drawable(file_format: str) -> None:
    """Refuse, before any work, what `render` could not draw.

    Raises:
        InvalidInput: not one of `FORMATS`.
        BackendUnavailable: matplotlib is not installed.
    """
    if file_format not in FORMATS:
        raise InvalidInput("plot", file_format, "one of the formats " + ", ".join(FORMATS))
    require("matplotlib", "Drawing")
