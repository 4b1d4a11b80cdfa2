"""Mechanism: from γ to released bits, within a budget that survives crashes.

journal      an append-only file that survives kill -9, torn writes and two processes at once
durable_log  a budget on such a file: what was released is charged once, and never free
release_log  `ReleaseLog`: the durable log of one γ
majority     `PrivateMajority`: votes in, private bits out
"""

from darrm_opt.accounting.cost import Quota
from darrm_opt.budgeting.quota import most_releases
from darrm_opt.mechanism.errors import BudgetSpent, ReleaseIdTaken, ReleaseLogDamaged
from darrm_opt.mechanism.majority import PrivateMajority
from darrm_opt.mechanism.release_log import ReleaseLog
from darrm_opt.randomness import ExactCoins, RandomSource, SeededRandomnessForTestsOnly, SystemRandomness

__all__ = [
    "BudgetSpent",
    "ExactCoins",
    "PrivateMajority",
    "Quota",
    "RandomSource",
    "ReleaseIdTaken",
    "ReleaseLog",
    "ReleaseLogDamaged",
    "SeededRandomnessForTestsOnly",
    "SystemRandomness",
    "most_releases",
]
