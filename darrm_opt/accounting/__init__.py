"""What many releases cost together.

* `simple`, `general`, `closed_best_slack`: closed forms;
* `optimal`, `optimal_sequence`: the exact optimum over all adaptive compositions of (ε, δ)-DP mechanisms;
* `pld`, `pld_sequence`, `pld_from_profile`: privacy loss distributions, of (ε, δ) or of an exact privacy profile;
* `compose_bits`: the exact adaptive composition of releases that are single bits;
* `best`, `best_sequence`: releases of a γ at hand by all of these, and the least; `release_profile`: one release at every ε;
* `as_pld`, `as_event`, `pld_accountant`, `privacy_map`: releases of a γ in other libraries' ledgers;
* `gaussian_epsilon`, `rdp_epsilon`, `sgld`, `federated`: noisy training;
* `high_probability`, `on_average`, …: what privacy promises about generalisation;
* `largest_allowance`: the target of one release with which γ_opt does most for Q releases within a total;
  `design_sequence`: a γ made for all Q of them;
* `FRESH`, `models_together`: what many releases may suppose of voters that were trained once;
* `Ledger`: a budget that refuses to be overspent; `epsilon_each`, `most_queries`: the way back from a budget.

`reproduction` holds printed theorems that are false; nothing here uses it.
"""

from darrm_opt.accounting.allowance import Allowance, largest_allowance
from darrm_opt.accounting.bit_region import BitRegion, inner_region, outer_region, privacy_region
from darrm_opt.accounting.bits import BitTotal, compose_bits, compose_bits_any_order
from darrm_opt.accounting.calibrate import epsilon_each, most_queries
from darrm_opt.accounting.closed import closed, closed_best_slack, closed_terms, loss_tail, repaired
from darrm_opt.accounting.composition import general, simple
from darrm_opt.accounting.federated import as_replace_one, federated
from darrm_opt.accounting.freshness import FRESH, models_together
from darrm_opt.accounting.gaussian import gaussian_delta, gaussian_epsilon, sampled
from darrm_opt.accounting.generalisation import (
    HighProbability,
    high_probability,
    kl_divergence,
    multi_database,
    on_average,
    on_average_excess,
    total_variation,
)
from darrm_opt.accounting.handover import as_event, as_pld, pld_accountant, privacy_map
from darrm_opt.accounting.leak import leak_floor
from darrm_opt.accounting.ledger import Ledger
from darrm_opt.accounting.loss_distribution import Pld
from darrm_opt.accounting.optimal import optimal, optimal_delta
from darrm_opt.accounting.pld import PldTotal, mirrored, pld, pld_from_profile, pld_of, pld_sequence
from darrm_opt.accounting.rdp import gaussian_rdp, gaussian_rdp_epsilon, rdp_delta, rdp_epsilon
from darrm_opt.accounting.refusals import BelowLeakFloor, BudgetExceeded, LedgerUnreadable, TooMuchWork, UnsoundBound
from darrm_opt.accounting.release import Release
from darrm_opt.accounting.release_profile import ReleaseProfile, release_profile
from darrm_opt.accounting.sequence import optimal_sequence, optimal_sequence_delta
from darrm_opt.accounting.sequence_design import SequenceDesign, design_sequence
from darrm_opt.accounting.sgld import sgld
from darrm_opt.accounting.total import ReleaseTotal, best, best_sequence, exact_epsilon, total_delta_of
from darrm_opt.accounting.training import NoisyTraining

__all__ = [
    "FRESH",
    "Allowance",
    "BelowLeakFloor",
    "BitRegion",
    "BitTotal",
    "BudgetExceeded",
    "HighProbability",
    "Ledger",
    "LedgerUnreadable",
    "NoisyTraining",
    "Pld",
    "PldTotal",
    "Release",
    "ReleaseProfile",
    "ReleaseTotal",
    "SequenceDesign",
    "TooMuchWork",
    "UnsoundBound",
    "as_event",
    "as_pld",
    "as_replace_one",
    "best",
    "best_sequence",
    "closed",
    "closed_best_slack",
    "closed_terms",
    "compose_bits",
    "compose_bits_any_order",
    "design_sequence",
    "epsilon_each",
    "exact_epsilon",
    "federated",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_rdp",
    "gaussian_rdp_epsilon",
    "general",
    "high_probability",
    "inner_region",
    "kl_divergence",
    "largest_allowance",
    "leak_floor",
    "loss_tail",
    "mirrored",
    "models_together",
    "most_queries",
    "multi_database",
    "on_average",
    "on_average_excess",
    "optimal",
    "optimal_delta",
    "optimal_sequence",
    "optimal_sequence_delta",
    "outer_region",
    "pld",
    "pld_accountant",
    "pld_from_profile",
    "pld_of",
    "pld_sequence",
    "privacy_map",
    "privacy_region",
    "rdp_delta",
    "rdp_epsilon",
    "release_profile",
    "repaired",
    "sampled",
    "sgld",
    "simple",
    "total_delta_of",
    "total_variation",
]
