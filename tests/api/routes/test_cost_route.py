"""`/v1/cost`: what releases cost, and the parameter that fits in a total, as the core and the command line say it."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient

from darrm_opt.accounting import Sampling
from darrm_opt.errors import VerificationFailed
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.problem import Privacy
from darrm_opt.questions.cost import Cost

GIVEN: dict[str, Any] = {"mechanism": "gnmax", "K": 11, "queries": 20, "parameter": 20.0, "delta": 1e-5}
TOTAL: dict[str, Any] = {
    "mechanism": "laplace",
    "K": 25,
    "classes": 10,
    "queries": 100,
    "total_epsilon": 1.0,
    "total_delta": 1e-5,
}


client = client_fixture(patient())


def test_the_cost_of_a_parameter_is_that_of_the_core(client: TestClient) -> None:
    told = client.post("/v1/cost", json=GIVEN).json()
    cost = mechanism_class("gnmax").of(11, 2, 20.0).cost(20, 1e-5)
    assert told == {
        "mechanism": "gnmax",
        "parameter": 20.0,
        "epsilon": cost.epsilon,
        "delta": 1e-5,
        "affected": 1,
        "account": cost.account,
        "sampling": None,
        "design_hash": told["design_hash"],  # tests of statements compare it
        "zcdp": 20 * 2 / (2 * 20.0**2),
        "curve": None,
    }


def test_a_curve_has_the_cost_of_the_core_at_every_point(client: TestClient) -> None:
    told = client.post("/v1/cost", json=GIVEN | {"curve": True}).json()
    mechanism = mechanism_class("gnmax").of(11, 2, 20.0)
    assert {(point["queries"], point["delta"]) for point in told["curve"]} >= {(20, 1e-12), (20, 1e-2), (60, 1e-5)}
    for point in told["curve"]:
        cost = mechanism.cost(point["queries"], point["delta"])
        assert (point["epsilon"], point["account"]) == (cost.epsilon, cost.account)
    at_delta = [point["epsilon"] for point in told["curve"] if point["queries"] == 20]
    assert at_delta == sorted(at_delta, reverse=True)
    assert Cost.of(GIVEN).verify(told).epsilon == told["epsilon"]


def test_a_total_is_calibrated_to(client: TestClient) -> None:
    told = client.post("/v1/cost", json=TOTAL).json()
    expected = mechanism_class("laplace").calibrated(25, 10, Privacy(1.0, 1e-5), 100)
    assert told["parameter"] == expected.value
    assert told["epsilon"] <= 1.0
    assert Cost.of(TOTAL).verify(told).mechanism == expected


SAMPLED: dict[str, Any] = {
    "mechanism": "gnmax",
    "K": 10,
    "classes": 4,
    "queries": 500,
    "total_epsilon": 3.0,
    "total_delta": 1e-5,
    "records": 5452,
    "sample": 40,
}


@pytest.mark.parametrize("scheme", [{}, {"sampling": "without-replacement", "neighbours": "replace-one"}])
def test_sampled_records_cost_less(client: TestClient, scheme: dict[str, str]) -> None:
    told = client.post("/v1/cost", json=SAMPLED | scheme).json()
    sampling = Sampling(5452, 40, scheme=scheme.get("sampling", "poisson"))  # type: ignore[arg-type]  # it is one
    assert told["sampling"] == sampling.record()
    expected = mechanism_class("gnmax").calibrated(10, 4, Privacy(3.0, 1e-5), 500, sampling=sampling)
    assert told["parameter"] == expected.value < 1
    proved = Cost.of(SAMPLED | scheme).verify(told)
    assert (proved.sampling, proved.epsilon) == (sampling, told["epsilon"])
    for other in ({"records": 5000}, {"records": None, "sample": None}, {"labels": 2}):
        with pytest.raises(VerificationFailed):
            Cost.of(SAMPLED | {"sampling": None, "neighbours": None} | scheme | other).verify(told)


def test_a_check_close_to_the_leader_costs_more() -> None:
    plain, checked = (Cost.of(GIVEN | check).answer() for check in ({}, {"check_sigma": 10.0, "threshold": 8.0}))
    assert checked.epsilon > plain.epsilon


LIES: dict[str, dict[str, Any]] = {
    "another parameter": {"parameter": 40.0},
    "another delta": {"delta": 1e-4},
    "another mechanism": {"mechanism": "laplace"},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_answer_is_rejected(client: TestClient, lie: str) -> None:
    told = client.post("/v1/cost", json=GIVEN).json()
    with pytest.raises(VerificationFailed):
        Cost.of(GIVEN).verify(told | LIES[lie])


def test_a_parameter_beyond_the_total_is_rejected(client: TestClient) -> None:
    told = client.post("/v1/cost", json=TOTAL).json()
    with pytest.raises(VerificationFailed, match="beyond the total"):
        Cost.of(TOTAL).verify(told | {"parameter": told["parameter"] / 2, "epsilon": None})
