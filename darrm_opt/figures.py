"""Figures of γ, of its error beside other noise functions, and of plans and costs.

Each function returns a matplotlib figure that belongs to no window and no global state; `render` gives its bytes.
matplotlib (the extra ``plot``) is imported by the functions that draw. Each noise function has the same colour, line
and name in all figures.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from darrm_opt.accuracy import error_curve
from darrm_opt.design.report import guarantee
from darrm_opt.design.solution import Solution
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import calibrated_names
from darrm_opt.mechanisms.base import mechanism_classes
from darrm_opt.noise import NoiseFunction
from darrm_opt.optional_packages import require
from darrm_opt.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from darrm_opt.mechanisms import VoteMechanism
    from darrm_opt.planning import Option, Plan
    from darrm_opt.planning.compare import Comparison

__all__ = [
    "FORMATS",
    "Measure",
    "allowance_figure",
    "check_drawable",
    "comparison_figure",
    "cost_figure",
    "error_figure",
    "errors_figure",
    "gamma_figure",
    "mechanisms_figure",
    "plan_figure",
    "render",
]

Measure = Literal["tv_error", "disagreement"]

MEASURES: tuple[Measure, ...] = ("tv_error", "disagreement")

_NEUTRAL = ("tab:gray", "x", ":")
_OPTIMUM = ("#D55E00", "o", "-")
_LOOKS = (
    # For our mechanisms with a parameter: colours of Okabe and Ito (and others), distinguishable by colour-blind
    # readers; in black and white by marker and line.
    ("#0072B2", "s", "--"),
    ("#E69F00", "^", ":"),
    ("#56B4E9", "v", "--"),
    ("#CC79A7", "P", "-."),
    ("#999933", ">", "-."),
    ("#332288", "<", "-"),
)
_NAME = {
    "optimal": r"$\gamma_{\mathrm{opt}}$ (this design)",
    "optimal_sequence": r"$\gamma_{\mathrm{opt}}$ (of all releases at once)",
    "double_subsampling": r"$\gamma_{\mathrm{DSub}}$ (double subsampling)",
    "dpbag": "DPBag (Laplace noise)",
    "majority": "plain majority",
    "fewer_voters": "plain majority of fewer voters",
}
ERROR = {
    "tv_error": r"tv error  $|\Pr[\mathrm{bit}=1]-\Pr[\mathrm{majority}=1]|$",
    "disagreement": r"disagreement  $\Pr[\mathrm{bit}\neq\mathrm{majority}]$",
}


def style_of(name: str) -> tuple[str, str, str]:
    """Return colour, marker and line of a noise function."""
    return _styles().get(name, _NEUTRAL)


def display_name(name: str) -> str:
    """Return the name of a noise function in a legend."""
    if name in _NAME:
        return _NAME[name]
    mechanism = mechanism_classes().get(name)
    return name if mechanism is None else mechanism.title or name


def drawing_order(names: Iterable[str]) -> list[str]:
    """Return the names in drawing order: the optimum last, so that it is on top.

    >>> drawing_order(["optimal", "another", "subsampling", "laplace"])
    ['laplace', 'subsampling', 'another', 'optimal']
    """
    requested = list(names)
    styled = [name for name in _styles() if name in requested]
    return [*reversed(styled[1:]), *(name for name in requested if name not in _styles()), *styled[:1]]


@cache
def _styles() -> dict[str, tuple[str, str, str]]:
    """Return colour, marker and line by name, the optimum first."""
    styles = {"optimal": _OPTIMUM, "optimal_sequence": _OPTIMUM, "double_subsampling": ("#009E73", "D", "-.")}
    styles |= dict(zip(reversed(calibrated_names()[: len(_LOOKS)]), _LOOKS, strict=True))
    return styles | {"dpbag": ("#8C564B", "X", ":"), "majority": ("#000000", "*", ":")}


POINTS = 401  # points p of an error curve: enough for its kinks to look smooth at K = 101
MARKERS = 150  # largest number of entries that each get a marker (γ lives on integers); beyond, a line reads better


def sheet(problem: Problem | None, panels: int, *, title: str = "") -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, side by side, with ``title`` or a description of the problem."""
    check_drawable("png")
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.06)
    figure = _notebook_figure()(figsize=(7.0 if panels == 1 else 11.5, 4.8), layout=layout)
    if problem is not None:
        title = title or f"{voters(problem)}; release {guarantee(problem.target, '.4g')}"
    draw_title(figure, title)
    return figure, style_panels(figure.subplots(1, panels))


