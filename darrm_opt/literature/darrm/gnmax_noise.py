"""Table 4 and Figure 10: the noise of GNMax at the target of m = 3, and σ² over the RDP order λ."""

from __future__ import annotations

import math

import numpy as np

from darrm_opt.literature.aggregation.gnmax import GnmaxPlan, gnmax_sigma
from darrm_opt.literature.darrm.plots import variance_figure
from darrm_opt.literature.darrm.printed import GNMAX_ORDERS
from darrm_opt.literature.darrm.result import Reproduction, Table
from darrm_opt.literature.darrm.setting import K
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy

TARGETS = {"mnist": Privacy(0.2676, 0.0003), "fashion-mnist": Privacy(0.2556, 0.0003)}
"""(mε, δ) of one release at m = 3, as printed in Table 2."""

ORDERS = np.arange(30.5, 200.0, 0.5)


def table_4(*, quick: bool = False) -> Reproduction:
    """Return Table 4: σ of GNMax and its λ."""
    return _noise("table-4", "Table 4: the noise of GNMax, m = 3", quick=quick)


def figure_10(*, quick: bool = False) -> Reproduction:
    """Return Figure 10: σ² over λ."""
    return _noise("figure-10", "Figure 10: σ² of GNMax over the RDP order λ, m = 3", quick=quick)


def variance(order: Array, target: Privacy) -> Array:
    """Return σ² = λ/(ε − ln(1/δ)/(λ−1)), inf where it proves nothing."""
    epsilon_left = target.epsilon - math.log(1 / target.delta) / (order - 1)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(epsilon_left > 0, order / np.where(epsilon_left > 0, epsilon_left, 1.0), np.inf))


def _noise(name: str, title: str, *, quick: bool) -> Reproduction:
    rows, curves = [], []
    pairs = list(zip(TARGETS.items(), GNMAX_ORDERS.items(), strict=True))
    for (dataset, target), (sigma, order) in pairs[: 1 if quick else None]:
        grid, free = (gnmax_sigma(target.epsilon, target.delta, search=search) for search in ("grid", "continuous"))
        at_printed_order = float(np.sqrt(variance(np.array([order]), target))[0])
        tight = GnmaxPlan.for_target(target, n_chunks=K, n_labels=1, accountant="bits").sigma
        rows.append((dataset, sigma, grid.sigma, order, grid.order, free.order, at_printed_order, tight))
        curves.append((dataset, ORDERS, variance(ORDERS, target), order))
    heads = (
        *(("target", ""), ("paper σ", ".2f"), ("ours", ".4f"), ("paper λ", ".2f"), ("λ on the paper's grid", ".2f")),
        *(("λ at the minimum", ".4f"), ("σ at the paper's λ", ".2f"), ("σ that one bit needs", ".3f")),
    )
    return Reproduction(
        name,
        title,
        "accounting",
        (Table("σ [votes] by Rényi privacy of noisy counts, one release", heads, tuple(rows)),),
        (
            "σ agrees. The λ printed beside it is not the minimiser: at that λ the formula gives a larger σ.",
            (
                "One released bit says less than two noisy counts: by the exact account of the bit a smaller σ is "
                "enough for the same (mε, δ)."
            ),
        ),
        {dataset: {"epsilon": target.epsilon, "delta": target.delta} for dataset, target in TARGETS.items()},
        (lambda: variance_figure(title, curves)) if name.startswith("figure") else None,
    )
