"""Accounting without data: what the releases cost together (Tables 2, 3, 5, 7, 9); GNMax (Table 4, Figure 10)."""

from __future__ import annotations

import math

import numpy as np

from darrm_opt.accounting import DeltaTooSmall
from darrm_opt.accounting.composition.closed_forms import kov_composition
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.total import exact_epsilon, total_delta_of
from darrm_opt.design.solver import solve
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.vote_noise import GaussianNoise, noise_function
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_papers.darrm import printed as paper
from darrm_papers.darrm.gamma_figures import variance_figure
from darrm_papers.darrm.printed import (
    GNMAX_ORDERS,
    Cell,
    K,
    Reproduction,
    Table,
    accounts,
    one_table,
    printed_value,
    rounds_to,
)
from darrm_papers.pate import gnmax_sigma

POINTS = 8001  # grid points of the exact account: sound for any number

SOUND_FOR = (
    (
        "The paper's account, optimal and exact hold for *fresh* voters: each answer of each voter is (ε, Δ)-DP on its "
        "own, as Lemma 3.4 supposes. Private teachers that are trained once and asked Q times are not fresh: their "
        "answers share the randomness of the training, and Q times (mε, δ) does not follow."
    ),
    (
        "For teachers trained once on disjoint parts two accounts hold. The models: all of them together are "
        "(ε, Δ)-DP, and so is whatever is computed from them, however often. The votes: whatever the models are, "
        "a record changes one of them, so releases compose as those of voters with ε = inf and affected = 1; a γ made "
        "for private voters leaks then (inf), one made for affected = 1 does not."
    ),
)
"""Which account is sound for which voters."""


def fixed_votes(problem: Problem) -> Problem:
    """Return the problem of voters whose votes are given: nothing is private about them, and a record changes one."""
    return Problem(problem.K, Privacy(math.inf), problem.target, 1)


def gnmax(problem: Problem) -> NoiseFunction:
    """Return the γ that GNMax amounts to, with the noise that the paper's account asks for the same (mε, δ)."""
    sigma = gnmax_sigma(problem.target.epsilon, problem.target.delta).sigma
    return noise_function(problem.K, GaussianNoise.of_sigma(sigma))


def exact(noise: NoiseFunction, problem: Problem, queries: int, delta: float) -> float:
    """Return the total ε by the exact recursion on bits, voters fresh; inf where none is proved at that δ."""
    try:
        return exact_epsilon(noise, problem, queries, delta, fresh=True, points=POINTS)
    except DeltaTooSmall:
        return math.inf


def cost_table(number: int, *, quick: bool = False) -> Reproduction:
    """Return Table 2, 5, 7 or 9: total privacy of Q releases at one m."""
    m = paper.COST_TABLES[number]
    rows = list[tuple[Cell, ...]]()
    for dataset in ("mnist",) if quick else paper.VOTERS:
        problem = paper.problem(m, dataset)
        # One design a data set: (mε, δ) of one release does not depend on how many there are.
        private, ours, noisy = solve(problem).noise, solve(fixed_votes(problem)).noise, gnmax(problem)
        queries = paper.QUERIES[:1] if quick else paper.QUERIES
        rows += [_costs(f"Table {number}", dataset, problem, Q, (private, ours, noisy)) for Q in queries]
    heads = (
        *(("teachers", ""), ("Q", "d"), ("paper ε", ".3f"), ("paper's account", ".3f"), ("paper δ", ".3f")),
        *(("total δ", ".5f"), ("optimal", ".3f"), ("exact, fresh γ_opt", ".3f"), ("models", ".4f")),
        *(("votes, γ_opt", ".3f"), ("votes, γ_opt affected = 1", ".3f"), ("votes, GNMax", ".3f")),
    )
    return one_table(
        f"table-{number}",
        f"Table {number}: total privacy of Q releases, m = {m}, K = 11",
        "accounting",
        Table("Total ε of Q releases at the total δ, by each account", heads, tuple(rows)),
        *SOUND_FOR,
        settings={"m": m, "K": paper.K, "slack": paper.SLACK},
    )


