"""Invalid requests: the refusal names the field, for all fields of all questions."""

from __future__ import annotations

import math
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient
from test_api import problem_of

VOTERS: dict[str, Any] = {"K": 5, "epsilon": 0.1}
SMALL: dict[str, Any] = {**VOTERS, "m": 2, "Delta": 1e-5}
MNIST: dict[str, Any] = {"K": 11, "m": 3, "epsilon": 0.0892, "Delta": 1e-4}
TOTAL: dict[str, Any] = {"total_epsilon": 1.0, "total_delta": 1e-5}
CLASSES: dict[str, Any] = {"K": 5, "classes": 3, "prior": "favoured(0.5,0.9)"}
GNMAX: dict[str, Any] = {"mechanism": "gnmax", "K": 11, "queries": 20}
DRAWN: dict[str, Any] = {"records": 5452, "sample": 40}
PROFILE = [[0, 0.013], [0.1, 1e-5]]
GROUPS = [{"K": 2, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}]

GAMMA: dict[str, list[Any]] = {
    "K": [0, -3, 2.5, "a", "", 16, 10**30],
    "m": [0, -1.5, "three", None, {"epsilon": 0}, {"epsilon": "inf"}, {"target_epsilon": 0.3}],
    "target_epsilon": [
        *({"m": 1e308, "Delta": 0}, {"epsilon": "inf", "m": None}),
        *({"m": None, "target_epsilon": -1}, {"m": None, "target_epsilon": 501}),
    ],
    "epsilon": [-0.1, "nan", "-inf", {"epsilon": 0, "m": None, "target_epsilon": 0.1, "Delta": 0}],
    "Delta": [-1e-9, 1, "false"],
    "delta": [1.5, -0.5],
    "affected": [12, 0, 1.5],
    "objective": ["guess", "shared(0,1)", "histogram(1,2,3)", "rectangular(lower=0.2)", "x" * 30_000],
    "shape": ["round"],
    "method": ["guess"],
    "backend": ["abacus"],
    "votes": ["1,0,1"],
}

Refused = tuple[dict[str, Any], dict[str, list[Any]]]

