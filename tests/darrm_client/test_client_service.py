"""The client and the real service: accepted requests and verified answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.live import serving
from support.paths import ROOT

from api.app import create_app
from api.settings import Settings
from darrm_client import (
    AnswerNotFound,
    DarrmClient,
    DeadlineExceeded,
    InvalidRequest,
    RequestTooLarge,
    VerifiedAnswer,
)
from darrm_opt import Problem, solve, verify
from solver_cache import DesignSpec, cached_solve, open_store

PROBLEM = Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4)
OTHERS = [Problem.from_allowance(K=11, m=m, epsilon=0.0892, Delta=1e-4) for m in (1, 2)]
NOT_PRIVATE = Problem.from_allowance(K=11, m=None, epsilon=float("inf"), target_epsilon=0.2676, delta=3e-4, affected=1)
LONG = Problem.from_allowance(K=2001, m=3, epsilon=0.1, Delta=1e-2)  # takes minutes
MAX_VOTERS = 2001


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("service") / "cache.sqlite"
    settings = Settings(cache_url=f"sqlite:///{place}", max_voters=MAX_VOTERS, solvers=1, wait_seconds=0.2)
    with serving(create_app(settings)) as url:
        yield url


@pytest.fixture
def client(service: str) -> Iterator[DarrmClient]:
    with DarrmClient(service, timeout=120) as opened:
        yield opened


def test_gamma_is_that_of_the_solver(client: DarrmClient) -> None:
    for problem in (PROBLEM, NOT_PRIVATE):
        own = solve(problem)
        found = client.gamma(problem)
        assert found.gamma.tolist() == pytest.approx(own.gamma.tolist(), abs=1e-9)
        assert found.utility == pytest.approx(own.utility, abs=1e-9)
        assert (found.exact, found.id) == (True, DesignSpec(problem).key)
    assert client.gamma(PROBLEM).cached
    assert client.gamma(PROBLEM, "shared(2,5)", "monotone").noise.is_monotone


def test_a_batch_has_an_answer_or_an_error_for_each_problem(client: DarrmClient) -> None:
    too_many = Problem.from_allowance(K=MAX_VOTERS + 2, m=3, epsilon=0.1)
    found = client.batch([*OTHERS, too_many, DesignSpec(PROBLEM, "uniform")])
    assert [type(one) for one in found[:2] + found[3:]] == [VerifiedAnswer] * 3
    assert isinstance(found[2], InvalidRequest | RequestTooLarge)


def test_the_service_names_a_field_out_of_range(client: DarrmClient) -> None:
    with pytest.raises(InvalidRequest, match=str(MAX_VOTERS)) as refused:
        client.gamma(Problem.from_allowance(K=MAX_VOTERS + 2, m=3, epsilon=0.1))
    assert refused.value.argument == "K"


def test_jobs_are_followed_from_submission_to_answer(client: DarrmClient) -> None:
    problem = Problem.from_allowance(K=21, m=4, epsilon=0.1, Delta=1e-5)
    job = client.jobs.submit(problem)
    assert job.id == DesignSpec(problem).key
    events = list(client.jobs.events(job.id, timeout=60))
    assert events[-1][1]["state"] == "done"
    assert client.jobs.wait(problem).gamma.tolist() == pytest.approx(solve(problem).gamma.tolist(), abs=1e-9)
    assert client.jobs.get(job.id).state == "done"
    assert job.id in {seen.id for seen in client.jobs.list("done")}
    with pytest.raises(AnswerNotFound):
        client.jobs.get("0" * 64)


def test_a_long_job_is_abandoned_and_cancelled(client: DarrmClient) -> None:
    job = client.jobs.submit(LONG)
    with pytest.raises(DeadlineExceeded, match=r"wait again to continue|did not respond within"):
        client.jobs.wait(LONG, timeout=0.3)
    client.jobs.cancel(job.id)
    assert list(client.jobs.events(job.id, timeout=60))[-1][1]["state"] == "cancelled"
    assert client.jobs.get(job.id).over


def test_a_service_without_solving_gives_the_nearest_answer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kept.sqlite'}"
    store = open_store(url)
    cached_solve(OTHERS[1], store=store)
    store.close()
    app = create_app(Settings(cache_url=url, solve="off"))
    with serving(app) as place, DarrmClient(place, timeout=60, retries=0) as client:
        found = client.gamma(PROBLEM)
        assert (found.exact, found.designed_for, found.problem) == (False, OTHERS[1], PROBLEM)
        assert found.certificate.bound >= verify(PROBLEM, found.gamma).bound
        with pytest.raises(AnswerNotFound):
            client.gamma(Problem.from_allowance(K=13, m=3, epsilon=0.1))


def test_the_store_of_a_service_is_readable_as_a_table(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    app = create_app(Settings(cache_url=f"sqlite:///{path}", solvers=1, wait_seconds=60))
    with serving(app) as place, DarrmClient(place, timeout=60) as client:
        asked = client.gamma(PROBLEM)
        with DarrmClient(path.as_uri()) as beside:  # during service
            assert beside.gamma(PROBLEM).gamma.tolist() == asked.gamma.tolist()
    with DarrmClient(path.as_uri()) as client:
        assert client.gamma(PROBLEM).gamma.tolist() == asked.gamma.tolist()


def test_the_documented_example_runs(service: str) -> None:
    document = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code.replace("http://127.0.0.1:8000", service).replace("darrm_…", "none is asked for"), names)  # noqa: S102
    assert names["solution"].exact


def test_designs_are_listed_tagged_and_compared(client: DarrmClient) -> None:
    first, second = (client.gamma(problem).id for problem in (PROBLEM, OTHERS[0]))
    assert client.designs.tag(first, "mnist")["tags"] == ["mnist"]
    assert [design["id"] for design in client.designs.list(tag="mnist", K=11)] == [first]
    assert {first, second} <= {design["id"] for design in client.designs.list()}
    told = client.designs.compare(first, second)
    assert told["numbers"]["m"] == {"first": 3.0, "second": 1.0, "difference": -2.0}
    assert client.designs.untag(first, "mnist")["tags"] == []
    with pytest.raises(AnswerNotFound):
        client.designs.tag("0" * 64, "a")
