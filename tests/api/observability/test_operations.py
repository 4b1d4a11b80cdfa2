"""Readiness, metrics, logs and errors of the real application."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.paths import ROOT
from support.waiting import until

from api.app import create_app
from api.observability import logs, metrics
from api.observability.logs import REQUEST_ID, RequestLogEntry, accept_request_id
from api.routes.operations import ReadinessCheck, failures
from api.settings import Settings
from darrm_opt import SolveFailed
from solver_cache import CacheError, open_store
from solver_cache.database.store import DatabaseStore
from solver_cache.process_pool import PoolState

SETTINGS = Settings(cache_url="memory", solvers=1, rate=0)
GAMMA = "/v1/gamma?K=5&m=2&epsilon=0.5"


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(SETTINGS)) as opened:
        yield opened


# --------------------------------------------------------------------------------------------------------- readiness


def test_a_working_server_is_ready(client: TestClient) -> None:
    ready = {"status": "ready", "checks": {"database": "ok", "solver": "ok", "queue": "ok"}}
    until(lambda: client.get("/readyz").json() == ready)  # where its process starts slowly, it is busy at first
    assert client.get("/readyz").status_code == 200


class FakeService:
    """A fake service: a store, and the outcome of a solve."""

    def __init__(self, store: Any, solved: Any, **settings: Any) -> None:
        self.store, self._solved = store, solved
        self.settings = SETTINGS.model_copy(update={"ready_seconds": 0.0, **settings})
        self.stalled, self.pools = "", {"compute": SimpleNamespace(size=1, busy=1, tasks=1)}
        self.asked = 0

    async def run_in_thread(self, work: Any, *arguments: Any) -> Any:
        return await asyncio.to_thread(work, *arguments)

    async def compute(self, _task: Any, _argument: Any) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self._solved, Exception):
            raise self._solved
        return self._solved


class Broken(DatabaseStore):
    def health_check(self) -> None:
        raise CacheError("postgresql://secret/place", "gone, nowhere to be found", "")


def checked(service: FakeService) -> dict[str, str]:
    return asyncio.run(ReadinessCheck(service).check())  # type: ignore[arg-type]  # as much of a service as needed


UNUSABLE = "it cannot be used; the server's log says why"


@pytest.mark.parametrize(
    ("changed", "solved", "found"),
    [
        ({}, 1 / 3, {}),
        ({"store": Broken("memory")}, 1 / 3, {"database": UNUSABLE}),
        ({}, 0.5, {"solver": "it solves wrongly"}),
        ({}, SolveFailed("a secret"), {"solver": UNUSABLE}),
        ({}, TimeoutError(), {"solver": "busy"}),
        (
            {"pools": {"compute": SimpleNamespace(size=1, busy=0, tasks=1)}},
            TimeoutError(),
            None,
        ),  # does not respond, but is idle
        ({"settings": SETTINGS.model_copy(update={"solve": "off"})}, SolveFailed(""), {"solver": "off"}),
    ],
)
def test_each_part_is_checked(changed: dict[str, Any], solved: Any, found: dict[str, str] | None) -> None:
    service = FakeService(open_store("memory"), solved)
    vars(service).update(changed)
    findings = checked(service)
    if found is not None:
        assert findings == {"database": "ok", "solver": "ok", "queue": "ok"} | found
    assert (failures(findings) == []) == (found in ({}, {"solver": "busy"}, {"solver": "off"}))
    assert service.asked == (found != {"solver": "off"})


@pytest.mark.parametrize(("seconds", "solves"), [(0.0, 5), (60.0, 1)])
def test_a_readiness_result_is_cached_and_shared(seconds: float, solves: int) -> None:
    service = FakeService(open_store("memory"), 1 / 3, ready_seconds=seconds)

    async def many() -> None:
        readiness = ReadinessCheck(service)  # type: ignore[arg-type]  # as above
        await asyncio.gather(*(readiness.check() for _ in range(5)))

    asyncio.run(many())
    assert service.asked == solves


def test_a_failing_server_reports_the_cause_without_secrets(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.get("/readyz").status_code == 200
    state = client.app.state  # type: ignore[attr-defined]  # a FastAPI application
    before = state.readiness
    state.readiness = ReadinessCheck(FakeService(Broken("memory"), 1 / 3))  # type: ignore[arg-type]  # as above
    try:
        answer = client.get("/readyz")
    finally:
        state.readiness = before
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    told = answer.json()
    assert told["type"] == "urn:darrm-opt:problem:not-ready"
    assert told["detail"] == "database: it cannot be used; the server's log says why."
    assert "secret" not in answer.text
    assert "gone, nowhere to be found" in caplog.text
    assert client.get("/healthz").status_code == 200


# ----------------------------------------------------------------------------------------------------------- metrics


def values(text: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_events_are_counted(client: TestClient) -> None:
    def now() -> dict[str, float]:
        answer = client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        return values(answer.text)

    before = now()

    def more(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    while client.get(GAMMA).json().get("cached") is not True:
        pass
    client.get(GAMMA)
    client.get("/v1/gamma/" + "0" * 64)
    client.get("/v1/gamma?K=0&m=2&epsilon=0.5")
    client.get("/nowhere/at/all")
    client.request("BREW", "/healthz")
    after = now()
    assert more('darrm_requests_total{method="GET",route="/v1/gamma",status="200"}') >= 3
    assert more('darrm_requests_total{method="GET",route="/v1/gamma/{id}",status="404"}') == 1
    assert more('darrm_requests_total{method="GET",route="/v1/gamma",status="422"}') == 1
    assert more('darrm_requests_total{method="GET",route="unmatched",status="404"}') == 1
    assert sum(value for name, value in after.items() if 'method="other"' in name) >= 1
    assert more('darrm_solves_total{method="cuts",outcome="optimal"}') == 1
    assert more('darrm_solve_seconds_count{method="cuts"}') == 1
    assert more('darrm_cache_lookups_total{found="hit"}') >= 1
    assert more('darrm_cache_lookups_total{found="miss"}') >= 1
    assert more('darrm_cache_lookups_total{found="memory"}') >= 1
    assert more('darrm_request_seconds_count{route="/v1/gamma"}') >= 4
    assert (after["darrm_jobs_queued"], after["darrm_jobs_running"], after["darrm_requests_open"]) == (0, 0, 1)
    assert after['darrm_pool_busy{pool="solvers"}'] == 0


def test_clients_cannot_create_series(client: TestClient) -> None:
    def series() -> set[str]:
        return {name for name in values(client.get("/metrics").text) if not name.startswith("darrm_pool")}

    client.get("/nowhere")
    client.request("BREW", "/nowhere")
    series()  # which is itself a request
    before = series()
    for number in range(20):
        client.get(f"/nowhere/{number}")
        client.request(f"BREW{number}", f"/nowhere/{number}", headers={"X-Request-ID": f"id-{number}"})
        client.get(f"/v1/gamma/{number:064x}")
        metrics.count_lookups(f"kind {number}")
        metrics.count_solve(f"method {number}", f"outcome {number}", 1.0)
    new = series() - before
    assert all('"other"' in name or '"failed"' in name or "{id}" in name or '"damaged"' in name for name in new)
    assert len(new) < 60


def test_metrics_can_be_off() -> None:
    with TestClient(create_app(SETTINGS.model_copy(update={"metrics": "off"}))) as client:
        assert client.get("/metrics").status_code == 404


def test_a_replaced_process_is_counted_once() -> None:
    state = PoolState(2, 2, 1, 3, started=5, crashed=2, killed=1, retired=0, tasks=9)
    name = 'darrm_pool_restarts_total{pool="tested",why="crashed"}'
    metrics.record_pools({"tested": state}, {})
    assert values(metrics.render({}).decode())[name] == 2
    metrics.record_pools({"tested": state}, {"tested": state})
    found = values(metrics.render({}).decode())
    assert found[name] == 2
    assert (found['darrm_pool_busy{pool="tested"}'], found['darrm_pool_waiting{pool="tested"}']) == (1, 3)


def test_every_outcome_of_a_solve_is_counted() -> None:
    def counted(outcome: str) -> float:
        return values(metrics.render({}).decode()).get(f'darrm_solves_total{{method="other",outcome="{outcome}"}}', 0)

    before = {outcome: counted(outcome) for outcome in ("failed", "cancelled")}
    with pytest.raises(SolveFailed), metrics.track_solve():
        raise SolveFailed("")
    with pytest.raises(asyncio.CancelledError), metrics.track_solve():
        raise asyncio.CancelledError
    assert {outcome: counted(outcome) - before[outcome] for outcome in before} == {"failed": 1, "cancelled": 1}


def test_metrics_of_live_processes_are_summed(tmp_path: Path) -> None:
    count = (
        "from api.observability import metrics; metrics.count_request('GET', '/counted', 200, 0.1); metrics.IN_FLIGHT.inc(3)\n"
        "print(metrics.render({'darrm_jobs_queued': 7.0}).decode())"
    )
    environment = {metrics.MULTIPROCESS_DIR: str(tmp_path), "PYTHONPATH": str(ROOT), "PATH": ""}

    def run() -> dict[str, float]:
        done = subprocess.run(
            [sys.executable, "-c", count], env=environment, capture_output=True, text=True, check=True
        )
        return values(done.stdout)

    assert run()["darrm_requests_open"] == 3
    found = run()
    assert found['darrm_requests_total{method="GET",route="/counted",status="200"}'] == 2
    assert (found["darrm_requests_open"], found["darrm_jobs_queued"]) == (3, 7)


# -------------------------------------------------------------------------------------------------------------- logs


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Configure the log of this process for a test, and restore it."""
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    before = root.handlers[:], root.level, access.disabled

    def configure(terminal: bool = False, **settings: Any) -> io.StringIO:
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda: terminal)
        monkeypatch.setattr(sys, "stderr", stream)
        logs.configure(SETTINGS.model_copy(update=settings))
        return stream

    yield configure
    root.handlers[:], access.disabled = before[0], before[2]
    root.setLevel(before[1])
    logs._render = None
    logging.captureWarnings(capture=False)


