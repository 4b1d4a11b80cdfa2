"""The HTTP API on the real app: answers, all kinds of invalid input, and failures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient

from api.app import create_app
from api.errors.problem_details import (
    MEDIA_TYPE,
    JobCancelled,
    NotCached,
    Overloaded,
    ProblemDetails,
    ShuttingDown,
    WorkLimitExceeded,
)
from api.schemas.fields import DECLARED
from api.schemas.questions import GammaAnswer
from api.service.design_service import DesignService
from api.settings import Settings, read_settings
from darrm_opt import InvalidInput, Problem, SolveFailed, __version__, solve, verify
from darrm_opt.errors import BackendUnavailable
from darrm_opt.record import problem_from_record, solution_from_record, solution_record
from solver_cache import CacheError, DesignSpec

MNIST = {"K": 11, "m": 3, "epsilon": 0.0892, "Delta": 1e-4}
SETTINGS = patient(max_voters=51)


client = client_fixture(SETTINGS)


def problem_of(answer: Any, status: int) -> dict[str, Any]:
    """Return the problem details of an answer, which must have some."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    details: dict[str, Any] = answer.json()
    assert ProblemDetails.model_validate(details, strict=True, extra="forbid").status == status
    return details


# -------------------------------------------------------------------------------------------------- good answers


def test_gamma_is_the_certified_optimum(client: TestClient) -> None:
    answer = client.post("/v1/gamma", json=MNIST)
    assert answer.status_code == 200
    problem = Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4)
    own = solve(problem)
    told = answer.json()
    assert told["gamma"] == pytest.approx(own.gamma.tolist(), abs=1e-9)
    assert told["id"] == DesignSpec(problem).key
    assert verify(problem_from_record(told["problem"]), told["gamma"]).margin >= 0
    assert told["certificate"]["margin"] >= 0
    assert told["utility"] == pytest.approx(own.utility, abs=1e-9)
    assert client.get("/v1/gamma", params=MNIST).json() == {**told, "cached": True}


def test_an_answer_is_read_as_a_solution(client: TestClient) -> None:
    told = client.get("/v1/gamma", params={**MNIST, "objective": "shared(2,5)", "shape": "monotone"}).json()
    solution = solution_from_record(told)
    assert {**solution_record(solution), "id": told["id"], "cached": told["cached"], "nearest": None} == told
    assert set(GammaAnswer.model_fields) == set(told)


def test_an_answer_carries_its_warning(client: TestClient) -> None:
    told = client.get("/v1/gamma", params={**MNIST, "K": 5, "m": 1, "Delta": 0.5, "delta": 1e-6}).json()
    assert len(told["warnings"]) == 1
    assert "Were the two swapped?" in told["warnings"][0]
    assert client.get("/v1/gamma", params={**MNIST, "delta": 1e-6}).json()["warnings"] == []


def test_a_curve_has_101_points_by_default(client: TestClient) -> None:
    assert len(client.get("/v1/error-curve", params=MNIST).json()["p"]) == 101
    assert len(client.get("/v1/error-curve", params={**MNIST, "points": 2}).json()["p"]) == 2


def test_a_health_check_is_answered(client: TestClient) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": __version__})


# ------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("field", ["K", "m", "epsilon", "Delta", "delta", "affected", "target_epsilon"])
def test_a_body_is_read_strictly(client: TestClient, field: str) -> None:
    for literal in ("NaN", "Infinity", "-Infinity", "1e400", "false", "true", '"0.1"', "[]", "{}"):
        asked = ", ".join(f'"{name}": {value}' for name, value in {**MNIST, field: literal}.items())
        answer = client.post("/v1/gamma", content="{" + asked + "}", headers={"content-type": "application/json"})
        details = problem_of(answer, 422)
        assert details["field"] == field, literal
        assert DECLARED[field].accepted in details["detail"], literal


