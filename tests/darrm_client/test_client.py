"""The client against servers that work, that fail, and that give false answers."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import re
import socket
import struct
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live import Flaky, Ruled, Switch, raw, serving
from support.ports import refusing_port
from support.refusals import refused as refused_input

from darrm_client import (
    AccessDenied,
    AnswerNotFound,
    ClientError,
    DarrmClient,
    DeadlineExceeded,
    InvalidRequest,
    JobFailed,
    RequestTooLarge,
    ServiceBusy,
    ServiceFailed,
    ServiceUnreachable,
    VerificationFailed,
    VerifiedAnswer,
)
from darrm_client.errors import error_of
from darrm_client.http_backend import retry_delay
from darrm_opt import (
    BackendUnavailable,
    DarrmError,
    InvalidInput,
    NotPrivate,
    NotProven,
    Problem,
    SolveFailed,
    solve,
    verify,
)
from darrm_opt.accuracy import error_curve
from darrm_opt.answers import design
from darrm_opt.answers.verification import verify_answer
from darrm_opt.questions.curve import Curve
from darrm_opt.questions.profile import Profile
from darrm_opt.questions.question import Question
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.questions.tradeoff import TradeoffQuestion
from darrm_opt.record import problem_record, solution_record
from solver_cache import DesignSpec

PROBLEM = Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4)
STRONGER = Problem.from_allowance(K=11, m=2, epsilon=0.0892, Delta=1e-4, delta=1e-4)
SOLUTION = solve(PROBLEM)
ASKED = design(DesignSpec(PROBLEM))
TRADED = ASKED | {"delta": None}
RECORD: dict[str, Any] = {**solution_record(SOLUTION), "id": DesignSpec(PROBLEM).key, "cached": True, "nearest": None}


SWITCH = Switch()


@pytest.fixture(scope="module", autouse=True)
def switched() -> Iterator[None]:
    """Serve the app that a test sets."""
    with serving(SWITCH) as SWITCH.url:
        yield


@contextmanager
def client_of(app: Any, **options: Any) -> Iterator[DarrmClient]:
    """Return a client of an app without a lifespan."""
    SWITCH.app = app
    with DarrmClient(SWITCH.url, **options) as client:
        yield client


def always(told: Any, status: int = 200, **headers: str) -> Ruled:
    """Return an app that answers every request with this."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Ruled(lambda _method, _path, _body: (status, told, named))


def answering(**changes: Any) -> Ruled:
    """Return an app that gives the right answer with some members changed."""
    return always({**copy.deepcopy(RECORD), **changes})


def received_from(app: Any, problem: Problem = PROBLEM, **options: Any) -> VerifiedAnswer:
    with client_of(app, timeout=60, retries=0) as client:
        return client.gamma(problem, **options)


# ------------------------------------------------------------------------------------------------------- a working server


def test_an_answer_is_a_solution_with_a_certificate_of_this_process() -> None:
    found = received_from(answering())
    assert found.gamma.tolist() == SOLUTION.gamma.tolist()
    assert found.certificate.bound >= verify(PROBLEM, SOLUTION.gamma).bound
    assert (found.problem, found.utility, found.upper_bound) == (PROBLEM, SOLUTION.utility, SOLUTION.upper_bound)
    assert (found.exact, found.designed_for, found.cached, found.warnings) == (True, None, True, ())
    assert not found.gamma.flags.writeable


def test_a_request_has_all_fields_once() -> None:
    bodies: list[Any] = []

    def rule(method: str, path: str, body: Any) -> tuple[int, Any]:
        bodies.append((method, path, body))
        return 200, RECORD

    received_from(Ruled(rule))
    numbers = problem_record(PROBLEM)
    del numbers["m"]
    asked = {**numbers, "objective": "rectangular", "shape": "free", "method": "auto", "backend": "highs"}
    assert bodies == [("POST", "/v1/gamma", asked)]
    again = {name: value for name, value in numbers.items() if name != "target_epsilon"}
    assert Problem.from_allowance(**again, m=None, target_epsilon=numbers["target_epsilon"]) == PROBLEM


def test_a_key_is_sent_only_to_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = answering()
    with serving(elsewhere) as other:
        first = always({}, 307, location=f"{other}/v1/gamma")
        with serving(first) as url:
            with DarrmClient(url, key="secret", retries=0) as client, pytest.raises(ServiceFailed, match="307"):
                client.gamma(PROBLEM)
            monkeypatch.setenv("DARRM_KEY", "from-the-environment")
            monkeypatch.setenv("DARRM_URL", url)
            with DarrmClient(retries=0) as client, pytest.raises(ServiceFailed):
                client.gamma(PROBLEM)
    assert [headers["authorization"] for headers in first.headers] == ["Bearer secret", "Bearer from-the-environment"]
    assert elsewhere.requests == []


