"""Votes among any number of classes, of voters that are not private; tables are in `darrm_opt.tables`.

mechanisms         permute-and-flip, exponential, Laplace, GNMax, Confident-GNMax, calibrated for the label alone
comparison         all of them on one footing
record             rules as plain data
vote_mechanisms    `RuleMechanism`, `NoisyMaximum`, `SelectionMechanism`: counts in, a class or ⊥ out, exactly
release_log        the budget of a mechanism on a file
plan               many releases from one total
vote_law           votes as a prior has them, and how often each mechanism is right under it
designer           every mechanism for many queries within a total, with right, wrong and abstained shares
private_plurality  `PrivatePlurality`: votes in, a class or ⊥ out, within a budget
"""

from darrm_opt.plurality.comparison import MechanismComparison, compare_mechanisms
from darrm_opt.plurality.designer import ReleaseDesign, ReleaseOption, design_releases
from darrm_opt.plurality.mechanisms import MECHANISMS, CalibratedMechanism, calibrate_mechanism
from darrm_opt.plurality.plan import PluralityPlan, noise_for, plurality_plan, release_target, selection_for
from darrm_opt.plurality.private_plurality import PrivatePlurality
from darrm_opt.plurality.release_log import PluralityLog
from darrm_opt.plurality.vote_mechanisms import NoisyMaximum, RuleMechanism, SelectionMechanism, VoteMechanism
from darrm_opt.tables.certificate import PluralityCertificate, certify_rule, verify_rule
from darrm_opt.tables.priors import (
    Dirichlet,
    Favoured,
    FavouredBeta,
    PastVotes,
    PluralityObjective,
    PluralityPrior,
    parse_prior,
)
from darrm_opt.tables.problem import ABSTENTION, PluralityProblem, partition_count
from darrm_opt.tables.rule import PluralityRule
from darrm_opt.tables.solver import PluralitySolution, solve_plurality
from darrm_opt.tables.votes import count_votes

__all__ = [
    "ABSTENTION",
    "MECHANISMS",
    "CalibratedMechanism",
    "Dirichlet",
    "Favoured",
    "FavouredBeta",
    "MechanismComparison",
    "NoisyMaximum",
    "PastVotes",
    "PluralityCertificate",
    "PluralityLog",
    "PluralityObjective",
    "PluralityPlan",
    "PluralityPrior",
    "PluralityProblem",
    "PluralityRule",
    "PluralitySolution",
    "PrivatePlurality",
    "ReleaseDesign",
    "ReleaseOption",
    "RuleMechanism",
    "SelectionMechanism",
    "VoteMechanism",
    "calibrate_mechanism",
    "certify_rule",
    "compare_mechanisms",
    "count_votes",
    "design_releases",
    "noise_for",
    "parse_prior",
    "partition_count",
    "plurality_plan",
    "release_target",
    "selection_for",
    "solve_plurality",
    "verify_rule",
]
