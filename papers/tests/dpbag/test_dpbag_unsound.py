"""What the DPBag paper gets wrong: each counterexample, and that what reproduces it cannot pass for a guarantee."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from darrm_opt import Privacy
from darrm_opt.mechanisms.vote_noise import LaplaceNoise
from darrm_opt.teachers import Partition, hashed_partition
from darrm_papers.dpbag import UnsoundClaim, leaking_stop, overspending_label_count, truncating_partition
from darrm_papers.moments_accountant import moments_epsilon, saa_label_budget, star_spread
from darrm_papers.pate import conjectured_moment, data_dependent_moment


def test_the_stop_leaks() -> None:
    """Two teachers that split, and agree once a record is gone: 43 labels against 11."""
    split, agree = np.zeros((2, 1, 100), dtype=int), np.zeros((2, 1, 100), dtype=int)
    split[1] = 1
    partition = Partition([[0, 0]], 1, "replace")
    stops = [leaking_stop(votes, partition, 2, 0.04, 1.0, 1e-3) for votes in (split, agree)]
    assert [stop.n_labels for stop in stops] == [43, 11]
    for stop in stops:
        assert isinstance(stop.claim, UnsoundClaim)
        assert not isinstance(stop.claim, Privacy)
        assert "depends on the private data" in stop.claim.why
        assert stop.claim.epsilon > 1  # the last label is not paid for
    strict = leaking_stop(split, partition, 2, 0.04, 1.0, 1e-3, rule="strict")
    assert strict.n_labels == 42
    assert strict.claim.epsilon <= 1


def test_the_last_chunk_rule_understates_a_new_record() -> None:
    """k = 2, n = 3, λ = 1: last chunks split, first ones unanimous; the record enters the first ones: 1.307 > 1."""
    votes = np.array([[[0], [1], [0]], [[0], [1], [1]]])  # three votes for each class
    assert star_spread(votes, 2, "last_chunk").tolist() == [0.5]
    assert star_spread(votes, 2, "adversarial").tolist() == [1.0]
    noise = LaplaceNoise(2)
    loss = math.log(noise.wins(0, "continuous") / noise.wins(-4, "continuous"))
    assert loss == pytest.approx(1.307, abs=1e-3)
    claimed, safe = 2 * 1.0 * 0.5, 2 * 1.0 * 1.0
    assert claimed < loss <= safe


def test_the_truncating_split_moves_every_chunk() -> None:
    before, after = truncating_partition(12, 4), truncating_partition(11, 4)  # the last record leaves
    assert all(b.tolist() != a.tolist() for b, a in zip(before, after, strict=True))
    ids = [f"r{i}" for i in range(12)]
    whole, less = hashed_partition(ids, 4, 3, key=b"k"), hashed_partition(ids[:-1], 4, 3, key=b"k")
    assert (whole.chunks[:-1] == less.chunks).all()  # a hashed split moves nobody else


def test_data_dependent_moments_hold_where_they_apply_and_are_marked() -> None:
    """Two classes, continuous noise: against the exact moment for the worst neighbour, in the direction that is bounded."""
    checked = 0
    for lam, n, l in product((0.02, 0.1, 0.4), (10, 51), (1, 4, 8)):
        noise = LaplaceNoise(1 / Fraction(lam))
        for margin in range(n % 2, n + 1, 2):
            p = noise.wins(margin, "continuous")
            exact = max(
                math.log(p * (p / q) ** l + (1 - p) * ((1 - p) / (1 - q)) ** l)
                for q in (noise.wins(margin - 2, "continuous"), noise.wins(margin + 2, "continuous"))
            )
            bound = data_dependent_moment([margin], lam, l)
            assert bound.proven
            assert exact <= bound.value * (1 + 1e-9) + 1e-12
            assert bound.value <= bound.data_independent
            checked += bound.applies
    assert checked > 50
    assert not conjectured_moment([100], 0.05, 8, 0.75).proven
    worse = data_dependent_moment([250], 2 / 250, 1)  # at the default noise the data help nothing
    assert worse.formula > worse.data_independent == worse.value
    assert not data_dependent_moment([0], 0.05, 8).applies


def test_published_counts_overspend_and_the_budget_does_not() -> None:
    published = {50: (11, 85, 211), 100: (43, 338, 843), 150: (95, 759, 1897), 250: (264, 2108, 5269)}
    for n, counts in published.items():
        for epsilon, count in zip((1.0, 3.0, 5.0), counts, strict=True):
            assert overspending_label_count(epsilon, 1e-3, 2 / n) == count
            assert moments_epsilon(count, 2 / n, 1e-3) > epsilon
            assert saa_label_budget(epsilon, 1e-3, 2 / n) == count - 1
            assert moments_epsilon(count - 1, 2 / n, 1e-3) <= epsilon
            assert overspending_label_count(epsilon, 1e-5, 2 / n) != count  # the delta that the paper prints
