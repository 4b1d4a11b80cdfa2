"""Traces: a span for each request and each solve, off unless configured, and nothing in them that is asked."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from api.app import create_app
from api.observability import traces
from api.settings import Settings

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def are_on() -> bool:
    return traces._tracer is not None


def spans_of(*paths: str, headers: dict[str, str] | None = None) -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    with TestClient(create_app(Settings(cache_url="memory"))) as client, traces.traced(memory):
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
