"""Figures: γ over the number of ones, and the error that it leaves, beside other noise functions.

    gamma_figure        γ(l) over l
    error_figure        one measure of error over the p that all voters share
    comparison_figure   those two side by side, as in Figure 2 of the paper
    errors_figure       both measures of error over p
    allowance_figure    both measures of error over the privacy allowance m
    ways_figure         ways of releasing many majorities within one total budget: how often each errs, and its γ

Each returns a matplotlib figure that belongs to no window and no global state; `render` gives its bytes. matplotlib
(the extra ``plot``) is imported by the functions that draw.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from darrm_opt.design.solution import Solution
from darrm_opt.error import error_curve
from darrm_opt.errors import InvalidInput
from darrm_opt.extras import needed
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from darrm_opt.ensembles.compare import Comparison

FORMATS = ("png", "svg", "pdf")
"""What `render` can write."""

Measure = Literal["tv_error", "disagreement"]

MEASURES: tuple[Measure, ...] = ("tv_error", "disagreement")

Errors = Mapping[Measure, Sequence[float | None]]
"""For each measure, one number for each m."""

POINTS = 401
"""Values of p on an error curve: fine enough that its kinks look like curves at K = 101."""

MARKERS = 150
"""Entries up to which each gets its marker (γ lives on whole numbers only); beyond, a line reads better."""

_NEUTRAL = ("tab:gray", "x", ":")
_STYLE = {
    # Colours of Okabe and Ito (and a brown), told apart by colour-blind readers; marker and line say the same in black and white.
    "optimal": ("#D55E00", "o", "-"),
    "optimal_sequence": ("#D55E00", "o", "-"),
    "double_subsampling": ("#009E73", "D", "-."),
    "subsampling": ("#0072B2", "s", "--"),
    "randomized_response": ("#E69F00", "^", ":"),
    "gnmax": ("#56B4E9", "v", "--"),
    "saa": ("#CC79A7", "P", "-."),
    "dpbag": ("#8C564B", "X", ":"),
    "majority": ("#000000", "*", ":"),
}
_NAME = {
    "optimal": r"$\gamma_{\mathrm{opt}}$ (this design)",
    "optimal_sequence": r"$\gamma_{\mathrm{opt}}$ (of all releases at once)",
    "double_subsampling": r"$\gamma_{\mathrm{DSub}}$ (double subsampling)",
    "subsampling": r"$\gamma_{\mathrm{Sub}}$ (subsampling)",
    "randomized_response": r"$\gamma_{\mathrm{const}}$ (randomised response)",
    "gnmax": "GNMax (Gaussian noise)",
    "saa": "SAA (Laplace noise)",
    "dpbag": "DPBag (Laplace noise)",
    "majority": "plain majority",
}
_ERROR = {
    "tv_error": r"tv error: $|\Pr[\mathrm{release}\ 1]-\Pr[\mathrm{majority}\ 1]|$",
    "disagreement": r"disagreement: $\Pr[\mathrm{release\ is\ not\ the\ majority\ voted}]$",
}


def gamma_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw γ(l) over l.

    Args:
        solution: its γ is drawn as "optimal".
        baselines: further noise functions for the same K, by name (`darrm_opt.baselines`).

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    figure, (axes,) = _figure(solution.problem, 1)
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
    figure, (axes,) = _figure(solution.problem, 1)
    draw_error(axes, _curves(solution, baselines), measure)
    draw_legend(figure)
    return figure


def comparison_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw γ and its tv error side by side, beside the baselines.

    Source: Figure 2 of the paper.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    figure, (left, right) = _figure(solution.problem, 2)
    draw_gamma(left, _curves(solution, baselines))
    draw_error(right, _curves(solution, baselines), "tv_error")
    draw_legend(figure)
    return figure


def errors_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw both measures of error side by side, over the probability p that all voters share.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    figure, panels = _figure(solution.problem, 2)
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
    figure, panels = _figure(problem, 2, title=_voters(problem))
    x = np.array(ms, dtype=np.float64)
    for axes, measure in zip(panels, MEASURES, strict=True):
        for name in _ordered(errors):
            values = [math.nan if value is None else value for value in errors[name][measure]]
            _line(axes, x, np.array(values, dtype=np.float64), name, marked=True)
        axes.set(
            xlabel=r"privacy allowance $m$  (the release may cost $m\varepsilon$)", ylabel=f"mean {_ERROR[measure]}"
        )
        axes.set_ylim(bottom=0)
    draw_legend(figure)
    return figure


def ways_figure(comparison: Comparison) -> Figure:
    """Draw how often each way of a comparison errs, and the γ that each amounts to.

    Args:
        comparison: from `darrm_opt.ensembles.compare.compare`; ways that do not fit the budget are named, without a bar.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    problem, total = comparison.problem, comparison.total
    queries = f"{comparison.queries} release" + ("s" if comparison.queries > 1 else "")
    title = f"{_voters(problem)}; {queries}, together {_guarantee(total)}"
    figure, (left, right) = _figure(problem, 2, title=title)
    rows = comparison.rows[::-1]  # the best on top
    errors = [getattr(row, comparison.measure) for row in rows]
    for place, (row, error) in enumerate(zip(rows, errors, strict=True)):
        if error is not None:
            left.barh(place, error, color=_STYLE.get(row.name, _NEUTRAL)[0], height=0.65)
        left.annotate(
            "does not fit" if error is None else f"{error:.3g}",
            (error or 0.0, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color="0.4" if error is None else "black",
        )
    left.set_yticks(range(len(rows)), [_NAME.get(row.name, row.name) for row in rows])
    widest = max((error for error in errors if error is not None), default=0.5)
    left.set(xlabel=f"mean {_ERROR[comparison.measure]}", xlim=(0, 1.15 * widest or 1.0), ylim=(-0.7, len(rows) - 0.3))
    left.grid(visible=False, axis="y")
    draw_gamma(right, {row.name: row.noise for row in comparison.rows if row.noise is not None})
    return figure


def render(figure: Figure, file_format: str) -> bytes:
    """Return a figure as the bytes of a file.

    Args:
        figure: from one of the functions above.
        file_format: one of `FORMATS`.

    Guarantees:
        The same figure gives the same bytes: no dates, no random identifiers.

    Raises:
        InvalidInput: another format.
    """
    check_drawable(file_format)
    import matplotlib as mpl

    buffer = io.BytesIO()
    undated: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "darrm-opt", "svg.fonttype": "path"}):
        figure.savefig(buffer, format=file_format, dpi=160, metadata=undated[file_format])
    return buffer.getvalue()


