"""Planning: from voters, queries and a total (ε, δ) to the most useful mechanism, for any number of classes.

question            the request: voters, queries, total, law of votes; the account that holds for the voters
option              options, suggestions and plans, as values
plain_majority      plain majorities: post-processing of private models, or the total of fresh answers
candidates          γ of one release, γ of all, and every registered mechanism, each calibrated to the total
class_candidates    certified tables, and checked noise
sampled_candidates  tables and mechanisms if every query has a fresh sample of the records
best_target         the best target of one release, so that Q releases of its γ_opt fit a total
sequence_design     a γ designed for all releases
ranking             `plan`, `design_within_total`: all options, ranked
group_plan          `plan_groups`: the ranking for groups of unlike voters
suggestions         changes of the request that make an option useful if none is
compare             the ranking between two classes as a table
baselines           other γ that meet the target of one release
"""

from darrm_opt.planning.best_target import BestTarget, best_target
from darrm_opt.planning.option import MECHANISMS, Option, Plan, Suggestion
from darrm_opt.planning.question import Question
from darrm_opt.planning.ranking import MIN_ACCURACY, design_within_total, plan
from darrm_opt.planning.sequence_design import SequenceDesign, design_sequence

__all__ = [
    "MECHANISMS",
    "MIN_ACCURACY",
    "BestTarget",
    "Option",
    "Plan",
    "Question",
    "SequenceDesign",
    "Suggestion",
    "best_target",
    "design_sequence",
    "design_within_total",
    "plan",
]
