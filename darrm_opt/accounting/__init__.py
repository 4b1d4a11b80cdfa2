"""Privacy accounting: the total (ε, δ) of many releases.

* `total_privacy`, `total_privacy_of_sequence`: releases of a γ by every account below, and their minimum;
* `release_profile`: one release at every ε;
* `compose_models`, `FRESH`: voters trained once that answer many queries;
* `Sampling`: how records are drawn if every query has a fresh and secret sample;
* `PrivacyBudget`: an accountant that rejects a charge beyond its budget;
* `as_pld`, `as_event`, `pld_accountant`, `privacy_map`: releases for the accountants of other libraries.

The pipeline: the guarantee of one release (`guarantee`; for a γ `release_profile`, for listed laws `law_pairs`) → the
accounts: `composition` (closed forms, and the exact optimum over all adaptive compositions of (ε, δ)-DP mechanisms),
`bits` (the exact adaptive composition of releases that are single bits), `adaptive` (the same for any listed laws),
`pld` (privacy loss distributions), `rdp`, `labels` and `gaussian` (power divergences), `sampled` and `allocation`
(records drawn anew), `mixture` (one draw for all) → `accounts`, their list → `total`, their minimum → `calibrate`: the
largest parameter, or number of releases, that fits.

Design under a total budget is in `darrm_opt.planning`; theorems of papers that are not used here are in `darrm_papers`.
"""

from darrm_opt.accounting.accounts import compose_models
from darrm_opt.accounting.freshness import FRESH
from darrm_opt.accounting.interop import as_event, as_pld, pld_accountant, privacy_map
from darrm_opt.accounting.privacy_budget import PrivacyBudget
from darrm_opt.accounting.release_profile import Release, ReleaseProfile, release_profile
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import ReleaseTotal, total_privacy, total_privacy_of_sequence
from darrm_opt.errors import BudgetExceeded, BudgetUnreadable, DeltaTooSmall, TooMuchWork

__all__ = [
    "FRESH",
    "BudgetExceeded",
    "BudgetUnreadable",
    "DeltaTooSmall",
    "PrivacyBudget",
    "Release",
    "ReleaseProfile",
    "ReleaseTotal",
    "Sampling",
    "TooMuchWork",
    "as_event",
    "as_pld",
    "compose_models",
    "pld_accountant",
    "privacy_map",
    "release_profile",
    "total_privacy",
    "total_privacy_of_sequence",
]