def check_drawable(file_format: str) -> None:
    """Refuse, before any work, what `render` could not draw.

    Raises:
        InvalidInput: not one of `FORMATS`.
        BackendUnavailable: matplotlib is not installed.
    """
    if file_format not in FORMATS:
        raise InvalidInput("plot", file_format, "one of the formats " + ", ".join(FORMATS))
    needed("matplotlib", "Drawing")


def _figure(problem: Problem, panels: int, *, title: str = "") -> tuple[Figure, list[Axes]]:
    check_drawable("png")
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(7.0 if panels == 1 else 11.5, 4.8), layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.06))
    figure.suptitle(title or f"{_voters(problem)}; release {_guarantee(problem.target)}", fontsize=11)
    return figure, styled(figure.subplots(1, panels))


def styled(axes: Any) -> list[Axes]:
    """Return panels as a list, each with the grid and the frame that all figures have."""
    panels = list(np.atleast_1d(axes).ravel())
    for each in panels:
        each.grid(visible=True, color="0.88", linewidth=0.7)
        each.set_axisbelow(True)
        each.spines[["top", "right"]].set_visible(False)
    return panels


def draw_gamma(axes: Axes, curves: Mapping[str, NoiseFunction]) -> None:
    """Draw γ(l) over l on one panel."""
    from matplotlib.ticker import MaxNLocator

    for name in _ordered(curves):
        values = curves[name].values
        _line(axes, np.arange(values.size, dtype=np.float64), values, name, marked=True)
    axes.set(
        xlabel=r"votes for 1, $l$",
        ylabel=r"$\gamma(l)$: probability of releasing the majority",
        ylim=(-0.03, 1.04),
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_error(axes: Axes, curves: Mapping[str, NoiseFunction], measure: Measure) -> None:
    """Draw an error over the p that all voters share on one panel."""
    p = np.linspace(0.5, 1.0, POINTS)
    for name in _ordered(curves):
        _line(axes, p, getattr(error_curve(curves[name], p), measure), name, marked=False)
    axes.set(
        xlabel=r"$p$, the chance of each voter to say 1  (the same at $1-p$)", ylabel=_ERROR[measure], xlim=(0.5, 1)
    )
    axes.set_ylim(bottom=0)


def _line(axes: Axes, x: Any, y: Any, name: str, *, marked: bool) -> None:
    colour, marker, dashes = _STYLE.get(name, _NEUTRAL)
    axes.plot(
        x,
        y,
        color=colour,
        linestyle=dashes,
        linewidth=1.8,
        marker=marker if marked and x.size <= MARKERS else None,
        markersize=5.5 if x.size <= 40 else 3,
        label=_NAME.get(name, name),
    )


def draw_legend(figure: Figure) -> None:
    """One legend below all panels, this design first."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles[::-1], labels[::-1], loc="outside lower center", ncols=2 if len(figure.axes) == 1 else 4, frameon=False
    )


def _curves(solution: Solution, baselines: Mapping[str, NoiseFunction] | None) -> dict[str, NoiseFunction]:
    return {**(baselines or {}), "optimal": solution.noise}


def _ordered(curves: Mapping[str, Any]) -> list[str]:
    """Return the names in drawing order: the optimum last, on top of what it is compared with."""
    known = [name for name in _STYLE if name in curves]
    return [*reversed(known[1:]), *(name for name in curves if name not in _STYLE), *known[:1]]


def _voters(problem: Problem) -> str:
    kind = "not private" if problem.voter.epsilon == math.inf else f"each {_guarantee(problem.voter)}"
    reach = "" if problem.affected == problem.K else f", a record reaches {problem.affected}"
    return f"K = {problem.K} voters, {kind}{reach}"


def _guarantee(privacy: Privacy) -> str:
    return f"({privacy.epsilon:.4g}, {privacy.delta:.3g})-DP" if privacy.delta else f"{privacy.epsilon:.4g}-DP"
