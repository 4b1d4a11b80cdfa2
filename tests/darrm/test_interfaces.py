"""One question has one answer: command line, REST, client, estimator and Python, for voters that are not private."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.darrm_runner import run, run_json
from support.patient import patient

from api.app import create_app
from darrm_client import DarrmClient
from darrm_opt import Privacy
from darrm_opt.accuracy import disagreement
from darrm_opt.design.objective import Objective, as_objective
from darrm_opt.errors import VerificationFailed
from darrm_opt.learning.release_plan import voting_plan
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.noise import NoiseFunction
from darrm_opt.questions.plan import ReleasePlan

UNIFORM = "shared(1,1)"  # p uniform on [0, 1]: among classes this is dirichlet(1)
K, QUERIES, TOTAL = 11, 20, Privacy(1.0, 1e-5)  # voters that are not private; a record affects one

ACCURACIES, SIGMA = {UNIFORM: 0.5896, "rectangular": 0.5830}, 18.9919
"""A lower bound of the accuracy by prior, and an upper bound of the noise; rectangular is the default prior."""

TARGET = {"total_epsilon": TOTAL.epsilon, "total_delta": TOTAL.delta}

BODY = {"K": K, "affected": 1, "queries": QUERIES, **TARGET}

WORDS = tuple(word for name, value in BODY.items() for word in (f"--{name.replace('_', '-')}", str(value)))

GROUPS: dict[str, Any] = {"groups": [{"K": 2, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}], "total_epsilon": 0.6}


@pytest.fixture(scope="module")
def service() -> Iterator[TestClient]:
    with TestClient(create_app(patient())) as client:
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DarrmClient]:
    table = tmp_path_factory.mktemp("client") / "table.jsonl"
    table.write_text(run("solve", "--K", "3", "--m", "1", "--epsilon", "0.5", "--json").stdout, encoding="utf-8")
    with DarrmClient(table.as_uri()) as client:
        yield client


def test_the_best_accuracy_and_the_noise_are_the_same_by_all_interfaces(
    service: TestClient, client: DarrmClient
) -> None:
    prior = UNIFORM
    found: dict[str, float] = {}
    sigmas: dict[str, float] = {}
    found["plan"] = run_json("plan", *WORDS, "--prior", prior)["options"][0]["accuracy"]
    compared = run_json("plan", "--compare", *WORDS, "--prior", f"{prior} agreement")
    found["compare"] = 1 - compared["rows"][0]["disagreement"]
    sigmas["compare"] = next(row["value"] for row in compared["rows"] if row["name"] == "gnmax")
    sigmas["cost"] = run_json("cost", "gnmax", *WORDS)["parameter"]
    sigmas["Python"] = mechanism_class("gnmax").calibrated(K, 2, TOTAL, QUERIES).value
    asked = _asked(service, "/v1/plan", {**BODY, "epsilon": "inf", "prior": prior})
    found["REST"] = asked["options"][0]["accuracy"]
    sigmas["REST cost"] = _asked(service, "/v1/cost", {**BODY, "mechanism": "gnmax"})["parameter"]
    found["client"] = client.ask(ReleasePlan.of({**BODY, "epsilon": "inf", "prior": prior})).options[0].accuracy
    mechanism = voting_plan(K, queries=QUERIES, total=TOTAL, prior=prior).mechanism
    assert isinstance(mechanism, NoiseFunctionMechanism)
    assert mechanism.epsilon(QUERIES, TOTAL.delta) <= TOTAL.epsilon
    found["estimator"] = _accuracy(mechanism.gamma, prior)
    classes = run_json("plan", "--compare", *WORDS, "--prior", "dirichlet(1)")  # the same prior, of classes
    found["compare of classes"], sigmas["compare of classes"] = classes["options"][0]["right"], _sigma(classes)
    asked = {"K": K, "classes": 2, "queries": QUERIES, "prior": "dirichlet(1)"} | TARGET
    options = _asked(service, "/v1/plurality/options", asked)
    found["REST of classes"], sigmas["REST of classes"] = options["options"][0]["right"], _sigma(options)
    assert min(found.values()) >= ACCURACIES[prior]
    assert found == pytest.approx(dict.fromkeys(found, found["plan"]), abs=2e-6)
    assert set(sigmas.values()) == {sigmas["cost"]}
    assert sigmas["cost"] <= SIGMA


def test_the_default_prior_is_the_same_in_all_interfaces(service: TestClient, client: DarrmClient) -> None:
    """It differs from the default among classes, so every answer states its prior."""
    named = run_json("plan", *WORDS)
    rest = _asked(service, "/v1/plan", {**BODY, "epsilon": "inf"})
    read = client.ask(ReleasePlan.of({**BODY, "epsilon": "inf"}))
    assert named["prior"] == rest["prior"] == str(read.question.objective)
    accuracy = named["options"][0]["accuracy"]
    found = voting_plan(K, queries=QUERIES, total=TOTAL).mechanism
    assert isinstance(found, NoiseFunctionMechanism)
    others = [rest["options"][0]["accuracy"], read.options[0].accuracy, _accuracy(found.gamma, "rectangular")]
    assert others == pytest.approx([accuracy] * 3, abs=2e-6)
    assert accuracy >= ACCURACIES["rectangular"]


def test_a_plan_of_groups_that_is_not_within_the_total_is_refused() -> None:
    for epsilon in (0.6, 3.0):  # a table, and the plurality without noise
        asked = ReleasePlan.of({**GROUPS, "total_epsilon": epsilon})
        told = asked.record_of(asked.answer())
        assert asked.verify(told).verdict == told["verdict"]
        with pytest.raises(VerificationFailed):
            ReleasePlan.of({**GROUPS, "total_epsilon": 0.5}).verify(told)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"classes": 3, "epsilon": 1.0}, "classes"),
        ({"classes": 3, "n": 100, "subsample_size": 10}, "n"),
        ({"price": 1.0, "sampling": "disjoint"}, "sampling"),
        ({"K": None}, "K"),
        ({"sample": 40}, "sample"),
        ({"sampling": "poisson"}, "sampling"),
        ({"records": 10, "sample": 11}, "sample"),
        ({"records": 10, "sample": 1, "sampling": "disjoint"}, "sampling"),
        ({"records": 10, "sample": 1, "n": 100, "subsample_size": 10}, "n"),
        ({"records": 10, "sample": 1, "least_accuracy": 0.4}, "least_accuracy"),
        ({"records": 10, "sample": 1, "epsilon": 1.0}, "fresh"),
        ({"records": 10, "sample": 1, "epsilon": 1.0, "fresh": True}, "sampling"),
        ({"records": 10, "sample": 1, "prior": "nothing"}, "prior"),
    ],
)
def test_invalid_samples_are_refused_with_their_field(service: TestClient, change: dict[str, Any], field: str) -> None:
    asked = {"K": 5, "epsilon": "inf", "queries": 5, "total_epsilon": 1.0, "total_delta": 1e-5} | change
    answer = service.post("/v1/plan", json=asked)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"K": 4, "epsilon": 0.1}, ["K"]),
        ({"records": 10, "sample": 1}, ["records"]),
        ({"prior": "rectangular"}, ["prior"]),
        ({"groups": [{"K": 2}]}, ["groups"]),
        ({"groups": None}, ["K"]),
        ({"total_epsilon": "much", "ties": "all"}, ["total_epsilon", "ties"]),
        ({"total_epsilon": 0.0}, ["total_epsilon"]),
        ({"classes": 1}, ["classes"]),
        ({"least_accuracy": 1.0}, ["least_accuracy"]),
    ],
)
def test_invalid_groups_are_refused_with_their_fields(
    service: TestClient, change: dict[str, Any], fields: list[str]
) -> None:
    answer = service.post("/v1/plan", json=GROUPS | change)
    assert answer.status_code == 422
    assert sorted(error["field"] for error in answer.json()["errors"]) == sorted(fields)


def test_groups_are_refused_in_a_query_string(service: TestClient) -> None:
    answer = service.get("/v1/plan", params={"K": 4, "epsilon": 0.1, "total_epsilon": 0.6, "groups": "2,2"})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["groups"]


def test_further_errors_are_counted_for_groups_too(service: TestClient) -> None:
    answer = service.post("/v1/plan", json=GROUPS | {f"x{number}": 1 for number in range(25)})
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith("And 5 more errors.")


def _asked(service: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer; repeat the request while a slow machine is working on it."""
    for _ in range(10):
        answer = service.post(path, json=body)
        if answer.status_code != 202:
            break
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def _sigma(options: dict[str, Any]) -> float:
    (found,) = (option for option in options["options"] if option["name"] == "gnmax")
    return float(found["parameters"]["sigma"])


def _accuracy(gamma: NoiseFunction, prior: str) -> float:
    objective = as_objective(prior)
    assert isinstance(objective, Objective)
    return 1 - disagreement(gamma, objective.prior)
