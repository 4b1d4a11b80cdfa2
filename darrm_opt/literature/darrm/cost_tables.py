"""Tables 2, 3, 5, 7 and 9: what the releases cost together. Accounting alone, no data."""

from __future__ import annotations

import math

from darrm_opt.accounting import (
    DeltaTooSmall,
    exact_epsilon,
    kov_composition,
    optimal_composition,
    total_delta_of,
)
from darrm_opt.design.solver import solve
from darrm_opt.literature.aggregation.gnmax import gnmax_sigma
from darrm_opt.literature.darrm import setting
from darrm_opt.literature.darrm.printed import accounts, printed
from darrm_opt.literature.darrm.result import Cell, Reproduction, Table
from darrm_opt.mechanisms.vote_noise import GaussianNoise, noise_function
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem

POINTS = 8001
"""Grid points of the exact account: sound for any number."""

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


def fixed(problem: Problem) -> Problem:
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
    m = setting.COST_TABLES[number]
    rows = list[tuple[Cell, ...]]()
    for dataset in ("mnist",) if quick else setting.VOTERS:
        problem = setting.problem(m, dataset)
        private, ours, noisy = solve(problem).noise, solve(fixed(problem)).noise, gnmax(problem)
        queries = setting.QUERIES[:1] if quick else setting.QUERIES
        rows += [_costs(f"Table {number}", dataset, problem, Q, (private, ours, noisy)) for Q in queries]
    heads = (
        *(("teachers", ""), ("Q", "d"), ("paper ε", ".3f"), ("paper's account", ".3f"), ("paper δ", ".3f")),
        *(
            ("total δ", ".5f"),
            ("optimal", ".3f"),
            ("exact, fresh γ_opt", ".3f"),
            ("models", ".4f"),
        ),
        *(("votes, γ_opt", ".3f"), ("votes, γ_opt affected = 1", ".3f"), ("votes, GNMax", ".3f")),
    )
    return Reproduction(
        f"table-{number}",
        f"Table {number}: total privacy of Q releases, m = {m}, K = 11",
        "accounting",
        (Table("Total ε of Q releases at the total δ, by each account", heads, tuple(rows)),),
        SOUND_FOR,
        {"m": m, "K": setting.K, "slack": setting.SLACK},
    )


def _costs(
    table: str, dataset: str, problem: Problem, Q: int, noises: tuple[NoiseFunction, NoiseFunction, NoiseFunction]
) -> tuple[Cell, ...]:
    private, ours, noisy = noises
    target, voter = problem.target, setting.voter(dataset)
    total = total_delta_of(target, Q, setting.SLACK)
    epsilon = round(target.epsilon, 4)
    return (
        dataset,
        Q,
        printed(table, "general_composition_total", epsilon=epsilon, Q=Q),
        kov_composition(target.epsilon, target.delta, Q, setting.SLACK).epsilon,
        printed(table, "_total_delta", Q=Q),
        total,
        optimal_composition(target.epsilon, target.delta, Q, total).epsilon,
        exact(private, problem, Q, total),
        voter.epsilon,
        exact(private, fixed(problem), Q, total),
        exact(ours, fixed(problem), Q, total),
        exact(noisy, fixed(problem), Q, total),
    )


def table_3(*, quick: bool = False) -> Reproduction:
    """Return Table 3: the parameters of Figure 6, by general composition over voters."""
    rows = []
    for row in accounts("Table 3")[: 3 if quick else None]:
        inputs, majority = row.inputs, row.quantity.startswith(("tau", "lambda"))
        count = inputs["K"] if majority else inputs["M"]
        total = kov_composition(inputs["epsilon"], inputs["Delta"], count, inputs["delta_prime"])
        if row.quantity.startswith(("delta", "lambda")):
            value = total.delta
        else:
            value = total.epsilon / (1 if row.quantity == "m * epsilon" else inputs["epsilon"])
        rows.append((count, row.quantity, row.value, value, _agrees(value, row.value, row.decimals)))
    return Reproduction(
        "table-3",
        "Table 3: parameters of Figure 6, K = 35, ε = 0.1, Δ = 1e-5, δ′ = 0.1",
        "accounting",
        (
            Table(
                "General composition over M subsampled voters, and over all K",
                (("voters", "d"), ("quantity", ""), ("paper", ".4f"), ("ours", ".6f"), ("agree", "")),
                tuple(rows),
            ),
        ),
    )


def _agrees(ours: float, papers: float, decimals: int) -> str:
    return "yes" if abs(ours - papers) <= 0.5000001 * 10**-decimals else "no"
