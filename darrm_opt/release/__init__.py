"""Releases: votes in, private answers out, within a budget that survives crashes."""

from darrm_opt.accounting.calibrate import Quota
from darrm_opt.accounting.total import most_releases
from darrm_opt.errors import BudgetSpent, ReleaseIdTaken, ReleaseLogDamaged, SampleUsed
from darrm_opt.randomness import (
    ExactCoins,
    PublicRandomness,
    RandomSource,
    SeededRandomnessForTestsOnly,
    SystemRandomness,
)
from darrm_opt.release.coordination import coordinated_votes
from darrm_opt.release.log import BatchWithheld, ReleaseLog
from darrm_opt.release.sampler import EnsembleSampler, Sample
from darrm_opt.release.signs import randomised_signs, release_signs
from darrm_opt.release.vote import PrivateVote, ReleaseCounter
from darrm_opt.tables.votes import fill_missing

__all__ = [
    "BatchWithheld",
    "BudgetSpent",
    "EnsembleSampler",
    "ExactCoins",
    "PrivateVote",
    "PublicRandomness",
    "Quota",
    "RandomSource",
    "ReleaseCounter",
    "ReleaseIdTaken",
    "ReleaseLog",
    "ReleaseLogDamaged",
    "Sample",
    "SampleUsed",
    "SeededRandomnessForTestsOnly",
    "SystemRandomness",
    "coordinated_votes",
    "fill_missing",
    "most_releases",
    "randomised_signs",
    "release_signs",
]