REFUSED: dict[str, Refused] = {
    "gamma": (MNIST, GAMMA),
    "error-curve": (MNIST, {**GAMMA, "points": [1, 1002, -1, 10**30]}),
    "verify": (
        {**SMALL, "gamma": [1] * 6},
        {"gamma": [None, [], [1], [1, 0], [math.pi] * 6, "1,1,1,1,1,1", [[1]] * 6, {"gamma": {"0": 1}}, [True] * 6]},
    ),
    "gamma of a profile": (
        {"K": 11, "target_epsilon": 0.1, "delta": 1e-5, "profile": PROFILE},
        {
            "m": [3],
            "epsilon": [0.2, {"profile": None}],
            "profile": [
                *("points.csv", "/etc/hostname", "dp_sgd(0.01,0.1,10)", "0:0.1,0.1:2", "-1:0.1", [], [[0, 0.013, 3]]),
                *({"profile": {"gaussian": {"nu": 1}}}, {"profile": {"nothing": {"mu": 1}}}),
                {"profile": {"dp_sgd": {"noise_multiplier": 0.01, "sampling_probability": 0.1, "steps": 10}}},
                {"profile": {"dp_sgd": {"noise_multiplier": 1, "sampling_probability": 0.1, "steps": 10**9}}},
            ],
            "target_epsilon": [None],
        },
    ),
    "tradeoff": (
        VOTERS,
        {
            "ms": [[], [0], [1] * 102, [1, "x"], {"ms": [1], "target_epsilons": [1]}],
            "m_from": [{"ms": [1], "m_from": 1}, {"m_from": 0, "m_to": 1}],
            "m_to": [{"m_from": 2, "m_to": 1}, {"m_from": 1}],
            "m_points": [{"m_from": 1, "m_to": 2, "m_points": 0}, {"m_from": 1, "m_to": 2, "m_points": 10**9}],
            "target_epsilons": [[-1]],
            "m": [{"epsilon": "inf"}],
            "K": [16],
            "objective": ["guess"],
        },
    ),
    "profile": (
        SMALL,
        {
            "epsilons": [[], [501], [0] * 1002],
            "points": [1, 10**30],
            "gamma": [[1, 1], [0, 0.1, 0.2, 0.3, 0.4, 0.5], [2] * 6, ["1"] * 6, []],
            "K": [10**9],
        },
    ),
    "compose": (
        {"epsilon": 0.1},
        {
            "epsilon": ["inf", -1, 1e308],
            "m": [2, 0.0, {**SMALL, "target_epsilon": 1}],
            "affected": [0],
            "target_epsilon": [0.0],
            "Delta": [0.1],
            "gamma": [[1, 1]],
            "fresh": [True],
            "queries": [0, 10**10],
            "slack": [1],
            "total_delta": [-1e-9],
            "delta": [1],
            "K": [{**SMALL, "K": 16}],
        },
    ),
    "compare": (
        {**VOTERS, **TOTAL},
        {
            "total_epsilon": [0, 501, None],
            "total_delta": [1, None],
            "queries": [0],
            "K": [151],
            "prior": ["minimax", "histogram(1,2)", "nonsense", {"objective": "minimax"}],
            "objective": ["nonsense"],
            "m": [1],
            "n": [{"subsample_size": 10}, {"n": 1, "subsample_size": 1}],
            "subsample_size": [
                *({"n": 100}, {"n": 10, "subsample_size": 11, "replacement": False}),
                {"n": 10, "subsample_size": 3, "replacement": False, "sampling": "disjoint"},
            ],
            "sampling": [{"n": 10, "subsample_size": 3, "sampling": "odd"}],
            "affected": [{"n": 100, "subsample_size": 10, "affected": 2}],
        },
    ),
    "least": (
        {"K": 7, "epsilon": 0.2, "Delta": 1e-4, "utility": 0.9},
        {
            "utility": [1.5, None, {"agreement": 0.9}, {"Delta": 0.1, "delta": 0.0, "utility": 1}],
            "agreement": [{"utility": None, "agreement": 0.4}],
            "parameter": ["delta", {"epsilon": "inf"}],
            "m": [2],
            "digits": [11],
            "K": [16],
            "objective": ["nothing"],
        },
    ),
    "plurality": (
        {**CLASSES, "target_epsilon": 1.0, "delta": 1e-3},
        {
            "K": [0, {"K": 100, "classes": 5}],
            "classes": [1],
            "target_epsilon": [-1.0],
            "delta": [1.0],
            "affected": [6],
            "prior": ["nothing", "favoured(0.1)", "histogram(1,1,0:3)"],
            "price": [-1.0],
            "queries": [0],
        },
    ),
    "plurality/options": (
        {**CLASSES, **TOTAL, "queries": 2, "price": 1.0},
        {
            "total_epsilon": [0.0],
            "prior": [
                *("favoured(0.1)", "histogram(1,1,0:3)", "dirichlet(nan)"),
                {"K": 100, "classes": 5, "prior": "favoured(0.1)"},
            ],
            "classes": [10**6, 0],
            "abstention": [True],
            "queries": [0],
            "sample": [40, {"records": 10, "sample": 11}],
            "sampling": [{"records": 10, "sample": 1, "sampling": "similarity"}],
            "neighbours": [{"records": 10, "sample": 1, "neighbours": "all"}],
            "labels": [{"records": 10, "sample": 1, "labels": 0}],
        },
    ),
    "table": (
        {"classes": 3, "groups": GROUPS, "target_epsilon": 0.6},
        {
            "classes": [7],
            "groups": [[], [{"K": 2, "epsilon": -1}], [{"K": 0, "epsilon": 1}]],
            "K": [
                {"groups": [{"K": 150, "epsilon": 1, "Delta": 0.1}]},
                {"groups": [{"K": 100, "epsilon": 1}, {"K": 101, "epsilon": 2}]},
            ],
            "objective": ["truth(0.5)", "nothing"],
            "price": [-1],
            "affected": [5],
        },
    ),
    "cost": (
        {**GNMAX, "parameter": 20.0, "delta": 1e-5},
        {
            "mechanism": ["none"],
            "K": [0],
            "classes": [1],
            "affected": [12],
            "queries": [0],
            "parameter": [None, {"total_epsilon": 1.0}],
            "sigma": [{"parameter": -1.0}],
            "delta": [None, 1.0, {"parameter": None, "total_epsilon": 1.0}],
            "total_delta": [0.1],
            "cap": [{"mechanism": "laplace", "cap": 3}],
            "total_epsilon": [{"parameter": None, "delta": None, "total_epsilon": -1.0}],
        },
    ),
    "cost of samples": (
        {**GNMAX, "K": 10, "classes": 4, **TOTAL, **DRAWN},
        {
            "sample": [6000, None, {"records": None}],
            "sampling": ["similarity"],
            "neighbours": [{"neighbours": "add-remove", "sampling": "without-replacement"}],
            "labels": [0],
        },
    ),
    "calibrate": (
        {"mechanism": "laplace", "K": 25, "queries": 100, **TOTAL},
        {"parameter": [2.0], "delta": [1e-5], "total_epsilon": [None, 501.0]},
    ),
    "plan of voters": ({"K": 5, "epsilon": "inf", "affected": 1, **TOTAL}, {"total_epsilon": [0.0, 501.0]}),
    "plan of groups": ({"groups": GROUPS, "total_epsilon": 1.0}, {"least_accuracy": [0.4]}),
}
"""Question, a valid request of it, and by field its invalid values or changes that make it invalid."""


