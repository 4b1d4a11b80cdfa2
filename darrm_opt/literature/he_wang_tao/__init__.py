"""Theorems of He, Wang and Tao on composition, iterative training and generalisation."""

from darrm_opt.literature.he_wang_tao.generalisation import (
    HighProbability,
    high_probability,
    kl_divergence,
    multi_database,
    on_average,
    on_average_excess,
    total_variation,
)
from darrm_opt.literature.he_wang_tao.training import NoisyTraining, as_replace_one, federated, sgld

__all__ = [
    "HighProbability",
    "NoisyTraining",
    "as_replace_one",
    "federated",
    "high_probability",
    "kl_divergence",
    "multi_database",
    "on_average",
    "on_average_excess",
    "sgld",
    "total_variation",
]
