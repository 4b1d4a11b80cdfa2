"""Mechanisms that release a vote: one file each, and one registry of their names.

base             `VoteMechanism`: what a mechanism has; `mechanism_class`: from its name to it
noisy_maximum    the largest count plus Gaussian or Laplace noise, with a check and a cap
selection        selection mechanisms: a class behind by d votes is taken with chance e^(−rate·d)
noise_function   γ between two classes: any, subsampling, randomised response
table            certified tables: solved for, or of a mechanism at its largest private rate
vote_noise       noise on counts, drawn exactly
"""

from darrm_opt.mechanisms.base import (
    ENTRY_POINTS,
    VoteMechanism,
    calibrated_names,
    mechanism_class,
    mechanism_from_record,
    mechanism_names,
)

__all__ = [
    "ENTRY_POINTS",
    "VoteMechanism",
    "calibrated_names",
    "mechanism_class",
    "mechanism_from_record",
    "mechanism_names",
]
