"""From γ to released bits: exact coins, a budget that survives, and the mechanism that uses both.

coin      bits with exactly the probability that a double says, from the operating system's randomness
quota     how many releases fit in a total (ε, δ)
journal   an append-only file that survives kill -9, torn writes and two processes at once
ledger    the budget of one γ on such a file: what was released is charged once and never free
majority  `PrivateMajority`: votes in, private bits out
"""

from darrm_opt.budgeting.quota import Quota, most_releases
from darrm_opt.mechanism.errors import BudgetSpent, ReleaseIdTaken, ReleaseLogDamaged
from darrm_opt.mechanism.majority import PrivateMajority
from darrm_opt.mechanism.release_log import ReleaseLog
from darrm_opt.randomness.coins import ExactCoins, SeededWordsForTestsOnly, SystemWords, Words

__all__ = [
    "BudgetSpent",
    "ExactCoins",
    "PrivateMajority",
    "Quota",
    "ReleaseIdTaken",
    "ReleaseLog",
    "ReleaseLogDamaged",
    "SeededWordsForTestsOnly",
    "SystemWords",
    "Words",
    "most_releases",
]
