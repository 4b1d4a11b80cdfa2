"""Figures: γ over the number of ones, and the error that it leaves, beside other noise functions.

    gamma_figure        γ(l) over l
    error_figure        one measure of error over the p that all voters share
    comparison_figure   those two side by side, as in Figure 2 of the paper
    errors_figure       both measures of error over p
    allowance_figure    both measures of error over the privacy allowance m
    mechanisms_figure   mechanisms for many majorities within one total budget: their errors, and their γ

Each returns a matplotlib figure that belongs to no window and no global state; `render` gives its bytes. matplotlib
(the extra ``plot``) is imported by the functions that draw.

    style   colour, line and name of each noise function; sheets, panels, legends, and a figure as a file
    charts  the figures of one design and of a comparison
"""

from darrm_opt.figures.charts import (
    FORMATS,
    Measure,
    allowance_figure,
    check_drawable,
    comparison_figure,
    error_figure,
    errors_figure,
    gamma_figure,
    mechanisms_figure,
    render,
)

__all__ = [
    "FORMATS",
    "Measure",
    "allowance_figure",
    "check_drawable",
    "comparison_figure",
    "error_figure",
    "errors_figure",
    "gamma_figure",
    "mechanisms_figure",
    "render",
]
