"""HTTP backend: the REST interface of a service, with retries, a deadline and a size limit.

Requests are idempotent (the same problem has the same id), so each can be retried: after a failed connection, and
after 429, 502, 503 and 504. The client backs off exponentially with jitter, so that clients that failed together do
not return together, and waits at least for Retry-After. If the service returns a job, the backend waits for it.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NoReturn

from darrm_client.errors import RETRIED, ClientError, Deadline, DeadlineExceeded, ServiceUnreachable, error_of
from darrm_client.jobs import FINAL_STATES, job_path, parse_job, wait_for_job
from darrm_opt._version import __version__
from darrm_opt.errors import DarrmError, VerificationFailed
from darrm_opt.optional_packages import needed_by
from darrm_opt.untrusted import json_value

if TYPE_CHECKING:
    import ssl

    import httpx

FIRST_BACK_OFF = 0.1  # longest pause before the first retry; doubled for each further one
MAX_BACK_OFF = 10.0  # longest pause without Retry-After

CONNECT_SECONDS = 5.0
TRY_SECONDS = 75.0  # time limit of one attempt: a service waits at most 60 s before it returns a job
MAX_ANSWER_BYTES = 2**28  # maximum size of an answer: ten times a batch of 1000 problems of 1001 voters
ACCEPTED = 202  # status of a pending answer


class HttpBackend:
    """The REST interface of one service, as a `ClientBackend`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def ask(self, verb: str, body: dict[str, Any], deadline: Deadline) -> Any:
        """Return the answer to ``POST /v1/<verb>``; if the service returns a job, wait for it.

        The job may be that of the answer, or of a γ that the answer needs, after which the request is repeated. At
        the deadline a pending γ is replaced by the nearest stored one, if the service offered one.
        """
        fields = {name: value for name, value in body.items() if value is not None}
        while True:
            reply = self._transport.call("POST", f"/v1/{verb}", fields, deadline)
            if reply.status != ACCEPTED:
                return reply.content
            job = parse_job(reply.content)
            try:
                wait_for_job(self, job, deadline, reply.retry_after)
                # else the job was that of a γ that the answer needs
                if reply.content.get("kind", "gamma") == verb:
                    return self.result(job.id, deadline)
            # The nearest stored answer is valid for the question, and is proved like any other.
            except DeadlineExceeded:
                if verb != "gamma" or reply.content.get("nearest") is None:
                    raise
                return reply.content["nearest"]

    def call(self, method: str, path: str, body: Any, deadline: Deadline) -> Any:
        return self._transport.call(method, path, body, deadline).content

    def result(self, id: str, deadline: Deadline) -> Any:
        """Return the answer of a finished job; if it is gone, wait until it is computed again."""
        while True:
            reply = self._transport.call("GET", f"{job_path(id)}/result", None, deadline)
            if reply.status != ACCEPTED:
                return reply.content
            wait_for_job(self, parse_job(reply.content), deadline, reply.retry_after)

    def events(self, id: str, deadline: Deadline) -> Iterator[tuple[str, Any]]:
        """Yield a job's events; reopen a broken stream after its last event."""
        last_id, attempt = "", 0
        while True:
            try:
                # Every event has the whole state, so reopening a stream loses nothing.
                headers = {"Last-Event-ID": last_id} if last_id else {}
                with self._transport.lines(f"{job_path(id)}/events", deadline, headers) as lines:
                    for event in _events(lines):
                        # Progress resets the attempts: a long job outlasts the timeouts of proxies.
                        last_id, attempt = event.get("id", last_id), 0
                        content = _content(event.get("data", ""))
                        yield event.get("event", "message"), content
                        if isinstance(content, dict) and content.get("state") in FINAL_STATES:
                            return
            except TransientFailure as err:
                failure = err
            else:
                # A stream without a final state is broken, even if it was closed regularly.
                failure = TransientFailure(ServiceUnreachable("The stream of events ended before the job did."))
            self._transport.pause(attempt, failure, deadline)
            attempt += 1

    def close(self) -> None:
        self._transport.close()


