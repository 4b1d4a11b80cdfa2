"""Are voters that state a privacy profile protected by whatever is certified for them?

Random profiles, numbers of voters, affected ones and targets; for each, hostile γ. What `certify` returns is held
against every multiset by an oracle of other code, and `verify` must refuse what the oracle refutes and accept what it
proves with room.

    PYTHONPATH=tests python -m campaigns.profiles --gammas 10000
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
from support.profile_oracle import rows

from darrm_opt import NoiseFunction, NotPrivate, Privacy, Problem, certify, verify
from darrm_opt.voters import PrivacyProfile

GAMMAS_PER_PROBLEM = 100

ROOM = 1e-9
"""Distance from the limit within which either verdict of `verify` is right [of φ, times e^ε]."""


def random_problem(draw: np.random.Generator) -> Problem:
    """Return a problem of which the oracle can list all multisets."""
    while True:
        points = int(draw.integers(2, 4))
        epsilons, deltas = np.sort(draw.uniform(0, 1.5, points)), np.sort(draw.uniform(0, 0.4, points) ** 2)[::-1]
        epsilons[0] *= draw.random() < 0.5
        deltas[-1] *= draw.random() < 0.7
        voter = PrivacyProfile(np.column_stack([epsilons, deltas]).tolist())
        if len(voter.points) > 1:
            break
    K = int(draw.integers(2, 7 if len(voter.points) == 2 else 6))
    target = Privacy(float(draw.uniform(0, 1)), float(draw.choice([0.0, 1e-4, 0.05])))
    return Problem(K, voter, target, int(draw.integers(1, K + 1)))


def random_gamma(K: int, draw: np.random.Generator) -> NoiseFunction:
    """Return a γ that is flat, jagged, sorted, or nearly a step."""
    upper = draw.uniform(0, 1, (K + 1) // 2) ** draw.choice([0.1, 1.0, 5.0])
    forms = [np.sort(upper), upper, (upper > 0.5).astype(float), np.round(upper, 1)]
    return NoiseFunction.from_upper_half(forms[int(draw.integers(4))], K)


def main() -> None:
    """Run the campaign and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gammas", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    draw, certified, refused, accepted, worst = np.random.default_rng(asked.seed), 0, 0, 0, -math.inf
    while certified < asked.gammas:
        problem = random_problem(draw)
        limit = math.exp(problem.target.epsilon) - 1 + 2 * problem.target.delta
        program = rows(problem.K, problem.voter.points, problem.target.epsilon, problem.affected)
        for _ in range(GAMMAS_PER_PROBLEM):
            noise = random_gamma(problem.K, draw)
            repaired, _ = certify(problem, noise)
            excess = float((program @ repaired.upper_half).max()) - limit
            if excess > 1e-12:
                raise SystemExit(f"unsound by {excess}: {problem}, gamma {repaired.values.tolist()}")
            worst, certified = max(worst, excess), certified + 1
            value = float((program @ noise.upper_half).max())
            try:
                verify(problem, noise)
                accepted += 1
                if value > limit + ROOM:
                    raise SystemExit(f"accepted by mistake: {problem}, gamma {noise.values.tolist()}")
            except NotPrivate:
                refused += 1
                if value < limit - ROOM:
                    raise SystemExit(f"refused by mistake: {problem}, gamma {noise.values.tolist()}") from None
    sys.stdout.write(
        f"{certified:,} γ certified, none unsound (largest excess {worst:.1e}); {accepted:,} accepted as they were, "
        f"{refused:,} refused, all as the oracle says\n"
    )


if __name__ == "__main__":
    main()