@pytest.mark.parametrize("field", ["K", "epsilon", "Delta", "objective", "shape", "method", "backend"])
def test_null_is_refused_for_required_fields(client: TestClient, field: str) -> None:
    details = problem_of(client.post("/v1/gamma", json={**MNIST, field: None}), 422)
    names = {"shape": "'free' or 'monotone'", "method": "'auto', 'enumerate' or 'cuts'"}
    assert details["detail"] == f"{field} is missing: expected {names.get(field) or DECLARED[field].accepted}."


def test_every_invalid_field_is_listed(client: TestClient) -> None:
    details = problem_of(client.get("/v1/gamma", params={"epsilon": "x", "m": "y", "votes": 1}), 422)
    assert [error["field"] for error in details["errors"]] == ["K", "epsilon", "m", "votes"]
    assert details["field"] == "K"
    assert details["detail"].startswith("K is missing: expected a whole number of voters, at least 1.")


def test_a_field_given_twice_is_refused(client: TestClient) -> None:
    details = problem_of(client.get("/v1/gamma?K=11&m=3&epsilon=0.1&epsilon=0.2"), 422)
    assert (details["field"], details["detail"]) == ("epsilon", "epsilon is given more than once.")


# ---------------------------------------------------------------------------------------------- failures


def test_an_unknown_path_is_a_404(client: TestClient) -> None:
    details = problem_of(client.get("/v1/votes"), 404)
    assert (details["type"], details["title"]) == ("about:blank", "Not Found")
    for path in ("/docs", "/redoc"):  # they would fetch scripts from other sites
        problem_of(client.get(path), 404)


def answering(monkeypatch: pytest.MonkeyPatch, outcome: dict[str, Any] | Exception) -> None:
    """Make every service answer with this, or fail with it."""

    async def gamma(*_: object) -> dict[str, Any]:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(DesignService, "answer", gamma)


@pytest.mark.parametrize(
    ("error", "status", "name", "text"),
    [
        (CacheError("sqlite:////secret/place", "disk I/O error", ""), 503, "cache-unavailable", "the server's log"),
        (ShuttingDown("The server is shutting down."), 503, "shutting-down", "The server is shutting down."),
        (Overloaded("Many jobs wait."), 503, "busy", "Many jobs wait."),
        (WorkLimitExceeded("Too much.", 1e6), 422, "too-much-work", "Too much."),
        (BackendUnavailable("gurobi is not installed."), 422, "backend-unavailable", "gurobi is not installed."),
        (NotCached("It is not stored."), 404, "not-stored", "It is not stored."),
        (JobCancelled("It was cancelled."), 409, "cancelled", "It was cancelled."),
        (SolveFailed("The solver gave up."), 500, "solve-failed", "The solver gave up."),
        (ZeroDivisionError("a secret"), 500, "internal-error", "The server's log has the details."),
    ],
)
def test_a_failure_is_a_problem_without_secrets(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, name: str, text: str
) -> None:
    answering(monkeypatch, error)
    answer = client.get("/v1/gamma", params={**MNIST, "m": 1.25})
    details = problem_of(answer, status)
    assert details["type"] == f"urn:darrm-opt:problem:{name}"
    assert text in details["detail"]
    assert "secret" not in json.dumps(details)
    assert ("retry-after" in answer.headers) == (status == 503)
    assert details.get("field") == ("backend" if name == "backend-unavailable" else None)
    assert details.get("estimated_seconds") == (1e6 if name == "too-much-work" else None)


