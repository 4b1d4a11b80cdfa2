"""Plans for queries that have a fresh sample of the records each: proved, at least as right as the known floors."""

from __future__ import annotations

from typing import Any

import pytest

from darrm_opt import Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.errors import InvalidInput
from darrm_opt.planning import design_within_total, plan

FLOORS = [
    # records, queries, total ε, right answers of the optimum, permute-and-flip and GNMax by the generic bound
    (67_349, 10_000, 3.0, (0.995, 0.992, 0.949)),
    (120_000, 10_000, 1.0, (0.992, 0.989, 0.938)),
    (5_452, 500, 3.0, (0.984, 0.979, 0.914)),
    (5_452, 10_000, 3.0, (0.889, 0.859, 0.758)),
    (1_561, 1_000, 4.0, (0.910, 0.885, 0.784)),
]


@pytest.mark.parametrize(("records", "queries", "epsilon", "floors"), FLOORS)
def test_as_right_as_by_the_generic_bound_and_within_the_total(
    records: int, queries: int, epsilon: float, floors: tuple[float, ...]
) -> None:
    sampling, total = Sampling(records, 40, scheme="without-replacement"), Privacy(epsilon, 1e-5)
    found = plan(10, None, queries, total, 1, "beta(8,2)", classes=4, ensemble=sampling)
    by_name = {option.name: option for option in found.options}
    assert found.best is found.options[0]
    assert "EnsembleSampler" in found.warnings[-1]
    for name, floor in zip(("optimal", "permute_and_flip", "gnmax"), floors, strict=True):
        option = by_name[name]
        assert option.mechanism is not None
        assert option.right is not None
        assert option.right >= floor
        assert option.mechanism.epsilon(queries, total.delta, sampling) <= epsilon
        unsampled = option.mechanism.epsilon(queries, total.delta)
        assert unsampled > 10 * epsilon  # so it is the sampling that is counted


def test_a_plan_for_two_classes_and_the_best_of_it() -> None:
    sampling, total = Sampling(5_452, 40), Privacy(1.0, 1e-5)
    found = plan(10, None, 500, total, 1, "rectangular", ensemble=sampling)
    assert found.best is not None
    assert found.best.mechanism is not None
    assert found.best.mechanism.epsilon(500, 1e-5, sampling) <= 1.0
    best = design_within_total(10, 2, total, 500, prior="rectangular", ensemble=sampling)
    assert best.mechanism == found.best.mechanism
    without = design_within_total(10, 2, total, 500, prior="rectangular")
    assert (best.right or 0) > (without.right or 1) + 0.1


def test_a_smaller_sample_allows_more() -> None:
    right = [
        plan(10, None, 500, Privacy(1.0, 1e-6), 1, classes=3, ensemble=Sampling(1000, size), mechanisms="optimal")
        .options[0]
        .right
        for size in (1000, 100, 10)
    ]
    assert right == sorted(right)  # type: ignore[type-var]  # all of them fit


@pytest.mark.parametrize(
    ("argument", "fields"),
    [
        ("voter", {"voter": Privacy(1.0)}),
        ("ensemble", {"ensemble": "poisson"}),
        ("n", {"n": 100, "subsample_size": 10, "affected": None}),
    ],
)
def test_what_is_refused(argument: str, fields: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"voter": None, "affected": 1, "ensemble": Sampling(1000, 10)} | fields
    voter, affected = arguments.pop("voter"), arguments.pop("affected")
    with pytest.raises(InvalidInput) as refused:
        plan(10, voter, 5, Privacy(1.0, 1e-5), affected, **arguments)
    assert refused.value.argument == argument
