"""Traces: a span for each request and each solve, off by default, and without the contents of requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support.waiting import until

from api.app import create_app
from api.observability import traces
from api.settings import Settings

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def are_on() -> bool:
    return traces._tracer is not None


def spans_of(*paths: str, headers: dict[str, str] | None = None) -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    with (
        TestClient(create_app(Settings(cache_url="memory", wait_seconds=60.0, short_seconds=0.0))) as client,
        traces.traced(memory),
    ):
        for path in paths:
            client.get(path, headers=headers)
    return list(memory.get_finished_spans())


def test_requests_and_solves_are_spans() -> None:
    spans = spans_of("/v1/gamma?K=5&m=2&epsilon=0.1", "/v1/nothing?secret=word", headers={"X-Request-ID": "train-7"})
    (solve,) = [span for span in spans if span.name == "solve"]
    assert dict(solve.attributes or {}) == {"darrm.method": "cuts", "darrm.outcome": "optimal"}
    found, missing = [span for span in spans if span.kind is SpanKind.SERVER]
    assert found.name == "GET /v1/gamma"
    assert missing.name == "GET unmatched"
    said = dict(found.attributes or {})
    assert said.pop("darrm.client")
    assert said == {
        "http.request.method": "GET",
        "http.route": "/v1/gamma",
        "http.response.status_code": 200,
        "darrm.request_id": "train-7",
    }
    assert (missing.attributes or {})["http.response.status_code"] == 404
    assert found.status.status_code is StatusCode.UNSET
    assert not any(word in span.to_json() for span in spans for word in ("secret", "epsilon"))
    assert found.resource.attributes["service.name"] == "darrm-opt"


def test_the_framework_adds_no_spans_with_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)  # as set by instrumentation of the operator
    with TestClient(create_app(Settings(cache_url="memory"))) as client:
        client.get("/v1/gamma?K=5&m=2&epsilon=secret")
    assert memory.get_finished_spans() == ()


def test_a_job_is_a_separate_trace_linked_to_the_request_that_queued_it() -> None:
    spans = spans_of("/v1/gamma?K=5&m=2&epsilon=0.1", "/v1/gamma?K=5&m=2&epsilon=0.1", headers={"traceparent": PARENT})
    (job,) = [span for span in spans if span.name == "job gamma"]
    asked = next(span for span in spans if span.kind is SpanKind.SERVER)
    (solve,) = [span for span in spans if span.name == "solve"]
    assert job.kind is SpanKind.CONSUMER
    assert job.parent is None
    assert [link.context.span_id for link in job.links] == [asked.context.span_id]
    assert [link.context.trace_id for link in job.links] == [int(PARENT.split("-")[1], 16)]
    assert solve.parent is not None
    assert solve.parent.span_id == job.context.span_id
    said = dict(job.attributes or {})
    assert len(str(said.pop("darrm.job"))) == 64
    assert said.pop("darrm.client")
    for name in ("darrm.queue_seconds", "darrm.solve_seconds"):
        assert 0 <= said.pop(name) < 300  # type: ignore[operator]  # a number
    for name in ("darrm.rounds", "darrm.rows", "darrm.iterations"):
        assert said.pop(name) >= 1  # type: ignore[operator]  # as above
    assert said == {"darrm.kind": "gamma", "darrm.attempt": 1, "darrm.outcome": "done"}


def test_the_link_survives_a_restart(tmp_path: Path) -> None:
    settings = Settings(cache_url=f"sqlite:///{tmp_path / 'store.sqlite'}", wait_seconds=0, solvers=1)
    with traces.traced(InMemorySpanExporter()), TestClient(create_app(settings)) as client:
        for worker in client.app.state.service.workers:  # type: ignore[attr-defined]  # a FastAPI application
            worker._closing = True  # it is not taken here
        body = {"K": 5, "m": 2, "epsilon": 0.1}
        id = client.post("/v1/jobs", json=body, headers={"traceparent": PARENT}).json()["id"]
    memory = InMemorySpanExporter()
    with traces.traced(memory), TestClient(create_app(settings)) as client:
        until(lambda: client.get(f"/v1/jobs/{id}").json()["state"] == "done")
    (job,) = [span for span in memory.get_finished_spans() if span.name == "job gamma"]
    assert [format(link.context.trace_id, "032x") for link in job.links] == [PARENT.split("-")[1]]


def test_a_request_continues_the_trace_of_its_client() -> None:
    (span,) = spans_of("/healthz", headers={"traceparent": PARENT})
    assert span.parent is not None
    assert format(span.parent.trace_id, "032x") == PARENT.split("-")[1]
    (alone,) = spans_of("/healthz", headers={"traceparent": "forged"})
    assert alone.parent is None


def test_off_unless_an_endpoint_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in traces.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    with traces.traced():
        assert not are_on()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with traces.traced():
        assert are_on()
    assert not are_on()
