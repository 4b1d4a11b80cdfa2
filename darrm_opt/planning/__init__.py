"""What should I do? From voters, queries and a total (ε, δ) to the most accurate release, or to the news that none is needed.

situation  what is asked, and which account of the voters it permits
option     one way of releasing, a remedy, and the plan, as values
plain      plain majorities: post-processing of private models, or what fresh answers cost
noisy      γ_opt, GNMax, SAA, subsampling, randomised response, each as far as the total allows
remedies   what would make an option of use where none is
planner    `plan`
"""

from darrm_opt.planning.options import WAYS, Option, Plan, Suggestion, Way
from darrm_opt.planning.planner import MIN_ACCURACY, plan
from darrm_opt.planning.request import PlanRequest

__all__ = ["MIN_ACCURACY", "WAYS", "Option", "Plan", "PlanRequest", "Suggestion", "Way", "plan"]
