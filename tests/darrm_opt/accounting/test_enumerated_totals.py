"""Totals of mechanisms against enumeration by other code: sound at every account, and within 5 % of the truth."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from campaigns.enumerated import attained, directions, examine, random_case
from support.cases import for_each

from darrm_opt.accounting.adaptive import adaptive_epsilon
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import cost
from darrm_opt.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum, NoisyMaximum
from darrm_opt.mechanisms.selection import ExponentialMechanism


@for_each("number", range(8))
def test_random_totals_are_sound_and_tight(number: int) -> None:
    case = random_case(Random(f"suite {number}"))
    assert directions(case)
    found, findings = examine(case, tight=True)
    assert found.epsilon < math.inf
    assert not findings, findings


@for_each(
    "mechanism",
    [
        LaplaceMaximum(10, 3, 4.0),
        ExponentialMechanism(10, 3, 0.3),
        NoisyMaximum(10, 3, 4.0),
        NoisyMaximum(10, 3, 4.0, threshold=6.0, check_sigma=4.0),
    ],
)
def test_samples_of_every_record_and_no_samples_cost_the_same(mechanism: VoteMechanism) -> None:
    for queries, delta in ((1, 1e-5), (3, 0.0), (8, 1e-5)):
        unsampled = cost(mechanism, queries, delta).epsilon
        assert cost(mechanism, queries, delta, Sampling(1000, rate=1.0)).epsilon == pytest.approx(unsampled, rel=1e-6)
        assert cost(mechanism, queries, delta, Sampling(1000, rate=0.5)).epsilon < unsampled < math.inf


def test_a_cap_never_costs_more_than_none() -> None:
    capped = [NoisyMaximum(10, 3, 4.0, threshold=6.0, check_sigma=4.0, cap=cap) for cap in (1, 10, 100, None)]
    assert all(a <= b for a, b in pairwise(cost(each, 100, 1e-5).epsilon for each in capped))


SCHEMES: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [  # a scheme, and numbers of it that cost more
    ({"rate": 0.05}, [{"rate": 0.1}, {"sample": 10, "rate": None}]),
    ({"rate": 0.05, "neighbours": "replace-one"}, [{"rate": 0.1}]),
    ({"rate": 0.05, "labels": 2}, [{"rate": 0.1}]),
    ({"sample": 5, "scheme": "without-replacement"}, [{"sample": 10}, {"records": 50}]),
    ({"sample": 2, "scheme": "each-voter"}, [{"sample": 4}]),
    ({"sample": 2, "scheme": "each-voter-with-replacement"}, [{"sample": 4}]),
    ({"scheme": "random-allocation", "among": 4}, [{"among": 2}, {"times": 2}]),
]


@for_each(
    ("name", "scheme"),
    [*(("checked", scheme) for scheme in [None, *range(len(SCHEMES))]), ("gnmax", 4), ("laplace", None)],
)
def test_each_number_that_shows_more_costs_more(name: str, scheme: int | None) -> None:
    """Every option of every scheme is used."""
    drawn, more = (None, []) if scheme is None else SCHEMES[scheme]

    def epsilon(
        *, releases: int = 4, delta: float = 1e-4, noise: float = 3.0, affected: int = 1, **other: Any
    ) -> float:
        mechanism: VoteMechanism
        if name == "laplace":
            mechanism = LaplaceMaximum(4, 3, noise, affected=affected)
        else:
            check = {"threshold": 3.0, "check_sigma": other.pop("check_sigma", 3.0)} if name == "checked" else {}
            mechanism = NoisyMaximum(4, 2, noise, affected=affected, **check)
        sampling = None if drawn is None else Sampling(**{"records": 100, **drawn, **other})
        skip = ("pld",) if sampling and (sampling.among or sampling.labels > 1) else ()  # which takes a second
        return cost(mechanism, releases, delta, sampling, skip=skip).epsilon

    least = epsilon()
    changes: list[dict[str, Any]] = [{"releases": 8}, {"delta": 1e-6}, {"noise": 2.0}, {"affected": 2}, *more]
    for change in [*changes, *([{"check_sigma": 1.5}] if name == "checked" else [])]:
        assert least * (1 + 1e-3) < epsilon(**change) < math.inf, change


def test_the_adaptive_recursion_is_that_of_every_transcript() -> None:
    rng = np.random.default_rng(7)
    p, q = (rng.dirichlet(np.ones(3), 5) + 0.02 for _ in range(2))
    p, q = (law / law.sum(axis=1, keepdims=True) for law in (p, q))
    p[0], q[0] = (0.5, 0.499, 0.001), (0.6, 0.4, 0.0)  # answers that only one side can give
    for queries in (2, 3):
        delta = attained(p, q, queries, math.exp(1.0))
        found = adaptive_epsilon([LawPairs(p, q)], queries, delta)
        assert 1.0 <= found <= 1.005
        halves = [LawPairs(p[:2], q[:2]), LawPairs(p[2:], q[2:])]
        assert adaptive_epsilon(halves, queries, delta) == pytest.approx(found, rel=1e-9)
    assert adaptive_epsilon([LawPairs(p, q)], 1, 0.01) == LawPairs(p, q).epsilon(0.01)  # exactly: no grid


def test_an_answer_of_one_side_alone_counts_in_every_step() -> None:
    """Two releases show it with chance 1 − 0.9²: at less δ nothing is proved, and little is left at more."""
    p, q = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[1.0, 0.0], [0.5, 0.5]])
    with pytest.raises(DeltaTooSmall):
        adaptive_epsilon([LawPairs(p, q)], 2, 0.18)
    assert adaptive_epsilon([LawPairs(p, q)], 2, 0.2) <= 0.01
    delta = attained(p, q, 2, math.exp(-1.0))
    assert delta > 0.19
    losing = LawPairs(np.array([[0.6, 0.3, 0.1]]), np.array([[0.3, 0.7, 0.0]]))
    delta = attained(losing.on_data, losing.on_neighbour, 2, math.exp(0.8))
    assert 0.8 <= adaptive_epsilon([losing], 2, delta) <= 0.805


def test_an_adaptive_recursion_that_takes_too_long_is_not_begun() -> None:
    laws = LawPairs(np.full((10_000, 4), 0.25), np.full((10_000, 4), 0.25))
    with pytest.raises(TooMuchWork):
        adaptive_epsilon([laws], 2, 1e-5)