def _events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Yield server-sent events (WHATWG) as their fields."""
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


@dataclass(frozen=True)
class Reply:
    """Response of the service."""

    status: int  # 200, 201 or 202
    content: Any  # its JSON
    retry_after: float | None = None  # Retry-After [s], if given


class Transport:
    """Sends requests to one service. Safe to use from several threads, and in a forked process."""

    def __init__(
        self,
        url: str,
        key: str | None,
        retries: int,
        tls: ssl.SSLContext | None,
        proxy: str | None,
    ) -> None:
        with needed_by("A client that speaks HTTP"):
            import httpx

        headers = {"User-Agent": f"darrm-opt/{__version__}", "Accept": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        # reading the system's certificates is slow
        secure = url.startswith("https:") or proxy is not None
        self._make: Callable[[], httpx.Client] = lambda: httpx.Client(
            base_url=url, headers=headers, proxy=proxy, trust_env=False, verify=secure if tls is None else tls
        )
        self.url = url  # root of the service, without ``/v1``
        self.retries = retries  # retries per request
        self._lock = threading.Lock()
        self._http: httpx.Client | None = None
        self._process = 0
        self._closed = False

    def call(self, method: str, path: str, body: Any, deadline: Deadline) -> Reply:
        """Send a request, with retries; return the response."""
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        for attempt in range(self.retries + 1):
            deadline.check()
            try:
                return self._send(method, path, content, deadline)
            except TransientFailure as failure:
                self.pause(attempt, failure, deadline)
        raise AssertionError("the last try answers or raises")

    def pause(self, attempt: int, failure: TransientFailure, deadline: Deadline) -> None:
        """Wait for the next attempt; raise the error of the last one if there is none, or no time for it."""
        # Jitter: clients that failed together must not return together.
        delay = retry_delay(attempt, failure.retry_after, random.SystemRandom().uniform(0.5, 1.0))
        if attempt == self.retries or delay >= deadline.remaining:
            raise failure.error from failure
        time.sleep(delay)

    @contextmanager
    def lines(self, path: str, deadline: Deadline, headers: dict[str, str]) -> Iterator[Iterator[str]]:
        """Open a stream of text lines, until it ends or the caller leaves."""
        accepted = {"Accept": "text/event-stream", **headers}
        with self._response("GET", path, deadline, (200,), headers=accepted) as response:
            yield _lines(self._bytes(response, deadline))

    def close(self) -> None:
        """Close every connection; later calls raise."""
        with self._lock:
            self._closed = True
            if self._http is not None and self._process == os.getpid():
                self._http.close()
            self._http = None

    def _client(self) -> httpx.Client:
        with self._lock:
            if self._closed:
                raise ClientError("This client is closed.")
            if self._http is None or self._process != os.getpid():  # a forked process must not share connections
                self._http, self._process = self._make(), os.getpid()
            return self._http

    def _send(self, method: str, path: str, content: bytes | None, deadline: Deadline) -> Reply:
        headers = {} if content is None else {"Content-Type": "application/json"}
        accepted = (200, 201, ACCEPTED)
        with self._response(method, path, deadline, accepted, content=content, headers=headers) as response:
            body = b"".join(self._bytes(response, deadline))
            return Reply(response.status_code, _json(body), _retry_after(response))

    @contextmanager
    def _response(
        self, method: str, path: str, deadline: Deadline, accepted: Sequence[int], **request: Any
    ) -> Iterator[httpx.Response]:
        """Open the response to one attempt; raises unless its status is accepted."""
        import httpx

        seconds = min(TRY_SECONDS, max(deadline.remaining, 1e-3))
        timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
        with self._httpx_errors(deadline), self._client().stream(method, path, timeout=timeout, **request) as response:
            if response.status_code not in accepted:
                self._refuse(response, b"".join(self._bytes(response, deadline)))
            yield response

    def _bytes(self, response: httpx.Response, deadline: Deadline) -> Iterator[bytes]:
        """Yield the body in chunks, within the limits on size and time."""
        size = 0
        for chunk in response.iter_bytes():
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                raise VerificationFailed(f"The answer has more than {MAX_ANSWER_BYTES} bytes.")
            deadline.check()
            yield chunk

    def _refuse(self, response: httpx.Response, body: bytes) -> NoReturn:
        status, retry_after = response.status_code, _retry_after(response)
        try:
            details = _json(body)
        except VerificationFailed:
            details = {}  # such as an error page of a proxy
        error = error_of(status, details if isinstance(details, dict) else {}, retry_after)
        if status in RETRIED:
            raise TransientFailure(error, retry_after)
        raise error

    @contextmanager
    def _httpx_errors(self, deadline: Deadline) -> Iterator[None]:
        """Raise httpx's errors as ours; all of them are transient."""
        import httpx

        try:
            yield
        except httpx.TransportError as err:
            if deadline.remaining < 1e-3:
                raise DeadlineExceeded(f"The service did not respond within {deadline.seconds:g} s.") from err
            reason = str(err) or type(err).__name__
            raise TransientFailure(
                ServiceUnreachable(f"The service at {self.url} cannot be reached: {reason}.")
            ) from err
        except (httpx.DecodingError, httpx.InvalidURL) as err:
            raise VerificationFailed(f"The answer of {self.url} cannot be read: {err}.") from err


class TransientFailure(Exception):
    """Failure that may pass, with the error to raise if it does not. Never leaves the client."""

    def __init__(self, error: DarrmError, retry_after: float | None = None) -> None:
        self.error = error
        self.retry_after = retry_after
        super().__init__(str(error))


def retry_delay(attempt: int, retry_after: float | None, share: float) -> float:
    """Return the pause before the next attempt [s].

    >>> [retry_delay(tried, None, 1.0) for tried in (0, 1, 2, 20)], retry_delay(0, 7.0, 0.5)
    ([0.1, 0.2, 0.4, 10.0], 7.05)
    """
    back_off = min(MAX_BACK_OFF, FIRST_BACK_OFF * 2.0 ** min(attempt, 30)) * share
    return back_off if retry_after is None else retry_after + back_off


def _retry_after(response: httpx.Response) -> float | None:
    """Return Retry-After in seconds from now; None if it is missing or invalid."""
    header = response.headers.get("Retry-After", "")
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    date = date.replace(tzinfo=UTC) if date.tzinfo is None else date
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _json(body: bytes) -> Any:
    try:
        return json_value(body)
    except ValueError as err:
        raise VerificationFailed(f"The answer is not JSON: {err}.") from err


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
