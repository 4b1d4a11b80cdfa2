"""Schedule of a solve: its initial rows, the stages of its search for cuts, and its clock.

Small problems are searched completely after every program, until no cut is left; if that takes many simplex iterations,
cuts are then sought as in larger ones. From `LARGE_K` voters on (`is_expensive`) the best monotone γ comes first, then
cuts near the faces of the constraint set, then the search that proves, each ending at the tolerance.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from darrm_opt.design.constraint import DOWN, DOWN_FROM_ONE, ONE, UP_TO_ONE, XY, ZERO, Counts, PrivacyConstraint
from darrm_opt.design.profile_vertices import ProfileVertices
from darrm_opt.design.separation.arcs import likely_multisets
from darrm_opt.design.separation.compiled import takes_passes
from darrm_opt.design.separation.result import MAX_EVALUATED_MEAN, TimeLimitReached
from darrm_opt.problem import Problem

LARGE_K = 121
"""From this K on, γ is designed in stages that end at the tolerance; below, complete searches are affordable."""

MAX_PASSED_K = 600
"""Up to this K a search can afford a pass over the blossoms of a row in each column (`separable`), for any Δ."""

MAX_ITERATIONS_PER_VOTER = 10
"""Simplex iterations per voter after which an exact stage gives way to one with few cuts, far apart: with hundreds of
nearly parallel rows a round, programs of large ε take hundreds of iterations each."""

FACE_SPACING = 8
"""Spacing of the columns of the faces that are searched first, if each takes passes: less than that of cuts."""

MAX_QUICK_K, MAX_QUICK_MEAN = 60, 4.0
"""Up to this K a whole solve takes about as long as finding a fallback γ, unless on average more voters than this are
off their ends."""

MAX_FAMILY = 250


class Stage(NamedTuple):
    """A phase of the search for cuts."""

    gap: float  # gap between bound and incumbent at which the stage ends
    max_cuts: int  # most rows added in a round
    min_distance: float  # smallest distance between two of them [voters moved from corner to corner]
    complete: bool  # whether cuts come from the complete search, which can prove a γ, or from that near the faces
    step: float  # position of the searched point, as a share of the way from the incumbent to the program's answer
    # share by which the searched point is scaled down first, so that binding multisets clear rounding and the
    # looseness of the search's sieves
    slack: float = 0.0
    # whether only the bound is lowered: the incumbent stays, as no search here could prove a better one
    bounding: bool = False
    later: Stage | None = None  # successor after `MAX_ITERATIONS_PER_VOTER`
    # whether the faces are searched first, and the rest only if they give no cut
    faces_first: bool = False
    # spacing of the columns of the faces that are searched first; all follow if these give few cuts
    spacing: int = 1


MAX_QUICK_PROFILE_SIZE = 200
"""Up to this K·n², for n points of a voter's profile, a whole solve takes a fraction of a second."""

MAX_EXACT_PROFILE_SIZE = 900
"""Up to this K·n² a search over arcs takes about a second, and γ is solved until no cut is left."""

MAX_PROFILE_SIZE = 1300  # up to this K·n² it takes seconds to a minute


def is_expensive(problem: Problem) -> bool:
    """Whether solving until no cut is left may take seconds, so that the best monotone γ comes first."""
    # That is often optimal, cheap, a good start, and the fallback if time runs out.
    if len(problem.voter.points) > 1:
        return problem.K * len(problem.voter.points) ** 2 > MAX_PROFILE_SIZE
    return problem.K >= LARGE_K


def is_quick(problem: Problem) -> bool:
    """Whether a solve is so short that it needs no fallback γ."""
    if len(problem.voter.points) > 1:
        return problem.K * len(problem.voter.points) ** 2 <= MAX_QUICK_PROFILE_SIZE
    return problem.K <= MAX_QUICK_K and problem.affected * problem.voter.delta <= MAX_QUICK_MEAN


