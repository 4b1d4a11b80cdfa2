"""Ways of releasing many majorities within one total budget: how often each errs, and its γ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from darrm_opt.figures.looks import ERROR, called, look
from darrm_opt.figures.panels import draw_gamma, guarantee, sheet, voters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from darrm_opt.ensembles.compare import Comparison


def ways_figure(comparison: Comparison) -> Figure:
    """Draw how often each way of a comparison errs, and the γ that each amounts to.

    Args:
        comparison: from `darrm_opt.ensembles.compare.compare`; ways that do not fit the budget are named, without a bar.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    problem, total = comparison.problem, comparison.total
    queries = f"{comparison.queries} release" + ("s" if comparison.queries > 1 else "")
    title = f"{voters(problem)}; {queries}, together {guarantee(total)}"
    figure, (left, right) = sheet(problem, 2, title=title)
    rows = comparison.rows[::-1]  # the best on top
    errors = [getattr(row, comparison.measure) for row in rows]
    for place, (row, error) in enumerate(zip(rows, errors, strict=True)):
        if error is not None:
            left.barh(place, error, color=look(row.name)[0], height=0.65)
        left.annotate(
            "does not fit" if error is None else f"{error:.3g}",
            (error or 0.0, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color="0.4" if error is None else "black",
        )
    left.set_yticks(range(len(rows)), [called(row.name) for row in rows])
    widest = max((error for error in errors if error is not None), default=0.5)
    left.set(xlabel=f"mean {ERROR[comparison.measure]}", xlim=(0, 1.15 * widest or 1.0), ylim=(-0.7, len(rows) - 0.3))
    left.grid(visible=False, axis="y")
    draw_gamma(right, {row.name: row.noise for row in comparison.rows if row.noise is not None})
    return figure
