"""Notebook figure: a matplotlib figure that shows itself, without pyplot.

Imported where figures are drawn, since it needs matplotlib.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from darrm_opt.figures.render import render


class NotebookFigure(Figure):
    """Figure that a notebook shows when it is a cell's value."""

    def _repr_svg_(self) -> str:
        return render(self, "svg").decode("utf-8")

    def _repr_png_(self) -> bytes:
        return render(self, "png")
