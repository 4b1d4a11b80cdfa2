"""The setting of the paper's experiments, Section 5."""

from __future__ import annotations

from darrm_opt.problem import Privacy, Problem

K = 11
"""Teachers, each on its own part of the data."""

CLASSES = (5, 8)
"""The two classes."""

QUERIES = (20, 50, 100)

DRAWS = 10
"""How often the queries are drawn."""

SLACK = 1e-4
"""δ′ of the general composition over the queries."""

VOTERS = {"mnist": Privacy(0.0892, 1e-4), "fashion-mnist": Privacy(0.0852, 1e-4)}
"""Privacy of one teacher, as the paper has it."""

ACCURACY_TABLES = {1: 3, 6: 1, 8: 5, 10: 7}
"""Number of the table → m."""

COST_TABLES = {2: 3, 5: 1, 7: 5, 9: 7}
"""Number of the table → m. Table 2 belongs to Table 1; Tables 5, 7 and 9 to Tables 6, 8 and 10."""


def voter(dataset: str) -> Privacy:
    """Return the privacy of one teacher; for data that the paper has not, that of MNIST."""
    return VOTERS.get(dataset, VOTERS["mnist"])


def problem(m: int, dataset: str) -> Problem:
    """Return the paper's problem: K private voters, all of which a record may reach, δ = 1 − (1−Δ)^m."""
    privacy = voter(dataset)
    return Problem.from_allowance(K=K, m=m, epsilon=privacy.epsilon, Delta=privacy.delta)
