"""Cost of releases of a noisy vote among any number of classes: of labels and checks, not of counts.

`vote_cost` is the account. The pipeline: a bound on the power divergence of one release (`gaussian_argmax`,
`noisy_bit`, `discrete_gaussian_argmax`, or `table_divergence` for laws known in full), then `composition` by Rényi
divergences or by the Gaussian comparison (`gaussian_comparison`). `sampled_argmax` has the laws of labels with sampled
records, `data_dependent` the loss of labels given their votes.
"""

from __future__ import annotations

from darrm_opt.accounting.labels.composition import (
    EpsilonBound,
    bounded_range_divergence,
    composed_epsilon,
    table_divergence,
)
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.labels.vote_cost import VoteCost, VoteReleases, vote_cost

__all__ = [
    "EpsilonBound",
    "PowerDivergence",
    "VoteCost",
    "VoteReleases",
    "bounded_range_divergence",
    "composed_epsilon",
    "table_divergence",
    "vote_cost",
]
