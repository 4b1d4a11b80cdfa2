"""Releases: votes in, private answers out, within a budget that survives crashes.

journal  an append-only file that survives kill -9, torn writes and two processes at once
log      `ReleaseLog`: the releases of one mechanism on such a file, charged once and never free
counter  `ReleaseCounter`: the same in the memory of one process
vote     `PrivateVote`: any mechanism, charged before an answer leaves
"""

from darrm_opt.accounting.cost import Quota
from darrm_opt.accounting.quota import most_releases
from darrm_opt.randomness import ExactCoins, RandomSource, SeededRandomnessForTestsOnly, SystemRandomness
from darrm_opt.release.counter import ReleaseCounter
from darrm_opt.release.errors import BudgetSpent, ReleaseIdTaken, ReleaseLogDamaged
from darrm_opt.release.log import ReleaseLog
from darrm_opt.release.vote import PrivateVote

__all__ = [
    "BudgetSpent",
    "ExactCoins",
    "PrivateVote",
    "Quota",
    "RandomSource",
    "ReleaseCounter",
    "ReleaseIdTaken",
    "ReleaseLog",
    "ReleaseLogDamaged",
    "SeededRandomnessForTestsOnly",
    "SystemRandomness",
    "most_releases",
]
