"""darrm-opt: design, prove and use the noise function of a private majority vote.

>>> from darrm_opt import Problem, solve
>>> solution = solve(Problem.from_allowance(K=11, m=3, epsilon=0.1))
>>> round(solution.utility, 6), solution.certificate.margin >= 0
(0.908242, True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from darrm_opt._version import __version__
from darrm_opt.design.certificate import Certificate, certify, verify
from darrm_opt.design.objective import histogram, rectangular, shared, uniform
from darrm_opt.design.solution import CONVENIENCES, Progress, Solution, Statistics
from darrm_opt.errors import BackendUnavailable, DarrmError, InvalidInput, NotPrivate, NotProven, SolveFailed
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.solving import solve

if TYPE_CHECKING:
    from darrm_opt.design.privacy_profile import PrivacyProfile, privacy_profile
    from darrm_opt.design.scenarios import expected_error, minimax, over_scenarios
    from darrm_opt.design.sweep import LeastParameter, Tradeoff, least_m, least_parameter, tradeoff
    from darrm_opt.planning.ranking import plan
    from darrm_opt.problem import Problem
    from darrm_opt.release.vote import PrivateVote

__all__ = [
    "BackendUnavailable",
    "Certificate",
    "DarrmError",
    "InvalidInput",
    "LeastParameter",
    "NoiseFunction",
    "NotPrivate",
    "NotProven",
    "Privacy",
    "PrivacyProfile",
    "PrivateVote",
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
    "least_m",
    "least_parameter",
    "minimax",
    "over_scenarios",
    "plan",
    "privacy_profile",
    "rectangular",
    "shared",
    "solve",
    "tradeoff",
    "uniform",
    "verify",
]

_LAZY = {
    "PrivacyProfile": "darrm_opt.design.privacy_profile",
    "privacy_profile": "darrm_opt.design.privacy_profile",
    "expected_error": "darrm_opt.design.scenarios",
    "minimax": "darrm_opt.design.scenarios",
    "over_scenarios": "darrm_opt.design.scenarios",
    "Tradeoff": "darrm_opt.design.sweep",
    "LeastParameter": "darrm_opt.design.sweep",
    "least_m": "darrm_opt.design.sweep",
    "least_parameter": "darrm_opt.design.sweep",
    "tradeoff": "darrm_opt.design.sweep",
    "PrivateVote": "darrm_opt.release.vote",
    "plan": "darrm_opt.planning.ranking",
}
"""Names whose modules are loaded on first use, as a design does not need them."""


def _plot(solution: Solution) -> Any:
    from darrm_opt.figures import comparison_figure
    from darrm_opt.planning.baselines import private_baselines

    return comparison_figure(solution, private_baselines(solution.problem))


def _save(solution: Solution, path: Any) -> None:
    from darrm_opt.verification import save_solution

    save_solution(solution, path)


def _load(path: Any) -> Solution:
    from darrm_opt.verification import load_solution

    return load_solution(path)


CONVENIENCES.update(plot=_plot, save=_save, load=_load)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
