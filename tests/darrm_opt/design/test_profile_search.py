"""The profile asked one ε at a time: what it remembers makes it faster, never smaller."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt import NoiseFunction, Privacy, Problem
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.privacy_profile import ProfileSearch, privacy_profile


@for_each(
    "problem",
    [
        Problem(7, Privacy(0.4), Privacy(0.5)),
        Problem(6, Privacy(0.3, 0.02), Privacy(0.5, 0.05)),
        Problem(5, Privacy(math.inf), Privacy(0.5), affected=2),
        Problem(5, Privacy(0.0, 0.1), Privacy(0.1, 0.2), affected=3),
    ],
)
@for_each("seed", range(4))
def test_every_answer_covers_all_neighbours_whatever_was_asked_before(problem: Problem, seed: int) -> None:
    random = np.random.default_rng(seed)
    noise = NoiseFunction.from_upper_half(random.random((problem.K + 1) // 2), problem.K)
    epsilons = random.permutation(np.linspace(0, 4, 17))
    constraint = PrivacyConstraint.of(problem)
    everything = np.concatenate(list(ConstraintGenerator(problem).blocks()))
    p, q = constraint.pair(noise.signed, everything)
    search = ProfileSearch(noise, problem)
    at_once = privacy_profile(noise, problem, epsilons)
    for epsilon, delta in zip(epsilons.tolist(), at_once.deltas.tolist(), strict=True):
        found, on_data, on_neighbour = search.at(epsilon)
        worst = float(np.max(p - math.exp(epsilon) * q, initial=0.0))
        assert worst - 1e-14 <= found <= worst + 1e-12 * math.exp(epsilon)
        assert found == pytest.approx(delta, abs=1e-12 * math.exp(epsilon))
        assert on_data - math.exp(epsilon) * on_neighbour == pytest.approx(worst, abs=1e-12 * math.exp(epsilon))
