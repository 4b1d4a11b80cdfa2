"""Extreme numbers and texts in requests: refused by field or answered, never a server error."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient
from test_api import problem_of

JSON = {"content-type": "application/json"}


client = client_fixture(patient(max_voters=51))


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ("tradeoff?K=-1&epsilon=.1", "K", "K = -1 is not valid: expected a whole number of voters, at least 1."),
        (f"tradeoff?K=-{10**30}&epsilon=.1", "K", "at least 1."),
        ("least?K=5&epsilon=.1&utility=.5&digits=800", "digits", "digits = 800 is not valid"),
        ("gamma?K=5&m=2&epsilon=.1&Delta=1e-400", "Delta", "Delta = '1e-400' is not valid: expected a probability in"),
        ("gamma?K=5&m=2&epsilon=1e400", "epsilon", "It is beyond the largest double, 1.8e308; infinity is written inf"),
        ("tradeoff?K=5&epsilon=.1&ms=1,٣", "ms", "ms = '٣' is not valid: expected a list of"),
        ("tradeoff?K=5&epsilon=.1&ms=1,1e-400", "ms", "ms = '1e-400' is not valid: expected a list of"),
        ("profile?K=5&m=2&epsilon=.1&epsilons=٣", "epsilons", "epsilons = '٣' is not valid"),
        ("designs?K=1000001", "K", "K = 1000001 is not valid: expected at most 1000000 voters."),
        ("plurality?K=5&classes=3&target_epsilon=1&queries=1000000000", "queries", "releases from 1 to 1,000,000."),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(client: TestClient, query: str, field: str, said: str) -> None:
    details = problem_of(client.get(f"/v1/{query}"), 422)
    assert details["field"] == field
    assert said in details["detail"]


@pytest.mark.parametrize("query", ["compare?K=5&total_epsilon=1", "plan?K=5&total_epsilon=1"])
def test_voters_of_the_largest_epsilon_are_answered(client: TestClient, query: str) -> None:
    answer = client.get(f"/v1/{query}&total_delta=.01&epsilon=1e308")
    assert answer.status_code == 200
    assert answer.json()["voters"]["epsilon"] == 1e308


def test_the_least_total_delta_is_answered(client: TestClient) -> None:
    answer = client.get("/v1/compose?K=5&m=2&epsilon=.1&total_delta=5e-324")
    assert answer.status_code == 200
    assert answer.json()["accounts"]["best"]["epsilon"] == 0.2


@pytest.mark.parametrize(
    "route", ["gamma", "estimate", "error-curve", "profile", "compose", "jobs", "tradeoff", "least"]
)
def test_half_a_surrogate_pair_is_an_invalid_backend(client: TestClient, route: str) -> None:
    wanted = {"tradeoff": "", "least": '"utility": 0.5,'}.get(route, '"m": 2,')
    body = '{"K": 5, "epsilon": 0.1, %s "backend": "\\ud800"}' % wanted  # noqa: UP031 — braces
    details = problem_of(client.post(f"/v1/{route}", content=body, headers=JSON), 422)
    assert details["field"] == "backend"
    assert details["detail"].startswith("backend = '\\ud800' is not valid: expected one of highs")


def test_an_invalid_item_does_not_affect_a_batch(client: TestClient) -> None:
    body = r'{"problems": [{"K": 5, "m": 2, "epsilon": 0.1}, {"K": 5, "m": 2, "epsilon": 0.1, "backend": "\ud800"}]}'
    answer = client.post("/v1/gamma/batch", content=body, headers=JSON)
    assert answer.status_code == 200
    assert [each["status"] for each in answer.json()["results"]] == [200, 422]


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("Delta", "1e-400", "Delta = '1e-400' is not valid: expected a probability in [0, 1). It is not 0"),
        ("epsilon", "1e400", 'It is beyond the largest double, 1.8e308; infinity is written inf (in JSON "inf").'),
    ],
)
@pytest.mark.parametrize("inside", ["%s", '{"problems": [%s]}'])
def test_numbers_in_a_body_are_exact(client: TestClient, field: str, text: str, said: str, inside: str) -> None:
    numbers = {"K": "5", "m": "2", "epsilon": "0.1"} | {field: text}
    body = inside % ("{" + ", ".join(f'"{name}": {value}' for name, value in numbers.items()) + "}")
    answer = client.post("/v1/gamma" if inside == "%s" else "/v1/gamma/batch", content=body, headers=JSON)
    details = answer.json() if inside == "%s" else answer.json()["results"][0]["problem"]
    assert (details["status"], details["field"]) == (422, field)
    assert said in details["detail"]