def schedule(problem: Problem, shape: str, tolerance: float) -> tuple[Stage, ...]:
    """Return the stages for a problem: one exact stage, or, if it `is_expensive`, a few that end at the tolerance."""
    # If a search would prove next to nothing, the monotone answer must do, and a single stage bounds the loss.
    has_profile = len(problem.voter.points) > 1
    if not is_expensive(problem):
        later = None
        if not has_profile and problem.K > MAX_QUICK_K and takes_passes(problem.affected, problem.voter.delta):
            later = _spread_stage(problem, 0.0, complete=True, step=1.0, faces_first=True)
        is_exact = not has_profile or problem.K * len(problem.voter.points) ** 2 <= MAX_EXACT_PROFILE_SIZE
        gap = 0.0 if is_exact else 0.8 * tolerance
        return (Stage(gap=gap, max_cuts=200, min_distance=0.0, complete=True, step=1.0, later=later),)
    if shape == "monotone":  # its complete search is as cheap as a coarse one
        return (_spread_stage(problem, tolerance, complete=True, step=0.5),)
    is_searchable = has_profile or problem.affected == problem.K <= MAX_PASSED_K
    if problem.affected * problem.voter.delta > MAX_EVALUATED_MEAN and not is_searchable:
        return (_spread_stage(problem, tolerance, complete=False, step=1.0, bounding=True),)
    near_faces = _spread_stage(problem, tolerance, complete=False, step=0.5)
    proving = _spread_stage(problem, tolerance, complete=True, step=0.9, slack=0.02 * tolerance)
    if not has_profile and takes_passes(problem.affected, problem.voter.delta):
        near_faces, proving = (stage._replace(spacing=FACE_SPACING) for stage in (near_faces, proving))
    return near_faces, proving._replace(faces_first=near_faces.spacing > 1)


def _spread_stage(problem: Problem, tolerance: float, **choices: Any) -> Stage:
    """Return a stage that ends at the tolerance and adds few cuts, far apart: neighbours are nearly parallel rows."""
    return Stage(gap=0.8 * tolerance, max_cuts=60, min_distance=problem.K**0.5, **choices)


def binding_family(constraint: PrivacyConstraint) -> Counts:
    """Return multisets that nearly always bind, read-only: {x^i, (Δ,0)^(r−i), the rest at their ends}."""
    if isinstance(constraint.corners, ProfileVertices):
        return likely_multisets(constraint)
    return _binding_family(constraint.K, constraint.affected, constraint.corners.Delta > 0)


@functools.lru_cache(maxsize=32)
def _binding_family(K: int, r: int, off_their_ends: bool) -> Counts:  # noqa: FBT001 — a key of the cache
    counts = np.zeros((r + 1, 8 if off_their_ends else 4), dtype=np.int64)
    counts[:, XY] = np.arange(r + 1)
    counts[:, DOWN if off_their_ends else ZERO] += r - counts[:, XY]
    stationary = K - r
    counts[:, ONE] += stationary // 2
    counts[:, ZERO] += stationary - stationary // 2
    if r > MAX_FAMILY:
        counts = counts[np.linspace(0, r, MAX_FAMILY).astype(int)]
    if off_their_ends and not stationary:
        # with Δ > 0 an evenly split vote binds too: each half at its end or off it
        middle = np.zeros((3, counts.shape[1]), dtype=np.int64)
        middle[:, DOWN] = (r + 1) // 2
        middle[np.arange(3), [ONE, UP_TO_ONE, DOWN_FROM_ONE]] = r // 2
        counts = np.concatenate([counts, middle])
    counts.setflags(write=False)
    return counts


GRACE = 0.2  # share of the time limit, at least `MIN_GRACE` seconds, by which proving the best γ may exceed it

MIN_GRACE = 0.8


class SolveClock:
    """Deadlines of one solve and a stopwatch for its phases, in seconds by `time.perf_counter`."""

    def __init__(self, limit: float | None, parent: SolveClock | None = None) -> None:
        self.limit = limit  # time after which searches stop, from now
        self._start = time.perf_counter()
        self.deadline = math.inf if limit is None else self._start + limit
        # end of the last proof; inf until it has begun
        self.proof_deadline: float = math.inf if parent is None else parent.proof_deadline
        self.seconds = {"program": 0.0, "search": 0.0, "certify": 0.0, "total": 0.0}

    @property
    def grace(self) -> float:
        """Time by which the last proof may exceed the limit."""
        return math.inf if self.limit is None else max(MIN_GRACE, GRACE * self.limit)

    @property
    def elapsed(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self._start

    @property
    def remaining(self) -> float | None:
        """Time until the deadline, negative after it; None without a limit."""
        return None if self.limit is None else self.limit - self.elapsed

    @property
    def remaining_for_fallback(self) -> float | None:
        """Time for finding a fallback γ: half of the remaining time once the last proof has begun."""
        if self.proof_deadline < math.inf:
            return (self.proof_deadline - time.perf_counter()) / 2
        return self.remaining

    def begin_proof(self) -> None:
        """Start the time of the last proof, unless the parent has started it."""
        if self.proof_deadline == math.inf:
            self.proof_deadline = time.perf_counter() + self.grace

    def check(self) -> None:
        """Raise `TimeLimitReached` after the deadline."""
        if time.perf_counter() > self.deadline:
            raise TimeLimitReached

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        """Add the duration of the block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - start
