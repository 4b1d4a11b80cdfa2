"""Figures of γ and its error, without data.

γ_opt beside γ_Sub, γ_DSub and γ_const (Figures 2, 6, 7, 8), and what γ_opt loses where the voters differ from the
design's prior (Figure 9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from darrm_opt.accounting.composition.closed_forms import kov_composition
from darrm_opt.accuracy import disagreement, error_curve, tv_error
from darrm_opt.baselines import double_subsampling, plain_majority, randomized_response, subsampling
from darrm_opt.design.certificate import certify, verify
from darrm_opt.design.objective import AnyObjective, rectangular
from darrm_opt.design.scenarios import expected_error
from darrm_opt.design.solver import solve
from darrm_opt.figures import check_drawable, draw_error, draw_gamma, draw_legend, draw_title, style_panels
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.planning.baselines import MAX_SCALING
from darrm_opt.priors import IndependentVoters
from darrm_opt.privacy_curves import gaussian
from darrm_opt.problem import Privacy, Problem
from darrm_papers.darrm.printed import Cell, Reproduction, Table, one_table
from darrm_papers.darrm.stated_profiles import profile_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLACK = 0.1  # δ′ of Figure 6 and Table 3
SHARED_P = np.linspace(0.5, 1.0, 401)  # where the largest tv error over a p that all voters share is looked for


GAUSSIAN_SHIFT = 0.0325  # μ of Gaussian noise by which a voter is (0.1, 1e-5)-DP


@dataclass(frozen=True)
class Panel:
    """One pair of panels: γ over l, and the error over p."""

    label: str  # what distinguishes it
    problem: Problem
    curves: dict[str, NoiseFunction]  # γ by name; "optimal" is γ_opt


def figure_2(*, quick: bool = False) -> Reproduction:
    """Return Figure 2: K = 11, ε = 0.1, Δ = 1e-5, δ = 1 − (1−Δ)^m."""
    panels = []
    for m in (1, 3) if quick else (1, 3, 5, 7):
        problem = Problem.from_allowance(K=11, m=m, epsilon=0.1, Delta=1e-5)
        constant = randomized_response(11, problem.target, plain_majority(11, problem.voter))
        panels.append(_panel(f"m = {m}", problem, {"subsampling": subsampling(11, m), "randomized_response": constant}))
    settings = [(panel.label, panel.problem) for panel in panels]
    title = "Figure 2: K = 11 voters, each (0.1, 1e-5)-DP, δ = 1 − (1−Δ)^m"
    return _reproduction("figure-2", title, panels, tables=(profile_table(settings, gaussian(GAUSSIAN_SHIFT)),))


def figure_6(*, quick: bool = False) -> Reproduction:
    """Return Figure 6: K = 35, ε = 0.1, Δ = 1e-5; target and plain majority by general composition (Table 3)."""
    voter, panels = Privacy(0.1, 1e-5), []
    majority = kov_composition(voter.epsilon, voter.delta, 35, SLACK)
    for M in (10,) if quick else (10, 13, 15, 20):
        problem = Problem(35, voter, kov_composition(voter.epsilon, voter.delta, M, SLACK))
        constant = randomized_response(35, problem.target, majority)
        panels.append(_panel(f"M = {M}", problem, {"subsampling": subsampling(35, M), "randomized_response": constant}))
    majority_private = [verify(panel.problem, np.ones(panel.problem.K + 1)).margin >= 0 for panel in panels]
    return _reproduction(
        "figure-6",
        "Figure 6: K = 35 voters, each (0.1, 1e-5)-DP; M voters are subsampled, (mε, δ) is their general composition",
        panels,
        f"γ = 1, the plain majority itself, is private in {sum(majority_private)} of these {len(panels)} settings, by "
        "the complete constraint set: δ is about 0.1. So γ_opt = 1 there, and every other curve gives utility away.",
    )


def figure_7(*, quick: bool = False) -> Reproduction:
    """Return Figure 7: K = 11, Δ = δ = 0, with double subsampling."""
    return _pure("figure-7", 11, (1, 3) if quick else (1, 3, 5, 7, 9, 11))


def figure_8(*, quick: bool = False) -> Reproduction:
    """Return Figure 8: K = 101, Δ = δ = 0."""
    return _pure("figure-8", 101, (10,) if quick else (10, 20, 30, 40, 60, 80))


def _pure(name: str, K: int, ms: Sequence[int]) -> Reproduction:
    panels = [
        _panel(
            f"m = {m}",
            # Pure voters and target: γ_DSub is proved private for these, whatever ε is (docs/proofs.md, "Closed
            # forms").
            problem := Problem.from_allowance(K=K, m=m, epsilon=0.1),
            {
                "double_subsampling": double_subsampling(K, m),
                "subsampling": subsampling(K, m),
                "randomized_response": randomized_response(K, problem.target, plain_majority(K, problem.voter)),
            },
        )
        for m in ms
    ]
    return _reproduction(
        name,
        f"{name.capitalize().replace('-', ' ')}: K = {K} voters, each 0.1-DP, Δ = δ = 0",
        panels,
        f"γ_DSub is 1 from m = {(K + 1) // 2} on, and so, but for rounding, is γ_opt: the plain majority costs (K+1)/2 "
        "voters' ε.",
        "ε = 0.1 as in Figure 2; γ_Sub and γ_DSub do not depend on it.",
    )


def _panel(label: str, problem: Problem, others: dict[str, NoiseFunction]) -> Panel:
    return Panel(label, problem, {**others, "optimal": solve(problem).noise})


def _reproduction(
    name: str, title: str, panels: list[Panel], *notes: str, tables: tuple[Table, ...] = ()
) -> Reproduction:
    summary = Table(
        "Error over voters drawn as the paper draws them (p_i on a grid of [0.5, 1)), and at the worst shared p",
        (
            *(("panel", ""), ("γ", ""), ("utility", ".6f"), ("mean tv error", ".6f"), ("worst tv error", ".6f")),
            *(("mean disagreement", ".6f"), ("proved private", "")),
        ),
        # γ_opt is the last curve, drawn above the others, and the first row.
        tuple(_row(panel, curve) for panel in panels for curve in reversed(panel.curves)),
    )
    values = Table(
        "γ(l)",
        (("panel", ""), ("γ", ""), ("l", "d"), ("value", ".6f")),
        tuple(
            (panel.label, curve, l, float(noise.values[l]))
            for panel in panels
            for curve, noise in panel.curves.items()
            for l in range(panel.problem.K + 1)
        ),
        # For the files beside the picture: hundreds of numbers are no table to read.
        shown=False,
    )
    return Reproduction(
        name,
        title,
        "exact",
        (summary, values, *tables),
        ("The paper shows these as curves; it prints no numbers to stand beside ours.", *notes),
        {"panels": [_settings(panel) for panel in panels]},
        # Drawn on demand: matplotlib is an extra.
        lambda: shapes_figure(title, [(panel.label, panel.curves) for panel in panels]),
    )


def _settings(panel: Panel) -> dict[str, float | int | str]:
    voter, target = panel.problem.voter, panel.problem.target
    numbers = {"epsilon": voter.epsilon, "Delta": voter.delta, "target_epsilon": target.epsilon, "delta": target.delta}
    return {"panel": panel.label, "K": panel.problem.K, **numbers}


def _row(panel: Panel, curve: str) -> tuple[Cell, ...]:
    noise, objective = panel.curves[curve], rectangular()
    measures: tuple[Callable[[NoiseFunction], float], ...] = (
        lambda noise: objective.linear_goal(noise.K).utility(noise.upper_half),
        lambda noise: tv_error(noise, objective.prior),
        lambda noise: float(error_curve(noise, SHARED_P).tv_error.max()),
        lambda noise: disagreement(noise, objective.prior),
    )
    return (panel.label, curve, *(measure(noise) for measure in measures), "yes" if _private(panel, noise) else "no")


def _private(panel: Panel, noise: NoiseFunction) -> bool:
    """Return whether γ is private for the panel's problem, but for rounding (closed forms have nothing to spare)."""
    private_noise, _ = certify(panel.problem, noise)
    return bool(np.all(private_noise.values >= noise.values * (1 - MAX_SCALING)))