NASTY = RequestLogEntry("GET", '/v1/"gam\nma\x1b[31m"é', 200, 0.25, 12, "address ::/64", "one")


def test_every_line_is_valid_json(configured: Any) -> None:
    stream = configured(log_format="json")
    logs.log_request(NASTY)
    logs.log_request(NASTY._replace(status=500))
    logging.getLogger("api.test").warning("careful: %s", "two\nlines", extra={"job": "7"})
    first, second, third = (json.loads(line) for line in stream.getvalue().splitlines())
    said = {"event": "request", "level": "info", "logger": "api.requests", "timestamp": first["timestamp"]}
    assert first == NASTY._asdict() | said
    assert second["level"] == "error"
    said = {"event": "careful: two\nlines", "level": "warning", "logger": "api.test", "job": "7"}
    assert said.items() <= third.items()
    for line in (first, second, third):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["timestamp"])


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("path", ["/\x1b[31m", "/\x9b31m", "/\u202egpj", "/\x7f"])
def test_paths_cannot_control_a_terminal(configured: Any, path: str, terminal: bool) -> None:
    stream = configured(terminal, log_format="console")
    logs.log_request(NASTY._replace(path=path))
    assert path not in stream.getvalue()
    assert repr(path) in stream.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.parametrize("status", [200, 500])
