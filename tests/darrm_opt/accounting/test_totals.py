"""Totals of random sequences and mechanisms against enumeration, and recorded totals: short forms of campaigns."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from campaigns import golden_totals, totals
from campaigns.enumerated import directions, examine, random_case
from campaigns.transcripts import Fresh, Once, best_strategy, chances, corner_pairs, least_epsilon, shown_pairs
from support.cases import for_each
from support.enumeration import adaptive_bits_delta, exp_fraction

from darrm_opt import NoiseFunction, Privacy, Problem
from darrm_opt.accounting import Release
from darrm_opt.accounting.composition.optimal import optimal_delta
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import cost
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum, NoisyMaximum

SEEDS = range(1000, 1012)


@for_each("number", SEEDS)
def test_no_total_of_a_random_sequence_is_below_the_exact_one(number: int) -> None:
    asked = totals.draw_case(np.random.default_rng((0, number)))
    finding = totals.examine(asked)
    assert finding.broken == {}
    assert totals.row(finding).faults == []
    assert len(finding.totals) >= 1
    assert finding.claimed >= finding.truth - 1e-6
    if asked.fresh and finding.complete:
        assert finding.claimed <= finding.truth * 1.01 + 1e-3  # the least total is nearly exact


def test_designs_within_a_total_fit_it() -> None:
    """All rows of a comparison, and the best target, for voters that are not private."""
    problem = Problem(3, Privacy(math.inf), Privacy(0.5, 0.01), 1)
    release = totals.prove_release(NoiseFunction(np.array([0.3, 0.1, 0.1, 0.3])), problem, 0.3)
    finding = totals.examine(totals.ReleaseCase((release,) * 3, ("other",) * 3, False, 1e-3), designs=True)
    assert finding.broken == {}
    assert {"most_releases", "best_target", "compare: optimal_sequence", "compare: gnmax"} <= finding.totals.keys()


def test_the_oracle_agrees_with_full_enumeration_in_fractions() -> None:
    voters = Problem(3, Privacy(0.7, 0.01), Privacy(0.5, 0.05), 2)
    noises = [NoiseFunction(np.array([0.5, 0.2, 0.2, 0.5])), NoiseFunction(np.full(4, 0.4))]
    oracle = Fresh.of([(noise, voters) for noise in noises])
    assert oracle.complete
    regions = [
        [*pairs, *((1 - p, 1 - q) for p, q in pairs)] for pairs in (shown_pairs(each, voters) for each in noises)
    ]
    for epsilon in (0.0, 0.2, 0.6):
        assert oracle.delta(epsilon) == adaptive_bits_delta(regions, epsilon)
        best = best_strategy(oracle, epsilon)
        rough = best.p - math.exp(epsilon) * best.q
        assert float(oracle.delta(epsilon)) == pytest.approx(rough, rel=1e-9, abs=1e-12)


def test_the_oracle_of_one_voter_is_optimal_composition() -> None:
    """One voter whose answer is released unchanged is randomised response, whose composition is known."""
    voters = Problem(1, Privacy(0.4), Privacy(0.4))
    oracle = Fresh.of([(NoiseFunction(np.ones(2)), voters)] * 4)
    for epsilon in (0.0, 0.5, 1.3):
        assert float(oracle.delta(epsilon)) == pytest.approx(optimal_delta(0.4, 0.0, 4, epsilon), rel=1e-9)
    assert least_epsilon(oracle, 1e-12) == pytest.approx(1.6, rel=1e-6)
    # Trained once, the voter gives the same answer four times, which costs 0.4.
    assert least_epsilon(Once.of([(NoiseFunction(np.ones(2)), voters)] * 4), 1e-12) == pytest.approx(0.4, rel=1e-6)


def test_pairs_of_the_oracle_are_possible() -> None:
    for voter in (Privacy(0.3), Privacy(1.1, 1e-3), Privacy(0.0, 0.02), Privacy(math.inf)):
        odds = exp_fraction(voter.epsilon) if voter.epsilon < math.inf else Fraction(10**30)
        pairs = corner_pairs(Problem(3, voter, Privacy(1.0, 0.5)))
        assert len(pairs) == (8 if voter.delta else 4)
        for p, q in pairs:
            for a, b in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
                assert a <= odds * b + Fraction(voter.delta) or voter.epsilon == math.inf
    assert chances(NoiseFunction(np.array([0.5, 0.25, 0.5]))) == [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]


def test_a_total_that_is_too_small_is_detected() -> None:
    voters = Problem(3, Privacy(0.5), Privacy(0.5), 3)
    release = totals.prove_release(NoiseFunction(np.full(4, 0.9)), voters, 0.3)
    finding = totals.examine(totals.ReleaseCase((release,) * 4, ("randomized_response",) * 4, False, 1e-3))
    assert finding.broken == {}
    oracle = totals.oracle_of([release.noise] * 4, voters, fresh=False)
    assert isinstance(oracle, Once)
    low = replace(finding, totals={"low": (0.9 * finding.truth, 1e-3, oracle.delta(0.9 * finding.truth))})
    assert totals.row(low).faults[0].startswith("below the truth, low: ")
    assert oracle.delta(0.9 * finding.truth) > Fraction(1, 1000) > oracle.delta(1.1 * finding.truth)


def test_a_release_of_the_campaign_is_verified() -> None:
    release = totals.prove_release(NoiseFunction(np.ones(2)), Problem(1, Privacy(math.inf), Privacy(1.0, 0.5)), 1.0)
    assert isinstance(release, Release)
    assert release.noise.values.tolist() == [0.9, 0.9]


# ------------------------------------------------------------------------------------------- totals of mechanisms, by independent code


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


SCHEMES: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [  # a scheme, and changes that cost more
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
def test_each_less_private_parameter_costs_more(name: str, scheme: int | None) -> None:
    """All options of all schemes occur."""
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
        skip = ("pld",) if sampling and (sampling.among or sampling.labels > 1) else ()  # this one takes a second
        return cost(mechanism, releases, delta, sampling, skip=skip).epsilon

    least = epsilon()
    changes: list[dict[str, Any]] = [{"releases": 8}, {"delta": 1e-6}, {"noise": 2.0}, {"affected": 2}, *more]
    for change in [*changes, *([{"check_sigma": 1.5}] if name == "checked" else [])]:
        assert least * (1 + 1e-3) < epsilon(**change) < math.inf, change


# ------------------------------------------------------------------------------------------- recorded totals


@for_each("kind", ["cost", "most_releases"])
def test_no_quick_total_has_risen(kind: str) -> None:
    frozen = [each for each in golden_totals.read() if each["quick"] and each["case"]["kind"] == kind]
    said: list[str] = []
    assert golden_totals.compare(frozen, said.append) == 0, said
    assert len(frozen) > (200 if kind == "cost" else 0)


def test_the_file_covers_every_kind_of_account() -> None:
    frozen = golden_totals.read()
    accounts = {each["account"] for each in frozen}
    assert {"simple", "optimal", "laws", "bits", "renyi", "gaussian", "pld", "models", "renyi, unsampled"} <= accounts
    kinds = {each["case"]["kind"] for each in frozen}
    assert kinds == {each["kind"] for each in golden_totals.cases()}
    assert {each["case"].get("mechanism") for each in frozen} >= {*golden_totals.PARAMETERS, "table", "gamma"}


def test_a_worse_total_is_detected() -> None:
    (one, *_) = (each for each in golden_totals.read() if each["case"]["kind"] == "cost" and each["least"] < math.inf)
    said: list[str] = []
    assert golden_totals.compare([{**one, "least": one["least"] * 0.999}], said.append) == 1
    assert golden_totals.compare([{**one, "least": one["least"] * 1.001}], said.append) == 0
    assert [line.partition(":")[0] for line in said] == ["risen", "fallen"]
    assert golden_totals.risen({"kind": "cost"}, 1.0, math.nan)
    assert golden_totals.risen({"kind": "most_releases"}, 5, 4)
    assert not golden_totals.risen({"kind": "most_releases"}, 5, 6)
