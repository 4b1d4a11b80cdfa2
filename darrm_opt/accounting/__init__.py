"""Privacy accounting: the total (ε, δ) of many releases.

* `total_privacy`, `total_privacy_of_sequence`: releases of a γ by every account below, and the least of them;
  `release_profile`: one release at every ε;
* `basic_composition`, `kov_composition`, `kov_composition_at_delta`: closed forms;
* `optimal_composition`, `optimal_composition_of_sequence`: the exact optimum over all adaptive compositions
  of (ε, δ)-DP mechanisms;
* `pld_composition`, `pld_composition_of_sequence`, `pld_from_profile`: privacy loss distributions, of
  (ε, δ) or of an exact profile;
* `compose_bits`: the exact adaptive composition of releases that are single bits;
* `compose_models`, `FRESH`: voters that were trained once and answer many queries;
* `PrivacyBudget`: an accountant that rejects a charge beyond its budget;
* `gaussian_epsilon`, `rdp_epsilon`, `amplify_by_subsampling`: the Gaussian mechanism and random batches;
* `as_pld`, `as_event`, `pld_accountant`, `privacy_map`: releases of a γ for the accountants of other libraries.

Design under a total budget is in `darrm_opt.budgeting`; theorems of papers that nothing here uses are
in `darrm_opt.literature`.
"""

from darrm_opt.accounting.bits.recursion import BitTotal, compose_bits, compose_bits_any_order
from darrm_opt.accounting.bits.region import BitRegion, inner_region, outer_region, privacy_region
from darrm_opt.accounting.composition.closed_forms import (
    basic_composition,
    kov_branches,
    kov_composition,
    kov_composition_at_delta,
    kov_composition_of_sequence,
    loss_tail,
    tail_composition,
)
from darrm_opt.accounting.composition.optimal import (
    least_possible_delta,
    optimal_composition,
    optimal_composition_of_sequence,
    optimal_delta,
    optimal_delta_of_sequence,
)
from darrm_opt.accounting.errors import BudgetExceeded, BudgetUnreadable, DeltaTooSmall, TooMuchWork, UnsoundBound
from darrm_opt.accounting.freshness import FRESH, compose_models
from darrm_opt.accounting.gaussian import gaussian_delta, gaussian_epsilon
from darrm_opt.accounting.interop import as_event, as_pld, pld_accountant, privacy_map
from darrm_opt.accounting.pld import (
    Pld,
    PldTotal,
    pld_composition,
    pld_composition_of_sequence,
    pld_from_profile,
    pld_of,
    symmetric_profile,
)
from darrm_opt.accounting.privacy_budget import PrivacyBudget
from darrm_opt.accounting.rdp import gaussian_rdp, gaussian_rdp_epsilon, rdp_delta, rdp_epsilon
from darrm_opt.accounting.release_profile import Release, ReleaseProfile, release_profile
from darrm_opt.accounting.subsampling import amplify_by_subsampling
from darrm_opt.accounting.total import (
    ReleaseTotal,
    exact_epsilon,
    total_delta_of,
    total_privacy,
    total_privacy_of_sequence,
)

__all__ = [
    "FRESH",
    "BitRegion",
    "BitTotal",
    "BudgetExceeded",
    "BudgetUnreadable",
    "DeltaTooSmall",
    "Pld",
    "PldTotal",
    "PrivacyBudget",
    "Release",
    "ReleaseProfile",
    "ReleaseTotal",
    "TooMuchWork",
    "UnsoundBound",
    "amplify_by_subsampling",
    "as_event",
    "as_pld",
    "basic_composition",
    "compose_bits",
    "compose_bits_any_order",
    "compose_models",
    "exact_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_rdp",
    "gaussian_rdp_epsilon",
    "inner_region",
    "kov_branches",
    "kov_composition",
    "kov_composition_at_delta",
    "kov_composition_of_sequence",
    "least_possible_delta",
    "loss_tail",
    "optimal_composition",
    "optimal_composition_of_sequence",
    "optimal_delta",
    "optimal_delta_of_sequence",
    "outer_region",
    "pld_accountant",
    "pld_composition",
    "pld_composition_of_sequence",
    "pld_from_profile",
    "pld_of",
    "privacy_map",
    "privacy_region",
    "rdp_delta",
    "rdp_epsilon",
    "release_profile",
    "symmetric_profile",
    "tail_composition",
    "total_delta_of",
    "total_privacy",
    "total_privacy_of_sequence",
]
