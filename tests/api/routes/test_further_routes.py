"""Routes other than that of a γ: batches, trade-offs, profiles, proofs, accounts, comparisons, estimates."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from support.patient import client_fixture, patient
from test_api import problem_of

from api.app import create_app
from api.errors.problem_details import MEDIA_TYPE
from api.schemas.fields import SAMPLES_ARE_TAKEN
from darrm_opt import Problem, verify
from darrm_opt.design.constraint import ConstraintGenerator
from darrm_opt.questions.curve import Curve
from darrm_opt.record import problem_from_record

MNIST = {"K": 11, "m": 3, "epsilon": 0.0892, "Delta": 1e-4}
SMALL = {"K": 5, "m": 2, "epsilon": 0.1, "Delta": 1e-5}
SETTINGS = patient(max_voters=15, max_batch=6, max_work_seconds=20)


client = client_fixture(SETTINGS)


def table(answer: Any) -> list[dict[str, str]]:
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


CSV = {"Accept": "text/csv"}


def test_accounts_and_rankings_take_more_voters_than_a_gamma(client: TestClient) -> None:
    total = {"total_epsilon": 2, "total_delta": 1e-5}
    for verb, body in (
        ("cost", {"mechanism": "laplace", "queries": 2, "parameter": 20.0, "delta": 1e-5}),
        ("plan", {"epsilon": "inf", "affected": 1, "queries": 1, "time_limit": 1, **total}),
        ("plurality", {"classes": 3, "target_epsilon": 1}),
        ("plurality/options", {"classes": 3, "queries": 1, "total_epsilon": 2}),
    ):
        assert "at most 150 voters" in problem_of(client.post(f"/v1/{verb}", json={**body, "K": 151}), 422)["detail"]
    cheap = {"mechanism": "laplace", "queries": 2, "parameter": 20.0, "delta": 1e-5, "K": 150}
    assert client.post("/v1/cost", json=cheap).status_code == 200
    assert "at most 15 voters" in problem_of(client.post("/v1/gamma", json={**MNIST, "K": 16}), 422)["detail"]


# ---------------------------------------------------------------------------------------------------------- batch


def test_a_batch_is_answered_in_order_each_with_its_status(client: TestClient) -> None:
    asked = [MNIST, {**MNIST, "K": 0}, SMALL, 7, {**MNIST, "K": 99}, {**SMALL, "objective": "minimax(points=1)"}]
    answer = client.post("/v1/gamma/batch", json={"problems": asked})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [item["status"] for item in results] == [200, 422, 200, 422, 422, 422]
    for i in (0, 2):
        single = client.post("/v1/gamma", json=asked[i]).json()
        assert {**results[i]["answer"], "cached": True} == single
        assert (results[i]["pending"], results[i]["problem"]) == (None, None)
    for i in (1, 4, 5):
        alone = problem_of(client.post("/v1/gamma", json=asked[i]), 422)
        told = {name: value for name, value in results[i]["problem"].items() if value is not None}
        assert {**told, "request_id": ""} == {**alone, "request_id": ""}
    assert results[3]["problem"]["detail"].startswith("The problem must be a JSON object")


def test_a_batch_is_exported_as_a_table(client: TestClient) -> None:
    rows = table(client.post("/v1/gamma/batch", json={"problems": [SMALL, {}]}, headers=CSV))
    gamma = client.post("/v1/gamma", json=SMALL).json()["gamma"]
    assert [float(row["gamma"]) for row in rows[:6]] == gamma
    assert (rows[6]["problem"], rows[6]["status"], rows[6]["l"]) == ("1", "422", "")
    assert "K is missing" in rows[6]["detail"]
    assert table(client.post("/v1/gamma/batch", json={"problems": []}, headers=CSV)) == []


def test_a_batch_is_limited(client: TestClient) -> None:
    details = problem_of(client.post("/v1/gamma/batch", json={"problems": [SMALL] * 7}), 422)
    assert (details["type"], details["field"]) == ("urn:darrm-opt:problem:too-much-work", "problems")
    assert "expected at most 6 problems" in details["detail"]
    assert client.post("/v1/gamma/batch", json={"problems": [SMALL] * 6}).status_code == 200
    bodies: list[dict[str, Any]] = [{}, {"problems": None}, {"problems": {}}, {"problems": [], "more": 1}]
    for body in bodies:
        assert problem_of(client.post("/v1/gamma/batch", json=body), 422)["errors"]
    problem_of(client.get("/v1/gamma/batch"), 404)  # not the form of an id


def test_too_much_work_is_refused_with_its_estimate() -> None:
    chosen = SETTINGS.model_copy(update={"max_work_seconds": 1e-4})
    with TestClient(create_app(chosen)) as client:
        asked = {"K": 5, "epsilon": 0.1, "total_epsilon": 1, "total_delta": 1e-5}
        for path, body in (
            ("/v1/gamma", SMALL),
            ("/v1/jobs", SMALL),
            ("/v1/gamma/batch", {"problems": [SMALL]}),
            ("/v1/tradeoff", {"K": 5, "epsilon": 0.1}),
            ("/v1/compare", asked),
        ):
            details = problem_of(client.post(path, json=body), 422)
            assert details["type"] == "urn:darrm-opt:problem:too-much-work", path
            assert details["estimated_seconds"] > 1e-4
            assert "DARRM_MAX_WORK_SECONDS" in details["detail"]
        assert not client.post("/v1/estimate", json=SMALL).json()["allowed"]


def test_the_releases_of_a_comparison_count_as_work() -> None:
    asked: dict[str, Any] = {"K": 5, "epsilon": "inf", "total_epsilon": 1, "total_delta": 1e-5}
    draw = {"n": 200, "subsample_size": 10}
    with TestClient(create_app(SETTINGS.model_copy(update={"max_work_seconds": 1e-4}))) as client:

        def seconds(**more: int) -> float:
            details = problem_of(client.post("/v1/compare", json={**asked, **more}), 422)
            assert details["type"] == "urn:darrm-opt:problem:too-much-work"
            return float(details["estimated_seconds"])

        assert seconds(queries=4000, fresh=True) > 80 + seconds(queries=10)  # the best target takes a third of it
        assert seconds(queries=4000, fresh=True) > 2 * seconds(queries=4000)
        assert seconds(queries=1000, **draw) > 10 + seconds(queries=10, **draw)
    with TestClient(create_app(SETTINGS)) as client:
        details = problem_of(client.post("/v1/compare", json={**asked, "queries": 5000, **draw}), 422)
        assert details["type"] == "urn:darrm-opt:problem:too-much-work"
        assert "leave out n" in details["detail"]


# --------------------------------------------------------------------------------------------------------- curves


def test_a_curve_has_the_requested_baselines(client: TestClient) -> None:
    asked: dict[str, Any] = {**MNIST, "points": 3, "baselines": ["gnmax", "majority", "gnmax", "subsampling"]}
    told = client.post("/v1/error-curve", json=asked).json()
    assert list(told["curves"]) == ["optimal", "gnmax", "subsampling"]
    assert told["left_out"] == {"majority": "It is not private for this problem."}
    rows = table(
        client.get("/v1/error-curve", params={**asked, "baselines": "gnmax,majority,subsampling"}, headers=CSV)
    )
    assert [row["curve"] for row in rows[::3]] == ["optimal", "gnmax", "subsampling"]
    assert [float(row["tv_error"]) for row in rows[:3]] == told["curves"]["optimal"]["tv_error"]
    unknown = client.get("/v1/error-curve", params={**MNIST, "baselines": "gnmax,oracle"})
    assert problem_of(unknown, 422)["field"] == "baselines"


def test_a_tradeoff_is_utility_over_the_allowance(client: TestClient) -> None:
    voters = {"K": 5, "epsilon": 0.1, "Delta": 1e-5}
    told = client.post("/v1/tradeoff", json={**voters, "ms": [3, 1, 2.5]}).json()
    assert told["m"] == [3, 1, 2.5]
    assert told["utility"] == [point["utility"] for point in told["points"]]
    assert [point["problem"]["m"] for point in told["points"]] == told["m"]
    assert set(told["curves"]) == {"optimal", "double_subsampling", "subsampling", "randomized_response"}


def test_allowances_have_a_default_a_range_or_targets(client: TestClient) -> None:
    voters = {"K": 5, "epsilon": 0.1}
    assert client.get("/v1/tradeoff", params=voters).json()["m"] == [1, 2, 3]
    ranged = client.get("/v1/tradeoff", params={**voters, "m_from": 1, "m_to": 2, "m_points": 3}).json()
    assert ranged["m"] == [1, 1.5, 2]
    assert client.get("/v1/tradeoff", params={**voters, "m_from": 1, "m_to": 1, "m_points": 1}).json()["m"] == [1]
    public = {"K": 5, "epsilon": "inf", "affected": 1, "delta": 1e-3, "target_epsilons": [0.1, 0.2]}
    told = client.post("/v1/tradeoff", json={**public, "objective": "minimax(points=5)"}).json()
    assert (told["over"], told["m"], told["target_epsilon"]) == ("target_epsilon", [None, None], [0.1, 0.2])
    assert told["curves"] is None  # minimax has no prior to average over
    rows = table(client.post("/v1/tradeoff", json=public, headers=CSV))
    assert [row["m"] for row in rows] == ["", ""]
    assert [float(row["utility"]) for row in rows] == pytest.approx(
        client.post("/v1/tradeoff", json=public).json()["utility"]
    )


def test_a_gamma_that_is_not_private_has_a_profile(client: TestClient) -> None:
    assert len(client.get("/v1/profile", params=SMALL).json()["epsilon"]) == 16
    told = client.post("/v1/profile", json={**SMALL, "gamma": [1] * 6, "points": 2}).json()
    assert (told["id"], told["delta"][0] > 0.05) == (None, True)


# --------------------------------------------------------------------------------------------------------- proofs


@pytest.mark.parametrize("arithmetic", ["float", "ball"])
def test_a_posted_gamma_gets_its_certificate_or_the_counterexample(client: TestClient, arithmetic: str) -> None:
    gamma = client.get("/v1/gamma", params=MNIST).json()["gamma"]
    told = client.post("/v1/verify", json={**MNIST, "gamma": gamma, "arithmetic": arithmetic})
    assert (told.status_code, told.json()["private"]) == (200, True)
    proof = verify(Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4), gamma, arithmetic=arithmetic)  # type: ignore[arg-type]
    assert told.json()["certificate"]["bound"] == proof.bound
    details = problem_of(client.post("/v1/verify", json={**MNIST, "gamma": [1] * 12, "arithmetic": arithmetic}), 422)
    assert (details["type"], details["field"]) == ("urn:darrm-opt:problem:not-private", "gamma")
    assert sum(details["worst_corners"].values()) == 11
    assert details["excess"] > 0.01


def test_a_gamma_neither_proved_nor_refuted_is_refused(client: TestClient) -> None:
    asked = {"K": 3, "m": 1, "epsilon": 0.1, "gamma": [1, 1 / 3, 1 / 3, 1]}  # γ_Sub(1): private without slack
    details = problem_of(client.post("/v1/verify", json=asked), 422)
    assert details["type"] == "urn:darrm-opt:problem:not-proven"
    assert abs(details["excess"]) < 1e-12


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "1e400", "1e308", "-1"])
def test_invalid_probabilities_in_gamma_are_refused(client: TestClient, literal: str) -> None:
    body = json.dumps({**SMALL, "gamma": [1] * 5})[:-2] + f", {literal}]}}"
    answer = client.post("/v1/verify", content=body, headers={"content-type": "application/json"})
    assert problem_of(answer, 422)["field"] == "gamma"


# ------------------------------------------------------------------------------------------------------- accounts


def test_models_trained_once_do_not_compose_as_fresh_ones(client: TestClient) -> None:
    fresh, once = (
        client.get("/v1/compose", params={**MNIST, "queries": 20, **each}).json() for each in ({"fresh": True}, {})
    )
    assert (fresh["fresh"], once["fresh"]) == (True, False)
    assert [each["accounts"]["best"]["method"] for each in (fresh, once)] == ["bits", "models"]
    assert fresh["accounts"]["best"]["epsilon"] == pytest.approx(2.26, abs=0.01)
    assert once["accounts"]["simple"]["epsilon"] > 200
    refused = client.post("/v1/compose", json={**MNIST, "gamma": [1] * 12})
    assert problem_of(refused, 422)["type"] == "urn:darrm-opt:problem:not-private"


def test_only_new_problems_are_charged() -> None:
    chosen = SETTINGS.model_copy(update={"job_rate": 0.01, "job_burst": 1})
    with TestClient(create_app(chosen)) as client:
        assert client.post("/v1/gamma", json=SMALL).status_code == 200
        answer = client.post("/v1/gamma", json={**SMALL, "m": 1.5})
        assert (answer.status_code, answer.headers["content-type"]) == (429, MEDIA_TYPE)
        assert answer.json()["type"] == "urn:darrm-opt:problem:too-many-jobs"
        assert 0 < int(answer.headers["retry-after"]) <= 100
        several = client.post("/v1/gamma/batch", json={"problems": [{**SMALL, "m": 1.5}, SMALL]}).json()["results"]
        assert [item["status"] for item in several] == [429, 200]


@pytest.mark.slow
def test_all_mechanisms_are_compared_on_one_draw(client: TestClient) -> None:
    budget = {"queries": 4, "total_epsilon": 2.0, "total_delta": 0.01}
    asked: dict[str, Any] = {"K": 5, "epsilon": "inf", **budget, "n": 200, "subsample_size": 10}
    told = client.post("/v1/compare", json=asked).json()
    assert told == client.get("/v1/compare", params=asked).json()
    assert told["draw"] == {
        "n": 200,
        "subsample_size": 10,
        "replacement": True,
        "sampling": "independent",
        "chance": pytest.approx(1 - (199 / 200) ** 10),
        "reached": pytest.approx(5 * (1 - (199 / 200) ** 10)),
    }
    utility = {row["name"]: row["utility"] for row in told["rows"]}
    assert utility["optimal_sequence"] >= utility["laplace"] > 0


# ------------------------------------------------------------------------------------------------------ estimates


def test_an_estimate_solves_nothing(client: TestClient) -> None:
    asked = {**MNIST, "m": 2.125}
    told = client.get("/v1/estimate", params=asked).json()
    assert (told["stored"], told["allowed"], told["method"]) == (False, True, "cuts")
    assert told["constraints"] == ConstraintGenerator(problem_from_record(told["problem"])).size
    assert told["seconds"] > 0
    answer = client.get("/v1/gamma", params=asked).json()
    assert (answer["cached"], answer["id"]) == (False, told["id"])
    after = client.post("/v1/estimate", json=asked).json()
    assert (after["stored"], after["seconds"]) == (True, 0)
    large = client.get("/v1/estimate", params={**MNIST, "K": 100_000}).json()
    assert (large["allowed"], large["constraints"]) == (False, math.comb(100_007, 7))
    changes: list[dict[str, Any]] = [{"K": 100_001}, {"time_limit": 0}, {"gap": 1}, {"method": "enumerate", "K": 101}]
    for change in changes:
        refused = client.get("/v1/estimate", params=MNIST | change)
        assert problem_of(refused, 422)["field"] == next(iter(change))
    many = problem_of(client.get("/v1/estimate", params={**MNIST, "objective": "minimax(points=10000)"}), 422)
    assert (many["type"], many["field"]) == ("urn:darrm-opt:problem:too-much-work", "objective")
    assert "at most 9090 scenarios or points for 11 voters" in many["detail"]


@pytest.mark.parametrize("path", ["/v1/gamma", "/v1/jobs", "/v1/error-curve", "/v1/profile", "/v1/estimate"])
def test_the_number_of_scenarios_is_limited_before_they_are_drawn(client: TestClient, path: str) -> None:
    asked = {**MNIST, "objective": "expected_error(scenarios=9091)"}
    assert problem_of(client.post(path, json=asked), 422)["type"] == "urn:darrm-opt:problem:too-much-work"


# ----------------------------------------------------------------------------------------- arbitrary requests

ODD = st.sampled_from([0.5, 1e-300, 5e-324, 1e308, 0.9999999999999999, 1 - 1e-9, "inf", "γ", "\x00", "\ud800"])
ENTRIES = st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=5) | st.integers() | ODD
VALUES = ENTRIES | st.lists(ENTRIES, max_size=7) | st.dictionaries(st.text(max_size=3), ENTRIES, max_size=2)
QUICK: dict[str, dict[str, Any]] = {
    "/v1/gamma/batch": {"problems": []},
    "/v1/tradeoff": {"K": 3, "epsilon": 0.5, "ms": [1]},
    "/v1/profile": {"K": 3, "m": 1, "epsilon": 0.5, "points": 2},
    "/v1/verify": {"K": 3, "m": 1, "epsilon": 0.5, "gamma": [0.5, 0.1, 0.1, 0.5]},
    "/v1/compose": {"epsilon": 0.5, "queries": 2},
    "/v1/estimate": {"K": 3, "m": 1, "epsilon": 0.5},
    "/v1/gamma": {"K": 3, "m": 1, "epsilon": 0.5},
    "/v1/error-curve": {"K": 3, "m": 1, "epsilon": 0.5, "points": 3},
}


@settings(max_examples=200)
@given(st.sampled_from(sorted(QUICK)), st.data())
def test_any_request_is_answered_or_refused(client: TestClient, path: str, data: st.DataObject) -> None:
    names = st.sampled_from([*Curve.declared(), *QUICK[path], "votes", "γ"])
    change = data.draw(st.dictionaries(names, VALUES, max_size=6))
    queries = change.get("queries")
    if isinstance(queries, int) and queries > 50:
        change["queries"] = 50  # exact accounts of very many releases take seconds
    body = json.dumps({**QUICK[path], **change})
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    if answer.status_code != 200:
        problem_of(answer, 422)
    elif path in {"/v1/gamma", "/v1/error-curve"}:
        told = answer.json()
        gamma = told["gamma"] if "gamma" in told else told["curves"]["optimal"]["gamma"]
        assert verify(problem_from_record(told["problem"]), gamma).margin >= 0


@pytest.mark.parametrize("path", sorted(QUICK))
def test_an_invalid_body_is_refused(client: TestClient, path: str) -> None:
    invalid = [
        b"",
        b"[]",
        b'"K"',
        b"null",
        b'{"K": 11',
        b"\xff\xfe\x00",
        b'{"K":' * 100_000,
        b'{"K": %b}' % (b"1" * 5000),
    ]
    for body in (*invalid, b"{}"):
        kind = "text/plain" if body == b"{}" else "application/json"
        details = problem_of(client.post(path, content=body, headers={"content-type": kind}), 422)
        assert details["field"] == "body", body[:20]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/gamma", "GET, POST"),
        ("/v1/gamma/batch", "POST"),
        (f"/v1/gamma/{'0' * 64}", "GET"),
        ("/v1/verify", "POST"),
        ("/v1/compose", "GET, POST"),
    ],
)
def test_an_unknown_method_lists_the_known_ones(client: TestClient, path: str, allowed: str) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        answer = client.request(method, path)
        problem_of(answer, 405)
        assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("how", ["get", "post"])
def test_a_design_names_the_routes_that_take_samples(client: TestClient, how: str) -> None:
    asked = {"K": 5, "epsilon": 0.3, "m": 1, "records": 90, "sample": 3}
    given: dict[str, Any] = {"params": asked} if how == "get" else {"json": asked}
    details = problem_of(client.request(how, "/v1/gamma", **given), 422)
    assert details["field"] == "records"
    assert SAMPLES_ARE_TAKEN in details["detail"]
