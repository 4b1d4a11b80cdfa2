"""How a solve goes about a problem: what it starts from, where it looks for cuts, and when it stops.

Small problems are searched whole after every program, until no cut is left. Where one search takes seconds (`dear`), the
best monotone γ comes first, then cuts near the faces of the constraint set, then the search that proves, each ending at
the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import DOWN, DOWN_FROM_ONE, ONE, UP_TO_ONE, XY, ZERO, Counts
from darrm_opt.design.pruned import EVALUATION_REACH
from darrm_opt.problem import Problem

LARGE = 400
"""From this K on, γ is designed in stages that end at the tolerance."""

COMPLETE = 120
"""Up to this K complete search is affordable whatever Δ is."""

OFF_THEIR_ENDS = 1.0
"""Beyond `COMPLETE`, with more voters than this off their ends in the mean, many skeletons pass the sieves."""


@dataclass(frozen=True)
class Stage:
    """How cuts are sought for a while.

    Attributes:
        proving: whether the search is the one that proves; else it looks near the faces only.
        reach: where cuts are sought, as a share of the way from the incumbent to the program's answer.
        goal: gap at which the stage is over.
        cuts: most rows added in a round.
        apart: least distance between two of them [voters moved from corner to corner].
        slack: share by which the point searched is scaled down first, so that what binds clears rounding and the
            looseness of the search's sieves.
    """

    proving: bool
    reach: float
    goal: float
    cuts: int
    apart: float
    slack: float = 0.0


def dear(problem: Problem) -> bool:
    """Whether one search of a γ that is not monotone takes seconds: then the best monotone γ is found first.

    It is often optimal, certainly cheap, a good start, and what is left if time runs out.
    """
    return problem.K >= LARGE or (problem.K > COMPLETE and problem.affected * problem.voter.delta > OFF_THEIR_ENDS)


QUICK = 60
"""Up to this K a whole solve takes about as long as finding a γ to fall back on would, unless many voters are off their ends."""


def quick(problem: Problem) -> bool:
    """Whether a solve is over so soon that no γ need be at hand for when time runs out: it is found when it does."""
    return problem.K <= QUICK and problem.affected * problem.voter.delta <= 4 * OFF_THEIR_ENDS


def bounding_stage(problem: Problem, tolerance: float) -> Stage:
    """Return the stage that only lowers the bound, where a search would prove next to nothing (see `stages`)."""
    return Stage(proving=False, reach=1.0, goal=0.8 * tolerance, cuts=60, apart=problem.K**0.5)


def stages(problem: Problem, shape: str, tolerance: float) -> tuple[Stage, ...]:
    """Return the stages for a problem: one exact stage, or a few that end at the tolerance where a search is `dear`.

    None at all where a search would prove next to nothing: the monotone answer must do, and `bounding_stage` bounds what
    is lost.
    """
    if not dear(problem):
        return (Stage(proving=True, reach=1.0, goal=0.0, cuts=200, apart=0.0),)
    apart = problem.K**0.5
    if shape == "monotone":  # its complete search is as cheap as a coarse one
        return (Stage(proving=True, reach=0.5, goal=0.8 * tolerance, cuts=60, apart=apart),)
    if problem.affected * problem.voter.delta > EVALUATION_REACH:
        return ()
    return (
        Stage(proving=False, reach=0.5, goal=0.8 * tolerance, cuts=60, apart=apart),
        Stage(proving=True, reach=0.9, goal=0.8 * tolerance, cuts=60, apart=apart, slack=0.02 * tolerance),
    )


def binding_family(constraint: PrivacyConstraint) -> Counts:
    """Return multisets {x^i, (Δ,0)^(r−i), stationary rest}, at most about 250: almost always those that bind."""
    r = constraint.affected
    counts = np.zeros((r + 1, len(constraint.corners.labels)), dtype=np.int64)
    counts[:, XY] = np.arange(r + 1)
    counts[:, DOWN if constraint.corners.Delta > 0 else ZERO] += r - counts[:, XY]
    stationary = constraint.K - r
    counts[:, ONE] += stationary // 2
    counts[:, ZERO] += stationary - stationary // 2
    if r >= LARGE:
        counts = counts[np.linspace(0, r, 250).astype(int)]
    if constraint.corners.Delta == 0 or stationary:
        return counts
    # with Δ > 0 a vote split in the middle binds too: each half at its end or off it
    middle = np.zeros((3, counts.shape[1]), dtype=np.int64)
    middle[:, DOWN] = (r + 1) // 2
    middle[np.arange(3), [ONE, UP_TO_ONE, DOWN_FROM_ONE]] = r // 2
    return np.concatenate([counts, middle])
