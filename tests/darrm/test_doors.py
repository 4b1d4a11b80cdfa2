"""One question has one answer: command line, REST, client, estimator and Python, for voters that are not private."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

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
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.noise import NoiseFunction

UNIFORM = "shared(1,1)"
"""All chances of 1 equally often: among classes it is dirichlet(1)."""


class Question(NamedTuple):
    """Question for voters that are not private, one of whom a record moves: the least accuracy and most noise known."""

    K: int
    queries: int
    total: Privacy
    prior: str
    accuracy: float
    sigma: float

    @property
    def body(self) -> dict[str, Any]:
        total = {"total_epsilon": self.total.epsilon, "total_delta": self.total.delta}
        return {"K": self.K, "affected": 1, "queries": self.queries, **total}

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for name, value in self.body.items() for word in (f"--{name.replace('_', '-')}", str(value)))


QUESTIONS = (
    Question(11, 20, Privacy(1.0, 1e-5), UNIFORM, 0.5896, 18.9919),
    Question(25, 100, Privacy(2.0, 1e-5), UNIFORM, 0.6532, 22.6813),
)


NO_PRIOR = Question(11, 20, Privacy(1.0, 1e-5), "rectangular", 0.5830, 18.9919)
"""Asked without its prior, which is the one that is taken then."""


@pytest.fixture(scope="module")
def service() -> Iterator[TestClient]:
    with TestClient(create_app(Settings(cache_url="memory", wait_seconds=60, solvers=1, rate=0))) as client:
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DarrmClient]:
    table = tmp_path_factory.mktemp("client") / "table.jsonl"
    table.write_text(run("solve", "--K", "3", "--m", "1", "--epsilon", "0.5", "--json").stdout, encoding="utf-8")
    with DarrmClient(table.as_uri()) as client:
        yield client


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: f"{each.K} voters, {each.prior}")
def test_the_best_accuracy_and_the_noise_are_the_same_from_every_door(
    question: Question, service: TestClient, client: DarrmClient
) -> None:
    K, queries, total, prior = question.K, question.queries, question.total, question.prior
    body, words = question.body, question.words
    found: dict[str, float] = {}
    sigmas: dict[str, float] = {}
    found["plan"] = run_json("plan", *words, "--prior", prior)["options"][0]["accuracy"]
    compared = run_json("compare", *words, "--objective", f"{prior} agreement")
    found["compare"] = 1 - compared["rows"][0]["disagreement"]
    sigmas["compare"] = next(row["value"] for row in compared["rows"] if row["name"] == "gnmax")
    sigmas["cost"] = run_json("cost", "gnmax", *words)["parameter"]
    sigmas["Python"] = mechanism_class("gnmax").calibrated(K, 2, total, queries).value
    asked = _asked(service, "/v1/plan", {**body, "epsilon": "inf", "prior": prior})
    found["REST"] = asked["options"][0]["accuracy"]
    sigmas["REST cost"] = _asked(service, "/v1/cost", {**body, "mechanism": "gnmax"})["parameter"]
    voters = Problem(K, Privacy(math.inf), Privacy(1.0), 1)
    found["client"] = client.plan(voters, queries, total, prior=prior).options[0].accuracy or 0.0
    mechanism = voting_plan(K, queries=queries, total=total, prior=prior).mechanism
    assert isinstance(mechanism, NoiseFunctionMechanism)
    assert mechanism.epsilon(queries, total.delta) <= total.epsilon
    found["estimator"] = _accuracy(mechanism.gamma, prior)
    classes = run_json("compare", *words, "--prior", "dirichlet(1)")  # the same prior, of classes
    found["compare of classes"], sigmas["compare of classes"] = classes["options"][0]["right"], _sigma(classes)
    target = {"total_epsilon": total.epsilon, "total_delta": total.delta}
    asked = {"K": K, "classes": 2, "queries": queries, "prior": "dirichlet(1)"} | target
    options = _asked(service, "/v1/plurality/options", asked)
    found["REST of classes"], sigmas["REST of classes"] = options["options"][0]["right"], _sigma(options)
    assert min(found.values()) >= question.accuracy
    assert found == pytest.approx(dict.fromkeys(found, found["plan"]), abs=2e-6)
    assert set(sigmas.values()) == {sigmas["cost"]}
    assert sigmas["cost"] <= question.sigma


def test_what_nobody_names_is_the_same_prior_at_every_door(service: TestClient, client: DarrmClient) -> None:
    """Not the same as what classes have by default: every answer names its prior."""
    question = NO_PRIOR
    named = run_json("plan", *question.words)
    rest = _asked(service, "/v1/plan", {**question.body, "epsilon": "inf"})
    voters = Problem(question.K, Privacy(math.inf), Privacy(1.0), 1)
    read = client.plan(voters, question.queries, question.total)
    assert named["prior"] == rest["prior"] == str(read.question.objective)
    accuracy = named["options"][0]["accuracy"]
    found = voting_plan(question.K, queries=question.queries, total=question.total).mechanism
    assert isinstance(found, NoiseFunctionMechanism)
    others = [rest["options"][0]["accuracy"], read.options[0].accuracy, _accuracy(found.gamma, question.prior)]
    assert others == pytest.approx([accuracy] * 3, abs=2e-6)
    assert accuracy >= question.accuracy


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


def _accuracy(gamma: NoiseFunction, prior: str) -> float:
    objective = as_objective(prior)
    assert isinstance(objective, Objective)
    return 1 - disagreement(gamma, objective.prior)