def test_proxies_and_passwords_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert received_from(answering()).exact


def test_many_threads_share_a_client() -> None:
    app = answering()
    with client_of(app, timeout=60) as client, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: client.gamma(PROBLEM).utility, range(40)))
    assert found == [SOLUTION.utility] * 40
    assert len(app.requests) == 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_opens_new_connections() -> None:
    app = answering()
    with client_of(app, timeout=60, retries=0) as client:
        client.gamma(PROBLEM)
        transport: Any = client._backend._transport  # type: ignore[attr-defined]
        mine = transport._client()
        transport._process = -1  # as if in the child
        assert client.gamma(PROBLEM).exact
        assert transport._client() is not mine
        mine.close()


def test_the_error_of_a_closed_client_is_clear() -> None:
    with serving(answering()) as url:
        with DarrmClient(url) as client:
            client.gamma(PROBLEM)
        with pytest.raises(ClientError, match="closed"):
            client.gamma(PROBLEM)


INVALID_URLS = ("", "localhost:8000", "ftp://host", "http://", "http://host:port", "http://host?q=1", "http://host/v1/")


@pytest.mark.parametrize("url", [*INVALID_URLS, "http://me:secret@host", "file://host/table.jsonl"])
def test_invalid_urls_are_refused(url: str) -> None:
    with refused_input("url") as refused:
        DarrmClient(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1.0}, {"retries": -1}, {"retries": 1.5}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        DarrmClient("http://localhost", **options)


SECRET = "darrm_0badc0de_5ecre7"  # noqa: S105 — not a real secret