client = client_fixture(patient(max_voters=15, max_work_seconds=20))


@pytest.mark.parametrize("question", REFUSED)
def test_the_refusal_of_an_invalid_field_names_it(client: TestClient, question: str) -> None:
    valid, invalid = REFUSED[question]
    path = f"/v1/{question.partition(' of ')[0]}"
    for field, changes in invalid.items():
        for change in changes:
            asked = valid | (change if isinstance(change, dict) else {field: change})
            details = problem_of(client.post(path, json=asked), 422)
            assert details["field"] == field, (change, details["detail"])
            assert details["type"] == "urn:darrm-opt:problem:invalid-input"
            if question in ("gamma", "error-curve"):
                query = {name: value for name, value in asked.items() if value is not None}
                assert problem_of(client.get(path, params=query), 422)["field"] == field, change


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("DELTA", "Did you mean Delta, delta"),
        ("eps", "Did you mean epsilon?"),
        ("epsilonn", "Did you mean epsilon"),
        ("zzz", ""),
        ("classes", ""),
    ],
)
def test_a_misspelt_field_gets_a_suggestion(client: TestClient, name: str, advice: str) -> None:
    problem = client.post("/v1/gamma", json={"K": 5, "m": 2, "epsilon": 0.5, name: 0.1}).json()
    assert problem["detail"].startswith(f"{name} is not a field of this request.")
    assert ("Did you mean" in problem["detail"]) is bool(advice)
    assert advice in problem["detail"]
    query = {"K": "5", "m": "2", "epsilon": "0.5", name: "0.1"}
    assert client.get("/v1/gamma", params=query).json()["detail"] == problem["detail"]


def test_a_suggestion_is_a_field_of_the_same_request(client: TestClient) -> None:
    asked = {"mechanism": "gnmax", "K": 250, "delta": 1e-5, "sigma": 40}
    assert client.post("/v1/cost", json=asked).json()["errors"][-1]["detail"].endswith("Did you mean parameter?")
    groups = [{"K": 5, "eps": 0.1}]
    problem = client.post("/v1/plan", json={"groups": groups, "total_epsilon": 1.0}).json()
    assert "groups[0].eps is not a field of this request. Did you mean epsilon?" in problem["detail"]
    batch = {"problems": [{"K": 5, "m": 2, "epsilon": 0.5, "eps": 0.1}]}
    [result] = client.post("/v1/gamma/batch", json=batch).json()["results"]
    assert "Did you mean epsilon?" in str(result)