def test_a_number_that_is_not_finite_never_leaves(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    told = client.get("/v1/gamma", params=MNIST).json()
    answering(monkeypatch, {**told, "utility": math.inf})
    details = problem_of(client.get("/v1/gamma", params={**MNIST, "m": 1.25}), 500)
    assert details["type"].endswith("internal-error")


def test_an_unusable_cache_aborts_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    app = create_app(Settings(cache_url=f"sqlite:///{tmp_path}/file/cache.sqlite"))
    with pytest.raises(CacheError, match=r"it cannot be created or written .* Set DARRM_CACHE_URL"), TestClient(app):
        pass


@pytest.mark.parametrize("path", ["/v1/gamma", "/v1/error-curve", "/v1/profile", "/v1/estimate", "/v1/jobs"])
def test_errors_within_an_objective_name_the_objective(client: TestClient, path: str) -> None:
    for objective in ("minimax(points=1)", "expected_error(seed=-1)", "rectangular(lower=2)", "histogram(1,2)"):
        details = problem_of(client.post(path, json={**MNIST, "objective": objective}), 422)
        assert details["field"] == "objective", objective


# --------------------------------------------------------------------------------------------------------- settings


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_CACHE_URL", " memory ")
    monkeypatch.setenv("DARRM_MAX_VOTERS", "7")
    monkeypatch.setenv("DARRM_TIME_LIMIT", "2.5")
    monkeypatch.setenv("DARRM_SOLVERS", "")
    settings = read_settings()
    assert (settings.cache_url, settings.max_voters, settings.time_limit) == ("memory", 7, 2.5)
    assert settings.solvers >= 1
    with TestClient(create_app()) as client:
        assert "at most 7 voters" in client.get("/v1/gamma", params={**MNIST, "K": 8}).json()["detail"]


def test_the_cache_has_a_default_location(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DARRM_CACHE_URL")
    assert read_settings().cache_url.endswith("/darrm-opt/cache.sqlite")
    monkeypatch.setenv("DARRM_CACHE_URL", "   ")
    assert read_settings().cache_url.endswith("/darrm-opt/cache.sqlite")


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        (
            "DARRM_MAX_VOTERS",
            "0",
            r"DARRM_MAX_VOTERS = '0' is not valid: expected the maximum number of voters of a request",
        ),
        ("DARRM_MAX_VOTERS", "many", r"DARRM_MAX_VOTERS = 'many' is not valid: .* a whole number, at least 1\."),
        ("DARRM_TIME_LIMIT", "inf", r"DARRM_TIME_LIMIT = 'inf' is not valid: expected the time limit of a solve \[s\]"),
        ("DARRM_SOLVERS", "1000", r"DARRM_SOLVERS = '1000' is not valid: .* a whole number from 1 to 256;"),
    ],
)
def test_an_invalid_setting_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, text: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidInput, match=text):
        create_app()


# ------------------------------------------------------------------------------------------------- a real server


@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        ("gamma", {"K": 0, "epsilon": -1, "m": 3}, {"K", "epsilon"}),
        (
            "gamma",
            {"K": 3, "epsilon": 0.1, "m": -3, "Delta": 2, "delta": 2, "objective": "x", "gap": 2},
            {"m", "Delta", "delta", "objective", "gap"},
        ),
        ("gamma", {"K": 0, "m": 1, "epsilon": 0.1, "objective": "histogram(1,2,3)"}, {"K"}),
        ("gamma", {"K": 5, "affected": 12, "m": 1, "epsilon": 0.1, "delta": 3}, {"affected", "delta"}),
        ("gamma", {"K": 11, "profile": "0:x", "target_epsilon": -1}, {"profile", "target_epsilon"}),
        ("gamma", {"K": 11, "profile": "0:0.1,0.1:1e-5", "m": 1}, {"m"}),
        ("verify", {"K": 1, "epsilon": -1, "m": -1, "gamma": [1, 1]}, {"epsilon", "m"}),
        (
            "plan",
            {"K": 3, "epsilon": 1, "queries": 0, "total_epsilon": -1, "total_delta": 2},
            {"queries", "total_epsilon", "total_delta"},
        ),
        ("compare", {"K": 0, "epsilon": -1, "total_epsilon": 1, "total_delta": 0.1}, {"K", "epsilon"}),
    ],
)
def test_the_error_of_every_invalid_field_names_it(
    client: TestClient, path: str, body: dict[str, Any], fields: set[str]
) -> None:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 422
    assert {error["field"] for error in answer.json()["errors"]} == fields
    for error in answer.json()["errors"]:
        assert error["detail"] in answer.json()["detail"]
