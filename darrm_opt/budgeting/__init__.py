"""Design under a total budget: the best target of one release, a γ for a sequence, calibration, and quotas."""

from darrm_opt.accounting.cost import Quota
from darrm_opt.budgeting.best_target import BestTarget, best_target
from darrm_opt.budgeting.calibration import epsilon_each, most_queries, release_target
from darrm_opt.budgeting.quota import most_releases
from darrm_opt.budgeting.sequence_design import SequenceDesign, design_sequence

__all__ = [
    "BestTarget",
    "Quota",
    "SequenceDesign",
    "best_target",
    "design_sequence",
    "epsilon_each",
    "most_queries",
    "most_releases",
    "release_target",
]
