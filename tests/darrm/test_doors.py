"""One question has one answer: command line, REST, client, estimator and Python, for voters that are not private."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.darrm_runner import run, run_json

from api.app import create_app
from api.settings import Settings
from darrm_client import DarrmClient
from darrm_opt import Privacy, Problem
from darrm_opt.accuracy import disagreement
from darrm_opt.design.objective import Objective, as_objective
from darrm_opt.learning.release_plan import voting_plan
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.noise import NoiseFunction

K, QUERIES, TOTAL = 11, 20, Privacy(1.0, 1e-5)

BODY: dict[str, Any] = {"K": K, "affected": 1, "queries": QUERIES, "total_epsilon": 1.0, "total_delta": 1e-5}

WORDS = tuple(word for name, value in BODY.items() for word in (f"--{name.replace('_', '-')}", str(value)))

UNIFORM = "shared(1,1)"
"""All chances of 1 equally often: among classes it is dirichlet(1)."""

SIGMA = 18.99185


def test_the_best_accuracy_and_the_noise_are_the_same_from_every_door(tmp_path: Path) -> None:
    found: dict[str, float] = {}
    sigmas: dict[str, float] = {}
    plan = run_json("plan", *WORDS, "--prior", UNIFORM)
    found["plan"] = plan["options"][0]["accuracy"]
    compared = run_json("compare", *WORDS, "--objective", f"{UNIFORM} agreement")
    found["compare"] = 1 - compared["rows"][0]["disagreement"]
    sigmas["compare"] = next(row["value"] for row in compared["rows"] if row["name"] == "gnmax")
    classes = run_json("compare", *WORDS, "--prior", "dirichlet(1)")
    found["compare of classes"] = classes["options"][0]["right"]
    sigmas["compare of classes"] = _sigma(classes)
    sigmas["cost"] = run_json("cost", "gnmax", *WORDS)["parameter"]
    with TestClient(create_app(Settings(cache_url="memory", wait_seconds=60, solvers=1, rate=0))) as service:
        rest = {**BODY, "epsilon": "inf"}
        found["REST"] = _asked(service, "/v1/plan", rest | {"prior": UNIFORM})["options"][0]["accuracy"]
        of_classes = {"K": K, "classes": 2, "queries": QUERIES, "target_epsilon": 1.0, "delta": 1e-5}
        options = _asked(service, "/v1/plurality/options", of_classes)
        found["REST of classes"], sigmas["REST of classes"] = options["options"][0]["right"], _sigma(options)
        sigmas["REST cost"] = _asked(service, "/v1/cost", {**BODY, "mechanism": "gnmax"})["parameter"]
    table = tmp_path / "table.jsonl"
    table.write_text(run("solve", "--K", "3", "--m", "1", "--epsilon", "0.5", "--json").stdout, encoding="utf-8")
    with DarrmClient(table.as_uri()) as client:
        voters = Problem(K, Privacy(math.inf), Privacy(1.0), 1)
        found["client"] = client.plan(voters, QUERIES, TOTAL, prior=UNIFORM)["options"][0]["accuracy"]
    mechanism = voting_plan(K, queries=QUERIES, total=TOTAL, prior=UNIFORM).mechanism
    assert isinstance(mechanism, NoiseFunctionMechanism)
    assert mechanism.epsilon(QUERIES, TOTAL.delta) <= TOTAL.epsilon
    found["estimator"] = _accuracy(mechanism.gamma)
    assert min(found.values()) >= 0.5896
    assert found == pytest.approx(dict.fromkeys(found, found["plan"]), abs=2e-6)
    assert set(sigmas.values()) == {sigmas["cost"]}
    assert sigmas["cost"] == pytest.approx(SIGMA, abs=1e-4)


def _asked(service: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer, however many times a slow machine says that the job goes on."""
    for _ in range(10):
        answer = service.post(path, json=body)
        if answer.status_code != 202:
            break
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def _sigma(options: dict[str, Any]) -> float:
    (found,) = (option for option in options["options"] if option["name"] == "gnmax")
    return float(found["parameters"]["sigma"])


def _accuracy(gamma: NoiseFunction) -> float:
    objective = as_objective(UNIFORM)
    assert isinstance(objective, Objective)
    return 1 - disagreement(gamma, objective.prior)
