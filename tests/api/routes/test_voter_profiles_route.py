"""Voters with a privacy profile: requests in each form, and refusals."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient

from darrm_opt import Privacy, Problem, solve
from darrm_opt.privacy_curves import stated_profile
from darrm_opt.record import problem_from_record
from darrm_opt.voters import PrivacyProfile

POINTS = [[0, 0.013], [0.1, 1e-5]]
TARGET = {"K": 11, "target_epsilon": 0.1, "delta": 1e-5}
PURE = [[0, 0.02], [0.1, 0.004], [0.3, 0]]


client = client_fixture(patient())


def test_all_forms_of_a_profile_are_the_same_problem(client: TestClient) -> None:
    own = solve(Problem(11, PrivacyProfile(POINTS), Privacy(0.1, 1e-5)))
    text = "0:0.013,0.1:1e-5"
    for told in (
        client.post("/v1/gamma", json={**TARGET, "profile": POINTS}).json(),
        client.post("/v1/gamma", json={**TARGET, "profile": text, "epsilon": 0.1, "Delta": 1e-5}).json(),
        client.get("/v1/gamma", params={**TARGET, "profile": text}).json(),
    ):
        assert told["gamma"] == pytest.approx(own.gamma.tolist(), abs=1e-9)
        assert told["problem"]["profile"] == POINTS
        assert problem_from_record(told["problem"]) == own.problem
    told = client.post("/v1/gamma", json={**TARGET, "profile": {"gaussian": {"mu": 0.0325}}}).json()
    chosen = stated_profile({"gaussian": {"mu": 0.0325}}, Privacy(0.0, 1e-5))
    assert told["problem"]["profile"] == [list(point) for point in chosen.points]
    assert told["utility"] > own.utility
    assert client.get("/v1/gamma", params={**TARGET, "profile": "gaussian(0.0325)"}).json()["id"] == told["id"]


def test_one_point_is_the_voter_of_epsilon_and_delta(client: TestClient) -> None:
    by_point = client.post("/v1/gamma", json={**TARGET, "profile": [[0.1, 1e-5]]}).json()
    by_numbers = client.post("/v1/gamma", json={**TARGET, "epsilon": 0.1, "Delta": 1e-5}).json()
    assert by_point["id"] == by_numbers["id"]
    assert "profile" not in by_point["problem"]


def test_verification_curves_and_totals_are_of_the_profile(client: TestClient) -> None:
    asked = {"K": 5, "profile": PURE, "target_epsilon": 0.25}
    gamma = client.post("/v1/gamma", json=asked).json()["gamma"]
    assert client.post("/v1/verify", json={**asked, "gamma": gamma}).json()["private"] is True
    one_point = {"K": 5, "epsilon": 0.3, "target_epsilon": 0.25, "gamma": gamma}
    assert client.post("/v1/verify", json=one_point).status_code == 422  # private only for the profile
    curve = client.post("/v1/tradeoff", json={"K": 5, "profile": PURE, "target_epsilons": [0.1, 0.25]}).json()
    assert curve["points"][1]["gamma"] == gamma
    profile = client.post("/v1/profile", json={**asked, "epsilons": [0.25]}).json()
    assert profile["delta"][0] < 1e-9
    totals = client.post("/v1/compose", json={**asked, "queries": 3, "fresh": True, "total_delta": 1e-3}).json()
    assert totals["accounts"]["best"]["epsilon"] < 0.75
