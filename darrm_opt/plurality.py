"""Votes among any number of classes, by voters that are not private."""

from darrm_opt.mechanisms import VoteMechanism, mechanism_class, mechanism_from_record, mechanism_names
from darrm_opt.mechanisms.table import TableMechanism
from darrm_opt.planning.table_baselines import calibrate_mechanism
from darrm_opt.problem import Problem
from darrm_opt.tables.certificate import TableCertificate, certify_table, verify_table
from darrm_opt.tables.objective import PluralityObjective
from darrm_opt.tables.priors import Dirichlet, Favoured, FavouredBeta, PastVotes, PluralityPrior, parse_prior
from darrm_opt.tables.problem import ABSTENTION, partition_count
from darrm_opt.tables.solver import TableSolution, solve_table
from darrm_opt.tables.table import Table
from darrm_opt.tables.votes import count_votes

__all__ = [
    "ABSTENTION",
    "Dirichlet",
    "Favoured",
    "FavouredBeta",
    "PastVotes",
    "PluralityObjective",
    "PluralityPrior",
    "Problem",
    "Table",
    "TableCertificate",
    "TableMechanism",
    "TableSolution",
    "VoteMechanism",
    "calibrate_mechanism",
    "certify_table",
    "count_votes",
    "mechanism_class",
    "mechanism_from_record",
    "mechanism_names",
    "parse_prior",
    "partition_count",
    "solve_table",
    "verify_table",
]