@cache
def _notebook_figure() -> type[Figure]:
    """Return a figure class that notebooks display without pyplot."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_svg_(self) -> str:
            return render(self, "svg").decode("utf-8")

        def _repr_png_(self) -> bytes:
            return render(self, "png")

    return NotebookFigure


def style_panels(axes: Any) -> list[Axes]:
    """Return the panels as a list, each with the common grid and frame."""
    panels = list(np.atleast_1d(axes).ravel())
    for panel in panels:
        panel.grid(visible=True, color="0.88", linewidth=0.7)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return panels


def draw_gamma(axes: Axes, curves: Mapping[str, NoiseFunction]) -> None:
    """Draw γ(l) over l on one panel."""
    from matplotlib.ticker import MaxNLocator

    for name in drawing_order(curves):
        values = curves[name].values
        draw_line(axes, np.arange(values.size, dtype=np.float64), values, name, marked=True)
    axes.set(
        xlabel=r"votes for 1, $l$",
        ylabel=r"$\gamma(l)$  (the bit is the majority with $(1+\gamma)/2$)",
        ylim=(-0.03, 1.04),
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_error(axes: Axes, curves: Mapping[str, NoiseFunction], measure: Measure) -> None:
    """Draw an error over the p that all voters share on one panel."""
    p = np.linspace(0.5, 1.0, POINTS)
    for name in drawing_order(curves):
        draw_line(axes, p, getattr(error_curve(curves[name], p), measure), name, marked=False)
    axes.set(
        xlabel=r"$p$, each voter's probability of voting 1  (the same at $1-p$)", ylabel=ERROR[measure], xlim=(0.5, 1)
    )
    axes.set_ylim(bottom=0)


def draw_line(axes: Axes, x: Any, y: Any, name: str, *, marked: bool) -> None:
    """Draw one line in the style of its name; ``marked``: with a marker at each point if they are few."""
    colour, marker, dashes = style_of(name)
    shown, size = marker if marked and x.size <= MARKERS else None, 5.5 if x.size <= 40 else 3
    label = display_name(name)
    axes.plot(x, y, color=colour, linestyle=dashes, linewidth=1.8, marker=shown, markersize=size, label=label)


TITLE_INCH, LEGEND_INCHES = 11.0, 2.7  # characters of a title per inch; width of a legend entry [inches]


def draw_title(figure: Figure, title: str) -> None:
    """Write a title above all panels, wrapped to the figure's width."""
    import textwrap

    figure.suptitle(textwrap.fill(title, int(figure.get_figwidth() * TITLE_INCH)), fontsize=11)


def draw_legend(figure: Figure, panel: int = 0) -> None:
    """Draw one legend below all panels, for the lines of one panel, with this design first."""
    handles, labels = figure.axes[panel].get_legend_handles_labels()
    columns = max(1, min(4, int(figure.get_figwidth() / LEGEND_INCHES)))
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=columns, frameon=False)


def voters(problem: Problem) -> str:
    """Return a description of the voters."""
    voter = problem.voter
    kind = "not private" if voter.epsilon == math.inf else f"each {guarantee(voter, '.4g')}"
    if len(voter.points) > 1:
        kind += f", by a profile of {len(voter.points)} points"
    affected = "" if problem.affected == problem.K else f", a record reaches {problem.affected}"
    return f"K = {problem.K} voters, {kind}{affected}"


FORMATS = ("png", "svg", "pdf")


