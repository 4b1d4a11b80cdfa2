"""A γ is proved where it enters, and not again while it is the same γ."""

from __future__ import annotations

from functools import lru_cache

from darrm_opt.design.certificate import Certificate, verify
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem


@lru_cache(maxsize=32)
def proved(noise: NoiseFunction, problem: Problem) -> Certificate:
    """Return why a γ is private: `verify`, remembered by the bits of γ and the problem, since it takes seconds for many voters.

    Raises:
        NotPrivate: it is not, or cannot be proved to be; refusals are not remembered.
    """
    return verify(problem, noise)
