"""Figures: content, legibility and reproducible bytes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from support.refusals import refused

from darrm_opt import NoiseFunction, Problem, Solution, solve
from darrm_opt.accuracy import error_curve
from darrm_opt.baselines import double_subsampling, randomized_response, subsampling
from darrm_opt.errors import BackendUnavailable
from darrm_opt.figures import (
    FORMATS,
    allowance_figure,
    check_drawable,
    comparison_figure,
    cost_figure,
    display_name,
    error_figure,
    errors_figure,
    gamma_figure,
    mechanisms_figure,
    plan_figure,
    render,
)
from darrm_opt.planning import plan
from darrm_opt.planning.compare import Comparison, compare
from darrm_opt.problem import Privacy
from darrm_opt.questions.cost import Cost

OPTIMAL = r"$\gamma_{\mathrm{opt}}$ (this design)"
AT_ONCE = r"$\gamma_{\mathrm{opt}}$ (of all releases at once)"
NAMES = {
    "subsampling": r"$\gamma_{\mathrm{Sub}}$ (subsampling)",
    "double_subsampling": r"$\gamma_{\mathrm{DSub}}$ (double subsampling)",
    "randomized_response": r"$\gamma_{\mathrm{const}}$ (randomised response)",
}


@pytest.fixture(scope="module")
def solution() -> Solution:
    found: Solution = solve(Problem.from_allowance(K=11, m=3, epsilon=0.1, Delta=1e-5))
    return found


@pytest.fixture(scope="module")
def baselines() -> dict[str, NoiseFunction]:
    return {
        "subsampling": subsampling(11, 3),
        "double_subsampling": double_subsampling(11, 3),
        "randomized_response": randomized_response(11, Privacy(0.3), Privacy(1.1)),
    }


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(Problem(5, Privacy(0.5), Privacy(1.0)), 4, Privacy(1.0, 1e-3), fresh=True)


def lines(axes: Axes) -> dict[str, tuple[Sequence[float], Sequence[float]]]:
    return {str(line.get_label()): tuple(map(np.asarray, line.get_data())) for line in axes.get_lines()}  # type: ignore[misc]


def legend(figure: Figure) -> list[str]:
    (only,) = figure.legends
    return [text.get_text() for text in only.get_texts()]


def test_gamma_is_plotted_over_the_votes(solution: Solution, baselines: dict[str, NoiseFunction]) -> None:
    figure = gamma_figure(solution, baselines)
    drawn = lines(figure.axes[0])
    assert set(drawn) == {OPTIMAL, *NAMES.values()}
    for name, noise in {**baselines, "optimal": solution.noise}.items():
        l, gamma = drawn[NAMES.get(name, OPTIMAL)]
        assert np.array_equal(l, np.arange(12))
        assert np.array_equal(gamma, noise.values)
    assert legend(figure)[0] == OPTIMAL
    assert figure.get_suptitle() == "K = 11 voters, each (0.1, 1e-05)-DP; release (0.3, 3e-05)-DP"


@pytest.mark.parametrize("measure", ["tv_error", "disagreement"])
def test_an_error_is_plotted_over_the_shared_p(solution: Solution, measure: str) -> None:
    figure = error_figure(solution, {}, measure)  # type: ignore[arg-type]  # the parameter's own words
    p, error = lines(figure.axes[0])[OPTIMAL]
    assert (p[0], p[-1]) == (0.5, 1.0)
    assert np.array_equal(error, getattr(error_curve(solution.noise, np.asarray(p)), measure))
    assert len(p) == 401


def test_errors_are_plotted_over_the_allowance_with_gaps_where_undefined() -> None:
    problem = Problem.from_allowance(K=11, m=1, epsilon=0.1)
    errors = {
        "optimal": {"tv_error": [0.2, 0.1, 0.0], "disagreement": [0.3, 0.2, 0.1]},
        "subsampling": {"tv_error": [None, 0.3, 0.2], "disagreement": [None, None, None]},
    }
    figure = allowance_figure(problem, [0.5, 1, 2], errors)  # type: ignore[arg-type]  # a literal's keys are str
    tv, both = figure.axes
    assert lines(tv)[OPTIMAL][1] == pytest.approx([0.2, 0.1, 0.0])
    assert np.isnan(lines(tv)[NAMES["subsampling"]][1]).tolist() == [True, False, False]
    assert np.isnan(lines(both)[NAMES["subsampling"]][1]).all()
    assert figure.get_suptitle() == "K = 11 voters, each 0.1-DP"


def test_the_title_names_the_kind_of_voters() -> None:
    problem = Problem.from_allowance(K=5, m=None, epsilon=float("inf"), target_epsilon=1, affected=2)
    assert gamma_figure(solve(problem)).get_suptitle() == "K = 5 voters, not private, a record reaches 2; release 1-DP"


def test_lines_are_distinguishable_without_colour_and_by_the_colour_blind(
    solution: Solution, baselines: dict[str, NoiseFunction]
) -> None:
    (axes,) = gamma_figure(solution, {**baselines, "another": subsampling(11, 1)}).axes
    drawn = axes.get_lines()
    assert len({str(line.get_marker()) for line in drawn}) == len(drawn)
    assert len({str(line.get_linestyle()) for line in drawn}) >= len(drawn) - 1
    # To a deuteranope (Viénot, Brettel & Mollon 1999, linear RGB) all colours differ.
    seen = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])
    colours = [seen @ np.array(to_rgb(line.get_color())) ** 2.2 for line in drawn]
    apart = [np.abs(a - b).max() for i, a in enumerate(colours) for b in colours[:i]]
    assert min(apart) > 0.03


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_same_figure_has_the_same_bytes(solution: Solution, file_format: str) -> None:
    first, second = (render(gamma_figure(solution), file_format) for _ in range(2))
    assert first == second
    assert first.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[file_format])


def test_another_format_is_refused(solution: Solution) -> None:
    with refused("plot", "'gif'"):
        render(gamma_figure(solution), "gif")


def test_without_matplotlib_the_extra_is_named(solution: Solution, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        BackendUnavailable, match=r"Drawing needs the package matplotlib, .*: pip install 'darrm-opt\[plot\]'"
    ):
        gamma_figure(solution)
    with pytest.raises(BackendUnavailable, match="Drawing needs the package matplotlib"):
        check_drawable("png")


def test_mechanisms_are_bars_next_to_their_gammas(comparison: Comparison) -> None:
    figure = mechanisms_figure(comparison)
    bars, curves = figure.axes
    fitting = [row for row in comparison.rows if row.noise is not None]
    assert len(fitting) < len(comparison.rows)
    widths = [bar.get_width() for bar in bars.patches]  # type: ignore[attr-defined]  # bars are rectangles
    assert sorted(widths) == sorted(row.tv_error for row in fitting if row.tv_error is not None)
    labels = [label.get_text() for label in bars.get_yticklabels()]
    assert AT_ONCE in labels
    assert sum(text.get_text() == "does not fit" for text in bars.texts) == len(comparison.rows) - len(fitting)
    assert "Laplace noise (SAA)" in labels
    assert len(curves.lines) == len(fitting)
    title = figure.get_suptitle()
    assert title == "K = 5 voters, each 0.5-DP; 4 releases, together (1, 0.001)-DP"
    assert render(figure, "svg") == render(mechanisms_figure(comparison), "svg")


def test_no_text_overlaps_another_or_the_edge(
    solution: Solution, baselines: dict[str, NoiseFunction], comparison: Comparison
) -> None:
    ms = [1.0, 2.0]
    errors: dict[str, Any] = {"optimal": {"tv_error": [0.2, 0.1], "disagreement": [0.3, 0.2]}}
    figures = [
        gamma_figure(solution, baselines),
        error_figure(solution, baselines, "disagreement"),
        comparison_figure(solution, baselines),
        errors_figure(solution.problem, {**baselines, "optimal": solution.noise}),
        allowance_figure(solution.problem, ms, errors),
        mechanisms_figure(comparison),
    ]
    for figure in figures:
        figure.draw_without_rendering()  # computes the layout
        whole = figure.bbox
        title = figure._suptitle  # type: ignore[attr-defined]  # matplotlib has no other way to it
        labels = [label for axes in figure.axes for label in (axes.xaxis.label, axes.yaxis.label)]
        boxes = [each.get_window_extent() for each in (title, *labels, figure.legends[0])]
        assert all(
            whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1 for box in boxes
        )
        assert not any(boxes[0].overlaps(box) for box in boxes[1:])


def test_a_plan_among_classes_shows_shares_and_epsilon_over_answers() -> None:
    names = ("optimal", "gnmax", "laplace")
    found = plan(5, None, 6, Privacy(2.0, 1e-3), 1, classes=3, mechanisms=names)
    left, right = plan_figure(found).axes
    assert [bar.get_path().get_extents(bar.get_patch_transform()).width for bar in left.patches] == [
        option.right for option in reversed(found.options)
    ]
    labels = [text.get_text() for text in left.texts]
    assert labels == [f"{option.right:.3f}  (ε {option.spent.epsilon:.3g})" for option in reversed(found.options)]  # type: ignore[union-attr]  # each fits
    lines = {line.get_label(): line.get_xydata() for line in right.get_lines()[:-1]}
    assert len(lines) == len(names)
    for option in found.options:
        assert option.mechanism is not None
        points = np.asarray(lines[display_name(option.name)])
        assert points[-1, 0] == 6
        assert points[-1, 1] == option.mechanism.cost(6, 1e-3).epsilon <= 2.0
        assert np.all(np.diff(points[:, 1]) > 0)


def test_a_plan_of_private_voters_shows_each_gamma() -> None:
    found = plan(5, Privacy(0.5), 3, Privacy(2.0, 1e-3), fresh=True, mechanisms=("optimal", "laplace", "majority"))
    left, right = plan_figure(found).axes
    assert "does not fit" in [text.get_text() for text in left.texts]
    assert {line.get_label() for line in right.get_lines()} == {display_name("optimal"), display_name("laplace")}


def test_a_total_shows_epsilon_over_releases_and_over_delta() -> None:
    asked = {"mechanism": "laplace", "K": 11, "classes": 3, "affected": 1, "queries": 10, "parameter": 20.0}
    found = Cost.of({**asked, "delta": 1e-5, "curve": True}).answer()
    left, right = cost_figure(found.mechanism, found.record()["curve"], 10, found.delta).axes
    (over_releases,), (over_delta,) = left.get_lines(), right.get_lines()
    releases, deltas = np.asarray(over_releases.get_xydata()), np.asarray(over_delta.get_xydata())
    assert np.all(np.diff(releases[:, 1]) > 0)
    assert np.all(np.diff(deltas[:, 1]) < 0)
    assert found.epsilon in releases[releases[:, 0] == 10, 1]
    assert found.epsilon in deltas[deltas[:, 0] == 1e-5, 1]
