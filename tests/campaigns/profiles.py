"""Are voters that state a privacy profile protected by whatever is certified for them?

Random profiles, numbers of voters, affected ones and targets; for each, hostile γ. What `certify` returns is held
against every multiset by an oracle of other code (half-planes intersected pair by pair, every multiset of the vertices,
votes convolved), and `verify` must refuse what the oracle refutes and accept what it
proves with room.

    PYTHONPATH=tests python -m campaigns.profiles --problems 100
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from campaigns.driver import Campaign, Row, Tally
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


def region(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the vertices (p, p′) of the region, by intersecting the lines of its half-planes."""
    planes = [(1.0, 0.0, 1.0), (0.0, 1.0, 1.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0)]  # a·p + b·p′ ≤ c
    for epsilon, delta in points:
        t = math.exp(epsilon)
        planes += [(1, -t, delta), (-t, 1, delta), (-1, t, t - 1 + delta), (t, -1, t - 1 + delta)]
    found: list[tuple[float, float]] = []
    for (a, b, c), (d, e, f) in itertools.combinations(planes, 2):
        determinant = a * e - b * d
        if abs(determinant) < 1e-12:
            continue
        p, p_prime = (c * e - b * f) / determinant, (a * f - c * d) / determinant
        inside = all(g * p + h * p_prime <= i + 1e-10 for g, h, i in planes)
        if inside and all(math.dist((p, p_prime), other) > 1e-9 for other in found):
            found.append((min(max(p, 0.0), 1.0), min(max(p_prime, 0.0), 1.0)))
    return found


def votes(chances: Any) -> np.ndarray[Any, Any]:
    """Return the law of the number of ones."""
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    return law


def rows(K: int, points: Any, E: float, affected: int) -> np.ndarray[Any, Any]:
    """Return every constraint Σ γ(l)·row(l) ≤ e^E − 1 + 2δ, shape (many, ⌈K/2⌉), over l > K/2."""
    vertices, c, made = region(points), math.exp(E), []
    for multiset in itertools.combinations_with_replacement(range(len(vertices)), K):
        if sum(abs(vertices[v][0] - vertices[v][1]) > 1e-12 for v in multiset) > affected:
            continue
        row = votes(vertices[v][0] for v in multiset) - c * votes(vertices[v][1] for v in multiset)
        made.append([row[l] - row[K - l] for l in range(K // 2 + 1, K + 1)])
    return np.array(made)


# ------------------------------------------------------------------------------------------------ the campaign


def examine(seed: int, number: int) -> Row:
    """Hold hostile γ for a random problem against every multiset."""
    draw = np.random.default_rng((seed, number))
    problem, faults, worst, verdicts = random_problem(draw), list[str](), -math.inf, Counter[str]()
    limit = math.exp(problem.target.epsilon) - 1 + 2 * problem.target.delta
    program = rows(problem.K, problem.voter.points, problem.target.epsilon, problem.affected)
    for _ in range(GAMMAS_PER_PROBLEM):
        noise = random_gamma(problem.K, draw)
        repaired, _ = certify(problem, noise)
        excess = float((program @ repaired.upper_half).max()) - limit
        worst, value = max(worst, excess), float((program @ noise.upper_half).max())
        if excess > 1e-12:
            faults.append(f"unsound by {excess}: {problem}, gamma {repaired.values.tolist()}")
        try:
            verify(problem, noise)
            verdict, is_wrong = "accepted", value > limit + ROOM
        except NotPrivate:
            verdict, is_wrong = "refused", value < limit - ROOM
        verdicts[verdict] += 1
        if is_wrong:
            faults.append(f"{verdict} by mistake: {problem}, gamma {noise.values.tolist()}")
    return Row(faults, [], {"excess": worst, **verdicts})


def lines(tally: Tally) -> Iterator[str]:
    accepted, refused = (int(sum(tally.values(name))) for name in ("accepted", "refused"))
    yield (
        f"{accepted + refused:,} γ certified, {len(tally.faults)} faults (largest excess "
        f"{max(tally.values('excess')):.1e}); {accepted:,} accepted as they were, {refused:,} refused."
    )


CAMPAIGN = Campaign("profiles", __doc__, "problems", 100, examine, lines)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
