"""Planning: from voters, queries and a total (ε, δ) to the most useful mechanism, for any number of classes.

question          what is asked: voters, queries, total, the law of votes; which account of the voters holds
option            one mechanism as an option, a suggestion, and the plan, as values
plain_majority    plain majorities: post-processing of private models, or the total of fresh answers
candidates        γ of one release, γ of all, and every mechanism of the registry, each calibrated to the total
class_candidates  certified tables, and checked noise
sampled_candidates  tables and mechanisms where every query has a fresh sample of the records
best_target       the best target of one release, so that Q releases of its γ_opt fit a total
sequence_design   a γ made for all releases
ranking           `plan`, `design_within_total`: all of them, in order
group_plan        `plan_groups`: the ranking for voters that are not alike
suggestions       changes of the question that make an option useful if none is
compare           the table of the ranking between two classes
baselines         what else meets the target of one release
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
