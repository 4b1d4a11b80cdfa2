"""Traces by OpenTelemetry (extra `otel`): a span for each request, job and solve.

Off unless an endpoint is configured: `OTEL_EXPORTER_OTLP_ENDPOINT` turns traces on, and the SDK reads its other
variables (sampler, headers, resource). A request continues the trace of its `traceparent` header. A job has its own
trace, because it outlives its request and may run in another process; it is linked to the request, whose
`traceparent` is stored with the job. Spans carry what the log and metrics show: route, status, request id, client;
never a query, a body or a key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from darrm_opt import __version__
from darrm_opt.optional_packages import needed_by

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

    from solver_cache.database.jobs import Job

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Environment variables that turn traces on."""

SERVICE_NAME = "darrm-opt"

_tracer: Tracer | None = None  # tracer of this process; None while traces are off


_JOB_SPAN: ContextVar[Span | None] = ContextVar("job_span", default=None)  # span of the current job


@contextmanager
def traced(exporter: SpanExporter | None = None) -> Iterator[None]:
    """Record spans during the block, and export the last of them at its end."""
    global _tracer  # noqa: PLW0603 — the tracer of a process is global
    if exporter is None and not any(os.environ.get(name) for name in ENDPOINTS):
        yield
        return
    with needed_by("traces"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    attributes = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": SERVICE_NAME}
    provider = TracerProvider(resource=Resource.create({**attributes, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
    _tracer = provider.get_tracer("darrm_opt", __version__)
    try:
        yield
    finally:
        _tracer = None
        provider.shutdown()


def current_traceparent() -> str:
    """Return the W3C ``traceparent`` of the current span, which links a job to its request; "" without one."""
    if _tracer is None:
        return ""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "")


@contextmanager
def job_span(job: Job) -> Iterator[Callable[[str], None]]:
    """Record a job, its time in the queue and a link to its request; yields the function that sets its outcome."""
    if _tracer is None:
        yield _set_nothing
        return
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = trace.get_current_span(TraceContextTextMapPropagator().extract({"traceparent": job.trace}, Context()))
    context = parent.get_span_context()
    links = [trace.Link(context)] if context.is_valid else []
    # a new trace
    with _tracer.start_as_current_span(f"job {job.kind}", Context(), trace.SpanKind.CONSUMER, links=links) as span:
        _set(span, {"darrm.job": job.id, "darrm.kind": job.kind, "darrm.client": job.client})
        _set(span, {"darrm.queue_seconds": max(0.0, job.updated - job.created), "darrm.attempt": job.attempts})

        def end(outcome: str) -> None:
            _set(span, {"darrm.outcome": outcome})
            if outcome == "failed":
                span.set_status(trace.Status(trace.StatusCode.ERROR))

        _JOB_SPAN.set(span)
        yield end


def annotate_job(attributes: dict[str, Any]) -> None:
    """Set attributes of the current job's span, if any."""
    _set(_JOB_SPAN.get(), attributes)


@contextmanager
def solve_span() -> Iterator[Callable[[str, str], None]]:
    """Record a solve; yields the function that sets its method and outcome.

    >>> with solve_span() as ended:
    ...     ended("cuts", "optimal")
    """
    if _tracer is None:
        yield _set_nothing
        return
    with _tracer.start_as_current_span("solve") as span:
        yield lambda method, outcome: _set(span, {"darrm.method": method, "darrm.outcome": outcome})


def request_span(
    method: str, headers: list[tuple[bytes, bytes]]
) -> AbstractContextManager[Callable[[str, int, str, str], None]]:
    """Record a request; yields the function that sets its route, status, client and id."""
    return _NO_SPAN if _tracer is None else _recorded_span(_tracer, method, headers)


def _set_nothing(*_: object) -> None:
    pass


_NO_SPAN = nullcontext(_set_nothing)


@contextmanager
def _recorded_span(
    tracer: Tracer, method: str, headers: list[tuple[bytes, bytes]]
) -> Iterator[Callable[[str, int, str, str], None]]:
    from opentelemetry.trace import SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name.startswith(b"trace")}
    context = TraceContextTextMapPropagator().extract(carrier)
    with tracer.start_as_current_span(method, context=context, kind=SpanKind.SERVER) as span:

        def end(route: str, status: int, client: str, request_id: str) -> None:
            span.update_name(f"{method} {route}")
            _set(span, {"http.request.method": method, "http.route": route, "http.response.status_code": status})
            _set(span, {"darrm.client": client, "darrm.request_id": request_id})
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))

        yield end


def _set(span: Span | None, attributes: dict[str, Any]) -> None:
    if span is not None:
        span.set_attributes(attributes)
