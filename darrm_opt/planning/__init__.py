"""Planner: from voters, queries and a total (ε, δ) to the most accurate mechanism, the plain majority if that fits.

request           the question, and which account of the voters holds for it
options           one mechanism as an option, a suggestion, and the plan, as values
plain_majority    plain majorities: post-processing of private models, or the total of fresh answers
noisy_majorities  γ_opt, GNMax, SAA, subsampling, randomised response, each calibrated to the total
suggestions       changes of the request that make an option useful if none is
planner           `plan`
"""

from darrm_opt.planning.options import MECHANISMS, Mechanism, Option, Plan, Suggestion
from darrm_opt.planning.planner import MIN_ACCURACY, plan
from darrm_opt.planning.request import PlanRequest

__all__ = ["MECHANISMS", "MIN_ACCURACY", "Mechanism", "Option", "Plan", "PlanRequest", "Suggestion", "plan"]
