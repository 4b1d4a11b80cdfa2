"""Vertices of the region of a voter with a privacy profile, in place of the corners of one (ε, Δ).

The region F (`darrm_opt.voters`) is a polygon around the diagonal, symmetric under (p, p′) → (p′, p). Its vertices are
(0, 0), (1, 1), those of the upper chain, where p > p′, and their mirror images:

    zero (0,0)    one (1,1)    upper_i (p_i, p′_i)    lower_i (p′_i, p_i)        i = 1, 2, … from (0,0) to (1,1).

They are computed exactly and rounded to the nearest double, which `constraint.STEP_ERROR` covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache

import numpy as np

from darrm_opt.noise import Array, Integers
from darrm_opt.problem import Privacy
from darrm_opt.voters import PrivacyProfile


class ProfileVertices:
    """The vertices of one profile, by columns of `constraint.Counts`."""

    # For searches over four corners: those of a voter that is not private, whose region contains this one.
    x, y, Delta = 1.0, 0.0, 0.0

    def __init__(self, profile: PrivacyProfile) -> None:
        self.profile = profile

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProfileVertices) and self.profile == other.profile

    def __hash__(self) -> int:
        return hash(self.profile)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the vertices, by column."""
        pairs = range(1, len(self.p) // 2)
        return ("zero", "one", *(f"upper_{i}" for i in pairs), *(f"lower_{i}" for i in pairs))

    @cached_property
    def p(self) -> Array:
        """Probability of a 1 on the dataset, per vertex."""
        inner = [(float(p_prime), float(p)) for p_prime, p in self.profile.chain()[1:-1]]
        return _read_only([0.0, 1.0, *(p for _, p in inner), *(p_prime for p_prime, _ in inner)])

    @cached_property
    def reflected(self) -> Array:
        """1 − p′ per vertex."""
        inner = [(float(1 - p_prime), float(1 - p)) for p_prime, p in self.profile.chain()[1:-1]]
        return _read_only([1.0, 0.0, *(reflected for reflected, _ in inner), *(reflected for _, reflected in inner)])

    @property
    def p_prime(self) -> Array:
        """Probability of a 1 on the neighbouring dataset, per vertex, for display."""
        half = len(self.p) // 2 - 1
        return np.concatenate([self.p[:2], self.p[2 + half :], self.p[2 : 2 + half]])

    @property
    def upper(self) -> Integers:
        """Columns of the upper chain, in order, without its ends."""
        return np.arange(2, 1 + len(self.p) // 2)

    @property
    def chain(self) -> Integers:
        """Columns of the upper chain with its ends (0, 0) and (1, 1)."""
        return np.array([0, *self.upper, 1])

    @property
    def boundary(self) -> Integers:
        """All columns in the order of the region's boundary: (0, 0), upper chain, (1, 1), lower chain backwards."""
        return np.concatenate([[0], self.upper, [1], np.arange(len(self.p) - 1, len(self.p) // 2, -1)])

    def mirror(self, column: int) -> int:
        """Return the column of the vertex (p′, p)."""
        half = len(self.p) // 2 - 1
        return column if column < 2 else column + half if column < 2 + half else column - half

    def named(self, counts: Integers) -> dict[str, int]:
        """Return one multiset as ``{label: count}`` without empty vertices."""
        return {label: int(n) for label, n in zip(self.labels, counts, strict=True) if n}

    def text(self, counts: Mapping[str, int]) -> str:
        """Return a multiset with the two probabilities of its vertices: "3 at upper_1 (0.02, 0.01)"."""
        pairs = dict(zip(self.labels, zip(self.p.tolist(), self.p_prime.tolist(), strict=True), strict=True))
        return ", ".join(
            f"{n} at {label} ({pairs[label][0]:.6g}, {pairs[label][1]:.6g})" for label, n in counts.items()
        )


def _read_only(values: list[float]) -> Array:
    array = np.array(values)
    array.setflags(write=False)
    return array


@lru_cache(maxsize=64)
def _vertices(profile: PrivacyProfile) -> ProfileVertices:
    return ProfileVertices(profile)


def profile_vertices(voter: Privacy) -> ProfileVertices | None:
    """Return the vertices of a voter with several points; None for a single (ε, Δ)."""
    return _vertices(voter) if isinstance(voter, PrivacyProfile) and len(voter.points) > 1 else None
