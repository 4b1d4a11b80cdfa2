"""γ over the number of ones, and the error that it leaves, beside other noise functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from darrm_opt.design.solution import Solution
from darrm_opt.figures.looks import ERROR, MEASURES, Measure, ordered
from darrm_opt.figures.panels import draw_error, draw_gamma, draw_legend, draw_line, sheet, voters
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Errors = Mapping[Measure, Sequence[float | None]]
"""For each measure, one number for each m."""


def gamma_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw γ(l) over l.

    Args:
        solution: its γ is drawn as "optimal".
        baselines: further noise functions for the same K, by name (`darrm_opt.baselines`).

    Raises:
        BackendUnavailable: matplotlib is not installed.
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

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    figure, (axes,) = sheet(solution.problem, 1)
    draw_error(axes, _curves(solution, baselines), measure)
    draw_legend(figure)
    return figure


def comparison_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw γ and its tv error side by side, beside the baselines.

    Source: Figure 2 of the paper.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    figure, (left, right) = sheet(solution.problem, 2)
    draw_gamma(left, _curves(solution, baselines))
    draw_error(right, _curves(solution, baselines), "tv_error")
    draw_legend(figure)
    return figure


def errors_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw both measures of error side by side, over the probability p that all voters share.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
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

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    figure, panels = sheet(problem, 2, title=voters(problem))
    x = np.array(ms, dtype=np.float64)
    for axes, measure in zip(panels, MEASURES, strict=True):
        for name in ordered(errors):
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
