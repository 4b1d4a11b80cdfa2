"""One release: a γ, and the problem for which it is private."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from darrm_opt.accounting.release_profile import ReleaseProfile, release_profile
from darrm_opt.design.certificate import verify
from darrm_opt.design.solution import Solution
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Privacy, Problem

Released = Solution | tuple[ArrayLike | NoiseFunction, Problem]
"""A certified γ, or a γ and the problem for which `verify` proves it."""


@dataclass(frozen=True)
class Release:
    """One γ and the problem for which it is private.

    Args:
        noise: γ.
        problem: K voters, their privacy, and the release's (mε, δ).
    """

    noise: NoiseFunction
    problem: Problem

    @classmethod
    def of(cls, released: Released | Release) -> Release:
        """Return the release of a solution, or of a γ once it is proved private for its problem.

        Raises:
            InvalidInput: neither a solution nor (gamma, problem).
            NotPrivate: the γ is not private for that problem.
        """
        if isinstance(released, Release):
            return released
        if isinstance(released, Solution):
            return cls(released.noise, released.problem)
        given: Any = released
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Problem)):
            raise InvalidInput("release", given, "a Solution, or a pair (gamma, problem)")
        gamma, problem = given
        noise = NoiseFunction(gamma, problem.K)
        verify(problem, noise)
        return cls(noise, problem)

    @property
    def privacy(self) -> Privacy:
        """(mε, δ) of one release, as it was proved."""
        return self.problem.target

    @cached_property
    def profile(self) -> ReleaseProfile:
        """The release's privacy at every ε."""
        return _profile(self.noise, self.problem)


@lru_cache(maxsize=64)
def _profile(noise: NoiseFunction, problem: Problem) -> ReleaseProfile:
    return release_profile(noise, problem)