def render(figure: Figure, file_format: str) -> bytes:
    """Return a figure as the bytes of a file; equal figures give equal bytes (no dates, no random identifiers)."""
    check_drawable(file_format)
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "darrm-opt", "svg.fonttype": "path"}):
        figure.savefig(buffer, format=file_format, dpi=160, metadata=metadata[file_format])
    return buffer.getvalue()


def check_drawable(file_format: str) -> None:
    """Raise an error, before any work, for what `render` cannot draw."""
    if file_format not in FORMATS:
        raise InvalidInput("plot", file_format, "one of the formats " + ", ".join(FORMATS))
    require("matplotlib", "Drawing")


Errors = Mapping[Measure, Sequence[float | None]]


def gamma_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw γ(l) of a solution, as "optimal", and of other noise functions for the same K over l."""
    return _figure_of(solution.problem, _beside(solution, baselines), draw_gamma)


def error_figure(
    solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None, measure: Measure = "tv_error"
) -> Figure:
    """Draw an error of a solution, as "optimal", and of other noise functions over the p that all voters share."""
    return _figure_of(solution.problem, _beside(solution, baselines), partial(draw_error, measure=measure))


def comparison_figure(solution: Solution, baselines: Mapping[str, NoiseFunction] | None = None) -> Figure:
    """Draw γ and its tv error side by side with the baselines, as in Figure 2 of the paper."""
    return _figure_of(
        solution.problem,
        _beside(solution, baselines),
        draw_gamma,
        partial(draw_error, measure="tv_error"),
    )


def errors_figure(problem: Problem, curves: Mapping[str, NoiseFunction]) -> Figure:
    """Draw both measures of error of noise functions side by side, over the probability p that all voters share."""
    return _figure_of(problem, curves, *(partial(draw_error, measure=measure) for measure in MEASURES))


def allowance_figure(problem: Problem, ms: Sequence[float], errors: Mapping[str, Errors]) -> Figure:
    """Draw both measures of error, by noise function, over the privacy allowance m; ``problem`` gives the title."""
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


def _beside(solution: Solution, baselines: Mapping[str, NoiseFunction] | None) -> dict[str, NoiseFunction]:
    return {**(baselines or {}), "optimal": solution.noise}


def _figure_of(problem: Problem, curves: Mapping[str, NoiseFunction], *drawings: Callable[..., None]) -> Figure:
    """Draw noise functions, with one panel per drawing function."""
    figure, panels = sheet(problem, len(drawings))
    for axes, draw in zip(panels, drawings, strict=True):
        draw(axes, curves)
    draw_legend(figure)
    return figure


def mechanisms_figure(comparison: Comparison) -> Figure:
    """Draw the error of each mechanism of a comparison, and its γ; mechanisms that do not fit are named."""
    problem, total = comparison.problem, comparison.total
    queries = f"{comparison.queries} release" + ("s" if comparison.queries > 1 else "")
    title = f"{voters(problem)}; {queries}, together {guarantee(total, '.4g')}"
    figure, (left, right) = sheet(problem, 2, title=title)
    errors = [getattr(row, comparison.measure) for row in comparison.rows]
    notes = ["does not fit" if error is None else f"{error:.3g}" for error in errors]
    draw_bars(left, [row.name for row in comparison.rows], errors, notes)
    left.set(xlabel=f"mean {ERROR[comparison.measure]}")
    draw_gamma(right, {row.name: row.noise for row in comparison.rows if row.noise is not None})
    draw_legend(figure, panel=1)
    return figure


def draw_bars(axes: Axes, names: Sequence[str], values: Sequence[float | None], notes: Sequence[str]) -> None:
    """Draw a bar with a note for each name, the first on top; None has no bar."""
    for place, (name, value, note) in enumerate(zip(names[::-1], values[::-1], notes[::-1], strict=True)):
        if value is not None:
            axes.barh(place, value, color=style_of(name)[0], height=0.65)
        axes.annotate(
            note,
            (value or 0.0, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color="0.4" if value is None else "black",
        )
    axes.set_yticks(range(len(names)), [display_name(name) for name in names[::-1]])
    widest = max((value for value in values if value is not None), default=0.5)
    axes.set(xlim=(0, 1.15 * widest or 1.0), ylim=(-0.7, len(names) - 0.3))
    axes.grid(visible=False, axis="y")


COUNTS = 7  # numbers of answers at which a plan's figure computes ε: each is one account per mechanism


def plan_figure(plan: Plan) -> Figure:
    """Draw the share of right answers of each option of a plan and the ε that it spends, and how it spends it.

    The second panel shows γ if options are ranked by γ's objective, and otherwise ε over the number of answers, by the
    plan's own account, up to the requested number.
    """
    question = plan.question
    voters_text = f"K = {question.K} voters, {question.classes} classes"
    queries = f"{question.queries:,} release" + ("s" if question.queries > 1 else "")
    title = f"{voters_text}; {queries}, together {guarantee(question.total, '.4g')}"
    figure, (left, right) = sheet(question.voters, 2, title=title)
    draw_bars(
        left,
        [option.name for option in plan.options],
        [option.right for option in plan.options],
        [
            option.outcome
            if option.right is None or option.spent is None
            else f"{option.right:.3f}  (ε {option.spent.epsilon:.3g})"
            for option in plan.options
        ],
    )
    left.set(xlabel="share of right answers  (the ε that all answers spend)", xlim=(0, 1.45))
    left.set_xticks(np.linspace(0, 1, 6))
    if question.law is None:
        draw_gamma(right, {option.name: option.noise for option in plan.options if option.noise is not None})
    else:
        _draw_spending(right, plan)
    draw_legend(figure, panel=1)
    return figure


def _draw_spending(axes: Axes, plan: Plan) -> None:
    """Draw ε over the number of answers for each option that has a mechanism."""
    question = plan.question
    counts = np.unique(np.geomspace(1, question.queries, COUNTS).round().astype(int))

    def spent(option: Option, count: int) -> float:
        assert option.mechanism is not None  # noqa: S101 - for the type checker
        epsilon = option.mechanism.cost(count, question.total.delta, question.sampling).epsilon
        return epsilon if math.isfinite(epsilon) else math.nan

    options = {option.name: option for option in plan.options if option.mechanism is not None}
    for name in drawing_order(options):
        epsilons = np.array([spent(options[name], int(count)) for count in counts])
        draw_line(axes, counts.astype(np.float64), epsilons, name, marked=True)
    axes.axhline(question.total.epsilon, color="0.4", linewidth=1, linestyle=(0, (2, 2)))
    axes.set(xlabel="answers released", ylabel=f"proved ε at δ = {question.total.delta:g}")
    axes.set_ylim(bottom=0)


def cost_figure(mechanism: VoteMechanism, points: Sequence[Mapping[str, Any]], queries: int, delta: float) -> Figure:
    """Draw the cost of a mechanism's releases: ε over their number at ``delta``, and over δ at ``queries``.

    ``points``: those of `darrm_opt.questions.cost.Cost.points` as plain data, each with queries, delta and epsilon.
    """
    title = f"K = {mechanism.K} voters, {mechanism.classes} classes; {mechanism.words}"
    figure, (left, right) = sheet(None, 2, title=title)
    for axes, key, other, value in ((left, "queries", "delta", delta), (right, "delta", "queries", queries)):
        line = [point for point in points if point[other] == value and point["epsilon"] is not None and point[key]]
        x, y = (np.array([point[name] for point in line], dtype=np.float64) for name in (key, "epsilon"))
        draw_line(axes, x, y, mechanism.name, marked=True)
        axes.set_ylim(bottom=0)
    left.set(xlabel="answers released", ylabel=f"proved ε at δ = {delta:g}")
    right.set(xlabel="δ of all answers", ylabel=f"proved ε of {queries:,} answers", xscale="log")
    return figure
