"""HTTP backend: the REST interface of a service, waiting for the jobs that it names."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from darrm_client.errors import DeadlineExceeded, ServiceUnreachable
from darrm_client.jobs import FINAL_STATES, parse_job, wait_for_job
from darrm_client.transport import Deadline, TransientFailure, Transport, retry_delay

ACCEPTED = 202
"""The status of an answer that is not there yet."""


class HttpBackend:
    """The REST interface of one service, as a `ClientBackend`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def ask(self, verb: str, body: dict[str, Any], deadline: Deadline) -> Any:
        """Return the answer to ``POST /v1/<verb>``; if the service names a job instead, wait for it.

        The job may be that of the answer, or of the γ that the answer is about: then the question is asked again. A γ
        that is not there in time is replaced by the nearest kept one, if the service offered it with the job.
        """
        fields = {name: value for name, value in body.items() if value is not None}
        while True:
            reply = self._transport.call("POST", f"/v1/{verb}", fields, deadline)
            if reply.status != ACCEPTED:
                return reply.content
            job = parse_job(reply.content)
            try:
                wait_for_job(self, job, deadline, reply.retry_after)
                # Else the job is that of the γ in question: once it is there, the question itself can be answered.
                if reply.content.get("kind", "gamma") == verb:
                    return self.result(job.id, deadline)
            # The nearest stored answer holds for the question, and is proved as every answer is.
            except DeadlineExceeded:
                if verb != "gamma" or reply.content.get("nearest") is None:
                    raise
                return reply.content["nearest"]

    def submit(self, body: dict[str, Any], deadline: Deadline) -> Any:
        return self._transport.call("POST", "/v1/jobs", body, deadline).content

    def job(self, id: str, deadline: Deadline) -> Any:
        return self._transport.call("GET", _job_path(id), None, deadline).content

    def jobs(self, state: str | None, after: str | None, deadline: Deadline) -> Any:
        query = {name: value for name, value in (("state", state), ("after", after)) if value is not None}
        return self._transport.call("GET", f"/v1/jobs?{urlencode(query)}", None, deadline).content

    def result(self, id: str, deadline: Deadline) -> Any:
        """Return the answer of a job that was done; should it be gone, wait for it to be made again."""
        while True:
            reply = self._transport.call("GET", f"{_job_path(id)}/result", None, deadline)
            if reply.status != ACCEPTED:
                return reply.content
            wait_for_job(self, parse_job(reply.content), deadline, reply.retry_after)

    def cancel(self, id: str, deadline: Deadline) -> Any:
        return self._transport.call("DELETE", _job_path(id), None, deadline).content

    def add_webhook(self, id: str, url: str, deadline: Deadline) -> Any:
        return self._transport.call("POST", f"{_job_path(id)}/webhooks", {"url": url}, deadline).content

    def events(self, id: str, deadline: Deadline) -> Iterator[tuple[str, Any]]:
        """Yield a job's events; a stream that breaks is opened again behind the last one that came."""
        last_id, attempt = "", 0
        while True:
            try:
                # Every event is the whole state, so a stream that is opened again misses nothing that counts.
                headers = {"Last-Event-ID": last_id} if last_id else {}
                with self._transport.lines(f"{_job_path(id)}/events", deadline, headers) as lines:
                    for event in _events(lines):
                        # Progress: failures count anew, as a long job outlives many a proxy's patience.
                        last_id, attempt = event.get("id", last_id), 0
                        content = _content(event.get("data", ""))
                        yield event.get("event", "message"), content
                        if isinstance(content, dict) and content.get("state") in FINAL_STATES:
                            return
            except TransientFailure as failure:
                error, retry_after = failure.error, failure.retry_after
            else:
                # A stream that ends without a final state broke, even if it was closed in order.
                error, retry_after = ServiceUnreachable("The stream of events ended before the job did."), None
            delay = retry_delay(attempt, retry_after, 1.0)
            if attempt == self._transport.retries or delay >= deadline.remaining:
                raise error
            time.sleep(delay)
            attempt += 1

    def designs(self, method: str, path: str, deadline: Deadline) -> Any:
        return self._transport.call(method, f"/v1/designs{path}", None, deadline).content

    def close(self) -> None:
        self._transport.close()


def _job_path(id: str) -> str:
    return f"/v1/jobs/{quote(id, safe='')}"


def _events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Yield server-sent events (WHATWG, "Server-sent events") as their fields."""
    event: dict[str, str] = {}
    for line in lines:
        if not line:
            if event:
                yield event
            event = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data" and "data" in event:
            value = f"{event['data']}\n{value}"
        if name in {"data", "event", "id"}:
            event[name] = value


def _content(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data