def hints(error: BaseException) -> str:
    """Return the full traceback of an error."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("around", ["{}\n", "{}\r\n", " {}\t", "\n{}"])
def test_the_line_end_of_a_key_from_a_file_is_removed(around: str) -> None:
    app = answering()
    with client_of(app, key=around.format(SECRET), retries=0) as client:
        client.gamma(PROBLEM)
    assert app.headers[-1]["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    "key", ["", "\n", f"{SECRET}\nX-Other: 1", f"{SECRET}\0", f"a {SECRET}", f"{SECRET}é", f"{SECRET}\x7f"]
)
@pytest.mark.parametrize("by", ["argument", "environment"])
def test_invalid_keys_are_refused_without_being_shown(key: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if by == "environment" and (key == "" or "\0" in key):
        return  # which is unset or cannot be set
    if by == "environment":
        monkeypatch.setenv("DARRM_KEY", key)
    with refused_input("key", "'…'") as refused:
        DarrmClient("http://localhost:9", key=key if by == "argument" else None, retries=0)
    assert "5ecre7" not in hints(refused.value)


URLS = (
    *("me:{}@host", "http:me:{}@host", "http://me:{}@host", "http://me:a/{}@host", "http://host/?key={}"),
    *("http://host/#{}", "file://me:{}@host/table.jsonl", "http://localhost:9\n/?{}"),
)
PROXIES = ("ftp://me:{}@host", "http://me:{}@host:port", "me:{}@host", "http://me:{}@\n", "http://me:{}@127.0.0.1:9")


@pytest.mark.parametrize(
    "options", [*({"url": url} for url in URLS), *({"proxy": proxy} for proxy in PROXIES), {"key": "{}"}]
)
def test_no_secret_is_in_any_message(options: dict[str, str]) -> None:
    given: Any = {"url": "http://localhost:9"} | {name: text.format(SECRET) for name, text in options.items()}
    with pytest.raises(DarrmError) as refused, DarrmClient(**given, retries=0, timeout=5) as client:
        client.gamma(PROBLEM)
    assert "5ecre7" not in hints(refused.value)


# ---------------------------------------------------------------------------------------------------- a flaky server


@pytest.mark.parametrize(
    "script", [["503"], ["429"], ["502", "504"], ["page"], ["break"], ["late"], ["503", "break", "429"]]
)
def test_transient_failures_are_retried(script: list[str]) -> None:
    app, tries = Flaky(answering(), list(script)), len([what for what in script if what != "late"]) + 1
    with client_of(app, timeout=60, retries=4) as client:
        assert client.gamma(PROBLEM).exact
    assert app.requests == tries


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("503", ServiceBusy, "Come back later"),
        ("429", ServiceBusy, "Come back later"),
        ("page", ServiceBusy, "status 502"),
        ("break", ServiceUnreachable, "cannot be reached"),
    ],
)
def test_permanent_failures_are_raised_as_typed_errors(what: str, error: type[ClientError], text: str) -> None:
    app = Flaky(answering(), [what] * 9)
    with client_of(app, timeout=60, retries=2) as client, pytest.raises(error, match=text):
        client.gamma(PROBLEM)
    assert app.requests == 3


def test_a_dropped_connection_is_reopened() -> None:
    whole = json.dumps(RECORD).encode()

    def answer(connection: socket.socket, number: int) -> None:
        if number == 0:  # a reset instead of a close
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif number > 1:
            connection.sendall(
                b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(whole) + whole
            )

    with raw(answer) as url, DarrmClient(url, timeout=60) as client:
        assert client.gamma(PROBLEM).exact


def test_an_unreachable_server_is_reported_after_all_retries() -> None:
    with refusing_port() as port:
        url = f"http://127.0.0.1:{port}"
        with DarrmClient(url, retries=1) as client, pytest.raises(ServiceUnreachable, match=re.escape(url)):
            client.gamma(PROBLEM)


def test_a_call_to_a_silent_server_ends_at_its_timeout() -> None:
    app = Flaky(answering(), ["silent"] * 9)
    with client_of(app, timeout=0.3) as client, pytest.raises(DeadlineExceeded, match=r"within 0\.3 s"):
        client.gamma(PROBLEM)


def test_a_call_to_a_slow_server_ends_at_its_timeout() -> None:
    def drip(connection: socket.socket, _number: int) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        for _ in range(200):
            connection.sendall(b" ")
            threading.Event().wait(0.05)

    with raw(drip) as url, DarrmClient(url, timeout=0.5) as client, pytest.raises(DeadlineExceeded):
        client.gamma(PROBLEM)


def test_an_endless_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("darrm_client.http_backend.MAX_ANSWER_BYTES", 10_000)
    with pytest.raises(VerificationFailed, match="more than 10000 bytes"):
        received_from(always(b" " * 100_000))


def test_a_server_that_does_not_speak_http_is_reported() -> None:
    other = raw(lambda connection, _: connection.sendall(b"SSH-2.0-OpenSSH\r\n"))
    with other as url, DarrmClient(url, retries=0, timeout=60) as client, pytest.raises(ServiceUnreachable):
        client.gamma(PROBLEM)


def test_a_retry_after_beyond_the_deadline_is_not_awaited() -> None:
    app = always({"detail": "Closed for the week."}, 503, retry_after="604800")
    closed = pytest.raises(ServiceBusy, match="Closed for the week")
    with client_of(app, timeout=60) as client, closed as refused:
        client.gamma(PROBLEM)
    assert refused.value.retry_after == 604800
    assert len(app.requests) == 1


def test_delays_grow_with_jitter_and_respect_the_service() -> None:
    for tried in range(40):
        assert retry_delay(tried, None, 0.5) * 2 == retry_delay(tried, None, 1.0) <= 10
        assert retry_delay(tried, 3.0, 0.5) > 3.0
    grown = [retry_delay(tried, None, 1.0) for tried in range(40)]
    assert grown == sorted(grown)
    assert grown[0] < grown[6] < grown[8] == 10


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [("0", 0, 0), ("7", 7, 7), ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0), ("soon", None, None), ("-1", None, None)],
)
def test_retry_after_is_read_as_seconds_or_a_date(header: str, least: float | None, most: float | None) -> None:
    app = always({}, 503, retry_after=header)
    with client_of(app, retries=0) as client, pytest.raises(ServiceBusy) as refused:
        client.gamma(PROBLEM)
    assert refused.value.retry_after == least == most


# --------------------------------------------------------------------------------------------------- typed refusals


def problem_details(status: int, kind: str, **more: Any) -> tuple[int, Any]:
    return status, {"type": f"urn:darrm-opt:problem:{kind}", "title": "No.", "status": status, "detail": "Why.", **more}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem_details(422, "invalid-input", field="K"), InvalidRequest),
        (problem_details(422, "backend-unavailable"), BackendUnavailable),
        (problem_details(422, "not-private", worst_corners={"x": 3}, excess=0.1), NotPrivate),
        (problem_details(422, "not-proven"), NotProven),
        (problem_details(409, "cancelled"), JobFailed),
        ((409, {"detail": "Why."}), JobFailed),
        (problem_details(422, "too-much-work", estimated_seconds=1e5), RequestTooLarge),
        (problem_details(413, "body-too-large"), RequestTooLarge),
        (problem_details(500, "solve-failed"), SolveFailed),
        (problem_details(500, "internal-error"), ServiceFailed),
        (problem_details(401, "key-needed"), AccessDenied),
        (problem_details(421, "wrong-host"), AccessDenied),
        (problem_details(404, "not-stored"), AnswerNotFound),
        (problem_details(503, "shutting-down"), ServiceBusy),
        (problem_details(429, "too-many-requests"), ServiceBusy),
        ((404, {"detail": "Why."}), AnswerNotFound),
        ((418, ["no", "Why."]), ServiceFailed),
        ((400, b"\xff\xfe"), ServiceFailed),
    ],
)
def test_a_refusal_is_a_typed_error_with_the_message_of_the_service(
    answer: tuple[int, Any], error: type[DarrmError]
) -> None:
    with pytest.raises(error, match=r"Why\.|status") as refused:
        received_from(Ruled(lambda *_: answer))
    assert type(refused.value) is error


def test_the_error_of_an_invalid_field_names_it() -> None:
    told = [{"field": "epsilon", "detail": "epsilon is bad."}, {"field": "K", "detail": "K is bad."}]
    error = error_of(422, {"type": "urn:darrm-opt:problem:invalid-input", "detail": "Both.", "errors": told})
    assert isinstance(error, InvalidRequest)
    assert isinstance(error, ValueError)
    assert (error.argument, str(error)) == ("epsilon", "Both.")
    assert error.fields == {"epsilon": "epsilon is bad.", "K": "K is bad."}


def test_details_of_any_type_make_an_error() -> None:
    odd: list[Any] = [None, 3, "text", [], {}, [1], {"a": []}, math.inf]
    for status in (400, 401, 404, 413, 422, 429, 500, 503, 599):
        for value in odd:
            names = ("type", "title", "detail", "field", "errors", "worst_corners", "excess", "estimated_seconds")
            for kind in (value, "urn:darrm-opt:problem:not-private", "urn:darrm-opt:problem:too-much-work"):
                error = error_of(status, {**dict.fromkeys(names, value), "type": kind})
                assert isinstance(error, DarrmError)
                assert str(error)
                assert getattr(error, "seconds", None) is None or isinstance(error, RequestTooLarge)


# ---------------------------------------------------------------------------------------------------- false answers


def flipped(value: float, bit: int) -> float:
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    (other,) = struct.unpack("<d", struct.pack("<Q", bits ^ (1 << bit)))
    return float(other)


def test_one_flipped_bit_on_both_sides_is_refused_or_proved() -> None:
    """With the same bit flipped on both sides γ is still a noise function: if accepted, it is private."""
    told = copy.deepcopy(RECORD)
    outcomes = set()
    app = always(told)
    with client_of(app, retries=0, timeout=60) as client:
        for bit in range(64):
            told["gamma"] = list(RECORD["gamma"])
            told["gamma"][7] = told["gamma"][4] = flipped(RECORD["gamma"][7], bit)
            if math.isnan(told["gamma"][7]) or math.isinf(told["gamma"][7]):
                continue
            try:
                found = client.gamma(PROBLEM)
            except (NotPrivate, VerificationFailed) as err:
                outcomes.add(type(err).__name__)
            else:
                outcomes.add("proved")
                assert verify(PROBLEM, told["gamma"]).bound <= found.certificate.bound <= found.certificate.limit
                assert found.utility == pytest.approx(SOLUTION.utility, abs=1e-9)
    assert {"VerificationFailed", "proved"} <= outcomes


def test_a_gamma_that_is_not_private_is_refused_with_its_counterexample() -> None:
    louder = (SOLUTION.gamma + (1 - SOLUTION.gamma) * 1e-6).tolist()
    utility = DesignSpec(PROBLEM).objective.linear_goal(11).utility(np.array(louder[6:]))
    with pytest.raises(NotPrivate, match="not private") as refused:
        received_from(answering(gamma=louder, utility=utility, upper_bound=1.0, gap=1 - utility))
    assert refused.value.worst


Lie = Callable[[dict[str, Any]], Any]

LIES: dict[str, Lie] = {
    "margin": lambda told: told["certificate"].update(margin=0.1),
    "bound": lambda told: told["certificate"].update(bound=told["certificate"]["bound"] - 1e-6),
    "limit": lambda told: told["certificate"].update(limit=told["certificate"]["limit"] + 1e-6),
    "worst value": lambda told: told["certificate"].update(worst_value=0.0),
    "method of the proof": lambda told: told["certificate"].update(method="monotone"),
    "text in the proof": lambda told: told["certificate"].update(margin="much"),
    "no proof": lambda told: told.update(certificate=None),
    "half a proof": lambda told: told["certificate"].pop("bound"),
    "utility": lambda told: told.update(utility=told["utility"] + 1e-6),
    "upper bound below": lambda told: told.update(upper_bound=told["utility"] - 1e-6),
    "upper bound above 1": lambda told: told.update(upper_bound=1.1),
    "upper bound is text": lambda told: told.update(upper_bound="high"),
    "another m": lambda told: told.update(problem=problem_record(Problem.from_allowance(11, 4, 0.0892, 1e-4))),
    "another K": lambda told: told.update(problem=problem_record(Problem.from_allowance(13, 3, 0.0892, 1e-4))),
    "stronger, unsaid": lambda told: told.update(problem=problem_record(STRONGER)),
    "no problem": lambda told: told.update(problem=[]),
    "objective": lambda told: told.update(objective="shared(2,5)"),
    "no objective": lambda told: told.update(objective="nothing"),
    "shape": lambda told: told.update(shape="monotone"),
    "format": lambda told: told.update(format=99),
    "status": lambda told: told.update(status="fine"),
    "statistics": lambda told: told.update(statistics={"rows": "many", "rounds": 1, "iterations": 1, "seconds": {}}),
    "seconds": lambda told: told["statistics"].update(seconds=[1]),
    "short gamma": lambda told: told.update(gamma=told["gamma"][1:-1]),
    "gamma in text": lambda told: told.update(gamma=[str(value) for value in told["gamma"]]),
    "nested gamma": lambda told: told.update(gamma=[[[value]] for value in told["gamma"]]),
    "no gamma": lambda told: told.pop("gamma"),
    "gamma above 1": lambda told: told.update(gamma=[1.5, *told["gamma"][1:-1], 1.5]),
    "label in text": lambda told: told.update(nearest="yes"),
    "label without problem": lambda told: told.update(nearest={}),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_altered_answer_is_refused(lie: str) -> None:
    told = copy.deepcopy(RECORD)
    LIES[lie](told)
    with pytest.raises(VerificationFailed):
        received_from(always(told))


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"3", b'"text"', b"{}", b"{", b"\xff", b"[" * 100_000, b'{"gamma": NaN}', b"<html></html>"],
)
def test_invalid_answers_are_refused(body: bytes) -> None:
    with pytest.raises(VerificationFailed):
        received_from(always(body))


def paths(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for name, inner in items:
        yield from paths(inner, (*at, name))


NUMBERS = st.integers() | st.floats() | st.sampled_from([0, 1, -0.0, 1e308, -1e308, 5e-324, 2**80])
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
LABEL = {"exact": False, "designed_for": problem_record(STRONGER), "designed_shape": "free", "id": "", "label": ""}
LABELLED = {**RECORD, "nearest": LABEL}


@given(st.sampled_from([(RECORD, at) for at in paths(RECORD)] + [(LABELLED, at) for at in paths(LABELLED)]), ANYTHING)
def test_any_value_anywhere_in_an_answer_is_proved_or_refused(place: tuple[Any, Any], instead: Any) -> None:
    whole, path = place
    told = copy.deepcopy(whole)
    inner = told
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = instead
    try:
        found = verify_answer(told, DesignSpec(PROBLEM))
    except (VerificationFailed, NotPrivate):
        return
    assert found.gamma.tolist() == told["gamma"]
    assert found.certificate.bound >= verify(PROBLEM, found.gamma).bound
    assert (found.problem, found.shape) == (PROBLEM, "free")
    assert found.utility == pytest.approx(SOLUTION.utility, abs=1e-9)
    assert found.utility <= found.upper_bound + 1e-9 <= 1 + 2e-9


def test_a_problem_with_weaker_privacy_is_refused_even_if_labelled() -> None:
    weaker = Problem.from_allowance(K=11, m=4, epsilon=0.0892, Delta=1e-4)
    told = {**solution_record(solve(weaker)), "nearest": {"designed_for": problem_record(weaker), "note": ""}}
    with pytest.raises(NotPrivate):
        received_from(always(told))


def test_the_nearest_answer_is_labelled_and_verified_for_the_question() -> None:
    nearest = solve(STRONGER)
    label = {"designed_for": problem_record(STRONGER), "note": "near"}
    found = received_from(always({**solution_record(nearest), "nearest": label}))
    assert (found.exact, found.designed_for, found.problem) == (False, STRONGER, PROBLEM)
    assert found.certificate.bound >= verify(PROBLEM, nearest.gamma).bound
    assert found.upper_bound == 1.0  # the bound of the other problem does not hold for this one
    assert found.gap >= solve(PROBLEM).utility - found.utility > 0
    assert any("nearest stored answer" in text for text in found.warnings)


def test_a_labelled_answer_for_another_number_of_voters_is_refused() -> None:
    other = Problem.from_allowance(K=13, m=2, epsilon=0.0892, Delta=1e-4, delta=1e-4)
    told = {**solution_record(solve(other)), "nearest": {**LABEL, "designed_for": problem_record(other)}}
    with pytest.raises(VerificationFailed, match="another problem"):
        verify_answer(told, DesignSpec(PROBLEM))


def test_a_certificate_of_another_version_is_replaced() -> None:
    other = {**RECORD["certificate"], "version": "0.0.1", "bound": RECORD["certificate"]["bound"] * (1 + 1e-7)}
    assert received_from(answering(certificate=other)).certificate.bound >= verify(PROBLEM, SOLUTION.gamma).bound


def test_a_monotone_gamma_must_be_monotone() -> None:
    with pytest.raises(VerificationFailed, match="not monotone"):
        received_from(answering(shape="monotone"), shape="monotone")


# ------------------------------------------------------------------------------------------- curves and other answers


def test_every_gamma_of_a_curve_is_verified() -> None:
    told: dict[str, Any] = {"p": [0.5, 1.0], "curves": {"optimal": {"gamma": RECORD["gamma"], "tv_error": [0, 0]}}}
    with client_of(always(told), retries=0) as client:
        found = client.ask(Curve.of(ASKED | {"points": 2}))
        own = error_curve(SOLUTION.noise, [0.5, 1.0])
        assert found.noise == {"optimal": SOLUTION.noise}
        assert found.curves["optimal"].tv_error.tolist() == own.tv_error.tolist()  # whatever the answer claims
        told["curves"]["majority"] = {"gamma": [1.0] * 12}
        with pytest.raises(NotPrivate):
            client.ask(Curve.of(ASKED | {"points": 2}))
        told["curves"] = ["optimal"]
        with pytest.raises(VerificationFailed):
            client.ask(Curve.of(ASKED | {"points": 2}))


def test_every_point_of_a_tradeoff_is_verified_for_its_target() -> None:
    one = Problem.from_allowance(11, 1, 0.0892, 1e-4)
    claims = {"utility": solve(one).utility, "upper_bound": 1.0, "status": "optimal"}
    point = {"problem": problem_record(one), "gamma": solve(one).gamma.tolist(), **claims}
    told: dict[str, Any] = {"points": [point, {**RECORD, "problem": problem_record(PROBLEM)}]}
    with client_of(always(told), retries=0) as client:
        found = client.ask(TradeoffQuestion.of(TRADED | {"ms": [1.0, 3.0]}))
        assert [each.problem for each in found.points] == [one, PROBLEM]
        assert found.points[0].utility == pytest.approx(solve(one).utility)
        point["utility"] = 2.0
        with pytest.raises(VerificationFailed, match="its utility is"):
            client.ask(TradeoffQuestion.of(TRADED | {"ms": [1.0, 3.0]}))
        point["utility"] = solve(one).utility
        del point["status"]
        with pytest.raises(VerificationFailed, match="lacks status"):
            client.ask(TradeoffQuestion.of(TRADED | {"ms": [1.0, 3.0]}))
        point["status"] = "optimal"
        with pytest.raises(VerificationFailed, match="another problem"):
            client.ask(TradeoffQuestion.of(TRADED | {"ms": [3.0, 1.0]}))
        with pytest.raises(VerificationFailed, match="one point for each"):
            client.ask(TradeoffQuestion.of(TRADED | {"ms": [1.0, 2.0, 3.0]}))
        told["points"][0]["gamma"] = RECORD["gamma"]
        with pytest.raises(NotPrivate):
            client.ask(TradeoffQuestion.of(TRADED | {"ms": [1.0, 3.0]}))


def test_a_profile_is_computed_again() -> None:
    told: dict[str, Any] = {"gamma": RECORD["gamma"], "epsilon": [0.0, 0.2676], "delta": [0.0, 0.0]}
    with client_of(always(told), retries=0) as client:
        found = client.ask(Profile.of(ASKED | {"epsilons": [0.0, 0.2676]}))
        assert found.deltas[0] > found.deltas[1] > 0
        assert found.deltas[1] <= PROBLEM.target.delta
        with pytest.raises(VerificationFailed, match="another γ"):
            client.ask(Profile.of(ASKED | {"gamma": [0.5] * 12}))
        with pytest.raises(VerificationFailed, match="other ε"):
            client.ask(Profile.of(ASKED | {"epsilons": [0.1]}))


def test_verify_is_computed_in_this_process() -> None:
    told: dict[str, Any] = {"private": True, "problem": problem_record(PROBLEM), "certificate": {}}
    with client_of(always(told), retries=0) as client:
        assert client.verify(PROBLEM, SOLUTION.gamma) == verify(PROBLEM, SOLUTION.gamma)
        with pytest.raises(NotPrivate):
            client.verify(PROBLEM, [1.0] * 12)
        told["problem"] = problem_record(STRONGER)
        with pytest.raises(VerificationFailed):
            client.verify(PROBLEM, SOLUTION.gamma)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fresh": False}, "fresh = False, but the request was for True"),
        ({"fresh": 1}, "fresh = 1, but the request was for True"),
        ({"queries": 3}, "queries = 3, but the request was for 4"),
        ({"voters": {"K": 3, "epsilon": 0.3, "Delta": 0.0, "affected": 1}}, "voters = .* 'affected': 1"),
        ({"total": {"epsilon": 1.1, "delta": 1e-3}}, "total epsilon = 1.1, but the request was for 1.0"),
        ({"total": {"epsilon": 1.0, "delta": None}}, "total delta = None, but the request was for 0.001"),
        ({"draw": None}, "draw = None, but the request was for {'n': 100, .*"),
        ({"draw": {"n": 200, "subsample_size": 5, "replacement": True, "sampling": "independent"}}, "draw = {'n': 200"),
        ({"draw": {"n": 100}}, "lacks subsample_size"),
        ({"fresh": None}, "fresh = None"),
    ],
)
@pytest.mark.parametrize("verb", ["compare", "plan"])
def test_an_answer_for_another_budget_is_refused(verb: str, change: dict[str, Any], words: str) -> None:
    question: type[Question] = QUESTIONS[verb]
    asked = {"K": 3, "epsilon": 0.3, "queries": 4, "total_epsilon": 1.0, "total_delta": 1e-3, "fresh": True}
    told: dict[str, Any] = {
        "voters": {"K": 3, "epsilon": 0.3, "Delta": 0.0, "affected": 3},
        "fresh": True,
        "queries": 4,
        "total": {"epsilon": 1.0, "delta": 1e-3},
        "draw": {"n": 100, "subsample_size": 5, "replacement": True, "sampling": "independent", "chance": 0.05},
        "rows": [],
        "options": [],
        "verdict": "none",
        "advice": "None.",
        "suggestions": [],
        "warnings": [],
    }
    answer = dict(told)
    with client_of(always(answer), retries=0) as client:
        ask = partial(client.ask, question.of(asked | {"n": 100, "subsample_size": 5}))
        found = ask()
        assert (found.rows if verb == "compare" else found.options) == ()
        answer |= change
        with pytest.raises(VerificationFailed, match=words):
            ask()
        answer |= told
        with pytest.raises(VerificationFailed, match="draw"):  # without a draw in the question
            client.ask(question.of(asked))


def test_a_batch_keeps_its_order_and_reports_each_error() -> None:
    bad = problem_details(422, "invalid-input", field="K")[1]
    louder = {**RECORD, "gamma": [1.0] * 12}
    results = [
        {"status": 422, "answer": None, "pending": None, "problem": bad},
        {"status": 200, "answer": RECORD, "pending": None, "problem": None},
        {"status": 200, "answer": louder, "pending": None, "problem": None},
        {"status": 202, "answer": None, "pending": {"id": "a", "state": "queued"}, "problem": None},
    ]

    def rule(_method: str, path: str, _body: Any) -> tuple[int, Any]:
        return 200, {"results": results} if path == "/v1/gamma/batch" else RECORD

    with client_of(Ruled(rule), retries=0) as client:
        found = client.batch([PROBLEM] * 4)
        assert [type(one) for one in found] == [InvalidRequest, VerifiedAnswer, NotPrivate, VerifiedAnswer]
        assert client.batch([]) == []
        with pytest.raises(VerificationFailed, match="one result for each"):
            client.batch([PROBLEM] * 3)


# -------------------------------------------------------------------------------------------------------------- jobs


class Office(Ruled):
    """A service in which each job is done at its third request."""

    def __init__(self, end: str = "done") -> None:
        self.looks = 0
        self.end = end
        super().__init__(self._answer)

    def _answer(self, method: str, path: str, _body: Any) -> tuple[int, Any] | tuple[int, Any, dict[str, str]]:
        job = {"id": RECORD["id"], "state": "queued", "progress": None}
        if (method, path) in {("POST", "/v1/gamma"), ("POST", "/v1/jobs")}:
            return 202, {**job, "location": "/v1/jobs/x", "retry_after": 0}, {"retry-after": "0"}
        if path.endswith("/result"):
            return 200, RECORD
        if method == "DELETE":
            self.end = "cancelled"
            return 200, {**job, "state": "cancelled"}
        if path == "/v1/jobs":
            return 200, {"jobs": [{**job, "state": "running"}]}
        if path.endswith("/events"):
            lines = [f'id: {n}\nevent: progress\ndata: {{"round": {n}}}\n\n' for n in (1, 2)]
            text = "".join(lines) + f': kept alive\n\nid: 3\nevent: end\ndata: {{"state":\ndata: "{self.end}"}}\n\n'
            return 200, text.encode(), {"content-type": "text/event-stream"}
        self.looks += 1
        return 200, {**job, "state": self.end if self.looks >= 3 else "running", "reason": "it was hard"}


def test_the_client_waits_for_a_job() -> None:
    office = Office()
    assert received_from(office).exact
    assert office.requests[0] == ("POST", "/v1/gamma")
    assert office.requests[1:4] == [("GET", f"/v1/jobs/{RECORD['id']}")] * 3
    assert office.requests[4:] == [("GET", f"/v1/jobs/{RECORD['id']}/result")]


@pytest.mark.parametrize(("end", "text"), [("failed", "it was hard"), ("cancelled", "was cancelled")])
def test_the_error_of_a_job_without_an_answer_has_the_reason(end: str, text: str) -> None:
    with pytest.raises(JobFailed, match=text):
        received_from(Office(end))


class Clock:
    """A clock that advances by the sleeps of the client, times ``pace``, instead of waiting."""

    def __init__(self) -> None:
        self.ahead, self.pace = 0.0, 1.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        self.ahead += self.pace * seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("errors", "jobs"):
        monkeypatch.setattr(f"darrm_client.{module}.time", clock)
    return clock


@pytest.mark.usefixtures("clock")
def test_waiting_for_a_job_ends_at_the_deadline() -> None:
    with client_of(Office("running"), timeout=300) as client:
        with pytest.raises(DeadlineExceeded, match="is running after 300 s; wait again to continue"):
            client.gamma(PROBLEM)
        with pytest.raises(DeadlineExceeded, match="is running after 300 s; wait again to continue"):
            client.jobs.wait(PROBLEM)


def test_the_error_of_a_late_poll_tells_that_the_job_can_be_awaited_again(clock: Clock) -> None:
    clock.pace = 1e6
    late = pytest.raises(DeadlineExceeded, match="is queued after 300 s; wait again to continue")
    with client_of(Office("running"), timeout=300) as client, late as refusal:
        client.gamma(PROBLEM)
    assert isinstance(refusal.value.__cause__, DeadlineExceeded)


@pytest.mark.usefixtures("clock")
def test_at_the_deadline_the_nearest_answer_of_a_job_is_returned() -> None:
    label = {"exact": False, "designed_for": problem_record(STRONGER), "designed_shape": "free", "id": "", "label": ""}
    near = {**RECORD, **solution_record(solve(STRONGER)), "nearest": label}

    def rule(method: str, _path: str, _body: Any) -> tuple[int, Any]:
        job = {"id": RECORD["id"], "state": "running"}
        return (202, {**job, "nearest": near}) if method == "POST" else (200, job)

    with client_of(Ruled(rule), timeout=300) as client:
        found = client.gamma(PROBLEM)
        assert (found.exact, found.designed_for) == (False, STRONGER)
        with pytest.raises(DeadlineExceeded):  # the answer to this question or none
            client.ask(Curve.of(ASKED))


def test_a_removed_result_is_requested_again() -> None:
    answers = iter([(202, {"id": RECORD["id"], "state": "queued"}), (200, RECORD)])

    def rule(_method: str, path: str, _body: Any) -> tuple[int, Any]:
        return next(answers) if path.endswith("/result") else (200, {"id": RECORD["id"], "state": "done"})

    with client_of(Ruled(rule), timeout=60) as client:
        assert client.jobs.wait(PROBLEM).exact


def test_jobs_are_listed_across_pages() -> None:
    """The second page is empty but has a next one."""
    queries: list[str] = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        queries.append(scope["query_string"].decode())
        page = len(queries)
        jobs = [] if page == 2 else [{"id": f"{page}", "state": "done"}]
        told = {"jobs": jobs, "next": f"{page}" if page < 3 else None}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(told).encode()})

    with client_of(app, timeout=60) as client:
        assert [job.id for job in client.jobs.list("done")] == ["1", "3"]
    assert queries == ["state=done", "state=done&after=1", "state=done&after=2"]


def test_jobs_are_submitted_read_awaited_and_cancelled() -> None:
    with client_of(Office(), timeout=60) as client:
        job = client.jobs.submit(PROBLEM)
        assert (job.id, job.state, job.over) == (DesignSpec(PROBLEM).key, "queued", False)
        assert [seen.state for seen in client.jobs.list("running")] == ["running"]
        assert client.jobs.wait(PROBLEM).exact
        assert client.jobs.get(job.id).over
        assert client.jobs.cancel(job.id).state == "cancelled"


def test_events_are_read_to_the_end_of_the_job() -> None:
    with client_of(Office(), timeout=60) as client:
        found = list(client.jobs.events(RECORD["id"]))
    assert found == [("progress", {"round": 1}), ("progress", {"round": 2}), ("end", {"state": "done"})]


def test_a_broken_event_stream_is_reopened() -> None:
    office = Office()
    app = Flaky(office, ["503", "break", "page"])
    with client_of(app, timeout=60) as client:
        assert [name for name, _ in client.jobs.events(RECORD["id"])] == ["progress", "progress", "end"]
    assert app.requests == 4


def test_errors_can_be_pickled_and_shown() -> None:
    """As training frameworks pass them between processes."""
    for error in (
        error_of(422, {"type": "urn:darrm-opt:problem:invalid-input", "detail": "K is bad.", "field": "K"}),
        error_of(503, {"detail": "Later."}, 3.0),
        VerificationFailed("No."),
    ):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 — pickled here
        assert (type(again), str(again)) == (type(error), str(error))