def test_request_lines_have_the_common_format(configured: Any, status: int, log_format: str, terminal: bool) -> None:
    stream = configured(terminal, log_format=log_format)
    entry = NASTY._replace(path="/v1/100%s", status=status, request_id="a=b'c")
    logs.log_request(entry)
    logging.getLogger("api.requests").log(
        logging.ERROR if status == 500 else logging.INFO, "request", extra=entry._asdict()
    )
    times = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
    own, other = (times.sub("", line) for line in stream.getvalue().splitlines())
    assert json.loads(own) == json.loads(other) if log_format == "json" else own == other


def test_lines_of_a_request_carry_its_id(configured: Any) -> None:
    stream = configured(log_format="json")
    token = REQUEST_ID.set("seven")
    try:
        json.loads("{")
    except ValueError:
        logging.getLogger("api.test").exception("broken")
    finally:
        REQUEST_ID.reset(token)
    told = json.loads(stream.getvalue())
    assert told["request_id"] == "seven"
    assert "JSONDecodeError" in told["exception"]


def test_lower_levels_are_not_logged(configured: Any) -> None:
    stream = configured(log_level="warning")
    logs.log_request(NASTY)
    assert stream.getvalue() == ""
    logs.log_request(NASTY._replace(status=500))
    assert "status=500" in stream.getvalue()


@pytest.mark.parametrize("offered", [b"", b"x" * 65, b"two words", b"line\nbreak", b"\xff", b'quo"te', None])
def test_a_harmful_request_id_is_replaced(offered: bytes | None) -> None:
    assert re.fullmatch("[0-9a-f]{16}", accept_request_id(offered))


# ------------------------------------------------------------------------------------------------------------ a bug


def test_a_bug_is_logged_with_its_traceback_and_answered_with_its_id(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(SETTINGS)

    @app.get("/broken")
    async def broken() -> None:
        raise ZeroDivisionError("a secret")

    with TestClient(app) as client:
        answer = client.get("/broken", headers={"X-Request-ID": "bug-1"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "bug-1")
    told = answer.json()
    assert (told["type"], told["request_id"]) == ("urn:darrm-opt:problem:internal-error", "bug-1")
    assert "secret" not in answer.text
    assert "ZeroDivisionError: a secret" in caplog.text
