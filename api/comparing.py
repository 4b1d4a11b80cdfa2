"""A comparison of ways to release a majority, as plain data."""

from __future__ import annotations

from typing import Any

from darrm_opt.bagging.bags import Bags
from darrm_opt.comparison.compare import Comparison
from darrm_opt.record import problem_record


def compared(found: Comparison) -> dict[str, Any]:
    """Return a comparison as plain data: the voters, the budget, and a row for each way."""
    voters = problem_record(found.problem)
    return {
        "voters": {name: voters[name] for name in ("K", "epsilon", "Delta", "affected")},
        "fresh": found.fresh,
        "queries": found.queries,
        "total": {"epsilon": found.total.epsilon, "delta": found.total.delta},
        "objective": found.objective,
        "draw": None if found.bags is None else drawn(found.bags, found.problem.K),
        "rows": [
            {
                "name": row.name,
                "knob": row.knob,
                "value": row.value,
                "gamma": None if row.noise is None else row.noise.values.tolist(),
                "epsilon": row.epsilon,
                "utility": row.utility,
                "disagreement": row.disagreement,
                "tv_error": row.tv_error,
            }
            for row in found.rows
        ],
        "not_compared": found.not_compared,
    }


def drawn(bags: Bags, K: int) -> dict[str, Any]:
    """Return how the voters' subsamples are drawn, as plain data."""
    return {
        "n": bags.n,
        "subsample_size": bags.subsample_size,
        "replacement": bags.replacement,
        "sampling": bags.sampling,
        "chance": bags.chance,
        "reached": bags.affected_distribution(K).mean,
    }