K = 11

DRAWS = 20_000  # drawn vectors p where the tv error has no closed form: a standard error below 3e-4

BELIEFS: dict[str, Callable[[], AnyObjective]] = {
    "U[0, 1]": rectangular,
    "U([0, 0.3] ∪ [0.7, 1])": partial(rectangular, lower=0.7),
    "U[0, 1], true tv error (ours)": expected_error,
}
"""Under which γ is optimised. The paper's rule integrates over [a, 1): the other half of each is its mirror image."""

MEASURES = ("tv error", "disagreement")

Errors = tuple[float, float]


def figure_9(*, quick: bool = False, seed: int = 0) -> Reproduction:
    """Return Figure 9: K = 11, m = 3 and 5, Δ = δ = 0, each γ under voters that are drawn otherwise."""
    # The same draws for every γ and both m: differences between them are then not by chance.
    worlds = _worlds(DRAWS // 100 if quick else DRAWS, seed)
    rows, pictures = [], []
    for m in (3,) if quick else (3, 5):
        problem = Problem.from_allowance(K=K, m=m, epsilon=0.1)
        # Each γ is made for one belief about the voters and measured under all of them.
        curves = {belief: solve(problem, make()).noise for belief, make in BELIEFS.items()}
        errors: dict[str, dict[str, dict[str, float]]] = {measure: {} for measure in MEASURES}
        for world, measure_both in worlds.items():
            for belief, noise in curves.items():
                pair = measure_both(noise)
                rows.append((f"m = {m}", world, belief, *pair))
                for measure, value in zip(MEASURES, pair, strict=True):
                    errors[measure].setdefault(world, {})[belief] = value
        pictures.append((f"m = {m}", curves, errors))
    title = "Figure 9: K = 11 voters, each 0.1-DP, Δ = δ = 0: γ made under one belief, at work in another world"
    return one_table(
        "figure-9",
        title,
        "exact",
        Table(
            "Error of each γ, by how the p_i really are",
            (("panel", ""), ("p_i", ""), ("γ made for", ""), ("tv error", ".6f"), ("disagreement", ".6f")),
            tuple(rows),
        ),
        "The paper shows these as bars or curves; it prints no numbers to stand beside ours.",
        "The paper's figure has an error above 0 at p_i = 0.5. By its own measure (Definition 2.4, the tv "
        "error) it is exactly 0 there for every symmetric γ; disagreement is the measure that is above 0.",
        "The tv error is exact at p_i = 0.5 and U[0, 0.1]; in the other worlds it is a mean over drawn p. "
        "Disagreement is exact everywhere, and depends on the mean of p_i alone: the first three worlds are "
        "one to it.",
        settings={"K": K, "draws": DRAWS // 100 if quick else DRAWS, "seed": seed},
        draw=lambda: beliefs_figure(title, pictures),
    )


def _worlds(draws: int, seed: int) -> dict[str, Callable[[NoiseFunction], Errors]]:
    """Return both errors of a γ for each way in which the p_i may be drawn."""
    generator = np.random.default_rng(seed)
    uniform = generator.random((draws, K))
    # U([0, 0.3] ∪ [0.7, 1]): a point of U[0, 0.6], its upper half moved up.
    two_sided = 0.6 * generator.random((draws, K))
    two_sided += np.where(two_sided > 0.3, 0.4, 0.0)
    fair, clear = IndependentVoters(0.0), IndependentVoters(0.9)  # p and 1 − p have the same errors

    def errors_over(p: Array) -> Callable[[NoiseFunction], Errors]:
        return lambda noise: (float(error_curve(noise, p).tv_error.mean()), disagreement(noise, fair))

    return {
        "U[0, 1]": errors_over(uniform),
        "two-sided": errors_over(two_sided),
        "0.5": lambda noise: (tv_error(noise, 0.5), disagreement(noise, 0.5)),
        "U[0, 0.1]": lambda noise: (tv_error(noise, clear), disagreement(noise, clear)),
    }


PANELS_A_ROW = 4  # beyond this the panels are wrapped: six become two rows of three

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7")
"""Okabe and Ito's, told apart by colour-blind readers."""

SIGNS = (("o", "-"), ("s", "--"), ("D", "-."), ("^", ":"))
"""Marker and line of each, which say the same in black and white."""


HATCHES = ("", "//", "..", "xx")  # pattern of each bar, which says the same in black and white


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
    title: str, rows: Sequence[tuple[str, Mapping[str, NoiseFunction], Mapping[str, Mapping[str, Mapping[str, float]]]]]
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
        heights = [errors_of_name[name] for errors_of_name in errors.values()]
        axes.bar(x, heights, width * 0.92, color=colour, hatch=hatch, edgecolor="white")
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
