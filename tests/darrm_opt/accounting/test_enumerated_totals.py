"""Totals of mechanisms against enumeration by other code: sound at every account, and within 5 % of the truth."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random
from typing import Any

from campaigns.enumerated import directions, examine, random_case
from support.cases import for_each

from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import cost
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum, NoisyMaximum


@for_each("number", range(8))
def test_random_totals_are_sound_and_tight(number: int) -> None:
    case = random_case(Random(f"suite {number}"))
    assert directions(case)
    found, findings = examine(case, tight=True)
    assert found.epsilon < math.inf
    assert not findings, findings


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
