"""Plans with a fresh sample of the records for each query: proofs, and known lower bounds of the accuracy."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from campaigns.sampled_ensembles import worst_delta
from support.cases import for_each
from support.enumeration import exp_fraction
from support.refusals import refused

from darrm_opt import Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.bagging import Bags
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.planning import design_within_total, plan
from darrm_opt.planning.question import Question
from darrm_opt.planning.sampled_candidates import RenyiTables, sampled_table
from darrm_opt.plurality import PluralityObjective, parse_prior
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.tables.problem import partition_cells

FLOORS = [
    # records, queries, total ε, accuracy of the composed table, and by the generic bound that of permute-and-flip
    # and of GNMax (the optimum of one release: 0.995, 0.992, 0.984, 0.889, 0.910)
    (67_349, 10_000, 3.0, (0.9995, 0.992, 0.949)),
    (120_000, 10_000, 1.0, (0.9990, 0.989, 0.938)),
    (5_452, 500, 3.0, (0.9970, 0.979, 0.914)),
    (5_452, 10_000, 3.0, (0.9746, 0.859, 0.758)),
    (1_561, 1_000, 4.0, (0.9790, 0.885, 0.784)),
]


@pytest.mark.parametrize(("records", "queries", "epsilon", "floors"), FLOORS)
def test_plans_are_within_the_total_and_at_least_as_accurate_as_by_the_generic_bound(
    records: int, queries: int, epsilon: float, floors: tuple[float, ...]
) -> None:
    sampling, total = Sampling(records, 40, scheme="without-replacement"), Privacy(epsilon, 1e-5)
    names = ("optimal", "permute_and_flip", "gnmax")
    found = plan(10, None, queries, total, 1, "beta(8,2)", classes=4, sampling=sampling, mechanisms=names)
    by_name = {option.name: option for option in found.options}
    assert found.best is found.options[0]
    assert "EnsembleSampler" in found.warnings[-1]
    for name, floor in zip(names, floors, strict=True):
        option = by_name[name]
        assert option.mechanism is not None
        assert option.right is not None
        assert option.right >= floor
        assert option.mechanism.epsilon(queries, total.delta, sampling) <= epsilon
        unsampled = option.mechanism.epsilon(queries, total.delta)
        assert unsampled > 10 * epsilon  # so the sampling is accounted for
    assert found.best.name == "optimal"  # the table is designed for the composed total of its laws


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("K", "classes", "affected", "abstention"), [(6, 3, 1, False), (5, 2, 1, True), (4, 3, 2, False)]
)
def test_no_mechanism_of_the_same_divergence_is_more_useful_than_the_composed_table(
    K: int, classes: int, affected: int, abstention: bool, neighbours: Any
) -> None:
    sampling, order = Sampling(100, 5, neighbours=neighbours), 8.0
    problem = Problem(K, NOT_PRIVATE, Privacy(1.0), affected, classes=classes, abstention=abstention)
    weights, _ = PluralityObjective(parse_prior("beta(5,2)"), "excluded", 0.2 * abstention).cell_weights(
        partition_cells(problem)
    )
    tables = RenyiTables(problem, weights, sampling)
    for name in ("permute_and_flip", "exponential", "gnmax"):
        mechanism = mechanism_class(name).of(K, classes, 1.5, affected)
        found = tables.mechanism(tables.best(order, largest_divergence(mechanism, sampling, order), lambda: False))
        assert largest_divergence(found, sampling, order) <= largest_divergence(mechanism, sampling, order) * 1.001
        partitions = np.array(partition_cells(problem).partitions)
        chances = mechanism.class_chances(partitions)
        assert chances is not None
        right = float(weights[partition_cells(problem).starts] @ chances[:, 0])
        assert float(weights @ found.table.nearest) >= right - 1e-5


def largest_divergence(mechanism: VoteMechanism, sampling: Sampling, order: float) -> float:
    """Return the largest Rényi divergence of all sampled pairs of vote counts."""
    counts = [each for each in product(range(mechanism.K + 1), repeat=mechanism.classes) if sum(each) == mechanism.K]
    laws = {}
    for each in counts:
        order_of = sorted(range(len(each)), key=lambda c: -each[c])
        chances = mechanism.class_chances(np.array([sorted(each, reverse=True)]))
        assert chances is not None
        law = chances[0].copy()
        law[order_of] = chances[0][: len(each)]
        laws[each] = law
    q, largest = sampling.chance, 0.0
    for one, two, three in (
        ((one, two, two) for one, two in product(counts, repeat=2))
        if sampling.neighbours == "add-remove"
        else product(counts, repeat=3)
    ):
        moved = [sum(max(a - b, 0) for a, b in zip(one, each, strict=True)) for each in (two, three)]
        common = sum(map(min, one, two, three))
        if max(moved) > mechanism.affected or common < mechanism.K - mechanism.affected:
            continue
        if sampling.neighbours == "add-remove":
            pairs = [(laws[one], (1 - q) * laws[one] + q * laws[two])]
            pairs.append((pairs[0][1], pairs[0][0]))
        else:
            pairs = [((1 - q) * laws[one] + q * laws[two], (1 - q) * laws[one] + q * laws[three])]
        largest = max([largest, *(float(np.sum(p**order * r ** (1 - order))) for p, r in pairs)])
    return float(np.log(largest) / (order - 1))


def test_a_plan_for_two_classes_has_a_valid_best_option() -> None:
    sampling, total = Sampling(5_452, 40), Privacy(1.0, 1e-5)
    found = plan(10, None, 500, total, 1, "rectangular", sampling=sampling)
    assert found.best is not None
    assert found.best.mechanism is not None
    assert found.best.mechanism.epsilon(500, 1e-5, sampling) <= 1.0
    best = design_within_total(10, 2, total, 500, prior="rectangular", sampling=sampling)
    assert best.mechanism == found.best.mechanism
    assert found.best.mechanism.epsilon(500, 1e-5) > 10.0  # so the samples are accounted for


def test_smaller_samples_are_more_accurate_within_the_total() -> None:
    right = [
        plan(10, None, 500, Privacy(1.0, 1e-6), 1, classes=3, sampling=Sampling(1000, size), mechanisms="optimal")
        .options[0]
        .right
        for size in (1000, 100, 10)
    ]
    assert right == sorted(right)  # type: ignore[type-var]  # all of them fit


@pytest.mark.parametrize(("stopped", "outcome"), [(True, "not computed"), (False, "does not fit")])
def test_a_table_not_found_in_time_is_not_reported_as_unfit(
    monkeypatch: pytest.MonkeyPatch, *, stopped: bool, outcome: str
) -> None:
    sampling, total = Sampling(1000, 10), Privacy(1.0, 1e-5)
    asked = Question.of(10, None, 5, total, 1, classes=3, sampling=sampling, stop=lambda: stopped)
    monkeypatch.setattr("darrm_opt.planning.sampled_candidates.calibrate", lambda *_, **__: None)
    assert sampled_table(asked, sampling).outcome == outcome


def test_private_voters_that_draw_their_own_records() -> None:
    """All draws of all voters, in fractions: three voters answer the randomised bit of one of three records."""
    epsilon, data = 1.0, ((0, 1, 0), (1, 1, 0))
    sampling, total = Sampling(3, 1, scheme="each-voter"), Privacy(0.9, 1e-3)
    found = plan(3, Privacy(epsilon), 2, total, fresh=True, mechanisms="optimal", sampling=sampling)
    assert found.question.sampling is None
    assert found.question.voter.epsilon == pytest.approx(math.log1p(math.expm1(epsilon) / 3))
    without = plan(3, Privacy(epsilon), 2, total, fresh=True, mechanisms="optimal")
    assert (found.options[0].accuracy or 0) > (without.options[0].accuracy or 1) + 0.05
    noise = found.options[0].noise
    assert noise is not None
    gamma = [Fraction(float(value)) for value in noise.values]
    keep = exp_fraction(epsilon) / (1 + exp_fraction(epsilon))
    for both in (data, data[::-1]):
        pairs = []
        for answers in product((0, 1), repeat=3):  # the flipped bits
            laws = []
            for records in both:
                law = Fraction(0)
                for drawn in product(records, repeat=3):
                    chances = [keep if bit != turn else 1 - keep for bit, turn in zip(drawn, answers, strict=True)]
                    for votes in product((0, 1), repeat=3):
                        weight = math.prod(
                            (p if vote else 1 - p for p, vote in zip(chances, votes, strict=True)),
                            start=Fraction(1, 27),
                        )
                        ones = sum(votes)
                        law += weight * (1 + (1 if ones > 1 else -1) * gamma[ones]) / 2
                laws.append([law, 1 - law])
            pairs.append((laws[0], laws[1]))
        assert worst_delta(pairs, 2, exp_fraction(total.epsilon)) <= Fraction(total.delta)


@for_each(
    ("argument", "fields"),
    [
        ("fresh", {"voter": Privacy(1.0)}),
        ("affected", {"voter": Privacy(1.0), "fresh": True, "sampling": Sampling(1000, 10, scheme="each-voter")}),
        ("sampling", {"voter": Privacy(1.0), "fresh": True, "affected": None}),
        ("bags", {"voter": Privacy(1.0), "fresh": True, "affected": None, "bags": Bags(100, 10)}),
        ("sampling", {"sampling": "poisson"}),
        ("bags", {"bags": Bags(100, 10), "affected": None}),
        ("bags", {"sampling": None, "bags": 100}),
    ],
)
def test_invalid_arguments_are_refused(argument: str, fields: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"voter": None, "affected": 1, "sampling": Sampling(1000, 10)} | fields
    voter, affected = arguments.pop("voter"), arguments.pop("affected")
    with refused(argument):
        plan(10, voter, 5, Privacy(1.0, 1e-5), affected, **arguments)
