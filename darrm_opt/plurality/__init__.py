"""Votes among any number of classes, of voters that are not private.

problem            `PluralityProblem`; partitions, cells and edges
rule               `PluralityRule`: release probabilities as doubles, exactly
certificate        `verify_rule`, `certify_rule`: proofs in whole numbers over every edge
priors             how votes fall, and the utility of a release
linear_program     the equivariant linear program, its cuts and its dual bound
solver             `solve_plurality`: the cutting-plane loop
mechanisms         permute-and-flip, exponential, Laplace, GNMax, Confident-GNMax, calibrated for the label alone
comparison         all of them on one footing
record             rules as plain data
accounting         what labels and checks cost over many releases
vote_mechanisms    `RuleMechanism`, `NoisyMaximum`, `SelectionMechanism`: counts in, a class or ⊥ out, exactly
release_log        the budget of a mechanism on a file
votes              votes, checked and counted
plan               many releases from one total
vote_law           votes as a prior has them, and how often each mechanism is right under it
designer           every mechanism for many queries within a total, with right, wrong and abstained shares
private_plurality  `PrivatePlurality`: votes in, a class or ⊥ out, within a budget
"""

from darrm_opt.plurality.certificate import PluralityCertificate, certify_rule, verify_rule
from darrm_opt.plurality.comparison import MechanismComparison, compare_mechanisms
from darrm_opt.plurality.designer import ReleaseDesign, ReleaseOption, design_releases
from darrm_opt.plurality.mechanisms import MECHANISMS, CalibratedMechanism, calibrate_mechanism
from darrm_opt.plurality.plan import PluralityPlan, noise_for, plurality_plan, release_target, selection_for
from darrm_opt.plurality.priors import (
    Dirichlet,
    Favoured,
    FavouredBeta,
    PastVotes,
    PluralityObjective,
    PluralityPrior,
    parse_prior,
)
from darrm_opt.plurality.private_plurality import PrivatePlurality
from darrm_opt.plurality.problem import ABSTENTION, PluralityProblem, partition_count
from darrm_opt.plurality.release_log import PluralityLog
from darrm_opt.plurality.rule import PluralityRule
from darrm_opt.plurality.solver import PluralitySolution, solve_plurality
from darrm_opt.plurality.vote_mechanisms import NoisyMaximum, RuleMechanism, SelectionMechanism, VoteMechanism
from darrm_opt.plurality.votes import count_votes

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
