"""Pictures with the paper's panels, in the style of `darrm_opt.figures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from darrm_opt.figures import check_drawable, draw_error, draw_gamma, draw_legend, draw_title, style_panels
from darrm_opt.noise import NoiseFunction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_A_ROW = 4
"""Beyond this the panels are wrapped: six become two rows of three."""

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7")
"""Okabe and Ito's, told apart by colour-blind readers."""

SIGNS = (("o", "-"), ("s", "--"), ("D", "-."), ("^", ":"))
"""Marker and line of each, which say the same in black and white."""


HATCHES = ("", "//", "..", "xx")
"""Pattern of each bar, which says the same in black and white."""


def shapes_figure(title: str, panels: Sequence[tuple[str, Mapping[str, NoiseFunction]]]) -> Figure:
    """Draw γ over l and, below it, the tv error over p, for each panel."""
    across = len(panels) if len(panels) <= PANELS_A_ROW else 3
    down = -(-len(panels) // across)
    figure, grid = _grid(title, 2 * down, across)
    for place, (label, curves) in enumerate(panels):
        row, column = divmod(place, across)
        upper, lower = grid[2 * row * across + column], grid[(2 * row + 1) * across + column]
        draw_gamma(upper, curves)
        draw_error(lower, curves, "tv_error")
        upper.set_title(label, fontsize=11)
        upper.set_ylabel(r"$\gamma(l)$" if column == 0 else "")
        lower.set_ylabel("tv error" if column == 0 else "")
        lower.set_xlabel(r"$p$ of every voter")
    draw_legend(figure)
    return figure


def beliefs_figure(
    title: str,
    rows: Sequence[tuple[str, Mapping[str, NoiseFunction], Mapping[str, Mapping[str, Mapping[str, float]]]]],
) -> Figure:
    """Draw, for each row, γ over l and both errors as bars."""
    measures = list(rows[0][2])
    figure, grid = _grid(title, len(rows), 1 + len(measures), wide=4.6)
    for row, (label, curves, errors) in enumerate(rows):
        left, *others = grid[row * (1 + len(measures)) : (row + 1) * (1 + len(measures))]
        styles = list(zip(curves.items(), COLOURS, SIGNS, strict=False))
        for (name, noise), colour, (marker, line) in reversed(styles):  # the legend turns the order around
            left.plot(
                noise.values, color=colour, marker=marker, linestyle=line, linewidth=1.8, label=f"made for {name}"
            )
        left.set(xlabel=r"votes for 1, $l$", ylabel=rf"{label}:  $\gamma(l)$", ylim=(-0.03, 1.04))
        for axes, measure in zip(others, measures, strict=True):
            _bars(axes, errors[measure], list(curves))
            axes.set(xlabel="how the $p_i$ are drawn", ylabel=measure)
    draw_legend(figure)
    return figure


def variance_figure(title: str, curves: Sequence[tuple[str, np.ndarray, np.ndarray, float]]) -> Figure:
    """Draw σ² of GNMax over the order λ at which it is proved."""
    figure, (axes,) = _grid(title, 1, 1, wide=7.0, high=4.6)
    axes.plot([], [], "x", color="0.3", markeredgewidth=2, label=r"the $\lambda$ that the paper prints")
    axes.plot([], [], "o", color="0.3", label="least")
    for (label, orders, variances, order), colour, (_, line) in reversed(
        list(zip(curves, COLOURS, SIGNS, strict=False))
    ):
        axes.plot(orders, variances, color=colour, linestyle=line, linewidth=1.8, label=label)
        best = int(np.argmin(variances))
        axes.plot(orders[best], variances[best], "o", color=colour)
        axes.plot(order, np.interp(order, orders, variances), "x", color=colour, markersize=8, markeredgewidth=2)
    top = 4 * min(float(variances.min()) for _, _, variances, _ in curves)
    axes.set(xlabel=r"RDP order $\lambda$", ylabel=r"$\sigma^2$ [votes$^2$]", ylim=(0, top))
    draw_legend(figure)
    return figure


def _bars(axes: Axes, errors: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> None:
    width = 0.8 / len(names)
    for place, (name, colour, hatch) in enumerate(zip(names, COLOURS, HATCHES, strict=False)):
        x = np.arange(len(errors)) + (place - (len(names) - 1) / 2) * width
        axes.bar(
            x,
            [errors_of_name[name] for errors_of_name in errors.values()],
            width * 0.92,
            color=colour,
            hatch=hatch,
            edgecolor="white",
        )
    axes.set_xticks(range(len(errors)), list(errors), fontsize=8)
    axes.set_ylim(bottom=0)


def _grid(title: str, down: int, across: int, *, wide: float = 3.6, high: float = 3.0) -> tuple[Figure, list[Axes]]:
    check_drawable("png")
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    size = (max(wide * across, 6.5), high * down + 0.9)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))
    draw_title(figure, title)
    return figure, style_panels(figure.subplots(down, across))
