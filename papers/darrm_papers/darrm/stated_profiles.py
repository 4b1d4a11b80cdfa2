"""The paper's settings with voters that state their privacy profile, beside the one point (ε, Δ) that the paper takes.

A voter that has this (ε, Δ) by a known mechanism has all of the mechanism's curve. γ_opt for its points protects the
same voters, and keeps more of their votes.
"""

from __future__ import annotations

from collections.abc import Sequence

from darrm_opt.design.solver import solve
from darrm_opt.privacy_curves import PrivacyCurve
from darrm_opt.problem import Privacy, Problem
from darrm_opt.voters import PrivacyProfile
from darrm_papers.darrm.printed import Table


def profile_table(problems: Sequence[tuple[str, Problem]], curve: PrivacyCurve) -> Table:
    """Return the utility of γ_opt for one point (ε, Δ), for points of a curve beside it, and a bound for all of it.

    Args:
        problems: labels, and problems of voters that have the curve; δ and the point stay.
        curve: what the voters have by their mechanism.
    """
    rows = []
    for label, problem in problems:
        voter = problem.voter
        chosen = curve.profile(Privacy(0.0, voter.delta)).points
        profile = PrivacyProfile([*chosen, (voter.epsilon, voter.delta)])
        stated = Problem(problem.K, profile, problem.target, problem.affected)
        inner = Problem(problem.K, curve.inner_profile(profile), problem.target, problem.affected)
        utilities = (solve(problem).utility, solve(stated).utility, solve(inner).upper_bound)
        rows.append((label, len(profile.points), *utilities))
    heads = (
        *(("panel", ""), ("points", "d"), ("utility, one point", ".6f"), ("with its profile", ".6f")),
        ("at most, with more points", ".6f"),
    )
    voter = problems[0][1].voter
    point = f"({voter.epsilon:g}, {voter.delta:g})-DP by {curve.text}"
    return Table(f"γ_opt for voters that are {point} and state its profile (ours)", heads, tuple(rows))