def _costs(
    table: str, dataset: str, problem: Problem, Q: int, noises: tuple[NoiseFunction, NoiseFunction, NoiseFunction]
) -> tuple[Cell, ...]:
    private, ours, noisy = noises
    target, voter = problem.target, paper.voter(dataset)
    total = total_delta_of(target, Q, paper.SLACK)
    epsilon = round(target.epsilon, 4)
    return (
        dataset,
        Q,
        printed_value(table, "general_composition_total", epsilon=epsilon, Q=Q),
        kov_composition(target.epsilon, target.delta, Q, paper.SLACK).epsilon,
        printed_value(table, "_total_delta", Q=Q),
        total,
        optimal_composition(target.epsilon, target.delta, Q, total).epsilon,
        exact(private, problem, Q, total),
        voter.epsilon,
        exact(private, fixed_votes(problem), Q, total),
        exact(ours, fixed_votes(problem), Q, total),
        exact(noisy, fixed_votes(problem), Q, total),
    )


def table_3(*, quick: bool = False) -> Reproduction:
    """Return Table 3: the parameters of Figure 6, by general composition over voters."""
    rows = []
    for row in accounts("Table 3")[: 3 if quick else None]:
        inputs, majority = row.inputs, row.quantity.startswith(("tau", "lambda"))
        # τ and λ are those of the plain majority of all K voters, m and δ those of the M that are drawn.
        count = inputs["K"] if majority else inputs["M"]
        total = kov_composition(inputs["epsilon"], inputs["Delta"], count, inputs["delta_prime"])
        if row.quantity.startswith(("delta", "lambda")):
            value = total.delta
        else:
            # m and τ are printed as multiples of ε.
            value = total.epsilon / (1 if row.quantity == "m * epsilon" else inputs["epsilon"])
        rows.append(
            (
                count,
                row.quantity,
                row.value,
                value,
                "yes" if rounds_to(value, f"{row.value:.{row.decimals}f}") else "no",
            )
        )
    return one_table(
        "table-3",
        "Table 3: parameters of Figure 6, K = 35, ε = 0.1, Δ = 1e-5, δ′ = 0.1",
        "accounting",
        Table(
            "General composition over M subsampled voters, and over all K",
            (("voters", "d"), ("quantity", ""), ("paper", ".4f"), ("ours", ".6f"), ("agree", "")),
            tuple(rows),
        ),
    )


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
        # The printed λ is not the minimiser: the σ that it would need shows by how much.
        at_printed_order = float(np.sqrt(variance(np.array([order]), target))[0])
        # What leaves is one bit and not two counts: the least σ for the same (mε, δ).
        tight = mechanism_class("gnmax").calibrated(K, 2, target, 1).value
        rows.append((dataset, sigma, grid.sigma, order, grid.order, free.order, at_printed_order, tight))
        curves.append((dataset, ORDERS, variance(ORDERS, target), order))
    heads = (
        *(("target", ""), ("paper σ", ".2f"), ("ours", ".4f"), ("paper λ", ".2f"), ("λ on the paper's grid", ".2f")),
        *(("λ at the minimum", ".4f"), ("σ at the paper's λ", ".2f"), ("σ that one bit needs", ".3f")),
    )
    return one_table(
        name,
        title,
        "accounting",
        Table("σ [votes] by Rényi privacy of noisy counts, one release", heads, tuple(rows)),
        "σ agrees. The λ printed beside it is not the minimiser: at that λ the formula gives a larger σ.",
        "One released bit says less than two noisy counts: by the exact account of the bit a smaller σ is "
        "enough for the same (mε, δ).",
        settings={dataset: {"epsilon": target.epsilon, "delta": target.delta} for dataset, target in TARGETS.items()},
        draw=(lambda: variance_figure(title, curves)) if name.startswith("figure") else None,
    )
