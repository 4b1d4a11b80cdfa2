"""Laws of votes with Laplace noise, against sums over the whole lattice in 60 digits."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx
from support.cases import for_each

from darrm_opt.accounting.law_pairs import PROBABILITY_ERROR
from darrm_opt.accounting.total import cost
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum


def exact_chances(counts: tuple[int, ...], scale: float) -> list[arb]:
    """Return Pr[each of three classes is released]: Σ_v Pr[own = v]·∫_0^1 Π (Pr[other < v] + s·Pr[other = v]) ds."""
    q = (-1 / arb(scale)).exp()
    end = int(60 * scale) + max(counts)
    powers = [arb(1)]
    for _ in range(end + max(counts) + 1):
        powers.append(powers[-1] * q)

    def at(k: int) -> arb:
        return (1 - q) / (1 + q) * powers[abs(k)]

    def below(k: int) -> arb:
        return powers[1 - k] / (1 + q) if k <= 0 else 1 - powers[k] / (1 + q)

    found = []
    for own in range(3):
        first, second = (counts[place] for place in range(3) if place != own)
        total = arb(0)
        for v in range(-end, end + 1):
            b, a, d, c = below(v - first), at(v - first), below(v - second), at(v - second)
            total += at(v - counts[own]) * (b * d + (a * d + b * c) / 2 + a * c / 3)
        found.append(total)
    return found


@for_each(("counts", "scale"), [((5, 0, 0), 0.4), ((3, 1, 1), 2.5), ((7, 3, 0), 40.0), ((4, 1, 0), 150.0)])
def test_chances_are_within_their_stated_error(counts: tuple[int, ...], scale: float) -> None:
    chances = LaplaceMaximum(sum(counts), 3, scale).class_chances(np.array([counts]))
    assert chances is not None
    bits, ctx.prec = ctx.prec, 200
    try:
        for found, exact in zip(chances[0].tolist(), exact_chances(counts, scale), strict=True):
            assert abs(arb(found) / exact - 1) < PROBABILITY_ERROR / 4
    finally:
        ctx.prec = bits


@for_each(("K", "affected", "queries"), [(5, 5, 2), (5, 1, 3), (20, 1, 100)])
def test_more_noise_costs_less_beyond_a_scale_of_ten_votes(K: int, affected: int, queries: int) -> None:
    costs = [cost(LaplaceMaximum(K, 3, b, affected=affected), queries, 1e-5).epsilon for b in (9.5, 10.5, 12.4, 40.0)]
    assert costs == sorted(costs, reverse=True)
    assert costs[1] == pytest.approx(costs[0] * 9.5 / 10.5, rel=0.1)
