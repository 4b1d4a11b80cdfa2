"""darrm-opt: design, prove and use the noise function of a private majority vote.

>>> from darrm_opt import Problem, solve
>>> solution = solve(Problem.from_allowance(K=11, m=3, epsilon=0.1))
>>> round(solution.utility, 6), solution.certificate.margin >= 0
(0.908242, True)
"""

from darrm_opt._version import __version__
from darrm_opt.design.certificate import Certificate, certify, verify
from darrm_opt.design.objective import histogram, rectangular, shared, uniform
from darrm_opt.design.profile import PrivacyProfile, privacy_profile
from darrm_opt.design.scenarios import expected_error, minimax, over_scenarios
from darrm_opt.design.solution import Progress, Solution, Statistics
from darrm_opt.design.solver import solve
from darrm_opt.design.tradeoff import Tradeoff, least_allowance, tradeoff
from darrm_opt.errors import (
    BackendUnavailable,
    DarrmError,
    InvalidInput,
    NotPrivate,
    NotProven,
    SolveFailed,
)
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem

__all__ = [
    "BackendUnavailable",
    "Certificate",
    "DarrmError",
    "InvalidInput",
    "NoiseFunction",
    "NotPrivate",
    "NotProven",
    "Privacy",
    "PrivacyProfile",
    "Problem",
    "Progress",
    "Solution",
    "SolveFailed",
    "Statistics",
    "Tradeoff",
    "__version__",
    "certify",
    "expected_error",
    "histogram",
    "least_allowance",
    "minimax",
    "over_scenarios",
    "privacy_profile",
    "rectangular",
    "shared",
    "solve",
    "tradeoff",
    "uniform",
    "verify",
]
