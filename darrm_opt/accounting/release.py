"""One release: a γ and its voters (`NoisyMajority`), and the proof that it is private for a target (`Release`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from darrm_opt.accounting.freshness import counted_voters
from darrm_opt.accounting.release_profile import ReleaseProfile, release_profile
from darrm_opt.design.certificate import Certificate, verify
from darrm_opt.design.solution import Solution
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Privacy, Problem

Released = Solution | tuple[ArrayLike | NoiseFunction, Problem]
"""A certified γ, or a γ and the problem for which `verify` proves it."""


@dataclass(frozen=True)
class NoisyMajority:
    """The majority of K votes, released through a γ: all that decides what one bit can show.

    Args:
        noise: γ.
        problem: K voters, their privacy, and how many of them one record reaches. Of its target only δ counts.
    """

    noise: NoiseFunction
    problem: Problem

    @property
    def privacy(self) -> Privacy:
        """(ε, δ) of one release: the ε that its profile proves at the target's δ.

        Raises:
            BelowLeakFloor: no finite ε is proved at that δ.
        """
        delta = self.problem.target.delta
        return Privacy(self.profile.epsilon(delta), delta)

    @cached_property
    def profile(self) -> ReleaseProfile:
        """The release's privacy at every ε."""
        return _profile(self.noise, self.problem)


@dataclass(frozen=True)
class Release(NoisyMajority):
    """A γ that is proved private for its problem: there is no other.

    Args:
        noise: γ.
        problem: K voters, their privacy, and the release's (mε, δ).

    Raises:
        NotPrivate: γ is not private for the problem, or cannot be proved to be.
    """

    def __post_init__(self) -> None:
        proved(self.noise, self.problem)

    @classmethod
    def of(cls, released: Released | Release) -> Release:
        """Return the release of a solution, or of a γ, once it is proved private for its problem.

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
        return cls(NoiseFunction(gamma, problem.K), problem)

    @property
    def certificate(self) -> Certificate:
        """Why it is private, as proved when it was made."""
        return proved(self.noise, self.problem)

    @property
    def privacy(self) -> Privacy:
        """(mε, δ) of one release, as it was proved."""
        return self.problem.target

    def counted(self, queries: int, *, fresh: bool) -> NoisyMajority:
        """Return the release as each of ``queries`` counts: itself, or that of voters taken as not private.

        Args:
            queries: Q ≥ 0 releases in all.
            fresh: whether the voters are (`freshness.FRESH`).
        """
        voters = counted_voters(self.problem, queries, fresh=fresh)
        return self if voters is self.problem else NoisyMajority(self.noise, voters)


@lru_cache(maxsize=64)
def proved(noise: NoiseFunction, problem: Problem) -> Certificate:
    """Return why a γ is private: `verify`, remembered by the bits of γ and the problem, since it takes seconds for many voters.

    Raises:
        NotPrivate: it is not, or cannot be proved to be; refusals are not remembered.
    """
    return verify(problem, noise)


@lru_cache(maxsize=64)
def _profile(noise: NoiseFunction, problem: Problem) -> ReleaseProfile:
    return release_profile(noise, problem)
