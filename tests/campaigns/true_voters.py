"""Do true voters, as bad as an adversary makes them, ever break what is certified for their privacy profile?

Gaussian, Laplace and sampled Gaussian voters of random noise, random points of their profiles, numbers of voters and
targets; γ_opt, and hostile γ as `certify` returns them. An adversary climbs over the voters' own curves, which no point
of a profile shows. It must also find what is wrong with the plain majority, where that is not certified.

    PYTHONPATH=tests python -m campaigns.true_voters --designs 300
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from support.true_voters import STARTS, TrueVoter, gaussian, laplace, sampled_gaussian, worst_excess

from campaigns.pages import read_options
from campaigns.profiles import random_gamma
from darrm_opt import NoiseFunction, NotPrivate, Privacy, Problem, certify, solve, verify
from darrm_opt.voters import PrivacyProfile

ROUNDING = 1e-12
"""Excess that the adversary's own arithmetic may show."""


KINDS = ("gaussian", "laplace", "sampled")


def random_voter(kind: str, draw: np.random.Generator) -> TrueVoter:
    """Return a mechanism of a kind."""
    level = float(np.exp(draw.uniform(math.log(0.02), math.log(1.0))))
    if kind == "gaussian":
        return gaussian(level)
    return laplace(1 / level) if kind == "laplace" else sampled_gaussian(float(draw.uniform(0.6, 3)), float(level / 2))


@dataclass(frozen=True)
class Attack:
    """What an adversary reaches against some certified γ and against the plain majority."""

    problem: str
    excesses: list[float]
    of_majority: float
    is_certified: bool  # the plain majority


def attack(kind: str, draw: np.random.Generator, most_voters: int = 13, starts: int = STARTS) -> Attack:
    """Design γ for random voters of a kind, and attack it."""
    voter, last = random_voter(kind, draw), float(draw.uniform(0.05, 0.6))
    last = next(epsilon for epsilon in (last, last / 4, last / 16, 0.0) if voter.delta(epsilon) > 1e-12 or not epsilon)
    points = voter.points(*np.linspace(0, last, int(draw.integers(2, 5))).tolist())
    K = int(draw.integers(2, most_voters + 1))
    target = Privacy(float(draw.uniform(0.02, 1.0)), float(draw.choice([0.0, 1e-5, 1e-2])))
    problem, majority = Problem(K, PrivacyProfile(points), target), NoiseFunction(np.ones(K + 1))
    hostile = [certify(problem, random_gamma(K, draw))[0] for _ in range(2)]
    found = [
        worst_excess(voter, noise.values, target.epsilon, target.delta, draw, starts)
        for noise in (solve(problem).noise, *hostile, majority)
    ]
    try:
        verify(problem, majority)
        is_certified = True
    except NotPrivate:
        is_certified = False
    return Attack(f"{voter.name}, {problem}", found[:-1], found[-1], is_certified)


def main() -> int:
    """Run the campaign and print what it found; return 1 if anything certified is broken."""
    asked = read_options(__doc__, None, designs=300, seed=0)
    draw, worst, broken, refused, failures = np.random.default_rng(asked.seed), -math.inf, 0, 0, 0
    for design in range(asked.designs):
        found = attack(KINDS[design % 3], draw)
        refused += not found.is_certified
        broken += not found.is_certified and found.of_majority > ROUNDING
        excess = max(*found.excesses, found.of_majority if found.is_certified else -math.inf)
        worst = max(worst, excess)
        if excess > ROUNDING:
            sys.stdout.write(f"broken: {found}\n")
            failures += 1
    sys.stdout.write(
        f"{3 * asked.designs:,} certified γ, {failures} broken, largest excess {worst:.1e}; of {refused} plain "
        f"majorities that are refused, {broken} broken by these voters\n"
    )
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
