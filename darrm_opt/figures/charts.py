"""Charts: γ over the number of ones and its errors, for one design or for the mechanisms of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from darrm_opt.design.report import guarantee
from darrm_opt.design.solution import Solution
from darrm_opt.figures.style import (
    ERROR,
    MEASURES,
    Measure,
    display_name,
    draw_error,
    draw_gamma,
    draw_legend,
    draw_line,
    drawing_order,
    sheet,
    style_of,
    voters,
)
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from darrm_opt.planning.compare import Comparison


Errors = Mapping[Measure, Sequence[float | None]]
"""For each measure, one number for each m."""


def gamma_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw γ(l) over l.

    Args:
        solution: its γ is drawn as "optimal".
        baselines: further noise functions for the same K, by name (`darrm_opt.baselines`).
    """
    figure, (axes,) = sheet(solution.problem, 1)
    draw_gamma(axes, _curves(solution, baselines))
    draw_legend(figure)
    return figure


def error_figure(
    solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None, measure: Measure = "tv_error"
) -> Figure:
    """Draw an error over the probability p that all voters share.

    Args:
        solution: its γ is drawn as "optimal".
        baselines: further noise functions for the same K, by name.
        measure: "tv_error" (the paper's) or "disagreement".
    """
    figure, (axes,) = sheet(solution.problem, 1)
    draw_error(axes, _curves(solution, baselines), measure)
    draw_legend(figure)
    return figure


def comparison_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw γ and its tv error side by side, beside the baselines.

    Source: Figure 2 of the paper.
    """
    figure, (left, right) = sheet(solution.problem, 2)
    draw_gamma(left, _curves(solution, baselines))
    draw_error(right, _curves(solution, baselines), "tv_error")
    draw_legend(figure)
    return figure


def errors_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw both measures of error side by side, over the probability p that all voters share."""
    figure, panels = sheet(solution.problem, 2)
    for axes, measure in zip(panels, MEASURES, strict=True):
        draw_error(axes, _curves(solution, baselines), measure)
    draw_legend(figure)
    return figure


def allowance_figure(problem: Problem, ms: Sequence[float], errors: Mapping[str, Errors]) -> Figure:
    """Draw both measures of error side by side, over the privacy allowance m.

    Args:
        problem: any of the problems: its K and voters stand in the title.
        ms: allowances, ascending.
        errors: by the noise function's name: for each measure one number for each m, None where it has none.
    """
    figure, panels = sheet(problem, 2, title=voters(problem))
    x = np.array(ms, dtype=np.float64)
    for axes, measure in zip(panels, MEASURES, strict=True):
        for name in drawing_order(errors):
            values = [math.nan if value is None else value for value in errors[name][measure]]
            draw_line(axes, x, np.array(values, dtype=np.float64), name, marked=True)
        axes.set(
            xlabel=r"privacy allowance $m$  (the release may cost $m\varepsilon$)", ylabel=f"mean {ERROR[measure]}"
        )
        axes.set_ylim(bottom=0)
    draw_legend(figure)
    return figure


def _curves(solution: Solution, baselines: Mapping[str, NoiseFunction] | None) -> dict[str, NoiseFunction]:
    return {**(baselines or {}), "optimal": solution.noise}


def mechanisms_figure(comparison: Comparison) -> Figure:
    """Draw how often each mechanism of a comparison errs, and the γ that each amounts to.

    Args:
        comparison: from `darrm_opt.planning.compare.compare`; mechanisms that do not fit are named, without a bar.
    """
    problem, total = comparison.problem, comparison.total
    queries = f"{comparison.queries} release" + ("s" if comparison.queries > 1 else "")
    title = f"{voters(problem)}; {queries}, together {guarantee(total, '.4g')}"
    figure, (left, right) = sheet(problem, 2, title=title)
    rows = comparison.rows[::-1]  # the best on top
    errors = [getattr(row, comparison.measure) for row in rows]
    for place, (row, error) in enumerate(zip(rows, errors, strict=True)):
        if error is not None:
            left.barh(place, error, color=style_of(row.name)[0], height=0.65)
        left.annotate(
            "does not fit" if error is None else f"{error:.3g}",
            (error or 0.0, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color="0.4" if error is None else "black",
        )
    left.set_yticks(range(len(rows)), [display_name(row.name) for row in rows])
    widest = max((error for error in errors if error is not None), default=0.5)
    left.set(xlabel=f"mean {ERROR[comparison.measure]}", xlim=(0, 1.15 * widest or 1.0), ylim=(-0.7, len(rows) - 0.3))
    left.grid(visible=False, axis="y")
    draw_gamma(right, {row.name: row.noise for row in comparison.rows if row.noise is not None})
    draw_legend(figure, panel=1)
    return figure
