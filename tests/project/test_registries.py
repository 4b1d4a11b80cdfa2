"""Registries: additions by the recipes of CONTRIBUTING.md are accepted everywhere.

The additions are those of `tests/support/additions`: real processes start with them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from identifiers import texts_of
from support.darrm_runner import PROGRAM
from support.paths import ROOT, TESTS
from support.served import Service

from darrm_client import DarrmClient
from darrm_opt import Problem, solve
from darrm_opt.errors import InvalidInput
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.record import solution_record

NAMES = {
    "GNMax": r"gnmax|noisy_?maximum",
    "permute-and-flip": r"permute.?and.?flip",
    "exponential mechanism": r"^exponential$|selection:exponential|exponential.?mechanism",
}
"""The name of a mechanism in an identifier or a string: in any case, with any separator."""


@pytest.mark.parametrize("mechanism", NAMES)
def test_a_mechanism_is_named_in_few_files(mechanism: str) -> None:
    """Its file, the registry, and the search for checked noise; except comments and docstrings."""
    files = {
        path
        for package in ("api", "darrm", "darrm_client", "darrm_opt", "solver_cache")
        for path in (ROOT / package).rglob("*.*")
        if path.suffix in {".py", ".js", ".css", ".html"}
    }
    pattern = re.compile(NAMES[mechanism], re.IGNORECASE)
    naming = {str(path.relative_to(ROOT)) for path in files if any(map(pattern.search, _words(path)))}
    assert 1 <= len(naming) <= 3, sorted(naming)


@cache
def _words(path: Path) -> frozenset[str]:
    return frozenset(texts_of(path))


ADDITIONS = os.pathsep.join([str(TESTS / "support" / "additions"), str(ROOT)])
PROBLEM = ["--K", "5", "--m", "2", "--epsilon", "0.3"]
VOTERS = {"K": 5, "epsilon": 0.3}


def darrm(*words: str, expected: int = 0) -> Any:
    """Return the JSON of a verb, or its refusal."""
    environment = {**os.environ, "PYTHONPATH": ADDITIONS, "DARRM_CACHE_URL": "off"}
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == expected, done.stderr
    return json.loads(done.stdout) if expected == 0 else done.stderr


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    started = Service(
        "memory", Path(tmp_path_factory.mktemp("registries")), PYTHONPATH=ADDITIONS, DARRM_WAIT_SECONDS="60"
    )
    try:
        yield started
    finally:
        started.stop()


def post(service: Service, path: str, **body: Any) -> Any:
    answer = service.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_new_backend_and_a_new_objective_are_accepted_everywhere(service: Service) -> None:
    usual = solve(Problem.from_allowance(K=5, m=2, epsilon=0.3), "shared(3,3)")
    local = darrm("solve", *PROBLEM, "--backend", "twin", "--prior", "balanced", "--json")
    remote = post(service, "/v1/gamma", **VOTERS, m=2, backend="twin", objective="balanced(3)")
    for found in (local, remote):
        assert found["backend"] == "twin"
        assert found["objective"] == "balanced agreement"
        assert found["gamma"] == pytest.approx(usual.gamma.tolist(), abs=1e-9)


def test_a_new_baseline_is_in_every_curve(service: Service) -> None:
    local = darrm("error-curve", *PROBLEM, "--json")
    remote = post(service, "/v1/error-curve", **VOTERS, m=2, points=3)
    alone = post(service, "/v1/error-curve", **VOTERS, m=2, points=3, baselines=["one_voter"])
    tradeoff = post(service, "/v1/tradeoff", **VOTERS, ms=[1, 2], baselines=["one_voter"])
    assert all("one_voter" in answer["curves"] for answer in (local, remote, alone, tradeoff))
    undefined = post(service, "/v1/error-curve", **VOTERS, m=0.5, points=3, baselines=["one_voter"])
    assert undefined["left_out"] == {"one_voter": "It is not defined for this problem."}


def test_a_new_mechanism_is_compared_and_planned(service: Service) -> None:
    budget = {"queries": 2, "total_epsilon": 0.8, "total_delta": 1e-3, "fresh": True}
    words = ["--queries", "2", "--total-epsilon", "0.8", "--total-delta", "1e-3", "--fresh", "--json"]
    voters = ["--K", "5", "--epsilon", "0.3"]
    rows = {row["name"]: row for row in darrm("plan", "--compare", *voters, *words)["rows"]}
    remote = {row["name"]: row for row in post(service, "/v1/compare", **VOTERS, **budget)["rows"]}
    assert rows["linear"] == remote["linear"]
    assert rows["linear"]["parameter"] == "slope"
    assert 0 < rows["linear"]["utility"] <= rows["optimal_sequence"]["utility"] * (1 + 1e-9)
    options = {option["mechanism"]: option for option in post(service, "/v1/plan", **VOTERS, **budget)["options"]}
    assert options["linear"]["fits"]
    noise = ["cost", "linear", "--K", "5", "--slope", "0.5", "--queries", "2", "--delta", "0"]
    asked = {"mechanism": "linear", "K": 5, "parameter": 0.5, "queries": 2, "delta": 0}
    assert darrm(*noise, "--json")["epsilon"] == post(service, "/v1/cost", **asked)["epsilon"]
    assert "--slope" in darrm("cost", "linear", "--K", "5", "--rate", "0.5", "--delta", "0", expected=2)
    assert options["linear"]["why"].startswith("γ grows by ")


def test_a_new_question_is_answered_by_all_interfaces(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(ADDITIONS.partition(os.pathsep)[0])
    from additional_question import Pairs  # type: ignore[import-not-found]  # by the path above

    schema = service.client.get("/openapi.json").json()
    fields = schema["components"]["schemas"]["PairsRequest"]["properties"]
    assert (fields["K"]["minimum"], fields["affected"]["minimum"]) == (2, 1)
    told = {"pairs": 10, "share": 0.4}
    assert post(service, "/v1/pairs", K=5) == told
    assert service.client.get("/v1/pairs", params={"K": 5}).json() == told
    for wrong, field in (({"K": 1}, "K"), ({"K": 13}, "K"), ({"K": 5, "affected": 6}, "affected"), ({"m": 1}, "m")):
        refused = service.client.post("/v1/pairs", json={"K": 5, **wrong})
        assert (refused.status_code, refused.json()["field"]) == (422, field)
    page = service.client.get("/").text
    assert '<option value="pairs">Pairs of voters</option>' in page
    form = page.partition('data-path="v1/pairs"')[2].partition("</form>")[0]
    assert re.findall(r'id="ask_pairs_(\w+)"', form) == ["K", "affected"]
    assert 'placeholder="1"' in form
    assert "Expected: a whole number of voters, at least 2." in page
    job = schema["paths"]["/v1/jobs/{id}/result"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert {"$ref": "#/components/schemas/PairsAnswer"} in job["anyOf"]
    monkeypatch.setitem(QUESTIONS, "pairs", Pairs)
    table = tmp_path / "table.jsonl"
    table.write_text(json.dumps(solution_record(solve(Problem.from_allowance(K=3, m=1, epsilon=0.5)))))
    for url in (str(service.client.base_url), table.as_uri()):
        with DarrmClient(url) as client:
            assert client.ask(Pairs(K=5)).pairs == 10
            with pytest.raises(InvalidInput):
                client.ask(Pairs(K=13))


def test_an_added_question_is_a_verb_and_a_tool() -> None:
    assert darrm("pairs", "--K", "5", "--json") == {"pairs": 10, "share": 0.4}
    for wrong, said in (
        (("--K", "13"), "--K: 13 is not valid"),
        (("--k", "5"), "Did you mean --K?"),
        ((), "--K is missing"),
    ):
        assert said in darrm("pairs", *wrong, expected=2)
    tools = "from darrm.cli.verbs.mcp import tools; import json; print(json.dumps(tools()['pairs']))"
    environment = {**os.environ, "PYTHONPATH": ADDITIONS}
    told = subprocess.run([PROGRAM[0], "-c", tools], capture_output=True, text=True, env=environment, check=True).stdout
    schema = json.loads(told)
    assert (schema["properties"]["K"]["minimum"], schema["required"]) == (2, ["K"])
    asked = subprocess.run([*PROGRAM, "help", "pairs"], capture_output=True, text=True, env=environment, check=True)
    assert "[default: 1]" in asked.stdout


def test_messages_help_and_schema_name_the_additions(service: Service) -> None:
    refused = service.client.post("/v1/gamma", json={**VOTERS, "m": 2, "backend": "abacus"})
    assert refused.status_code == 422
    assert "gurobi, cvxpy, twin" in refused.text
    assert "gurobi, cvxpy, twin" in darrm("solve", *PROBLEM, "--backend", "abacus", expected=2)
    schema = service.client.get("/openapi.json").text
    assert all(f'"{name}"' in schema for name in ("twin", "one_voter"))
    help_text = subprocess.run(
        [*PROGRAM, "help", "solve"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ADDITIONS},
        check=True,
    ).stdout
    assert "highs|gurobi|cvxpy|twin" in help_text
    assert "balanced(a=3)" in " ".join(help_text.split())


def test_tests_name_an_installed_package_that_adds_names() -> None:
    words = ["-m", "pytest", "--collect-only", "-n0", "-p", "no:cacheprovider", "tests/darrm_opt/test_noise.py"]
    done = subprocess.run(
        [PROGRAM[0], *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ADDITIONS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "uninstall darrm-additions to run the tests" in done.stderr
